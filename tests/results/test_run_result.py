from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from msgspec import structs

import pytest_opprof
from pytest_opprof.errors import BaselineError, UsageError
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.environment_json import EnvironmentJson
from pytest_opprof.profile.op_counts import counts_of
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.timings import ProcessTimes
from pytest_opprof.results import run_result
from pytest_opprof.results.document import read_document
from pytest_opprof.results.judged_window import JudgedWindow
from pytest_opprof.results.plain import converted, plain
from pytest_opprof.results.run_result import RunResult, Stale, run_of, run_of_document
from pytest_opprof.results.test_result import TestRecord
from pytest_opprof.results.window_result import OpResult, RowResult, WindowNumbers, WindowResult, total_of
from pytest_opprof.verdict.budgets import Budget
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.tolerances import STORED
from pytest_opprof.verdict.verdicts import Status, TimingVerdict, Verdict

from ..conftest import profile_of

SCHEMAS = Path(pytest_opprof.__file__).parent / "schema"
PROFILE = profile_of([("Cast", 5), ("Cast", 6), ("Add", 70)], [("Cast", 4), ("Add", -1)])


def window(**limits: object) -> WindowResult:
    numbers = WindowNumbers.of("body", PROFILE)
    judged = JudgedWindow(
        numbers, Budget.parse([], limits).check(PROFILE), processes=(ProcessTimes((81, 4), {"Cast": (11, 4)}),)
    )
    return judged.result("CPU, 2 cores", parallel=False, compared=True)


def record(**limits: object) -> TestRecord:
    return TestRecord(
        id="t.py::a", outcome="failed", status=Status.OVER_BUDGET, windows=[window(**limits)], table=["x"]
    )


def read(path: Path) -> RunResult:
    return run_of_document(read_document(path, "JSON of a run"), path)


def test_what_a_worker_sends_is_what_the_controller_reads() -> None:
    sent = record(Cast=1)
    travelled = json.loads(json.dumps(plain(sent)))
    assert converted(travelled, TestRecord) == sent
    assert tuple(map(str, sent.windows[0].findings)) == ("Cast: 1..2 calls (budget: 1)",)


def test_what_is_written_is_read_again_and_keeps_to_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    run_result.write(path, run_of([record(Cast=1)], [Stale("a::b", file="a.json")], interrupted=True))
    document = json.loads(path.read_text())
    jsonschema.validate(document, json.loads((SCHEMAS / "run-4.json").read_text()))
    assert "table" not in document["tests"][0]  # what the terminal shows is no result
    found = read(path)
    assert found.tests[0].windows == record(Cast=1).windows
    assert (found.summary, found.stale, found.interrupted) == ({"over budget": 1}, [Stale("a::b", file="a.json")], True)


def test_a_run_of_another_schema_is_one_error_with_the_command_that_records_it(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    run_result.write(path, run_of([record()], [], interrupted=False))
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 2}))
    with pytest.raises(BaselineError, match=r"schema 2, this one reads 4\)\. Record it anew: pytest --opprof"):
        read(path)


def test_a_file_that_cannot_be_written_is_the_users_matter(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--opprof-json: .* cannot be written: Not a directory"):
        run_result.write(tmp_path / "file" / "run.json", run_of([], [], interrupted=False))


def test_what_is_strange_travels_and_is_no_end_of_the_run() -> None:
    numbers = structs.replace(
        WindowNumbers.of(np.str_("body"), PROFILE),
        environment=EnvironmentJson.of(Environment(((np.str_("torch"), np.str_("2.13")),), "", timing="other")),
        host_ns=(np.int64(-7), 3),
        facts={"peak_memory": (2**80, -1)},
        rounds=2_000_000,
    )
    sent = TestRecord(
        id="a", status=Status.OK, windows=[JudgedWindow(numbers).result("CPU", parallel=False, compared=True)]
    )
    (found,) = converted(json.loads(json.dumps(plain(sent))), TestRecord).windows
    assert (found.name, found.host_ns, found.facts["peak_memory"]) == ("body", (-7, 3), (2**80, -1))
    assert found.environment.frameworks == {"torch": "2.13"}
    assert next(found.misfits()) == "the wall time does not have a number for each of 2000000 rounds"  # in a file


def test_an_environment_is_the_same_again() -> None:
    given = Environment((("numpy", "2.4"), ("torch", "2.13")), "cpu+H100", "x86_64", "sync")
    assert EnvironmentJson.of(given).environment == given


def test_totals_are_of_what_is_known() -> None:
    ops = [OpResult((1, 2), (10, 20), None, None), OpResult((3, 4), None, (5, 6), None)]
    assert total_of(ops, 2) == OpResult((4, 6), (10, 20), (5, 6), None)
    assert total_of([], 2) == OpResult((0, 0), None, None, None)


def test_a_window_keeps_what_became_of_each_op_and_what_its_findings_are_about() -> None:
    base = profile_of([("Cast", 5), ("Add", 70), ("Exp", 1)])
    diff = compare(
        (counts_of(base), {}), (counts_of(PROFILE), {}), TimingVerdict(Verdict.INCOMPARABLE, "one round"), STORED
    )
    budget = list(Budget.parse([], {"Add": 0}).check(PROFILE))
    found = JudgedWindow(WindowNumbers.of("body", PROFILE), budget, diff).result("CPU", parallel=False, compared=True)
    assert [(each.rule, each.op) for each in found.findings] == [("calls", "Add"), ("more calls", "Cast")]
    rows = {row.op: row for row in found.rows}
    assert rows["Cast"] == RowResult("Cast", Verdict.MORE, Range(1), Range(1, 2))
    assert (rows["Cast"].more_calls, rows["Exp"].more_calls) == (1, -1)
    assert converted(json.loads(json.dumps(plain(found))), WindowResult) == found


def test_a_run_tells_its_errors_its_revision_and_the_lines_of_tests(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    run_result.write(
        path, run_of([structs.replace(record(), line=12)], [], interrupted=False, errors=["broken"], against="main")
    )
    found = read(path)
    assert (found.errors, found.against, found.tests[0].line) == (["broken"], "main", 12)

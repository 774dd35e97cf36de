"""--opprof-traces: what fails has a trace, in a file that its message names; what passes has none."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.machine.ranks import Rank
from pytest_opprof.processes.pool import Pool
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.pytest_plugin import traces
from pytest_opprof.pytest_plugin.traces import file_name

from ..conftest import ALONE, ELSEWHERE, looks
from .test_confirming import look
from .test_ranks import Run

Suite = Callable[..., pytest.RunResult]
MODEL = """
import pytest
from pytest_opprof.backends import fake
@pytest.mark.opprof(rounds=3)
@pytest.mark.op_budget(Cast=1)
@pytest.mark.parametrize("casts", [1, 2], ids=["few", "too/many"])
def test_casts(casts, state={"round": 0}):
    state["round"] += 1
    outer = fake.launch("aten::linear", device_ns=9_000 - 1_000 * (state["round"] % 4))
    fake.launch("aten::mm", device_ns=1_000, inside=outer)
    for _ in range(casts): fake.launch("aten::copy_", dtypes=("float32", "int8"), device_ns=500)
def test_prefill(opprof):
    with opprof("pre fill"): fake.launch("Add")
"""
NAMED = re.compile(r"timeline: opprof open (\S+)")


def bars(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return [event for event in events if event["ph"] == "X"]


def found(pytester: pytest.Pytester, folder: str = "traces") -> list[Path]:
    return sorted((pytester.path / folder).glob("*"))


def test_a_failing_window_has_a_trace_that_its_message_names_and_others_have_none(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile(test_m=MODEL)
    result = suite("--opprof", "--opprof-traces=traces", "--opprof-json=run.json", "--opprof-html=run.html")
    result.assert_outcomes(passed=2, failed=1)
    (path,) = found(pytester)
    assert re.fullmatch(r"test_m\.py-test_casts-too-many-[0-9a-f]{8}\.trace\.json\.gz", path.name)
    assert NAMED.findall(result.stdout.str()) == [f"traces/{path.name}"]
    # The fastest of three rounds, after one of warm-up and those of the test before.
    whole, *events = bars(path)
    number = int(whole["name"].removeprefix("round ").removesuffix(" of 3"))
    run = json.loads((pytester.path / "run.json").read_text())
    windows = {(test["id"], window["name"]): window for test in run["tests"] for window in test["windows"]}
    window = windows["test_m.py::test_casts[too/many]", "body"]
    times = window["total"]["device_ns"]
    assert times[number - 1] == min(times) < max(times)
    assert [(each["name"], each["cat"]) for each in events] == [
        ("MatMul (aten::linear)", "op"),
        ("aten::mm", "call"),
        ("Cast (aten::copy_)", "op"),
        ("Cast (aten::copy_)", "op"),
    ]
    assert sum(round(each["dur"] * 1000) for each in events if each["name"] != "aten::mm") == min(times)
    assert [each["trace"] for each in windows.values() if each["trace"]] == [window["trace"]] == [f"traces/{path.name}"]
    assert f"opprof open traces/{path.name}" in (pytester.path / "run.html").read_text()


def test_without_the_flag_nothing_is_written_and_no_log_holds_a_time(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventLog, "ran", lambda *args: pytest.fail("nobody asked"))
    pytester.makepyfile(test_m=MODEL)
    result = suite("--opprof")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.no_fnmatch_line("*trace*")
    # Where nothing is judged nothing fails for what it spends.
    suite("-o", "opprof_traces=traces", "-k", "prefill").assert_outcomes(passed=1)
    assert not found(pytester)


def test_the_folder_may_stand_in_the_ini_file_and_be_made(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=MODEL)
    folder = pytester.path / "a" / "b"
    suite("--opprof", "-x", "-q", "-o", f"opprof_traces={folder}").stdout.fnmatch_lines(
        ["timeline: opprof open a/b/test_m.py-*"]
    )
    assert len(found(pytester, "a/b")) == 1


@pytest.mark.slow
@pytest.mark.processes
def test_workers_write_each_its_own(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        test_m=MODEL.replace('[1, 2], ids=["few", "too/many"]', "[2] * 4, ids=['a/b', 'a b', '../..', 'x' * 300]")
    )
    result = suite("--opprof", "-n2", "--opprof-traces=traces", "--opprof-summary=run.md")
    result.assert_outcomes(passed=1, failed=4)
    named = NAMED.findall(result.stdout.str())
    assert sorted(named) == [f"traces/{path.name}" for path in found(pytester)]
    assert len(set(named)) == 4
    assert all(len(bars(pytester.path / name)) == 5 for name in named)
    assert (pytester.path / "run.md").read_text().count("opprof open traces/") == 1  # of the one that is shown


@pytest.mark.slow
@pytest.mark.processes
def test_ranks_write_each_its_own(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nopprof_backend = fake\naddopts = -p opprof -p no:cacheprovider\n")
    pytester.makepyfile(test_m=MODEL)
    Run(pytester.path, 2, ("--opprof", "--opprof-traces=traces", "-k", "many"))
    assert [re.findall("rank[0-9]", path.name) for path in found(pytester)] == [["rank0"], ["rank1"]]


def test_the_trace_is_of_the_measurement_that_failed_first_whoever_confirms_it(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "from pytest_opprof.backends import fake\nimport pytest\n@pytest.mark.opprof\ndef test_a():\n"
    pytester.makepyfile(test_m=f"{model}    fake.launch('Cast')")
    suite("--opprof-update")
    pytester.makepyfile(test_m=f"{model}    for _ in range(3): fake.launch('Cast')")
    looks(monkeypatch, look(3, Add=0), look(3, Add=0))
    result = suite("--opprof", "--opprof-traces=traces")
    result.stdout.fnmatch_lines(["*confirmed in a fresh process*", "timeline: opprof open traces/test_m.py-test_a-*"])
    assert [each["name"] for each in bars(*found(pytester))] == ["round 1 of 1", *["Cast"] * 3]


@pytest.mark.processes
def test_processes_that_measure_for_a_run_write_none(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = """
import os, pytest
from pytest_opprof.backends import fake
@pytest.mark.opprof
@pytest.mark.op_budget(Add=0)
def test_a():
    for _ in range({casts}): fake.launch("Cast")
    if {elsewhere}:
        fake.launch("Add")
        if os.path.exists("traces"): open("written-elsewhere", "w").close()  # it is asked twice
"""
    pytester.makepyfile(test_m=model.format(casts=1, elsewhere=ELSEWHERE))
    suite("--opprof-update")
    pytester.makepyfile(test_m=model.format(casts=2, elsewhere=ELSEWHERE))
    monkeypatch.setattr(Pool, "alone", ALONE)
    result = suite("--opprof", "-o", "opprof_traces=traces")
    result.stdout.fnmatch_lines(["*(confirmed in a fresh process*"])
    assert [each["name"] for each in bars(*found(pytester))] == ["round 1 of 1", "Cast", "Cast"]
    assert not (pytester.path / "written-elsewhere").exists()


def test_what_cannot_be_written_is_one_error_and_loses_no_result(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_m=MODEL.replace("[1, 2]", "[2, 2]"))
    (pytester.path / "file").write_text("")
    result = suite("--opprof", "--opprof-traces=file/traces", "--opprof-json=run.json")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["no trace: */file/traces cannot be written (Not a directory)"])
    (error,) = json.loads((pytester.path / "run.json").read_text())["errors"]
    assert error == f"--opprof-traces: {pytester.path}/file/traces cannot be written (Not a directory)"
    assert [line for line in result.stdout.lines if line.startswith("opprof: error")] == [f"opprof: error: {error}"]

    monkeypatch.setattr(traces, "traced_round", lambda profile: 1 // 0)
    result = suite("--opprof", "--opprof-traces=traces", "-k", "few")
    result.assert_outcomes(failed=1, deselected=2)
    result.stdout.fnmatch_lines(
        ["  Cast: 2 calls (budget: 1)", "no trace: *defect of pytest-opprof: ZeroDivisionError*"]
    )


def test_a_backend_that_does_not_tell_when_is_named(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventLog, "ran", lambda *args: None)
    pytester.makepyfile(test_m=MODEL)
    result = suite("--opprof", "--opprof-traces=traces")
    result.stdout.fnmatch_lines(["no trace: fake, which does not record when its ops ran"])
    assert not found(pytester)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--opprof-traces=",), "--opprof-traces is empty; write a folder, such as --opprof-traces=traces"),
        (("--opprof-traces=test_m.py",), "--opprof-traces: */test_m.py is a file; name a folder"),
        (
            ("--opprof-traces=t", "--opprof-against=HEAD"),
            "--opprof-against and --opprof-traces do not go together: leave one out",
        ),
    ],
)
def test_a_folder_that_means_nothing_is_an_error_before_the_first_test(
    flags: tuple[str, ...], said: str, pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile(test_m=MODEL)
    result = suite("--opprof", *flags)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{said}"])


def test_without_opprof_the_flag_is_an_error(pytester: pytest.Pytester, suite: Suite) -> None:
    suite("--opprof-traces=traces").stderr.fnmatch_lines(["*--opprof-traces does nothing without --opprof"])


@given(st.text(), st.text(), st.integers(0, 3))
def test_a_name_is_one_that_every_file_system_can_have(test: str, window: str, rank: int) -> None:
    name = file_name(test, window, Rank(rank, 4))
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.trace\.json\.gz", name)
    assert len(name) < 220
    assert ".." not in name
    assert name != file_name(test, f"{window}x", Rank(rank, 4))
    assert name != file_name(test, window, Rank())


def test_names_that_read_alike_are_told_apart() -> None:
    tests = ["a/b.py::t", "a-b.py::t", "a b.py::t", "x" * 300, "x" * 301, "\udc80"]
    assert len({file_name(test, "body", Rank()) for test in tests}) == len(tests)

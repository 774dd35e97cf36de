from __future__ import annotations

import html
import json

import pytest
from msgspec import structs

from pytest_opprof.report import exports
from pytest_opprof.report.accepting import Accepting
from pytest_opprof.report.html.run_page import html as page_of
from pytest_opprof.report.markdown import markdown
from pytest_opprof.results.test_result import TestRecord
from pytest_opprof.verdict.findings import RANKS, Finding

from .made_runs import record_of, run

CAST = ({"Cast": 1}, {"Cast": 3})


def every_output(*tests: TestRecord, **known: object) -> list[str]:
    of = run(*tests, **known)
    (entry, *_) = json.loads(exports.code_quality(of))
    return [markdown(of), html.unescape(page_of(of)), entry["description"]]


def test_every_output_has_the_command_of_the_launcher_and_the_flags_of_the_run() -> None:
    of = {"pytest": "srun -n 4 python -m pytest", "python": True, "leaks": True, "memory": True}
    for text in every_output(record_of("t.py::test_a", *CAST), **of):
        command = "srun -n 4 python -m pytest t.py::test_a --opprof-update"
        assert f"{command} --opprof-python --opprof-leaks --opprof-memory" in text


def test_against_a_revision_every_output_tells_of_the_line_for_a_commit_after_the_limit() -> None:
    test = record_of("t.py::test_a", *CAST, Cast="..2")
    for text in every_output(test, against="main", accept="Opprof-Accept: t.py::test_a Cast=+2"):
        assert text.index("raise the limit in its op_budget mark") < text.index("add the Opprof-Accept line below to a")
        assert "--opprof-update" not in text


@pytest.mark.parametrize("against", ["a.json", ""])
def test_where_nothing_can_be_accepted_no_step_is_told(against: str) -> None:
    test = record_of("t.py::test_a", *CAST)
    if not against:
        differs = Finding(RANKS, "Cast", "Cast: calls differ between ranks", "Cast")
        test.windows = [structs.replace(window, findings=(differs,)) for window in test.windows]
    for text in every_output(test, against=against):
        assert "accept" not in text.lower().replace("accepted by commits", "")


def test_the_command_for_several_modules_names_them_up_to_five() -> None:
    def of(number: int) -> str:
        failing = run(*(record_of(f"t{each}.py::a", *CAST) for each in range(number)))
        return Accepting.of_run(failing).update_failing(failing)

    assert of(2) == "pytest --opprof-update t0.py t1.py"
    assert of(6) == "pytest --opprof-update"

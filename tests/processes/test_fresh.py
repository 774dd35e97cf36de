"""What a fresh process answers; here it is this one, and the run that asks it is a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_opprof.measure import recorder
from pytest_opprof.processes.child import Child
from pytest_opprof.processes.pool import Batch
from pytest_opprof.results.plain import plain

from .conftest import AsChild

MODEL = """
import pathlib, pytest
from pytest_opprof.backends import fake
from pytest_opprof.processes.this_run import CORE
pytestmark = pytest.mark.opprof
@pytest.fixture(scope="module")
def module():
    with open("set up", "a") as file: file.write("x")
def test_a(module): fake.launch("Add", device_ns=5)
def test_b(): fake.launch("Mul"); pathlib.Path("b ran").touch()
def test_known(pytestconfig): fake.launch("Add", device_ns=int(pytestconfig.stash[CORE].best_ns))
def test_fails(): fake.launch("Add"); assert 1 == 2
def test_skips(): pytest.skip("not here")
@pytest.mark.op_budget(Add=0)
def test_over(): fake.launch("Add")
@pytest.fixture
def torn():
    yield
    raise ValueError("torn down")
def test_torn(torn): fake.launch("Add")
def test_windows(opprof):
    with opprof("prefill"): fake.launch("Cast")
"""
Fresh = Callable[..., list[dict[str, Any]]]


def question(*tests: str, stays: bool = False, best_ns: int | None = None, module: str = "test_m.py") -> dict[str, Any]:
    wanted = [f"{module}::{test}" for test in tests]
    return plain(Batch(wanted, stays=stays, best_ns=best_ns))


@pytest.fixture
def fresh(pytester: pytest.Pytester, as_child: AsChild) -> Fresh:
    """Ask a fresh process some questions, one after the other, and return its answers."""
    pytester.makepyfile(test_m=MODEL)

    def asked(*questions: dict[str, Any], arguments: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        def does(child: Child) -> list[dict[str, Any]]:
            answers = []
            assert child.hear() == ["ready", {}]
            for each in questions:
                child.answer(each)
                said, answer = child.hear()
                assert said == "ready"
                answers.append(answer)
            return answers

        files = [str(pytester.path / name) for name in ("test_m.py", "test_broken.py")]
        result, answers = as_child(does, *arguments, kind="fresh", files=files, closely=False)
        assert result.ret == 1  # it ends where nobody asks any more
        return answers

    return asked


def ops(answer: dict[str, Any], test: str, window: str = "body") -> dict[str, Any]:
    (found,) = (each for each in answer[f"test_m.py::{test}"]["windows"] if each["name"] == window)
    return {op: numbers["device_ns"] for op, numbers in found["ops"].items()}


def test_it_measures_what_it_is_asked_for_and_runs_no_other_test(fresh: Fresh, pytester: pytest.Pytester) -> None:
    (answer,) = fresh(question("test_a"))
    assert (answer.keys(), answer["test_m.py::test_a"]["why"]) == ({"test_m.py::test_a"}, "")
    assert ops(answer, "test_a") == {"Add": [5]}
    assert not (pytester.path / "b ran").exists()


def test_several_tests_are_answered_at_once_each_for_itself(fresh: Fresh) -> None:
    (answer,) = fresh(question("test_b", "test_a"))
    assert (ops(answer, "test_a"), list(ops(answer, "test_b"))) == ({"Add": [5]}, ["Mul"])


def test_windows_in_a_test_are_answered_by_name(fresh: Fresh) -> None:
    (answer,) = fresh(question("test_windows"))
    assert list(ops(answer, "test_windows", "prefill")) == ["Cast"]


@pytest.mark.parametrize(("stays", "set_up"), [(True, "x"), (False, "xx")])
def test_a_module_is_set_up_once_if_it_is_to_stay(
    fresh: Fresh, pytester: pytest.Pytester, stays: bool, set_up: str
) -> None:
    answers = fresh(question("test_a", stays=stays), question("test_a"))
    assert [ops(answer, "test_a") for answer in answers] == [{"Add": [5]}] * 2
    assert (pytester.path / "set up").read_text() == set_up


@pytest.mark.parametrize(
    ("test", "why"),
    [
        ("test_fails", "failed: assert 1 == 2"),
        ("test_skips", "skipped: Skipped: not here"),
        ("test_torn", "failed: ValueError: torn down"),
        ("test_gone", "pytest did not collect it there"),
    ],
)
def test_what_went_wrong_is_said_and_is_not_said_of_the_next(fresh: Fresh, test: str, why: str) -> None:
    answers = fresh(question(test), question("test_a"))
    assert [answer[f"test_m.py::{name}"]["why"] for answer, name in zip(answers, (test, "test_a"))] == [why, ""]


def test_a_defect_of_the_plugin_is_the_reason_why_a_test_was_not_measured(
    fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise IndexError("a defect")

    monkeypatch.setattr(recorder, "assemble", broken)
    (answer,) = fresh(question("test_a"))
    said = "test_m.py::test_a was not measured, by a defect of pytest-opprof: IndexError: a defect"
    assert answer["test_m.py::test_a"]["why"].startswith(said)


def test_a_test_over_its_budget_was_measured_and_nothing_went_wrong(fresh: Fresh) -> None:
    """The last line of its failure is the command that accepts it, and no reason why something is not known."""
    (answer,) = fresh(question("test_over"))
    assert (ops(answer, "test_over"), answer["test_m.py::test_over"]["why"]) == ({"Add": [1000]}, "")


def test_a_file_that_cannot_be_imported_is_named_with_the_cause(fresh: Fresh, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_broken="import nosuchmodule")
    asked = question("test_x", module="test_broken.py"), question("test_gone"), question("test_a")
    broken, gone, fine = fresh(*asked, arguments=("--continue-on-collection-errors",))
    assert broken["test_broken.py::test_x"] == {
        "windows": [],
        "python": {},
        "why": "test_broken.py: ModuleNotFoundError: No module named 'nosuchmodule'",
    }
    assert gone["test_m.py::test_gone"]["why"] == "pytest did not collect it there"  # of a file that is fine
    assert ops(fine, "test_a") == {"Add": [5]}


def test_files_that_it_is_never_asked_for_are_not_imported(fresh: Fresh, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_other="open('imported', 'w')")
    fresh(question("test_a"))
    assert not (pytester.path / "imported").exists()


def test_its_rounds_know_how_fast_the_core_was_in_the_run_that_asks(fresh: Fresh) -> None:
    (answer,) = fresh(question("test_known", best_ns=1_234))
    assert ops(answer, "test_known") == {"Add": [1_234]}


def test_it_writes_no_baselines(fresh: Fresh, pytester: pytest.Pytester) -> None:
    fresh(question("test_a"), arguments=("--opprof-update",))
    assert not (pytester.path / "baselines").exists()

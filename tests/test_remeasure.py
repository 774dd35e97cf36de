"""What a fresh process is asked, and what is made of its answer; `tests/plugin/test_times.py` runs real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_opprof import remeasure
from pytest_opprof.baselines import Calls
from pytest_opprof.errors import BackendError
from pytest_opprof.remeasure import VARIABLE, asked_for, measure

WINDOW = {
    "name": "body",
    "machine": "CPU, 2 cores",
    "ops": {"Add": {"calls": [1, 2]}},
    "runs": [{"total_ns": [5], "ops_ns": {"Add": [4]}, "wait_ns": [], "yardstick_ns": [], "threads": 1}],
}


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Stand for the fresh process: writes ``text``, None for nothing, and notes what it was asked."""
    answered: dict[str, object] = {"text": None}

    def run(command: list[str], folder: Path, asked: Path, timeout_s: float) -> str:
        answered.update(command=command, folder=folder, timeout_s=timeout_s, asked=json.loads(asked.read_text()))
        monkeypatch.setenv(VARIABLE, str(asked))
        asked_of_us = asked_for()
        answered["seen"] = asked_of_us and asked_of_us.tests
        (path,) = (Path(word.partition("=")[2]) for word in command if word.startswith("--opprof-json="))
        if answered["text"] is not None:
            path.write_text(str(answered["text"]))
        return "first line\nall is lost\n"

    monkeypatch.setattr(remeasure, "_run", run)
    return answered


def test_what_a_fresh_process_measured_is_what_a_baseline_would_keep(
    pytestconfig: pytest.Config, answer: dict[str, object]
) -> None:
    answer["text"] = json.dumps({"tests": [{"id": "t.py::a", "windows": [WINDOW]}, {"id": "t.py::b", "windows": []}]})
    measured = measure(pytestconfig, ["t.py::a", "t.py::b"], timeout_s=7)
    entry = measured["t.py::a"]["body"]
    assert entry.calls == {"Add": Calls(1, 2)}
    assert [run.total_ns for run in entry.times["CPU, 2 cores"]] == [(5,)]
    assert measured["t.py::b"] == {}
    assert (answer["asked"], answer["timeout_s"]) == ({"tests": ["t.py::a", "t.py::b"], "best_ns": None}, 7)
    assert answer["folder"] == pytestconfig.invocation_params.dir
    assert answer["seen"] == {"t.py::a", "t.py::b"}  # and the core is as fast as it happens to be
    assert (
        [*map(str, pytestconfig.invocation_params.args)]
        == answer["command"][3:][  # type: ignore[index]
            : len(pytestconfig.invocation_params.args)
        ]
    )


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "null", '{"tests": 5}', '{"tests": [{"id": "a"}]}', '{"tests": [{"windows": []}]}']
)
def test_garbage_is_no_measurement_and_the_last_line_says_why(
    pytestconfig: pytest.Config, answer: dict[str, object], text: str | None
) -> None:
    answer["text"] = text
    with pytest.raises(BackendError, match=r"^a fresh process gave no measurement \(all is lost\)$"):
        measure(pytestconfig, ["t.py::a"])


@pytest.mark.parametrize("field", ["name", "machine", "ops", "runs"])
def test_a_window_that_lacks_something_is_no_measurement(
    pytestconfig: pytest.Config, answer: dict[str, object], field: str
) -> None:
    for window in ({key: value for key, value in WINDOW.items() if key != field}, WINDOW | {"ops": None}):
        answer["text"] = json.dumps({"tests": [{"id": "t.py::a", "windows": [window]}]})
        with pytest.raises(BackendError):
            measure(pytestconfig, ["t.py::a"])


def test_a_process_that_nobody_asked_is_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert asked_for() is None

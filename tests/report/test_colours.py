from __future__ import annotations

import sys

import pytest

from pytest_opprof.report.colours import TextLine, Tone, show, toned, write
from pytest_opprof.report.failure import Shown, failure
from pytest_opprof.verdict.verdicts import Verdict

from .test_failure import ACCEPT, BASE, WORSE, report


class Terminal:
    """What pytest writes to a terminal with; keeps what it is given."""

    def __init__(self) -> None:
        self.written: list[tuple[str, list[str]]] = []

    def line(self, text: str, **markup: bool) -> None:
        self.written.append((text, [name for name, wanted in markup.items() if wanted]))


@pytest.mark.parametrize("verdict", list(Verdict), ids=lambda verdict: verdict.name)
def test_the_sense_of_a_verdict_is_what_a_line_says(verdict: Verdict) -> None:
    terminal = Terminal()
    write(terminal, [TextLine("Cast", verdict.sense)])
    expected = {"worse": ["red"], "better": ["green"], "unknown": [], "neither": []}
    assert terminal.written == [("Cast", expected[verdict.sense])]
    assert (verdict.sense == "worse") is verdict.is_regression
    assert (verdict.sense == "better") is verdict.is_improvement


def test_a_failing_test_says_of_each_line_whether_it_is_worse() -> None:
    lines = failure("t.py::a", [report(BASE, WORSE, rounds=10, Cast=10)], ACCEPT, Shown())
    tones = {line.text.split("  ")[0] or line.text.strip(): line.tone for line in lines}
    assert tones["op budget exceeded: t.py::a"] == "title"
    assert tones["Cast: 12 calls (budget: 10, baseline: 10)"] == tones["Cast"] == tones["Exp"] == "worse"
    assert tones["MatMul"] == "better"
    assert tones["Add"] == tones["op"] == "neither"
    assert lines[-1].tone == "command"


def test_a_word_in_a_line_that_says_nothing_gives_it_no_colour() -> None:
    terminal = Terminal()
    write(terminal, [TextLine("an op that is called  slower")])
    assert terminal.written == [("an op that is called  slower", [])]


@pytest.mark.parametrize(
    ("tones", "expected"),
    [(["title", "worse"], ["title", "worse"]), (["title"], ["title", "neither"]), ([], ["neither", "neither"])],
)
def test_lines_that_travelled_get_back_what_they_say(tones: list[Tone], expected: list[Tone]) -> None:
    assert toned(["a", "b"], tones) == list(map(TextLine, "ab", expected))


@pytest.mark.parametrize(
    ("is_terminal", "environment", "is_painted"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_a_command_paints_what_a_terminal_shows(
    is_terminal: bool,
    environment: dict[str, str],
    is_painted: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    show([TextLine("do it", "command"), TextLine("a\x1b[2J")])
    assert capsys.readouterr().out == ("\x1b[36mdo it\x1b[0m" if is_painted else "do it") + "\na\\x1b[2J\n"

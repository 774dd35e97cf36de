from __future__ import annotations

import sys

import pytest

from pytest_opprof.report.colours import colour, painted
from pytest_opprof.verdict.verdicts import Verdict


@pytest.mark.parametrize("verdict", list(Verdict), ids=lambda verdict: verdict.name)
def test_a_row_has_the_colour_of_its_verdict_and_none_that_was_not_judged(verdict: Verdict) -> None:
    expected = "red" if verdict.is_regression else "green" if verdict.is_improvement else None
    assert colour(f"Cast  2 -> 3  7.91 us  {verdict.value}") == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("op regression: t.py::a  [fake]", "bold"),
        ("  Cast: 3 calls (baseline: 2)", "red"),
        ("  (confirmed in a fresh process)", None),
        ("Cast    2 -> 3    7.91 us    over budget, more calls", "red"),
        ("MatMul  1         26.3 us", None),
        ("where Cast comes from (3 calls, baseline: 2):", "bold"),
        ("    +1  models.py:86 in forward  `x.half()`  (new)", "red"),
        ("     2  models.py:87 in forward  `x.half()`", None),
        ("to accept this change: pytest t.py --opprof-update", "cyan"),
        ("", None),
    ],
)
def test_lines_of_a_message(line: str, expected: str | None) -> None:
    assert colour(line) == expected


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
    is_terminal: bool, environment: dict[str, str], is_painted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    line = "to accept this change: do it"
    assert painted(line) == (f"\x1b[36m{line}\x1b[0m" if is_painted else line)

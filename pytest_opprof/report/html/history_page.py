"""The page of the history of baselines: which commit changed the calls of which op, as a line and step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...baselines.git_log import Commit
from ...baselines.history import History, OpHistory, Step
from ...results.test_id import function_of
from ...units import plural
from . import marks
from .page import rendered

WIDTH, HEIGHT = 220, 24
"""Of the line of an op."""
_OPS: Final = 200
"""Of an environment: as many lines of 200 commits each are 300 kB."""
_STEPS: Final = 1_500
"""Of all environments together: 500 kB."""
_FUNCTIONS: Final = 2


def html(
    found: History,
    ops: Mapping[str, Sequence[OpHistory]],
    since: frozenset[str] | None = None,
    asked: str = "",
    remarks: Sequence[str] = (),
) -> str:
    """Return the page of the *ops* by environment, over the commits *since* a revision, if one is given.

    *asked* names the selection in words, if it is not everything.
    """
    every = [(step, op) for of in ops.values() for op in of[:_OPS] for step in op.steps]
    every.sort(key=lambda each: _size(each[0]))
    kept = {id(step) for step, _ in every[:_STEPS]}
    sections: list[_Section] = []
    for environment, of in ops.items():
        commits = found.commits_of(environment, since)
        rows = [_Row(f"e{len(sections)}o{number}", op, commits, kept) for number, op in enumerate(of[:_OPS])]
        title = found.titles.get(environment, environment)
        sections.append(_Section(title, [found.commits[at] for at in commits], rows, len(of) - len(rows)))
    return rendered(
        "history.html.j2",
        sections=sections,
        commits=found.commits,
        lead=every[0] if every else None,
        kind_of=kind_of,
        asked=asked,
        remarks=remarks,
        steps_left_out=len(every) - len(kept),
        told=told,
    )


def kind_of(step: Step) -> marks.Kind:
    """Return how a step is marked: calls that came or went with their tests are neither better nor worse."""
    return "bad" if step.calls > 0 else "good" if step.calls < 0 else "mute"


def told(step: Step) -> str:
    """Return the amount of a step, with its sign."""
    calls = step.calls or step.arrived
    return f"{calls:+d}" if calls else "0"


def _size(step: Step) -> tuple[int, int, int]:
    return -abs(step.calls), -abs(step.arrived), step.at


@dataclass(frozen=True, slots=True)
class _Section:
    """An environment."""

    title: str
    commits: list[Commit]
    rows: list[_Row]
    left_out: int


@dataclass(slots=True)
class _Step:
    """A row of the table of steps."""

    step: Step
    before: int
    after: int
    functions: list[str]
    """The first functions whose tests changed; for several tests of a function, their number."""
    more: str


class _Row:
    """An op: a row of the table, and its shown steps."""

    def __init__(self, anchor: str, op: OpHistory, commits: Sequence[int], kept: set[int]) -> None:
        self.anchor = anchor
        self.op = op
        self.steps = [_step(op, step) for step in op.steps if id(step) in kept]
        self.path, self.dot = _line(op, commits)


def _step(op: OpHistory, step: Step) -> _Step:
    by_function: dict[str, list[str]] = {}
    for test in step.tests:
        by_function.setdefault(function_of(test), []).append(test)
    named = [tests[0] if len(tests) == 1 else f"{name} ({len(tests)} tests)" for name, tests in by_function.items()]
    others = len(step.tests) - sum(len(tests) for tests in [*by_function.values()][:_FUNCTIONS])
    after = op.totals[step.at]
    more = f"and {plural(others, 'more test')}" if others else ""
    return _Step(step, after - step.calls - step.arrived, after, named[:_FUNCTIONS], more)


def _line(op: OpHistory, commits: Sequence[int]) -> tuple[str, tuple[float, float]]:
    """Return the path of the calls after each of the *commits*, and where the biggest step ends.

    Steps nearer than a unit are one: from the fewest to the most calls among them.
    """
    low, high = min(op.first, *op.totals.values()), max(op.first, *op.totals.values())

    def y(calls: int) -> int:
        return round(HEIGHT - 4 - (calls - low) / (high - low) * (HEIGHT - 8)) if high > low else HEIGHT // 2

    def x(place: int) -> int:
        return round(place * WIDTH / len(commits))

    columns: dict[int, list[int]] = {}
    places = {at: place for place, at in enumerate(commits)}
    for at, calls in op.totals.items():
        columns.setdefault(x(places[at]), []).append(calls)
    path = f"M0 {y(op.first)}"
    for column, values in columns.items():
        ends = values if len(values) < 3 else [min(values), max(values), values[-1]]
        path += f"H{column}" + "".join(f"V{y(calls)}" for calls in ends)
    biggest = op.biggest.at
    return f"{path}H{WIDTH}", (x(places[biggest]), y(op.totals[biggest]))

"""The message of a failing test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..profile.environment import Environment
from ..results.judged_window import JudgedWindow
from ..results.window_result import BODY, open_trace, titled
from ..verdict.quantities import is_fact
from .accepting import Accepting
from .colours import TextLine
from .escaping import terminal
from .op_table import ranks_table, table
from .tables import PLAIN, Style
from .where import where

_COLD = "measured once, cold; with opprof(rounds=10) the fastest round counts, after a warm-up"
_CAUSES = 3
# The most ops with a line of their own above the table: a test of jumanji failed for 27.
_OPS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How much of a failing window the message shows, and how."""

    top: int = 5
    """Ops to show beside the ops that fail the test."""
    every_op: bool = False
    more: str = "-v shows them"
    """How to see the ops that are left out."""
    like: str = ""
    """An earlier test that fails for the same cause: its message has the tables and lines, this one's has not."""
    style: Style = PLAIN


def failure(test: str, windows: Sequence[JudgedWindow], accepting: Accepting | None, shown: Shown) -> list[TextLine]:
    """Return the message of a failing test: its findings, then the table of each window that has some.

    *accepting* is None for a profile that was not measured here.
    """
    broken, style = [window for window in windows if window.findings], shown.style
    lines: list[TextLine] = []
    for window in broken:
        what = "op budget exceeded" if window.budget else "op regression" if window.is_worse else "ranks differ"
        lines.append(TextLine(style.write(f"{what}: {titled(test, window.name)}  [{window.environment}]"), "title"))
        lines += _findings(window, shown)
        lines += [TextLine(style.write(f"  ({window.looked})"))] if window.looked else []
        if window.name != BODY and len(set(window.numbers.total.calls)) > 1:
            often = window.numbers.rounds
            lines.append(TextLine(f"  (the window ran {often} times: its calls are those of the run with the most)"))
        if accepting and window.numbers.rounds == 1 and any(limit.is_about_time for limit in window.budget):
            lines.append(TextLine(f"  ({_COLD})"))
    if shown.like:
        lines.append(
            TextLine(style.write(f"  (the same cause as {shown.like}, which shows ops and lines; {shown.more})"))
        )
    for window in broken:
        if not shown.like:
            lines += [TextLine(""), *style.lines(ranks_table(window.ranks_differ))] if window.ranks_differ else []
            lines += [TextLine(""), *table(window, shown.top, every_op=shown.every_op, style=style, more=shown.more)]
            asked = where(window, every_line=shown.every_op, more=shown.more)
            lines += [TextLine(style.write(text), tone) for text, tone in asked]
        lacks = f" (not in it: {window.trace_lacks})" if window.trace_lacks else ""
        if window.trace:
            lines += [TextLine(""), TextLine(style.write(f"timeline: {open_trace(window.trace)}{lacks}"))]
        elif lacks:
            lines += [TextLine(""), TextLine(style.write(f"no trace: {window.trace_lacks}"))]
    # One line for a commit message, below all failures, accepts the change in all tests.
    accepting = None if accepting and shown.like and accepting.by == "commit" else accepting
    if accepting and (steps := accepting.steps(test, (each for window in broken for each in window.told))):
        said = style.write(f"to accept this change: {', then '.join(step.text for step in steps)}")
        lines += [TextLine(""), TextLine(said, "command")]
    return lines


def _findings(window: JudgedWindow, shown: Shown) -> Iterator[TextLine]:
    """Yield the findings in lines; of many ops the first few, since the table has all."""
    told = window.told
    of_ops = [at for at, each in enumerate(told) if each.op and not is_fact(each.op) and not each.breaks_budget]
    ops = [at for at in of_ops if not told[at].ops]  # the others say that one line asks for several
    first = len(told)
    if len(ops) > _OPS + 1 and not shown.every_op:
        first = ops[_OPS] - bool(told[ops[_OPS] - 1].ops)
    for at, each in enumerate(told):
        if at == first:
            yield TextLine(f"  ... and {len(ops) - _OPS} more ops, in the table")
        if at < first or at not in of_ops:
            yield TextLine(shown.style.write(f"  {each}"), "neither" if each.adds else "worse")


def cause(windows: Iterable[JudgedWindow]) -> str:
    """Return in a few words why a test fails."""
    causes = list(dict.fromkeys(each.short for window in windows for each in window.told if each.short))
    more = f" and {len(causes) - _CAUSES} more" if len(causes) > _CAUSES else ""
    return terminal(", ".join(causes[:_CAUSES]) + more)


def no_baseline(environment: Environment, others: Sequence[str]) -> str:
    """Return the reason for `Verdict.NO_BASELINE`, naming the environments that do have one."""
    there = f" (there is one for {'; '.join(others)})" if others else ""
    return f"no baseline for {environment.full}{there}"

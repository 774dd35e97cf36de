"""The message of a failing test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..escaping import terminal, writer
from ..profile.environment import Environment
from ..results.judged_window import JudgedWindow
from ..results.window_result import open_trace, titled
from .op_table import ranks_table, table
from .where import where

_COLD = "measured once, cold; with opprof(rounds=10) the fastest round counts, after a warm-up"
_RAISE = "raise the limit in its op_budget mark"
_CAUSES = 3


def failure(
    test: str,
    windows: Sequence[JudgedWindow],
    top: int,
    every_op: bool,
    accept: str,
    more: str = "-v shows them",
    style: str = "simple",
) -> str:
    """Return the message of a failing test: what broke, then the table of each window that did.

    *top* ops are shown beside those that broke something, or *every_op*; *accept* is the command that takes the new
    state as the baseline, empty for a profile that was not measured here.
    """
    broken = [window for window in windows if window.findings]
    write = writer(style)
    lines = []
    for window in broken:
        what = "op budget exceeded" if window.budget else "op regression" if window.regressions else "ranks differ"
        lines.append(write(f"{what}: {titled(test, window.name)}  [{window.environment}]"))
        lines += [write(f"  {finding}") for finding in window.told]
        lines += [write(f"  ({window.looked})")] if window.looked else []
        if accept and window.numbers.rounds == 1 and any(finding.is_about_time for finding in window.budget):
            lines.append(f"  ({_COLD})")
    for window in broken:
        lines += ["", *ranks_table(window.ranks_differ, style)] if window.ranks_differ else []
        lines += ["", *table(window, top, every_op, style, more), *map(write, where(window, every_op, more))]
        lacks = f" (not in it: {window.trace_lacks})" if window.trace_lacks else ""
        if window.trace:
            lines += ["", write(f"timeline: {open_trace(window.trace)}{lacks}")]
        elif lacks:
            lines += ["", write(f"no trace: {window.trace_lacks}")]
    if accept and broken:
        steps = [_RAISE] if any(window.budget for window in broken) else []
        steps += [accept] if any(window.regressions for window in broken) else []
        lines += ["", write(f"to accept this change: {', then '.join(steps)}")] if steps else []
    return "\n".join(lines)


def cause(windows: Iterable[JudgedWindow]) -> str:
    """Return in a few words why a test fails."""
    causes = list(dict.fromkeys(each.short for window in windows for each in window.told if each.short))
    more = f" and {len(causes) - _CAUSES} more" if len(causes) > _CAUSES else ""
    return terminal(", ".join(causes[:_CAUSES]) + more)


def no_baseline(environment: Environment, others: Sequence[str]) -> str:
    """Return the reason for `Verdict.NO_BASELINE`, naming the environments that do have one."""
    there = f" (there is one for {'; '.join(others)})" if others else ""
    return f"no baseline for {environment.full}{there}"

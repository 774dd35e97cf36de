"""The page of a comparison of two profiles, or windows: from before to now, op by op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...profile.op_counts import OpCounts
from ...units import format_change, format_ns, plural
from ...verdict.compare import Diff, Row
from ...verdict.quantities import named, word
from . import marks
from .page import arrow, rendered, signed

_STEPS: Final = 8
"""Ops that are a step of their own in the waterfall; the others are one."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One of the two sides."""

    name: str
    """As the user calls it."""
    source: str
    environment: str


def html(base: Compared, now: Compared, diff: Diff, remarks: Sequence[str] = ()) -> str:
    """Return the page of a comparison of *base* and *now*."""
    is_timed = diff.total.base_ns is not None and diff.total.now_ns is not None
    rows = sorted(diff.rows, key=lambda row: (not row.verdict.is_regression, -_amount(row, is_timed)))
    calls = sum(_most(row.base) for row in rows), sum(_most(row.now) for row in rows)
    before, after = (diff.total.base_ns or 0, diff.total.now_ns or 0) if is_timed else calls
    steps = _waterfall(rows, before, after, is_timed)
    ops = [row for row in diff.rows if row.is_op]
    by_calls = sum(row.from_calls_ns for row in ops)
    by_speed = sum(row.change_ns for row in ops) - by_calls
    return rendered(
        "diff.html.j2",
        base=base,
        now=now,
        diff=diff,
        verdict=marks.of_verdict(diff.verdict),
        whole=marks.of_verdict(diff.total.verdict) if is_timed else "mute",
        headline=_headline(before, after, is_timed),
        split=[
            (ns, what)
            for ns, what in (
                (by_calls, "more calls" if by_calls > 0 else "fewer calls"),
                (by_speed, "slower calls" if by_speed > 0 else "faster calls"),
            )
            if ns and is_timed and not diff.calls_vary
        ],
        remarks=remarks,
        is_timed=is_timed,
        steps=steps,
        high=max((max(step.before, step.after) for step in steps), default=0) or 1,
        rows=[(named(row.op), row, _calls(row), marks.of_verdict(row.verdict)) for row in rows],
        larger=[(named(row.op), row, word(row.op, row.work.verdict)) for row in rows if row.work.verdict.does_more],
        widest=max((ns for row in rows for ns in (row.base_ns, row.now_ns) if ns), default=1),
        most=max((abs(row.change_ns) for row in rows), default=0) or 1,
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """A bar of the waterfall: the whole before and now, and between them what ops add or save."""

    name: str
    before: float
    after: float
    text: str
    kind: marks.Kind
    """Of what was judged; what was not is grey."""


def _headline(before: float, after: float, is_timed: bool) -> tuple[str, str]:
    """Return how much the whole changed, and from what to what."""
    write = _writer(is_timed)
    return format_change(before, after), arrow(write(before), write(after))


def _waterfall(rows: Sequence[Row], before: float, after: float, is_timed: bool) -> list[_Step]:
    write = _writer(is_timed)
    changed = sorted((row for row in rows if _amount(row, is_timed)), key=lambda row: -abs(_amount(row, is_timed)))
    shown = sorted(changed[:_STEPS], key=lambda row: -_amount(row, is_timed))
    if not shown and before == after:
        return []
    steps = [_Step("before", 0, before, write(before), "mute")]
    at = before
    for row in shown:
        amount = _amount(row, is_timed)
        # What has fewer calls and takes longer was judged for its calls, not for this.
        is_told = row.verdict.is_regression if amount > 0 else row.verdict.is_improvement
        kind: marks.Kind = marks.of_verdict(row.verdict) if is_told else "mute"
        steps.append(_Step(named(row.op), at, at + amount, signed(amount, write(abs(amount))), kind))
        at += amount
    # Times of ops and of the whole may be of different rounds: what is left is told, whatever it is of.
    if write(abs(after - at)) != write(0) and (after != at):
        name = plural(len(changed) - len(shown), "other op") if len(changed) > len(shown) else "all the rest"
        steps.append(_Step(name, at, after, signed(after - at, write(abs(after - at))), "mute"))
    return [*steps, _Step("now", 0, after, write(after), "mute")]


def _writer(is_timed: bool) -> Callable[[float], str]:
    return format_ns if is_timed else lambda calls: plural(round(calls), "call")


def _amount(row: Row, is_timed: bool) -> int:
    return row.change_ns if is_timed else _most(row.now) - _most(row.base)


def _most(counts: OpCounts | None) -> int:
    return counts.calls.most if counts else 0


def _calls(row: Row) -> str:
    return arrow(*(str(calls or 0) for calls in row.calls)) if row.is_op else ""

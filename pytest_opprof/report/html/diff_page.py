"""The page of a comparison of two profiles, or windows: from before to now, op by op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...profile.op_counts import OpCounts
from ...units import format_change, format_ns, format_share, plural
from ...verdict.changed import calls_vary, split
from ...verdict.compare import Diff, Row
from ...verdict.quantities import word
from ...verdict.verdicts import Verdict
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
    device: str = ""
    steps: int = 1
    """How many steps of it are compared, or rounds."""
    step: str = ""
    """The label of the fastest of them; empty for a recording without steps."""

    @property
    def compared(self) -> str:
        """Which step is compared."""
        if self.steps > 1:
            return f"the fastest of {self.steps} steps" + (f" (step {self.step})" if self.step else "")
        return f"step {self.step}" if self.step else "the whole recording"


def html(base: Compared, now: Compared, diff: Diff, remarks: Sequence[str] = ()) -> str:
    """Return the page of a comparison of *base* and *now*."""
    is_timed = diff.total.base_ns is not None and diff.total.now_ns is not None
    rows = sorted(diff.rows, key=lambda row: (not row.verdict.is_regression, -_amount(row, is_timed=is_timed)))
    calls = sum(_most(row.base) for row in rows), sum(_most(row.now) for row in rows)
    before, after = (diff.total.base_ns or 0, diff.total.now_ns or 0) if is_timed else calls
    steps = _waterfall(rows, before, after, is_timed=is_timed)
    return rendered(
        "diff.html.j2",
        base=base,
        now=now,
        diff=diff,
        verdict=marks.of_verdict(diff.verdict),
        meaning=_meaning(diff),
        whole=marks.of_verdict(diff.total.verdict) if is_timed else "mute",
        headline=_headline(before, after, is_timed=is_timed),
        split=split([row for row in rows if row.is_op]) if is_timed and not calls_vary(rows) else [],
        remarks=remarks,
        is_timed=is_timed,
        steps=steps,
        high=max((max(step.before, step.after) for step in steps), default=0) or 1,
        rows=[(row.title, row, _calls(row), marks.of_verdict(row.verdict)) for row in rows],
        larger=[(row.title, row, word(row.op, row.work.verdict)) for row in rows if row.work.verdict.does_more],
        widest=max((ns for row in rows for ns in (row.base_ns, row.now_ns) if ns), default=1),
        most=max((abs(row.change_ns) for row in rows), default=0) or 1,
    )


_MEANS: Final[Mapping[Verdict, str]] = {
    Verdict.NEW: "runs now, and did not before",
    Verdict.MORE: "runs more often than before",
    Verdict.WIDER: "works in wider dtypes than before",
    Verdict.OTHER_LAYOUT: "works on another layout in memory",
    Verdict.MORE_WORK: "does more work (FLOPs, bytes) than before",
    Verdict.ABOVE: "is more than before",
    Verdict.GONE: "no longer runs",
    Verdict.FEWER: "runs less often than before",
    Verdict.NARROWER: "works in narrower dtypes than before",
    Verdict.LESS_WORK: "does less work (FLOPs, bytes) than before",
    Verdict.BELOW: "is less than before",
    Verdict.OTHER_DTYPES: "works in other dtypes than before, none of them wider",
}
"""The verdicts of which the worst row is the reason."""


def _meaning(diff: Diff) -> str:
    """Return a sentence that explains the verdict of the comparison."""
    verdict, limit = diff.verdict, format_share(diff.tolerances.tolerance)
    what = "the whole" if diff.worst is diff.total else diff.worst.title
    if verdict in _MEANS:
        alike = sum(row.verdict is verdict for row in diff.rows) - 1
        others = f", and {plural(alike, 'more row')} below" if alike else ""
        return f"{what} {_MEANS[verdict]}{others}." + ("" if verdict.is_regression else " Nothing is worse.")
    if verdict is Verdict.SLOWER:
        return f"{what} takes longer than before, by more than its tolerance. Calls and dtypes are no worse."
    if verdict is Verdict.FASTER:
        return f"{what} takes less time than before, by more than its tolerance. Nothing is worse."
    if verdict is Verdict.OK:
        return f"calls, dtypes and work are the same, and no time changed by more than its tolerance ({limit})."
    return "calls, dtypes and work are no worse; there is no verdict on times."


@dataclass(frozen=True, slots=True)
class _Step:
    """A bar of the waterfall: the whole before and now, and between them the time that ops add or save."""

    name: str
    before: float
    after: float
    text: str
    kind: marks.Kind
    """The colour of a judged change; a change that was not judged is grey."""


def _headline(before: float, after: float, *, is_timed: bool) -> tuple[str, str]:
    """Return the change of the whole, with its values before and now."""
    write = _writer(is_timed=is_timed)
    return format_change(before, after), arrow(write(before), write(after))


def _waterfall(rows: Sequence[Row], before: float, after: float, *, is_timed: bool) -> list[_Step]:
    write = _writer(is_timed=is_timed)
    changed = sorted(
        (row for row in rows if _amount(row, is_timed=is_timed)), key=lambda row: -abs(_amount(row, is_timed=is_timed))
    )
    shown = sorted(changed[:_STEPS], key=lambda row: -_amount(row, is_timed=is_timed))
    if not shown and before == after:
        return []
    steps = [_Step("before", 0, before, write(before), "mute")]
    at = before
    for row in shown:
        amount = _amount(row, is_timed=is_timed)
        # An op with fewer calls that takes longer was judged by its calls, not by its time.
        is_told = row.verdict.is_regression if amount > 0 else row.verdict.is_improvement
        kind: marks.Kind = marks.of_verdict(row.verdict) if is_told else "mute"
        steps.append(_Step(row.title, at, at + amount, signed(amount, write(abs(amount))), kind))
        at += amount
    # Times of ops and of the whole may come from different rounds, so a rest is shown without a cause.
    if write(abs(after - at)) != write(0) and (after != at):
        name = plural(len(changed) - len(shown), "other op") if len(changed) > len(shown) else "all the rest"
        steps.append(_Step(name, at, after, signed(after - at, write(abs(after - at))), "mute"))
    return [*steps, _Step("now", 0, after, write(after), "mute")]


def _writer(*, is_timed: bool) -> Callable[[float], str]:
    return format_ns if is_timed else lambda calls: plural(round(calls), "call")


def _amount(row: Row, *, is_timed: bool) -> int:
    return row.change_ns if is_timed else row.more_calls


def _most(counts: OpCounts | None) -> int:
    return counts.calls.most if counts else 0


def _calls(row: Row) -> str:
    return arrow(*(str(calls or 0) for calls in row.calls)) if row.is_op else ""

"""The page of a comparison of two profiles, or windows: from before to now, op by op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...profile.op_counts import OpCounts
from ...units import format_change, format_ns, format_share, plural
from ...verdict.changed import calls_vary, split
from ...verdict.diff import Diff, Row
from ...verdict.quantities import word
from ...verdict.verdicts import Sense, Verdict
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
    rows = diff.rows
    calls = sum(_most(row.base) for row in rows), sum(_most(row.now) for row in rows)
    before, after = (diff.total.base_ns or 0, diff.total.now_ns or 0) if is_timed else calls
    steps = _waterfall(rows, before, after, is_timed=is_timed)
    return rendered(
        "diff.html.j2",
        base=base,
        now=now,
        diff=diff,
        verdict=marks.of_verdict(diff.verdict),
        meaning=_meaning(diff, before, after, is_timed=is_timed),
        whole=marks.of_verdict(diff.total.verdict) if is_timed else "mute",
        headline=_headline(before, after, is_timed=is_timed),
        split=split([row for row in rows if row.is_op]) if is_timed and not calls_vary(rows) else [],
        remarks=remarks,
        is_timed=is_timed,
        steps=steps,
        high=max((max(step.before, step.after) for step in steps), default=0) or 1,
        rows=[
            (row.title, row, _calls(row), marks.of_verdict(row.verdict), _direction(row, row.change_ns)) for row in rows
        ],
        larger=[(row.title, row, word(row.op, row.work.verdict)) for row in rows if row.work.verdict.does_more],
        widest=max((ns for row in rows for ns in (row.base_ns, row.now_ns) if ns), default=1),
        most=max((abs(row.change_ns) for row in rows), default=0) or 1,
    )


def _meaning(diff: Diff, before: float, after: float, *, is_timed: bool) -> str:
    """Return sentences that explain the verdict of the comparison: first the whole, then how many ops changed."""
    worse, better = ([row for row in diff.rows if row.verdict.sense == sense] for sense in ("worse", "better"))
    total = _in_total(diff, before, after, is_timed=is_timed)
    if not worse:
        better_too = f", {_counted(better, 'better')}" if better else " or better"
        return f"{total}: no op is worse{better_too}."
    counted = f"{_counted(worse, 'worse')}, {_counted(better, 'better') if better else 'no op is better'}"
    worst = worse[0]
    what = f"{worst.title}, {_calls(worst)} calls" if worst.more_calls > 0 else diff.finding(worst).short
    return f"{total}: {counted}. The worst: {what.replace(' -> ', ' → ')}."


def _in_total(diff: Diff, before: float, after: float, *, is_timed: bool) -> str:
    """Return the change of the whole in words."""
    if before == after:
        return f"As {'much time' if is_timed else 'many calls'} as before in total"
    change = format_change(before, after)
    if not is_timed:
        more = "more" if after > before else "fewer"
        return f"{plural(abs(round(after - before)), f'{more} call')} in total ({change})"
    if diff.times or diff.total.verdict is Verdict.NOISY:
        change += ", not judged"
    elif not diff.total.verdict.is_change:
        change += f", within the tolerance of {format_share(diff.tolerances.tolerance)}"
    return f"{format_ns(abs(after - before))} {'slower' if after > before else 'faster'} in total ({change})"


def _counted(rows: Sequence[Row], sense: Sense) -> str:
    """Return how many *rows* there are, of each verdict: ``3 ops are worse (2 with more calls, 1 slower)``."""
    ops = Counter(row.verdict.words for row in rows if row.is_op)
    how = ", ".join(f"{number} {word}" for word, number in ops.items()) if len(ops) > 1 else "".join(ops)
    found = [plural(ops.total(), "op")] if ops else []
    found += [row.title.strip("()") for row in rows if not row.is_op]
    return f"{' and '.join(found)} {'is' if len(rows) == 1 else 'are'} {sense}" + (f" ({how})" if how else "")


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
        steps.append(_Step(row.title, at, at + amount, signed(amount, write(abs(amount))), _direction(row, amount)))
        at += amount
    # Times of ops and of the whole may come from different rounds, so a rest is shown without a cause.
    if write(abs(after - at)) != write(0) and (after != at):
        name = plural(len(changed) - len(shown), "other op") if len(changed) > len(shown) else "all the rest"
        steps.append(_Step(name, at, after, signed(after - at, write(abs(after - at))), "mute"))
    return [*steps, _Step("now", 0, after, write(after), "mute")]


def _direction(row: Row, amount: int) -> marks.Kind:
    """Return the mark of a bar: an op with more calls that takes less time was judged by its calls, not by its time."""
    is_told = row.verdict.is_regression if amount > 0 else row.verdict.is_improvement
    return marks.of_verdict(row.verdict) if is_told else "mute"


def _writer(*, is_timed: bool) -> Callable[[float], str]:
    return format_ns if is_timed else lambda calls: plural(round(calls), "call")


def _amount(row: Row, *, is_timed: bool) -> int:
    return row.change_ns if is_timed else row.more_calls


def _most(counts: OpCounts | None) -> int:
    return counts.calls.most if counts else 0


def _calls(row: Row) -> str:
    return arrow(*(str(calls or 0) for calls in row.calls)) if row.is_op else ""

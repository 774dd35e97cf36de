"""The properties that a table needs of a changed op, of a fresh comparison or of a stored one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..profile.timings import OUTSIDE
from .quantities import SUMS, is_fact, named, word

if TYPE_CHECKING:
    from ..profile.range import Range
    from .findings import Finding
    from .verdicts import Verdict


class Changed:
    """An op, the time outside ops, or a fact of the window, before and now."""

    __slots__ = ()
    if TYPE_CHECKING:
        op: str
        verdict: Verdict
        base_ns: int | None
        now_ns: int | None

        @property
        def calls(self) -> tuple[Range | None, Range | None]:
            """Its calls before and now."""

    @property
    def word(self) -> str:
        """The verdict, in a table's words."""
        return word(self.op, self.verdict)

    def became(self, *, accepted: bool) -> str:
        """Return its change in a table's words, and whether a commit accepts it; empty without a change."""
        return f"{self.word}{', accepted' if accepted else ''}" if self.verdict.is_change else ""

    @property
    def is_fact(self) -> bool:
        """Whether it is about the window as a whole; an op of the program may have the name of a quantity."""
        return is_fact(self.op) and self.calls == (None, None)

    @property
    def is_op(self) -> bool:
        """Whether it is about an op, not about the time outside ops or a fact of the window."""
        return self.op != OUTSIDE and not self.is_fact

    @property
    def title(self) -> str:
        """Its name in a table."""
        return named(self.op) if self.is_fact else self.op

    @property
    def is_told_as_a_whole(self) -> bool:
        """Whether it is a sum over all ops and follows from them: `as_a_whole` has all of these."""
        return self.is_fact and self.op in SUMS and not self.verdict.is_change

    @property
    def change_ns(self) -> int:
        """The extra device time of the op; negative if it takes less."""
        return (self.now_ns or 0) - (self.base_ns or 0)

    @property
    def more_calls(self) -> int:
        """The number of calls more than in the base, in the worst round."""
        base, now = (calls.most if calls else 0 for calls in self.calls)
        return now - base

    @property
    def from_calls_ns(self) -> int:
        """The part of the change that comes from more (or fewer) calls, each at its earlier price."""
        if self.op == OUTSIDE:
            return 0
        base = self.calls[0].most if self.calls[0] else 0
        return round(self.more_calls * self.base_ns / base) if base and self.base_ns else self.change_ns


def calls_vary(rows: Iterable[Changed]) -> bool:
    """Return True if calls of an op differ between rounds, so that no single number belongs to the fastest round."""
    return any(calls.least != calls.most for row in rows for calls in row.calls if calls)


def split(rows: Sequence[Changed]) -> list[tuple[int, str]]:
    """Return the parts of the change of a window's time, in ns, each with its cause."""
    ops = [row for row in rows if row.is_op]
    in_ops, by_calls = sum(row.change_ns for row in ops), sum(row.from_calls_ns for row in ops)
    parts = [
        (by_calls, "more calls" if by_calls > 0 else "fewer calls"),
        (in_ops - by_calls, "slower calls" if in_ops > by_calls else "faster calls"),
        (sum(row.change_ns for row in rows) - in_ops, "outside ops"),
    ]
    return [part for part in parts if part[0]]


def titles(findings: Iterable[Finding], rows: Sequence[Changed]) -> dict[str, str]:
    """Return the ops and facts of *findings*, each with its name in a table; *rows* are the rows of the window."""
    found: dict[str, str] = {}
    for each in findings:
        if each.op and each.op not in found:
            other = named(each.op) if each.is_regression else each.op
            found[each.op] = next((row.title for row in rows if row.op == each.op), other)
    return found

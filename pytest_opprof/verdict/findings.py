"""Findings, which fail a test: a broken limit or a regression."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from ..profile.op_counts import NONE, OpCounts, listed
from ..profile.site_calls import SourceLine
from ..units import plural
from .quantities import OF_TYPE, QUANTITIES, SHARE_OF_TIME, words
from .verdicts import Verdict

if TYPE_CHECKING:
    from .diff import Row

NO_OP = "no op"
CAST = "Cast"
# Dtypes before and now.
_Change = tuple[str, str]
RANKS, RANKS_DIFFER, OVER_BUDGET = "ranks", "ranks differ", "over budget"
_REGRESSIONS = words(worse=True)
_LIMITS = frozenset([*QUANTITIES, SHARE_OF_TIME.name, "only", "top"])


class Finding(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One broken limit or one regression; its `str` is the printed line."""

    rule: Annotated[str, Meta(description="The kind of the broken limit, or the change of the op.")]
    op: Annotated[str | None, Meta(description="The op, or the fact of the window; null for the whole window.")]
    text: str
    short: Annotated[
        str, Meta(description="The finding in a few words; empty if it only continues the one before.")
    ] = ""
    ops: Annotated[tuple[str, ...], Meta(description="The ops with extra calls from one line; else empty.")] = ()
    line: Annotated[SourceLine | None, Meta(description="The line of the program that causes it, if known.")] = None
    over_budget: Annotated[
        bool,
        Meta(description="Whether the change also breaks a limit of the budget; the text has the limit."),
    ] = False

    def __str__(self) -> str:
        return self.text

    @property
    def adds(self) -> bool:
        """Whether it only continues the finding before it: a consequence, or a source line."""
        return not self.short

    @property
    def is_regression(self) -> bool:
        """Whether it is a change for the worse since the baseline, which an update accepts."""
        return self.rule in _REGRESSIONS and not self.adds

    @property
    def breaks_budget(self) -> bool:
        """Whether it breaks a limit of the budget, which only another limit accepts."""
        return self.over_budget or (self.rule in _LIMITS and not self.adds)

    @property
    def kinds(self) -> list[str]:
        """The kinds of finding that it is, in a table's words: ``over budget``, ``more calls``."""
        found = [OVER_BUDGET] if self.breaks_budget else [RANKS_DIFFER] if self.rule == RANKS else []
        return [*found, *([self.rule] if self.is_regression else [])]


class LimitResult(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A limit of the test's budget, and its use."""

    rule: Annotated[str, Meta(description="The limited quantity, as in a cause: calls, device_time, only.")]
    limit: Annotated[str, Meta(description="As people write it, with its unit.")]
    op: Annotated[str | None, Meta(description="The op's name in the budget; null for the whole window.")] = None
    used: Annotated[str, Meta(description="The use, as people write it; empty for only and top.")] = ""
    share: Annotated[float | None, Meta(description="The use as a share of the upper limit; null if that is 0.")] = None
    is_broken: bool = False


@dataclass(frozen=True, slots=True)
class Broken:
    """A number that breaks a limit of the budget. Its text is composed here, or together with the base's number."""

    rule: str
    """The kind of limit, as in `Finding`."""
    op: str | None
    """The op; None for the whole window."""
    quantity: str
    now: str
    """The number, in words: ``Cast: 3 calls``."""
    limit: str
    short: str
    """The finding in a few words."""
    instead: str = ""
    """The limit in words, if it is not told as a number."""

    @classmethod
    def of(cls, limit: LimitResult) -> Broken:
        """Return the number that breaks a numeric *limit*."""
        rule, op, used = limit.rule, limit.op, limit.used
        what = QUANTITIES.get(rule, SHARE_OF_TIME)
        if op and rule == "calls":
            now, short = f"{op}: {plural(used, 'call')}", op
        elif op and op.startswith(OF_TYPE):
            short = f"{op.removeprefix(OF_TYPE)} {what.text}"
            now = f"{short}: {used}"
        else:
            now, short = f"{op}: {what.text} {used}" if op else f"{what.called}: {used}", what.of(op)
        return cls(rule, op, rule, now, limit.limit, f"{short} {used}, budget {limit.limit}")

    @classmethod
    def of_only(cls, op: str, calls: int, limit: LimitResult) -> Broken:
        """Return the *calls* of an *op* that the *limit* ``only`` does not allow."""
        rule = f", but {'' if limit.limit == NO_OP else 'only '}{limit.limit} may run"
        return cls("only", op, "calls", f"{op}: {plural(calls, 'call')}", "0", f"{op} {calls}, budget 0", rule)

    def __str__(self) -> str:
        return self.now + (self.instead or (f" (budget: {self.limit})" if self.limit else ""))

    @property
    def finding(self) -> Finding:
        """The finding about this limit alone."""
        return Finding(self.rule, self.op, str(self), self.short)

    @property
    def is_about_time(self) -> bool:
        """Whether it depends on a measured time, which is noisy."""
        return self.rule in ("device_time", "host_time", "share", "top")


def with_consequences(findings: Sequence[Finding], rows: Mapping[str, Row], then: str) -> list[Finding]:
    """Return *findings* with the ops in wider dtypes joined: below the cast to these, else below the first such op.

    *rows* are the rows of the window by op; *then* names the base. No backend reports the data flow, so the text says
    that both changed, not that one follows from the other.
    """
    failing = [rows[each.op] for each in findings if each.is_regression and each.op and each.op in rows]
    casts = [change for row in failing if row.op == CAST for key in _grown(row) if (change := _made_by(key))]
    below: dict[str, dict[_Change, list[str]]] = {}
    leaders: dict[_Change, str] = {}
    followers = set[str]()
    for row in failing:
        if row.verdict is not Verdict.WIDER:
            continue
        change = next((each for each in casts if all(_has(key, each[1]) for key in _grown(row))), None)
        change, leader = (change, CAST) if change else (_change(row), row.op)
        leader = leaders.setdefault(change, leader)
        if leader != row.op:
            below.setdefault(leader, {}).setdefault(change, []).append(row.op)
            followers.add(row.op)
    told = []
    for each in findings:
        if each.op in followers and each.is_regression:
            continue
        told.append(each)
        for (_, after), ops in below.get(each.op or "", {}).items() if each.is_regression else ():
            run, too = ("runs" if len(ops) == 1 else "run"), ("" if each.op == CAST else ", too")
            # Not the dtype that the cast is from: a bool became float32 where the ops had been float16.
            was = {_change(rows[op])[0] for op in ops}
            text = f"  {listed(ops)} now {run} in {after}{f' ({then}: {was.pop()})' if len(was) == 1 else ''}{too}"
            told.append(Finding(Verdict.WIDER.value, None, text))
    return told


def _grown(row: Row) -> Mapping[str, int]:
    return row.now.grown_dtypes(row.base or OpCounts(NONE)) if row.now else {}


def _change(row: Row) -> _Change:
    base, now = row.base or OpCounts(NONE), row.now or OpCounts(NONE)
    return ", ".join(base.grown_dtypes(now)), ", ".join(now.grown_dtypes(base))


def _made_by(dtypes: str) -> _Change | None:
    """Return the source and target dtype of a cast; None for dtypes of another form.

    >>> _made_by("float32->float64"), _made_by("float32")
    (('float32', 'float64'), None)
    """
    before, arrow, after = dtypes.partition("->")
    return (before, after) if arrow else None


def _has(dtypes: str, wanted: str) -> bool:
    return wanted in re.findall(r"\w+", dtypes)

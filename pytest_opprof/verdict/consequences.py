"""Join cause and consequence among findings: ops in wider dtypes stand below the cast to these dtypes.

The rule compares dtypes, since no backend reports the data flow. The text therefore says that both changed, not that
one follows from the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..profile.op_counts import NONE, OpCounts, listed
from .findings import Finding
from .verdicts import Verdict

if TYPE_CHECKING:
    from .compare import Row

CAST = "Cast"
# Dtypes before and now.
_Change = tuple[str, str]


def with_consequences(findings: Sequence[Finding], rows: Mapping[str, Row], then: str) -> list[Finding]:
    """Return *findings* with the ops in wider dtypes joined: below the cast to these, else below the first such op.

    *rows* are the rows of the window by op; *then* names the base.
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
        for (before, after), ops in below.get(each.op or "", {}).items() if each.is_regression else ():
            run, too = ("runs" if len(ops) == 1 else "run"), ("" if each.op == CAST else ", too")
            text = f"  {listed(ops)} now {run} in {after} ({then}: {before}){too}"
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

"""Findings, which fail a test: a broken limit or a regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct, structs

from ..profile.site_calls import SourceLine
from .quantities import QUANTITIES, SHARE_OF_TIME, words

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

    @property
    def is_about_time(self) -> bool:
        """Whether it depends on a measured time, which is noisy."""
        return self.rule in ("device_time", "host_time", "share", "top")


def joined(limits: Sequence[Finding], regressions: Sequence[Finding], then: str) -> tuple[list[Finding], list[Finding]]:
    """Return the broken *limits* and the *regressions*; a regression that also breaks a limit is told once, as a limit.

    Both name the same number of the same op or quantity: ``Cast: 3 calls (budget: 1)`` and ``Cast: 3 calls (baseline:
    1)`` become ``Cast: 3 calls (budget: 1, baseline: 1)``. *then* names the base.
    """
    found, others = [], list(regressions)
    for limit in limits:
        same = next((each for each in others if _in_both(limit, each, then)), None)
        if same:
            others.remove(same)
        found.append(_in_both(limit, same, then) or limit if same else limit)
    return found, others


def _in_both(limit: Finding, regression: Finding, then: str) -> Finding | None:
    """Return the finding that tells a broken *limit* and a *regression*; None if they are about different numbers."""
    number, base, before = regression.text.rpartition(f" ({then}: ")
    if not base or regression.adds or (limit.op or limit.rule) != regression.op:
        return None
    budget = limit.text.removeprefix(number)
    if budget.startswith(" (budget: "):
        text = f"{number}{budget.removesuffix(')')}, {then}: {before}"
    elif budget.startswith(","):  # of the limit "only"
        text = f"{regression.text}{budget}"
    else:
        return None
    at = limit.short.rpartition(", ")[2]
    return structs.replace(regression, text=text, short=f"{regression.short} ({at})", over_budget=True)

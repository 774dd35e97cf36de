"""Findings, which fail a test: a broken limit or a regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

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

    def __str__(self) -> str:
        return self.now + (self.instead or f" (budget: {self.limit})")

    @property
    def finding(self) -> Finding:
        """The finding about this limit alone."""
        return Finding(self.rule, self.op, str(self), self.short)

    @property
    def is_about_time(self) -> bool:
        """Whether it depends on a measured time, which is noisy."""
        return self.rule in ("device_time", "host_time", "share", "top")


class LimitResult(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A limit of the test's budget, and its use."""

    rule: Annotated[str, Meta(description="The limited quantity, as in a cause: calls, device_time, only.")]
    limit: Annotated[str, Meta(description="As people write it, with its unit.")]
    op: Annotated[str | None, Meta(description="The op's name in the budget; null for the whole window.")] = None
    used: Annotated[str, Meta(description="The use, as people write it; empty for only and top.")] = ""
    share: Annotated[float | None, Meta(description="The use as a share of the upper limit; null if that is 0.")] = None
    is_broken: bool = False

"""Findings, which fail a test: a broken limit or a regression."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..profile.site_calls import SourceLine


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

    def __str__(self) -> str:
        return self.text

    @property
    def adds(self) -> bool:
        """Whether it only continues the finding before it: a consequence, or a source line."""
        return not self.short

    @property
    def is_about_time(self) -> bool:
        """Whether it depends on a measured time, which is noisy."""
        return self.rule in ("device_time", "host_time", "share", "top")

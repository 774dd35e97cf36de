"""What fails a test: a broken limit, or a regression."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken limit or one regression; its `str` is the line to print."""

    rule: str
    op: str | None
    text: str
    cause: str = ""
    """The same in a few words, for a summary; empty for a line that only adds to another."""

    def __str__(self) -> str:
        return self.text

    @property
    def is_about_time(self) -> bool:
        """Whether it depends on a measured time, which has noise."""
        return self.rule in ("device_time", "host_time", "share", "top")

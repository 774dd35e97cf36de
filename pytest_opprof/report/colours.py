"""The colours of a failing test on a terminal: worse, better, the command. Words say it, too."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Literal, NamedTuple, Protocol

from ..verdict.verdicts import Sense
from .escaping import terminal

Tone = Sense | Literal["title", "command"]
_COLOURS: Mapping[Tone, tuple[str, int]] = {
    "title": ("bold", 1),
    "worse": ("red", 31),
    "better": ("green", 32),
    "command": ("cyan", 36),
}
"""The name of each colour in pytest, and its code."""


class TextLine(NamedTuple):
    """A line for people, and its tone: worse or better than before, neither, a title or a command."""

    text: str
    tone: Tone = "neither"


class Writer(Protocol):
    """Pytest's writer for a terminal; elsewhere it leaves out the colours."""

    def line(self, text: str, **markup: bool) -> None:
        """Write a line."""


def toned(lines: Sequence[str], tones: Sequence[Tone]) -> list[TextLine]:
    """Return *lines* with their tones, which travel beside them; a line without a tone is neither worse nor better."""
    every: Iterator[Tone] = chain(tones, repeat("neither"))
    return [TextLine(text, tone) for text, tone in zip(lines, every)]


def write(writer: Writer, lines: Iterable[TextLine]) -> None:
    """Write lines in the colours of their tones."""
    for text, tone in lines:
        writer.line(text, **({_COLOURS[tone][0]: True} if tone in _COLOURS else {}))


def show(lines: Iterable[TextLine]) -> None:
    """Print lines, in colour on a terminal; NO_COLOR and FORCE_COLOR decide elsewhere."""
    forced = "FORCE_COLOR" in os.environ
    wanted = forced or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")
    coloured = wanted and not os.environ.get("NO_COLOR")
    for text, tone in lines:
        safe = terminal(text)
        print(f"\x1b[{_COLOURS[tone][1]}m{safe}\x1b[0m" if coloured and tone in _COLOURS else safe)

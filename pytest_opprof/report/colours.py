"""The colours of a failing test on a terminal: what is worse, what is better, what to do. Words say it, too."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import Literal, Protocol

from ..verdict.quantities import words

Colour = Literal["bold", "red", "green", "cyan"]
_WORSE = {"over budget", *words(worse=True)}
_BETTER = words(worse=False)
_FINDING = re.compile(r"  [^ (]| +\+\d")
"""What fails the test, below its headline; a line of the program that asks for more."""
_CODES: dict[Colour, int] = {"bold": 1, "red": 31, "green": 32, "cyan": 36}


class Writer(Protocol):
    """What pytest writes to a terminal with; without one it leaves out the colours."""

    def line(self, text: str, **markup: bool) -> None:
        """Write a line."""


def colour(line: str) -> Colour | None:
    """Return the colour of a line of `failure`.

    >>> colour("  Cast: 3 calls (baseline: 2)"), colour("Cast    3 -> 2    7.91 us    fewer calls")
    ('red', 'green')
    """
    if line.startswith(("op budget exceeded: ", "op regression: ", "where ")):
        return "bold"
    if line.startswith("to accept this change: "):
        return "cyan"
    verdicts = set(line.rpartition("  ")[2].split(", "))
    if _FINDING.match(line) or verdicts & _WORSE:
        return "red"
    return "green" if verdicts & _BETTER else None


def write(writer: Writer, lines: Iterable[str]) -> None:
    """Write the lines of a message in their colours."""
    for line in lines:
        found = colour(line)
        writer.line(line, **({found: True} if found else {}))


def painted(line: str) -> str:
    """Return *line* as standard output has it: in colour on a terminal, as NO_COLOR and FORCE_COLOR say elsewhere."""
    wanted = "FORCE_COLOR" in os.environ or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")
    found = colour(line) if wanted and not os.environ.get("NO_COLOR") else None
    return f"\x1b[{_CODES[found]}m{line}\x1b[0m" if found else line

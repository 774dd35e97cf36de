"""Trace Python's memory by `tracemalloc`, and name the program's line of an allocation."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ...sites.code import Kind, kinds, relative
from ...units import parse

AMOUNT = re.compile(r"\d[\d.]* [KMGT]?i?B\b")
# The number of a line behind its file.
LINE_NUMBER = re.compile(r":\d+")


class Where(NamedTuple):
    """The holder of leftovers, or the lines that made them."""

    text: str
    line: str = ""
    """The line of the program in it, of several the first: ``engine.py:9``; empty without one."""


def amount(said: str) -> float:
    """Return the bytes that a holder has, from its words (``4.96 MiB at models.py:238``); 0 without one."""
    found = AMOUNT.search(said)
    return parse(found[0]).value if found else 0


def joined(parts: Sequence[Where]) -> Where:
    """Return *parts* as one: all texts, and the first line."""
    return Where("; ".join(each.text for each in parts), next((each.line for each in parts if each.line), ""))


def parts(text: str) -> list[str]:
    """Return the texts that `joined` joined: a semicolon in code or in parentheses ends none."""
    found, depth, is_code = [""], 0, False
    for at, each in enumerate(text):
        is_code ^= each == "`"
        depth = depth if is_code else max(depth + (each == "(") - (each == ")"), 0)
        if text.startswith("; ", at) and not depth and not is_code:
            found.append("")
        else:
            found[-1] += each
    return [part.strip() for part in found]


def made_at(lines: Sequence[str]) -> Iterator[Where]:
    """Yield the *lines* that made something, in words, if any is known."""
    if lines:
        yield Where(f"made at {', '.join(lines)}", lines[0])


@contextmanager
def traced(frames: int) -> Iterator[bool]:
    """Trace memory in the context, with so many *frames* an allocation; yield False if the program does so itself."""
    is_ours = not tracemalloc.is_tracing()
    if is_ours:
        tracemalloc.start(frames)
    try:
        yield is_ours
    finally:
        if is_ours:
            tracemalloc.stop()


def line_of(frames: Sequence[tracemalloc.Frame], is_own: Callable[[str], bool] = bool) -> str:
    """Return the innermost line of the program in the *frames* of an allocation, oldest first; empty without one.

    *is_own* tells the files whose lines come before those of packages that they call.
    """
    traced = [frame for frame in frames if kinds[frame.filename] is Kind.TRACED]
    own = [frame for frame in traced if is_own(frame.filename)] or traced
    return f"{relative(own[-1].filename)}:{own[-1].lineno}" if own else ""

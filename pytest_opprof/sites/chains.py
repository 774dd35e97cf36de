"""Call chains, each kept once: a tree whose nodes have numbers, so that an event needs one int for its whole chain."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import NamedTuple

# The node of an op with an unknown chain, and the parent of the first nodes.
UNKNOWN = 0
# By number of a node: the number of its caller; its file, function and line.
Nodes = Sequence[tuple[int, str, str, int]]
_COMPREHENSIONS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>"))


def qualified_name(code: CodeType) -> str:
    """Return the qualified name of a function; on Python 3.10 the name alone."""
    return getattr(code, "co_qualname", code.co_name)


def line_number(frame: FrameType) -> int:
    """Return the line that runs in *frame*; of code without a line, the one before it.

    The jump at the end of a loop has none. There Python hands its lock over, and runs finalizers and signal handlers.
    """
    line: int | None = frame.f_lineno
    if line is None:
        code = frame.f_code
        before = [line for start, _, line in code.co_lines() if line is not None and start <= frame.f_lasti]
        line = before[-1] if before else code.co_firstlineno
    return line


class Frame(NamedTuple):
    """A line of a running function."""

    file: str
    """Absolute; ``<doctest name>`` for an example in a docstring."""
    function: str
    """The qualified name; on Python 3.10 the name alone."""
    line: int


class Chains:
    """Chains of calls, each under a number. Keeps their code objects, never frames."""

    def __init__(self) -> None:
        self.by_instructions: dict[tuple[tuple[int, int], ...], int] = {}
        """Nodes for `stack.here`, by the code and instruction of each frame."""
        self._nodes = [(UNKNOWN, "", "", 0)]
        self._numbers: dict[tuple[int, str, str, int], int] = {}
        # By id: as keys, functions of two files that read the same are equal. Codes are kept so that ids stay valid.
        self._known: dict[tuple[int, int, int], int] = {}
        self._codes: dict[int, CodeType] = {}

    def node(self, parent: int, code: CodeType, line: int) -> int:
        """Return the number of *line* in *code*, called from the node *parent*; 0.2 us if it is known."""
        key = parent, id(code), line
        found = self._known.get(key)
        if found is None:
            self._codes[id(code)] = code
            found = self._known[key] = self._number(parent, code, line)
        return found

    def of_lines(self, lines: Sequence[Frame], caller: int = UNKNOWN) -> int:
        """Return the number of a chain given by *lines*, the innermost first, called from a node."""
        number = caller
        for file, function, line in reversed(lines):
            number = self._numbered((number, file, function, line))
        return number

    def caller(self, node: int) -> int:
        """Return the node that called a *node*."""
        return self._nodes[node][0]

    def line(self, node: int) -> Frame:
        """Return the innermost frame of a *node*."""
        return Frame(*self._nodes[node][1:])

    def frames(self, node: int) -> tuple[Frame, ...]:
        """Return the chain of *node*, the innermost frame first."""
        return frames_of(self._nodes, node)

    def frozen(self) -> Nodes:
        """Return all chains as plain data, for `frames_of`; the numbers of nodes stay as they are."""
        return tuple(self._nodes)

    def _number(self, parent: int, code: CodeType, line: int) -> int:
        file, function = code.co_filename, qualified_name(code)
        if not file.startswith("<"):
            file = os.path.abspath(file)
        around, callers_file, caller, _ = self._nodes[parent]
        if code.co_name in _COMPREHENSIONS and callers_file == file:
            # As from Python 3.12 on, where a comprehension is no function of its own.
            parent, function = around, caller
        return self._numbered((parent, file, function, line))

    def _numbered(self, node: tuple[int, str, str, int]) -> int:
        number = self._numbers.setdefault(node, len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(node)
        return number


def frames_of(nodes: Nodes, node: int) -> tuple[Frame, ...]:
    """Return the chain of *node* in frozen chains, the innermost frame first; empty for an unknown one."""
    frames = []
    while node:
        node, file, function, line = nodes[node]
        frames.append(Frame(file, function, line))
    return tuple(frames)

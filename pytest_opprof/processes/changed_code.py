"""The lines of Python files that differ from another revision: those that git reports, as whole statements."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence

# All lines of a file that the other revision lacks.
EVERY_LINE = range(1, sys.maxsize)
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")
_NEW_NAME = "+++ "


def ranges_of(diff: str) -> dict[str, list[range]]:
    """Return the changed lines by file, from the output of ``git diff --unified=0 --no-prefix``.

    Where lines were only removed it is the line after them, which now runs in their place.
    """
    found: dict[str, list[range]] = {}
    ranges, in_header = list[range](), False
    for line in diff.split("\n"):
        if line.startswith("diff --git "):
            ranges, in_header = [], True
        elif in_header and line.startswith(_NEW_NAME):
            ranges = found.setdefault(line.removeprefix(_NEW_NAME).rstrip("\t"), [])
        elif hunk := _HUNK.match(line):
            in_header = False
            begin, lines = int(hunk[1]), int(hunk[2] or 1)
            ranges.append(range(begin, begin + lines) if lines else range(begin + 1, begin + 2))
    return found


def whole_statements(source: bytes, ranges: Sequence[range]) -> list[range]:
    """Return *ranges* of lines with those of each statement that they are part of.

    A call has the line where it begins, although an argument on another line changed. Of a statement with a body it is
    the header. Source that cannot be parsed leaves them as they are.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return [*ranges]
    spans = [each for each in _spans(tree) if len(each) > 1]
    parts = [span for span in spans if any(each.start < span.stop and span.start < each.stop for each in ranges)]
    return [*ranges, *parts]


def _spans(tree: ast.AST) -> Iterator[range]:
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None) or getattr(node, "cases", None)
            first = body[0] if body else None
            begins = getattr(first, "pattern", first)  # a case has no line of its own
            yield range(node.lineno, begins.lineno if begins else (node.end_lineno or node.lineno) + 1)

"""Accept changes by a commit message: lines ``Opprof-Accept: [TESTS] OP[=+CALLS], ... [(REASON)]``."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..errors import UsageError
from ..verdict.diff import Diff, Row
from .test_id import function_of, split_id

TRAILER = "Opprof-Accept"
_REASON_LENGTH = 200
# A squash joins several messages into a list, so the trailer can stand in the middle.
_LINE = re.compile(rf"^[ \t]*(?:[*-][ \t]+)?{TRAILER}:(.*(?:\n[ \t]+\S.*)*)", re.IGNORECASE | re.MULTILINE)
_NAME = re.compile(r"[^\s\"'\\,]*\.py[^\s\"'\\,]*")
_MOST_LINES = 8
"""More lines than these are too many for a commit message."""
_OP = re.compile(r"(.+?)(?:=(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One trailer: the changes that a commit accepts."""

    commit: str
    tests: str
    """A test id, a function with all its parameters, or a glob of ids; empty: all tests."""
    ops: Mapping[str, int | None]
    """The number of extra calls that is accepted for each op; None: any change."""
    reason: str = ""

    def __str__(self) -> str:
        return self.commit[:10] + (f" ({self.reason})" if self.reason else "")

    def covers(self, test: str, row: Row) -> bool:
        """Return True if the trailer accepts the change of *row* in *test*."""
        is_named = self.tests in ("", test, function_of(test))
        if row.accepted_as not in self.ops or not (is_named or fnmatchcase(test, self.tests)):
            return False
        more = self.ops[row.accepted_as]
        return more is None or row.more_calls <= more


def lines_of(message: str) -> list[str]:
    """Return the text of every trailer in a commit's *message*, including trailers inside a squashed list."""
    return [" ".join(match[1].split()) for match in _LINE.finditer(message)]


def parsed(text: str, commit: str) -> Acceptance:
    """Parse a trailer. Raises UsageError, which shows the correct form."""
    listed, *rest = re.split(r"(?:^|\s)\(", text, maxsplit=1)
    reason = "".join(rest)
    if rest and not reason.endswith(")"):
        raise _wrong(text, commit, "the reason has no closing parenthesis")
    try:
        words = [word.rstrip(",") for word in shlex.split(listed)]
    except ValueError as error:
        raise _wrong(text, commit, str(error).lower()) from None
    words = [word for word in words if word]
    # An op name may contain "::" too, so only a file name tells a test from an op.
    tests = words.pop(0) if words and (".py" in words[0] or "/" in words[0]) else ""
    ops: dict[str, int | None] = {}
    for word in ",".join(words).split(","):
        match = _OP.fullmatch(word)
        if not match:
            raise _wrong(text, commit, "it names no op")
        name, more = match.groups()
        if more is not None and not re.fullmatch(r"\+\d{1,15}", more, re.ASCII):
            raise _wrong(text, commit, f"{word!r} is no number of extra calls")
        ops[name] = None if more is None else int(more)
    shown = "".join(each if each.isprintable() else "?" for each in reason.removesuffix(")"))
    return Acceptance(commit, tests, ops, shown[:_REASON_LENGTH])


def _wrong(text: str, commit: str, why: str) -> UsageError:
    return UsageError(
        f"{TRAILER} in {commit[:10]}: {text[:_REASON_LENGTH]!r}: {why};"
        f" write {TRAILER}: Where, Equal, or {TRAILER}: tests/test_a.py::* Where=+15 (the reason)"
    )


def accepted(acceptances: Iterable[Acceptance], test: str, diff: Diff) -> dict[str, Acceptance]:
    """Return the accepted ops of *test* (`Row.accepted_as`), each with the trailer that accepts it."""
    listed = list(acceptances)
    found = {row.accepted_as: next((each for each in listed if each.covers(test, row)), None) for row in diff.worse}
    return {op: each for op, each in found.items() if each}


def proposed(by_test: Mapping[str, Sequence[Row]]) -> list[str]:
    """Return the narrowest trailers that accept all rows that got worse of the tests: a line for each function.

    Many functions share a line by module, and many modules one line for all tests.
    """
    only = Counter(map(function_of, by_test))
    lines: list[str] = []
    for level in (
        {test: test if only[function_of(test)] == 1 else function_of(test) for test in by_test},
        {test: f"{split_id(test)[0]}::*" for test in by_test},
        dict.fromkeys(by_test, ""),
    ):
        most: dict[str, dict[str, int | None]] = {}
        for test, rows in by_test.items():
            # Quotes and commas would be read as more than one word.
            names = (level[test], function_of(test), "")
            ops = most.setdefault(next(name for name in names if not name or _NAME.fullmatch(name)), {})
            for row in rows:
                counts = row.is_op and not row.is_total
                ops[row.accepted_as] = max(ops.get(row.accepted_as) or 0, row.more_calls) if counts else None
        lines = [
            f"{TRAILER}: {name}{' ' if name else ''}"
            + ", ".join(shlex.quote(op) + ("" if more is None else f"=+{more}") for op, more in ops.items())
            for name, ops in most.items()
        ]
        if len(lines) <= _MOST_LINES:
            break
    return lines

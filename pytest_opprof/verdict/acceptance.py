"""Changes that a commit accepts: lines ``Opprof-Accept: [TESTS] OP[=+CALLS], ... [(REASON)]`` of its message."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from ..errors import UsageError
from .compare import Diff, Row

TRAILER = "Opprof-Accept"
TIME = "time"
"""The name that accepts a slower window, which is of no op."""
_REASON_LENGTH = 200
# A squash of several commits puts their messages into a list, and the trailer into the middle.
_LINE = re.compile(rf"^[ \t]*(?:[*-][ \t]+)?{TRAILER}:(.*(?:\n[ \t]+\S.*)*)", re.IGNORECASE | re.MULTILINE)
_OP = re.compile(r"(.+?)(?:=(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a line of a commit message accepts."""

    commit: str
    tests: str
    """A test id or a glob of ids; empty: all tests."""
    ops: Mapping[str, int | None]
    """How many calls more of each op; None: whatever became of it."""
    reason: str = ""

    def __str__(self) -> str:
        return self.commit[:10] + (f" ({self.reason})" if self.reason else "")

    def covers(self, test: str, row: Row) -> bool:
        """Tell whether it accepts what became of a *row* in *test*."""
        if self.tests and test != self.tests and not fnmatchcase(test, self.tests):
            return False
        if row.op not in self.ops:
            return False
        more = self.ops[row.op]
        return more is None or _more_calls(row) <= more


def _more_calls(row: Row) -> int:
    base, now = ((calls.most if calls else 0) for calls in row.calls)
    return now - base


def lines_of(message: str) -> list[str]:
    """Return the texts of all trailers in a commit's *message*, also where a squash put them into its middle."""
    return [" ".join(match[1].split()) for match in _LINE.finditer(message)]


def parsed(text: str, commit: str) -> Acceptance:
    """Return what a trailer accepts. Raises UsageError, with how to write it."""
    listed, *rest = re.split(r"(?:^|\s)\(", text, maxsplit=1)
    reason = "".join(rest)
    if rest and not reason.endswith(")"):
        raise _wrong(text, commit, "the reason has no closing parenthesis")
    try:
        words = [word.rstrip(",") for word in shlex.split(listed)]
    except ValueError as error:
        raise _wrong(text, commit, str(error).lower()) from None
    words = [word for word in words if word]
    # An op may have "::" in its name, too, but no file.
    tests = words.pop(0) if words and (".py" in words[0] or "/" in words[0]) else ""
    ops: dict[str, int | None] = {}
    for word in ",".join(words).split(","):
        match = _OP.fullmatch(word)
        if not match:
            raise _wrong(text, commit, "it names no op")
        name, more = match.groups()
        if more is not None and not re.fullmatch(r"\+\d{1,15}", more, re.ASCII):
            raise _wrong(text, commit, f"{word!r} is no number of calls more")
        ops[name] = None if more is None else int(more)
    shown = "".join(each if each.isprintable() else "?" for each in reason.removesuffix(")"))
    return Acceptance(commit, tests, ops, shown[:_REASON_LENGTH])


def _wrong(text: str, commit: str, why: str) -> UsageError:
    return UsageError(
        f"{TRAILER} in {commit[:10]}: {text[:_REASON_LENGTH]!r}: {why};"
        f" write {TRAILER}: Where, Equal, or {TRAILER}: tests/test_a.py::* Where=+15 (the reason)"
    )


def accepted(acceptances: Iterable[Acceptance], test: str, diff: Diff) -> dict[str, Acceptance]:
    """Return the ops (`TIME`: the whole window) of which *acceptances* accept what became worse in *test*."""
    listed = list(acceptances)
    found = {row.op: next((each for each in listed if each.covers(test, row)), None) for row in worse(diff)}
    return {op: each for op, each in found.items() if each}


def worse(diff: Diff) -> list[Row]:
    """Return the rows of ops that are worse than before, and one called `TIME` where the window is slower."""
    total = [replace(diff.total, op=TIME)] if diff.total.verdict.is_regression else []
    return [*(row for row in diff.rows if row.verdict.is_regression), *total]


def proposed(by_test: Mapping[str, Sequence[Row]]) -> str:
    """Return the narrowest trailer that accepts all `worse` rows of tests; empty where there are none."""
    most: dict[str, int] = {}
    for rows in by_test.values():
        for row in rows:
            most[row.op] = max(most.get(row.op, 0), _more_calls(row))
    if not most:
        return ""
    files = {test.partition("::")[0] for test in by_test}
    tests = next(iter(by_test)) if len(by_test) == 1 else f"{min(files)}::*" if len(files) == 1 else ""
    named = tests if ".py" in tests and not re.search(r"[\s\"'\\,]", tests) else ""
    ops = ", ".join(shlex.quote(op) + (f"=+{more}" if more > 0 else "") for op, more in most.items())
    return f"{TRAILER}: {named}{' ' if named else ''}{ops}"

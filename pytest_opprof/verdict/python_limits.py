"""Check limits on calls of Python functions by name: ``python:json.loads``, ``python:pandas.*``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import errors
from ..errors import UsageError
from ..python_calls.functions import is_installed, resolved
from ..python_calls.names import PREFIX, is_glob, matching
from .quantities import FACTS

if TYPE_CHECKING:
    from ..python_calls.counted import PythonCalls


def of_window(what: str, limit: object, python: PythonCalls | None) -> Sequence[float]:
    """Return a window's value of a fact that only a counting round records.

    Raises UsageError if nothing was counted, or if this Python cannot count it.
    """
    counted = _counted(FACTS[what].text, limit, python)
    found = counted.facts(1).get(what)
    if found is None:
        raise UsageError(f"the limit on {FACTS[what].text} ({limit}) cannot be checked: it needs Python 3.12 or newer")
    return found


def of_function(name: str, limit: object, python: PythonCalls | None, most: float | None) -> Sequence[float]:
    """Return the calls of the function *name*, or of all functions that a glob matches.

    Raises UsageError for an unknown name, and if nothing was counted. *most* is the upper limit.
    """
    counted = _counted(f"calls of {PREFIX}{name}", limit, python)
    names = counted_as(name, counted)
    if not names and not (most == 0 and is_installed(name)):
        near = errors.suggestion(name, counted.functions) or "."
        raise UsageError(f"unknown function {PREFIX + name!r}: it was not called, and no imported module has it{near}")
    return (sum(counted.functions.get(each, 0) for each in names),)


def counted_as(name: str, counted: PythonCalls) -> set[str]:
    """Return the functions that *name* in a budget matches: called ones, or an installed one; empty if none."""
    if is_glob(name):
        found = {each for each in counted.functions if matching(name, [each])}
        return found or ({name} if is_installed(name) else set())
    return {each for each in (name, resolved(name)) if each and (each in counted.functions or each != name)} or (
        {name} if resolved(name) else set()
    )


def _counted(what: str, limit: object, python: PythonCalls | None) -> PythonCalls:
    if python is None or python.uncounted:
        why = python.uncounted if python else "only a test that runs counts calls of Python functions: pytest --opprof"
        raise UsageError(f"the limit on {what} ({limit}) cannot be checked: {why}")
    return python

"""Names of functions in budgets, and the versions of their numbers. Needs no msgspec: reading a baseline uses it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

# The prefix of a function's name in a budget.
PREFIX = "python:"
# The key of Python's own version among the versions.
PYTHON = "python"
# In place of a function, for the iterations of a line's loop.
LOOP = "(loop)"
# Ends the name of a `functools.lru_cache`, whose calls Python tells from 3.12 on.
CACHED = " (cached)"


def is_glob(name: str) -> bool:
    """Return True if a name is a glob of functions."""
    return any(character in name for character in "*?[")


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of both sides that have other versions.

    A package that only one side calls does not count: that is a change of the code under test.
    """
    return sorted(name for name in now if name in before and before[name] != now[name])


def other_versions(before: Mapping[str, str], now: Mapping[str, str], then: str = "baseline") -> str:
    """Return in words the versions that differ; empty if calls may be compared. *then* names the base."""
    return ", ".join(f"{name} {now[name]} ({then}: {before[name]})" for name in differing(before, now))


def of_python(versions: Mapping[str, str]) -> dict[str, str]:
    """Return Python's own version alone.

    Where two environments are compared, other versions of packages are the subject; another Python has other functions.
    """
    return {name: version for name, version in versions.items() if name == PYTHON}


def matching(name: str, functions: Collection[str]) -> bool:
    """Return True if a *name* in a budget matches one of the *functions*."""
    return any(fnmatchcase(each, name) for each in functions) if is_glob(name) else name in functions

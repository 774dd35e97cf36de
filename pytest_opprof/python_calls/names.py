"""Names of functions in budgets, and what their numbers are of. Needs no msgspec: a baseline is read with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

PREFIX = "python:"
"""How the name of a function begins in a budget."""
PYTHON = "python"
"""The key of Python's own version among the versions."""
LOOP = "(loop)"
"""What stands for a function where a line's loop goes round."""


def is_glob(name: str) -> bool:
    """Tell whether a name of functions means those that it matches."""
    return any(character in name for character in "*?[")


def other_versions(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return in words which versions differ; empty where calls may be compared.

    A package that only one side calls does not count: that is a change of the code that is tested.
    """
    differ = [name for name in now if name in before and before[name] != now[name]]
    return ", ".join(f"{name} {now[name]} (baseline: {before[name]})" for name in sorted(differ))


def matching(name: str, functions: Collection[str]) -> bool:
    """Tell whether a *name* in a budget means one of the *functions*."""
    return any(fnmatchcase(each, name) for each in functions) if is_glob(name) else name in functions

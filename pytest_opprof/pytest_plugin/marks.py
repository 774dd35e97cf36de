"""Parse and check the marks of a test, once -> `TestPlan`."""

from __future__ import annotations

import unittest
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pytest

from .. import errors
from ..errors import UsageError
from ..frameworks.live.contract import Options
from ..measure.plan import Settings, TestPlan
from ..verdict.budgets import Budget
from .options import (
    LIMITS,
    NUMPY_IS_GONE,
    checked_backends,
    checked_count,
    checked_ranks,
    checked_threads,
    checked_timing,
    default_warmup,
    settings_of,
)


def marks_of(item: pytest.Item) -> list[pytest.Mark]:
    """Return the opprof marks of *item*; a fixture may add some."""
    return [*_marks(item, "op_budget"), *_marks(item, "opprof")]


def read(item: pytest.Item) -> TestPlan:
    """Parse the marks of *item*. Raises UsageError with file and line for an invalid one."""
    try:
        budget = Budget()
        for mark in _marks(item, "op_budget"):
            if not mark.args and not mark.kwargs:
                raise UsageError("op_budget() has no limit; write one, such as op_budget(Cast=10)")
            budget = budget.over(Budget.parse(mark.args, mark.kwargs))
        return _with_marks(item, settings_of(item.config), budget, _marks(item, "opprof"))
    except UsageError as error:
        raise UsageError(placed(item, error)) from error


def placed(item: pytest.Item, error: UsageError) -> str:
    """Return the message of an *error* in *item* after its file, line and name, which it may begin with already."""
    path, line, _ = item.location
    place = f"{path}:{(line or 0) + 1}: {item.name}: "
    return place + str(error).removeprefix(place)


def _with_marks(item: pytest.Item, settings: Settings, budget: Budget, marks: Sequence[pytest.Mark]) -> TestPlan:
    given: dict[str, Any] = {}
    for mark in marks:
        if mark.args not in ((), (False,)):
            raise UsageError(
                f"opprof({', '.join(map(repr, mark.args))}): write keywords, such as opprof(rounds=20), or"
                " opprof(False) to leave a test out"
            )
        given = {**mark.kwargs, **given}
    given = {key: value for key, value in given.items() if value is not None}
    if "numpy" in given:
        raise UsageError(f"opprof(numpy=) {NUMPY_IS_GONE}")
    for key in given:
        if key not in _OPPROF_KEYS:
            raise errors.unknown(key, _OPPROF_KEYS, "keyword of opprof()", _OPPROF_KEYS)
    rounds = checked_count(given.get("rounds", 1), "opprof(rounds=)", 1)
    baseline = _flag(given, "baseline", True)
    if rounds > 1 and issubclass(getattr(item, "cls", None) or object, unittest.IsolatedAsyncioTestCase):
        raise UsageError("opprof(rounds=) cannot run an IsolatedAsyncioTestCase again; use opprof.rounds() inside")
    memory = _flag(given, "memory", settings.memory)
    leaks = _flag(given, "leaks", settings.leaks)
    python = _flag(given, "python", settings.python)
    timing = checked_timing(given.get("timing", settings.timing), "opprof(timing=)")
    left_out = bool(marks and marks[0].args)
    marked = (bool(budget) or bool(marks)) and not left_out
    return TestPlan(
        budget=Budget() if left_out else budget,
        marked=marked,
        closely=marked,
        measured=marked or (settings.everything and not left_out),
        rounds=rounds,
        warmup=checked_count(given.get("warmup", default_warmup(rounds) if rounds > 1 else 0), "opprof(warmup=)", 0),
        backends=checked_backends(given["backend"], "opprof(backend=)") if "backend" in given else settings.backends,
        options=Options(
            timing,
            memory=budget.needs("memory") or memory,
            moments=settings.traces is not None,
            held="held_memory" in budget.window,
        ),
        tolerances=settings.tolerances.with_given(given, lambda key: f"opprof({key}=)"),
        threads=checked_threads(given["threads"], "opprof(threads=)") if "threads" in given else settings.threads,
        top=checked_count(given.get("top", settings.top), "opprof(top=)", 0),
        ranks=checked_ranks(given.get("ranks", settings.ranks), "opprof(ranks=)"),
        baseline=baseline and not left_out,
        leaks=False if left_out else budget.needs("leaks") or leaks,
        host_memory=False if left_out else budget.needs("host memory") or memory,
        python=False if left_out else budget.needs("python") or python,
    )


_Default = TypeVar("_Default", bound=bool | None)


def _flag(given: Mapping[str, Any], key: str, default: _Default) -> bool | _Default:
    """Return the value of a boolean keyword. Raises UsageError for another value."""
    if key not in given:
        return default
    value = given[key]
    if not isinstance(value, bool):
        raise UsageError(f"opprof({key}={value!r}): write True or False")
    return value


def _marks(item: pytest.Item, name: str) -> list[pytest.Mark]:
    """Return the marks named *name*, the nearest first: a parameter's before its function's."""
    marks = list(item.iter_markers(name))
    of_parameter = getattr(getattr(item, "callspec", None), "marks", [])
    return sorted(marks, key=lambda mark: not any(mark is other for other in of_parameter))


_OPPROF_KEYS = (
    "rounds",
    "warmup",
    "backend",
    "timing",
    *LIMITS,
    "memory",
    "leaks",
    "python",
    "threads",
    "baseline",
    "ranks",
    "top",
)

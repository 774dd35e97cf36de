"""Numba's functions that one test compiles again.

Numba's events are made up, since it is no dependency of the tests: a listener gets a dispatcher and the types of its
arguments, as Numba 0.68 tells them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_opprof.frameworks.numpy.live.numba_compilations import NumbaCompilations
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.event_log import EventLog


def log() -> EventLog:
    return EventLog(Environment((("numpy", "2"),)), lambda: None)


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    listeners: list[Any] = []
    event: Any = ModuleType("numba.core.event")
    event.Listener = type("Listener", (), {})
    event.register = lambda kind, listener: listeners.append(listener)
    event.unregister = lambda kind, listener: listeners.remove(listener)
    monkeypatch.setitem(sys.modules, "numba.core.event", event)

    def compiles(function: Callable[..., object], *types: str) -> None:
        for each in listeners:
            each.on_end(SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function), "args": types}))

    return compiles


def made() -> Callable[[], object]:
    def inner() -> None:
        pass

    return inner


def test_an_inner_function_that_is_compiled_in_each_call_is_compiled_again(compiles: Callable[..., None]) -> None:
    known, found = NumbaCompilations(), log()
    with known.counted(found):
        compiles(made(), "float64")
        compiles(made(), "float64")
        compiles(made(), "int64")
    assert found.counts["recompilations"] == {0: 2}
    first, second = (remark.text for _, remark in found._remarks)
    assert first.startswith("Numba compiled inner (")
    assert first.endswith(") again, in the same test: another function is defined there each time")
    assert second.endswith(") again, in the same test: for int64 (before: float64)")


def test_a_function_that_another_test_compiled_is_new_in_this_one(compiles: Callable[..., None]) -> None:
    known = NumbaCompilations()
    with known.counted(log()):
        compiles(made(), "float64")
    known.forget()
    found = log()
    with known.counted(found):
        compiles(made(), "float64")
    assert found.counts["recompilations"] == {0: 0}


def test_functions_of_numba_itself_are_parts_of_others(compiles: Callable[..., None]) -> None:
    part = made()
    part.__module__ = "numba.np.arraymath"
    found = log()
    with NumbaCompilations().counted(found):
        compiles(part, "float64")
        compiles(part, "float64")
    assert found.counts["recompilations"] == {0: 0}


def test_without_numba_nothing_is_counted() -> None:
    found = log()
    with NumbaCompilations().counted(found):
        pass
    assert "recompilations" not in found.counts

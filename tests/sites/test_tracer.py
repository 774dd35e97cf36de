from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings

from . import cases, ops, programs, truth
from .sources import sources


@pytest.fixture(scope="module")
def rewritten() -> ModuleType:
    return truth.rewritten(cases)


NOT_TRACED = {
    (cases.finalised, (3, 10)): "CPython 3.10 traces no __del__",
    (
        programs.throws,
        (3, 11),
    ): "CPython 3.11 tells no one that a generator goes on if what it waits for swallowed throw()",
}


def each_of(programs: list[Callable[[], None]]) -> list[Any]:
    reasons = {each: NOT_TRACED.get((each, sys.version_info[:2]), "") for each in programs}
    return [
        pytest.param(each, id=each.__name__, marks=[pytest.mark.xfail(reason=reason)] if reason else [])
        for each, reason in reasons.items()
    ]


@pytest.mark.parametrize("case", each_of(cases.CASES))
def test_each_op_belongs_to_the_line_that_asked_for_it(case: Callable[[], None], rewritten: ModuleType) -> None:
    lines: list[int] = []
    ops.listeners.append(lambda frame: lines.append(truth.lines[-1]))
    try:
        getattr(rewritten, case.__name__)()
    finally:
        ops.listeners.pop()
    window = ops.heard(case)
    assert [frame.line for frame in window.frames()] == lines
    assert {frame.file for frame in window.frames()} == {cases.__file__}
    assert [now for now, _ in window.ops] == [there for _, there in window.ops]


@pytest.mark.parametrize("program", each_of(programs.PROGRAMS))
def test_the_chain_of_each_op_is_that_of_the_frames(program: Callable[[], None]) -> None:
    window = ops.heard(program)
    show = window.chains.frames
    assert [show(now) for now, _ in window.ops] == [show(there) for _, there in window.ops]
    assert all(now for now, _ in window.ops)
    assert len(window.ops) > 10


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # generators that ignore close()
@settings(max_examples=50)
@given(sources())
def test_in_any_program_the_chain_of_each_op_is_that_of_the_frames(source: str) -> None:
    names: dict[str, Any] = {"op": ops.op, "echo": programs.echo, "scope": programs.scope}
    exec(compile(source, os.path.abspath("program.py"), "exec"), names)
    window = ops.heard(names["main"])
    show = window.chains.frames
    assert [show(now) for now, _ in window.ops] == [show(there) for _, there in window.ops]
    assert all(now for now, _ in window.ops)

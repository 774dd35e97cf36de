from __future__ import annotations

import gc
import os
import pickle
import sys
import weakref
from types import CodeType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.sites.chains import UNKNOWN, Chains, Frame, frames_of, line_number


def code(source: str = "def f():\n    pass\n", file: str = "/project/model.py") -> CodeType:
    """Return the code of the first function in *source*."""
    return next(each for each in compile(source, file, "exec").co_consts if isinstance(each, CodeType))


def test_a_chain_is_told_from_the_innermost_frame() -> None:
    chains = Chains()
    outer = chains.node(UNKNOWN, code("def test():\n    pass\n", "/project/test_model.py"), 3)
    inner = chains.node(outer, code(), 7)
    assert chains.frames(inner) == (Frame("/project/model.py", "f", 7), Frame("/project/test_model.py", "test", 3))
    assert chains.frames(UNKNOWN) == ()


def test_equal_chains_have_one_number() -> None:
    chains, one, same = Chains(), code(), code()
    node = chains.node(UNKNOWN, one, 2)
    assert node != UNKNOWN
    assert chains.node(UNKNOWN, one, 2) == node
    assert chains.node(UNKNOWN, same, 2) == node  # of a module that was imported anew
    assert chains.node(UNKNOWN, one, 3) != node
    assert chains.node(node, one, 2) != node  # recursion


def test_functions_that_read_the_same_in_two_files_are_two() -> None:
    one, other = code(file="/project/one.py"), code(file="/project/other.py")
    assert one == other  # as Python has it
    chains = Chains()
    nodes = [chains.node(UNKNOWN, each, 2) for each in (one, other)]
    assert [chains.frames(node)[0].file for node in nodes] == ["/project/one.py", "/project/other.py"]


def test_a_function_has_its_qualified_name_where_python_knows_it() -> None:
    chains = Chains()

    class Model:
        def forward(self) -> None:
            pass

    frame = chains.frames(chains.node(UNKNOWN, Model.forward.__code__, 1))[0]
    assert frame.function == ("forward" if sys.version_info < (3, 11) else Model.forward.__qualname__)


def test_files_are_absolute() -> None:
    chains = Chains()
    files = ["models/../model.py", "<doctest model[0]>"]
    frames = [chains.frames(chains.node(UNKNOWN, code(file=each), 2))[0] for each in files]
    assert [frame.file for frame in frames] == [os.path.abspath("model.py"), "<doctest model[0]>"]


@pytest.mark.parametrize("source", ["[1 for _ in ()]", "{1 for _ in ()}", "{1: 1 for _ in ()}"])
def test_a_comprehension_is_a_part_of_its_function(source: str) -> None:
    # As from Python 3.12 on, where that of a class body is still code of its own.
    outer = code(f"class C:\n    def f():\n        pass\n    x = {source}\n")
    inner = next((each for each in outer.co_consts if isinstance(each, CodeType) and "comp>" in each.co_name), None)
    chains = Chains()
    test = chains.node(UNKNOWN, code("def test():\n    pass\n"), 1)
    around = chains.node(test, outer, 4)
    assert inner is None or chains.node(around, inner, 5) == chains.node(test, outer, 5)


def test_frozen_chains_travel() -> None:
    chains = Chains()
    outer = chains.node(UNKNOWN, code("def test():\n    pass\n"), 3)
    inner = chains.node(outer, code(), 7)
    frozen = pickle.loads(pickle.dumps(chains.frozen()))
    assert frozen == (
        (0, "", "", 0),
        (0, "/project/model.py", "test", 3),
        (outer, "/project/model.py", "f", 7),
    )
    assert frames_of(frozen, inner) == chains.frames(inner)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3), st.integers(1, 9))))
def test_every_node_is_found_again(steps: list[tuple[int, int, int]]) -> None:
    codes = [code(f"def f{number}():\n    pass\n") for number in range(4)]
    chains, expected = Chains(), {UNKNOWN: ()}
    for back, function, line in steps:
        parent = sorted(expected)[-1 - back % len(expected)]
        node = chains.node(parent, codes[function], line)
        frames = (Frame("/project/model.py", f"f{function}", line), *expected[parent])
        assert expected.setdefault(node, frames) == frames
    assert {node: chains.frames(node) for node in expected} == expected
    assert len(set(expected.values())) == len(expected)


def test_what_a_function_holds_is_not_kept() -> None:
    class Array:
        pass

    def function() -> weakref.ref[Array]:
        array = Array()
        chains.node(UNKNOWN, sys._getframe().f_code, 1)
        return weakref.ref(array)

    chains = Chains()
    array = function()
    gc.collect()
    assert array() is None


def test_code_without_a_line_has_the_one_before_it() -> None:
    """The jump at the end of a loop, where Python hands its lock over: half of the samples of a loop were there."""

    def joined(parts: list[bytes]) -> bytes:
        data = b""
        for part in parts:
            if part:
                data += part
                if data[-1:] != b"\n":
                    data += b"\n"
        return data

    code, expected = joined.__code__, joined.__code__.co_firstlineno
    for start, _, line in code.co_lines():
        expected = expected if line is None else line
        frame: Any = SimpleNamespace(f_code=code, f_lasti=start, f_lineno=line)
        assert line_number(frame) == expected

"""Graphs that the real MindSpore compiles again, and why."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from pytest_opprof.frameworks.mindspore.live.backend import backend

from ....conftest import remarks_of
from ...measured import measured

pytestmark = pytest.mark.mindspore


@pytest.fixture(scope="module")
def ms() -> Iterator[ModuleType]:
    os.environ.setdefault("GLOG_v", "3")  # errors only
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mindspore
    yield mindspore
    gc.collect()  # MindSpore cannot delete its cells any more when Python ends


@pytest.fixture
def graph(ms: ModuleType) -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def again(*bodies: Callable[[], object]) -> tuple[tuple[int, ...] | None, list[str]]:
    backend().begin_test()
    profile = measured(backend(), *bodies)
    return profile.counted("recompilations"), [text for text in remarks_of(profile) if "again" in text]


def twice(x: Any, n: Any = 2) -> Any:
    return x * n


def test_a_function_that_is_compiled_again_is_counted_and_why(ms: ModuleType) -> None:
    f, x = ms.jit(twice), ms.Tensor([1.0, 2.0])
    assert again(lambda: f(x), lambda: f(x)) == ((0, 0), [])
    longer = ms.Tensor([1.0, 2.0, 3.0])
    counts, (said,) = again(lambda: f(ms.Tensor([1.0])), lambda: f(longer), lambda: f(longer))
    assert counts == (0, 1, 0)
    line = f'"{__file__}", line {twice.__code__.co_firstlineno}'
    assert said.startswith(f'MindSpore compiled function "twice" at the file {line} again, in the same test: ')
    assert said.endswith("argument 0 is Float32[3], before Float32[1]")
    counts, (said,) = again(lambda: f(x, 3), lambda: f(x, 4))
    assert counts == (0, 1)
    assert said.endswith("argument 1 is 4, before 3")


def test_what_the_warm_up_compiled_is_compiled_again(ms: ModuleType) -> None:
    f = ms.jit(twice)
    backend().begin_test()
    f(ms.Tensor([1.0] * 5))
    assert measured(backend(), lambda: f(ms.Tensor([1.0] * 6))).counted("recompilations") == (1,)


def test_what_an_earlier_test_compiled_is_new_to_this_one(ms: ModuleType) -> None:
    f = ms.jit(twice)
    assert again(lambda: f(ms.Tensor([1.0] * 7))) == ((0,), [])
    assert again(lambda: f(ms.Tensor([1.0] * 8))) == ((0,), [])


def test_a_function_that_is_made_in_each_call_is_compiled_again(ms: ModuleType) -> None:
    x = ms.Tensor([1.0, 2.0])

    def body() -> None:
        for _ in range(3):

            def f(x: Any) -> Any:
                return x + 1

            ms.jit(f)(x)

    counts, said = again(body)
    assert counts == (2,)
    assert {text.rpartition(": ")[2] for text in said} == {"another one is made each time"}


@pytest.mark.usefixtures("graph")
def test_a_cell_of_another_shape_is_compiled_again(ms: ModuleType) -> None:
    net = ms.nn.ReLU()
    small, large = ms.Tensor([[1.0, 2.0]]), ms.Tensor([[1.0, 2.0]] * 3)
    counts, (said,) = again(lambda: net(small), lambda: net(large), lambda: net(small))
    assert counts == (0, 1, 0)
    assert said == "MindSpore compiled ReLU again, in the same test: argument 0 is Float32[3, 2], before Float32[1, 2]"


@pytest.mark.usefixtures("graph")
def test_two_cells_of_one_class_are_two(ms: ModuleType) -> None:
    x = ms.Tensor([[1.0, 2.0]])
    cells = ms.nn.ReLU(), ms.nn.ReLU()
    assert again(*[lambda cell=cell: cell(x) for cell in cells]) == ((0, 0), [])


def test_where_mindspore_does_not_tell_it_is_not_known(ms: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_opprof.frameworks.mindspore.live.recompiled import Recompiled

    monkeypatch.setattr(backend(), "_recompiled", Recompiled())
    for name in ("mindspore.graph.api", "mindspore.common.api"):
        if name in sys.modules:
            monkeypatch.delattr(f"{name}._check_recompile", raising=False)
    x = ms.Tensor([1.0])
    assert measured(backend(), lambda: x + 1).counted("recompilations") is None

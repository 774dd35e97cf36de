"""The memory of arrays that garbage cycles keep until the collector runs. Finalizers: test_leaks.py."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pytest_opprof.measure.memory.cycles import memory_kept
from pytest_opprof.sites.code import relative

SIZE = 1 << 20


class Batch:
    """An object in a cycle with itself, and an array with a view of it."""

    def __init__(self, array: Any) -> None:
        self.array, self.view = array, array[:5]
        self.me = self


def of_numpy() -> None:
    for _ in range(3):
        Batch(np.zeros(SIZE, np.uint8))


def of_torch() -> None:
    import torch

    for _ in range(3):
        Batch(torch.zeros(SIZE, dtype=torch.uint8))


@pytest.mark.parametrize("call", [of_numpy, pytest.param(of_torch, marks=pytest.mark.torch)])
def test_a_cycle_that_keeps_arrays_is_named_with_their_memory(call: Callable[[], None]) -> None:
    ((said, _),) = memory_kept(call, 4 * SIZE)
    assert said == "the cycle Batch.me keeps up to 3 MiB of arrays until the garbage collector runs"


def test_less_than_a_quarter_of_the_peak_is_no_cause() -> None:
    assert memory_kept(of_numpy, 16 * SIZE) == []


def test_an_array_that_the_program_holds_is_not_kept_by_a_cycle() -> None:
    kept = np.zeros(SIZE, np.uint8)

    def of_both() -> None:
        Batch(kept)
        Batch(np.zeros(SIZE // 4, np.uint8))

    assert memory_kept(of_both, 4 * SIZE) == []
    assert " up to 256 KiB of arrays " in memory_kept(of_both, SIZE)[0].text


def test_arrays_without_a_cycle_are_freed_at_once() -> None:
    assert memory_kept(lambda: np.zeros(SIZE), 4) == []


def test_no_property_of_another_object_is_computed() -> None:
    class Lazy:
        @property
        def nbytes(self) -> int:
            raise AssertionError("computed")

    def cycle() -> None:
        lazy: Any = Lazy()
        lazy.me = lazy

    assert memory_kept(cycle, 4 * SIZE) == []
    assert memory_kept(cycle, 4, on_device=True) == []
    ((said, _),) = memory_kept(cycle, 10)
    assert said.startswith("the cycle Lazy.me keeps up to 10 B of objects ")  # no more than the peak


def test_a_cycle_that_keeps_other_objects_is_named_with_their_memory() -> None:
    """Closures that call each other, with all that they see: sentry's serializer."""

    def serialize() -> None:
        text = bytes(SIZE)

        def node() -> object:
            return text, node

    ((said, _),) = memory_kept(serialize, 2 * SIZE)
    assert "<locals>.node at " in said
    assert said.endswith(" keeps up to 1 MiB of objects until the garbage collector runs")


def make_small_cycles() -> None:
    for number in range(50):
        type(f"Small{number}", (), {"data": bytes(SIZE // 64)})  # each class is in cycles with itself


def fails() -> None:
    rows = [bytes(SIZE // 4) for _ in range(2)]
    try:
        raise ValueError(str(len(rows)))
    except ValueError as raised:
        error = raised  # noqa: F841  # the frame keeps it, and its traceback the frame


def test_an_exception_that_its_frame_keeps_is_named_beside_smaller_cycles() -> None:
    """flask: an exception for each request, beside a class that werkzeug makes for each."""

    def requests() -> None:
        make_small_cycles()
        for _ in range(3):
            fails()

    ((said, line),) = memory_kept(requests, 3 * SIZE)
    assert said.startswith(f"the cycle ValueError -> traceback -> frame of fails at {line} keeps up to 2.")
    assert line.startswith(f"{relative(__file__)}:")


def test_no_cycle_is_named_if_none_keeps_much_by_itself() -> None:
    def cycles() -> None:
        make_small_cycles()
        for kind in range(20):
            each: Any = type(f"Kind{kind}", (), {})()
            each.me, each.data = each, bytes(SIZE // 16)

    ((said, line),) = memory_kept(cycles, 6 * SIZE)
    assert said.startswith("cycles keep up to 2.")
    assert line == ""


def test_the_collector_is_on_again_afterwards() -> None:
    memory_kept(of_numpy, 1)
    assert gc.isenabled()

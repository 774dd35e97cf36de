from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from threading import Thread
from types import ModuleType

import pytest

from pytest_opprof.machine.garbage import DueCollection, referents, uncollected


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
def test_the_collector_is_off_inside_and_as_before_afterwards(enabled: bool, raises: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    try:
        with suppress(ValueError), uncollected():
            assert not gc.isenabled()
            if raises:
                raise ValueError
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


@pytest.fixture
def eager() -> Iterator[None]:
    """Python collects all garbage after a few objects."""
    threshold = gc.get_threshold()
    gc.collect()
    gc.freeze()  # it waits until a quarter of the objects are new
    gc.collect()
    gc.set_threshold(50, 1, 1)
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


def until_collected(times: int) -> None:
    """Make objects until Python has collected all garbage so often."""
    before, kept = gc.get_stats()[2]["collections"], list[list[int]]()
    while gc.get_stats()[2]["collections"] < before + times:
        kept.append([])


def due(ticks: Iterator[int]) -> DueCollection:
    return DueCollection(lambda: [next(ticks)])


@pytest.mark.usefixtures("eager")
def test_the_first_full_collection_that_python_begins_is_timed_and_no_later_one() -> None:
    ticks = count()
    with due(ticks) as found:
        assert found.took_ns == [0]
        until_collected(1)
        assert found.took_ns == [1]
        read = next(ticks)
        until_collected(2)
    assert found.took_ns == [1]
    assert next(ticks) == read + 1  # the clock was not read again


@pytest.mark.usefixtures("eager")
def test_a_collection_that_the_code_asks_for_is_its_own_as_are_those_after_it() -> None:
    with due(count()) as found:
        gc.collect()
        until_collected(1)
    assert found.took_ns == [0]


@pytest.mark.usefixtures("eager")
def test_a_collection_in_another_thread_is_not_timed() -> None:
    thread = Thread(target=until_collected, args=[1])
    with due(count()) as found:
        thread.start()
        thread.join()
    assert found.took_ns == [0]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("off", [gc.disable, lambda: gc.set_threshold(0)])
def test_a_collection_is_the_codes_own_where_python_begins_none(off: Callable[[], None]) -> None:
    with due(count()) as found:
        off()
        kept = [[number] for number in range(1000)]
        gc.collect()
        gc.enable()
    assert kept
    assert found.took_ns == [0]


def test_callbacks_that_the_program_removes_are_no_error() -> None:
    before = [*gc.callbacks]
    try:
        with due(count()):
            gc.callbacks.clear()
    finally:
        gc.callbacks[:] = before


def test_nothing_is_called_after_the_context() -> None:
    before = [*gc.callbacks]
    with suppress(ValueError), due(count()):
        assert len(gc.callbacks) == len(before) + 1
        raise ValueError
    assert gc.callbacks == before


class _Lazy(ModuleType):
    def __getattribute__(self, name: str) -> object:
        raise AssertionError(f"{name} loads the module")


def test_of_a_module_only_its_namespace_is_looked_at() -> None:
    lazy, names = _Lazy("lazy"), [1, "two"]
    assert referents(names, lazy) == [*reversed(names), ModuleType.__getattribute__(lazy, "__dict__")]


@pytest.mark.processes
def test_after_asyncio_ran_a_look_at_all_objects_leaves_the_collector_usable() -> None:
    """In Python 3.12 the module has a list of freed objects; referring to them makes a ring of it."""
    code = """if True:
        import asyncio, gc
        from pytest_opprof.machine.garbage import referents

        async def wait():
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            loop.call_soon(future.set_result, 1)
            await future

        asyncio.run(wait())
        referents(*gc.get_objects())
        gc.collect()
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

"""What each call of a body leaves behind, on real objects, threads and files of this process."""

from __future__ import annotations

import contextvars
import ctypes
import gc
import itertools
import os
import random
import selectors
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from pathlib import Path, PurePath
from typing import ClassVar

import numpy as np
import pytest

from pytest_opprof.measure.memory.glance import glance
from pytest_opprof.measure.memory.leaks import (
    CALLS,
    LEAST_BLOCKS,
    LEAST_BYTES,
    LEAST_EQUAL_BYTES,
    WARMUPS,
    Left,
    left_by,
)
from pytest_opprof.sites.code import relative


class Handler:
    pass


class Engine:
    def __init__(self) -> None:
        self.handlers: list[object] = []
        self.results: deque[object] = deque()
        self.seen: dict[object, object] = {}


ENGINE = Engine()


@pytest.fixture(autouse=True)
def _nothing_is_kept_from_test_to_test() -> Iterator[None]:
    yield
    for each in vars(ENGINE).values():
        each.clear()


def cycle() -> None:
    one = Handler()
    one.itself = one  # type: ignore[attr-defined]


def fills_a_cache(cache: dict[int, int] = {}) -> None:  # noqa: B006  # as lru_cache does
    cache[len(cache) % 3] = 1


@pytest.mark.parametrize("call", [lambda: None, lambda: [np.ones(9) for _ in range(9)], cycle, fills_a_cache])
def test_a_call_that_keeps_nothing_leaves_nothing_behind(call: Callable[[], object]) -> None:
    assert left_by(call) == Left({})


@pytest.mark.parametrize("look", [partial(glance, only_open=False), left_by])
def test_objects_that_the_program_froze_stay_frozen(look: Callable[..., object]) -> None:
    gc.freeze()
    try:
        look(lambda: None)
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()


class Closes:
    def __del__(self) -> None:
        pass


def closing_cycle() -> None:
    one = Closes()
    one.itself = one  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_cycle_of_one_object_has_the_line_that_made_it() -> None:
    left = left_by(closing_cycle)
    assert left.where[0] == "kept by the cycle Closes.itself"
    assert left.line == f"{relative(__file__)}:{closing_cycle.__code__.co_firstlineno + 1}"


@pytest.mark.slow
def test_an_object_is_named_by_its_type_its_holder_and_the_line_that_made_it() -> None:
    left = left_by(lambda: ENGINE.handlers.append(Handler()))
    assert (left.objects, left.number, left.nbytes) == ({f"{__name__}.Handler": 1}, 1, 0)
    held, made = left.where
    assert held.startswith("held by Engine.handlers (list), which grows at ")
    assert made.startswith("made at ")
    assert "test_leaks.py:" in made


class Barrier:
    """Comes before its watcher by name."""


class Watcher:
    def __init__(self, barrier: Barrier) -> None:
        self.barrier = barrier


@pytest.mark.slow
def test_the_holder_keeps_what_an_earlier_call_left_and_does_not_only_keep_the_newest() -> None:
    """PettingZoo's `reset` replaces the barriers, but each has a handler in a list that grows."""

    def reset() -> None:
        ENGINE.seen["barriers"] = [Barrier() for _ in range(3)]
        for each in ENGINE.seen["barriers"]:  # type: ignore[attr-defined]
            ENGINE.handlers.append(Watcher(each))

    left = left_by(reset)
    kinds = {kind: number for kind, number in left.objects.items() if kind != "dict"}  # of instances, in Python 3.10
    assert kinds == {f"{__name__}.Barrier": 3, f"{__name__}.Watcher": 3}
    line = f"{relative(__file__)}:{reset.__code__.co_firstlineno + 3}"
    assert left.where[0] == f"held by Engine.handlers (list), which grows at {line}"
    assert left.line == line


@pytest.mark.slow
def test_a_list_that_each_call_makes_anew_and_longer_is_a_holder_although_nothing_in_it_is_older() -> None:
    def collect() -> None:
        ENGINE.seen["all"] = [Handler() for _ in range(len(ENGINE.seen.get("all", ())) + 1)]  # type: ignore[arg-type]

    left = left_by(collect)
    assert left.where[0].startswith("held by Engine.seen (dict)")
    assert left.line == f"{relative(__file__)}:{collect.__code__.co_firstlineno + 1}"


@pytest.mark.slow
def test_the_line_that_made_an_object_is_the_line_of_a_leak_whose_holder_does_not_grow() -> None:
    class Node:
        def __init__(self, before: object) -> None:
            self.before = before

    ENGINE.seen["last"] = None

    def add() -> None:
        ENGINE.seen["last"] = Node(ENGINE.seen["last"])

    left = left_by(add)
    assert left.where[0] == "held by Engine.seen (dict)"
    assert left.line == f"{relative(__file__)}:{add.__code__.co_firstlineno + 1}"


@pytest.mark.slow
def test_the_projects_types_are_told_first_and_those_of_private_modules_last() -> None:
    left = left_by(lambda: ENGINE.handlers.append([contextvars.Context(), deque(), Handler(), np.poly1d([1])]))
    first, *others, last = left.objects
    assert (first, last) == (f"{__name__}.Handler", "_contextvars.Context")
    assert others[:2] == ["numpy.poly1d", "collections.deque"]
    assert "list" in others


class Part:
    def __init__(self, owner: object) -> None:
        self.owner = owner


class Whole:
    """Its parts refer back to it, as nodes of a tree do."""

    every: ClassVar[list[Whole]] = []

    def __init__(self) -> None:
        self.parts = [Part(self)]


@cache
def remembered(whole: Whole) -> Whole:
    return whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "holder"),
    [
        (lambda: ENGINE.handlers.append(Whole()), "Engine.handlers (list)"),
        (lambda: ENGINE.seen.update({(Whole, len(ENGINE.seen)): Whole()}), "Engine.seen (dict)"),
        (lambda: Whole.every.append(Whole()), "Whole.every (list)"),
        (lambda: remembered(Whole()), f"{__name__}.remembered (lru_cache)"),
    ],
)
def test_the_holder_is_no_object_that_is_itself_left_behind(call: Callable[[], object], holder: str) -> None:
    held, _ = left_by(call).where
    assert held.startswith(f"held by {holder}, which grows at ")


@pytest.mark.slow
@pytest.mark.parametrize("container", ["handlers", "results"])
@pytest.mark.parametrize("thing", [lambda: np.zeros(3), lambda: 1e6 + len(ENGINE.handlers), lambda: b"x" * 99])
def test_what_python_does_not_track_is_found_by_the_container_that_grows(
    container: str, thing: Callable[[], object]
) -> None:
    kept = getattr(ENGINE, container)
    left = left_by(lambda: kept.append(bytearray(8) and thing()))
    name = {"ndarray": "numpy.ndarray"}.get(type(thing()).__name__, type(thing()).__name__)
    if name == "bytes":
        return  # a constant of the code: the same object each time, so that nothing but the list grows
    assert left.objects == {name: 1}
    (held,) = left.where
    assert held.startswith(f"held by Engine.{container} ({type(kept).__name__}), which grows at ")


@pytest.mark.slow
def test_a_leak_is_found_although_two_of_the_four_calls_free_more_than_it_keeps() -> None:
    older = [[Handler() for _ in range(9)] for _ in range(2)]
    frees = iter([*[False] * WARMUPS, True, False, True, False])

    def call() -> None:
        ENGINE.handlers.append(Handler())
        if next(frees, False):
            older.pop()

    assert left_by(call).objects == {f"{__name__}.Handler": 1}
    assert not older


@pytest.mark.slow
def test_a_dict_that_keeps_results_is_found() -> None:
    left = left_by(lambda: ENGINE.seen.update({object(): 1e6 + len(ENGINE.seen)}))
    assert left.objects == {"float": 1}
    (held,) = left.where
    assert held.startswith("held by Engine.seen (dict), which grows at ")


@pytest.mark.slow
def test_memory_is_told_where_it_is_more_than_an_allocator_rounds() -> None:
    assert left_by(lambda: ENGINE.handlers.append(np.zeros(LEAST_BYTES))).nbytes >= 8 * LEAST_BYTES
    assert left_by(lambda: ENGINE.handlers.append(np.zeros(8))).nbytes == 0
    # The same in each call: no rounding. A thread of pytest-xdist may allocate meanwhile.
    same = (left_by(lambda: ENGINE.handlers.append(np.zeros(LEAST_EQUAL_BYTES // 4))).nbytes for _ in range(8))
    assert any(nbytes > LEAST_EQUAL_BYTES for nbytes in same)
    sizes = iter(range(LEAST_EQUAL_BYTES, LEAST_BYTES // 8))
    assert left_by(lambda: ENGINE.handlers.append(np.zeros(next(sizes)))).nbytes == 0


@pytest.mark.slow
@pytest.mark.parametrize("most", [5, 16])
def test_memory_that_a_later_call_frees_is_no_leak(most: int) -> None:
    ring = deque[object](maxlen=most)
    calls = iter(range(1000))

    def call() -> None:
        if most == 5 and next(calls) % 5 == 0:
            ring.clear()
        ring.append(np.zeros(LEAST_EQUAL_BYTES // 4))

    for _ in range(5):
        assert left_by(call) == Left({})


@pytest.mark.slow
def test_strings_that_nothing_holds_are_counted_as_blocks_with_their_line() -> None:
    incref = ctypes.pythonapi.Py_IncRef
    incref.argtypes, incref.restype = [ctypes.py_object], None
    numbers = iter(range(10**6))

    def call(leaked: int) -> None:
        for _ in range(leaked):
            incref(f"number {next(numbers)}")

    left = left_by(lambda: call(3 * LEAST_BLOCKS))
    assert (left.objects, left.number) == ({}, 1)
    assert left.blocks == pytest.approx(3 * LEAST_BLOCKS, abs=20)
    assert left.where == (f"made at tests/measure/memory/test_leaks.py:{call.__code__.co_firstlineno + 2}",)
    assert left_by(lambda: call(LEAST_BLOCKS // 2)) == Left({})


@pytest.mark.slow
def test_a_bounded_cache_that_fills_is_no_leak_and_hides_none() -> None:
    @lru_cache(40)
    def url(number: int) -> Engine:
        return Engine()

    def fetches(keeps: int) -> None:
        for _ in range(5):
            url(next(numbers))
        ENGINE.handlers += [Handler() for _ in range(keeps)]

    numbers = itertools.count()
    left = left_by(lambda: fetches(0))
    assert left == Left({}, filled=left.filled)
    (said,) = left.filled
    assert said.text.startswith("the cache of `test_a_bounded_cache_that_fills_is_no_leak_and_hides_none.<locals>.url`")
    assert said.text.endswith(f" at {said.line} keeps the last 40 calls")
    assert said.line.startswith("tests/measure/memory/test_leaks.py:")
    url.cache_clear()
    left = left_by(lambda: fetches(2))
    assert left.objects == {f"{__name__}.Handler": 2}
    assert left.where[0].startswith("held by Engine.handlers (list)")


@lru_cache(10_000)
def loaded(number: int) -> Handler:
    return Handler()


@pytest.mark.slow
def test_a_cache_that_few_calls_do_not_fill_is_named_with_its_size_and_the_body_runs_no_more_often() -> None:
    numbers = itertools.count()
    left = left_by(lambda: loaded(next(numbers)))
    assert left.objects == {f"{__name__}.Handler": 1}
    assert "loaded (lru_cache with " in left.where[0]
    assert next(numbers) < 30


def test_a_cache_that_fills_by_random_keys_is_no_leak() -> None:
    @lru_cache(16)
    def known(number: int) -> Handler:
        return Handler()

    keys = random.Random(3)
    left = left_by(lambda: known(keys.randrange(40)))
    assert left == Left({}, filled=left.filled)


PATHS = lru_cache(10_000)(PurePath)


@pytest.mark.slow
def test_a_package_s_bounded_cache_is_no_leak_and_hides_none() -> None:
    def opens(keeps: int) -> None:
        PATHS(f"/a/{next(numbers)}")
        ENGINE.handlers += [Handler() for _ in range(keeps)]

    numbers = itertools.count()
    assert left_by(lambda: opens(0)) == Left({})
    left = left_by(lambda: opens(1))
    assert left.objects[f"{__name__}.Handler"] == 1
    assert left.where[0].startswith("held by Engine.handlers (list)")


def test_growth_that_ends_is_no_leak() -> None:
    def until_three() -> None:
        if len(ENGINE.handlers) < WARMUPS + 1:
            ENGINE.handlers.append(Handler())

    assert left_by(until_three) == Left({})


@pytest.mark.slow
def test_threads_files_and_processes_are_counted() -> None:
    end, files, processes = threading.Event(), [], []
    try:
        threads = left_by(lambda: threading.Thread(target=end.wait, daemon=True).start())
        opened = left_by(lambda: files.append(open("/dev/null", "rb", buffering=0)))  # noqa: SIM115
        assert (threads.objects["thread"], opened.objects["open file"]) == (1, 1)
    finally:
        end.set()
        for each in files:
            each.close()
    if sys.platform.startswith("linux"):
        sleeper = [sys.executable, "-c", "input()"]
        try:
            started = left_by(lambda: processes.append(subprocess.Popen(sleeper, stdin=subprocess.PIPE)), warmups=0)
            assert started.objects["process"] == 1
        finally:
            for process in processes:
                process.communicate()


test_threads_files_and_processes_are_counted = pytest.mark.processes(test_threads_files_and_processes_are_counted)


OPENED: list[object] = []


def test_a_text_file_that_a_list_keeps_has_that_list() -> None:
    try:
        left = left_by(lambda: OPENED.append(open(os.devnull)))  # noqa: SIM115  # left open
        assert left.objects["open file"] == 1
        assert left.where[0].startswith(f"held by {__name__}.OPENED (list)")
    finally:
        for each in OPENED:
            each.close()  # type: ignore[attr-defined]


class Descriptor:
    """A file that its finalizer closes, as of trio's pipes."""

    def __init__(self) -> None:
        self.number = os.open(os.devnull, os.O_RDONLY)

    def __del__(self) -> None:
        os.close(self.number)


@pytest.mark.parametrize("opens", [selectors.DefaultSelector, Descriptor])
def test_files_that_only_the_collector_closes_are_left_behind(opens: Callable[[], object]) -> None:
    def call() -> None:
        one = Handler()
        one.itself, one.selector = one, opens()  # type: ignore[attr-defined]

    left = left_by(call)
    gc.collect()
    assert left.objects["open file in a cycle"] == 1
    assert "1 open file in a cycle" in str(left)
    assert "2 open files in a cycle" in str(Left({"open file in a cycle": 2}))
    assert "2 threading.Event" in str(Left({"threading.Event": 2}))


@pytest.mark.slow
def test_the_collector_is_left_as_it_was_also_after_an_error() -> None:
    def fails() -> None:
        raise ValueError("the body")

    for enabled, was_frozen in ((True, False), (False, False), (True, True)):
        (gc.enable if enabled else gc.disable)()
        (gc.freeze if was_frozen else gc.unfreeze)()
        try:
            with pytest.raises(ValueError, match="the body"):
                left_by(fails, warmups=0)
            assert (gc.isenabled(), gc.get_freeze_count() > 0) == (enabled, was_frozen)
        finally:
            gc.enable()
            gc.unfreeze()


def test_a_body_runs_six_times_where_nothing_grows() -> None:
    counted: list[int] = []

    def count() -> None:
        counted[-1] = counted[-1] + 1

    trace = sys.gettrace()
    sys.settrace(None)  # coverage keeps something of each call
    try:
        # Another thread of this process (xdist's) may allocate in three of four calls, which looks like growth.
        while not counted or (counted[-1] > WARMUPS + CALLS and len(counted) < 5):
            counted.append(0)
            left_by(count)
    finally:
        sys.settrace(trace)
    assert counted[-1] == WARMUPS + CALLS


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (Left({"Tensor": 2}, 4 << 20, ("held by a.b",)), "each call leaves behind 2 Tensor (4 MiB); held by a.b"),
        (
            Left({}, blocks=19_996),
            "each call leaves behind about 19,900 strings or numbers that nothing holds",
        ),
        (Left({}, 1 << 20), "each call leaves behind memory outside of Python (1 MiB)"),
        (Left(dict.fromkeys("abcd", 1)), "each call leaves behind 1 a, 1 b, 1 c, 1 more kind"),
        (Left(dict.fromkeys("abcde", 1)), "each call leaves behind 1 a, 1 b, 1 c, 2 more kinds"),
    ],
)
def test_it_is_told_in_a_line(left: Left, text: str) -> None:
    assert str(left) == text


class Session:
    def __init__(self, closes_itself: bool) -> None:
        if closes_itself:
            self.closer = self.__del__  # the cycle

    def __del__(self) -> None:
        pass


CYCLE = next(
    at
    for at, text in enumerate(Path(__file__).read_text(encoding="utf-8").splitlines(), 1)
    if text.endswith("# the cycle")
)


@pytest.mark.slow
def test_a_cycle_with_a_finalizer_is_left_to_the_collector() -> None:
    assert left_by(lambda: Session(False)) == Left({})
    left = left_by(lambda: Session(True))
    assert left.objects == {f"{__name__}.Session with a finalizer in a cycle": 1}
    cycle, made = left.where
    assert cycle == "kept by the cycle Session.closer -> method"
    assert f"test_leaks.py:{CYCLE}" in made


class Cache:
    def __init__(self, fetched: object) -> None:
        self.fetch = lambda: self
        self.fetched = [fetched]


class Fetched:
    def __del__(self) -> None:
        pass


@pytest.mark.slow
def test_the_cycle_is_named_that_keeps_an_object_with_a_finalizer_outside_of_it() -> None:
    left = left_by(lambda: Cache(Fetched()))
    assert left.objects == {f"{__name__}.Fetched with a finalizer in a cycle": 1}
    function = f"Cache.__init__.<locals>.<lambda> at {relative(__file__)}:{Cache.__init__.__code__.co_firstlineno + 1}"
    assert left.where[0] == f"kept by the cycle Cache.fetch -> {function}"


class Chained:
    def __init__(self, following: object = None) -> None:
        self.following = following

    def __del__(self) -> None:
        pass


@pytest.mark.slow
def test_equal_members_of_a_cycle_are_counted() -> None:
    def links() -> None:
        first = Chained()
        first.following = Chained(Chained(first))

    assert left_by(links).where[0] == "kept by the cycle 3 x Chained.following"


@pytest.mark.slow
def test_what_no_python_object_holds_is_said_with_the_outermost_object_and_its_line() -> None:
    """opentelemetry registers a method for forked processes in each exporter: its Resource is leaked by that alone."""

    class Exporter:
        def __init__(self) -> None:
            self.resource = Handler()
            method = self.ended
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))  # as atexit does

        def ended(self) -> None:
            pass

    unheld, made = left_by(Exporter).where
    hook = "a hook of atexit or os.register_at_fork, or a C extension"
    assert unheld == f"no Python object holds the method {Exporter.ended.__qualname__}, but {hook} may"
    line = Exporter.__init__.__code__.co_firstlineno + 2
    assert made == f"made at tests/measure/memory/test_leaks.py:{line}"


@pytest.mark.slow
def test_what_a_thread_that_goes_on_holds_is_not_said_to_be_held_by_nothing() -> None:
    ends = threading.Event()

    def keep(handler: Handler) -> None:
        ends.wait()

    try:
        left = left_by(lambda: threading.Thread(target=keep, args=(Handler(),), daemon=True).start())
    finally:
        ends.set()
    assert left.objects["thread"] == 1
    assert left.where[0].startswith("held by threading._active (dict)")


@pytest.mark.slow
def test_the_line_at_which_a_list_grows_is_named_also_where_another_made_the_thing() -> None:
    def keep(thing: object) -> None:
        ENGINE.handlers.append(thing)

    line = keep.__code__.co_firstlineno + 1
    for thing in (Handler, lambda: 1e6 + len(ENGINE.handlers)):
        (held, *_) = [each for each in left_by(lambda thing=thing: keep(thing())).where if "which grows" in each]  # type: ignore[misc]
        assert held.endswith(f"test_leaks.py:{line}")


@pytest.mark.slow
def test_weak_references_to_dead_objects_are_a_leak_if_nobody_removes_them() -> None:
    """asgiref's `Local` kept one for each context."""

    def remember() -> None:
        ENGINE.handlers += [weakref.ref(Handler()) for _ in range(50)]

    left = left_by(remember)
    assert left.objects == {"weakref.ReferenceType": 50}
    line = remember.__code__.co_firstlineno + 1
    assert left.where == (f"held by Engine.handlers (list), which grows at {relative(__file__)}:{line}",)


@pytest.mark.slow
def test_weak_references_that_are_removed_at_a_threshold_are_no_leak() -> None:
    def remember() -> None:
        ENGINE.handlers += [weakref.ref(Handler()) for _ in range(50)]
        if len(ENGINE.handlers) > 500:
            ENGINE.handlers[:] = [each for each in ENGINE.handlers if each() is not None]  # type: ignore[operator]

    assert left_by(remember) == Left({})


@pytest.mark.slow
def test_a_frame_of_the_call_that_an_error_keeps_is_not_the_holder() -> None:
    """trio: a dict keeps tasks, whose errors keep the frames that raised them."""

    def fails() -> None:
        handler = Handler()
        raise KeyError(handler)

    def remember() -> None:
        try:
            fails()
        except KeyError as error:
            ENGINE.handlers.append(error)

    assert left_by(remember).where[0].startswith("held by Engine.handlers (list), which grows at ")


@pytest.mark.slow
def test_the_line_that_made_an_object_is_named_and_not_one_that_allocated_more() -> None:
    sizes: list[int] = []

    def remember() -> None:
        handler = Handler()
        sizes.extend(range(len(sizes) + 10_000, len(sizes) + 12_000))
        ENGINE.handlers.append(handler)

    line = remember.__code__.co_firstlineno + 1
    assert left_by(remember).where[1] == f"made at {relative(__file__)}:{line}"


@pytest.mark.slow
@pytest.mark.torch
def test_an_autograd_graph_that_grows_is_named() -> None:
    import torch

    weight = torch.ones(100_000, requires_grad=True)  # 400 kB a call, whatever else the process frees
    ENGINE.total = 0.0  # type: ignore[attr-defined]

    def step() -> None:
        ENGINE.total = ENGINE.total + (torch.ones(100_000) * weight).sum()  # type: ignore[attr-defined]

    try:
        (held, *_) = left_by(step).where
    finally:
        del ENGINE.total  # type: ignore[attr-defined]
    assert "Engine.total" in held


@pytest.mark.slow
def test_device_memory_is_left_behind_to_the_byte_whatever_holds_it() -> None:
    held = [0]

    def call() -> None:
        held[0] += 512

    left = left_by(call, device_bytes=lambda: held[0])
    assert (left.number, left.nbytes, left.device_bytes) == (1, 0, 512)
    assert str(left) == "each call leaves behind memory (512 B on the device)"


@pytest.mark.slow
def test_an_object_that_keeps_device_memory_is_named_with_its_size() -> None:
    left = left_by(lambda: ENGINE.handlers.append(Handler()), device_bytes=lambda: len(ENGINE.handlers) << 20)
    assert str(left).startswith(f"each call leaves behind 1 {__name__}.Handler (1 MiB on the device); held by ")


def test_things_that_are_no_type_have_a_plural() -> None:
    assert str(Left({"open file": 3, "list": 2})) == "each call leaves behind 3 open files, 2 list"

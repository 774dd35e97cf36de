"""Whether a few calls of a body leave anything behind."""

from __future__ import annotations

import os
import select
import socket
import threading
import weakref
from collections.abc import Callable
from io import FileIO

import numpy as np
import pytest

from pytest_opprof.machine import left
from pytest_opprof.measure.memory.glance import Glance, glance
from pytest_opprof.measure.memory.leaks import Left, left_by, left_open_by
from pytest_opprof.sites.code import place

from .test_leaks import ENGINE, Handler, closing_cycle

OPENED: list[object] = []
KEEPS: dict[str, Callable[[], object]] = {
    f"{Handler.__module__}.Handler": lambda: ENGINE.handlers.append(Handler()),
    "str": lambda: ENGINE.handlers.append(f"name {len(ENGINE.handlers)}"),
    "int": lambda: ENGINE.seen.update({len(ENGINE.seen) << 40: 1 << 40}),
    f"{Handler.__module__}.Closes with a finalizer in a cycle": closing_cycle,
    "open file": lambda: OPENED.append(os.open(os.devnull, os.O_RDONLY)),
}


def test_few_calls_are_made_if_they_leave_nothing_behind() -> None:
    number = [0]

    def call() -> list[object]:
        number[0] += 1
        return [np.ones(9) for _ in range(9)]

    glance(call, only_open=False)  # coverage keeps the first lines
    number[0] = 0
    assert glance(call, only_open=False).leaves_nothing
    assert number[0] in (2, 3, 4), "with coverage Python's own memory moves"


def test_one_call_of_a_long_body_is_made_if_it_leaves_nothing_open() -> None:
    kept: list[Handler] = []
    assert glance(lambda: kept.append(Handler()), only_open=True) == Glance(False, True)
    assert len(kept) == 1


def test_an_object_that_replaces_an_older_one_is_no_leak() -> None:
    ENGINE.seen["last"] = Handler()
    assert glance(lambda: ENGINE.seen.update(last=Handler()), only_open=False).leaves_nothing


def test_a_thread_that_ends_soon_is_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left, "_ENDING_S", 10)

    def call() -> None:
        threading.Timer(0.01, lambda: None).start()

    assert glance(call, only_open=True).leaves_nothing_open
    assert left_open_by(call) == Left({})


def test_threads_that_each_call_leaves_have_the_function_that_they_run() -> None:
    over = threading.Event()

    def serve() -> None:
        over.wait()

    def call() -> None:
        ENGINE.handlers.append(Handler())
        threading.Thread(target=serve, daemon=True).start()

    at = place(serve.__code__)
    try:
        assert glance(call, only_open=True) == Glance(False, False)
        assert left_open_by(call) == Left({"thread": 1}, where=(f"the newest thread runs `serve` at {at}",), line=at)
    finally:
        over.set()
    assert left_open_by(lambda: ENGINE.handlers.append(Handler())) == Left({})


@pytest.mark.slow
@pytest.mark.parametrize("kind", KEEPS)
def test_one_thing_that_each_call_keeps_is_found(kind: str) -> None:
    try:
        assert glance(KEEPS[kind], only_open=False) == Glance(False, kind != "open file")
        left = left_by(KEEPS[kind])
    finally:
        for each in OPENED:
            os.close(each)  # type: ignore[arg-type]
        OPENED.clear()
    assert left.objects[kind] == 1


@pytest.mark.parametrize(("references", "is_leak"), [(25, True), (5, False)])
def test_many_weak_references_that_a_list_keeps_are_left_behind_and_few_are_not(references: int, is_leak: bool) -> None:
    kept: list[object] = []

    def call() -> None:
        thing = Handler()
        # With a callback each is another object.
        kept.extend(weakref.ref(thing, lambda _: None) for _ in range(references))

    assert glance(call, only_open=False).leaves_nothing is not is_leak


class Cycle:
    """Keeps an open file."""

    def __init__(self, opened: object) -> None:
        self.opened, self.me = opened, self


class Closes:
    """Has a finalizer, and no file."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        pass


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    ("opened", "said"),
    [
        (lambda: FileIO(os.devnull), "kept by the cycle Cycle.me"),
        (socket.socket, "kept by the cycle Cycle.me"),
        (select.epoll, ""),
    ],
)
def test_a_file_that_each_call_leaves_in_a_cycle_is_left_open(opened: Callable[[], object], said: str) -> None:
    def call() -> None:
        Closes()
        Cycle(opened())

    assert not glance(call, only_open=True).leaves_nothing_open
    assert not glance(call, only_open=False).leaves_nothing
    found = left_open_by(call)
    assert found.objects == {"open file in a cycle": 1}
    assert "".join(found.where[:1]) == said

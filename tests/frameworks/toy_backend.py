"""The backend of `toy_framework`, as a third party would write it, and the ways in which it may be wrong."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from threading import main_thread
from time import perf_counter_ns
from typing import Any, ClassVar

from pytest_opprof.backends import Backend, KnownWork, Options
from pytest_opprof.errors import BackendError
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.event_log import EventLog

FRAMEWORK = f"{__package__}.toy_framework"


class ToyBackend(Backend):
    name = "toy"
    vocabulary: ClassVar = {"Relu": "toy.clamp0"}

    def in_use(self) -> bool:
        return FRAMEWORK in sys.modules

    def settle(self) -> None:
        _toy().wait()

    def mark(self, marks: list[int]) -> None:
        marks.append(perf_counter_ns())

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        toy = _toy()
        if toy.listener is not None:
            raise BackendError("a profiler of the toy framework is running already")
        marks: list[int] = []
        done: list[Any] = []
        log = EventLog(Environment((("toy", "1"),)), lambda: self.mark(marks))
        toy.wait()
        hear = toy.listener = done.append
        try:
            yield log
            toy.wait()
            if toy.listener is not hear:
                raise BackendError("another profiler of the toy framework took this window")
        finally:
            toy.listener = None
        for name, thread, start, ns in done:
            if self.sees(thread):
                event = log.add(log.name(name), ns, interval=bisect_right(marks, start))
                if options.moments:
                    log.ran(event, start, start + ns, f"thread {thread}")

    def sees(self, thread: int) -> bool:
        return True

    def selfcheck_work(self) -> KnownWork:
        toy = _toy()

        def run() -> None:
            for name in ("toy.clamp0", "Cast", "Cast"):
                toy.launch(name)

        return KnownWork(run, {"Relu": 1, "Cast": 2}, toy.profile, first_use=f"import {FRAMEWORK}")


def _toy() -> Any:
    from . import toy_framework

    return toy_framework


class NeverSettles(ToyBackend):
    """Work of a step is done in a later one."""

    def settle(self) -> None:
        pass


class SettlesInMarks(NeverSettles):
    """Work is done in its step, and after the clock was read."""

    def mark(self, marks: list[int]) -> None:
        _toy().wait()
        super().mark(marks)


class HasAnotherClock(ToyBackend):
    """Says when ops ran by a clock of its own, and not what time it was there at the marks."""

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        with super().collect(options) as log:
            yield log
        log._ran = {event: (start - 10**9, end - 10**9, thread) for event, (start, end, thread) in log._ran.items()}


class SaysNoMoments(ToyBackend):
    """Does not say when ops ran."""

    def collect(self, options: Options) -> AbstractContextManager[EventLog]:
        return super().collect(replace(options, moments=False))


class AddsOne(ToyBackend):
    """Shows what the program did not do."""

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        with super().collect(options) as log:
            yield log
            log.add(log.name("Copy"), 1, interval=2)


class LosesOne(ToyBackend):
    """Loses what was done in each tenth window."""

    def __init__(self) -> None:
        self.windows = 0

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        with super().collect(options) as log:
            yield log
            self.windows += 1
            if self.windows % 10 == 0:
                log.add = lambda *args, **kwargs: -1  # type: ignore[method-assign]


class Swallows(ToyBackend):
    """Takes the error of a test for its own."""

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        try:
            with super().collect(options) as log:
                yield log
        except Exception:
            pass


class StaysOn(ToyBackend):
    """Goes on recording after an error in a test."""

    open: ClassVar[list[object]] = []

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        context = super().collect(options)
        self.open.append(context)  # or it would be closed with the last reference to it
        yield context.__enter__()
        context.__exit__(None, None, None)


class IgnoresOthers(ToyBackend):
    """Yields an empty log where it cannot record."""

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        try:
            context = super().collect(options)
            log = context.__enter__()
        except BackendError:
            yield EventLog(Environment((("toy", "1"),)))
            return
        try:
            yield log
        finally:
            try:
                context.__exit__(*sys.exc_info())
            except BackendError:
                pass


class SeesOneThread(ToyBackend):
    """Loses what other threads ask for."""

    def sees(self, thread: int) -> bool:
        return thread == main_thread().ident


class CountsMarks(ToyBackend):
    """Takes all that happens after two marks for what happened before."""

    def mark(self, marks: list[int]) -> None:
        if len(marks) < 2:
            super().mark(marks)


class Steals(ToyBackend):
    """Takes the profiler from whoever has it, and says nothing."""

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        toy = _toy()
        toy.listener = None
        with super().collect(options) as log:
            hear = toy.listener
            yield log
            toy.wait()
            toy.listener = hear


class CannotLimit(ToyBackend):
    """Fails where threads are limited."""

    def threads_limited(self, threads: int) -> AbstractContextManager[object]:
        raise AttributeError("no set_threads")


class NeverInUse(ToyBackend):
    """Does not see that its framework was imported."""

    def in_use(self) -> bool:
        return False


class AlwaysInUse(ToyBackend):
    """Would be asked to record in every process."""

    def in_use(self) -> bool:
        return True

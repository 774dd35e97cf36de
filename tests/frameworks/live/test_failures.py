"""Whose failure it is, in windows of a backend that breaks where it is told to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_opprof import op
from pytest_opprof.backends import Backend, Options
from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.live.failures import entered
from pytest_opprof.frameworks.live.registry import threads_limited
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.event_log import EventLog


class Fragile(Backend):
    name = "fragile"

    def __init__(self, *breaks_in: str) -> None:
        self.breaks_in = breaks_in
        self.swallows = False

    def reach(self, place: str) -> None:
        if place in self.breaks_in:
            raise AttributeError(f"no attribute {place!r}")

    def unavailable(self) -> str | None:
        self.reach("unavailable")
        return None

    def in_use(self) -> bool:
        self.reach("in_use")
        return True

    def blind(self) -> str | None:
        self.reach("blind")
        return None

    def settle(self) -> None:
        self.reach("settle")

    @contextmanager
    def threads_limited(self, threads: int) -> Iterator[None]:
        self.reach("threads_limited")
        try:
            yield
        finally:
            self.reach("the end of threads_limited")

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        self.reach("collect")
        log = EventLog(Environment((("fragile", "1"),)), lambda: self.reach("mark"), self.knows)
        log.add(log.name("Cast"), 5, parent=7 if "parents" in self.breaks_in else -1, interval=2)
        try:
            yield log
        except ValueError:
            if not self.swallows:
                raise
        finally:
            self.reach("the end of collect")

    def knows(self, name: str) -> bool:
        self.reach("knows")
        return False


def measure(backend: Backend) -> Window:
    recorder, window = Recorder([backend], Options()), Window("w")
    with recorder.open(window), recorder.step(window):
        pass
    return window


@pytest.mark.parametrize("place", ["in_use", "collect", "mark", "settle", "the end of collect", "blind"])
def test_what_a_backend_raises_is_told_as_its_failure_with_the_place(place: str) -> None:
    with pytest.raises(BackendError) as caught:
        measure(Fragile(place))
    assert str(caught.value).startswith(
        f"backend 'fragile' ({__name__}) failed: AttributeError: no attribute '{place}' (test_failures.py:"
    )
    assert str(caught.value).endswith(" in reach)")
    assert isinstance(caught.value.__cause__, AttributeError)


def test_a_log_whose_events_lie_in_none_that_there_is_is_its_failure() -> None:
    with pytest.raises(BackendError, match=r"backend 'fragile' \(.*\) failed: IndexError"):
        measure(Fragile("parents"))


def test_what_knows_the_names_of_a_framework_may_fail_later() -> None:
    window = measure(Fragile("knows"))
    assert window.count("Cast") == 1
    with pytest.raises(BackendError, match=r"backend 'fragile' .* failed: AttributeError: no attribute 'knows'"):
        window.count("Csat")


def test_a_log_of_another_kind_is_an_error() -> None:
    class Odd(Fragile):
        @contextmanager
        def collect(self, options: Options) -> Iterator[EventLog]:
            yield []  # type: ignore[misc]

    with pytest.raises(BackendError, match=r"backend 'fragile' cannot be used: its collect\(\) gave a list, not an"):
        measure(Odd())


class Mine(BaseException):
    pass


@pytest.mark.parametrize("kind", [ValueError, KeyError, KeyboardInterrupt, Mine])
@pytest.mark.parametrize("place", ["", "mark", "the end of collect"])
def test_what_the_test_raises_comes_out_as_it_is_whatever_the_backend_does(
    kind: type[BaseException], place: str
) -> None:
    backend, error = Fragile(), kind("mine")
    backend.swallows = True
    recorder, window = Recorder([backend], Options()), Window("w")
    with pytest.raises(kind) as caught, recorder.open(window), recorder.step(window):
        backend.breaks_in = (place,)
        raise error
    assert caught.value is error
    if place and sys.version_info >= (3, 11):
        assert [note.partition(" failed: ")[0] for note in error.__notes__] == [f"backend 'fragile' ({__name__})"]


def test_after_a_mark_that_failed_no_window_around_it_has_numbers() -> None:
    backend = Fragile()
    recorder, outer, inner = Recorder([backend], Options()), Window("outer"), Window("inner")
    with pytest.raises(BackendError, match="the profiler failed at the start or end of an inner window"):
        with recorder.open(outer), recorder.step(outer):
            with pytest.raises(ValueError, match="mine"), recorder.open(inner), recorder.step(inner):
                backend.breaks_in = ("mark",)
                raise ValueError("mine")
            backend.breaks_in = ()
    assert measure(backend).count("Cast") == 1


def test_an_error_of_the_test_is_none_of_the_context_it_runs_in() -> None:
    for breaks_in in ((), ("the end of threads_limited",)):
        with pytest.raises(ZeroDivisionError), threads_limited([Fragile(*breaks_in)], 1):
            raise ZeroDivisionError
    for place in ("threads_limited", "the end of threads_limited"):
        with pytest.raises(BackendError, match=f"failed: AttributeError: no attribute '{place}'"):
            with threads_limited([Fragile(place)], 1):
                pass


def test_an_error_of_ours_is_not_wrapped() -> None:
    def lost() -> object:
        raise BackendError("lost this window")

    backend = Fragile()
    backend.collect = lambda options: lost()  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(BackendError, match=r"^lost this window$"), entered(backend, lambda: backend.collect(Options())):
        pass


def test_a_mark_of_a_range_may_fail() -> None:
    backend = Fragile()
    recorder, window = Recorder([backend], Options()), Window("w")
    with pytest.raises(BackendError, match="no attribute 'mark'"):
        with recorder.open(window), recorder.step(window):
            backend.breaks_in = ("mark",)
            with op("mine"):
                pass


def test_a_class_that_is_a_context_is_as_good_as_a_generator() -> None:
    class Context:
        def __enter__(self) -> int:
            return 5

        def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
            if error:
                raise error
            return True

    with entered(Fragile(), Context) as five:
        assert five == 5
    with pytest.raises(ValueError, match="mine") as caught, entered(Fragile(), Context):
        raise ValueError("mine")
    assert not getattr(caught.value, "__notes__", [])

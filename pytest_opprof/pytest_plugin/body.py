"""Run the body of a test as often as its mark says, inside the window `BODY`."""

from __future__ import annotations

import gc
import math
import unittest
import warnings
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction
from io import StringIO
from time import monotonic, perf_counter_ns, process_time_ns, thread_time_ns
from types import CodeType, FunctionType
from typing import TypeVar

import pytest
from msgspec.structs import replace

from ..errors import LateImport, NothingMeasured, OpprofError, UsageError
from ..machine.garbage import frozen_again, older_objects_apart
from ..measure.counting import Counting
from ..measure.function_times import FunctionTime, function_times
from ..measure.measurement import Measurement
from ..measure.memory.cycles import memory_kept
from ..measure.memory.glance import glance
from ..measure.memory.host_memory import lines_at, lines_kept, memory_of
from ..measure.memory.leaks import WARMUPS, Left, left_by, left_open_by
from ..measure.memory.traced import Where
from ..measure.sampled import Sampler, timed_lines
from ..measure.window import LEFT, OPEN, Window, profiles_of
from ..processes.request import request_of
from ..processes.this_run import COUNTED
from ..profile.op_profile import About
from ..python_calls.counted import PythonCalls
from ..results.window_result import BODY
from ..sites.chains import Frame
from ..sites.code import relative
from ..verdict.quantities import LEFT_BEHIND, LEFT_OPEN
from .test_run import Failed, TestRun

_Found = TypeVar("_Found")
# Errors of a body that runs again, when its outcome is already decided.
_FAILURES = (Exception, SystemExit, pytest.skip.Exception, pytest.fail.Exception)


class Call:
    """The runs of a test: pytest makes the last, between the wrappers of other plugins; opprof makes the earlier
    ones.
    """

    def __init__(self, test: TestRun) -> None:
        self.test = test
        self.item = test.item
        self.is_over = False
        """Whether pytest ran it."""
        self.result: object = None
        self.raised: BaseException | None = None
        """The exception of the test itself."""
        logging = test.item.config.pluginmanager.get_plugin("logging-plugin")
        handlers = (getattr(logging, name, None) for name in ("caplog_handler", "report_handler"))
        self._log_handlers = [handler for handler in handlers if handler is not None]

    def by_pytest(self) -> Generator[None, object, object]:
        """Yield to let pytest run the body."""
        self.is_over = True
        try:
            self.result = yield
        except BaseException as error:
            self.raised = error
            raise
        return self.result

    def by_us(self) -> object:
        """Run the body.

        It begins with an empty log, as pytest's run does: `caplog` would have the records of all runs, and each run
        would leave its records behind. The log of a run that fails for the test stays for the report. Warnings of a run
        after pytest's own are dropped, since pytest would count them for each run.
        """
        warned = getattr(getattr(warnings, "_showwarnmsg_impl", None), "__self__", None)  # where pytest collects them
        warned = warned if isinstance(warned, list) else []
        number = len(warned)
        kept = [(handler, [*handler.records], handler.stream) for handler in self._log_handlers]
        for handler in self._log_handlers:  # the list stays the same, since `caplog.get_records` knows it
            handler.records.clear()
            handler.stream = StringIO()
        try:
            result = self.item.runtest()
            if getattr(self.item, "_excinfo", None):
                # A unittest.TestCase keeps its failures and skips for pytest's report, which takes the first of them.
                raise Failed("a round failed or was skipped")
        except BaseException as error:
            self.raised = error
            kept = kept if self.is_over else []
            raise
        finally:
            if self.is_over:
                del warned[number:]
            for handler, records, stream in kept:
                handler.records[:], handler.stream = records, stream
        return result


def measure(call: Call, measurement: Measurement, *, is_alone: bool) -> Generator[None, object, object]:
    """Measure the rounds of the body inside the window `BODY`; yields to let pytest run the last.

    *is_alone*: no other rank would have to repeat the body, too.
    """
    for _ in range(measurement.plan.warmup):
        measurement.begin_round()
        call.by_us()
    try:
        result = yield from _measure_rounds(call, measurement, measurement.plan.rounds)
    except LateImport as error:
        # A project that was not written for opprof imports frameworks where it needs them.
        if not is_alone or why_not_again(call.test) or not _measured_again(call, measurement, measurement.plan.rounds):
            raise call.test.unmeasured(error) from None
        result = call.result
        measurement.windows[-1].remark(
            "the body ran twice, and the second run was measured: the first one imported a framework"
        )
    return result


def window_of(measurement: Measurement) -> Window | None:
    """Return the window of the body, if that was measured."""
    return next((window for window in measurement.windows if window.name == BODY), None)


def look_for_leaks(call: Call, measurement: Measurement) -> None:
    """Run the body more often, and add the memory and objects that each call leaves behind to its window."""
    body = window_of(measurement)
    if body is not None and not request_of(call.item.config).first_look:
        left = left_behind(call, measurement, body)
        if left is not None:
            body.left(left)


_LEAVES = "leaks are not compared: each call leaves something behind already; opprof(leaks=True) compares how much"


def glance_for_leaks(
    call: Call, measurement: Measurement, *, counted: Collection[str], only_open: bool, is_stored: bool
) -> None:
    """Run the body up to four times more, and add to its window that it leaves nothing behind, or nothing open, if so.

    If not and that is *counted*, look for leaks. In suites of JAX half of the tests register classes for good, and to
    count these would take 20 calls each. *only_open*: the body is long, or only what it leaves open is known.
    *is_stored*: an update stores the window.
    """
    body = window_of(measurement)
    if body is None or request_of(call.item.config).first_look:
        return
    run = partial(glance, call.by_us, measurement.recorder.device_bytes, only_open=only_open)
    seen = _of_more_runs(call, measurement, run)
    if seen is None:
        return
    if seen.leaves_nothing and not only_open:
        body.left(Left({}))
        return
    if LEFT_BEHIND in counted and (left := left_behind(call, measurement)):
        body.left(left)
        return
    if is_stored and not only_open:
        body.remark(_LEAVES, about="leaks")
    if seen.leaves_nothing_open:
        body.left_open(Left({}))
    elif LEFT_OPEN in counted and (left := _of_more_runs(call, measurement, partial(left_open_by, call.by_us))):
        body.left_open(left)


def left_behind(call: Call, measurement: Measurement, body: Window | None = None) -> Left | None:
    """Run the body more often, and return the memory and objects that each call leaves behind; None, with a remark on
    the window of the *body*, if it cannot run.
    """
    warmups = max(WARMUPS - measurement.plan.rounds - measurement.plan.warmup, 0)
    run = partial(left_by, call.by_us, warmups, measurement.recorder.device_bytes)
    return _of_more_runs(call, measurement, run, body, "leaks")


def measure_host_memory(call: Call, measurement: Measurement, *, by_default: bool) -> None:
    """Run the body once more, and add the host's memory to its window, if Python and NumPy use it.

    *by_default*: also if the user did not ask; why it is unknown is then no remark.
    """
    body = window_of(measurement)
    is_asked = measurement.plan.host_memory
    if body is None or not (by_default if is_asked is None else is_asked):
        return
    frameworks = {name for name, _ in body.profile.environment.frameworks}
    if body.profile.is_empty or frameworks <= {"numpy"}:
        remarked = body if is_asked else None
        run = partial(memory_of, call.by_us, partial(_ran_again, call, call.by_us))
        memory = _of_more_runs(call, measurement, run, remarked)
        if memory is not None:
            body.used_on_host(memory)


def memory_holders(
    call: Call, measurement: Measurement, peak: int, *, are_lines_known: bool, on_device: bool
) -> Sequence[Where]:
    """Run the body again, and return in words the lines and the cycle that hold much of its *peak* memory; lines of the
    test, which makes its own data as before, come last.

    *are_lines_known*: whether Python's tracing of memory tells the lines. *on_device*: whether it is a device's memory.
    """
    assert measurement.shown is not None  # a run that judges has it
    cycle = partial(memory_kept, call.by_us, peak, on_device=on_device)
    lines = partial(lines_at, peak, call.by_us, measurement.shown)
    looks = [lines, cycle] if are_lines_known else [cycle]
    found = [each for look in looks for each in _of_more_runs(call, measurement, look) or ()]
    test = f"{relative(measurement.shown.test)}:" if measurement.shown.test else ":"
    return sorted(found, key=lambda each: each.line.startswith(test))


def kept_at(call: Call, measurement: Measurement) -> Sequence[Where]:
    """Run the body again, and return in words the lines that hold much of the memory that it keeps."""
    return _of_more_runs(call, measurement, partial(lines_kept, call.by_us, measurement.shown)) or ()


# The most runs of a body whose fastest is its time, and the time after which the first few are enough: of 151 unchanged
# tests of GPyTorch one exceeded x1.4 in ten runs, and none in thirty.
_REPEATS, _FEW_REPEATS, _REPEATS_NS = 30, 3, 100_000_000
# The CPU time of other threads that means nothing; a thread of a test tool takes some.
_OF_OTHERS, _OF_OTHERS_NS = 0.1, 100_000


def time_repeats(call: Call, measurement: Measurement, fast_enough_ns: float = 0) -> None:
    """Run the body several times more, in one thread and recording nothing, and add the CPU time of the fastest run to
    its window. The first that takes at most *fast_enough_ns* is the last.

    None if other threads take CPU time all the same, as those of JAX do: part of that may be waiting.
    """
    body = window_of(measurement)

    def fastest() -> float | None:
        cpu_ns, own_ns = math.inf, math.inf
        begin = perf_counter_ns()
        with measurement.in_one_thread(), measurement.unrecorded(), frozen_again(), older_objects_apart():
            for runs in range(_REPEATS):
                if runs >= _FEW_REPEATS and perf_counter_ns() - begin > _REPEATS_NS:
                    break
                measurement.begin_round()
                of_process, of_thread = process_time_ns(), thread_time_ns()
                call.by_us()
                took = process_time_ns() - of_process, thread_time_ns() - of_thread
                cpu_ns, own_ns = min((cpu_ns, own_ns), took)
                gc.collect()
                if cpu_ns <= fast_enough_ns:
                    break
        return cpu_ns if cpu_ns - own_ns <= max(_OF_OTHERS * cpu_ns, _OF_OTHERS_NS) else None

    cpu_ns = _of_more_runs(call, measurement, fastest) if body else None
    if body and cpu_ns is not None:
        body.repeats(int(cpu_ns))


def _of_more_runs(
    call: Call,
    measurement: Measurement,
    run: Callable[[], _Found],
    window: Window | None = None,
    about: About = "host memory",
) -> _Found | None:
    """Return the result of more runs of the body, which measure nothing else; None, with a remark on its *window*, if
    it cannot run.
    """
    why, raised = why_not_again(call.test), call.raised
    with measurement.repeated():
        try:
            if not why:
                return run()
        except pytest.exit.Exception:
            raise
        except UsageError as error:
            _forget_excinfo(call)
            why = str(error)
        except _FAILURES as error:
            _forget_excinfo(call)
            why = f"when it ran again, the body raised {error!r}"
        finally:
            call.raised = raised
    if window:
        window.remark(f"{_SUBJECTS[about]} unknown: {why}", about)
    return None


def _ran_again(call: Call, run: Callable[[], object]) -> bool:
    """Let *run* run the body again; return False if that fails."""
    try:
        run()
    except pytest.exit.Exception:
        raise
    except _FAILURES:
        _forget_excinfo(call)
        return False
    return True


_SUBJECTS: Mapping[About, str] = {"leaks": "leaks are", "host memory": "peak memory of the host is"}


def _forget_excinfo(call: Call) -> None:
    if hasattr(call.item, "_excinfo"):
        call.item._excinfo = None  # of a unittest.TestCase, for the report


def why_not_again(test: TestRun) -> str:
    """Return why the body of a test cannot run again in this process, as far as known beforehand."""
    if "subtests" in getattr(test.item, "fixturenames", ()):
        return "its subtests would be reported twice"
    if issubclass(getattr(test.item, "cls", None) or object, unittest.IsolatedAsyncioTestCase):
        return "an IsolatedAsyncioTestCase cannot run again"
    if getattr(test.item, "_excinfo", None):  # a repeated unittest.TestCase would lose the content of its report
        return "it failed or was skipped"
    return ""


def measure_again(call: Call, measurement: Measurement, sites: bool = False) -> Sequence[Window]:
    """Run the rounds of the body once more; return its windows, or none if a round fails.

    A slow result is mostly a slow moment, and a fresh process takes seconds. The test's outcome is already decided, so
    a body that cannot run again is no failure. *sites*: one round that records source lines.
    """
    if measurement.core and not sites:
        measurement.core.insist()
    rounds = 1 if sites else measurement.plan.rounds
    with measurement.repeated() as windows, measurement.with_sites() if sites else nullcontext():
        return windows if _measured_again(call, measurement, rounds) else []


def _measured_again(call: Call, measurement: Measurement, rounds: int) -> bool:
    """Measure the body once more; return False if a round fails."""
    return _ran_again(call, lambda: [*_measure_rounds(call, measurement, rounds, again=True)])


def count(
    call: Call, measurement: Measurement, only: Collection[str] | None = None, lines: bool = False
) -> Mapping[str, PythonCalls]:
    """Run the body once more, and return the calls of Python functions by window.

    With *lines* it finds the callers of the functions *only*, or of all functions.

    The test's outcome is already decided, so a body that cannot run again is no failure.
    """
    assert measurement.shown is not None  # a run that judges has it
    counting = Counting(measurement.shown, measurement.windows, lines, only, _code_of(call.item))
    why, raised = why_not_again(call.test), call.raised
    if not why:
        measurement.begin_round()
        measurement.counting = counting
        try:
            with counting.counter:
                call.by_us()
        except pytest.exit.Exception:
            raise
        except _FAILURES as error:
            why = f"the body cannot run twice: {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
            _forget_excinfo(call)
        finally:
            measurement.counting, call.raised = None, raised
    if why:
        names = {BODY, *(window.name for window in measurement.windows)}
        return {name: PythonCalls(uncounted=why, fails_again=True) for name in names}
    return {BODY: counting.counter.result(), **counting.results()}


# The body is sampled each millisecond. If it ends before this many samples, it runs again, up to this often and this
# many seconds: compiled code that holds Python's lock gives one sample a call.
_LOOKS, _MOST_SAMPLED, _SAMPLED_S = 100, 20, 5


def slow_lines(call: Call, measurement: Measurement, *, of_first: bool) -> Sequence[Where]:
    """Run the body again, and return in words the lines that take its time.

    If it cannot run again, return those of its first run, if that was sampled. *of_first*: so, too, if the time of the
    first run is in question and a later one takes less than half of it, since a cache is full then.
    """
    assert measurement.shown is not None  # a run that judges has it
    raised, found = call.raised, measurement.sampler
    try:
        if of_first and not why_not_again(call.test) and _takes_less_again(call, measurement):
            if found:
                _correct(call, measurement, found, None)
        elif not why_not_again(call.test):
            # The run measures nothing, so its windows are discarded.
            begin = monotonic()
            with measurement.repeated(), Sampler(measurement.shown) as sampler:
                runs = 0
                while runs < _MOST_SAMPLED and sampler.looks < _LOOKS and monotonic() - begin < _SAMPLED_S:
                    runs += 1
                    measurement.begin_round()
                    call.by_us()
            if monotonic() - begin < _SAMPLED_S:
                _correct(call, measurement, sampler, runs)
            found = sampler
    except pytest.exit.Exception:
        raise
    except _FAILURES:
        _forget_excinfo(call)
    finally:
        call.raised = raised
    return [*found.lines()] if found else []


def _correct(call: Call, measurement: Measurement, sampler: Sampler, runs: int | None) -> None:
    assert measurement.shown is not None
    shown = measurement.shown

    def timed(functions: set[tuple[str, str]]) -> Mapping[Frame, int] | None:
        return _of_more_runs(call, measurement, partial(timed_lines, call.by_us, shown, functions))

    for functions in sampler.functions:
        if times := timed(functions):
            hidden = sampler.hidden(times) - functions
            sampler.correct((timed(functions | hidden) if hidden else None) or times, runs)
            return


def times_of_functions(call: Call, measurement: Measurement) -> Sequence[FunctionTime]:
    """Run the body again, and return the time in each of the program's functions; none if it cannot run."""
    assert measurement.shown is not None  # a run that judges has it
    return _of_more_runs(call, measurement, partial(function_times, call.by_us, measurement.shown)) or ()


def _takes_less_again(call: Call, measurement: Measurement) -> bool:
    """Measure the body once more, and return True if it takes less than half of the time.

    It is measured because that alone may double the time of a body with many ops.
    """
    with measurement.repeated() as windows:
        if not _measured_again(call, measurement, 1):
            return False
    first, again = (profiles_of(each).get(BODY) for each in (measurement.windows, windows))
    if not (first and first.wall_ns and again and again.wall_ns):
        return False
    return 2 * sum(again.wall_ns) < sum(first.wall_ns) / first.steps


def count_cold(call: Call, measurement: Measurement) -> Generator[None, object, object]:
    """Let pytest run the body, count its calls of Python functions, and leave the counts to the requesting run."""
    assert measurement.shown is not None  # a run that judges has it
    lines = request_of(call.item.config).sites
    counting = Counting(measurement.shown, (), lines, target=_code_of(call.item))
    measurement.counting = counting
    try:
        with counting.counter:
            result = yield from call.by_pytest()
    finally:
        measurement.counting = None
    counted = {BODY: counting.counter.result(), **counting.results()}
    call.item.config.stash[COUNTED] = {name: replace(each, cold=True) for name, each in counted.items()}
    return result


def _code_of(item: pytest.Item) -> CodeType | None:
    """Return the code of a test function; None if it is unknown or runs in an event loop."""
    function = getattr(item, "obj", None)
    function = getattr(function, "__func__", function)
    is_awaited = iscoroutinefunction(function) or isasyncgenfunction(function)
    return function.__code__ if isinstance(function, FunctionType) and not is_awaited else None


def _measure_rounds(
    call: Call, measurement: Measurement, rounds: int, again: bool = False
) -> Generator[None, object, object]:
    plan, request = measurement.plan, request_of(call.item.config)
    measurement.forget()
    body = Window(BODY, measurement.aliases)
    body.threads = measurement.threads
    running = False
    try:
        with measurement.recorder.open(body):
            for number in range(rounds):
                measurement.begin_round()
                running = True
                with measurement.recorder.step(body):
                    if number < rounds - 1 or again:
                        result = call.by_us()
                    elif measurement.shown and (request.slow or request.causes):
                        with Sampler(measurement.shown) as sampler:
                            result = yield from call.by_pytest()
                        measurement.sampler = sampler
                    else:
                        result = yield from call.by_pytest()
                running = False
    except NothingMeasured as error:
        if running:
            raise
        if plan.marked:
            raise call.test.unmeasured(error) from None
        return result
    except LateImport:
        raise
    except OpprofError as error:
        if running:
            raise  # the test's own mistake: keep the traceback to its line
        raise call.test.unmeasured(error) from None
    measurement.windows.append(body)
    return result


def check_finished(measurement: Measurement) -> None:
    """Raise UsageError for a window without a beginning or an end, which nobody could judge."""
    for window in measurement.unused:
        raise UsageError(
            f"window {window.name!r} measures nothing: it was made and never entered. Write `with opprof(...):` or"
            " `for _ in opprof.rounds(...):` before the code"
        )
    for window in measurement.windows:
        if window.unfinished in (OPEN, LEFT):
            raise UsageError(
                f"window {window.name!r} {window.unfinished}: it has to end inside the test. Leave a with block or a"
                " loop over rounds at its end, and open windows in the test, not in a fixture"
            )

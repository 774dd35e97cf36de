from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from pytest_opprof import op
from pytest_opprof.backends import fake
from pytest_opprof.errors import BackendError, NothingMeasured, UsageError
from pytest_opprof.frameworks.live.contract import Backend, Options
from pytest_opprof.measure import user_ops
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.event_log import EventLog


@pytest.fixture
def recorder() -> Recorder:
    return Recorder([fake.backend()], Options(), explicit=True)


def measure(recorder: Recorder, name: str = "w") -> contextmanager[Window]:  # type: ignore[valid-type]
    @contextmanager
    def opened() -> Iterator[Window]:
        window = Window(name)
        with recorder.open(window), recorder.step(window):
            yield window

    return opened()


def test_a_window_has_what_ran_inside_it(recorder: Recorder) -> None:
    fake.launch("Cast")
    with measure(recorder) as window:
        fake.launch("Add", device_ns=5)
        fake.launch("Add", device_ns=7)
    fake.launch("Cast")
    assert (window.count("Add"), window.count("Cast"), window.calls, window.device_ns) == (2, 0, 2, 12)
    assert window.top(1)[0].op == "Add"
    assert window.host_ns > 0


def test_a_window_whose_ops_are_not_recorded_has_times_alone(recorder: Recorder, untraced: None) -> None:
    recorder.records = False
    outer, inner = Window("outer"), Window("inner")
    with recorder.open(outer):
        for _ in range(2):
            with recorder.step(outer):
                fake.launch("Add", device_ns=5)
                with recorder.open(inner), recorder.step(inner):
                    fake.launch("Add", device_ns=7)
    for window, steps in ((outer, 2), (inner, 2)):
        assert (window.profile.is_empty, window.profile.steps, len(window.profile.cpu_ns)) == (True, steps, steps)
    recorder.records = True
    with measure(recorder) as recorded:
        fake.launch("Add")
    assert recorded.count("Add") == 1


BUSY = "import time; sum(range(10**6)); print(time.process_time_ns(), flush=True); input()"
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the system does not tell")


@on_linux
@pytest.mark.processes
def test_the_cpu_time_of_a_process_that_worked_before_the_window_is_not_its_own(
    recorder: Recorder, untraced: None
) -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout
        took_ns = int(process.stdout.readline())
        with measure(recorder) as window:
            process.communicate("\n")
            subprocess.run([sys.executable, "-c", ""], check=True)
    assert window._ended_ns[0] >= took_ns  # what the system says
    assert window.profile.cpu_ns == (window._cpu_ns[0],)


@on_linux
@pytest.mark.processes
def test_cpu_time_includes_that_of_a_process_that_the_window_waits_for(recorder: Recorder, untraced: None) -> None:
    program = "import time; sum(range(10**6)); print(time.process_time_ns())"
    with measure(recorder) as window:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert window.profile.cpu_ns[0][0] >= int(done.stdout)


def test_an_inner_window_is_part_of_the_outer_one(recorder: Recorder) -> None:
    with measure(recorder) as outer:
        fake.launch("Add")
        with measure(recorder) as inner:
            fake.launch("Mul")
        assert (inner.count("Mul"), inner.count("Add")) == (1, 0)
        fake.launch("Add")
        with measure(recorder) as second:
            fake.launch("Exp")
    assert second.calls == 1
    assert (outer.count("Add"), outer.count("Mul"), outer.count("Exp")) == (2, 1, 1)


def test_windows_may_overlap_as_those_of_two_tasks_do(recorder: Recorder) -> None:
    first, second = measure(recorder), measure(recorder)
    one = first.__enter__()  # type: ignore[attr-defined]
    fake.launch("Add")
    two = second.__enter__()  # type: ignore[attr-defined]
    fake.launch("Mul")
    first.__exit__(None, None, None)  # type: ignore[attr-defined]
    fake.launch("Exp")
    second.__exit__(None, None, None)  # type: ignore[attr-defined]
    assert [stats.op for stats in sorted(one.ops, key=lambda s: s.op)] == ["Add", "Mul"]
    assert [stats.op for stats in sorted(two.ops, key=lambda s: s.op)] == ["Exp", "Mul"]


def test_steps_are_apart_and_what_runs_between_them_is_left_out(recorder: Recorder) -> None:
    window = Window("rounds")
    with recorder.open(window):
        for calls in (1, 3, 2):
            fake.launch("Exp")
            with recorder.step(window):
                for _ in range(calls):
                    fake.launch("Add")
    assert window.stats("Add").calls == (1, 3, 2)
    assert window.count("Add") == 3
    assert window.stats("Exp").calls == (0, 0, 0)
    assert len(window.profile.host_ns) == 3


def test_the_numbers_of_an_open_window_are_refused(recorder: Recorder) -> None:
    with measure(recorder) as window, pytest.raises(UsageError, match="window 'w' has no numbers: it is still open"):
        window.count("Add")


def test_a_failing_inner_window_leaves_the_outer_one_whole(recorder: Recorder) -> None:
    with measure(recorder) as outer:
        fake.launch("Add")
        with pytest.raises(ValueError, match="mine"), measure(recorder) as inner:
            fake.launch("Mul")
            raise ValueError("mine")
        fake.launch("Exp")
    assert sorted(stats.op for stats in outer.ops) == ["Add", "Exp", "Mul"]
    with pytest.raises(UsageError, match="it ended in ValueError"):
        inner.count("Mul")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failing_body_stops_the_profiler_and_keeps_its_error(recorder: Recorder, error: type[BaseException]) -> None:
    with pytest.raises(error), measure(recorder):
        raise error
    assert fake.backend().log is None
    with measure(recorder) as window:
        fake.launch("Add")
    assert window.count("Add") == 1


def test_abandoning_stops_what_runs(recorder: Recorder) -> None:
    measure(recorder).__enter__()  # type: ignore[attr-defined]
    recorder.abandon()
    assert fake.backend().log is None


def test_a_zero_from_a_window_that_recorded_nothing_is_refused(recorder: Recorder) -> None:
    with measure(recorder) as window:
        pass
    assert window.calls == 0
    with pytest.raises(
        UsageError, match=r"recorded no op at all, so a count of 'Cast' says nothing.*window.calls == 0"
    ):
        window.count("Cast")


def test_an_unknown_op_ends_the_traceback_at_the_users_line(recorder: Recorder) -> None:
    with measure(recorder) as window:
        fake.launch("Cast")
    with pytest.raises(UsageError, match=r"unknown op 'Csat': did you mean 'Cast'\?") as error:
        window.count("Csat")
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


def calls(window: Window) -> dict[str, tuple[int, ...]]:
    return {stats.op: stats.calls for stats in window.ops}


def test_a_range_is_one_op_and_the_ops_inside_keep_their_counts_and_times(recorder: Recorder) -> None:
    with measure(recorder) as window:
        with op("my_attention"):
            fake.launch("MatMul", device_ns=5)
            with op("my_softmax"):
                fake.launch("Exp", device_ns=7)
        with op("my_attention"):
            pass
    assert calls(window) == {"my_attention": (2,), "my_softmax": (1,), "MatMul": (1,), "Exp": (1,)}
    assert (window.count("my_attention"), window.device_ns) == (2, 12)
    assert window.stats("my_attention").device_ns is None  # an accelerator's time is all in its ops
    assert window.profile.environment.frameworks == (("fake", "1"),)


def test_a_range_is_of_the_step_and_the_windows_it_is_in(recorder: Recorder) -> None:
    window = Window("rounds")
    with op("before"), measure(recorder) as outer:
        with recorder.open(window):
            for ranges in (1, 3):
                with op("between"):
                    pass
                with recorder.step(window):
                    for _ in range(ranges):
                        with op("mine"):
                            fake.launch("Add")
    assert calls(window) == {"mine": (1, 3), "Add": (1, 3)}
    assert calls(outer) == {"mine": (4,), "Add": (4,), "between": (2,)}


def test_a_range_does_nothing_where_nobody_records(recorder: Recorder) -> None:
    with op("Cast"), op("any thing?"):
        pass
    with measure(recorder) as window:
        fake.launch("Add")
    with op("after"):
        pass
    assert calls(window) == {"Add": (1,)}
    assert user_ops.recording is None


def test_ranges_of_two_tasks_may_overlap_and_those_of_other_threads_are_not_seen(recorder: Recorder) -> None:
    def of_a_thread() -> None:
        with op("in_a_thread"):
            pass

    one, two = op("one"), op("two")
    with measure(recorder) as window:
        one.__enter__()
        two.__enter__()
        thread = threading.Thread(target=of_a_thread)
        thread.start()
        thread.join()
        one.__exit__()
        two.__exit__()
        two.__exit__()
    assert calls(window) == {"one": (1,), "two": (1,)}


def test_what_a_range_raises_ends_it(recorder: Recorder) -> None:
    with measure(recorder) as window:
        with pytest.raises(ValueError, match="mine"), op("mine"):
            raise ValueError("mine")
        fake.launch("Add")
    assert calls(window) == {"mine": (1,), "Add": (1,)}


def test_a_window_inside_a_range_is_an_error_that_says_so(recorder: Recorder) -> None:
    with measure(recorder, "outer"):
        with op("mine"), pytest.raises(UsageError, match=r"window 'inner' begins inside opprof.op\('mine'\); put"):
            with measure(recorder, "inner"):
                pass


def test_a_window_that_ends_inside_a_range_is_an_error_and_leaves_the_next_one_alone(recorder: Recorder) -> None:
    with ExitStack() as stack:
        with pytest.raises(UsageError, match=r"window 'w' ends inside opprof.op\('mine'\)"), measure(recorder):
            stack.enter_context(op("mine"))
    assert user_ops.recording is None
    with measure(recorder) as window:
        fake.launch("Add")
    assert calls(window) == {"Add": (1,)}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Cast", "the name is taken, ops called so are counted as Cast; give the range one of its own: 'my_Cast'"),
        ("aten::addmm", "ops called so are counted as MatMul"),
        ("aten::to", "a framework has ops called so"),
        ("cudaLaunchKernel", "a framework has ops called so"),
        ("AddBackward0", "a framework has ops called so"),
        ("MemcpyHtoD", "ops called so are counted as MemcpyHtoD"),
        ("", r"opprof.op\(''\): write a letter, then letters, digits"),
        ("conv*", "write a letter, then"),
        ("(outside ops)", "write a letter, then"),
        (7, r"opprof.op\(7\): write a letter"),
        (["a"], r"opprof.op\(\['a'\]\): write a letter"),
    ],
)
def test_a_name_that_means_something_else_or_nothing_is_refused(recorder: Recorder, name: str, message: str) -> None:
    with measure(recorder), pytest.raises(UsageError, match=message), op(name):
        pass


def test_a_range_with_the_name_of_an_op_that_ran_is_refused(recorder: Recorder) -> None:
    with pytest.raises(UsageError, match=r"opprof.op\('my_kernel'\): an op of this name ran beside it"):
        with measure(recorder):
            fake.launch("my_kernel")
            with op("my_kernel"):
                pass


def test_an_alias_gives_a_range_a_meaning() -> None:
    recorder = Recorder([fake.backend()], Options(), {"my_attention": "Attention"}, explicit=True)
    with measure(recorder) as window, op("my_attention"):
        pass
    assert calls(window) == {"Attention": (1,)}


def test_flops_are_known_and_memory_where_asked_for_whether_or_not_there_are_ranges() -> None:
    for known in (False, True):
        recorder = Recorder([fake.backend()], Options(memory=known), explicit=True)
        with measure(recorder) as window, op("mine"):
            fake.allocate(100)
            fake.launch("MatMul", flops=5)
            with op("inner"):
                fake.allocate(50)
                fake.allocate(-50)
        assert window.profile.total.flops == (5,)
        assert window.profile.allocations == ((2,) if known else None)
        assert window.profile.peak_memory == ((150,) if known else None)


class Late(Backend):
    """A stand-in for a framework that is imported inside the window."""

    name = "late"
    imported = False

    def in_use(self) -> bool:
        return self.imported

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        yield EventLog(Environment((("late", "1"),)))


class Blind(Late):
    """A stand-in for a backend that sees only what it was shown."""

    name = "blind"
    imported = True

    def blind(self) -> str | None:
        return "it was shown nothing"


def test_a_framework_first_imported_inside_the_window_is_an_error() -> None:
    late = Late()
    with pytest.raises(BackendError, match="late was first imported inside the measured window"):
        with measure(Recorder([fake.backend(), late], Options())):
            late.imported = True


@pytest.mark.parametrize(
    ("backends", "why"),
    [
        ([Blind(), Late(), Late()], "it was shown nothing"),
        ([Late()] * 9, "no framework that opprof records is in use; opprof backends lists them"),
    ],
)
def test_nothing_that_could_see_is_an_error_that_says_what_those_in_use_need(backends: list[Backend], why: str) -> None:
    with pytest.raises(NothingMeasured, match=f"^nothing can be measured here: {why}$"):
        with measure(Recorder(backends, Options())):
            pass


def test_a_backend_that_is_not_in_use_is_not_started_unless_it_was_chosen() -> None:
    with measure(Recorder([fake.backend(), Late()], Options())) as window:
        fake.launch("Add")
    assert window.profile.environment.frameworks == (("fake", "1"),)
    with measure(Recorder([Late()], Options(), explicit=True)) as window:
        pass
    assert window.calls == 0


class Asynchronous(Backend):
    """A stand-in for a framework that does later what it is asked for."""

    name = "asynchronous"

    def __init__(self) -> None:
        self.log: list[str] = []

    def in_use(self) -> bool:
        return True

    def settle(self) -> None:
        self.log.append("settle")

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        yield EventLog(Environment((("asynchronous", "1"),)), on_mark=lambda: self.log.append("mark"))


def test_a_step_begins_and_ends_settled_and_a_range_inside_it_does_not_wait() -> None:
    backend = Asynchronous()
    recorder, window = Recorder([fake.backend(), backend], Options(), explicit=True), Window("w")
    with recorder.open(window):
        for number in range(2):
            with recorder.step(window):
                backend.log.append(f"step {number}")
                with op("mine"):
                    pass
    step = ["settle", "mark", "step {}", "mark", "mark", "settle", "mark"]
    assert backend.log == ["mark", *(what.format(number) for number in range(2) for what in step)]


def test_what_a_step_waits_for_is_in_its_time() -> None:
    now = [0]

    class Slow(Asynchronous):
        def settle(self) -> None:
            now[0] += 700

    with measure(Recorder([Slow()], Options(), clock_ns=lambda: now[0])) as window:
        now[0] += 5
    assert window.host_ns == 705


def test_what_a_backend_makes_ready_is_in_no_time() -> None:
    now, logs = [0], list[EventLog]()

    class MakesReady(Backend):
        name = "ready"

        def in_use(self) -> bool:
            return True

        @contextmanager
        def collect(self, options: Options) -> Iterator[EventLog]:
            logs.append(EventLog(Environment((("ready", "1"),))))
            yield logs[-1]

    def work() -> None:
        now[0] += 5
        logs[-1].paused_ns += 700
        now[0] += 700

    recorder = Recorder([MakesReady()], Options(), clock_ns=lambda: now[0])
    outer, inner = Window("outer"), Window("inner")
    with recorder.open(outer), recorder.step(outer):
        work()
        with recorder.open(inner), recorder.step(inner):
            work()
        with op("mine"):
            work()
    assert (inner.host_ns, outer.host_ns) == (5, 15)
    assert outer.profile.stats("mine").device_ns == (5,)


def test_what_threads_waited_for_a_cpu_is_that_of_each_step() -> None:
    waited = [50]
    recorder, window = Recorder([fake.backend()], Options(), waited_ns=lambda: waited[0]), Window("w")
    with recorder.open(window):
        for ns in (3, 0, 4, -20):  # a thread that ended took what it had waited along
            waited[0] += 100
            with recorder.step(window):
                fake.launch("Add")
                waited[0] += ns
    assert window.profile.wait_ns == (3, 0, 4, 0)


def test_where_nothing_tells_what_threads_waited_no_step_says_so() -> None:
    recorder = Recorder([fake.backend()], Options(), waited_ns=lambda: None)
    with measure(recorder) as window:
        fake.launch("Add")
    assert window.profile.wait_ns == ()

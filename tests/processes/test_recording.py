"""What becomes of a baseline's calls and times, given what further processes measured. These are made up here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest
from msgspec import structs

from pytest_opprof.baselines.entry import WindowBaseline, entry_of
from pytest_opprof.errors import BackendError
from pytest_opprof.measure.plan import Noise, Update
from pytest_opprof.processes.pool import Answer, Batch
from pytest_opprof.processes.recording import Recording
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.op_profile import Remark
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.site_calls import SiteCalls, SourceLine
from pytest_opprof.profile.timings import ProcessTimes
from pytest_opprof.pytest_plugin.options import settings_of
from pytest_opprof.report.summary import Summary
from pytest_opprof.results.judged_window import JudgedWindow
from pytest_opprof.results.test_result import TestRecord
from pytest_opprof.results.window_result import BODY, WindowNumbers
from pytest_opprof.verdict.times.coarse import Coarse
from pytest_opprof.verdict.times.repeats import VARYING_PROCESSES
from pytest_opprof.verdict.verdicts import Status

from ..conftest import profile_of

HERE = "CPU, 2 cores"
NS = 100_000
Does = Callable[[int, str], "WindowBaseline | Answer"]


def took(ns: int = NS, rounds: int = 10, op: str = "Add", **known: Sequence[object]) -> ProcessTimes:
    return ProcessTimes((ns,) * rounds, {op: (ns,) * rounds}, threads=1, **known)  # type: ignore[arg-type]


def timed(*runs: ProcessTimes, **calls: int) -> WindowBaseline:
    """Return what a process measured: one call of Add in each round, unless other *calls* are given."""
    return WindowBaseline({op: OpCounts(Range(number)) for op, number in (calls or {"Add": 1}).items()}, {HERE: runs})


def ran(name: str = "a", rounds: int = 10, windows: Sequence[str] = (BODY,), **known: object) -> TestRecord:
    """Return the record of a test of one Add in each round of each window."""
    profile = profile_of(*[[("Add", NS)]] * rounds)
    judged = [JudgedWindow(WindowNumbers.of(window, profile), processes=(took(rounds=rounds),)) for window in windows]
    return TestRecord(
        id=f"t.py::{name}",
        status=Status.OK,
        outcome="passed",
        file="t.py",
        windows=[each.result(HERE, parallel=False, compared=True) for each in judged],
        **known,
    )


class Others:
    """Stands for the pool and its processes: they measure what is made up, or raise it."""

    def __init__(self, does: Does) -> None:
        self._does = does
        self._ended = 0
        self.numbers: list[int] = []
        """How many were started at once."""
        self.firsts: list[int] = []
        """The hash seed of the first of them."""
        self.asked: list[list[str]] = []
        self.patience_s: list[float] = []
        self.in_one_thread: list[bool] = []
        """Of the requests that record ops."""
        self.unrecorded: WindowBaseline | None = None
        """What it measures where no op is recorded."""
        self.with_lines: list[list[str]] = []
        """Of which tests each was asked for the lines, too."""

    @contextmanager
    def started(self, files: set[str], number: int = 1, first: int = 0) -> Iterator[list[Others]]:
        assert files == {"t.py"}
        self.firsts.append(first)
        self.numbers.append(number)
        yield [self] * number

    def measure(self, batch: Batch, patience_s: float) -> dict[str, Answer]:
        self.asked.append(batch.tests)
        if batch.request.unrecorded:
            self.asked.pop()
            answers = dict.fromkeys(batch.tests, self.unrecorded)
            return {test: Answer({BODY: each} if each else {}, "") for test, each in answers.items()}
        self.in_one_thread.append(batch.request.one_thread)
        self.with_lines.append(batch.tests if batch.request.sites else batch.sites)
        self.patience_s.append(patience_s)
        # This run's process is number 1.
        found = {test: self._does(self._ended + 2, test) for test in batch.tests}
        return {test: each if isinstance(each, Answer) else Answer({BODY: each}, "") for test, each in found.items()}

    def end(self) -> None:
        self._ended += 1


class Busy:
    """Stands for a look at who else uses the machine."""

    def __init__(self, said: str = "") -> None:
        self._said = said

    def busy(self) -> str:
        return self._said


class Recorded:
    """A recording, and what it said."""

    def __init__(self, recording: Recording, summary: Summary, others: Others) -> None:
        self.calls, self.times, self.sites = recording.calls, recording.times, recording.sites
        self.lines, self.errors = summary.lines, summary.errors
        self.others = others


Record = Callable[..., Recorded]


@pytest.fixture
def record(pytester: pytest.Pytester) -> Record:
    config = pytester.parseconfig()

    def made(
        does: Does = lambda number, test: timed(took()),
        noise: Noise = "warn",
        update: Update = "all",
        busy: str = "",
        took_s: float = 0,
        quiet_again: Callable[[], bool] = lambda: False,
    ) -> Recorded:
        settings, summary, others = replace(settings_of(config), noise=noise, update=update), Summary(), Others(does)
        recording = Recording(config, settings, others, Busy(busy), summary, took_s, quiet_again)  # type: ignore[arg-type]
        return Recorded(recording, summary, others)

    return made


def processes(test: TestRecord) -> list[int]:
    """Return what the first round took in each process whose times are kept, in us."""
    return [run.total_ns[0] // 1_000 for run in test.windows[0].processes]


# --- calls


def test_calls_that_are_the_same_in_each_process_do_not_vary(record: Record) -> None:
    test = ran()
    found = record()
    found.calls([test], 3)
    assert (test.windows[0].vary, found.lines, found.errors) == ({}, [], [])
    assert (found.others.numbers, found.others.asked) == ([2], [[test.id]] * 2)


def test_the_last_process_that_measures_calls_tells_the_lines_where_no_times_are_needed(record: Record) -> None:
    lines = {BODY: {"Add": ()}}
    counted, timed_too, blind = ran(rounds=1, tells_sites=True), ran("b", tells_sites=True), ran("c", rounds=1)
    found = record(lambda number, test: Answer({BODY: timed(took())}, "", lines))
    found.calls([counted, timed_too, blind], 3)
    assert found.others.with_lines == [[], [counted.id], []]  # the last is the second run in the last process
    assert found.sites([counted]) == {counted.id: lines}
    assert found.others.numbers == [2]  # no further process


def test_lines_that_such_a_process_could_not_tell_are_looked_for_in_another(record: Record) -> None:
    test = ran(rounds=1, tells_sites=True)
    found = record(lambda number, _: Answer({}, "failed: it has no luck") if number == 3 else timed(took()))
    found.calls([test], 3)
    found.sites([test])
    assert (found.others.with_lines, found.others.numbers) == ([[], [test.id], [], [test.id]], [2, 1])


def test_lines_that_are_known_in_part_are_said_when_they_are_recorded(record: Record) -> None:
    known_in_part = "source lines are unknown after the first 9 executed lines"
    remarks = {BODY: [Remark(known_in_part, "lines"), Remark("source of noise: a GPU was throttled")]}
    test = ran(rounds=1, tells_sites=True)
    found = record(lambda number, _: Answer({BODY: timed(took())}, "", {BODY: {"Add": ()}}, remarks))
    found.calls([test], 3)
    assert found.lines == [f"{test.id}: {known_in_part}"]
    found = record(lambda number, _: Answer({BODY: timed(took())}, "", {BODY: {}}, remarks))
    found.calls([test], 3)
    assert found.lines == []  # no op ran whose line could be unknown


def test_calls_that_vary_are_kept_as_a_range_and_that_is_said(record: Record) -> None:
    test = ran(rounds=1)
    asked = []

    def measured(number: int, _: Sequence[str]) -> WindowBaseline:
        asked.append(number)
        return timed(Add={2: 3, 3: 7}.get(number, 5), Mul=1)

    found = record(measured)
    found.calls([test], 3)
    assert list(dict.fromkeys(asked)) == [*range(2, VARYING_PROCESSES + 1)]
    assert test.windows[0].vary == {
        "Add": OpCounts(Range(1, 7, varies=True)),
        "Mul": OpCounts(Range(0, 1, varies=True)),
    }
    what = (
        "Add 1..7, Mul 0..1. The baseline stores ranges; bytes, FLOPs and dtypes are not judged"
        " (processes with the same PYTHONHASHSEED differ: seed random numbers)"
    )
    assert found.lines == [f"t.py::a: calls vary from run to run: {what}"]


@pytest.mark.parametrize(
    ("adds", "why"),
    [
        ([3, 7, 3, 7, 5, 5, 5], "processes with the same PYTHONHASHSEED agree: sort sets"),
        ([3, 7, 3, 6, 5, 5, 5], "processes with the same PYTHONHASHSEED differ: seed random numbers"),
        ([3, 3, 3, 3, 3, 3, 3], "seed random numbers, sort sets"),  # only this run differs, after other tests
    ],
)
def test_the_update_says_whether_calls_follow_the_order_of_sets(record: Record, adds: list[int], why: str) -> None:
    found = record(lambda number, _: timed(Add=adds[number - 2]))
    found.calls([ran(rounds=1)], 3)
    assert found.others.firsts == [0, 0]  # the hash seeds of processes 2 and 3 again
    assert f"({why})" in found.lines[0]


def test_the_line_whose_calls_vary_is_named(record: Record) -> None:
    def process(number: int, _: str) -> Answer:
        at = [SourceLine("model.py", line, "forward", "") for line in (9, 12)]
        sites = {BODY: {"Add": [SiteCalls(2, (at[0],)), SiteCalls(number, (at[1],))], "Mul": [SiteCalls(2, (at[0],))]}}
        return Answer({BODY: timed(Add=2 + number, Mul=2)}, "", sites)

    found = record(process)
    found.calls([ran(rounds=1, tells_sites=True)], 3)
    assert sum(map(bool, found.others.with_lines)) == 6  # from process 3 on
    assert "run to run: Add 1..10 at model.py:12, Mul 0..2. The" in found.lines[0]


def test_many_tests_whose_calls_vary_alike_have_a_line_together(record: Record) -> None:
    found = record(lambda number, _: timed(Add={2: 3, 3: 7}.get(number, 5)))
    found.calls([ran(name, rounds=1) for name in "abcde"], 3)
    kept_as = "The baseline stores ranges; bytes, FLOPs and dtypes are not judged"
    advice = "(processes with the same PYTHONHASHSEED differ: seed random numbers)"
    names = "t.py::a, t.py::b, t.py::c and 2 more"
    assert found.lines == [f"{names}: calls vary from run to run: Add 1..7. {kept_as} {advice}"]


def test_what_a_second_run_in_the_last_process_does_not_repeat_is_kept(record: Record) -> None:
    test, later = ran(rounds=1), {"Div": OpCounts(Range(2))}
    first = entry_of(test.windows[0])
    runs = iter([first, first, WindowBaseline(later), WindowBaseline({**first.ops, **later})])
    found = record(lambda number, _: next(runs))
    found.calls([test], 3)
    assert test.windows[0].warm == ({"Add": OpCounts(Range(0)), **later}, {})
    assert test.windows[0].alone == (later, {})  # so it was measured alone, too
    assert found.others.numbers == [2, 1]
    entry = entry_of(test.windows[0])
    assert entry.with_differences(entry.warm)[0] == later


def test_a_number_that_varies_is_no_work_of_a_first_use(record: Record) -> None:
    test = ran(rounds=1)
    test.windows[0] = structs.replace(test.windows[0], facts={"python_calls": [11]})
    first = entry_of(test.windows[0])

    def process(number: int, _: str) -> WindowBaseline:
        seen = len(found.others.asked)  # the third request is the second run in process 3
        return replace(first, facts={"python_calls": Range(14 if seen == 3 else 10 + number)})

    found = record(process)
    found.calls([test], 3)
    assert test.windows[0].facts_vary["python_calls"] == Range(11, 18, varies=True)
    assert test.windows[0].warm == ({}, {})
    assert found.others.numbers == [2, 5]  # none of it alone


def test_a_test_that_cannot_be_measured_alone_is_said(record: Record) -> None:
    test = ran(rounds=1)
    first = entry_of(test.windows[0])
    runs = iter([first, first, timed(Add=3), Answer({}, "failed: it is alone")])
    found = record(lambda number, _: next(runs))
    found.calls([test], 3)
    assert found.lines == [
        "t.py::a was not measured alone, and its first run in a process does more: failed: it is alone"
    ]


def test_a_second_run_that_fails_tells_nothing(record: Record) -> None:
    test = ran(rounds=1)
    first = entry_of(test.windows[0])
    runs = iter([first, first, Answer({BODY: timed(Add=3)}, "failed: it ran before")])
    record(lambda number, _: next(runs)).calls([test], 3)
    assert test.windows[0].warm is None


def test_of_many_ops_that_vary_three_are_named(record: Record) -> None:
    found = record(lambda number, _: timed(Add=1, **dict.fromkeys("EDCB", 1)))
    found.calls([ran()], 2)
    (line,) = found.lines
    assert "run to run: B 0..1, C 0..1, D 0..1 and 1 more op. The baseline stores ranges; times, bytes, FLOPs" in line


def test_a_test_whose_calls_vary_has_its_times_neither_measured_nor_lost_as_an_error(record: Record) -> None:
    test = ran()
    found = record(lambda number, _: timed(took(), Add=number))
    found.calls([test], 3)
    found.times([test], 5)
    assert (processes(test), len(found.others.asked), found.errors) == ([], VARYING_PROCESSES - 1, [])


@pytest.mark.parametrize("name", ["Hypothesis", "pytest-benchmark"])
def test_what_makes_calls_vary_is_named_where_it_is_known(record: Record, name: str) -> None:
    found = record(lambda number, _: timed(Add=number))
    found.calls([ran(adapts=name)], 2)
    assert f"({name}: " in found.lines[0]


def test_one_process_knows_nothing_of_what_varies(record: Record) -> None:
    found = record()
    found.calls([ran()], 1)
    assert (found.others.numbers, found.lines) == ([], [])


@pytest.mark.parametrize(
    ("answer", "why"),
    [(Answer({}, "failed: it broke"), "failed: it broke"), (Answer({"other": timed()}, ""), "nothing was recorded")],
)
def test_a_window_that_another_process_does_not_have_may_vary(record: Record, answer: Answer, why: str) -> None:
    found = record(lambda number, _: answer)
    found.calls([ran(rounds=1)], 3)
    assert found.lines == [f"t.py::a: it is unknown whether its calls vary: it was not measured in process 2 ({why})"]


def test_a_window_of_which_one_process_knows_more_is_told_by_it(record: Record) -> None:
    test = ran(rounds=1)
    found = record(lambda number, _: Answer({}, "failed: it broke") if number == 2 else timed(Add=4))
    found.calls([test], 3)
    assert test.windows[0].vary == {"Add": OpCounts(Range(1, 4, varies=True))}
    assert "not known" not in "".join(found.lines)


# --- times


def test_times_are_measured_until_each_window_has_those_of_all_processes(record: Record) -> None:
    test, other = ran(), ran("b")
    found = record()
    found.calls([test, other], 3)
    found.times([test, other], 5)
    assert processes(test) == processes(other) == [100] * 5
    assert (found.others.numbers, found.errors) == ([2, 2], [])


def test_a_window_that_was_measured_before_is_measured_no_more_often_than_the_others(record: Record) -> None:
    known, new = ran(), ran("b")
    found = record()
    found.calls([known], 3)
    found.times([known, new], 5)
    assert (processes(known), processes(new)) == ([100] * 5, [100] * 5)
    assert found.others.asked[2:] == [[known.id, new.id]] * 2 + [[new.id]] * 2


def test_a_window_of_few_rounds_is_not_timed(record: Record) -> None:
    found = record()
    found.times([ran(rounds=9)], 5)
    assert found.others.asked == []


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (timed(took(rounds=9)), "other rounds or ops were timed in process 2"),
        (timed(took(op="Mul")), "other rounds or ops were timed in process 2"),
        (WindowBaseline({"Add": OpCounts(Range(1))}), "other rounds or ops were timed in process 2"),
        (timed(took(), Add=2), "other ops ran in process 2"),
        (Answer({}, "failed: it broke"), "it was not measured in process 2 (failed: it broke)"),
    ],
)
def test_a_test_that_is_another_elsewhere_loses_its_times_and_no_other_does(
    record: Record, there: WindowBaseline | Answer, why: str
) -> None:
    test, other = ran(), ran("b")
    found = record(lambda number, name: there if name == test.id else timed(took()))
    found.times([test, other], 3)
    assert (processes(test), processes(other)) == ([], [100] * 3)
    assert found.errors == [f"t.py::a: its times were not recorded: {why}"]


def test_a_process_that_cannot_be_had_costs_all_times_and_is_one_error(record: Record) -> None:
    def broken(number: int, test: str) -> WindowBaseline:
        raise BackendError("it broke")

    tests = [ran(), ran("b")]
    found = record(broken)
    found.times(tests, 3)
    assert list(map(processes, tests)) == [[], []]
    assert found.errors == ["no further process could measure, so only the calls of this one are kept: it broke"]


def test_a_process_may_take_ten_times_as_long_as_the_one_before_and_five_minutes_at_least(record: Record) -> None:
    found = record(took_s=40)
    found.calls([ran()], 3)
    assert found.others.patience_s == [400, 300]


# --- noise


def test_rounds_that_waited_in_too_many_processes_are_refused(record: Record) -> None:
    waited = took(wait_ns=(1_001,) * 6 + (0,) * 4)
    test = ran()
    found = record(lambda number, _: timed(took(wait_ns=(1_000,) * 10) if number < 3 else waited))
    found.times([test], 5)
    assert (len(found.others.asked), processes(test)) == (9, [])
    (said,) = found.lines
    assert said.startswith(
        "t.py::a: in 8 of 10 processes its rounds shared their CPU core with other processes. Counts and coarse"
    )
    assert not found.errors


def test_processes_that_waited_are_made_up_for(record: Record) -> None:
    waited, test = took(wait_ns=(1_001,) * 6 + (0,) * 4), ran()
    found = record(lambda number, _: timed(waited if number < 6 else took()))
    found.times([test], 5)
    assert (len(processes(test)), found.errors) == (7, [])


@pytest.mark.parametrize(
    ("others_us", "recorded"),
    [
        ((110, 110, 103, 103), 5),  # beside 100 us of the first
        ((110, 110, 104, 103, 110, 110, 102), 8),
        ((110,) * 9, 10),
    ],
)
def test_processes_that_differ_are_made_up_for_until_three_agree(
    record: Record, others_us: Sequence[int], recorded: int
) -> None:
    test = ran()
    record(lambda number, _: timed(took(1_000 * others_us[number - 2]))).times([test], 5)
    assert processes(test) == [100, *others_us][:recorded]


THROTTLED = took(disturbed=("GPU 0 was throttled",))


def test_processes_whose_gpu_was_throttled_are_made_up_for_and_left_out(record: Record) -> None:
    test = ran()
    found = record(lambda number, _: timed(THROTTLED if number < 4 else took()))
    found.times([test], 4)
    assert (len(found.others.asked), processes(test)) == (5, [100] * 4)


def test_where_only_throttled_ones_are_had_their_times_are_refused_with_the_cause(record: Record) -> None:
    test = ran()
    found = record(lambda number, _: timed(THROTTLED))
    found.times([test], 3)
    assert (len(found.others.asked), processes(test)) == (5, [])
    assert found.lines[0].startswith("t.py::a: in 5 of 6 processes GPU 0 was throttled. ")


@pytest.mark.parametrize("known", [{"noise": "ignore"}, {"update": ""}])
def test_where_noise_is_ignored_or_nothing_is_recorded_all_times_stay(record: Record, known: Mapping[str, str]) -> None:
    test = ran()
    found = record(lambda number, _: timed(THROTTLED), busy="make took it", **known)
    found.times([test], 3)
    assert (len(processes(test)), found.errors) == (3, [])


@pytest.mark.parametrize("noise", ["warn", "fail"])
def test_times_of_a_busy_machine_are_refused_and_no_more_are_measured(record: Record, noise: Noise) -> None:
    test = ran()
    found = record(lambda number, _: timed(THROTTLED), noise=noise, busy="other processes used 1.9 of 2 cores")
    found.times([test], 3)
    assert (len(found.others.asked), processes(test)) == (2, [])
    (said,) = found.errors if noise == "fail" else found.lines  # which fails a passing test only where that is asked
    assert said.startswith(
        "the machine was busy while times were recorded: other processes used 1.9 of 2 cores. Counts"
    )


def test_an_update_waits_for_a_busy_machine_and_measures_times_again(record: Record) -> None:
    asked = []

    def quiet() -> bool:
        asked.append(found.others.asked[:])
        return True

    test = ran()
    found = record(lambda number, _: timed(took(NS + number)), busy="make took it", quiet_again=quiet)
    found.times([test], 3)
    assert len(asked) == 1
    assert len(found.others.asked) > len(asked[0])  # all three again: this run's own time was disturbed, too


# --- coarse times


def coarse(cpu_ms: int, threaded: bool = False, **calls: int) -> WindowBaseline:
    """Return what a process measured, with the CPU time that it took."""
    took = Coarse((cpu_ms * 10**6,) * 2, (cpu_ms * 10**6,) * 2, threaded=threaded)
    return replace(timed(**calls), coarse={HERE: took})


def one_round(cpu_ms: int, parallel: bool = False) -> TestRecord:
    test = ran(rounds=1)
    took = Coarse((cpu_ms * 10**6,) * 2, (cpu_ms * 10**6,) * 2)
    test.windows[0] = structs.replace(test.windows[0], coarse=took, parallel=parallel)
    return test


def cpu_ms(test: TestRecord) -> list[float]:
    found = test.windows[0].coarse
    assert found is not None
    return [ns / 10**6 for ns in found.cpu_ns]


def test_coarse_time_is_from_the_least_to_the_most_of_the_processes(record: Record) -> None:
    test = one_round(30)
    found = record(lambda number, _: coarse(28 + number))
    found.calls([test], 3)
    assert (cpu_ms(test), found.others.numbers) == ([30, 31], [2])  # no process for it alone
    assert found.lines == []


def test_what_differs_from_process_to_process_is_said(record: Record) -> None:
    test = one_round(30)
    found = record(lambda number, _: coarse(100))
    found.calls([test], 3)
    said = "CPU time differs from process to process: 30 ms to 100 ms"
    assert found.lines == [f"coarse times are judged by the slowest process: t.py::a ({said})"]


def test_where_several_threads_took_cpu_time_it_is_measured_again_in_one_in_the_same_process(record: Record) -> None:
    test = one_round(47)
    found = record(lambda number, _: coarse(number if found.others.in_one_thread[-1] else 40, threaded=True))
    found.calls([test], 3)
    # What they took in several threads is left out, as is this run's.
    assert cpu_ms(test) == [2, 3]
    # The calls of the last process's repeat are those of a later run, which has all threads: histc's buffers follow.
    assert found.others.in_one_thread == [False, True, False, False, True]


def test_a_first_run_that_takes_longer_than_a_later_one_is_kept_beside_it(record: Record) -> None:
    test = one_round(500)
    found = record(lambda number, _: coarse(10 if len(found.others.in_one_thread) == 3 else 500 + number))
    found.calls([test], 3)
    kept = test.windows[0].coarse
    assert (cpu_ms(test), kept and kept.first and kept.first.cpu_ns) == ([10, 10], (500_000_000, 503_000_000))


@pytest.mark.parametrize(
    ("later", "ops", "kept"),
    [
        (100, False, (20_000_000, 20_000_000)),
        (21, False, None),  # the run before it is as fast: a first run takes longer
        (100, True, None),  # a test with the fixture, whose ops are recorded anyway
    ],
)
def test_the_time_without_recording_ops_is_kept_where_it_is_clearly_less(
    record: Record, later: int, ops: bool, kept: tuple[int, int] | None
) -> None:
    test = one_round(100)
    found = record(lambda number, _: coarse(100 if len(found.others.in_one_thread) < 3 else later))
    found.others.unrecorded = coarse(20) if ops else replace(coarse(20), ops={})
    found.calls([test], 3)
    time = test.windows[0].coarse
    assert (cpu_ms(test), time and time.unrecorded and time.unrecorded.cpu_ns) == ([later, later], kept)


def test_a_third_run_that_is_fast_with_recording_too_tells_no_cost_of_recording(record: Record) -> None:
    """`torch.jit` compiles in the second run: 7 ms, and 0.9 ms ever after."""
    test = one_round(300)
    found = record(lambda number, _: coarse([300, 300, 100, 21][len(found.others.in_one_thread) - 1]))
    found.others.unrecorded = replace(coarse(20), ops={})
    found.calls([test], 3)
    time = test.windows[0].coarse
    assert (cpu_ms(test), time and time.unrecorded) == ([21, 100], None)


def test_a_test_of_a_millisecond_is_not_run_without_recording(record: Record) -> None:
    test = one_round(1)
    found = record(lambda number, _: coarse(1))
    found.others.unrecorded = coarse(0)
    found.calls([test], 3)
    assert (time := test.windows[0].coarse)
    assert time.unrecorded is None


def test_what_ran_beside_other_tests_is_left_out_where_others_are_known(record: Record) -> None:
    test = one_round(500, parallel=True)
    record(lambda number, _: coarse(12)).calls([test], 3)
    assert cpu_ms(test) == [12, 12]


def test_processes_that_know_no_coarse_time_change_nothing(record: Record) -> None:
    test = one_round(12)
    record(lambda number, _: timed()).calls([test], 3)
    assert cpu_ms(test) == [12, 12]

"""The times of a baseline are recorded in several processes: what becomes of it when one of them goes wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.errors import BackendError
from pytest_opprof.machine.identity import machine
from pytest_opprof.machine.load import Watch
from pytest_opprof.processes.pool import Answer, Batch, Pool
from pytest_opprof.processes.recording import Recording
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.timings import ProcessTimes
from pytest_opprof.verdict.times.repeats import VARYING_PROCESSES

from ..conftest import ELSEWHERE, HANG, end_at_once

Suite = Callable[..., pytest.RunResult]
Windows = Mapping[str, Mapping[str, object]]
MODEL = """
import os, pytest
from pytest_opprof.backends import fake
pytestmark = pytest.mark.opprof(rounds={rounds})
def test_a():
    fake.launch("Add", device_ns=100_000)
    {more}
@pytest.mark.opprof(rounds=1)
def test_counted(): fake.launch("Cast")
"""


def model(pytester: pytest.Pytester, more: str = "", rounds: int = 10) -> None:
    pytester.makepyfile(test_m=MODEL.format(more=more, rounds=rounds))


def kept(pytester: pytest.Pytester) -> dict[str, dict[str, object]]:
    """Return the window of each test in the baselines."""
    (path,) = pytester.path.glob("baselines/*/test_m.py.json")
    return {test: windows["body"] for test, windows in json.loads(path.read_text())["tests"].items()}


def processes(pytester: pytest.Pytester, test: str = "test_a") -> list[list[float]]:
    """Return the times of the whole by process."""
    assert test in kept(pytester)
    found = list(pytester.path.glob("baselines/*/test_m.py.times.json"))
    times = json.loads(found[0].read_text())["times"] if found else {}
    return [process for times in times.get(test, {"body": {}})["body"].values() for process in times["total_us"]]


class Fresh:
    """Stands for the fresh processes: what each measures, or raises."""

    def __init__(self, does: Callable[[int], object] = lambda number: None) -> None:
        self.asked: list[list[str]] = []
        self.numbers: list[int] = []
        """How many were started at once."""
        self.timeouts: list[float] = []
        self.found: dict[str, Answer] = {}
        self.does = does

    @contextmanager
    def started(self, files: set[str], number: int, first: int = 0) -> Iterator[list[Fresh]]:
        self.numbers.append(number)
        yield [self] * number

    def end(self) -> None:
        pass

    def measure(self, batch: Batch, timeout_s: float) -> dict[str, Answer]:
        if batch.request.one_thread or batch.repeats:  # again, in the same process: as before
            return {test: self.found[test] for test in batch.tests}
        self.found = self._first(batch.tests, timeout_s)
        return self.found

    def _first(self, tests: list[str], timeout_s: float) -> dict[str, Answer]:
        self.asked.append(tests)
        self.timeouts.append(timeout_s)
        done = self.does(len(self.asked))
        if isinstance(done, Answer):
            return dict.fromkeys(tests, done)
        by_test = done if isinstance(done, dict) else {}
        counted = WindowBaseline({"Cast": OpCounts(Range(1))})
        entry = done if isinstance(done, WindowBaseline) else timed()
        return {
            test: Answer({"body": by_test.get(test, counted if test.endswith("counted") else entry)}, "")
            for test in tests
        }


def timed(calls: int = 1, rounds: int = 10, op: str = "Add", ns: int = 100_000, **known: object) -> WindowBaseline:
    run = ProcessTimes((ns,) * rounds, {op: (ns,) * rounds}, threads=1, **known)  # type: ignore[arg-type]
    return WindowBaseline({"Add": OpCounts(Range(calls))}, {machine(): (run,)})


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Fresh]:
    def stand_in(does: Callable[[int], object] = lambda number: None) -> Fresh:
        found = Fresh(does)
        monkeypatch.setattr(Pool, "started", found.started)
        return found

    return stand_in


def raises(error: BaseException, at: int = 1) -> Callable[[int], None]:
    def measured(number: int) -> None:
        if number == at:
            raise error

    return measured


@pytest.mark.slow
@pytest.mark.processes
def test_an_update_records_in_so_many_processes_and_says_so(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester)
    result = suite("--opprof-update", "--opprof-processes=3")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "opprof: measuring 2 tests in process 2 of 3",
            "opprof: measuring 2 tests in process 3 of 3",
            "baselines of 2 tests: 2 new, 0 changed, 0 unchanged",
            "  wrote *test_m.py.json",
            "times of * recorded",  # of test_counted, too, if it took long on a busy machine
            "  wrote *test_m.py.times.json",
        ]
    )
    assert processes(pytester) == [[100] * 10] * 3
    assert kept(pytester)["test_counted"] == {"ops": {"Cast": {"calls": 1}}}
    suite("--opprof", "--opprof-strict").stdout.fnmatch_lines(["opprof: 2 tests measured, 2 ok"])


def test_five_are_the_default_for_a_baseline_and_one_for_a_run(
    pytester: pytest.Pytester, fresh: Callable[..., Fresh]
) -> None:
    model(pytester)
    ours = ["-p", "no:asyncio", "-p", "no:hypothesispytest", "--opprof-backend=fake", "--opprof-noise=ignore"]
    others = fresh()
    pytester.runpytest_inprocess("--opprof-update", *ours)
    assert len(processes(pytester)) == 5
    both, timed_ = ["test_m.py::test_a", "test_m.py::test_counted"], ["test_m.py::test_a"]
    assert (others.asked, others.numbers) == ([both, both, timed_, timed_], [2, 2])
    pytester.runpytest_inprocess("--opprof", *ours)
    assert len(others.asked) == 4


def test_a_run_may_measure_in_several_processes_too(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh]
) -> None:
    fresh()
    model(pytester)
    suite("--opprof", "--opprof-processes=4", "--opprof-json=run.json")
    timed_, _ = json.loads((pytester.path / "run.json").read_text())["tests"]
    assert len(timed_["windows"][0]["processes"]) == 4
    assert not (pytester.path / "baselines").exists()


def test_q_records_without_a_word(pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh]) -> None:
    fresh()
    model(pytester)
    suite("--opprof-update", "--opprof-processes=3", "-q").stdout.no_fnmatch_line("*measuring*")
    assert len(processes(pytester)) == 3


@pytest.mark.parametrize("flag", ["--opprof-update", "--opprof-update-new"])
def test_what_would_not_be_written_is_not_measured_again(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh], flag: str
) -> None:
    fresh()
    model(pytester)
    suite("--opprof-update", "--opprof-processes=3")
    again = fresh(raises(AssertionError("measured again")))
    result = suite(flag, "--opprof-processes=3")
    assert (result.ret, again.asked) == (0, [])
    result.stdout.fnmatch_lines(["baselines of 2 tests: 0 new, 0 changed, 2 unchanged"])


def test_only_tests_that_passed_are_measured_again(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh]
) -> None:
    others = fresh()
    model(pytester, more="pass\ndef test_fails(): fake.launch('Add'); assert 0\ndef test_b(): fake.launch('Add')")
    suite("--opprof-update", "--opprof-processes=3").assert_outcomes(passed=3, failed=1)
    assert others.asked == [["test_m.py::test_a", "test_m.py::test_b", "test_m.py::test_counted"]] * 2


# --- calls that vary


def drawn(calls: int) -> WindowBaseline:
    return WindowBaseline({"Add": OpCounts(Range(1)), "Mul": OpCounts(Range(calls))})


RANDOM = """
import pytest
from pytest_opprof.backends import fake
@pytest.mark.opprof
def test_a({fixture}):
    fake.launch("Add")
    for _ in range({calls}): fake.launch("Mul")
"""


def test_calls_that_vary_from_run_to_run_are_kept_as_a_range_and_that_is_said(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh]
) -> None:
    fresh(lambda number: drawn({1: 3, 2: 7}.get(number, 5)))
    pytester.makepyfile(test_m=RANDOM.format(calls=4, fixture=""))
    result = suite("--opprof-update", "--opprof-processes=3")
    assert result.ret == 0
    advice = "(processes with the same PYTHONHASHSEED differ: seed random numbers)"
    kept_as = f"Mul 3..7. The baseline stores ranges; bytes, FLOPs and dtypes are not judged {advice}"
    said = f"test_m.py::test_a: calls vary from run to run: {kept_as}"
    result.stdout.fnmatch_lines([said, "baselines of 1 test: 1 new, 0 changed, 0 unchanged"])
    assert kept(pytester) == {"test_a": {"ops": {"Add": {"calls": 1}, "Mul": {"calls": {"varies": [3, 7]}}}}}


def test_an_op_that_only_some_processes_run_varies_from_none(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh]
) -> None:
    fresh(lambda number: drawn(2) if number == 2 else WindowBaseline({"Add": OpCounts(Range(1))}))
    pytester.makepyfile(test_m=RANDOM.format(calls=0, fixture=""))
    suite("--opprof-update", "--opprof-processes=3")
    assert kept(pytester) == {"test_a": {"ops": {"Add": {"calls": 1}, "Mul": {"calls": {"varies": [0, 2]}}}}}


@pytest.mark.parametrize(("calls", "outcome"), [(0, "passed"), (11, "passed"), (12, "failed")])
def test_a_call_count_that_varies_may_leave_its_range_by_as_much_as_that_is_wide(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh], calls: int, outcome: str
) -> None:
    fresh(lambda number: drawn({1: 3, 2: 7}.get(number, 5)))
    pytester.makepyfile(test_m=RANDOM.format(calls=4, fixture=""))
    suite("--opprof-update", "--opprof-processes=3")
    pytester.makepyfile(test_m=RANDOM.format(calls=calls, fixture=""))
    suite("--opprof").assert_outcomes(**{outcome: 1})


def test_an_update_leaves_a_range_that_still_holds(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh]
) -> None:
    others = fresh(lambda number: drawn({1: 3, 2: 7}.get(number, 5)))
    pytester.makepyfile(test_m=RANDOM.format(calls=4, fixture=""))
    suite("--opprof-update", "--opprof-processes=3")
    pytester.makepyfile(test_m=RANDOM.format(calls=8, fixture=""))
    result = suite("--opprof-update", "--opprof-processes=3")
    result.stdout.fnmatch_lines(["baselines of 1 test: 0 new, 0 changed, 1 unchanged"])
    assert len(others.asked) == VARYING_PROCESSES - 1


def test_times_of_calls_that_vary_are_not_kept(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh]
) -> None:
    fresh(lambda number: timed(calls=min(number, 2)))
    model(pytester)
    result = suite("--opprof-update", "--opprof-processes=5")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["test_m.py::test_a: * Add 1..2. The baseline stores ranges; times, bytes, FLOPs and dtypes are not judged (*"]
    )
    assert kept(pytester)["test_a"] == {"ops": {"Add": {"calls": {"varies": [1, 2]}}}}


@pytest.mark.parametrize(
    ("test", "said"),
    [
        (
            "import hypothesis, hypothesis.strategies as st\n"
            + RANDOM.format(calls="calls", fixture="calls").replace(
                "def test", "@hypothesis.given(st.integers(1, 9))\ndef test"
            ),
            "*(Hypothesis: each run draws different examples (@settings(derandomize=True, database=None)"
            " draws the same))",
        ),
        (
            "import pytest\n@pytest.fixture\ndef benchmark(): pass\n" + RANDOM.format(calls=4, fixture="benchmark"),
            "*(pytest-benchmark: it runs the function as often as time allows (--benchmark-disable: once))",
        ),
    ],
)
def test_what_makes_calls_vary_is_called_by_its_name(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh], test: str, said: str
) -> None:
    fresh(lambda number: drawn(9_999))
    pytester.makepyfile(test_m=test)
    suite("--opprof-update", "--opprof-processes=2").stdout.fnmatch_lines([f"test_m.py::test_a: *Mul {said}"])


def test_whether_calls_vary_is_not_known_of_what_cannot_be_measured_again(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh]
) -> None:
    fresh(lambda number: Answer({}, "failed: it broke"))
    pytester.makepyfile(test_m=RANDOM.format(calls=2, fixture=""))
    result = suite("--opprof-update", "--opprof-processes=2")
    why = "it was not measured in process 2 (failed: it broke)"
    result.stdout.fnmatch_lines([f"test_m.py::test_a: it is unknown whether its calls vary: {why}"])
    assert (result.ret, kept(pytester)) == (0, {"test_a": {"ops": {"Add": {"calls": 1}, "Mul": {"calls": 2}}}})


# --- what goes wrong

NO_PROCESS = "no further process could measure, so only the calls of this one are kept:"
NO_TIMES = "test_m.py::test_a: its times were not recorded:"
COUNTS_ONLY = {"test_a": {"ops": {"Add": {"calls": 1}}}}


def only_counts_are_kept(pytester: pytest.Pytester, result: pytest.RunResult, error: str) -> None:
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"opprof: error: {error}"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    assert kept(pytester)["test_a"] == COUNTS_ONLY["test_a"]


@pytest.mark.parametrize(
    ("process", "written"), [(2, "no baseline was written"), (4, "calls were recorded, times were not")]
)
def test_ctrl_c_while_times_are_recorded_leaves_the_calls(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh], process: int, written: str
) -> None:
    fresh(raises(KeyboardInterrupt(), at=process - 1))
    model(pytester)
    result = suite("--opprof-update", "--opprof-processes=5", "--opprof-json=run.json", no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"opprof: error: interrupted: {written}"])
    if process == 4:
        assert kept(pytester) == {
            "test_a": {"ops": {"Add": {"calls": 1}}},
            "test_counted": {"ops": {"Cast": {"calls": 1}}},
        }
    else:
        assert not (pytester.path / "baselines").exists()
    assert json.loads((pytester.path / "run.json").read_text())["interrupted"]


@pytest.mark.slow
@pytest.mark.processes
def test_ctrl_c_while_a_fresh_process_runs_leaves_none_behind(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_at_once(monkeypatch, KeyboardInterrupt)
    model(pytester, more=f"if {ELSEWHERE}: {HANG}")
    result = suite("--opprof-update", "--opprof-processes=3", no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert not (pytester.path / "baselines").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(os.readlink("pid")), 0)


@pytest.mark.slow
@pytest.mark.processes
def test_a_fresh_process_that_hangs_is_ended_and_only_counts_are_kept(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_at_once(monkeypatch)
    model(pytester, more=f"if {ELSEWHERE}: {HANG}")
    result = suite("--opprof-update", "--opprof-processes=3")
    only_counts_are_kept(pytester, result, f"{NO_PROCESS} a fresh process took more than 300 s")
    with pytest.raises(ProcessLookupError):
        os.kill(int(os.readlink("pid")), 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("in_the_fresh_process", "error"),
    [
        ("os._exit(3)", f"{NO_PROCESS} a fresh process ended early (*)"),
        ("os.kill(os.getpid(), 9)", f"{NO_PROCESS} a fresh process ended early (*)"),
        ("pytest.skip('not here')", f"{NO_TIMES} it was not measured in process 2 (skipped: Skipped: not here)"),
        ("assert 0", f"{NO_TIMES} it was not measured in process 2 (failed: assert 0)"),
    ],
)
@pytest.mark.processes
def test_when_a_fresh_process_goes_wrong_counts_are_kept_and_times_are_not(
    pytester: pytest.Pytester, suite: Suite, in_the_fresh_process: str, error: str
) -> None:
    model(pytester, more=f"if {ELSEWHERE}: {in_the_fresh_process}")
    only_counts_are_kept(pytester, suite("--opprof-update", "--opprof-processes=2"), error)


@pytest.mark.processes
def test_a_fresh_process_that_collects_nothing_measured_nothing(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        test_m="import os, pytest\n"
        f"if {ELSEWHERE}: pytest.skip('', allow_module_level=True)\n" + MODEL.format(more="", rounds=10)
    )
    error = f"{NO_TIMES} it was not measured in process 2 (pytest did not collect it there)"
    only_counts_are_kept(pytester, suite("--opprof-update", "--opprof-processes=2"), error)


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (timed(rounds=9), "other rounds or ops were timed"),
        (timed(op="Mul"), "other rounds or ops were timed"),
        (WindowBaseline({"Add": OpCounts(Range(1))}), "other rounds or ops were timed"),
    ],
)
def test_only_the_test_that_was_another_in_a_fresh_process_loses_its_times(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh], there: WindowBaseline, why: str
) -> None:
    fresh(lambda number: {"test_m.py::test_a": there})
    model(pytester, more="pass\ndef test_b(): fake.launch('Add', device_ns=100_000)")
    result = suite("--opprof-update", "--opprof-processes=3")
    only_counts_are_kept(pytester, result, f"{NO_TIMES} {why} in process 2")
    assert result.stdout.str().count("times were not recorded") == 1
    assert len(processes(pytester, "test_b")) == 3


def test_times_that_could_not_be_recorded_leave_those_there_were(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh]
) -> None:
    fresh()
    model(pytester)
    suite("--opprof-update", "--opprof-processes=3")
    (path,) = pytester.path.glob("baselines/*/test_m.py.json")
    before = path.read_text()
    fresh(raises(BackendError("it broke")))
    pytester.makepyfile(test_m=MODEL.format(more="", rounds=30))
    result = suite("--opprof-update", "--opprof-processes=3")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"opprof: error: {NO_PROCESS} it broke"])
    assert path.read_text() == before


# --- a busy machine

AGAIN = (
    "Counts and coarse times were recorded; times to compare with were not. Record them on a quiet machine, or use"
    " --opprof-noise=ignore"
)


@pytest.mark.parametrize("noise", ["warn", "fail", "ignore"])
def test_times_of_a_busy_machine_are_refused_unless_noise_is_to_be_ignored(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh], monkeypatch: pytest.MonkeyPatch, noise: str
) -> None:
    fresh()
    busy = "other processes used 1.9 of 2 cores: make (pid 7) 1.0 cores"
    monkeypatch.setattr(Recording.__init__, "__defaults__", (lambda: False,))
    monkeypatch.setattr(Watch, "busy", lambda watch: busy)
    model(pytester)
    result = suite("--opprof-update", "--opprof-processes=3", f"--opprof-noise={noise}")
    if noise == "ignore":
        assert (result.ret, len(processes(pytester))) == (0, 3)
        return
    said = f"the machine was busy while times were recorded: {busy}. {AGAIN}"
    if noise == "fail":
        only_counts_are_kept(pytester, result, said)
        return
    # A passing test stays one: what was left out is said, and no error.
    assert result.ret == 0
    result.stdout.fnmatch_lines([said, "opprof: 2 tests measured, 2 ok"])
    assert kept(pytester)["test_a"] == COUNTS_ONLY["test_a"]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--opprof-processes=0", "--opprof-processes is '0'; write an int of 1 or more"),
        ("--opprof-processes=many", "--opprof-processes is 'many'; write an int of 1 or more"),
        ("--opprof-threads=0", "--opprof-threads is '0'; write 'all' or an int of 1 or more"),
        ("--opprof-against=", "--opprof-against is empty; write a git revision, main... or auto"),
        ("--opprof-noise=loud", "--opprof-noise is 'loud'; write 'warn' (*), 'fail' (*) or 'ignore' (*)"),
        ("--opprof-floor=2", "--opprof-floor is '2'; write a time with its unit (ns, us, ms, s), such as '5 us'"),
        ("--opprof-op-tolerance=ten", "--opprof-op-tolerance is 'ten'; write a percentage such as '10%'"),
    ],
)
def test_a_flag_that_means_nothing_stops_the_run(
    pytester: pytest.Pytester, suite: Suite, flag: str, message: str
) -> None:
    model(pytester)
    result = suite("--opprof", flag)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{message}"])


def test_a_run_that_stops_at_the_first_failure_keeps_what_passed_before(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh]
) -> None:
    others = fresh()
    model(pytester, more="pass\ndef test_b(): assert 0")
    result = suite("--opprof-update", "--opprof-processes=3", "-x")
    result.assert_outcomes(passed=1, failed=1)
    assert others.asked == [["test_m.py::test_a"]] * 2
    assert len(processes(pytester)) == 3

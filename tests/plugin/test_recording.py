"""The times of a baseline are recorded in several processes: what becomes of it when one of them goes wrong."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pytest_opprof.baselines import Calls, Entry
from pytest_opprof.environment import machine
from pytest_opprof.errors import BackendError
from pytest_opprof.samples import Run

from ..conftest import HANG, end_at_once

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
    (times,) = kept(pytester)[test].get("times", {"": {"total_us": []}}).values()  # type: ignore[attr-defined]
    return times["total_us"]  # type: ignore[no-any-return]


class Fresh:
    """Stands for the fresh processes: what each measures, or raises."""

    def __init__(self, measured: Callable[[int], object] = lambda number: None) -> None:
        self.asked: list[list[str]] = []
        self.timeouts: list[float] = []
        self.measured = measured

    def measure(self, config: pytest.Config, tests: list[str], timeout_s: float) -> Mapping[str, Mapping[str, Entry]]:
        self.asked.append(tests)
        self.timeouts.append(timeout_s)
        entry = self.measured(len(self.asked)) or timed()
        return {test: {"body": entry} for test in tests}  # type: ignore[dict-item]


def timed(calls: int = 1, rounds: int = 10, op: str = "Add", ns: int = 100_000, **known: object) -> Entry:
    run = Run((ns,) * rounds, {op: (ns,) * rounds}, threads=1, **known)  # type: ignore[arg-type]
    return Entry({"Add": Calls(calls, calls)}, {machine(): (run,)})


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Fresh]:
    def stand_in(measured: Callable[[int], object] = lambda number: None) -> Fresh:
        found = Fresh(measured)
        monkeypatch.setattr("pytest_opprof.recording.measure", found.measure)
        return found

    return stand_in


def raises(error: BaseException, at: int = 1) -> Callable[[int], None]:
    def measured(number: int) -> None:
        if number == at:
            raise error

    return measured


def test_an_update_records_in_so_many_processes_and_says_so(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester)
    result = suite("--opprof-update", "--opprof-processes=3")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "opprof: measuring 1 timed test, process 2 of 3",
            "opprof: measuring 1 timed test, process 3 of 3, about * s each",
            "baselines of 2 tests: 2 new, 0 changed, 0 unchanged",
        ]
    )
    assert processes(pytester) == [[100] * 10] * 3
    assert "times" not in kept(pytester)["test_counted"] or len(processes(pytester, "test_counted")) == 1
    suite("--opprof", "--opprof-strict").stdout.fnmatch_lines(["opprof: 2 tests measured, 2 ok"])


def test_five_are_the_default_for_a_baseline_and_one_for_a_run(
    pytester: pytest.Pytester, fresh: Callable[..., Fresh]
) -> None:
    model(pytester)
    ours = ["-p", "no:asyncio", "-p", "no:hypothesispytest", "--opprof-backend=fake", "--opprof-noise=ignore"]
    others = fresh()
    pytester.runpytest_inprocess("--opprof-update", *ours)
    assert len(processes(pytester)) == 5
    assert others.asked == [["test_m.py::test_a"]] * 4
    pytester.runpytest_inprocess("--opprof", *ours)
    assert len(others.asked) == 4


def test_a_run_may_measure_in_several_processes_too(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh]
) -> None:
    fresh()
    model(pytester)
    suite("--opprof", "--opprof-processes=4", "--opprof-json=run.json")
    timed_, _ = json.loads((pytester.path / "run.json").read_text())["tests"]
    assert len(timed_["windows"][0]["runs"]) == 4
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
    assert others.asked == [["test_m.py::test_a", "test_m.py::test_b"]] * 2


def test_a_process_may_take_ten_times_as_long_as_the_one_before_and_five_minutes_at_least(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = fresh()
    clock = itertools.count(0, 40)  # s a process
    monkeypatch.setattr("pytest_opprof.recording.monotonic", lambda: next(clock))
    model(pytester)
    result = suite("--opprof-update", "--opprof-processes=3")
    assert others.timeouts == [300, 400]
    result.stdout.fnmatch_lines(["opprof: measuring 1 timed test, process 3 of 3, about 40 s each"])


# --- what goes wrong

COUNTS_ONLY = {"test_a": {"calls": {"Add": 1}}}


def only_counts_are_kept(pytester: pytest.Pytester, result: pytest.RunResult, error: str) -> None:
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"opprof: error: {error}"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    assert kept(pytester)["test_a"] == COUNTS_ONLY["test_a"]


def test_ctrl_c_writes_nothing(pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh]) -> None:
    fresh(raises(KeyboardInterrupt(), at=2))
    model(pytester)
    result = suite("--opprof-update", "--opprof-processes=3", "--opprof-json=run.json", no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["opprof: error: interrupted: no baseline was written"])
    assert not (pytester.path / "baselines").exists()
    assert json.loads((pytester.path / "run.json").read_text())["interrupted"]


def test_ctrl_c_while_a_fresh_process_runs_leaves_none_behind(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_at_once(monkeypatch, KeyboardInterrupt)
    model(pytester, more=f"if 'OPPROF_TESTS' in os.environ: {HANG}")
    result = suite("--opprof-update", "--opprof-processes=3", no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert not (pytester.path / "baselines").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(os.readlink("pid")), 0)


def test_a_fresh_process_that_hangs_is_ended_and_only_counts_are_kept(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_at_once(monkeypatch)
    model(pytester, more=f"if 'OPPROF_TESTS' in os.environ: {HANG}")
    result = suite("--opprof-update", "--opprof-processes=3")
    only_counts_are_kept(pytester, result, "times were not recorded: a fresh process took more than 300 s")
    with pytest.raises(ProcessLookupError):
        os.kill(int(os.readlink("pid")), 0)


@pytest.mark.parametrize(
    ("in_the_fresh_process", "error"),
    [
        ("os._exit(3)", "times were not recorded: a fresh process gave no measurement (*)"),
        ("os.kill(os.getpid(), 9)", "times were not recorded: a fresh process gave no measurement (*)"),
        ("pytest.skip()", "test_m.py::test_a: its times were not recorded: it was not measured in process 2"),
        ("assert 0", "test_m.py::test_a: its times were not recorded: it was not measured in process 2"),
        ("fake.launch('Exp')", "test_m.py::test_a: its times were not recorded: other ops ran in process 2"),
    ],
)
def test_when_a_fresh_process_goes_wrong_counts_are_kept_and_times_are_not(
    pytester: pytest.Pytester, suite: Suite, in_the_fresh_process: str, error: str
) -> None:
    model(pytester, more=f"if 'OPPROF_TESTS' in os.environ: {in_the_fresh_process}")
    only_counts_are_kept(pytester, suite("--opprof-update", "--opprof-processes=2"), error)


def test_a_fresh_process_that_collects_nothing_measured_nothing(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        test_m="import os, pytest\nif 'OPPROF_TESTS' in os.environ: pytest.skip('', allow_module_level=True)\n"
        + MODEL.format(more="", rounds=10)
    )
    error = "test_m.py::test_a: its times were not recorded: it was not measured in process 2"
    only_counts_are_kept(pytester, suite("--opprof-update", "--opprof-processes=2"), error)


@pytest.mark.parametrize(
    ("measured", "why"),
    [
        (timed(calls=2), "other ops ran"),
        (timed(rounds=9), "other rounds or ops were timed"),
        (timed(op="Mul"), "other rounds or ops were timed"),
        (Entry({"Add": Calls(1, 1)}), "other rounds or ops were timed"),
    ],
)
def test_only_the_test_that_was_another_in_a_fresh_process_loses_its_times(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, measured: Entry, why: str
) -> None:
    def measure(config: pytest.Config, tests: list[str], timeout_s: float) -> Mapping[str, Mapping[str, Entry]]:
        return {test: {"body": measured if test.endswith("test_a") else timed()} for test in tests}

    monkeypatch.setattr("pytest_opprof.recording.measure", measure)
    model(pytester, more="pass\ndef test_b(): fake.launch('Add', device_ns=100_000)")
    result = suite("--opprof-update", "--opprof-processes=3")
    error = f"test_m.py::test_a: its times were not recorded: {why} in process 2"
    only_counts_are_kept(pytester, result, error)
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
    result.stdout.fnmatch_lines(["opprof: error: times were not recorded: it broke"])
    assert path.read_text() == before


# --- a busy machine

AGAIN = "Their calls were kept, their times were not: record them again when it is quiet, or say --opprof-noise=ignore"


@pytest.mark.parametrize("noise", ["warn", "fail", "ignore"])
def test_times_of_a_busy_machine_are_refused_unless_noise_is_to_be_ignored(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh], monkeypatch: pytest.MonkeyPatch, noise: str
) -> None:
    fresh()
    monkeypatch.setattr("pytest_opprof.recorder.waited_ns", lambda: 0)
    busy = "other processes used 1.9 of 2 cores: make (process 7) 1.0"
    monkeypatch.setattr("pytest_opprof.recording.Watch.busy", lambda watch: busy)
    model(pytester)
    result = suite("--opprof-update", "--opprof-processes=3", f"--opprof-noise={noise}")
    if noise == "ignore":
        assert (result.ret, len(processes(pytester))) == (0, 3)
    else:
        only_counts_are_kept(pytester, result, f"the machine was busy while times were recorded: {busy}. {AGAIN}")


def test_rounds_that_waited_in_too_many_processes_are_refused(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = timed(wait_ns=(1_000,) * 10)
    waited = timed(wait_ns=(1_001,) * 6 + (0,) * 4)
    monkeypatch.setattr("pytest_opprof.recording.Watch.busy", lambda watch: "")
    monkeypatch.setattr("pytest_opprof.recorder.waited_ns", lambda: 0)
    model(pytester)
    fresh(lambda number: quiet if number < 3 else waited)
    assert suite("--opprof-update", "--opprof-processes=5", "--opprof-noise=warn").ret == 0
    assert len(processes(pytester)) == 5
    (path,) = pytester.path.glob("baselines/*/test_m.py.json")
    Path(path).unlink()
    others = fresh(lambda number: quiet if number < 2 else waited)
    result = suite("--opprof-update", "--opprof-processes=5", "--opprof-noise=warn")
    assert len(others.asked) == 9
    result.stdout.fnmatch_lines(
        ["opprof: measuring 1 timed test, process 6, since others were disturbed or differ, about * s*"]
    )
    error = f"test_m.py::test_a: in 8 of 10 processes its rounds shared their core with others. {AGAIN}"
    only_counts_are_kept(pytester, result, error)


def test_disturbed_processes_are_made_up_for(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = timed(wait_ns=(1_001,) * 6 + (0,) * 4)
    monkeypatch.setattr("pytest_opprof.recording.Watch.busy", lambda watch: "")
    monkeypatch.setattr("pytest_opprof.recorder.waited_ns", lambda: 0)
    model(pytester)
    fresh(lambda number: waited if number < 5 else None)
    assert suite("--opprof-update", "--opprof-processes=5", "--opprof-noise=warn").ret == 0
    assert len(processes(pytester)) == 7


@pytest.mark.parametrize(
    ("others_us", "recorded"),
    [
        ((110, 110, 103, 103), 5),  # beside 100 us of the first
        ((110, 110, 104, 103, 110, 110, 102), 8),
        ((110,) * 9, 10),
    ],
)
def test_processes_that_differ_are_made_up_for_until_three_agree(
    pytester: pytest.Pytester,
    suite: Suite,
    fresh: Callable[..., Fresh],
    monkeypatch: pytest.MonkeyPatch,
    others_us: tuple[int, ...],
    recorded: int,
) -> None:
    monkeypatch.setattr("pytest_opprof.recording.Watch.busy", lambda watch: "")
    monkeypatch.setattr("pytest_opprof.recorder.waited_ns", lambda: 0)
    model(pytester)
    fresh(lambda number: timed(ns=1_000 * others_us[number - 1]))
    assert suite("--opprof-update", "--opprof-processes=5", "--opprof-noise=warn").ret == 0
    assert len(processes(pytester)) == recorded


THROTTLED = "GPU 0 was throttled: HW slowdown"


@pytest.mark.parametrize("noise", ["warn", "ignore"])
def test_times_of_a_throttled_gpu_are_no_baseline_unless_noise_is_to_be_ignored(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh], monkeypatch: pytest.MonkeyPatch, noise: str
) -> None:
    monkeypatch.setattr("pytest_opprof.recording.Watch.busy", lambda watch: "")
    model(pytester)
    others = fresh(lambda number: timed(disturbed=(THROTTLED,)))
    result = suite("--opprof-update", "--opprof-processes=3", f"--opprof-noise={noise}")
    if noise == "ignore":
        assert (result.ret, len(processes(pytester))) == (0, 3)
    else:
        assert len(others.asked) == 5
        error = f"test_m.py::test_a: in 5 of 6 processes {THROTTLED}. {AGAIN}"
        only_counts_are_kept(pytester, result, error)


def test_processes_whose_gpu_was_throttled_are_made_up_for_and_left_out(
    pytester: pytest.Pytester, suite: Suite, fresh: Callable[..., Fresh], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_opprof.recording.Watch.busy", lambda watch: "")
    model(pytester)
    others = fresh(lambda number: timed(disturbed=(THROTTLED,)) if number < 3 else None)
    assert suite("--opprof-update", "--opprof-processes=4", "--opprof-noise=warn").ret == 0
    assert (len(others.asked), len(processes(pytester))) == (5, 4)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--opprof-processes=0", "--opprof-processes is '0'; write an int of 1 or more"),
        ("--opprof-processes=many", "--opprof-processes is 'many'; write an int of 1 or more"),
        ("--opprof-threads=0", "--opprof-threads is '0'; write 'all' or an int of 1 or more"),
        ("--opprof-against=", "--opprof-against is empty; write a git revision, such as --opprof-against=main"),
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

"""Coarse times of tests with one cold round: recorded, compared, and confirmed in fresh processes in one thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.errors import BackendError
from pytest_opprof.machine.identity import machine, with_python
from pytest_opprof.machine.load import Watch
from pytest_opprof.measure import recorder
from pytest_opprof.measure.memory.traced import Where
from pytest_opprof.measure.sampled import Sampler
from pytest_opprof.processes.pool import Answer, Pool
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.pytest_plugin import body, measuring
from pytest_opprof.pytest_plugin.measuring import Measuring
from pytest_opprof.pytest_plugin.reruns.coarse import Coarsely
from pytest_opprof.python_calls import tally
from pytest_opprof.verdict.times.coarse import Coarse

from ...conftest import IN_ONE_THREAD, coarsely, in_one_thread, looks

Suite = Callable[..., pytest.RunResult]
TIME_REPEATS = Measuring._time_repeats
HERE = with_python(machine())
MS = 1_000_000
LINE = Where("97% of the time is at test_m.py:7 in test_a `pass`", "test_m.py:7")
MODEL = """
import pytest
from pytest_opprof.backends import fake
from pytest_opprof.measure import recorder
@pytest.mark.opprof{mark}
def test_a():
    fake.launch("Add")
    {more}
    recorder.process_time_ns.spend({cpu})
    recorder.perf_counter_ns.spend({wall})
"""


@pytest.fixture
def suite(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    coarsely(monkeypatch)
    return suite


class Clock:
    """A clock that stands still, but for the time that a test spends."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns

    def spend(self, ms: float) -> None:
        self.ns += int(ms * MS)


@pytest.fixture(autouse=True)
def _clocks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, untraced: None) -> None:
    if request.node.get_closest_marker("processes"):
        return
    cpu, wall = Clock(), Clock()
    monkeypatch.setattr(recorder, "process_time_ns", cpu)
    monkeypatch.setattr(recorder, "thread_time_ns", cpu)
    monkeypatch.setattr(recorder, "perf_counter_ns", wall)
    monkeypatch.setattr(
        recorder.Recorder.__init__, "__defaults__", (None, False, wall, lambda: 0, lambda: (cpu(), cpu()))
    )


def model(pytester: pytest.Pytester, cpu: float, wall: float | None = None, mark: str = "", more: str = "pass") -> None:
    text = MODEL.format(cpu=cpu, wall=cpu if wall is None else wall, mark=mark, more=more)
    pytester.makepyfile(test_m=text)


def look(cpu: float, wall: float | None = None, why: str = "") -> Answer:
    """Return what a fresh process measured: one call of Add that took so many ms."""
    cpu_ns, wall_ns = int(cpu * MS), int((cpu if wall is None else wall) * MS)
    took = Coarse((cpu_ns, cpu_ns), (wall_ns, wall_ns))
    return Answer({"body": WindowBaseline({"Add": OpCounts(Range(1))}, coarse={HERE: took})}, why)


def kept(pytester: pytest.Pytester) -> dict[str, Any]:
    (path,) = pytester.path.glob("baselines/*/test_m.py.times.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def change(pytester: pytest.Pytester, **fields: object) -> None:
    """Change what the file has of the only window."""
    (path,) = pytester.path.glob("baselines/*/test_m.py.times.json")
    document = json.loads(path.read_text())
    ((name, entry),) = document["coarse"]["test_a"]["body"].items()
    document["coarse"]["test_a"]["body"] = {str(fields.pop("machine", name)): {**entry, **fields}}
    path.write_text(json.dumps(document))


@pytest.fixture
def slower(pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Run a test that took 12 ms when its baseline was recorded and takes 3.9 s; give what fresh processes find."""
    model(pytester, 12)
    assert suite("--opprof-update").ret == 0

    def run(
        *found: object, flags: tuple[str, ...] = (), cpu: float = 3900, wall: float | None = None
    ) -> pytest.RunResult:
        model(pytester, cpu, wall)
        run.asked = in_one_thread(monkeypatch, *(found or [look(cpu, wall)]))  # type: ignore[attr-defined]
        return suite("--opprof", *flags)

    return run


# --- recorded


def test_a_baseline_keeps_what_a_round_takes_by_machine_and_python(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, 12.3, 45.6)
    suite("--opprof-update")
    took = {"cpu_ms": [12, 12], "wall_ms": [46, 46], "processes": 1}
    assert kept(pytester)["coarse"] == {"test_a": {"body": {HERE: took}}}


def test_an_update_keeps_a_time_that_is_no_other_and_records_one_that_is(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    for cpu, expected in ((12, 12), (15, 12), (300, 300), (290, 300), (13, 13)):
        model(pytester, cpu)
        assert suite("--opprof-update").ret == 0
        assert kept(pytester)["coarse"]["test_a"]["body"][HERE]["cpu_ms"] == [expected, expected]


def test_a_file_of_times_without_coarse_ones_is_read_and_compares_nothing(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(pytester, 12)
    suite("--opprof-update")
    (path,) = pytester.path.glob("baselines/*/test_m.py.times.json")
    path.unlink()
    asked = in_one_thread(monkeypatch, look(3900))
    model(pytester, 3900)
    result = suite("--opprof")
    assert (result.ret, asked) == (0, [])
    result.stdout.fnmatch_lines(["opprof: 1 test measured, 1 ok, no times judged"])


# --- compared


def test_an_unchanged_body_passes_without_a_further_process(slower: Callable[..., pytest.RunResult]) -> None:
    result = slower(cpu=13)
    result.assert_outcomes(passed=1)
    assert slower.asked == []  # type: ignore[attr-defined]
    result.stdout.fnmatch_lines(["opprof: 1 test measured, 1 ok, times judged coarsely"])


def test_what_takes_longer_in_three_fresh_processes_fails(slower: Callable[..., pytest.RunResult]) -> None:
    result = slower()
    result.assert_outcomes(failed=1)
    assert slower.asked == [0, 1, 2]  # type: ignore[attr-defined]
    result.stdout.fnmatch_lines(
        [
            "opprof: test_m.py::test_a takes longer than its baseline; re-running it in up to 3 fresh processes*",
            "  CPU time: 3.9 s (baseline: 12 ms), x325; ops unchanged; the time is between ops",
            "  (confirmed in 3 fresh processes, in one thread)",
            "(CPU time)*12 ms -> 3.9 s*slower",
            "to accept this change: pytest test_m.py::test_a --opprof-update",
            "opprof: 1 test measured, 0 ok, 1 slower, times judged coarsely",
            "FAILED test_m.py::test_a - CPU time 12 ms -> 3.9 s",
        ]
    )


def test_of_many_tests_that_take_longer_a_few_are_announced(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cpu in (12, 60):
        text = MODEL.format(cpu=cpu, wall=cpu, mark="", more="pass")
        others = [text[text.index("@pytest") :].replace("test_a", f"test_{name}") for name in "bcdef"]
        pytester.makepyfile(test_m=text + "".join(others))
        asked = in_one_thread(monkeypatch, look(12))
        result = suite("--opprof", *(["--opprof-update"] if cpu == 12 else []))
    assert len(asked) == 6
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(
        [
            "opprof: test_m.py::test_c takes longer than its baseline*",
            "opprof: more tests take longer than their baselines; re-running them, too",
        ]
    )
    result.stdout.no_fnmatch_line("*test_[ef] takes longer*")


def test_time_in_ops_is_said_to_be_there(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(pytester, 12)
    suite("--opprof-update")
    in_one_thread(monkeypatch, look(900))
    model(pytester, 900, more="fake.launch('Add', device_ns=800_000_000); fake.launch('Add')")
    pytester.makepyfile(test_m=(pytester.path / "test_m.py").read_text().replace('    fake.launch("Add")\n', "", 1))
    (path,) = pytester.path.glob("baselines/*/test_m.py.json")
    path.write_text(path.read_text().replace('"Add": 1', '"Add": 2').replace('"calls": 1', '"calls": 2'))
    suite("--opprof").stdout.fnmatch_lines(
        ["  CPU time: 900 ms (baseline: 12 ms), x75; ops unchanged; 89% of it is in ops"]
    )


@pytest.mark.parametrize(("ms", "now", "asked"), [(40, "passed", []), (3900, "failed", [0, 1, 2])])
def test_under_coverage_fresh_processes_judge_what_takes_more_than_five_times_as_long(
    slower: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch, ms: int, now: str, asked: list[int]
) -> None:
    monkeypatch.setattr(recorder, "_is_traced", lambda: True)
    result = slower(look(900), cpu=ms)
    result.assert_outcomes(**{now: 1})
    assert slower.asked == asked  # type: ignore[attr-defined]
    if asked:
        result.stdout.fnmatch_lines(["  CPU time: 900 ms (baseline: 12 ms), x75; ops unchanged*"])
    result.stdout.fnmatch_lines(["opprof: 1 test measured, *, times judged coarsely"])


def test_fresh_processes_under_coverage_give_no_verdict(
    slower: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_is_traced", lambda: True)
    traced = Answer({"body": WindowBaseline({"Add": OpCounts(Range(1))})}, "")
    slower(traced).stdout.fnmatch_lines(["*could not be re-measured: coverage or a debugger traces them, too*"])


@pytest.mark.parametrize(
    ("found", "asked"),
    [
        ([look(14)], [0]),
        ([look(900), look(14)], [0, 1]),
        ([look(900), look(900), [look(900), look(14)]], [0, 1, 2]),  # the second time: an import came first
    ],
)
def test_one_process_that_is_fast_enough_lets_it_pass(
    slower: Callable[..., pytest.RunResult], found: list[Any], asked: list[int]
) -> None:
    slower(*found).assert_outcomes(passed=1)
    assert slower.asked == asked  # type: ignore[attr-defined]


@pytest.mark.parametrize("by_strict", [False, True])
def test_what_cannot_be_measured_again_is_no_ok(slower: Callable[..., pytest.RunResult], by_strict: bool) -> None:
    result = slower(BackendError("it broke"), flags=("--opprof-noise=fail",) if by_strict else ())
    result.assert_outcomes(passed=not by_strict, failed=by_strict)
    why = "CPU time: 3.9 s (baseline: 12 ms), x325, but could not be re-measured: it broke"
    result.stdout.fnmatch_lines([f"times not judged, {why}: test_m.py::test_a", "*0 ok, 1 too noisy to judge*"])


def test_a_wait_is_seen_by_wall_time_where_the_machine_is_quiet(slower: Callable[..., pytest.RunResult]) -> None:
    result = slower(look(12, 220), cpu=12, wall=220)
    result.assert_outcomes(failed=1)
    line = "  wall time: 220 ms (baseline: 12 ms), x18.3; ops unchanged; it waits: CPU time is 12 ms"
    result.stdout.fnmatch_lines([line])


def test_wall_time_on_a_busy_machine_has_no_verdict_and_cpu_time_has(
    slower: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = "other processes used 1.9 of 2 cores: make (pid 7) 1.0 cores"
    monkeypatch.setattr(Watch, "busy", lambda watch: busy)
    result = slower(look(12, 220), cpu=12, wall=220, flags=("--opprof-noise=warn",))
    result.assert_outcomes(passed=1)
    said = f"times not judged, wall time: 220 ms (baseline: 12 ms), x18.3, unreliable while {busy}: *"
    result.stdout.fnmatch_lines([said, "*1 too noisy to judge*"])
    slower(flags=("--opprof-noise=warn",)).assert_outcomes(failed=1)


_BUSY = "other processes used 1.0 of 2 cores: make (pid 7) 1.0 cores"


def _at_a_speed_of(look: Answer, yardstick_ns: int) -> Answer:
    (entry,) = look.windows.values()
    took = {name: replace(each, yardstick_ns=yardstick_ns) for name, each in entry.coarse.items()}
    return replace(look, windows={"body": replace(entry, coarse=took)})


@pytest.mark.parametrize(
    ("busy", "outcome"),
    [([_BUSY], "too noisy"), ([_BUSY, "", _BUSY], "1 slower"), ([""], "1 slower")],
    ids=["in all three", "in two", "in none"],
)
def test_a_time_that_a_shared_core_explains_has_no_verdict_unless_one_process_was_in_quiet(
    slower: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch, busy: list[str], outcome: str
) -> None:
    said = iter(busy * 3)
    monkeypatch.setattr(Watch, "busy", lambda watch: next(said))
    result = slower(look(30), cpu=30, flags=("--opprof-noise=warn",))
    result.stdout.fnmatch_lines([f"opprof: 1 test measured, 0 ok, *{outcome}*"])
    if outcome == "too noisy":
        line = f"times not judged, CPU time: 30 ms (baseline: 12 ms), x2.5, unreliable while {_BUSY}: *"
        result.stdout.fnmatch_lines([line])


@pytest.mark.parametrize(("noise", "outcome"), [("warn", "passed"), ("ignore", "failed")])
def test_beside_other_tests_the_limit_is_that_of_a_shared_core_unless_noise_is_ignored(
    slower: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch, noise: str, outcome: str
) -> None:
    made = Coarsely.__init__
    monkeypatch.setattr(Coarsely, "__init__", lambda self, *known: made(self, *known[:5], True))
    slower(look(30), cpu=30, flags=(f"--opprof-noise={noise}",)).assert_outcomes(**{outcome: 1})


def test_a_time_that_a_slow_core_explains_has_no_verdict(
    slower: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "yardstick_ns", lambda: 10_000)
    monkeypatch.setattr(Watch, "busy", lambda watch: "")
    result = slower(_at_a_speed_of(look(30), 16_000), cpu=30, flags=("--opprof-noise=warn",))
    result.assert_outcomes(passed=1)
    why = "unreliable while a fixed piece of work takes x1.6 as long as at best"
    result.stdout.fnmatch_lines([f"times not judged, CPU time: 30 ms (baseline: 12 ms), x2.5, {why}: *"])
    slower(_at_a_speed_of(look(30), 10_900), cpu=30, flags=("--opprof-noise=warn",)).assert_outcomes(failed=1)


def test_a_wait_beside_other_tests_has_no_verdict_and_cpu_time_has(
    slower: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Coarsely.__init__
    monkeypatch.setattr(Coarsely, "__init__", lambda self, *known: made(self, *known[:5], True))
    result = slower(look(12, 220), cpu=12, wall=220)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["times not judged, wall time: *, unreliable while other tests run at the same time: *"]
    )
    slower().assert_outcomes(failed=1)


def test_on_another_machine_the_limit_is_x5(pytester: pytest.Pytester, slower: Callable[..., pytest.RunResult]) -> None:
    change(pytester, machine="Another CPU, 4 cores, Python 3.9")
    slower(cpu=55).assert_outcomes(passed=1)
    assert slower.asked == []  # type: ignore[attr-defined]
    result = slower(cpu=70)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*CPU time: 70 ms*; the baseline is of another machine or Python"])


def test_a_test_that_differs_from_process_to_process_is_judged_by_the_most_and_says_so(
    pytester: pytest.Pytester, slower: Callable[..., pytest.RunResult]
) -> None:
    change(pytester, cpu_ms=[30, 100])
    result = slower(cpu=100)
    result.assert_outcomes(passed=1)
    said = "test_m.py::test_a: CPU time differs from process to process: 30 ms to 100 ms; judged by the slowest process"
    result.stdout.fnmatch_lines([said])
    slower(cpu=300).assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("before", "now", "said"), [(20, 21, ", within its limit"), (1, 1, ""), (20, 90, ", x4.5, in this process")]
)
def test_more_calls_say_whether_they_take_more_time(
    pytester: pytest.Pytester, suite: Callable[..., pytest.RunResult], before: int, now: int, said: str
) -> None:
    model(pytester, before)
    suite("--opprof-update")
    model(pytester, now, more="fake.launch('Add')")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    told = f"    CPU time: {now} ms (baseline: {before} ms){said}"
    assert (told in result.outlines) is bool(said)


RECORDING = """
import pytest
from pytest_opprof.backends import fake
from pytest_opprof.measure import recorder
@pytest.mark.opprof
def test_a():
    {more}
    fake.launch("Add")
    recorder.process_time_ns.spend({cpu})
    if fake.backend().log: recorder.process_time_ns.spend({recording})
"""


@pytest.mark.parametrize(("before", "now", "said"), [(20, 40, ", x2"), (20, 21, ", within its limit")])
def test_beside_more_calls_the_time_is_that_without_recording_them(
    pytester: pytest.Pytester, suite: Suite, before: int, now: int, said: str
) -> None:
    pytester.makepyfile(test_m=RECORDING.format(cpu=before, recording=400, more="pass"))
    suite("--opprof-update")
    change(pytester, unrecorded={"cpu_ms": [before] * 2, "wall_ms": [before] * 2, "processes": 2})
    pytester.makepyfile(test_m=RECORDING.format(cpu=now, recording=900, more="fake.launch('Add')"))
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"    CPU time: {now} ms (baseline: {before} ms){said}*"])


@pytest.mark.parametrize(("now", "failed"), [(900, 1), (30, 0)])
def test_fresh_processes_are_compared_with_the_baselines_time_without_recording(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, now: int, failed: int
) -> None:
    model(pytester, 100)
    assert suite("--opprof-update").ret == 0
    change(pytester, unrecorded={"cpu_ms": [20, 20], "wall_ms": [20, 20], "processes": 2})
    model(pytester, 3900)
    in_one_thread(monkeypatch, look(now))
    result = suite("--opprof")
    result.assert_outcomes(passed=1 - failed, failed=failed)
    if failed:
        result.stdout.fnmatch_lines([f"  CPU time: {now} ms (baseline: 20 ms), x45; ops unchanged"])


@pytest.mark.parametrize("now", [90, 21])
def test_a_time_of_several_threads_is_not_told_beside_more_calls(
    pytester: pytest.Pytester, suite: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch, now: int
) -> None:
    """Its baseline is of one thread: four times the time of ignite was 94 times beside threads that spin."""
    model(pytester, 20)
    suite("--opprof-update")
    model(pytester, now, more="fake.launch('Add')")
    of_test = recorder.process_time_ns
    *others, _ = recorder.Recorder.__init__.__defaults__ or ()
    monkeypatch.setattr(recorder.Recorder.__init__, "__defaults__", (*others, lambda: (of_test(), 0)))
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*CPU time*")


@pytest.mark.parametrize("now", [30, 60])  # within the limit, and beyond it until a fresh process is faster
def test_fewer_calls_that_take_clearly_more_time_are_no_improvement(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, now: int
) -> None:
    in_one_thread(monkeypatch, look(25))
    model(pytester, 22, more="fake.launch('Add')")
    suite("--opprof-update")
    pytester.makepyfile(test_first="from pytest_opprof.backends import fake\ndef test_b(): fake.launch('Mul')\n")
    model(pytester, now)
    result = suite("--opprof", "--opprof-all")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "test_m.py::test_a: Add: 1 call (baseline: 2)",
            f"test_m.py::test_a: fewer calls, but CPU time: {now} ms (baseline: 22 ms), x*, in this process",
            "opprof: 2 tests measured, 1 ok, 1 without baseline, times judged coarsely",
        ]
    )
    result.stdout.no_fnmatch_line("*keep what became cheaper*")
    alone = suite("--opprof", "--opprof-all", "test_m.py")  # as the first test, it may import for itself
    alone.stdout.fnmatch_lines(["keep what became cheaper: *"])


@pytest.mark.parametrize("now", [20, 27])
def test_fewer_calls_in_about_as_much_time_are_an_improvement(
    pytester: pytest.Pytester, suite: Suite, now: int
) -> None:
    model(pytester, 22, more="fake.launch('Add')")
    suite("--opprof-update")
    model(pytester, now)
    result = suite("--opprof")
    result.stdout.fnmatch_lines(["keep what became cheaper: *", "opprof: 1 test measured, 0 ok, 1 improved, *"])
    result.stdout.no_fnmatch_line("*but CPU time*")


def test_what_does_more_is_not_blamed_for_its_time_as_well(
    pytester: pytest.Pytester, slower: Callable[..., pytest.RunResult], suite: Suite
) -> None:
    model(pytester, 3900, more="fake.launch('Cast')")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "    CPU time: 3.9 s (baseline: 12 ms), x325, in this process",
            "opprof: 1 test measured, 0 ok, 1 with more calls*",
        ]
    )


def test_the_time_is_a_finding_like_others_in_files(
    pytester: pytest.Pytester, slower: Callable[..., pytest.RunResult]
) -> None:
    slower(flags=("--opprof-json=run.json", "--opprof-summary=run.md", "--opprof-html=run.html"))
    document = json.loads((pytester.path / "run.json").read_text())
    (window,) = document["tests"][0]["windows"]
    assert document["summary"] == {"slower": 1}
    assert (window["findings"][0]["rule"], window["findings"][0]["op"]) == ("slower", "cpu_time")
    assert window["rows"][0] == {"op": "cpu_time", "verdict": "slower", "work": "12 ms -> 3.9 s"}
    assert (window["coarse"]["cpu_ns"], window["coarsely"]) == ([3900 * MS] * 2, True)
    for name in ("run.md", "run.html"):
        text = (pytester.path / name).read_text()
        assert "CPU time: 3.9 s (baseline: 12 ms), x325" in text
        assert "(CPU time)" in text


def test_judged_times_stay_as_they_are(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fake device's time is of its ops: what the host does between them no other rule judges."""
    asked = in_one_thread(monkeypatch, look(900))
    model(pytester, 12, mark="(rounds=10)")
    suite("--opprof-update")
    model(pytester, 900, mark="(rounds=10)")
    suite("--opprof").assert_outcomes(failed=1)
    assert asked == [0, 1, 2]


# --- a body without an op

PLAIN = """
import pytest
from pytest_opprof.measure import recorder
@pytest.mark.opprof
def test_a(): recorder.process_time_ns.spend({cpu})
"""


@pytest.mark.parametrize(
    ("few", "mark", "flags", "compared", "counted"),
    [
        (0, "@pytest.mark.opprof", ("--opprof",), "time, calls of Python functions and peak memory are compared", ""),
        (1, "", ("--opprof-all",), "time, calls of Python functions and peak memory are compared", ""),
        (
            0,
            "",
            ("--opprof-all",),
            "time is compared*(*--opprof-python compares calls of Python functions, too)",
            ", 1 by time alone (--opprof-python compares Python calls; opprof backends: which ops are seen)",
        ),
    ],
)
def test_a_body_without_an_op_has_a_time(
    pytester: pytest.Pytester,
    suite: Suite,
    monkeypatch: pytest.MonkeyPatch,
    few: int,
    mark: str,
    flags: Sequence[str],
    compared: str,
    counted: str,
) -> None:
    monkeypatch.setattr(measuring, "FEW_TESTS", few)
    monkeypatch.setattr(measuring, "SHORT_NS", 0)
    plain = PLAIN.replace("@pytest.mark.opprof", mark)
    pytester.makepyfile(test_m=plain.format(cpu=12))
    result = suite(*flags, "--opprof-update")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            f"test_m.py::test_a: no op ran, or no backend sees it, so only its {compared}",
            f"opprof: 1 test measured, 1 ok{counted}",
        ]
    )
    result = suite(*flags)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*no op ran*")
    no_op = Answer({"body": WindowBaseline({}, coarse=look(3900).windows["body"].coarse)}, "")
    in_one_thread(monkeypatch, no_op)
    pytester.makepyfile(test_m=plain.format(cpu=3900))
    result = suite(*flags)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  CPU time: 3.9 s (baseline: 12 ms), x325; no op ran in it"])


CALLS = """
import pytest
from pytest_opprof.measure import recorder
@pytest.mark.opprof
def test_a():
    for number in range({calls}):
        abs(number)
    recorder.process_time_ns.spend({cpu})
"""


@pytest.fixture
def upgraded(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pytest.RunResult]:
    """Record a test of 10,000 calls and 22 ms, and run it with other versions of a package and of Python."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    known = {"xarray": "2023.9", "python": here}
    monkeypatch.setattr(tally, "versions", lambda names, own: dict(known))
    pytester.makepyfile(test_m=CALLS.format(calls=10_000, cpu=22))
    assert suite("--opprof-update").ret == 0

    def run(calls: int, cpu: float, *flags: str, python: str = here, afresh: float = 30) -> pytest.RunResult:
        known.update(xarray="2024.1", python=python)
        pytester.makepyfile(test_m=CALLS.format(calls=calls, cpu=cpu))
        took = look(afresh).windows["body"].coarse
        seen = WindowBaseline({}, facts={"python_calls": Range(calls)}, python=known, coarse=took)
        looks(monkeypatch, *[Answer({"body": seen}, "")] * 2)
        return suite("--opprof", *flags)

    return run


def test_calls_and_time_that_rise_together_fail_with_another_version_of_a_package_until_an_update(
    pytester: pytest.Pytester, upgraded: Callable[..., pytest.RunResult]
) -> None:
    result = upgraded(20_000, 30)
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [
            r"  calls of Python functions: 20,\d+ \(baseline: 10,\d+\), of xarray 2024.1 \(baseline: 2023.9\);"
            r" CPU time: 30 ms \(baseline: 22 ms\), x1.36$",
            r"  \(confirmed in a fresh process",
            "to accept this change: pytest test_m.py::test_a --opprof-update",
            "opprof: 1 test measured, 0 ok, 1 with more calls, .*",
        ]
    )
    assert "within its limit" not in result.stdout.str()
    assert "not judged: xarray" not in result.stdout.str()
    upgraded(20_000, 30, "--opprof-update").assert_outcomes(passed=1)
    (path,) = pytester.path.glob("baselines/*/test_m.py.json")
    assert "2024.1" in path.read_text()
    upgraded(20_000, 30).assert_outcomes(passed=1)


def test_a_fresh_process_that_takes_no_longer_refutes_the_time(upgraded: Callable[..., pytest.RunResult]) -> None:
    result = upgraded(20_000, 30, afresh=25)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*: calls of Python functions: 20,* (baseline: 10,*), of xarray 2024.1 (baseline: 2023.9); CPU time: 30 ms"
            " (baseline: 22 ms), x1.36; not judged: 25 ms in a fresh process",
            "opprof: 1 test measured, 1 ok, times judged coarsely",
        ]
    )


@pytest.mark.parametrize(
    ("calls", "cpu", "python"),
    [
        (20_000, 27, None),  # noise
        (20_000, 22, None),
        (10_900, 30, None),  # another version has a few other functions
        (5_000, 30, None),
        (20_000, 30, "3.9"),
    ],
)
def test_calls_alone_or_time_alone_do_not_fail_with_another_version(
    upgraded: Callable[..., pytest.RunResult], calls: int, cpu: float, python: str | None
) -> None:
    result = upgraded(calls, cpu, **({"python": python} if python else {}))
    result.assert_outcomes(passed=1)
    said = "not judged:" if calls > 10_000 else "not compared:"
    result.stdout.fnmatch_lines([f"*calls of Python functions*{said}* (baseline: *"])


def test_a_budget_over_a_body_without_an_op_is_still_an_error(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=PLAIN.format(cpu=12).replace("mark.opprof", "mark.op_budget(Cast=3)"))
    suite("--opprof-update").stdout.fnmatch_lines(["*nothing was recorded: no op ran*"])


# --- with real clocks and processes

REAL = """
import pytest, time
import numpy as np
@pytest.mark.opprof(python=False)
def test_a():
    np.add(np.ones(3), 1)
    {more}
"""
BUSY = "end = time.process_time() + 0.3\n    while time.process_time() < end: pass"


@pytest.fixture
def other() -> Iterator[None]:
    """Keep a core busy beside the test."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield
    process.kill()
    process.wait()


@pytest.mark.slow
@pytest.mark.processes
def test_a_busy_loop_fails_with_its_time_and_one_beside_the_test_does_not(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, other: None
) -> None:
    monkeypatch.setattr(Pool, "in_one_thread", IN_ONE_THREAD)
    looks(monkeypatch)
    pytester.makepyfile(test_m=REAL.format(more="pass"))
    suite("--opprof", "--opprof-backend=numpy")  # the first body in this process takes 0.2 s more
    suite("--opprof-update", "--opprof-backend=numpy").assert_outcomes(passed=1)
    suite("--opprof", "--opprof-backend=numpy").assert_outcomes(passed=1)
    pytester.makepyfile(test_m=REAL.format(more=BUSY))
    result = suite("--opprof", "--opprof-backend=numpy")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  CPU time: 3?0 ms (baseline: *), x*; ops unchanged; the time is between ops"])


TRACED = """
import os, pytest, time, tracemalloc
@pytest.mark.{mark}
def test_a():
    with open("traced.txt", "a") as file:
        print(os.getpid(), tracemalloc.is_tracing(), file=file)
    {more}
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("mark", ["opprof", "op_budget(python_calls=9_000)", "op_budget(host_memory='1 GiB')"])
def test_processes_that_confirm_a_time_trace_no_memory(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, other: None, mark: str
) -> None:
    """Tracing makes a regular expression of mistune 17 times slower: its failing run took 87 s instead of 17 s."""
    monkeypatch.setattr(Pool, "in_one_thread", IN_ONE_THREAD)
    looks(monkeypatch)
    pytester.makepyfile(test_m=TRACED.format(mark=mark, more="pass"))
    assert suite("--opprof-update").ret == 0
    pytester.makepyfile(test_m=TRACED.format(mark=mark, more="sum(range(10**7))"))
    (traced := pytester.path / "traced.txt").unlink()
    suite("--opprof").stdout.fnmatch_lines(["  CPU time: * ms (baseline: *), x*"])
    runs = {tuple(line.split()) for line in traced.read_text().splitlines()}
    here = str(os.getpid())
    assert {traced for pid, traced in runs if pid == here} == {"True", "False"}
    assert {traced for pid, traced in runs if pid != here} == {"False"}


# --- explained

ONCE = """
import pytest, time, unittest
def work():
    end = time.process_time() + {seconds}
    while time.process_time() < end: str.upper("a")
@pytest.mark.opprof
def test_a(tmp_path):
    (tmp_path / "made").mkdir()
    work()
@pytest.mark.opprof
class TestA(unittest.IsolatedAsyncioTestCase):
    async def test_a(self): work()
"""


@pytest.mark.processes
@pytest.mark.parametrize("test", ["test_a", "TestA::test_a"])
def test_a_body_that_cannot_run_twice_is_explained_by_its_run_in_a_fresh_process(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, test: str
) -> None:
    pytester.makepyfile(test_m=ONCE.format(seconds=0.01))
    assert suite("--opprof-update", f"test_m.py::{test}").ret == 0
    pytester.makepyfile(test_m=ONCE.format(seconds=0.3))
    in_one_thread(monkeypatch, look(300))
    result = suite("--opprof", f"test_m.py::{test}")
    result.stdout.fnmatch_lines(
        [
            "  CPU time: 3?0 ms (baseline: *), x*",
            '    *% of the time is at test_m.py:4 in work `while time.process_time() < end: str.upper("a")`; *',
        ]
    )


def test_without_a_process_the_lines_of_a_body_that_cannot_run_twice_are_said_to_be_unknown(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object, **asked: object) -> Answer:
        raise BackendError("it broke")

    more = '__import__("pathlib").Path("made").mkdir(); __import__("gc").collect()'
    model(pytester, 12)
    assert suite("--opprof-update").ret == 0
    model(pytester, 3900, more=more)
    in_one_thread(monkeypatch, look(3900))
    monkeypatch.setattr(Pool, "cold", breaks)
    suite("--opprof").stdout.fnmatch_lines(
        ["  CPU time: 3.9 s (baseline: 12 ms), x325*", "    the lines that take its time are unknown: it broke"]
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("for _ in range(2000): str.upper('a')", "*`test_a` at test_m.py:7 calls `str.upper` 2,000 times"),
        ("import gc; [gc.collect() for _ in range(3)]", "*3 full garbage collections"),
    ],
)
def test_the_functions_that_are_called_most_and_collections_explain_it(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, more: str, said: str
) -> None:
    model(pytester, 12)
    assert suite("--opprof-update").ret == 0
    model(pytester, 3900, more=more)
    in_one_thread(monkeypatch, look(3900))
    monkeypatch.setattr(Sampler, "lines", lambda sampler: [])  # of a body of 0.1 ms any line may have a look
    result = suite("--opprof")
    result.stdout.fnmatch_lines(["  CPU time: 3.9 s (baseline: 12 ms), x325*", f"{said}*"])


def test_the_line_that_takes_the_time_explains_it(slower: Callable[..., pytest.RunResult], monkeypatch: Any) -> None:
    monkeypatch.setattr(Sampler, "lines", lambda sampler: [LINE])
    slower().stdout.fnmatch_lines(
        [
            "  CPU time: 3.9 s (baseline: 12 ms), x325*",
            "    97% of the time is at test_m.py:7 *",
            "FAILED test_m.py::test_a - CPU time 12 ms -> 3.9 s at test_m.py:7",
        ]
    )


SLEEPS = """
import pytest, time
from pytest_opprof.backends import fake
from pytest_opprof.measure import recorder
@pytest.mark.opprof(python=True)
def test_a():
    fake.launch("Add")
    {sleep}
    recorder.perf_counter_ns.spend({wall})
"""


@pytest.mark.parametrize(("sleep", "outcome"), [("time.sleep(0)", "failed"), ("time.time()", "passed")])
def test_on_a_busy_machine_time_that_is_slept_is_no_noise(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, sleep: str, outcome: str
) -> None:
    pytester.makepyfile(test_m=SLEEPS.format(sleep="pass", wall=1))
    suite("--opprof-update").assert_outcomes(passed=1)
    monkeypatch.setattr(Watch, "busy", lambda watch: "other processes used 1.9 of 2 cores")
    in_one_thread(monkeypatch, look(0, 201))
    pytester.makepyfile(test_m=SLEEPS.format(sleep=sleep, wall=201))
    result = suite("--opprof", "--opprof-noise=warn")
    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines(["*wall time: 20? ms (baseline: 1*"])


def test_the_line_that_takes_the_time_stands_beside_more_calls(
    slower: Callable[..., pytest.RunResult], pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sampler, "lines", lambda sampler: [LINE])
    looks(monkeypatch)
    for cpu, line in ((3900, ["      97% of the time is at test_m.py:7 *"]), (13, [])):
        model(pytester, cpu, more='fake.launch("Add")')
        result = suite("--opprof")
        found = ["  Add: 2 calls (baseline: 1)*", "    CPU time: *", *line]
        result.stdout.fnmatch_lines(found)
        assert ("97%" in result.stdout.str()) is bool(line)


def test_beside_calls_of_functions_a_time_that_fails_nothing_has_no_line_of_its_own(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """74 % of the time of biopython's test was at an import, before as after the change."""
    monkeypatch.setattr(Sampler, "lines", lambda sampler: [LINE])
    model(pytester, 12, mark="(python=True)")
    suite("--opprof-update").assert_outcomes(passed=1)
    looks(monkeypatch)
    model(pytester, 3900, mark="(python=True)", more="for _ in range(20_000): len('')")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  calls of Python functions: *", "    CPU time: 3.9 s (baseline: 12 ms), x325*"])
    result.stdout.no_fnmatch_line("*97%*")


def test_a_run_that_finds_a_cache_full_does_not_explain_the_first_one(
    slower: Callable[..., pytest.RunResult], pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line of PennyLane's test that is left had the blame of 420 ms in a function with an lru_cache."""
    monkeypatch.setattr(Sampler, "lines", lambda sampler: [LINE])
    looks(monkeypatch)
    more = "fake.launch('Add'); took = next(test_a.__dict__.setdefault('took', iter([3900, *[12] * 50])))"
    model(pytester, "took", more=more)  # type: ignore[arg-type]  # an expression
    result = suite("--opprof")
    result.stdout.fnmatch_lines(["  Add: 2 calls (baseline: 1)*", "    CPU time: 3.9 s *"])
    result.stdout.no_fnmatch_line("*97%*")


def test_calls_that_are_few_explain_nothing(slower: Callable[..., pytest.RunResult]) -> None:
    slower().stdout.no_fnmatch_line("*calls `*")


# --- a first run that imports or compiles


@pytest.fixture
def compiling(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pytest.RunResult]:
    """Run a test whose baseline has 12 ms, 3 s the first time; now it takes what *first* and *later* say."""
    model(pytester, 12)
    assert suite("--opprof-update").ret == 0
    change(pytester, first={"cpu_ms": [3000, 3000], "processes": 3, "wall_ms": [3000, 3000]})

    def run(first: float, later: float, *, marked: bool = True, fails_again: bool = False) -> pytest.RunResult:
        took = f"test_a.__dict__.setdefault('took', iter([{first}, *[{later}] * 50]))"
        more = f"{getattr(run, 'more', '')}took = {took}"
        model(pytester, "next(took)", 0, more=more)  # type: ignore[arg-type]  # an expression
        before = "def test_before(): recorder.process_time_ns.spend(1)"
        path = pytester.path / "test_m.py"
        mark = "@pytest.mark.opprof\n"
        path.write_text(path.read_text().replace(mark, f"{before}\n{mark if marked else ''}"))
        again = Answer({}, "it cannot run twice") if fails_again else look(later)
        run.asked = in_one_thread(monkeypatch, [look(first), again])  # type: ignore[attr-defined]
        return suite("--opprof", "--opprof-all")

    return run


@pytest.mark.parametrize("marked", [True, False])
def test_a_first_run_that_compiles_as_before_needs_no_further_process(
    compiling: Callable[..., pytest.RunResult], marked: bool
) -> None:
    result = compiling(3100, 12, marked=marked)
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*first time in a process*")
    assert compiling.asked == []  # type: ignore[attr-defined]


def test_a_later_run_that_takes_longer_fails_though_the_first_one_does_not(
    compiling: Callable[..., pytest.RunResult],
) -> None:
    result = compiling(3300, 300)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["  CPU time: 300 ms (baseline: 12 ms), x25*"])
    assert compiling.asked == [0, 1, 2]  # type: ignore[attr-defined]


def test_a_first_run_alone_that_takes_longer_passes_and_that_is_said(
    compiling: Callable[..., pytest.RunResult],
) -> None:
    result = compiling(9000, 12)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["*test_a: CPU time: 9 s (baseline: 3 s), x3, the first time in a process; 12 ms the second time: *"]
    )
    assert compiling.asked == [0]  # type: ignore[attr-defined]


def test_a_body_that_can_no_longer_run_twice_is_compared_with_the_first_run_alone(
    compiling: Callable[..., pytest.RunResult],
) -> None:
    compiling(3300, 300, fails_again=True).assert_outcomes(passed=2)


def test_a_later_run_that_became_slower_can_be_accepted(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, 3000)
    assert suite("--opprof-update").ret == 0
    first = {"cpu_ms": [3000, 3000], "processes": 3, "wall_ms": [3000, 3000]}
    change(pytester, first=first, cpu_ms=[12, 12], wall_ms=[12, 12])
    assert suite("--opprof-update").ret == 0
    took = {"cpu_ms": [3000, 3000], "wall_ms": [3000, 3000], "processes": 1}
    assert kept(pytester)["coarse"] == {"test_a": {"body": {HERE: took}}}


def test_a_body_that_used_up_its_fixture_is_judged_by_fresh_processes(
    slower: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    result = slower(look(3900), cpu="(test_a.__dict__.setdefault('took', [3900]) or [0]).pop()")  # type: ignore[arg-type]
    result.assert_outcomes(failed=1)


def test_of_more_calls_beside_a_first_run_as_before_no_time_is_said(
    compiling: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks(monkeypatch)
    compiling.more = "fake.launch('Add'); "  # type: ignore[attr-defined]
    result = compiling(3100, 12)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.no_fnmatch_line("*CPU time*")


# --- repeated runs of the body

REPEATED = """
import pytest
from pytest_opprof.backends import fake
from pytest_opprof.pytest_plugin import body
pytestmark = pytest.mark.opprof
taken = {taken}
def test_a():
    fake.launch("Add")
    body.process_time_ns.spend(taken.pop(0) if len(taken) > 1 else taken[0])
    print(end="*")
"""
# The measured run, then those whose fastest counts.
RUNS = 1 + body._REPEATS


@pytest.fixture
def repeating(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    clock = Clock()
    monkeypatch.setattr(body, "process_time_ns", clock)
    monkeypatch.setattr(body, "thread_time_ns", clock)
    monkeypatch.setattr(body, "perf_counter_ns", Clock())
    monkeypatch.setattr(Measuring, "_time_repeats", TIME_REPEATS)
    return suite


def repeats(cpu: float, repeated: float | None) -> Answer:
    """Return what a fresh process measured in a first run and in repeated ones, in ms."""
    answer = look(cpu)
    took = answer.windows["body"].coarse[HERE].with_repeats(None if repeated is None else int(repeated * MS))
    return replace(answer, windows={"body": replace(answer.windows["body"], coarse={HERE: took})})


def takes(pytester: pytest.Pytester, *taken: float) -> None:
    pytester.makepyfile(test_m=REPEATED.format(taken=list(taken)))


@pytest.fixture
def repeated(pytester: pytest.Pytester, repeating: Suite) -> Callable[..., pytest.RunResult]:
    """Run a test whose repeated runs took 5 ms when its baseline was recorded, and take so many ms now."""
    takes(pytester, 9, 5)
    repeating("--opprof-update")

    def run(now: float, *flags: str) -> pytest.RunResult:
        takes(pytester, 9, now)
        return repeating("--opprof", *flags)

    return run


def test_an_update_keeps_the_fastest_of_thirty_later_runs(pytester: pytest.Pytester, repeating: Suite) -> None:
    takes(pytester, 9, 0.5, 0.42, 0.4567, 0.9)
    result = repeating("--opprof-update", "-s")
    assert kept(pytester)["coarse"]["test_a"]["body"][HERE]["repeated_ms"] == [0.42, 0.42]
    assert result.stdout.str().count("*") == RUNS


def test_of_a_longer_body_three_later_runs_are_enough(pytester: pytest.Pytester, repeating: Suite) -> None:
    text = REPEATED.format(taken=[5]).replace("    print", "    body.perf_counter_ns.spend(60)\n    print")
    pytester.makepyfile(test_m=text)
    assert repeating("--opprof-update", "-s").stdout.str().count("*") == 1 + 3


def test_repeated_runs_in_which_other_threads_take_time_are_not_kept(
    pytester: pytest.Pytester, repeating: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes(pytester, 9, 0.4)
    for share, is_kept in ((0.8, True), (0.7, False)):
        of_process = body.process_time_ns
        monkeypatch.setattr(body, "thread_time_ns", lambda share=share, of_process=of_process: share * of_process())
        repeating("--opprof-update")
        assert ("repeated_ms" in kept(pytester)["coarse"]["test_a"]["body"][HERE]) is is_kept
        for path in pytester.path.glob("baselines/*/*.json"):
            path.unlink()


@pytest.mark.parametrize("now", [[9, 0.5], [9, 2, 2, 0.58]])
def test_the_first_run_that_is_fast_enough_is_the_last(
    pytester: pytest.Pytester, repeating: Suite, now: list[float]
) -> None:
    takes(pytester, 9, 0.42)
    repeating("--opprof-update")
    takes(pytester, *now, 99)
    result = repeating("--opprof", "-s")
    result.assert_outcomes(passed=1)
    assert result.stdout.str().count("*") == len(now)


def test_a_body_of_which_every_repeated_run_is_slower_fails(
    repeated: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = in_one_thread(monkeypatch, repeats(9, 7.2), repeats(9, 7.1), repeats(9, 7.3))
    result = repeated(7.1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  CPU time: 7.1 ms (baseline: 5 ms), x1.42; in the fastest of repeated runs; ops unchanged*",
            "  (confirmed in 3 fresh processes, in one thread)",
            "FAILED test_m.py::test_a - CPU time 5 ms -> 7.1 ms*",
        ]
    )
    assert asked == [0, 1, 2]


def test_a_body_runs_no_further_if_all_further_runs_are_switched_off(
    pytester: pytest.Pytester, repeating: Suite
) -> None:
    takes(pytester, 9, 5)
    off = ["--no-opprof-python", "--no-opprof-memory", "--no-opprof-leaks"]
    assert repeating("--opprof-update", "-s", *off).stdout.str().count("*") == 1
    repeating("--opprof-update")
    assert repeating("--opprof", "-s", *off).stdout.str().count("*") == 1


def test_a_body_that_runs_again_for_several_reasons_is_one_test_that_ran_again(
    pytester: pytest.Pytester, repeating: Suite
) -> None:
    pytester.makepyfile(test_m="RAN = []\ndef test_a(): RAN.append(1)\ndef test_b(): assert RAN == [1]\n")
    result = repeating("--opprof-all", "--opprof-update")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["opprof: when test_m.py::test_b failed, 1 test without a mark had run twice*"])


@pytest.mark.parametrize("how", ["tracemalloc", "PYTHONMALLOC"])
def test_where_python_traces_or_checks_each_allocation_no_repeated_run_is_compared(
    repeated: Callable[..., pytest.RunResult],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    how: str,
) -> None:
    if how == "tracemalloc":
        tracemalloc.start()
        request.addfinalizer(tracemalloc.stop)
    else:
        monkeypatch.setenv(how, "debug")
    result = repeated(12, "-s")
    result.assert_outcomes(passed=1)
    assert result.stdout.str().count("*") == 1


def test_a_time_that_fresh_processes_refute_may_be_that_of_repeated_runs(
    pytester: pytest.Pytester, repeating: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(pytester, 20)
    repeating("--opprof-update")
    change(pytester, repeated_ms=[5, 5])
    text = MODEL.format(cpu=60, wall=60, mark="", more="body.process_time_ns.spend(8)")
    pytester.makepyfile(test_m=text.replace("recorder\n", "recorder\nfrom pytest_opprof.pytest_plugin import body\n"))
    asked = in_one_thread(monkeypatch, repeats(21, 8))
    result = repeating("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  CPU time: 8 ms (baseline: 5 ms), x1.6; in the fastest of repeated runs*"])
    assert asked == [0, 0, 1, 2]


def test_on_a_machine_that_is_slower_as_a_whole_no_repeated_run_is_called_slower_below_x2_5(
    pytester: pytest.Pytester, repeated: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    took = kept(pytester)["coarse"]["test_a"]["body"][HERE]
    assert took["yardstick_us"] > 0
    change(pytester, yardstick_us=took["yardstick_us"] / 100)
    answer = repeats(9, 8)
    slow = replace(answer.windows["body"].coarse[HERE], yardstick_ns=round(took["yardstick_us"] * 1000))
    monkeypatch.setattr(Watch, "busy", lambda watch: "")
    in_one_thread(monkeypatch, replace(answer, windows={"body": replace(answer.windows["body"], coarse={HERE: slow})}))
    result = repeated(8, "--opprof-noise=warn")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*x1.6, unreliable while a fixed piece of work takes x* as long as at best*"])


def test_one_fresh_process_whose_repeated_runs_are_fast_lets_it_pass(
    repeated: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = in_one_thread(monkeypatch, repeats(9, 12), repeats(9, 6.9))
    repeated(12).assert_outcomes(passed=1)
    assert asked == [0, 1]


def test_a_fresh_process_that_cannot_repeat_the_body_gives_no_verdict(
    repeated: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_one_thread(monkeypatch, repeats(9, None))
    result = repeated(12)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*CPU time: 12 ms (baseline: 5 ms), x2.4, but could not be re-measured: *"])


def test_beside_others_only_repeated_runs_beyond_x2_5_fail(
    repeated: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watch, "busy", lambda watch: "python (pid 7) uses 0.9 cores")
    for now, passed in ((12.4, 1), (12.6, 0)):
        in_one_thread(monkeypatch, repeats(9, now))
        result = repeated(now, "--opprof-noise=warn")
        result.assert_outcomes(passed=passed, failed=1 - passed)
        if passed:
            result.stdout.fnmatch_lines(["*x2.4*, unreliable while python (pid 7) uses 0.9 cores*"])


def test_a_body_that_fails_again_or_asks_for_its_ops_has_no_repeated_runs(
    pytester: pytest.Pytester, repeating: Suite
) -> None:
    pytester.makepyfile(
        test_m="""
        import pytest
        from pytest_opprof.backends import fake
        ran = []
        @pytest.mark.opprof
        def test_once():
            fake.launch("Add")
            ran.append(1)
            assert len(ran) == 1
        @pytest.mark.opprof
        def test_fixture(opprof):
            with opprof("w") as window:
                fake.launch("Add")
            assert window.calls == 1
        @pytest.mark.opprof(rounds=10)
        def test_rounds():
            fake.launch("Add")
        def test_unmarked():
            fake.launch("Add")
        """
    )
    result = repeating("--opprof-all", "--opprof-update", "--no-opprof-python", "--no-opprof-memory")
    result.assert_outcomes(passed=4)
    times = kept(pytester)["coarse"]
    assert {name: "repeated_ms" in windows["body"][HERE] for name, windows in times.items()} == {
        "test_once": False,
        "test_fixture": False,
        "test_rounds": False,
        "test_unmarked": True,  # one of few is measured closely
    }


@pytest.mark.slow
@pytest.mark.processes
def test_real_repeated_runs_find_twice_the_time_in_compiled_code(pytester: pytest.Pytester) -> None:
    library = "import hashlib\ndef digest():\n    return hashlib.pbkdf2_hmac('sha256', b'x', b'salt', {})\n"
    pytester.makepyfile(lib=library.format(9_000))
    pytester.makepyfile(
        test_m="import lib, pytest\n@pytest.mark.opprof\ndef test_a():\n    lib.digest()\n",
    )
    flags = ["-p", "no:cacheprovider", "--opprof-noise=ignore"]
    pytester.runpytest_subprocess("--opprof-update", *flags).assert_outcomes(passed=1)
    pytester.runpytest_subprocess("--opprof", *flags).assert_outcomes(passed=1)
    pytester.makepyfile(lib=library.format(27_000))
    result = pytester.runpytest_subprocess("--opprof", *flags)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*CPU time: *in the fastest of repeated runs; no op ran in it", "*at lib.py:3 in digest*"]
    )


# --- waiting


def test_an_update_accepts_a_longer_wait(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, 1, 2)
    suite("--opprof-update")
    model(pytester, 1, 900)
    suite("--opprof-update").stdout.fnmatch_lines(["baselines of 1 test: 0 new, 1 changed, 0 unchanged"])
    suite("--opprof").assert_outcomes(passed=1)


@pytest.mark.parametrize(("wall", "failed"), [(1000, 1), (400, 0)])
def test_beside_others_a_long_wait_fails_as_a_wait(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, wall: int, failed: int
) -> None:
    monkeypatch.setattr(Watch, "busy", lambda watch: "python (pid 7) uses 0.9 cores")
    model(pytester, 0.5, 0.5)
    suite("--opprof-update")
    model(pytester, 13, wall)
    in_one_thread(monkeypatch, look(13, wall))
    result = suite("--opprof", "--opprof-noise=warn")
    result.assert_outcomes(passed=1 - failed, failed=failed)
    if failed:
        result.stdout.fnmatch_lines(["  wall time: 1 s (baseline: 500 us), x2,000; *it waits: CPU time is 13 ms*"])
    else:
        result.stdout.fnmatch_lines(["*wall time: 400 ms (baseline: 500 us), x800, unreliable while python (pid 7)*"])

"""What a test is judged to be, from real measurements of the fake device and a real store; other processes are made up.

So are the times: the fake device takes as long as it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy
import pytest

from pytest_opprof.backends import fake
from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.baselines.stale import Collected
from pytest_opprof.baselines.store import Store
from pytest_opprof.errors import BackendError, NothingMeasured
from pytest_opprof.machine.identity import machine
from pytest_opprof.measure import recorder
from pytest_opprof.measure.measurement import Measurement
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.processes.pool import Answer
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.timings import ProcessTimes
from pytest_opprof.pytest_plugin.judging import Judging
from pytest_opprof.pytest_plugin.options import settings_of
from pytest_opprof.pytest_plugin.reruns.counts import with_looks
from pytest_opprof.pytest_plugin.reruns.times import is_open
from pytest_opprof.pytest_plugin.test_run import TestRun
from pytest_opprof.results.judged_window import JudgedWindow
from pytest_opprof.results.window_result import BODY, WindowNumbers
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.times.stored_rule import unjudged
from pytest_opprof.verdict.tolerances import STORED
from pytest_opprof.verdict.verdicts import Verdict

from ..conftest import profile_of

ENVIRONMENT = Environment((("fake", "1"),), "fake", timing="async")
Round = Mapping[str, int]
"""The ops of a round, and how long each takes, in ns."""


class Others:
    """Stands for the pool: what each process answers or raises, the last of them for all that follow."""

    def __init__(self, *answers: Answer | BackendError) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    def _next(self) -> Answer:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, BackendError):
            raise answer
        return answer

    def measure(self, test: str, number: int, stays: bool) -> Answer:
        self.asked.append((test, number))
        return self._next()

    def alone(self, file: str, test: str, times: int) -> list[Answer]:
        self.asked.append((test, times))
        return [self._next() for _ in range(times)]

    def second(self, file: str, test: str, times: int) -> list[Answer]:
        return []

    def forget(self) -> None:
        pass


class Judged:
    """One test and who judges it."""

    def __init__(self, item: pytest.Item, others: Others, **known: Any) -> None:
        settings = settings_of(item.config)
        self.test, self.others = TestRun.of(item), others
        self.errors: list[str] = []
        self.store = Store(settings.baselines)
        parallel, apart = known.pop("is_parallel", False), known.pop("is_apart", False)
        self.judging = Judging(
            item.config,
            replace(settings, **known),
            self.store,
            others,  # type: ignore[arg-type]
            self.errors,
            collected=Collected(item.config.rootpath, (), item.config.rootpath),
            is_parallel=parallel,
            is_apart=apart,
        )

    def measured(self, waits_ns: int = 0, **windows: Sequence[Round]) -> Measurement:
        """Measure *windows*; on a CPU a round takes as long as its ops, and waits for the CPU before each of them."""
        measurement, now_ns, waited_ns = Measurement(self.test.plan, [fake.backend()], {}, judges=True), [0], [0]
        measurement.recorder = Recorder(
            [fake.backend()], measurement.plan.options, clock_ns=lambda: now_ns[0], waited_ns=lambda: waited_ns[0]
        )
        for name, rounds in windows.items():
            window = Window(name)
            measurement.opened(window)
            with measurement.recorder.open(window):
                for launches in rounds:
                    with measurement.recorder.step(window):
                        for op, ns in launches.items():
                            fake.launch(op, device_ns=ns)
                            now_ns[0] += ns
                            waited_ns[0] += waits_ns
        return measurement

    def first(self, waits_ns: int = 0, **windows: Sequence[Round]) -> list[JudgedWindow]:
        return self.judging.first(self.test, self.measured(waits_ns, **windows))

    def settled(self, windows: list[JudgedWindow]) -> list[JudgedWindow]:
        return self.judging.times.settled(self.test, windows)


Judge = Callable[..., Judged]
MODEL = "import pytest\n@pytest.mark.{mark}\ndef test_a(): pass\n"


@pytest.fixture
def judge(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Return who judges a test with a mark, and has a baseline where one is given."""
    monkeypatch.setattr(recorder, "yardstick_ns", lambda: 90)  # else a busy machine would be said to be one

    def made(
        *answers: Answer | BackendError,
        mark: str = "opprof",
        base: Mapping[str, WindowBaseline] | None = None,
        environment: Environment = ENVIRONMENT,
        **known: Any,
    ) -> Judged:
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        pytester.makeini("[pytest]\nopprof_backend = fake\nopprof_noise = ignore\naddopts = -p opprof\n")
        item = pytester.getitem(MODEL.format(mark=mark), "test_a")
        for window, entry in (base or {}).items():
            store = Store(settings_of(item.config).baselines)
            store.put(environment, item.nodeid.partition("::")[0], "test_a", window, entry)
            store.save()
        return Judged(item, Others(*answers or [BackendError("none is started here")]), **known)

    return made


def took(ns: int) -> ProcessTimes:
    return ProcessTimes((ns,) * 10, {"Add": (ns,) * 10}, threads=0)


def calls(**ops: int) -> WindowBaseline:
    return WindowBaseline({op: OpCounts(Range(number)) for op, number in ops.items()})


TIMED = replace(calls(Add=1), times={machine(): (took(100_000), took(101_000), took(102_000))})
TEN = [{"Add": 100_000}] * 10
TWICE = [{"Add": 5, "aten::add": 5}]
SLOW = [{"Add": 300_000}] * 10


def answer(ns: int, **ops: int) -> Answer:
    """Return what a fresh process measured of the body: one Add of so long, and so many calls."""
    return Answer({BODY: replace(calls(**(ops or {"Add": 1})), times={machine(): (took(ns),)})}, "")


def verdict(windows: Sequence[JudgedWindow]) -> Verdict:
    (window,) = windows
    return window.verdict


# --- first: against the baseline and the budget


def test_what_the_baseline_has_passes_and_asks_nobody(judge: Judge) -> None:
    test = judge(base={BODY: TIMED})
    (window,) = test.first(body=TEN)
    assert (window.verdict, window.findings, window.times_judged) == (Verdict.OK, [], True)
    assert not is_open([window])
    assert test.others.asked == []


def test_without_a_baseline_that_is_said(judge: Judge) -> None:
    (window,) = judge().first(body=TEN)
    assert window.verdict is Verdict.NO_BASELINE
    assert window.no_baseline.startswith("no baseline for fake 1")


@pytest.mark.parametrize(
    "known", [{"update": "all"}, {"update": "new"}, {"is_apart": True}, {"mark": "opprof(baseline=False)"}]
)
def test_nobody_misses_a_baseline_where_none_is_asked_for_or_one_is_being_made(
    judge: Judge, known: Mapping[str, Any]
) -> None:
    assert verdict(judge(**known).first(body=TEN)) is Verdict.OK


def test_a_budget_is_that_of_the_body_not_of_windows_in_it(judge: Judge) -> None:
    body, inner = judge(mark="op_budget(Add=1)").first(body=TWICE, inner=TWICE)
    assert list(map(str, body.budget)) == ["Add: 2 calls (budget: 1)"]
    assert inner.budget == []


def test_a_test_that_limits_ops_and_shows_none_could_not_be_measured(judge: Judge) -> None:
    with pytest.raises(NothingMeasured, match="nothing was recorded"):
        judge(mark="op_budget(Add=1)").first(body=[{}])


def test_of_a_marked_test_without_an_op_the_time_is_compared_and_that_is_said(judge: Judge) -> None:
    (window,) = judge().first(body=[{}])
    assert window.verdict is Verdict.NO_BASELINE
    assert any("no op ran" in remark for remark in window.remarks)


def test_a_test_that_may_have_no_op_is_measured(judge: Judge) -> None:
    assert verdict(judge(mark="op_budget(calls=0)").first(body=[{}])) is Verdict.NO_BASELINE


def test_a_window_that_lost_all_calls_of_its_baseline_was_not_seen(judge: Judge) -> None:
    test = judge(base={"inner": calls(Add=3)})
    _, inner = test.first(body=TEN, inner=[{}])
    assert inner.verdict is Verdict.UNSEEN
    assert [str(each) for each in inner.findings] == ["nothing was recorded, 3 calls of 1 op in the baseline"]


def test_what_does_more_is_certain_though_not_all_was_seen(judge: Judge) -> None:
    """A module that was first imported in the window hides calls, and not the one that came."""
    (window,) = judge(base={BODY: calls(Mul=1)}).first(body=TWICE)
    window = replace(window, unseen="fewer calls of Mul, but not all was seen")
    assert window.verdict is Verdict.NEW
    assert [each.rule for each in window.findings] == ["new", "not seen"]


def test_a_broken_file_fails_the_run_and_judges_nothing(judge: Judge, pytester: pytest.Pytester) -> None:
    test = judge(base={BODY: TIMED})
    (path,) = [path for path in pytester.path.glob("baselines/*/*.json") if "times" not in path.name]
    path.write_text("{")
    (window,) = test.first(body=TEN)
    assert (window.verdict, window.no_baseline) == (Verdict.NO_BASELINE, "its baseline file cannot be used")
    (error,) = test.errors
    assert str(path) in error


def test_times_measured_in_parallel_are_not_judged(judge: Judge) -> None:
    (window,) = judge(base={BODY: TIMED}, is_parallel=True).first(body=SLOW)
    assert (window.verdict, window.times_judged) == (Verdict.INCOMPARABLE, False)
    assert window.untimed.startswith("measured in parallel with other tests")


def test_times_of_another_machine_are_not_judged_and_both_are_named(judge: Judge) -> None:
    (window,) = judge(base={BODY: replace(TIMED, times={"H100": TIMED.times[machine()]})}).first(body=SLOW)
    assert window.untimed == f"the baseline was timed on H100, this is {machine()}"


# --- more calls: confirmed by a process where nothing ran before


@pytest.mark.parametrize(
    ("answers", "excused", "looked"),
    [
        ([answer(1), answer(1)], "in a fresh process it stays within the baseline", ""),
        ([answer(1, Add=2), answer(1)], "its second run in a process matches the baseline", ""),
        ([answer(1, Add=2)], "", "confirmed in a fresh process"),
        ([answer(1, Add=3)], "", "alone in a fresh process: Add 3; more than in the baseline, too"),
        ([Answer({}, "failed: it broke")], "", "not confirmed in a fresh process: failed: it broke"),
        ([answer(1, Add=2), Answer({}, "")], "", "not confirmed in a fresh process: the window was not opened there"),
        ([BackendError("it ended")], "", "not confirmed in a fresh process: it ended"),
    ],
)
def test_more_calls_are_confirmed_by_two_looks_in_a_fresh_process(
    judge: Judge, answers: list[Any], excused: str, looked: str
) -> None:
    test = judge(*answers, base={BODY: calls(Add=1)})
    (window,) = test.first(body=TWICE)
    assert test.others.asked == [(test.test.nodeid, 2)]
    assert window.excused == excused
    assert window.looked.startswith(looked)
    assert bool(window.findings) is not bool(excused)


def test_a_run_confirms_for_so_long_and_no_longer(judge: Judge) -> None:
    test = judge(answer(1), base={BODY: calls(Add=1)})
    test.judging.looks.limit.left_s = -1
    (window,) = test.first(body=TWICE)
    assert (
        window.looked == "not confirmed in a fresh process: the 60 s limit of this run was reached; run this test alone"
    )
    assert test.others.asked == []


@pytest.mark.parametrize(("seen", "sees"), [(answer(1), True), (answer(1, Add=2), False), (Answer({}, "gone"), False)])
def test_a_body_that_shows_nothing_is_seen_alone_if_it_has_the_calls_of_the_baseline(
    judge: Judge, seen: Answer, sees: bool
) -> None:
    # Where nothing was seen, any environment that could be here is meant; one with a fake device could not.
    test = judge(seen, base={BODY: calls(Add=1)}, environment=Environment((("numpy", numpy.__version__),)))
    assert test.judging.looks.sees_alone(test.test) is sees
    assert test.others.asked == [(test.test.nodeid, 1)]


def test_a_body_that_shows_nothing_and_has_no_baseline_is_not_looked_at(judge: Judge) -> None:
    test = judge(answer(1))
    assert not test.judging.looks.sees_alone(test.test)
    assert test.others.asked == []


# --- slower: another moment, then more processes


def test_what_looks_slower_is_open_until_more_processes_agree(judge: Judge) -> None:
    test = judge(answer(300_000), base={BODY: TIMED})
    windows = test.first(body=SLOW)
    assert is_open(windows)
    (window,) = test.settled(windows)
    assert (window.verdict, len(window.processes)) == (Verdict.SLOWER, 6)
    assert [number for _, number in test.others.asked] == [0, 1, 2, 3, 4]
    assert str(window.findings[0]).endswith("limit 25%, in 6 processes")


@pytest.mark.parametrize(
    ("waits_ns", "noise", "found"),
    [
        (3_000, "warn", Verdict.SLOWER),  # of 300 us: 1 % does not count yet
        (3_001, "warn", Verdict.NOISY),
        (3_001, "fail", Verdict.NOISY),
        (3_001, "ignore", Verdict.SLOWER),
    ],
)
def test_rounds_that_waited_for_a_cpu_are_too_noisy_to_be_called_slower(
    judge: Judge, waits_ns: int, noise: str, found: Verdict
) -> None:
    fake.pretend(device="cpu")
    environment = replace(ENVIRONMENT, device="cpu")
    test = judge(base={BODY: TIMED}, environment=environment, noise=noise)
    (window,) = test.first(waits_ns, body=SLOW)
    assert window.diff is not None
    assert window.diff.timing.verdict is found
    why = "no process of 1 had 5 clean rounds: of 10 rounds 10 waited for a CPU"
    assert window.diff.timing.why == (why if found is Verdict.NOISY else "")


def test_one_process_that_is_as_fast_as_ever_settles_it(judge: Judge) -> None:
    test = judge(answer(300_000), answer(100_000), base={BODY: TIMED})
    assert verdict(test.settled(test.first(body=SLOW))) is Verdict.OK
    assert len(test.others.asked) == 2


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (Answer({}, "skipped: not here"), "a fresh process did not measure it (skipped: not here)"),
        (answer(300_000, Add=2), "a fresh process ran other ops"),
        (Answer({BODY: calls(Add=1)}, ""), "a fresh process timed nothing"),
        (BackendError("a fresh process took more than 300 s"), "a fresh process took more than 300 s"),
    ],
)
def test_what_cannot_be_measured_again_has_no_verdict_and_says_why(judge: Judge, given: Any, why: str) -> None:
    test = judge(given, base={BODY: TIMED})
    (window,) = test.settled(test.first(body=SLOW))
    assert (window.verdict, window.findings) == (Verdict.NOISY, [])
    assert f"looks slower, but could not be re-measured: {why}" in window.untimed
    assert len(test.others.asked) == 1


def test_a_run_looks_again_for_so_long_and_no_longer(judge: Judge) -> None:
    test = judge(answer(300_000), base={BODY: TIMED})
    test.judging.times.limit.left_s = -1
    (window,) = test.settled(test.first(body=SLOW))
    assert (window.verdict, test.others.asked) == (Verdict.NOISY, [])
    assert "the 300 s limit of this run was reached; run this test alone" in window.untimed


def test_nobody_waits_for_the_times_of_a_test_that_fails_whatever_they_are(judge: Judge) -> None:
    test = judge(answer(300_000), mark="op_budget(Add=0)", base={BODY: TIMED})
    windows = test.first(body=SLOW)
    assert not is_open(windows)
    (window,) = test.settled(windows)
    assert test.others.asked == []
    assert [finding.rule for finding in window.findings] == ["calls"]


def test_an_update_takes_what_is_slower_as_it_is(judge: Judge) -> None:
    test = judge(answer(300_000), base={BODY: TIMED}, update="all")
    windows = test.first(body=SLOW)
    assert not is_open(windows)
    assert verdict(test.settled(windows)) is Verdict.OK
    assert test.others.asked == []


@pytest.mark.parametrize(
    ("again", "found"),
    [(TEN, Verdict.OK), (SLOW, Verdict.SLOWER), ([{"Add": 9, "Mul": 9}] * 10, Verdict.SLOWER)],
)
def test_another_moment_counts_where_the_same_ops_ran_in_it(
    judge: Judge, again: Sequence[Round], found: Verdict
) -> None:
    test = judge(base={BODY: TIMED})
    windows = test.first(body=SLOW)
    assert verdict(test.judging.times.retimed(test.test, windows, test.measured(body=again).windows)) is found


def test_a_window_that_was_not_opened_again_stays_as_it_was(judge: Judge) -> None:
    test = judge(base={BODY: TIMED})
    windows = test.first(body=SLOW)
    assert test.judging.times.retimed(test.test, windows, []) == windows


def test_a_leak_of_another_number_in_a_fresh_process_is_said_with_it() -> None:
    base = WindowBaseline({"Add": OpCounts(Range(1))}, facts={"left_behind": Range(1, 4)})
    profile = profile_of([("Add", 1_000)])
    numbers = WindowNumbers.of("body", replace(profile, counts={"left_behind": {0: 5_788}}))
    diff = compare(base.done, numbers.done, unjudged("", ()), STORED)
    seen = Answer({"body": WindowBaseline({"Add": OpCounts(Range(1))}, facts={"left_behind": Range(5_790)})}, "")
    window = with_looks([seen, seen], "", STORED, JudgedWindow(numbers, diff=diff), base)
    assert window.looked == "alone in a fresh process: left behind by each call 5790; more than in the baseline, too"


@pytest.mark.parametrize(
    ("alone", "here", "verdict"),
    [
        (1, 4, Verdict.MORE),  # the baseline's test compiled its functions itself
        (4, 4, Verdict.OK),  # an earlier test had compiled three of them
        (None, 4, Verdict.OK),  # as may be
        (1, 3, Verdict.OK),  # here an earlier test compiled one
    ],
)
def test_more_compilations_than_in_the_baselines_first_run_are_no_import(
    alone: int | None, here: int, verdict: Verdict
) -> None:
    """heavyball: `torch.compile` runs again for each value of a float, and the kernel has another name."""

    def calls(compiled: int, kernel: str = "b") -> dict[str, OpCounts]:
        return {"torch::compile": OpCounts(Range(compiled)), f"cpp_fused_{kernel}": OpCounts(Range(4))}

    base = WindowBaseline(calls(1, "a"), warm=({"torch::compile": OpCounts(Range(0))}, {}))
    if alone is not None:
        base = replace(base, alone=base.differences(WindowBaseline(calls(alone, "a"))))
    numbers = WindowNumbers.of("body", profile_of([("torch::compile", 0)] * here + [("cpp_fused_b", 1_000)] * 4))
    diff = compare(base.done, numbers.done, unjudged("", ()), STORED)
    looks = [Answer({"body": WindowBaseline(each)}, "") for each in (calls(4), {"cpp_fused_b": OpCounts(Range(4))})]
    window = with_looks(looks, "", STORED, JudgedWindow(numbers, diff=diff), base)
    assert window.confirmed
    assert window.diff
    assert {row.op: row.verdict for row in window.diff.rows}["torch::compile"] is verdict
    assert ("left out" in window.looked) is (verdict is Verdict.OK)

"""The checks of ``opprof selfcheck``: known work, measured and judged by the same code as tests.

Runs that are compared are made in one process. Differences between processes come on top: the rules allow for them, and
README.md says how well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from time import perf_counter_ns
from typing import Any

from ...errors import BackendError
from ...frameworks.live.contract import Options
from ...machine.cpu_core import Core
from ...machine.load import Watch
from ...measure.recorder import Recorder
from ...measure.window import Window
from ...profile.op_profile import OpProfile
from ...profile.timings import ProcessTimes, run_of
from ...units import format_ns, format_share
from ...verdict.budgets import Budget
from ...verdict.times.noise import clean_processes
from ...verdict.times.repeats import BASE_PROCESSES, MOST_TIMED_PROCESSES
from ...verdict.times.stored_rule import STORED_RULE, Rule, judge
from ...verdict.tolerances import LEAST_ROUNDS
from ...verdict.verdicts import TimingVerdict, Verdict
from .workloads import Work

OK, FAILED, NOT_DECIDED, FIGURE = "ok", "FAILED", "not decided", "figure"
MATMULS, CASTS, COPIES = 7, 5, 3
WINDOWS = 500
ROUNDS = 2 * LEAST_ROUNDS + 5
"""Many and short: one during which nobody else wants the core is likelier."""
SMALL_OPS, SMALL_PAIRS = 1000, 15


@dataclass(frozen=True, slots=True)
class Found:
    """The expectation of a check, and its result."""

    expected: str
    found: str
    status: str
    figures: Mapping[str, float] = field(default_factory=dict)
    """The numbers: times in ns, a change as a share."""


def _passed(*, holds: bool) -> str:
    return OK if holds else FAILED


class Subject:
    """The work of one framework, and how to measure it."""

    def __init__(self, work: Work, rule: Rule = STORED_RULE) -> None:
        """*rule* judges times."""
        self.work = work
        self._rule = rule
        self._matrix = work.array((work.sizes.matrix, work.sizes.matrix))
        self._data = work.array((work.sizes.data,))
        self._core = Core()
        for _ in range(3):
            self.run(1, 1, 1)
        self.environment = str(self.measured(lambda: self.run(1, 1, 1)).environment)

    def run(self, matmuls: int = 0, casts: int = 0, copies: int = 0) -> None:
        """Do so much work."""
        for _ in range(matmuls):
            self._matrix @ self._matrix
        for _ in range(casts):
            self.work.cast(self._data)
        for _ in range(copies):
            self.work.copy(self._data)

    def measured(self, *rounds: Callable[[], object], alone: bool = False) -> OpProfile:
        """Return the profile of a window with these *rounds*; *alone*: each waits for a core to itself."""
        recorder, window = Recorder([self.work.backend], Options(), explicit=True), Window("selfcheck")
        if alone and self.work.on_host:
            recorder.core = self._core
        with recorder.open(window):
            for body in rounds:
                with recorder.step(window):
                    body()
        return window.profile

    def judged(self) -> TimingVerdict:
        """Compare with the base as the plugin does with a baseline: until more runs would change nothing."""
        now: list[ProcessTimes] = []
        while True:
            now.append(self._timed())
            found = judge(self._base, now, self._rule)
            if found.settled:
                return found

    def forget_base(self) -> None:
        """Measure the base again at its next use."""
        del self._base

    @cached_property
    def _base(self) -> Sequence[ProcessTimes]:
        runs = list[ProcessTimes]()
        # As an update does, which refuses times of a machine that others use.
        while clean_processes(runs) < BASE_PROCESSES and len(runs) < MOST_TIMED_PROCESSES:
            runs.append(self._timed())
        return runs

    def _timed(self) -> ProcessTimes:
        def body() -> None:
            self.run(2, 2, 2)
            self.work.wait()

        run = run_of(self.measured(*[body] * ROUNDS, alone=True), threads=1)
        if run is None:
            raise BackendError("no times were recorded")
        return run


def _counts(subject: Subject) -> Found:
    copy = subject.work.copy_op
    wanted = {"MatMul": MATMULS, "Cast": CASTS, copy: COPIES}
    exactly = {op: f"{calls}..{calls}" for op, calls in wanted.items()}
    budget = Budget.parse([exactly], {"only": [*wanted, *subject.work.beside]})
    profile = subject.measured(lambda: subject.run(MATMULS, CASTS, COPIES))
    found = {stats.op: stats.most_calls for stats in profile.ops}
    wrong = budget.check(profile, known=subject.work.beside)
    words = [_counted(found), *map(str, wrong), *(remark.text for _, remark in profile.remarks)]
    return Found(_counted(wanted), "; ".join(words), _passed(holds=not wrong))


def _counted(calls: Mapping[str, int]) -> str:
    return ", ".join(f"{calls[op]} {op}" for op in sorted(calls)) or "nothing"


def _one_cast_more(subject: Subject) -> Found:
    budget = Budget.parse([], {"Cast": CASTS})
    within = budget.check(subject.measured(lambda: subject.run(casts=CASTS)))
    over = [str(finding) for finding in budget.check(subject.measured(lambda: subject.run(casts=CASTS + 1)))]
    wanted = f"Cast: {CASTS + 1} calls (budget: {CASTS})"
    found = "; ".join([*map(str, within), *over]) or "nothing"
    return Found(
        f"one more than Cast={CASTS} allows to be caught", found, _passed(holds=not within and over == [wanted])
    )


def _windows(subject: Subject) -> Found:
    wrong, around_ns = 0, []
    for number in range(WINDOWS):
        begin = perf_counter_ns()
        profile = subject.measured(lambda: subject.run(casts=number % 7))  # noqa: B023  # it is called at once
        around_ns.append(perf_counter_ns() - begin - profile.host_ns[0])
        wrong += profile.stats("Cast").calls != (number % 7,)
    ns = median(around_ns)
    found = f"{wrong} wrong; start and stop of one take {format_ns(ns)}"
    return Found(
        f"{WINDOWS} windows, none with a Cast lost or too many", found, _passed(holds=not wrong), {"start_stop_ns": ns}
    )


def _clock(subject: Subject) -> Found:
    clock, watch, outside = subject.work.clock, Watch(), list[int]()
    timed = [lambda: outside.append(clock.ns(lambda: subject.run(5)))]
    # A GPU that still works when the first event comes begins the first product at once. An idle one waits 0.2 ms for
    # the host to launch it (1.3 % of five products on an H200).
    rounds = timed if subject.work.on_host else [lambda: subject.run(5), *timed]
    profile = subject.measured(*rounds * ROUNDS, alone=True)
    # Of all that ran: a product that cuBLAS splits has a second kernel.
    own = (profile.total.device_ns or (0,) * ROUNDS * len(rounds))[len(rounds) - 1 :: len(rounds)]
    # Compare round by round: both clocks see the same disturbance.
    ours, theirs = sorted(zip(own, outside), key=lambda round_: round_[0] / round_[1])[ROUNDS // 2]
    off, figures = ours / theirs - 1, {"own_ns": ours / 5, "outside_ns": theirs / 5}
    found = f"{format_ns(ours / 5)} a MatMul, {format_ns(theirs / 5)} by {clock.name} ({off:+.2%})"
    expected = f"times within {format_share(clock.tolerance)}"
    if profile.total.device_ns and subject.work.on_host is not (profile.environment.device == "cpu"):
        return Found(expected, f"times of the host, none of a GPU; {_said(profile)}", FAILED, figures)
    result = Found(expected, found, _passed(holds=abs(off) <= clock.tolerance), figures)
    # Nobody else makes the inside longer than the outside.
    return result if off > 0 else _in_time(subject, watch, result)


def _said(profile: OpProfile) -> str:
    return "; ".join(remark.text for _, remark in profile.remarks)


def _two_runs(subject: Subject) -> Found:
    watch, found = Watch(), subject.judged()
    if found.verdict is Verdict.FASTER:
        # A device that was not warm yet, or was disturbed before.
        subject.forget_base()
        found = subject.judged()
    change = f"{found.change:+.1%}" if found.change is not None else "no times"
    said = f"{found.verdict.value} ({change})"
    expected = "the same work again to be no slower"
    if found.verdict is Verdict.FASTER:
        return Found(expected, f"{said}: the runs before it were disturbed", NOT_DECIDED)
    if found.verdict in (Verdict.NOISY, Verdict.INCOMPARABLE):
        return Found(expected, f"{found.verdict.value}: {found.why}", NOT_DECIDED)
    result = Found(expected, said, _passed(holds=found.verdict is Verdict.OK), {"change": found.change or 0.0})
    return _in_time(subject, watch, result)


def _in_time(subject: Subject, watch: Watch, found: Found) -> Found:
    """Return *found*, with who else used the machine meanwhile: then it is no failure."""
    busy = watch.busy() if found.status != OK and subject.work.on_host else ""
    return Found(found.expected, f"{found.found}; {busy}", NOT_DECIDED, found.figures) if busy else found


def _overhead(subject: Subject) -> Found:
    shape, work = (subject.work.sizes.small,), subject.work
    plain, measured = work.plain(shape), work.array(shape)

    def add(array: Any) -> None:
        for _ in range(SMALL_OPS):
            array + array
        work.wait()

    add(plain)
    # In pairs: a disturbance of the machine slows both.
    pairs = [
        (_passed_ns(lambda: add(plain)), subject.measured(lambda: add(measured)).host_ns[0]) for _ in range(SMALL_PAIRS)
    ]
    added = median(recorded - bare for bare, recorded in pairs) / SMALL_OPS
    times = median(recorded / bare for bare, recorded in pairs)
    bare = median(bare for bare, _ in pairs) / SMALL_OPS
    found = f"{format_ns(added)} an op on top of {format_ns(bare)} bare ({times:.2f} times)"
    return Found("", found, FIGURE, {"added_ns": added, "bare_ns": bare})


def _passed_ns(body: Callable[[], None]) -> int:
    begin = perf_counter_ns()
    body()
    return perf_counter_ns() - begin


CHECKS: Mapping[str, Callable[[Subject], Found]] = {
    "counts": _counts,
    "one Cast more": _one_cast_more,
    "windows": _windows,
    "clock": _clock,
    "two runs": _two_runs,
    "overhead": _overhead,
}

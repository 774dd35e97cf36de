"""Runs made of windows that were compared with made-up baselines."""

from __future__ import annotations

from msgspec import structs

from pytest_opprof.profile.op_counts import counts_of
from pytest_opprof.results.judged_window import JudgedWindow
from pytest_opprof.results.run_result import RunResult, run_of
from pytest_opprof.results.test_result import TestRecord, status
from pytest_opprof.results.window_result import WindowNumbers
from pytest_opprof.verdict.budgets import Budget
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.tolerances import STORED
from pytest_opprof.verdict.verdicts import TimingVerdict, Verdict

from ..conftest import profile_of


def record_of(
    test: str,
    before: dict[str, int] | None,
    now: dict[str, int],
    windows: tuple[str, ...] = ("body",),
    **limits: object,
) -> TestRecord:
    """Return the record of a test whose windows all made the calls *now* and *before*, None for no baseline."""
    profile = profile_of([(op, 1000) for op, calls in now.items() for _ in range(calls)])
    judged = []
    for name in windows:
        diff = None
        if before is not None:
            base = profile_of([(op, 1000) for op, calls in before.items() for _ in range(calls)])
            unjudged = TimingVerdict(Verdict.INCOMPARABLE, "one round")
            diff = compare((counts_of(base), {}), (counts_of(profile), {}), unjudged, STORED)
        budget = Budget.parse([], limits)
        limited = [limit for limit, _ in budget.judged(profile)]
        judged.append(JudgedWindow(WindowNumbers.of(name, profile), budget.check(profile), diff, limits=limited))
    fails = any(window.findings for window in judged)
    return TestRecord(
        id=test,
        outcome="failed" if fails else "passed",
        status=status(judged),
        line=7,
        windows=[window.result("CPU", parallel=False, compared=True) for window in judged],
    )


def run(*tests: TestRecord, **known: object) -> RunResult:
    """Return the run of *tests*."""
    return run_of(tests, **{"stale": [], "interrupted": False, **known})  # type: ignore[arg-type]


def rank_of(rank: int, size: int, *tests: TestRecord) -> RunResult:
    """Return the run of *tests* on one of *size* ranks."""
    for test in tests:
        for number, window in enumerate(test.windows):
            test.windows[number] = structs.replace(
                window, environment=structs.replace(window.environment, ranks=size), host_ns=(10_000 + rank,)
            )
    return run(*tests, rank=rank)

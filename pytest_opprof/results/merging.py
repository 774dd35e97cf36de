"""Merge runs that belong together: the shards of a run, and the measurements of its ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from ..machine.ranks import ranks_named
from ..profile.environment import Environment
from ..profile.range import Range
from ..verdict.findings import Finding
from .run_result import RunResult, Stale, run_of
from .test_id import split_id
from .test_result import TestResult, worst
from .window_result import RankNumbers, WindowResult


def merged(runs: Sequence[RunResult]) -> RunResult:
    """Merge shards and ranks of a run; if several measured a test in the same environments, the last wins."""
    found: dict[tuple[str, ...], dict[int | None, TestResult]] = {}
    for run in runs:
        for test in run.tests:
            environments = dict.fromkeys(str(window.environment.environment) for window in test.windows)
            found.setdefault((test.id, *sorted(environments)), {})[run.rank] = test
    ranks = {run.rank for run in runs}
    tests = [across(of) if len(ranks) > 1 else of[runs[0].rank] for of in found.values()]

    def all_of(values: Iterable[str]) -> str:
        return ", ".join(dict.fromkeys(filter(None, values)))

    together = run_of(
        tests,
        _stale(runs),
        interrupted=any(run.interrupted for run in runs),
        errors=list(dict.fromkeys(each for run in runs for each in run.errors)),
        against=all_of(run.against for run in runs),
        commit=all_of(run.commit for run in runs),
        started=min((run.started for run in runs if run.started), default=""),
        rank=runs[0].rank if len(ranks) == 1 else None,
        accept="\n".join(dict.fromkeys(run.accept for run in runs if run.accept)),
        pytest=runs[0].pytest,
        everything=any(run.everything for run in runs),
        python=any(run.python for run in runs),
        leaks=any(run.leaks for run in runs),
        memory=any(run.memory for run in runs),
    )
    return replace(together, version=all_of(run.version for run in runs))


def _stale(runs: Sequence[RunResult]) -> list[Stale]:
    """Return the baselines that some run calls stale and no run measured."""
    modules: dict[str, set[str]] = {}
    windows = set[Stale]()
    for run in runs:
        for test in run.tests:
            module, name = split_id(test.id)
            modules.setdefault(name, set()).add(module)
            windows |= {of_window(test.id, window.name, window.environment.environment) for window in test.windows}

    def is_measured(stale: Stale) -> bool:
        path = f"/{stale.file.removesuffix('.json')}"
        return stale in windows or any(path.endswith(f"/{module}") for module in modules.get(stale.test, ()))

    return list(dict.fromkeys(each for run in runs for each in run.stale if not is_measured(each)))


def of_window(test: str, window: str, environment: Environment) -> Stale:
    """Return the baseline of a window that its test no longer has."""
    return Stale(test, window=window, environment=str(environment))


def across(by_rank: Mapping[int | None, TestResult]) -> TestResult:
    """Merge one test over all ranks: it fails if any rank fails, and has the worst status.

    The key None stands for a single process, or for ranks merged before.
    """
    if None in by_rank:
        return by_rank[None]
    tests = {rank: test for rank, test in by_rank.items() if rank is not None}
    ranks = sorted(tests)
    first = tests[ranks[0]]
    windows = dict.fromkeys(window.name for rank in ranks for window in tests[rank].windows)
    remarks: dict[str, list[str]] = {}
    for title, text in dict.fromkeys(each for rank in ranks for each in tests[rank].each_remark):
        remarks.setdefault(title, []).append(text)
    size = max((window.environment.environment.ranks for window in first.windows), default=0)
    if lacking := {*range(size)} - {*ranks}:
        remarks.setdefault(first.id, []).append(f"nothing was measured on {ranks_named(lacking)}")
    return replace(
        first,
        outcome=max((tests[rank].outcome for rank in ranks), key=["", "skipped", "passed", "failed"].index),
        status=worst({tests[rank].status for rank in ranks}),
        windows=[
            _across({rank: each for rank in ranks for each in tests[rank].windows if each.name == name})
            for name in windows
        ],
        remarks=remarks,
    )


def _across(windows: Mapping[int, WindowResult]) -> WindowResult:
    """Merge one window over all ranks, with the numbers of the first rank that has most findings."""
    ranks = sorted(windows)
    shown = max(ranks, key=lambda rank: (len(windows[rank].findings), -rank))
    # A finding and its continuation lines stay together.
    found: dict[tuple[Finding, ...], list[int]] = {}
    for rank in ranks:
        told: list[list[Finding]] = []
        for finding in windows[rank].findings:
            if not finding.adds or not told:
                told.append([])
            told[-1].append(finding)
        for each in told:
            found.setdefault(tuple(each), []).append(rank)
    findings: list[Finding] = []
    for (first, *more), on in found.items():
        prefix = "" if len(on) == len(ranks) else f"{ranks_named(on)}: "
        findings += [replace(first, text=prefix + first.text.lstrip()), *more]
    calls = {rank: {op: each.counts.calls for op, each in windows[rank].ops.items()} for rank in ranks}
    ops = dict.fromkeys(op for rank in ranks for op in calls[rank])
    differ = [op for op in ops if len({calls[rank].get(op, Range(0)) for rank in ranks}) > 1]
    return replace(
        windows[shown],
        findings=tuple(findings),
        rank=shown,
        by_rank=tuple(
            RankNumbers(
                rank,
                min(windows[rank].host_ns),
                windows[rank].fastest_ns,
                min(windows[rank].communication_ns or (), default=None),
                {op: calls[rank].get(op, Range(0)) for op in differ},
            )
            for rank in ranks
        ),
    )

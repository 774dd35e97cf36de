"""The times of a baseline: what is timed is measured in further processes, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import monotonic

import pytest

from .baselines import Entry
from .conditions import Watch
from .errors import BackendError
from .judge import LEAST_ROUNDS, STORED_RULE, clean_processes, disturbances, is_steady
from .remeasure import measure, say
from .reports import titled
from .runs import Plain, TestRecord, entry_of, plain_run
from .settings import Settings
from .units import plural

_PATIENCE = 10
"""A process that takes so many times as long as the tests took before hangs."""
_LEAST_PATIENCE_S = 300
_AGAIN = "Their calls were kept, their times were not: record them again when it is quiet, or say --opprof-noise=ignore"


def is_timed(window: Plain) -> bool:
    """Tell whether a window has rounds enough to be judged."""
    return window["rounds"] >= LEAST_ROUNDS and any(stats["device_ns"] for stats in window["ops"].values())


def record(config: pytest.Config, tests: Sequence[TestRecord], processes: int, settings: Settings) -> Iterator[str]:
    """Measure *tests* until each of their timed windows has the times of so many *processes*.

    Yields what went wrong; the times of what it went wrong for are gone then. Raises KeyboardInterrupt.
    """
    windows = [(test, window) for test in tests for window in test.windows if is_timed(window)]
    watch, took_s = Watch(), 0.0
    judged = bool(settings.update) and settings.noise != "ignore"
    while lacking := [(test, window) for test, window in windows if _lacks(window, processes, judged)]:
        number = 1 + min(len(window["runs"]) for _, window in lacking)
        of = f" of {processes}" if number <= processes else ", since others were disturbed or differ"
        estimate = f", about {took_s:.0f} s each" if took_s else ""
        ids = list(dict.fromkeys(test.id for test, _ in lacking))
        say(config, f"opprof: measuring {plural(len(ids), 'timed test')}, process {number}{of}{estimate}")
        begin = monotonic()
        try:
            measured = measure(config, ids, max(_PATIENCE * took_s, _LEAST_PATIENCE_S))
        except BackendError as error:
            yield f"times were not recorded: {error}"
            return _forget(windows)
        took_s = monotonic() - begin
        for test, window in lacking:
            if why := _add(window, measured.get(test.id, {}).get(window["name"])):
                yield f"{titled(test.id, window['name'])}: its times were not recorded: {why} in process {number}"
                _forget([(test, window)])
                windows.remove((test, window))
    if judged and windows:
        yield from _refused(windows, watch.busy())


def _lacks(window: Plain, processes: int, judged: bool) -> bool:
    """Tell whether a window needs one more process: of twice as many, where too few were left alone or are alike."""
    runs = entry_of(window).runs
    usable = [run for run in runs if not run.disturbed]
    few = len(usable) < processes or clean_processes(runs) < min(STORED_RULE.least_base_processes, processes)
    few = few or not is_steady(usable)
    return len(runs) < (2 * processes if judged and few else processes)


def _add(window: Plain, entry: Entry | None) -> str:
    """Add what a process timed of *window*; return why that cannot be."""
    if entry is None:
        return "it was not measured"
    if entry.calls != entry_of(window).calls:
        return "other ops ran"
    before, after = entry_of(window).runs, entry.runs
    if not after or len({(run.rounds, run.threads, frozenset(run.ops_ns)) for run in (*before, *after)}) != 1:
        return "other rounds or ops were timed"
    window["runs"] += map(plain_run, after)
    return ""


def _refused(windows: Sequence[tuple[TestRecord, Plain]], busy: str) -> Iterator[str]:
    """Yield why times are no baseline, and drop them; where enough others are left, those of disturbed processes."""
    if busy:
        yield f"the machine was busy while times were recorded: {busy}. {_AGAIN}"
        return _forget(windows)
    for test, window in windows:
        runs = entry_of(window).runs
        clean = clean_processes(runs)
        if runs and clean < STORED_RULE.least_base_processes:
            what = disturbances(runs) or "its rounds shared their core with others"
            yield f"{titled(test.id, window['name'])}: in {len(runs) - clean} of {len(runs)} processes {what}. {_AGAIN}"
            _forget([(test, window)])
        window["runs"] = [run for run in window["runs"] if not run["disturbed"]]


def _forget(windows: Sequence[tuple[TestRecord, Mapping[str, list[object]]]]) -> None:
    for _, window in windows:
        window["runs"].clear()

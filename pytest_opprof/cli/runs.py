"""``opprof judge``: two runs that were measured apart, each kept by ``pytest --opprof --opprof-json=FILE``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ..baselines.entry import Entry, entry_of
from ..errors import BaselineError, UsageError
from ..profile.environment import environment_of
from ..profile.timings import without_noise
from ..report.failure import failure
from ..report.listing import clean
from ..results.document import read_document
from ..results.run import WORDS, Plain, profile_of, status
from ..results.window import WindowReport, titled
from ..units import plural
from ..verdict.compare import Diff, compare_counts_first
from ..verdict.judgement import Judgement, Verdict, undecided
from ..verdict.stored_rule import Rule, judge, unjudged
from ..verdict.tolerances import MOST_PROCESSES, PROCESSES, STORED, Limits

_OK = "ok"
_Windows = dict[tuple[str, str], Plain]
"""By test and window."""


def judge_runs(arguments: argparse.Namespace) -> bool:
    """Print the comparison; return whether the second run is worse."""
    base, now = _load(arguments.base), _load(arguments.now)
    both = [key for key in now if key in base]
    if not both:
        raise UsageError(f"{arguments.base} and {arguments.now}: have no window of any test in common")
    limits = STORED.with_given(vars(arguments), lambda key: f"--{key.replace('_', '-')}")
    windows = {
        key: WindowReport(key[1], profile_of(now[key]), diff=_diff(base[key], now[key], limits, arguments))
        for key in both
    }
    for line in _report(windows, arguments.top):
        print(clean(line))
    for path, others in ((arguments.base, base.keys() - now), (arguments.now, now.keys() - base)):
        for key in sorted(others):
            print(clean(f"only in {path}: {titled(*key)}"))
    print(_summary(windows))
    worse = any(window.findings for window in windows.values())
    if not worse and all(window.untimed and window.verdict is Verdict.INCOMPARABLE for window in windows.values()):
        raise UsageError("no times could be compared, so that nobody can tell whether the second run is slower")
    return worse


def _diff(before: Plain, after: Plain, limits: Limits, arguments: argparse.Namespace) -> Diff:
    base, now = entry_of(before), entry_of(after)
    timing = _timing(base, now, before, after, limits, arguments.ignore_noise)
    return compare_counts_first(base.calls, now.calls, timing, limits, arguments.top)


def _timing(base: Entry, now: Entry, before: Plain, after: Plain, limits: Limits, ignore_noise: bool) -> Judgement:
    old, new = base.runs, now.runs
    if ignore_noise:
        old, new = list(map(without_noise, old)), list(map(without_noise, new))
    for what in ("environment", "machine"):
        if before[what] != after[what]:
            why = f"the runs differ in their {what}: {_said(before[what])}, then {_said(after[what])}"
            return unjudged(why, new)
    found = judge(old, new, Rule(limits))
    if not found.settled and found.verdict is Verdict.SLOWER:
        needed = PROCESSES if len(new) < PROCESSES else MOST_PROCESSES
        why = f"slower in {len(new)} of {needed} processes: measure it with --opprof-processes={needed}"
        return undecided(found, why)
    return found


def _said(value: Any) -> str:
    return value if isinstance(value, str) else environment_of(value).full


def _report(windows: dict[tuple[str, str], WindowReport], top: int) -> Iterator[str]:
    for (test, _), window in windows.items():
        title = titled(test, window.name)
        if window.findings:
            yield from [*failure(test, [window], top, False, "", "-t 0 shows them").splitlines(), ""]
        elif window.verdict is Verdict.NOISY:
            yield f"{title}: {window.verdict.value}: {window.untimed}"
        elif window.untimed:
            yield f"{title}: times not compared: {window.untimed}"
        yield from (f"{title}: {line}" for line in window.remarks)


def _summary(windows: dict[tuple[str, str], WindowReport]) -> str:
    words = [status([window]) for window in windows.values()]
    counted = [f"{words.count(word)} {said}" for word, said in WORDS.items() if word in words]
    judged = sum(window.times_judged for window in windows.values())
    total = f"{plural(len(windows), 'window')} compared, {judged} by time"
    return f"opprof: {', '.join([total, f'{words.count(_OK)} ok', *counted])}"


def _load(path: Path) -> _Windows:
    """Return the windows of a run, by test and name. Raises BaselineError for a file that is none."""
    import msgspec

    document = read_document(path, "JSON of a run")
    try:
        msgspec.convert(document, _run_type())
    except (msgspec.ValidationError, RecursionError) as error:
        raise BaselineError(f"{path}: is not what --opprof-json writes: {error}") from None
    windows = {(test["id"], window["name"]): window for test in document["tests"] for window in test["windows"]}
    for (test, name), window in windows.items():
        if what := next(_misfits(window), None):
            raise BaselineError(f"{path}: {test}: {name}: {what}; the file is damaged")
    return windows


def _misfits(window: Plain) -> Iterator[str]:
    """Yield what has not one number a round."""
    rounds = window["rounds"]
    columns = [("the wall time", window["host_ns"])]
    columns += [] if window["busy_ns"] is None else [("the busy time", window["busy_ns"])]
    for op, stats in window["ops"].items():
        columns += [(f"op {op!r}", stats[key]) for key in ("calls", "device_ns", "bytes") if stats[key] is not None]
    for run in window["runs"]:
        columns += [("a process", run["total_ns"]), *((f"op {op!r}", times) for op, times in run["ops_ns"].items())]
        columns += [("a process", run[name]) for name in ("wait_ns", "yardstick_ns") if run[name]]
    yield from (f"{what} has not a number for each of {rounds} rounds" for what, c in columns if len(c) != rounds)


@cache
def _run_type() -> Any:
    """Return as types what is used of schema/run-1.json."""
    from typing import Annotated, Literal

    from msgspec import Meta, defstruct

    count = Annotated[int, Meta(ge=0, le=10**18)]
    times = dict[str, list[count]]
    run = defstruct(
        "Run",
        [
            ("total_ns", list[count]),
            ("ops_ns", times),
            ("wait_ns", list[count]),
            ("yardstick_ns", list[count]),
            ("threads", count),
            ("disturbed", list[str], []),
        ],
    )
    calls = Annotated[list[count], Meta(min_length=1)]
    op = defstruct(
        "Op", [("calls", calls), ("device_ns", calls | None), ("bytes", calls | None), ("flops", calls | None)]
    )
    environment = defstruct(
        "Environment", [("arch", str), ("device", str), ("frameworks", dict[str, str]), ("timing", str)]
    )
    window = defstruct(
        "Window",
        [
            ("name", str),
            ("environment", environment),
            ("machine", str),
            ("rounds", Annotated[int, Meta(ge=1, le=10**6)]),
            ("host_ns", list[int]),
            ("busy_ns", list[count] | None),
            ("ops", dict[str, op]),  # type: ignore[valid-type]
            ("runs", list[run]),  # type: ignore[valid-type]
        ],
    )
    test = defstruct("Test", [("id", str), ("windows", list[window])])  # type: ignore[valid-type]
    return defstruct("Document", [("schema", Literal[1]), ("tests", list[test])])  # type: ignore[valid-type]

"""Read and write baselines: JSON files in the repository with each test's last accepted result, made for review.

``baselines/torch-2.13.0-cpu-x86_64/tests/test_model.py.json`` holds the calls of the tests of one module in one
environment. Keys are sorted, one op a line, with its dtypes, bytes and FLOPs: a change of an op is a changed line, and
nothing else is. Beside it, ``test_model.py.times.json`` holds the raw rounds of several processes, by machine: calls
agree between CPU models, times do not. They name the timed calls by a digest: after a merge or a revert of one file of
the two, times of other calls are not used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import BaselineError
from ...machine.atomic_write import write_atomically
from ...profile.op_counts import OpCounts
from ...profile.timings import OUTSIDE, ProcessTimes
from ...results.document import laid_out, read_document
from ...results.plain import plain
from ...verdict.quantities import FACTS
from ...verdict.times.coarse import Coarse
from ..entry import Baselines, WindowBaseline
from .by_rank import numbers, problem
from .paths import times_of
from .schemas import SCHEMA, TIMES_SCHEMA, check_version, digest

if TYPE_CHECKING:
    from .file_types import CallsFile, KeptCoarse, KeptTimes, KeptWindow, TimesFile

_Kind = TypeVar("_Kind")
# The conditions of the rounds in the file, if known: the key, and the field of ProcessTimes.
_CONDITIONS = {"wait_us": "wait_ns", "yardstick_us": "yardstick_ns"}
# The fields of an entry that the file has in another form; it has all others of `KeptWindow` as they are.
_IN_ANOTHER_FORM = ("ops", "warm", "alone", "ranks")


def load(path: Path) -> Baselines:
    """Read and check the file of calls at *path*, and that of times beside it.

    Raises BaselineError, with a remedy, for an unusable one. Returns at once for a file that is no baseline: size is
    bounded, nesting too.
    """
    from .file_types import CallsFile

    beside = times_of(path)
    document = read_document(path, "baseline file")
    check_version(document, path, SCHEMA)
    calls = _decoded(path, document, CallsFile)
    for test, windows in calls.tests.items():
        for window, kept in windows.items():
            where = f"['tests'][{test!r}][{window!r}]"
            if why := problem(kept.ranks, calls.environment.ranks):
                raise _broken(path, f"{where}['ranks']: {why}")
            for ranks, each in kept.ranks.items() if not _has_ops(kept) else [("", kept)]:
                _check_window(path, f"{where}['ranks'][{ranks!r}]" if ranks else where, each)
            if _has_ops(kept) is bool(kept.ranks):
                raise _broken(path, f"{where}: needs either 'ops' or 'ranks'")
    return _joined(beside, calls, load_times(beside) if os.path.exists(beside) else None)


def _check_window(path: Path, where: str, kept: KeptWindow) -> None:
    """Raise BaselineError for values that a window cannot have."""
    if not _has_ops(kept) or kept.ranks:
        raise _broken(path, f"{where}: has {'ranks in ranks' if kept.ranks else 'no ops'}")
    if unknown := kept.facts.keys() - FACTS.keys():
        raise _broken(path, f"{where}['facts']: {min(unknown)!r} is not a known fact; known: {', '.join(FACTS)}")


def load_times(path: Path) -> TimesFile:
    """Read and check a file of times by itself. Raises BaselineError."""
    document = read_document(path, "file of baseline times")
    check_version(document, path, TIMES_SCHEMA)
    return _checked_times(path, document)


def _checked_times(path: Path, document: object) -> TimesFile:
    from .file_types import TimesFile

    times = _decoded(path, document, TimesFile)
    for where, kept in _each(times):
        conditions = [processes for key in _CONDITIONS if (processes := getattr(kept, key))]
        by_round = [kept.total_us, *kept.ops_us.values(), *conditions]
        if len({tuple(map(len, processes)) for processes in by_round}) > 1:
            raise _broken(path, f"{_shown(*where)}: the numbers of processes or rounds differ")
    for test, windows in times.coarse.items():
        for window, machines in windows.items():
            for machine, each in machines.items():
                every = [kept for kept in (each, each.first, each.unrecorded) if kept]
                spans = [span for kept in every for span in (kept.cpu_ms, kept.wall_ms, kept.repeated_ms) if span]
                if wrong := [times for times in spans if times[0] > times[1]]:
                    place = f"['coarse'][{test!r}][{window!r}][{machine!r}]"
                    raise _broken(path, f"{place}: has {wrong[0]}: the least comes first")
    return times


def _decoded(path: Path, document: object, kind: type[_Kind]) -> _Kind:
    from ...results.json_schema import decoded

    try:
        return decoded(document, kind)
    except ValueError as error:
        raise _broken(path, str(error)) from None


def _broken(path: Path, problem: str) -> BaselineError:
    return BaselineError(f"{path}: {problem}. Restore the file, or delete it and run pytest --opprof-update")


def _each(times: TimesFile) -> Iterator[tuple[tuple[str, str, str], KeptTimes]]:
    for test, windows in times.times.items():
        for window, machines in windows.items():
            yield from (((test, window, machine), kept) for machine, kept in machines.items())


def _shown(*where: str) -> str:
    return f"['times']{''.join(f'[{part!r}]' for part in where)}"


def _joined(path: Path, calls: CallsFile, times: TimesFile | None) -> Baselines:
    """Return the baselines of a module. Raises BaselineError if *times*, read from *path*, do not fit its calls."""
    if times and times.environment != calls.environment:
        raise _broken(path, "['environment']: is not that of the calls beside it")
    tests: dict[str, dict[str, WindowBaseline]] = {}
    unused: list[str] = []
    for test, windows in calls.tests.items():
        for window, kept in windows.items():
            machines = times.times.get(test, {}).get(window, {}) if times else {}
            own = digest(_timed(kept)) if machines else ""
            of_these = {machine: each for machine, each in machines.items() if each.calls_digest == own}
            for machine, each in of_these.items():
                if unknown := each.ops_us.keys() - {*_ops_of(kept), OUTSIDE}:
                    raise _broken(path, f"{_shown(test, window, machine)}: {min(unknown)!r} has a time but no calls")
            by_rank = {ranks: _entry(each) for ranks, each in kept.ranks.items()}
            first = min(by_rank, key=lambda ranks: numbers(ranks)[0].start) if by_rank else ""
            tests.setdefault(test, {})[window] = replace(
                by_rank[first] if by_rank else _entry(kept),
                times={machine: tuple(_runs(each)) for machine, each in of_these.items()},
                coarse={
                    machine: _coarse(each)
                    for machine, each in (times.coarse.get(test, {}).get(window, {}) if times else {}).items()
                },
                mismatched={machine: each for machine, each in machines.items() if machine not in of_these},
                ranks=by_rank,
            )
    for (test, window, machine), _ in _each(times) if times else ():
        entry = tests.get(test, {}).get(window)
        if entry is None or machine in entry.mismatched:
            why = "belongs to other calls; pytest --opprof-update records it again" if entry else "has no calls"
            unused.append(f"{_shown(test, window, machine)}: {why}; opprof baselines prune removes it")
    return Baselines(calls.environment.environment, tests, tuple(unused))


def _entry(kept: KeptWindow) -> WindowBaseline:
    """Return the entry of a window or a rank, without times."""
    warm, alone = ((_ops_of(each), each.facts) if each else None for each in (kept.warm, kept.alone))
    return WindowBaseline(ops=_ops_of(kept), warm=warm, alone=alone, **_as_they_are(kept))


def _as_they_are(of: WindowBaseline | KeptWindow) -> dict[str, Any]:
    """Return the fields that are the same in an entry and in a file, by name: a new one needs no line here."""
    from .file_types import KeptWindow

    found = {name: getattr(of, name) for name in KeptWindow.__struct_fields__ if name not in _IN_ANOTHER_FORM}
    return {name: dict(each) if isinstance(each, Mapping) else each for name, each in found.items()}


def _ops_of(kept: KeptWindow) -> dict[str, OpCounts]:
    return kept.ops if isinstance(kept.ops, dict) else {}


def _has_ops(kept: KeptWindow) -> bool:
    return isinstance(kept.ops, dict)


def save(path: Path, baselines: Baselines, through: Path | None = None) -> list[Path]:
    """Write the file of calls at *path* and that of times beside it, and return the ones that changed.

    A write is atomic; a file with the same content stays as it is, and one without content is removed. Unfinished files
    lie in the folder *through*, or beside the target. Raises BaselineError if one cannot be written.
    """
    calls, times = _documents(baselines)
    changed = []
    # Times first: an interruption leaves times of calls that are not there yet, which judge nothing.
    has_times = bool(times.times or times.coarse)
    for at, document, has_any in ((times_of(path), times, has_times), (path, calls, bool(calls.tests))):
        content = plain(document)
        try:
            if has_any and not _holds(at, content):
                write_atomically(at, laid_out(content), through)
                changed.append(at)
            elif not has_any and os.path.exists(at):
                at.unlink()
                changed.append(at)
        except OSError as error:
            raise BaselineError(f"{at}: cannot be written: {error.strerror or error}") from error
    return sorted(changed)


def _holds(path: Path, content: object) -> bool:
    """Return True if the file at *path* already has this content, in whatever layout."""
    try:
        return os.path.exists(path) and read_document(path, "baseline file") == content
    except BaselineError:
        return False


def _documents(baselines: Baselines) -> tuple[CallsFile, TimesFile]:
    from ...profile.environment_json import EnvironmentJson
    from .file_types import CallsFile, KeptWindow, TimesFile

    environment = EnvironmentJson.of(baselines.environment)
    calls: dict[str, dict[str, KeptWindow]] = {}
    times: dict[str, dict[str, dict[str, KeptTimes]]] = {}
    coarse: dict[str, dict[str, dict[str, KeptCoarse]]] = {}
    for test, windows in baselines.tests.items():
        for window, entry in windows.items():
            by_rank = {ranks: _kept_window(each) for ranks, each in entry.ranks.items()}
            kept = KeptWindow(ranks=by_rank) if by_rank else _kept_window(entry)
            calls.setdefault(test, {})[window] = kept
            own = digest(_timed(kept)) if entry.times else ""
            machines = {machine: _kept_times(runs, own) for machine, runs in entry.times.items()}
            if machines := {**entry.mismatched, **machines}:
                times.setdefault(test, {})[window] = machines
            if entry.coarse:
                kept_coarse = {machine: _kept_coarse(each) for machine, each in entry.coarse.items()}
                coarse.setdefault(test, {})[window] = kept_coarse
    return CallsFile(environment, SCHEMA, calls), TimesFile(environment, TIMES_SCHEMA, times, coarse)


def _kept_coarse(each: Coarse) -> KeptCoarse:
    from msgspec import UNSET

    from .file_types import KeptCoarse

    first, unrecorded = (UNSET if other is None else _kept_coarse(other) for other in (each.first, each.unrecorded))
    return KeptCoarse(
        cpu_ms=_milliseconds(each.cpu_ns),
        wall_ms=_milliseconds(each.wall_ns),
        processes=each.processes,
        first=first,
        unrecorded=unrecorded,
        repeated_ms=_milliseconds(each.repeated_ns) if each.repeated_ns else UNSET,
        yardstick_us=round(each.yardstick_ns / 1e3, 1) if each.yardstick_ns and each.repeated_ns else UNSET,
    )


def _milliseconds(times_ns: Iterable[int]) -> list[float]:
    rounded = (ns / 1e6 for ns in times_ns)
    return [int(ms) if ms.is_integer() else ms for ms in rounded]


def _coarse(kept: KeptCoarse) -> Coarse:
    first, unrecorded = (_coarse(other) if other else None for other in (kept.first, kept.unrecorded))
    return Coarse(
        _span_ns(kept.cpu_ms),
        _span_ns(kept.wall_ms),
        kept.processes,
        first=first,
        unrecorded=unrecorded,
        repeated_ns=_span_ns(kept.repeated_ms) if kept.repeated_ms else None,
        yardstick_ns=round(kept.yardstick_us * 1e3) if kept.yardstick_us else 0,
    )


def _span_ns(span_ms: Sequence[float]) -> tuple[int, int]:
    least, most = (round(ms * 1e6) for ms in span_ms)
    return least, most


def _kept_window(entry: WindowBaseline) -> KeptWindow:
    """Return the file's form of an entry; amounts of 0 are left out, like unknown ones."""
    from msgspec import UNSET
    from msgspec.structs import replace as with_fields

    from .file_types import KeptWindow

    ops = dict(entry.ops)
    for op, each in entry.ops.items():
        if none := {name: None for name in ("bytes", "flops") if (of := getattr(each, name)) and not of.most}:
            ops[op] = with_fields(each, **none)
    others = {"warm": entry.warm, "alone": entry.alone} if any(entry.warm or ()) else {}
    kept = {
        name: KeptWindow(ops=dict(done[0]) or UNSET, facts=dict(done[1]))
        for name, done in others.items()
        if done is not None
    }
    return with_fields(KeptWindow(ops=ops, **_as_they_are(entry)), **kept)


def _timed(window: KeptWindow) -> object:
    """Return the calls to which the times of a *window* belong, for JSON: its ops."""
    return plain([_ops_of(window), {ranks: _ops_of(each) for ranks, each in window.ranks.items()}])


def _kept_times(runs: Sequence[ProcessTimes], calls_digest: str) -> KeptTimes:
    from .file_types import KeptTimes

    return KeptTimes(
        calls_digest,
        ops_us={op: [_microseconds(run.ops_ns[op]) for run in runs] for op in runs[0].ops_ns},
        threads=runs[0].threads,
        total_us=[_microseconds(run.total_ns) for run in runs],
        **{
            key: [_microseconds(getattr(run, name)) for run in runs]
            for key, name in _CONDITIONS.items()
            if all(getattr(run, name) for run in runs)
        },
    )


def _microseconds(times_ns: Iterable[int]) -> list[float]:
    """Round to three significant digits: two processes of the same code differ by more."""
    rounded = (float(f"{ns / 1000:.3g}") for ns in times_ns)
    return [int(us) if us.is_integer() else us for us in rounded]


def _runs(kept: KeptTimes) -> Iterator[ProcessTimes]:
    for number, total in enumerate(kept.total_us):
        known: dict[str, Any] = {
            name: _nanoseconds(by_process[number])
            for key, name in _CONDITIONS.items()
            if (by_process := getattr(kept, key))
        }
        yield ProcessTimes(
            _nanoseconds(total),
            {op: _nanoseconds(processes[number]) for op, processes in kept.ops_us.items()},
            threads=kept.threads,
            **known,
        )


def _nanoseconds(times_us: Iterable[float]) -> tuple[int, ...]:
    return tuple(round(us * 1000) for us in times_us)

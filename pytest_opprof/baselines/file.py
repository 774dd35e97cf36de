"""What each test did when it was last accepted: JSON files in the repository, made to be reviewed.

``baselines/torch-2.13.0-cpu-x86_64/tests/test_model.py.json`` holds the calls of the tests of one module in one
environment. Keys are sorted, one op a line: a changed count is a changed line, and nothing else is. Beside it,
``test_model.py.times.json`` holds the raw rounds of several processes, by machine: calls agree between CPU models,
times do not. They name the calls that were timed by a digest: after a merge or a revert of one file of the two, times
of other calls are not used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import BaselineError
from ..machine.atomic_write import write_atomically
from ..profile.calls import CallRange, Range
from ..profile.timings import OUTSIDE, ProcessTimes
from ..results.document import read_document
from ..verdict.facts import FACTS
from .by_rank import numbers, problem
from .entry import Baselines, WindowBaseline
from .old_schemas import SCHEMA, TIMES_SCHEMA, check_version, digest, upgraded
from .paths import times_of

if TYPE_CHECKING:
    from .file_types import CallsFile, KeptCalls, KeptTimes, KeptWindow, TimesFile

_Kind = TypeVar("_Kind")
_CONDITIONS = {"wait_us": "wait_ns", "yardstick_us": "yardstick_ns"}
"""What the file tells of how the rounds were measured, where it is known: the key, and the field of ProcessTimes."""


def load(path: Path) -> Baselines:
    """Read and check the file of calls at *path*, of this or an older schema version, and that of times beside it.

    Raises BaselineError, with what to do, for one that cannot be used. Returns at once for a file that is no baseline:
    size is bounded, nesting too.
    """
    from .file_types import CallsFile

    beside = times_of(path)
    document, own_times = upgraded(read_document(path, "baseline file"), path)
    calls = _decoded(path, document, CallsFile)
    for test, windows in calls.tests.items():
        for window, kept in windows.items():
            where = f"[{test!r}][{window!r}]"
            if why := problem(kept.ranks, calls.environment.ranks):
                raise _broken(path, f"{where}['ranks']: {why}")
            for ranks, each in kept.ranks.items() if not _has_calls(kept) else [("", kept)]:
                _check_window(path, f"{where}['ranks'][{ranks!r}]" if ranks else where, each)
            if _has_calls(kept) is bool(kept.ranks):
                raise _broken(path, f"{where}: has to have either 'calls' or 'ranks'")
    if own_times is not None:
        unused = [f"{path.name} is of an older schema, and has times itself; an update replaces both"]
        return _joined(path, calls, _checked_times(path, own_times), unused if os.path.exists(beside) else [])
    return _joined(beside, calls, load_times(beside) if os.path.exists(beside) else None, [])


def _check_window(path: Path, where: str, kept: KeptWindow) -> None:
    """Raise BaselineError for what a window cannot have done."""
    for field in ("calls", "bytes", "flops", "facts"):
        for op, plain in getattr(kept, field).items() if _has_calls(kept) else ():
            if (counted := _range(plain)).least > counted.most:
                raise _broken(path, f"{where}[{field!r}][{op!r}]: the range is empty")
    if not _has_calls(kept) or kept.ranks:
        raise _broken(path, f"{where}: has {'ranks in ranks' if kept.ranks else 'no calls'}")
    if unknown := kept.facts.keys() - FACTS.keys():
        raise _broken(path, f"{where}['facts']: {min(unknown)!r} is no fact; known are {', '.join(FACTS)}")
    if unknown := {*kept.dtypes, *kept.bytes, *kept.flops} - _calls_of(kept).keys():
        raise _broken(path, f"{where}: {min(unknown)!r} has work, but no calls")


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
    return times


def _decoded(path: Path, document: object, kind: type[_Kind]) -> _Kind:
    from ..results.json_schema import decoded

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


def _joined(path: Path, calls: CallsFile, times: TimesFile | None, unused: list[str]) -> Baselines:
    """Return the baselines of a module. Raises BaselineError where *times*, read from *path*, do not fit its calls."""
    from msgspec import to_builtins

    if times and times.environment != calls.environment:
        raise _broken(path, "['environment']: is not that of the calls beside it")
    tests: dict[str, dict[str, WindowBaseline]] = {}
    for test, windows in calls.tests.items():
        for window, kept in windows.items():
            machines = times.times.get(test, {}).get(window, {}) if times else {}
            own = digest(_counted(to_builtins(kept)))
            of_these = {machine: each for machine, each in machines.items() if each.calls_digest == own}
            for machine, each in of_these.items():
                if unknown := each.ops_us.keys() - {*_calls_of(kept), OUTSIDE}:
                    raise _broken(path, f"{_shown(test, window, machine)}: {min(unknown)!r} is timed, but has no calls")
            by_rank = {ranks: _entry(each) for ranks, each in kept.ranks.items()}
            first = min(by_rank, key=lambda ranks: numbers(ranks)[0].start) if by_rank else ""
            tests.setdefault(test, {})[window] = replace(
                by_rank[first] if by_rank else _entry(kept),
                times={machine: tuple(_runs(each)) for machine, each in of_these.items()},
                mismatched={machine: each for machine, each in machines.items() if machine not in of_these},
                ranks=by_rank,
            )
    for (test, window, machine), _ in _each(times) if times else ():
        entry = tests.get(test, {}).get(window)
        if entry is None or machine in entry.mismatched:
            why = "is of other calls; pytest --opprof-update records it" if entry else "has no calls"
            unused.append(f"{_shown(test, window, machine)}: {why}; opprof baselines prune removes it")
    return Baselines(calls.environment.environment, tests, tuple(unused))


def _entry(kept: KeptWindow) -> WindowBaseline:
    """Return what a window or a rank did, without times."""
    facts = {name: _range(each) for name, each in kept.facts.items()}
    return WindowBaseline({op: _calls(kept, op) for op in _calls_of(kept)}, facts=facts, python=kept.python)


def _calls_of(kept: KeptWindow) -> dict[str, KeptCalls]:
    return kept.calls if isinstance(kept.calls, dict) else {}


def _has_calls(kept: KeptWindow) -> bool:
    return isinstance(kept.calls, dict)


def save(path: Path, baselines: Baselines, through: Path | None = None) -> list[Path]:
    """Write the file of calls at *path* and that of times beside it, and return which of them changed.

    Each is the old one or the new one, never half of it; one that would say the same stays as it is, and one with
    nothing to say is removed. What is not whole yet lies in the folder *through*, or beside them. Raises BaselineError
    when one cannot be written.
    """
    from msgspec import to_builtins

    calls, times = _documents(baselines)
    changed = []
    # Times first: an interruption leaves times of calls that are not there yet, which nothing is judged by. An older
    # file, which has both in one, keeps its own until it is replaced.
    for at, document, has_any in ((times_of(path), times, times.times), (path, calls, calls.tests)):
        plain = to_builtins(document)
        try:
            if has_any and not _holds(at, plain):
                write_atomically(at, _pretty(plain), through)
                changed.append(at)
            elif not has_any and os.path.exists(at):
                at.unlink()
                changed.append(at)
        except OSError as error:
            raise BaselineError(f"{at}: cannot be written: {error.strerror or error}") from error
    return sorted(changed)


def _holds(path: Path, plain: object) -> bool:
    """Tell whether the file at *path* says this already, in whatever layout."""
    try:
        return os.path.exists(path) and read_document(path, "baseline file") == plain
    except BaselineError:
        return False


def _documents(baselines: Baselines) -> tuple[CallsFile, TimesFile]:
    from msgspec import to_builtins

    from ..profile.environment_json import EnvironmentJson
    from .file_types import CallsFile, KeptWindow, TimesFile

    environment = EnvironmentJson.of(baselines.environment)
    calls: dict[str, dict[str, KeptWindow]] = {}
    times: dict[str, dict[str, dict[str, KeptTimes]]] = {}
    for test, windows in baselines.tests.items():
        for window, entry in windows.items():
            by_rank = {ranks: _kept_window(each) for ranks, each in entry.ranks.items()}
            kept = KeptWindow(ranks=by_rank) if by_rank else _kept_window(entry)
            calls.setdefault(test, {})[window] = kept
            own = digest(_counted(to_builtins(kept))) if entry.times else ""
            machines = {machine: _kept_times(runs, own) for machine, runs in entry.times.items()}
            if machines := {**entry.mismatched, **machines}:
                times.setdefault(test, {})[window] = machines
    return CallsFile(environment, SCHEMA, calls), TimesFile(environment, TIMES_SCHEMA, times)


def _kept_window(entry: WindowBaseline) -> KeptWindow:
    from .file_types import KeptWindow, Varying, VaryingAmount

    return KeptWindow(
        {op: _kept(each, Varying) for op, each in entry.calls.items()},
        {op: _kept_dtypes(each) for op, each in entry.calls.items() if each.dtypes},
        _amounts(entry, "bytes"),
        _amounts(entry, "flops"),
        {name: _kept(each, VaryingAmount) for name, each in entry.facts.items()},
        dict(entry.python),
    )


def _kept(each: Range, varying: Any) -> Any:
    """Return a range as the file has it; *varying* is the type of one that differs from process to process."""
    if each.varies:
        return varying([each.least, each.most])
    return each.most if each.least == each.most else [each.least, each.most]


def _kept_dtypes(calls: CallRange) -> Any:
    from .file_types import Varying

    if len(calls.dtypes) == 1 and not calls.some_vary:
        return next(iter(calls.dtypes))
    return {name: _kept(each, Varying) for name, each in calls.dtypes.items()}


def _amounts(entry: WindowBaseline, field: str) -> dict[str, Any]:
    """Return the bytes or FLOPs of each op, where there are some and they are known."""
    from .file_types import VaryingAmount

    amounts: dict[str, Range | None] = {op: getattr(calls, field) for op, calls in entry.calls.items()}
    return {op: _kept(each, VaryingAmount) for op, each in amounts.items() if each is not None and each.most}


def _counted(window: dict[str, Any]) -> Any:
    """Return what the times of a *window* are of, as JSON has it: its calls alone, as before dtypes were kept."""
    ops = {key: value for key, value in window.items() if key not in ("facts", "python")}
    return ops["calls"] if ops.keys() == {"calls"} else ops


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
    """Three significant digits: two processes of the same code differ by more."""
    rounded = (float(f"{ns / 1000:.3g}") for ns in times_ns)
    return [int(us) if us.is_integer() else us for us in rounded]


def _pretty(value: object, indent: str = "") -> str:
    """Return JSON with sorted keys and one key a line, lists on the line of their key."""
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value) + ("" if indent else "\n")
    lines = [f"{indent} {json.dumps(key)}: {_pretty(value[key], indent + ' ')}" for key in sorted(value)]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}" + ("" if indent else "\n")


def _range(kept: Any) -> Range:
    if isinstance(kept, int):
        return Range(kept, kept)
    least, most = kept if isinstance(kept, list) else kept.varies
    return Range(least, most, varies=not isinstance(kept, list))


def _calls(window: KeptWindow, op: str) -> CallRange:
    """Return the calls of *op*, with their work as far as the file has it."""
    calls, dtypes = _range(_calls_of(window)[op]), window.dtypes.get(op, {})
    by_dtype = {dtypes: calls} if isinstance(dtypes, str) else {name: _range(each) for name, each in dtypes.items()}
    return CallRange(
        calls.least,
        calls.most,
        calls.varies,
        by_dtype,
        _range(window.bytes[op]) if op in window.bytes else None,
        _range(window.flops[op]) if op in window.flops else None,
    )


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

"""Read the other files of a CANN folder: they complete a profile and are compared with it.

``Computing`` of step_trace_time (us) is the sum of the compute kernels of a step; op_statistic has their counts and
times by (type, core). In all recordings at hand (one stream each) the counts are equal, and the times differ by less
than 2e-6: CANN adds up exact times, the rows have times rounded to 0.001 us.

If these have work that the profile lacks, the profile was cut: an error, because its rest would meet any limit. A
profile with more work than these only gets a remark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from ....errors import TraceError
from ....profile.saved import SavedOp, SavedProfile, communicates
from ...files.place import Place
from . import tables
from .ops import Read, exact

# The files and columns of memory, the better one first: memory over time, memory at an operator's allocation.
_MEMORY = {"memory_record*.csv*": "total allocated", "operator_memory*.csv*": "allocation total allocated"}
# If Computing is larger by more than this share, rounding is no explanation.
_ROUGHLY = 0.01
_AT_ONCE = " (kernels that ran at the same time on several streams count once there)"


def completed(saved: SavedProfile, output: Place, device: int | None, found: Read, partial: bool) -> SavedProfile:
    """Complete a profile from the other files of its folder, and remark on disagreements.

    Raises TraceError if they have work that it lacks, unless it is read in part.
    """
    times: dict[str, tuple[float, float]] = {}
    with _heard(found.remarks):
        times = _step_times(output, device)
    if device is None:
        _find_peak_memory(output, found)
    differ = _computing_differs(saved, times)
    with _heard(found.remarks):
        differ += _statistic_differs(saved, output, device)
    if (missing := [text for text, lacks in differ if lacks]) and not partial:
        more = f" (and {len(missing) - 1} more of that kind)" if missing[1:] else ""
        raise TraceError(
            f"{found.place}: lacks work that other files of its folder have: {missing[0]}{more}. Was it copied whole?"
            " Export it again; --partial reads what is there"
        )
    found.remarks += [text for text, _ in differ]
    walls = [exact(times[label][1] * 1000) for label in saved.steps if label in times]
    step_ns = tuple(wall for wall in walls if wall is not None)
    known = len(step_ns) == len(saved.steps)
    return replace(saved, step_ns=step_ns if known else None, peak_memory=found.peak_memory)


def _find_peak_memory(output: Place, found: Read) -> None:
    for pattern, column in _MEMORY.items():
        files = output.files(pattern)
        if found.peak_memory is not None or not files:
            continue
        file = tables.newest(files)[0][0]
        with _heard(found.remarks):
            found.peak_memory = tables.peak_memory(file, column)
            if column != "total allocated":
                found.remarks.append(
                    f"peak memory is from {file.path.name}, which has it only when operators of the framework allocate"
                )


@contextmanager
def _heard(remarks: list[str]) -> Iterator[None]:
    """Turn an error into a remark: the profile can do without the files that are read here."""
    try:
        yield
    except TraceError as error:
        remarks.append(f"not checked: {error}")


def _step_times(output: Place, device: int | None) -> dict[str, tuple[float, float]]:
    """Return (computing, wall time) of each step, in us."""
    if output.file("step_trace_time.csv").path.is_file():
        return tables.step_times(output.file("step_trace_time.csv"), device)
    if device is None and output.file("analysis.db").path.is_file():
        from . import database as ascend_database

        with ascend_database.opened(output.file("analysis.db")) as database:
            return database.step_times()
    return {}


def _computing_differs(saved: SavedProfile, times: dict[str, tuple[float, float]]) -> list[tuple[str, bool]]:
    """Return the differences between the profile and step_trace_time, and whether the profile lacks work."""
    ours: dict[str, tuple[int, float]] = dict.fromkeys(saved.steps, (0, 0.0))
    for record in saved.records:
        if not communicates(record):
            calls, us = ours[saved.steps[record.step]]
            ours[saved.steps[record.step]] = calls + record.calls, us + (record.device_ns or 0) / 1000
    theirs = {label: computing for label, (computing, _) in times.items()}
    if saved.steps == ("",) and theirs:
        theirs = {"": sum(theirs.values())}
    return [
        (
            f"{f'step {label}: ' if label else ''}the compute kernels take {us:.3f} us, but Computing of"
            f" step_trace_time is {theirs[label]:.3f} us{_AT_ONCE if us > theirs[label] else ''}",
            us < theirs[label] * (1 - _ROUGHLY),
        )
        for label, (calls, us) in ours.items()
        if label in theirs and _differ(calls, us, theirs[label])
    ]


def _statistic_differs(saved: SavedProfile, output: Place, device: int | None) -> list[tuple[str, bool]]:
    """Return the differences between the profile and op_statistic, the largest first, and whether it lacks work."""
    places = [file for file in output.files("op_statistic*.csv*") if tables.kind(file) == "statistic"]
    if not places or saved.inferred_types:
        return []
    statistic = Read(output, "", "op_statistic")
    tables.read_all("statistic", tables.newest(places)[0], statistic, device, None)
    ours, theirs = _by_type(saved.records), _by_type(statistic.records())
    return [
        (
            f"{' '.join(key)}: {ours[key][0]} calls take {ours[key][1]:.3f} us, but op_statistic has"
            f" {theirs[key][0]} calls of {theirs[key][1]:.3f} us",
            ours[key][0] < theirs[key][0],
        )
        for key in sorted(ours.keys() | theirs.keys(), key=lambda key: (ours[key][0] - theirs[key][0], key))
        if ours[key][0] != theirs[key][0] or _differ(*ours[key], theirs[key][1])
    ]


def _by_type(records: Iterable[SavedOp]) -> dict[tuple[str, str], tuple[int, float]]:
    """Return the calls and us of compute by type and core."""
    found: dict[tuple[str, str], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for record in records:
        if not communicates(record):
            calls, us = found[record.type, record.place]
            found[record.type, record.place] = calls + record.calls, us + (record.device_ns or 0) / 1000
    return found


def _differ(calls: int, ours: float, theirs: float) -> bool:
    """Return True if two sums over the same calls differ by more than the rounding of each row to 0.001 us."""
    return abs(ours - theirs) > 0.0005 * (calls + 2) + 1e-9 * theirs

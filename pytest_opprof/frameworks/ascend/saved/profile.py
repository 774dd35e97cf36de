"""Profiles of Ascend NPUs: torch_npu.profiler, MindSpore from 2.5 on, and CANN's msprof.

Folders: ``*_ascend_pt/ASCEND_PROFILER_OUTPUT`` (torch_npu), ``*_ascend_ms/ASCEND_PROFILER_OUTPUT`` (MindSpore),
``PROF_*/mindstudio_profiler_output`` (msprof), ``PROF_*/device_0/summary`` (msprof before CANN 8). One file of a folder
is read (`tables`, `database`): the first existing one of ``kernel_details.csv``, ``op_summary_*.csv``, a sqlite export,
``task_time_*.csv`` and ``op_statistic.csv``. The others complete it and are compared with it (`checks`):

- ``step_trace_time.csv`` or ``analysis.db``: the wall time of each step, and ``Computing``, the sum of its kernels;
- ``op_statistic.csv``: the same counts and times by (type, core);
- ``memory_record.csv``, else ``operator_memory.csv``: the largest number of allocated bytes;
- ``profiler_info_<rank>.json`` in the folder above: rank and versions.

If the user names a file, only that file is read. ``operator_details.csv`` and ``api_statistic.csv`` are read in no
other way: operators and the kernels that they launch are the same work, which would count twice.

Times are us with three decimals. Level0, the default of the profilers, has no shapes, and ``N/A`` for op types: types
are then guessed from names. Communication is in the records, with a place of its own (`communicates`).

Tested: files of November 2023 to October 2026 (CANN 7 to 9; ``Block Dim`` became ``Block Num``) by torch_npu and
msprof. No recording by MindSpore was available: its files are read after its source (2.10).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ....errors import TraceError
from ....profile.environment import Environment
from ....profile.saved import SavedProfile
from ....units import plural
from ...files import tables as shared_tables
from ...files.durations import Untimed
from ...files.format import Format, Options, as_number
from ...files.place import Place
from . import checks, tables
from .ops import Read

if TYPE_CHECKING:
    from ....timeline.spans import Timeline

_OUTPUTS = ("ASCEND_PROFILER_OUTPUT", "mindstudio_profiler_output")
_FILES = (
    ("kernel_details*.csv*", "kernels"),
    ("op_summary*.csv*", "kernels"),
    ("ascend_*profiler*.db", "database"),
    ("msprof_*.db", "database"),
    ("task_time*.csv*", "tasks"),
    ("op_statistic*.csv*", "statistic"),
)


@dataclass(frozen=True)
class _Sources:
    """The files of one profile: the parts of one table, or a database."""

    kind: str
    places: tuple[Place, ...]
    older: int = 0
    """The number of older, unread exports of the same profile."""
    broken: str = ""
    """The error in one of the files. No other file is read in its place, since it would hold less."""


def recognises(place: Place) -> bool:
    """Return True for a table or an export of CANN, or a folder of them."""
    return _sources(_output(place)) is not None


def ranks(place: Place) -> list[int | None]:
    """Return the rank of the profiled process; for a profile of several devices, these."""
    output = _output(place)
    sources = _sources(output)
    rank = as_number(_information(output).get("rank_id"))
    if rank is not None:
        return [rank]
    if sources is None or sources.broken:
        return [None]
    devices = _devices(sources)
    rank = _rank_in_database(sources) if sources.kind == "database" and len(devices) == 1 else None
    return [rank] if rank is not None else [*devices] or [None]


def explains(place: Place) -> str:
    """Return a description of a table without ops."""
    what = "" if place.is_folder else tables.without_ops(place)
    return (
        f"has {what}, but no ops: give the folder it is in, with its kernel_details.csv or op_summary" if what else ""
    )


def read(place: Place, options: Options) -> SavedProfile:
    """Return the content of one profile. Raises TraceError."""
    output = _output(place)
    sources = _sources(output)
    if sources and sources.broken:
        raise TraceError(
            f"{sources.broken}. opprof reads this file of such a folder. Was it copied whole? Export it again, or give"
            " another file of the folder by its name"
        )
    if sources is None:
        raise TraceError(
            f"{place}: expected kernel_details.csv, op_summary*.csv, op_statistic*.csv or a .db of CANN, found none"
            " with their columns; was it analysed (torch_npu.profiler.profiler.analyse, msprof --export=on)?"
        )
    misread: list[str] = []
    information = _information(output, misread)
    # A rank is one process on one device, so rows of other devices need no search.
    device = None if "rank_id" in information else _device(sources, options)
    found = (_database if sources.kind == "database" else _tables)(sources, device, options)
    found.information.update(information)
    if not found.groups:
        raise TraceError(f"{sources.places[0]}: has no rows: the profiler recorded nothing")
    found.remarks += misread
    _remark(found, sources)
    trace = _trace(found)
    if output.is_folder:
        trace = checks.completed(trace, output, device, found, options.partial)
    # Operators of the framework and calls of the API do not tell the canonical ops of the device.
    untold = ("*",) if sources.kind in ("operators", "apis") else ()
    return replace(trace, remarks=(*found.remarks, *found.untimed.remarks()), untold=untold)


def timeline(place: Place, options: Options) -> Timeline | None:
    """Return the timeline in the folder, else that of its kernels; None without times."""
    from . import timeline as timelines
    from .spans import of_tables, of_timelines

    output = _output(place)
    sources = _sources(output)
    exports = [*output.files("trace_view.json"), *output.files("msprof_*.json")] if output.is_folder else []
    if files := [file for file in exports if timelines.recognises(file)]:
        return of_timelines(tables.newest(files)[0], options.partial)
    if sources is None or sources.kind != "kernels" or sources.broken:
        return None
    return of_tables(sources.places, _device(sources, options), options.partial)


def _output(place: Place) -> Place:
    """Return the folder of the exports in the folder of a profile."""
    outputs = [place.file(name) for name in _OUTPUTS] if place.is_folder else []
    return next((output for output in outputs if _sources(output)), place)


def _sources(place: Place) -> _Sources | None:
    """Return the files to read. In a folder, names select the candidates, contents decide."""
    if not place.is_folder:
        kind = _kind(place) if place.path.is_file() else ""
        return _Sources(kind, (place,)) if kind else None
    for pattern, kind in _FILES:
        wrong = {file: what for file in place.files(pattern) if (what := _broken(file))}
        if places := [file for file in place.files(pattern) if file in wrong or _kind(file) == kind]:
            parts, older = tables.newest(places)
            broken = next((f"{part}: {wrong[part]}" for part in parts if part in wrong), "")
            if not broken or _is_of_cann(place):
                return _Sources(kind, parts, older, broken)
    return None


def _broken(place: Place) -> str:
    """Return how a file with the name of an export is broken: it is empty or cut; "" for other files."""
    try:
        begin = place.beginning()
    except TraceError as error:
        return str(error).removeprefix(f"{place}: ")
    if not begin.strip():
        return "is empty"
    if begin.startswith(b"SQLite format 3\0"):
        return _broken_database(place)
    return "is cut in its header" if tables.is_cut_in_header(begin) else ""


def _broken_database(place: Place) -> str:
    from . import database as ascend_database

    try:
        with ascend_database.opened(place):
            return ""
    except TraceError as error:
        return str(error).removeprefix(f"{place}: ")


def _is_of_cann(folder: Place) -> bool:
    """Return True if CANN made the folder, by its name or by other files in it."""
    if folder.path.name in _OUTPUTS:
        return True
    return any(tables.kind(file) or tables.without_ops(file) for file in folder.files("*.csv"))


def _kind(place: Place) -> str:
    try:
        if not place.head.startswith(b"SQLite format 3\0"):
            return tables.kind(place)
    except TraceError:
        return ""
    # Imported here: most profiles are csv files, and sqlite3 takes 4 ms.
    from . import database as ascend_database

    return "database" if ascend_database.recognises(place) else ""


def _devices(sources: _Sources) -> list[int]:
    if sources.kind == "database":
        from . import database as ascend_database

        with ascend_database.opened(sources.places[0]) as database:
            return database.devices()
    return tables.devices(sources.places)


def _rank_in_database(sources: _Sources) -> int | None:
    from . import database as ascend_database

    with ascend_database.opened(sources.places[0]) as database:
        return database.rank()


def _device(sources: _Sources, options: Options) -> int | None:
    """Return the device to read; None if there is only one. Raises TraceError if none of several is chosen."""
    devices = _devices(sources)
    if len(devices) > 1 and options.rank not in devices:
        raise TraceError(f"{sources.places[0]}: holds devices {', '.join(map(str, devices))}; choose one with --rank")
    return options.rank if len(devices) > 1 else None


def _database(sources: _Sources, device: int | None, options: Options) -> Read:
    from . import database as ascend_database

    with ascend_database.opened(sources.places[0]) as database:
        found = Read(sources.places[0], database.framework, "sqlite export", information=database.metadata())
        found.untimed = Untimed(options.partial)
        database.add_tasks(found, device)
        found.chip, found.peak_memory = database.chip(), database.peak_memory()
    return found


def _tables(sources: _Sources, device: int | None, options: Options) -> Read:
    first = tables.opened(sources.places[0])
    found = Read(first.place, _framework(sources.kind, first), tables.title(first.place), sites=options.sites)
    found.untimed = Untimed(options.partial)
    tables.read_all(sources.kind, sources.places, found, device, found.remarks if options.partial else None)
    return found


def _framework(kind: str, table: shared_tables.Table) -> str:
    """Return the framework that wrote a table; "" means msprof itself."""
    if table.place.path.absolute().parent.parent.name.endswith("_ascend_ms") or "Step ID" in table.header:
        return "mindspore"
    return "" if "Op Name" in table.header or kind in ("statistic", "apis", "tasks") else "torch_npu"


def _remark(found: Read, sources: _Sources) -> None:
    if sources.kind in tables.CAUTIONS:
        found.remarks.append(tables.CAUTIONS[sources.kind])
    if sources.older:
        found.remarks.append(f"the last of {sources.older + 1} exports is read, {sources.places[0].path.name}")
    if found.guessed():
        calls = int(sum(sums[0] for sums in found.groups.values()))
        found.remarks.append(
            f"{found.guessed()} of {plural(calls, 'kernel')} without an op type: types are guessed from names;"
            " record with Level1 (profiler_level, or msprof --task-time=l1) to have types, shapes and dtypes"
        )


def _trace(found: Read) -> SavedProfile:
    writer = {"": "CANN msprof", "mindspore": "MindSpore"}.get(found.framework, found.framework)
    return SavedProfile(
        f"{writer} {found.file}",
        _environment(found),
        tuple(found.records()),
        tuple(found.steps()),
        peak_memory=found.peak_memory,
        inferred_types=found.guessed() > 0,
    )


def _environment(found: Read) -> Environment:
    keys = {"torch_npu": "torch_npu_version", "mindspore": "ms_version", "cann": "cann_version"}
    versions = {name: str(found.information.get(key) or "")[:40] for name, key in keys.items()}
    writer = found.framework or "cann"
    present = sorted((name, version) for name, version in versions.items() if version or name == writer)
    return Environment(tuple(present), found.chip or "ascend", "")


def _information(output: Place, misread: list[str] | None = None) -> dict[str, object]:
    """Return the keys of all profiler_*.json beside the output folder; *misread* gets a remark on each broken one."""
    # Imported here: not every profile has them.
    import json

    folder = (output.path if output.is_folder else output.path.parent).absolute()
    found: dict[str, object] = {}
    if folder.name == _OUTPUTS[0]:
        for place in Place(folder.parent).files("profiler_*.json"):
            try:
                content = json.loads(place.read(1 << 20))
            except (TraceError, ValueError, RecursionError) as error:
                if misread is not None:
                    misread.append(f"{place.path.name} could not be read, so rank and versions may be missing: {error}")
                continue
            found.update(content if isinstance(content, dict) else {})
    return found


FORMAT = Format(
    "Ascend: torch_npu, MindSpore (from 2.5 on), CANN msprof",
    recognises,
    read,
    timeline=timeline,
    ranks=ranks,
    explains=explains,
)

"""Shared by the three formats of MindSpore: a folder with a set of small files for each rank, which repeat each other.

`cpu` reads the ops of a CPU, `gpu` and `ascend` the ops of an accelerator. MindSpore up to 2.4 writes into
``<output_path>/profiler/``, 2.5 and later into ``<host>_<pid>_<time>_ascend_ms/FRAMEWORK/`` (on a CPU too). The number
at the end of each name, ``cpu_op_detail_info_0.csv``, is the rank.

``profiler_info_0.json`` (2.0, after ``analyse()``) has ``ms_version`` and ``context_mode``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ....errors import TraceError
from ....profile.environment import Environment
from ....profile.saved import SavedKernel, SavedOp, SavedProfile
from ....units import plural
from ...files import tables
from ...files.durations import Untimed
from ...files.place import Place

if TYPE_CHECKING:
    from ...files.format import Options

# Different ops of a profile, or rows of a table: 200 MB. A large network has 20 000.
MOST_OPS = 200_000
CPU_FILES = ("cpu_op_execute_timestamp", "cpu_op_detail_info")
GPU_FILES = ("gpu_op_detail_info", "gpu_op_type_info")
# The names of the files of each format begin with these.
ASCEND_FILES = ("aicore_intermediate",)
OUTPUT = "ASCEND_PROFILER_OUTPUT"

_FOLDERS = ("FRAMEWORK", "profiler")
_RANK = re.compile(r"_(\d{1,9})(?:_detail|_type)?\.(?:csv|txt)$")
_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
# MindSpore adds up times in float32 (its OpInfo): each addition may lose this share of the sum.
_FLOAT32 = 6e-8
# The share lost by writing a sum and its parts with 6 significant digits.
_DIGITS = 1.1e-5
_MOST_LISTED = 5
NOTHING_RAN = (
    "holds no op. MindSpore writes no file at all when nothing ran while it recorded, or when it was killed:"
    " run the network between start() and stop()"
)

# Calls and ns by op.
Sums = Mapping[str, tuple[int, "float | None"]]


@dataclass
class Session:
    """The files of one rank, and the remarks on them."""

    home: Place
    rank: int
    partial: bool
    remarks: list[str] = field(default_factory=list)
    untimed: Untimed = field(init=False)

    def __post_init__(self) -> None:
        self.untimed = Untimed(self.partial)

    def file(self, name: str) -> Place | None:
        """Return the file *name*, in which ``{}`` stands for the rank; None if it does not exist."""
        found = self.home.file(name.format(self.rank))
        return found if found.path.is_file() else None

    def rows(self, table: tables.Table, *columns: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the number and the cells of each row. With ``--partial``, a cut table gives its complete rows."""
        for number, cells in enumerate(table.rows(*columns, remarks=self.remarks if self.partial else None), 2):
            if number > MOST_OPS:
                raise TraceError(f"{table.place}: has more than {MOST_OPS} rows, which no profile of MindSpore has")
            yield number, cells

    def nanoseconds(self, table: tables.Table, row: int, column: str, cell: str, calls: int = 1) -> int | None:
        """Return the time of *calls*, each of which takes the time in *cell*; None without such a column.

        The unit is the header's; ms if MindSpore leaves it out. With ``--partial``, None for a cell without a time too.
        """
        if column not in table.columns:
            return None
        value = tables.duration(table, row, column, cell, self.untimed)
        return None if value != value else round(value * _NS.get(table.unit(column), _NS["ms"]) * calls)

    def cut(self, place: Place, what: str) -> None:
        """Remark that a file ends too early. Raises TraceError without ``--partial``."""
        if not self.partial:
            raise TraceError(f"{place}: is cut in {what}; was it copied whole? --partial reads what is before it")
        self.remarks.append(f"{place.path.name} is cut in {what}, the end of which is left out")

    def require_rows(self, detail: Place, records: list[SavedOp], types: Place, told: list[SavedOp]) -> None:
        """Raise TraceError if the table of ops is empty but that of types is not, since it could not replace the
        ops.
        """
        if told and not records:
            raise TraceError(f"{detail}: has no rows, but {types.path.name} has; was it copied whole?")

    def check(self, what: str, told: Sums, found: Sums) -> None:
        """Remark on each op for which the file *what* has other calls or times (*told*) than *found*."""
        lines = [line for op in {**told, **found} if (line := _difference(op, told.get(op), found.get(op)))]
        if lines:
            more = [f"{len(lines) - _MOST_LISTED} more"] if len(lines) > _MOST_LISTED else []
            self.remarks.append(f"{what} disagrees: {'; '.join(lines[:_MOST_LISTED] + more)}")

    def trace(
        self,
        device: str,
        records: list[SavedOp],
        kernels: list[SavedKernel] | None = None,
        peak_memory: int | None = None,
        inferred_types: bool = False,
    ) -> SavedProfile:
        """Return the profile. Raises TraceError without ops."""
        if not records:
            raise TraceError(f"{self.home}: {NOTHING_RAN}")
        version, mode = _info(self)
        return SavedProfile(
            source=f"MindSpore {device} profiler{f', {mode} mode' if mode else ''}",
            environment=Environment((("mindspore", version),), device.lower(), arch=""),
            records=tuple(records),
            kernels=None if kernels is None else tuple(kernels),
            peak_memory=peak_memory,
            inferred_types=inferred_types,
            remarks=(*self.remarks, *self.untimed.remarks()),
        )


def is_newer(place: Place) -> bool:
    """Return True if MindSpore 2.5 or later wrote the folder on Ascend: the package `ascend` reads it."""
    output = place.file(OUTPUT)
    return any(output.files(pattern) for pattern in ("kernel_details*.csv", "op_statistic*.csv", "*.db"))


def home_of(place: Place, stems: Iterable[str]) -> Place | None:
    """Return the folder with files whose names begin with one of *stems*: *place*, its FRAMEWORK or its profiler."""
    folders = [place, *map(place.file, _FOLDERS)] if place.is_folder else []
    return next((folder for folder in folders if any(_files(folder, stem) for stem in stems)), None)


def ranks_of(place: Place, stems: Iterable[str]) -> list[int]:
    """Return the ranks that have files whose names begin with one of *stems*."""
    home = home_of(place, stems)
    names = [file.path.name for stem in stems for file in _files(home, stem)] if home else []
    return sorted({int(match[1]) for match in map(_RANK.search, names) if match})


def open_session(place: Place, stems: Iterable[str], options: Options) -> Session:
    """Return the files of the rank in *options*. Raises TraceError for no files, and for several ranks without it."""
    found = ranks_of(place, stems)
    home = home_of(place, stems)
    if home is None or not found:
        hint = "" if place.is_folder else ". Name the folder: a profile of MindSpore is several files"
        raise TraceError(f"{place}: {NOTHING_RAN}{hint}")
    rank = found[0] if options.rank is None and len(found) == 1 else options.rank
    if rank is None or rank not in found:
        asked = "several ranks" if rank is None else f"no rank {rank}"
        raise TraceError(f"{place}: has {asked}; choose --rank {' or '.join(map(str, found))}")
    return Session(home, rank, options.partial)


def count(table: tables.Table, row: int, column: str, cell: str) -> int:
    """Return the whole number in a cell. Raises TraceError."""
    value = tables.number(table, row, column, cell)
    if value is None or value != int(value):
        header = table.header[table.columns[column]]
        raise TraceError(f"{table.place}: row {row} has {cell[:40]!r} in {header!r}; expected a whole number")
    return int(value)


def sums(records: Iterable[SavedOp | SavedKernel], by: str, of: str = "device_ns") -> Sums:
    """Return the calls of *records*, and their times (the field *of*), by their field *by*."""
    added: dict[str, tuple[int, float | None]] = {}
    for record in records:
        calls, total = added.get(getattr(record, by), (0, 0))
        ns = getattr(record, of)
        added[getattr(record, by)] = calls + record.calls, None if ns is None or total is None else total + ns
    return added


def _files(folder: Place, stem: str) -> list[Place]:
    return folder.files(f"{stem}_[0-9]*")


def _difference(op: str, told: tuple[int, float | None] | None, found: tuple[int, float | None] | None) -> str:
    if told is None or found is None or told[0] != found[0]:
        return f"{op} has {plural(told[0] if told else 0, 'call')} there, {found[0] if found else 0} here"
    if told[1] is None or found[1] is None:
        return ""
    allowed = max(told[1], found[1]) * (_DIGITS + _FLOAT32 * found[0]) + found[0]  # each call is rounded to 1 ns
    return f"{op} takes {told[1]:.0f} ns there, {found[1]:.0f} ns here" if abs(told[1] - found[1]) > allowed else ""


def _info(session: Session) -> tuple[str, str]:
    """Return MindSpore's version and its mode, from a profiler_info if there is one."""
    import msgspec

    class Info(msgspec.Struct):
        ms_version: str = ""
        context_mode: str = ""

    name = f"profiler_info_{session.rank}.json"
    places = [session.home.file(name), Place(session.home.path.parent / name)]
    found = next((place for place in places if place.path.is_file()), None)
    try:
        info = msgspec.json.decode(found.read(1 << 20), type=Info) if found else Info()
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise TraceError(
            f"{found}: is not a profiler_info file of MindSpore ({error}); remove it if it is broken"
        ) from None
    return info.ms_version, info.context_mode

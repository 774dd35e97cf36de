"""Nsight Compute: the table of `ncu --csv`, page ``details`` or ``raw``, also after other lines that ncu printed.

Columns of both: ``ID`` (one launch), ``Kernel Name``, ``Stream``, ``Device``. Page details (the default): one row for
each metric of a launch: ``Metric Name``, ``Metric Unit``, ``Metric Value``; the time of a launch is ``Duration``. Page
raw: one row a launch and one column a metric, the units in the first row below the header; the time is
``gpu__time_duration.sum``. A report without that metric has no times.

Numbers follow the locale of the machine, ``2,848.5`` or ``2.848,5``. Unambiguous numbers in the file tell which one it
is. ncu executes each kernel alone, at a fixed clock: its times compare only with times of ncu.

Written after NVIDIA's documentation and public examples of 2021 to 2025, not tested on recordings of our own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ....errors import TraceError
from ....profile.environment import Environment
from ....profile.saved import SavedProfile
from ...files import tables
from ...files.durations import Untimed
from ...files.format import Format, Options
from ...files.gpu_rows import NS, GpuRows, Taken
from ...files.place import Place

TITLE = "Nsight Compute table (ncu --csv)"
_ALIASES = {"gpu time duration.sum": "duration"}
_LAUNCH = frozenset(["id", "kernel name", "context", "stream"])
_DETAILS = frozenset(["metric name", "metric unit", "metric value"])
_TIMES = frozenset(["Duration", "gpu__time_duration.sum"])
# Numbers that only one locale writes: with both separators, with one of them twice, or without three digits after it.
_POINT = re.compile(r"\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:,\d{3}){2,}|\d+\.(?:\d{1,2}|\d{4,})")
_COMMA = re.compile(r"\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}|\d+,(?:\d{1,2}|\d{4,})")
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{0,18})?", re.ASCII)
_ALONE = "ncu runs each kernel by itself, at a fixed clock: compare these times only with times of ncu"


class _Launch(NamedTuple):
    kernel: str
    place: str
    duration: str
    unit: str


def recognises(place: Place) -> bool:
    """Return True if the columns of the first table in the file match."""
    return tables.located(place, _ALIASES, _LAUNCH) is not None


def read(place: Place, options: Options) -> SavedProfile:
    """Return the kernels. Takes 200 bytes a launch. Raises TraceError."""
    table = tables.table(tables.located(place, _ALIASES, _LAUNCH) or place, _ALIASES)
    table.require(*_LAUNCH)
    remarks: list[str] = []
    numbers = _Numbers(place)
    of_page = _details if table.columns.keys() >= _DETAILS else _raw
    launches = list(of_page(table, numbers, remarks if options.partial else None))
    if not launches:
        raise TraceError(f"{place}: has no kernel; did ncu find one to profile (--kernel-name, --launch-skip)?")
    rows = GpuRows(place)
    untimed = Untimed(options.partial)
    is_timed = any(launch.duration for launch in launches)
    for launch in launches:
        if is_timed and not launch.duration:
            untimed.add(place, f"a launch of {launch.kernel[:80]!r}")
        rows.add("kernel", launch.kernel, launch.place, Taken.by_one(numbers.ns(launch)))
    return SavedProfile(
        TITLE,
        Environment((("cuda", ""),), "", ""),
        rows.records(""),
        untold=("*",),
        remarks=(*remarks, *untimed.remarks(), *([_ALONE] if is_timed else [])),
    )


def _details(table: tables.Table, numbers: _Numbers, cut: list[str] | None) -> Iterator[_Launch]:
    wanted = ("id", "kernel name", "device", "stream", "metric name", "metric unit", "metric value")
    number = None
    launch = _Launch("", "", "", "")
    for id_, kernel, device, stream, metric, unit, value in table.rows(*wanted, remarks=cut):
        if id_ != number:
            if number is not None:
                yield launch
            number, launch = id_, _Launch(kernel, _place(device, stream), "", "")
        numbers.saw(value)
        if metric in _TIMES:
            launch = launch._replace(duration=tables.known(value), unit=unit)
    if number is not None:
        yield launch


def _raw(table: tables.Table, numbers: _Numbers, cut: list[str] | None) -> Iterator[_Launch]:
    metrics = [column for column, index in table.columns.items() if "__" in table.header[index]]
    unit = ""
    for id_, kernel, device, stream, duration, *cells in table.rows(
        "id", "kernel name", "device", "stream", "duration", *metrics, remarks=cut
    ):
        if not id_:
            unit = duration.strip()
            continue
        for cell in cells:
            numbers.saw(cell)
        yield _Launch(kernel, _place(device, stream), tables.known(duration), unit)


def _place(device: str, stream: str) -> str:
    return f"GPU {device} stream {stream}" if device else f"stream {stream}"


class _Numbers:
    """The number format of a file: with a decimal point or a decimal comma."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._point = self._comma = ""
        """A number of the file with a decimal point, and one with a decimal comma."""

    def saw(self, cell: str) -> None:
        """Note the number format of *cell*."""
        cell = cell.strip()
        if not self._point and _POINT.fullmatch(cell):
            self._point = cell
        elif not self._comma and _COMMA.fullmatch(cell):
            self._comma = cell

    def ns(self, launch: _Launch) -> float | None:
        """Return the time of a launch, or None if there is none. Raises TraceError."""
        if not launch.duration:
            return None
        if self._point and self._comma:
            raise TraceError(
                f"{self._place}: writes numbers in two ways, {self._point!r} and {self._comma!r}; run ncu again with"
                " LC_ALL=C"
            )
        thousands, decimal = ".," if self._comma else ",."
        number = launch.duration.replace(thousands, "").replace(decimal, ".")
        if not _NUMBER.fullmatch(number) or launch.unit not in NS:
            raise TraceError(
                f"{self._place}: the kernel {launch.kernel[:60]!r} took {launch.duration[:40]!r} {launch.unit!r};"
                f" expected a number of {', '.join(NS)}"
            )
        return float(number) * NS[launch.unit]


FORMAT = Format(TITLE, recognises, read, as_documented=True)

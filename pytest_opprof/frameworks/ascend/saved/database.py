"""The sqlite exports of torch_npu, MindSpore and msprof: ``ascend_pytorch_profiler_0.db``, ``msprof_20250101.db``.

``COMPUTE_TASK_INFO`` (one row a compute task: name, op type, task type, shapes, dtypes, formats; all of them ids of
``STRING_IDS``) joins ``TASK`` (startNs, endNs, deviceId) by globalTaskId; ``COMMUNICATION_OP`` has its own times;
``STEP_TIME`` (id, startNs, endNs) gives the steps; ``NPU_INFO`` the chip; ``META_DATA`` versions; ``MEMORY_RECORD``
bytes. ``CANN_API`` has the calls of the host by connectionId: a task with a lower connectionId than all of these was
launched before the recording, and is in no step. Times are ns. ``analysis.db`` beside it has step_trace_time (us).
Tested: schema 1.0.0 (January 2025).

Other tools add tables and columns of their own (MindStudio Insight does), so columns are looked up by name. Recorded
files are in WAL mode: opened as usual, even read-only, SQLite would leave ``-shm`` and ``-wal`` beside them (`sqlite`).
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ....errors import TraceError
from ....profile.saved import OUTSIDE
from ...files import sqlite
from ...files.format import as_number
from ...files.place import Place
from .ops import Read, Times

# The core of communication ops, as in the csv files of CANN 8.3 (HCCL before).
_COMMUNICATION = "COMMUNICATION"
_MOST_NS = 1e18
_DESCRIBED = (
    *("name", "opType", "taskType"),
    *("inputShapes", "inputDataTypes", "inputFormats", "outputShapes", "outputDataTypes", "outputFormats"),
)


class Database:
    """An open export."""

    def __init__(self, place: Place, connection: sqlite3.Connection) -> None:
        self.place = place
        self._connection = connection
        self._columns = {name: self._columns_of(name) for name in sqlite.tables(connection)}

    @property
    def is_profile(self) -> bool:
        """Whether it has tasks."""
        return {"TASK", "STRING_IDS"} <= set(self._columns) and bool(
            {"COMPUTE_TASK_INFO", "COMMUNICATION_OP"} & set(self._columns)
        )

    @property
    def framework(self) -> str:
        """The framework that wrote it; "" means msprof itself."""
        if "PYTORCH_API" in self._columns:
            return "torch_npu"
        return "mindspore" if "mindspore" in self.place.path.name else ""

    def has(self, table: str, *columns: str) -> bool:
        """Return True if there is such a table with these columns."""
        return set(columns) <= self._columns.get(table, set())

    def devices(self) -> list[int]:
        """Return the devices that ran compute tasks."""
        if not self.has("TASK", "deviceId", "globalTaskId") or not self.has("COMPUTE_TASK_INFO", "globalTaskId"):
            return []
        query = "SELECT DISTINCT deviceId FROM TASK WHERE globalTaskId IN (SELECT globalTaskId FROM COMPUTE_TASK_INFO)"
        return sorted(device for (device,) in self._ask(query) if isinstance(device, int))

    def rank(self) -> int | None:
        """Return the rank, if the export names exactly one."""
        if not self.has("RANK_DEVICE_MAP", "rankId"):
            return None
        found = self._ask("SELECT DISTINCT rankId FROM RANK_DEVICE_MAP LIMIT 2")
        return as_number(found[0][0]) if len(found) == 1 else None

    def add_tasks(self, read: Read, device: int | None) -> None:
        """Add the tasks of *device* (None: all) to *read*, in the order of their groups' first starts."""
        selects = [*self._compute(device), *self._communication(device)]
        if not selects:
            raise TraceError(f"{self.place}: expected the tables COMPUTE_TASK_INFO and TASK with their times")
        steps = self._steps()
        begins = [begin for begin, *_ in steps]
        read.has_steps = bool(steps)
        times: Times[tuple[object, ...]] = Times(read)
        for start, ns, early, *ids in self._connection.execute(f"{' UNION ALL '.join(selects)} ORDER BY startNs"):
            if not isinstance(start, int | float) or not isinstance(ns, int | float):
                read.untimed.add(self.place, f"a task with startNs {start!r}", left_out=True)
                continue
            if ns >= _MOST_NS:
                raise TraceError(f"{self.place}: has tasks whose startNs and endNs are not times; expected integers")
            at = bisect_right(begins, start) - 1
            inside = at >= 0 and start < steps[at][1]
            key = (OUTSIDE if early else steps[at][2] if inside else "", *ids)
            times[key].append(ns)
        texts = self._texts()
        for key, values in times.items():
            cells = (texts.get(id, id if isinstance(id, str) else "") for id in key[1:])
            read.add_times((str(key[0]), *cells), values, 1)

    def _compute(self, device: int | None) -> list[str]:
        if not self.has("COMPUTE_TASK_INFO", "globalTaskId") or not self.has(
            "TASK", "startNs", "endNs", "globalTaskId"
        ):
            return []
        there = self._columns["COMPUTE_TASK_INFO"]
        described = ", ".join(f"c.{name}" if name in there else f"NULL AS {name}" for name in _DESCRIBED)
        where = f"WHERE t.deviceId = {int(device)}" if device is not None else ""
        return [
            f"SELECT t.startNs AS startNs, t.endNs - t.startNs, {self._is_early('TASK', 't')}, {described}"
            f" FROM COMPUTE_TASK_INFO c JOIN TASK t ON t.globalTaskId = c.globalTaskId {where}"
        ]

    def _communication(self, device: int | None) -> list[str]:
        if not self.has("COMMUNICATION_OP", "opName", "startNs", "endNs"):
            return []
        kind = "o.opType" if self.has("COMMUNICATION_OP", "opType") else "NULL"
        where = ""
        if device is not None and self.has("COMMUNICATION_OP", "deviceId"):
            where = f"WHERE o.deviceId = {int(device)}"
        elif device is not None and self.has("COMMUNICATION_TASK_INFO", "opId", "globalTaskId"):
            where = (
                "WHERE o.opId IN (SELECT i.opId FROM COMMUNICATION_TASK_INFO i"
                f" JOIN TASK t ON t.globalTaskId = i.globalTaskId WHERE t.deviceId = {int(device)})"
            )
        return [
            f"SELECT o.startNs AS startNs, o.endNs - o.startNs, {self._is_early('COMMUNICATION_OP', 'o')},"
            f" o.opName, {kind}, '{_COMMUNICATION}', {', '.join(['NULL'] * 6)} FROM COMMUNICATION_OP o {where}"
        ]

    def _is_early(self, table: str, alias: str) -> str:
        """Return the SQL condition for a launch before the recording: connectionIds grow with time."""
        if not self.has(table, "connectionId") or not self.has("CANN_API", "connectionId"):
            return "0"
        begin = self._ask("SELECT min(connectionId) FROM CANN_API WHERE connectionId > 0")[0][0]
        known = isinstance(begin, int)
        return f"{alias}.connectionId > 0 AND {alias}.connectionId < {begin}" if known else "0"

    def _steps(self) -> list[tuple[float, float, str]]:
        """Return (start, end, label) of the steps, by start."""
        if not self.has("STEP_TIME", "id", "startNs", "endNs"):
            return []
        rows = self._ask("SELECT startNs, endNs, id FROM STEP_TIME ORDER BY startNs LIMIT 1000000")
        if not all(isinstance(time, int | float) for begin, end, _ in rows for time in (begin, end)):
            raise TraceError(f"{self.place}: has steps whose startNs and endNs are not times; expected integers")
        return [(begin, end, str(label)) for begin, end, label in rows]

    def step_times(self) -> dict[str, tuple[float, float]]:
        """Return (computing, wall time) of each step in us, of an analysis.db."""
        if not self.has("StepTraceTime", "step", "computing", "communication_not_overlapped", "free"):
            return {}
        rows = self._ask("SELECT step, computing, computing + communication_not_overlapped + free FROM StepTraceTime")
        return {str(step): (own, wall) for step, own, wall in rows if isinstance(wall, int | float)}

    def chip(self) -> str:
        """Return the chip's name; "" if unknown."""
        found = self._ask("SELECT DISTINCT name FROM NPU_INFO LIMIT 2") if self.has("NPU_INFO", "name") else []
        return found[0][0] if len(found) == 1 and isinstance(found[0][0], str) else ""

    def metadata(self) -> dict[str, object]:
        """Return META_DATA."""
        return dict(self._ask("SELECT name, value FROM META_DATA")) if self.has("META_DATA", "name", "value") else {}

    def peak_memory(self) -> int | None:
        """Return the largest number of allocated bytes, or None."""
        for table, column in (("MEMORY_RECORD", "totalAllocated"), ("OP_MEMORY", "allocationTotalAllocated")):
            most = self._ask(f"SELECT MAX({column}) FROM {table}")[0][0] if self.has(table, column) else None
            if isinstance(most, int) and most > 0:
                return most
        return None

    def _texts(self) -> dict[object, str]:
        wanted = [
            f"SELECT {column} FROM {table}"
            for table, columns in (("COMPUTE_TASK_INFO", _DESCRIBED), ("COMMUNICATION_OP", ("opName", "opType")))
            for column in columns
            if self.has(table, column)
        ]
        query = f"SELECT id, value FROM STRING_IDS WHERE id IN ({' UNION '.join(wanted)})"
        return {id: value for id, value in self._ask(query) if isinstance(value, str)}

    def _columns_of(self, table: str) -> set[str]:
        return {row[0] for row in self._ask("SELECT name FROM pragma_table_info(?)", table)}

    def _ask(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query, values).fetchall()


def recognises(place: Place) -> bool:
    """Return True if a sqlite file is an export of CANN."""
    try:
        with opened(place) as database:
            return database.is_profile
    except TraceError:
        return False


@contextmanager
def opened(place: Place) -> Iterator[Database]:
    """Open an export. Raises TraceError for any error, also while it is read."""
    with sqlite.opened(place, "sqlite export of CANN") as connection:
        yield Database(place, connection)

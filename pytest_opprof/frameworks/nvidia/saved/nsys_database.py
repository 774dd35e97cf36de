"""The SQLite file of Nsight Systems: its tables, and the queries that both readers need. `nsys` describes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ....errors import TraceError
from ....ops import cuda_calls
from ...files.durations import Untimed
from ...files.place import Place
from ...files.sqlite import MAGIC, opened, tables

TITLE = "Nsight Systems sqlite export"
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
PUSH_POP_RANGE = 59
# A column of SQLite holds any type, and a text would be added up as zero.
TIMED = "typeof(start) = 'integer' AND typeof(end) = 'integer' AND end >= start"


class Database:
    """The tables of the file, of all processes or of one."""

    def __init__(self, place: Place, connection: sqlite3.Connection, partial: bool) -> None:
        self.place = place
        self.untimed = Untimed(partial)
        self._connection = connection
        self.tables = tables(connection)
        self.process: int | None = None

    def rows(self, sql: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Run a query."""
        return iter(self._connection.execute(sql, values))

    def has(self, table: str, *columns: str) -> bool:
        """Return True if there is such a table with these columns."""
        if table not in self.tables:
            return False
        return {name for _, name, *_ in self.rows(f"PRAGMA table_info({table})")}.issuperset(columns)

    def processes(self) -> list[int]:
        """Return the ids of the processes that used a GPU."""
        if not self.has("TARGET_INFO_CUDA_CONTEXT_INFO", "processId"):
            return []
        rows = self.rows("SELECT DISTINCT processId FROM TARGET_INFO_CUDA_CONTEXT_INFO ORDER BY 1")
        return [process for (process,) in rows if isinstance(process, int)]

    def only(self, rank: int) -> None:
        """Read one process only. Raises TraceError if there is no process with this number."""
        processes = self.processes()
        if not 0 <= rank < max(len(processes), 1):
            raise TraceError(f"{self.place}: has no rank {rank}; it has {len(processes)} processes, counted from 0")
        self.process = processes[rank] if processes else None

    def where(self, identifier: str) -> str:
        """Return the SQL condition on a column that holds a serialized process or thread."""
        return f"({identifier} >> 24) & 0xFFFFFF = {self.process}" if self.process is not None else "1"

    def text(self, number: object) -> str:
        """Return the string with this id."""
        found = next(self.rows("SELECT value FROM StringIds WHERE id = ?", number), None)
        return str(found[0]) if found else f"(string {number})"


@contextmanager
def open_database(place: Place, partial: bool = False) -> Iterator[Database]:
    """Open the file. Raises TraceError, also for errors while it is read."""
    if not place.head.startswith(MAGIC):
        raise TraceError(f"{place}: is not an SQLite file. Make one: nsys export --type sqlite REPORT.nsys-rep")
    with opened(place, TITLE) as connection:
        yield Database(place, connection, partial)


def calls_once(database: Database) -> str:
    """Return the query for the calls of the API without repetitions, or the name of their table if it has none."""
    columns = ("start", "end", "nameId", "globalTid", "correlationId")
    twice = f"SELECT count(correlationId) > count(DISTINCT correlationId) FROM {RUNTIME}"
    if not database.has(RUNTIME, *columns) or not next(database.rows(twice))[0]:
        return RUNTIME
    # A thread makes one call after the other, so a call that begins before an earlier one has ended is inside that one.
    before = (
        "max(end) OVER (PARTITION BY globalTid, correlationId ORDER BY start, end DESC"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    )
    return (
        f"(SELECT * FROM (SELECT {', '.join(columns)}, {before} AS until FROM {RUNTIME})"
        " WHERE until IS NULL OR until <= start OR correlationId IS NULL OR correlationId = 0)"
    )


def api_name(database: Database, number: object) -> str:
    """Return the name of a function of the API, without its version."""
    return cuda_calls.without_api_version(database.text(number))

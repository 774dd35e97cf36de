"""Open SQLite files of other programs safely: nothing is written beside them, and no code in them is run."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

from ...errors import TraceError
from ...machine.scratch import scratch
from .place import Place

MAGIC = b"SQLite format 3\0"
# Bytes of one value, 16 MiB: a demangled kernel name has some thousands.
_MOST_TEXT = 1 << 24
_STEPS = 1_000_000


@contextmanager
def opened(place: Place, what: str) -> Iterator[sqlite3.Connection]:
    """Open the file; *what* is its kind, for messages. Raises TraceError for any error, also while it is read."""
    try:
        with _plain_file(place) as (path, mode), closing(_connect(path, mode)) as connection:
            yield connection
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise TraceError(
            f"{place}: is not a complete {what} ({error}). Was it copied whole, and the export done?"
        ) from None


def tables(connection: sqlite3.Connection) -> set[str]:
    """Return the names of the plain tables; views and virtual tables are excluded, because reading them runs their
    code.
    """
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'")
    return {name for (name,) in rows}


@contextmanager
def _plain_file(place: Place) -> Iterator[tuple[Path, str]]:
    """Yield a file that SQLite opens without writing beside *place*: the file itself, or a copy if necessary."""
    log = place.path.with_name(place.path.name + "-wal")
    written_ahead = log.is_file() and log.stat().st_size > 0
    if not place.is_compressed and not written_ahead:
        yield place.path, "mode=ro&immutable=1"
        return
    with scratch() as folder:
        copy = folder / "profile.sqlite"
        with place.open() as source, open(copy, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        if written_ahead:
            shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
        yield copy, "mode=ro"


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)
    connection.text_factory = lambda value: value.decode("utf-8", "replace")
    if sys.version_info >= (3, 11):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_TEXT)
    # Broken pages can make a query endless. A row takes 20 bytes; a query needs some dozens of steps for a row.
    calls, most = count(), 100 + path.stat().st_size // 10_000
    connection.set_progress_handler(lambda: next(calls) > most, _STEPS)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection

"""Baseline files of older schema versions, made such as this version writes. Only an update rewrites them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ..errors import BaselineError

SCHEMA: Final = 3
TIMES_SCHEMA: Final = 1
SITES_SCHEMA: Final = 1
PYTHON_SCHEMA: Final = 1
_Document = dict[str, Any]


def check_version(document: _Document, path: Path, newest: int) -> int:
    """Return the schema version of a *document*. Raises BaselineError where it has none, or one after *newest*."""
    version = document.get("schema")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BaselineError(f"{path}: has no schema version; this is no baseline file of pytest-opprof")
    if version > newest:
        raise BaselineError(
            f"{path}: has schema version {version}, this pytest-opprof reads up to {newest}. Upgrade pytest-opprof"
        )
    return version


def upgraded(document: _Document, path: Path) -> tuple[_Document, _Document | None]:
    """Return a *document* of calls in this schema version, and its document of times, None where that is no part of it.

    Raises BaselineError.
    """
    version = check_version(document, path, SCHEMA)
    if version == SCHEMA:
        return document, None
    times = _without_times(document) if version == 1 else _apart(document)
    head = {"environment": document.get("environment"), "schema": TIMES_SCHEMA}
    return {**document, "schema": SCHEMA}, {**head, "times": times}


def _without_times(document: _Document) -> _Document:
    """Take the times out of a document of schema 1; return none: they are of one process, and judge nothing."""
    for _, windows in _items(document.get("tests")):
        for _, entry in _items(windows):
            if isinstance(entry, dict):
                entry.pop("device_us", None)
    return {}


def _apart(document: _Document) -> _Document:
    """Take the times out of a document of schema 2, which had them in the entry of their window, and return them."""
    times = dict[str, Any]()
    for test, windows in _items(document.get("tests")):
        for window, entry in _items(windows):
            if isinstance(entry, dict) and (kept := entry.pop("times", {})) != {}:
                times.setdefault(test, {})[window] = kept
                for _, of_machine in _items(kept):
                    if isinstance(of_machine, dict):
                        of_machine["calls_digest"] = digest(entry.get("calls"))
    return times


def digest(calls: object) -> str:
    """Return what tells the *calls* of a window, as JSON has them, from others."""
    return hashlib.sha256(json.dumps(calls, sort_keys=True).encode()).hexdigest()[:12]


def _items(found: object) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds; nothing where it is none, which the schema then says."""
    yield from found.items() if isinstance(found, dict) else ()

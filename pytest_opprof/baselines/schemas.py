"""The schema versions of baseline files. A file of another one is an error: there was no release that wrote it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from ..errors import BaselineError

SCHEMA: Final = 4
TIMES_SCHEMA: Final = 1
SITES_SCHEMA: Final = 1
PYTHON_SCHEMA: Final = 1


def check_version(document: dict[str, Any], path: Path, known: int) -> None:
    """Raise BaselineError for a *document* that has no schema version, or another than the one that is *known*."""
    version = document.get("schema")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BaselineError(f"{path}: has no schema version; this is no baseline file of pytest-opprof")
    if version > known:
        raise BaselineError(
            f"{path}: has schema version {version}, this pytest-opprof reads {known}. Upgrade pytest-opprof"
        )
    if version < known:
        raise BaselineError(
            f"{path}: has schema version {version}, this pytest-opprof reads {known}. Delete it and record it anew:"
            " pytest --opprof-update"
        )


def digest(calls: object) -> str:
    """Return what tells the *calls* of a window, as JSON has them, from others."""
    return hashlib.sha256(json.dumps(calls, sort_keys=True).encode()).hexdigest()[:12]

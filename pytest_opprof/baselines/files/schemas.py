"""The schema versions of baseline files. A file of another version is an error: no release wrote one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from ...errors import BaselineError

SCHEMA: Final = 4
TIMES_SCHEMA: Final = 1
SITES_SCHEMA: Final = 1
PYTHON_SCHEMA: Final = 1


def check_version(document: dict[str, Any], path: Path, known: int) -> None:
    """Raise BaselineError for a *document* without a schema version, or with another one than *known*."""
    version = document.get("schema")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BaselineError(f"{path}: has no schema version, so it is not a baseline file of pytest-opprof")
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
    """Return a digest that identifies the *calls* of a window, in their JSON form."""
    return hashlib.sha256(json.dumps(calls, sort_keys=True).encode()).hexdigest()[:12]

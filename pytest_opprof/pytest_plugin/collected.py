"""A pytest plugin of one hook: writes the ids of all existing tests, for ``opprof baselines prune``.

    pytest --collect-only -p pytest_opprof.collected        with OPPROF_COLLECTED=FILE

A module that fails to import hides its tests, so the file is written only if the collection has no errors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ..results.test_id import id_of

VARIABLE = "OPPROF_COLLECTED"
_DESELECTED = pytest.StashKey[list[str]]()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Remember tests that a default -k or -m deselects."""
    if items:
        items[0].config.stash.setdefault(_DESELECTED, []).extend(map(id_of, items))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the test ids, and the root directory that they are relative to."""
    if session.testsfailed:
        return
    ids = [*map(id_of, session.items), *session.config.stash.get(_DESELECTED, [])]
    document = {"root": str(session.config.rootpath), "tests": ids}
    Path(os.environ[VARIABLE]).write_text(json.dumps(document), encoding="utf-8")

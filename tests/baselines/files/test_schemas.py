from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_opprof.baselines.files import file
from pytest_opprof.errors import BaselineError

from .test_file import CALLS, texts


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (1, r"a\.json: has schema version 1, this .* reads 4\. Delete it and record it anew: pytest --opprof-update"),
        (3, r"has schema version 3, this pytest-opprof reads 4\. Delete it"),
        (2, r"has schema version 2, this pytest-opprof reads 4\. Delete it"),
        (5, r"has schema version 5, this pytest-opprof reads 4\. Upgrade pytest-opprof"),
        (0, "has no schema version, so it is not a baseline file"),
        (True, "has no schema version"),
        ("3", "has no schema version"),
    ],
)
def test_a_file_of_another_schema_is_one_error_with_what_to_do(tmp_path: Path, schema: object, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**json.loads(CALLS), "schema": schema}))
    before = texts(path)
    with pytest.raises(BaselineError, match=message):
        file.load(path)
    assert texts(path) == before

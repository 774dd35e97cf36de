from __future__ import annotations

from pathlib import Path

import pytest

import pytest_opprof
from pytest_opprof.baselines.files.file_types import schemas


@pytest.mark.parametrize("name", schemas())
def test_a_published_schema_is_that_of_the_types(name: str) -> None:
    published = Path(pytest_opprof.__file__).parent / "schema" / name
    assert published.read_text(encoding="utf-8") == schemas()[name], "make schemas writes it anew"

"""The pages of docs/reference are those that docs/generate.py makes of the code."""

from __future__ import annotations

import runpy

from .pages import ROOT


def test_the_reference_is_what_the_code_says() -> None:
    pages = runpy.run_path(str(ROOT / "docs" / "generate.py"))["pages"]()
    written = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md")}
    assert written.keys() == pages.keys()
    for name, page in pages.items():
        assert written[name] == page, f"docs/reference/{name} is not up to date: make reference"

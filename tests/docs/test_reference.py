"""The pages of docs/reference are those that `reference` makes of the code."""

from __future__ import annotations

from .pages import ROOT
from .reference import pages


def test_the_reference_is_what_the_code_says() -> None:
    made = pages()
    written = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md")}
    assert written.keys() == made.keys()
    for name, page in made.items():
        assert written[name] == page, f"docs/reference/{name} is not up to date: make reference"

"""Reads a page as a user does: its words, its tables."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """The text of a page, its tables by id, and the tags that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._rows: list[list[str]] = []
        self._is_cell = self._is_code = False
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        is_skip = dict(attrs).get("class") == "skip"  # a link that is seen where the keyboard is at it
        self._is_code = is_skip or tag in ("style", "script", "title")
        if tag == "table":
            self._rows = self.tables.setdefault(dict(attrs).get("id") or f"{len(self.tables)}", [])
        elif tag == "tr":
            self._rows.append([])
        elif tag == "br":
            self.handle_data(" ")
        elif tag in ("td", "th"):
            self._rows[-1].append("")
            self._is_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._is_cell, self._rows[-1][-1] = False, " ".join(self._rows[-1][-1].split())
        self._is_code = self._is_code and tag not in ("style", "script", "title", "a")

    def handle_data(self, data: str) -> None:
        if self._is_code:
            return
        self.words.append(data)
        if self._is_cell:
            self._rows[-1][-1] += data


def row(page: Page, table: str, first: str) -> list[str]:
    """Return the cells of the row of a table that begins with *first*."""
    return next(cells for cells in page.tables[table] if cells[0] == first)

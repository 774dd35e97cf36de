"""What names may do to what reads them: nothing."""

from __future__ import annotations

import io
import re
from csv import reader

from hypothesis import example, given
from hypothesis import strategies as st

from pytest_opprof.report.escaping import csv_cell, markdown, terminal
from pytest_opprof.report.tables import MARKDOWN, PLAIN, Column, Table, csv

NAMES = st.one_of(
    st.text(),
    st.lists(st.sampled_from(":: error ##[ \n \r \x1b[2J | ` [x](http://y) www.a @a =".split(" "))).map("".join),
)


@given(NAMES)
@example("\n::error file=a.py::text")
@example("  ::error::text")
@example("##[error]text")
def test_a_line_with_a_name_is_one_line_that_moves_no_cursor_and_is_no_command(name: str) -> None:
    for text in (terminal(name), terminal(f"  {name}")):
        assert text.isprintable()
        assert text.splitlines() in ([], [text])
        assert not re.match(r"\s*::.*::", text)
        assert "##[" not in text
        assert terminal(text) == text


def test_names_without_any_of_it_are_as_they_were() -> None:
    for name in ("aten::add", "::add", "Cast #3", "名前", "a[b]|c"):
        assert terminal(name) == name


@given(NAMES)
@example("[x](https://y) <b> |")
@example("www.example.org")
def test_markdown_has_no_markup_of_a_name(name: str) -> None:
    text = markdown(name)
    entities = re.sub(r"&#\d+;", "", text)
    assert not set(entities) & set('<>"@|`*[]\\~$&#')
    assert "://" not in entities
    assert "www." not in entities.lower()
    assert text.isprintable()


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_a_table_of_names_has_a_line_for_each(names: list[str]) -> None:
    table = Table([Column("op"), Column("calls")], [[name, 1] for name in names])
    rows = MARKDOWN.text(table).splitlines()
    assert len(rows) == 2 + len(names)
    assert all(row.count("|") == 3 for row in rows)
    for row in PLAIN.text(table).split("\n"):
        assert not re.match(r"\s*::.*::", row)


TWO = Table([Column(None, key="b")], [[-1]])


@given(NAMES)
@example("=1+1")
@example("\t=1+1")
def test_no_cell_of_csv_is_a_formula(name: str) -> None:
    ((cell, number),) = list(reader(io.StringIO(csv([TWO.of({"a": name})]))))[1:]
    assert not cell.lstrip().startswith(("=", "+", "-", "@"))
    assert cell == csv_cell(name)
    assert number == "-1"


def test_a_style_has_one_way_of_writing() -> None:
    name = "a|b\x1b"
    assert (MARKDOWN.write(name), PLAIN.write(name)) == (markdown(name), terminal(name))

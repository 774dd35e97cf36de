"""A table is read by the names of its columns, as the csv module reads it, whatever is in its cells."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files import tables
from pytest_opprof.frameworks.files.place import Place

ALIASES = {"op name": "name", "task duration": "duration"}


def table_of(folder: Path, content: bytes | str) -> tables.Table:
    file = folder / "table.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return tables.table(Place(file), ALIASES)


def test_a_column_is_found_under_each_of_its_spellings(tmp_path: Path) -> None:
    table = table_of(tmp_path, "Op Name,Task Duration(us), block_dim ,Communication(Not Overlapped)\na,1,2,3\n")

    assert table.columns == {"name": 0, "duration": 1, "block dim": 2, "communication(not overlapped)": 3}
    assert table.unit("duration") == "us"
    assert table.unit("name") == ""
    assert list(table.rows("duration", "name")) == [("1", "a")]


def test_a_column_that_is_not_there_is_empty_and_a_required_one_an_error_that_lists_the_headers(tmp_path: Path) -> None:
    table = table_of(tmp_path, "Name,Duration(us)\na,1\n")

    assert list(table.rows("name", "shapes", "duration")) == [("a", "", "1")]
    with pytest.raises(TraceError, match=r"no column for type; its columns are 'Name', 'Duration\(us\)'"):
        table.require("name", "type")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_byte_order_mark_and_line_ends_change_nothing(tmp_path: Path, mark: bytes, end: bytes) -> None:
    table = table_of(tmp_path, mark + end.join([b"name,duration", b'"a,b",1', b"c,2", b""]))

    rows = [
        (tables.known(name), tables.number(table, 2, "duration", cell)) for name, cell in table.rows(*table.columns)
    ]
    assert rows == [("a,b", 1), ("c", 2)]


def test_what_is_not_known_is_nothing() -> None:
    assert [tables.known(cell) for cell in ("N/A", " n/a\t", "", "null", "0", "x\r")] == ["", "", "", "", "0", "x"]


@pytest.mark.parametrize("cell", ["-1", "nan", "inf", "1e999", "abc", "9" * 5000])
def test_a_cell_that_is_no_number_is_an_error_with_its_row_and_column(tmp_path: Path, cell: str) -> None:
    table = table_of(tmp_path, "Name,Duration(us)\na,1\n")

    with pytest.raises(TraceError, match=r"table\.csv: row 7 has '.*' in the column 'Duration\(us\)'"):
        tables.number(table, 7, "duration", cell)


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=8)
QUOTING = st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(CELLS | st.sampled_from(['"', '""', ",", "\n", 'a"b', '","']), min_size=4, max_size=4)),
    quoting=QUOTING,
    end=st.sampled_from(["\n", "\r\n"]),
    block=st.integers(1, 50),
    wanted=st.permutations(["a", "b", "c", "d", "x"]),
)
def test_cells_are_those_that_were_written_wherever_the_file_is_split(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[list[str]],
    quoting: int,
    end: str,
    block: int,
    wanted: list[str],
) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, quoting=quoting, lineterminator=end).writerows([["a", "b", "c", "d"], *rows])
    monkeypatch.setattr(tables, "_BLOCK", block)

    read = list(table_of(tmp_path, text.getvalue()).rows(*wanted))

    written = [dict(zip("abcd", row), x="") for row in rows]
    assert [[cell.removesuffix("\r") for cell in row] for row in read] == [
        [row[name] for name in wanted] for row in written
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200), block=st.integers(1, 50))
def test_anything_is_a_table_or_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, block: int
) -> None:
    monkeypatch.setattr(tables, "_BLOCK", block)
    file = tmp_path / "table.csv"
    file.write_bytes(content)

    tables.head(Place(file))
    message = f"{file}: "
    try:
        table = tables.table(Place(file), ALIASES)
        assert all(len(row) == 2 for row in table.rows("name", table.header[0].lower()))
    except TraceError as error:
        message = str(error)
    assert message.startswith(f"{file}: ")


def test_a_file_that_is_cut_anywhere_is_an_error_or_lacks_whole_rows_only(tmp_path: Path) -> None:
    content = 'Name,Shapes,Duration(us)\na,"1,2",12.5\nb,"3,4",13.5\n'

    for size in range(content.index("\n") + 1, len(content)):
        table = table_of(tmp_path, content[:size])
        remarks: list[str] = []
        rows = list(table.rows("name", "shapes", "duration", remarks=remarks))
        assert rows == [("a", "1,2", "12.5"), ("b", "3,4", "13.5")][: content[:size].count("\n") - 1]
        if not content[:size].endswith("\n"):
            assert remarks == [f"table.csv is cut in row {content[:size].count(chr(10)) + 1}, which is left out"]
            with pytest.raises(TraceError, match=r"is cut in row \d; was it copied whole\? --partial"):
                list(table.rows("name", "shapes", "duration"))


def test_a_last_row_without_line_end_is_whole_where_all_cells_are_there_and_the_last_is_not_wanted(
    tmp_path: Path,
) -> None:
    table = table_of(tmp_path, "name,duration,note\na,1,x")

    assert list(table.rows("name", "duration")) == [("a", "1")]


def test_a_short_row_is_an_error_and_an_empty_one_is_not(tmp_path: Path) -> None:
    assert list(table_of(tmp_path, "a,b\n\n1,2\n\n").rows("a")) == [("1",)]
    with pytest.raises(TraceError, match=r"row 3 has 1 cells, expected 2 as the header has: '3'"):
        list(table_of(tmp_path, "a,b\n1,2\n3\n").rows("a", "b"))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "has no header"),
        ("\n\n", "has no header"),
        ("a,b\n1,\xff\n".encode("latin-1"), r"is not UTF-8 at byte 6 \(0xff\)"),
        ("a,b\n1,2\n".encode("utf-16"), "is UTF-16, expected UTF-8"),
        ("a," * 5000 + "b\n1,2\n", "has no header"),
    ],
    ids=["empty", "empty lines", "Latin-1", "UTF-16", "too many columns"],
)
def test_what_is_no_table_is_one_error(tmp_path: Path, content: bytes | str, error: str) -> None:
    with pytest.raises(TraceError, match=error):
        list(table_of(tmp_path, content).rows("a", "b"))


@pytest.mark.parametrize("content", ["a,b\n" + "x" * 100, 'a,b\n"' + "x\n" * 100, 'a,b\n"' + "\n" * 100])
def test_a_row_without_end_is_not_read_beyond_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setattr(tables, "_BLOCK", 16)
    monkeypatch.setattr(tables, "MOST_ROW", 64)

    with pytest.raises(TraceError, match=r"has a (line|row) of more than"):
        list(table_of(tmp_path, content).rows("a", "b"))


@pytest.mark.parametrize(
    "content",
    [b'{"a": 1, "b": 2, "c": 3}', b'[{"a": 1}, {"b": 2}, 3]', b"", b"no line end", b"\0,\n", b"\x1f\x8bbroken", b"{\n"],
)
def test_the_head_of_what_is_no_table_names_no_columns_that_anyone_asks_for(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)

    assert len(tables.head(Place(file))) < 2
    assert tables.head(Place(tmp_path)) == ()

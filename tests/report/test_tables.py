from __future__ import annotations

import csv as csv_module
import os
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.report.op_table import ranks_table
from pytest_opprof.report.tables import (
    BYTES,
    CALLS_CHANGE,
    COUNT,
    MARKDOWN,
    NAME,
    OP,
    SHARE,
    SHORT_WORDS,
    TIME,
    Column,
    Table,
    csv,
    json,
    markdown,
    terminal_width,
    text,
)

TABLE = Table(
    [
        Column("op", OP, "op"),
        Column("calls (base -> now)", CALLS_CHANGE),
        Column("work (base -> now)"),
        Column("device time", TIME, "device_ns", right=True),
        Column("place", NAME, "place", spare=1),
        Column(None, key="share"),
        Column("verdict"),
    ],
    [
        ["Cast", (2, 3), "+1 bfloat16->float16, +1 float16->float32", 7910, "node/" * 18, 0.25, "more calls"],
        ["MatMul", (1, 1), "", None, "", None, ""],
    ],
    ["worse", "neither"],
    "--format csv has it",
)


def lines(table: Table, width: int | None) -> list[str]:
    return [line.text for line in text(table, width)]


def test_numbers_are_written_for_people_and_kept_for_programs() -> None:
    assert [row.split() for row in lines(replace(TABLE, columns=TABLE.columns[:4]), None)[2:]] == [
        "Cast 2 -> 3 +1 bfloat16->float16, +1 float16->float32 7.91 us".split(),
        "MatMul 1 -".split(),
    ]
    assert json(TABLE)[0] == {"op": "Cast", "device_ns": 7910, "place": "node/" * 18, "share": 0.25}
    assert csv([TABLE]).splitlines()[::2] == ["op,device_ns,place,share", "MatMul,,,"]


def test_tables_of_the_same_columns_are_one_file_of_csv_with_what_they_are_of() -> None:
    both = csv([TABLE.of({"rank": 0}), TABLE.of({"rank": 1})])
    rows = list(csv_module.DictReader(both.splitlines()))
    assert [row["rank"] + row["op"] for row in rows] == ["0Cast", "0MatMul", "1Cast", "1MatMul"]
    assert "rank" not in lines(TABLE.of({"rank": 0}), None)[0]
    with pytest.raises(ValueError, match=r"^CSV has one header, \['rank', 'op', .*\], not \['op', "):
        csv([TABLE.of({"rank": 0}), TABLE])


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_a_table_fits_the_terminal_and_keeps_every_row(width: int) -> None:
    found = lines(TABLE, width)
    assert max(map(len, found)) <= width
    assert [row.split()[0] for row in found if row.startswith(("Cast", "MatMul"))] == ["Cast", "MatMul"]
    folded = "".join("".join(found).split())
    assert all(word in folded for word in ("calls", "verdict", "7.91us"))


def test_a_wide_terminal_shows_all_of_a_name_and_a_narrow_one_cuts_it() -> None:
    assert "node/" * 18 in lines(TABLE, 200)[2]
    assert "…" in lines(TABLE, 120)[2]
    assert "node/" * 9 + "no…" in lines(TABLE, None)[2]


def test_a_column_without_room_is_named_below() -> None:
    *_, last = lines(TABLE, 80)
    assert last == "left out to fit in 80 characters: place (--format csv has it)"
    assert not any("left out" in line for line in lines(TABLE, 200))


def test_a_table_with_keys_goes_on_in_another_table_below() -> None:
    columns = [Column("step"), *(Column(f"{name} time", TIME) for name in ("compute", "copy", "idle"))]
    table = Table(columns, [["one", 1_000, 2_000, 3_000], ["two", 4_000, 5_000, 6_000]], ["worse", "neither"], keys=1)
    assert len(lines(table, 80)) == len(lines(table, None)) == 4
    found = text(table, 28)
    assert [line.text for line in found] == [
        "step    compute    copy",
        "        time       time",
        "------  ---------  ------",
        "one     1 us       2 us",
        "two     4 us       5 us",
        "",
        "step    idle time",
        "------  -----------",
        "one     3 us",
        "two     6 us",
    ]
    assert [line.tone for line in found if line.text.startswith("one")] == ["worse", "worse"]


def test_ranks_without_room_are_in_a_table_below() -> None:
    calls = [str(10 + rank) for rank in range(16)]
    found = lines(ranks_table({"Cast": calls}), 80)
    assert max(map(len, found)) <= 80
    rows = [row.split() for row in found if row.startswith("Cast")]
    assert [len(row) for row in rows] == [10, 8]
    assert [*rows[0][1:], *rows[1][1:]] == calls


def test_a_name_keeps_30_characters_before_columns_are_left_out() -> None:
    name = "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>"
    table = Table([Column("op", OP), Column("work", spare=1), Column("now", COUNT)], [[name, "int32,int64", 1]])
    assert lines(table, 58)[2].split() == [f"{name[:37]}…", "int32,int64", "1"]
    assert lines(table, 50)[2].split() == [f"{name[:29]}…", "int32,int64", "1"]
    assert lines(table, 49)[2].split() == [f"{name[:41]}…", "1"]


def test_words_are_folded_after_commas_and_arrows() -> None:
    table = Table([Column("op", OP), Column("work", SHORT_WORDS)], [["Cast", "int32,int64->float32,float64"]])
    assert [line.split()[-1] for line in lines(table, 22)[2:]] == ["int32,int64->", "float32,float64"]


def test_every_line_of_a_row_has_its_sense() -> None:
    found = text(TABLE, 100)
    of_cast = [line.tone for line in found if "Cast" in line.text or "float16->float32" in line.text]
    assert of_cast == ["worse", "worse"]
    assert [line.tone for line in found if line.tone != "worse"] == ["neither"] * (len(found) - 2)


def test_markdown_for_people_is_padded_and_a_summary_is_short() -> None:
    assert MARKDOWN.text(Table([Column("op"), Column("share", SHARE)], [["a|b", 0.5]])).splitlines() == [
        "| op       | share   |",
        "|----------|---------|",
        "| a&#124;b | 50%     |",
    ]
    small = Table([Column("op"), Column("size", BYTES, right=True)], [["a", 2048]])
    assert markdown(small, padded=False) == ["| op | size |", "|---|--:|", "| a | 2 KiB |"]


@pytest.mark.parametrize(
    ("columns", "is_terminal", "expected"),
    [("91", False, 91), ("", False, None), (None, False, None), (None, True, 123)],
)
def test_the_width_is_that_of_the_terminal_or_of_columns(
    columns: str | None, is_terminal: bool, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setattr(os, "get_terminal_size", lambda fd=1: os.terminal_size((123, 30)))
    assert terminal_width() == expected


@given(st.lists(st.tuples(st.text(), st.integers(), st.text()), max_size=4), st.integers(40, 200))
def test_any_names_make_a_table_with_all_rows_that_fits(rows: list[tuple[str, int, str]], width: int) -> None:
    table = Table([Column("op", OP), Column("calls", COUNT), Column("where", spare=1)], rows)
    found = text(table, width)
    assert len(found) >= 2 + len(rows)
    assert all(len(line.text) <= width and line.text.isprintable() for line in found)

from __future__ import annotations

from csv import DictReader
from json import loads

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.saved import SavedKernel, SavedOp, SavedProfile
from pytest_opprof.questions.query import answer
from pytest_opprof.questions.question import Line, Question
from pytest_opprof.report import listing
from pytest_opprof.report.escaping import terminal
from pytest_opprof.report.tables import MARKDOWN, PLAIN, Style, csv, document, json

HOSTILE = "conv\x1b[2J|\n\u202e,\"'"


def lines(*records: SavedOp) -> list[Line]:
    return answer(SavedProfile("made", Environment((("made", ""),)), records), Question())


RECORD = SavedOp(HOSTILE, "Conv", device_ns=1234.5, memory=0, input_shapes=((2, 3), ()), input_dtypes=("f32", "f32"))


@given(st.text())
def test_no_control_character_reaches_the_terminal(text: str) -> None:
    assert terminal(text).isprintable()
    assert terminal(terminal(text)) == terminal(text)


def test_hostile_names_are_escaped_in_every_format() -> None:
    for text in (
        PLAIN.text(listing.rows(lines(RECORD))),
        MARKDOWN.text(listing.rows(lines(RECORD))),
        csv([listing.rows(lines(RECORD))]),
        document({"rows": json(listing.rows(lines(RECORD)))}),
        listing.names_text(lines(RECORD), PLAIN),
        PLAIN.text(listing.kernels([SavedKernel(HOSTILE, HOSTILE)])),
        csv([listing.kernels([SavedKernel(HOSTILE, HOSTILE)]).of({"profile": HOSTILE})]),
    ):
        assert all(line.isprintable() for line in text.split("\n"))


def test_a_bar_in_a_name_does_not_end_a_cell_of_markdown() -> None:
    assert "&#124;" in MARKDOWN.text(listing.rows(lines(RECORD)))


def test_columns_that_no_row_knows_are_left_out() -> None:
    header = PLAIN.text(listing.rows(lines(RECORD))).splitlines()[0].split("  ")
    assert [name.strip() for name in header if name.strip()] == [
        "#", "self time", "share", "cumulative", "name", "type", "calls", "memory", "bandwidth", "inputs",
    ]  # fmt: skip


def test_csv_has_the_units_in_its_header_and_every_digit() -> None:
    (row,) = DictReader(csv([listing.rows(lines(RECORD))]).splitlines())
    assert (row["time_ns"], row["flops"], row["input_shapes"]) == ("1234.5", "", "[2,3] []")


def test_json_is_exact_and_has_null_for_what_is_unknown_or_infinite() -> None:
    instant = RECORD._replace(device_ns=0, computation=5)
    (row,) = loads(document({"rows": json(listing.rows(lines(instant)))}))["rows"]
    assert (row["name"], row["time_ns"], row["computation"], row["flops"]) == (HOSTILE, 0, 5, None)
    assert row["input_shapes"] == [[2, 3], []]
    assert row["output_shapes"] is None


def test_long_names_are_cut_in_a_table_only() -> None:
    long = RECORD._replace(name="x" * 300)
    assert "x" * 47 + "…" in PLAIN.text(listing.rows(lines(long)))
    assert "x" * 300 in csv([listing.rows(lines(long))])


def test_a_narrow_terminal_shows_what_the_rows_are_by() -> None:
    at = [RECORD._replace(name=f"{'conv' * 9}{n}", memory=1 << 30, id=f"{n}" * 9, place=f"stream {n}") for n in (1, 2)]
    saved = SavedProfile("made", Environment((("made", ""),)), tuple(at))
    found = answer(saved, Question(aggregate_by="place"))
    narrow = Style(width=60)
    assert "stream 2" in narrow.text(listing.rows(found, "place"))
    assert "stream 2" not in narrow.text(listing.rows(found))

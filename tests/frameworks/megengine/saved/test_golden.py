"""Every answer that MegEngine's profile_analyze gave, asked of opprof; and what opprof answers where it crashed."""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.cli import main as command
from pytest_opprof.cli.main import main
from pytest_opprof.frameworks.files import formats
from pytest_opprof.frameworks.files.place import Place

from .profile_analyze import Printed, options, printed, three_digits, translated

DATA = Path(__file__).parents[3] / "data" / "megengine"
PROFILES = ("smallconv", "resnet18", "resnet18-fused", "encoder4", "copy3dev", "train-conv")
Row = dict[str, Any]
Show = Callable[..., dict[str, Any]]


@cache
def load(name: str) -> Any:
    return json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))


def path_of(name: str) -> str:
    plain = DATA / name
    return str(plain if plain.exists() else plain.with_name(f"{name}.gz"))


GOLDEN = [(case, options(case["args"]), printed(case["stdout"])) for case in load("golden") if case["rc"] == 0]
CRASHED = [case for case in load("golden") if case["rc"] != 0]
LISTS = [each for each in GOLDEN if each[1].dump_only_opr]
every_case = pytest.mark.parametrize(
    ("case", "asked", "answer"), GOLDEN, ids=[case["id"].replace("__", "-") for case, _, _ in GOLDEN]
)
every_profile = pytest.mark.parametrize("name", PROFILES)


READ, PARSER = cache(formats.read), cache(command.parser)


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Show:
    # 1,300 commands on six files: without this, two thirds of the time go into reading and into argparse.
    monkeypatch.setattr(formats, "read", lambda found, *_: READ(replace(found, place=Place(found.place.path))))
    monkeypatch.setattr(command, "parser", PARSER)

    def run(name: str, *arguments: str) -> dict[str, Any]:
        # profile_analyze shows single ops where nothing is aggregated.
        single = [] if {"--aggregate", "--aggregate-by"} & {*arguments} else ["--by", "none"]
        code = main(["show", path_of(name), "--format", "json", *single, *arguments])
        out, err = capsys.readouterr()
        if code == 2 and "no op of the" in err:  # profile_analyze prints a table without rows
            return {**run(name, "-t", "1"), "rows": [], "host_rows": []}
        assert code == 0
        document: dict[str, Any] = json.loads(out)
        return document

    return run


def sides(asked: argparse.Namespace) -> list[str]:
    """Return the tables that profile_analyze printed."""
    if asked.print_only:
        return [asked.print_only] if asked.print_only in ("device", "host") else []
    return ["device", "host"] if asked.show_host else ["device"]


def test_all_its_cases_are_read_whole() -> None:
    assert len(GOLDEN) == 441
    assert len(CRASHED) == 121
    for case, asked, answer in GOLDEN:
        assert len(answer.tables) == (0 if asked.dump_only_opr else len(sides(asked))), case["id"]
        assert bool(answer.summary) == (asked.print_only in (None, "summary")), case["id"]
        assert asked.dump_only_opr or not answer.lines, case["id"]
        if not asked.confluence:
            assert sum(map(len, answer.tables)) == case["stdout"].count("│ #"), case["id"]


@every_case
def test_the_same_numbers_in_the_same_order(case: Row, asked: argparse.Namespace, answer: Printed, show: Show) -> None:
    arguments = translated(asked)
    for side, table in zip(sides(asked), answer.tables):
        document = show(case["profile"], *arguments, "--side", side, "-t", "0")
        cut = show(case["profile"], *arguments, "--side", side, "-t", str(asked.top))["rows"]
        assert cut == top(document["rows"], asked.top)
        rows = without_rounded_away(document["rows"], case["profile"], side, asked)
        check_order(table, rows, asked, case["order_ambiguous"])
        check_numbers(table, rows, document[f"{side}_time_ns"])
    if answer.summary:
        check_summary(answer.summary, show(case["profile"], *arguments))


def check_summary(summary: dict[str, str], document: dict[str, Any]) -> None:
    for side in ("device", "host"):
        assert document[f"{side}_time_ns"] == pytest.approx(float(summary[f"total {side} time"]) * 1e9, rel=1e-9)
    for line, field in (("copy time", "total_ns"), ("copy wait time", "launch_ns")):
        if line in summary:
            tot, avg = (float(part.partition("=")[2]) for part in summary[line].split())
            copies = document["copy_time"]
            assert copies[field] / 1e9 == pytest.approx(tot, abs=0.00005)
            assert copies[field] / copies["calls"] / 1e9 == pytest.approx(avg, abs=0.00005)


@pytest.mark.parametrize(
    ("case", "asked", "answer"), LISTS, ids=[case["id"].replace("__", "-") for case, _, _ in LISTS]
)
def test_the_same_list_of_ops(
    case: Row, asked: argparse.Namespace, answer: Printed, show: Show, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*translated(asked), "-t", str(asked.top)]
    rows = show(case["profile"], *arguments)["rows"]
    assert main(["show", path_of(case["profile"]), "--only-ops", *arguments]) in (0, 2)
    lines = list(filter(None, capsys.readouterr().out.splitlines()))
    assert lines == [f"{row['name']} {row['type']} {row['id']}" for row in rows]
    theirs = [{"id": line.rpartition(" ")[2], "line": line} for line in answer.lines]
    check_order(theirs, show(case["profile"], *translated(asked), "-t", "0")["rows"], asked, False)
    by_id = {row["id"]: f"{row['name']} {row['type']} {row['id']}" for row in rows}
    assert all(by_id.get(row["id"], row["line"]) == row["line"] for row in theirs)


def without_rounded_away(rows: list[Row], name: str, side: str, asked: argparse.Namespace) -> list[Row]:
    """Return *rows* without those at a bound of time that profile_analyze misses: 0.010001 - 0.000001 > 0.01 there."""
    if asked.aggregate:
        return rows
    least, most = float(asked.min_time or "-inf"), float(asked.max_time or "inf")
    records = load("golden-records")[name.removesuffix(".json")][f"{side}/{asked.top_end_key}/None/None"]
    missed = {record["info"]["id"] for record in records if not least <= record["time"] <= most}
    assert all(round(row["time_ns"]) in (least * 1e9, most * 1e9) for row in rows if row["id"] in missed)
    return [row for row in rows if row["id"] not in missed]


def top(rows: list[Row], count: int) -> list[Row]:
    return rows[:count] if count else rows


def key(row: Row) -> str:
    return str(row.get("id") or row["type"])


def check_order(table: list[Row], rows: list[Row], asked: argparse.Namespace, ambiguous: bool) -> None:
    """Assert that *table* is the top of *rows*, but for the order of rows that are equal in what it is ordered by."""
    expected = top(rows, asked.top)
    ours = {key(row): row for row in rows}
    assert len({key(row) for row in table}) == len(table) == len(expected)
    assert {key(row) for row in table} <= ours.keys()
    if not ambiguous:  # else a NaN among the keys has left their order to chance
        ranks = [rank(ours[key(row)], asked.order_by) for row in table]
        assert ranks == pytest.approx([rank(row, asked.order_by) for row in expected], rel=1e-9)


def rank(row: Row, order_by: str) -> float:
    column = order_by.removeprefix("+")
    if column == "opr_id":
        return int(row["id"])
    if column in ("flops", "bandwidth") and row["time_ns"] == 0:
        return math.inf if row["computation" if column == "flops" else "memory"] else math.nan
    value: float = row["time_ns" if column == "time" else column]
    return value


def check_numbers(table: list[Row], rows: list[Row], total: float) -> None:
    ours = {key(row): row for row in rows}
    running = 0.0
    for row in table:
        same = ours[key(row)]
        running += same["time_ns"]
        true = {
            **{name: same[name] for name in ("share", "computation", "flops", "memory", "bandwidth")},
            "time": same["time_ns"] / 1e9,
            "cumulative": running / 1e9,
            "cumulative_share": running / total,
        }
        for name, value in true.items():
            assert row[name].is_of(value), (name, row[name], value)
        for name in ("input_shapes", "output_shapes"):
            assert row[name] == shapes_text(same[name])
        assert row["type"] == same["type"]
        assert row.get("calls", 1) == same["calls"]
        assert row.get("name", "").replace(" ", "") == (same["name"] or "").replace(" ", "")


def shapes_text(shapes: list[list[int]] | None) -> list[str]:
    return ["None"] if shapes is None else [f"{{{','.join(map(str, shape))}}}" for shape in shapes]


@every_profile
def test_the_cumulative_time_runs_down_the_rows(name: str, show: Show) -> None:
    document = show(f"{name}.json", "-t", "0")
    running = 0
    for row in document["rows"]:
        running += row["time_ns"]
        assert row["cumulative_ns"] == running
    assert running == document["device_time_ns"]


@every_profile
@pytest.mark.parametrize("side", ["device", "host"])
@pytest.mark.parametrize("time", ["end", "kern"])
def test_the_same_numbers_at_full_precision(name: str, side: str, time: str, show: Show) -> None:
    arguments = [f"{name}.json", "--side", side, "--time", time, "-t", "0"]
    singles = show(*arguments)["rows"]
    cases = {path: value for path, value in load("golden-records")[name].items() if path.startswith(f"{side}/{time}/")}
    assert len(cases) == 9
    for path, expected in cases.items():
        how, by = path.split("/")[2:]
        aggregated = ["--aggregate", how] * (how != "None") + ["--aggregate-by", "type"] * (by == "type")
        rows = show(*arguments, *aggregated)["rows"]
        if isinstance(expected, dict):
            assert expected == {"error": IS_INSTANCE}
            check_extremes(rows, singles, how, by)
        else:
            check_records(rows, expected)


def check_records(rows: list[Row], expected: list[Row]) -> None:
    ours = {key(row): row for row in rows}
    assert len(ours) == len(expected)
    for record in expected:
        info = record["info"]
        row = ours[info["type"] if "count" in info else info["id"]]
        assert row["time_ns"] / 1e9 == pytest.approx(record["time"], rel=1e-9, abs=1e-12)
        for column in ("computation", "memory", "flops", "bandwidth"):
            theirs = None if record[column] in ("inf", "nan", None) else pytest.approx(record[column], rel=1e-9)
            assert row[column] == theirs, (column, row)
        assert row["calls"] == info.get("count", 1)


# Where profile_analyze crashes.

IS_INSTANCE = "TypeError: isinstance expected 2 arguments, got 1"


def check_extremes(rows: list[Row], singles: list[Row], how: str, by: str) -> None:
    """Assert that each column of *rows* is the extreme of what is known of *singles*."""
    extreme = max if how == "max" else min
    for row in rows:
        members = [one for one in singles if by == "None" or one["type"] == row["type"]]
        for column in ("time_ns", "computation", "memory"):
            known = [one[column] for one in members if one[column] is not None]
            assert row[column] == extreme(known, default=None)
        assert row["calls"] == len(members)


@pytest.mark.parametrize("column", ["computation", "flops", "bandwidth"])
@every_profile
def test_what_is_unknown_comes_last_in_either_order(name: str, column: str, show: Show) -> None:
    """Comparing with N/A is a TypeError there, and a NaN leaves its order to chance."""
    for sign in ("", "+"):
        rows = show(f"{name}.json", "-t", "0", "--order-by", f"{sign}{column}")["rows"]
        values = [known(row, column) for row in rows]
        count = sum(value is not None for value in values)
        assert count
        assert all(value is not None for value in values[:count])
        assert values[:count] == sorted(values[:count], reverse=not sign)  # type: ignore[type-var]


def known(row: Row, column: str) -> float | None:
    """Return a value with the infinite ones, which JSON has not."""
    amount = row["computation" if column in ("computation", "flops") else "memory"]
    if column != "computation" and row["time_ns"] == 0:
        return math.inf if amount else None
    value: float | None = row[column]
    return value


@every_profile
def test_ops_are_found_by_the_dtype_of_an_input(name: str, show: Show) -> None:
    """It crashes on every variable without a memory plan, which is most of them."""
    rows = show(f"{name}.json", "-t", "0", "--input-dtype", "Float32")["rows"]
    assert rows
    assert all("Float32" in row["input_dtypes"] for row in rows)


def test_casts_are_found_by_the_dtype_they_read(show: Show) -> None:
    casts = show("encoder4.json", "-t", "0", "--input-dtype", "float16", "--type", "TypeCvt")["rows"]
    assert {tuple(row["output_dtypes"]) for row in casts} == {("Float32",)}


@pytest.mark.parametrize("column", ["name", "type", "input_shapes", "calls"])
def test_every_column_orders(column: str, show: Show) -> None:
    values = [row[column] for row in show("smallconv.json", "-t", "0", "--order-by", f"+{column}")["rows"]]
    assert values == sorted(values)


def test_an_aggregate_without_a_function_is_the_sum(show: Show) -> None:
    assert show("smallconv.json", "--aggregate-by", "type") == show(
        "smallconv.json", "--aggregate-by", "type", "--aggregate", "sum"
    )


def test_no_copies_are_no_crash(show: Show) -> None:
    assert show("smallconv.json", "--copy-time")["copy_time"] == {"calls": 0, "total_ns": None, "launch_ns": None}


def test_aggregates_are_listed_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", path_of("smallconv.json"), "--only-ops", "--aggregate-by", "type", "-t", "1"]) == 0
    assert "ConvolutionForward" in capsys.readouterr().out


def test_a_table_of_nothing_or_of_no_time_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--min-time", "9s"], ["--type", "AxisAddRemove", "--time", "kern"]):
        assert main(["show", path_of("smallconv.json"), "--format", "markdown", *arguments]) == 0
        assert "total device time" in capsys.readouterr().out


def test_three_digits_are_known_to_half_of_the_last() -> None:
    assert three_digits("0.00133").is_of(0.0013349)
    assert not three_digits("0.00133").is_of(0.0013351)
    assert not three_digits("0.0").is_of(1e-9)


def test_each_crash_is_of_a_class_that_has_a_test_here() -> None:
    assert {case["error"] for case in CRASHED} == {
        IS_INSTANCE,  # unknown values compared
        "TypeError: 'NoneType' object is not subscriptable",  # --input-dtype
        "IndexError: list index out of range",  # --copy-time without copies
        "TypeError: bad operand type for unary -: 'list'",  # --order-by in_shapes
        "AttributeError: 'Record' object has no attribute 'name'",
        "AttributeError: 'Record' object has no attribute 'count'",
        "AttributeError: 'Record' object has no attribute '-time'",  # a usage error in opprof as well
        "AssertionError: must specify aggregate op",
        "TypeError: sequence item 1: expected str instance, int found",  # --dump-only-opr of aggregates
        "ValueError: cannot convert float NaN to integer",  # --confluence without time
        "ValueError: max() arg is an empty sequence",  # --confluence without rows
    }


@pytest.mark.parametrize("case", CRASHED, ids=[case["id"].replace("__", "-") for case in CRASHED])
def test_where_it_crashed_opprof_answers(case: Row, show: Show, capsys: pytest.CaptureFixture[str]) -> None:
    asked = options(case["args"])
    if asked.order_by == "-time":
        assert main(["show", path_of(case["profile"]), "--order-by=-time"]) == 2
        assert "+" in capsys.readouterr().err
        return
    document = show(case["profile"], *translated(asked), "-t", str(asked.top))
    assert document["device_time_ns"] > 0

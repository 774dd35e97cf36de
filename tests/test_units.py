from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof import units
from pytest_opprof.errors import UsageError
from pytest_opprof.units import Quantity


@pytest.mark.parametrize(
    ("text", "quantity"),
    [
        ("100 us", Quantity("time", 100_000)),
        ("100us", Quantity("time", 100_000)),
        ("100 µs", Quantity("time", 100_000)),
        ("1.5 ms", Quantity("time", 1_500_000)),
        ("2e-3 s", Quantity("time", 2_000_000)),
        ("7 ns", Quantity("time", 7)),
        ("5%", Quantity("share", 0.05)),
        ("64 MiB", Quantity("bytes", 64 * 2**20)),
        ("1 GB", Quantity("bytes", 10**9)),
        ("2 GFLOP", Quantity("flops", 2 * 10**9)),
        ("2 GFLOPs", Quantity("flops", 2 * 10**9)),
        (" 3 s ", Quantity("time", 3 * 10**9)),
    ],
)
def test_a_quantity_is_a_number_and_a_unit(text: str, quantity: Quantity) -> None:
    assert units.parse(text) == quantity


@pytest.mark.parametrize(
    "text", ["", "5", "ms", "-1 ms", "5 parsecs", "1,5 ms", "5 ms 3", "٣ ms", "nan ms", "9" * 400 + " s"]
)
def test_anything_else_is_refused_with_the_known_units(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a quantity; write a number and a unit: ns, us, ms"):
        units.parse(text)


@pytest.mark.parametrize("given_", ["10", 10, 0.1, None, "10 ms", "ten %"])
def test_a_share_must_be_a_percentage(given_: object) -> None:
    with pytest.raises(UsageError, match=r"--flag is .*write a percentage such as '10%'"):
        units.parse_share(given_, "--flag")


@pytest.mark.parametrize("given_", ["10", "", 10, 0.1, None, "10%", "inf", "nan", "soon", "5 MiB"])
def test_a_duration_must_have_a_unit_of_time(given_: object) -> None:
    said = f"--flag is {given_!r}; write a time with its unit (ns, us, ms, s), such as '5 us'"
    with pytest.raises(UsageError, match=f"^{re.escape(said)}$"):
        units.parse_duration(given_, "--flag")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.format_ns(0), "0 ns"),
        (units.format_ns(130_400), "130 us"),
        (units.format_ns(999_999), "1 ms"),
        (units.format_ns(1.5e12), "1500 s"),
        (units.format_bytes(64 * 2**20), "64 MiB"),
        (units.format_bytes(1000), "1000 B"),
        (units.format_flops(2.1e9), "2.1 GFLOP"),
        (units.format_share(0.0712), "7.12%"),
        (units.format_change(100, 125), "+25%"),
        (units.format_change(100, 99.2), "-0.8%"),
        (units.format_change(0, 5), "new"),
        (units.format_change(0, 0), "+0%"),
        (units.format_interval(100, 111.2, (0.082, 0.141)), "+11% (8 to 14)"),
        (units.format_interval(100, 97, (-0.051, 0.002)), "-3% (-5 to 0)"),
        (units.format_interval(100, 99.8, (-0.02, 0.02)), "+0% (-2 to 2)"),
        (units.format_interval(100, 106.44, (0.061, 0.0704)), "+6.4% (6.1 to 7)"),
        (units.format_interval(100, 166.7, (0.667, 0.667)), "+66.7%"),
        (units.format_interval(1, 5e7, (4e7, 6e7)), "+4999999900% (4000000000 to 6000000000)"),
        (units.format_range(-0.124, 0.8), "-12% to +80%"),
    ],
)
def test_numbers_are_written_with_three_digits_and_their_unit(text: str, expected: str) -> None:
    assert text == expected


@given(st.integers(0, 10**15))
def test_a_written_time_is_read_back_within_its_digits(ns: int) -> None:
    assert units.parse(units.format_ns(ns)).value == pytest.approx(ns, rel=0.006)


@given(st.integers(0, 2**50))
def test_a_written_size_is_read_back_within_its_digits(size: int) -> None:
    assert units.parse(units.format_bytes(size)).value == pytest.approx(size, rel=0.006)


@given(st.text(max_size=40))
def test_any_text_is_a_quantity_or_a_usage_error(text: str) -> None:
    try:
        assert units.parse(text).value >= 0
    except UsageError:
        pass


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [(1, "kernel", "1 kernel"), (0, "call", "0 calls"), (2, "process", "2 processes"), (3, "launch", "3 launches")],
)
def test_a_number_of_one_has_its_noun_in_the_singular(number: int, noun: str, text: str) -> None:
    assert units.plural(number, noun) == text

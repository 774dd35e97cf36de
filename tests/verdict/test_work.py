from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.profile.calls import CallRange, Range
from pytest_opprof.verdict.verdicts import Verdict
from pytest_opprof.verdict.work import Work, compared


def of(dtypes: dict[str, int], nbytes: int | None = None, flops: int | None = None) -> CallRange:
    calls = sum(dtypes.values())
    return CallRange(
        calls,
        calls,
        dtypes={name: Range(each, each) for name, each in dtypes.items()},
        bytes=None if nbytes is None else Range(nbytes, nbytes),
        flops=None if flops is None else Range(flops, flops),
    )


def work(base: CallRange, now: CallRange) -> Work:
    return compared("MatMul", base, now, 0.01)


@pytest.mark.parametrize(
    ("base", "now", "verdict", "text"),
    [
        ({"float32": 3}, {"float64": 3}, Verdict.WIDER, "float32 -> float64"),
        ({"float32": 3}, {"float32": 2, "float64": 1}, Verdict.WIDER, "float32 -> float64"),
        ({"bfloat16": 1}, {"float32": 1}, Verdict.WIDER, "bfloat16 -> float32"),
        ({"float32": 1}, {"complex64": 1}, Verdict.WIDER, "float32 -> complex64"),
        ({"float32,int32": 1}, {"float16,int64": 1}, Verdict.NARROWER, "float32,int32 -> float16,int64"),
        ({"bfloat16": 1}, {"float16": 1}, Verdict.OTHER_DTYPES, "bfloat16 -> float16"),
        ({"float32 channels_last": 1}, {"float32": 1}, Verdict.OTHER_LAYOUT, "float32 channels_last -> float32"),
        ({"float32": 1}, {"float32 channels_last": 1}, Verdict.OTHER_DTYPES, "float32 -> float32 channels_last"),
        ({"float32": 10}, {"bfloat16": 9, "float64": 1}, Verdict.WIDER, "float32 -> bfloat16, float64"),
        ({"float32": 3}, {"float32": 3}, Verdict.OK, ""),
        ({"float32": 3}, {"float32": 2}, Verdict.OK, ""),
        ({"float32": 3}, {}, Verdict.OK, ""),
        ({}, {"float64": 3}, Verdict.OK, ""),
    ],
)
def test_dtypes_are_compared_by_the_width_of_what_changed(
    base: dict[str, int], now: dict[str, int], verdict: Verdict, text: str
) -> None:
    found = work(of(base), of(now))
    assert (found.verdict, found.text) == (verdict, text)


def test_more_work_is_more_than_the_tolerance_and_a_kibibyte() -> None:
    assert work(of({}, 100_000), of({}, 101_000)).verdict is Verdict.OK
    assert work(of({}, 100_000), of({}, 101_100)).verdict is Verdict.MORE_WORK
    assert work(of({}, 1_000_000), of({}, 1_010_000)).verdict is Verdict.OK
    assert work(of({}, 100), of({}, 900)).verdict is Verdict.OK
    assert work(of({}, 103_000), of({}, 100_000)).verdict is Verdict.LESS_WORK
    assert work(of({}, None), of({}, 10**9)).verdict is Verdict.OK
    assert work(of({}, 10**9), of({}, None)).verdict is Verdict.OK


def test_flops_say_more_than_bytes_and_dtypes_more_than_both() -> None:
    more = work(of({}, 10_000, 10_000), of({}, 20_000, 40_000))
    assert more.line == "FLOPs of MatMul: 40 kFLOP, 10 kFLOP in the baseline (x4)"
    assert more.text == "bytes x2, FLOPs x4"
    narrower = work(of({"float32": 1}, 10_000, 10_000), of({"bfloat16": 1}, 50_000, 100_000))
    assert narrower.verdict is Verdict.MORE_WORK
    assert narrower.text == "float32 -> bfloat16, bytes x5, FLOPs x10"
    wider = work(of({"float32": 1}, 10_000), of({"float64": 1}, 20_000))
    assert wider.line == "dtypes of MatMul: float64, float32 in the baseline, bytes x2"


def test_what_varied_between_processes_is_a_range() -> None:
    base = CallRange(1, 1, bytes=Range(10_000, 20_000, varies=True))
    assert work(base, of({}, 30_000)).verdict is Verdict.OK
    assert work(base, of({}, 70_000)).verdict is Verdict.MORE_WORK
    base = CallRange(2, 2, dtypes={"float32": Range(1, 2, varies=True), "float64": Range(0, 1, varies=True)})
    assert work(base, of({"float64": 2})).verdict is Verdict.OK


DTYPES = st.dictionaries(st.sampled_from(["float32", "float64", "bfloat16", "int64->bool"]), st.integers(1, 9))


@given(DTYPES, DTYPES)
def test_what_is_narrower_one_way_is_wider_the_other(base: dict[str, int], now: dict[str, int]) -> None:
    there, back = work(of(base), of(now)).verdict, work(of(now), of(base)).verdict
    assert (Verdict.NARROWER not in (there, back)) or Verdict.WIDER in (there, back)

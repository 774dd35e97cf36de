from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.verdict.diff import Diff, Row
from pytest_opprof.verdict.tolerances import STORED
from pytest_opprof.verdict.verdicts import TimingVerdict, Verdict
from pytest_opprof.verdict.work import Work, compared


def of(dtypes: dict[str, int], nbytes: int | None = None, flops: int | None = None) -> OpCounts:
    calls = sum(dtypes.values())
    return OpCounts(
        Range(calls),
        dtypes={name: Range(each, each) for name, each in dtypes.items()},
        bytes=None if nbytes is None else Range(nbytes, nbytes),
        flops=None if flops is None else Range(flops, flops),
    )


def work(base: OpCounts, now: OpCounts) -> Work:
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
    for amount, verdict in ((2_024, Verdict.OK), (2_025, Verdict.MORE_WORK)):
        assert work(of({}, 1_000), of({}, amount)).verdict is verdict
    for amount, verdict in ((2_024, Verdict.OK), (2_025, Verdict.LESS_WORK)):
        assert work(of({}, amount), of({}, 1_000)).verdict is verdict
    for before, after in ((200_000, 202_001), (202_021, 200_000)):
        assert work(of({}, flops=before), of({}, flops=after)).verdict is not Verdict.OK
    for before, after in ((200_000, 202_000), (202_020, 200_000)):
        assert work(of({}, flops=before), of({}, flops=after)).verdict is Verdict.OK
    assert work(of({}, 0), of({}, 4_096)).text == "bytes 0 B -> 4 KiB"
    assert work(of({}, None), of({}, 10**9)).verdict is Verdict.OK
    assert work(of({}, 10**9), of({}, None)).verdict is Verdict.OK


def test_the_amounts_of_more_work_stand_alone_where_dtypes_are_too_many_words() -> None:
    found = work(of({"bfloat16": 1}, 100_000), of({"float16": 1}, 400_000))
    assert (found.verdict, found.text, found.amounts) == (
        Verdict.MORE_WORK,
        "bfloat16 -> float16, bytes x4",
        "bytes x4",
    )
    row = Row("Gather", None, None, None, None, found.verdict, work=found)
    timing = TimingVerdict(Verdict.INCOMPARABLE)
    assert Diff((row,), row, timing, STORED).finding(row).short == "Gather bytes x4"


def test_flops_say_more_than_bytes_and_dtypes_more_than_both() -> None:
    more = work(of({}, 10_000, 10_000), of({}, 20_000, 40_000))
    assert more.number
    assert more.number.told() == "MatMul: FLOPs 40 kFLOP (baseline: 10 kFLOP), x4"
    assert more.text == "bytes x2, FLOPs x4"
    narrower = work(of({"float32": 1}, 10_000, 10_000), of({"bfloat16": 1}, 50_000, 100_000))
    assert narrower.verdict is Verdict.MORE_WORK
    assert narrower.text == "float32 -> bfloat16, bytes x5, FLOPs x10"
    assert work(of({"float32": 1}, 10_000), of({"bfloat16": 1}, 5_000)).verdict is Verdict.NARROWER
    mixed = work(of({"float32": 1}, 10_000, 40_000), of({"float32": 1}, 20_000, 20_000))
    assert (mixed.verdict, mixed.text) == (Verdict.MORE_WORK, "bytes x2, FLOPs x0.5")
    wider = work(of({"float32": 1}, 10_000), of({"float64": 1}, 20_000))
    assert wider.number
    assert wider.number.told() == "MatMul: float64 (baseline: float32), bytes x2"


@pytest.mark.parametrize(
    ("base", "nbytes", "verdict"),
    [
        (OpCounts(Range(1), bytes=Range(10_000, 20_000, varies=True)), 30_000, Work()),
        (OpCounts(Range(1), bytes=Range(10_000, 20_000, varies=True)), 59_000, Verdict.OK),
        (OpCounts(Range(1), bytes=Range(10_000, 20_000, varies=True)), 61_500, Verdict.MORE_WORK),
        (OpCounts(Range(1, 3, varies=True), bytes=Range(20_000, 20_000)), 10**9, Verdict.OK),
    ],
)
def test_what_follows_from_sizes_or_calls_that_vary_is_told_and_hardly_judged(
    base: OpCounts, nbytes: int, verdict: Verdict | Work
) -> None:
    found = work(base, OpCounts(Range(1), bytes=Range(nbytes, nbytes)))
    assert verdict in (found, found.verdict)
    assert found.is_unjudged is (verdict is Verdict.OK)
    assert found == Work() or (found.number and found.number.now.startswith("MatMul: bytes "))
    drawn = OpCounts(Range(1), bytes=Range(20_000, 90_000, varies=True))
    assert work(OpCounts(Range(1), bytes=Range(20_000)), drawn).is_unjudged
    assert work(OpCounts(Range(1), bytes=Range(19_000)), drawn).verdict is Verdict.MORE_WORK
    in_pairs = OpCounts(Range(1, 3, varies=True), bytes=Range(90_000, 90_000))
    assert work(OpCounts(Range(1), bytes=Range(20_000, 20_000)), in_pairs).is_unjudged


def test_dtypes_that_vary_are_a_regression_only_where_one_is_wider_than_all_before() -> None:
    base = OpCounts(Range(2), dtypes={"float32": Range(1, 2, varies=True), "float64": Range(0, 1, varies=True)})
    assert work(base, of({"float64": 2})) == Work()
    assert work(base, of({"float64": 1, "int64": 1})) == Work()
    assert work(base, of({"complex128": 1, "bool": 1})).verdict is Verdict.WIDER
    found = work(base, of({"float32": 1, "complex128": 1}))
    assert (found.verdict, found.text) == (Verdict.WIDER, "float32, float64 -> complex128")
    assert found.number
    assert found.number.told() == "MatMul: complex128 (baseline: float32, float64)"
    assert work(OpCounts(Range(1, 3, varies=True)), of({"float64": 2})) == Work()


@pytest.mark.parametrize(
    ("base", "now", "verdict"),
    [
        ({"float32": 9}, {"int64": 9}, Verdict.OTHER_DTYPES),  # an index is not wider than a float
        ({"float32": 9}, {"bfloat16": 8, "int64": 1}, Verdict.NARROWER),
        ({"float32": 1}, {"bfloat16": 9}, Verdict.NARROWER),  # by the bits of an element, whatever the calls
        # By the calls that went from each dtype, not by the calls that stay: 17.5 bits on average, 20 now.
        (
            {"float32": 10, "bfloat16": 10},
            {"float32": 9, "float32->float16": 1, "float16": 3},
            Verdict.WIDER,
        ),
        ({"int32": 9}, {"int64": 9}, Verdict.WIDER),
        ({"uint8": 9}, {"float32": 9}, Verdict.WIDER),
        ({"int64": 9}, {"float32": 9}, Verdict.OTHER_DTYPES),
        ({"float64": 1, "int32": 1}, {"float32": 1, "int64": 1}, Verdict.WIDER),
        ({"float32": 1}, {"float16,int64": 1}, Verdict.NARROWER),  # beside an index it is a float
        ({"int64->bool": 1}, {"int64->float16": 1}, Verdict.OTHER_DTYPES),
    ],
)
def test_floats_and_integers_are_ranked_each_among_themselves(
    base: dict[str, int], now: dict[str, int], verdict: Verdict
) -> None:
    assert work(of(base), of(now)).verdict is verdict


def test_fewer_calls_of_fewer_bytes_are_never_wider() -> None:
    assert work(of({"float32": 505}, 600_000), of({"float32": 445, "float64": 7}, 100_000)).verdict in (
        Verdict.OTHER_DTYPES,
        Verdict.LESS_WORK,
    )
    assert work(of({"float32": 505}, 600_000), of({"float64": 452}, 700_000)).verdict is Verdict.WIDER
    assert work(of({"float32": 505}, 600_000), of({"float64": 505}, 100_000)).verdict is Verdict.WIDER
    assert work(of({"float32": 505}), of({"float64": 452})).verdict is Verdict.WIDER
    assert work(of({"float32": 505}, 600_000), of({"float64": 452})).verdict is Verdict.WIDER  # bytes unknown now


DTYPES = st.dictionaries(st.sampled_from(["float32", "float64", "bfloat16", "int64->bool"]), st.integers(1, 9))


@given(DTYPES, DTYPES)
def test_what_is_narrower_one_way_is_wider_the_other(base: dict[str, int], now: dict[str, int]) -> None:
    there, back = work(of(base), of(now)).verdict, work(of(now), of(base)).verdict
    assert (Verdict.NARROWER not in (there, back)) or Verdict.WIDER in (there, back)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.errors import UsageError
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.results.acceptance import Acceptance, accepted, lines_of, parsed, proposed
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.diff import TOTAL, Row
from pytest_opprof.verdict.tolerances import PAIRS
from pytest_opprof.verdict.verdicts import TimingVerdict, Verdict

COMMIT = "1a2b3c4d5e6f" + "0" * 28
UNTIMED = TimingVerdict(Verdict.INCOMPARABLE)


def row(op: str, before: int, now: int) -> Row:
    verdict = Verdict.MORE if before else Verdict.NEW
    return Row(op, OpCounts(Range(before)) if before else None, OpCounts(Range(now)), None, None, verdict)


@pytest.mark.parametrize(
    ("text", "tests", "ops", "reason"),
    [
        ("Where", "", {"Where": None}, ""),
        ("Where, Equal", "", {"Where": None, "Equal": None}, ""),
        ("Where,Equal=+5", "", {"Where": None, "Equal": 5}, ""),
        (
            "Where=+15 Equal=+5 (branchless: 8.7x faster on MPS)",
            "",
            {"Where": 15, "Equal": 5},
            "branchless: 8.7x faster on MPS",
        ),
        ("tests/test_a.py::* Where=+15", "tests/test_a.py::*", {"Where": 15}, ""),
        ("test_a.py::test_b[x-1] Where", "test_a.py::test_b[x-1]", {"Where": None}, ""),
        ("aten::native_layer_norm=+2, time", "", {"aten::native_layer_norm": 2, "time": None}, ""),
        ("'my op'=+1", "", {"my op": 1}, ""),
        ("Where (a (nested) reason)", "", {"Where": None}, "a (nested) reason"),
        ("Where (\x1b[31mred)", "", {"Where": None}, "?[31mred"),
    ],
)
def test_a_trailer_names_tests_ops_and_a_reason(text: str, tests: str, ops: dict[str, int | None], reason: str) -> None:
    assert parsed(text, COMMIT) == Acceptance(COMMIT, tests, ops, reason)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it names no op"),
        ("tests/test_a.py::*", "it names no op"),
        ("(a reason)", "it names no op"),
        ("Where=15", "'Where=15' is no number of extra calls"),
        ("Where=+", "is no number of extra calls"),
        ("Where=+-1", "is no number of extra calls"),
        ("Where (why", "the reason has no closing parenthesis"),
        ("'Where", "no closing quotation"),
    ],
)
def test_a_trailer_that_means_nothing_is_an_error_that_names_its_commit(text: str, why: str) -> None:
    with pytest.raises(UsageError) as error:
        parsed(text, COMMIT)
    assert str(error.value).startswith("Opprof-Accept in 1a2b3c4d5e: ")
    assert why in str(error.value)


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        assert parsed(text, COMMIT).ops
    except UsageError:
        pass


def test_trailers_are_found_where_a_squash_puts_them() -> None:
    message = (
        "Branchless hsv (#12)\n\n* first\n\nOpprof-Accept: Where\n\n* opprof-accept: Equal=+5\n\n"
        "  Opprof-Accept: tests/a.py::*\n    Add=+1\nSee Opprof-Accept: in the docs\n"
    )
    assert lines_of(message) == ["Where", "Equal=+5", "tests/a.py::* Add=+1"]


@pytest.mark.parametrize(
    ("text", "now", "is_accepted"),
    [
        ("Cast", 100, True),
        ("Cast=+3", 5, True),
        ("Cast=+3", 6, False),
        ("Cast=+0", 3, False),
        ("MatMul", 5, False),
        ("test_a.py::test_x Cast", 5, True),
        ("test_a.py::* Cast", 5, True),
        ("test_b.py::* Cast", 5, False),
        ("test_a.py::test_x[1] Cast", 5, False),
    ],
)
def test_as_many_calls_more_as_accepted_pass_and_one_more_fails(text: str, now: int, is_accepted: bool) -> None:
    diff = compare(({"Cast": OpCounts(Range(2))}, {}), ({"Cast": OpCounts(Range(now))}, {}), UNTIMED, PAIRS)
    found = accepted([parsed(text, COMMIT)], "test_a.py::test_x", diff)
    assert list(found) == ["Cast"] * is_accepted


def test_a_slower_window_is_accepted_as_time() -> None:
    slower = TimingVerdict(Verdict.SLOWER, total=Verdict.SLOWER)
    diff = compare(({"Cast": OpCounts(Range(2))}, {}), ({"Cast": OpCounts(Range(2))}, {}), slower, PAIRS)
    assert list(accepted([parsed("time", COMMIT)], "t", diff)) == ["time"]
    assert not accepted([parsed("Cast", COMMIT)], "t", diff)


def wider(op: str) -> Row:
    return Row(op, OpCounts(Range(2)), OpCounts(Range(2)), None, None, Verdict.WIDER)


@pytest.mark.parametrize(
    ("worse", "lines"),
    [
        ({}, []),
        ({"a.py::x": [row("Where", 0, 15)]}, ["a.py::x Where=+15"]),
        ({"a.py::x[1]": [row("Where", 0, 15)]}, ["a.py::x[1] Where=+15"]),
        (
            {"a.py::x[1]": [row("Where", 1, 15)], "a.py::x[2]": [row("Where", 1, 31), row("Equal", 0, 5)]},
            ["a.py::x Where=+30, Equal=+5"],
        ),
        (
            {"a.py::x": [row("Where", 0, 1)], "b.py::y": [row("Cast", 0, 2), wider("Mul")]},
            ["a.py::x Where=+1", "b.py::y Cast=+2, Mul=+0"],
        ),
        ({f"a.py::x{n}": [row("Where", 0, 1 + n)] for n in range(9)}, ["a.py::* Where=+9"]),
        ({f"{n}.py::x": [row("Where", 0, 1 + n)] for n in range(9)}, ["Where=+9"]),
        ({"a.py::x[a b]": [row("Where", 0, 1)]}, ["a.py::x Where=+1"]),
        ({"a b.py::x": [row("Where", 0, 1)]}, ["Where=+1"]),
        ({"a.py::x": [Row(TOTAL, None, None, 1, 2, Verdict.SLOWER)]}, ["a.py::x time"]),
        ({"a.py::x": [Row("grad_nodes", None, None, None, None, Verdict.ABOVE)]}, ["a.py::x grad_nodes"]),
        ({"a.py::x": [row("my op", 0, 1)]}, ["a.py::x 'my op'=+1"]),
    ],
)
def test_the_proposed_trailers_are_as_narrow_as_they_can_be(worse: dict[str, list[Row]], lines: list[str]) -> None:
    assert proposed(worse) == [f"Opprof-Accept: {line}" for line in lines]


def test_other_dtypes_are_accepted_without_more_calls_and_a_function_with_all_its_parameters() -> None:
    acceptance = parsed("a.py::x Mul=+0", COMMIT)
    assert acceptance.covers("a.py::x[1-b]", wider("Mul"))
    assert not acceptance.covers("a.py::x", row("Mul", 2, 3))
    assert not acceptance.covers("a.py::x_other", wider("Mul"))


names = (
    st.text(st.characters(categories=["L", "N"], include_characters=":_[] ->*"), min_size=1)
    .map(str.strip)
    .filter(lambda name: name and "/" not in name and "," not in name and ".py" not in name and " (" not in name)
)


@given(
    st.dictionaries(
        st.sampled_from(["a.py::x", "a.py::y[1]", "tests/b.py::T::z"]),
        st.lists(st.builds(row, names, st.integers(0, 9), st.integers(10, 99)), min_size=1, max_size=3),
        min_size=1,
    )
)
def test_the_proposed_trailer_accepts_all_that_it_was_made_for(worse: dict[str, list[Row]]) -> None:
    accepting = [parsed(line.removeprefix("Opprof-Accept: "), COMMIT) for line in proposed(worse)]
    assert all(any(one.covers(test, each) for one in accepting) for test, rows in worse.items() for each in rows)

"""A proposed budget is kept by what it was made from, and broken by more."""

from __future__ import annotations

import re
import shlex
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.units import parse
from pytest_opprof.verdict.budgets import Budget, parse_pair
from pytest_opprof.verdict.proposal import as_check, as_mark, proposed

from ..conftest import Launch, profile_of

LAUNCHES = st.tuples(
    st.sampled_from(["aten::mm", "aten::relu", "Cast", "MemcpyHtoD", "my op", "x\"'\\y"]), st.integers(0, 10**7)
)


def propose(profile: OpProfile, top: int = 5, margin: float = 0.2) -> dict[str, int | str]:
    return proposed(profile.ops, profile.total.device_ns, profile.peak_memory, top, margin)


def of_mark(text: str) -> Budget:
    """Return the budget of a mark, as Python reads it."""
    found: list[Budget] = []

    def op_budget(*mappings: object, **keywords: object) -> None:
        found.append(Budget.parse(mappings, keywords))

    eval(text.removeprefix("@"), {"pytest": SimpleNamespace(mark=SimpleNamespace(op_budget=op_budget))})
    return found[0]


def of_check(text: str) -> Budget:
    words = shlex.split(text)
    assert words[:3] == ["opprof", "check", "a b.json"]
    pairs = [words[number + 1] for number, word in enumerate(words) if word == "--budget"]
    budget = Budget()
    for pair in pairs:
        budget = parse_pair(pair).over(budget)
    return budget


@given(
    st.lists(LAUNCHES, max_size=8), st.lists(LAUNCHES, max_size=8), st.integers(0, 3), st.sampled_from([0.0, 0.1, 3])
)
def test_what_it_was_made_from_keeps_it(one: list[Launch], other: list[Launch], top: int, margin: float) -> None:
    profile = profile_of(one, other)
    limits = propose(profile, top, margin)
    for budget in (of_mark(as_mark(limits)), of_check(as_check("a b.json", limits))):
        assert budget.check(profile) == []
    assert of_mark(as_mark(limits)) == of_check(as_check("a b.json", limits))


def test_one_call_or_one_cast_more_breaks_it_and_so_does_more_time_than_the_margin() -> None:
    before: list[Launch] = [("aten::mm", 1_000_000), ("MemcpyHtoD", 5_000), ("aten::relu", 10)]
    budget = of_mark(as_mark(propose(profile_of(before), top=1)))
    assert budget.check(profile_of(before)) == []
    for more in (("aten::mm", 1), ("MemcpyHtoD", 1), ("Cast", 1), ("aten::relu", 300_000)):
        assert len(budget.check(profile_of([*before, more]))) == 1, more
    assert budget.check(profile_of([*before, ("aten::relu", 100_000)])) == []


def test_calls_are_exact_and_times_rounded_up() -> None:
    limits = propose(profile_of([("aten::mm", 1_234_567)] * 3), margin=0)
    assert limits == {"MatMul": 3, "Cast": 0, "device_time": "3.72 ms"}
    assert parse("3.72 ms").value >= 3 * 1_234_567


def test_what_is_no_op_or_no_key_gets_no_limit() -> None:
    profile = profile_of([("(unlinked)", 10), ("k[4]", 10), ("a=b", 10)])
    assert propose(profile).keys() == {"Cast", "device_time"}
    limits = proposed(profile.ops, None, [1 << 20], 5, 0.1, lambda op: op != "Cast")
    assert limits == {"peak_memory": "1.1 MiB"}


def test_a_name_that_no_keyword_can_be_is_a_key_of_the_mapping() -> None:
    assert as_mark({'say "hi"': 1, "Größe": 2}) == '@pytest.mark.op_budget({\'say "hi"\': 1, "Größe": 2})'
    assert re.fullmatch(r"@pytest\.mark\.op_budget\(\)", as_mark({}))

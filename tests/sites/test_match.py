from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.sites import match
from pytest_opprof.sites.match import Grown, grown, with_callers
from pytest_opprof.sites.places import MOST_FRAMES, Calls, OpSites, Place, Site

from . import refactorings
from .refactorings import Line, Version

ONE, TWO, THREE = (Calls(calls, calls) for calls in (1, 2, 3))


def line(text: str, function: str = "Norm.forward", file: str = "nets.py") -> Place:
    return Place(file, function, text)


def at(*chain: Place, backward: bool = False) -> Site:
    return Site(chain, backward)


def told(before: OpSites, now: OpSites) -> list[tuple[int, str]]:
    """Return how many calls more which line has."""
    return [(each.more, each.place.text) for each in grown(before, now)]


class TestRefactored:
    """What is named in 165 versions of a model that were refactored and made slower at once."""

    def said(self, by: Callable[[Version, Version], set[str]]) -> Counter[str]:
        base = refactorings.version(refactorings.SOURCE, refactorings.CASTS)
        found: Counter[str] = Counter()
        for _, now in refactorings.versions():
            before, after = (total(each, lambda line: (line.name, line.is_backward)) for each in (base, now))
            slower = {name for (name, _), calls in (after - before).items() if calls}
            said = by(base, now)
            found["exact" if said == slower else "others" if slower <= said else "missed"] += 1
        return found

    def by_key(self, key: Callable[[Line], Hashable]) -> Counter[str]:
        def names(base: Version, now: Version) -> set[str]:
            more = total(now, key) - total(base, key)
            return {line.name for line in now if more[key(line)]}

        return self.said(names)

    def test_the_slower_line_is_named_in_each_and_no_other(self) -> None:
        def names(base: Version, now: Version) -> set[str]:
            places = {each.place for each in grown(refactorings.sites(base), refactorings.sites(now))}
            return {line.name for line in now if line.place in places}

        assert self.said(names) == {"exact": 165}

    def test_no_plain_key_does_that(self) -> None:
        by_number = self.by_key(lambda line: (line.place.file, line.number, line.is_backward))
        assert by_number == {"exact": 74, "others": 80, "missed": 11}
        by_text = self.by_key(lambda line: (line.place, line.is_backward))
        assert by_text == {"exact": 46, "others": 119}


def total(casts: Version, key: Callable[[Line], Hashable]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for each, calls in casts.items():
        found[key(each)] += calls
    return found


def test_a_new_line_is_told_as_new_with_the_way_to_it() -> None:
    calls_it = line("x = self.norm(x)", "Block.forward")
    before = {at(line("y = x.float()"), calls_it): ONE}
    assert grown(before, {**before, at(line("y = y.double()"), calls_it): TWO}) == (
        Grown((line("y = y.double()"), calls_it), Calls(0, 0), TWO, Calls(0, 0), Calls(0, 0), True),
    )


def test_the_line_that_calls_a_function_without_ops_before_is_its_caller() -> None:
    helper, inner = line("return y / y.std()", "normed"), line("z = normed(x)", "scaled")
    now, entry, other = (line(text, "Block.forward") for text in ("x = scaled(x)", "h = scaled(x)", "x = act(x)"))
    test = line("block(x)", "test_block", "test_m.py")
    sites = {at(helper, inner, now, test): TWO, at(helper, inner, entry, test): ONE, at(helper, inner, test): ONE}
    lines = grown({}, sites)
    (one,) = with_callers(lines, sites, {"Relu": {at(other, test): ONE}})
    assert (one.place, one.is_new, one.now) == (helper, True, Calls(4, 4))
    assert [(each.place, each.more, each.is_new) for each in one.callers] == [(now, 2, True)]
    (one,) = with_callers(
        lines, sites, {"Relu": {at(now, test): ONE}}
    )  # the line was there, and called another function
    assert [each.is_new for each in one.callers] == [False]
    for base in ({}, {"Relu": {at(line("y = 1", "normed")): ONE}}):
        assert with_callers(lines, sites, base) == lines


def test_calls_of_backward_ops_are_told_with_the_line_and_apart() -> None:
    place = line("y = x.float()")
    before, now = ({at(place): calls, at(place, backward=True): calls} for calls in (ONE, TWO))
    (one,) = grown(before, now)
    assert (one.before, one.now, one.backward_before, one.backward_now, one.is_new) == (
        TWO,
        Calls(4, 4),
        ONE,
        TWO,
        False,
    )


def test_a_line_with_more_is_compared_with_what_it_was_before_it_was_edited() -> None:
    (one,) = grown({at(line("y = x.float()")): ONE}, {at(line("wide = x.float().double()")): TWO})
    assert (one.before, one.now, one.is_new) == (ONE, TWO, False)


def test_what_grew_most_is_told_first() -> None:
    now = {at(line(f"y{calls} = x.float()", f"f{calls}")): Calls(calls, calls) for calls in (1, 3, 2)}
    assert told({}, now) == [(3, "y3 = x.float()"), (2, "y2 = x.float()"), (1, "y1 = x.float()")]


def test_rounds_that_differ_are_compared_by_their_most() -> None:
    place = line("y = x.float()")
    assert told({at(place): Calls(1, 3)}, {at(place): Calls(2, 3)}) == []
    assert told({at(place): Calls(3, 3)}, {at(place): Calls(1, 4)}) == [(1, place.text)]


class TestWork:
    """More FLOPs or bytes with as many calls."""

    ONE_MORE: ClassVar[OpSites] = {
        at(line("q = self.q(x)")): Calls(4, 4, 100, 1_000),
        at(line("return self.head(x)", "Model.forward")): Calls(1, 1, 300, 9_000),
    }

    def test_the_line_that_does_more_is_told_by_what_grew(self) -> None:
        before = {site: calls._replace(flops=1_000, bytes=100) for site, calls in self.ONE_MORE.items()}
        assert grown(before, self.ONE_MORE) == ()
        for by, more in (("flops", 8_000), ("bytes", 200)):
            (head,) = grown(before, self.ONE_MORE, by)
            assert (head.place.text, head.more, head.is_new) == ("return self.head(x)", more, False)

    def test_two_lines_made_one_are_that_one_which_does_more(self) -> None:
        before = {at(line(f"x = self.{name}(x)")): Calls(1, 1, None, 10) for name in ("rows", "columns")}
        (both,) = grown(before, {at(line("return conv2d(x, kernel)")): Calls(1, 1, None, 600)}, "flops")
        assert (both.place.text, both.now.most) == ("return conv2d(x, kernel)", 600)

    def test_nothing_is_told_where_the_amount_of_a_line_is_not_known(self) -> None:
        before = {site: calls._replace(flops=None) for site, calls in self.ONE_MORE.items()}
        assert grown(before, self.ONE_MORE, "flops") == grown(self.ONE_MORE, before, "flops") == ()


class TestMoved:
    def test_a_line_split_in_two_is_not_told(self) -> None:
        before = {at(line("y = softmax(x.float()).to(x.dtype)")): TWO}
        assert told(before, {at(line("wide = x.float()")): ONE, at(line("y = softmax(wide).to(x.dtype)")): ONE}) == []

    def test_what_one_line_of_a_function_has_more_than_another_has_less_is_told(self) -> None:
        before = {at(line("a = x.float()")): TWO}
        now = {at(line("a = x.float()")): ONE, at(line("for each in x:")): TWO}
        assert told(before, now) == [(2, "for each in x:")]

    def test_a_line_that_went_to_another_function_is_not_told(self) -> None:
        before = {at(line("weights = x.float()", "Attention.forward")): ONE}
        assert told(before, {at(line("weights = q.float()", "_weights")): ONE}) == []

    def test_a_line_unlike_what_another_function_lost_is_told(self) -> None:
        before = {at(line("weights = x.float()", "Attention.forward")): ONE}
        assert told(before, {at(line("return embed[tokens] * 2", "Model.embed")): ONE}) == [
            (1, "return embed[tokens] * 2")
        ]

    def test_a_class_that_was_renamed_has_the_lines_of_its_old_name(self) -> None:
        before = {at(line("y = self.scale * x.to(dtype)", "Norm.forward")): TWO}
        now = {
            at(line("scaled = self.scale * x", "RMSNorm.forward")): ONE,
            at(line("return fused(scaled.to(dtype))", "RMSNorm.forward")): ONE,
        }
        assert told(before, now) == []


class TestCallers:
    HELPER = line("return x.float()", "as_float", "helpers.py")
    NORM = line("y = as_float(x)", "Norm.forward")
    BLOCK = line("x = self.norm1(x)", "Block.forward")
    BEFORE: ClassVar[OpSites] = {at(HELPER, NORM, BLOCK): TWO}

    def test_a_new_caller_of_an_old_line_is_named(self) -> None:
        new = line("return as_float(x)", "Model.forward")
        (helper,) = grown(self.BEFORE, {**self.BEFORE, at(self.HELPER, new): ONE})
        assert (helper.place, helper.before, helper.now, helper.is_new) == (self.HELPER, TWO, THREE, False)
        assert [(each.place, each.more, each.is_new) for each in helper.callers] == [(new, 1, True)]
        assert helper.chain == (self.HELPER, new)

    def test_so_is_the_new_caller_of_an_old_caller(self) -> None:
        new = line("x = self.norm2(x)", "Block.forward")
        (helper,) = grown(self.BEFORE, {**self.BEFORE, at(self.HELPER, self.NORM, new): ONE})
        (norm,) = helper.callers
        assert (norm.place, norm.before, norm.now, norm.is_new) == (self.NORM, TWO, THREE, False)
        assert [(each.place, each.is_new) for each in norm.callers] == [(new, True)]
        assert helper.chain == (self.HELPER, self.NORM, new)

    def test_a_caller_that_was_edited_is_not(self) -> None:
        edited = self.NORM._replace(text="wide = as_float(x)")
        new = line("return as_float(x)", "Model.forward")
        (helper,) = grown(self.BEFORE, {at(self.HELPER, edited, self.BLOCK): TWO, at(self.HELPER, new): ONE})
        assert [each.place for each in helper.callers] == [new]

    def test_a_line_taken_out_of_the_function_that_calls_it_now_has_no_new_caller_for_that(self) -> None:
        before = {at(line("y = x.float()"), self.BLOCK): TWO}
        again = line("return as_float(x)", "Model.forward")
        (helper,) = grown(before, {at(self.HELPER, self.NORM, self.BLOCK): TWO, at(self.HELPER, again): ONE})
        assert [each.place for each in helper.callers] == [again]
        assert told(before, {at(self.HELPER, self.NORM, self.BLOCK): TWO}) == []

    def test_a_line_put_into_its_caller_has_no_new_caller_for_that(self) -> None:
        inlined, again = line("y = x.float()"), line("x = self.norm2(x)", "Block.forward")
        (norm,) = grown(self.BEFORE, {at(inlined, self.BLOCK): TWO, at(inlined, again): ONE})
        assert [each.place for each in norm.callers] == [again]
        assert told(self.BEFORE, {at(inlined, self.BLOCK): TWO}) == []

    def test_code_that_calls_itself_is_followed_so_far_and_no_further(self) -> None:
        again = line("return self.walk(child)", "Tree.walk")
        chain = (line("y = x.float()", "Tree.walk"), *[again] * 5_000)
        (one,) = grown({at(*chain): ONE}, {at(*chain): TWO})
        assert one.more == 1
        assert len(one.chain) == MOST_FRAMES


WORDS = st.sampled_from("x y self.norm float to dtype = ( ) . return".split())
PLACES = st.builds(
    Place,
    st.sampled_from(["a.py", "b.py"]),
    st.sampled_from(["f", "g", "A.f", "B.f"]),
    st.lists(WORDS, max_size=6).map(" ".join),
)
SITES = st.dictionaries(
    st.builds(Site, st.lists(PLACES, min_size=1, max_size=3).map(tuple), st.booleans()),
    st.tuples(st.integers(0, 3), st.integers(1, 3)).map(lambda each: Calls(min(each), max(each))),
    max_size=8,
)


@given(SITES)
def test_two_sides_that_are_the_same_have_nothing_that_grew(sites: OpSites) -> None:
    assert grown(sites, sites) == ()


@pytest.mark.slow
@given(SITES, SITES, st.randoms(use_true_random=False))
def test_the_order_of_sites_does_not_matter(before: OpSites, now: OpSites, rng: random.Random) -> None:
    sides = [dict(rng.sample(sorted(side.items()), len(side))) for side in (before, now)]
    assert grown(*sides) == grown(before, now)


@pytest.mark.slow
@given(SITES, SITES)
def test_lines_that_grew_have_the_calls_of_their_sites_and_all_that_an_op_has_more(
    before: OpSites, now: OpSites
) -> None:
    found = grown(before, now)
    of_line: dict[Place, list[Calls]] = defaultdict(list)
    for site, calls in now.items():
        of_line[site.chain[0]].append(calls)
    assert len({each.place for each in found}) == len(found)
    for each in found:
        assert each.now == Calls.total(of_line[each.place])
        assert each.more > 0
        assert not each.is_new or each.before == Calls(0, 0)
        assert any(site.chain[: len(each.chain)] == each.chain for site in now)
    more = Calls.total(now.values()).most - Calls.total(before.values()).most
    assert sum(each.more for each in found) >= more


@pytest.mark.slow
@given(SITES, SITES)
def test_callers_of_a_line_have_no_more_than_it(before: OpSites, now: OpSites) -> None:
    def check(one: Grown) -> None:
        assert sum(each.now.most for each in one.callers) <= one.now.most
        for each in one.callers:
            check(each)

    for one in grown(before, now):
        check(one)


def test_lines_beyond_those_that_are_compared_are_told_as_new(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {at(line(f"x{number} = y.float()")): ONE for number in range(100)}
    now = {at(line(f"z{number} = y.float()")): TWO for number in range(100)}
    assert [each.is_new for each in grown(before, now)] == [False] * 100
    monkeypatch.setattr(match, "MOST_COMPARED", 0)
    assert all(each.is_new for each in grown(before, now))
    assert grown(before, now)

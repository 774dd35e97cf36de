from __future__ import annotations

from pytest_opprof.verdict.verdicts import OF_MORE_CALLS, Status, Verdict


def test_a_verdict_is_of_more_calls_or_of_calls_at_all_in_one_place() -> None:
    more = [verdict for verdict in Verdict if verdict.is_of_more_calls]
    assert more == [Verdict.NEW, Verdict.MORE]
    assert [verdict for verdict in Verdict if verdict.is_of_calls] == [*more, Verdict.GONE, Verdict.FEWER]
    assert sorted(OF_MORE_CALLS) == ["more calls", "new"]


def test_more_calls_are_known_without_times_and_fail_a_test() -> None:
    assert all(verdict.does_more for verdict in Verdict if verdict.is_of_more_calls)


def test_no_two_members_have_the_same_words() -> None:
    for kind in (Status, Verdict):
        assert len({each.words for each in kind}) == len({each.value for each in kind}) == len(kind)

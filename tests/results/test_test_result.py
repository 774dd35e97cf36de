"""The status of a test, and how the summary counts it."""

from __future__ import annotations

from typing import get_args

from pytest_opprof.results.test_result import WORDS
from pytest_opprof.verdict.verdicts import Status, Verdict


def test_each_status_has_words_and_a_place_in_the_order() -> None:
    # A status without a place would be counted as "ok".
    assert {*WORDS, "ok"} == {*get_args(Status)}


def test_each_verdict_gives_a_status_that_there_is() -> None:
    assert {verdict.status for verdict in Verdict} <= {*get_args(Status)}

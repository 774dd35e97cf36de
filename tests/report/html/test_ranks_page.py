"""The page of several ranks."""

from __future__ import annotations

from dataclasses import replace

from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.saved import Collective, SavedOp, SavedProfile
from pytest_opprof.report.html import ranks_page
from pytest_opprof.verdict.spread import spread

from .read import Page, row

HERE = Environment((("made", "1"),), "cpu", "")


def page_of(*ranks: SavedProfile) -> Page:
    names = [f"rank {number}" for number in range(len(ranks))]
    return Page(ranks_page.html(spread(ranks), names, "traces", "made", ["rank 0: a remark"]))


def rank(ns: float | None, casts: int = 1, *collectives: Collective, **more: object) -> SavedProfile:
    records = SavedOp("a", "MatMul", device_ns=ns), SavedOp("b", "Cast", calls=casts)
    return SavedProfile("made", HERE, records, collectives=collectives, **more)  # type: ignore[arg-type]


def test_it_says_how_ranks_differ() -> None:
    page = page_of(rank(1e6), rank(3e6, 4), rank(2e6))
    assert page.text.startswith("rank 1 takes 3 ms of device time, rank 0 1 ms traces · made · 3 ranks")
    assert "rank 0: a remark" in page.text
    assert [cells[0] for cells in page.tables["ranks"]] == ["rank", "rank 0", "rank 1", "rank 2"]
    assert page.tables["calls"] == [["op", "rank 0", "rank 1", "rank 2"], ["Cast", "1", "4", "1"]]
    assert row(page, "times", "MatMul")[:5] == ["MatMul", "+200%", "1 ms", "3 ms", "2 ms"]
    assert "waits" not in page.tables


def test_an_op_that_some_ranks_do_not_run_says_on_which_it_runs() -> None:
    def extra(*ops: str) -> SavedProfile:
        records = [SavedOp(op, op, device_ns=9e6) for op in ops]
        return replace(rank(1e6), records=(SavedOp("a", "MatMul", device_ns=1e6), *records))

    page = page_of(extra("Cast", "Add"), extra("Add"), extra())
    assert row(page, "times", "Cast")[1:5] == ["only on rank 0", "9 ms", "-", "-"]
    assert row(page, "times", "Add")[1:5] == ["not on rank 2", "9 ms", "9 ms", "-"]


def test_ranks_that_lack_what_others_have_are_named() -> None:
    ranks = spread([rank(1e6), rank(None), rank(None)])
    page = Page(ranks_page.html(ranks, ["rank 0", "rank 1", "rank 2"], "traces", "made", (), ["rank 2"]))
    assert "? rank 1, rank 2 have no device time." in page.text
    assert "? rank 2 has no table of kernels." in page.text


def test_it_says_who_waited_for_whom() -> None:
    page = page_of(*(rank(1e6, 1, Collective("AllReduce", "0", 0, ns)) for ns in (5e6, 1e6, 3e6)))
    assert "All ranks call the same ops, equally often." in page.text
    assert row(page, "waits", "rank 0") == ["rank 0", "5 ms", "4 ms", "", "4 ms", "0 ns", "0 of 1", "0 ns", ""]
    assert row(page, "waits", "rank 1") == ["rank 1", "1 ms", "0 ns", "0 ns", "", "0 ns", "1 of 1", "6 ms", ""]


def test_it_says_why_nobody_knows_who_waited() -> None:
    unknown = rank(1e6, 1, Collective("AllReduce", None, 0, 1e6))
    assert "do not record which ranks communicate" in page_of(unknown, unknown).text


def test_ranks_without_times_and_with_other_steps_are_said_to_be_so() -> None:
    page = page_of(rank(None), rank(None, steps=("1", "2")))
    assert page.text.startswith("2 ranks, without times")
    assert "? The ranks have different numbers of steps" in page.text

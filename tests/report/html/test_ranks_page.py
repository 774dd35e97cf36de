"""The page of several ranks."""

from __future__ import annotations

from dataclasses import replace

from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.saved import Collective, SavedOp, SavedProfile
from pytest_opprof.questions.spread import spread
from pytest_opprof.report.html import ranks_page

from .read import Page, row

HERE = Environment((("made", "1"),), "cpu", "")


def page_of(*ranks: SavedProfile) -> Page:
    return Page(ranks_page.html(spread(ranks), range(len(ranks)), "traces", "made", ["rank 0: a remark"]))


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
    page = Page(ranks_page.html(ranks, [0, 1, 2], "traces", "made", (), [2]))
    assert "? ranks 1-2 have no device time." in page.text
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


def test_it_draws_each_step_of_each_rank() -> None:
    def timed(*steps_ns: float) -> SavedProfile:
        records = (SavedOp("a", "MatMul", step=step, device_ns=ns) for step, ns in enumerate(steps_ns))
        waits = (Collective("AllReduce", "0", step, 9e6 - ns) for step, ns in enumerate(steps_ns))
        return replace(rank(None), records=tuple(records), collectives=tuple(waits), steps=("3", "4"))

    page = page_of(timed(1e6, 1e6), timed(1e6, 8e6))
    assert page.tables["in-steps"] == [
        ["Device time", "step 3", "step 4"],
        ["rank 0", "1 ms", "1 ms"],
        ["rank 1", "1 ms", "8 ms"],
    ]
    assert page.tables["waited-in-steps"][1:] == [["rank 0", "0 ns", "7 ms"], ["rank 1", "0 ns", "0 ns"]]
    assert "Device time the stronger, the longer: 1 ms to 8 ms" in page.text


def many(number: int, ops: int, steps: int) -> list[SavedProfile]:
    """Ranks that differ in each op and step, in groups of 8; rank 7 is the slowest, and the others wait for it."""

    def of(at: int) -> SavedProfile:
        ns = 2e6 if at == 7 else 1e6 + 1000 * at
        records = [
            SavedOp(f"op{op}", f"op{op}", step=step, calls=1 + at, device_ns=ns)
            for op in range(ops)
            for step in range(steps)
        ]
        waits = [Collective("AllReduce", f"{at // 8}", step, 3e6 - ns, "tp") for step in range(steps)]
        labels = tuple(str(step) for step in range(steps))
        return SavedProfile("made", HERE, tuple(records), steps=labels, collectives=tuple(waits))

    return [of(at) for at in range(number)]


def test_of_many_ranks_the_slowest_and_the_latest_are_shown_and_the_others_are_a_closed_table() -> None:
    page = page_of(*many(40, 2, 3))
    assert [cells[0] for cells in page.tables["ranks"][1:4]] == ["rank 7", "rank 39", "rank 38"]
    assert (len(page.tables["ranks"]), len(page.tables["all-ranks"])) == (11, 41)
    assert page.tables["waits"][1] == ["rank 7", "3 ms", "0 ns", "-", "3 of 15", "20.9 ms"]
    assert row(page, "waits", "rank 39")[:4] == ["rank 39", "5.88 ms", "0 ns", "-"]
    assert row(page, "all-waits", "rank 0")[3] == "rank 7: 3 ms"
    assert row(page, "groups", "tp")[:5] == ["tp", "ranks 0-7", "3", "20.9 ms", "rank 7"]
    assert page.tables["calls"][1] == ["op0", "120", "3 on rank 0, 6 on rank 1, other counts on 37 ranks"]
    assert row(page, "times", "op0") == ["op0", "+100%", "3 ms (rank 0)", "3.06 ms", "6 ms (rank 7)"]


def test_512_ranks_that_differ_in_all_they_do_are_less_than_1_mb() -> None:
    found = spread(many(512, 20, 3))
    assert len(found.calls) == len(found.times) == 20
    html = ranks_page.html(found, range(512), "traces", "made")
    assert 100_000 < len(html) < 600_000
    grown = ranks_page.html(replace(found, calls=found.calls * 50, times=found.times * 50), range(512), "", "made")
    assert len(grown) < 1_000_000
    assert grown.count("and 700 more ops: ") == 2

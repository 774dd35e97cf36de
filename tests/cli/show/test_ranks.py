"""``opprof show --rank all``, as a user calls it: of real ranks."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from pytest_opprof.cli import main

DATA = Path(__file__).parents[2] / "data"
RANKS = DATA / "torch-ranks"
"""Three ranks: rank 1 has one more MatMul a step, rank 2 two Casts."""


def write_rank(folder: Path, rank: int, *spans: tuple[str, int, int]) -> None:
    """Write the trace of a rank: the name of each op, its begin and its duration in us."""
    events = [
        {"ph": "X", "cat": "user_annotation" if "gloo" in name else "cpu_op", "name": name, "pid": 1, "tid": 1}
        | {"ts": begin, "dur": us}
        for name, begin, us in spans
    ]
    header = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "pg_config": [{}]}}
    folder.mkdir(exist_ok=True)
    (folder / f"{rank}.pt.trace.json").write_text(json.dumps({**header, "traceEvents": events}), "utf-8")


@pytest.fixture
def twenty(tmp_path: Path) -> Path:
    """Twenty ranks, made by hand: rank 7 computes for longest, rank 5 comes last and has a Cos more."""
    for rank in range(20):
        ops = [("aten::mm", 1, 900 if rank == 7 else 100), ("aten::copy_", 902, 5)]
        cos = [("aten::cos", 910, 3)] if rank == 5 else []
        write_rank(tmp_path, rank, *ops, *cos, ("gloo:all_reduce", 920, 10 if rank == 5 else 800 + rank))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main.main(arguments)
    return code, *capsys.readouterr()


def test_the_ranks_are_compared_before_the_ops_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "show", str(RANKS), "--rank", "all", "-t", "2")
    assert (code, err) == (0, "")
    summary, _, first = out.partition(f"\n\n{RANKS / 'rank0.pt.trace.json.gz'} (rank 0)\n")
    assert first
    assert (
        summary
        == """\
3 ranks

rank    device time    wall time
------  -------------  -----------
0       1.671 ms       35.26 ms
1       8.665 ms       33.96 ms
2       4.429 ms       33.18 ms

             min                median    max                difference
-----------  -----------------  --------  -----------------  ------------
device time  1.671 ms (rank 0)  4.429 ms  8.665 ms (rank 1)  +418%
wall time    33.18 ms (rank 2)  33.96 ms  35.26 ms (rank 0)  +6.27%

2 ops with other calls on some ranks:

op      rank 0    rank 1    rank 2
------  --------  --------  --------
Cast    0         0         6
MatMul  15        18        15

3 ops with device times that differ by more than 10% and 20 us between ranks:

op      min              median    max               difference
------  ---------------  --------  ----------------  ------------
MatMul  425 us (rank 0)  3.11 ms   7.48 ms (rank 1)  +1659%
Cast    0 ns (rank 0)    0 ns      100 us (rank 2)   new
... and 1 more op (-t 0 shows them)

who waited for whom, in 6 collectives: most for rank 2, which came last in 3; others waited 7.36 ms for it

rank    in collectives    waited    mostly for       came last    others waited
------  ----------------  --------  ---------------  -----------  ---------------
0       29.5 ms           9.01 ms   rank 2: 5.83 ms  1 of 6       1.22 ms
1       23.2 ms           2.65 ms   rank 2: 1.53 ms  2 of 6       5.79 ms
2       23.2 ms           2.71 ms   rank 1: 2.61 ms  3 of 6       7.36 ms"""
    )


def test_json_has_the_same_beside_the_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "show", str(RANKS), "--rank", "all", "--format", "json")[1])
    assert [each["rank"] for each in found["ranks"]] == found["spread"]["ranks"] == [0, 1, 2]
    assert found["spread"]["calls"][0] == {"op": "Cast", "calls": [0, 0, 6]}
    assert found["spread"]["between"]["device_time_ns"]["slowest"] == 1
    assert found["spread"]["times"][0]["times_ns"] == [425112, 7478145, 3113302]
    assert found["spread"]["waits"]["came_last"] == [1, 2, 3]
    assert sum(found["spread"]["waits"]["waited_ns"][0].values()) == 9006053


def test_collectives_that_are_not_the_same_tell_nothing_about_waiting(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for rank in (0, 1):
        profile = RANKS / f"rank{rank}.pt.trace.json.gz"
        text = gzip.decompress(profile.read_bytes()).decode()
        end = -1 if rank else 1
        (tmp_path / f"{rank}.json").write_text(text.replace("gloo:all_reduce", "gloo:all_gather", end), "utf-8")
    out = run(capsys, "show", str(tmp_path), "--rank", "all")[1]
    assert "\nthe profiles do not hold the same collectives, so it is unknown who waited for whom; record" in out
    spread = json.loads(run(capsys, "show", str(tmp_path), "--rank", "all", "--format", "json")[1])["spread"]
    assert (spread["waits"], spread["remark"].partition(",")[0]) == (
        None,
        "the profiles do not hold the same collectives",
    )


def test_ranks_that_are_alike_are_one_column_and_said_to_be_alike(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for number in (0, 1):
        shutil.copy(RANKS / "rank0.pt.trace.json.gz", tmp_path / f"{number}.pt.trace.json.gz")
    out = run(capsys, "show", str(tmp_path), "--rank", "all")[1]
    assert "\nall ranks call the same ops, equally often\n" in out
    shutil.copy(RANKS / "rank2.pt.trace.json.gz", tmp_path / "2.pt.trace.json.gz")
    out = run(capsys, "show", str(tmp_path), "--rank", "all")[1]
    # Two files say that they are rank 0, so files are named.
    assert "op    0.pt.trace.json.gz (rank 0), 1.pt.trace.json.gz (rank 0)    2.pt.trace.json.gz (rank 2)" in out


def test_profiles_of_other_formats_are_not_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shutil.copy(RANKS / "rank0.pt.trace.json.gz", tmp_path)
    main.main(["convert", str(RANKS / "rank1.pt.trace.json.gz"), "-o", str(tmp_path / "rank1.json")])
    capsys.readouterr()
    shutil.copy(DATA / "torch-cpu" / "execution_trace.json.gz", tmp_path)
    code, out, err = run(capsys, "show", str(tmp_path), "--rank", "all")
    assert (code, "3 profiles" in out) == (0, False)
    assert "not compared with each other, as they are of several formats: " in err


@pytest.mark.parametrize("options", [["--breakdown"], ["--kernels"], ["--only-ops"], ["--format", "csv"]])
def test_a_list_of_something_else_has_no_such_summary(capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert "3 ranks" not in run(capsys, "show", str(RANKS), "--rank", "all", *options)[1]


def test_steps_that_are_chosen_are_those_of_every_rank(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "show", str(RANKS), "--rank", "all", "--steps", "4", "--format", "json")[1])
    assert found["spread"]["calls"][0] == {"op": "Cast", "calls": [0, 0, 2]}


def test_the_page_of_all_ranks_is_of_what_they_do_not_share(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, "show", str(RANKS), "--rank", "all", "-o", str(tmp_path / "all.html")) == (0, "", "")
    page = (tmp_path / "all.html").read_text("utf-8")
    assert "rank 1 takes 8.67 ms of device time, rank 0 1.67 ms" in page
    assert '<table id="waits">' in page
    for number in (0, 1):
        shutil.copy(RANKS / f"rank{number}.pt.trace.json.gz", tmp_path)
    shutil.copy(DATA / "torch-cpu" / "execution_trace.json.gz", tmp_path)
    code, _, err = run(capsys, "show", str(tmp_path), "--rank", "all", "-o", str(tmp_path / "all.html"))
    assert (code, "profiles of several formats are not compared: " in err) == (2, True)


@pytest.mark.parametrize("flag", ["--base-rank", "--against-rank"])
def test_one_rank_against_another_of_the_same_folder(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    code, out, _ = run(capsys, "diff", str(RANKS), flag, "0", "--rank", "2")
    assert (code, "Cast: 2 calls (before: 0)" in out) == (1, True)


def test_a_limit_holds_for_each_rank(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", str(RANKS), "--rank", "all", "--budget", "MatMul=5")
    assert code == 1
    assert [f"rank{rank}.pt.trace.json.gz (rank {rank}): within" in out for rank in range(3)] == [True, False, True]
    assert run(capsys, "check", str(RANKS), "--rank", "all", "--budget", "MatMul=6")[0] == 0


def test_of_many_ranks_the_slowest_and_the_latest_are_shown_and_the_others_counted(
    capsys: pytest.CaptureFixture[str], twenty: Path
) -> None:
    out = run(capsys, "show", str(twenty), "--rank", "all", "-t", "3")[1]
    assert out.startswith("20 ranks, the one with the longest device time first\n")
    assert out.count("\n... and 17 more ranks (-t 0 shows them)\n") == 2
    assert "\n7       905 us\n" in out
    assert "which came last in 1; others waited 15.2 ms for it\n\nrank " in out
    assert "op    ranks 0-4,6-19    rank 5\n" in out
    assert "\nbelow: the ops of the slowest, fastest, latest rank (--rank N shows another rank, -t 0 all)\n" in out
    assert out.count("\nPyTorch profiler trace  [torch, cpu]\n") == 3
    out = run(capsys, "show", str(twenty), "--rank", "all", "-t", "0")[1]
    assert "more ranks" not in out
    assert out.count("\nPyTorch profiler trace  [torch, cpu]\n") == 20
    found = json.loads(run(capsys, "show", str(twenty), "--rank", "all", "--format", "json")[1])
    assert len(found["ranks"]) == len(found["spread"]["in_steps"]["time_ns"]) == 20


def test_remarks_on_many_ranks_that_differ_by_numbers_are_one(capsys: pytest.CaptureFixture[str], twenty: Path) -> None:
    err = run(capsys, "show", str(twenty), "--rank", "all")[2].splitlines()
    assert [line for line in err if "shapes were not recorded" in line] == [
        f"opprof: {twenty / '0.pt.trace.json'} (rank 0): shapes were not recorded (record_shapes=True), so casts look"
        " like copies (similar in 19 more profiles)"
    ]
    assert run(capsys, "show", str(twenty), "--rank", "all", "-o", str(twenty / "all.html"))[0] == 0
    page = (twenty / "all.html").read_text("utf-8")
    assert page.count("shapes were not recorded") == 1
    assert "rank 0: shapes were not recorded" in page

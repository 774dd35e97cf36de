"""``opprof diff --rank all``: each rank of a folder with the same rank of another one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_opprof.cli.main import main

from ...report.html.read import Page
from ..show.test_ranks import run, write_rank

SAME = ("aten::mm", 1, 100)
MORE = (SAME, ("aten::cos", 200, 50))


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, str]:
    """Four ranks before and now, of which ranks 1 and 3 have a Cos more, and 2 takes three times as long."""
    now = {0: [SAME], 1: MORE, 2: [("aten::mm", 1, 300)], 3: MORE}
    for rank, spans in now.items():
        write_rank(tmp_path / "before", rank, SAME)
        write_rank(tmp_path / "now", rank, *spans)
    return str(tmp_path / "before"), str(tmp_path / "now")


def test_each_rank_is_compared_with_the_same_rank(folders: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "diff", *folders, "--rank", "all")
    assert (code, err) == (1, "")
    assert [line for line in out.splitlines() if line.startswith("op regression")] == [
        f"op regression: rank {rank}  [torch, cpu]" for rank in (1, 2, 3)
    ]
    assert out.count("\n  Cos: 1 call (before: 0)\n") == 2
    assert "\n  device time: 100 us -> 300 us (+200%), limit 10%\n" in out
    assert out.endswith("opprof: 4 ranks compared, 4 by time, 1 ok, 2 with more calls, 1 slower\n")
    assert run(capsys, "diff", folders[0], folders[0], "--rank", "all")[:2] == (
        0,
        "opprof: 4 ranks compared, 4 by time, 4 ok\n",
    )


def test_of_many_ranks_with_findings_the_first_are_shown_and_the_others_named(
    folders: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(capsys, "diff", *folders, "--rank", "all", "-t", "1")[1]
    assert out.count("op regression: ") == 1
    assert "\n2 more ranks with findings (-t 0 shows them): rank 2, rank 3\n" in out
    assert run(capsys, "diff", *folders, "--rank", "all", "-t", "0")[1].count("op regression: ") == 3


def test_json_and_the_page_have_each_rank(
    folders: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(run(capsys, "diff", *folders, "--rank", "all", "--format", "json")[1])
    assert [(each["test"], each["verdict"]) for each in found["windows"]] == [
        ("rank 0", "ok"),
        ("rank 1", "new"),
        ("rank 2", "slower"),
        ("rank 3", "new"),
    ]
    assert run(capsys, "diff", *folders, "--rank", "all", "-o", str(tmp_path / "diff.html"))[0] == 1
    assert Page((tmp_path / "diff.html").read_text("utf-8")).text.startswith("3 of 4 ")


def test_ranks_that_one_folder_lacks_are_named(folders: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for rank in (1, 2, 3):
        (Path(folders[0]) / f"{rank}.pt.trace.json").unlink()
    code, out, _ = run(capsys, "diff", *folders, "--rank", "all")
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("only in")] == [
        f"only in {folders[1]}: rank {rank}" for rank in (1, 2, 3)
    ]
    (Path(folders[1]) / "0.pt.trace.json").unlink()
    assert "have no rank in common" in run(capsys, "diff", *folders, "--rank", "all")[2]


def test_a_rank_that_cannot_be_read_is_no_pass(folders: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    (Path(folders[1]) / "0.pt.trace.json").write_text("")
    words = ["--rank", "all", "--partial"]
    code, _, err = run(capsys, "diff", folders[1], folders[1], *words)
    assert (code, "opprof cannot tell whether the ranks are worse" in err) == (2, True)
    assert run(capsys, "diff", *folders, *words)[0] == 1  # others are worse


def test_ranks_are_compared_with_ranks(folders: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    said = "--rank all: each rank is compared with the same rank of another folder, or in other steps"
    assert said in run(capsys, "diff", *folders, "--rank", "all", "--base-rank", "1")[2]
    assert said in run(capsys, "diff", *folders, "--base-rank", "all", "--rank", "1")[2]


def test_a_report_reads_runs_and_says_why_no_cluster_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["report", "run.json", "-o", "run.html", "--on", "dask://127.0.0.1:1"])
    assert ended.value.code == 2
    assert (
        "argument --on: dask://127.0.0.1:1: the JSON of a run has kilobytes for each rank, which this machine reads;"
        " leave out --on" in capsys.readouterr().err
    )

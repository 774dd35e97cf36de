from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_opprof.processes.base_cache import FILES, BaseCache
from pytest_opprof.processes.turns import SideRun

COMMIT = "1a2b3c4d5e6f" + "0" * 28
RAN = SideRun(
    ["t.py::a", "t.py::b"],
    {"t.py::a": [{"when": "call"}], "t.py::b": [{"when": "call"}]},
    {"u.py": "why"},
    ["package.compiled"],
)


def cache(folder: Path, *words: str, commit: str = COMMIT) -> BaseCache:
    return BaseCache(folder, commit, words)


@pytest.mark.processes  # Python may start uname
def test_what_is_kept_is_there_in_the_next_run(tmp_path: Path) -> None:
    assert cache(tmp_path).load() == SideRun()
    cache(tmp_path).keep(RAN, {"t.py::a"})
    assert cache(tmp_path).load() == replace(RAN, reports={"t.py::a": RAN.reports["t.py::a"]})


def test_another_run_adds_to_it(tmp_path: Path) -> None:
    cache(tmp_path).keep(RAN, {"t.py::a"})
    again = cache(tmp_path)
    again.load()
    again.keep(RAN, {"t.py::b"})
    assert cache(tmp_path).load() == RAN


@pytest.mark.parametrize(
    ("words", "is_the_same"),
    [
        (("-q", "tests"), True),
        (("tests", "--opprof-summary=/tmp/x"), True),
        (("tests", "--device=cuda"), False),
        (("other",), False),
    ],
)
def test_another_command_has_another_file(tmp_path: Path, words: tuple[str, ...], is_the_same: bool) -> None:
    cache(tmp_path, "tests").keep(RAN, RAN.reports)
    assert bool(cache(tmp_path, *words).load().reports) is is_the_same
    assert not cache(tmp_path, "tests", commit="2" * 40).load().reports


def test_another_content_of_a_file_with_the_tests_to_run_has_another_file(tmp_path: Path) -> None:
    tests = tmp_path / "tests.txt"
    tests.write_text("t.py::a\n")
    cache(tmp_path, f"@{tests}").keep(RAN, RAN.reports)
    assert cache(tmp_path, f"@{tests}").load().reports
    tests.write_text("t.py::b\n")
    assert not cache(tmp_path, f"@{tests}").load().reports
    tests.unlink()
    assert not cache(tmp_path, f"@{tests}").load().reports


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no gzip",
        gzip.compress(b"{"),
        gzip.compress(b"{}"),
        gzip.compress(json.dumps({"commit": COMMIT, "collected": [], "errors": {}, "reports": 1}).encode()),
        gzip.compress(json.dumps({"commit": "2" * 40, "collected": [], "errors": {}, "reports": {}}).encode()),
        gzip.compress(
            json.dumps(
                {"commit": COMMIT, "collected": [], "errors": {}, "reports": {"t": [{"opprof": {"windows": 3}}]}}
            ).encode()
        ),
        gzip.compress(bytes(65 << 20), 1),
    ],
    ids=["empty", "no-gzip", "no-json", "no-fields", "wrong-type", "other-commit", "wrong-record", "bomb"],
)
def test_a_file_that_cannot_be_used_is_named_and_written_again(tmp_path: Path, content: bytes) -> None:
    cache(tmp_path).keep(RAN, RAN.reports)
    (path,) = tmp_path.glob("*.json.gz")
    path.write_bytes(content)
    damaged = cache(tmp_path)
    assert damaged.load() == SideRun()
    assert damaged.problem.startswith(f"{path} cannot be used (")
    assert damaged.problem.endswith("): the base is measured again")
    damaged.keep(RAN, RAN.reports)
    assert cache(tmp_path).load() == RAN


def test_a_folder_that_cannot_be_written_is_a_problem_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    lost = cache(tmp_path / "file" / "folder")
    assert lost.load() == SideRun()
    lost.keep(RAN, RAN.reports)
    assert "cannot be written" in lost.problem


@pytest.mark.slow
def test_the_base_that_was_used_longest_ago_goes(tmp_path: Path) -> None:
    for number in range(FILES + 1):
        cache(tmp_path, commit=f"{number}" * 40).keep(RAN, RAN.reports)
        for path in tmp_path.iterdir():
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 10))
        if number == FILES - 1:
            cache(tmp_path, commit="0" * 40).load()
    assert [bool(cache(tmp_path, commit=f"{number}" * 40).load().reports) for number in range(3)] == [True, False, True]
    assert len(list(tmp_path.iterdir())) == FILES

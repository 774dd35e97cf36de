from __future__ import annotations

from pathlib import Path

import pytest

from pytest_opprof.processes.worktree import Worktree

TREE = Worktree("0123", Path("/x/main"), Path("/tmp/tree"))


@pytest.mark.parametrize(
    ("word", "there"),
    [
        ("/x/main", "/tmp/tree"),
        ("/x/main/tests/test_a.py::test_b[/y]", "/tmp/tree/tests/test_a.py::test_b[/y]"),
        ("/x/main::test_a", "/tmp/tree::test_a"),
        ("--rootdir=/x/main", "--rootdir=/tmp/tree"),
        ("-c/x/main/pytest.ini", "-c/tmp/tree/pytest.ini"),
        ("pythonpath=/x/main/src /x/main /x/main/lib", "pythonpath=/tmp/tree/src /tmp/tree /tmp/tree/lib"),
        ("-opythonpath=/x/main/src", "-opythonpath=/tmp/tree/src"),
        ("addopts=--ignore '/x/main/a b' --pyargs", "addopts=--ignore '/tmp/tree/a b' --pyargs"),
        ("--paths=/x/main/a:/x/main/b,/x/main/c", "--paths=/tmp/tree/a:/tmp/tree/b,/tmp/tree/c"),
    ],
)
def test_a_word_has_the_paths_of_the_revision(word: str, there: str) -> None:
    assert TREE.word(word) == there


@pytest.mark.parametrize(
    "word",
    [
        "/x/main-config/y",
        "/x/main.bak/y",
        "/x/mainline",
        "/x/main copy/y",
        "--rootdir=/x/main-config",
        "/y/x/main/z",
        "../x/main",
        "x/main/test_a.py",
        "tests/test_a.py",
        "-k not /x/main-line",
        "--x/main",
    ],
)
def test_what_is_no_path_in_the_working_tree_stays(word: str) -> None:
    assert TREE.word(word) == word

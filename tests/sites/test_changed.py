"""Which statements differ between two versions of a file."""

from __future__ import annotations

import ast
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.errors import UsageError
from pytest_opprof.sites.changed import Changes, changed_statements

from ..git_history import committed

SOURCE = """\
@cached(
    size=1)
def f(a,
      b):
    total = sum(
        a,
        b,
    )
    if (a and
            b): return total
    try:
        a()
    except (ValueError,
            KeyError):
        b()
    match a:
        case (1 |
              2):
            return 1
        case _:
            return 2
"""


def changed(before: str, now: str) -> set[int]:
    return {line for each in changed_statements(before.encode(), now.encode()) for line in each}


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("        b,", "        c,", {5, 7}),
        ("        a,\n        b,", "        a.c(1)\n        .d(),\n        b,", {5, 6, 7}),
        ("            b):", "            c):", {9, 10}),
        ("return total", "return a", {10}),
        ("KeyError", "OSError", {13, 14}),
        ("              2)", "              3)", {17, 18}),
        ("case _", "case x", {20}),
        ("size=1", "size=2", {1, 2, 3}),
        ("return 2", "return 3", {21}),
        ("        b()\n", "        b()  # often\n", set()),
        ("sum(\n        a,", "sum(a,", set()),
        ("try:", "# more\n    try:", set()),
    ],
)
def test_a_statement_changes_where_changed_expressions_begin_and_of_one_with_a_body_the_header(
    old: str, new: str, lines: set[int]
) -> None:
    now = SOURCE.replace(old, new)
    assert now != SOURCE
    assert changed(SOURCE, now) == lines


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        ("m(\n  a(),\n  k)\n", "m(\n  a(),\n  a(),\n  k)\n", {1, 2}),  # one of two equal calls
        ("y = (a\n  and b\n  and c)\n", "y = (a\n  or b\n  or c)\n", {1, 2, 3}),
        ("x = [\n  g(i)\n  for i in a\n  if i]\n", "x = [\n  g(i)\n  for i in a]\n", {1, 2, 3}),
        ("x = (a\n  .b(1)\n  .c(2))\n", "x = (a\n  .b(1)\n  .c(3))\n", {1, 3}),
        ("x = (a\n  + b\n  + c)\n", "x = (a\n  * b\n  + c)\n", {1}),
    ],
)
def test_parts_that_may_run_now_or_more_often_changed_with_the_expression_that_decides_it(
    before: str, now: str, lines: set[int]
) -> None:
    assert changed(before, now) == lines


def test_where_a_function_only_lost_statements_the_one_after_them_changed() -> None:
    before = "def f(x):\n    if x in SEEN:\n        return\n    work(x)\n    more(x)\ndef g(x):\n    work(x)\n"
    assert changed(before, before.replace("    if x in SEEN:\n        return\n", "")) == {2}
    assert changed(before, before.replace("    if x in SEEN:\n        return\n", "    new(x)\n")) == {2}
    assert changed(before, before.replace("    more(x)\n", "")) == set()


def test_a_function_that_moved_did_not_change_and_an_equal_line_in_another_one_did() -> None:
    f, g = "def f(x):\n    work(x)\n", "def g(x):\n    rest(x)\n"
    assert changed(f + g, g + f) == set()
    assert changed(f + g, f + g + "    work(x)\n") == {5}


def test_a_file_that_is_new_changed_as_a_whole() -> None:
    assert changed("", SOURCE) >= {1, 5, 9, 13, 21}


def test_of_source_that_is_no_python_nothing_is_known() -> None:
    for broken in (b"def f(:\n", b"\0", b"\xff\xfe"):
        assert changed_statements(b"x = 1\n", broken) == changed_statements(broken, b"x = 1\n") == []


def test_the_sources_may_differ_in_encoding_and_line_ends_and_nobody_is_warned() -> None:
    latin = "# coding: latin-1\r\nx = '\xe4'\r\ny = 1 if 1else 2\r\n".encode("latin-1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert changed_statements("x = '\xe4'\ny = 1 if 1else 2\n".encode(), latin) == []


LINES = st.lists(st.sampled_from(["x = 1", "f(2)", "if x: f()", "", "# note", "def f(): x()", "import a"]), max_size=9)


@given(LINES, LINES)
def test_what_the_earlier_source_lacks_has_changed_and_equal_source_has_not(before: list[str], now: list[str]) -> None:
    found = changed("\n".join(before), "\n".join(now))
    new = {number for number, line in enumerate(now, 1) if line not in before and line and line != "# note"}
    assert new <= found
    if ast.dump(ast.parse("\n".join(before))) == ast.dump(ast.parse("\n".join(now))):
        assert not found


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository with a commit."""
    (tmp_path / "sub").mkdir()
    for name in ("sub/model.py", "with space.py", "ä.py", "one.py", "same.py"):
        (tmp_path / name).write_text("a\nb\n")
    (tmp_path / "data.bin").write_bytes(b"\0")
    committed(tmp_path)
    return tmp_path


@pytest.mark.processes
def test_a_changed_file_has_its_changed_lines_and_others_have_none(top: Path) -> None:
    (top / "sub" / "model.py").write_text("a\nb\nc\n")
    (top / "with space.py").write_text("new\nb\n")
    (top / "ä.py").write_text("# why\na\nb\n")
    (top / "data.bin").write_bytes(b"\0\1")
    (top / "untracked.py").write_text("c\n")
    (top / "with more space.py").write_text("c\n")
    (top / "python.py").symlink_to(sys.executable)
    (top / "one.py").unlink()
    asked = ["sub/model.py", "with space.py", "ä.py", "data.bin", "untracked.py", "python.py", "one.py", "same.py"]
    asked += ["with more space.py"]
    lines = {
        "sub/model.py": [3],
        "with space.py": [1],
        "ä.py": [],
        "untracked.py": [1],
        "one.py": [],
        "with more space.py": [1],
    }
    found = {
        file: [at for each in ranges for at in each] for file, ranges in Changes(top, "it", "HEAD").of(asked).items()
    }
    assert found == lines


@pytest.mark.processes
def test_files_are_named_from_a_folder_and_a_commit_that_git_lacks_is_an_error(top: Path) -> None:
    (top / "sub" / "model.py").write_text("a\n")
    (top / "same.py").write_text("a\n")
    found = Changes(top / "sub", "it", "HEAD").of(["model.py", "../same.py", "same.py"])
    assert found == {"model.py": [], "../same.py": []}
    with pytest.raises(UsageError, match=r"^it: git diff in .* failed: bad object"):
        Changes(top, "it", "a" * 40)

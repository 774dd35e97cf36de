"""The files of tests that differ between the two sides of a comparison."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from ..machine.git import git
from ..processes.worktree import Worktree
from ..results.test_id import split_id
from .test_run import TestRun

_OPTION = "--opprof-against"


def changed_tests(tree: Worktree, tests: Sequence[TestRun]) -> dict[str, int]:
    """Return the number of changed lines of each test's file; unchanged files are left out."""
    changed: dict[Path, int] = {}
    for line in git(tree.top, _OPTION, "diff", "--numstat", "-z", tree.commit, "--").split("\0"):
        added, _, rest = line.partition("\t")
        removed, _, name = rest.partition("\t")
        if added.isdigit() and removed.isdigit():
            changed[tree.top / name] = max(int(added), int(removed))
    return {test.nodeid: changed[path] for test in tests if (path := test.item.path.resolve()) in changed}


def changed_bodies(tree: Worktree, tests: Sequence[TestRun]) -> set[str]:
    """Return the *tests* whose own code differs, without regard to comments and layout."""
    functions = [test for test in tests if isinstance(test.item, pytest.Function)]
    return {test.nodeid for test in functions if _body(test, test.item.path) != _body(test, tree.twin(test.item.path))}


def _body(test: TestRun, file: Path) -> str:
    """Return the code of a test in its *file*; empty if it is not defined there."""
    node: ast.AST | None = ast.parse(file.read_bytes())
    _, names = split_id(test.nodeid)
    for name in names.partition("[")[0].split("::"):
        node = next((each for each in getattr(node, "body", ()) if getattr(each, "name", "") == name), None)
    return ast.dump(node) if node else ""


def lay_over(tree: Worktree, files: Collection[Path], *, around: bool = False) -> None:
    """Copy test *files*, and with *around* the files that pytest imports around them, over the revision's."""
    if around:
        folders = {parent for file in files for parent in file.parents if parent.is_relative_to(tree.top)}
        beside = {folder / name for folder in folders for name in ("conftest.py", "__init__.py")}
        # An `__init__.py` of the package itself stays the revision's, since that code is under test.
        beside = {file for file in beside if file.name == "conftest.py" or not tree.has(file)}
        files = {*files, *(each for each in beside if each.is_file())}
    for file in sorted(files):
        twin = tree.twin(file)
        twin.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, twin)


def restore(tree: Worktree, files: Collection[Path]) -> None:
    """Give the revision its own *files* back."""
    if files:
        git(tree.path, _OPTION, "checkout", "--quiet", "--", *map(str, map(tree.twin, files)))

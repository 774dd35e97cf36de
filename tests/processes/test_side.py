"""What a side asks before it goes on; here it is this process, and the run that tells both sides is a thread."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_opprof.processes.child import Child
from pytest_opprof.processes.collection import Collection
from pytest_opprof.pytest_plugin.child import borrowed, misplaced
from pytest_opprof.results.plain import converted

from .conftest import AsChild

MODEL = """
import pytest
from pytest_opprof.backends import fake
@pytest.mark.opprof(rounds=3, warmup=2)
def test_a(): fake.launch("Add", device_ns=5)
@pytest.mark.opprof
def test_b(): fake.launch("Mul")
@pytest.mark.opprof
def test_fails(): fake.launch("Add"); assert 1 == 2
"""
MANY = """
import pytest
@pytest.mark.opprof
def test_marked(): pass
@pytest.mark.op_budget(Cast=1)
def test_budget(): pass
def test_fixture(opprof): pass
@pytest.mark.opprof(False)
def test_off(): pass
def test_idle(): pass
"""
NOWHERE = {"own": "/nowhere/own", "own_first": "", "other": "/nowhere/other"}
SIDE = {"kind": "side", "trees": NOWHERE, "is_base": False, "request": {}, "describes": False}
Side = Callable[..., list[list[Any]]]


@pytest.fixture
def side(pytester: pytest.Pytester, as_child: AsChild) -> Side:
    """Let a side run the *wanted* tests to its end, and return all that it asked."""
    pytester.makepyfile(test_m=MODEL)

    def ran(
        *wanted: str,
        trees: dict[str, str] = NOWHERE,
        arguments: tuple[str, ...] = (),
        everything: bool = False,
        describes: bool = False,
        is_base: bool = False,
    ) -> list[list[Any]]:
        tests = {
            "tests": [f"test_m.py::{test}" for test in wanted],
            "everything": everything,
            "closely": [],
            "later": [],
            "rounds": {},
        }

        def does(child: Child) -> list[list[Any]]:
            asked = [child.hear()]
            while asked[-1][0] != "bye":
                child.answer(tests if asked[-1][0] == "tests" else None)
                asked.append(child.hear())
            child.answer()
            return asked

        told = {**SIDE, "trees": trees, "describes": describes, "is_base": is_base}
        _, asked = as_child(does, "--continue-on-collection-errors", *arguments, **told)
        return asked

    return ran


def test_it_asks_before_each_test_and_each_round_that_is_measured(side: Side) -> None:
    asked = [each[:2] for each in side("test_a")[1:-1]]
    test = "test_m.py::test_a"
    assert asked == [["begin", test], ["turn"], ["turn"], ["turn"], ["end", test]]


def test_it_runs_the_tests_that_are_wanted_in_the_order_of_that(side: Side) -> None:
    asked = side("test_fails", "test_new", "test_a")
    assert asked[0][1] == ["test_m.py::test_a", "test_m.py::test_b", "test_m.py::test_fails"]
    begun = [each[1] for each in asked if each[0] == "begin"]
    assert begun == ["test_m.py::test_fails", "test_m.py::test_a"]


def test_what_became_of_a_test_is_sent_as_reports_and_no_other_tests(side: Side) -> None:
    first, second = (each[2] for each in side("test_a", "test_fails") if each[0] == "end")
    assert [(each["when"], each["outcome"]) for each in first] == [
        ("setup", "passed"),
        ("call", "passed"),
        ("teardown", "passed"),
    ]
    assert first[1]["opprof"]["windows"][0]["ops"]["Add"]["device_ns"] == [5, 5, 5]
    assert [(each["nodeid"], each["outcome"]) for each in second if each["when"] == "call"] == [
        ("test_m.py::test_fails", "failed")
    ]


def test_it_writes_no_baselines(side: Side, pytester: pytest.Pytester) -> None:
    side("test_a", arguments=("--opprof-update",))
    assert not (pytester.path / "baselines").exists()


def test_what_cannot_be_collected_is_said_with_the_cause(side: Side, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_broken="import nosuchmodule")
    _, tests, errors = side("test_b")[0]
    assert errors == {"test_broken.py": "ModuleNotFoundError: No module named 'nosuchmodule'"}
    assert "test_m.py::test_b" in tests


def test_the_folder_of_the_base_in_an_id_becomes_the_working_trees(side: Side, pytester: pytest.Pytester) -> None:
    """flake8: `sub_dir/*` is made absolute when the tests are collected."""
    pytester.makepyfile(
        test_m="import os, pytest\n@pytest.mark.opprof\n"
        "@pytest.mark.parametrize('n', [1], ids=[os.getcwd() + '/sub'])\ndef test_a(n): pass\n"
    )
    own = str(pytester.path)
    asked = side("test_a[/work/sub]", trees={"own": own, "own_first": own, "other": "/work"}, is_base=True)
    assert asked[0][1] == ["test_m.py::test_a[/work/sub]"]
    assert {each[1] for each in asked if each[0] in ("begin", "end")} == {"test_m.py::test_a[/work/sub]"}
    assert side(trees={"own": own, "own_first": own, "other": "/base"})[0][1] == [f"test_m.py::test_a[{own}/sub]"]


def described(asked: list[list[Any]]) -> Collection:
    return converted(asked[0][3], Collection)


def test_it_describes_the_tests_that_measure_and_names_the_others(side: Side, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_m=MANY)
    found = described(side(describes=True, arguments=("-k", "not budget")))
    assert [test.nodeid for test in found.tests] == ["test_m.py::test_marked", "test_m.py::test_fixture"]
    assert found.deselected == ["test_m.py::test_budget", "test_m.py::test_off", "test_m.py::test_idle"]
    assert [test.may_judge_times for test in found.tests] == [False, True]  # of a fixture nobody knows the rounds
    assert (found.everything, found.wrong_marks, found.reports) == (False, [], [])


def test_without_any_mark_all_tests_but_those_left_out_are_measured(side: Side, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_m=MANY)
    found = described(side(describes=True, arguments=("-k", "idle or off")))
    assert [test.nodeid for test in found.tests] == ["test_m.py::test_idle"]
    assert found.everything


def test_the_other_side_measures_tests_without_a_mark_if_it_is_told_to(side: Side, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_m=MODEL.replace("@pytest.mark.opprof\n", ""))
    (call,) = (each for each in side("test_b", everything=True)[-2][2] if each["when"] == "call")
    assert list(call["opprof"]["windows"][0]["ops"]) == ["Mul"]
    (call,) = (each for each in side("test_b")[-2][2] if each["when"] == "call")
    assert "opprof" not in call


def test_wrong_marks_and_modules_without_tests_are_described(side: Side, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_m="import pytest\n@pytest.mark.opprof(rounds=0)\ndef test_wrong(): pass\n",
        test_broken="import nosuchmodule",
        test_skipped="import pytest\npytest.skip('not here', allow_module_level=True)\n",
    )
    found = described(side(describes=True))
    (said,) = found.wrong_marks
    assert said.startswith("test_m.py:2: test_wrong: opprof(rounds=) is 0; write")
    assert [(each["nodeid"], each["outcome"]) for each in found.reports] == [
        ("test_broken.py", "failed"),
        ("test_skipped.py", "skipped"),
    ]


def test_at_its_end_it_says_what_it_took_from_the_other_tree(side: Side, pytester: pytest.Pytester) -> None:
    asked = side("test_b", trees={**NOWHERE, "other": str(pytester.path)})
    assert asked[-1] == ["bye", [f"test_m from {pytester.path / 'test_m.py'}"], []]
    assert side("test_b")[-1] == ["bye", [], []]


def test_it_ends_where_nobody_takes_turns_any_more(pytester: pytest.Pytester, as_child: AsChild) -> None:
    pytester.makepyfile(test_m=MODEL)
    result, asked = as_child(lambda child: child.hear()[0], **SIDE)
    assert (result.ret, asked) == (1, "tests")
    result.stdout.fnmatch_lines(["*the run that started this one has ended*"])


class Trees:
    """Two trees of files, and modules of this process that are made up to be of them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.own, self.other = folder / "own", folder / "other"
        self._monkeypatch = monkeypatch

    def imported(self, name: str, file: Path | None) -> None:
        module = ModuleType(name)
        if file:
            module.__file__ = str(file)
        self._monkeypatch.setitem(sys.modules, name, module)

    def has(self, file: str) -> None:
        """Let the own tree have a file."""
        (self.own / file).parent.mkdir(parents=True, exist_ok=True)
        (self.own / file).touch()

    def misplaced(self, own_first: bool = True) -> list[str]:
        return list(misplaced(str(self.own), str(self.own) if own_first else "", str(self.other)))


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trees:
    return Trees(tmp_path.resolve(), monkeypatch)


def test_modules_of_the_own_tree_are_in_their_place(trees: Trees) -> None:
    trees.has("mine/__init__.py")
    trees.imported("mine", trees.own / "mine" / "__init__.py")
    assert trees.misplaced() == []


def test_modules_of_the_other_tree_are_not_by_name_and_in_order(trees: Trees) -> None:
    for name in ("b_mine", "a_mine"):
        trees.imported(name, trees.other / f"{name}.py")
    assert trees.misplaced() == [f"{name} from {trees.other / name}.py" for name in ("a_mine", "b_mine")]
    assert len(trees.misplaced(own_first=False)) == 2


def test_a_compiled_module_that_is_in_no_package_is_named_as_one_of_python_is(trees: Trees) -> None:
    compiled = trees.other / f"mine{EXTENSION_SUFFIXES[0]}"
    trees.imported("mine", compiled)
    assert trees.misplaced() == [f"mine from {compiled}"]
    assert list(borrowed(str(trees.other))) == []


def test_a_package_is_named_without_the_modules_in_it(trees: Trees) -> None:
    for name in ("mine", "mine.part"):
        trees.imported(name, trees.other / "mine" / "__init__.py")
    assert len(trees.misplaced()) == 1


def test_a_module_of_the_other_tree_in_a_package_of_the_own_one_is_named_and_a_compiled_one_is_borrowed(
    trees: Trees,
) -> None:
    trees.imported("mine", trees.own / "mine" / "__init__.py")
    trees.imported("mine.part", trees.other / "mine" / "part.py")
    compiled = trees.other / "mine" / f"fast{EXTENSION_SUFFIXES[0]}"
    trees.imported("mine.fast", compiled)
    trees.imported("other.fast", trees.other / ".venv" / "site-packages" / compiled.name)
    assert trees.misplaced() == [f"mine.part from {trees.other / 'mine' / 'part.py'}"]
    assert list(borrowed(str(trees.other))) == ["mine.fast"]


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_what_is_installed_in_the_other_tree_is_the_same_for_both(trees: Trees, folder: str) -> None:
    trees.imported("numpy_like", trees.other / ".venv" / folder / "numpy_like.py")
    assert trees.misplaced() == []


@pytest.mark.parametrize("file", ["mine.py", "mine/__init__.py", "src/mine.py", "src/mine/__init__.py"])
@pytest.mark.parametrize("place", ["/elsewhere/mine.py", "own/.venv/site-packages/mine.py"])
def test_what_the_own_tree_has_is_not_taken_from_elsewhere(trees: Trees, file: str, place: str) -> None:
    trees.has(file)
    path = trees.own.parent / place
    trees.imported("mine", path)
    assert trees.misplaced() == [f"mine from {path}"]


def test_with_an_environment_of_its_own_packages_may_be_installed(trees: Trees) -> None:
    trees.has("mine.py")
    trees.imported("mine", Path("/elsewhere/site-packages/mine.py"))
    assert trees.misplaced(own_first=False) == []


def test_a_module_without_a_file_is_nobodys(trees: Trees) -> None:
    trees.has("mine.py")
    trees.imported("mine", None)
    assert trees.misplaced() == []

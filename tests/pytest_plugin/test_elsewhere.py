"""Tests outside of the root directory, and what is left of a test where this plugin itself fails."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

Suite = Callable[..., pytest.RunResult]
TEST = """
import pytest
from pytest_opprof.backends import fake
@pytest.mark.opprof
def test_x():
    fake.launch({op!r})
"""


@pytest.fixture
def package(pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Make an installed package with two modules that pytest calls the same, and a root directory beside it."""
    for part, op in (("one", "Add"), ("two", "Mul")):
        tests = pytester.path / "site" / "package" / part / "tests"
        tests.mkdir(parents=True)
        for folder in (tests.parent.parent, tests.parent, tests):
            (folder / "__init__.py").touch()
        (tests / "test_basic.py").write_text(TEST.format(op=op))
    root = pytester.mkdir("root")
    (pytester.path / "tox.ini").rename(root / "tox.ini")
    monkeypatch.syspath_prepend(pytester.path / "site")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path / "site"))
    monkeypatch.chdir(root)
    return pytester


MODULES = ["package.one.tests.test_basic", "package.two.tests.test_basic"]


@pytest.mark.parametrize("arguments", [MODULES, ["package.one", "package.two"]], ids=["modules", "packages"])
def test_modules_elsewhere_have_baselines_by_their_dotted_names(
    package: pytest.Pytester, suite: Suite, arguments: list[str]
) -> None:
    result = suite("--opprof-update", "--pyargs", *arguments)
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    folder = package.path / "root" / "baselines" / "fake-1-fake-async-x86_64"
    kept = {path.name: json.loads(path.read_text())["tests"] for path in folder.iterdir()}
    assert kept == {
        f"{MODULES[0]}.json": {"test_x": {"body": {"ops": {"Add": {"calls": 1}}}}},
        f"{MODULES[1]}.json": {"test_x": {"body": {"ops": {"Mul": {"calls": 1}}}}},
    }
    again = suite("--opprof", "--opprof-strict", "--pyargs", *arguments)
    again.stdout.fnmatch_lines(["opprof: 2 tests measured, 2 ok*"])


def test_a_failure_elsewhere_names_the_module_and_the_command(package: pytest.Pytester, suite: Suite) -> None:
    suite("--opprof-update", "--pyargs", *MODULES)
    path = package.path / "site" / "package" / "one" / "tests" / "test_basic.py"
    path.write_text(TEST.format(op="Add") + "    fake.launch('Add')\n")
    result = suite("--opprof", "--pyargs", *MODULES)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            f"op regression: {MODULES[0]}::test_x *",
            f"to accept this change: pytest --pyargs {MODULES[0]}::test_x --opprof-update",
        ]
    )


@pytest.mark.slow
@pytest.mark.processes
def test_workers_tell_modules_elsewhere_apart(package: pytest.Pytester, suite: Suite) -> None:
    suite("--opprof-update", "--pyargs", *MODULES)
    # In this process pytest-xdist would send the modules as it cannot find them.
    result = package.runpytest_subprocess("--opprof", "--opprof-strict", "-n2", "--pyargs", *MODULES)
    result.stdout.fnmatch_lines(["opprof: 2 tests measured, 2 ok*"])


TESTS = """
import pytest
from pytest_opprof.backends import fake
@pytest.mark.opprof
def test_passes(): fake.launch("Add")
@pytest.mark.opprof
def test_fails(): fake.launch("Add"); assert 1 == 2
"""


@pytest.mark.parametrize(
    "where",
    [
        "pytest_opprof.pytest_plugin.measuring.measurement_of",  # before the body
        "pytest_opprof.pytest_plugin.judging.Judging.first",  # after it
        "pytest_opprof.pytest_plugin.measuring.concluded",
        "pytest_opprof.measure.recorder.Recorder._profiles",
    ],
)
def test_a_defect_of_the_plugin_is_a_line_and_leaves_the_outcome_of_tests_alone(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def broken(*arguments: object, **keywords: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(where, broken)
    pytester.makepyfile(test_m=TESTS)
    result = suite("--opprof")
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    said = "test_m.py::test_passes was not measured, by a defect of pytest-opprof: IndexError: tuple index out of range"
    result.stdout.fnmatch_lines(["*assert 1 == 2", f"opprof: error: {said} (test_elsewhere.py:* in broken)"])
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("pytest_opprof.pytest_plugin.closing.stale", "stale baselines were not looked for"),
        ("pytest_opprof.pytest_plugin.closing.write", "the JSON of the run was not written"),
        ("pytest_opprof.baselines.update.Updates.write", "baselines were not written"),
    ],
)
def test_a_defect_at_the_end_of_a_run_is_a_line(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, where: str, what: str
) -> None:
    def broken(*arguments: object, **keywords: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(where, broken)
    pytester.makepyfile(test_m=TESTS.replace("; assert 1 == 2", ""))
    result = suite("--opprof-update", "--opprof-json=run.json")
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"opprof: error: {what}, by a defect of pytest-opprof: IndexError: *"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")

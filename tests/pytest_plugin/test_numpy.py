"""Which arrays of NumPy a test shows: those of opprof.array(), or all that it makes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pytest_opprof.processes.pool import Pool

from ..conftest import ALONE

Suite = Callable[..., pytest.RunResult]
TESTS = """
import numpy as np, pytest
def half(x):
    return np.array(x, dtype="f4")
@pytest.mark.op_budget(Cast=0)
{mark}
def test_knows_nothing_of_opprof():
    half(np.random.default_rng(0).random(4))
@pytest.mark.op_budget(Cast=1, ReduceSum=1)
def test_watched(opprof):
    half(opprof.array([1.0, 2.0])).sum()
"""


@pytest.mark.parametrize(
    ("mark", "flags"),
    [("", ["--opprof-numpy=all"]), ("", ["-o", "opprof_numpy=all"]), ("@pytest.mark.opprof(numpy='all')", [])],
)
def test_all_measures_a_test_that_knows_nothing_of_opprof(
    pytester: pytest.Pytester, suite: Suite, mark: str, flags: list[str]
) -> None:
    pytester.makepyfile(test_m=TESTS.format(mark=mark))
    result = suite("--opprof", "--opprof-backend=numpy", *flags)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["op budget exceeded: test_m.py::test_knows_nothing_of_opprof*", "*calls of Cast: 1, over the budget of 0"]
    )


def test_without_it_only_arrays_that_are_watched_are_measured(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=TESTS.format(mark=""))
    result = suite("--opprof", "--opprof-backend=numpy")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*could not measure *no array was made by opprof.array(), nor in the window*"])


def test_a_value_that_means_nothing_is_refused_with_what_there_is(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=TESTS.format(mark=""))
    result = suite("--opprof", "--opprof-numpy=everything")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --opprof-numpy is 'everything'; write 'watched' (*) or 'all' (*)"])


def test_what_was_recorded_with_all_is_compared_with_that_only(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        test_m="import numpy as np\ndef test_a(opprof):\n    with opprof():\n        opprof.array([1.0]) + np.ones(1)\n"
    )
    suite("--opprof-update", "--opprof-backend=numpy", "--opprof-numpy=all")
    (folder,) = (pytester.path / "baselines").iterdir()
    assert "-all-cpu-" in folder.name
    suite("--opprof", "--opprof-backend=numpy", "--opprof-numpy=all").stdout.fnmatch_lines(["opprof: *1 ok*"])
    result = suite("--opprof", "--opprof-backend=numpy", "--opprof-json=run.json")
    result.stdout.fnmatch_lines(["no baseline for numpy *"])
    ((test,),) = [json.loads((pytester.path / "run.json").read_text())["tests"]]
    assert test["status"] == "no baseline"


def test_where_the_watch_ended_is_a_remark_of_the_test(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        test_m="""
import numpy as np, pytest
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a(opprof):
    x = opprof.array([1.0])
    with opprof():
        np.asmatrix(x + 1) * 2
"""
    )
    result = suite("--opprof", "--opprof-backend=numpy")
    result.stdout.fnmatch_lines(
        ["test_m.py::test_a*: not seen: what became of watched arrays in numpy.asmatrix (test_m:6)"]
    )


@pytest.mark.parametrize(("ones", "outcome"), [("np.ones(3)", {"passed": 2}), ("[1.0]", {"passed": 1, "failed": 1})])
@pytest.mark.processes
def test_what_shows_nothing_since_another_test_filled_a_cache_is_told_from_a_change(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, ones: str, outcome: dict[str, int]
) -> None:
    text = """
import numpy as np, pytest
from functools import lru_cache
pytestmark = pytest.mark.opprof(numpy="all")
@lru_cache
def table(): return {}
def test_a(): table(); np.ones(2) + 1
def test_b(): sum(table())
"""
    pytester.makepyfile(test_m=text.format("np.ones(3)"))
    suite("--opprof-update", "--opprof-backend=numpy", "-k", "test_b")
    pytester.makepyfile(test_m=text.format(ones))
    monkeypatch.setattr(Pool, "alone", ALONE)
    result = suite("--opprof", "--opprof-backend=numpy")
    result.assert_outcomes(**outcome)
    result.stdout.fnmatch_lines(["opprof: test_m.py::test_b shows no op; measuring it alone in a fresh process"])


def test_a_watch_that_ends_is_no_improvement(pytester: pytest.Pytester, suite: Suite) -> None:
    text = """
import numpy as np, pytest
@pytest.mark.op_budget(Cast=1)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a(opprof):
    x = opprof.array([1.0, 2.0])
    {}.astype("f4")
"""
    pytester.makepyfile(test_m=text.format("(x + 1)"))
    suite("--opprof-update", "--opprof-backend=numpy")
    pytester.makepyfile(test_m=text.format("np.asmatrix(x + 1)"))
    result = suite("--opprof", "--opprof-backend=numpy")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  fewer calls of Cast, but not all was seen: the watch of an array ended in numpy.asmatrix (test_m:6)",
            "FAILED test_m.py::test_a - not seen",
        ]
    )
    suite("--opprof-update", "--opprof-backend=numpy").assert_outcomes(passed=1)
    suite("--opprof", "--opprof-backend=numpy").assert_outcomes(passed=1)

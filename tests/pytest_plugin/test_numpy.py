"""NumPy in tests that know nothing of opprof: every op is seen."""

from __future__ import annotations

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
def test_knows_nothing_of_opprof():
    half(np.random.default_rng(0).random(4))
@pytest.mark.op_budget(Cast=1, ReduceSum=1)
def test_within_its_budget():
    half(np.ones(2)).sum()
"""


def test_a_test_that_knows_nothing_of_opprof_is_measured(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=TESTS)
    result = suite("--opprof", "--opprof-backend=numpy")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["op budget exceeded: test_m.py::test_knows_nothing_of_opprof*", "*Cast: 1 call (budget: 0)"]
    )


@pytest.mark.parametrize(
    ("mark", "flags"),
    [("", ["--opprof-numpy=all"]), ("", ["-o", "opprof_numpy=all"]), ("@pytest.mark.opprof(numpy='all')", [])],
)
def test_what_chose_arrays_is_gone_and_says_so(
    pytester: pytest.Pytester, suite: Suite, mark: str, flags: list[str]
) -> None:
    pytester.makepyfile(test_m=f"import pytest\n{mark}\ndef test_a(): pass\n")
    result = suite("--opprof", *flags)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *numpy*was removed: opprof sees each op of NumPy, on any array. Leave it out"])


def test_the_function_that_marked_arrays_returns_them_and_warns(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        test_m="""
import numpy as np, pytest
def test_a(opprof):
    x = np.ones(3)
    with pytest.deprecated_call(match="opprof.array.* is deprecated"):
        assert opprof.array(x) is x
    with pytest.deprecated_call():
        assert opprof.array([1.0]).shape == (1,)
"""
    )
    suite("--opprof", "--opprof-backend=numpy").assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.parametrize(("ones", "outcome"), [("np.ones(3)", {"passed": 2}), ("[1.0]", {"passed": 1, "failed": 1})])
@pytest.mark.processes
def test_what_shows_nothing_since_another_test_filled_a_cache_is_told_from_a_change(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, ones: str, outcome: dict[str, int]
) -> None:
    text = """
import numpy as np, pytest
from functools import lru_cache
pytestmark = pytest.mark.opprof
@lru_cache
def table(): return {}
def test_a(): table(); np.ones(2) + 1
def test_b(): table()
"""
    pytester.makepyfile(test_m=text.format("np.ones(3)"))
    suite("--opprof-update", "--opprof-backend=numpy", "-k", "test_b")
    pytester.makepyfile(test_m=text.format(ones))
    monkeypatch.setattr(Pool, "alone", ALONE)
    result = suite("--opprof", "--opprof-backend=numpy")
    result.assert_outcomes(**outcome)
    result.stdout.fnmatch_lines(["opprof: test_m.py::test_b shows no op; re-running it in a fresh process to confirm"])


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("few_plugins")
def test_a_body_without_an_op_that_has_rounds_is_judged_by_its_time(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_m="""
        import pytest

        @pytest.mark.opprof(rounds=10)
        def test_python(): sum(range(1000))

        @pytest.mark.op_budget(MatMul=1)
        @pytest.mark.opprof(rounds=10)
        def test_budget(): sum(range(1000))
        """
    )
    flags = ("-p", "no:cacheprovider", "--opprof-backend=numpy", "--opprof-noise=ignore", "--opprof-processes=1")
    updated = pytester.runpytest_subprocess(*flags, "--opprof-update")
    updated.assert_outcomes(passed=1, failed=1)
    updated.stdout.fnmatch_lines(["opprof could not measure test_m.py::test_budget: nothing was recorded*"])
    updated.stdout.no_fnmatch_line("*source lines of*")
    (times,) = pytester.path.glob("baselines/*/test_m.py.times.json")
    assert "(outside ops)" in times.read_text()


def test_where_numpy_cannot_be_observed_the_header_says_so_and_the_test_is_not_passed_in_silence(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_opprof.frameworks.numpy.live.selftest.problem", lambda: "this Python is free-threaded")
    pytester.makepyfile(test_m=TESTS)
    result = suite("--opprof", "--opprof-backend=auto")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["opprof: ops of NumPy are not seen: this Python is free-threaded"])

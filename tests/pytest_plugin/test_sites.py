"""A failing test says which lines ask for its ops: it is looked at once more, here or in a fresh process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.numpy.live.backend import NumpyBackend
from pytest_opprof.processes.pool import Answer, Pool
from pytest_opprof.processes.recording import Recording
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.op_profile import Remark
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.site_calls import SiteCalls, SourceLine
from pytest_opprof.pytest_plugin import body, measuring
from pytest_opprof.pytest_plugin.reruns import counts as counts_module

from ..conftest import ALONE, ELSEWHERE, looks, thrice
from ..git_history import committed

Suite = Callable[..., pytest.RunResult]
CASTS = """
import numpy as np
def narrowed(x):
    return x.astype(np.float32)
"""
MODEL = """
import os, numpy as np, pytest, casts
RAN = []
@pytest.mark.op_budget({budget})
@pytest.mark.opprof(rounds={rounds})
def test_a(opprof):
    RAN.append(1)
    x = np.array([1.0, 2.0])
    x + x
    for _ in range({times}):
        casts.narrowed(x)
"""


@pytest.fixture
def asked(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the tests that a fresh process is asked for, which then breaks."""
    return looks(monkeypatch, BackendError("it broke"))


@pytest.fixture
def alone(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start real processes."""
    monkeypatch.setattr(Pool, "alone", ALONE)


@pytest.fixture
def casting(pytester: pytest.Pytester, suite: Suite) -> Callable[..., pytest.RunResult]:
    """Run a test that casts on a line of a helper."""

    def run(
        *flags: str, budget: str = "Cast=0", rounds: int = 1, times: object = 1, run: str = "--opprof", **more: str
    ) -> pytest.RunResult:
        pytester.makepyfile(casts=CASTS, test_m=MODEL.format(budget=budget, rounds=rounds, times=times), **more)
        return suite(run, "--opprof-backend=numpy", *flags)

    return run


PLACE = "casts.py:3 in narrowed  `return x.astype(np.float32)`"
LOOK = "opprof: test_m.py::test_a fails; re-running it in a fresh process to look up source lines"


# --- where it is looked at


def test_a_body_with_rounds_runs_once_more_in_this_process(casting: Any, asked: list[str]) -> None:
    result = casting(rounds=3)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["total device time: *", "", "where Cast comes from (1 call):", f"     1  {PLACE}"])
    assert asked == []


@pytest.mark.processes
def test_another_is_measured_alone_in_a_fresh_process(casting: Any, alone: None) -> None:
    result = casting()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([LOOK, "where Cast comes from (1 call):", f"     1  {PLACE}"])


@pytest.mark.processes
def test_a_body_whose_next_round_does_less_is_too(casting: Any, alone: None) -> None:
    result = casting(rounds=2, times="2 if len(RAN) == 3 else 1")
    result.stdout.fnmatch_lines([LOOK, "where Cast comes from (2 calls):", f"     2  {PLACE}"])


MEMO = """
def cached(function):
    known = {}
    def found(x):
        if x not in known:
            known[x] = function(x)
        return known[x]
    return found
"""
KERNEL = """
import numpy as np
from memo import cached
@cached
def grown(x):
    y = np.ones(3) + x
    return y * 2
@cached
def shrunk(x):
    return grown(x) / 2
"""
USES = """
import kernel, pytest
@pytest.mark.opprof
def test_a():
    for _ in range({times}):
        kernel.shrunk(3)
"""


TABLE = """
import functools, numpy as np
@functools.cache
def table(n):
    out = np.zeros(n)
    for i in range(n):
        out[i] = np.sqrt(float(i))
    return out
"""


@pytest.mark.processes
@pytest.mark.parametrize("mark", ["@pytest.mark.opprof", ""], ids=["marked", "unmarked"])
def test_a_lost_cache_fails_in_a_later_run_of_the_body_with_its_lines(
    pytester: pytest.Pytester, suite: Suite, alone: None, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    """The first run, which fills the cache, does what it did; a test of many without a mark follows its baseline."""
    monkeypatch.setattr(measuring, "FEW_TESTS", 0)
    test = f"import tables, pytest\n{mark}\ndef test_a():\n    tables.table(30)\n"
    pytester.makepyfile(tables=TABLE, test_m=test)
    flags = ["--opprof-backend=numpy", "--no-opprof-python", "--opprof-all"]
    suite("--opprof-update", "--opprof-processes=2", *flags)
    suite("--opprof", *flags).assert_outcomes(passed=1)
    pytester.makepyfile(tables=TABLE.replace("@functools.cache\n", ""))
    result = suite("--opprof", *flags)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  Copy: 30 calls (baseline: 0) at tables.py:5",
            "  Sqrt: 30 calls (baseline: 0) at tables.py:5",
            "  (in a later run of the body, as if a cache were lost; confirmed in a fresh process)",
            "Sqrt * 0 -> 30 * new",
            "where Copy and Sqrt come from (each 30 calls, baseline: 0):",
            "   +30  tables.py:5 in table  `out[[]i[]] = np.sqrt(float(i))`  (new)",
        ]
    )


@pytest.mark.processes
def test_an_update_accepts_that_a_later_run_does_more(
    pytester: pytest.Pytester, suite: Suite, alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        tables=TABLE, test_m="import tables, pytest\n@pytest.mark.opprof\ndef test_a():\n    tables.table(3)\n"
    )
    flags = ["--opprof-backend=numpy", "--no-opprof-python"]
    suite("--opprof-update", "--opprof-processes=2", *flags)
    pytester.makepyfile(tables=TABLE.replace("@functools.cache\n", ""))
    suite("--opprof", *flags).assert_outcomes(failed=1)
    result = suite("--opprof-update", "--opprof-processes=2", *flags)
    result.stdout.fnmatch_lines(["baselines of 1 test: 0 new, 1 changed, 0 unchanged"])
    suite("--opprof", *flags).assert_outcomes(passed=1)


@pytest.mark.processes
def test_what_a_fixture_keeps_from_run_to_run_is_no_lost_cache(
    pytester: pytest.Pytester, suite: Suite, alone: None
) -> None:
    """A process of its own makes the fixture anew; the bytes of as many calls have to agree, too."""
    pytester.makepyfile(
        tables=TABLE,
        test_m="""
        import numpy as np, pytest, tables
        @pytest.fixture
        def log():
            return []
        @pytest.mark.opprof
        def test_a(log):
            tables.table(30)
            log.append(np.ones(1000))
            np.concatenate(log)
        """,
    )
    flags = ["--opprof-backend=numpy", "--no-opprof-python"]
    suite("--opprof-update", "--opprof-processes=2", *flags)
    result = suite("--opprof", "-v", *flags)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*Concat: bytes moved *, in a later run here; not confirmed in a fresh process"])


@pytest.mark.processes
def test_a_later_run_that_does_more_in_this_process_alone_is_a_remark(
    pytester: pytest.Pytester, suite: Suite, alone: None
) -> None:
    test = "import tables, pytest\n@pytest.mark.opprof\ndef test_a():\n    {}\n    tables.table(30)\n"
    pytester.makepyfile(tables=TABLE, test_m=test.format("pass"))
    flags = ["--opprof-backend=numpy", "--no-opprof-python"]
    suite("--opprof-update", "--opprof-processes=2", *flags)
    here = f"__import__('os').getpid() == {os.getpid()} and tables.table.cache_clear()"
    pytester.makepyfile(test_m=test.format(here))
    result = suite("--opprof", "-v", *flags)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*Sqrt: 30 calls (baseline: 0)*, in a later run here; not confirmed in a fresh process"]
    )


@pytest.mark.processes
@pytest.mark.parametrize(
    ("has_git", "found"),
    [
        (True, ["  4 ops, 16 calls more from memo.py:5 in *found  `known[[]x[]] = function(x)`"]),
        (False, ["  Add: 5 calls (baseline: 1) at kernel.py:5", "*", "  Div: 5 calls (baseline: 1) at kernel.py:9"]),
    ],
)
def test_of_lines_that_lead_to_all_of_it_one_of_a_file_that_changed_since_the_baseline_is_the_cause(
    pytester: pytest.Pytester, suite: Suite, alone: None, has_git: bool, found: list[str]
) -> None:
    pytester.makepyfile(memo=MEMO, kernel=KERNEL, test_m=USES.format(times=5))
    if has_git:
        committed(pytester.path)
    suite("--opprof-update", "--opprof-sites", "--opprof-backend=numpy", "--no-opprof-python")
    pytester.makepyfile(memo=MEMO.replace("if x not in known:", "if True:"))
    result = suite("--opprof", "--opprof-backend=numpy", "--no-opprof-python")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(found)


@pytest.mark.processes
def test_a_test_that_changed_alone_is_the_cause(pytester: pytest.Pytester, suite: Suite, alone: None) -> None:
    pytester.makepyfile(kernel=KERNEL.replace("@cached", ""), memo=MEMO, test_m=USES.format(times=5))
    committed(pytester.path)
    suite("--opprof-update", "--opprof-sites", "--opprof-backend=numpy", "--no-opprof-python")
    pytester.makepyfile(test_m=USES.format(times=6))
    result = suite("--opprof", "--opprof-backend=numpy", "--no-opprof-python")
    result.stdout.fnmatch_lines(["  4 ops, 4 calls more from test_m.py:5 in test_a  `kernel.shrunk(3)`"])


@pytest.mark.processes
def test_all_lines_of_a_test_that_ran_no_op_before_are_new(
    pytester: pytest.Pytester, suite: Suite, alone: None
) -> None:
    source = "import numpy as np, pytest\n@pytest.mark.opprof\ndef test_a():\n    {}\n"
    pytester.makepyfile(test_m=source.format("pass"))
    suite("--opprof-update", "--opprof-sites", "--opprof-backend=numpy", "--no-opprof-python")
    pytester.makepyfile(test_m=source.format("np.ones(3).astype('f4')"))
    result = suite("--opprof", "--opprof-backend=numpy", "--no-opprof-python")
    result.stdout.fnmatch_lines(
        ["where Cast and ConstantOfShape come from (each 1 call, *", "    +1  test_m.py:4 in test_a *(new)"]
    )
    assert "which of these lines are new" not in result.stdout.str()


CACHED = """
import functools, numpy as np, pytest
@functools.lru_cache
def table():
    x = np.array([1.0, 2.0])
    {cached}
    return x
@pytest.mark.opprof
@pytest.mark.op_budget({budget})
def test_a():
    y = np.ones(2) + table()
    {more}
"""


@pytest.mark.processes
def test_what_a_cache_keeps_from_a_second_run_has_its_lines_from_a_process_where_it_is_empty(
    pytester: pytest.Pytester, suite: Suite, alone: None
) -> None:
    pytester.makepyfile(test_m=CACHED.format(cached="pass", budget="Mul=0", more="pass"))
    suite("--opprof-update", "--opprof-sites", "--opprof-backend=numpy", "--no-opprof-python")
    pytester.makepyfile(test_m=CACHED.format(cached="x = x.astype('f4').astype('f8')", budget="Cast=0", more="y * y"))
    result = suite("--opprof", "--opprof-backend=numpy", "--no-opprof-python")
    lines = ["where Cast comes from (2 calls, baseline: 0):", "    +2  test_m.py:5 in table *(new)*"]
    more = ["where Mul comes from (1 call, baseline: 0):", "    +1  test_m.py:11 in test_a  `y * y`  (new)"]
    result.stdout.fnmatch_lines([*lines, "", *more])


def test_lines_that_a_process_which_ran_another_test_does_not_see_are_asked_of_one_where_nothing_ran(
    casting: Any, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = SourceLine("casts.py", 3, "narrowed", "return x.astype(np.float32)")
    add, cast = ({"Add": OpCounts(Range(1))}, {"Cast": OpCounts(Range(1))})
    asked = looks(monkeypatch, Answer({"body": WindowBaseline(cast)}, "", {"body": {"Cast": (SiteCalls(1, (line,)),)}}))
    later = Answer({"body": WindowBaseline(add)}, "", {"body": {"Add": (SiteCalls(1, (line,)),)}})
    monkeypatch.setattr(Pool, "second", lambda pool, *test: [later])
    casting().stdout.fnmatch_lines(["where Cast comes from (1 call):", f"     1  {PLACE}"])
    assert asked == ["test_m.py::test_a"]


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("has_baseline", [False, True])
def test_calls_that_differ_in_a_fresh_process_are_told(
    casting: Any, alone: None, pytester: pytest.Pytester, has_baseline: bool
) -> None:
    budget = "Add=1" if has_baseline else "Cast=0"
    if has_baseline:
        casting("--opprof-sites", run="--opprof-update", budget=budget)
    result = casting(budget=budget, times=f"2 if {ELSEWHERE} else 3")
    base, line = (", baseline: 1", f"    +1  {PLACE}  1 -> 2") if has_baseline else ("", f"     2  {PLACE}")
    result.stdout.fnmatch_lines([f"where Cast comes from (2 calls{base}; 3 when it failed):", line])


def cast_twice(**located: int) -> Answer:
    """Return a look at a body of an Add and two Casts; *located* of each name are from the line of the helper."""
    calls = {op: OpCounts(Range(n), dtypes={}) for op, n in {"Add": 1, "Cast": 2}.items()}
    line = SourceLine("casts.py", 3, "narrowed", "return x.astype(np.float32)")
    sites = {name: (SiteCalls(number, (line,)),) for name, number in located.items()}
    return Answer({"body": WindowBaseline(calls)}, "", {"body": sites})


def test_more_calls_are_confirmed_and_located_by_one_process(
    casting: Any, monkeypatch: pytest.MonkeyPatch, suite: Suite
) -> None:
    casting("--opprof-sites", run="--opprof-update", budget="Add=1")
    look = cast_twice(Cast=2)
    found = looks(monkeypatch, look, look)
    result = casting(times=2, budget="Add=1")
    result.stdout.fnmatch_lines(["where Cast comes from (2 calls, baseline: 1):", f"    +1  {PLACE}  1 -> 2"])
    assert found == ["test_m.py::test_a"]


def test_a_fact_without_stored_lines_leaves_those_of_ops(
    casting: Any, monkeypatch: pytest.MonkeyPatch, suite: Suite
) -> None:
    """NumPy's backend counts allocations and tells no lines of them."""
    casting("--opprof-sites", run="--opprof-update", budget="Add=1")
    look = cast_twice(Cast=2)
    looks(monkeypatch, look, look)
    result = casting(times=2, budget="Add=1, allocations=1")
    result.stdout.fnmatch_lines(["where Cast comes from (2 calls, baseline: 1):", f"    +1  {PLACE}  1 -> 2"])
    result.stdout.no_fnmatch_line("*unknown which*")


@pytest.mark.parametrize("has_op", [True, False])
def test_of_a_fact_whose_stored_lines_are_of_another_number_none_is_new(
    casting: Any, monkeypatch: pytest.MonkeyPatch, suite: Suite, has_op: bool
) -> None:
    casting("--opprof-sites", run="--opprof-update", budget="Add=1")
    of_cast = {"Cast": 2} if has_op else {}
    look = cast_twice(**of_cast, allocations=5)
    looks(monkeypatch, look, look)
    result = casting(times=2, budget="Add=1, allocations=1")
    lines = ["where Cast comes from (2 calls, baseline: 1):", f"    +1  {PLACE}  1 -> 2", ""] if has_op else []
    unknown = "it is unknown which of these lines are new: no source lines of allocations are stored; *"
    at = ["where allocations come from (5):", f"     5  {PLACE}", *([] if has_op else [unknown])]
    result.stdout.fnmatch_lines(lines)
    result.stdout.fnmatch_lines(at)
    if has_op:
        result.stdout.no_fnmatch_line("*unknown which*")


def test_one_process_looks_at_a_test_for_all_its_windows(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has more calls, which are confirmed; the other breaks a limit, and its lines are asked for."""
    text = """
        import casts, numpy as np, pytest
        @pytest.mark.opprof
        @pytest.mark.op_budget(Cast=3)
        def test_a(opprof):
            x = np.array([1.0, 2.0])
            with opprof("one"):
                for _ in range({one}): casts.narrowed(x)
            for _ in opprof.rounds(2, name="two"):
                for _ in range(4): casts.narrowed(x)
        """
    pytester.makepyfile(casts=CASTS, test_m=text.format(one=1).replace("Cast=3", "Cast=4"))
    suite("--opprof-update", "--opprof-backend=numpy", "--opprof-sites").assert_outcomes(passed=1)
    pytester.makepyfile(test_m=text.format(one=2))
    line = SourceLine("casts.py", 3, "narrowed", "return x.astype(np.float32)")
    entries = {"one": {"Cast": OpCounts(Range(2))}, "two": {"Cast": OpCounts(Range(4))}}
    look = Answer(
        {name: WindowBaseline(calls) for name, calls in entries.items()},
        "",
        {name: {"Cast": (SiteCalls(calls["Cast"].calls.most, (line,)),)} for name, calls in entries.items()},
        {name: [Remark("half of it was not seen")] for name in entries},
    )
    asked = looks(monkeypatch, look, look)
    result = suite("--opprof", "--opprof-backend=numpy")
    result.stdout.fnmatch_lines(
        [
            "where Cast comes from (2 calls, baseline: 1):",
            f"    +1  {PLACE}  1 -> 2",
            "where Cast comes from (4 calls):",
            f"     4  {PLACE}",
            "test_m.py::test_a window one: in the re-run: half of it was not seen",
            "test_m.py::test_a window two: in the re-run: half of it was not seen",
        ]
    )
    assert result.stdout.str().count("half of it") == 2
    assert asked == ["test_m.py::test_a"]


def test_what_confirms_nothing_is_not_asked_for_lines(casting: Any, asked: list[str]) -> None:
    casting("--opprof-sites", run="--opprof-update", budget="Add=1")
    result = casting(times=2, budget="Add=1")
    result.stdout.fnmatch_lines(["  (not confirmed in a fresh process: it broke)", "where Cast comes from (2 calls, *"])
    assert asked == ["test_m.py::test_a"]


def test_what_a_backend_says_of_one_more_round_is_told_once(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        test_m="""
        import sys, types, numpy as np, pytest
        RAN = []
        @pytest.mark.op_budget(Cast=0)
        @pytest.mark.opprof(rounds=2)
        def test_a(opprof):
            RAN.append(1)
            x = np.array([1.0]).astype("f4")
            if len(RAN) > 3:
                sys.modules["late"] = types.ModuleType("late")
                sys.modules["late"].f = np.frompyfunc(len, 1, 1)
        """
    )
    result = suite("--opprof", "--opprof-backend=numpy")
    said = "in the re-run: not seen: ufuncs of late, first imported in the window"
    result.stdout.fnmatch_lines([f"test_m.py::test_a: {said}"])
    assert result.stdout.str().count("not seen") == 1


@pytest.mark.processes
def test_what_passes_or_is_accepted_or_fails_by_itself_is_not_looked_at(casting: Any, asked: list[str]) -> None:
    assert casting(budget="Cast=1").ret == 0
    assert casting(run="--opprof-update", budget="Cast=1").ret == 0
    assert casting(run="--opprof-update", budget="Cast=2", times=2).ret == 0
    casting(times="1 / 0").assert_outcomes(failed=1)
    assert asked == []


def test_a_backend_that_tells_no_lines_starts_no_process(
    pytester: pytest.Pytester, suite: Suite, asked: list[str]
) -> None:
    pytester.makepyfile(
        test_m="""
        import pytest
        from pytest_opprof.backends import fake
        @pytest.mark.op_budget(Cast=0)
        def test_a(): fake.launch("Cast")
        """
    )
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["source lines for Cast are unknown: the fake backend records no source lines"])
    result.stdout.no_fnmatch_line("*where Cast*")
    assert asked == []


def test_where_no_fresh_process_can_be_had_this_one_finds_the_lines(casting: Any, asked: list[str]) -> None:
    result = casting()
    result.stdout.fnmatch_lines(["where Cast comes from (1 call):", f"     1  {PLACE}"])
    assert asked == ["test_m.py::test_a"]


def test_why_no_line_is_known_is_said(casting: Any, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "measure_again", lambda *_, **__: [])
    result = casting()
    result.stdout.fnmatch_lines(["source lines for Cast are unknown: it broke"])
    assert asked == ["test_m.py::test_a"]


def test_why_a_backend_told_no_line_is_said_and_what_to_do(
    casting: Any, monkeypatch: pytest.MonkeyPatch, suite: Suite
) -> None:
    """Also by the update that wanted to record lines."""
    hint = "graphs that were compiled before have none. Compile them in the test"
    monkeypatch.setattr(NumpyBackend, "sites_hint", hint)
    looks(monkeypatch, Answer({}, "", {"body": {}}))
    result = casting()
    result.stdout.fnmatch_lines([f"source lines for Cast are unknown: {hint}"])
    monkeypatch.setattr(Recording, "sites", lambda self, tests: {test.id: {"body": {}} for test in tests})
    result = casting(run="--opprof-update", budget="Cast=1")
    result.stdout.fnmatch_lines([f"test_m.py::test_a: source lines are unknown: {hint}"])


def test_after_the_allowance_of_a_run_no_process_is_started(
    casting: Any, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts_module, "CONFIRMING_S", -1)
    monkeypatch.setattr(body, "measure_again", lambda *_, **__: [])
    result = casting()
    result.stdout.fnmatch_lines(
        ["source lines for Cast are unknown: the -1 s limit of this run was reached; run this test alone"]
    )
    assert asked == []


@pytest.mark.slow
@pytest.mark.processes
def test_a_test_that_fails_alone_says_so(casting: Any, alone: None) -> None:
    result = casting(times=f"1 / 0 if {ELSEWHERE} else 1")
    result.stdout.fnmatch_lines(["source lines for Cast are unknown: failed: *ZeroDivisionError*"])


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("flags", [["-n2"], ["-x"], ["-q", "--tb=short"], ["-p", "no:terminal", "--junit-xml=j.xml"]])
def test_it_is_the_same_with(flags: list[str], casting: Any, alone: None, pytester: pytest.Pytester) -> None:
    result = casting(*flags)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    if "--junit-xml=j.xml" in flags:
        (failure,) = ElementTree.parse(pytester.path / "j.xml").iter("failure")
        assert f"where Cast comes from (1 call):\n     1  {PLACE}" in (failure.text or "")
    else:
        result.stdout.fnmatch_lines(["where Cast comes from (1 call):", f"     1  {PLACE}"])


# --- which lines are shown


def test_a_limit_on_dtypes_has_lines_of_those_only(casting: Any, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_n="""
        import casts, numpy as np, pytest
        @pytest.mark.op_budget({"Cast[float64->float32]": 0})
        @pytest.mark.opprof(rounds=2)
        def test_b(opprof):
            x = np.array([1.0, 2.0])
            casts.narrowed(x).astype(np.float16)
        """
    )
    result = casting("-k", "test_b")
    result.stdout.fnmatch_lines(["where Cast[[]float64->float32[]] comes from (1 call):", f"     1  {PLACE}"])
    result.stdout.no_fnmatch_line("*test_n.py:6 in test_b*`*")


def test_a_helper_that_is_hidden_gives_way_to_what_calls_it(casting: Any, pytester: pytest.Pytester) -> None:
    result = casting("-o", "opprof_sites_hide=casts.py", rounds=2)
    result.stdout.fnmatch_lines(
        ["where Cast comes from (1 call):", "     1  test_m.py:10 in test_a  `casts.narrowed(x)`"]
    )


@pytest.mark.parametrize(
    ("show", "place"),
    [
        ("", "test_m.py:10 in test_a  `casts.narrowed(x)`  via casts/__init__.py:3 in narrowed"),
        ("casts", "casts/__init__.py:3 in narrowed  `return x.astype(np.float32)`"),
    ],
)
def test_a_package_is_named_behind_the_line_that_calls_it_or_shown(
    pytester: pytest.Pytester, suite: Suite, show: str, place: str
) -> None:
    packages = pytester.path / "venv" / "site-packages"
    (packages / "casts").mkdir(parents=True)
    (packages / "casts" / "__init__.py").write_text(CASTS.lstrip())
    pytester.syspathinsert(packages)
    pytester.makepyfile(test_m=MODEL.format(budget="Cast=0", rounds=2, times=1))
    result = suite("--opprof", "--opprof-backend=numpy", "-o", f"opprof_sites_show={show}", "test_m.py")
    result.stdout.fnmatch_lines(["where Cast comes from (1 call):", f"     1  {place}"])


def test_a_test_tool_cannot_be_shown(casting: Any) -> None:
    result = casting("-o", "opprof_sites_show=pytest")
    output = f"{result.stdout.str()}{result.stderr.str()}"
    assert "'pytest' cannot be shown as a call site" in output
    assert "INTERNALERROR" not in output


@pytest.mark.parametrize("where", ["below the root directory", "installed", "installed and shown"])
def test_lines_of_a_framework_are_those_of_who_works_on_it(pytester: pytest.Pytester, suite: Suite, where: str) -> None:
    folder = pytester.path if where == "below the root directory" else pytester.path / "site-packages"
    (folder / "megengine").mkdir(parents=True)
    (folder / "megengine" / "__init__.py").write_text(CASTS.lstrip())
    pytester.syspathinsert(folder)
    text = MODEL.format(budget="Cast=0", rounds=2, times=1).replace("casts", "megengine")
    pytester.makepyfile(test_m=text)
    show = ["-o", "opprof_sites_show=megengine"] if "shown" in where else []
    result = suite("--opprof", "--opprof-backend=numpy", *show, "test_m.py")
    if where == "installed":  # then it is no part of the program
        result.assert_outcomes(passed=1)
        return
    result.stdout.fnmatch_lines(["where Cast comes from (1 call):", "     1  megengine/__init__.py:*"])


# --- --opprof-sites

WINDOW = """
import casts, numpy as np
def test_b(opprof):
    x = np.array([1.0, 2.0])
    with opprof("both") as window:
        casts.narrowed(x)
        casts.narrowed(x)
    assert window.count("Cast") == 2
    one, two = window.sites("Cast")
    assert (one.calls, one.dtypes, one.is_backward) == (1, "float64->float32", False)
    assert str(one.lines[0]) == "casts.py:3 in narrowed  `return x.astype(np.float32)`"
    assert [each.lines[1].line for each in (one, two)] == [5, 6]
"""


def test_a_window_tells_its_lines_with_the_flag(casting: Any) -> None:
    casting("--opprof-sites", budget="Cast=1", test_n=WINDOW).assert_outcomes(passed=2)


def test_without_the_flag_it_is_an_error_that_names_it(casting: Any) -> None:
    result = casting("-k", "test_b", test_n=WINDOW)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * window 'both' did not record source lines: run pytest --opprof --opprof-sites"])


def test_an_op_that_does_not_exist_is_an_error_as_for_count(casting: Any) -> None:
    result = casting("--opprof-sites", "-k", "test_b", test_n=WINDOW.replace('sites("Cast")', 'sites("Csat")'))
    result.stdout.fnmatch_lines(["E * unknown *'Csat'*did you mean 'Cast'*"])


def test_with_the_flag_every_window_has_lines_in_json_and_nobody_looks_again(
    casting: Any, asked: list[str], pytester: pytest.Pytester
) -> None:
    result = casting("--opprof-sites", "--opprof-json=run.json", test_n=WINDOW)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines([f"     1  {PLACE}"])
    assert asked == []
    document = json.loads((pytester.path / "run.json").read_text())
    sites: Mapping[str, Any] = {
        window["name"]: window["sites"] for test in document["tests"] for window in test["windows"]
    }
    (cast,) = sites["body"]["Cast"]
    lines = [(line["file"], line["line"], line["function"]) for line in cast["lines"]]
    assert lines == [("casts.py", 3, "narrowed"), ("test_m.py", 10, "test_a")]
    assert cast["calls"] == 1
    assert sum(site["calls"] for site in sites["both"]["Cast"]) == 2


@pytest.mark.processes
def test_times_of_a_run_with_lines_are_neither_judged_nor_kept(casting: Any, pytester: pytest.Pytester) -> None:
    casting(run="--opprof-update", budget="Cast=1", rounds=10)
    thrice(pytester)
    before = {path: path.read_text() for path in pytester.path.rglob("baselines/*/*.json")}
    result = casting("--opprof-sites", budget="Cast=1", rounds=10)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*times not judged, source lines were recorded*(--opprof-sites)*"])
    casting("--opprof-sites", run="--opprof-update", budget="Cast=1", rounds=10)
    files = pytester.path.rglob("baselines/*/*.json")
    assert {path: path.read_text() for path in files if not path.name.endswith(".sites.json")} == before


def test_the_flag_does_nothing_alone_and_says_so(pytester: pytest.Pytester, suite: Suite) -> None:
    result = suite("--opprof-sites")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --opprof-sites does nothing without --opprof"])


# --- a tracer that is there already

TRACED = """
import sys, pytest, torch
@pytest.fixture
def debugger():
    before = sys.gettrace()
    def trace(frame, event, argument): pass
    sys.settrace(trace)
    yield
    sys.settrace(before)
@pytest.mark.op_budget(Cast=0)
@pytest.mark.opprof(rounds=2)
def test_a(debugger):
    torch.ones(2).double()
"""


@pytest.mark.torch
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="from 3.12 on there is place for two")
def test_beside_a_debugger_no_line_is_known_and_that_is_said(
    pytester: pytest.Pytester, suite: Suite, asked: list[str]
) -> None:
    pytester.makepyfile(test_m=TRACED)
    result = suite("--opprof", "--opprof-backend=torch")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["source lines for Cast are unknown: it broke"])
    assert asked == ["test_m.py::test_a"]

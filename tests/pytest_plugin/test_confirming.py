"""More calls than in the baseline are confirmed in a fresh process before they fail a test."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.errors import BackendError
from pytest_opprof.processes.pool import Answer, Pool
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range

from ..conftest import ALONE, SECOND, looks, thrice

Suite = Callable[..., pytest.RunResult]
MODEL = """
import pytest
from pytest_opprof.backends import fake
@pytest.mark.opprof
def test_a():
    fake.launch("Add")
    for _ in range({casts}): fake.launch("Cast")
"""


def look(casts: int, **others: int) -> Answer:
    calls = {op: OpCounts(Range(n)) for op, n in {"Add": 1, "Cast": casts, **others}.items() if n}
    return Answer({"body": WindowBaseline(calls)}, "")


@pytest.fixture
def more(pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Run a test of 5 casts, with 3 in the baseline, and give the fresh process what it finds."""
    pytester.makepyfile(test_m=MODEL.format(casts=3))
    suite("--opprof-update")
    pytester.makepyfile(test_m=MODEL.format(casts=5))

    def run(*found: object, flags: tuple[str, ...] = ()) -> pytest.RunResult:
        looks(monkeypatch, *found)
        return suite("--opprof", *flags)

    return run


def test_calls_that_are_the_same_alone_fail_the_test(more: Callable[..., pytest.RunResult]) -> None:
    result = more(look(5), look(5))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "opprof: test_m.py::test_a does more than its baseline; re-running it in a fresh process to confirm",
            "  Cast: 5 calls (baseline: 3)",
            "  (confirmed in a fresh process)",
            "FAILED test_m.py::test_a - Cast 3 -> 5",
        ]
    )


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([look(3), look(3)], "in a fresh process it stays within the baseline"),
        ([look(2), look(2)], "in a fresh process it stays within the baseline"),
        ([look(5), look(3)], "its second run in a process matches the baseline"),
    ],
)
def test_calls_that_depend_on_what_ran_before_pass_and_that_is_said(
    more: Callable[..., pytest.RunResult], found: list[Answer], why: str
) -> None:
    result = more(*found)
    result.assert_outcomes(passed=1)
    remark = f"Cast: 5 calls (baseline: 3); but {why}, so the difference comes from tests that ran before, or varies"
    result.stdout.fnmatch_lines([f"test_m.py::test_a: {remark}", "opprof: 1 test measured, 1 ok*"])
    result.stdout.no_fnmatch_line("*keep what became cheaper*")


@pytest.mark.parametrize(
    "found",
    [
        [look(5), look(2)],  # of what the baseline has in the first use, less may hide something new
        [look(5), look(3, Exp=1)],
        [look(3, Exp=1), look(3, Exp=1)],
    ],
)
def test_a_second_look_that_finds_something_else_excuses_nothing(
    more: Callable[..., pytest.RunResult], found: list[Answer]
) -> None:
    more(*found).assert_outcomes(failed=1)


def test_calls_that_are_more_in_some_processes_say_what_to_do(more: Callable[..., pytest.RunResult]) -> None:
    result = more(look(4), look(2))
    result.assert_outcomes(failed=1)
    advice = "record the baseline again: it stores varying calls as a range"
    result.stdout.fnmatch_lines([f"  (alone in a fresh process: Cast 4. {advice})"])


def test_calls_that_differ_in_each_process_but_are_always_more_need_no_new_baseline(
    more: Callable[..., pytest.RunResult],
) -> None:
    result = more(look(4), look(6))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  (alone in a fresh process: Cast 4; more than in the baseline, too)"])


SEVERAL = """
import numpy as np
import pytest
ran = []
@pytest.mark.opprof
@pytest.mark.parametrize("n", range(3))
def test_a(n):
    for _ in range({casts}): np.ones(3).astype(np.float32)
@pytest.mark.opprof
def test_of_itself():
    np.exp(1.0)
    ran.append(1)
@pytest.mark.opprof
def test_of_others():
    np.exp(1.0)
    if ran: np.log(2.0)
"""


@pytest.mark.slow
@pytest.mark.processes
def test_one_process_looks_at_the_tests_of_a_file_but_only_a_fresh_one_excuses(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_m=SEVERAL.format(casts=1))
    suite("--opprof-update", "--opprof-backend=numpy", "-k", "not of_itself")
    pytester.makepyfile(test_m=SEVERAL.format(casts=2))
    monkeypatch.setattr(Pool, "alone", ALONE)
    monkeypatch.setattr(Pool, "second", SECOND)
    result = suite("--opprof", "--opprof-backend=numpy")
    result.assert_outcomes(failed=3, passed=2)
    said = [line for line in result.outlines if "onfirmed in" in line or "re-running it" in line]
    of_others = "test_m.py::test_of_others"
    assert said == [
        "opprof: test_m.py::test_a[0] does more than its baseline; re-running it in a fresh process to confirm",
        f"opprof: {of_others} does more than its baseline; re-running it in a fresh process to confirm",
        "  (confirmed in a fresh process)",
        "  (confirmed in a fresh process)",
        "  (confirmed in a fresh process)",
    ]
    excused = (
        f"{of_others}: Log: 1 call (baseline: 0); but *, so the difference comes from tests that ran before, or varies"
    )
    result.stdout.fnmatch_lines([excused])


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (BackendError("it broke"), "it broke"),
        (Answer({}, "failed: assert 0"), "failed: assert 0"),
        (Answer({}, ""), "the window was not opened there"),
        ([Answer({}, "failed: assert 0"), look(3)], "failed: assert 0"),  # the second is not alone
    ],
)
def test_what_cannot_be_confirmed_fails_and_says_so(
    more: Callable[..., pytest.RunResult], found: object, why: str
) -> None:
    result = more(*(found if isinstance(found, list) else [found]))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"  (not confirmed in a fresh process: {why})"])


def test_what_is_accepted_or_has_the_same_calls_needs_no_look(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = looks(monkeypatch)
    for casts, flag in ((3, "--opprof-update"), (5, "--opprof-update"), (5, "--opprof"), (2, "--opprof-update")):
        pytester.makepyfile(test_m=MODEL.format(casts=casts))
        assert suite(flag).ret == 0
    assert asked == []


@pytest.mark.parametrize(
    ("casts", "verdict", "shown"),
    [
        (1, "1 improved", "Cast: 1 call (baseline: 3)"),
        (3, "1 ok", "Cast: 1 call (baseline: 3); but not in a fresh process, so"),
    ],
)
def test_fewer_calls_are_an_improvement_if_a_fresh_process_makes_fewer_too(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, casts: int, verdict: str, shown: str
) -> None:
    pytester.makepyfile(test_m=MODEL.format(casts=3))
    suite("--opprof-update")
    pytester.makepyfile(test_m=MODEL.format(casts=1))
    looks(monkeypatch, look(casts))
    result = suite("--opprof", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"*{shown}*", f"opprof: 1 test measured, *{verdict}*"])
    if casts == 3:
        result.stdout.no_fnmatch_line("*improved*")


def test_three_tests_whose_improvement_is_confirmed_speak_for_all_others(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def models(casts: int) -> str:
        test = "@pytest.mark.opprof\ndef test_{}():\n    for _ in range({}): fake.launch('Cast')\n"
        return "import pytest\nfrom pytest_opprof.backends import fake\n" + "".join(
            test.format(n, casts) for n in "abcde"
        )

    pytester.makepyfile(test_m=models(3))
    suite("--opprof-update")
    pytester.makepyfile(test_m=models(1))
    asked = looks(monkeypatch, Answer({"body": WindowBaseline({"Cast": OpCounts(Range(1))})}, ""))
    suite("--opprof").stdout.fnmatch_lines(["opprof: 5 tests measured, 0 ok, 5 improved*"])
    assert asked == ["test_m.py::test_a", "test_m.py::test_b", "test_m.py::test_c"]


@pytest.mark.slow
@pytest.mark.processes
def test_calls_that_follow_the_order_of_a_set_pass_with_any_hash_seed(pytester: pytest.Pytester) -> None:
    """With real processes: of two orders one run has this one, and another that."""
    test = """
    from pytest_opprof.backends import fake

    def test_a():
        for word in {"a", "b", "c", "d"}:
            fake.launch("Cast")
            if word in "ab": break
    """
    pytester.makepyfile(test_m=test)
    flags = ["--opprof", "--opprof-all", "--opprof-backend=fake", "-pno:randomly"]
    update = pytester.runpytest_subprocess(*flags, "--opprof-update", "--opprof-processes=2")
    assert update.ret == 0
    for _ in range(4):
        result = pytester.runpytest_subprocess(*flags)
        result.assert_outcomes(passed=1)
        result.stdout.no_fnmatch_line("*improved*")


FIRST_USE = """
import pytest
from pytest_opprof.backends import fake
USED = []
@pytest.fixture(scope="module")
def model(): return []
def library(used):
    if not used: fake.launch("Cast"); fake.launch("Cast")
    used.append(1)
    fake.launch("Add")
@pytest.mark.opprof
def test_a(model): library({used})
@pytest.mark.opprof
def test_b(model): library({used}); {more}
"""


@pytest.mark.parametrize("used", ["USED", "model"])
@pytest.mark.parametrize(("more", "outcome"), [("pass", "passed"), ("fake.launch('Cast')", "failed")])
@pytest.mark.processes
def test_the_first_use_in_a_process_or_of_a_fixture_is_told_from_a_change(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, used: str, more: str, outcome: str
) -> None:
    """With real processes: what an earlier test did once for all is not done before in a subset of the tests."""
    pytester.makepyfile(test_m=FIRST_USE.format(used=used, more="pass"))
    suite("--opprof-update")
    pytester.makepyfile(test_m=FIRST_USE.format(used=used, more=more))
    monkeypatch.setattr(Pool, "alone", ALONE)
    suite("--opprof", "test_m.py::test_b").assert_outcomes(**{outcome: 1})


@pytest.mark.slow
@pytest.mark.processes
def test_a_worker_confirms_by_itself(pytester: pytest.Pytester, suite: Suite) -> None:
    """With real processes: of two workers each has a first use, where one process had one."""
    pytester.makepyfile(test_m=FIRST_USE.format(used="USED", more="pass"))
    suite("--opprof-update")
    result = suite("--opprof", "-n2", "--dist=each", "-k", "test_b")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["test_m.py::test_b: Cast: 2 calls (baseline: 0); but its second run in *"])


@pytest.mark.slow
@pytest.mark.processes
def test_what_is_excused_hides_no_other_window(pytester: pytest.Pytester, suite: Suite) -> None:
    """More calls that depend on what ran before take no verdict from a window that looks slower in this process."""
    text = """
import os, pytest
from pytest_opprof.backends import fake
RAN = []
def test_first(): RAN.append(1)
@pytest.mark.opprof(baseline=True)
def test_a(opprof):
    with opprof("calls"):
        fake.launch("Add")
        if RAN: fake.launch("Cast")
    for _ in opprof.rounds(10, warmup=0, name="time"):
        fake.launch("MatMul", device_ns=900_000 if RAN else 200_000)
"""
    pytester.makepyfile(test_m=text)
    suite("--opprof-update", "-k", "test_a")
    thrice(pytester)
    with pytest.MonkeyPatch.context() as real:
        real.setattr(Pool, "alone", ALONE)
        result = suite("--opprof")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["*looks slower; measuring it in process 2", "*so the difference comes from tests that ran before, or varies"]
    )


SOFTMAX = """
import pytest
from pytest_opprof.backends import fake
@pytest.mark.opprof
def test_a(): fake.launch("Softmax", nbytes={})
"""


@pytest.mark.parametrize(("found", "outcome"), [(100, "passed"), (9000, "failed")])
def test_work_is_confirmed_as_calls_are(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, found: int, outcome: str
) -> None:
    """Random data decides how much is computed: another process has the work of the baseline."""
    pytester.makepyfile(test_m=SOFTMAX.format(100))
    suite("--opprof-update")
    pytester.makepyfile(test_m=SOFTMAX.format(9000))
    alone = Answer({"body": WindowBaseline({"Softmax": OpCounts(Range(1), bytes=Range(found, found))})}, "")
    looks(monkeypatch, alone, alone)
    result = suite("--opprof")
    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines(
        ["opprof: test_m.py::test_a does more than its baseline; re-running it in a fresh process to confirm"]
    )


def test_work_that_differs_in_each_process_but_is_always_more_needs_no_new_baseline(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_m=SOFTMAX.format(100))
    suite("--opprof-update")
    pytester.makepyfile(test_m=SOFTMAX.format(9000))
    alone = Answer({"body": WindowBaseline({"Softmax": OpCounts(Range(1), bytes=Range(5000, 5000))})}, "")
    looks(monkeypatch, alone, alone)
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  (alone in a fresh process: Softmax less work; more than in the baseline, too)"])


IMPORTS = """
import pytest
from pytest_opprof.backends import fake
@pytest.mark.opprof
def test_a():
    fake.launch("Add")
    for op in {ops!r}.split(): fake.launch(op)
"""


def test_what_a_repeat_does_again_is_kept_and_what_an_import_does_once_is_left_out(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_m=IMPORTS.format(ops=""))
    suite("--opprof-update")
    pytester.makepyfile(test_m=IMPORTS.format(ops="Exp Exp Pow Sin"))
    looks(monkeypatch, look(0, Exp=2, Sin=1, Pow=1), look(0, Pow=1))
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  Pow: 1 call (baseline: 0)",
            "  (confirmed in a fresh process; 2 ops (Exp, Sin) left out: a repeat does not run them again, like an"
            " import)",
            "Exp * first use",
            "FAILED test_m.py::test_a - Pow 0 -> 1",
        ]
    )
    result.stdout.no_fnmatch_line("*calls of Exp*")


def test_a_memory_peak_that_a_repeat_does_not_reach_is_kept_beside_a_change(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Garbage collection begins at another time in a repeat."""
    body = (
        IMPORTS.replace("launch(op)", "launch(op, nbytes=8)")
        + "    fake.allocate({size})\n    fake.allocate(-{size})\n"
    )
    pytester.makepyfile(test_m=body.format(ops="", size=10**6))
    suite("--opprof-update", "--opprof-memory")
    pytester.makepyfile(test_m=body.format(ops="Pow", size=2 * 10**6))

    def peak(size: int) -> Answer:
        calls = {"Add": OpCounts(Range(1)), "Pow": OpCounts(Range(1), bytes=Range(8))}
        return Answer({"body": WindowBaseline(calls, facts={"peak_memory": Range(size)})}, "")

    looks(monkeypatch, peak(2 * 10**6), peak(10**6))
    result = suite("--opprof", "--opprof-memory")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  Pow: 1 call (baseline: 0)", "  peak memory: 1.91 MiB (baseline: 977 KiB)"])
    result.stdout.no_fnmatch_line("*left out*")


def test_a_peak_of_the_host_is_no_op_that_a_repeat_does_not_run_again(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (
        "import pytest\n@pytest.mark.opprof\ndef test_a():\n    x = bytearray({})\n    [len('') for _ in range({})]\n"
    )
    pytester.makepyfile(test_m=body.format(10**6, 20))
    suite("--opprof-update")
    pytester.makepyfile(test_m=body.format(2 * 10**6, 200))

    def look(peak: int) -> Answer:
        facts = {"python_calls": Range(202), "host_memory": Range(peak)}
        return Answer({"body": WindowBaseline({}, facts=facts)}, "")

    looks(monkeypatch, look(2 * 10**6), look(10**6))
    result = suite("--opprof")
    result.stdout.fnmatch_lines(
        ["  calls of Python functions: *", "  peak memory of the host: 1.9* MiB (baseline: 9* KiB)*"]
    )
    result.stdout.no_fnmatch_line("*left out*")


def test_a_change_is_confirmed_by_the_repeat_where_an_import_does_the_same_op(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_m=IMPORTS.format(ops=""))
    suite("--opprof-update")
    pytester.makepyfile(test_m=IMPORTS.format(ops="Pow"))
    looks(monkeypatch, look(0, Exp=9, Pow=3), look(0, Pow=1))
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  Pow: 1 call (baseline: 0)", "  (confirmed in a fresh process the second time)"])


ORDERED = """
import functools
import numpy as np

@functools.cache
def table():
    return [np.ones(8) * k for k in range(5)]

def test_one():
    sum(each.sum() for each in table()){more}

def test_two():
    sum(each.sum() for each in table())
    np.ones(4) * 2
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("few_plugins")
def test_tests_that_share_a_cache_pass_in_any_order_and_a_change_of_it_does_not(pytester: pytest.Pytester) -> None:
    run = partial(pytester.runpytest_subprocess, "-p", "no:cacheprovider", "--opprof-all")
    pytester.makepyfile(test_m=ORDERED.format(more=""))
    run("--opprof-update").assert_outcomes(passed=2)
    for order in (["test_m.py::test_two"], ["test_m.py::test_two", "test_m.py::test_one"]):
        result = run(*order)
        result.assert_outcomes(passed=len(order))
        assert "improved" not in result.stdout.str()
        result.stdout.fnmatch_lines(["*Mul: 6 calls (baseline: 1); but its second run in a process matches*"])
    in_the_body, in_the_cache = (
        ORDERED.format(more="; np.ones(4) * 2"),
        ORDERED.format(more="").replace("* k", "* k * 1"),
    )
    for changed, calls in ((in_the_body, 6), (in_the_cache, 10)):
        pytester.makepyfile(test_m=changed)
        result = run("test_m.py::test_one")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines([f"  Mul: {calls} calls (baseline: 5)*"])


OF_A_CLASS = """
import functools
import numpy as np

class Data:
    def __init__(self): self.x = np.ones((4, 4))
    @functools.cached_property
    def square(self): return self.x @ self.x
    @functools.cached_property
    def cube(self): return self.square @ self.x
    @functools.cached_property
    def total(self): return self.cube.sum()

class TestData:
    @classmethod
    def setup_class(cls): cls.data = Data()
    def test_square(self): assert self.data.square is not None
    def test_cube(self): assert self.data.cube is not None{more}
    def test_total(self): assert self.data.total is not None
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("few_plugins")
def test_tests_that_share_cached_attributes_of_an_object_pass_in_any_order(pytester: pytest.Pytester) -> None:
    run = partial(pytester.runpytest_subprocess, "-p", "no:cacheprovider", "--opprof-all")
    pytester.makepyfile(test_m=OF_A_CLASS.format(more=""))
    run("--opprof-update").assert_outcomes(passed=3)
    # The first one does the work of all; the others find it done, and show no op.
    tests = [f"test_m.py::TestData::test_{name}" for name in ("total", "cube", "square")]
    run(*tests).assert_outcomes(passed=3)
    run(tests[1]).assert_outcomes(passed=1)
    pytester.makepyfile(test_m=OF_A_CLASS.format(more="; self.data.x @ self.data.x"))
    result = run(tests[1])
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  MatMul: 3 calls (baseline: 1)*", "  (confirmed in a fresh process*"])

"""``op_budget(host_memory=...)``, ``opprof(memory=True)``: the peak of Python's memory, objects and arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from pytest_opprof.measure.memory.host_memory import LOOKER

from ..conftest import coarsely
from ..git_history import committed

Suite = Callable[..., pytest.RunResult]
HEAD = "import pytest, threading, tracemalloc\nfrom pytest_opprof.backends import fake\nSEEN = []\n"
LARGE = "    kept = [str(number) for number in range(50_000)]\n"


def write(pytester: pytest.Pytester, mark: str, body: str) -> None:
    pytester.makepyfile(test_m=f"{HEAD}@pytest.mark.{mark}\ndef test_a():\n{body}")


def test_a_peak_over_its_budget_fails_with_the_line_that_holds_it(pytester: pytest.Pytester, suite: Suite) -> None:
    # In the run that looks up the lines, the body waits until they are found.
    looked = f"    [each.join(10) for each in threading.enumerate() if each.name == {LOOKER!r}]\n"
    write(pytester, "op_budget(host_memory='100 KiB')", LARGE + looked)
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["op budget exceeded: *", "  peak memory of the host: * MiB (budget: 100 KiB)", "    * MiB at test_m.py:6"]
    )
    result.stdout.no_fnmatch_line("op * calls *")
    result.stdout.no_fnmatch_line("test_m.py::test_a: *")


def test_a_peak_of_objects_beside_numpys_ops_fails_with_the_plain_mark(pytester: pytest.Pytester, suite: Suite) -> None:
    ops = "    import numpy\n    numpy.ones(9).sum()\n"
    write(pytester, "opprof", ops)
    suite("--opprof-backend=numpy", "--opprof-update").assert_outcomes(passed=1)
    write(pytester, "opprof", ops + LARGE)
    result = suite("--opprof-backend=numpy", "--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  peak memory of the host: * MiB (baseline: *"])


def test_a_number_that_the_baseline_lacks_is_said(pytester: pytest.Pytester, suite: Suite) -> None:
    write(pytester, "opprof", "    len(SEEN)\n")
    suite("--opprof-update", "--no-opprof-memory").assert_outcomes(passed=1)
    result = suite("--opprof", "--opprof-memory")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*peak memory of the host is not compared: the baseline does not have it; an update records it"]
    )


@pytest.mark.processes
def test_the_changed_line_that_leads_to_a_peak_is_named(pytester: pytest.Pytester, suite: Suite) -> None:
    looked = f"    [each.join(10) for each in threading.enumerate() if each.name == {LOOKER!r}]\n"
    code = pytester.makepyfile(
        m="def made(n):\n    return [str(i) for i in range(n)]\ndef few():\n    return made(9)\n"
    )
    write(pytester, "opprof(memory=True)", f"    import m\n    kept = m.few()\n{looked}")
    committed(pytester.path)
    suite("--opprof-update", "--no-opprof-python").assert_outcomes(passed=1)
    code.write_text(code.read_text().replace("(9)", "(50_000)"))
    result = suite("--opprof", "--no-opprof-python")
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [r"  peak memory of the host: .* MiB \(baseline: .*", r"    .* MiB at m.py:2, below the changed line m.py:4"]
    )


@pytest.mark.parametrize(("copies", "says_test"), [(3, False), (1, True)])
def test_data_of_the_test_itself_explain_no_rise_that_other_lines_hold(
    pytester: pytest.Pytester, suite: Suite, copies: int, says_test: bool
) -> None:
    looked = f"    [each.join(10) for each in threading.enumerate() if each.name == {LOOKER!r}]\n"
    code = pytester.makepyfile(m="def copied(data):\n    return data[:9]\n")
    write(
        pytester, "opprof(memory=True)", f"    import m\n    data = bytes(1 << 20)\n    kept = m.copied(data)\n{looked}"
    )
    suite("--opprof-update", "--no-opprof-python").assert_outcomes(passed=1)
    code.write_text(code.read_text().replace("data[:9]", f"bytes({copies} << 20)"))
    if says_test:  # the other half of the rise
        test = pytester.path / "test_m.py"
        test.write_text(test.read_text().replace("bytes(1 << 20)", "bytes(2 << 20)"))
    result = suite("--opprof", "--no-opprof-python")
    result.assert_outcomes(failed=1)
    more = "; 2 MiB at test_m.py:7" if says_test else ""
    result.stdout.fnmatch_lines([f"    {copies} MiB at m.py:2{more}"])


LEAK = "    SEEN.append([str(number) for number in range({})])\n"


@pytest.mark.processes
def test_memory_that_a_call_keeps_fails_with_its_holder_though_nobody_asks(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    flags = ["--opprof-backend=numpy", "--no-opprof-python"]
    write(pytester, "opprof", LEAK.format(100))
    suite("--opprof-update", *flags).assert_outcomes(passed=1)
    suite("--opprof", *flags).assert_outcomes(passed=1)
    assert '"kept_memory": ' in stored(pytester)
    write(pytester, "opprof", LEAK.format(20_000))
    result = suite("--opprof", *flags)
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [
            r"  peak memory of the host: .*",
            r"    .* [KM]iB at test_m.py:6",
            r"  memory of the host kept after a call: 1\.\d+ MiB \(baseline: \d KiB\)",
            r"    each call leaves behind .*1 list; held by .*; made at test_m.py:6",
        ]
    )
    suite("--opprof-update", *flags).assert_outcomes(passed=1)
    suite("--opprof", *flags).assert_outcomes(passed=1)
    write(pytester, "opprof", LEAK.format(100))
    result = suite("--opprof", *flags)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*kept after a call*")  # less of it means little


def test_memory_that_a_call_may_keep_can_be_limited(pytester: pytest.Pytester, suite: Suite) -> None:
    write(pytester, "op_budget(kept_memory='64 KiB')", LEAK.format(20_000))
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [
            r"  memory of the host kept after a call: 1.* MiB \(budget: 64 KiB\)",
            r"    each call leaves behind .*1 list; held by .*; made at test_m.py:6",
        ]
    )
    write(pytester, "op_budget(kept_memory='64 KiB')", "    SEEN.append(1)\n")
    suite("--opprof").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "    @lru_cache(9)\n    def kept(number): return [str(each) for each in range(20_000)]",
            "    the cache of `kept` at m.py:5 keeps the last 9 calls",
        ),
        (
            "    last = deque(maxlen=4)\n    def kept(number): last.append([str(each) for each in range(20_000)])",
            "    1.* MiB at m.py:6",
        ),
    ],
    ids=["a cache", "a ring"],
)
@pytest.mark.processes
def test_memory_that_is_kept_but_no_leak_has_its_cache_or_its_lines(
    pytester: pytest.Pytester, few_plugins: None, code: str, said: str
) -> None:
    """In a process of its own: pytester keeps each call of a hook in this one."""
    begin = "from collections import deque\nfrom functools import lru_cache\nfrom itertools import count\nif count:\n"
    pytester.makepyfile(m=f"{begin}{code}\nnumbers = count()\n")
    write(pytester, "op_budget(kept_memory='64 KiB')", "    import m\n    m.kept(next(m.numbers))\n")
    result = pytester.runpytest_subprocess("--opprof", "--opprof-backend=numpy", "--no-opprof-python")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  memory of the host kept after a call: 1.* MiB (budget: 64 KiB)", said])


@pytest.mark.processes
def test_a_cache_that_one_run_fills_is_no_leak(pytester: pytest.Pytester, suite: Suite) -> None:
    flags = ["--opprof-backend=numpy", "--no-opprof-python"]
    write(pytester, "opprof", "    pass\n")
    suite("--opprof-update", *flags).assert_outcomes(passed=1)
    write(pytester, "opprof", "    SEEN[:] = [str(number) for number in range(20_000)]\n")
    result = suite("--opprof", *flags)
    result.stdout.no_fnmatch_line("*kept after a call*")


def test_a_peak_within_its_budget_passes(pytester: pytest.Pytester, suite: Suite) -> None:
    write(pytester, "op_budget(host_memory='8 MiB')", LARGE)
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*only its time*")


def test_a_peak_above_its_baseline_fails_where_it_was_asked_for(pytester: pytest.Pytester, suite: Suite) -> None:
    mark = "opprof(memory=True)"
    write(pytester, mark, "    kept = list(range(100))\n")
    suite("--opprof-update").assert_outcomes(passed=1)
    suite("--opprof").assert_outcomes(passed=1)
    write(pytester, mark, LARGE)
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  peak memory of the host: * MiB (baseline: * KiB)*"])
    write(pytester, "opprof", LARGE)
    suite("--opprof", "--no-opprof-python", "--no-opprof-memory").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    tracemalloc.start()\n", "peak memory of the host is unknown: the program uses tracemalloc itself"),
        ("    fake.launch('Add')\n", "fake does not measure it here"),
        (
            "    with open('once', 'x'): pass\n",
            "peak memory of the host is unknown: when it ran again, the body raised FileExistsError*",
        ),
        ("    SEEN.append(0)\n    if SEEN[1:]: raise SystemExit(3)\n", "*the body raised SystemExit(3)"),
    ],
)
def test_a_limit_that_cannot_be_checked_is_an_error(
    pytester: pytest.Pytester, suite: Suite, request: pytest.FixtureRequest, body: str, said: str
) -> None:
    import tracemalloc

    request.addfinalizer(tracemalloc.stop)
    write(pytester, "op_budget(host_memory='1 KiB')", body)
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*the limit on peak memory of the host (1 KiB) cannot be checked: {said}"])


def test_a_limit_on_peak_memory_of_plain_python_names_the_one_to_use(pytester: pytest.Pytester, suite: Suite) -> None:
    write(pytester, "op_budget(peak_memory='1 KiB')", LARGE)
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*the limit on peak memory (1 KiB) cannot be checked: no op ran. host_memory limits the memory of Python"
            " objects"
        ]
    )


@pytest.mark.usefixtures("untraced")
def test_a_baseline_of_another_python_is_not_compared_and_that_is_said(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    coarsely(monkeypatch)
    write(pytester, "opprof(memory=True, python=False)", "    kept = list(range(100))\n")
    suite("--opprof-update").assert_outcomes(passed=1)
    (times,) = pytester.path.glob("baselines/*/test_m.py.times.json")
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    assert version in times.read_text(encoding="utf-8")
    times.write_text(times.read_text(encoding="utf-8").replace(version, "Python 3.9"), encoding="utf-8")
    write(pytester, "opprof(memory=True, python=False)", LARGE)
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    said = "peak memory of the host is not compared: the baseline is of another version of Python"
    result.stdout.fnmatch_lines([f"*{said}"])


SMALL = "    kept = list(range(100))\n"


def test_the_peak_of_a_marked_body_without_ops_is_compared_by_itself(pytester: pytest.Pytester, suite: Suite) -> None:
    write(pytester, "opprof", SMALL)
    suite("--opprof-update").assert_outcomes(passed=1)
    suite("--opprof").assert_outcomes(passed=1)
    write(pytester, "opprof(python=False)", LARGE)
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  peak memory of the host: * MiB (baseline: * KiB)*"])


def test_the_peak_of_a_body_with_ops_is_measured_only_where_that_is_asked(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    write(pytester, "opprof", "    fake.launch('Add')\n" + LARGE)
    suite("--opprof-update").assert_outcomes(passed=1)
    assert "host_memory" not in stored(pytester)


@pytest.mark.parametrize("no", ["--no-opprof-memory", "-oopprof_memory=false", "opprof(memory=False)"])
def test_a_peak_that_nobody_asked_for_can_be_switched_off(pytester: pytest.Pytester, suite: Suite, no: str) -> None:
    is_mark = not no.startswith("-")
    write(pytester, no if is_mark else "opprof", LARGE)
    suite("--opprof-update", *([] if is_mark else [no])).assert_outcomes(passed=1)
    assert "host_memory" not in stored(pytester)


@pytest.mark.parametrize(
    "body",
    [
        "    tracemalloc.start()\n",
        "    with open('once', 'x'): pass\n",
        "    SEEN.append(0)\n    assert not SEEN[2:]\n",
    ],
)
def test_a_peak_that_nobody_asked_for_and_nobody_can_measure_gets_no_remark(
    pytester: pytest.Pytester, suite: Suite, request: pytest.FixtureRequest, body: str
) -> None:
    import tracemalloc

    request.addfinalizer(tracemalloc.stop)
    write(pytester, "opprof", body)
    result = suite("--opprof-update", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*peak memory of the host*")


def test_a_baseline_without_a_peak_that_nobody_asked_for_gets_no_remark(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    write(pytester, "opprof", LARGE)
    suite("--opprof-update", "--no-opprof-memory").assert_outcomes(passed=1)
    result = suite("--opprof", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*peak memory of the host*")


NUMPY = """
import threading
import numpy as np, pytest
@pytest.mark.opprof
def test_a():
    kept = np.ones({size})
    [each.join(10) for each in threading.enumerate() if each.name == {looker!r}]
"""


def test_a_peak_of_numpy_fails_with_the_line_that_holds_it(pytester: pytest.Pytester, suite: Suite) -> None:
    pytest.importorskip("numpy")
    pytester.makepyfile(test_m=NUMPY.format(size=1_000, looker=LOOKER))
    suite("--opprof-update", "--opprof-backend=numpy").assert_outcomes(passed=1)
    pytester.makepyfile(test_m=NUMPY.format(size=200_000, looker=LOOKER))
    result = suite("--opprof", "--opprof-backend=numpy")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  peak memory: 1.53 MiB (baseline: 7.8* KiB)*", "    1.53 MiB at test_m.py:5"])


def stored(pytester: pytest.Pytester) -> str:
    """Return the facts that the only baseline has."""
    (path,) = pytester.path.glob("baselines/*/test_m.py.json")
    return path.read_text(encoding="utf-8")


@pytest.mark.torch
def test_a_peak_of_tensors_that_a_cycle_keeps_names_the_cycle(pytester: pytest.Pytester, suite: Suite) -> None:
    test = """
import pytest, torch
class Batch:
    def __init__(self):
        self.data = torch.zeros(100_000)
        {cycle}
@pytest.mark.opprof
def test_a():
    for _ in range(5): Batch()
"""
    pytester.makepyfile(test_m=test.format(cycle="pass"))
    suite("--opprof-update", "--opprof-backend=torch").assert_outcomes(passed=1)
    pytester.makepyfile(test_m=test.format(cycle="self.me = self"))
    result = suite("--opprof", "--opprof-backend=torch")
    result.assert_outcomes(failed=1)
    said = "    the cycle Batch.me keeps up to 1.91 MiB of arrays until the garbage collector runs"
    result.stdout.fnmatch_lines(["  peak memory: 1.91 MiB (baseline: 391 KiB)", said])

"""``--opprof-leaks``, ``opprof(leaks=True)``, ``op_budget(left_behind=0)``: what each call of a test leaves behind.

Each in a process of its own: pytester records the hooks of a run in this one, which each call leaves behind.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from fnmatch import fnmatch

import pytest

Suite = Callable[..., pytest.RunResult]
pytestmark = pytest.mark.processes


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Run pytest on the files of pytester with the fake device, in another process."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\nopprof_backend = fake\naddopts = -p pytest_opprof.plugin -p no:cacheprovider\n")
    return pytester.runpytest_subprocess


HEAD = "import pytest\nfrom pytest_opprof.backends import fake\nKEPT = []\nclass Result: pass\n"
LEAKS = "    KEPT.append(Result())\n"
BODY = '    fake.launch("MatMul")\n'


def write(pytester: pytest.Pytester, mark: str, *body: str) -> None:
    pytester.makepyfile(test_m=HEAD + f"@pytest.mark.{mark}\ndef test_a():\n{''.join(body)}")


@pytest.mark.slow
def test_a_leak_that_the_baseline_lacks_fails_with_its_holder(suite: Suite, pytester: pytest.Pytester) -> None:
    write(pytester, "opprof(leaks=True)", BODY)
    suite("--opprof", "--opprof-update").assert_outcomes(passed=1)
    suite("--opprof").assert_outcomes(passed=1)
    write(pytester, "opprof(leaks=True)", BODY, LEAKS)
    result = suite("--opprof", "--opprof-json=run.json")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  left behind by each call: 1 (baseline: 0)",
            "    each call leaves behind 1 test_m.Result; held by test_m.KEPT (list), which grows at *:8; made at *:8",
            "opprof: 1 test measured, 0 ok, 1 leaving more behind*",
            "FAILED * - left behind 0 -> 1 at test_m.py:8",
        ]
    )
    (test,) = json.loads((pytester.path / "run.json").read_text())["tests"]
    assert test["windows"][0]["facts"]["left_behind"] == [1]


@pytest.mark.slow
@pytest.mark.parametrize(("leak", "failed"), [("", 0), (LEAKS, 1)])
def test_a_budget_limits_it_and_needs_no_flag(suite: Suite, pytester: pytest.Pytester, leak: str, failed: int) -> None:
    write(pytester, "op_budget(left_behind=0)", BODY, leak)
    result = suite("--opprof")
    result.assert_outcomes(failed=failed, passed=1 - failed)
    if leak:
        result.stdout.fnmatch_lines(["  left behind by each call: 1 (budget: 0)", "*held by test_m.KEPT (list)*"])


@pytest.mark.slow
def test_a_leak_over_a_budget_is_confirmed_in_a_fresh_process(suite: Suite, pytester: pytest.Pytester) -> None:
    write(pytester, "op_budget(left_behind=0)", BODY)
    suite("--opprof-update").assert_outcomes(passed=1)
    write(pytester, "op_budget(left_behind=0)", BODY, LEAKS)
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  left behind by each call: 1 (budget: 0, *", "  (confirmed in a fresh process*)"])


@pytest.mark.slow
def test_a_body_without_an_op_is_looked_at_too(suite: Suite, pytester: pytest.Pytester) -> None:
    write(pytester, "op_budget(left_behind=0)", LEAKS)
    suite("--opprof").assert_outcomes(failed=1)
    write(pytester, "op_budget(left_behind=0)", "    sum(range(9))\n")
    suite("--opprof").assert_outcomes(passed=1)


def test_all_tests_are_looked_at_with_the_flag_and_a_leak_without_a_baseline_is_told(
    suite: Suite, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_m=HEAD + "def test_a():\n" + BODY + LEAKS)
    result = suite("--opprof-all", "--opprof-leaks", "--opprof")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*test_a: each call leaves behind 1 test_m.Result; held by test_m.KEPT (list)*"])


@pytest.mark.slow
def test_a_body_that_cannot_run_again_says_so_and_its_budget_cannot_be_checked(
    suite: Suite, pytester: pytest.Pytester
) -> None:
    once = "    assert not KEPT\n    KEPT.append(1)\n"
    write(pytester, "opprof(leaks=True)", BODY, once)
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*leaks are unknown: when it ran again, the body raised *"])
    write(pytester, "op_budget(left_behind=0)", BODY, once)
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the limit on left behind by each call (0) cannot be checked*"])


@pytest.mark.slow
def test_what_is_no_yes_or_no_is_refused(suite: Suite, pytester: pytest.Pytester) -> None:
    write(pytester, "opprof(leaks=3)", BODY)
    suite("--opprof").stderr.fnmatch_lines(["*opprof(leaks=3): write True or False"])


COMPILES = """
import pytest
from pytest_opprof.backends import fake

KEPT, COMPILED = [], []

@pytest.mark.opprof
def test_a():
    fake.launch("MatMul")
    {step}
"""


@pytest.mark.slow
@pytest.mark.processes
def test_what_a_body_no_longer_does_after_many_calls_is_confirmed_before_leaks_are_looked_for(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    """A compiler gives up after eight variants of a function: two looks at leaks are more calls than that."""
    pytester.makepyfile(test_m=COMPILES.format(step="pass"))
    assert pytester.runpytest_subprocess("--opprof-update", "--opprof-leaks").ret == 0
    step = "if len(COMPILED) < 8: COMPILED.append(fake.launch('Compile')); KEPT.append(object())"
    pytester.makepyfile(test_m=COMPILES.format(step=step))
    result = pytester.runpytest_subprocess("--opprof", "--opprof-leaks")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  Compile: 1 call (baseline: 0)", "  (confirmed in a fresh process*"])


@pytest.mark.slow
def test_a_log_that_pytest_captures_is_not_left_behind(suite: Suite, pytester: pytest.Pytester) -> None:
    log = "    try: {}['a']\n    except KeyError: logging.getLogger().exception('lost')\n"
    write(pytester, "op_budget(left_behind=0)", BODY, log)
    test_file = pytester.path / "test_m.py"
    test_file.write_text("import logging\n" + test_file.read_text())
    suite("--opprof").assert_outcomes(passed=1)


@pytest.mark.slow
def test_memory_of_a_device_that_nothing_in_python_holds_is_leaked_memory(
    suite: Suite, pytester: pytest.Pytester
) -> None:
    write(pytester, "op_budget(leaked_memory='1 KiB')", BODY, "    fake.allocate(1 << 20)\n")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  memory left behind by each call: 1 MiB (budget: 1 KiB)",
            "    each call leaves behind memory (1 MiB on the device)",
        ]
    )


PLAIN = {
    "an object": ("KEPT.append(Result())", "1 test_m.Result; held by test_m.KEPT (list), which grows at *:8"),
    "a number": ("KEPT.append(len(KEPT) << 40)", "1 int; held by test_m.KEPT (list), which grows at *:8"),
    "a file": ("KEPT.append(open(__file__))", "1 open file, *; held by test_m.KEPT (list), which grows at *:8"),
    "a thread": ("start()", "1 thread, *"),
    "a cycle with a finalizer": ("cycle()", "1 test_m.Closes with a finalizer in a cycle; kept by the cycle *"),
}
HELPERS = """
import threading
over = threading.Event()
def start(): threading.Thread(target=over.wait, daemon=True).start()
class Closes:
    def __del__(self): pass
def cycle():
    one = Closes()
    one.itself = one
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", PLAIN)
def test_a_test_with_the_plain_mark_fails_if_it_begins_to_leave_something_behind(
    suite: Suite, pytester: pytest.Pytester, what: str
) -> None:
    step, told = PLAIN[what]
    pytester.makeconftest(HELPERS)
    head = "from conftest import start, cycle\n" if "()" in step and "KEPT" not in step else "\n"
    write(pytester, "opprof", BODY)
    test_file = pytester.path / "test_m.py"
    test_file.write_text(head + test_file.read_text())
    suite("--opprof-update").assert_outcomes(passed=1)
    suite("--opprof").assert_outcomes(passed=1)
    test_file.write_text(f"{test_file.read_text().rstrip()}; {step}\n")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    wanted = told.replace("test_m.Closes", "conftest.Closes").split("; ")
    result.stdout.fnmatch_lines(["  left behind by each call: 1 (baseline: 0)" if "*" not in wanted[0] else "  left *"])
    assert all(fnmatch(result.stdout.str(), f"*{each}*") for each in wanted)
    # Under coverage more objects of a thread are left.
    result.stdout.fnmatch_lines(["  (*in a fresh process*"])
    suite("--opprof", "--no-opprof-leaks").assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_test_that_keeps_objects_fails_if_it_begins_to_leave_a_thread(
    suite: Suite, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(HELPERS)
    write(pytester, "opprof", BODY, LEAKS)
    suite("--opprof-update").assert_outcomes(passed=1)
    suite("--opprof").stdout.fnmatch_lines(["opprof: 1 test measured, 1 ok*"])
    write(pytester, "opprof", BODY, LEAKS, "    import conftest; conftest.start()\n")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  threads, open files and processes left behind by each call: 1 (baseline: 0)",
            "    each call leaves behind 1 thread",
        ]
    )


@pytest.mark.slow
def test_two_revisions_of_a_long_body_are_compared_by_what_they_leave_open(
    suite: Suite, pytester: pytest.Pytester
) -> None:
    every_body_is_long = "from pytest_opprof.measure.memory import glance\nglance.SHORT_NS = 0\n"
    pytester.makeconftest(every_body_is_long + HELPERS)
    write(pytester, "opprof", BODY, "    import step; step.step()\n")
    pytester.makepyfile(step="def step(): pass\n")
    for command in ("init -q", "add -A", "-c user.name=n -c user.email=n@example.org commit -qm one"):
        pytester.run("git", *command.split())
    pytester.makepyfile(step="KEPT = []\ndef step(): KEPT.append(object)\n")
    suite("--opprof-against=HEAD").assert_outcomes(passed=1)
    pytester.makepyfile(step="import conftest\ndef step(): conftest.start()\n")
    result = suite("--opprof-against=HEAD")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  threads, open files and processes left behind by each call: 1 (HEAD: 0)"])


@pytest.mark.slow
def test_a_body_that_cannot_run_again_is_no_longer_compared_and_says_so(
    suite: Suite, pytester: pytest.Pytester
) -> None:
    write(pytester, "opprof", BODY)
    suite("--opprof-update").assert_outcomes(passed=1)
    write(pytester, "opprof", BODY, "    assert not KEPT\n    KEPT.append(1)\n")
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*leaks are not compared: it cannot run again"])


@pytest.mark.slow
def test_an_update_says_that_leaks_of_a_body_that_already_leaves_something_are_not_compared(
    suite: Suite, pytester: pytest.Pytester
) -> None:
    write(pytester, "opprof", BODY, LEAKS)
    result = suite("--opprof-update")
    result.stdout.fnmatch_lines(
        ["test_m.py::test_a: leaks are not compared: each call leaves something behind already; opprof(leaks=True)*"]
    )
    write(pytester, "opprof", BODY)
    assert "leaves something" not in suite("--opprof-update").stdout.str()


@pytest.mark.slow
def test_a_type_has_a_limit_of_its_own(suite: Suite, pytester: pytest.Pytester) -> None:
    write(pytester, "op_budget({'left_behind:test_m.Result': 0, 'left_behind:thread': 0})", BODY, LEAKS)
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  test_m.Result left behind by each call: 1 (budget: 0)",
            "    each call leaves behind 1 test_m.Result; held by test_m.KEPT (list), which grows at *:8; made at *:8",
            "FAILED * - test_m.Result left behind by each call 1, budget 0*",
        ]
    )
    write(pytester, "op_budget({'left_behind:test_m.Result': 1, 'left_behind:*.Result': '1..2'})", BODY, LEAKS)
    suite("--opprof").assert_outcomes(passed=1)
    write(pytester, "op_budget({'left_behind:test_m.Resul': 0})", BODY, LEAKS)
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    unknown = "*unknown type 'test_m.Resul' in left_behind:test_m.Resul: nothing of it was left behind, *did you mean*"
    result.stdout.fnmatch_lines([unknown])


@pytest.mark.slow
def test_a_warning_of_further_runs_of_a_body_is_not_counted_again(suite: Suite, pytester: pytest.Pytester) -> None:
    write(pytester, "op_budget(left_behind=0)", BODY, "    warnings.warn('old', DeprecationWarning)\n")
    test_file = pytester.path / "test_m.py"
    test_file.write_text("import warnings\n" + test_file.read_text())
    suite("--opprof").assert_outcomes(passed=1, warnings=1)


@pytest.mark.slow
def test_a_warning_of_rounds_before_the_last_is_shown(suite: Suite, pytester: pytest.Pytester) -> None:
    write(pytester, "opprof(rounds=3)", BODY, "    warnings.warn('once')\n")
    test_file = pytester.path / "test_m.py"
    test_file.write_text("import warnings\n" + test_file.read_text())
    suite("--opprof").stdout.fnmatch_lines(["*UserWarning: once"])

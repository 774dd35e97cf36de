"""The `opprof` fixture."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pytest_opprof.cli.main import main

Suite = Callable[..., pytest.RunResult]
HEAD = "import pytest, unittest\nfrom pytest_opprof.backends import fake\n"


@pytest.mark.parametrize("flags", [(), ("--opprof",)], ids=["idle", "measuring"])
def test_windows_are_measured_with_or_without_the_flag(
    pytester: pytest.Pytester, suite: Suite, flags: tuple[str, ...]
) -> None:
    pytester.makepyfile(
        HEAD
        + """
def test_windows(opprof):
    with opprof("prefill") as prefill:
        fake.launch("MatMul", device_ns=500); fake.launch("Cast")
    rounds = opprof.rounds(20, warmup=3)
    seen = []
    for n in rounds:
        seen.append(n)
        fake.launch("Add")
    assert prefill.count("Cast") <= 2 and prefill.top(1)[0].op == "Cast"
    assert seen == list(range(-3, 20))
    assert rounds.stats("Add").calls == (1,) * 20
    assert rounds.count("Add") == 1 and rounds.host_ns > 0
"""
    )
    suite(*flags).assert_outcomes(passed=1)


def test_each_window_is_compared_by_its_name_and_unnamed_ones_by_their_number(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile(
        HEAD
        + """
def test_a(opprof):
    with opprof(): fake.launch("Add")
    with opprof("mine"): fake.launch("Mul")
    with opprof(): fake.launch("Exp")
    for _ in opprof.rounds(2): fake.launch("Log")
    for _ in opprof.rounds(2, name="steps"): fake.launch("Sin")
"""
    )
    suite("--opprof-update")
    (path,) = pytester.path.glob("baselines/*/*.json")
    windows = json.loads(path.read_text())["tests"]["test_a"]
    assert {name: list(window["ops"]) for name, window in windows.items()} == {
        "1": ["Add"],
        "2": ["Exp"],
        "mine": ["Mul"],
        "rounds 1": ["Log"],
        "steps": ["Sin"],
    }
    suite("--opprof").stdout.fnmatch_lines(["opprof: 1 test measured, 1 ok, no times judged"])


def test_a_window_that_is_entered_again_has_a_step_per_entry(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
def test_a(opprof):
    for n in range(3):
        with opprof("step") as step:
            for _ in range(n + 1): fake.launch("Add")
        assert step.count("Add") == n + 1
"""
    )
    suite("--opprof-update")
    (path,) = pytester.path.glob("baselines/*/*.json")
    assert json.loads(path.read_text())["tests"]["test_a"]["step"]["ops"]["Add"]["calls"] == [1, 3]


def test_windows_of_one_name_are_rounds_of_one_and_a_failure_says_so(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        test_m=HEAD
        + """
def test_a(opprof):
    for calls in (2, int(__import__("os").environ.get("CALLS", 2))):
        with opprof("part"):
            for _ in range(calls):
                fake.launch("Cast", device_ns=9)
"""
    )
    suite("--opprof-update")
    assert "the window ran" not in suite("--opprof").stdout.str()
    monkeypatch.setenv("CALLS", "3")
    result = suite("--opprof")
    result.stdout.fnmatch_lines(
        [
            "  Cast: 2..3 calls (baseline: 2)",
            "  (the window ran 2 times: its calls are those of the run with the most)",
        ]
    )


def test_in_a_marked_test_the_body_is_measured_too_windows_included(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.op_budget(Add=2)
def test_a(opprof):
    fake.launch("Add")
    with opprof("inner") as inner:
        fake.launch("Add"); fake.launch("Add")
    assert inner.count("Add") == 2
"""
    )
    result = suite("--opprof")
    result.stdout.fnmatch_lines(["op budget exceeded: *::test_a  [[]fake*", "  Add: 3 calls (budget: 2)"])


def test_in_a_marked_test_with_rounds_the_limits_hold_for_each_round(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.op_budget(Add=1, Exp=0)
def test_kept(opprof):
    fake.launch("Exp")
    for _ in opprof.rounds(5): fake.launch("Add")
@pytest.mark.op_budget(Add=1)
def test_broken(opprof):
    for n in opprof.rounds(5):
        fake.launch("Add")
        if n == 3: fake.launch("Add")
"""
    )
    result = suite("--opprof", "-p", "no:randomly")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["op budget exceeded: *::test_broken window rounds 1 *", "  Add: 1..2 calls (budget: 1)"]
    )


def test_windows_in_a_body_with_rounds_have_a_step_per_round(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.opprof(rounds=3, warmup=2)
def test_a(opprof):
    with opprof() as p: fake.launch("Add")
    assert p.count("Add") == 1
"""
    )
    suite("--opprof-update", "--opprof-json=run.json").assert_outcomes(passed=1)
    (test,) = json.loads((pytester.path / "run.json").read_text())["tests"]
    assert {window["name"]: window["rounds"] for window in test["windows"]} == {"1": 3, "body": 3}


def test_a_loop_left_before_its_end_has_no_numbers_and_leaves_no_profiler_behind(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile(
        HEAD
        + """
def test_a(opprof):
    rounds = opprof.rounds(5)
    for _ in rounds: break
    assert fake.backend().log is None
    rounds.count("Add")
def test_b(opprof):
    for _ in opprof.rounds(5, warmup=0): raise ValueError
def test_c(): assert fake.backend().log is None
"""
    )
    result = suite("--opprof")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*UsageError: window 'rounds 1' has no numbers: it was left before its end"])


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("opprof.rounds(0)", "*opprof.rounds(rounds=0): write an int of 1 or more"),
        ("opprof.rounds(2, warmup=-1)", "*opprof.rounds(warmup=-1): write an int of 0 or more"),
        ("opprof.rounds('2')", "*opprof.rounds(rounds='2'): write an int of 1 or more"),
        ("r = opprof.rounds(1); list(r); list(r)", "*these rounds were run already; write opprof.rounds(...) again*"),
        ("p = opprof('w').__enter__(); p.count('Add')", "*window 'w' has no numbers: it was left before its end"),
    ],
)
def test_a_use_that_means_nothing_is_an_error_at_the_users_line(
    pytester: pytest.Pytester, suite: Suite, use: str, message: str
) -> None:
    pytester.makepyfile(
        test_m=HEAD + f"def test_a(opprof):\n    {use}\ndef test_b(): assert fake.backend().log is None\n"
    )
    result = suite("--opprof")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines([message, "*test_m.py:4:*"])


def test_the_fixture_checks_the_marks_of_its_test_also_without_the_flag(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile(test_m=HEAD + "@pytest.mark.opprof(backend='nix')\ndef test_a(opprof): pass\n")
    result = suite()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["test_m.py:3: test_a: opprof(backend=): there is no backend 'nix'. Known: *"])


def test_a_nested_profiler_of_the_same_backend_is_an_error_that_says_so(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile(
        HEAD
        + """
from pytest_opprof.backends import Options
def test_a(opprof):
    with fake.backend().collect(Options()):
        with opprof("w"): pass
"""
    )
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E*BackendError: the fake backend is already recording, and recordings cannot be nested"]
    )


UNFINISHED = """
import pytest
from pytest_opprof.backends import fake
def work(): fake.launch("Add")
@pytest.fixture
def spanning(opprof):
    with opprof("span"): yield
@pytest.fixture
def late(opprof):
    yield
    with opprof("teardown"): work()
def test_break(opprof):
    for number in opprof.rounds(5):
        work()
        if number == 3: break
def test_break_in_warm_up(opprof):
    for number in opprof.rounds(5): break
def test_never_closed(opprof):
    kept = opprof("a"); kept.__enter__(); work()
def test_in_a_fixture(spanning): work()
"""


def test_a_window_without_an_end_fails_the_test_that_is_measured(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(UNFINISHED)
    suite().assert_outcomes(passed=4)
    result = suite("--opprof")
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(
        [
            "test_*.py:*: test_break: window 'rounds 1' was left before its end: it has to end inside*",
            "test_*.py:*: test_break_in_warm_up: window 'rounds 1' was left before its end*",
            "test_*.py:*: test_never_closed: window 'a' was left before its end*",
            "test_*.py:*: test_in_a_fixture: window 'span' is still open*not in a fixture",
        ]
    )
    result.stdout.no_fnmatch_line("*ValueError*")


def test_a_window_opened_after_the_test_is_an_error(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(UNFINISHED.replace("def test_", "def no_") + "def test_a(late): work()\n")
    result = suite("--opprof", "--opprof-all")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*UsageError: window 'teardown' was opened after the test*"])


def test_a_window_that_ended_in_an_exception_is_said_to_be_unjudged(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        UNFINISHED.replace("def test_", "def no_")
        + "def test_a(opprof):\n    with pytest.raises(KeyError), opprof('e'): raise KeyError\n"
    )
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    summary = "opprof: 1 test measured, 0 ok, 1 not measured"
    result.stdout.fnmatch_lines(["not judged, the window ended in KeyError: *::test_a window e", summary])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("with opprof('body'): work()", "*a window cannot be called 'body'*"),
        ("with opprof('w'), opprof('w'): work()", "*window 'w' is already open; give the inner window another name*"),
        (
            "opprof(work)",
            "*opprof(<function work at 0x*>) measures nothing, its argument is the name of a window*",
        ),
        ("opprof('prefill')", "*window 'prefill' measures nothing: it was made and never entered. Write `with opprof*"),
        ("opprof.rounds(20)", "*window 'rounds 1' measures nothing: it was made and never entered*"),
    ],
)
def test_names_that_would_mix_windows_up_and_windows_that_measure_nothing_are_refused(
    pytester: pytest.Pytester, suite: Suite, body: str, message: str
) -> None:
    pytester.makepyfile(UNFINISHED.replace("def test_", "def no_") + f"def test_a(opprof):\n    {body}\n")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([message])


def test_warm_up_rounds_do_not_count_for_the_windows_inside(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        UNFINISHED.replace("def test_", "def no_")
        + """
def test_a(opprof):
    before = []
    for _ in opprof.rounds(3, warmup=2):
        with opprof("inner"):
            work()
            if not before: fake.launch("MatMul")
            before.append(1)
"""
    )
    suite("--opprof", "--opprof-json=run.json")
    (test,) = json.loads((pytester.path / "run.json").read_text())["tests"]
    rounds = {window["name"]: {op: n["calls"] for op, n in window["ops"].items()} for window in test["windows"]}
    assert rounds == {"inner": {"Add": [1, 1, 1]}, "rounds 1": {"Add": [1, 1, 1]}}


RANGES = """
from pytest_opprof import op
def library():
    with op("my_attention"): fake.launch("MatMul")
@pytest.mark.op_budget({{"my_attention": 2, "my_*": "1..3", "MatMul": 3}}, calls=6, only=["MatMul", "my_attention"])
def test_a(opprof):
    for _ in range({times}): library()
    with opprof.op("my_attention"): fake.launch("MatMul")
"""


def test_a_range_is_an_op_of_budgets_baselines_tables_and_the_json(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=HEAD + RANGES.format(times=1))
    suite("--opprof-update", "--opprof-json=run.json").assert_outcomes(passed=1)
    (path,) = pytester.path.glob("baselines/*/*.json")
    kept = json.loads(path.read_text())["tests"]["test_a"]["body"]["ops"]
    assert {op: each["calls"] for op, each in kept.items()} == {"MatMul": 2, "my_attention": 2}
    (test,) = json.loads((pytester.path / "run.json").read_text())["tests"]
    assert test["windows"][0]["ops"]["my_attention"] == {
        "calls": [2],
        "device_ns": None,
        "bytes": None,
        "flops": None,
    }
    suite("--opprof").assert_outcomes(passed=1)
    pytester.makepyfile(test_m=HEAD + RANGES.format(times=2))
    result = suite("--opprof", "-v")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  my_attention: 3 calls (budget: 2, baseline: 2)",
            "my_attention * 2 -> 3 * - * over budget, more calls",
        ]
    )


def test_a_range_that_must_not_run_is_known_by_an_alias(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.op_budget({"slow_path": 0})
@pytest.mark.parametrize("slow", [False, True])
def test_a(opprof, slow):
    fake.launch("Add")
    if slow:
        with opprof.op("slow_path"): pass
"""
    )
    result = suite("--opprof", "-o", "opprof_aliases=slow_path = slow_path")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["  slow_path: 1 call (budget: 0)"])
    suite("--opprof").stdout.fnmatch_lines(["*unknown op 'slow_path'*"])


def test_library_code_with_ranges_runs_unmeasured_as_if_it_had_none(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=HEAD + RANGES.format(times=9))
    suite().assert_outcomes(passed=1)


def test_a_range_with_a_name_of_the_vocabulary_fails_the_test_that_measures_it(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile(
        HEAD
        + """
def test_a(opprof):
    with opprof(), opprof.op("Cast"): pass
def test_b(opprof):
    with opprof("w") as window: fake.launch("Add")
    assert window.calls == 1
"""
    )
    result = suite("--opprof")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*UsageError: opprof.op('Cast'): the name is taken, ops called so are counted as Cast;*"]
    )


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.processes
def test_an_idle_run_with_pytorch_prints_nothing_that_a_test_of_output_sees(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own: Kineto looks once whether it is to be silent."""
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    pytester.makeconftest("import torch")
    pytester.makepyfile(
        """
import torch
def test_output(opprof, capfd):
    with opprof() as window:
        torch.ones(2)
    assert window.calls == 1
    assert capfd.readouterr() == ("", "")
"""
    )
    pytester.runpytest_subprocess("--opprof-backend=torch").assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.processes
@pytest.mark.usefixtures("few_plugins")
def test_memory_that_is_older_than_the_window_is_freed_without_a_word(pytester: pytest.Pytester) -> None:
    """In a process of its own: PyTorch says it of the first such block."""
    pytester.makepyfile(
        """
import torch
def test_output(opprof, capfd):
    older = torch.ones(2)
    with opprof():
        torch.ones(2)
        del older
    assert capfd.readouterr() == ("", "")
"""
    )
    pytester.runpytest_subprocess("--opprof", "--opprof-backend=torch").assert_outcomes(passed=1)


def test_a_window_that_is_saved_can_be_shown_checked_and_compared(
    pytester: pytest.Pytester, suite: Suite, capsys: pytest.CaptureFixture[str]
) -> None:
    pytester.makepyfile(
        HEAD
        + """
def test_a(opprof):
    for name, casts in (("before", 1), ("after", 3)):
        with opprof(name) as window:
            fake.launch("MatMul", device_ns=500)
            for _ in range(casts): fake.launch("Cast", device_ns=10)
        opprof.save(window, f"{name}.json")
"""
    )
    suite("--opprof").assert_outcomes(passed=1)
    capsys.readouterr()
    assert main(["show", "after.json", "--aggregate-by", "op", "--format", "csv"]) == 0
    assert "Cast" in capsys.readouterr().out
    assert main(["check", "after.json", "--budget", "Cast=2"]) == 1
    assert "Cast: 3 calls (budget: 2)" in capsys.readouterr().out
    assert main(["diff", "before.json", "after.json"]) == 1
    assert "Cast: 3 calls (before: 1)" in capsys.readouterr().out


def test_what_cannot_be_saved_is_one_line(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
def test_open(opprof):
    with opprof("a") as window:
        opprof.save(window, "a.json")

def test_folder(opprof):
    with opprof("a") as window:
        fake.launch("Cast")
    opprof.save(window, ".")
"""
    )
    result = suite("--opprof")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["*UsageError: window 'a' has no numbers: it is still open", "*opprof.save: . cannot be written: *"]
    )

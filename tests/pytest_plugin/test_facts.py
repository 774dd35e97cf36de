"""Facts of a window as users meet them: limits, baselines, the failing table, what is recorded when."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

Suite = Callable[..., pytest.RunResult]
HEAD = "import os, pytest\nfrom pytest_opprof.backends import fake\nnow = os.environ.get('NOW')\n"
GROWS = """
@pytest.mark.opprof({mark})
def test_a():
    fake.launch("Add")
    for _ in range({times}):
        fake.allocate({size})
        fake.allocate(-{size})
"""
MIB = 2**20


def test_a_limit_on_memory_that_is_held_asks_for_it_to_be_recorded(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.op_budget(held_memory="1 KiB")
@pytest.mark.opprof(rounds=12)
@pytest.mark.parametrize("freed", [5000, 0])
def test_a(freed):
    fake.launch("Add")
    fake.allocate(5000)
    if freed:
        fake.allocate(-freed)
"""
    )
    result = suite("--opprof")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["  memory held at the end: 4.88 KiB (budget: 1 KiB)"])


def test_a_limit_on_what_the_backend_does_not_know_is_an_error(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(HEAD + '@pytest.mark.op_budget(grad_nodes=0)\ndef test_a():\n    fake.launch("Add")\n')
    result = suite("--opprof")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*the limit on ops recorded for backward (0) cannot be checked: fake does not measure it here*"]
    )


def grows(pytester: pytest.Pytester, size: int, times: int = 1, mark: str = "") -> None:
    pytester.makepyfile(test_m=HEAD + GROWS.format(size=size, times=times, mark=mark))


def kept(pytester: pytest.Pytester) -> dict[str, object]:
    (path,) = pytester.path.glob("baselines/*/test_m.py.json")
    window: dict[str, dict[str, object]] = json.loads(path.read_text())["tests"]["test_a"]["body"]
    return window.get("facts", {})


@pytest.mark.slow
def test_more_memory_than_in_the_baseline_fails_and_an_update_accepts_it(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    grows(pytester, MIB)
    suite("--opprof-update", "--opprof-memory").stdout.fnmatch_lines(
        ["baselines of 1 test: 1 new, 0 changed, 0 unchanged"]
    )
    assert kept(pytester) == {"allocations": 1, "held_memory": 0, "peak_memory": MIB}
    grows(pytester, 2 * MIB, 12)
    result = suite("--opprof", "--opprof-memory")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "op regression: *",
            "  peak memory: 2 MiB (baseline: 1 MiB)",
            "(peak memory) * more memory",
            "opprof: 1 test measured, *1 with more memory*",
            "FAILED test_m.py::test_a - *peak memory 1 MiB -> 2 MiB*",
        ]
    )
    suite("--opprof-update", "--opprof-memory").stdout.fnmatch_lines(
        ["baselines of 1 test: 0 new, 1 changed, 0 unchanged"]
    )
    assert kept(pytester) == {"allocations": 12, "held_memory": 0, "peak_memory": 2 * MIB}
    grows(pytester, MIB)
    result = suite("--opprof", "--opprof-memory")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*peak memory: 1 MiB (baseline: 2 MiB)*", "opprof: 1 test measured, *1 improved*"])


def test_a_little_that_each_round_keeps_is_more_memory_and_what_one_keeps_is_not(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less than the floor of one round, which is what allocators round."""
    pytester.makepyfile(
        test_m=HEAD
        + """
calls = {"each": [], "first": []}
@pytest.mark.opprof(rounds=3)
@pytest.mark.parametrize("which", ["each", "first"])
def test_a(which):
    calls[which].append(0)
    fake.launch("Add")
    fake.allocate(1000)
    if not now or (which == "first" and len(calls[which]) != 2):  # the first round after the warm-up
        fake.allocate(-1000)
"""
    )
    suite("--opprof-update", "--opprof-memory")
    monkeypatch.setenv("NOW", "1")
    result = suite("--opprof", "--opprof-memory")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["  memory held by each round: 1000 B (baseline: 0 B)"])


def test_a_file_without_facts_passes_and_an_update_adds_them_beside_the_same_times(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    grows(pytester, MIB, mark="rounds=12")
    suite("--opprof-update", "--opprof-memory")
    (path,) = pytester.path.glob("baselines/*/test_m.py.json")
    times = path.with_name("test_m.py.times.json")
    document = json.loads(path.read_text())
    facts = document["tests"]["test_a"]["body"].pop("facts")
    path.write_text(json.dumps(document))
    before = times.read_text()
    result = suite("--opprof", "--opprof-memory")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*of other calls*")
    suite("--opprof-update", "--opprof-memory").assert_outcomes(passed=1)
    assert kept(pytester) == facts
    assert times.read_text() == before


@pytest.mark.slow
def test_memory_is_recorded_where_times_are_judged_only_if_somebody_asks(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    for mark, flags, known in [
        ("rounds=12", (), False),
        ("rounds=12, memory=True", (), True),
        ("rounds=12", ("--opprof-memory",), True),
        ("rounds=12", ("-o", "opprof_memory=true"), True),
        ("rounds=12, memory=False", ("--opprof-memory",), False),
    ]:
        grows(pytester, MIB, mark=mark)
        suite("--opprof", "--opprof-json=run.json", *flags)
        (test,) = json.loads((pytester.path / "run.json").read_text())["tests"]
        assert ("held_memory" in test["windows"][0]["facts"]) is known, (mark, flags)


def test_memory_that_is_neither_true_nor_false_is_an_error(pytester: pytest.Pytester, suite: Suite) -> None:
    grows(pytester, MIB, mark="memory=3")
    result = suite("--opprof")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*opprof(memory=3): write True or False*"])


@pytest.mark.slow
@pytest.mark.torch
def test_a_replaced_weight_is_no_held_memory(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        """
import pytest, torch
layer, kept = torch.nn.Linear(64, 64, bias=False), []
@pytest.mark.op_budget(held_memory=0)
@pytest.mark.parametrize("keeps", [False, True])
def test_a(keeps):
    layer.weight.data = torch.empty_like(layer.weight.data)
    if keeps:
        kept.append(layer.weight + 1)
"""
    )
    result = suite("--opprof", "--opprof-backend=torch", "-Wignore::DeprecationWarning")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["  memory held at the end: 16 KiB (budget: 0 B)"])


@pytest.mark.torch
def test_a_lost_no_grad_fails_though_no_op_is_more(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        test_m="""
import os, pytest, torch
@pytest.mark.opprof
def test_a():
    with torch.set_grad_enabled("NOW" in os.environ):
        torch.ones(64, 64, requires_grad=True).exp().sum()
@pytest.mark.opprof(rounds=10)
def test_timed():
    torch.ones(64, 64).exp()
"""
    )
    flags = ("--opprof-backend=torch", "-Wignore::DeprecationWarning")
    suite("--opprof-update", *flags).assert_outcomes(passed=2)
    (path,) = pytester.path.glob("baselines/torch*/test_m.py.json")
    tests = json.loads(path.read_text())["tests"]
    assert tests["test_a"]["body"]["facts"]["grad_nodes"] == 0
    assert tests["test_a"]["body"]["facts"]["peak_memory"] > 0
    assert tests["test_timed"]["body"]["facts"] == {"grad_nodes": 0}
    suite("--opprof", *flags).assert_outcomes(passed=2)
    monkeypatch.setenv("NOW", "1")
    result = suite("--opprof", *flags)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "  ops recorded for backward: 2 (baseline: 0)",
            "(ops recorded for backward)*more recorded for backward",
            "opprof: 2 tests measured, *1 with more memory*",
            "FAILED test_m.py::test_a - grad nodes 0 -> 2",
        ]
    )


@pytest.mark.parametrize("name", ["peak_memory", "calls"])
def test_an_op_that_is_called_like_a_quantity_is_an_op(name: str, pytester: pytest.Pytester, suite: Suite) -> None:
    code = HEAD + (
        "import opprof_ops\n@pytest.mark.opprof\ndef test_a():\n    fake.launch('Cast')\n"
        f"    for _ in range({{times}}):\n        with opprof_ops.op({name!r}):\n            fake.launch('Add')\n"
    )
    pytester.makepyfile(opprof_ops="from pytest_opprof import op\n", test_m=code.format(times=1))
    suite("--opprof", "--opprof-update").assert_outcomes(passed=1)
    suite("--opprof", "-vv").stdout.fnmatch_lines([f"{name} * 1 *"])
    pytester.makepyfile(test_m=code.format(times=3))
    result = suite("--opprof", "--opprof-summary=summary.md")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"  {name}: 3 calls (baseline: 1)*", f"{name} * 1 -> 3 *more calls"])
    result.stdout.no_fnmatch_line("*(peak memory)*")
    assert f"| <code>{name}</code> | 1 → 3 |" in (pytester.path / "summary.md").read_text(encoding="utf-8")

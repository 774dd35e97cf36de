"""What ops work on: budgets and baselines of dtypes, bytes and FLOPs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Suite = Callable[..., pytest.RunResult]
HEAD = "import os, pytest\nfrom pytest_opprof.backends import fake\nnow = os.environ.get('NOW')\n"


def test_a_budget_may_be_of_a_dtype(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.op_budget({"*[float64]": 0, "Cast[float32->bfloat16]": 1, "MatMul[bfloat16]": "2..3"})
def test_a():
    fake.launch("aten::mm", dtypes=("double",))
    fake.launch("aten::mm", dtypes=("bfloat16",))
    fake.launch("aten::copy_", dtypes=("float32", "bfloat16"))
"""
    )
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  *[float64]: 1 call (budget: 0)",
            "  MatMul[[]bfloat16[]]: 1 call (budget: 2..3)",
        ]
    )
    result.stdout.no_fnmatch_line("*calls of Cast*")


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ('{"MatMul[flaot64]": 0}', "*unknown dtype 'flaot64': did you mean 'float64' or 'float16'[?]*"),
        ('{"Relu[float64]": 0}', "*'Relu[[]float64[]]' cannot be counted: fake does not tell the dtypes of Relu*"),
        ('{"MatMul[float32]": "1 ms"}', "*the limit on device time of MatMul[[]float32[]] (1 ms) cannot be checked*"),
        ('bytes="1 MiB"', "*the limit on bytes moved (1 MiB) cannot be checked: fake does not measure it here*"),
    ],
)
def test_what_cannot_be_counted_is_an_error_and_no_pass(
    pytester: pytest.Pytester, suite: Suite, limit: str, message: str
) -> None:
    pytester.makepyfile(
        HEAD
        + f"""
@pytest.mark.op_budget({limit})
def test_a():
    fake.launch("aten::mm", dtypes=("float32",))
    fake.launch("Relu")
"""
    )
    result = suite("--opprof")
    assert result.ret != 0
    result.stdout.fnmatch_lines([message])


def test_bytes_and_flops_of_the_window_have_limits(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.op_budget(bytes="1 KiB", flops="1 MFLOP", MatMul=[1, "1 GFLOP"])
def test_a():
    fake.launch("aten::mm", nbytes=4096, flops=2_000_000)
"""
    )
    result = suite("--opprof")
    result.stdout.fnmatch_lines(["  bytes by all ops: 4 KiB (budget: 1 KiB)", "  FLOPs of all ops: 2 MFLOP*"])


WORK = (
    HEAD
    + """
@pytest.mark.opprof
def test_a():
    fake.launch("aten::mm", dtypes=(DTYPE,), nbytes=NBYTES, flops=FLOPS)
    fake.launch("Add", nbytes=64)
"""
)


def of(dtype: str = "float32", nbytes: int = 10_000, flops: int = 50_000) -> str:
    return WORK.replace("DTYPE", repr(dtype)).replace("NBYTES", str(nbytes)).replace("FLOPS", str(flops))


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        (
            of("float64", 20_000),
            [
                "  MatMul: float64 (baseline: float32), bytes x2",
                "MatMul  *float32 -> float64, bytes x2 *wider dtypes*",
                "opprof: 1 test measured, 0 ok, 1 with wider dtypes*",
            ],
        ),
        (
            of(flops=200_000),
            [
                "  MatMul: FLOPs 200 kFLOP (baseline: 50 kFLOP), x4",
                "opprof: 1 test measured, 0 ok, 1 with more work*",
            ],
        ),
        (of(nbytes=30_000), ["  MatMul: bytes moved 29.3 KiB (baseline: 9.77 KiB), x3"]),
    ],
    ids=["wider", "flops", "bytes"],
)
def test_what_is_wider_or_more_fails_though_the_calls_are_the_same(
    pytester: pytest.Pytester, suite: Suite, changed: str, lines: list[str]
) -> None:
    path = pytester.makepyfile(of())
    suite("--opprof-update").assert_outcomes(passed=1)
    suite("--opprof").assert_outcomes(passed=1)
    path.write_text(changed)
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(lines)
    suite("--opprof-update").assert_outcomes(passed=1)
    suite("--opprof").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (of("float16", 5_000), "*MatMul: float16 (baseline: float32), bytes x0.5*"),
        (of(flops=25_000), "*MatMul: FLOPs 25 kFLOP (baseline: 50 kFLOP), x0.5*"),
    ],
)
def test_what_is_narrower_or_less_passes_and_is_told(
    pytester: pytest.Pytester, suite: Suite, changed: str, line: str
) -> None:
    path = pytester.makepyfile(of())
    suite("--opprof-update")
    path.write_text(changed)
    result = suite("--opprof")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([line])


CONVS = (
    HEAD
    + """
@pytest.mark.opprof
def test_a():
    for _ in range(CALLS):
        fake.launch("aten::convolution", nbytes=5_000, flops=FLOPS)
    fake.launch("Add", nbytes=0, flops=0)
"""
)


def test_fewer_calls_that_do_more_fail_and_accepting_them_keeps_the_work_of_the_window(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    path = pytester.makepyfile(CONVS.replace("CALLS", "2").replace("FLOPS", "1_000_000"))
    suite("--opprof-update").assert_outcomes(passed=1)
    (file,) = Path("baselines").glob("*/*.json")
    # What the file leaves out of an op may be 0 or not known: the sums over all ops tell.
    facts = {"bytes": 10_000, "flops": 2_000_000}
    assert json.loads(file.read_text())["tests"]["test_a"]["body"]["facts"] == facts
    suite("--opprof").assert_outcomes(passed=1)
    path.write_text(CONVS.replace("CALLS", "1").replace("FLOPS", "63_000_000"))
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  Conv: FLOPs 63 MFLOP (baseline: 2 MFLOP), x31.5",
            "Conv * 2 -> 1 * FLOPs x31.5 *more work*",
            "as a whole: 3 -> 2 calls, * 2 MFLOP -> 63 MFLOP",
        ]
    )
    suite("--opprof-update").assert_outcomes(passed=1)
    suite("--opprof").assert_outcomes(passed=1)
    assert json.loads(file.read_text())["tests"]["test_a"]["body"]["facts"] == {"bytes": 5_000, "flops": 63_000_000}


RANDOM_SIZES = """
import os, pytest
from pytest_opprof.backends import fake

@pytest.mark.opprof
def test_a():
    size = int(os.environ["SIZE"])
    fake.launch("aten::mm", dtypes=("float32",), nbytes=1_000 * size, flops=5_000 * size)
    fake.launch("Add", nbytes=64)
"""


EACH_PROCESS = """
import os
from pathlib import Path
if os.environ.get("OWN"):
    with Path("processes").open("a") as begun:
        begun.write("x")
    os.environ["SIZE"] = str(10 * len(Path("processes").read_text()))  # 10 to 70 in eight, one more tells lines
"""


@pytest.mark.slow
@pytest.mark.processes
def test_sizes_that_vary_between_processes_are_told_and_judged_beyond_twice_their_range(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest(EACH_PROCESS)
    path = pytester.makepyfile(RANDOM_SIZES)
    monkeypatch.setenv("OWN", "1")
    suite("--opprof-update", "--opprof-processes=3").assert_outcomes(passed=1)
    monkeypatch.delenv("OWN")
    for size, outcome in (("1", "passed"), ("9000", "failed"), ("200", "passed")):
        monkeypatch.setenv("SIZE", size)
        result = suite("--opprof")
        result.assert_outcomes(**{outcome: 1})
    said = "*MatMul: FLOPs 1 MFLOP (baseline: *), x*; not judged, since it varies from process to process"
    result.stdout.fnmatch_lines([said])
    path.write_text(RANDOM_SIZES.replace("float32", "float64"))
    suite("--opprof").assert_outcomes(failed=1)  # no process had a dtype as wide


def test_a_tolerance_of_work_may_be_given(pytester: pytest.Pytester, suite: Suite) -> None:
    path = pytester.makepyfile(of())
    suite("--opprof-update")
    path.write_text(of(flops=52_000))
    suite("--opprof").assert_outcomes(failed=1)
    suite("--opprof", "--opprof-work-tolerance=5%").assert_outcomes(passed=1)
    suite("--opprof", "-o", "opprof_work_tolerance=5%").assert_outcomes(passed=1)


def test_a_baseline_without_work_gets_it_by_an_update_and_keeps_all_else(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile(of())
    suite("--opprof-update")
    (path,) = Path("baselines").glob("*/*.json")
    whole = json.loads(path.read_text())
    window = whole["tests"]["test_a"]["body"]
    assert window["ops"]["MatMul"] == {"calls": 1, "dtypes": "float32", "bytes": 10_000, "flops": 50_000}
    assert window["ops"]["Add"] == {"calls": 1, "bytes": 64}
    assert window["facts"] == {"flops": 50_000}
    path.write_text(
        json.dumps({**whole, "tests": {"test_a": {"body": {"ops": {op: {"calls": 1} for op in window["ops"]}}}}})
    )
    suite("--opprof").assert_outcomes(passed=1)
    suite("--opprof-update")
    assert json.loads(path.read_text()) == whole


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ({"ops": {"MatMul": {"calls": 1}, "Add": {"bytes": 5}}}, "*['Add']: the key 'calls' is missing*"),
        ({"ops": {"MatMul": {"calls": 1, "bytes": [5, 4]}}}, "*['MatMul']['bytes']: is [5, 4]: the least comes first*"),
        ({"ops": {"MatMul": {"calls": 1, "dtypes": 5}}}, "*['MatMul']['dtypes']*"),
    ],
)
def test_a_baseline_whose_work_makes_no_sense_is_one_error(
    pytester: pytest.Pytester, suite: Suite, window: dict[str, object], message: str
) -> None:
    pytester.makepyfile(of())
    suite("--opprof-update")
    (path,) = Path("baselines").glob("*/*.json")
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({**whole, "tests": {"test_a": {"body": window}}}))
    result = suite("--opprof")
    assert result.ret != 0
    result.stdout.fnmatch_lines([message.replace("[", "[[]").replace("[[]]", "[]]")])


@pytest.mark.torch
def test_a_model_that_lost_autocast_or_its_layout_fails(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
import os, pytest, torch
lost = os.environ.get("LOST")
conv, x = torch.nn.Conv2d(4, 8, 3), torch.ones(2, 4, 9, 9)
if lost != "layout":
    conv, x = conv.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)

@pytest.mark.opprof(backend="torch")
def test_a():
    with torch.autocast("cpu", torch.bfloat16, enabled=lost != "autocast"), torch.no_grad():
        torch.relu(conv(x) * 2.0)
"""
    )
    suite("--opprof-update").assert_outcomes(passed=1)
    suite("--opprof").assert_outcomes(passed=1)
    monkeypatch.setenv("LOST", "autocast")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  Conv: float32* (baseline: bfloat16*)*"])
    monkeypatch.setenv("LOST", "layout")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["  Conv: bfloat16 (baseline: bfloat16 channels_last)*"])

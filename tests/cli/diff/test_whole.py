"""``opprof diff`` of two steps: what each took as a whole, and why the second took longer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_opprof.cli.main import main

from ...conftest import HERE, shared
from ..show.test_times import trace

Run = Callable[..., "tuple[int, str, str]"]
TRAIN = HERE / "data" / "torch-cpu" / "train_step.pt.trace.json.gz"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call opprof; return its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([*map(str, arguments)])
        return code, *capsys.readouterr()

    return call


def steps(path: str, second: dict[str, int]) -> None:
    """Write two steps of one kernel each, launched in a range; of the second what *second* says is other, in us."""
    events = []
    times = {"wall": 1000, "loads": 100, "launch": 200, "begin": 300, "runs": 400}
    at = 0
    for step, of_step in enumerate((times, {**times, **second})):
        launch = {"correlation": step + 1}
        events += [
            ("user_annotation", f"ProfilerStep#{step + 8}", at, of_step["wall"], {}),
            ("user_annotation", "load", at, of_step["loads"], {}),
            ("cpu_op", "aten::mm", at + of_step["launch"], 50, {}),
            ("cuda_runtime", "cudaLaunchKernel", at + of_step["launch"] + 10, 5, launch),
            ("kernel", "gemm", at + of_step["begin"], of_step["runs"], {**launch, "device": 0, "stream": 7}),
        ]
        at += of_step["wall"]
    trace(path, *events)


@pytest.mark.parametrize(
    ("second", "why", "row"),
    [
        (
            {"wall": 1400, "loads": 500, "launch": 600, "begin": 700},
            "the step takes 400 us longer: the device was idle longer, as the host launched the next work later",
            "range load 100 us 500 us +400%",
        ),
        (
            {"wall": 1400, "begin": 700},
            "the step takes 400 us longer: launched work began later (+400 us)",
            "idle: launched, not started 90 us 490 us +444%",
        ),
        (
            {"wall": 1400, "runs": 800},
            "the step takes 400 us longer: the device computed longer (+400 us)",
            "computing 400 us 800 us +100%",
        ),
    ],
)
def test_why_a_step_takes_longer(run: Run, second: dict[str, int], why: str, row: str) -> None:
    steps("t.json", second)
    code, out, _ = run("diff", "t.json", "--base-steps", "8", "--steps", "9")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "base (step 8) now (step 9) change" in lines
    assert "wall time 1 ms 1.4 ms +40%" in lines
    assert row in lines
    assert any(line.startswith(why) for line in lines), out
    assert code == ("computed" in why)  # ops decide: those of the host have no verdict
    document = json.loads(run("diff", "t.json", "--base-steps", "8", "--steps", "9", "--format", "json")[1])
    assert document["why"].startswith(why)
    assert (document["base"]["step"], document["now"]["times"]["wall"]) == ("8", 1_400_000)


def test_a_narrow_terminal_leaves_out_the_work_before_names_are_cut(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "fbgemm::permute_pooled_embs_auto_grad"
    shaped = {"Input Dims": [[2, 3]], "Input type": ["float"], "correlation": 1}
    for path, calls, took in (("before.json", 1, 1234), ("now.json", 2, 2345)):
        events = [
            event
            for n in range(calls)
            for event in (
                ("cpu_op", name, 5000 * n, 100, shaped),
                ("cuda_runtime", "cudaLaunchKernel", 5000 * n + 10, 5, {"correlation": n + 1}),
                ("kernel", "gemm", 5000 * n + 100, took, {"correlation": n + 1, "device": 0, "stream": 7}),
            )
        ]
        trace(path, *events)
    assert "work (base -> now)" in run("diff", "before.json", "now.json")[1]
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run("diff", "before.json", "now.json")
    lines = out[out.index("\nop ") : out.index("\ntotal")].splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split("  ")[0] for line in lines if line.startswith(name[:20])] == [f"{name[:29]}…"]
    assert lines[-2].startswith("left out to fit in 80 characters: work (base -> now)")


def test_of_several_steps_the_fastest_stands_for_all(run: Run) -> None:
    steps("t.json", {"wall": 1400, "runs": 800})
    code, out, _ = run("diff", "t.json", "t.json")
    assert (code, "base (step 8)    now (step 8)" in out, "longer" in out) == (0, True, False)


@pytest.mark.slow
def test_remarks_on_a_profile_are_said_once(run: Run) -> None:
    recording = shared("torch-cuda/kineto_resnet50_v100_2021.pt.trace.json.gz")
    _, out, err = run("diff", recording, "--base-steps", "10", "--steps", "8")
    assert err.count("the file has no totals of memory") == 1
    assert "the step takes 17 ms longer: the device was idle longer, as the host launched the next work later" in out
    rows = [line.split() for line in out.splitlines()]
    grown = next(row for row in rows if row[:1] == ["range"] and row[1].startswith("enumerate(DataLoader)"))
    assert grown[2:] == ["62.6", "ms", "71.4", "ms", "+14%"]


def test_a_profile_without_steps_and_times_is_compared_by_its_ops_alone(run: Run) -> None:
    code, out, _ = run("diff", TRAIN, TRAIN)
    assert (code, "wall time" in out, "idle " in out) == (0, False, True)
    run("convert", TRAIN, "-o", "own.json")
    code, out, _ = run("diff", "own.json", "own.json")
    assert (code, "idle" in out, "device time of ops  7.44 ms" in out) == (0, False, True)


def test_one_profile_alone_needs_two_steps_or_two_ranks(run: Run) -> None:
    code, out, err = run("diff", TRAIN)
    assert (code, out) == (2, "")
    assert f"{TRAIN}: nothing to compare it with. Name another file, or two steps of this one" in err
    assert run("diff", TRAIN, "--steps", "8")[0] == 2

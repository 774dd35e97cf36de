"""``opprof diff``: runs and baseline files, with each other and with profiles. Two profiles: `cli.test_saved`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import pytest_opprof
from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.baselines.files import paths
from pytest_opprof.baselines.store import Store
from pytest_opprof.cli.main import main
from pytest_opprof.frameworks.files import own_format
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.saved import SavedOp, SavedProfile
from pytest_opprof.profile.timings import ProcessTimes
from pytest_opprof.results import run_result

from ...report.html.read import Page
from ...report.made_runs import record_of
from ...report.made_runs import run as run_with

MACHINE = "CPU, 2 cores"
FAKE = Environment((("fake", "1"),), "fake", "x86_64", "async")
ENVIRONMENT = {"arch": "x86_64", "device": "fake", "frameworks": {"fake": "1"}, "timing": "async"}
SCHEMA = json.loads((Path(pytest_opprof.__file__).parent / "schema" / "run-4.json").read_text(encoding="utf-8"))


def window(us: int, processes: int, calls: int = 2, wait_us: int = 0, **other: Any) -> dict[str, Any]:
    ns = [us * 1_000] * 10
    run = {
        "total_ns": ns,
        "ops_ns": {"MatMul": ns},
        "wait_ns": [wait_us * 1_000] * 10,
        "yardstick_ns": [],
        "threads": 1,
    }
    op = {"calls": [calls] * 10, "device_ns": ns, "bytes": None, "flops": None}
    return {
        "name": "body",
        "environment": ENVIRONMENT,
        "machine": MACHINE,
        "parallel": False,
        "rounds": 10,
        "host_ns": ns,
        "busy_ns": None,
        "ops": {"MatMul": op},
        "total": op,
        "verdict": "ok",
        "findings": [],
        "times_changed": False,
        "times_judged": True,
        "processes": [run] * processes,
        **other,
    }


def write(path: Path, **tests: dict[str, Any]) -> Path:
    document = {
        "schema": 4,
        "version": "0",
        "interrupted": False,
        "summary": {},
        "tests": [
            {"id": f"t.py::{test}", "outcome": "passed", "status": "ok", "windows": [found]}
            for test, found in tests.items()
        ],
        "stale": [],
    }
    jsonschema.validate(document, SCHEMA)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def judge(tmp_path: Path, base: dict[str, Any], now: dict[str, Any], *arguments: str) -> int:
    files = [write(tmp_path / "base.json", a=base), write(tmp_path / "now.json", a=now)]
    return main(["diff", *map(str, files), *arguments])


def test_the_same_is_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(tmp_path, window(100, 5), window(101, 1)) == 0
    assert capsys.readouterr().out == "opprof: 1 window compared, 1 by time, 1 ok\n"


def test_slower_in_six_processes_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(tmp_path, window(100, 5), window(130, 6)) == 1
    out = capsys.readouterr().out
    assert "  device time of MatMul: 100 us -> 130 us (+30%), limit 25%, in 6 processes\n" in out
    assert "  device time: 100 us -> 130 us (+30%), limit 13%, in 6 processes\n" in out
    assert out.endswith("opprof: 1 window compared, 1 by time, 0 ok, 1 slower\n")
    assert "--opprof-update" not in out


def test_slower_in_fewer_processes_is_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(tmp_path, window(100, 5), window(130, 5)) == 0
    assert capsys.readouterr().out == (
        "t.py::a: no verdict, too noisy: slower in 5 of 6 processes: measure it with --opprof-processes=6;"
        " device time: 100 us -> 130 us (+30%)\n"
        "opprof: 1 window compared, 0 by time, 0 ok, 1 too noisy to judge\n"
    )


def test_faster_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(tmp_path, window(130, 5), window(100, 1)) == 0
    assert "t.py::a: device time: 130 us -> 100 us (-23.1%), limit 13%\n" in capsys.readouterr().out


def test_more_calls_are_a_finding_whatever_the_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(tmp_path, window(100, 1), window(100, 1, calls=3)) == 1
    assert "  MatMul: 3 calls (before: 2)\n" in capsys.readouterr().out


def test_limits_are_those_of_the_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = window(100, 5), window(130, 6)
    assert judge(tmp_path, *sides, "--tolerance=31%") == 0
    assert judge(tmp_path, *sides, "--tolerance=31%", "--op-tolerance=29%") == 1
    assert judge(tmp_path, *sides, "--floor=31 us", "--op-tolerance=31%") == 0
    assert judge(tmp_path, *sides, "--floor=31") == judge(tmp_path, *sides, "--tolerance=") == 2
    said = capsys.readouterr().err
    assert "--floor is '31'; write a time with its unit (ns, us, ms, s), such as '5 us'" in said
    assert "--tolerance is ''; write a percentage such as '10%'" in said


def test_noise_can_be_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = window(100, 5), window(130, 6, wait_us=50)
    assert judge(tmp_path, *sides) == 0
    assert "too noisy: no process of 6 had 5 clean rounds: of 60 rounds 60 waited for a CPU" in capsys.readouterr().out
    assert judge(tmp_path, *sides, "--ignore-noise") == 1


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (
            window(100, 1, machine="Other, 8 cores"),
            "the runs differ in their machine: CPU, 2 cores, then Other, 8 cores",
        ),
        (window(100, 0), "no times were measured"),
    ],
)
def test_what_is_not_compared_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], now: dict[str, Any], why: str
) -> None:
    assert judge(tmp_path, window(100, 5), now) == 2
    out, err = capsys.readouterr()
    assert out == (
        f"t.py::a: times not compared: {why}\nopprof: 1 window compared, 0 by time, 0 ok, 1 with times not compared\n"
    )
    assert err == "opprof: no times could be compared, so opprof cannot tell whether the second run is slower\n"


THE_ENVIRONMENTS_DIFFER = (
    "the environments differ: fake 1, fake, async (x86_64) -> {}: ops and times may differ because of that, not because"
    " the program changed\n"
)


def test_two_versions_of_a_framework_are_compared_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer = {**ENVIRONMENT, "frameworks": {"fake": "2"}}
    said = THE_ENVIRONMENTS_DIFFER.format("fake 2, fake, async (x86_64)")
    assert judge(tmp_path, window(100, 5), window(100, 5, environment=newer)) == 0
    assert capsys.readouterr().out == f"{said}opprof: 1 window compared, 1 by time, 1 ok\n"
    assert judge(tmp_path, window(100, 5), window(200, 6, environment=newer)) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"{said}op regression: t.py::a  [fake 2, fake, async]\n")
    assert judge(tmp_path, window(100, 5), window(100, 5, calls=3, environment=newer), "--format=json") == 1
    assert json.loads(capsys.readouterr().out)["environments"] == [
        ["fake 1, fake, async (x86_64)", "fake 2, fake, async (x86_64)"]
    ]
    assert judge(tmp_path, window(100, 5), window(100, 5, environment=newer), f"-o{tmp_path / 'page.html'}") == 0
    text = Page((tmp_path / "page.html").read_text(encoding="utf-8")).text
    assert f"? {said.rstrip()}" in text.partition("Tests")[0]  # below the headline


def test_calls_of_python_functions_are_compared_across_versions_of_packages_but_not_of_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def calling(calls: int, python: str, lib: str) -> dict[str, Any]:
        counted = {"functions": {"lib.f": calls}, "versions": {"python": python, "lib": lib}}
        return window(100, 5, facts={"python_calls": [calls] * 10}, python=counted)

    assert judge(tmp_path, calling(100, "3.12", "1"), calling(200, "3.12", "2")) == 1
    out = capsys.readouterr().out
    assert "  calls of Python functions: 200 (before: 100)\n" in out
    assert judge(tmp_path, calling(200, "3.12", "1"), calling(200, "3.12", "2")) == 0
    assert "t.py::a: calls of Python functions compared across versions: lib 2 (baseline: 1)" in capsys.readouterr().out
    assert judge(tmp_path, calling(100, "3.12", "1"), calling(200, "3.13", "2")) == 0
    assert "not compared: lib 2 (baseline: 1), python 3.13 (baseline: 3.12)" in capsys.readouterr().out


CALLS = {"python_calls": [9] * 10}
PEAKS = {"peak_memory": [0] * 10, "host_memory": [9] * 10}


def test_a_quantity_that_only_one_side_recorded_is_said_to_be_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = window(100, 5, facts=CALLS | {"left_behind": [0] * 10})
    files = [
        write(tmp_path / "base.json", a=window(100, 5), b=window(100, 5), c=window(100, 5)),
        write(tmp_path / "now.json", a=recorded, **dict.fromkeys("bc", window(100, 5, facts=CALLS | PEAKS))),
    ]
    leaks = (
        f"t.py::a: leaks, calls of Python functions not compared, only {files[1]} has them"
        " (--opprof-leaks and --opprof-python record them)"
    )
    calls = (
        "t.py::b and 1 more window: peaks of the host's memory, sizes of allocations, calls of Python functions not"
        f" compared, only {files[1]} has them (--opprof-memory and --opprof-python record them)"
    )
    assert main(["diff", *map(str, files)]) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == [leaks, calls]
    assert main(["diff", *map(str, files), "--format=json"]) == 0
    assert json.loads(capsys.readouterr().out)["remarks"] == [leaks, calls]
    assert main(["diff", *map(str, files), f"-o{tmp_path / 'page.html'}"]) == 0
    assert leaks in Page((tmp_path / "page.html").read_text(encoding="utf-8")).text
    assert judge(tmp_path, recorded, recorded) == 0
    assert "not compared" not in capsys.readouterr().out


def test_times_of_another_device_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = window(100, 5, environment={**ENVIRONMENT, "device": "other"})
    assert judge(tmp_path, window(100, 5), other) == 2
    out = capsys.readouterr().out
    assert out.startswith(THE_ENVIRONMENTS_DIFFER.format("fake 1, other, async (x86_64)"))
    why = "fake 1, fake, async (x86_64), then fake 1, other, async (x86_64)"
    assert f"t.py::a: times not compared: the runs differ in their environment: {why}\n" in out


def test_tests_of_one_run_only_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = write(tmp_path / "base.json", a=window(1, 5), gone=window(1, 5))
    now = write(tmp_path / "now.json", a=window(1, 5), new=window(1, 5))
    assert main(["diff", str(base), str(now)]) == 0
    out = capsys.readouterr().out
    assert f"only in {base}: t.py::gone\nonly in {now}: t.py::new\n" in out
    other = write(tmp_path / "other.json", other=window(1, 5))
    assert main(["diff", str(base), str(other)]) == 2
    assert "have no window of any test in common" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a profile that opprof can read"),
        (b"{}", "is not a profile that opprof can read"),
        (b'{"schema": 2, "tests": \xff', "is not UTF-8 text"),
        (
            b'{"schema": 2, "tests": []}',
            "another version of pytest-opprof wrote this run (schema 2, this one reads 4). Record",
        ),
        (b'{"schema": 2, "tests": ' + b"[" * 5_000, "is not JSON"),
        (b'{"schema": 4, "tests": []}', "the file: the key 'version' is missing"),
        (b'{"schema": 2, "x": {"schema": 1}, "schema": {"schema": 1}, "tests": []}', "the key 'schema' occurs twice"),
        (b'{"x": {"schema": 1}, "schema": {}, "tests": []}', "is no valid file of --opprof-json"),
    ],
)
def test_a_file_that_is_nothing_of_the_three_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    assert main(["diff", str(path), str(path)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.startswith(f"opprof: {path}")
    assert error.count("\n") == 1


def baseline(root: Path, us: int, calls: int = 2, module: str = "t.py") -> Path:
    """Write the baseline of one test, recorded in five processes."""
    times = (ProcessTimes((us * 1_000,) * 10, {"MatMul": (us * 1_000,) * 10}, threads=1),) * 5
    store = Store(root)
    store.put(FAKE, module, "a", "body", WindowBaseline({"MatMul": OpCounts(Range(calls))}, {MACHINE: times}))
    store.save()
    return paths.path_of(root, FAKE, module)


def test_a_run_is_compared_with_the_baseline_of_its_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = baseline(tmp_path / "baselines", us=100)
    now = write(tmp_path / "run.json", a=window(130, 6, calls=3))
    assert main(["diff", str(kept), str(now)]) == 1
    out = capsys.readouterr().out
    assert "  MatMul: 3 calls (baseline: 2)\n" in out
    assert out.endswith("opprof: 1 window compared, 0 by time, 0 ok, 1 with more calls\n")
    assert main(["diff", str(now), str(kept)]) == 0
    assert "a: MatMul: 2 calls (before: 3)\n" in capsys.readouterr().out
    assert main(["diff", str(baseline(tmp_path / "other", us=100, module="u.py")), str(now)]) == 2
    assert "have no window of any test in common" in capsys.readouterr().err


def test_a_baseline_without_times_is_what_lacks_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = baseline(tmp_path, us=100)
    paths.times_of(kept).unlink()
    now = str(write(tmp_path / "run.json", a=window(100, 6)))
    assert main(["diff", str(kept), now]) == 2
    assert (
        "a: times not compared: the baseline has no times (pytest --opprof-update records them)\n"
        in capsys.readouterr().out
    )
    before = str(write(tmp_path / "before.json", a=window(100, 1)))
    assert main(["diff", before, now]) == 2
    said = "a: times not compared: the first run has the times of 1 of 3 processes\n"
    assert said in capsys.readouterr().out


def test_two_baselines_are_compared_wherever_they_lie(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = baseline(tmp_path / "baselines", us=100)
    beside = baseline(tmp_path / "older", us=130, calls=4)
    assert main(["diff", str(beside), str(kept)]) == 0
    assert "a: MatMul: 2 calls (before: 4)\n" in capsys.readouterr().out
    assert main(["diff", str(kept), str(beside), "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["only_in_now"] == document["only_in_base"] == []
    (found,) = document["windows"]
    assert (found["test"], found["window"], found["verdict"]) == ("a", "body", "more calls")
    assert found["rows"][0]["now_calls"] == 4


def test_of_the_two_files_of_a_baseline_that_of_calls_is_to_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = paths.times_of(baseline(tmp_path, us=100))
    assert main(["diff", str(times), str(times)]) == 2
    assert "holds the times of baselines; name the file of their calls, t.py.json\n" in capsys.readouterr().err


def test_a_baseline_of_no_known_place_takes_a_module_only_where_there_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = tmp_path / "old.json"
    moved.write_bytes(baseline(tmp_path / "baselines", us=100).read_bytes())
    now = json.loads(write(tmp_path / "run.json", a=window(100, 6)).read_text())
    now["tests"].append({**now["tests"][0], "id": "u.py::a"})
    (tmp_path / "run.json").write_text(json.dumps(now))
    assert main(["diff", str(moved), str(tmp_path / "run.json")]) == 2
    assert "of which module of" in capsys.readouterr().err


PROFILE = """{"schemaVersion": 1, "traceEvents": [
 {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 50},
 {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 60, "dur": 50}]}"""


def test_a_profile_is_compared_with_one_window(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, run = tmp_path / "saved.json", write(tmp_path / "run.json", a=window(300, 6, calls=3), b=window(1, 1))
    saved.write_text(PROFILE)
    assert main(["diff", str(saved), str(run)]) == 2
    assert "holds 2 windows; choose one by --test ID and --window NAME\n  t.py::a body\n" in capsys.readouterr().err
    assert main(["diff", str(saved), str(run), "--test", "t.py::a"]) == 1
    out = capsys.readouterr().out
    assert "  MatMul: 3 calls (before: 2)\n" in out
    assert "the environments differ" in out
    assert main(["diff", str(saved), str(run), "--test", "t.py::a", "--window", "w"]) == 2
    assert "has no window w of t.py::a" in capsys.readouterr().err


@pytest.mark.parametrize(("now", "verdict", "code"), [(500, "more memory", 1), (1, "ok", 0)])
def test_the_peak_memory_of_two_profiles_is_compared(
    now: int, verdict: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for name, mebibytes in (("base", 1), ("now", now)):
        files.append(tmp_path / f"{name}.json")
        saved = SavedProfile("made", FAKE, [SavedOp("mm", "MatMul", device_ns=1e6)], peak_memory=mebibytes << 20)
        files[-1].write_text(own_format.dump(saved))
    assert main(["diff", *map(str, files)]) == code
    out = capsys.readouterr().out
    assert ("  peak memory: 500 MiB (before: 1 MiB)\n" in out) is bool(code)
    assert out.endswith(f"verdict: {verdict}\n")


def test_of_a_run_on_a_cpu_a_profile_is_compared_with_the_ops_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, ns = tmp_path / "saved.json", [100_000] * 10
    saved.write_text(PROFILE)
    alike = window(100, 1, rounds=1, host_ns=[900_000], environment={**ENVIRONMENT, "device": "cpu"})
    alike["ops"]["MatMul"] = alike["total"] = {"calls": [2], "device_ns": ns[:1], "bytes": None, "flops": None}
    process = {**alike["processes"][0], "total_ns": [900_000], "wait_ns": [], "threads": 0}
    process["ops_ns"] = {"MatMul": ns[:1], "(outside ops)": [800_000]}
    run = write(tmp_path / "run.json", a={**alike, "processes": [process]})
    for pair in ([saved, run], [run, saved]):
        assert main(["diff", *map(str, pair)]) == 0
        out = capsys.readouterr().out
        assert "100 us (+0%)" in out
        assert out.endswith("verdict: ok\n")
    limited = write(tmp_path / "limited.json", a={**alike, "processes": [{**process, "threads": 1}]})
    assert main(["diff", str(saved), str(limited)]) == 2
    assert "ops had 1 thread there, and a profile does not say how many it had" in capsys.readouterr().err


def test_a_profile_is_not_compared_with_times_of_several_machines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, kept = tmp_path / "saved.json", baseline(tmp_path, us=100)
    saved.write_text(PROFILE)
    store = Store(tmp_path)
    entry = store.at(kept).tests["a"]["body"]  # type: ignore[union-attr]
    two = replace(entry, times={**entry.times, "Other, 8 cores": entry.times[MACHINE]})
    store.put(FAKE, "t.py", "a", "body", two)
    store.save()
    assert main(["diff", str(kept), str(saved)]) == 2
    assert f"the baseline was timed on several machines: {MACHINE}, Other, 8 cores" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--by", "shape"], "--by shape: only profiles tell ops apart so"),
        (["--steps", "2"], "--steps: is for profiles, not for runs and baselines"),
        (["--base-rank", "2"], "--base-rank: is for profiles, not for runs and baselines"),
        (["--on", "dask://127.0.0.1:1"], "--on: is for profiles, not for runs and baselines"),
    ],
)
def test_flags_of_profiles_are_no_flags_of_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    path = str(write(tmp_path / "run.json", a=window(100, 5)))
    assert main(["diff", path, path, *flags]) == 2
    assert said in capsys.readouterr().err


def test_rounds_that_do_not_fit_are_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = window(100, 1)
    broken["ops"]["MatMul"]["calls"] = [2]
    assert judge(tmp_path, window(100, 5), broken) == 2
    assert "t.py::a: body: op 'MatMul' does not have a number for each of 10 rounds" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("side", ["base", "now"])
def test_a_run_whose_gpu_was_throttled_is_no_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], side: str
) -> None:
    sides = {"base": window(100, 5), "now": window(130, 6)}
    for run in sides[side]["processes"]:
        run["disturbed"] = ["GPU 0 was throttled: HW slowdown"]
    document = json.loads(write(tmp_path / "run.json", a=sides[side]).read_text())
    jsonschema.validate(document, SCHEMA)
    assert judge(tmp_path, *sides.values()) == 0
    assert "t.py::a: no verdict, too noisy: " in (out := capsys.readouterr().out)
    assert "GPU 0 was throttled: HW slowdown" in out
    assert judge(tmp_path, *sides.values(), "--ignore-noise") == 1


def test_runs_in_several_files_are_compared_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, cast in (("main", 1), ("run", 2)):
        for shard in "ab":
            calls = {"Cast": cast if shard == "b" else 1}
            run_result.write(Path(f"{name}-{shard}.json"), run_with(record_of(f"t.py::{shard}", None, calls)))
    assert main(["diff", "main-a.json", "main-b.json", "--now", "run-a.json", "run-b.json"]) == 1
    out = capsys.readouterr().out
    assert "op regression: t.py::b" in out
    assert out.splitlines()[-1].startswith("opprof: 2 windows compared")
    for words, said in (
        (
            ["main-a.json", "main-b.json", "run-a.json"],
            "3 files: which were before? Of runs that are in",
        ),
        (
            ["main-a.json", "main-a.json", "--now", "run-a.json"],
            "main-a.json: has t.py::a, which another shard",
        ),
    ):
        assert main(["diff", *words]) == 2
        assert capsys.readouterr().err.startswith(f"opprof: {said}")

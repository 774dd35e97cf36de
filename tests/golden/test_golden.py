"""Output that users see, compared with the files in ``expected/``: a change of it shows as a difference to review.

``OPPROF_GOLDEN=write python -m pytest tests/golden`` writes the files anew; review them with git.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.cli import main

HERE = Path(__file__).parent
DATA = HERE.parent / "data"
EXPECTED = HERE / "expected"
WRITE = os.environ.get("OPPROF_GOLDEN") == "write"

TRAIN = "torch-cpu/train_step.pt.trace.json.gz"
COMMANDS = {
    "formats": "formats",
    "ops": "ops Cast MatMul aten::addmm",
    "show torch": f"show {TRAIN}",
    "show torch all": f"show {TRAIN} -t 0",
    "show torch json": f"show {TRAIN} -t 4 --format json",
    "show torch csv": f"show {TRAIN} --format csv",
    "show torch markdown": f"show {TRAIN} -t 5 --format markdown",
    "show torch by dtype": f"show {TRAIN} --op Cast --by dtype",
    "show torch by raw type": f"show {TRAIN} --by type -t 8",
    "show torch single ops": f"show {TRAIN} --by none -t 5",
    "show torch breakdown": f"show {TRAIN} --breakdown",
    "show torch ranges": f"show {TRAIN} --ranges",
    "show torch host": f"show {TRAIN} --side host -t 5",
    "show torch smallest": f"show {TRAIN} --order-by +calls -t 5",
    "show torch by site": "show torch-cpu/stacks.pt.trace.json.gz --by site -t 5",
    "show torch no such op": f"show {TRAIN} --op Conv2D",
    "show execution trace": "show torch-cpu/execution_trace.json.gz",
    "show ranks": "show torch-ranks --rank all",
    "show a rank": "show torch-ranks --rank 1 -t 4",
    "show ranks without a choice": "show torch-ranks",
    "show jax": "show jax-cpu/train_step.trace.json.gz",
    "show jax xplane": "show jax-cpu/run/vm.xplane.pb",
    "show hlo": "show jax-cpu/train_step.hlo.txt.gz -t 5",
    "show stablehlo": "show jax-cpu/step.mlir.gz -t 5",
    "show onnx": "show onnxruntime-cpu/model.onnx",
    "show onnxruntime": "show onnxruntime-cpu/ort_loop.json.gz",
    "show onnxruntime with a model": (
        "show onnxruntime-cpu/ort_exported.json.gz --model onnxruntime-cpu/exported.onnx --by site"
    ),
    "show tensorflow": "show tensorflow-cpu/vm.xplane.pb.gz",
    "show megengine": "show megengine/resnet18.json.gz",
    "show megengine devices": "show megengine/copy3dev.json --by place",
    "show megengine timeline": "show megengine/imperative-train.chrome_timeline.json.gz --steps 1-2",
    "show mindspore": "show mindspore-cpu/2.10.0-py3.11/graph/forward -t 5",
    "show mindspore 2.0": "show mindspore-cpu/2.0.0-py3.9/graph/forward -t 5",
    "show a file that is none": "show torch-cpu/PROVENANCE.md",
    "show nothing": "show nowhere.json",
    "check passes": f"check {TRAIN} --budget Cast=100 --budget device_time=5s",
    "check fails": f"check {TRAIN} --budget Cast=1 --budget MatMul=0..2 --budget flops=1k --budget peak_memory=1KiB",
    "check an unknown op": f"check {TRAIN} --budget Casts=1",
    "check an unknown amount": "check onnxruntime-cpu/model.onnx --budget device_time=1ms",
    "check a wrong limit": f"check {TRAIN} --budget Cast=many",
    "diff ranks": "diff torch-ranks torch-ranks --base-rank 0 --rank 1",
    "diff formats": "diff onnxruntime-cpu/ort_opt-none.json.gz onnxruntime-cpu/ort_opt-all.json.gz",
    "diff json": "diff onnxruntime-cpu/ort_opt-none.json.gz onnxruntime-cpu/ort_opt-all.json.gz --format json",
    "diff markdown": "diff onnxruntime-cpu/ort_opt-all.json.gz onnxruntime-cpu/ort_opt-none.json.gz --format markdown",
    "diff by dtype": "diff onnxruntime-cpu/ort_opt-none.json.gz onnxruntime-cpu/ort_opt-all.json.gz --by dtype",
    "diff with itself": f"diff {TRAIN} {TRAIN}",
    "budget": f"budget {TRAIN} -t 5",
    "budget json": f"budget {TRAIN} -t 5 --format json",
}

MODEL = """\
from pytest_opprof.backends import fake

def step(more=0):
    for _ in range(3):
        fake.launch("aten::mm", device_ns=5_000, dtypes=("float32", "float32"), nbytes=4_000_000, flops=2_000_000)
        fake.launch("aten::relu", device_ns=2_000, dtypes=("float32",), nbytes=2_000_000)
    fake.allocate(1 << 20)
"""
SLOWER = """\
from pytest_opprof.backends import fake

def step(more=0):
    for _ in range(3):
        fake.launch("aten::mm", device_ns=5_000, dtypes=("float64", "float64"), nbytes=8_000_000, flops=2_000_000)
        fake.launch("aten::relu", device_ns=2_000, dtypes=("float32",), nbytes=2_000_000)
        fake.launch("Cast", device_ns=1_000, dtypes=("float32", "float64"), nbytes=3_000_000)
    fake.launch("aten::mm", device_ns=5_000, dtypes=("float64", "float64"), nbytes=8_000_000, flops=9_000_000)
    fake.allocate(9 << 20)
"""
TESTS = """\
import pytest
from model import step

@pytest.mark.op_budget(Cast=1, MatMul="2..4", flops="10 MFLOP", peak_memory="2 MiB")
def test_budget():
    step()

@pytest.mark.opprof
def test_baseline():
    step()

@pytest.mark.opprof(rounds=12, warmup=1)
def test_times():
    step()

def test_windows(opprof):
    with opprof("first"):
        step()
    with opprof("second"):
        pass

def test_plain():
    pass
"""
FLOWS = {
    "nothing recorded yet": ("", "--opprof"),
    "recorded": ("", "--opprof --opprof-update"),
    "recorded and unchanged": ("recorded", "--opprof"),
    "recorded and unchanged, quiet": ("recorded", "--opprof -q"),
    "recorded and unchanged, verbose": ("recorded", "--opprof -v"),
    "slower": ("recorded slower", "--opprof"),
    "slower, short": ("recorded slower", "--opprof -q --tb=line"),
    "slower, first alone": ("recorded slower", "--opprof -x"),
    "slower, all measured": ("recorded slower", "--opprof-all"),
    "slower, only reported": ("recorded slower", "--opprof --opprof-report-only"),
    "slower, accepted": ("recorded slower", "--opprof --opprof-update"),
    "without the flag": ("recorded slower", ""),
    "collected": ("recorded", "--opprof --co -q"),
    "a wrong budget": ("wrong", "--opprof"),
    "a wrong flag": ("", "--opprof --opprof-backend=fakes"),
    "a test that fails": ("failing", "--opprof"),
}


def tidied(text: str, folder: Path) -> str:
    """Return output without what differs from run to run: times of the machine, paths, versions."""
    text = text.replace(str(DATA), "DATA").replace(str(folder), "FOLDER")
    text = re.sub(r"(?m)^(platform|rootdir|plugins|cachedir|configfile|collecting|hypothesis profile).*\n", "", text)
    text = re.sub(r" in \d+\.\d+s\b", " in 0.1s", text)
    text = re.sub(r"pytest-opprof \d[\w.+-]*", "pytest-opprof VERSION", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "DATE", text)
    text = re.sub(r"(, async · | process on ).*, \d+ cores?", r"\1MACHINE", text)
    text = re.sub(r"(opprof_wall_seconds\{.*\}) [\d.e-]+", r"\1 0.1", text)
    return re.sub(r"(?m)[ \t]+$", "", text)


def _same_on_any_machine(value: Any, key: str = "") -> Any:
    """Return JSON without what the machine decides."""
    if key in (
        "host_ns",
        "coarse",
        "started",
        "arch",
        "machine",
        "version",
        "python",
        "cpu",
        "wait_ns",
        "yardstick_ns",
    ):
        return f"({key})"
    if isinstance(value, dict):
        return {name: _same_on_any_machine(each, name) for name, each in value.items()}
    return [_same_on_any_machine(each) for each in value] if isinstance(value, list) else value


class _Text(HTMLParser):
    """The words of a page: no style, script or picture."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.hidden += tag in ("style", "script", "svg")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("style", "script", "svg")

    def handle_data(self, data: str) -> None:
        if not self.hidden and data.strip():
            self.lines.append(" ".join(data.split()))


def words(page: str) -> str:
    parser = _Text()
    parser.feed(page)
    return "\n".join(parser.lines) + "\n"


def compare(name: str, text: str) -> None:
    """Compare *text* with the file of that name, or write it."""
    at = EXPECTED / f"{name.replace(' ', '-').replace(',', '')}.txt"
    if WRITE:
        at.parent.mkdir(exist_ok=True)
        at.write_text(text, encoding="utf-8")
    assert at.read_text(encoding="utf-8") == text, f"{at} differs: OPPROF_GOLDEN=write writes it anew"


@pytest.fixture(autouse=True)
def _the_same_width_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    for variable in "CI", "BUILD_NUMBER":  # where one is set, pytest cuts no line of its summary
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def opprof(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., str]:
    """Call the command in the folder of data; return all that it said and its exit code."""

    def call(command: str, folder: Path = DATA) -> str:
        monkeypatch.chdir(folder)
        capsys.readouterr()
        try:
            code = main.main(shlex.split(command))
        except SystemExit as stop:  # argparse
            code = stop.code if isinstance(stop.code, int) else 2
        out, err = capsys.readouterr()
        return tidied(f"$ opprof {command}\n{out}{err}exit code {code}\n", folder)

    return call


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_said(name: str, opprof: Callable[..., str]) -> None:
    compare(name, opprof(COMMANDS[name]))


@pytest.fixture
def project(pytester: pytest.Pytester, suite: Callable[..., pytest.RunResult]) -> Callable[[str], None]:
    """Make the project of a flow: a model on the fake device and its tests, with baselines where it says so."""

    def make(state: str) -> None:
        pytester.makepyfile(model=MODEL, test_model=TESTS)
        if "recorded" in state:
            suite("--opprof", "--opprof-update")
        if "slower" in state:
            pytester.makepyfile(model=SLOWER)
        if "wrong" in state:
            pytester.makepyfile(test_model=TESTS.replace("Cast=1,", "Cats=1,"))
        if "failing" in state:
            pytester.makepyfile(test_model=TESTS.replace("    step()\n", "    step()\n    assert 1 == 2\n", 1))

    return make


@pytest.mark.parametrize("name", FLOWS)
def test_a_run_says_what_it_said(
    name: str,
    project: Callable[[str], None],
    suite: Callable[..., pytest.RunResult],
    pytester: pytest.Pytester,
) -> None:
    state, flags = FLOWS[name]
    project(state)
    result = suite(*flags.split())
    kept = "".join(
        f"--- {path.relative_to(pytester.path)}\n{path.read_text(encoding='utf-8')}"
        for path in sorted(pytester.path.glob("baselines/**/*.json"))
        if name == "recorded" or "accepted" in name
        if "times" not in path.name
    )
    said = f"$ pytest {flags}\n{result.stdout.str()}\n{result.stderr.str()}\nexit code {int(result.ret)}\n{kept}"
    compare(name, tidied(said, pytester.path))


def test_what_is_written_of_a_run_is_what_it_was(
    project: Callable[[str], None],
    suite: Callable[..., pytest.RunResult],
    pytester: pytest.Pytester,
    opprof: Callable[..., str],
) -> None:
    project("recorded slower")
    suite("--opprof", "--opprof-json=run.json")
    run = json.loads((pytester.path / "run.json").read_text(encoding="utf-8"))
    compare("run json", json.dumps(_same_on_any_machine(run), indent=1, sort_keys=True) + "\n")
    for command in ("summary run.json", "summary run.json --format openmetrics", "diff run.json run.json"):
        compare(f"written, {command.replace('.', ' ')}", opprof(command, pytester.path))
    opprof("report run.json -o run.html", pytester.path)
    page = (pytester.path / "run.html").read_text(encoding="utf-8")
    compare("written, page", tidied(words(page), pytester.path))
    compare("written, baselines list", opprof("baselines list", pytester.path))
    shutil.copy(pytester.path / "run.json", pytester.path / "again.json")
    compare("written, budget", opprof("budget run.json", pytester.path))

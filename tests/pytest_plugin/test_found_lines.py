"""What is told of a change: the tests that it made worse fail, with op, reason and line, and no others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.torch]
NETS = """
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

BATCH, LENGTH, WIDTH = 8, 16, 32
DTYPE = torch.float32
LAYOUT = torch.channels_last


def halved(x):
    return x * 0.5


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x):
        h = F.relu(self.up(x))
        return self.down(h)


def encode(x):
    model = Encoder().to(DTYPE)
    return model(x.to(DTYPE))


def mixed(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ w


def images(x):
    conv = nn.Conv2d(8, 8, 3).to(memory_format=LAYOUT)
    return conv(x.contiguous(memory_format=LAYOUT))


def mlp(model):
    x = torch.ones(BATCH, WIDTH, dtype=torch.bfloat16)
    h = model(x)
    return halved(h)


def rows(x, w):
    return x @ w


def attention(x):
    q, k, v = halved(x[:, :LENGTH]).unflatten(2, (2, 16)).transpose(1, 2).expand(3, -1, -1, -1, -1)
    return F.scaled_dot_product_attention(q, k, v)


def shifted(x):
    for _ in range(12):
        x.add_(1)
    return x * 2


def predict(model, x):
    with torch.no_grad():
        return model(x).sum()


def train(model, optimizer, x):
    optimizer.zero_grad()
    h = model(x)
    h.register_hook(lambda grad: grad * 2)
    h.square().mean().backward()
    optimizer.step()


def deep(blocks, x):
    for block in blocks:
        x = block(x)
    x.sum().backward()
"""
TEST_NETS = """
import nets, pytest, torch

pytestmark = pytest.mark.opprof
torch.set_num_threads(1)


@pytest.fixture
def x():
    return torch.ones(8, nets.WIDTH)


@pytest.fixture
def encoder():
    return nets.Encoder()


def test_encode(x):
    nets.encode(x)


def test_mixed(x):
    nets.mixed(x, torch.ones(nets.WIDTH, 64))


def test_images():
    nets.images(torch.ones(2, 8, 6, 6))


def test_mlp(encoder):
    nets.mlp(encoder.bfloat16())


def test_rows(x):
    nets.rows(x, torch.ones(nets.WIDTH, 64))


def test_attention():
    nets.attention(torch.ones(2, 64, nets.WIDTH, dtype=torch.bfloat16))


def test_shifted(x):
    nets.shifted(x)


def test_predict(encoder, x):
    nets.predict(encoder, x)


def test_train(encoder, x):
    nets.train(encoder, torch.optim.SGD(encoder.parameters(), lr=0.1), x)


def test_deep(x):
    nets.deep([nets.Encoder(), nets.Encoder()], x)
"""
FEATURES = """
import numpy as np

SAMPLES = 64


def narrowed(x):
    return x.astype(np.float32)


def standardised(x):
    x = narrowed(x)
    return (x - x.mean(axis=0)) / x.std(axis=0)


def projected(x, w):
    return x @ w


def products(a, b, c):
    return np.einsum("ij,jk,kl->il", a, b, c, optimize=True)


def spectrum(x):
    return np.abs(np.fft.rfft(narrowed(x)))


def highest(x):
    return np.sort(x.ravel())[-5:]


def clipped(x):
    np.clip(x, 0.2, 0.8, out=x)
    x += 1
    return x


def distances(x):
    return np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=-1))


def smoothed(x):
    return (x[:-2] + x[1:-1] + x[2:]) / 3


def covariance(x):
    centred = x - x.mean(axis=0)
    return centred.T @ centred / len(x)


def batched(x):
    return np.tanh(x[:SAMPLES])
"""
TEST_FEATURES = """
import features, numpy as np, pytest

pytestmark = pytest.mark.opprof


@pytest.fixture
def array(opprof):
    return lambda *shape: np.random.default_rng(0).random(shape)


@pytest.fixture
def x(array):
    return array(128, 16)


@pytest.mark.parametrize(
    "name", "standardised spectrum highest clipped distances smoothed covariance batched".split()
)
def test_each(name, x):
    getattr(features, name)(x)


def test_projected(x, array):
    features.projected(x, array(16, 8))


def test_products(array):
    features.products(array(16, 16), array(16, 16), array(16, 16))
"""
FILES = {"nets.py": NETS, "test_nets.py": TEST_NETS, "features.py": FEATURES, "test_features.py": TEST_FEATURES}


class Worse(NamedTuple):
    """What is worse in a test."""

    said: str
    op: str
    line: str
    """A text in the line that is named for it."""


class Change(NamedTuple):
    """One edit, and what becomes worse."""

    before: str
    after: str
    worse: Mapping[str, Worse]
    """By test."""


def of_cast(calls: int, line: str) -> Worse:
    return Worse(f"Cast: {calls} call{'s' * (calls > 1)} (baseline: 0)", "Cast", line)


CHANGES = {
    "one model in float64": Change(
        "DTYPE = torch.float32",
        "DTYPE = torch.float64",
        {"encode": Worse("MatMul, Relu now run in float64 (baseline: float32)", "Cast", "Encoder().to(DTYPE)")},
    ),
    "autocast removed": Change(
        'with torch.autocast("cpu", dtype=torch.bfloat16):',
        "with torch.no_grad():",
        {"mixed": Worse("MatMul: float32 (baseline: bfloat16), bytes x2", "MatMul", "        return x @ w")},
    ),
    "channels_last lost": Change(
        "LAYOUT = torch.channels_last",
        "LAYOUT = torch.contiguous_format",
        {"images": Worse("Conv: float32 (baseline: float32 channels_last)", "Conv", "return conv(")},
    ),
    "batch doubled": Change(
        "LENGTH, WIDTH = 8,",
        "LENGTH, WIDTH = 16,",
        {"mlp": Worse("MatMul: FLOPs 131 kFLOP (baseline: 65.5 kFLOP), x2", "MatMul", "h = F.relu(self.up(x))")},
    ),
    ".float() in a helper with several callers": Change(
        "return x * 0.5",
        "return x.float() * 0.5",
        {
            "mlp": Worse("Cast: 5 calls (baseline: 4)", "Cast", "x.float() * 0.5"),
            "attention": of_cast(1, "x.float() * 0.5"),
        },
    ),
    "a loop over rows instead of one matmul": Change(
        "def rows(x, w):\n    return x @ w",
        "def rows(x, w):\n    return torch.stack([row @ w for row in x])",
        {"rows": Worse("MatMul: 8 calls (baseline: 1)", "MatMul", "row @ w for row in x")},
    ),
    "attention unfused": Change(
        "F.scaled_dot_product_attention(q, k, v)",
        "F.softmax(q @ k.transpose(-2, -1) * 0.25, dim=-1) @ v",
        {"attention": Worse("Softmax: 1 call (baseline: 0)", "Softmax", "return F.softmax")},
    ),
    "an op in place made out of place": Change(
        "x.add_(1)",
        "x = x.add(1)",
        {"shifted": Worse("allocations: 39 (baseline: 27)", "allocations", "x = x.add(1)")},
    ),
    "a lost no_grad": Change(
        "with torch.no_grad():",
        "with torch.enable_grad():",
        {"predict": Worse("ops recorded for backward: 6 (baseline: 0)", "ops recorded for backward", "model(x).sum()")},
    ),
    "a sequence twice as long": Change(
        "WIDTH = 8, 16,",
        "WIDTH = 8, 32,",
        {
            "attention": Worse(
                "Attention: FLOPs 262 kFLOP (baseline: 65.5 kFLOP), x4", "Attention", "scaled_dot_product"
            )
        },
    ),
    "a clone more": Change(
        "h = model(x)\n    return halved(h)",
        "h = model(x).clone()\n    return halved(h)",
        {"mlp": Worse("Copy: 1 call (baseline: 0)", "Copy", ".clone()")},
    ),
    "a cast in a hook of autograd": Change(
        "lambda grad: grad * 2",
        "lambda grad: grad.double().to(grad.dtype) * 2",
        {"train": of_cast(2, "h.register_hook(lambda")},
    ),
    "gradient checkpointing switched on": Change(
        "x = block(x)",
        "x = checkpoint(block, x, use_reentrant=False)",
        {"deep": Worse("Relu: 4 calls (baseline: 2)", "Relu", "h = F.relu(self.up(x))")},
    ),
    "einsum in one step": Change(
        "optimize=True",
        "optimize=False",
        {"products": Worse("Einsum: FLOPs 197 kFLOP (baseline: 16.4 kFLOP), x12", "Einsum", "np.einsum(")},
    ),
    "a helper of NumPy that casts twice": Change(
        "return x.astype(np.float32)",
        "return x.astype(np.float16).astype(np.float32)",
        {
            f"each[{name}]": Worse("Cast: 2 calls (baseline: 1)", "Cast", "x.astype(np.float16)")
            for name in ("standardised", "spectrum")
        },
    ),
    "a product of NumPy row by row": Change(
        "def projected(x, w):\n    return x @ w",
        "def projected(x, w):\n    return np.stack([row @ w for row in x])",
        {"projected": Worse("MatMul: 128 calls (baseline: 1)", "MatMul", "row @ w for row in x")},
    ),
    "more samples in NumPy": Change(
        "SAMPLES = 64",
        "SAMPLES = 128",
        {"each[batched]": Worse("Tanh: bytes moved 32 KiB (baseline: 16 KiB), x2", "Tanh", "np.tanh")},
    ),
}
TOGETHER = [
    [
        "one model in float64",
        "channels_last lost",
        "a sequence twice as long",
        "a clone more",
        "a cast in a hook of autograd",
        "einsum in one step",
    ],
    [
        "a lost no_grad",
        "autocast removed",
        "batch doubled",
        "a helper of NumPy that casts twice",
    ],
    [
        "a loop over rows instead of one matmul",
        "attention unfused",
        "an op in place made out of place",
    ],
    [
        ".float() in a helper with several callers",
        "gradient checkpointing switched on",
        "a product of NumPy row by row",
        "more samples in NumPy",
    ],
]
"""Changes that concern different tests, so that one run shows them all."""
REFACTORED = {
    "x = torch.ones(BATCH, WIDTH, dtype=torch.bfloat16)\n    h = model(x)\n    return halved(h)": (
        "batch = torch.ones(\n        BATCH,\n        WIDTH,\n        dtype=torch.bfloat16,\n    )\n"
        "    return halved(\n        model(batch),\n    )"
    ),
    "h = F.relu(self.up(x))\n        return self.down(h)": "wide = self.up(x)\n        return self.down(F.relu(wide))",
    "    return (x - x.mean(axis=0)) / x.std(axis=0)": (
        "    centred = x - x.mean(axis=0)\n    return centred / x.std(\n        axis=0,\n    )"
    ),
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with twenty tests and their baselines."""
    folder = tmp_path_factory.mktemp("recorded")
    for name, text in FILES.items():
        Path(folder, name).write_text(text)
    done = run(folder, "--opprof-update", "--opprof-processes=1")
    assert "opprof: 20 tests measured, 20 ok" in done.stdout, done.stdout
    return folder


def run(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    words = ["-p", "pytest_opprof.plugin", "-p", "no:cacheprovider", "--opprof", *flags]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def edited(recorded: Path, folder: Path, *edits: tuple[str, str]) -> Path:
    """Return a copy of the *recorded* folder in which the modules under test have these *edits*."""
    shutil.copytree(recorded, folder)
    for before, after in edits:
        (path,) = (folder / name for name in ("nets.py", "features.py") if before in (folder / name).read_text())
        text = path.read_text()
        assert text.count(before) == 1
        path.write_text(text.replace(before, after))
    return folder


def place(folder: Path, text: str) -> str:
    """Return the file and line of the module under test that has this *text*."""
    for name in ("nets.py", "features.py"):
        for number, line in enumerate((folder / name).read_text().splitlines(), start=1):
            if text in line:
                return f"{name}:{number}"
    raise LookupError(text)


def sections(output: str) -> dict[str, list[str]]:
    """Return the lines that are said of each test that fails."""
    found: dict[str, list[str]] = {}
    for line in output.partition("= short test summary info =")[0].splitlines():
        if match := re.match(r"op regression: test_\w+\.py::test_(\S+)  ", line):
            found[match[1]] = lines = []
        elif found:
            lines.append(line)
    return found


def places(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the places that are named for each op, the first first."""
    found, op, here = defaultdict[str, list[str]](list), "", ""
    for line in lines:
        if match := re.match(r"where (.+?) comes? from", line):
            op = match[1]
        elif match := re.match(r" *(?:\+?[\d.]+ (?:\w+ )? *)?(\w+\.py:\d+) in ", line):
            here = match[1]
            if op != "they":
                found[op].append(here)
        elif op == "they" and (match := re.match(r"      (\w.*)", line)):
            for each in match[1].split(", "):
                found[each.rpartition(" ")[0]].append(here)
    return found


@pytest.mark.parametrize("names", TOGETHER, ids=lambda names: f"{names[0]}, and {len(names) - 1} more")
def test_changes_fail_what_they_made_worse_with_its_line(recorded: Path, tmp_path: Path, names: list[str]) -> None:
    changes = [CHANGES[name] for name in names]
    folder = edited(recorded, tmp_path / "changed", *((change.before, change.after) for change in changes))
    done = run(folder)
    found = sections(done.stdout)
    failed = {line.partition("::test_")[2].partition(" - ")[0] for line in re.findall("^FAILED .*", done.stdout, re.M)}
    assert set(found) == failed == {test for change in changes for test in change.worse}, done.stdout
    for test, (said, op, line) in (each for change in changes for each in change.worse.items()):
        assert any(re.fullmatch(rf" +{re.escape(said)}( at \S+)?", told) for told in found[test]), done.stdout
        if any("the same cause as" in told for told in found[test]):  # an earlier test shows the lines
            assert any(told.endswith(f"{said} at {place(folder, line)}") for told in found[test]), done.stdout
        else:
            assert place(folder, line) in places(found[test])[op], done.stdout


def test_no_change_is_left_out() -> None:
    assert sorted(name for names in TOGETHER for name in names) == sorted(CHANGES)


def test_four_unchanged_runs_pass(recorded: Path, tmp_path: Path) -> None:
    folders = [edited(recorded, tmp_path / f"{number}") for number in range(4)]
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(run, folders):
            assert done.returncode == 0, done.stdout
            assert "opprof: 20 tests measured, 20 ok" in done.stdout


def test_a_refactoring_passes_and_leaves_the_baselines_as_they_are(recorded: Path, tmp_path: Path) -> None:
    folder = edited(recorded, tmp_path / "refactored", *REFACTORED.items())
    text = (folder / "nets.py").read_text()
    begin, end = text.index("class Encoder"), text.index("def encode(")
    moved = text[:begin] + text[end:] + "\n\n" + text[begin:end]
    (folder / "nets.py").write_text(moved.replace("(blocks, x)", "(layers, x)").replace("in blocks:", "in layers:"))
    assert run(folder).returncode == 0
    before = contents(folder)
    done = run(folder, "--opprof-update", "--opprof-processes=1")
    assert "opprof: 20 tests measured, 20 ok" in done.stdout, done.stdout
    assert contents(folder) == before


def contents(folder: Path) -> dict[str, str]:
    """Return the text of the baselines, but of times: those of a busy machine differ enough to be stored anew."""
    paths = (path for path in sorted(folder.glob("baselines/*/*")) if not path.name.endswith(".times.json"))
    return {str(path.relative_to(folder)): path.read_text() for path in paths}

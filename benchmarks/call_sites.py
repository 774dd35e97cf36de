"""What it costs to record which lines ask for ops: windows with and without, in turns, by the CPU time of the thread.

    python benchmarks/call_sites.py

"Body" is the program while it is measured, "window" all from its opening to its numbers, which also reads what was
recorded. Where nobody asks for lines nothing of this runs: no tracer, no frames, no marks, as the last rows show.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "6")

import numpy as np
import torch

from pytest_opprof.frameworks.live.contract import Backend, Options
from pytest_opprof.frameworks.numpy.live.backend import backend as numpy_backend
from pytest_opprof.frameworks.pytorch.live.backend import backend as torch_backend
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.sites.chains import Chains

ROUNDS = 31
Body = Callable[[], object]


def training_step() -> Body:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer
    model = torch.nn.Sequential(
        *[Block() for _ in range(4)], layer(64, 4, 128, batch_first=True), torch.nn.Linear(64, 64)
    )
    model = model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(2, 16, 64).to(torch.bfloat16)

    def step() -> None:
        loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


class Block(torch.nn.Module):
    """A transformer block in lines of the user's."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5
        weights = torch.softmax(scores.float(), dim=-1).to(q.dtype)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, t, c))
        h = torch.nn.functional.gelu(self.up(self.after(x)))
        return x + self.down(h)


def tiny_ops(x: Any) -> Body:
    def loop() -> None:
        y = x
        for _ in range(300):
            y = y + 1
            y = y * 0.5

    return loop


def numpy_features(numpy: Backend) -> Body:
    x = np.random.default_rng(0).random((64, 64))

    def features() -> None:
        for _ in range(10):
            y = (x - x.mean(axis=0)) / x.std(axis=0)
            y = y.astype(np.float32)
            np.sort(np.abs(np.fft.rfft(y)), axis=1)
            np.sqrt(np.abs(y @ y.T))

    return features


def measured(backend: Backend, body: Body, has_sites: bool) -> tuple[int, int]:
    """Return the ns of a *body*, and of the window around it."""
    recorder, window = Recorder([backend], Options(), explicit=True), Window("w")
    recorder.chains = Chains() if has_sites else None
    begin = time.thread_time_ns()
    with recorder.open(window), recorder.step(window):
        inside = time.thread_time_ns()
        body()
        body_ns = time.thread_time_ns() - inside
    assert window.profile.has_sites == has_sites
    return body_ns, time.thread_time_ns() - begin


def ratios(backend: Backend, body: Body) -> Iterator[tuple[float, float]]:
    for _ in range(3):
        measured(backend, body, True)
        measured(backend, body, False)
    sides: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
    for number in range(ROUNDS):
        for has_sites in (number % 2 == 0, number % 2 == 1):
            gc.collect()
            sides[has_sites].append(measured(backend, body, has_sites))
    for which in (0, 1):
        pairs = [(with_sites[which], without[which]) for with_sites, without in zip(sides[True], sides[False])]
        yield statistics.median(a / b for a, b in pairs), statistics.median(b for _, b in pairs) / 1e6


def untouched(backend: Backend, body: Body) -> bool:
    """Tell whether a window without lines leaves the interpreter's hooks alone."""
    before, during = sys.gettrace(), []
    measured(backend, lambda: (during.append(sys.gettrace()), body()), False)
    return during == [before]


def main() -> None:
    torch.set_num_threads(1)
    of_torch, numpy = torch_backend(), numpy_backend()
    cases = {
        "PyTorch, a training step of a transformer": (of_torch, training_step(), 1.2),
        "PyTorch, a loop of 600 tiny ops": (of_torch, tiny_ops(torch.ones(16)), None),
        "NumPy, a loop of 600 tiny ops": (numpy, tiny_ops(np.ones(16)), None),
        "NumPy, a pipeline of features, 64 x 64": (numpy, numpy_features(numpy), None),
    }
    print(f"with lines / without, medians of {ROUNDS} pairs")
    for name, (backend, body, goal) in cases.items():
        (inside, body_ms), (whole, window_ms) = ratios(backend, body)
        wanted = f"   (goal: body at most {goal})" if goal else ""
        print(f"  {name:44} body x{inside:.2f} of {body_ms:.2f} ms, window x{whole:.2f} of {window_ms:.2f} ms{wanted}")
    for name, (backend, body, _) in cases.items():
        print(f"  {name:44} without lines nothing traces: {untouched(backend, body)}")


if __name__ == "__main__":
    main()

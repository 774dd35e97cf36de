"""Networks for the tests of MindSpore, which compiles only what stands in a file. Imported inside tests only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import nn, ops

RANDOM = np.random.default_rng(0)


def tensor(*shape: int, dtype: type = np.float32) -> Any:
    return ms.Tensor(RANDOM.random(shape).astype(dtype))


class LeNet(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.pool = nn.MaxPool2d(2, 2)
        self.relu = nn.ReLU()
        self.flatten = nn.Flatten()
        self.dense1 = nn.Dense(400, 120)
        self.dense2 = nn.Dense(120, 84)
        self.dense3 = nn.Dense(84, 10)

    def construct(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.flatten(self.pool(self.relu(self.conv2(x))))
        return self.dense3(self.relu(self.dense2(self.relu(self.dense1(x)))))


class Transformer(nn.Cell):
    """One cell: attention with *heads* on a width of *n*, and the layer behind it."""

    def __init__(self, n: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Dense(n, n) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm((n,)), nn.LayerNorm((n,))
        self.wide, self.narrow = nn.Dense(n, 4 * n, activation="gelu"), nn.Dense(4 * n, n)
        self.heads = heads

    def construct(self, x):
        batch, length, n = x.shape
        parts = (batch, length, self.heads, n // self.heads)
        y = self.norm1(x)
        query = self.query(y).reshape(parts).transpose(0, 2, 1, 3)
        key = self.key(y).reshape(parts).transpose(0, 2, 3, 1)
        value = self.value(y).reshape(parts).transpose(0, 2, 1, 3)
        weights = ops.softmax(ops.matmul(query, key) * 0.35, -1)
        x = x + self.out(ops.matmul(weights, value).transpose(0, 2, 1, 3).reshape((batch, length, n)))
        return x + self.narrow(self.wide(self.norm2(x)))


class Llama(nn.Cell):
    """One layer as Llama has it in half precision: RMS norms in float32, rotary positions, a gated layer behind.

    With *more_casts*, the attention's weights go to float32 and back once more.
    """

    def __init__(self, n: int = 32, heads: int = 2, length: int = 8, more_casts: bool = False) -> None:
        super().__init__()
        half = ms.float16
        dense = [nn.Dense(n, n, has_bias=False, dtype=half) for _ in range(4)]
        self.query, self.key, self.value, self.out = dense
        self.gate, self.up = (nn.Dense(n, 2 * n, has_bias=False, dtype=half) for _ in range(2))
        self.down = nn.Dense(2 * n, n, has_bias=False, dtype=half)
        self.scale1, self.scale2 = (ms.Parameter(ops.ones(n, half), name=name) for name in ("scale1", "scale2"))
        angles = np.outer(np.arange(length), 1 / 10000 ** (np.arange(0, n // heads, 2) / (n // heads)))
        self.cos, self.sin = (ms.Tensor(np.tile(each(angles), 2), half) for each in (np.cos, np.sin))
        self.heads, self.more_casts = heads, more_casts

    def norm(self, x, scale):
        x = ops.cast(x, ms.float32)
        return ops.cast(x * ops.rsqrt((x * x).mean(-1, keep_dims=True) + 1e-6), ms.float16) * scale

    def rotated(self, x):
        left, right = ops.split(x, x.shape[-1] // 2, -1)
        return x * self.cos + ops.concat((-right, left), -1) * self.sin

    def construct(self, x):
        batch, length, n = x.shape
        parts = (batch, length, self.heads, n // self.heads)
        y = self.norm(x, self.scale1)
        query = self.rotated(self.query(y).reshape(parts).transpose(0, 2, 1, 3))
        key = self.rotated(self.key(y).reshape(parts).transpose(0, 2, 1, 3))
        value = self.value(y).reshape(parts).transpose(0, 2, 1, 3)
        weights = ops.softmax(ops.cast(ops.matmul(query, key.transpose(0, 1, 3, 2)), ms.float32) * 0.25, -1)
        weights = ops.cast(weights, ms.float16)
        if self.more_casts:
            weights = ops.cast(ops.exp(ops.cast(weights, ms.float32)), ms.float16)
        x = x + self.out(ops.matmul(weights, value).transpose(0, 2, 1, 3).reshape((batch, length, n)))
        y = self.norm(x, self.scale2)
        return x + self.down(ops.silu(self.gate(y)) * self.up(y))


class Molecules(nn.Cell):
    """Steps of molecular dynamics: forces from a network in float16, velocities and positions in float32.

    With *hidden*, each step casts to float64 and back, as somebody adds who wants the sum to be exact.
    """

    def __init__(self, steps: int = 3, hidden: bool = False) -> None:
        super().__init__()
        self.energy = nn.SequentialCell([nn.Dense(3, 16), nn.Tanh(), nn.Dense(16, 3)]).to_float(ms.float16)
        self.steps = steps
        self.hidden = hidden

    def construct(self, x, v):
        for _ in range(self.steps):
            force = ops.cast(self.energy(x), ms.float32)
            if self.hidden:
                force = ops.cast(ops.cast(force, ms.float64) * 2.0, ms.float32)
            v = v + force * 0.01
            x = x + v * 0.01
        return x, v


class Update(nn.Cell):
    """Adds to what it has; with *copies* to a copy of it."""

    def __init__(self, copies: bool) -> None:
        super().__init__()
        self.total = ms.Parameter(ms.Tensor(np.zeros((2, 8, 32), np.float32)), name="total")
        self.copies = copies

    def construct(self, x):
        if self.copies:
            x = ops.deepcopy(x)
        return ops.assign_add(self.total, x)


class Branches(nn.Cell):
    """A loop as long as its argument says, and one of two branches."""

    def construct(self, x, n):
        i = ms.Tensor(0, ms.int32)
        while i < n:
            x = ops.cast(ops.cast(x, ms.float16), ms.float32) + 1
            i = i + 1
        if x.sum() > 0:  # noqa: SIM108  # a branch of the graph
            x = ops.relu(x)
        else:
            x = ops.sin(x)
        return x.reshape(2, -1)


try:
    from mindspore.common import no_inline
except ImportError:  # 2.0

    def no_inline(function):
        return function


@no_inline
def reused(x):
    return ops.exp(x) * 2


class Reused(nn.Cell):
    """Calls a function three times that stays a sub-graph of its own, as the layers of a large network do."""

    def construct(self, x):
        return reused(reused(reused(x)))


def training(net: Any, optimizer: Any, *inputs: Any) -> Callable[[], object]:
    """Return a step of training on *inputs*, with the gradients of the sum of what *net* returns."""

    def forward(*inputs):
        return ops.cast(net(*inputs), ms.float32).sum()

    gradients = ms.value_and_grad(forward, None, optimizer.parameters)

    def step() -> object:
        loss, grads = gradients(*inputs)
        optimizer(grads)
        return loss

    return step


@ms.jit
def there_and_back(x):
    return ops.cast(ops.sin(ops.cast(x, ms.float64)), ms.float32)


def exact_and_back(x):
    """Two casts that a graph leaves out."""
    return ops.sin(ops.cast(ops.cast(x, ms.float64), ms.float32))


def sum_there_and_back(x):
    return there_and_back(x).sum()


# Float16 on a CPU: kernels that have it, and kernels that cast.
def matmul(a, b):
    return ops.matmul(a, b)


def add_then_relu(a, b):
    return ops.relu(a + b)


def mean(a, b):
    return a.mean()


def power(a, b):
    return a**2


def largest(a, b):
    return a.max()


def compare(a, b):
    return a > ops.cast(b, ms.float32)


def integer_sum(a, b):
    return ops.cast(a, ms.int32) + 1.5


HALF = (matmul, add_then_relu, mean, power, largest, compare, integer_sum)

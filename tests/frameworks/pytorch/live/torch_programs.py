"""Programs of PyTorch in which the line of an op is easily got wrong. `truth` rewrites them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

HALF = torch.bfloat16


# --- a training step of a small transformer


def as_float(x: Tensor) -> Tensor:
    return x.float()


class Norm(nn.Module):
    """Casts in a helper with many callers, and in an expression of several lines."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        y = as_float(x)
        y = y * torch.rsqrt(
            y.pow(2).mean(-1, keepdim=True)
            + 1e-6
        )  # fmt: skip
        return (y * self.scale).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5
        weights = functional.softmax(scores.float(), dim=-1).to(q.dtype)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, width: int = 16, heads: int = 2, layers: int = 2, words: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Training:
    """A model in bfloat16, and what trains it."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = Model().to(HALF)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.tokens = torch.randint(0, 32, (2, 8))

    def step(self) -> None:
        logits = self.model(self.tokens)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), self.tokens.flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


# --- cases


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, w: Tensor) -> Tensor:
        context.save_for_backward(x, w)
        wide = x.float()
        return (wide * w.float()).to(x.dtype)

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, w = context.saved_tensors
        wide = grad.float()
        return (wide * w.float()).to(x.dtype), (wide * x.float()).abs().to(w.dtype)


def custom_function(x: Tensor, w: Tensor) -> None:
    y = Scale.apply(x, w)
    z = (
        y.float()
        .pow(2)
        .to(HALF)
        .float()
        .sum()
    )  # fmt: skip
    z.backward()


def hooked(x: Tensor, w: Tensor) -> None:
    h = x @ w
    h.register_hook(lambda grad: grad.double().to(grad.dtype))
    loss = h.sum().float()
    loss.backward()


def narrowed(module: nn.Module, given: Any, made: Tensor) -> Tensor:
    return made.float()


def hooked_module(x: Tensor, w: Tensor) -> None:
    linear = nn.Linear(8, 8).to(HALF)
    linear.register_forward_hook(narrowed)
    linear.register_full_backward_hook(lambda module, given, made: (given[0].double().to(HALF),))
    linear(x).sum().backward()


def double_backward(x: Tensor, w: Tensor) -> None:
    y = (x @ w).float()
    s = y.pow(3).sum()
    g = torch.autograd.grad(s, w, create_graph=True)[0]
    n = g.float().norm()
    n.backward()


def two_passes(x: Tensor, w: Tensor) -> None:
    one = (x * w).float().sum()
    two = (x @ w).float().sum()
    two.backward(retain_graph=True)
    one.backward()
    two.backward()


def decorated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(function)
    def inner(*given: Tensor) -> Tensor:
        out = function(*given)
        return out.to(HALF)

    return inner


@decorated
def with_decorator(x: Tensor, w: Tensor) -> Tensor:
    parts = [part.float() for part in (x, w, x)]
    total = sum((part.sum() for part in parts), torch.zeros(()))
    return functools.partial(torch.mul, total)(2.0)


@contextlib.contextmanager
def scope(x: Tensor) -> Iterator[Tensor]:
    a = x.float()
    try:
        yield a
    finally:
        x.sum().to(torch.double)


def exceptions(x: Tensor, w: Tensor) -> Tensor:
    with contextlib.suppress(ValueError), scope(x) as a:
        c = a.double()
        raise ValueError
    try:
        d = c.float() @ w.float()
        return d @ torch.ones(3, 3)
    except RuntimeError:
        return d.to(HALF)
    finally:
        x.float()


def recursive(x: Tensor, n: int) -> Tensor:
    if n == 0:
        raise ValueError
    try:
        return recursive(x.float(), n - 1)
    finally:
        x.double()


def unwound(x: Tensor, w: Tensor) -> None:
    try:
        recursive(x, 3)
    except ValueError:
        w.float()


def in_place(x: Tensor, w: Tensor) -> Tensor:
    with torch.no_grad():
        y = x.clone()
        y += 1
        y *= x
        y[0] = x[1].float()
        index = torch.tensor([0, 1])
        z = y[index]
        z[:, 0] = w[0, : z.shape[0]].double()
        z.mul_(2).add_(
            x[0, 0].float()
        )  # fmt: skip
    return z


def autocast(x: Tensor, w: Tensor) -> Tensor:
    x = x.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ w.float()
        b = a @ w
        c = functional.softmax(b, dim=-1)
    c.sum().backward()
    return c


def library(x: Tensor, w: Tensor) -> Tensor:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    lstm = nn.LSTM(8, 8, batch_first=True)
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    s = x.float()[None]
    a, _ = attention(s, s, s)
    b, _ = lstm(a)
    with torch.no_grad():
        c = encoder(s)
    d = functional.scaled_dot_product_attention(s, s, s)
    return b + c + d


class Thing:
    """Has ops where none is written."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    @property
    def wide(self) -> Tensor:
        return self.x.float()

    def __matmul__(self, other: Thing) -> Tensor:
        return self.wide @ other.wide

    def __getitem__(self, index: int) -> Tensor:
        return self.x[index].double()


def dunder(x: Tensor, w: Tensor) -> Tensor:
    a, b = Thing(x), Thing(w)
    c = a @ b
    d = a[0]
    return c.sum() + d.sum()


def rows(x: Tensor) -> Iterator[Tensor]:
    for row in range(2):
        yield x[row].float()
        x.sum()


def generators(x: Tensor, w: Tensor) -> Tensor:
    wide = [each.to(HALF) for each in rows(x)]
    some = rows(w)
    first = next(some)
    some.close()
    return first.double() + wide[0]


def loops(x: Tensor, w: Tensor) -> Tensor:
    total = torch.zeros(())
    for row in x:
        if row.sum() > 0:
            total = total + row.float().sum()
        total = total * 0.5
    n = 0
    while n < 3 and total < 4:
        total, n = total + 1, n + 1
    return total


def twice(x: Tensor, w: Tensor) -> Any:
    a = as_float(x)
    b = as_float(w)
    c = as_float(
        x
    ) + as_float(w)  # fmt: skip
    return a, b, c, [as_float(each) for each in (x, w)]


def transformed(x: Tensor, w: Tensor) -> None:
    torch.vmap(lambda row: row.float() * 2)(x.detach())
    torch.func.grad(lambda given: (given.float() * 2).sum())(x.detach())


CASES = [
    custom_function,
    hooked,
    hooked_module,
    double_backward,
    two_passes,
    with_decorator,
    exceptions,
    unwound,
    in_place,
    autocast,
    library,
    dunder,
    generators,
    loops,
    twice,
    transformed,
]


def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    x, w = (torch.randn(8, 8).to(HALF).requires_grad_() for _ in range(2))
    return x, w


# --- what has no ground truth of this kind


def layer(x: Tensor, w: Tensor) -> Tensor:
    h = x @ w
    return h.float().tanh().to(h.dtype)


def checkpointed(x: Tensor, w: Tensor, is_reentrant: bool) -> None:
    y = checkpoint(functools.partial(layer, w=w), x, use_reentrant=is_reentrant)
    y.sum().backward()


def compiled(x: Tensor) -> Tensor:
    y = x.float()
    return y * 2

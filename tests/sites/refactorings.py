"""A small transformer, ten ways to refactor it besides, and eleven ways to let it cast once more.

The casts of a training step in bfloat16 (one layer) are those that PyTorch 2.13.0 did in each of the versions, by line.
A line is called by the word in its comment, which no version changes; a line without casts has none.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

from pytest_opprof.sites.places import Calls, OpSites, Place, Site

SOURCE = '''\
"""A small transformer with casts in known places."""
import torch
from torch import nn
import torch.nn.functional as F


def as_float(x):
    return x.float()  #@helper


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = as_float(x)  #@wide
        y = y * torch.rsqrt(  #@rsqrt
            y.pow(2).mean(-1, keepdim=True)  #@mean
            + 1e-6
        )  #@close
        return (y * self.scale).to(x.dtype)  #@scale


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5  #@scores
        weights = F.softmax(scores.float(), dim=-1).to(q.dtype)  #@softmax
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, c))  #@out


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))  #@residual
        return x + self.mlp(self.norm2(x))  #@residual2


class Model(nn.Module):
    def __init__(self, width=64, heads=4, layers=2, vocabulary=100):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embed(tokens)  #@embed
        for block in self.blocks:
            x = block(x)
        return self.head(x)  #@head
'''
CASTS = {"helper": (2, 2), "rsqrt": (0, 2), "mean": (4, 4), "scale": (4, 6), "scores": (1, 1), "softmax": (2, 2)}
"""By line: casts in the forward and in the backward pass."""
_Change = Callable[[str], str]


def _instead(old: str, new: str) -> _Change:
    def change(source: str) -> str:
        assert old in source
        return source.replace(old, new)

    return change


def _after(line: str, new: str) -> _Change:
    return lambda source: re.sub(rf"(\n *{line}[^\n]*)", rf"\1\n{new}", source)


def _renamed(**names: str) -> _Change:
    def change(source: str) -> str:
        for old, new in names.items():
            source = re.sub(rf"(?<!@)\b{old}\b", new, source)
        return source

    return change


REGRESSIONS: dict[str, tuple[_Change, dict[str, tuple[int, int]]]] = {
    "the helper again": (
        _instead("y = as_float(x)", "y = as_float(as_float(x).to(x.dtype))"),
        {"wide": (2, 2), "helper": (4, 4)},
    ),
    "a line without casts": (
        _instead("x = x + self.attention(self.norm1(x))", "x = x + self.attention(self.norm1(x)).float().to(x.dtype)"),
        {"residual": (2, 2)},
    ),
    "a line without casts, within": (
        _instead("return x + self.mlp(self.norm2(x))", "return x + self.mlp(self.norm2(x).float().to(x.dtype))"),
        {"residual2": (2, 2)},
    ),
    "once": (
        _instead("x = self.embed(tokens)", "x = self.embed(tokens).float().to(torch.bfloat16)"),
        {"embed": (2, 2)},
    ),
    "the last line": (
        _instead("return self.head(x)", "return self.head(x.double().to(x.dtype))"),
        {"head": (2, 2)},
    ),
    "beside a hidden cast": (
        _instead("scores = q @", "scores = q.float().to(q.dtype) @"),
        {"scores": (3, 3)},
    ),
    "a line with casts": (
        _instead("F.softmax(scores.float(), dim=-1)", "F.softmax(scores.float().double(), dim=-1)"),
        {"softmax": (3, 3)},
    ),
    "below a line with casts": (
        _instead("return self.out((weights @ v)", "return self.out((weights.float().to(v.dtype) @ v)"),
        {"out": (2, 2)},
    ),
    "a new line": (
        _after("b, t, c = x.shape", "        x = x.float().to(x.dtype)  #@new"),
        {"new": (2, 2)},
    ),
    "a new line like another": (
        lambda source: re.sub(
            r"(\n        return \(y \* self.scale\)[^\n]*)", r"\n        y = y.to(x.dtype).float()  #@new\1", source
        ),
        {"new": (4, 4)},
    ),
    "in a loop": (
        _after(r"x = block\(x\)", "            x = x.float().to(x.dtype)  #@new"),
        {"new": (2, 2)},
    ),
}


def _classes_moved(source: str) -> str:
    head, norm, attention, block = re.split(r"\n(?=class (?:Norm|Attention|Block)\b)", source)
    return "\n".join([head, attention, norm, block])


REFACTORINGS: dict[str, _Change] = {
    "none": lambda source: source,
    "lines above": _instead("\nclass Norm", "\n# more\n\n\nLIMIT = 3\n\n\nclass Norm"),
    "a variable renamed": _renamed(y="wide"),
    "an argument renamed": _renamed(x="hidden"),
    "two variables renamed": _renamed(scores="logits", weights="attn"),
    "a function renamed": _renamed(as_float="to_wide"),
    "classes renamed": _renamed(Norm="RMSNorm", Attention="SelfAttention"),
    "classes moved": _classes_moved,
    "reformatted": lambda source: (
        source.replace("weights = F.softmax(", "weights = F.softmax(  #@softmax\n            ")
        .replace("y = y * torch.rsqrt(", "y = (y * torch.rsqrt(")
        .replace("        )  #@close", "        ))  #@close")
    ),
    "a line split in two": lambda source: re.sub(
        r"weights = F.softmax\(scores.float\(\)(.*?), dim=-1\)",
        r"wide = scores.float()\1  #@softmax\n        weights = F.softmax(wide, dim=-1)",
        source,
    ),
    "annotations": _instead("def forward(self, x):", "def forward(self, x: torch.Tensor) -> torch.Tensor:"),
    "everything renamed": _renamed(x="hidden", y="wide", c="width_", q="query", weights="attn", scores="logits"),
}
FILE_RENAMED = ("none", "an argument renamed", "everything renamed")


class Line(NamedTuple):
    """A line that casts."""

    place: Place
    number: int
    name: str
    """What it is called in every version."""
    is_backward: bool


Version = dict[Line, int]
"""The casts of each line of one version."""


def version(source: str, casts: dict[str, tuple[int, int]], file: str = "models.py") -> Version:
    """Return the casts of a version of `SOURCE`, by line."""
    functions = dict(_functions(ast.parse(source)))
    named: dict[str, list[tuple[int, str]]] = {}
    for number, text in enumerate(source.splitlines(), 1):
        code, _, name = text.partition("  #@")
        if name:
            named.setdefault(name, []).append((number, code.strip()))
    found: Version = {}
    for name, lines in named.items():
        for backward, calls in enumerate(casts.get(name, (0, 0))):
            for number, code in lines:
                # One that was split: each part has the casts that are written in it.
                part = len(re.findall(r"\.(?:float|double|to)\(", code)) if len(lines) > 1 else calls
                if part:
                    found[Line(Place(file, functions[number], code), number, name, bool(backward))] = part
    return found


def _functions(node: ast.AST, within: str = "") -> Iterator[tuple[int, str]]:
    """Yield the qualified name of the function of each line."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
            name = f"{within}{child.name}"
            yield from ((number, name) for number in range(child.lineno, (child.end_lineno or 0) + 1))
            yield from _functions(child, f"{name}.")


def versions() -> Iterator[tuple[str, Version]]:
    """Yield every regression with every refactoring: what it is, and its casts."""
    for (regression, (change, casts)), (refactoring, also) in product(REGRESSIONS.items(), REFACTORINGS.items()):
        source = also(change(SOURCE))
        for file in ("models.py", "nets.py") if refactoring in FILE_RENAMED else ("models.py",):
            yield f"{regression}, {refactoring}, {file}", version(source, {**CASTS, **casts}, file)


def sites(casts: Version) -> OpSites:
    """Return the casts of a version as a window has them."""
    by_site: Counter[Site] = Counter()
    for line, calls in casts.items():
        by_site[Site((line.place,), line.is_backward)] += calls
    return {site: Calls(calls, calls) for site, calls in by_site.items()}

"""Colours, each with a sign and a word beside it: colour alone says nothing.

Worse is vermilion, better blue, unknown amber (the colours of Okabe and Ito). Only what was judged
has one of them. Kinds of ops have four others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from ...ops.vocabulary import COMPILED, COPY, DATA_MOVEMENT, VIEWS
from ...verdict.verdicts import Sense, Status, Verdict

Kind = Literal["bad", "good", "warn", "mute", "ok"]
SIGNS: Final[Mapping[Kind, str]] = {"bad": "▲", "good": "▼", "warn": "?", "mute": "", "ok": ""}
FILLS: Final[Mapping[Kind, str]] = {
    "bad": "#d55e00",
    "good": "#0072b2",
    "warn": "#e0a100",
    "mute": "#8a8f98",
    "ok": "#8a8f98",
}
PALE: Final = "#c3c7cd"
"""Of the value before, and of the unused part of a limit."""
_OF_SENSE: Final[Mapping[Sense, Kind]] = {"worse": "bad", "better": "good", "unknown": "warn", "neither": "mute"}


def of_status(status: Status, *, fails: bool) -> Kind:
    """Return the mark for the status of a test; a failure that is only reported is marked as a doubt."""
    if status is Status.OK:
        return "ok"
    return "warn" if status.sense == "worse" and not fails else _OF_SENSE[status.sense]


def of_verdict(verdict: Verdict) -> Kind:
    """Return the mark for the change of an op."""
    return _OF_SENSE[verdict.sense]


Sort = Literal["computes", "moves", "communicates", "other", "unknown"]
SORTS: Final[Mapping[Sort, tuple[str, str]]] = {
    "computes": ("#3d9c97", "matrix products, convolutions, compiled code"),
    "moves": ("#e0a100", "moves or converts data"),
    "communicates": ("#a78be0", "communicates"),
    "other": ("#a9afb8", "everything else"),
    "unknown": ("#d5d8dc", "op not known"),
}
"""The colour and the name of each sort of ops, in all drawings of a profile."""
# FBGEMM is a library of more than products; XLA's convert is no convolution, and bilinear is no product.
_COMPUTES = re.compile(r"matmul|(?<!fb)gemm|conv(?!ert)|attention|(?<!i)linear|einsum|lstm|gru|rnn|dot|aten::mm|bmm")
_MOVES = re.compile(r"memcpy|memset|(?<!broad)cast|convert|copy|transdata|transpose|synchronize|bitcast")
_FUSED = re.compile(r"fusion\w*?(?:_|$)|_|wrapped_")
"""Between the names of the ops that a compiler fused: ``convert_copy_fusion``, ``FusionOp_ReluGradV2_Cast``."""


def sort_of(op: str, *, communicates: bool = False) -> Sort:
    """Return which sort of op it is, by its canonical or raw name.

    >>> sort_of("Cast"), sort_of("BatchMatMul"), sort_of("ReLU"), sort_of("(unlinked)")
    ('moves', 'computes', 'other', 'unknown')
    >>> sort_of("convert_copy_fusion"), sort_of("convert_add_fusion"), sort_of("aten::conv_transpose2d")
    ('moves', 'other', 'computes')
    """
    name = op.lower()
    if communicates or "nccl" in name or name.startswith(("hcom", "c10d::")):
        return "communicates"
    if op.startswith("("):
        return "unknown"
    if op in DATA_MOVEMENT or op in VIEWS or op == COPY:
        return "moves"
    if op in COMPILED or _COMPUTES.search(name):
        return "computes"
    parts = list(filter(None, _FUSED.split(name))) if "fusion" in name else [name]
    return "moves" if parts and all(map(_MOVES.search, parts)) else "other"

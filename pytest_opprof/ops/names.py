"""The meaning of a raw op name: its canonical op, and how it counts beside the ops around it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache, lru_cache

from . import vocabulary
from .cuda_calls import starts_device_work
from .tables import TABLES
from .vocabulary import COMPILE, COMPILED

# In place of the launcher of a kernel, if unknown.
UNLINKED = "(unlinked)"


class Kind(Enum):
    """How an op counts when it happens inside another one (see `attribution`)."""

    COMPUTE = auto()
    """An op that works; the events inside are its implementation."""
    MOVE = auto()
    """A cast of data, a host-device copy, a hidden copy: counts wherever it happens."""
    COPY = auto()
    """A copy within one dtype, a cast of one number: part of the op that needs it, counted if the program calls it."""
    VIEW = auto()
    """Moves no data: part of the op around it."""
    WRAPPER = auto()
    """Does nothing itself: stands for the working op inside, and is nothing without one."""
    GROUP = auto()
    """Stands for the ops inside as well, but is an op if there are none."""
    GRAPH = auto()
    """Such as a graph of torch.compile: counts wherever it happens, as do the ops inside; nothing if it is empty."""
    ALLOCATION = auto()
    """Only allocates memory."""
    COMMUNICATION = auto()
    """Between processes or devices: counts wherever it happens, and has no time of its own among ops."""
    UNKNOWN = auto()
    """Not in the vocabulary: an op under its raw name; ops inside count as well."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """The canonical op of a raw name (the raw name itself if the vocabulary has none) and how it counts."""

    op: str
    kind: Kind


_UNSTABLE = (
    # torch.compile numbers graphs and kernels and hashes its cache: names that change from run to run.
    (re.compile(r"graph_\d+_(\w*?)(?:_\d+)?"), r"\1"),
    (re.compile(r"(triton_[a-z]+_fused_\w*?)(?:_\d+)?"), r"\1"),
    (re.compile(r"## Call CompiledFxGraph .*"), "CompiledFxGraph"),
    (re.compile(r"(Torch-Compiled Region): .*"), r"\1"),
    # PyTorch 2.0 to 2.5.
    (re.compile(r"_compile(?:\.<locals>\.compile_inner)? \(dynamo_timed\)"), COMPILED[COMPILE][0]),
)


def stable(raw: str) -> str:
    """Return *raw* without the numbers and hashes that torch.compile changes from run to run.

    >>> stable("graph_1_cpp_fused__softmax_add_0")
    'cpp_fused__softmax_add'
    """
    for pattern, replacement in _UNSTABLE:
        if match := pattern.fullmatch(raw):
            return match.expand(replacement)
    return raw


def meaning(
    raw: str, dtypes: tuple[str, ...] = (), aliases: Mapping[str, str] | None = None, of_scalar: bool = False
) -> Meaning:
    """Return the canonical op of *raw* and how it counts.

    *dtypes* are those of the source and the destination, if the profiler knows them: they distinguish a cast from a
    copy. *aliases* are the user's own, raw name to canonical op; they take precedence over the vocabulary. A cast
    *of_scalar*, of no dimensions, is a part of an op around it: PyTorch converts the 2.0 of ``x * 2.0`` so on a CPU,
    and no GPU does.

    >>> meaning("aten::addmm").op, meaning("aten::copy_", ("float32", "float16")).op
    ('MatMul', 'Cast')
    """
    if aliases and raw in aliases:
        return Meaning(aliases[raw], _kind(raw, aliases[raw]))
    return _meaning(raw, len(set(dtypes)) > 1, of_scalar)


@lru_cache(maxsize=4096)
def _meaning(raw: str, changes_dtype: bool, of_scalar: bool) -> Meaning:
    if changes_dtype and raw in _casts():
        return Meaning(vocabulary.CAST, Kind.COPY if of_scalar else Kind.MOVE)
    op = _canonical(raw)
    return Meaning(op or raw, _kind(raw, op))


def _canonical(raw: str) -> str | None:
    if raw in _meanings() or raw in vocabulary.DATA_MOVEMENT or raw in vocabulary.COMPILED:
        return raw
    table = _ops_by_raw_name()
    if raw in table:
        return table[raw]
    return table.get(raw[:-1]) if raw.startswith("aten::") and raw.endswith("_") else None


def _is_in(raw: str, names: Collection[str]) -> bool:
    """Return True if *raw* or the function whose in-place twin it is (`aten::square_`) is one of *names*."""
    return raw in names or (raw.startswith("aten::") and raw.endswith("_") and raw[:-1] in names)


def _kind(raw: str, op: str | None) -> Kind:
    if op == vocabulary.GRAPH:
        return Kind.GRAPH if raw in vocabulary.GRAPHS else Kind.UNKNOWN
    if _is_in(raw, vocabulary.WRAPPERS) or raw in vocabulary.QUESTIONS:
        return Kind.WRAPPER
    if starts_device_work(raw) or raw == UNLINKED:
        return Kind.WRAPPER
    if raw.startswith("aten::_foreach_"):
        return Kind.GROUP  # on a CPU it calls the op of each tensor, on a GPU kernels of its own
    if raw in vocabulary.ALLOCATIONS:
        return Kind.ALLOCATION
    if op in vocabulary.COMMUNICATION or raw in vocabulary.UNNAMED_COMMUNICATION:
        return Kind.COMMUNICATION
    if op is None:
        return Kind.UNKNOWN
    if op in vocabulary.DATA_MOVEMENT or op == vocabulary.COMPILE or raw in vocabulary.ALWAYS_COPIES:
        return Kind.MOVE
    if op == vocabulary.COPY:
        return Kind.COPY
    return Kind.VIEW if op in vocabulary.VIEWS else Kind.COMPUTE


_learned: dict[str, Mapping[str, str]] = {}


def learn(framework: str, table: Mapping[str, str]) -> None:
    """Add the *table* of an installed backend, in the form of `tables`, which take precedence if both have a name."""
    if _learned.get(framework, {}) != table:
        _learned[framework] = table
        _meanings.cache_clear()
        _ops_by_raw_name.cache_clear()
        _meaning.cache_clear()


@cache
def _meanings() -> dict[str, dict[str, str]]:
    """Return the raw names of each canonical op, by framework."""
    meanings: dict[str, dict[str, str]] = {}
    for framework, ops in (*TABLES.items(), *_learned.items()):
        for op, raws in ops.items():
            names = meanings.setdefault(op, {})
            names[framework] = f"{names[framework]} {raws}" if framework in names else raws
    return meanings


@cache
def _ops_by_raw_name() -> dict[str, str]:
    compiled = {raw: op for op, raws in vocabulary.COMPILED.items() for raw in raws}
    tables = (*_learned.values(), *TABLES.values())  # the last to have a name decides
    return compiled | {raw: op for table in tables for op, raws in table.items() for raw in raws.split()}


@cache
def _casts() -> frozenset[str]:
    return frozenset(raw for raws in vocabulary.CASTS.values() for raw in raws.split())


def raw_names() -> Collection[str]:
    """Return every raw name of the vocabulary."""
    return {*_ops_by_raw_name(), *_casts(), *vocabulary.WRAPPERS, *vocabulary.ALLOCATIONS, *vocabulary.QUESTIONS}


def canonical_ops() -> list[str]:
    """Return every canonical op, sorted."""
    return sorted({*_meanings(), *vocabulary.DATA_MOVEMENT, *vocabulary.COMPILED})


def possible_ops(name: str) -> set[str]:
    """Return the canonical ops that *name* may mean: two for a copy that is a cast if the dtype changes."""
    casts = {vocabulary.CAST} if name in _casts() else set[str]()
    op = _canonical(name)
    return casts | ({op} if op else set())


def is_known(name: str, aliases: Mapping[str, str] | None = None) -> bool:
    """Return True if *name* is a canonical op or a raw name in the vocabulary or the user's aliases."""
    aliases = aliases or {}
    return (
        _canonical(name) is not None
        or name in vocabulary.WRAPPERS
        or name in vocabulary.ALLOCATIONS
        or name in vocabulary.QUESTIONS
        or name in aliases
        or name in aliases.values()
    )


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield (canonical op, framework, raw names) for `opprof ops`, sorted."""
    for op in canonical_ops():
        by_framework = _raw_names(op) or {"": ""}
        yield from ((op, framework, raws) for framework, raws in by_framework.items())


def _raw_names(op: str) -> Mapping[str, str]:
    if op in vocabulary.COMPILED:
        return {"torch": " ".join(raw if raw.isidentifier() else repr(raw) for raw in vocabulary.COMPILED[op])}
    raws = _meanings().get(op, {})
    if op == vocabulary.CAST:
        casts = {name: f"{raws} (where the dtype changes)" for name, raws in vocabulary.CASTS.items()}
        return {**casts, **raws}
    return raws

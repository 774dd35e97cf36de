"""What a window as a whole did now and in its baseline, beside its ops: memory, and what autograd keeps. Exact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..profile.calls import Range
from ..units import format_bytes
from .verdicts import Verdict
from .work import Work

GRAD_NODES, PEAK_MEMORY, HELD_MEMORY, ALLOCATIONS = "grad_nodes", "peak_memory", "held_memory", "allocations"
RECOMPILATIONS, HELD_EACH_ROUND = "recompilations", "held_each_round"


class Fact(NamedTuple):
    """How a fact is told and judged."""

    text: str
    more: Verdict
    fewer: Verdict
    tolerance: float = 0.0
    floor: int = 0
    is_bytes: bool = False


FACTS: Mapping[str, Fact] = {
    GRAD_NODES: Fact("ops recorded for backward", Verdict.MORE_NODES, Verdict.FEWER_NODES),
    PEAK_MEMORY: Fact("peak memory", Verdict.MORE_MEMORY, Verdict.LESS_MEMORY, 0.05, 1 << 16, True),
    HELD_MEMORY: Fact("memory held at the end", Verdict.MORE_MEMORY, Verdict.LESS_MEMORY, 0.05, 1 << 16, True),
    # What each of several rounds keeps grows with every call, however little it is; caches are filled in the first.
    HELD_EACH_ROUND: Fact("memory held by each round", Verdict.MORE_MEMORY, Verdict.OK, 0.05, is_bytes=True),
    ALLOCATIONS: Fact("allocations", Verdict.MORE_MEMORY, Verdict.LESS_MEMORY, 0.05),
    # Fewer say little: a function that an earlier test compiled is not compiled here.
    RECOMPILATIONS: Fact("functions compiled again", Verdict.COMPILED_AGAIN, Verdict.OK),
}
"""By the name in budgets. In 30 processes PyTorch's were the same to the byte; allocators of other versions round sizes
in other ways."""


def named(op: str) -> str:
    """Return what an op is called in a table; a fact of the window is none, and in parentheses."""
    return f"({FACTS[op].text})" if op in FACTS else op


def compared(base: Mapping[str, Range], now: Mapping[str, Range], then: str) -> Iterator[tuple[str, Work]]:
    """Yield what changed, with what became of it; what only one side knows is not compared."""
    found = set[str]()
    for name, fact in FACTS.items():
        if name not in base or name not in now:
            continue
        before, after = base[name], now[name]
        margin = max(fact.tolerance * before.highest, fact.floor)
        if before.lowest - margin <= after.most <= before.highest + margin:
            continue
        verdict = fact.more if after.most > before.highest else fact.fewer
        if verdict is Verdict.OK or (name == HELD_EACH_ROUND and HELD_MEMORY in found):
            continue
        found.add(name)
        old, new = (format_bytes(each.most, 3) if fact.is_bytes else str(each) for each in (before, after))
        line = f"{fact.text}: {new}, {'none' if not before.most else old} {then}"
        yield name, Work(verdict, f"{old} -> {new}", line)

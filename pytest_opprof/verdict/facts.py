"""What a window as a whole did now and in its baseline: memory, what autograd keeps, and the sums of its ops. Exact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ..profile.calls import CallRange, Range
from ..units import format_bytes, format_flops
from .verdicts import Verdict
from .work import FLOOR, TOLERANCE, Work

GRAD_NODES, PEAK_MEMORY, HELD_MEMORY, ALLOCATIONS = "grad_nodes", "peak_memory", "held_memory", "allocations"
RECOMPILATIONS, HELD_EACH_ROUND = "recompilations", "held_each_round"
HOST_MEMORY = "host_memory"
PYTHON_CALLS, LOOP_ITERATIONS, COLLECTIONS = "python_calls", "loop_iterations", "collections"
OF_PYTHON = (PYTHON_CALLS, LOOP_ITERATIONS, COLLECTIONS)
"""The facts that a round of their own counts; they depend on the versions of Python and of the packages called."""
CALLS, BYTES, FLOPS = "calls", "bytes", "flops"


def _number(value: float, digits: int = 3) -> str:
    return str(value)


def _thousands(value: float, digits: int = 3) -> str:
    return f"{value:,.0f}"


class Fact(NamedTuple):
    """How a fact is told and judged."""

    text: str
    more: Verdict
    fewer: Verdict
    tolerance: float = 0.0
    floor: int = 0
    write: Callable[[float, int], str] = _number


FACTS: Mapping[str, Fact] = {
    GRAD_NODES: Fact("ops recorded for backward", Verdict.MORE_NODES, Verdict.FEWER_NODES),
    PEAK_MEMORY: Fact("peak memory", Verdict.MORE_MEMORY, Verdict.LESS_MEMORY, 0.05, 1 << 16, format_bytes),
    HOST_MEMORY: Fact("peak memory of the host", Verdict.MORE_MEMORY, Verdict.LESS_MEMORY, 0.05, 1 << 16, format_bytes),
    HELD_MEMORY: Fact("memory held at the end", Verdict.MORE_MEMORY, Verdict.LESS_MEMORY, 0.05, 1 << 16, format_bytes),
    # What each of several rounds keeps grows with every call, however little it is; caches are filled in the first.
    HELD_EACH_ROUND: Fact("memory held by each round", Verdict.MORE_MEMORY, Verdict.OK, 0.05, write=format_bytes),
    ALLOCATIONS: Fact("allocations", Verdict.MORE_MEMORY, Verdict.LESS_MEMORY, 0.05),
    # Fewer say little: a function that an earlier test compiled is not compiled here.
    RECOMPILATIONS: Fact("functions compiled again", Verdict.COMPILED_AGAIN, Verdict.OK),
    # In 1,939 tests of pandas, scikit-learn and SciPy they are equal in three processes; on a change of other code they
    # move by a few calls, a cache that holds more or less.
    PYTHON_CALLS: Fact("calls of Python functions", Verdict.MORE, Verdict.FEWER, 0.01, 10, _thousands),
    LOOP_ITERATIONS: Fact("rounds of loops", Verdict.MORE, Verdict.FEWER, 0.01, 10, _thousands),
    COLLECTIONS: Fact("full garbage collections", Verdict.MORE, Verdict.FEWER),
    CALLS: Fact("calls of all ops", Verdict.MORE, Verdict.FEWER),
    BYTES: Fact("bytes by all ops", Verdict.MORE_WORK, Verdict.LESS_WORK, TOLERANCE, FLOOR, format_bytes),
    FLOPS: Fact("FLOPs of all ops", Verdict.MORE_WORK, Verdict.LESS_WORK, TOLERANCE, FLOOR, format_flops),
}
"""By the name in budgets. In 30 processes PyTorch's were the same to the byte; allocators of other versions round sizes
in other ways."""
SUMS = (CALLS, BYTES, FLOPS)
"""The facts that are sums over all ops."""


def named(op: str) -> str:
    """Return what an op is called in a table; a fact of the window is none, and in parentheses."""
    return f"({FACTS[op].text})" if op in FACTS else op


def amount(name: str, calls: CallRange | None) -> Range | None:
    """Return what an op adds to one of the `SUMS`; None where that is not known."""
    if calls is None or name == CALLS:
        return calls
    return calls.bytes if name == BYTES else calls.flops


def derived(ops: Mapping[str, CallRange]) -> dict[str, Range]:
    """Return those of the `SUMS` that follow from *ops*: where each op has one number, which is known and not 0.

    Files leave out an amount of 0, as one that is not known.
    """
    found = {}
    for name in SUMS:
        amounts = [amount(name, calls) for calls in ops.values()]
        known = [each.most for each in amounts if each and each.most and each.least == each.most and not each.varies]
        if known and len(known) == len(ops):
            found[name] = Range(sum(known), sum(known))
    return found


def compared(
    base: Mapping[str, Range], now: Mapping[str, Range], then: str, work_tolerance: float = TOLERANCE
) -> Iterator[tuple[str, Work]]:
    """Yield what changed, with what became of it; what only one side knows is not compared."""
    found = set[str]()
    for name, fact in FACTS.items():
        if name not in base or name not in now:
            continue
        before, after = base[name], now[name]
        tolerance = work_tolerance if name in (BYTES, FLOPS) else fact.tolerance
        margin = max(tolerance * before.highest, fact.floor)
        if before.lowest - margin <= after.most <= before.highest + margin:
            continue
        verdict = fact.more if after.most > before.highest else fact.fewer
        if verdict is Verdict.OK or (name == HELD_EACH_ROUND and HELD_MEMORY in found):
            continue
        found.add(name)
        old, new = (str(each) if fact.write is _number else fact.write(each.most, 3) for each in (before, after))
        line = f"{fact.text}: {new}, {'none' if not before.most else old} {then}"
        yield name, Work(verdict, f"{old} -> {new}", line)


def loops_follow(base: Mapping[str, Range], now: Mapping[str, Range]) -> bool:
    """Tell whether more rounds of loops are no more work: there are as many calls in them, or were before.

    A comprehension in place of a `map` has a round for each call; a loop in place of calls has fewer of these.
    """
    if PYTHON_CALLS not in base or PYTHON_CALLS not in now:
        return False
    more = now[LOOP_ITERATIONS].most - base[LOOP_ITERATIONS].most
    return more <= max(base[PYTHON_CALLS].most, now[PYTHON_CALLS].most)


def follows(
    name: str, work: Work, both: Iterable[tuple[CallRange | None, CallRange | None]], base: Range, now: Range
) -> bool:
    """Tell whether the change of one of the `SUMS` follows from ops that are told by themselves.

    *both* has each of these before and now: the rest of the window did not change as the whole did.
    """
    rest = [base.most, now.most]
    for sides in both:
        for side, calls in enumerate(sides):
            each = amount(name, calls)
            rest[side] -= each.most if each else 0
    before, after = (Range(max(each, 0), max(each, 0)) for each in rest)
    changed = dict(compared({name: before}, {name: after}, ""))
    return name not in changed or changed[name].verdict is not work.verdict

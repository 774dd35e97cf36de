"""Compare a window as a whole with its baseline: the changed quantities in `FACTS`, and why. Exact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..profile.op_counts import OpCounts
from ..profile.range import Range
from .quantities import COUNT, FACTS, LOOP_ITERATIONS, MORE_WORK, PYTHON_CALLS, SUMS, WORK_TOLERANCE
from .verdicts import Verdict
from .work import Number, Work


def amount(name: str, counts: OpCounts | None) -> Range | None:
    """Return an op's part of one of the `SUMS`; None if it is unknown."""
    found: Range | None = getattr(counts, name) if counts else None
    return found


def derived(ops: Mapping[str, OpCounts]) -> dict[str, Range]:
    """Return the `SUMS` that follow from *ops*: each op has one number, known and not 0.

    Files leave out an amount of 0 in the same way as an unknown one.
    """
    found = {}
    for name in SUMS:
        amounts = [amount(name, counts) for counts in ops.values()]
        known = [each.most for each in amounts if each and each.most and each.least == each.most and not each.varies]
        if known and len(known) == len(ops):
            found[name] = Range(sum(known))
    return found


def compared(
    base: Mapping[str, Range], now: Mapping[str, Range], work_tolerance: float = WORK_TOLERANCE
) -> Iterator[tuple[str, Work]]:
    """Yield each changed fact with its `Work`; a fact that only one side knows is not compared."""
    found = set[str]()
    for name, quantity in FACTS.items():
        gate = quantity.gate
        if gate is None or name not in base or name not in now:
            continue
        before, after = base[name], now[name]
        direction = gate.direction(before, after, work_tolerance if gate is MORE_WORK else None)
        is_told = gate.more if direction > 0 else gate.less if direction < 0 else ""
        if not is_told or (name == "held_each_round" and "held_memory" in found):
            continue
        verdict = Verdict.ABOVE if direction > 0 else Verdict.BELOW
        found.add(name)
        write = quantity.unit.write
        old, new = (str(each) if quantity.unit is COUNT else write(each.most, 3) for each in (before, after))
        growth = after.most / max(before.most, 1)
        yield name, Work(verdict, f"{old} -> {new}", Number(name, f"{quantity.called}: {new}", old), growth=growth)


# In Python 3.12 a call of an empty function takes 13 to 15 ns, an iteration without a body 3 ns.
_OF_A_CALL = 5


def loops_follow(base: Mapping[str, Range], now: Mapping[str, Range]) -> bool:
    """Return True if extra loop iterations are no extra work.

    A comprehension in place of a `map` has an iteration for each call, and calls as often. A loop in place of calls has
    up to `_OF_A_CALL` iterations for each that it saves, in about the same time: 400 saved calls do not account for
    18,000 iterations (hpack, x1.22 slower).
    """
    calls, gate = (base.get(PYTHON_CALLS), now.get(PYTHON_CALLS)), FACTS[PYTHON_CALLS].gate
    if calls[0] is None or calls[1] is None or gate is None:
        return False
    more = now[LOOP_ITERATIONS].most - base[LOOP_ITERATIONS].most
    saved = calls[0].most - calls[1].most
    is_fewer = gate.direction(calls[0], calls[1]) < 0
    return more <= (_OF_A_CALL * saved if is_fewer else max(calls[0].most, calls[1].most))


def explained(name: str, both: Iterable[tuple[OpCounts | None, OpCounts | None]], base: Range, now: Range) -> bool:
    """Return True if the growth of a fact may come from ops that do more: *both*, before and now.

    An op of unknown bytes may explain any memory.
    """
    gate = FACTS[name].gate
    if gate is None or not gate.follows:
        return False
    grown = 0
    for before, after in both:
        amounts = [amount(gate.follows, each) for each in (before, after)]
        if amounts[1] is None:
            return True
        was, is_now = (each.most if each else 0 for each in amounts)
        # With wider dtypes, or more FLOPs in fewer bytes, each call may do more.
        grown += is_now - was if is_now > was else is_now
    return now.most - base.most <= _MOST * grown


# Of 31 ops of PyTorch on a CPU, a call takes up to 17 blocks (Resize), and memory of up to 16 times its known bytes
# (Resize and Tile, of which the input is known); only OneHot takes more. SciPy's griddata took 20 times its peak memory
# beside one small op more, which had counted as explained.
_MOST = 20


def follows(
    name: str, work: Work, both: Iterable[tuple[OpCounts | None, OpCounts | None]], base: Range, now: Range
) -> bool:
    """Return True if the change of one of the `SUMS` follows from ops that have findings of their own.

    *both* has these ops before and now; the rest of the window did not change as the whole did.
    """
    rest = [base.most, now.most]
    for sides in both:
        for side, calls in enumerate(sides):
            each = amount(name, calls)
            rest[side] -= each.most if each else 0
    before, after = (Range(max(each, 0)) for each in rest)
    changed = dict(compared({name: before}, {name: after}))
    return name not in changed or changed[name].verdict is not work.verdict

"""Counts of each op in a window: its calls and their work, over all rounds and processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from msgspec.structs import force_setattr, replace

from .range import Range, joined

if TYPE_CHECKING:
    from .op_profile import OpProfile

# If an amount varies although calls do not, a change starts at this factor on the known maximum: processes show only a
# sample of the drawn sizes.
RANDOM_SIZES = 2
NONE = Range(0)
_LISTED = 3


class OpCounts(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An op in one round: its calls, and their work if known. A line of a baseline file."""

    calls: Range
    dtypes: Annotated[
        str | dict[str, Range],
        Meta(description="What all of its calls read and write, or its calls by that; empty where not known."),
    ] = ""
    bytes: Annotated[Range | None, Meta(description="Read and written.")] = None
    flops: Range | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.dtypes, str):
            every = [*self.dtypes.items()]
            alone = len(every) == 1 and every[0][1] == self.calls and not self.calls.varies
            force_setattr(self, "dtypes", every[0][0] if alone else self.dtypes or "")

    @property
    def by_dtypes(self) -> Mapping[str, Range]:
        """Its calls by dtypes: ``float32``, ``float32->bfloat16``; empty if unknown."""
        return self.dtypes if not isinstance(self.dtypes, str) else {self.dtypes: self.calls} if self.dtypes else {}

    @property
    def told(self) -> str:
        """Its dtypes in short; empty if unknown."""
        return listed([*self.by_dtypes])

    def changes(self, base: OpCounts) -> str:
        """Return the changes of calls since its *base*, by dtypes: ``+2 float64->float32, -1 bool``; empty if none."""
        if not self.dtypes or not base.dtypes:
            return ""
        changes = {**self.grown_dtypes(base), **{each: -number for each, number in base.grown_dtypes(self).items()}}
        return listed([f"{number:+} {each}" for each, number in changes.items()])

    def grown_dtypes(self, base: OpCounts) -> dict[str, int]:
        """Return the dtypes with more calls than in its *base*, with the difference."""
        more = {each: calls.most - base.by_dtypes.get(each, NONE).most for each, calls in self.by_dtypes.items()}
        return {each: number for each, number in more.items() if number > 0}

    @property
    def some_vary(self) -> bool:
        """Whether any of its numbers differed from process to process."""
        every = (self.calls, self.bytes, self.flops, *self.by_dtypes.values())
        return any(each is not None and each.varies for each in every)

    def in_range(self, now: OpCounts) -> bool:
        """Return True if *now* is no change. A number that only one of them knows is no change.

        If some number varies, an amount has changed beyond `RANDOM_SIZES`, and a dtype if it is new.
        """
        before, after = self.by_dtypes, now.by_dtypes
        if self.some_vary:
            is_new = bool(before) and not after.keys() <= before.keys()
            amounts = [] if self.calls.varies else [(self.bytes, now.bytes), (self.flops, now.flops)]
            is_more = any(old and new and new.most > RANDOM_SIZES * old.highest for old, new in amounts)
            return self.calls.allows(now.calls) and not (is_new or is_more)
        pairs: list[tuple[Range | None, Range | None]]
        pairs = [(self.calls, now.calls), (self.bytes, now.bytes), (self.flops, now.flops)]
        if before and after:
            pairs += [(before.get(each, NONE), after.get(each, NONE)) for each in {*before, *after}]
        return all(old is None or new is None or old.allows(new) for old, new in pairs)

    def completed(self, now: OpCounts) -> OpCounts:
        """Return the counts, completed with further facts of *now*; an amount of 0 is none, as in a file."""
        if self.bytes and self.flops and self.dtypes:
            return self
        nbytes, flops = (each if each and each.most else None for each in (now.bytes, now.flops))
        return replace(
            self,
            dtypes=dict(self.by_dtypes or now.by_dtypes),
            bytes=self.bytes or nbytes,
            flops=self.flops or flops,
        )


# The content of a window: its calls and its facts.
Done = tuple[Mapping[str, OpCounts], Mapping[str, Range]]


def listed(names: Sequence[str]) -> str:
    """Return *names* in a line: the first three of many."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


# Of an op that did not run.
GONE = OpCounts(NONE, bytes=NONE, flops=NONE)


def facts_in_all(processes: Sequence[Mapping[str, Range]]) -> dict[str, Range]:
    """Return the facts of a window that all *processes* know."""
    names = processes[0].keys() if processes else ()
    return {
        name: joined([each[name] for each in processes]) for name in names if all(name in each for each in processes)
    }


def in_all(processes: Sequence[Done]) -> Done:
    """Return the counts of each op in all *processes*, and the facts that all know; they vary if the worst round is not
    the same in each.
    """

    def known(ranges: Sequence[Range | None]) -> Range | None:
        return joined([each for each in ranges if each]) if all(ranges) else None

    found = {}
    for op in dict.fromkeys(op for ops, _ in processes for op in ops):
        every = [ops.get(op, GONE) for ops, _ in processes]
        ran = [each for each in every if each.calls.most]
        dtypes = {name for each in ran for name in each.by_dtypes} if all(each.dtypes for each in ran) else set()
        found[op] = OpCounts(
            joined([each.calls for each in every]),
            {name: joined([each.by_dtypes.get(name, NONE) for each in every]) for name in sorted(dtypes)},
            known([each.bytes for each in every]),
            known([each.flops for each in every]),
        )
    return found, facts_in_all([facts for _, facts in processes])


def counts_of(profile: OpProfile) -> dict[str, OpCounts]:
    """Return the counts of each op."""
    by_dtype = profile.calls_by_dtype
    return {
        stats.op: OpCounts(
            Range(stats.fewest_calls, stats.most_calls),
            {dtypes: Range.of(calls) for dtypes, calls in by_dtype.get(stats.op, {}).items()},
            Range.of(stats.bytes) if stats.bytes else None,
            Range.of(stats.flops) if stats.flops else None,
        )
        for stats in profile.ops
    }

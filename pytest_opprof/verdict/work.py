"""Compare the work of an op with its baseline: wider dtypes, another layout, more bytes or FLOPs. Exact numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ..ops.dtypes import NAMES, width
from ..profile.op_counts import NONE, RANDOM_SIZES, OpCounts
from ..units import format_factor, plural
from .quantities import MORE_WORK, QUANTITIES
from .verdicts import Verdict

if TYPE_CHECKING:
    from ..profile.range import Range
    from .findings import Broken

_FLOATS = ("float", "bfloat", "complex")
_DTYPE = re.compile("|".join(sorted(NAMES, key=len, reverse=True)))


class Number(NamedTuple):
    """A number of an op or of the window beside the number of its base, in words."""

    quantity: str
    now: str
    """``Conv: FLOPs 2 GFLOP``."""
    base: str
    rest: str = ""
    """What follows: ``, x2``."""

    @classmethod
    def of_calls(cls, op: str, base: Range, now: Range) -> Number:
        """Return the calls of *op*."""
        return cls("calls", f"{op}: {plural(now, 'call')}", str(base))

    def told(self, then: str = "baseline", limit: Broken | None = None) -> str:
        """Return it as a finding shows it; *then* names the base, *limit* is one that the same number breaks."""
        budget = f"budget: {limit.limit}, " if limit and not limit.instead else ""
        now, instead = (limit.now, limit.instead) if limit else (self.now, "")
        return f"{now} ({budget}{then}: {self.base}){self.rest}{instead}"


@dataclass(frozen=True, slots=True)
class Work:
    """The change of an op's work."""

    verdict: Verdict = Verdict.OK
    text: str = ""
    """As a table shows it: ``float32 -> float64, bytes x2.00``."""
    number: Number | None = None
    """As a finding shows it; None if nothing changed."""
    is_unjudged: bool = False
    """Whether it changed but is not judged, because it varies from process to process."""
    amounts: str = ""
    """The part of it about bytes and FLOPs."""
    growth: float = 1.0
    """How many times as much a quantity of the window as a whole is."""

    def rise(self, now: float) -> float:
        """Return how much of the amount *now* the base lacks, by its growth."""
        return now * (1 - 1 / self.growth) if self.growth else 0


NOTHING = Work()


def compared(op: str, base: OpCounts, now: OpCounts, tolerance: float) -> Work:
    """Compare the work of *op*; an amount that only one side knows is not compared.

    If any amount varies from process to process, sizes are drawn at random, and a few processes give too narrow a
    range. Amounts are then not judged if the number of calls varies, else only beyond twice the tolerance for random
    sizes. A dtype counts only if it is wider than all before.
    """
    if base.some_vary or now.some_vary:
        return _of_what_varies(op, base, now, tolerance)
    of_dtypes, before, after = _on_dtypes(base, now)
    changed = list(_amounts(op, base, now, tolerance))
    texts = [f"{before} -> {after}"] if of_dtypes is not Verdict.OK else []
    texts += [work.text for work in changed]
    text = ", ".join(texts)
    more = [replace(work, text=text) for work in changed if work.verdict is Verdict.MORE_WORK]
    # A narrower dtype with more work all the same is no improvement.
    if of_dtypes is not Verdict.OK and (of_dtypes.is_regression or not more):
        beside = "".join(f", {each}" for each in texts[1:])
        return Work(of_dtypes, text, Number("dtypes", f"{op}: {after}", before, beside))
    found = more or changed
    amounts = ", ".join(work.text for work in changed)
    return replace(found[-1], text=text, amounts=amounts) if found else NOTHING  # FLOPs are more telling than bytes


def _of_what_varies(op: str, base: OpCounts, now: OpCounts, tolerance: float) -> Work:
    new = [each for each in now.by_dtypes if each not in base.by_dtypes]
    if base.by_dtypes and new and max(map(_width, new)) > max(map(_width, base.by_dtypes)):
        before, after = ", ".join(base.by_dtypes), ", ".join(new)
        return Work(Verdict.WIDER, f"{before} -> {after}", Number("dtypes", f"{op}: {after}", before))
    if now.calls.most > base.calls.highest and now.calls.overlaps(base.calls):
        return Work(Verdict.OK, f"{base.calls} -> {now.calls}", Number.of_calls(op, base.calls, now.calls), True)
    amounts = [(base.bytes, now.bytes), (base.flops, now.flops)]
    drawn = base.calls.varies or now.calls.varies or any(old and new and new.overlaps(old) for old, new in amounts)
    beyond = [] if drawn else list(_amounts(op, base, now, RANDOM_SIZES - 1))
    if more := [work for work in beyond if work.verdict is Verdict.MORE_WORK]:
        return more[-1]
    changed = list(_amounts(op, base, now, tolerance))
    text = ", ".join(work.text for work in changed)
    return Work(Verdict.OK, text, changed[-1].number, True) if changed else NOTHING


def _amounts(op: str, base: OpCounts, now: OpCounts, tolerance: float) -> Iterator[Work]:
    """Yield the changes of the bytes and of the FLOPs of *op*."""
    for what, old, new in (("bytes", base.bytes, now.bytes), ("FLOPs", base.flops, now.flops)):
        if old is not None and new is not None and (direction := MORE_WORK.direction(old, new, tolerance)):
            quantity = QUANTITIES[what.lower()]
            before, after = (quantity.unit.write(each.most, 3) for each in (old, new))
            times = format_factor(new.most / old.most) if old.most else f"{before} -> {after}"
            number = Number(quantity.name, f"{op}: {quantity.text} {after}", before, f", {times}" if old.most else "")
            yield Work(Verdict.MORE_WORK if direction > 0 else Verdict.LESS_WORK, f"{what} {times}", number)


def _on_dtypes(base: OpCounts, now: OpCounts) -> tuple[Verdict, str, str]:
    """Return the verdict on the dtypes, the dtypes with fewer calls, and the dtypes with more."""
    if not base.by_dtypes or not now.by_dtypes:
        return Verdict.OK, "", ""
    gone, come = dict[str, int](), dict[str, int]()
    for each in dict.fromkeys([*base.by_dtypes, *now.by_dtypes]):
        before, after = base.by_dtypes.get(each, NONE), now.by_dtypes.get(each, NONE)
        if after.most < before.most:
            gone[each] = before.most - after.most
        elif after.most > before.most:
            come[each] = after.most - before.most
    if not gone or not come:
        return Verdict.OK, "", ""
    told = ", ".join(gone), ", ".join(come)
    width = _on_widths(gone, come)
    if width is Verdict.WIDER and now.calls.most < base.calls.most and base.bytes and now.bytes:
        # 505 calls turned into 452 with a sixth of the bytes are no regression, although their dtype is another.
        width = Verdict.OTHER_DTYPES if now.bytes.most < base.bytes.most else width
    if width is not Verdict.OK:
        return width, *told
    lost = any("channels_last" in each for each in gone) and not any("channels_last" in each for each in come)
    return (Verdict.OTHER_LAYOUT if lost else Verdict.OTHER_DTYPES), *told


def _on_widths(gone: Mapping[str, int], come: Mapping[str, int]) -> Verdict:
    """Judge by the bits of an element, floats and integers separately.

    An index of 64 bits is not wider than a float of 32. New floats without earlier ones are compared with all dtypes.
    """
    found = []
    for of_floats in (True, False):
        old, new = ({each: of[each] for each in of if _has_floats(each) is of_floats} for of in (gone, come))
        crossed = of_floats and not old
        old = dict(gone) if crossed else old
        if not old or not new:
            continue
        before, after = (
            sum(_width(each) * calls for each, calls in of.items()) / sum(of.values()) for of in (old, new)
        )
        # Nine bfloat16 do not make up for one float64.
        if after > before or max(map(_width, new)) > max(map(_width, old)):
            found.append(Verdict.WIDER)
        elif after < before and not crossed:
            found.append(Verdict.NARROWER)
    return Verdict.WIDER if Verdict.WIDER in found else found[0] if found else Verdict.OK


def _has_floats(dtypes: str) -> bool:
    return any(each.startswith(_FLOATS) for each in _DTYPE.findall(dtypes))


def _width(dtypes: str) -> int:
    """Return the bits of an element: of floats if there are any beside indices and masks."""
    found = _DTYPE.findall(dtypes)
    floats = [each for each in found if each.startswith(_FLOATS)]
    return max(map(width, floats or found), default=0)

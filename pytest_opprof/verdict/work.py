"""What an op worked on now and in its baseline: wider dtypes, another layout, more bytes or FLOPs. Exact numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..ops.dtypes import NAMES, width
from ..profile.calls import CallRange, Range
from ..units import format_bytes, format_flops
from .verdicts import Verdict

_FLOOR = 1024
"""Bytes or FLOPs: a smaller change is none."""
_NONE = Range(0, 0)
_DTYPE = re.compile("|".join(sorted(NAMES, key=len, reverse=True)))


@dataclass(frozen=True, slots=True)
class Work:
    """What became of the work of an op."""

    verdict: Verdict = Verdict.OK
    text: str = ""
    """As a table has it: ``float32 -> float64, bytes x2.00``."""
    line: str = ""
    """As a finding has it."""


NOTHING = Work()


def compared(op: str, base: CallRange, now: CallRange, tolerance: float, then: str = "in the baseline") -> Work:
    """Compare the work of *op*; what only one side knows is not compared.

    Nor is the work of calls that vary from process to process: it follows from them, and three processes saw too
    little of it (einops' stress test of random sizes: calls in their range, bytes beyond theirs in 1 of 10 runs).
    """
    if base.varies:
        return NOTHING
    of_dtypes, before, after = _on_dtypes(base.dtypes, now.dtypes)
    if of_dtypes is Verdict.WIDER and _does_less(base, now):
        of_dtypes = Verdict.OTHER_DTYPES
    amounts = [
        (what, old, new, write)
        for what, old, new, write in (
            (f"bytes by {op}", base.bytes, now.bytes, format_bytes),
            (f"FLOPs of {op}", base.flops, now.flops, format_flops),
        )
        if old is not None and new is not None
    ]
    verdicts = [(_on_amount(old, new, tolerance), what, old, new, write) for what, old, new, write in amounts]
    changed = [each for each in verdicts if each[0] is not Verdict.OK]
    texts = [f"{before} -> {after}"] if of_dtypes is not Verdict.OK else []
    texts += [f"{what.split()[0]} {_times(old, new)}" for _, what, old, new, _ in changed]
    text = ", ".join(texts)
    does_more = any(verdict is Verdict.MORE_WORK for verdict, *_ in changed)
    # What is narrower, and does more all the same, is no improvement.
    if of_dtypes is not Verdict.OK and (of_dtypes.is_regression or not does_more):
        beside = "".join(f", {each}" for each in texts[1:])
        return Work(of_dtypes, text, f"dtypes of {op}: {after}, {before} {then}{beside}")
    for wanted in (Verdict.MORE_WORK, Verdict.LESS_WORK):
        for verdict, what, old, new, write in reversed(changed):  # FLOPs say more than bytes
            if verdict is wanted:
                line = f"{what}: {write(new.most, 3)}, {write(old.most, 3)} {then} ({_times(old, new)})"
                return Work(wanted, text, line)
    return NOTHING


def _does_less(base: CallRange, now: CallRange) -> bool:
    """Tell whether *now* has fewer calls and fewer bytes: then dtypes that are wider on average are no regression."""
    if base.bytes is None or now.bytes is None:
        return False
    return now.most < base.lowest and now.bytes.most < base.bytes.lowest


def _on_amount(base: Range, now: Range, tolerance: float) -> Verdict:
    if base.varies:
        # Of sizes drawn at random three processes show a part: only twice the most that is no change is more work.
        tolerance = 1.0
    if now.most > base.highest * (1 + tolerance) and now.most - base.highest > _FLOOR:
        return Verdict.MORE_WORK
    if now.most < base.lowest * (1 - tolerance) and base.lowest - now.most > _FLOOR:
        return Verdict.LESS_WORK
    return Verdict.OK


def _times(base: Range, now: Range) -> str:
    return f"x{now.most / base.most:.3g}" if base.most else "from none"


def _on_dtypes(base: Mapping[str, Range], now: Mapping[str, Range]) -> tuple[Verdict, str, str]:
    """Return what became of the dtypes, those of which there are fewer calls, and those of which there are more."""
    if not base or not now:
        return Verdict.OK, "", ""
    gone, come = dict[str, int](), dict[str, int]()
    for each in dict.fromkeys([*base, *now]):
        before, after = base.get(each, _NONE), now.get(each, _NONE)
        if after.most < before.lowest:
            gone[each] = before.most - after.most
        elif after.most > before.highest:
            come[each] = after.most - before.most
    if not gone or not come:
        return Verdict.OK, "", ""
    told = ", ".join(gone), ", ".join(come)
    old, new = (sum(_width(each) * calls for each, calls in of.items()) / sum(of.values()) for of in (gone, come))
    # One float64 among nine bfloat16 is not made up for by them.
    if new > old or max(map(_width, come)) > max(map(_width, gone)):
        return Verdict.WIDER, *told
    if new < old:
        return Verdict.NARROWER, *told
    lost = any("channels_last" in each for each in gone) and not any("channels_last" in each for each in come)
    return (Verdict.OTHER_LAYOUT if lost else Verdict.OTHER_DTYPES), *told


def _width(dtypes: str) -> int:
    """Return the bits of an element: of floats where there are some, beside indices and masks."""
    found = _DTYPE.findall(dtypes)
    floats = [each for each in found if each.startswith(("float", "bfloat", "complex"))]
    return max(map(width, floats or found), default=0)

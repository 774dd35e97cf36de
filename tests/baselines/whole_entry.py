"""An entry of a window with a value for each field, for the tests that go over all of them."""

from __future__ import annotations

from dataclasses import fields

from pytest_opprof.baselines.entry import NOTHING, WindowBaseline
from pytest_opprof.baselines.files.file_types import KeptTimes
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.timings import ProcessTimes
from pytest_opprof.verdict.times.coarse import Coarse

HERE = "CPU, 2 cores"
FIELDS = [each.name for each in fields(WindowBaseline)]


def whole(number: int) -> WindowBaseline:
    """Return an entry with all fields except `ranks`, whose entries have no times; 1 and 2 differ in each."""
    ns = number * 1_000_000
    return WindowBaseline(
        {"Add": OpCounts(Range(number))},
        {HERE: (ProcessTimes((ns,), {"Add": (ns,)}, threads=1),)},
        mismatched={"Other": KeptTimes(calls_digest=str(number), ops_us={}, threads=1, total_us=[[number]])},
        facts={"grad_nodes": Range(number)},
        python={"python": f"3.{number}"},
        coarse={HERE: Coarse((ns, ns), (ns, ns))},
        compiled_anew=number == 1,
        warm=({"Add": OpCounts(Range(0))}, {"grad_nodes": Range(number + 1)}),
        alone=({"Exp": OpCounts(Range(number))}, {}),
    )


def lacking(*entries: WindowBaseline) -> set[str]:
    """Return the fields that none of the *entries* has."""
    return {name for name in FIELDS if all(getattr(each, name) == getattr(NOTHING, name) for each in entries)}

"""``opprof show --rank all``: how the ranks differ, before the ops of each."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...frameworks.files import formats
from ...machine.ranks import MANY
from ...profile.saved import SavedProfile
from ...questions.question import Side
from ...questions.spread import Waits, spread
from ...report import spread as report
from ...report.escaping import terminal
from ...report.tables import style_of
from ..inputs import reading
from ..inputs.remote import Url


def answer(
    profiles: Sequence[tuple[formats.Found, SavedProfile]], arguments: argparse.Namespace
) -> tuple[Any, Sequence[int]]:
    """Return how all profiles differ, as text or as the JSON object, and whose ops to list, by index.

    The first is None where there is nothing to compare. Of more than `MANY` ranks people see the ops of three.
    """
    every = range(len(profiles))
    if len(profiles) < 2 or arguments.only_ops or arguments.format == "csv":
        return None, every
    if len(sources := {saved.source for _, saved in profiles}) > 1:
        why = f"not compared with each other, as they are of several formats: {', '.join(sorted(sources))}"
        print(f"opprof: {terminal(f'{arguments.file}: {why}')}", file=sys.stderr)
        return None, every
    side: Side = "host" if arguments.side == "host" else "device"
    found = spread([saved for _, saved in profiles], side)
    ranks = names_of([each for each, _ in profiles], arguments.file)
    if arguments.format == "json":
        return report.plain(found, ranks, side), every
    text = "\n".join(report.text(found, ranks, side, arguments.top, style_of(arguments.format)))
    if len(profiles) <= MANY or not arguments.top:
        return text, every
    slowest, *_, fastest = found.slowest_first
    chosen = {"slowest": slowest, "fastest": fastest} if found.lead else {"first": 0}
    if isinstance(found.waits, Waits) and any(found.waits.held_up_ns):
        chosen["latest"] = found.latest_first[0]
    which = f"{', '.join(chosen)} rank (--rank N shows another rank, -t 0 all)"
    return f"{text}\n\nbelow: the ops of the {which}", list(dict.fromkeys(chosen.values()))


def page(profiles: Sequence[tuple[formats.Found, SavedProfile]], arguments: argparse.Namespace) -> str:
    """Return the page of all profiles together. Raises UsageError where they are not of one kind."""
    # Imported here, with Jinja2 behind it.
    from ...report.html import ranks_page

    source, *others = sorted({saved.source for _, saved in profiles})
    if others:
        raise UsageError(
            f"{arguments.file}: profiles of several formats are not compared: {', '.join([source, *others])}. Name a"
            " folder that has profiles of one"
        )
    names = names_of([each for each, _ in profiles], arguments.file)
    ranks = titles_of(names)
    remarks = [f"{rank}: {remark}" for rank, remark in reading.remarks_of_all(ranks, [saved for _, saved in profiles])]
    found = spread([saved for _, saved in profiles])
    has_kernels = any(saved.kernels for _, saved in profiles)
    without = [rank for rank, (_, saved) in enumerate(profiles) if has_kernels and not saved.kernels]
    return ranks_page.html(found, names, str(arguments.file), source, remarks, without)


def titles_of(names: Sequence[int] | Sequence[str]) -> list[str]:
    """Return the *names* of profiles as titles: the number of a rank is ``rank 3``."""
    return [f"rank {each}" if isinstance(each, int) else each for each in names]


def names_of(found: Sequence[formats.Found], folder: Path | Url) -> list[int] | list[str]:
    """Return the names of the profiles: the numbers of their ranks, or their places where two ranks are equal."""
    numbers = [each.rank for each in found if each.rank is not None]
    told_apart = len(set(numbers)) == len(found)
    return numbers if told_apart else [str(each).removeprefix(f"{folder}{os.sep}") for each in found]

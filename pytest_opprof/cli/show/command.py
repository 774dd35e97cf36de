"""``opprof show``: the ops of a saved profile."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...frameworks.files import formats
from ...profile.saved import SavedKernel, SavedProfile
from ...questions import query
from ...report import listing
from ...report.tables import csv, document, json, short, style_of
from ..inputs import reading
from ..inputs.opened import Profiles, opened
from ..inputs.reading import Asked
from ..inputs.remote import location
from . import ops, ranks, times

TAKES: Mapping[str, Sequence[str]] = {
    "output": (),
    "kernels": ("name", "type", "top", "steps", "format"),
    "breakdown": ("steps", "format"),
    "ranges": ("name", "top", "steps", "format"),
    "": ops.TAKES,
}
"""The flag of each answer (the list of ops has none), and the flags that the answer takes beside `READS`."""
READS = ("file", *Asked.__dataclass_fields__)
"""How to read the profile, for every answer."""
_TOP = 10
"""Rows of a table, unless more are asked for."""


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    show = commands.add_parser(
        "show",
        help="show the ops of a saved profile",
        description="Filters do not change the totals above the table. Times have units: 100us, 1.5ms.",
    )
    show.add_argument("file", type=location, help="a profile, or a folder with one")
    reading.add_source(show)
    reading.add_on(show)
    ops.add(show)
    lists = show.add_mutually_exclusive_group()
    kernels_help = "show kernels instead of ops: calls, total, average, launched by"
    lists.add_argument("--kernels", action="store_true", help=kernels_help)
    times.add(lists)
    ops.add_output(show)
    show.add_argument("--format", choices=listing.FORMATS, default="table")
    output_help = "write an HTML page with all rows instead"
    show.add_argument("-o", "--output", type=Path, metavar="FILE.html", help=output_help)
    show.set_defaults(run=partial(_run, show))


def _run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> bool:
    """Print the ops of a profile, or write them as a page."""
    listed = _asked_for(parser, arguments)
    if listed == "output":
        return _page(arguments)
    if arguments.top is None:
        arguments.top = 0 if arguments.format in ("csv", "json") else _TOP
    by_site = arguments.aggregate_by in ("site", "dtype,site")
    profiles = opened(arguments.file, Asked.of(arguments, sites=by_site), Profiles).each
    for found, saved in profiles if by_site else ():
        reading.check_sites(found, saved)
    together, shown = (None, range(len(profiles))) if listed else ranks.answer(profiles, arguments)
    answers = [_answer(*profiles[index], arguments, listed) for index in shown]
    if not listed:
        ops.check_matches([saved for _, saved in profiles], arguments)
    if arguments.kernels:
        _check_kernels([saved for _, saved in profiles], arguments)
    if arguments.format == "json":
        of_all = {**({"spread": together} if together else {}), "ranks": answers}
        print(document(of_all if arguments.rank == "all" else answers[0]))
    elif arguments.format == "csv":
        print(csv([table for tables in answers for table in tables]))
    elif text := "\n\n".join(filter(None, [together, *answers])):
        print(text)
    return False


def _asked_for(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> str:
    """Return the answer that is asked for, a key of `TAKES`. Raises UsageError for a flag that would change nothing."""
    changed = [name for name, value in vars(arguments).items() if value != parser.get_default(name)]
    answer = next((name for name in TAKES if name in changed), "")
    refused = [name for name in changed if name not in (answer, *READS, *TAKES[answer])]
    if not refused:
        return answer
    flags = ", ".join(map(_flag, refused))
    if answer == "output":
        error = f"-o {arguments.output}: the page has all ops, and sorts and filters itself: leave out {flags}"
    else:
        *takes, last = map(_flag, TAKES[answer])
        subject = f"--{answer} is a list of its own: it" if answer else _flag(answer)
        error = f"{subject} takes {', '.join(takes)} and {last}, not {flags}"
    takers = {name: [_flag(other) for other in TAKES if name in TAKES[other]] for name in refused}
    lines = [f"{_flag(name)} is for {' and '.join(others)}" for name, others in takers.items() if others]
    raise UsageError(error + reading.listed_below(lines))


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}" if name else "the list of ops"


def _answer(found: formats.Found, saved: SavedProfile, arguments: argparse.Namespace, listed: str) -> Any:
    """Return the answer of one profile: text for people, an object for JSON, or tables for CSV."""
    whose: Mapping[str, object] = {"profile": str(found.place), "rank": found.rank} if arguments.rank == "all" else {}
    if arguments.kernels:
        return _kernels(found, saved, arguments, whose)
    if listed:
        return times.answer(found, saved, arguments, whose)
    return ops.answer(found, saved, arguments, whose)


def _kernels(
    found: formats.Found, saved: SavedProfile, arguments: argparse.Namespace, whose: Mapping[str, object]
) -> Any:
    """Return the kernels of one profile: text for people, an object for JSON, a table for CSV. Raises UsageError."""
    if saved.kernels is None:
        raise UsageError(f"{saved.source}: has no kernels beside its ops; opprof show without --kernels lists the ops")
    kernels = _kernels_asked_for(saved, arguments)
    nothing = "" if kernels else _no_kernel([saved], arguments)
    table = listing.kernels(kernels[: arguments.top] if arguments.top else kernels)
    if arguments.format in ("table", "markdown"):
        style = style_of(arguments.format)
        title = [style.write(str(found.place))] if whose else []
        below = style.left_out(len(kernels) - len(table.rows), "kernel", ops.ALL)
        return "\n".join([*title, style.write(nothing) if nothing else style.text(table), *below])
    if nothing and whose:
        reading.say(found, nothing)
    if arguments.format == "csv":
        return [table.of(whose)]
    return {**whose, "source": saved.source, "kernels": json(table)}


def _check_kernels(profiles: Sequence[SavedProfile], arguments: argparse.Namespace) -> None:
    """Raise UsageError where no kernel of any profile is asked for."""
    if not any(_kernels_asked_for(saved, arguments) for saved in profiles):
        raise UsageError(_no_kernel(profiles, arguments))


def _kernels_asked_for(saved: SavedProfile, arguments: argparse.Namespace) -> list[SavedKernel]:
    """Return the kernels that are asked for, steps joined, the most expensive first."""
    return query.kernels(saved, ops.pattern(arguments.name), arguments.type)


def _no_kernel(every: Sequence[SavedProfile], arguments: argparse.Namespace) -> str:
    """Return that no kernel matches, and the names that there are."""
    kernels = [kernel for saved in every for kernel in query.kernels(saved)]
    if not kernels:
        return "no kernel ran in the steps asked for"
    given = [f"--name {arguments.name!r}"] if arguments.name is not None else []
    asked = ", ".join([*given, *(f"--op {op}" for op in arguments.type)])
    if not arguments.type:
        known = ops.listed([*dict.fromkeys(short(each.name) for each in kernels)])
        return f"{asked}: no kernel matches{known}"
    launching = dict.fromkeys(op for saved in every for op in query.launching(saved))
    return f"{asked}: no kernel matches{ops.listed([*launching], 'Ops that launched kernels')}"


def _page(arguments: argparse.Namespace) -> bool:
    # Imported here, with Jinja2 behind them.
    from ...report.html import page, profile_page
    from ...report.html import times as page_times

    page.check_name(arguments.output, "-o")
    asked = Asked.of(arguments, sites=arguments.rank != "all")
    (found, saved), *more = profiles = opened(arguments.file, asked, Profiles).each
    if more:
        page.write(arguments.output, ranks.page(profiles, arguments), "-o")
        return False
    timeline = reading.timeline_if_told(found, asked)
    if timeline and arguments.steps and not timeline.has_steps:
        reading.say(found, "the page has no timeline: the profile does not tell when its steps began")
        timeline = None
    when = page_times.of(saved, timeline, is_chosen=arguments.steps is not None) if timeline else None
    page.write(arguments.output, profile_page.html(saved, str(arguments.file), when), "-o")
    return False

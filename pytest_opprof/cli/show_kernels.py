"""``opprof show --kernels``: the kernels of a saved profile, and the ops that launched them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UsageError
from ..frameworks.files import formats
from ..profile.saved import SavedKernel, SavedProfile
from ..report import listing
from ..report.tables import json, short, style_of
from ..verdict import query
from . import reading, show_ops


def answer(
    found: formats.Found, saved: SavedProfile, arguments: argparse.Namespace, whose: Mapping[str, object]
) -> Any:
    """Return the kernels of one profile: text for people, an object for JSON, a table for CSV. Raises UsageError."""
    if saved.kernels is None:
        raise UsageError(f"{saved.source}: has no kernels beside its ops; opprof show without --kernels lists the ops")
    kernels = _asked_for(saved, arguments)
    nothing = "" if kernels else _nothing([saved], arguments)
    table = listing.kernels(kernels[: arguments.top] if arguments.top else kernels)
    if arguments.format in ("table", "markdown"):
        style = style_of(arguments.format)
        title = [style.write(str(found.place))] if whose else []
        below = style.left_out(len(kernels) - len(table.rows), "kernel", show_ops.ALL)
        return "\n".join([*title, style.write(nothing) if nothing else style.text(table), *below])
    if nothing and whose:
        reading.say(found, nothing)
    if arguments.format == "csv":
        return [table.of(whose)]
    return {**whose, "source": saved.source, "kernels": json(table)}


def check_matches(profiles: Sequence[SavedProfile], arguments: argparse.Namespace) -> None:
    """Raise UsageError where no kernel of any profile is asked for."""
    if not any(_asked_for(saved, arguments) for saved in profiles):
        raise UsageError(_nothing(profiles, arguments))


def _asked_for(saved: SavedProfile, arguments: argparse.Namespace) -> list[SavedKernel]:
    """Return the kernels that are asked for, steps joined, the most expensive first."""
    return query.kernels(saved, show_ops.pattern(arguments.name), arguments.type)


def _nothing(every: Sequence[SavedProfile], arguments: argparse.Namespace) -> str:
    """Return that no kernel matches, and the names that there are."""
    kernels = [kernel for saved in every for kernel in query.kernels(saved)]
    if not kernels:
        return "no kernel ran in the steps asked for"
    given = [f"--name {arguments.name!r}"] if arguments.name is not None else []
    asked = ", ".join([*given, *(f"--op {op}" for op in arguments.type)])
    if not arguments.type:
        known = show_ops.listed([*dict.fromkeys(short(each.name) for each in kernels)])
        return f"{asked}: no kernel matches{known}"
    launching = dict.fromkeys(op for saved in every for op in query.launching(saved))
    return f"{asked}: no kernel matches{show_ops.listed([*launching], 'Ops that launched kernels')}"

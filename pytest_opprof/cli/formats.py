"""``opprof formats``: the saved profiles that can be read."""

from __future__ import annotations

import argparse
from typing import Any

from ..frameworks.files.formats import FORMATS, format_of
from ..report.tables import OP, Column, Table, style_of


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser("formats", help="list the profiles that can be read")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    rows = []
    for name in FORMATS:
        of_format = format_of(name)
        untried = "; as documented, not tried on recordings" if of_format.as_documented else ""
        rows.append([name, f"{of_format.title}{untried}"])
    print(style_of("table").text(Table([Column("", OP), Column("")], rows, is_headed=False)))
    return False

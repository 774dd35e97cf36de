"""``opprof ops``: canonical ops and the raw names that mean them."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .. import errors
from ..frameworks.live.registry import learn_names
from ..ops import names
from ..report.tables import OP, Column, Table, style_of


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser("ops", help="list canonical ops and the raw names that mean them")
    parser.add_argument("name", nargs="*", help="only these: canonical or raw names")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    for problem in learn_names():
        print(f"opprof: {problem}", file=sys.stderr)
    wanted = {op for name in arguments.name for op in names.possible_ops(name)}
    for name in arguments.name:
        if not names.is_known(name):
            raise errors.unknown(name, names.canonical_ops())
    rows = [row for row in names.rows() if not arguments.name or row[0] in wanted]
    columns = [Column("", OP), Column("", OP), Column("")]
    table = Table(columns, [[op, framework, " ".join(raws.split())] for op, framework, raws in rows], is_headed=False)
    if rows:
        print(style_of("table").text(table))
    for name in arguments.name:
        if not names.possible_ops(name):
            print(f"{name}: no op of its own; the ops inside it count")
    return False

"""``opprof backends``: which can run here, and why the others cannot."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import OpprofError
from ..report.tables import OP, Column, Table, style_of


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser("backends", help="list backends: which can run, and why the others cannot")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    # Imported here, with NumPy behind it: the other commands do without.
    from ..frameworks.live.failures import failures_of
    from ..frameworks.live.registry import find, load
    from ..frameworks.nvidia.live import driver, nvml

    rows = []
    for name in sorted(find()):
        try:
            backend = load(name)
            with failures_of(backend):
                reason = backend.unavailable()
        except OpprofError as error:
            reason = str(error)
        rows.append([name, "can run" if reason is None else f"cannot run: {reason}"])
    print(style_of("table").text(Table([Column("", OP), Column("")], rows, is_headed=False)))
    if not driver.problem() and (missing := nvml.unwatched()):
        print(missing)
    return False

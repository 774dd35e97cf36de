"""``opprof selfcheck``: `command` prints what `checks` found of the known work in `workloads`.

A new check is a function and a line in `checks.CHECKS`; work on another device is a line in `workloads.DEVICES`.
"""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser("selfcheck", help="measure known work: do counts, times and verdicts hold here?")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="default: cuda where there is a GPU, else cpu")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    # Imported here, with NumPy behind it: the other commands do without.
    from . import command

    return command.run(arguments)

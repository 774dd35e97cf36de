"""``opprof selfcheck``: `command` prints the results of `checks` on the work in `workloads`, `contract` of a backend.

A new check is a function and a line in `checks.CHECKS`; work on another device is a line in `workloads.DEVICES`.
"""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser("selfcheck", help="measure known work: do counts, times and verdicts hold here?")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--device",
        choices=["cpu", "cuda", "npu"],
        help="default: cuda where there is a GPU, npu where an NPU, else cpu",
    )
    what.add_argument("--backend", metavar="NAME", help="whether this backend keeps the contract (docs/backends.md)")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    # Imported here, with NumPy behind it: the other commands do without.
    from . import command, contract

    return contract.run(arguments) if arguments.backend else command.run(arguments)

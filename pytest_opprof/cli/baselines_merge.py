"""``opprof baselines merge`` and ``merge-driver``: join the baselines of shards and of branches."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from ..baselines import merge_driver, shards
from ..baselines.writing import PATIENCE_S
from ..errors import BaselineError, UsageError
from ..escaping import terminal
from ..units import plural

_MERGE = "bring together the baselines that shards of a run wrote; exit 1, and write nothing, where they disagree"
_DRIVER = "merge a baseline file of two branches by op, for git: see docs/baselines.md"


def add(actions: Any) -> None:
    """Add the two actions to ``opprof baselines``."""
    merge = actions.add_parser("merge", help=_MERGE, description=_MERGE)
    merge.add_argument("parts", type=Path, nargs="+", metavar="PART", help="a folder of baselines that a shard wrote")
    merge.add_argument(
        "--dir",
        type=Path,
        default=Path("baselines"),
        help="the folder that they began from, and are written to (default: baselines)",
    )
    merge.add_argument("--dry-run", action="store_true", help="print the changes, write nothing")
    merge.set_defaults(run=_merge)
    driver = actions.add_parser("merge-driver", help=_DRIVER, description=_DRIVER)
    for name, text in (
        ("base", "%%O: the version of the common commit"),
        ("ours", "%%A: the version of this branch; the result is written to it"),
        ("theirs", "%%B: the version of the other branch"),
        ("path", "%%P: its name in the repository"),
    ):
        driver.add_argument(name, type=Path, help=text)
    driver.set_defaults(run=_drive)


def _merge(arguments: argparse.Namespace) -> bool:
    for part in arguments.parts:
        if not part.is_dir():
            raise UsageError(f"there is no folder {part}; name the folders of baselines that shards wrote")
    found = shards.merge(arguments.dir, arguments.parts)
    if found.conflicts:
        for conflict in found.conflicts:
            print(terminal(conflict))
        print(
            f"{plural(len(found.conflicts), 'conflict')}: parts disagree, so nothing was written. Leave out the part"
            " that is wrong, or measure these tests on one machine: pytest --opprof-update"
        )
        return True
    files = []
    if not arguments.dry_run:
        saved = found.store.save(PATIENCE_S)
        if saved.errors:
            raise BaselineError("; ".join(saved.errors.values()))
        files = saved.files
    would = " would be" if arguments.dry_run else ""
    print(f"{plural(len(found.changed), 'test')} of {plural(len(arguments.parts), 'part')}{would} merged")
    for path in files:
        print(terminal(f"  wrote {path}" if path.exists() else f"  removed {path}"))
    return False


def _drive(arguments: argparse.Namespace) -> bool:
    conflicts = merge_driver.merge(arguments.base, arguments.ours, arguments.theirs, arguments.path)
    for (test, window), said in conflicts.items():
        for each in said:
            print(terminal(f"opprof: {arguments.path}: {test} ({window}): {each}"), file=sys.stderr)
    if conflicts:
        path = shlex.quote(str(arguments.path))
        print(
            terminal(f"opprof: measure the merged code: pytest --opprof-update, then git add {path}"), file=sys.stderr
        )
    return bool(conflicts)

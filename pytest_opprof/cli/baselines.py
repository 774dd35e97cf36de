"""``opprof baselines``: list, check, prune, move and merge baseline files."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..baselines import merge_driver, shards
from ..baselines.entry import Baselines
from ..baselines.files import file, python_file, sites_file
from ..baselines.files import paths as baselines_paths
from ..baselines.files.writing import PATIENCE_S, check_inside
from ..baselines.stale import Collected, stale
from ..baselines.store import Store
from ..errors import BaselineError, UsageError
from ..machine.scratch import scratch
from ..report.escaping import terminal
from ..units import plural

_MERGE = "bring together the baselines that shards of a run wrote; exit 1, and write nothing, where they disagree"
_DRIVER = "merge a baseline file of two branches by op, for git: see docs/baselines.md"
_LONE = "has times, call sites or functions of a module without calls"


_BESIDE = (baselines_paths.times_of, baselines_paths.sites_of, baselines_paths.python_of)


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    kept = commands.add_parser("baselines", help="list, check, prune, move or merge baselines")
    actions = kept.add_subparsers(metavar="ACTION", required=True)
    for name, run, text in (
        ("list", _list, "list environments, modules and tests"),
        ("check", _check, "check every file against its JSON Schema; exit 1 if one is wrong"),
        ("prune", _prune, "remove baselines of tests that do not exist any more (runs pytest --collect-only)"),
        ("move", _move, "give the baselines of a test, a module or a folder to another one, after it was renamed"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument(
            "--dir", type=Path, default=Path("baselines"), help="folder of the baselines (default: baselines)"
        )
        action.set_defaults(run=run)
        if name in ("prune", "move"):
            action.add_argument("--dry-run", action="store_true", help="print the changes, write nothing")
        if name == "move":
            action.add_argument("old", help="the name before: tests/test_a.py, tests/test_a.py::test_b, or a folder")
            action.add_argument("new", help="the name now")
        if name == "prune":
            action.add_argument(
                "--all-devices",
                action="store_true",
                help="also parameters that were not collected here, in environments of accelerators",
            )
            action.add_argument("pytest_args", nargs="*", help="tests for pytest to collect (default: as configured)")
    _add_merge(actions)


def _add_merge(actions: Any) -> None:
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


def _list(arguments: argparse.Namespace) -> bool:
    paths = _files(arguments.dir)
    if not paths:
        print(terminal(f"no baselines in {arguments.dir}; record them: pytest --opprof-update"))
    for path in paths:
        content = file.load(path)
        print(terminal(f"{path}  [{content.environment.full}]"))
        for test, windows in sorted(content.tests.items()):
            for window, entry in sorted(windows.items()):
                said = {
                    machine: f"{runs[0].rounds} rounds in {plural(len(runs), 'process')} on {machine}"
                    for machine, runs in entry.times.items()
                }
                said |= {machine: f"times of other calls on {machine}" for machine in entry.mismatched}
                timed = "; ".join(said[machine] for machine in sorted(said))
                calls = sum(each.calls.most for each in entry.ops.values())
                ops = f"{plural(calls, 'call')} of {plural(len(entry.ops), 'op')}{f'; {timed}' if timed else ''}"
                print(terminal(f"  {test}  {window}: {ops}"))
    return False


def _check(arguments: argparse.Namespace) -> bool:
    paths, lone = _files(arguments.dir), _lone(arguments.dir)
    beside = [each for path in paths for of in _BESIDE if (each := of(path)).exists()]
    found = [wrong for path in paths for wrong in _wrong(arguments.dir, path)]
    found += [(path, f"{path}: {_LONE}. Restore them, or let opprof baselines prune remove it") for path in lone]
    for _, said in found:
        print(said)
    wrong = len({path for path, _ in found})
    print(f"{plural(len(paths) + len(beside) + len(lone), 'baseline file')}, {wrong} wrong")
    return bool(wrong)


def _lone(root: Path) -> list[Path]:
    return [
        *baselines_paths.lone_times(root),
        *baselines_paths.lone_sites(root),
        *baselines_paths.lone_python(root),
    ]


def _wrong(root: Path, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield each defect of the file of calls at *path* and of the files beside it, with its file."""
    sites = baselines_paths.sites_of(path)
    try:
        if sites.exists():
            sites_file.load(sites)
    except BaselineError as error:
        yield sites, str(error)
    functions = baselines_paths.python_of(path)
    try:
        if functions.exists():
            python_file.load(functions)
    except BaselineError as error:
        yield functions, str(error)
    beside, said = baselines_paths.times_of(path), ""
    try:
        if beside.exists():
            file.load_times(beside)
    except BaselineError as error:
        said = str(error)
        yield beside, said
    try:
        content = file.load(path)
    except BaselineError as error:
        if str(error) != said:
            yield path, str(error)
        return
    expected = baselines_paths.path_of(root, content.environment, baselines_paths.module_of(root, path))
    if expected != path:
        yield path, f"{path}: is for {content.environment.full} and belongs in {expected.parent}"
    yield from ((beside, f"{beside}: {unused}") for unused in content.unused_times)


def _prune(arguments: argparse.Namespace) -> bool:
    paths, lone = _files(arguments.dir), _lone(arguments.dir)
    _check_root(arguments.dir)
    for path in (*paths, *lone):
        check_inside(arguments.dir, path)
    collected = _collect(arguments.pytest_args)
    modules = {baselines_paths.module_of(arguments.dir, path) for path in paths}
    if modules and modules.isdisjoint(collected.tests):
        raise UsageError(
            f"pytest collected none of {plural(len(modules), 'module')} with baselines in {arguments.dir}, so nothing"
            " was removed. Run this in the project whose baselines they are, with the same root directory"
        )
    store = Store(arguments.dir)
    unused = []
    for path in paths:
        # A broken file may hold baselines that another test needs: repair it before anything is removed.
        if isinstance(content := store.at(path), BaselineError):
            raise content
        unused += [(path, said) for said in content.unused_times]
    folders = {path.relative_to(arguments.dir).parts[0] for path in paths}
    gone: dict[Path, list[str]] = {}
    for path, test in stale(arguments.dir, folders, collected, store.at, arguments.all_devices):
        gone.setdefault(path, []).append(test)
    kept = sum(1 for _ in stale(arguments.dir, folders, collected, store.at)) - sum(map(len, gone.values()))
    if kept:
        print(f"kept {kept} whose parameter was not collected here but may be on their device (--all-devices: not)")
    for path, tests in gone.items():
        for test in tests:
            print(terminal(f"{path}: {test}"))
        store.drop_tests(path, tests)
    for path, said in unused:
        print(terminal(f"{baselines_paths.times_of(path)}: {said}"))
        store.drop_tests(path, [])
    for path in lone:
        print(terminal(f"{path}: {_LONE}"))
    if not arguments.dry_run:
        _save(store)
        store.remove(lone)
    total = sum(map(len, gone.values())) + len(unused) + len(lone)
    print(f"{plural(total, 'stale baseline')}{' would be' if arguments.dry_run else ''} removed")
    return False


def _move(arguments: argparse.Namespace) -> bool:
    _files(arguments.dir)
    _check_root(arguments.dir)
    store, old, new = Store(arguments.dir), arguments.old.rstrip("/"), arguments.new.rstrip("/")
    if not (moved := store.move(old, new)):
        raise UsageError(f"nothing in {arguments.dir} is a baseline of {old} (opprof baselines list shows them all)")
    paths = [] if arguments.dry_run else _save(store)
    print(f"{plural(moved, 'test')}{' would be' if arguments.dry_run else ''} moved from {old} to {new}")
    for path in paths:
        print(terminal(f"  wrote {path}" if path.exists() else f"  removed {path}"))
    return False


def _save(store: Store) -> list[Path]:
    """Write the changed files and return them. Raises BaselineError for files that cannot be written."""
    saved = store.save()
    if saved.errors:
        raise BaselineError("; ".join(saved.errors.values()))
    return saved.files


def _check_root(root: Path) -> None:
    """Raise UsageError for a link to a folder elsewhere: a repository may hold one, to files of whoever works in it."""
    if root.is_symlink() and not root.resolve().is_relative_to(root.absolute().parent.resolve()):
        raise UsageError(
            f"{root} is a link to {root.resolve()}, so nothing was changed. If these are the baselines of this project:"
            f" --dir {root.resolve()}"
        )


def _collect(pytest_args: Sequence[str]) -> Collected:
    """Ask pytest, in a process of its own, which tests exist. Raises UsageError when it cannot say."""
    with scratch() as folder:
        answer = folder / "collected.json"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-p",
            "pytest_opprof.pytest_plugin.collected",
            *pytest_args,
        ]
        done = subprocess.run(
            command,
            env={**os.environ, "OPPROF_COLLECTED": str(answer)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if not answer.exists():
            tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
            raise UsageError(f"pytest could not collect the tests, so nothing was removed:\n{tail}")
        document = json.loads(answer.read_text(encoding="utf-8"))
    collected = Collected(Path(document["root"]), pytest_args, Path.cwd())
    collected.add(document["tests"])
    return collected


def _files(root: Path) -> list[Path]:
    if not root.is_dir():
        raise UsageError(
            f"there is no folder {root}; name another with --dir, or record baselines: pytest --opprof-update"
        )
    # Below the folder of an environment, each module would seem to be another one: prune would remove its baselines.
    path = next(filter(baselines_paths.has_calls, root.rglob("*.json")), None)
    content = Store(root).at(path) if path else None
    if isinstance(content, Baselines):  # the command reports a broken file
        absolute, folder = root.resolve(), content.environment.folder
        if whole := next((each.parent for each in (absolute, *absolute.parents) if each.name == folder), None):
            raise UsageError(f"{root} is only a part of a project's baselines; name their folder: --dir {whole}")
    return list(baselines_paths.files(root))


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

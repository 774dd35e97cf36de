"""The ``opprof`` command. Never imports pytest: it works on files, wherever they came from."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

from . import __version__, baselines, names, profiles
from .errors import BaselineError, OpprofError, UsageError
from .listing import clean
from .stale import Collected, stale
from .store import Store
from .units import plural

OK, FINDING, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0, 1 for a finding, 2 for bad usage or input."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names are in any script, terminals are not
    arguments = _parser().parse_args(argv)
    if sys.stdout is None:
        print("opprof: there is no standard output to write to", file=sys.stderr)
        return BAD_INPUT
    try:
        code = FINDING if arguments.run(arguments) else OK
        sys.stdout.flush()
    except OpprofError as error:
        print("\n".join(map(clean, f"opprof: {error}".splitlines())), file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # The reader (head, a pager) has seen enough. What is still buffered must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        print(clean(f"opprof: {error.filename or 'the output'}: {error.strerror or error}"), file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BAD_INPUT
    except KeyboardInterrupt:
        print("opprof: interrupted", file=sys.stderr)
        return INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="opprof", description="Op-level performance regression testing.")
    parser.add_argument("--version", action="version", version=f"opprof {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    ops = commands.add_parser("ops", help="list canonical ops and the raw names that mean them")
    ops.add_argument("name", nargs="*", help="only these: canonical or raw names")
    ops.set_defaults(run=_ops)

    backends = commands.add_parser("backends", help="list backends: which can run, and why the others cannot")
    backends.set_defaults(run=_backends)

    check = commands.add_parser("selfcheck", help="measure known work: do counts, times and verdicts hold here?")
    check.add_argument("--device", choices=["cpu", "cuda"], help="default: cuda where there is a GPU, else cpu")
    check.add_argument("--json", action="store_true", help="print what was found as JSON")
    check.set_defaults(run=_selfcheck)

    profiles.add(commands)

    text = "compare two --opprof-json files; exit 1 when the second is worse, 2 when they cannot be compared"
    judge = commands.add_parser("judge", help=text, description=text)
    judge.add_argument("base", type=Path, help="the run before, measured with --opprof-processes=5")
    judge.add_argument("now", type=Path, help="the run after, measured with --opprof-processes=6")
    judge.add_argument("--tolerance", metavar="PERCENT", help="how much slower a window may be (default: 13%%)")
    judge.add_argument("--op-tolerance", metavar="PERCENT", help="how much slower a single op may be (default: 25%%)")
    judge.add_argument("--floor", metavar="TIME", help="what a window has to be slower by to count (default: 2 us)")
    judge.add_argument("--ignore-noise", action="store_true", help="let rounds that waited for a CPU count, too")
    judge.add_argument("-t", "--top", type=int, default=5, metavar="K", help="unchanged ops to show (default: 5)")
    judge.set_defaults(run=_judge)

    kept = commands.add_parser("baselines", help="list, check, prune or move baselines")
    actions = kept.add_subparsers(metavar="ACTION", required=True)
    for name, run, text in (
        ("list", _list, "list environments, modules and tests"),
        ("check", _check, "check every file against its JSON Schema; exit 1 if one is wrong"),
        ("prune", _prune, "remove baselines of tests that do not exist any more (runs pytest --collect-only)"),
        ("move", _move, "let the baselines of a test, a module or a folder be those of another, after it was renamed"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("--dir", type=Path, default=Path("baselines"), help="where they are (default: baselines)")
        action.set_defaults(run=run)
        if name in ("prune", "move"):
            action.add_argument("--dry-run", action="store_true", help="only say what would be done")
        if name == "move":
            action.add_argument("old", help="its name before: tests/test_a.py, tests/test_a.py::test_b, or a folder")
            action.add_argument("new", help="its name now")
        if name == "prune":
            action.add_argument(
                "--all-devices",
                action="store_true",
                help="also parameters that were not collected here, in environments of accelerators",
            )
            action.add_argument("pytest_args", nargs="*", help="what pytest is to collect (default: as configured)")
    return parser


def _ops(arguments: argparse.Namespace) -> int:
    wanted = {op for name in arguments.name for op in names.possible_ops(name)}
    for name in arguments.name:
        if not names.is_known(name):
            raise names.unknown(name, names.canonical_ops())
    rows = [row for row in names.rows() if not arguments.name or row[0] in wanted]
    width = max((len(op) for op, _, _ in rows), default=0)
    for op, framework, raws in rows:
        print(f"{op:{width}}  {framework:11}  {' '.join(raws.split())}".rstrip())
    for name in arguments.name:
        if not names.possible_ops(name):
            print(f"{name}: no op of its own; the ops inside it count")
    return OK


def _judge(arguments: argparse.Namespace) -> bool:
    # Imported here, with NumPy behind it.
    from .two_runs import judge_runs

    return judge_runs(arguments)


def _backends(arguments: argparse.Namespace) -> int:
    # Imported here, with NumPy behind it: the other commands do without.
    from .backends import cuda_driver, find, load, nvml

    for name in sorted(find()):
        try:
            reason = load(name).unavailable()
        except OpprofError as error:
            reason = str(error)
        print(f"{name:8}  {'can run' if reason is None else f'cannot run: {reason}'}")
    if not cuda_driver.problem() and (missing := nvml.unwatched()):
        print(missing)
    return OK


def _selfcheck(arguments: argparse.Namespace) -> bool:
    # Imported here, with NumPy behind it.
    from .selfcheck import run

    return run(arguments)


def _list(arguments: argparse.Namespace) -> int:
    for path in _files(arguments.dir):
        content = baselines.load(path)
        print(clean(f"{path}  [{content.environment.full}]"))
        for test, windows in sorted(content.tests.items()):
            for window, entry in sorted(windows.items()):
                timed = "; ".join(
                    f"{runs[0].rounds} rounds in {plural(len(runs), 'process')} on {machine}"
                    for machine, runs in sorted(entry.times.items())
                )
                calls = sum(calls.most for calls in entry.calls.values())
                ops = f"{calls} calls of {len(entry.calls)} ops{f'; {timed}' if timed else ''}"
                print(clean(f"  {test}  {window}: {ops}"))
    return OK


def _check(arguments: argparse.Namespace) -> int:
    wrong = 0
    paths = _files(arguments.dir)
    for path in paths:
        try:
            content = baselines.load(path)
            expected = baselines.path_of(arguments.dir, content.environment, baselines.module_of(arguments.dir, path))
            if expected != path:
                raise BaselineError(f"{path}: is for {content.environment.full} and belongs in {expected.parent}")
        except BaselineError as error:
            print(error)
            wrong += 1
    print(f"{plural(len(paths), 'baseline file')}, {wrong} wrong")
    return FINDING if wrong else OK


def _prune(arguments: argparse.Namespace) -> int:
    paths = _files(arguments.dir)
    collected = _collect(arguments.pytest_args)
    modules = {baselines.module_of(arguments.dir, path) for path in paths}
    if modules and modules.isdisjoint(collected.tests):
        raise UsageError(
            f"pytest collected none of the {len(modules)} modules that have baselines in {arguments.dir}, so nothing"
            " was removed. Run this in the project whose baselines they are, with the same root directory"
        )
    store = Store(arguments.dir)
    for path in paths:
        # One that is broken may hold what another test needs: nothing is removed before it is mended.
        if isinstance(content := store.at(path), BaselineError):
            raise content
    folders = {path.relative_to(arguments.dir).parts[0] for path in paths}
    gone: dict[Path, list[str]] = {}
    for path, test in stale(arguments.dir, folders, collected, store.at, arguments.all_devices):
        gone.setdefault(path, []).append(test)
    kept = sum(1 for _ in stale(arguments.dir, folders, collected, store.at)) - sum(map(len, gone.values()))
    if kept:
        print(f"kept {kept} whose parameter was not collected here but may be on their device (--all-devices: not)")
    for path, tests in gone.items():
        for test in tests:
            print(clean(f"{path}: {test}"))
        store.drop_tests(path, tests)
    if not arguments.dry_run:
        store.save()
    total = sum(map(len, gone.values()))
    print(f"{plural(total, 'stale baseline')}{' would be' if arguments.dry_run else ''} removed")
    return OK


def _move(arguments: argparse.Namespace) -> int:
    _files(arguments.dir)
    store, old, new = Store(arguments.dir), arguments.old.rstrip("/"), arguments.new.rstrip("/")
    if not (moved := store.move(old, new)):
        raise UsageError(f"nothing in {arguments.dir} is a baseline of {old} (opprof baselines list shows them all)")
    paths = [] if arguments.dry_run else store.save()
    print(f"{plural(moved, 'test')}{' would be' if arguments.dry_run else ''} moved from {old} to {new}")
    for path in paths:
        print(clean(f"  wrote {path}" if path.exists() else f"  removed {path}"))
    return OK


def _collect(pytest_args: Sequence[str]) -> Collected:
    """Ask pytest, in a process of its own, which tests exist. Raises UsageError when it cannot say."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "collected.json")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-p",
            "pytest_opprof.collected",
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
    return list(baselines.files(root))

"""``opprof bisect``: a step for ``git bisect run``: whether tests do more, or are slower, than at the good commit.

Pytest's own exit codes do not do: git takes 2 to 5, of a commit at which pytest cannot run, for bad, and a test that
fails by an assertion of its own, too. So the step reads the JSON of the run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import OpprofError, UsageError
from ..machine.git import git
from ..machine.scratch import scratch
from ..report.escaping import terminal
from ..verdict.verdicts import Status
from .inputs.opened import RunFile, opened
from .inputs.reading import Asked

if TYPE_CHECKING:
    from ..results.run_result import RunResult

GOOD, BAD, UNJUDGED, STOP = 0, 1, 125, 128
"""Exit codes as git reads them: from 128 on it stops."""
_UNKNOWN = (Status.NO_BASELINE, Status.NOT_MEASURED, Status.TOO_NOISY, Status.NOT_COMPARED)
"""Statuses of which nobody can tell whether a test does more."""
_SHOWN = 10
_WHAT = (
    "a step for git bisect run: run tests at the commit that is checked out, and compare them with the good commit."
    f" Exit 0: no more than there; {BAD}: more; {UNJUDGED}: cannot judge this commit"
)


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser(
        "bisect",
        help="a step for git bisect run: compare the tests with the good commit",
        description=_WHAT,
        usage="git bisect run %(prog)s TEST... [PYTEST OPTION...]",
    )
    # All of them: an error of the parser would be exit code 2, which git takes for a bad commit.
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="TEST", help="tests, and options, for pytest")
    parser.epilog = (
        "Compared with --opprof-against the commit that git bisect was told to be good; give another"
        " --opprof-against=REV, or --opprof-baselines=DIR of a folder outside of the checkout."
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    """Judge the commit that is checked out; return the exit code for git."""
    try:
        return _step([word for word in arguments.words if word != "--"])
    except Exception as error:  # a traceback ends with exit code 1, which git takes for a bad commit
        kind = "" if isinstance(error, OpprofError) else f"{type(error).__name__}: "
        print(terminal(f"opprof bisect: {kind}{error}"), file=sys.stderr)
        return STOP


def _step(words: list[str]) -> int:
    has_base = any(word.partition("=")[0] in ("--opprof-against", "--opprof-baselines") for word in words)
    base = [] if has_base else [f"--opprof-against={_good(Path.cwd())}"]
    with scratch("bisect-") as folder:
        found = Path(folder, "run.json")
        code, last = _tried([*words, "--opprof", f"--opprof-json={found}", *base])
        bad, why = list[str](), f"pytest ended with exit code {code}: {last}"
        if code in (0, 1) and found.exists():
            try:
                bad, why = _judged(opened(found, Asked(), RunFile).run, is_failed=code == 1)
            except OpprofError as error:  # the commit may have another version of this plugin
                why = str(error)
    for line in bad[:_SHOWN]:
        print(terminal(line))
    if len(bad) > _SHOWN:
        print(f"... and {len(bad) - _SHOWN} more")
    if why and not bad:
        print(terminal(f"cannot judge this commit: {why}"))
    return BAD if bad else UNJUDGED if why else GOOD


def _good(here: Path) -> str:
    """Return the commit that was good from the beginning. Raises UsageError outside of a bisection."""
    good = git(here, "opprof bisect", "for-each-ref", "--format=%(objectname)", "refs/bisect/good-*").split()
    if not good:
        raise UsageError("git bisect has no good commit here: git bisect start BAD GOOD, or give --opprof-against=REV")
    # Each commit that was found to be good since comes after it.
    return git(here, "opprof bisect", "merge-base", "--octopus", *good).strip()[:12]


def _tried(words: list[str]) -> tuple[int, str]:
    """Run pytest; return its exit code and the last line that it said."""
    # Python takes bytecode for that of a source of the same size and second: two commits may have both in common.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", *words]
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    return done.returncode, next(filter(str.strip, reversed(lines)), "it said nothing").strip("= ")


def _judged(run: RunResult, *, is_failed: bool) -> tuple[list[str], str]:
    """Return a line for each regression, and why other tests cannot be judged; *is_failed*: a test failed."""
    bad = [f"{test.id}: {finding}" for test in run.failing for _, finding in test.causes]
    unknown = [f"{test.id}: {test.status.value}" for test in run.tests if test.status in _UNKNOWN]
    unknown += [] if run.tests else ["no test was measured"]
    unknown += ["tests fail for other reasons"] if is_failed and not bad and not unknown else []
    return bad, "; ".join([*run.errors, *unknown])[:300]

"""``opprof bisect``: the first commit in which tests spend more than they did in one that is known to be good.

The trick is the baselines of the good commit, in a folder outside of the checkout: inside, each commit brings its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import BaselineError, UsageError
from ..escaping import terminal
from ..machine.git import contents, git
from ..units import plural

if TYPE_CHECKING:
    from ..results.run_result import RunResult

_WHAT = "opprof bisect"
_ABOUT = (
    "find the first commit in which tests spend more than with the baselines of a good one; checks out commits, as git"
    " bisect does, and goes back in the end"
)
_SHOWN = 10
Cause = tuple[str, str, str, "str | None"]
"""Of a finding: test, window, rule and op."""
_OF_TIME = {"slower", "device_time", "host_time", "share", "top"}
_UNKNOWN = {"no baseline", "not measured"}
_UNTIMED = {"too noisy", "not compared"}


@dataclass(frozen=True, slots=True)
class Tried:
    """What the tests did in a commit."""

    why: str = ""
    """Why they say nothing; empty where they do."""
    findings: tuple[tuple[Cause, str], ...] = ()
    """What fails them, with the words for it."""
    statuses: tuple[tuple[str, str], ...] = ()
    """Of each test that was measured."""

    @property
    def causes(self) -> set[Cause]:
        """What the findings are about."""
        return {cause for cause, _ in self.findings}

    def judged(self, sought: set[Cause]) -> tuple[Literal["good", "bad", "skip"], str]:
        """Return what git is to be told of the commit, when *sought* is looked for, and why."""
        if self.why:
            return "skip", self.why
        if same := [f"{cause[0]}: {text}" for cause, text in self.findings if cause in sought]:
            return "bad", same[0] + (f" and {len(same) - 1} more" if len(same) > 1 else "")
        unsure = _UNKNOWN | (_UNTIMED if all(rule in _OF_TIME for _, _, rule, _ in sought) else set())
        statuses = dict(self.statuses)
        for test in sorted({test for test, *_ in sought}):
            if (status := statuses.get(test, "not measured")) in unsure:
                return "skip", f"{test}: {status}"
        return "good", ""


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser(
        "bisect",
        help="find the commit that made tests spend more",
        description=_ABOUT,
        usage="%(prog)s GOOD [BAD] TEST...",
    )
    add_argument = parser.add_argument
    add_argument("good", metavar="GOOD", help="a commit with baselines, in which the tests are as they should be")
    add_argument("rest", nargs="+", metavar="[BAD] TEST", help="a commit in which they are not (default: HEAD); tests")
    add_argument("--dir", type=Path, default=Path("baselines"), help="where baselines are (default: baselines)")
    parser.epilog = "What follows -- goes to pytest with the tests."
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    here = Path.cwd()
    top = Path(git(here, _WHAT, "rev-parse", "--show-toplevel").rstrip("\n")).resolve()
    bad_name, tests = _bad_and_tests(here, arguments.rest)
    good, bad = _commit(here, arguments.good), _commit(here, bad_name)
    number = _between(here, arguments.good, good, bad_name, bad)
    _check_clean(top)
    with tempfile.TemporaryDirectory(prefix="opprof-bisect-") as folder:
        _write_baselines(top, good, (here / arguments.dir).resolve(), Path(folder, "baselines"), arguments.good)
        with _bisecting(top):
            git(top, _WHAT, "checkout", "-q", "--detach", bad)
            worst = _try(tests, Path(folder))
            git(top, _WHAT, "checkout", "-q", "--detach", good)
            before = _try(tests, Path(folder)) if worst.findings else Tried()
            sought = _sought(arguments.good, before, bad_name, worst)
            steps = plural(max(1, round(log2(number + 1))), "step")
            print(f"{plural(number, 'commit')}, about {steps}; looked for:", flush=True)
            _print_findings(worst, sought)
            return _search(top, good, bad, tests, Path(folder), sought, worst)


def _bad_and_tests(here: Path, rest: list[str]) -> tuple[str, list[str]]:
    """Return the bad revision and the tests. Raises UsageError for a word that may be both."""
    first, *others = rest
    if not others or first.startswith("-") or "::" in first:
        return "HEAD", rest
    try:
        _commit(here, first)
    except UsageError:
        return "HEAD", rest
    if (here / first).exists():
        raise UsageError(f"{first!r} is a revision, and a file too: write refs/heads/{first} or ./{first}")
    return first, others


def _commit(here: Path, revision: str) -> str:
    arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    try:
        return git(here, _WHAT, *arguments).strip()
    except UsageError:
        raise UsageError(
            f"{_WHAT}: {revision!r} is no revision; name a commit, a branch or a tag that was fetched (opprof bisect"
            " GOOD [BAD] TEST...)"
        ) from None


def _between(here: Path, good_name: str, good: str, bad_name: str, bad: str) -> int:
    """Return how many commits there are to choose from. Raises UsageError where one does not come after the other."""
    number = int(git(here, _WHAT, "rev-list", "--count", f"{good}..{bad}"))
    if git(here, _WHAT, "merge-base", good, bad).strip() != good or not number:
        raise UsageError(f"{_WHAT}: {bad_name} does not come after {good_name}: name a good commit before a bad one")
    return number


def _check_clean(top: Path) -> None:
    if git(top, _WHAT, "status", "--porcelain", "--untracked-files=no"):
        raise UsageError(f"{_WHAT}: {top} has changes that are not committed; commit or stash them first")
    if Path(top, git(top, _WHAT, "rev-parse", "--git-path", "BISECT_LOG").strip()).exists():
        raise UsageError(f"{_WHAT}: {top} is being bisected; git bisect reset ends that")


def _write_baselines(top: Path, good: str, kept: Path, to: Path, name: str) -> None:
    """Write the baselines of the good commit, in *kept* there, to a folder. Raises UsageError where it has none."""
    if not kept.is_relative_to(top):
        raise UsageError(f"{_WHAT}: the baselines in {kept} are not in the repository {top}; name others with --dir")
    inside = kept.relative_to(top).as_posix()
    words = git(top, _WHAT, "ls-tree", "-r", "-z", good, "--", inside).split("\0")
    files = [(each.split()[2], path) for each, _, path in (word.partition("\t") for word in words) if path]
    if not files:
        raise UsageError(f"{_WHAT}: {name} has no baselines in {inside}; name a commit that has, or --dir")
    for (_, path), content in zip(files, contents(top, _WHAT, [name for name, _ in files])):
        written = to / Path(path).relative_to(inside)
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_bytes(content)


@contextmanager
def _bisecting(top: Path) -> Iterator[None]:
    """Let git bisect, and go back to where it began, whatever happens."""
    git(top, _WHAT, "bisect", "start")
    try:
        yield
    finally:
        git(top, _WHAT, "bisect", "reset")


def _try(tests: list[str], folder: Path) -> Tried:
    """Run the tests in what is checked out, with the baselines in *folder*."""
    from ..results.document import read_document
    from ..results.run_result import run_of_document

    found = folder / "run.json"
    found.unlink(missing_ok=True)
    flags = ["--opprof", f"--opprof-baselines={folder / 'baselines'}", f"--opprof-json={found}"]
    # Python takes bytecode for that of a source of the same size and second: two commits may have both in common.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *tests, *flags],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:  # the commit may not have the folder
        return Tried(f"pytest cannot be started: {error.strerror}")
    last = next(filter(str.strip, reversed(done.stdout.splitlines())), "it said nothing").strip("= ")
    if done.returncode not in (0, 1) or not found.exists():
        return Tried(f"pytest ended with exit code {done.returncode}: {last}")
    try:
        run = run_of_document(read_document(found, "JSON of a run"), found)
    except BaselineError as error:
        return Tried(str(error))
    return _tried(run, last) if run.tests else Tried(f"nothing was measured: {last}")


def _tried(run: RunResult, last: str) -> Tried:
    findings = tuple(
        ((test.id, window.name, cause.rule, cause.op), text)
        for test in run.failing
        for window in test.windows
        for cause, text in zip(window.causes, window.findings)
        if not cause.adds
    )
    why = f"{'; '.join(run.errors)[:200]} ({last})" if run.errors else ""
    return Tried(why, findings, tuple((test.id, test.status) for test in run.tests))


def _sought(good: str, before: Tried, bad: str, worst: Tried) -> set[Cause]:
    """Return what the bad commit has and the good one has not. Raises UsageError where that is not so."""
    if worst.why:
        raise UsageError(f"{_WHAT}: of {bad} nobody can tell: {worst.why}")
    if not worst.findings:
        statuses = ", ".join(sorted({status for _, status in worst.statuses}))
        raise UsageError(
            f"{_WHAT}: in {bad} the tests spend no more than with the baselines of {good} ({statuses}): there is"
            " nothing to look for"
        )
    sought = worst.causes - before.causes
    word, why = before.judged(sought)
    if before.why or word != "good":
        raise UsageError(f"{_WHAT}: {good} is not good: {before.why or why}")
    if not sought:
        raise UsageError(f"{_WHAT}: what fails in {bad} fails in {good}, too: {worst.findings[0][1]}")
    return sought


def _search(top: Path, good: str, bad: str, tests: list[str], folder: Path, sought: set[Cause], worst: Tried) -> bool:
    """Let git choose commits until one is found, and say which."""
    git(top, _WHAT, "bisect", "bad", bad)
    git(top, _WHAT, "bisect", "good", good)
    tried, skipped = {bad: worst}, set[str]()
    while _left(top, skipped):
        commit = git(top, _WHAT, "rev-parse", "HEAD").strip()
        tried[commit] = _try(tests, folder)
        word, why = tried[commit].judged(sought)
        print(terminal(f"  {word:4}  {_told(top, commit)}{f': {why}' if why else ''}"), flush=True)
        skipped |= {commit} if word == "skip" else set()
        try:
            git(top, _WHAT, "bisect", word)
        except UsageError:  # also where it has no more to choose from than what was skipped
            if _left(top, skipped):
                raise
    first = git(top, _WHAT, "rev-parse", "refs/bisect/bad").strip()
    if unknown := _left(top, set()):
        names = ", ".join(commit[:9] for commit in (first, *unknown))
        raise UsageError(f"{_WHAT}: the first bad commit is one of {names}: all but the first could not be judged")
    print(terminal(f"first bad commit: {_told(top, first)}"))
    _print_findings(tried[first], sought)
    return False


def _left(top: Path, skipped: set[str]) -> list[str]:
    """Return the commits that may be the first bad one, but the oldest that is known to be bad and those *skipped*."""
    first = git(top, _WHAT, "rev-parse", "refs/bisect/bad").strip()
    between = git(top, _WHAT, "rev-list", first, "--not", "--glob=refs/bisect/good-*").split()
    return [commit for commit in between if commit != first and commit not in skipped]


def _told(top: Path, commit: str) -> str:
    return git(top, _WHAT, "log", "-1", "--no-show-signature", "--encoding=UTF-8", "--format=%h %cs %s", commit).strip()


def _print_findings(tried: Tried, sought: set[Cause]) -> None:
    found = [f"  {cause[0]}: {text}" for cause, text in tried.findings if cause in sought]
    for line in found[:_SHOWN]:
        print(terminal(line))
    if len(found) > _SHOWN:
        print(f"  ... and {len(found) - _SHOWN} more")

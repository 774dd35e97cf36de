"""``opprof bisect``: the first commit in which tests spend more than they did in one that is known to be good.

The trick is the baselines of the good commit, in a folder outside of the checkout: inside, each commit brings its own.
A test without a baseline is recorded in the good commit; one that a commit does not have is put into it as it is today.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from math import log2
from pathlib import Path, PurePosixPath
from typing import Any

from ..baselines.paths import files as calls_files
from ..baselines.paths import python_of, sites_of, times_of
from ..errors import UsageError
from ..escaping import terminal
from ..machine.git import contents, git
from ..machine.scratch import scratch
from ..units import plural
from .bisect_trial import Cause, Trial, Tried, as_they_are

_WHAT = "opprof bisect"
_ABOUT = (
    "find the first commit in which tests spend more than with the baselines of a good one; checks out commits, as git"
    " bisect does, and goes back in the end"
)
_SHOWN = 10


def add(commands: Any) -> None:
    """Add the command to the parser's *commands*."""
    parser = commands.add_parser(
        "bisect",
        help="find the commit that made tests spend more",
        description=_ABOUT,
        usage="%(prog)s GOOD [BAD] TEST...",
    )
    add_argument = parser.add_argument
    add_argument("good", metavar="GOOD", help="a commit in which the tests are as they should be")
    add_argument("rest", nargs="+", metavar="[BAD] TEST", help="a commit in which they are not (default: HEAD); tests")
    add_argument(
        "--dir",
        type=Path,
        default=Path("baselines"),
        help="where baselines are (default: baselines): of GOOD, else as they are on disk; what is in neither is"
        " recorded in GOOD",
    )
    parser.epilog = "What follows -- goes to pytest with the tests."
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> bool:
    here = Path.cwd()
    top = Path(git(here, _WHAT, "rev-parse", "--show-toplevel").rstrip("\n")).resolve()
    bad_name, tests = _bad_and_tests(here, arguments.rest)
    good, bad = _commit(here, arguments.good), _commit(here, bad_name)
    number = _between(here, arguments.good, good, bad_name, bad)
    _check_clean(top)
    today = as_they_are(here, tests)
    with scratch("bisect-") as folder:
        _write_baselines(top, good, (here / arguments.dir).resolve(), folder / "baselines", arguments.good)
        trial = Trial(tests, today, folder)
        with _bisecting(top):
            git(top, _WHAT, "checkout", "-q", "--detach", good)
            before = trial.tried("--opprof-update-new")
            git(top, _WHAT, "checkout", "-q", "--detach", bad)
            worst = trial.tried()
            sought = _sought(arguments.good, before, bad_name, worst)
            steps = plural(max(1, round(log2(number + 1))), "step")
            print(f"{plural(number, 'commit')}, about {steps}; looked for:", flush=True)
            _print_findings(worst, sought)
            return _search(top, good, bad, trial, sought, worst)


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
    """Write the baselines of the good commit, in *kept* there, to a folder; where it has none, those on disk."""
    inside, files = "", []
    if top != kept and top.is_relative_to(kept):
        raise UsageError(f"{_WHAT}: {kept} has the repository {top} in it; name the folder of the baselines with --dir")
    if kept.is_relative_to(top):
        inside = kept.relative_to(top).as_posix()
        words = git(top, _WHAT, "ls-tree", "-r", "-z", good, "--", inside).split("\0")
        files = [(each.split()[2], path) for each, _, path in (word.partition("\t") for word in words) if path]
    if not files:
        on_disk = [*calls_files(kept)]
        print(
            f"{name} has no baselines in {inside or kept}: "
            + ("those on disk are compared with" if on_disk else f"recording them in {name}"),
            flush=True,
        )
        for path in (each for calls in on_disk for each in (calls, times_of(calls), sites_of(calls), python_of(calls))):
            if path.is_file():
                _write(to / path.relative_to(kept), path.read_bytes(), name)
    for (_, committed), content in zip(files, contents(top, _WHAT, [each for each, _ in files])):
        written = to / PurePosixPath(committed).relative_to(inside)
        # Git writes no ".." when it checks out; a tree that somebody made by hand may have it all the same.
        if ".." in written.parts or not written.is_relative_to(to):
            raise UsageError(
                f"{_WHAT}: {name} has a file {committed!r}, which leads out of {inside}; nothing was written there"
            )
        _write(written, content, name)


def _write(path: Path, content: bytes, name: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{_WHAT}: {str(path)!r} of {name} cannot be written: {error.strerror or error}") from None


@contextmanager
def _bisecting(top: Path) -> Iterator[None]:
    """Let git bisect, and go back to where it began, whatever happens."""
    git(top, _WHAT, "bisect", "start")
    try:
        yield
    finally:
        git(top, _WHAT, "bisect", "reset")


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


def _search(top: Path, good: str, bad: str, trial: Trial, sought: set[Cause], worst: Tried) -> bool:
    """Let git choose commits until one is found, and say which."""
    git(top, _WHAT, "bisect", "bad", bad)
    git(top, _WHAT, "bisect", "good", good)
    tried, skipped = {bad: worst}, set[str]()
    while _left(top, skipped):
        commit = git(top, _WHAT, "rev-parse", "HEAD").strip()
        tried[commit] = trial.tried()
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

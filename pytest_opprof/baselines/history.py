"""The history of calls in baselines: the changes of each commit, by op, window and environment.

Pure: `git_log` asks git. Only calls are decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import msgspec

from ..profile.environment_json import EnvironmentJson
from ..profile.range import Range
from ..results.plain import of_json
from ..results.window_result import BODY
from .files.paths import module_of
from .files.schemas import SCHEMA
from .git_log import Commit, FileChange

_HERE = PurePosixPath()
_SHORT = 9


class _Op(msgspec.Struct, gc=False):
    calls: Range


class _Window(msgspec.Struct, gc=False):
    ops: dict[str, _Op] = {}


class _File(msgspec.Struct, gc=False):
    environment: EnvironmentJson
    schema: int
    tests: dict[str, dict[str, _Window]]


_Calls = Mapping[str, int]
# By test and window.
_Windows = Mapping[tuple[str, str], _Calls]


@dataclass(frozen=True, slots=True)
class Change:
    """Calls of an op in a window that a commit changed."""

    at: int
    """The commit, by its number in `History.commits`."""
    environment: str
    """Its folder."""
    test: str
    """By its current name: a renamed file has its new name."""
    window: str
    op: str
    before: int | None
    """In the worst round; None if the window did not exist."""
    after: int | None

    @property
    def calls(self) -> int:
        """The number of extra calls."""
        return (self.after or 0) - (self.before or 0)

    @property
    def is_of_code(self) -> bool:
        """Whether the window existed before and after: calls that come and go with a test are no change of its code."""
        return self.before is not None and self.after is not None


@dataclass(frozen=True, slots=True)
class Step:
    """The change of an op's calls in one commit."""

    at: int
    calls: int
    """Extra calls in windows that existed before and after."""
    arrived: int
    """Extra calls from windows that came or went."""
    tests: tuple[str, ...]
    """The changed tests, sorted."""


@dataclass(frozen=True, slots=True)
class OpHistory:
    """The calls of an op over all chosen tests of an environment, the worst round of each."""

    op: str
    first: int
    """After the commit that brought the tests; of commits since a revision, before them."""
    now: int
    totals: Mapping[int, int]
    """By commit: the calls after it, if it changed them."""
    steps: tuple[Step, ...]
    """In the order of the commits, after the one that brought the tests."""

    @property
    def biggest(self) -> Step:
        """The step with the largest change, of code if any."""
        return max(self.steps, key=lambda step: (abs(step.calls), abs(step.arrived), -step.at))

    @property
    def arrived(self) -> int:
        """The number of calls from windows that came or went."""
        return sum(step.arrived for step in self.steps)


@dataclass(slots=True)
class History:
    """The changes of calls in a folder of baselines."""

    commits: Sequence[Commit]
    changes: list[Change] = field(default_factory=list)
    by_environment: dict[str, list[int]] = field(default_factory=dict)
    """By folder: the commits that changed files of it."""
    titles: dict[str, str] = field(default_factory=dict)
    """By folder: the environment in words."""
    unread: list[str] = field(default_factory=list)
    """Unreadable contents, and why: they count as unchanged."""

    @property
    def tests(self) -> set[str]:
        """All tests that ever had a baseline."""
        return {change.test for change in self.changes}

    def commits_of(self, environment: str, since: frozenset[str] | None = None) -> list[int]:
        """Return the commits *since* a revision that changed baselines of an environment, by their numbers."""
        numbers = self.by_environment[environment]
        return [at for at in numbers if since is None or self.commits[at].name in since]

    def ops(
        self, environment: str, wants: Callable[[str], bool], since: frozenset[str] | None = None
    ) -> list[OpHistory]:
        """Return the ops of an environment whose calls changed, the biggest step first.

        *wants* returns whether a test counts; the state before the commits *since* is the beginning.
        """
        chosen = [each for each in self.changes if each.environment == environment and wants(each.test)]
        begin = min((change.at for change in chosen), default=0)
        by_op: dict[str, dict[int, list[Change]]] = {}
        for change in chosen:
            by_op.setdefault(change.op, {}).setdefault(change.at, []).append(change)
        found = []
        for op, by_commit in by_op.items():
            total, first, totals, steps = 0, 0, dict[int, int](), list[Step]()
            for at, changes in sorted(by_commit.items()):
                total += sum(change.calls for change in changes)
                if at == begin or (since is not None and self.commits[at].name not in since):
                    first = total
                    continue
                of_code = sum(change.calls for change in changes if change.is_of_code)
                others = sum(change.calls for change in changes if not change.is_of_code)
                totals[at] = total
                if others or any(change.is_of_code for change in changes):
                    steps.append(Step(at, of_code, others, tuple(sorted({change.test for change in changes}))))
            if steps:
                found.append(OpHistory(op, first, total, totals, tuple(steps)))
        return sorted(found, key=lambda each: (-abs(each.biggest.calls), -abs(each.biggest.arrived), each.op))


def blobs(commits: Iterable[Commit]) -> list[str]:
    """Return the git objects that `history` needs, in its order."""
    return [change.new for commit in commits for change in _without_moves(commit) if change.new]


def history(commits: Sequence[Commit], contents: Iterable[bytes]) -> History:
    """Return the changes of *commits*, the oldest first; *contents* are those of `blobs`, read as they come.

    A body holds the windows inside it, so of a test that has one only the body is followed. A file that only got
    another name keeps its tests.
    """
    decoder = msgspec.json.Decoder(_File, dec_hook=of_json)
    found, given = History(commits), iter(contents)
    now = dict[PurePosixPath, _Windows]()
    names = _names_now(commits)
    for at, commit in enumerate(commits):
        for old, new in _moves(commit).items():
            now[new] = now.pop(old, {})
        for change in _without_moves(commit):
            path, content = change.path, next(given) if change.new else None
            before: _Windows = now.get(path, {})
            after: _Windows = {}
            if content is not None:
                try:
                    file = decoder.decode(content)
                except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
                    found.unread.append(f"{path} of {commit.name[:_SHORT]} cannot be read: {error}")
                    continue
                if file.schema != SCHEMA:
                    found.unread.append(
                        f"{path} of {commit.name[:_SHORT]} has schema version {file.schema}, this pytest-opprof reads"
                        f" {SCHEMA}"
                    )
                    continue
                after = _windows(file)
                found.titles[path.parts[0]] = file.environment.environment.full
            now[path] = after
            module = module_of(_HERE, names[at, path])
            found.changes += _changes(at, path.parts[0], module, before, after)
        for folder in {change.path.parts[0] for change in commit.files}:
            found.by_environment.setdefault(folder, []).append(at)
    return found


def _moves(commit: Commit) -> dict[PurePosixPath, PurePosixPath]:
    """Return the new name of each file that was only renamed, in the same environment."""
    gone = {(change.path.parts[0], change.old): change.path for change in commit.files if not change.new}
    come = [change for change in commit.files if change.new and not change.old]
    return {
        gone.pop((change.path.parts[0], change.new)): change.path
        for change in come
        if (change.path.parts[0], change.new) in gone
    }


def _without_moves(commit: Commit) -> Iterator[FileChange]:
    moves = _moves(commit)
    both = {*moves, *moves.values()}
    yield from (change for change in commit.files if change.path not in both)


def _names_now(commits: Sequence[Commit]) -> dict[tuple[int, PurePosixPath], PurePosixPath]:
    """Return the current name of each file that a commit changed, or its last name if it is gone."""
    later, names = dict[PurePosixPath, PurePosixPath](), dict[tuple[int, PurePosixPath], PurePosixPath]()
    for at in range(len(commits) - 1, -1, -1):
        for change in commits[at].files:
            names[at, change.path] = later.get(change.path, change.path)
        for old, new in _moves(commits[at]).items():
            later[old] = later.pop(new, new)
    return names


def _windows(file: _File) -> _Windows:
    counted = dict[tuple[str, str], _Calls]()
    for test, windows in file.tests.items():
        for window, kept in windows.items():
            if window == BODY or BODY not in windows:
                counted[test, window] = {op: each.calls.most for op, each in kept.ops.items()}
    return counted


def _changes(at: int, environment: str, module: str, before: _Windows, after: _Windows) -> Iterator[Change]:
    for test, window in {**before, **after}:
        old, new = before.get((test, window)), after.get((test, window))
        if old == new:
            continue
        for op in {**(old or {}), **(new or {})}:
            was = None if old is None else old.get(op, 0)
            now = None if new is None else new.get(op, 0)
            if was != now:
                yield Change(at, environment, f"{module}::{test}", window, op, was, now)

"""The two sides of ``opprof diff``: a saved profile, the JSON of a run, or a baseline file, each as its windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ...baselines.entry import WindowBaseline, entry_of
from ...errors import UsageError
from ...profile.environment_json import EnvironmentJson
from ...profile.op_counts import counts_of
from ...profile.saved import SavedProfile
from ...profile.timings import OUTSIDE, ProcessTimes, run_of
from ...results.test_id import split_id
from ...results.window_result import BODY, OpResult, WindowNumbers, total_of
from ...units import plural
from ..inputs import reading
from ..inputs.opened import BaselineFile, Opened, Profiles, RunFile, opened
from ..inputs.reading import Asked
from ..show.ranks import names_of, titles_of
from .whole import Whole, whole_of

By = Literal["type", "name", "dtype", "shape", "site"]


@dataclass(frozen=True, slots=True)
class Kept:
    """A window of one side: its numbers, and the same as a baseline."""

    numbers: WindowNumbers
    entry: WindowBaseline
    machine: str = ""
    """Where it was measured; empty where a baseline has several, or a profile does not say."""

    @property
    def machines(self) -> list[str]:
        """Where it was timed."""
        return [self.machine] if self.machine else list(self.entry.times)

    @property
    def of_ops(self) -> Sequence[ProcessTimes]:
        """The times of each process in ops alone, as a profile has them; empty where `without_times` says why."""
        if self.without_times:
            return ()
        by_op = [{op: ns for op, ns in run.ops_ns.items() if op != OUTSIDE} for run in self.entry.processes]
        return [
            replace(run, ops_ns=ops, threads=0, total_ns=tuple(map(sum, zip(*ops.values()))))
            if OUTSIDE in run.ops_ns
            else replace(run, threads=0)
            for run, ops in zip(self.entry.processes, by_op)
        ]

    @property
    def without_times(self) -> str:
        """Why its times cannot be compared with the times of a profile; empty where they can."""
        if len(self.entry.times) > 1:
            return f"the baseline was timed on several machines: {', '.join(sorted(self.entry.times))}"
        threads = max((run.threads for run in self.entry.processes), default=0)
        if threads and self.numbers.environment.environment.device == "cpu":
            used = f"ops had {plural(threads, 'thread')} there"
            return f"{used}, and a profile does not say how many it had (--opprof-threads=all sets no limit)"
        return ""

    def runs(self, machine: str) -> Sequence[ProcessTimes]:
        """Return the times of each process on *machine*."""
        return self.entry.times.get(machine, ())


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two."""

    path: Path
    kind: Literal["profile", "ranks", "run", "baseline"]
    windows: Mapping[tuple[str, str], Kept]
    """By test and window; a profile is one, and each of several ranks, whose names are in place of tests."""
    source: str = ""
    """The tool that wrote a profile."""
    is_cut: bool = False
    module: str = ""
    """Whose baselines they are, where the path tells; tests of a baseline file are called without it."""
    whole: Whole | None = None
    """The times of a profile as a whole."""

    @property
    def told(self) -> str:
        """The tool that wrote it, or its path."""
        return self.source or str(self.path)

    def rounds(self, test: str | None, window: str) -> int:
        """Return the steps of a profile, or the rounds of the window that is compared with one."""
        return self.only(test, window).numbers.rounds

    @property
    def called(self) -> str:
        """Its name in messages, where it is the first of the two."""
        return "the baseline" if self.kind == "baseline" else f"the first {self.kind}"

    def then(self, now: Side) -> str:
        """Return its name in a finding of *now*."""
        return "baseline" if self.kind == "baseline" != now.kind else "before"

    def beside(self, other: Side) -> Side:
        """Return the side with its tests named as in a baseline file *other*. Raises UsageError."""
        if self.kind != "run" or other.kind != "baseline":
            return self
        modules = sorted({split_id(test)[0] for test, _ in self.windows})
        if not other.module and len(modules) > 1:
            raise UsageError(
                f"{other.path}: of which module of {self.path} is it, {', '.join(modules)}? Give the file where it is"
                " kept, in the folder of its environment"
            )
        windows = {
            (split_id(test)[1], window): kept
            for (test, window), kept in self.windows.items()
            if other.module in ("", split_id(test)[0])
        }
        return replace(self, windows=windows)

    def only(self, test: str | None, window: str) -> Kept:
        """Return the one window to compare with a profile. Raises UsageError where there are several, or none."""
        if self.kind == "profile" or (len(self.windows) == 1 and test is None):
            return next(iter(self.windows.values()))
        if test is None:
            what = f"{self.path}: holds {len(self.windows)} windows; choose one by --test ID and --window NAME"
        elif (test, window) in self.windows:
            return self.windows[test, window]
        else:
            what = f"{self.path}: has no window {window} of {test}; name another by --test ID and --window NAME"
        raise UsageError(what + reading.listed_below([f"{each} {name}" for each, name in sorted(self.windows)]))


def sides(files: Sequence[Path], asked: Asked, by: By) -> Side:
    """Return *files* as one side: a profile, a baseline file, or the shards of a run.

    *by* says which calls of a profile are one op. Raises TraceError, BaselineError and UsageError.
    """
    kinds: tuple[type[Opened], ...] = (Profiles, RunFile, BaselineFile)
    found = [_side(opened(path, asked, *kinds), asked, by) for path in files]
    if len(found) == 1:
        return found[0]
    windows: dict[tuple[str, str], Kept] = {}
    for each in found:
        if each.kind != "run":
            raise UsageError(f"{each.path}: is a {each.kind}; only shards of a run, several files, are one")
        if twice := min(windows.keys() & each.windows, default=None):
            raise UsageError(f"{each.path}: has {twice[0]}, which another shard has, too; name each shard once")
        windows |= each.windows
    return replace(found[0], path=Path(", ".join(str(path) for path in files)), windows=windows)


def _side(given: Opened, asked: Asked, by: By) -> Side:
    if isinstance(given, Profiles):
        return _of_ranks(given, by) if asked.rank == "all" else _of_profile(given, asked, by)
    if isinstance(given, BaselineFile):
        content = given.content
        environment = EnvironmentJson.of(content.environment)
        kept = {
            (test, window): Kept(_numbers(window, environment, entry), entry)
            for test, windows in content.tests.items()
            for window, entry in windows.items()
        }
        folder, parts = content.environment.folder, given.path.absolute().parts
        inside = parts[parts.index(folder) + 1 :] if folder in parts else ()
        return Side(given.path, "baseline", kept, module="/".join(inside).removesuffix(".json"))
    assert isinstance(given, RunFile)
    found = {
        (test.id, window.name): Kept(window, entry_of(window), window.machine)
        for test in given.run.tests
        for window in test.windows
    }
    return Side(given.path, "run", found)


def _of_profile(given: Profiles, asked: Asked, by: By) -> Side:
    found, saved = given.one("diff")
    kept = {("", BODY): _kept(given.path, saved, by)}
    whole = whole_of(found, saved, asked)
    return Side(given.path, "profile", kept, saved.source, saved.is_cut, whole=whole)


def _of_ranks(given: Profiles, by: By) -> Side:
    ranks = titles_of(names_of([found for found, _ in given.each], given.path))
    kept = {(rank, BODY): _kept(given.path, saved, by) for rank, (_, saved) in zip(ranks, given.each)}
    is_cut = bool(given.left_out) or any(saved.is_cut for _, saved in given.each)
    return Side(given.path, "ranks", kept, is_cut=is_cut)


def _kept(path: Path, saved: SavedProfile, by: By) -> Kept:
    """Return a profile as a window."""
    if by == "site":
        reading.check_sites(path, saved)
    profile = saved.profile(by=by)
    run = run_of(profile, wall=False)
    numbers = WindowNumbers.of(BODY, profile)
    return Kept(numbers, WindowBaseline(counts_of(profile), {"": (run,)} if run else {}, facts=numbers.fact_ranges))


def _numbers(window: str, environment: EnvironmentJson, entry: WindowBaseline) -> WindowNumbers:
    """Return a baseline as numbers of two rounds: the fewest and the most calls."""
    ops = {op: OpResult((each.calls.least, each.calls.most), None, None, None) for op, each in entry.ops.items()}
    return WindowNumbers(
        name=window,
        environment=environment,
        rounds=max((run.rounds for run in entry.processes), default=1),
        host_ns=(),
        busy_ns=None,
        ops=ops,
        total=total_of(list(ops.values()), 2),
    )

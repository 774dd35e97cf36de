"""The baselines of one run: files read once, entries looked up and replaced, changed files written at the end.

A path here is that of a file of calls; the times and call sites beside it come and go with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ..errors import BaselineError, UsageError
from ..profile.environment import Environment
from ..results.test_id import split_id
from ..sites.places import WindowSites
from .entry import Baselines, WindowBaseline
from .files import file, paths, python_file, sites_file
from .files.by_rank import of_rank
from .files.python_file import Functions, ModulePython, PythonChange
from .files.sites_file import ModuleSites, SiteChange
from .files.writing import PATIENCE_S, check_inside, writing

_Change = tuple[str, str, "WindowBaseline | None"]


class Saved(NamedTuple):
    """The result of `Store.save`."""

    files: list[Path]
    """The files that were written or removed."""
    errors: Mapping[Path, str]
    """The write errors of other files, by the file of calls."""


class Store:
    """Baseline files below *root*, read when needed."""

    def __init__(self, root: Path, rank: int = 0) -> None:
        """*rank* selects the entries, if ranks differ."""
        self.root = root
        self._rank = rank
        self._read: dict[Path, Baselines | BaselineError] = {}
        self._paths: dict[str, list[Path]] | None = None
        self._changes: dict[Path, tuple[Environment, list[_Change]]] = {}
        self._sites: dict[Path, ModuleSites | str] = {}
        self._site_changes: dict[Path, list[SiteChange]] = {}
        self._python: dict[Path, ModulePython | str] = {}
        self._python_changes: dict[Path, list[PythonChange]] = {}

    def entry(self, environment: Environment, module: str, test: str, window: str) -> WindowBaseline | None:
        """Return the baseline of a window, None if there is none. Raises BaselineError for a broken file.

        A baseline of the same device and the same versions counts even if other frameworks recorded it: a window that
        runs its first op of another framework has changed. A baseline without ops counts in any version.
        """
        return of_rank(self.of_all_ranks(environment, module, test, window), self._rank)

    def of_all_ranks(self, environment: Environment, module: str, test: str, window: str) -> WindowBaseline | None:
        """Return the baseline of a window with the entries of all ranks."""
        home = self.home(environment, module, test, window)
        return None if home is None else self._content(home, module).tests[test][window]

    def home(self, environment: Environment, module: str, test: str, window: str) -> Environment | None:
        """Return the environment of the baseline that `entry` returns."""
        found = self._home(environment, module, test, window)
        return found or self._home(environment, module, test, window, in_any_version=True)

    def _home(
        self, environment: Environment, module: str, test: str, window: str, *, in_any_version: bool = False
    ) -> Environment | None:
        if window in self._content(environment, module).tests.get(test, {}):
            return environment
        for content in self._elsewhere(environment, module):
            entry = content.tests.get(test, {}).get(window)
            is_free = in_any_version and entry is not None and not entry.ops
            if entry and content.environment.could_be_here(environment, in_any_version=is_free):
                return content.environment
        return None

    def windows(self, environment: Environment, module: str, test: str) -> list[str]:
        """Return the windows that have a baseline."""
        windows = self._content(environment, module).tests.get(test, {})
        return sorted(window for window, entry in windows.items() if of_rank(entry, self._rank))

    def tests(self, module: str) -> set[str]:
        """Return the tests of *module* that have a baseline, in any environment."""
        return {test for _, content in self._of(module) for test in content.tests}

    def other_environments(self, environment: Environment, module: str, test: str) -> list[str]:
        """Return in words the other environments that have a baseline of *test*."""
        return [other.environment.full for other in self._elsewhere(environment, module) if test in other.tests]

    def yardsticks_ns(self, module: str, machine: str) -> Iterator[int]:
        """Yield how long a fixed piece of work took on *machine* when the baselines of *module* were recorded."""
        for _, content in self._of(module):
            for entry in content.windows.values():
                for run in entry.times.get(machine, ()):
                    yield from run.yardstick_ns
                if (here := entry.coarse_here) and here.yardstick_ns:
                    yield here.yardstick_ns

    def sites(self, environment: Environment, module: str, test: str, window: str) -> WindowSites | str:
        """Return the stored source lines of a window's ops, or in words why they are unknown.

        Raises BaselineError for a broken file of calls.
        """
        path = paths.path_of(self.root, self.home(environment, module, test, window) or environment, module)
        if path not in self._sites:
            self._sites[path] = sites_file.read(path)
        kept = self._sites[path]
        if isinstance(kept, str):
            return kept
        lacking = (
            f"no source lines are stored: {paths.sites_of(path)} has none for this window; pytest"
            f" --opprof-update adds them"
        )
        return lacking if (sites := kept.of(test, window)) is None else sites

    def functions(self, environment: Environment, module: str, test: str, window: str) -> Functions | str:
        """Return the stored calls of each Python function in a window, or why they are unknown.

        Raises BaselineError for a broken file of calls.
        """
        path = paths.path_of(self.root, self.home(environment, module, test, window) or environment, module)
        if path not in self._python:
            self._python[path] = python_file.read(path)
        kept = self._python[path]
        lacking = f"{paths.python_of(path)} has none for this window; pytest --opprof-update --opprof-python adds them"
        return kept if isinstance(kept, str) else kept.get((test, window), lacking)

    def put(self, environment: Environment, module: str, test: str, window: str, entry: WindowBaseline) -> None:
        """Replace the baseline of a window, wherever it was for these versions; `save` writes it."""
        home = self._home(environment, module, test, window)
        if home not in (None, environment):
            self._change(home, module, (test, window, None))
        self._change(environment, module, (test, window, entry))

    def put_here(self, environment: Environment, module: str, test: str, window: str, entry: WindowBaseline) -> None:
        """Replace the baseline of a window in this environment alone; `save` writes it."""
        self._change(environment, module, (test, window, entry))

    def put_sites(self, environment: Environment, module: str, test: str, window: str, sites: WindowSites) -> None:
        """Replace the sites of a window that has a baseline; `save` writes them."""
        path = paths.path_of(self.root, environment, module)
        self._changes.setdefault(path, (environment, []))
        self._site_changes.setdefault(path, []).append((test, window, sites))

    def put_functions(
        self, environment: Environment, module: str, test: str, window: str, functions: Functions
    ) -> None:
        """Replace the Python functions of a window that has a baseline; `save` writes them."""
        path = paths.path_of(self.root, environment, module)
        self._changes.setdefault(path, (environment, []))
        self._python_changes.setdefault(path, []).append((test, window, functions))

    def drop(self, environment: Environment, module: str, test: str, window: str) -> None:
        """Remove the baseline of a window; `save` writes it."""
        self._change(environment, module, (test, window, None))

    def at(self, path: Path) -> Baselines | BaselineError:
        """Return the content of a file, or its error; each file is read once."""
        if path not in self._read:
            self._read[path] = _loaded(path)
        return self._read[path]

    def drop_tests(self, path: Path, tests: Iterable[str]) -> None:
        """Remove all entries of *tests* in a file, and times that judge nothing; `save` writes it.

        Raises BaselineError for a broken file.
        """
        content, module = self._loaded(path), paths.module_of(self.root, path)
        self._changes.setdefault(path, (content.environment, []))
        gone = set(tests)
        for test, windows in content.tests.items():
            for window, entry in windows.items():
                if test in gone:
                    self.drop(content.environment, module, test, window)
                elif entry.mismatched:
                    self._change(content.environment, module, (test, window, replace(entry, mismatched={})))

    def move(self, old: str, new: str) -> int:
        """Move the baselines of *old* to *new*, in every environment; `save` writes it. Return the number of tests.

        Both are folders, modules, or tests (``module::test``, with all parameters). Raises UsageError for a mix, and
        BaselineError if *new* has a baseline.
        """
        (old_module, old_test), (new_module, new_test) = split_id(old), split_id(new)
        if bool(old_test) is not bool(new_test):
            raise UsageError(f"{old} -> {new}: name two modules, two folders, or two tests")
        found: list[tuple[Environment, str, str, str, str, Mapping[str, WindowBaseline]]] = []
        for path in paths.files(self.root):
            module = paths.module_of(self.root, path)
            if (target_module := _renamed(module, old_module, new_module, "/")) is None:
                continue
            content = self._loaded(path)
            there = self._content(content.environment, target_module).tests
            for test, windows in content.tests.items():
                target = _renamed(test, old_test, new_test, "[:") if old_test else test
                if target is None:
                    continue
                if target in there:
                    where = paths.path_of(self.root, content.environment, target_module)
                    raise BaselineError(f"{where}: has a baseline of {target} already, so nothing was moved")
                found.append((content.environment, module, test, target_module, target, windows))
        for environment, module, test, target_module, target, windows in found:
            for window, entry in windows.items():
                self._change(environment, target_module, (target, window, entry))
                if not isinstance(sites := self.sites(environment, module, test, window), str):
                    self.put_sites(environment, target_module, target, window, sites)
                if not isinstance(functions := self.functions(environment, module, test, window), str):
                    self.put_functions(environment, target_module, target, window, functions)
                self.drop(environment, module, test, window)
        return len({(target_module, target) for *_, target_module, target, _ in found})

    def save(self, patience_s: float = PATIENCE_S) -> Saved:
        """Write or remove the changed files. A write error of one does not stop the others.

        Raises BaselineError if none can be written: another run writes for too long, or the folder is read-only.
        """
        if not self._changes:
            return Saved([], {})
        files: list[Path] = []
        errors: dict[Path, str] = {}
        with writing(self.root, patience_s) as unfinished:
            # Files that only lose entries come last, and stay if a file was not written to which these entries may have
            # moved.
            for path in sorted(self._changes, key=self._only_loses):
                if errors and self._only_loses(path) and not all(map(self._only_loses, errors)):
                    continue
                try:
                    self._write(path, unfinished, files)
                except BaselineError as error:
                    errors[path] = str(error)
                    self._read.pop(path, None)
        self._changes.clear()
        self._site_changes.clear()
        self._sites.clear()
        self._python_changes.clear()
        self._python.clear()
        return Saved(files, errors)

    def remove(self, files: Iterable[Path]) -> None:
        """Remove files that hold no calls. Raises BaselineError."""
        with writing(self.root):
            for path in files:
                check_inside(self.root, path)
                path.unlink(missing_ok=True)

    def _only_loses(self, path: Path) -> bool:
        _, changes = self._changes[path]
        return bool(changes) and all(entry is None for *_, entry in changes)

    def _write(self, path: Path, unfinished: Path, files: list[Path]) -> None:
        """Write the changes of the module at *path*, and add the *files* that changed. Raises BaselineError."""
        check_inside(self.root, path)
        environment, changes = self._changes[path]
        # Read again, because another run may have written other tests of the module meanwhile.
        self._read.pop(path, None)
        written = _with(self._own(path, environment), changes)
        files += file.save(path, written, unfinished)
        self._read[path] = written
        files += sites_file.save(path, self._site_changes.get(path, ()), written.tests, unfinished)
        files += python_file.save(path, self._python_changes.get(path, ()), written.tests, unfinished)

    def _change(self, environment: Environment, module: str, change: _Change) -> None:
        path = paths.path_of(self.root, environment, module)
        self._changes.setdefault(path, (environment, []))[1].append(change)

    def _elsewhere(self, environment: Environment, module: str) -> Iterator[Baselines]:
        """Yield the content of other environments for *module*."""
        own = paths.path_of(self.root, environment, module)
        yield from (content for path, content in self._of(module) if path != own)

    def _of(self, module: str) -> Iterator[tuple[Path, Baselines]]:
        """Yield the files of *module*, of any environment; a broken file is reported by its own run."""
        if self._paths is None:
            self._paths = {}
            for path in paths.files(self.root):
                self._paths.setdefault(paths.module_of(self.root, path), []).append(path)
        for path in self._paths.get(module, []):
            content = self.at(path)
            if isinstance(content, Baselines):
                yield path, content

    def _content(self, environment: Environment, module: str) -> Baselines:
        return self._own(paths.path_of(self.root, environment, module), environment)

    def _own(self, path: Path, environment: Environment) -> Baselines:
        """Return the content of the file of *environment*, empty if there is none. Raises BaselineError."""
        if path not in self._read and not os.path.exists(path):  # which raises nothing: a name may be too long
            self._read[path] = Baselines(environment)
        content = self._loaded(path)
        if content.environment != environment:
            raise BaselineError(
                f"{path}: holds baselines of {content.environment.full}, but its folder is that of {environment.full}."
                " Move the file, or delete it and run pytest --opprof-update"
            )
        return content

    def _loaded(self, path: Path) -> Baselines:
        content = self.at(path)
        if isinstance(content, BaselineError):
            raise content
        return content


def _renamed(name: str, old: str, new: str, before_rest: str) -> str | None:
    """Return *name* with *old*, at its beginning, replaced; None if it begins differently."""
    rest = name.removeprefix(old)
    return new + rest if name.startswith(old) and (not rest or rest[0] in before_rest) else None


def _with(content: Baselines, changes: list[_Change]) -> Baselines:
    tests = {test: dict(windows) for test, windows in content.tests.items()}
    for test, window, entry in changes:
        tests.setdefault(test, {}).pop(window, None)
        if entry is not None:
            tests[test][window] = entry
    return Baselines(content.environment, {test: windows for test, windows in tests.items() if windows})


def _loaded(path: Path) -> Baselines | BaselineError:
    try:
        return file.load(path)
    except BaselineError as error:
        return error

"""The baselines of one run: files read once, entries looked up and replaced, changed files written at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import baselines
from .baselines import Baselines, Entry
from .environment import Environment
from .errors import BaselineError
from .samples import Run

_Change = tuple[str, str, "Entry | None"]


class Store:
    """Baseline files below *root*, read where they are needed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._read: dict[Path, Baselines | BaselineError] = {}
        self._paths: dict[str, list[Path]] | None = None
        self._changes: dict[Path, tuple[Environment, list[_Change]]] = {}

    def entry(self, environment: Environment, module: str, test: str, window: str) -> Entry | None:
        """Return the baseline of a window, None if there is none. Raises BaselineError for a file that is broken.

        A baseline of the same device and the same versions counts though other frameworks recorded it: a window that
        runs its first op of another framework did change.
        """
        home = self.home(environment, module, test, window)
        return None if home is None else self._content(home, module).tests[test][window]

    def home(self, environment: Environment, module: str, test: str, window: str) -> Environment | None:
        """Return the environment whose baseline `entry` is."""
        if window in self._content(environment, module).tests.get(test, {}):
            return environment
        for content in self._elsewhere(environment, module):
            if window in content.tests.get(test, {}) and content.environment.could_be_here(environment):
                return content.environment
        return None

    def windows(self, environment: Environment, module: str, test: str) -> list[str]:
        """Return the windows that have a baseline."""
        return sorted(self._content(environment, module).tests.get(test, {}))

    def other_environments(self, environment: Environment, module: str, test: str) -> list[str]:
        """Return in words the other environments that have a baseline of *test*."""
        return [other.environment.full for other in self._elsewhere(environment, module) if test in other.tests]

    def runs(self, module: str, machine: str) -> Iterator[Run]:
        """Yield what processes timed on *machine* for the baselines of *module*, in any environment."""
        for _, content in self._of(module):
            for windows in content.tests.values():
                for entry in windows.values():
                    yield from entry.times.get(machine, ())

    def put(self, environment: Environment, module: str, test: str, window: str, entry: Entry) -> None:
        """Replace the baseline of a window, wherever it was; `save` writes it."""
        home = self.home(environment, module, test, window)
        if home not in (None, environment):
            self._change(home, module, (test, window, None))
        self._change(environment, module, (test, window, entry))

    def drop(self, environment: Environment, module: str, test: str, window: str) -> None:
        """Remove the baseline of a window; `save` writes it."""
        self._change(environment, module, (test, window, None))

    def at(self, path: Path) -> Baselines | BaselineError:
        """Return what a file holds, or why it cannot be read; each file is read once."""
        if path not in self._read:
            self._read[path] = _loaded(path)
        return self._read[path]

    def save(self) -> list[Path]:
        """Write the changed files and return them. Raises BaselineError at the first that cannot be written."""
        for path, (environment, changes) in self._changes.items():
            # Read again: another run may have written other tests of the module meanwhile.
            self._read.pop(path, None)
            written = self._read[path] = _with(self._own(path, environment), changes)
            _write(path, written)
        return list(self._changes)

    def _change(self, environment: Environment, module: str, change: _Change) -> None:
        path = baselines.path_of(self.root, environment, module)
        self._changes.setdefault(path, (environment, []))[1].append(change)

    def _elsewhere(self, environment: Environment, module: str) -> Iterator[Baselines]:
        """Yield what other environments have of *module*."""
        own = baselines.path_of(self.root, environment, module)
        yield from (content for path, content in self._of(module) if path != own)

    def _of(self, module: str) -> Iterator[tuple[Path, Baselines]]:
        """Yield the files of *module*, of any environment; a file that is broken is for its own run to say."""
        if self._paths is None:
            self._paths = {}
            for path in baselines.files(self.root):
                self._paths.setdefault(baselines.module_of(self.root, path), []).append(path)
        for path in self._paths.get(module, []):
            content = self.at(path)
            if isinstance(content, Baselines):
                yield path, content

    def _content(self, environment: Environment, module: str) -> Baselines:
        return self._own(baselines.path_of(self.root, environment, module), environment)

    def _own(self, path: Path, environment: Environment) -> Baselines:
        """Return what the file of *environment* holds, nothing if there is none. Raises BaselineError."""
        if path not in self._read and not path.exists():
            self._read[path] = Baselines(environment)
        content = self.at(path)
        if isinstance(content, BaselineError):
            raise content
        if content.environment != environment:
            raise BaselineError(
                f"{path}: holds baselines of {content.environment.full}, but its folder is that of {environment.full}."
                " Move the file, or delete it and run pytest --opprof-update"
            )
        return content


def _with(content: Baselines, changes: list[_Change]) -> Baselines:
    tests = {test: dict(windows) for test, windows in content.tests.items()}
    for test, window, entry in changes:
        tests.setdefault(test, {}).pop(window, None)
        if entry is not None:
            tests[test][window] = entry
    return Baselines(content.environment, {test: windows for test, windows in tests.items() if windows})


def _write(path: Path, content: Baselines) -> None:
    if content.tests:
        baselines.save(path, content)
    else:
        path.unlink(missing_ok=True)


def _loaded(path: Path) -> Baselines | BaselineError:
    try:
        return baselines.load(path)
    except BaselineError as error:
        return error

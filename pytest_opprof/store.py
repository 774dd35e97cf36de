"""The baselines of one run: files read once, entries looked up and replaced, changed files written at the end."""

from __future__ import annotations

from pathlib import Path

from . import baselines
from .baselines import Baselines, Entry
from .environment import Environment
from .errors import BaselineError


class Store:
    """Baseline files below *root*, read where they are needed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._read: dict[Path, Baselines | BaselineError] = {}
        self._changed: dict[Path, Baselines] = {}

    def entry(self, environment: Environment, module: str, test: str, window: str) -> Entry | None:
        """Return the baseline of a window, None if there is none. Raises BaselineError for a file that is broken."""
        content = self._content(environment, module)
        return content.tests.get(test, {}).get(window)

    def windows(self, environment: Environment, module: str, test: str) -> list[str]:
        """Return the windows that have a baseline."""
        return sorted(self._content(environment, module).tests.get(test, {}))

    def other_environments(self, environment: Environment, module: str, test: str) -> list[str]:
        """Return in words the other environments that have a baseline of *test*."""
        found = []
        for path in baselines.files(self.root):
            if (
                baselines.module_of(self.root, path) == module
                and path.parts[len(self.root.parts)] != environment.folder
            ):
                try:
                    content = baselines.load(path)
                except BaselineError:
                    continue  # not this environment's; its own run says so
                if test in content.tests:
                    found.append(content.environment.full)
        return found

    def put(self, environment: Environment, module: str, test: str, window: str, entry: Entry) -> None:
        """Replace the baseline of a window; `save` writes it."""
        path = baselines.path_of(self.root, environment, module)
        content = self._changed.get(path) or self._content(environment, module)
        windows = {**content.tests.get(test, {}), window: entry}
        self._changed[path] = Baselines(environment, {**content.tests, test: windows})

    def save(self) -> list[Path]:
        """Write the changed files and return them. Raises BaselineError at the first that cannot be written."""
        for path, content in self._changed.items():
            baselines.save(path, content)
        return list(self._changed)

    def _content(self, environment: Environment, module: str) -> Baselines:
        path = baselines.path_of(self.root, environment, module)
        if path not in self._read:
            self._read[path] = _read(path, environment)
        content = self._read[path]
        if isinstance(content, BaselineError):
            raise content
        return content


def _read(path: Path, environment: Environment) -> Baselines | BaselineError:
    if not path.exists():
        return Baselines(environment)
    try:
        content = baselines.load(path)
    except BaselineError as error:
        return error
    if content.environment != environment:
        return BaselineError(
            f"{path}: holds baselines of {content.environment.full}, but its folder is that of {environment.full}."
            " Move the file, or delete it and run pytest --opprof-update"
        )
    return content

"""Find stale baselines, whose test, parameter or window is gone: only if this run can know."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import BaselineError
from ..results.test_id import is_file, split_id
from .entry import Baselines
from .files import paths


class Collected:
    """The existing tests, by module, as far as this run collected them.

    A module with only some requested tests (``test_a.py::test_b``, ``--lf``) tells nothing about the others.
    """

    def __init__(self, root: Path, asked: Iterable[str], base: Path, partial: bool = False) -> None:
        self._root = root
        self._partial = partial
        self._in_part = {(base / ask.partition("::")[0]).resolve() for ask in asked if "::" in ask}
        self.tests: dict[str, set[str]] = {}

    def add(self, tests: Iterable[str]) -> None:
        """Remember that these tests exist."""
        for each in tests:
            module, test = split_id(each)
            self.tests.setdefault(module, set()).add(test)

    def plain(self) -> dict[str, list[str]]:
        """Return the tests as plain data, for the controlling process."""
        return {module: sorted(tests) for module, tests in self.tests.items()}

    def merge(self, plain: Mapping[str, Any]) -> None:
        """Add a worker's collected tests."""
        for module, tests in plain.items():
            self.tests.setdefault(module, set()).update(tests)

    def knows(self, module: str) -> bool:
        """Return True if this run knows the tests of *module*."""
        return module in self.tests or not self.has_file(module)

    def is_in_part(self, module: str) -> bool:
        """Return True if the user named single tests of *module*, so that others in its file are unknown."""
        return (self._root / module).resolve() in self._in_part

    def has_file(self, module: str) -> bool:
        """Return True if the file of *module* exists; True for a dotted name, whose file is unknown."""
        return not is_file(module) or (self._root / module).exists()

    def is_gone(self, module: str, test: str, parameters: bool = True) -> bool:
        """Return True if the test surely no longer exists, with all its *parameters* or with any."""
        if not self.has_file(module):
            return True
        if self._partial or module not in self.tests or self.is_in_part(module):
            return False
        if parameters:
            return test not in self.tests[module]
        return test.partition("[")[0] not in {each.partition("[")[0] for each in self.tests[module]}


def stale(
    root: Path,
    folders: Iterable[str],
    collected: Collected,
    read: Callable[[Path], Baselines | BaselineError],
    any_device: bool = True,
) -> Iterator[tuple[Path, str]]:
    """Yield (file, test) for each baseline in the environment *folders* below *root* whose test is gone.

    Parameters of a test count only for the CPU unless *any_device*: other devices may have other ones.

    An unreadable file is ignored here: the tests that need it report it.
    """
    for path in paths.files(root):
        if path.relative_to(root).parts[0] in folders:
            module = paths.module_of(root, path)
            if not collected.knows(module):
                continue
            content = read(path)
            if isinstance(content, BaselineError):
                continue
            parameters = any_device or content.environment.device == "cpu"
            yield from ((path, test) for test in sorted(content.tests) if collected.is_gone(module, test, parameters))


def renamed(
    root: Path,
    folders: Collection[str],
    collected: Collected,
    read: Callable[[Path], Baselines | BaselineError],
    lacking: Mapping[str, Collection[str]],
) -> Iterator[tuple[str, str, int]]:
    """Yield (old module, new module, number of tests) if a file that is gone has the baselines that a new one is
    *lacking*.

    *lacking* are the tests without a baseline by module.
    """
    gone = dict[str, set[str]]()
    for path in paths.files(root):
        module = paths.module_of(root, path)
        if path.relative_to(root).parts[0] in folders and not collected.has_file(module):
            content = read(path)
            gone.setdefault(module, set()).update(content.tests if isinstance(content, Baselines) else ())
    for new, tests in lacking.items():
        same, old = max(((len(there & set(tests)), module) for module, there in gone.items()), default=(0, ""))
        if same:
            yield old, new, same

"""Paths of baseline files: one of calls, times, call sites and Python functions for a test module and environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path, PurePath, PurePosixPath

from ...profile.environment import Environment

_PARENT = "_parent_"
_TIMES, _SITES, _PYTHON = ".times", ".sites", ".python"
# The suffixes of the files beside the file of calls, and their replacement for a module named ``package.times``.
_MODULES = {_TIMES: "._times_", _SITES: "._sites_", _PYTHON: "._python_"}


@lru_cache(maxsize=256)  # a run asks three times for each test
def path_of(root: Path, environment: Environment, module: str) -> Path:
    """Return the file for the calls of the tests of *module* (the part of a node id before ``::``)."""
    # A module outside the root directory must not lead out of the folder.
    parts = [_PARENT if part == ".." else part for part in PurePosixPath(module).parts if part != "/"]
    name = _replaced(parts[-1], _MODULES)
    return root.joinpath(environment.folder, *parts[:-1], f"{name}.json")


def module_of(root: PurePath, path: PurePath) -> str:
    """Return the module whose calls *path* holds: the inverse of `path_of`."""
    parts = path.relative_to(root).parts[1:]
    name = "/".join(".." if part == _PARENT else part for part in parts).removesuffix(".json")
    return _replaced(name, {module: end for end, module in _MODULES.items()})


def times_of(path: Path) -> Path:
    """Return the file of times that belongs to the file of calls at *path*: ``test_a.py.times.json``."""
    return path.with_name(f"{path.stem}{_TIMES}.json")


def sites_of(path: Path) -> Path:
    """Return the file of call sites that belongs to the file of calls at *path*: ``test_a.py.sites.json``."""
    return path.with_name(f"{path.stem}{_SITES}.json")


def python_of(path: Path) -> Path:
    """Return the file of Python functions that belongs to the file of calls at *path*: ``test_a.py.python.json``."""
    return path.with_name(f"{path.stem}{_PYTHON}.json")


def files(root: Path) -> Iterator[Path]:
    """Yield every file of calls below *root*, sorted."""
    yield from filter(has_calls, _all(root))


def has_calls(path: PurePath) -> bool:
    """Return True if the baseline file at *path* is one of calls, by its name."""
    return path.suffix == ".json" and not path.stem.endswith((_TIMES, _SITES, _PYTHON))


def lone_times(root: Path) -> Iterator[Path]:
    """Yield every file of times below *root* that has no file of calls, sorted."""
    yield from _lone(root, _TIMES)


def lone_sites(root: Path) -> Iterator[Path]:
    """Yield every file of call sites below *root* that has no file of calls, sorted."""
    yield from _lone(root, _SITES)


def lone_python(root: Path) -> Iterator[Path]:
    """Yield every file of Python functions below *root* that has no file of calls, sorted."""
    yield from _lone(root, _PYTHON)


def _lone(root: Path, end: str) -> Iterator[Path]:
    belong = {path.with_name(f"{path.stem}{end}.json") for path in files(root)}
    yield from (path for path in _all(root) if path.stem.endswith(end) and path not in belong)


def _replaced(name: str, ends: Mapping[str, str]) -> str:
    return next((name.removesuffix(end) + instead for end, instead in ends.items() if name.endswith(end)), name)


def _all(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("*/**/*.json") if path.is_file())

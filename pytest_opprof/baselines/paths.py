"""Where baseline files are: two a test module and environment, of calls and of times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ..profile.environment import Environment

_PARENT = "_parent_"
_TIMES, _TIMES_MODULE = ".times", "._times_"
"""What the name of a file of times ends in, and the module ``package.times``, whose file of calls must not."""


def path_of(root: Path, environment: Environment, module: str) -> Path:
    """Return the file for the calls of the tests of *module* (the part of a node id before ``::``)."""
    # A module outside the root directory must not lead out of the folder.
    parts = [_PARENT if part == ".." else part for part in PurePosixPath(module).parts if part != "/"]
    name = f"{parts[-1].removesuffix(_TIMES)}{_TIMES_MODULE}" if parts[-1].endswith(_TIMES) else parts[-1]
    return root.joinpath(environment.folder, *parts[:-1], f"{name}.json")


def module_of(root: Path, path: Path) -> str:
    """Return the module whose calls *path* holds: the inverse of `path_of`."""
    parts = path.relative_to(root).parts[1:]
    name = "/".join(".." if part == _PARENT else part for part in parts).removesuffix(".json")
    return name.removesuffix(_TIMES_MODULE) + _TIMES if name.endswith(_TIMES_MODULE) else name


def times_of(path: Path) -> Path:
    """Return the file of times that belongs to the file of calls at *path*: ``test_a.py.times.json``."""
    return path.with_name(f"{path.stem}{_TIMES}.json")


def files(root: Path) -> Iterator[Path]:
    """Yield every file of calls below *root*, sorted."""
    yield from (path for path in _all(root) if not path.stem.endswith(_TIMES))


def lone_times(root: Path) -> Iterator[Path]:
    """Yield every file of times below *root* that has no file of calls, sorted."""
    belong = {times_of(path) for path in files(root)}
    yield from (path for path in _all(root) if path.stem.endswith(_TIMES) and path not in belong)


def _all(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("*/**/*.json") if path.is_file())

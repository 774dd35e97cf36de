"""Where baseline files are: one a test module and environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ..profile.environment import Environment

if TYPE_CHECKING:
    pass


_PARENT = "_parent_"


def path_of(root: Path, environment: Environment, module: str) -> Path:
    """Return the file for the tests of *module* (the part of a node id before ``::``)."""
    # A module outside the root directory must not lead out of the folder.
    parts = [_PARENT if part == ".." else part for part in PurePosixPath(module).parts if part != "/"]
    return root.joinpath(environment.folder, *parts[:-1], f"{parts[-1]}.json")


def module_of(root: Path, path: Path) -> str:
    """Return the module whose baselines *path* holds: the inverse of `path_of`."""
    parts = path.relative_to(root).parts[1:]
    return "/".join(".." if part == _PARENT else part for part in parts).removesuffix(".json")


def files(root: Path) -> Iterator[Path]:
    """Yield every baseline file below *root*, sorted."""
    yield from sorted(path for path in root.glob("*/**/*.json") if path.is_file())

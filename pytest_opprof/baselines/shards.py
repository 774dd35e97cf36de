"""Merge the baselines that several machines wrote, each for its part of the tests.

All parts began from the same baselines, the target's, or from none. A part therefore decides about an entry only if it
differs from the target's, and a part that lacks a test does not remove it: the test ran on another machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import BaselineError, UsageError
from ..profile.environment import Environment
from .entry import WindowBaseline
from .files import paths
from .store import Store
from .three_way import Merge, Window, merged_sites, of_one


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged parts."""

    store: Store
    """Of the target, with the changes; `Store.save` writes them."""
    changed: set[str] = field(default_factory=set)
    """The tests whose entries change."""
    conflicts: list[str] = field(default_factory=list)
    """The disagreements of parts, in words."""


def merge(target: Path, parts: Sequence[Path]) -> Merged:
    """Merge *parts* into *target*, without writing it yet. Raises BaselineError and UsageError."""
    found = Merged(Store(target))
    modules: dict[tuple[Environment, str], dict[Path, Store]] = {}
    for part in parts:
        store = Store(part)
        if not (files := list(paths.files(part))):
            raise UsageError(f"{part}: holds no baselines; name a folder that pytest --opprof-update wrote")
        for path in files:
            if isinstance(content := store.at(path), BaselineError):
                raise content
            folder = path.relative_to(part).parts[0]
            if folder != content.environment.folder:
                raise UsageError(
                    f"{path}: belongs in a folder {content.environment.folder} of the part, not in {folder}."
                    f" If that holds such folders, name {part / folder}"
                )
            modules.setdefault((content.environment, paths.module_of(part, path)), {})[part] = store
    for (environment, module), having in modules.items():
        _merge_module(found, environment, module, having)
    return found


def _merge_module(found: Merged, environment: Environment, module: str, parts: Mapping[Path, Store]) -> None:
    base, target = _windows(found.store, environment, module), found.store
    merged, whence = dict(base), dict[Window, Path]()
    for part, store in parts.items():
        theirs = _windows(store, environment, module)
        tests = {test for test, _ in theirs}
        # An update drops the windows that a test no longer has.
        for where in [*theirs, *(each for each in base if each[0] in tests and each not in theirs)]:
            merge = Merge(f"in {whence.get(where, target.root)}", f"in {part}")
            before, one, other = base.get(where), merged.get(where), theirs.get(where)
            after = of_one(where, before, one, other, merge.window)
            said = merge.conflicts.get(where, ())
            found.conflicts.extend(f"{module}::{where[0]} ({where[1]}): {each}" for each in said)
            if after != one:
                whence.setdefault(where, part)
            if after is None:
                merged.pop(where, None)
            else:
                merged[where] = after
    for where in {**base, **merged}:
        if (entry := merged.get(where)) != base.get(where):
            found.changed.add(f"{module}::{where[0]}")
            if entry is None:
                target.drop(environment, module, *where)
            else:
                target.put_here(environment, module, *where, entry)
        if entry is not None:
            _merge_beside(target, (environment, module, *where), list(parts.values()))


def _merge_beside(target: Store, where: tuple[Environment, str, str, str], parts: Sequence[Store]) -> None:
    """Merge the lines and the Python functions of a window."""
    before = {} if isinstance(kept := target.sites(*where), str) else kept
    sites = before
    for store in parts:
        if not isinstance(theirs := store.sites(*where), str):
            sites = merged_sites(before, sites, theirs) if before else {**theirs, **sites}
    if sites != before:
        target.put_sites(*where, sites)
    now = target.functions(*where)
    for store in parts:
        if not isinstance(functions := store.functions(*where), str) and functions != now:
            target.put_functions(*where, functions)
            break


def _windows(store: Store, environment: Environment, module: str) -> dict[Window, WindowBaseline]:
    path = paths.path_of(store.root, environment, module)
    if not path.exists():
        return {}
    if isinstance(content := store.at(path), BaselineError):
        raise content
    return content.windows

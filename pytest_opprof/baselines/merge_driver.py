"""A merge driver for git: merge three versions of one baseline file by entries and ops instead of lines."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..errors import BaselineError
from ..machine.scratch import scratch
from .entry import NOTHING, Baselines, WindowBaseline
from .files import file, paths, python_file, sites_file
from .three_way import Merge, Window, by_key, merged_sites

_VERSIONS = ("the common version", "ours", "theirs")


def merge(base: Path, ours: Path, theirs: Path, name: Path) -> Mapping[Window, list[str]]:
    """Write the merge of *ours* and *theirs* against *base* to *ours*; return the conflicts.

    *name* is the file's path in the repository. An empty file has no entries: both sides added it. Raises BaselineError
    for an unreadable file, or if no entry is left; *ours* stays as it is then.
    """
    found = Merge("in ours", "in theirs")
    at, merge_files = _kind(name)
    with scratch() as folder:
        # Readers find a file beside the file of calls by its name, so each version lies in a folder of its own.
        versions = [folder / said / "test.py.json" for said in _VERSIONS]
        for source, version in zip((base, ours, theirs), versions):
            version.parent.mkdir()
            if source.stat().st_size:
                shutil.copyfile(source, at(version))
        merged = folder / "test.py.json"
        try:
            merge_files(versions, merged, found)
        except BaselineError as error:
            said = str(error)
            said = said.replace(str(merged), str(name))
            for version, word in zip(versions, _VERSIONS):
                said = said.replace(str(at(version)), f"{name} ({word})")
            raise BaselineError(said) from None
        if not os.path.exists(at(merged)):
            raise BaselineError(f"{name}: together the two sides removed all entries; remove the file: git rm")
        ours.write_bytes(at(merged).read_bytes())
    return found.conflicts


_Files = Callable[[Sequence[Path], Path, Merge], None]


def _kind(name: Path) -> tuple[Callable[[Path], Path], _Files]:
    """Return the function that locates the file beside a file of calls, and the function that merges three of them."""
    if paths.has_calls(name):
        return (lambda path: path), _merge_calls
    by_end: dict[str, tuple[Callable[[Path], Path], _Files]] = {
        ".times": (paths.times_of, _merge_times),
        ".sites": (paths.sites_of, _merge_sites),
        ".python": (paths.python_of, _merge_functions),
    }
    return by_end[Path(name.stem).suffix]


def _merge_calls(versions: Sequence[Path], merged: Path, found: Merge) -> None:
    _merge_entries([file.load(path) if os.path.exists(path) else None for path in versions], merged, found)


def _merge_times(versions: Sequence[Path], merged: Path, found: Merge) -> None:
    _merge_entries([_times(path) if os.path.exists(paths.times_of(path)) else None for path in versions], merged, found)


def _times(path: Path) -> Baselines:
    """Return the content of a file of times by itself: entries without calls, so that its times belong to others."""
    beside = paths.times_of(path)
    content, times = file.load_times(beside), beside.read_bytes()
    windows = [
        (test, window) for by_test in (content.times, content.coarse) for test in by_test for window in by_test[test]
    ]
    file.save(path, Baselines(content.environment.environment, _by_test(dict.fromkeys(windows, NOTHING))))
    beside.write_bytes(times)  # saving calls alone has removed them
    return file.load(path)


def _merge_entries(versions: Sequence[Baselines | None], merged: Path, found: Merge) -> None:
    environments = {each.environment for each in versions if each}
    if len(environments) != 1:
        raise BaselineError(f"{merged}: its versions come from different environments, so they cannot be merged")
    base, ours, theirs = (each.windows if each else {} for each in versions)
    file.save(merged, Baselines(environments.pop(), _by_test(by_key(base, ours, theirs, found.window))))


def _merge_sites(versions: Sequence[Path], merged: Path, found: Merge) -> None:
    base, ours, theirs = (
        sites_file.ModuleSites(sites_file.load(at)).windows() if os.path.exists(at := paths.sites_of(path)) else {}
        for path in versions
    )
    both = by_key(base, ours, theirs, lambda _, *sides: merged_sites(*(each or {} for each in sides)))
    sites_file.save(merged, ((*where, sites) for where, sites in both.items()), _kept(both))


def _merge_functions(versions: Sequence[Path], merged: Path, found: Merge) -> None:
    for at in map(paths.python_of, versions):
        if os.path.exists(at):
            python_file.load(at)  # which reports the error in it
    read = [python_file.read(path) for path in versions]
    base, ours, theirs = ({} if isinstance(each, str) else each for each in read)
    # It judges nothing, so ours wins if both changed it.
    both = by_key(base, ours, theirs, lambda _, before, one, other: one or other)
    python_file.save(merged, ((*where, functions) for where, functions in both.items()), _kept(both))


def _by_test(entries: Mapping[Window, WindowBaseline]) -> dict[str, dict[str, WindowBaseline]]:
    found: dict[str, dict[str, WindowBaseline]] = {}
    for (test, window), entry in entries.items():
        found.setdefault(test, {})[window] = entry
    return found


def _kept(windows: Mapping[Window, object]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for test, window in windows:
        found.setdefault(test, set()).add(window)
    return found

"""The source lines of ops when their baseline was recorded: ``test_x.py.sites.json`` beside the file of calls.

It judges nothing. It is read only if a test fails, to tell which lines have more calls than before, and its errors are
reported there. Lines have no numbers, so that moved code changes nothing. Frames and chains are named by their content:
a new one changes no other, and additions of two branches merge as a rule.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ...errors import BaselineError
from ...machine.atomic_write import write_atomically
from ...results.document import laid_out, read_document
from ...sites.places import Calls, Place, Site, WindowSites, near
from .paths import sites_of
from .schemas import SITES_SCHEMA, check_version

if TYPE_CHECKING:
    from .file_types import KeptSites, SitesFile

_Said = TypeVar("_Said", bound=Hashable)
# The length of a frame's or chain's name: one in a million others shares five letters, and then both get longer.
_LEAST_LETTERS = 5
# A test, a window, and the source lines of its ops.
SiteChange = tuple[str, str, WindowSites]


@dataclass(frozen=True, slots=True)
class ModuleSites:
    """The stored sites of the tests of one module."""

    file: SitesFile

    def of(self, test: str, window: str) -> WindowSites | None:
        """Return the sites of a window, None if none are stored."""
        kept = self.file.tests.get(test, {}).get(window)
        return None if kept is None else self._of(kept)

    def windows(self) -> dict[tuple[str, str], WindowSites]:
        """Return the sites of all windows, by test and window."""
        tests = self.file.tests.items()
        return {(test, window): self._of(kept) for test, windows in tests for window, kept in windows.items()}

    def _of(self, kept: KeptSites) -> WindowSites:
        found: dict[str, dict[Site, Calls]] = {}
        for by_chain, works, is_backward in (
            (kept.calls, kept.work, False),
            (kept.backward, kept.backward_work, True),
        ):
            for chain, by_op in by_chain.items():
                work = works.get(chain, {})
                frames = (self.file.frames[name] for name in self.file.chains[chain])
                site = Site(tuple(Place(each.file, each.function, each.text) for each in frames), is_backward)
                for op, calls in by_op.items():
                    fewest, most = (calls, calls) if isinstance(calls, int) else calls
                    found.setdefault(op, {})[site] = Calls(fewest, most, *work.get(op, ()))
        return found


def read(path: Path) -> ModuleSites | str:
    """Return the sites beside the file of calls at *path*, or in words why they are unusable."""
    at = sites_of(path)
    if not os.path.exists(at):  # which raises nothing
        return f"no source lines are stored: {at} does not exist; pytest --opprof-update writes it"
    try:
        return ModuleSites(load(at))
    except BaselineError as error:
        return f"no source lines are stored: {error}"


def load(path: Path) -> SitesFile:
    """Read and check a file of sites by itself. Raises BaselineError."""
    from ...results.json_schema import decoded
    from .file_types import SitesFile

    document = read_document(path, "file of call sites")
    check_version(document, path, SITES_SCHEMA)
    try:
        file = decoded(document, SitesFile)
    except ValueError as error:
        raise _broken(path, str(error)) from None
    for name, frames in file.chains.items():
        if unknown := set(frames) - file.frames.keys():
            raise _broken(path, f"['chains'][{name!r}]: there is no frame {min(unknown)!r}")
    for test, windows in file.tests.items():
        for window, kept in windows.items():
            where = f"['tests'][{test!r}][{window!r}]"
            if unknown := (kept.calls.keys() | kept.backward.keys()) - file.chains.keys():
                raise _broken(path, f"{where}: there is no chain {min(unknown)!r}")
            for by_op in (*kept.calls.values(), *kept.backward.values()):
                for op, calls in by_op.items():
                    if isinstance(calls, list) and calls[0] > calls[1]:
                        raise _broken(path, f"{where}: {op!r} has {calls} calls: the least comes first")
    return file


def _broken(path: Path, problem: str) -> BaselineError:
    return BaselineError(f"{path}: {problem[:200]}. Restore the file, or delete it and run pytest --opprof-update")


def save(
    path: Path, changes: Iterable[SiteChange], kept: Mapping[str, Collection[str]], through: Path | None = None
) -> list[Path]:
    """Write the sites of windows beside the file of calls at *path*, and return the files that changed.

    Sites of windows that are not *kept* (by test: windows with calls) are dropped; a file without any is removed. An
    unreadable file is replaced if there is anything to write, and otherwise left alone. A write is atomic; unfinished
    files lie in the folder *through*, or beside the target. Raises BaselineError if it cannot be written.
    """
    from msgspec import to_builtins

    at, before, new = sites_of(path), read(path), list(changes)
    if isinstance(before, str) and not new:
        return []
    windows = {} if isinstance(before, str) else before.windows()
    windows |= {(test, window): {op: near(of_op) for op, of_op in sites.items()} for test, window, sites in new}
    document = _document({where: sites for where, sites in windows.items() if where[1] in kept.get(where[0], ())})
    same = not isinstance(before, str) and before.file == document
    if same or (not document.tests and not os.path.exists(at)):
        return []
    try:
        if document.tests:
            write_atomically(at, laid_out(to_builtins(document)), through)
        else:
            at.unlink()
    except OSError as error:
        raise BaselineError(f"{at}: cannot be written: {error.strerror or error}") from error
    return [at]


def _document(windows: Mapping[tuple[str, str], WindowSites]) -> SitesFile:
    from .file_types import Frame, KeptSites, SitesFile

    ops = (of_op for sites in windows.values() for of_op in sites.values())
    used = {site.chain for of_op in ops for site, calls in of_op.items() if calls.most}
    chains, frames = _names(used), _names({place for chain in used for place in chain})
    tests: dict[str, dict[str, KeptSites]] = {}
    for (test, window), sites in windows.items():
        kept = tests.setdefault(test, {})[window] = KeptSites({}, {})
        for op, of_op in sites.items():
            for site, calls in of_op.items():
                if calls.most:
                    by_chain = kept.backward if site.is_backward else kept.calls
                    by_chain.setdefault(chains[site.chain], {})[op] = _kept(calls)
                    if calls.bytes is not None or calls.flops is not None:
                        work = kept.backward_work if site.is_backward else kept.work
                        work.setdefault(chains[site.chain], {})[op] = [calls.bytes, calls.flops]
    return SitesFile(
        {name: [frames[place] for place in chain] for chain, name in chains.items()},
        {name: Frame(*place) for place, name in frames.items()},
        SITES_SCHEMA,
        tests,
    )


def _kept(calls: Calls) -> int | list[int]:
    return calls.most if calls.fewest == calls.most else [calls.fewest, calls.most]


def _names(every: Iterable[_Said]) -> dict[_Said, str]:
    """Return a short name for each, made of its content."""
    left = {each: hashlib.sha256(json.dumps(each).encode()).hexdigest() for each in every}
    found: dict[_Said, str] = {}
    letters = _LEAST_LETTERS
    while left:
        same = Counter(digest[:letters] for digest in left.values())
        found |= {each: digest[:letters] for each, digest in left.items() if same[digest[:letters]] == 1}
        left = {each: digest for each, digest in left.items() if same[digest[:letters]] > 1}
        letters += 1
    return found

"""A path or URL of the command line, opened by its content: profile, run, baseline file or folder of baselines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ...errors import UsageError
from ...frameworks.files import formats
from ...profile.saved import SavedProfile
from . import reading
from .reading import Asked
from .remote import Url

if TYPE_CHECKING:
    from typing_extensions import Self

    from ...baselines.entry import Baselines
    from ...results.run_result import RunResult

Document = dict[str, Any] | None
"""The JSON of a file that was read to see what it is."""
_HEAD_BYTES = 4096
_FILES = 100
"""So many files of a folder are looked at, to tell baselines from profiles."""
_OF_BASELINES = re.compile(rb'\{\s*"environment"')
_SCHEMA = re.compile(rb'"schema"\s*:\s*\d')
"""No profile has it: the JSON of a run begins with it, a baseline file has it behind its environment."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The content of a path."""

    path: Path
    WHAT: ClassVar[str]
    """Its kind, in messages."""
    NAME_ONE: ClassVar[str]
    """How a message asks for one."""

    @classmethod
    def read(cls, path: Path, asked: Asked, document: Document) -> Self:
        """Read it. Raises TraceError, BaselineError and UsageError."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Profiles(Opened):
    """Saved profiles: one, or of a folder with several ranks each that is asked for. A graph is one, too."""

    each: Sequence[tuple[formats.Found, SavedProfile]] = ()
    left_out: Sequence[str] = field(default=(), kw_only=True)
    """The ranks that could not be read, and why."""
    WHAT = "a saved profile"
    NAME_ONE = "a saved profile"

    @classmethod
    def read(cls, path: Path, asked: Asked, document: Document) -> Self:
        """Read it. Raises TraceError and UsageError."""
        each, left_out = reading.read(path, asked)
        return cls(path, each, left_out=left_out)

    def one(self, command: str) -> tuple[formats.Found, SavedProfile]:
        """Return the one profile that *command* takes. Raises UsageError where there are several."""
        if len(self.each) > 1:
            raise UsageError(f"opprof {command} takes one rank at a time: --rank N")
        return self.each[0]


@dataclass(frozen=True, slots=True)
class RunFile(Opened):
    """The JSON of a run, or of one of its shards or ranks."""

    run: RunResult
    WHAT = "the JSON of a run"
    NAME_ONE = "the JSON of pytest --opprof --opprof-json=FILE"

    @classmethod
    def read(cls, path: Path, asked: Asked, document: Document) -> Self:
        """Read it. Raises BaselineError."""
        # Imported here, with msgspec behind it: to read a profile needs none of it.
        from ...results.run_result import run_of_document

        return cls(path, run_of_document(_document(path) if document is None else document, path))


@dataclass(frozen=True, slots=True)
class BaselineFile(Opened):
    """The baseline file of a test module: its calls."""

    content: Baselines
    WHAT = "a baseline file"
    NAME_ONE = "a baseline file"

    @classmethod
    def read(cls, path: Path, asked: Asked, document: Document) -> Self:
        """Read it. Raises BaselineError and UsageError."""
        from ...baselines.files import file

        if "times" in (_document(path) if document is None else document):
            calls = path.name.replace(".times.json", ".json")
            raise UsageError(f"{path}: holds the times of baselines; name the file of their calls, {calls}")
        return cls(path, file.load(path))


@dataclass(frozen=True, slots=True)
class BaselineFolder(Opened):
    """The folder of a project's baselines."""

    WHAT = "a folder of baselines: list it with opprof baselines list or opprof history"
    NAME_ONE = "the folder of the baselines"

    @classmethod
    def read(cls, path: Path, asked: Asked, document: Document) -> Self:
        """Return it. Raises UsageError where there is none."""
        if not path.is_dir():
            raise UsageError(f"there is no folder {path}; name that of the baselines with --dir")
        return cls(path)


@dataclass(frozen=True, slots=True)
class PartOfBaselines(Opened):
    """A folder inside the folder of baselines; no command takes it."""

    WHAT = (
        "a folder of baseline files, a part of a project's baselines: opprof baselines list lists them all (--dir DIR"
        " if they are not in ./baselines), opprof diff compares two files"
    )


@dataclass(frozen=True, slots=True)
class BesideBaselines(Opened):
    """The file of source lines or Python functions beside a baseline file; no command takes it."""

    WHAT = "a file of source lines or Python functions, which belongs to the baseline file beside it"


_Kind = TypeVar("_Kind", bound=Opened)


def opened(path: Path | Url, asked: Asked, *kinds: type[_Kind]) -> _Kind:
    """Return the content of *path*, one of *kinds*.

    Raises TraceError, BaselineError, and UsageError for another kind.
    """
    found, document = (Profiles, None) if isinstance(path, Url) or asked.source is not None else _kind(path, kinds)
    for kind in kinds:
        if kind is found:
            return kind.read(path, asked, document)  # type: ignore[arg-type]  # a Url only where workers read it
    raise UsageError(f"{path}: is {found.WHAT}; name {' or '.join(kind.NAME_ONE for kind in kinds)}")


def _kind(path: Path, kinds: Sequence[type[Opened]]) -> tuple[type[Opened], Document]:
    """Return the kind of content of *path*, and its JSON if it was read for that.

    Where the content does not say, it is the kind that is asked for.
    """
    if path.is_dir():
        from ...baselines.files.paths import has_calls

        if BaselineFolder in kinds or _holds_baselines(path):
            return BaselineFolder, None
        return PartOfBaselines if any(
            map(_is_baseline, filter(has_calls, islice(path.glob("*.json"), _FILES)))
        ) else Profiles, None
    if _is_ours(path):
        document = _document(path)
        if {"environment", "times"} & document.keys():
            return BaselineFile, document
        # A run has a list of its tests, these files have them by name.
        return BesideBaselines if isinstance(document.get("tests"), dict) else RunFile, document
    return Profiles if Profiles in kinds or len(kinds) > 1 else kinds[0], None


def _holds_baselines(folder: Path) -> bool:
    from ...baselines.files.paths import files

    return any(_is_ours(path) for path in islice(files(folder), 1))


def _is_ours(path: Path) -> bool:
    """Tell whether a file is JSON of this plugin, which says the version of its schema at its beginning."""
    head = _head(path)
    return head.startswith(b"{") and bool(_SCHEMA.search(head))


def _is_baseline(path: Path) -> bool:
    """Tell whether a file is one of baselines, of calls or times: they begin with the environment."""
    head = _head(path)
    return bool(_OF_BASELINES.match(head) and _SCHEMA.search(head))


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES).lstrip()
    except OSError:
        return b""  # the readers of profiles have the message


def _document(path: Path) -> dict[str, Any]:
    from ...results.document import read_document

    return read_document(path, "JSON of a run")

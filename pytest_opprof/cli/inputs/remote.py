"""Profiles in stores: a URL is copied to a temporary folder, and messages name the URL.

Readers seek in files, map them into memory and look at the files beside them. So each file is copied once, in blocks,
and the copy goes when the command ends. fsspec speaks to the stores; it is imported for a URL only.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from ...errors import TraceError, UsageError
from ...frameworks.files.formats import MOST_FILES
from ...machine.scratch import scratch

_Value = TypeVar("_Value")
_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*::)*[A-Za-z][A-Za-z0-9+.-]*://")
_BLOCK = 4 << 20
"""Bytes read from a store at once."""
_ROOM = 1 << 30
"""Bytes of the disk that a copy leaves free."""
_TRIES = 4
"""How often something is asked for that a connection broke."""
_PAUSE_S = 0.5
"""Before the second try; then twice as long each time."""
_SHOWS_PROGRESS = 20_000_000
_NO_CREDENTIALS = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "DefaultCredentialsError",
    "CredentialRetrievalError",
}
"""Classes of botocore and google-auth, by name: neither is imported here."""


if TYPE_CHECKING:
    _Path = Path
else:
    _Path = type(Path())  # of this system; Python before 3.12 has no other class to derive from


@dataclass(frozen=True)
class Url:
    """A URL that the user gave in place of a path."""

    text: str

    def __str__(self) -> str:
        return shown(self.text)


class Copied(_Path):
    """The path of a copy, which says the URL that it is a copy of; programs and the system get where it lies.

    All paths made of it do the same. Methods that some versions of Python build on the text use the copy.
    """

    def __str__(self) -> str:
        local = super().__str__()
        root, url = _copy_of(local)
        return url.rstrip("/") + local[len(root) :].replace(os.sep, "/") if url else local

    def __fspath__(self) -> str:
        return super().__str__()

    def __reduce__(self) -> tuple[Callable[..., Path], tuple[str, str, str]]:
        local = os.fspath(self)
        return _restored, (local, *_copy_of(local))

    def absolute(self) -> Path:  # type: ignore[override]
        """Return where it lies."""
        return Path(os.fspath(self)).absolute()

    def iterdir(self) -> Generator[Copied, None, None]:
        """Yield the files and folders in it."""
        yield from map(Copied, Path(os.fspath(self)).iterdir())

    def glob(self, pattern: str) -> Generator[Copied, None, None]:
        """Yield each match in the folder."""
        yield from map(Copied, Path(os.fspath(self)).glob(pattern))

    def rglob(self, pattern: str) -> Generator[Copied, None, None]:
        """Yield each match below the folder."""
        yield from map(Copied, Path(os.fspath(self)).rglob(pattern))


_COPIES: dict[str, str] = {}
"""By the path of a copy, the URL to say."""


def _copy_of(local: str) -> tuple[str, str]:
    """Return the copy that a path is in, and its URL; empty where there is none."""
    root = local
    while root and root not in _COPIES:
        root = root.rpartition(os.sep)[0]
    return root, _COPIES.get(root, "")


def _restored(local: str, root: str, url: str) -> Path:
    if url:
        _COPIES[root] = url
    return Copied(local)


def location(text: str) -> Path | Url:
    """Return the path that a word of the command line is, or the URL, which `copied` replaces by a path."""
    return Url(text) if _URL.match(text) else Path(text)


def shown(url: str) -> str:
    """Return a URL without its secrets, for logs: no password, no signature of a link.

    >>> shown("https://me:secret@host/a.json?X-Amz-Signature=1")
    'https://host/a.json'
    """
    return re.sub(r"//[^/@]*@", "//", re.sub(r"[?#].*", "", url))


@contextmanager
def copied(arguments: argparse.Namespace) -> Iterator[None]:
    """Replace each URL of *arguments* by the path of a copy, which lasts as long as the context.

    Raises UsageError and TraceError.
    """
    urls = [name for name, value in vars(arguments).items() if any(isinstance(each, Url) for each in _listed(value))]
    if getattr(arguments, "on", None):
        urls = [name for name in urls if name not in ("file", "files", "now")]  # workers copy them, each its part
    if not urls:
        yield
        return
    with scratch() as folder:
        number, paths = 0, dict[str, Path]()
        for name in urls:
            made = []
            for each in _listed(getattr(arguments, name)):
                if isinstance(each, Url) and each.text not in paths:
                    paths[each.text] = _Store(each.text).copy(folder / str(number))
                    number += 1
                made.append(paths[each.text] if isinstance(each, Url) else each)
            setattr(arguments, name, made if isinstance(getattr(arguments, name), list) else made[0])
        yield


def files_of(url: Url) -> list[str]:
    """Return the URLs of the files that a URL names. Raises UsageError and TraceError."""
    if "::" in url.text:
        raise UsageError(f"{url}: with --on a URL names files as they lie in a store, none inside of another file")
    return _Store(url.text).urls()


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


class _Store:
    """A store, and the file or folder of a URL in it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._is_http = url.startswith(("http://", "https://"))
        try:
            core = importlib.import_module("fsspec.core")
        except ImportError:
            raise UsageError(f"{shown(url)}: to read a URL needs fsspec: pip install 'pytest-opprof[remote]'") from None
        try:
            self._files, self._path = core.url_to_fs(url, **(_patient() if self._is_http else {}))
        except ImportError as error:
            raise UsageError(f"{shown(url)}: {error}. fsspec reads this store with that package") from None
        except Exception as error:
            raise self._told(error) from None

    def copy(self, folder: Path) -> Path:
        """Copy the file or folder of the URL into *folder*; return its path. Raises TraceError."""
        found = self._listing()
        if len(found) > MOST_FILES:
            raise TraceError(f"{shown(self._url)}: holds {len(found)} files; name a folder of at most {MOST_FILES}")
        known = sum(size or 0 for size in found.values())
        folder.mkdir()
        room = shutil.disk_usage(folder).free - _ROOM
        self._check_room(known, room, folder)
        name = PurePosixPath(urlsplit(self._path).path if self._is_http else self._path).name or "root"
        root = folder / name
        _COPIES[str(root)] = shown(self._url)
        progress = _Progress(known)
        try:
            for path, size in found.items():
                target = root / self._below(path)
                target.parent.mkdir(parents=True, exist_ok=True)
                room -= self._copy(path, target, size, room, progress)
        except OSError as error:
            raise TraceError(f"{shown(self._url)}: cannot be copied to {folder}: {error.strerror or error}") from None
        finally:
            progress.end()
        return Copied(root)

    def urls(self) -> list[str]:
        """Return the URL of each file. Raises TraceError."""
        return [str(self._files.unstrip_protocol(path)) for path in self._listing()]

    def _listing(self) -> dict[str, int | None]:
        """Return the files that the URL names, with their sizes. Raises TraceError."""

        def listed() -> dict[str, int | None]:
            is_page = self._is_http and self._path.endswith("/")
            info: dict[str, Any] = {"type": "directory"} if is_page else self._files.info(self._path)
            if info["type"] != "directory":
                return {str(self._path): info.get("size")}
            found: dict[str, dict[str, Any]] = self._files.find(self._path, detail=True)
            return {path: found[path].get("size") for path in sorted(found)}

        if not (found := self._tried(listed)):
            raise TraceError(f"{shown(self._url)}: is an empty folder, or there is none")
        return found

    def _below(self, path: str) -> str:
        """Return the place of a file below the URL. Raises TraceError for a file elsewhere."""
        below = PurePosixPath(path.removeprefix(self._path.rstrip("/")).lstrip("/"))
        if ".." in below.parts:
            raise TraceError(f"{shown(self._url)}: holds a file {path!r}, which is outside of it")
        return str(below)

    def _copy(self, path: str, target: Path, size: int | None, room: int, progress: _Progress) -> int:
        """Copy a file, from where it was cut if the store can do that; return how many bytes there are."""
        with open(target, "wb") as to:

            def copy() -> int:
                at = to.tell()
                # Without blocks, HTTP is read in one stream: a server need not know ranges.
                how = {"block_size": 0} if self._is_http and not at else {}
                with self._files.open(path, "rb", **how) as source:
                    try:
                        if at:
                            source.seek(at)
                        piece = source.read(_BLOCK)
                    except ValueError:  # the server has no ranges: from the beginning
                        if not at:
                            raise
                        to.seek(0)
                        to.truncate()
                        return copy()
                    while piece:
                        self._check_room(to.tell() + len(piece), room, target.parent)
                        to.write(piece)
                        progress.more(len(piece))
                        piece = source.read(_BLOCK)
                if size is not None and to.tell() < size:
                    raise ConnectionError(f"the connection was cut after {to.tell()} of {size} bytes")
                return to.tell()

            return self._tried(copy)

    def _tried(self, what: Callable[[], _Value]) -> _Value:
        """Call *what* and return its result; try again where a connection broke. Raises TraceError."""
        for number in range(_TRIES):
            try:
                return what()
            except TraceError:
                raise
            except Exception as error:
                if number + 1 == _TRIES or self._why(error):
                    raise self._told(error) from None
                time.sleep(_PAUSE_S * 2**number)
        raise AssertionError

    def _check_room(self, size: int, room: int, folder: Path) -> None:
        if size > room:
            raise TraceError(
                f"{shown(self._url)}: {size >> 20} MiB do not fit into {folder}, which keeps {_ROOM >> 30} GiB free."
                " Set TMPDIR to a larger disk, or name a part of it"
            )

    def _told(self, error: Exception) -> TraceError:
        said = " ".join(str(error).replace(self._url, shown(self._url)).split())[:300]
        return TraceError(f"{shown(self._url)}: {self._why(error) or said or type(error).__name__}")

    def _why(self, error: BaseException) -> str:
        """Return the reason of an error that lasts; "" for an error that another try may mend."""
        chain, each = list[BaseException](), error
        while each is not None and each not in chain:
            chain.append(each)
            each = each.__cause__ or each.__context__  # type: ignore[assignment]
        status = next(filter(None, map(_status, chain)), 0)
        if _NO_CREDENTIALS & {type(each).__name__ for each in chain} or status == 401:
            return (
                "the store wants credentials, and there are none. Set those of the store"
                " (AWS_PROFILE, GOOGLE_APPLICATION_CREDENTIALS), or for a public bucket FSSPEC_S3_ANON=true"
            )
        if status == 403 or isinstance(error, PermissionError):
            return "the store refuses it (403): these credentials may not read it, or it does not exist"
        if status in (404, 410) or (isinstance(error, FileNotFoundError) and len(chain) == 1):
            return "is not there (404)"
        return ""


def _status(error: BaseException) -> int:
    """Return the status that a server answered with, as aiohttp and botocore keep it; 0 if none."""
    response = getattr(error, "response", None)
    kept = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
    status = kept or getattr(error, "status", 0)
    return status if isinstance(status, int) else 0


def _patient() -> dict[str, Any]:
    """Return options for HTTP without a limit of time for a whole file: that of aiohttp is five minutes."""
    try:
        timeout = importlib.import_module("aiohttp").ClientTimeout(total=None, sock_connect=30, sock_read=60)
    except ImportError:
        return {}  # fsspec says so
    return {"client_kwargs": {"timeout": timeout}}


class _Progress:
    """Says on a terminal how much was copied."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._done = 0
        self._said = -1
        self._shown = size > _SHOWS_PROGRESS and sys.stderr.isatty()

    def more(self, size: int) -> None:
        """Add so many bytes."""
        self._done += size
        percent = min(100 * self._done // self._size, 100) if self._shown else self._said
        if percent != self._said:
            self._said = percent
            print(f"\ropprof: copying from the store, {percent}%", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the line away."""
        if self._said >= 0:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

"""A file or folder that may be a saved profile. It is read in bounded memory and never written to."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, cast

from ...errors import TraceError

# Bytes that identify the format of a file.
HEAD = 1 << 16
# Bytes read from one compressed file, 8 GiB. A larger one is treated as a gzip bomb.
MOST_INFLATED = 1 << 33
_GZIP = b"\x1f\x8b"
_PIECE = 1 << 22


@dataclass(frozen=True)
class Place:
    """One file or folder."""

    path: Path
    progress: Callable[[int], None] = field(default=lambda size: None, compare=False)
    """Called with the number of bytes read from the disk, before inflation."""
    begin: int = 0
    """The number of inflated bytes to skip: lines that a program printed before its table."""

    def __str__(self) -> str:
        return str(self.path)

    @cached_property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.path.is_dir()

    @cached_property
    def head(self) -> bytes:
        """The first 64 KiB, inflated, without a byte order mark; empty for a folder or a file that cannot be read."""
        if self.is_folder:
            return b""
        pieces: list[bytes] = []
        try:
            with self.open() as file:
                # In small pieces, because a cut gzip file loses its last piece.
                while len(pieces) < HEAD >> 9 and (piece := file.read(1 << 9)):
                    pieces.append(piece)
        except TraceError:
            pass  # `read` raises the error
        return b"".join(pieces).removeprefix(b"\xef\xbb\xbf")

    def beginning(self) -> bytes:
        """Return the first 64 KiB, inflated, without a byte order mark. Raises TraceError."""
        with self.open() as file:
            return file.read(HEAD).removeprefix(b"\xef\xbb\xbf")

    @cached_property
    def is_compressed(self) -> bool:
        """Whether it is a gzip file, by its content."""
        with _translated(self.path), open(self.path, "rb") as file:
            return file.read(2) == _GZIP

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return self.path.stat().st_size

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file for reading in pieces, inflated. Raises TraceError for any error, also of a later read."""
        with _translated(self.path), open(self.path, "rb") as raw:
            counted = _Counted(raw, self.progress)
            if self.is_compressed:
                with gzip.GzipFile(fileobj=cast(BinaryIO, counted)) as inflated:
                    bounded = cast(BinaryIO, _Bounded(self.path, inflated))
                    bounded.read(self.begin)
                    yield bounded
            else:
                counted.read(self.begin)
                yield cast(BinaryIO, counted)

    def read(self, most: int) -> bytes:
        """Return the whole content, inflated, without a byte order mark. Raises TraceError beyond *most* bytes."""
        pieces, left = [], most
        # In pieces, because read(n) takes n bytes of memory for any file. If the size is known, one piece is enough,
        # and need not be joined.
        size = _PIECE if self.is_compressed else max(_PIECE, self.size + 1)
        with self.open() as file:
            while piece := file.read(min(size, left + 1)):
                pieces.append(piece)
                left -= len(piece)
                if left < 0:
                    raise TraceError(f"{self.path}: is larger than {most >> 20} MiB, which no profile of this kind is")
        return b"".join(pieces).removeprefix(b"\xef\xbb\xbf")

    def file(self, name: str) -> Place:
        """Return the file *name* in this folder (it need not exist)."""
        return Place(self.path / name, self.progress)

    def files(self, pattern: str) -> list[Place]:
        """Return the files in this folder (not below) whose names match, sorted."""
        return [Place(path, self.progress) for path in sorted(self.path.glob(pattern)) if path.is_file()]

    def children(self) -> list[Place]:
        """Return the content of this folder, sorted by name; links are not followed."""
        with _translated(self.path):
            paths = sorted(path for path in self.path.iterdir() if not path.is_symlink())
        return [Place(path, self.progress) for path in paths if path.is_dir() or path.is_file()]


class _Counted:
    """A file that reports how much of it was read."""

    def __init__(self, file: BinaryIO, progress: Callable[[int], None]) -> None:
        self._file = file
        self._progress = progress

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self._progress(len(piece))
        return piece


class _Bounded:
    """An inflated file that raises an error when it is larger than any profile."""

    def __init__(self, path: Path, file: gzip.GzipFile) -> None:
        self._path = path
        self._file = file
        self._left = MOST_INFLATED

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(self._left + 1 if size < 0 else size)
        self._left -= len(piece)
        if self._left < 0:
            raise TraceError(f"{self._path}: inflates to more than {MOST_INFLATED >> 30} GiB; this is no profile")
        return piece


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(f"{path}: is a broken gzip file ({error}); was it copied whole?") from None
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror or error})") from None

"""Choose the shown line of a call chain: the user's, also if a package or a helper of theirs called the op."""

from __future__ import annotations

import linecache
import os
import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..errors import UsageError
from .chains import Frame
from .code import Kind, first_part, in_package, is_test_tool, kinds
from .places import passes_on

if TYPE_CHECKING:
    from .changed import Changes

# The most lines of a statement that are read to see whether it passes all arguments on.
_MOST_LINES = 5


class Site(NamedTuple):
    """A line as it is shown."""

    file: str
    """Below the root directory, or below the folder of its package; else absolute. With slashes."""
    line: int
    function: str
    text: str
    """The source of the line, without the blanks around it; empty if unreadable."""
    via: str = ""
    """The place in a package that did the work for this line: ``einops/_backends.py:261 in TorchBackend.transpose``."""
    callers: tuple[Site, ...] = ()
    """The lines that called it and are shown, the nearest first."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}" if self.file else "a line that is not known"


class _File(NamedTuple):
    name: str
    """As it is shown."""
    is_shown: bool
    is_hidden: bool
    """By the user's choice."""


class Shown:
    """Chooses the innermost line of a file that is below the root directory and not of an installed package."""

    def __init__(self, rootdir: str | os.PathLike[str], show: Sequence[str] = (), hide: Sequence[str] = ()) -> None:
        """Choose also lines of the *show* names, and no lines of the *hide* names unless *show* has them.

        Both name packages and modules (``transformers``, ``mylib.dtypes``), or files and folders as they are shown
        (``mylib/dtypes.py``). Raises UsageError for a test tool in *show*.
        """
        self._root = os.path.abspath(rootdir)
        self._show, self._hide = [_path(each) for each in show], [_path(each) for each in hide]
        self._files: dict[str, _File] = {}
        self.changes: Changes | None = None
        """Since the base; None if unknown."""
        self.test = ""
        """The file of the test: if it changed, too, it is not the cause of what the code under test does."""
        for given in show:
            if is_test_tool(package_of(given)):
                raise UsageError(
                    f"{given!r} cannot be shown as a call site: lines of test tools are not followed; name packages"
                    " that tests call, such as transformers"
                )

    @property
    def root(self) -> str:
        """The root directory."""
        return self._root

    def is_shown(self, file: str) -> bool:
        """Return True if lines of a file, by `CodeType.co_filename`, are chosen."""
        return not file.startswith("<") and self._file(file).is_shown

    def is_own(self, file: str) -> bool:
        """Return True if a file is the program's: its lines are followed, and chosen."""
        return kinds[file] is Kind.TRACED and self.is_shown(file)

    def changed(self, file: str) -> Sequence[range]:
        """Return the lines of a file of the program that differ from the base's."""
        return self.changes.lines(file) if self.changes and file != self.test and self.is_own(file) else ()

    def is_changed(self, file: str, line: int) -> bool:
        """Return True if a line of the program differs from the base's."""
        return any(line in each for each in self.changed(file))

    def shows(self, package: str) -> bool:
        """Return True if the user asked for lines of a whole package, by its name."""
        return package in self._show

    def site(self, frames: Sequence[Frame]) -> Site:
        """Return the line to show for the chain *frames*, the innermost first.

        If none of its lines is chosen, it is the innermost one that the user did not hide.
        """
        sites: list[Site] = []
        inside: Site | None = None
        for frame in frames:
            file = self._file(frame.file)
            if file.is_shown and not passes_on(frame.function, _statement(frame)):
                sites.append(_site(file, frame, "" if inside is None else str(inside)))
                inside = None
            elif inside is None and not file.is_hidden:
                inside = _site(file, frame)
        if sites:
            return sites[0]._replace(callers=tuple(sites[1:]))
        if inside is None and frames:
            return _site(self._file(frames[0].file), frames[0])
        return inside or Site("", 0, "", "")

    def _file(self, path: str) -> _File:
        known = self._files.get(path)
        if known is None:
            linecache.checkcache(path)  # it may have been rewritten since it was read
            known = self._files[path] = self._judged(path)
        return known

    def _judged(self, path: str) -> _File:
        if path.startswith("<"):  # an example in a docstring
            return _File(path, True, False)
        below_root = self._below_root(path)
        is_users = bool(below_root) and not in_package(os.sep + below_root)
        module = in_package(path) or (_in_checkout(path) if os.path.isabs(path) else path)
        name = below_root if is_users else module if os.sep in module else path
        names = [each.replace(os.sep, "/") for each in (name, module, path)]
        show, hide = (any(_names(each, name) for each in given for name in names) for given in (self._show, self._hide))
        return _File(names[0], show or (is_users and not hide), hide and not show)

    def _below_root(self, path: str) -> str:
        for root, file in ((self._root, path), (os.path.realpath(self._root), os.path.realpath(path))):
            if file.startswith(os.path.join(root, "")):
                return os.path.relpath(file, root)
        return ""


def _in_checkout(path: str) -> str:
    """Return the path of a file below the folder with its outermost package: ``mylib/dtypes.py``."""
    folder = os.path.dirname(path)
    while os.path.exists(os.path.join(folder, "__init__.py")) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return os.path.relpath(path, folder)


def package_of(given: str) -> str:
    """Return the name of the package that contains a module, file or folder to show."""
    return first_part(_path(given))


def _path(given: str) -> str:
    """Return a module, file or folder as a path."""
    path = given.strip().replace(os.sep, "/")
    return posixpath.normpath(path if "/" in path or path.endswith(".py") else path.replace(".", "/"))


def _names(path: str, file: str) -> bool:
    return file in (path, f"{path}.py") or file.startswith(f"{path}/")


def _text(frame: Frame) -> str:
    return linecache.getline(frame.file, frame.line).strip()


def _statement(frame: Frame) -> str:
    """Return the text from a line on to the end of its parentheses, of a few lines."""
    text = ""
    for line in range(frame.line, frame.line + _MOST_LINES):
        text += linecache.getline(frame.file, line).strip()
        if text.count("(") <= text.count(")"):
            break
    return text


def _site(file: _File, frame: Frame, via: str = "") -> Site:
    return Site(file.name, frame.line, frame.function, _text(frame), via)

"""The modules of this process: while a window is open, functions are replaced wherever a module has them.

The first window that opens sets the attributes of modules to the replacements, and the last one that closes sets them
back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any

from .function_names import SCIPY
from .functions import OURS, Replacement, of_numpy, of_scipy, open_watches
from .watch import Watch

_PUBLIC = (*SCIPY, "numpy.fft", "numpy.lib.stride_tricks", "numpy.linalg", "numpy.random", "numpy.testing")
"""Modules inside a package that programs call, too."""
_lock = Lock()


@contextmanager
def replaced(watch: Watch) -> Iterator[None]:
    """Replace the functions, so that they see the arrays of *watch*, until the context ends."""
    try:
        with _lock:
            open_watches.append(watch)
            _attributes().replace(watch.everything)
        yield
    finally:
        with _lock:
            open_watches.remove(watch)
            if not open_watches:
                late = _attributes().put_back()
                watch.ended |= dict.fromkeys(f"{name}, first imported in the window" for name in late)


def put_back() -> None:
    """Set the functions back once more: a `monkeypatch` of the last window may have restored a replacement."""
    with _lock:
        if not open_watches and _attributes.cache_info().currsize:
            _attributes().put_back()


class _Attributes:
    """The attributes of modules that are functions to replace."""

    def __init__(self) -> None:
        self._replacements = _by_identity(of_numpy())
        self._modules: dict[str, object] = {}
        self._last: tuple[int, object] = (0, None)
        """How many modules there were, and which was imported last."""
        self._found: list[tuple[dict[str, Any], str, Any, Any, bool]] = []

    def replace(self, everything: bool) -> None:
        """Set all to the replacements, those that make arrays only if *everything* is watched."""
        self._look()
        for namespace, name, original, ours, makes in self._found:
            if (everything or not makes) and namespace.get(name) is original:
                namespace[name] = ours

    def put_back(self) -> list[str]:
        """Set all back, also in new modules. Return the new ones of SciPy: their functions were replaced too late."""
        late = self._look()
        for namespace, name, original, ours, _ in self._found:
            if namespace.get(name) is ours:
                namespace[name] = original
        return late

    def _look(self) -> list[str]:
        """Find the functions in new modules. Return those of the new modules that belong to `SCIPY`."""
        last = len(sys.modules), next(reversed(sys.modules.values()))
        if last == self._last:
            return []
        self._last = last
        new = {name: module for name, module in list(sys.modules.items()) if self._modules.get(name) is not module}
        self._modules |= new
        self._find(self._replacements, new)
        late = [name for name in SCIPY if name in new]
        if late:
            more = _by_identity(each for each in of_scipy(late) if id(each.original) not in self._replacements)
            self._replacements |= more
            self._find(more, self._modules)
        return late

    def _find(self, replacements: Mapping[int, Replacement], modules: Mapping[str, object]) -> None:
        for name, module in modules.items():
            if isinstance(module, ModuleType) and not name.startswith(OURS):
                for attribute, value in list(module.__dict__.items()):
                    found = replacements.get(id(value))
                    if found and not _is_inside(name, found.package):
                        self._found.append((module.__dict__, attribute, found.original, found.ours, found.makes))


@cache
def _attributes() -> _Attributes:
    return _Attributes()


def _is_inside(module: str, package: str) -> bool:
    """Tell whether *module* is an inner module of *package*: there a function is called as a part of others."""
    return module.startswith(f"{package}.") and module not in _PUBLIC and ".tests." not in module


def _by_identity(replacements: Iterable[Replacement]) -> dict[int, Replacement]:
    """Return them by the `id` of both functions: a module that is imported in a window imports the replacements."""
    return {id(function): each for each in replacements for function in (each.original, each.ours)}

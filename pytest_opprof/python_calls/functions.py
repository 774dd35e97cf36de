"""Names of functions, and their packages: the content of a baseline, and the versions on which its numbers depend."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FrameType,
    FunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from ..sites.chains import qualified_name
from ..sites.code import HERE, Kind, first_part, in_package, kinds
from .names import CACHED, PYTHON

_NAME = re.compile(r"""^\s*name\s*=\s*["']([^"']+)["']""", re.MULTILINE)
# The address of an object, in a name that a program made: it differs in each process.
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
# The counter of a program that generates code (networkx: argmap_shortest_path_17), which earlier tests change.
_COUNTER = re.compile(r"_\d+$")
_DESCRIPTORS = (MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType)
_BOUND = (BuiltinFunctionType, MethodWrapperType)
_CACHE = type(cache(len))
# Py_TPFLAGS_HEAPTYPE: a class that may be written in Python.
_HEAP = 1 << 9


def is_left_out(file: str) -> bool:
    """Return True if the functions of a file are no work of the test: opprof's, pytest's and other test tools'."""
    return kinds[file] is Kind.TEST_TOOL or file.startswith(HERE)


def name_of_code(code: CodeType, module: str) -> str:
    """Return the name of a Python function: its module and qualified name. Python 3.10 has no classes in it."""
    name = qualified_name(code)
    if code.co_filename.startswith("<"):
        name = _COUNTER.sub("_N", name)
    return _ADDRESS.sub("0x", f"{module}.{name}")


def name_of_frame(frame: FrameType) -> str:
    """Return the name of the function that runs in *frame*."""
    return name_of_code(frame.f_code, str(frame.f_globals.get("__name__", "?")))


def name_of_callable(called: Any) -> str:
    """Return the name of a called builtin function, method or type; of any other object, of its type.

    Attributes of an object whose class is written in Python are not read, because that would run code of the program.
    """
    kind = type(called)
    if isinstance(called, type):
        module, name = str(type.__getattribute__(called, "__module__")), called.__qualname__
    elif kind in _DESCRIPTORS:  # list.index
        module, name = called.__objclass__.__module__, f"{called.__objclass__.__qualname__}.{called.__name__}"
    elif issubclass(kind, _BOUND) and not isinstance(called.__self__, ModuleType):
        return name_of_bound(*key_of_bound(called))
    elif issubclass(kind, _BOUND):
        module, name = called.__module__ or called.__self__.__name__, called.__qualname__
    elif kind.__flags__ & _HEAP and isinstance(kind.__dict__.get("__call__"), FunctionType):
        module, name = kind.__module__, kind.__qualname__
    else:  # a ufunc, a function of Cython
        name = str(getattr(called, "__qualname__", None) or getattr(called, "__name__", kind.__qualname__))
        module = str(getattr(called, "__module__", None) or kind.__module__)
        # On a cache miss it calls a function of the same name.
        name += CACHED if kind is _CACHE else ""
    return _named(module, name)


def key_of_bound(called: Any) -> tuple[type, str]:
    """Return the key of a builtin method, without its object."""
    owner = called.__self__
    return owner if isinstance(owner, type) else type(owner), called.__name__


def name_of_bound(owner: type, method: str) -> str:
    """Return the name of a builtin *method* of a type."""
    return _named(owner.__module__, f"{owner.__qualname__}.{method}")


def _named(module: str, name: str) -> str:
    # list.index reads better than builtins.list.index, and isinstance needs a module.
    return _ADDRESS.sub("0x", name if module == "builtins" and "." in name else f"{module}.{name}")


def resolved(name: str) -> str | None:
    """Return the counted name of the function that a program calls *name*: ``numpy.sum`` is
    ``numpy._core.fromnumeric.sum``.

    None if no imported module has it.
    """
    found = _named_so(name)
    return None if found is None else _counts_as(found)


def is_class(name: str) -> bool:
    """Return True if an imported module has a class of this *name*; a class of Python itself needs no module."""
    return isinstance(_named_so(name), type)


def _named_so(name: str) -> Any:
    parts = name.split(".")
    for length in range(len(parts) - 1, -1, -1):
        found: Any = sys.modules.get(".".join(parts[:length]) or "builtins")
        for part in parts[length:] if found is not None else ():
            # No code of the program may run: no property, no __getattr__ of a module.
            found = inspect.getattr_static(found, part, None)
            found = getattr(found, "__func__", found) if isinstance(found, (staticmethod, classmethod)) else found
        if found is not None and not isinstance(found, ModuleType):
            return found
    return None


def _counts_as(found: Any) -> str:
    while isinstance(found, property) and found.fget:
        found = found.fget
    with suppress(ValueError):  # a wrapper that wraps itself
        found = inspect.unwrap(found) if callable(found) else found
    if isinstance(found, FunctionType):
        return name_of_code(found.__code__, str(found.__globals__.get("__name__", "?")))
    return name_of_callable(found)


def is_installed(name: str) -> bool:
    """Return True if Python could import the package of a function."""
    try:
        return find_spec(first_part(name)) is not None
    except (ImportError, ValueError):
        return False


def versions(names: Iterable[str], own: Callable[[str], bool]) -> dict[str, str]:
    """Return the version of Python, and of the packages of functions with these *names*.

    *own* returns whether a package is under test: its version says nothing about the environment.
    """
    found = {PYTHON: f"{sys.version_info[0]}.{sys.version_info[1]}"}
    for package in {first_part(name) for name in names}:
        if package in sys.stdlib_module_names or own(package):
            continue
        for distribution in _distributions().get(package, ()):
            if not own(distribution):
                found[distribution.lower()] = _version(distribution)
    return dict(sorted(found.items()))


@cache
def _distributions() -> dict[str, list[str]]:
    # Imported here: 20 ms, which only a run that counts pays.
    from importlib.metadata import packages_distributions

    try:
        found = packages_distributions()
    except Exception:  # a finder of the program under test cannot list packages: no version of one is known
        return {}
    return {package: sorted({*names}) for package, names in found.items()}


@cache
def _version(distribution: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution).partition("+")[0]
    except PackageNotFoundError:
        return "?"


@cache
def tested_distribution(root: str) -> str:
    """Return the name of the distribution whose source is in the folder *root*; empty if unknown."""
    try:
        text = Path(root, "pyproject.toml").read_text(encoding="utf-8", errors="replace")[:1_000_000]
    except OSError:
        return ""
    _, _, project = text.partition("[project]")
    found = _NAME.search(re.split(r"^\[", project, maxsplit=1, flags=re.MULTILINE)[0])
    return found[1] if found else ""


def package_at(file: str) -> str:
    """Return the name of the installed package of a file; empty if it is in none."""
    return first_part(path) if (path := in_package(file)) else ""

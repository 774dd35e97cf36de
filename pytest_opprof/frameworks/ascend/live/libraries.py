"""Finding and opening CANN's libraries in the order that they bear."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ....errors import BackendError

HOME = "ASCEND_HOME_PATH"
"""CANN's set_env.sh sets it."""
_SOURCE = "source set_env.sh of CANN (/usr/local/Ascend/ascend-toolkit/set_env.sh)"
KIN = ("libascendcl.so", "libhccl.so", "libascendalog.so", "libascend_hal.so", "libprofapi.so")
"""What libmspti opens. Without libascendalog or libprofapi 26.0.0 aborts the process while it is loaded; what other
versions need for that is not known."""
_OPS = ("libopapi.so", "libopapi_math.so")
"""Where ``aclnn`` functions are: from CANN 8.5 on in several libraries."""


def found(name: str, environ: Mapping[str, str]) -> str:
    """Return the path of a library in CANN, or its name: then the loader searches for it. As libmspti does."""
    path = Path(environ.get(HOME, ""), "lib64", name)
    return str(path) if environ.get(HOME) and path.is_file() else name


@cache
def opened(name: str) -> Any:
    """Return a library of CANN. Raises BackendError if it cannot be loaded."""
    try:
        return ctypes.CDLL(found(name, os.environ))
    except OSError as error:
        raise BackendError(f"{name} of CANN cannot be loaded ({error}); {_SOURCE}") from None


def of_function(function: str) -> Any:
    """Return the ``aclnn`` library that has *function*. Raises BackendError if none has it."""
    why = ""
    for name in _OPS:
        try:
            library = opened(name)
        except BackendError as error:
            why = why or str(error)
            continue
        if hasattr(library, function):
            return library
    raise BackendError(why or f"neither of {', '.join(_OPS)} has {function}: install the ops of CANN")


@cache
def mspti() -> Any:
    """Return libmspti. Raises BackendError if it, or what it needs, cannot be loaded.

    It is opened for all (RTLD_GLOBAL), as LD_PRELOAD does: CANN looks for its functions.
    """
    for name in KIN:
        opened(name)
    tried = []
    for path in _candidates(os.environ):
        try:
            return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            tried.append(str(error))
    raise BackendError(f"libmspti.so is not found: it is part of CANN from 8.1 on; {_SOURCE}. Tried: {tried[0]}")


def _candidates(environ: Mapping[str, str]) -> Iterator[str]:
    if home := environ.get(HOME):
        yield from (
            str(path)
            for path in (Path(home, "lib64/libmspti.so"), Path(home, "tools/mspti/lib64/libmspti.so"))
            if path.is_file()
        )
    yield "libmspti.so"


def is_preloaded(environ: Mapping[str, str]) -> bool:
    """Tell whether this process was started with libmspti in LD_PRELOAD, in which MSPTI looks for copies."""
    return "libmspti.so" in environ.get("LD_PRELOAD", "")

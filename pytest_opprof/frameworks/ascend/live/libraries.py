"""Find and open CANN's libraries in the required order."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ....errors import BackendError

# CANN's set_env.sh sets it.
HOME = "ASCEND_HOME_PATH"
_SOURCE = "source set_env.sh of CANN (/usr/local/Ascend/ascend-toolkit/set_env.sh)"
# The libraries that libmspti opens. Without libascendalog or libprofapi 26.0.0 aborts the process while it loads; the
# needs of other versions are unknown.
KIN = ("libascendcl.so", "libhccl.so", "libascendalog.so", "libascend_hal.so", "libprofapi.so")
# The libraries with ``aclnn`` functions: several from CANN 8.5 on.
_OPS = ("libopapi.so", "libopapi_math.so")


def found(name: str, environ: Mapping[str, str]) -> str:
    """Return the path of a library in CANN, or its name, for which the loader searches; libmspti does the same."""
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
    """Return libmspti. Raises BackendError if it, or a library that it needs, cannot be loaded.

    It is opened with RTLD_GLOBAL, like LD_PRELOAD, because CANN looks for its functions.
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
    """Return True if this process was started with libmspti in LD_PRELOAD, which MSPTI needs to record copies."""
    return "libmspti.so" in environ.get("LD_PRELOAD", "")

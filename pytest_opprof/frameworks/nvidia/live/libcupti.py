"""Find libcupti: choose the file that this process must use."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ....errors import BackendError
from . import driver as cuda_driver
from .cupti import Cupti

# The environment variable that names the file to use.
VARIABLE = "OPPROF_LIBCUPTI"


@cache
def opened() -> Cupti:
    """Return the libcupti of this process. Raises BackendError if none is found."""
    tried, driver = [], cuda_driver.opened()
    for path in candidates(mapped(), os.environ, driver.version()[0] if driver else None):
        try:
            return Cupti(ctypes.CDLL(path), path)
        except OSError as error:
            tried.append(str(error))
    raise BackendError(
        f"libcupti is not found{f' ({tried[0]})' if tried else ''}. Install it (pip install nvidia-cuda-cupti-cu12 for"
        f" CUDA 12, nvidia-cuda-cupti for CUDA 13), or set {VARIABLE} to its file"
    )


def loaded_version() -> int | None:
    """Return the version of the loaded libcupti; None if there is none, or it does not answer.

    Some builds of PyTorch contain CUPTI in their own library.
    """
    paths = [path for path in mapped() if "/libcupti.so" in path]
    try:
        return Cupti(ctypes.CDLL(paths[0]), paths[0]).version if paths else None
    except (BackendError, OSError):
        return None


def mapped() -> list[str]:
    """Return the loaded files of CUDA's libraries in this process."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    paths = dict.fromkeys("/" + line.partition("/")[2] for line in lines)
    return [path for path in paths if re.search(r"/lib(?:cupti|cudart)\.so", path)]


def cuda_major(loaded: list[str]) -> int | None:
    """Return the major version of the CUDA runtime among the *loaded* files; None if it is not among them."""
    majors = [int(match[1]) for path in loaded if (match := re.search(r"/libcudart\.so\.(\d+)", path))]
    return majors[0] if majors else None


def candidates(loaded: list[str], environ: Mapping[str, str], newest: int | None = None) -> Iterator[str]:
    """Yield the files that may be libcupti, the best first; the driver supports CUDA up to the major version *newest*.

    A process must have one: a second copy would record nothing. A loaded file therefore comes first, then wheels (the
    CUDA version in use first, versions that the driver does not support last), then the toolkit.
    """
    if VARIABLE in environ:
        yield environ[VARIABLE]
        return
    yield from (path for path in loaded if "/libcupti.so" in path)
    yield from sorted(_in_wheels(), key=_preference(cuda_major(loaded), newest))
    for root in filter(None, [environ.get("CUDA_HOME"), environ.get("CUDA_PATH"), "/usr/local/cuda"]):
        yield from (str(path) for path in sorted(Path(root).glob("extras/CUPTI/lib64/libcupti.so")))
    yield "libcupti.so"


def _in_wheels() -> Iterator[str]:
    spec = find_spec("nvidia") if "nvidia" not in sys.modules else sys.modules["nvidia"].__spec__
    for folder in (spec and spec.submodule_search_locations) or ():
        yield from (str(path) for path in Path(folder).glob("*/lib/libcupti.so.*"))


def _preference(major: int | None, newest: int | None) -> Callable[[str], tuple[bool, bool, int]]:
    def key(path: str) -> tuple[bool, bool, int]:
        match = re.search(r"\.so\.(\d+)", path)
        number = int(match[1]) if match else 0
        return number != major, newest is not None and number > newest, -number

    return key

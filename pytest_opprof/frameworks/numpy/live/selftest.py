"""Test whether calls can be observed here: in a process of its own, once for each build of Python and NumPy.

A wrong guess about a layout would crash its process. Another process therefore makes it first: 1 s, and the result is
kept in the user's cache folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from ....machine.atomic_write import write_atomically
from ....profile.environment import Environment
from ....profile.events.event_log import EventLog
from .machine_code import layout, machine

TIMEOUT_S = 60
OK = "all calls were seen"


@cache
def problem() -> str:
    """Return in one line why calls cannot be observed in this process; empty if they can."""
    if reason := layout.unknown() or machine.unknown():
        return reason
    kept = _kept()
    with contextlib.suppress(OSError):
        if kept.read_text(encoding="utf-8") == OK:
            return ""
    reason = _tried()
    if not reason:
        with contextlib.suppress(OSError):
            write_atomically(kept, OK)
    return reason


def _kept() -> Path:
    """Return the file that keeps the result for this build."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    compiled = next(
        (found for name in ("numpy._core", "numpy.core") if (found := sys.modules.get(f"{name}._multiarray_umath"))), np
    )
    file = Path(str(compiled.__file__))
    told = [sys.version, sys.executable, np.__version__, str(file), os.uname().release, os.uname().machine]
    told += [f"{each.name} {each.read_bytes().hex()}" for each in sorted(Path(__file__).parent.rglob("*.py"))]
    with contextlib.suppress(OSError):
        told.append(str(file.stat().st_mtime_ns))
    return Path(folder, "pytest-opprof", f"numpy-{hashlib.sha256(chr(10).join(told).encode()).hexdigest()[:16]}")


def _tried() -> str:
    if not sys.executable:
        return "there is no Python to try in another process whether calls can be observed"
    command = [sys.executable, "-m", __name__]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    root = Path(__file__).parents[4]  # not the program's folder: it may have another version
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"whether calls can be observed could not be tried: {error}"
    said = done.stdout.strip().splitlines()
    if done.returncode == 0 and said[-1:] == [OK]:
        return ""
    last = (said or done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
    return f"a trial in another process ended with {how}: {last}"


class _Refuses:
    """An operand to which NumPy leaves the operation."""

    __array_ufunc__ = None

    def __radd__(self, other: object) -> str:
        return "mine"


def _fails(error: type[Exception], call: Callable[[], object]) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"{error.__name__} was lost")


# By function, because Python hashes the pointer of a builtin one.
known: dict[Any, str] = dict.fromkeys([np.zeros, np.asarray, len], "a function")


def _work() -> None:
    """Call each routine of the machine code, with and without an error."""
    x: Any = np.ones((4, 4), np.float32)
    y = (x + x).astype(np.float64)
    np.add(y, 1, out=y)
    assert (y == 3).all(), "an operator"
    y[0] = 5
    y.fill(2)
    assert np.concatenate([x, y]).sum() == 48, "a function"
    assert np.add.reduce(x, axis=0).tolist() == [4, 4, 4, 4], "a method of a ufunc"
    np.add.at(y, 0, 1)
    assert y[[0, 1]][0, 0] == 3, "indexing"
    assert np.float64(2) * 3 > np.float32(5), "a scalar"
    assert -np.float64(2) == -2, "a scalar"
    assert np.float64(2) ** 2 == 4, "a scalar"
    assert np.random.default_rng(1).normal(size=3).shape == (3,), "a random generator"
    assert y.reshape(2, 8).copy().shape == (2, 8), "a method"
    assert x + _Refuses() == "mine", "an operand of another class"
    assert known[np.zeros] == known[np.asarray] == "a function", "the hash of a function"
    _fails(ValueError, lambda: x + np.ones(3))
    _fails(TypeError, lambda: x.astype("nonsense"))
    _fails(IndexError, lambda: x[[99]])
    _fails(IndexError, lambda: x.__setitem__(99, 1))
    _fails(TypeError, lambda: x.sum(nonsense=1))

    def deep(n: int) -> object:
        try:
            return deep(n + 1)
        except RecursionError:
            return x + x

    deep(0)


def main() -> None:
    """Observe known work; print OK if all of it was seen, and nothing was changed."""
    from . import hook, memory
    from .recording import Recording

    layout.check()
    _work()
    log = EventLog(Environment((("numpy", np.__version__),)))
    recording = Recording(log, False)
    program = FunctionType(_work.__code__.replace(co_filename=os.path.abspath("program.py")), globals())
    with hook.observed(recording):
        for _ in range(100):
            program()
    recording.fill()
    recording.stop()
    seen = {*log.freeze().raw_names}
    wanted = {"numpy.add", "ndarray.astype", "ndarray.__setitem__", "numpy.concatenate", "numpy.add.reduce"}
    wanted |= {"ndarray.__getitem__", "numpy.multiply", "numpy.greater", "numpy.random.normal", "numpy.add.at"}
    assert wanted <= seen, f"not seen: {', '.join(sorted(wanted - seen))}"
    assert not hook.changed(), "a pointer was not put back"
    _work()
    if (counted := hook._hook().counted) is not None:
        memory.check(counted)
    print(OK)


if __name__ == "__main__":
    main()

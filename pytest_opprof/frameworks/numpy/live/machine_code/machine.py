"""Machine code that calls an observer, calls on, and calls an observer of the end; it is never freed.

`x86_64.s` and `arm64.s` are its source. A call that is led to a stub does this:

1. It calls the observer, a Python function, with the same arguments. Tracing and profiling are off meanwhile.
2. It calls the original function with the same arguments.
3. If the observer returned a list and the original returned a result, it calls the observer of the end with both. If
   the original raised, it empties the list instead: no Python code may run then.

An exception of an observer that is a RecursionError or MemoryError is dropped, as there was no room for the observer.
Any other one is raised, in the place of the call: a signal handler raised it, such as that of Ctrl-C.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from . import layout

# Placeholder in the code for the address of the table.
PLACE_OF_TABLE = bytes.fromhex("8877665544332211")
# Bytes of a stub.
STUB = 32
# Keeps everything that machine code points to.
_ALIVE: list[object] = []


class Stub(NamedTuple):
    """The target of a stub."""

    routine: str
    """The name of the routine that calls the original function."""
    original: int
    observer: Callable[..., Any]


class _Memory:
    """Memory that code is written to first, and then run from."""

    def __init__(self, size: int) -> None:
        self._map = mmap.mmap(-1, size)  # whole pages, not executable yet
        self._view = ctypes.c_char.from_buffer(self._map)
        self.address = ctypes.addressof(self._view)
        _ALIVE.append(self)

    def write(self, code: bytes) -> None:
        """Write the *code*, and make it executable. The kernel synchronises the instruction caches then."""
        self._map[: len(code)] = code
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        if protect(self.address, len(self._map), mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError(ctypes.get_errno(), "this system forbids memory that is executable (PROT_EXEC)")


class Machine:
    """The routines of this architecture, and its stubs."""

    def __init__(self, end: Callable[[list[Any], object], None]) -> None:
        """*end* is the observer of the end. Raises OSError if the system forbids executable memory."""
        architecture = _architecture()
        self._table = _table(end)
        self._stub = architecture.stub
        code = architecture.CODE.replace(PLACE_OF_TABLE, ctypes.addressof(self._table).to_bytes(8, "little"))
        memory = _Memory(len(code))
        memory.write(code)
        self._routines = {name: memory.address + offset for name, offset in architecture.ROUTINES.items()}
        self.hash = layout.pointer(id(type(len)) + layout.HASH), self._routines["hash"]
        """The hash function of builtin functions, and the one to use while their pointers are replaced."""
        self._write = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(self._routines["write"])

    def stubs(self, wanted: Iterable[Stub]) -> list[int]:
        """Return the addresses of new stubs."""
        every = list(wanted)
        _ALIVE.append(every)
        return self._made([(each.routine, each.original, id(each.observer)) for each in every])

    def counting_stubs(self, originals: Mapping[str, int], counters: ctypes.Array[ctypes.c_int64]) -> dict[str, int]:
        """Return stubs that count for the *originals* of NumPy's handler of memory, by the names of routines."""
        _ALIVE.append(counters)
        rows = [(routine, original, ctypes.addressof(counters)) for routine, original in originals.items()]
        return dict(zip(originals, self._made(rows)))

    def _made(self, rows: Sequence[tuple[str, int, int]]) -> list[int]:
        blocks = (ctypes.c_uint64 * (2 * len(rows)))()
        _ALIVE.append(blocks)
        code = b""
        for number, (routine, *block) in enumerate(rows):
            blocks[2 * number], blocks[2 * number + 1] = block
            stub = self._stub(ctypes.addressof(blocks) + 16 * number, self._routines[routine])
            code += stub.ljust(STUB, b"\0")
        memory = _Memory(max(len(code), 1))
        memory.write(code)
        return [memory.address + STUB * number for number in range(len(rows))]

    def write(self, rows: Pointers) -> None:
        """Write the new pointer of each row if its address holds the old one: 1 ns for each."""
        self._write(rows.address, len(rows))


class Pointers:
    """Rows of an address, the pointer that it holds, and the one to write there."""

    def __init__(self, rows: Iterable[tuple[int, int, int]]) -> None:
        flat = [value for row in rows for value in row]
        self._rows = (ctypes.c_uint64 * len(flat))(*flat)
        self.address = ctypes.addressof(self._rows)

    def __len__(self) -> int:
        return len(self._rows) // 3


def unknown() -> str:
    """Return why there is no code for this machine; empty if there is."""
    if platform.system() != "Linux":
        return f"there is no code for {platform.system()} yet, only for Linux"
    if platform.machine() not in ("x86_64", "aarch64"):
        return f"there is no code for {platform.machine()}, only for x86-64 and arm64"
    return ""


@cache
def _architecture() -> Any:
    if platform.machine() == "aarch64":
        from . import arm64

        return arm64
    from . import x86_64

    return x86_64


def _table(end: Callable[..., Any]) -> Any:
    """Return the table for all routines: functions of Python's C API, and objects that are never freed."""
    api = ctypes.pythonapi

    def function(name: str) -> int:
        return ctypes.cast(getattr(api, name), ctypes.c_void_p).value or 0

    no_room = (RecursionError, MemoryError)
    _ALIVE.extend([end, no_room])
    values = [
        layout.pointer(layout.vectorcall_at(end)),  # `_PyFunction_Vectorcall`; Python 3.13 does not export it
        function("Py_DecRef"),
        function("PyErr_ExceptionMatches"),
        id(no_room),
        function("PyErr_Clear"),
        function("PyList_SetSlice"),
        id(end),
        id(None),
        id(int),
        id(slice),
    ]
    if hasattr(api, "PyThreadState_EnterTracing"):  # not in Python 3.10, where a tracer also traces observers
        names = ("PyThreadState_Get", "PyThreadState_EnterTracing", "PyThreadState_LeaveTracing")
        values += map(function, names)
    else:
        values += [0, 0, 0]
    comparisons = list(range(8))
    _ALIVE.append(comparisons)
    values += map(id, comparisons)
    values.append(layout.pointer(id(type(len)) + layout.HASH))
    table = (ctypes.c_uint64 * len(values))(*values)
    _ALIVE.append(table)
    return table

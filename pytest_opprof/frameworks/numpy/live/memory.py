"""The bytes that arrays request: counted in NumPy's own memory handler, in all threads.

`numpy.ndarray` gets its memory from the functions of a handler (`PyDataMem_Handler` in NumPy's `ndarraytypes.h`). These
lead to machine code that counts, 5 ns a call, and calls on. The handler therefore stays the default one, also for
programs that ask for its name; `PyDataMem_SetHandler` would change that, and would affect one thread only.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from ....profile.memory import MemoryUse
from .machine_code import layout
from .machine_code.machine import Machine, Pointers

# Of the functions in ``_ARRAY_API``: `PyDataMem_GetHandler`, from NumPy 1.22 on (`numpy_api.py`).
_GET_HANDLER = 305
_NAME, _VERSION = b"default_allocator", 1
# In a handler, after a name of 127 bytes, a byte for the version, and the context.
_FUNCTIONS = {"malloc": 136, "calloc": 144, "realloc": 152, "free": 160}


class Counted:
    """Counts the bytes of arrays between `put_in` and `put_back`."""

    def __init__(self, machine: Machine) -> None:
        """Raise LookupError if NumPy's handler is not the known one."""
        handler = _handler()
        self._counters = (ctypes.c_int64 * 4)(0, 0, 0, _usable_size())
        self._machine = machine
        originals = {name: layout.pointer(handler + offset) for name, offset in _FUNCTIONS.items()}
        stubs = machine.counting_stubs(originals, self._counters)
        pairs = [(handler + offset, originals[name], stubs[name]) for name, offset in _FUNCTIONS.items()]
        self._in = Pointers(pairs)
        self._back = Pointers((address, stub, original) for address, original, stub in pairs)
        self._handler = handler
        self._base = 0

    def is_in_use(self) -> bool:
        """Return True if arrays of this thread use the counted handler."""
        try:
            return _handler() == self._handler
        except LookupError:
            return False

    def put_in(self) -> None:
        """Start counting."""
        self._machine.write(self._in)
        self.taken()

    def put_back(self) -> None:
        """Stop counting."""
        self._machine.write(self._back)

    @property
    def held(self) -> int:
        """The growth of bytes in use since the last `taken`."""
        return self._counters[0] - self._base

    def taken(self) -> MemoryUse:
        """Return the use of memory since the last call."""
        now, most, allocations, _ = self._counters
        use = MemoryUse(max(most, now) - self._base, now - self._base, allocations)
        self._base = self._counters[1] = now
        self._counters[2] = 0
        return use


def _handler() -> int:
    """Return the address of the handler of this thread. Raises LookupError if it is not NumPy's own."""
    compiled: Any = next(
        (found for name in ("numpy._core", "numpy.core") if (found := sys.modules.get(f"{name}._multiarray_umath"))),
        None,
    )
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get_pointer(compiled._ARRAY_API, None)
    ask = ctypes.PYFUNCTYPE(ctypes.py_object)(layout.pointer(table + 8 * _GET_HANDLER))
    handler: int = get_pointer(ask(), b"mem_handler")
    if ctypes.string_at(handler) != _NAME or ctypes.string_at(handler + 127, 1)[0] != _VERSION:
        raise LookupError("arrays get their memory from another handler than NumPy's own")
    return handler


def _usable_size() -> int:
    function = getattr(ctypes.CDLL(None), "malloc_usable_size", None)
    if function is None:
        raise LookupError("this C library does not tell the size of a block (malloc_usable_size)")
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def check(counted: Counted) -> None:
    """Raise AssertionError unless arrays are counted."""
    counted.put_in()
    try:
        array = np.empty(1000)
        use = counted.taken()
        assert (use.peak, use.net, use.allocations) == (8000, 8000, 1), f"memory of an array: {use}"
        array.resize(2000, refcheck=False)
        array = np.zeros(500)
        use = counted.taken()
        assert use.net is not None
        assert abs(use.net + 4000) < 64, f"memory of an array that was resized: {use}"
        del array
        assert counted.taken().net < 0, "memory that was freed"
    finally:
        counted.put_back()

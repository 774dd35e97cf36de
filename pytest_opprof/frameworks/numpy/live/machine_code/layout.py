"""Where CPython and NumPy keep the pointers of functions: facts of their C headers, each checked before it is used.

All are of 64-bit builds with the GIL; sources are of CPython 3.10 to 3.13 (`Include/cpython/object.h`,
`Include/methodobject.h`, `Include/cpython/methodobject.h`, `Include/descrobject.h`).
"""

from __future__ import annotations

import ctypes
import platform
import sys
import sysconfig
from typing import Any

# ``PyObject_HEAD``: the count of references, and the type.
HEAD = 16
# ``PyTypeObject.tp_vectorcall_offset``: the place of the call pointer in an object of the type.
VECTORCALL_OFFSET = 56
# ``PyTypeObject.tp_as_number``, ``tp_as_mapping``.
AS_NUMBER, AS_MAPPING = 96, 112
# ``PyTypeObject.tp_flags``, ``tp_base``, ``tp_dictoffset``, ``tp_init``, ``tp_new``.
FLAGS, BASE, DICT_OFFSET, INIT, NEW = 168, 256, 288, 296, 312
# ``PyMappingMethods.mp_subscript``, ``mp_ass_subscript``.
SUBSCRIPT, ASSIGN_SUBSCRIPT = 8, 16
# ``PyMethodDescrObject.d_method``, ``PyWrapperDescrObject.d_base``: after ``PyDescr_COMMON``, of three pointers.
DESCRIBED = HEAD + 24
# ``PyWrapperDescrObject.d_wrapped``.
WRAPPED = DESCRIBED + 8
# ``PyCFunctionObject.m_ml``.
DEFINITION = HEAD
# ``PyMethodDef.ml_name``, ``ml_meth``, ``ml_flags``.
METHOD_NAME, METHOD, METHOD_FLAGS = 0, 8, 16
# ``METH_VARARGS`` and so on.
VARARGS, KEYWORDS, NOARGS, ONE, FASTCALL = 0x1, 0x2, 0x4, 0x8, 0x80
# ``PyNumberMethods``, a pointer each.
NUMBER_SLOTS = (
    "add subtract multiply remainder divmod power negative positive absolute bool invert lshift rshift and xor or int"
    " reserved float inplace_add inplace_subtract inplace_multiply inplace_remainder inplace_power inplace_lshift"
    " inplace_rshift inplace_and inplace_xor inplace_or floor_divide true_divide"
).split()
# ``PyTypeObject.tp_hash``, ``tp_call``.
HASH, CALL = 120, 128
# ``PyTypeObject.tp_richcompare``.
COMPARE = 200


def pointer(address: int) -> int:
    """Return the pointer at *address*; 0 for NULL."""
    return ctypes.c_void_p.from_address(address).value or 0


def unknown() -> str:
    """Return why this interpreter is unknown; empty if it is supported."""
    if sys.implementation.name != "cpython" or not (3, 10) <= sys.version_info[:2] <= (3, 13):
        return f"{platform.python_implementation()} {platform.python_version()} is not CPython 3.10 to 3.13"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this Python is free-threaded"
    if object.__basicsize__ != HEAD or sys.maxsize < 2**32:
        return "this Python is a 32-bit or a debug build"
    return ""


def check() -> None:
    """Raise AssertionError unless the facts hold here: each is compared with Python's own answer."""
    import numpy as np

    for kind in (int, np.ndarray, np.ufunc, np.float64):
        assert _word(id(kind) + FLAGS) == kind.__flags__, "tp_flags"
        assert _word(id(kind) + DICT_OFFSET) == kind.__dictoffset__, "tp_dictoffset"
        assert pointer(id(kind) + BASE) == id(kind.__base__), "tp_base"
    assert 0 < _word(id(np.ufunc) + VECTORCALL_OFFSET) < np.ufunc.__basicsize__, "tp_vectorcall_offset"
    assert _name(pointer(id(np.ndarray.__dict__["copy"]) + DESCRIBED)) == "copy", "d_method"
    assert _name(pointer(id(np.zeros) + DEFINITION)) == "zeros", "m_ml"
    wrapper: Any = np.ndarray.__dict__["__getitem__"]
    subscript = pointer(pointer(id(np.ndarray) + AS_MAPPING) + SUBSCRIPT)
    assert pointer(id(wrapper) + WRAPPED) == subscript, "d_wrapped"
    wrapper = np.ndarray.__dict__["__add__"]
    add = pointer(pointer(id(np.ndarray) + AS_NUMBER) + 8 * NUMBER_SLOTS.index("add"))
    assert pointer(id(wrapper) + WRAPPED) == add, "nb_add"
    wrapper = np.ndarray.__dict__["__truediv__"]
    divide = pointer(pointer(id(np.ndarray) + AS_NUMBER) + 8 * NUMBER_SLOTS.index("true_divide"))
    assert pointer(id(wrapper) + WRAPPED) == divide, "nb_true_divide"
    wrapper = type(len).__dict__["__hash__"]
    assert pointer(id(wrapper) + WRAPPED) == pointer(id(type(len)) + HASH), "tp_hash"
    wrapper = type(len).__dict__["__call__"]
    assert pointer(id(wrapper) + WRAPPED) == pointer(id(type(len)) + CALL), "tp_call"
    wrapper = np.ndarray.__dict__["__lt__"]
    assert pointer(id(wrapper) + WRAPPED) == pointer(id(np.ndarray) + COMPARE), "tp_richcompare"


def vectorcall_at(callable_: object) -> int:
    """Return the address of the call pointer of an object; 0 if it has none."""
    offset = _word(id(type(callable_)) + VECTORCALL_OFFSET)
    return id(callable_) + offset if offset > 0 else 0


def _word(address: int) -> int:
    return ctypes.c_ssize_t.from_address(address).value


def _name(definition: int) -> str:
    return ctypes.string_at(pointer(definition + METHOD_NAME)).decode() if definition else ""


def _find_trace_lines() -> int:
    """Return the place of ``f_trace_lines``, a byte, in a frame."""
    frame: Any = sys._getframe()
    before = frame.f_trace_lines

    def content() -> bytes:
        return ctypes.string_at(id(frame), object.__sizeof__(frame))

    # No loop over the values: on Python 3.10 the frame holds its local variables, and in a few processes of a hundred
    # another byte of these was 1 and then 0, too.
    frame.f_trace_lines = True
    first = content()
    frame.f_trace_lines = False
    second = content()
    frame.f_trace_lines = True
    third = content()
    frame.f_trace_lines = before
    places = [place for place, seen in enumerate(zip(first, second, third)) if seen == (1, 0, 1)]
    assert len(places) == 1, "f_trace_lines"
    return places[0]


# The place of ``f_trace_lines`` in a frame: 1 in a new one. Any other number but 0 means the same to Python.
TRACE_LINES = _find_trace_lines()
# All memory of the process: a byte of a frame in 60 ns.
MEMORY = (ctypes.c_ubyte * 2**48).from_address(0)

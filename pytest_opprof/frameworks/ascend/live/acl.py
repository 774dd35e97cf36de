"""Ascend's runtime (libascendcl) by ctypes: find the NPU, wait for it, and launch the fence.

The fence is one small kernel on a stream of our own. Its record marks its launch in the order of all records: earlier
launches have come before it, or were lost.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ....errors import BackendError
from . import libraries

# It is one kernel, ``OnesLike``, in each of 20 calls of public recordings; setting zeros may be no kernel.
_FENCE = "aclnnInplaceOne"
_FLOAT, _ND = 0, 2
_CANN = 0
_BYTES = 32
_STREAMS = 2048
# The size of ``aclCANNPackageVersion``, which begins with the whole version.
_VERSION_BYTES = 512
# The Atlas training series before A2. An A2 is an ``Ascend910B1`` to ``B4``; plain ``Ascend910B`` is old.
_WITHOUT = frozenset(["Ascend910", "Ascend910A", "Ascend910B", "Ascend910ProA", "Ascend910ProB", "Ascend910PremiumA"])


def without_mspti(soc: str) -> bool:
    """Return True if CANN has no MSPTI for an NPU of this name.

    >>> without_mspti("Ascend910B"), without_mspti("Ascend910B2"), without_mspti("Ascend310P3")
    (True, False, True)
    """
    return soc in _WITHOUT or soc == "Ascend310" or soc.startswith(("Ascend310P", "Ascend710"))


class Acl:
    """The used part of libascendcl; *library* has its functions."""

    def __init__(self, library: Any) -> None:
        self._library = library
        library.aclrtGetSocName.restype = ctypes.c_char_p

    def problem(self) -> str | None:
        """Return why no NPU can be recorded here, or None if one can."""
        number = ctypes.c_uint32()
        if status := self._library.aclrtGetDeviceCount(ctypes.byref(number)):
            return f"CANN reports error {status} from aclrtGetDeviceCount; check npu-smi info"
        if not number.value:
            return "CANN finds no NPU; check npu-smi info and ASCEND_RT_VISIBLE_DEVICES"
        soc = self.soc()
        if without_mspti(soc):
            return (
                f"there is no MSPTI for {soc}: CANN has it for Atlas A2, A3, 200I/500 A2 and Ascend 950."
                " Record with msprof or the framework's profiler, and check the files: opprof check"
            )
        return None

    def soc(self) -> str:
        """Return the model of the NPU: ``Ascend910B2``; empty if CANN does not report it."""
        return (self._library.aclrtGetSocName() or b"").decode("ascii", "replace")

    def version(self) -> str:
        """Return the version of CANN; empty if CANN does not report it."""
        text = ctypes.create_string_buffer(_VERSION_BYTES)
        if not hasattr(self._library, "aclsysGetCANNVersion") or self._library.aclsysGetCANNVersion(_CANN, text):
            return ""
        return text.value.decode("ascii", "replace")

    def device(self) -> int:
        """Return the NPU that this thread uses. Raises BackendError if it uses none."""
        number = ctypes.c_int32()
        if self._library.aclrtGetDevice(ctypes.byref(number)):
            raise BackendError(
                "no NPU is set in this thread, so there is nothing to record; call acl.rt.set_device(), or put a"
                " tensor on the NPU, before the window"
            )
        return number.value

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Use an NPU in this thread while the context is open."""
        before = ctypes.c_void_p()
        has_context = self._library.aclrtGetCurrentContext(ctypes.byref(before)) == 0 and before.value
        self.call("aclrtSetDevice", device)
        try:
            yield
        finally:
            if has_context:
                self.call("aclrtSetCurrentContext", before)

    def synchronize(self) -> None:
        """Wait until the NPU of this thread is done. Raises BackendError if a kernel failed."""
        self.call("aclrtSynchronizeDevice")

    def call(self, function: str, *arguments: object) -> None:
        """Call a function of the runtime. Raises BackendError if it fails."""
        if status := getattr(self._library, function)(*arguments):
            raise BackendError(f"CANN reports error {status} from {function}")


class Fence:
    """The fence kernel, which marks a point in the order of records, and its stream, both on one NPU.

    Two streams take turns, because records of a broken-off window's fences may still arrive.
    """

    def __init__(self, acl: Acl, device: int) -> None:
        """Raises BackendError if the kernel or the stream cannot be created."""
        self._acl = acl
        self.device = device
        ops, base = libraries.of_function(_FENCE), libraries.opened("libnnopbase.so")
        self._prepare, self._launch = getattr(ops, f"{_FENCE}GetWorkspaceSize"), getattr(ops, _FENCE)
        memory = ctypes.c_void_p()
        one = (ctypes.c_int64 * 1)(1)
        base.aclCreateTensor.restype = ctypes.c_void_p
        with acl.on(device):
            self._stream, self.stream = self._made()
            self._other = self._made()
            acl.call("aclrtMalloc", ctypes.byref(memory), ctypes.c_size_t(_BYTES), 0)
        self._tensor = ctypes.c_void_p(
            base.aclCreateTensor(
                one,
                ctypes.c_uint64(1),
                _FLOAT,
                one,
                ctypes.c_int64(0),
                _ND,
                one,
                ctypes.c_uint64(1),
                memory,
            )
        )
        if not self._tensor.value:
            raise BackendError("CANN makes no tensor (aclCreateTensor)")
        self._workspace, self._workspace_bytes = ctypes.c_void_p(), 0

    def _made(self) -> tuple[ctypes.c_void_p, int]:
        """Make a stream; return it, and its number in records."""
        stream, number = ctypes.c_void_p(), ctypes.c_int32()
        self._acl.call("aclrtCreateStream", ctypes.byref(stream))
        self._acl.call("aclrtStreamGetId", stream, ctypes.byref(number))
        return stream, number.value

    def numbers(self) -> tuple[int, ...]:
        """Return the possible numbers of the stream in records: MSPTI takes the lower 11 bits if it needs no more."""
        return self.stream, self.stream % _STREAMS

    def switch(self) -> None:
        """Use the other stream from now on."""
        (self._stream, self.stream), self._other = self._other, (self._stream, self.stream)

    def launch(self) -> None:
        """Launch the kernel, and wait for it. Raises BackendError if that fails."""
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        with self._acl.on(self.device):
            self._check(self._prepare(self._tensor, ctypes.byref(size), ctypes.byref(executor)))
            if size.value > self._workspace_bytes:
                self._acl.call("aclrtMalloc", ctypes.byref(self._workspace), ctypes.c_size_t(size.value), 0)
                self._workspace_bytes = size.value
            self._check(self._launch(self._workspace, size, executor, self._stream))
            self._acl.call("aclrtSynchronizeStream", self._stream)

    def _check(self, status: int) -> None:
        if status:
            raise BackendError(f"CANN reports error {status} from {_FENCE}: are its kernels for this NPU installed?")

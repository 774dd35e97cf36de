"""Select the tasks of an NPU that are kernels, by their ``Task Type``: for timelines and for ``task_time_*.csv``."""

from __future__ import annotations

import re
from collections import Counter

_COMPUTES = re.compile(r"AI_|MIX_|DSA_|KERNEL_A|KERNEL_MIX", re.IGNORECASE)
# CANN's type for tasks with an unknown core: kernels, under their names, and tasks such as the next.
_OTHER = "other"
# ``EVENT_WAIT_SQE``: a task of type Other that is no kernel has a name like that of a type.
_TASK = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
# The beginnings of types that wait, copy or control.
_NO_KERNELS = re.compile(
    r"EVENT|NOTIFY|MEM|SDMA|PCIE|RDMA|HCCL|REDUCE_ASYNC|MODEL|STREAM|LABEL|PROFIL|PLACE_?HOLDER|WRITE|WAIT|CCU|CALLBACK"
    r"|HOSTFUNC|CMO|BARRIER|DATADUMP|FLIP|MAINTENANCE|DEBUG|RING",
    re.IGNORECASE,
)


def is_kernel(type_: str, name: str) -> bool:
    """Return True if a task is a kernel.

    >>> is_kernel("AI_CORE", "Cast-op1"), is_kernel("Other", "Cast-op1"), is_kernel("Other", "EVENT_WAIT_SQE")
    (True, True, False)
    """
    if type_.lower() == _OTHER:
        return _TASK.fullmatch(name) is None
    return _COMPUTES.match(type_) is not None


class LeftOut:
    """Tasks that are no kernels and have an unknown type, for a remark."""

    def __init__(self) -> None:
        self._types = Counter[str]()

    def add(self, type_: str) -> None:
        """Note a task that is no kernel."""
        if type_.lower() != _OTHER and not _NO_KERNELS.match(type_):
            self._types[type_[:40]] += 1

    def remarks(self) -> list[str]:
        """Return the remark, if there is one."""
        types = ", ".join(f"{type_} ({count})" for type_, count in self._types.most_common(5))
        return [f"tasks of a type that opprof does not know are left out: {types}"] if types else []

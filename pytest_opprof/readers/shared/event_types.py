"""The fields that are decoded of events of ONNX Runtime, JAX and Ascend. Apart, since importing msgspec takes 20 ms."""

from __future__ import annotations

from math import nan

from msgspec import Raw, Struct
from msgspec import field as named


class OrtArgs(Struct, gc=False, frozen=True):
    """``args`` of a node. In the files that were seen, numbers are texts."""

    op_name: str = ""
    provider: str = ""
    node_index: str | int = ""
    input_type_shape: Raw = Raw(b"")
    output_type_shape: Raw = Raw(b"")
    activation_size: str | int = ""
    parameter_size: str | int = ""
    output_size: str | int = ""
    mem_in_use_peak: str | int = ""


class OrtEvent(Struct, gc=False):
    """An event of ONNX Runtime. Times are us; NaN means that there is none."""

    cat: str = ""
    name: str = ""
    tid: int = 0
    ts: int | float = nan
    dur: int | float = nan
    args: OrtArgs = OrtArgs()


class JaxArgs(Struct, gc=False, frozen=True):
    """``args`` of an op, of a step, or of the event that names a process."""

    hlo_op: str = ""
    hlo_module: str = ""
    run_id: str | int = ""
    step_num: str | int = ""
    name: str = ""


class JaxEvent(Struct, gc=False):
    """An event of JAX. Times are us; NaN means that there is none."""

    ph: str = ""
    name: str = ""
    pid: int = 0
    tid: int = 0
    ts: int | float = nan
    dur: int | float = nan
    args: JaxArgs = JaxArgs()


class TaskArgs(Struct, gc=False, frozen=True):
    """``args`` of a task, or of the event that names a process or thread."""

    task_type: str = named(name="Task Type", default="")
    name: str = ""


class TaskEvent(Struct, gc=False):
    """An event of Ascend. Times are us; NaN means that there is none."""

    ph: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    dur: int | float = nan
    args: TaskArgs = TaskArgs()

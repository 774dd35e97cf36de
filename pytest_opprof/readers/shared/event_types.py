"""What is decoded of the events of ONNX Runtime, JAX, Ascend. In a module of its own: importing msgspec takes 20 ms."""

from __future__ import annotations

from math import nan

from msgspec import Raw, Struct
from msgspec import field as named


class OrtArgs(Struct, gc=False, frozen=True):
    """Of a node; the numbers that were seen are texts."""

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
    """Times are us; NaN is none."""

    cat: str = ""
    name: str = ""
    tid: int = 0
    ts: int | float = nan
    dur: int | float = nan
    args: OrtArgs = OrtArgs()


class JaxArgs(Struct, gc=False, frozen=True):
    """Of an op, of a step, and of the name of a process."""

    hlo_op: str = ""
    hlo_module: str = ""
    run_id: str | int = ""
    step_num: str | int = ""
    name: str = ""


class JaxEvent(Struct, gc=False):
    """Times are us; NaN is none."""

    ph: str = ""
    name: str = ""
    pid: int = 0
    tid: int = 0
    ts: int | float = nan
    dur: int | float = nan
    args: JaxArgs = JaxArgs()


class TaskArgs(Struct, gc=False, frozen=True):
    """Of a task, and of the name of a process or thread."""

    task_type: str = named(name="Task Type", default="")
    name: str = ""


class TaskEvent(Struct, gc=False):
    """Times are us; NaN is none."""

    ph: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    dur: int | float = nan
    args: TaskArgs = TaskArgs()

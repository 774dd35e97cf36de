"""The decoded fields of events of JAX and Ascend. Apart, since importing msgspec takes 20 ms."""

from __future__ import annotations

from math import nan

from msgspec import Struct
from msgspec import field as named


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


class TimedTaskEvent(Struct, gc=False):
    """The same with its start. torch_npu and MindSpore write times as texts, which keep all their digits."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: str | int | float = nan
    dur: str | int | float = nan
    args: TaskArgs = TaskArgs()

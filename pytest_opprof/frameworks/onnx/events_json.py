"""The decoded fields of events of ONNX Runtime. Apart, since importing msgspec takes 20 ms."""

from __future__ import annotations

from math import nan

from msgspec import Raw, Struct


class Arguments(Struct, gc=False, frozen=True):
    """``args`` of a node. In all tested files numbers are texts."""

    op_name: str = ""
    provider: str = ""
    node_index: str | int = ""
    input_type_shape: Raw = Raw(b"")
    output_type_shape: Raw = Raw(b"")
    activation_size: str | int = ""
    parameter_size: str | int = ""
    output_size: str | int = ""
    mem_in_use_peak: str | int = ""


class Event(Struct, gc=False):
    """An event of ONNX Runtime. Times are us; NaN means that there is none."""

    cat: str = ""
    name: str = ""
    tid: int = 0
    ts: int | float = nan
    dur: int | float = nan
    args: Arguments = Arguments()

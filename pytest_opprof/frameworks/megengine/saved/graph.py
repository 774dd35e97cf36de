"""MegEngine's graph profile: one JSON document of ``load_and_run --profile`` or ``jit.trace(profiling=True)``.

Written by ``load_and_run``, by ``python -m megengine.tools.load_network_and_run NET --profile OUT.json`` (one line, in
the key order of a hash map) and by ``json.dump(traced.get_profile())``; ``tools.profile_analyze`` reads it::

    {"profiler": {"device":        {OPR: {COMP_NODE: {"start", "kern", "end"}}},
                  "host":          {OPR: {THREAD: {"start", "kern", "end"}}},
                  "opr_footprint": {OPR: {"param", "in_shapes", "out_shapes", "memory", "computation", ...}},
                  "opr_internal_pf": {...}},
     "graph_exec": {"comp_seq": [OPR], "operator": {OPR: {"name", "type", "input": [VAR], "output": [VAR], ...}},
                    "var": {VAR: {"mem_plan": null or {"layout": {"dtype", "shape", "stride"}, ...}, ...}},
                    "mem_chunk": {...}}}

- Times are seconds; those of a CPU have a resolution of 1 us. Each computing node and the host have a clock of their
  own, so that only differences mean something. ``kern`` is when the first kernel began; on the host it is -1 if none
  did. The time of an operator is the one on the computing node (or thread) where it took longest.
- MegEngine keeps only the last of all profiled executions.
- ``memory`` is bytes of inputs and outputs on the device, without workspace; ``computation`` is null if MegEngine
  has no formula (BatchedMatrixMul, Softmax, LayerNorm ...); a shape without dimensions is a scalar or not known.
- ``operator`` also has operators that were not executed: folded constants, shapes computed ahead. Executed ones are in
  ``comp_seq``, and have times unless the profile was recorded under MGB_PROFILE_ONLY_WAIT.
- A dtype is known if memory was planned ahead (a fifth of the variables), and from the names that MegEngine gives
  to TypeCvt: ``asFloat16(x)[12]``.
- The workspace is the last of an operator's outputs and has no shape in ``out_shapes``.

Seen: 1.13.0 (host threads ``interpreter`` and ``comp_node_dispatch:...``). In older documents only the name of the
thread differs (``@``). No recording with CUDA was available.

Memory: twice the file for a real profile (201 MB: 411 MB), 18 times for a malicious one; files are limited to 512 MiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from ....errors import TraceError
from ....ops import names
from ....profile.environment import Environment
from ....profile.saved import SavedOp, SavedProfile
from ...files.format import Format, Options
from ...files.place import Place

if TYPE_CHECKING:
    from .documents import GraphProfile, Span

TITLE = "MegEngine graph profile"
# Bytes of a file, 512 MiB: 260,000 operators.
MOST_BYTES = 512 << 20
_BEGIN = re.compile(
    rb'\s*\{\s*"(?:profiler|graph_exec)"\s*:\s*\{\s*'
    rb'"(?:device|host|opr_footprint|opr_internal_pf|comp_seq|operator|var|mem_chunk)"\s*:'
)
_COMP_NODE = re.compile(r'CompNode\("([^"]+)"')
_TYPE_CVT = re.compile(r"as(\w+)\(")
_OPS_BY_MODE = {
    "Pooling": {"MAX": "MaxPool", "AVERAGE": "AveragePool", "AVERAGE_COUNT_EXCLUDE_PADDING": "AveragePool"},
    # MegEngine's Broadcast does not communicate: it expands a tensor.
    "Broadcast": {"": "Expand"},
    "PoolingBackward": {
        "MAX": "MaxPoolGrad",
        "AVERAGE": "AveragePoolGrad",
        "AVERAGE_COUNT_EXCLUDE_PADDING": "AveragePoolGrad",
    },
    "Reduce": {
        "SUM": "ReduceSum",
        "PRODUCT": "ReduceProd",
        "MEAN": "ReduceMean",
        "MAX": "ReduceMax",
        "MIN": "ReduceMin",
    },
}


def recognises(place: Place) -> bool:
    """Return True if the file begins like a graph profile."""
    return not place.is_folder and _BEGIN.match(place.head) is not None


def read(place: Place, options: Options) -> SavedProfile:
    """Return the operators of the execution in the file. Raises TraceError.

    A cut file cannot be read in part: the type of an operator and its times are in different tables.
    """
    from .documents import GRAPH_PROFILE, decode

    profile = decode(GRAPH_PROFILE, place.read(MOST_BYTES), place)
    profiler, graph = profile.profiler, profile.graph_exec
    if not profiler.device and not profiler.host:
        raise TraceError(f"{place}: holds no operator that was executed; run the network at least once (--iter 1)")
    ran = {*profiler.device, *profiler.host, *graph.comp_seq}
    if strangers := ran - graph.operator.keys():
        raise TraceError(f"{place}: operator {min(strangers)[:40]!r} was executed, but is not in graph_exec.operator")
    untimed = len(ran - profiler.device.keys())
    try:
        records = tuple(_records(profile, ran))
    except ValueError as error:
        raise TraceError(f"{place}: is not as MegEngine writes it: {error}") from None
    return SavedProfile(
        TITLE,
        environment({node for record in records for node in record.place.split("+")} - {""}),
        records,
        remarks=(f"{untimed} of {len(ran)} operators have no device time",) if untimed else (),
    )


def environment(comp_nodes: Iterable[str]) -> Environment:
    """Return the environment; the devices' kind is known, their model is not."""
    kinds = {comp_node(text).rstrip("0123456789:").replace("multithread", "cpu") for text in comp_nodes}
    return Environment((("megengine", ""),), "+".join(sorted(kinds)), "")


@lru_cache(1024)
def comp_node(text: str) -> str:
    """Return the physical node.

    >>> comp_node('CompNode("cpu0:0" from "xpux:0")')
    'cpu0:0'
    """
    match = _COMP_NODE.match(text)
    return match[1] if match else text


@lru_cache(1024)
def op_by_mode(raw: str, mode: str) -> str:
    """Return the op of a raw type whose *mode* decides the op; "" for other types.

    >>> op_by_mode("PoolingForward", "AVERAGE"), op_by_mode("Convolution", "CROSS_CORRELATION")
    ('AveragePool', '')
    """
    if raw == "Elemwise" and mode:
        return names.meaning(mode).op
    plain = raw.removeprefix("Adaptive").removesuffix("V1").removesuffix("Forward")
    return _OPS_BY_MODE.get(plain, {}).get(mode, "")


def _records(profile: GraphProfile, ran: set[str]) -> Iterator[SavedOp]:
    """Yield the executed operators in the order of ``graph_exec.operator``, as profile_analyze does for equal times.

    Raises ValueError.
    """
    from .documents import FOOTPRINT, OPERATOR, SPANS

    profiler, nothing = profile.profiler, b"{}"
    device, host, footprints = profiler.device, profiler.host, profiler.opr_footprint
    dtypes = _dtypes(profile)
    for identifier, text in profile.graph_exec.operator.items():
        if identifier not in ran:
            continue
        try:
            operator = OPERATOR.decode(text)
            footprint = FOOTPRINT.decode(footprints.get(identifier, nothing))
            nodes = SPANS.decode(device.get(identifier, nothing))
            device_ns, device_launch_ns = _longest(nodes)
            host_ns, host_launch_ns = _longest(SPANS.decode(host.get(identifier, nothing)))
        except ValueError as error:
            raise ValueError(f"operator {identifier[:40]!r}: {error}") from None
        shapes = footprint.out_shapes
        # By position: keywords take 2 us more, a sixth of the time.
        yield SavedOp(
            operator.name,
            operator.type,
            identifier,
            0,
            1,
            device_ns,
            host_ns,
            device_launch_ns,
            host_launch_ns,
            None,
            None,
            footprint.computation or None,
            footprint.memory,
            footprint.in_shapes,
            shapes,
            _known(dtypes, operator.input),
            _known(dtypes, operator.output[: len(shapes)] if shapes else operator.output),
            (),
            (),
            _together(*nodes),
            op_by_mode(operator.type, footprint.mode),
        )


def _longest(spans: Mapping[str, Span]) -> tuple[int | None, int | None]:
    """Return the longest time until the end, and until the first kernel, in ns."""
    whole = launch = -1.0
    for span in spans.values():
        start, kern, end = span.start, span.kern, span.end
        if not start <= end >= kern:
            raise ValueError(f"it ends before it begins: {span}")
        if end - start > whole:
            whole = end - start
        if kern - start > launch:
            launch = kern - start
    return (None if whole < 0 else round(whole * 1e9)), (None if launch < 0 else round(launch * 1e9))


@lru_cache(1024)
def _together(*nodes: str) -> str:
    return "+".join(map(comp_node, nodes))


def _dtypes(profile: GraphProfile) -> dict[str, str]:
    """Return the known dtypes of the variables."""
    from .documents import OPERATOR

    graph = profile.graph_exec
    dtypes = {
        identifier: var.mem_plan.layout.dtype
        for identifier, var in graph.var.items()
        if var.mem_plan is not None and var.mem_plan.layout is not None
    }
    for text in graph.operator.values():
        if b'"TypeCvt"' in bytes(text):
            operator = OPERATOR.decode(text)
            if operator.output and (match := _TYPE_CVT.match(operator.name)):
                dtypes.setdefault(operator.output[0], match[1])
    return dtypes


def _known(dtypes: Mapping[str, str], variables: tuple[str, ...]) -> tuple[str, ...]:
    """Return the dtype of each variable, "" if unknown; () if all are."""
    found = tuple(map(dtypes.get, variables))
    return tuple(dtype or "" for dtype in found) if any(found) else ()


FORMAT = Format(TITLE, recognises, read)

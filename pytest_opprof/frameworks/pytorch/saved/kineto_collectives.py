"""Collectives in a Kineto trace: their times, and the groups of ranks that join them.

On a GPU the time is that of NCCL's kernels, whose ``args`` have ``Collective name`` and ``Process Group Name`` and
``Ranks`` (PyTorch 2.3 and newer). On a CPU it is the time of gloo's own annotations, which do not name the group;
``distributedInfo`` has all groups: ``pg_name``, and since PyTorch 2.4 ``pg_desc``, which is ``mesh_tp`` for the
dimension ``tp`` of a DeviceMesh. NCCL's annotations (``nccl:all_reduce``) only launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....ops.names import meaning
from ....profile.saved import Collective
from ..events import collective
from .calls import json_text
from .kineto_events import Events, Steps

# A broadcast or a reduce waits for one rank, not for all.
_OPS = frozenset(["AllReduce", "AllGather", "ReduceScatter", "AllToAll", "Barrier"])
# ``ncclDevKernel_AllReduce_Sum_f32_RING_LL``; SendRecv may belong to AllToAll, and is left out.
_KERNEL = re.compile(r"nccl(?:Dev)?Kernel_(\w+?)_")


def collectives(events: Events, steps: Steps, groups: object) -> tuple[Collective, ...]:
    """Return the collectives in the order in which they began. *groups* is ``pg_config``, which newer files have."""
    told = groups if isinstance(groups, list) else []
    alone = "the only one" if len(told) == 1 else None
    kinds = {str(each.get("pg_name")): _kind(each.get("pg_desc")) for each in told if isinstance(each, dict)}
    found = sorted(_transfers(events))
    return tuple(
        Collective(op, group or alone, steps.at(start), ns, kinds.get(group.partition(" ")[0], ""))
        for start, ns, op, group in found
    )


def _kind(description: object) -> str:
    """Return the kind of a group by its description; PyTorch's own words for a group without one tell none."""
    is_told = isinstance(description, str) and description not in ("default_pg", "undefined")
    return str(description).removeprefix("mesh_") if is_told else ""


def _transfers(events: Events) -> Iterator[tuple[int, int, str, str]]:
    for start, ns, (kernel, *told) in events.transfers:
        asked, name, ranks = (json_text(each) for each in told)
        match = _KERNEL.match(kernel)
        if op := _op(asked) or _op(match[1] if match else ""):
            yield start, ns, op, f"{name} {ranks}".strip()
    gloo = {
        number: op
        for number, call in enumerate(events.calls)
        if call.name.startswith("gloo:") and (op := _op(call.name[len("gloo:") :]))
    }
    for thread in events.threads if gloo else ():
        for start, ns, _, call in zip(*thread.columns()):
            if call in gloo:
                yield start, ns, gloo[call], ""


def _op(name: str) -> str:
    op = meaning(collective(name)).op
    return op if op in _OPS else ""

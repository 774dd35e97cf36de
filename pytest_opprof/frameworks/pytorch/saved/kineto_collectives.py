"""Collectives in a Kineto trace: how long each took, and which ranks do it together.

On a GPU that is the time of NCCL's kernels, whose ``args`` have ``Collective name`` and ``Process Group Name`` and
``Ranks`` (PyTorch 2.3 and newer). On a CPU it is the time of gloo's own annotations, which do not tell the group;
``distributedInfo`` says how many groups there were. NCCL's annotations (``nccl:all_reduce``) only launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....ops.names import meaning
from ....profile.saved import Collective
from ..events import collective
from .calls import json_text
from .kineto_events import Events, Steps

_OPS = frozenset(["AllReduce", "AllGather", "ReduceScatter", "AllToAll", "Barrier"])
"""A broadcast or a reduce waits for one rank, not for all."""
_KERNEL = re.compile(r"nccl(?:Dev)?Kernel_(\w+?)_")
"""``ncclDevKernel_AllReduce_Sum_f32_RING_LL``; SendRecv may be of AllToAll, and is not told."""


def collectives(events: Events, steps: Steps, groups: object) -> tuple[Collective, ...]:
    """Return them in the order in which they began. *groups* is the file's ``pg_config``, which newer ones have."""
    alone = "the only one" if isinstance(groups, list) and len(groups) == 1 else None
    found = sorted(_transfers(events))
    return tuple(Collective(op, group or alone, steps.at(start), ns) for start, ns, op, group in found)


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

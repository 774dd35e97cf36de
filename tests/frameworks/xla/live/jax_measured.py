"""JAX with four devices, and what a window of it recorded. It is imported in functions: collecting does without."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

from pytest_opprof.frameworks.xla.live.backend import backend
from pytest_opprof.profile.op_profile import OpProfile

from ...measured import measured as by_backend

DEVICES = 4


def start() -> None:
    """Start JAX: a process cannot have more devices later, and pytester must not forget the modules."""
    os.environ.setdefault("XLA_FLAGS", f"--xla_force_host_platform_device_count={DEVICES}")
    import jax

    assert len(jax.devices()) == DEVICES


def measured(*bodies: Callable[[], object]) -> OpProfile:
    """Return the profile of a window with a step for each body."""
    return by_backend(backend(), *bodies)


def opcodes(profile: OpProfile, step: int = 0) -> Counter[str]:
    """Return how often each opcode ran: raw names, without those of fusions and of opprof's own."""
    from pytest_opprof.frameworks.xla.opcodes import plain_name

    columns, found = profile.columns, Counter[str]()
    for key, number in zip(columns.key[columns.step == step], columns.events[columns.step == step]):
        raw = profile.keys[key].raw
        if not raw.startswith("jax::") and raw != "while" and "_fusion" not in raw and plain_name(raw) == raw:
            found[raw] += int(number)
    return found


def calls(profile: OpProfile) -> dict[str, int | tuple[int, ...]]:
    """Return the calls of each op, of several steps one by one."""
    return {stats.op: stats.calls[0] if profile.steps == 1 else stats.calls for stats in profile.ops}

"""Profiles put together: what several backends recorded of one window, and windows of one name as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .environment import Environment
from .kernels import together
from .op_profile import ALWAYS, MemoryUse, OpProfile, numbered


def assemble(
    parts: Sequence[tuple[OpProfile, Mapping[int, int]]],
    host_ns: Sequence[int],
    wait_ns: Sequence[int] = (),
    yardstick_ns: Sequence[int] = (),
) -> OpProfile:
    """Put a window together from what was recorded while it was open.

    Each part is a profile whose steps are intervals and a map from interval to the window's step; intervals that the
    map lacks are not the window's. *host_ns* is the wall time of each of its steps; a step beyond it was cut short.
    *wait_ns* is how long each of them waited for a CPU, *yardstick_ns* how long a fixed piece of work took before it,
    where that is known.
    """
    kept = [_select(profile, steps, len(host_ns)) for profile, steps in parts]
    by_frameworks = [profile for profile in kept if profile.environment.frameworks] or kept
    recorded = [profile for profile in by_frameworks if len(profile.op)] or by_frameworks
    op_names, op_maps = _merged([profile.op_names for profile in kept])
    raw_names, raw_maps = _merged([profile.raw_names for profile in kept])
    flops = [profile.flops for profile in kept if profile.flops is not None]
    return OpProfile(
        environment=Environment.together(profile.environment for profile in recorded),
        op_names=op_names,
        raw_names=raw_names,
        op=np.concatenate([numbers[profile.op] for numbers, profile in zip(op_maps, kept)]),
        raw=np.concatenate([numbers[profile.raw] for numbers, profile in zip(raw_maps, kept)]),
        counted=np.concatenate([profile.counted for profile in kept]),
        events=np.concatenate([profile.events for profile in kept]),
        device_ns=np.concatenate([profile.device_ns for profile in kept]),
        bytes=np.concatenate([profile.bytes for profile in kept]),
        # Known only if every backend that recorded knows it: half a sum would pass a limit.
        flops=np.concatenate(flops) if all(profile.flops is not None for profile in recorded) else None,
        step=np.concatenate([profile.step for profile in kept]),
        host_ns=tuple(host_ns),
        memory=_memory_by_step(parts, len(host_ns)) if all(p.memory is not None for p in recorded) else None,
        knows=lambda name: any(profile.knows(name) for profile in kept),
        busy_ns=_busy_by_step(parts, len(host_ns)),
        on_device=together([profile.on_device for profile in kept], raw_maps, op_maps),
        wait_ns=tuple(wait_ns) if len(wait_ns) == len(host_ns) else (),
        yardstick_ns=tuple(yardstick_ns) if len(yardstick_ns) == len(host_ns) else (),
        remarks=tuple(dict.fromkeys(remark for profile in kept for remark in profile.remarks)),
        disturbed=tuple(dict.fromkeys(what for profile in kept for what in profile.disturbed)),
        unseen=tuple(dict.fromkeys(where for profile in kept for where in profile.unseen)),
    )


def joined(profiles: Sequence[OpProfile]) -> OpProfile:
    """Return the profile whose steps are those of all *profiles*, in order."""
    parts, host_ns, wait_ns, yardstick_ns = [], list[int](), list[int](), list[int]()
    for profile in profiles:
        parts.append((profile, {step: step + len(host_ns) for step in range(profile.steps)}))
        host_ns.extend(profile.host_ns)
        wait_ns.extend(profile.wait_ns)
        yardstick_ns.extend(profile.yardstick_ns)
    return assemble(parts, host_ns, wait_ns, yardstick_ns)


def _select(profile: OpProfile, steps: Mapping[int, int], number_of_steps: int) -> OpProfile:
    numbers = np.full(profile.steps, -1, np.int32)
    numbers[list(steps)] = list(steps.values())
    step = numbers[profile.step]
    kept = (step >= 0) & (step < number_of_steps)
    return OpProfile(
        environment=profile.environment,
        op_names=profile.op_names,
        raw_names=profile.raw_names,
        op=profile.op[kept],
        raw=profile.raw[kept],
        counted=profile.counted[kept],
        events=profile.events[kept],
        device_ns=profile.device_ns[kept],
        bytes=profile.bytes[kept],
        flops=None if profile.flops is None else profile.flops[kept],
        step=step[kept],
        host_ns=profile.host_ns,
        memory=profile.memory,
        knows=profile.knows,
        busy_ns=profile.busy_ns,
        on_device=profile.on_device and profile.on_device.in_steps(numbers, number_of_steps),
        remarks=tuple(_remarks_of(profile.remarks, numbers, number_of_steps)),
        disturbed=profile.disturbed,
        unseen=profile.unseen,
    )


def _remarks_of(
    remarks: Iterable[tuple[int, str]], numbers: NDArray[np.int32], number_of_steps: int
) -> Iterator[tuple[int, str]]:
    for interval, text in remarks:
        if interval == ALWAYS:
            yield ALWAYS, text
        elif 0 <= numbers[interval] < number_of_steps:
            yield int(numbers[interval]), text


def _busy_by_step(parts: Sequence[tuple[OpProfile, Mapping[int, int]]], steps: int) -> tuple[int, ...] | None:
    known = [(profile.busy_ns, numbers) for profile, numbers in parts if profile.busy_ns is not None]
    sums = [0] * steps
    for busy_ns, numbers in known:
        for interval, step in numbers.items():
            if step < steps:
                sums[step] += busy_ns[interval]
    return tuple(sums) if known else None


def _memory_by_step(parts: Sequence[tuple[OpProfile, Mapping[int, int]]], steps: int) -> tuple[MemoryUse, ...]:
    uses = [MemoryUse()] * steps
    for profile, numbers in parts:
        for interval, step in sorted(numbers.items()):
            if profile.memory is not None and step < steps:
                uses[step] = uses[step].then(profile.memory[interval])
    return tuple(uses)


def _merged(tables: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], list[NDArray[np.int32]]]:
    """Return the union of the name *tables*, and for each table the new numbers of its names."""
    union, numbers = numbered([text for table in tables for text in table])
    ends = np.cumsum([len(table) for table in tables])
    return union, np.split(numbers, ends[:-1])

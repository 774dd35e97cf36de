"""Assemble profiles: several backends' recordings of one window, and windows of one name as one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...sites.shown import Shown
from .. import moments as when
from ..columns import Columns, numbered
from ..environment import Environment
from ..kernels import Kernels, together
from ..memory import MemoryUse
from ..op_key import By, OpKey, line_of, with_dtypes
from ..op_profile import ALWAYS, OF_THE_MOST, OpProfile, Remark


class Part(NamedTuple):
    """Some events, and their keys."""

    keys: Sequence[OpKey]
    """May contain equal keys more than once."""
    columns: Columns
    on_device: Kernels | None = None
    moments: when.Moments | None = None


def built(environment: Environment, host_ns: Iterable[int], *parts: Part) -> OpProfile:
    """Return the profile of the events of all *parts*, with one table of keys. No other code makes an OpProfile.

    Facts besides the events are added by `dataclasses.replace`.
    """
    keys, numbers = numbered([key for part in parts for key in part.keys])
    ends = [*accumulate(len(part.keys) for part in parts)]
    new = [numbers[end - len(part.keys) : end] for part, end in zip(parts, ends)]
    columns = [replace(part.columns, key=of_key[part.columns.key]) for part, of_key in zip(parts, new)]
    on_device = together([part.on_device for part in parts], new)
    moments = when.together([part.moments for part in parts], new)
    return OpProfile(environment, keys, Columns.joined(columns), tuple(host_ns), on_device=on_device, moments=moments)


def assemble(
    parts: Sequence[tuple[OpProfile, Mapping[int, int]]],
    host_ns: Sequence[int],
    wait_ns: Sequence[int] = (),
    yardstick_ns: Sequence[int] = (),
    ran_ns: Sequence[tuple[int, int]] = (),
    cpu_ns: Sequence[tuple[int, int]] = (),
) -> OpProfile:
    """Assemble a window from the recordings made while it was open.

    Each part is a profile whose steps are intervals and a map from interval to the window's step; intervals that the
    map lacks are not the window's. *host_ns* is the wall time of each of its steps; a step beyond it was cut short.
    *wait_ns* is the time that each step waited for a CPU, *yardstick_ns* the time of a fixed piece of work before it,
    if known; *cpu_ns* its CPU time; *ran_ns* its start and end, if the times of events are recorded.
    """
    kept = [_select(profile, steps, len(host_ns)) for profile, steps in parts]
    by_frameworks = [profile for profile in kept if profile.environment.frameworks] or kept
    recorded = [profile for profile in by_frameworks if not profile.is_empty] or by_frameworks
    profile = built(
        Environment.together(profile.environment for profile in recorded),
        host_ns,
        *(Part(profile.keys, profile.columns, profile.on_device, profile.moments) for profile in kept),
    )
    if profile.columns.flops is not None and any(part.columns.flops is None for part in recorded):
        # Known only if every recording backend knows it, because half a sum would pass a limit.
        profile = replace(profile, columns=replace(profile.columns, flops=None))
    return replace(
        profile,
        memory=_memory_by_step(parts, len(host_ns)) if all(p.memory is not None for p in recorded) else None,
        knows=lambda name: any(profile.knows(name) for profile in kept),
        busy_ns=_sums_by_step([(each.busy_ns, steps) for each, steps in parts], len(host_ns)),
        communication_ns=_sums_by_step([(each.communication_ns, steps) for each, steps in parts], len(host_ns)),
        fact_sites=tuple(site for profile in kept for site in profile.fact_sites),
        explained={quantity: why for profile in kept for quantity, why in profile.explained.items()},
        explained_at={quantity: at for profile in kept for quantity, at in profile.explained_at.items()},
        counts=_counts_by_step(
            # PyTorch also records in a test of NumPy if another test imported it; it does not count then.
            [part for part in parts if set(part[0].environment.frameworks) <= set(profile.environment.frameworks)],
            len(host_ns),
        ),
        wait_ns=tuple(wait_ns) if len(wait_ns) == len(host_ns) else (),
        yardstick_ns=tuple(yardstick_ns) if len(yardstick_ns) == len(host_ns) else (),
        cpu_ns=tuple(cpu_ns) if len(cpu_ns) == len(host_ns) else (),
        ran_ns=tuple(ran_ns),
        untold=_untold(kept) if ran_ns else (),
        remarks=tuple(dict.fromkeys(remark for profile in kept for remark in profile.remarks)),
        disturbed=tuple(dict.fromkeys(what for profile in kept for what in profile.disturbed)),
        unmeasured={op: why for profile in kept for op, why in profile.unmeasured.items()},
        unseen=tuple(dict.fromkeys(where for profile in kept for where in profile.unseen)),
    )


def told_apart(profile: OpProfile, by: By) -> OpProfile:
    """Return *profile* with an op for each name, where every call counts, or for each op on the same dtypes or shapes.

    By dtype (``Cast[float32->bfloat16]``), by shape (``Cast FLOAT->DT_BF16 [32,64]``) and by site (``Cast nets.py:12 in
    as_float``, below the current directory) calls that are parts of others stand apart, so that the total stays the
    same.
    """
    keys, columns = profile.keys, profile.columns
    if by == "type":
        return profile
    if by == "name":
        named = (key._replace(op=key.name or key.raw) for key in keys)
        return replace(profile, keys=tuple(named), columns=replace(columns, counted=columns.events))
    is_part = columns.counted == 0
    with_parts, number = np.unique(columns.key[is_part], return_inverse=True)
    key = columns.key.copy()
    key[is_part] = len(keys) + number
    shown = Shown(os.curdir)
    calls: Mapping[str, Callable[[OpKey], str]] = {
        "dtype": lambda key: with_dtypes(key.op, key.signature.dtypes),
        "shape": lambda key: f"{key.op} {key.signature.text}".rstrip(),
        "site": lambda key: f"{key.op} {line_of(key.site, shown)}",
    }
    shaped = [key._replace(op=calls[by](key)) for key in keys]
    shaped += [keys[index]._replace(op=f"{keys[index].op} (parts)") for index in with_parts.tolist()]
    counted = np.where(is_part, columns.events, columns.counted)
    return replace(profile, keys=tuple(shaped), columns=replace(columns, key=key, counted=counted))


def joined(profiles: Sequence[OpProfile]) -> OpProfile:
    """Return the profile with the steps of all *profiles*, in order."""
    if len(profiles) == 1:
        return profiles[0]
    parts, host_ns, wait_ns, yardstick_ns = [], list[int](), list[int](), list[int]()
    ran_ns, cpu_ns = list[tuple[int, int]](), list[tuple[int, int]]()
    for profile in profiles:
        parts.append((profile, {step: step + len(host_ns) for step in range(profile.steps)}))
        host_ns.extend(profile.host_ns)
        wait_ns.extend(profile.wait_ns)
        yardstick_ns.extend(profile.yardstick_ns)
        ran_ns.extend(profile.ran_ns)
        cpu_ns.extend(profile.cpu_ns)
    return assemble(parts, host_ns, wait_ns, yardstick_ns, ran_ns, cpu_ns)


def _select(profile: OpProfile, steps: Mapping[int, int], number_of_steps: int) -> OpProfile:
    numbers = np.full(profile.steps, -1, np.int32)
    numbers[list(steps)] = list(steps.values())
    step = numbers[profile.columns.step]
    columns = replace(profile.columns, step=step).chosen((step >= 0) & (step < number_of_steps))
    return replace(
        profile,
        columns=columns,
        on_device=profile.on_device and profile.on_device.in_steps(numbers, number_of_steps),
        moments=profile.moments and profile.moments.in_steps(numbers, number_of_steps),
        remarks=tuple(_remarks_of(profile.remarks, numbers, number_of_steps)),
        fact_sites=tuple(
            each._replace(step=int(numbers[each.step]))
            for each in profile.fact_sites
            if 0 <= numbers[each.step] < number_of_steps
        ),
    )


def _remarks_of(
    remarks: Iterable[tuple[int, Remark]], numbers: NDArray[np.int32], number_of_steps: int
) -> Iterator[tuple[int, Remark]]:
    for interval, remark in remarks:
        if interval == ALWAYS:
            yield ALWAYS, remark
        elif 0 <= numbers[interval] < number_of_steps:
            yield int(numbers[interval]), remark


def _untold(recorded: Iterable[OpProfile]) -> tuple[str, ...]:
    """Return the frameworks of recordings without times of events."""
    silent = [each for each in recorded if each.moments is None and not each.is_empty]
    return tuple(dict.fromkeys([name for each in silent for name, _ in each.environment.frameworks]))


def _sums_by_step(
    parts: Sequence[tuple[tuple[int, ...] | None, Mapping[int, int]]], steps: int
) -> tuple[int, ...] | None:
    sums = [0] * steps
    known = [(by_interval, numbers) for by_interval, numbers in parts if by_interval is not None]
    for by_interval, numbers in known:
        for interval, step in numbers.items():
            if step < steps:
                sums[step] += by_interval[interval]
    return tuple(sums) if known else None


def _counts_by_step(parts: Sequence[tuple[OpProfile, Mapping[int, int]]], steps: int) -> dict[str, dict[int, int]]:
    """Return the sum, or the maximum, of each quantity, in the steps whose intervals are all known to all reporting
    parts.
    """
    found = {}
    for quantity in dict.fromkeys(name for profile, _ in parts for name in profile.counts):
        sums, unknown = Counter[int](), set[int]()
        told = [(profile.counts[quantity], numbers) for profile, numbers in parts if quantity in profile.counts]
        for known, numbers in told:
            for interval, step in numbers.items():
                more = known.get(interval, 0)
                sums[step] = max(sums[step], more) if quantity in OF_THE_MOST else sums[step] + more
                if interval not in known:
                    unknown.add(step)
        found[quantity] = {step: count for step, count in sums.items() if step < steps and step not in unknown}
    return found


def _memory_by_step(parts: Sequence[tuple[OpProfile, Mapping[int, int]]], steps: int) -> tuple[MemoryUse, ...]:
    uses = [MemoryUse()] * steps
    for profile, numbers in parts:
        for interval, step in sorted(numbers.items()):
            if profile.memory is not None and step < steps:
                uses[step] = uses[step].then(profile.memory[interval])
    return tuple(uses)

"""Convert one round of a window into a timeline for a trace."""

from __future__ import annotations

from ..ops import names
from ..profile.op_profile import OpProfile
from .spans import Kind, Lane, Timeline

_ON_DEVICE = {names.Kind.COPY: Kind.COPY, names.Kind.COMMUNICATION: Kind.COMMUNICATION}


def traced_round(profile: OpProfile) -> int:
    """Return the round to trace: the fastest of the rounds with the most calls, as in the table."""
    calls, times = profile.total.calls, profile.total.device_ns or profile.host_ns
    return min(range(profile.steps), key=lambda step: (-calls[step], times[step]))


def timeline_of(profile: OpProfile, step: int) -> Timeline:
    """Return the spans of a *step*: a call of an op is named by it and its raw name, a part of one by its raw name.

    Work of a device has the name of its op, too. It may end after the step.
    """
    found, moments = Timeline(), profile.moments
    begin, end = profile.ran_ns[step]
    found.add(Lane("rounds", "rounds"), f"round {step + 1} of {profile.steps}", Kind.RANGE, begin, end - begin)
    if moments is None:
        return found
    lanes = [Lane(*lane) for lane in moments.lanes]
    chosen = moments.step == step
    columns = (moments.key, moments.counted, moments.start_ns, moments.end_ns, moments.lane)
    for number, counted, start, stop, lane in zip(*(column[chosen].tolist() for column in columns)):
        key, where = profile.keys[number], lanes[lane]
        named = (counted or where.on_device) and key.op != key.raw
        kind = Kind.OP if counted else Kind.CALL
        if where.on_device:
            kind = _ON_DEVICE.get(names.meaning(key.raw).kind, Kind.OP)
        found.add(where, f"{key.op} ({key.raw})" if named else key.raw, kind, start, stop - start)
    return found

"""The project's own profile format: a `SavedProfile` as JSON, one record a line. Its schema: ``schema/profile-1.json``.

``{"opprof_profile": 1, "fields": [...], "source": ..., "environment": ..., "records": [[...], ...], "kernels": ...}``:
``fields`` are the fields of `SavedOp`; each record is an array in their order, and null means unknown. Times are ns,
sizes are bytes. `opprof convert` writes this format. `chrome` writes Chrome's trace format, for a viewer: one bar an
op, each beginning where the one before ends, since a profile by op has no timeline.
"""

from __future__ import annotations

import json
from dataclasses import fields
from itertools import accumulate
from typing import Any

from ..errors import TraceError
from ..profile.environment import environment_of, plain_environment
from ..profile.saved import SavedKernel, SavedOp, SavedProfile, op_of
from .shared.options import Options
from .shared.place import Place

TITLE = "pytest-opprof profile"
VERSION = 1
MOST_BYTES = 1 << 30
_MARK = "opprof_profile"
_PLAIN = tuple(
    field.name for field in fields(SavedProfile) if field.name not in ("environment", "records", "kernels", "launches")
)


def recognises(place: Place) -> bool:
    """Tell whether the file begins as `dump` begins it."""
    return f'{{"{_MARK}":'.encode() in b"".join(place.head[:200].split())


def dump(saved: SavedProfile) -> str:
    """Return *saved* as text of this format."""
    head: dict[str, Any] = {
        _MARK: VERSION,
        "fields": list(SavedOp._fields),
        "kernel_fields": list(SavedKernel._fields),
    }
    head |= {name: getattr(saved, name) for name in _PLAIN}
    head["environment"] = plain_environment(saved.environment)
    lines = [f'"{key}": {json.dumps(value)}' for key, value in head.items()]
    lines.append(f'"kernels": {_array(saved.kernels)}')
    lines.append(f'"launches": {_array(saved.launches)}')
    lines.append(f'"records": {_array(saved.records)}')
    return "{" + ",\n ".join(lines) + "}\n"


def _array(records: tuple[tuple[object, ...], ...] | None) -> str:
    if records is None:
        return "null"
    return "[" + ",".join(f"\n  {json.dumps(record, allow_nan=False)}" for record in records) + "]"


def read(place: Place, options: Options) -> SavedProfile:
    """Read what `dump` wrote, with a memory of about 4 times the file. Raises TraceError for anything else."""
    import msgspec

    content = place.read(MOST_BYTES)
    try:
        plain = msgspec.json.decode(content)
        if plain[_MARK] != VERSION:
            raise TraceError(
                f"{place}: has version {plain[_MARK]!r}, this opprof reads {VERSION}. Upgrade pytest-opprof"
            )
        return _trace(plain)
    except _BROKEN as error:
        raise TraceError(f"{place}: is no whole {TITLE} ({type(error).__name__}: {str(error)[:200]})") from None


_BROKEN = (KeyError, TypeError, AttributeError, ValueError, RecursionError)  # msgspec's errors are ValueErrors


def _trace(plain: Any) -> SavedProfile:
    from msgspec import convert

    return SavedProfile(
        source=convert(plain["source"], str),
        environment=environment_of(plain["environment"]),
        records=_records(plain["records"], plain["fields"], SavedOp),
        steps=convert(plain["steps"], tuple[str, ...]),
        step_ns=convert(plain["step_ns"], tuple[float, ...] | None),
        kernels=plain["kernels"] and _records(plain["kernels"], plain["kernel_fields"], SavedKernel),
        launches=_records(plain["launches"], plain["fields"], SavedOp),
        peak_memory=convert(plain["peak_memory"], int | None),
        untold=convert(plain["untold"], tuple[str, ...]),
        inferred_types=convert(plain["inferred_types"], bool),
        remarks=convert(plain["remarks"], tuple[str, ...]),
        is_cut=convert(plain["is_cut"], bool),
    )


def _records(rows: Any, names: Any, record: Any) -> Any:
    """Return *rows* as records of the type *record*, checked. Raises ValueError where *names* are not its fields."""
    from msgspec import convert

    if tuple(names) != record._fields:
        raise ValueError(f"fields that differ: {', '.join(sorted({*names} ^ {*record._fields}))}")
    return convert(rows, tuple[record, ...])


def chrome(saved: SavedProfile) -> str:
    """Return *saved* as Chrome trace JSON: a row for each step, a bar for each op, as long as its device time."""
    events: list[dict[str, Any]] = []
    for number, step in enumerate(saved.steps):
        records = [record for record in saved.records if record.step == number and record.device_ns is not None]
        starts = accumulate((record.device_ns or 0.0 for record in records), initial=0.0)
        events.append({"ph": "M", "pid": 0, "tid": number, "name": "thread_name", "args": {"name": f"step {step}"}})
        events += [_bar(record, start, number) for record, start in zip(records, starts)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"source": saved.source}})


def _bar(record: SavedOp, start_ns: float, row: int) -> dict[str, Any]:
    args = {"op": op_of(record), "type": record.type, "calls": record.calls, "place": record.place}
    times = {"ts": start_ns / 1e3, "dur": (record.device_ns or 0) / 1e3}
    return {"ph": "X", "pid": 0, "tid": row, "cat": "op", "name": record.name, **times, "args": args}

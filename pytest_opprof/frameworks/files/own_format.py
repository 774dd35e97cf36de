"""The project's own profile format: a `SavedProfile` as JSON, one record a line (``schema/profile-1.json``).

``{"opprof_profile": 1, "fields": [...], "source": ..., "environment": ..., "records": [[...], ...], "kernels": ...}``
where each record is an array in the order of *fields*, the fields of `SavedOp`; null is unknown. Times are ns, sizes
bytes. `opprof convert` writes it. `chrome` writes Chrome's trace format instead, for a viewer, if the times of events
are unknown: one bar an op, laid end to end in the order of the source.
"""

from __future__ import annotations

import json
from dataclasses import fields
from itertools import accumulate
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from ...errors import TraceError
from ...profile.environment_json import EnvironmentJson
from ...profile.saved import Collective, SavedKernel, SavedOp, SavedProfile, op_of
from ...timeline.chrome import BEGINNING
from ...units import plural
from .format import Format, Options
from .place import Place

TITLE = "pytest-opprof profile"
VERSION = 1
MOST_BYTES = 1 << 30
_MARK = "opprof_profile"
_FIELDS = SavedOp._fields
# The fields of a profile without source lines; older versions know only these.
_WITHOUT_SITES = _FIELDS[: _FIELDS.index("site")]
_KERNEL_FIELDS = SavedKernel._fields


class ProfileFile(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The ops of a program, by step."""

    opprof_profile: Annotated[Literal[1], Meta(description="Version of this format.")]
    fields: Annotated[
        tuple[str, ...],
        Meta(
            description="What each place of a record holds. Times are ns, sizes bytes; null is unknown.",
            extra_json_schema={"enum": [[*_FIELDS], [*_WITHOUT_SITES]]},
        ),
    ]
    kernel_fields: Annotated[tuple[str, ...], Meta(extra_json_schema={"const": [*_KERNEL_FIELDS]})]
    source: Annotated[str, Meta(description="What wrote the profile.")]
    steps: Annotated[tuple[str, ...], Meta(description="Label of each step.", min_length=1)]
    step_ns: Annotated[
        tuple[float, ...] | None,
        Meta(description="Wall time of each step but the last one, if that is called outside."),
    ]
    peak_memory: Annotated[int, Meta(ge=0)] | None
    untold: Annotated[
        tuple[str, ...],
        Meta(description="Canonical ops that the source cannot tell from others; *: all but those in the records."),
    ]
    inferred_types: Annotated[bool, Meta(description="Whether op types were guessed from kernel names.")]
    remarks: tuple[str, ...]
    is_cut: Annotated[
        bool, Meta(description="Whether it is only a part of the file: of one that was cut, or lacks times.")
    ]
    environment: EnvironmentJson
    kernels: tuple[SavedKernel, ...] | None
    launches: Annotated[
        tuple[SavedOp, ...],
        Meta(description="Calls of the driver that start device work, where they are no records."),
    ] = ()
    collectives: Annotated[
        tuple[Collective, ...],
        Meta(description="What ranks did together: op, group of ranks (null is unknown), step, ns."),
    ] = ()
    host_peak_memory: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="That of the host, where a device did the work.")
    ] = None
    records: tuple[SavedOp, ...]


# Fields that older versions do not know.
_LATER = frozenset(["collectives", "host_peak_memory"])


def recognises(place: Place) -> bool:
    """Return True if the file begins like a file of `dump`."""
    return f'{{"{_MARK}":'.encode() in b"".join(place.head[:200].split())


def dump(saved: SavedProfile) -> str:
    """Return *saved* as text of this format."""
    values = {field.name: getattr(saved, field.name) for field in fields(saved)}
    kept = _FIELDS if saved.has_sites else _WITHOUT_SITES
    values |= {_MARK: VERSION, "fields": kept, "kernel_fields": _KERNEL_FIELDS}
    values |= {name: tuple(record[: len(kept)] for record in values[name]) for name in ("records", "launches")}
    values["environment"] = msgspec.to_builtins(EnvironmentJson.of(saved.environment))
    # Without collectives, lines and the host's memory, older versions can read it.
    names = [name for name in ProfileFile.__struct_fields__ if values[name] or name not in _LATER]
    return "{" + ",\n ".join(f'"{name}": {_line(values[name])}' for name in names) + "}\n"


def _line(value: Any) -> str:
    """Return *value* as JSON, records one a line."""
    if value and isinstance(value, tuple) and isinstance(value[0], tuple):
        return "[" + ",".join(f"\n  {json.dumps(record, allow_nan=False)}" for record in value) + "]"
    return json.dumps(value)


class _Head(Struct):
    """The field with the version of the rest."""

    opprof_profile: int
    fields: tuple[str, ...] = ()
    kernel_fields: tuple[str, ...] = ()


def read(place: Place, options: Options) -> SavedProfile:
    """Read a file of `dump`. Raises TraceError for anything else; takes about 4 times the file's size in memory."""
    content = place.read(MOST_BYTES)
    try:
        head = msgspec.json.decode(content, type=_Head)
        if head.opprof_profile != VERSION:
            raise TraceError(
                f"{place}: has version {head.opprof_profile}, this opprof reads {VERSION}. Upgrade pytest-opprof"
            )
        if head.fields not in (_FIELDS, _WITHOUT_SITES) or head.kernel_fields != _KERNEL_FIELDS:
            known = _FIELDS if "site" in head.fields else _WITHOUT_SITES
            differ = sorted({*head.fields, *head.kernel_fields} ^ {*known, *_KERNEL_FIELDS})
            raise ValueError(f"fields that differ: {', '.join(differ) or 'their order'}")
        file = msgspec.json.decode(content, type=ProfileFile)
        rows: list[SavedOp | SavedKernel] = [*file.records, *file.launches, *(file.kernels or ())]
        if wrong := next((each for each in file.collectives if not 0 <= each.step < len(file.steps)), None):
            raise ValueError(f"{wrong.op} is in step {wrong.step} of {len(file.steps)}")
        if lost := next((row for row in rows if not 0 <= row.step < len(file.steps) or row.calls < 0), None):
            raise ValueError(f"{lost.name!r} has {plural(lost.calls, 'call')} in step {lost.step} of {len(file.steps)}")
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise TraceError(f"{place}: is not a complete {TITLE} ({str(error)[:200]})") from None
    values = {field.name: getattr(file, field.name) for field in fields(SavedProfile)}
    return SavedProfile(**{**values, "environment": file.environment.environment})


def chrome(saved: SavedProfile) -> str:
    """Return *saved* as Chrome trace JSON: for each step a row of bars as long as each op's device time."""
    events: list[dict[str, Any]] = []
    for number, step in enumerate(saved.steps):
        records = [record for record in saved.records if record.step == number and record.device_ns is not None]
        starts = accumulate((record.device_ns or 0.0 for record in records), initial=0.0)
        events.append({"ph": "M", "pid": 0, "tid": number, "name": "thread_name", "args": {"name": f"step {step}"}})
        events += [_bar(record, start, number) for record, start in zip(records, starts)]
    return f'{BEGINNING}{json.dumps(saved.source)}}}, "traceEvents": {json.dumps(events)}}}'


def _bar(record: SavedOp, start_ns: float, row: int) -> dict[str, Any]:
    args = {"op": op_of(record), "type": record.type, "calls": record.calls, "place": record.place}
    times = {"ts": start_ns / 1e3, "dur": (record.device_ns or 0) / 1e3}
    return {"ph": "X", "pid": 0, "tid": row, "cat": "op", "name": record.name, **times, "args": args}


FORMAT = Format(TITLE, recognises, read)

"""Kineto's events of a real GPU: what an H200 recorded with PyTorch 2.11, whose events do not tell their category."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.pytorch.live import cuda, kineto
from pytest_opprof.frameworks.pytorch.saved import kineto as reader
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.event_log import EventLog

DATA = Path(__file__).parents[3] / "data" / "torch-cuda-h200"
DEVICES = {"CPU": 0, "CUDA": 1}


class Row:
    """An event as `torch._C._autograd._KinetoEvent` gave it."""

    def __init__(self, fields: dict[str, Any], metadata: str) -> None:
        self._fields = {**fields, "device_type": DEVICES[fields["device_type"]], "metadata_json": metadata}

    def __getattr__(self, name: str) -> Any:
        if name not in self._fields:
            raise AttributeError(name)
        return lambda: self._fields[name]


def loaded(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / name) as file:
        found = json.load(file)
    return found if isinstance(found, list) else found["traceEvents"]  # type: ignore[no-any-return]


def events_of(session: str) -> list[Row]:
    """Return the events of a session, with the metadata of work of the GPU that its trace has."""
    work = {
        (each["args"]["correlation"], each["name"], round(each["ts"] * 1000) % 10**9): each["args"]
        for each in loaded(f"{session}.trace.json.gz")
        if each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    }
    rows = []
    for fields in loaded(f"{session}.events.json.gz"):
        place = (fields["correlation_id"], fields["name"], fields["start_ns"] % 10**9)
        found = work.get(place)
        rows.append(Row(fields, json.dumps(found)[1:-1] if found else ""))
    assert sum(1 for row in rows if row.metadata_json()) == len(work)
    return rows


@pytest.mark.parametrize("session", ["eager", "graph"])
def test_each_event_has_the_category_that_the_trace_of_its_session_says(session: str) -> None:
    beside = ("fwdbwd", "ac2g", "Trace", None)  # arrows, and the trace itself, are no events of a session
    said = Counter(each.get("cat") for each in loaded(f"{session}.trace.json.gz") if each.get("cat") not in beside)
    found = Counter(map(kineto.category_by_name, events_of(session)))
    assert found == said


def test_a_session_counts_as_the_reader_counts_its_exported_trace() -> None:
    log = EventLog(Environment((("torch", "2.11.0"),)))
    cuda.fill(log, kineto.recorded(events_of("eager")))
    ours, theirs = log.freeze(), reader.read(Place(DATA / "eager.trace.json.gz"), Options()).profile()
    counts = [{stats.op: stats.most_calls for stats in each.ops} for each in (ours, theirs)]
    assert counts[0] == counts[1]
    for stats in ours.ops:
        assert sum(stats.device_ns or ()) == pytest.approx(sum(theirs.stats(stats.op).device_ns or ()), abs=2)

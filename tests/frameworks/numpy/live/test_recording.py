"""All calls of a window as its profile has them: a program of every kind of call, event by event."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.numpy.live.backend import backend
from pytest_opprof.frameworks.numpy.live.callers import Table
from pytest_opprof.frameworks.numpy.live.recording import Recording
from pytest_opprof.profile.columns import ABSENT
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.sites.chains import Chains

HERE = str(Path(__file__))
WIDE, NARROW = np.arange(12.0).reshape(3, 4), np.ones((3, 4), np.float32)


def halved(row: Any) -> Any:
    return row.astype(np.float32) / 2


def summed() -> None:
    NARROW.sum()


def first() -> None:
    total = WIDE + NARROW  # a cast inside of the ufunc
    total @ total.T  # a view, then a product
    np.apply_along_axis(halved, 1, WIDE[:2])  # ops inside of an op, with a cast in each
    np.linalg.norm(WIDE)
    np.add(WIDE, WIDE, dtype=np.float32, casting="unsafe")  # two casts
    with pytest.raises(ValueError, match="broadcast"):
        WIDE + np.ones(5)
    np.float64(2) * np.float64(3)
    WIDE[[0, 2]]
    WIDE.copy()[0] = 1


def second() -> None:
    for _ in range(3):
        np.sin(WIDE)
    thread = threading.Thread(target=summed)
    thread.start()
    thread.join()
    np.concatenate([WIDE, NARROW])


def recorded(options: Options) -> EventLog:
    """Return the log of a call before the first step, two steps, and one after them."""
    with backend().collect(options) as log:
        np.negative(WIDE)
        log.mark()
        first()
        log.mark()
        second()
        log.mark()
        np.exp(WIDE)
    return log


def rows(log: EventLog) -> list[str]:
    """Return each event in words: its step, name, dtypes, bytes, FLOPs, whether it counts and has a time, its line."""
    profile = log.freeze()
    columns, found = profile.columns, []
    assert columns.flops is not None
    for key, *numbers in zip(
        *(columns.key, columns.step, columns.bytes, columns.flops, columns.counted, columns.device_ns)
    ):
        step, nbytes, flops, counted, device_ns = map(int, numbers)
        of = profile.keys[key]
        lines = [frame.function for frame in of.site.frames if frame.file == HERE] if of.site else []
        told = "counts" if counted else "part"
        found.append(
            f"{step} {of.raw} {of.signature.dtypes} {nbytes} {flops} {told}{' untimed' * (device_ns == ABSENT)}"
            f" {lines[0] if lines else '-'}"
        )
    return found


def test_a_program_of_every_kind_of_call() -> None:
    told = rows(recorded(Options(chains=Chains())))
    assert told == [
        "0 numpy.negative float64 192 -1 counts recorded",
        "1 numpy.add float64,float32->float64 240 12 counts first",
        "1 dtype= float32->float64 144 -1 counts untimed first",
        "1 numpy.matmul float64 264 72 counts first",
        "1 numpy.apply_along_axis float64->float32 96 -1 counts first",
        "1 ndarray.astype float64->float32 48 -1 counts halved",
        "1 numpy.divide float32 32 4 counts halved",
        "1 ndarray.astype float64->float32 48 -1 counts halved",
        "1 numpy.divide float32 32 4 counts halved",
        "1 numpy.linalg.norm float64 104 12 counts first",
        "1 numpy.add float64->float32 240 12 counts first",
        "1 dtype= float64->float32 144 -1 counts untimed first",
        "1 dtype= float64->float32 144 -1 counts untimed first",
        "1 numpy.ones  0 -1 counts first",
        "1 numpy.multiply float64 24 1 counts first",
        "1 ndarray.__getitem__ float64 128 -1 counts first",
        "1 ndarray.copy float64 192 -1 counts first",
        "1 ndarray.__setitem__ float64 -1 -1 counts first",
        "2 numpy.sin float64 192 12 counts second",
        "2 numpy.sin float64 192 12 counts second",
        "2 numpy.sin float64 192 12 counts second",
        "2 ndarray.sum float32 52 12 counts summed",
        "2 numpy.concatenate float64,float32->float64 336 -1 counts second",
        "3 numpy.exp float64 192 12 counts recorded",
    ]
    assert [each.rpartition(" ")[0] for each in rows(recorded(Options()))] == [each.rpartition(" ")[0] for each in told]


@pytest.mark.parametrize("chains", [None, Chains()])
def test_repeated_calls_and_those_inside_of_numpy_find_their_caller_at_once(
    chains: Chains | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, places = [], []
    ask, missing = Recording.asked, Table.__missing__
    monkeypatch.setattr(Recording, "asked", lambda *given: asked.append(given) or ask(*given))
    monkeypatch.setattr(Table, "__missing__", lambda *given: places.append(given) or missing(*given))
    with backend().collect(Options(chains=chains)) as log:
        for _ in range(100):
            WIDE + 1
            WIDE.sum()  # NumPy's own Python code calls a ufunc
    assert len(log) == 200
    assert len(asked) < 10
    assert len(places) < 30

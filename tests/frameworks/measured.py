"""What a backend records of a window, for the tests of each."""

from __future__ import annotations

from collections.abc import Callable

from pytest_opprof.frameworks.live.contract import Backend, Options
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.op_profile import OpProfile


def measured(backend: Backend, *bodies: Callable[[], object], options: Options | None = None) -> OpProfile:
    """Return the profile of a window with a step for each body; the results are dropped."""
    recorder, window = Recorder([backend], options or Options(), explicit=True), Window("w")
    with recorder.open(window):
        for body in bodies:
            with recorder.step(window):
                body()
    return window.profile

"""Write traces of failing windows (``--opprof-traces``): the timeline of one round each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from .. import __version__
from ..machine.atomic_write import gzipped, write_atomically
from ..machine.ranks import Rank
from ..measure.plan import Settings
from ..measure.window import Window, profiles_of
from ..profile.op_profile import OpProfile
from ..results.judged_window import JudgedWindow
from ..results.window_result import BODY, titled
from ..timeline import chrome
from ..timeline.window import timeline_of, traced_round
from .outcome import defect
from .test_run import TestRun

# The most characters of a test and its window in a file name, which is limited to 255 with all suffixes.
_MOST = 160


def traced(
    test: TestRun,
    judged: Iterable[JudgedWindow],
    measured: Sequence[Window],
    settings: Settings,
    errors: list[str],
) -> list[JudgedWindow]:
    """Write a trace of each window that fails the test, as *measured* first; return the reports that name them.

    A write error goes to *errors* once, and fails the run, not the test.
    """
    assert settings.traces is not None  # the caller asked
    windows, profiles, here = list(judged), profiles_of(measured), test.item.config.invocation_params.dir
    for number, window in enumerate(windows):
        if not window.findings or window.name not in profiles:
            continue
        profile = profiles[window.name]
        path = settings.traces / file_name(test.id, window.name, settings.rank)
        title = titled(test.id, window.name)
        lacks = f"{' and '.join(profile.untold)}, which does not record when its ops ran" if profile.untold else ""
        shown = ""
        if profile.moments is not None:
            try:
                write_atomically(path, gzipped(_trace(profile, title)))
                shown = str(path.relative_to(here) if path.is_relative_to(here) else path)
            except OSError as error:
                lacks = f"{settings.traces} cannot be written ({error.strerror or error})"
                errors.append(f"--opprof-traces: {lacks}")
            except Exception as error:
                lacks = defect("it was not written", error)
                errors.append(f"trace of {title}: {lacks}")
        windows[number] = replace(window, trace=shown, trace_lacks=lacks)
    return windows


def _trace(profile: OpProfile, title: str) -> Iterator[bytes]:
    step = traced_round(profile)
    source = f"{title}, round {step + 1} of {profile.steps}, by pytest-opprof {__version__}"
    spans = timeline_of(profile, step)
    return (piece.encode() for piece in chrome.trace_of(spans, {}, profile.ran_ns[step][0], source))


def file_name(test: str, window: str, rank: Rank) -> str:
    """Return a trace's file name, valid on every file system and unique for the window.

    >>> file_name("tests/test_a.py::test_b[x/y]", "prefill", Rank(1, 2))
    'tests-test_a.py-test_b-x-y-prefill-rank1-58d15ef2.trace.json.gz'
    """
    parts = [test, "" if window == BODY else window]
    readable = re.sub(r"(?:[^\w.]|\.{2,})+", "-", "-".join(filter(None, parts)), flags=re.ASCII).strip("-.")[:_MOST]
    of_rank = "" if rank.is_alone else f"rank{rank.rank}"
    told_apart = sha256(repr((test, window)).encode()).hexdigest()[:8]
    return "-".join(filter(None, [readable, of_rank, told_apart])) + ".trace.json.gz"

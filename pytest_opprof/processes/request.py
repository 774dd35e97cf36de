"""The request of a run to a process that it started: how to measure a test."""

from __future__ import annotations

import pytest
from msgspec import Struct


class Request(Struct, frozen=True):
    """How a process measures a test for the run that started it."""

    sites: bool = False
    """With the source lines of ops, and on a side of a comparison the lines that call Python functions."""
    causes: bool = False
    """With the lines that hold its memory and take its time, from more runs of it."""
    memory: bool = True
    """With its peak of memory; and, on a side of a comparison that looks up source lines, the lines that hold it."""
    slow: bool = False
    """Its time alone is in question: its one run is sampled, and a side of a comparison counts its Python calls."""
    one_thread: bool = False
    """All of it in one thread, for its CPU time."""
    ops_only: bool = False
    """Only ops and times, without the runs that count Python calls, memory and leaks."""
    unrecorded: bool = False
    """Its ops are not recorded either, which takes CPU time; unless it has the fixture, and may ask for its ops."""
    repeats: bool = False
    """Also the CPU time of its body in the fastest of several later runs."""
    cold: bool = False
    """Only the calls of Python functions, in the one run of a body."""
    anew: bool = False
    """The framework forgets the functions that it compiled before."""
    since: str = ""
    """A commit: of the lines that lead to a cause, the ones that changed since then are named."""
    first_look: bool = False
    """Another request follows, which looks for leaks."""


USUAL = Request()
_KEY = pytest.StashKey[Request]()


def request_of(config: pytest.Config) -> Request:
    """Return the request of another run to this process; `USUAL` for a process on its own."""
    return config.stash.get(_KEY, USUAL)


def put_request(config: pytest.Config, request: Request) -> None:
    """Keep the request of another run to this process."""
    config.stash[_KEY] = request

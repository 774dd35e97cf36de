"""The resources of a process, asked for in a new one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from textwrap import dedent

import pytest

from pytest_opprof.machine import left
from pytest_opprof.machine.left import in_use, with_threads_ended


def test_names_in_the_cache_of_attributes_are_no_blocks() -> None:
    names = [f"name_{number}{'_' * (number % 80)}" for number in range(10_000)]
    in_use()
    before = in_use().blocks
    for name in names:
        getattr(names, f"{name}_", None)  # at another address
    assert in_use().blocks - before < 100  # coverage takes some


@pytest.mark.processes
def test_to_ask_takes_no_memory_which_would_look_like_a_leak() -> None:
    asks = dedent("""
        import gc
        from array import array
        from pytest_opprof.machine.left import in_use

        in_use()  # loads modules
        blocks = array("q", bytes(8 * 6))
        for number in range(len(blocks)):
            gc.collect()
            blocks[number] = in_use().blocks
        print({block - blocks[0] for block in blocks})
        """)
    untraced = {name: value for name, value in os.environ.items() if not name.startswith("COV")}  # keeps lines
    said = subprocess.run([sys.executable, "-c", asks], env=untraced, capture_output=True, text=True, check=True)
    assert said.stdout == "{0}\n"


def test_threads_that_end_soon_after_a_call_have_ended_when_it_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left, "_ENDING_S", 10)

    def call() -> None:
        timer = threading.Timer(0.01, lambda: None)
        timer.start()

    before = threading.active_count()
    with_threads_ended(call)()
    assert threading.active_count() == before


def test_after_a_call_whose_threads_go_on_no_call_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    over, slept = threading.Event(), list[float]()
    monkeypatch.setattr(left, "sleep", slept.append)
    monkeypatch.setattr(left, "monotonic", lambda: len(slept))
    run = with_threads_ended(lambda: threading.Thread(target=over.wait, daemon=True).start())
    try:
        run()
        assert len(slept) == 1
        run()
        assert len(slept) == 1
    finally:
        over.set()

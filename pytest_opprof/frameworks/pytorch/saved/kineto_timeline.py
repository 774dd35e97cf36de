"""The timeline of a Kineto trace: ops, ranges and calls of the driver by thread, work of devices by stream, memory."""

from __future__ import annotations

from ....ops.cuda_kernels import is_nccl, moved
from ....timeline.spans import Kind, Lane, Timeline
from ...files.chrome_events import STEP
from ..events import Role
from .calls import Call
from .kineto_events import Events, Kernel


def timeline_of(events: Events) -> Timeline:
    """Return the timeline. Takes the rows of ops and calls out of *events*."""
    found = Timeline()
    # As for the ops: without device work in the file, the CPU is the device.
    on_cpu = not events.kernels and not events.launch_names
    threads = [Lane(f"process {pid}", f"thread {tid}", on_cpu) for pid, tid in events.thread_names]
    named = [_named(call) for call in events.calls]
    for lane, rows in zip(threads, events.threads):
        for start, duration, _, call in zip(*rows.columns()):
            name, kind = named[call]
            found.add(lane, name, kind, start, duration)
    launched: dict[int, int] = {}
    for correlation, start, duration, thread, number in zip(*events.launches.columns()):
        found.add(threads[thread], events.launch_names[number], Kind.CALL, start, duration)
        launched[correlation] = min(start, launched.get(correlation, start))
    devices = [(Lane(f"device {each.device}", f"stream {each.stream}", True), _kind(each)) for each in events.kernels]
    for correlation, start, duration, number, _ in zip(*events.activities.columns()):
        lane, kind = devices[number]
        found.add(lane, events.kernels[number].name, kind, start, duration, launched.get(correlation))
    found.memory = {f"device {number}" if kind else "CPU": each for (kind, number), each in events.memory().items()}
    return found


def _named(call: Call) -> tuple[str, Kind]:
    if step := STEP.fullmatch(call.name):
        return step[1], Kind.STEP
    if call.role is Role.ANNOTATION:
        return call.name, Kind.RANGE if call.annotates else Kind.CALL
    return call.name, Kind.CALL if call.role in (Role.COMPILES, Role.FRAME) else Kind.OP


def _kind(kernel: Kernel) -> Kind:
    if is_nccl(kernel.name):
        return Kind.COMMUNICATION
    return Kind.COPY if moved(kernel.name) else Kind.OP

"""PyTorch: the Chrome trace of `torch.profiler` (Kineto), `export_chrome_trace` or `tensorboard_trace_handler`.

The file is an object, gzipped or not, with ``schemaVersion`` (a trace without it was not written by PyTorch),
``deviceProperties``, ``distributedInfo`` and ``traceEvents``. ``ts`` and ``dur`` are us: integers up to 2023, later
with ns as decimals. Events with ``ph`` = ``X``, by ``cat`` (its name of 2021 in brackets):

- ``cpu_op`` (``Operator``): an op, nested in time on its ``pid`` and ``tid``. ``args``: ``External id`` (grows with
  time), and with record_shapes ``Input Dims`` and ``Input type``.
- ``python_function``, with with_stack: a call of a Python function (`kineto_sites`).
- ``user_annotation`` (``Operator``): `record_function` and the like. ``ProfilerStep#N`` is a step.
- ``cuda_runtime``, ``cuda_driver`` (``Runtime``), ``xpu_runtime`` ...: a call of the driver, with ``correlation``.
- ``kernel``, ``gpu_memcpy``, ``gpu_memset`` (``Kernel``, ``Memcpy``, ``Memset``): work of a device, with the
  ``correlation`` of the call that launched it, ``device`` and ``stream``. Their ``External id`` is not used: in files
  of 2023 it is the correlation, and may equal the id of an unrelated op.
- ``mtia_ccp_events``: the same of Meta's MTIA, whose device is the ``pid``; ``dma_request`` is a copy without a launch,
  ``event_wait`` and ``event_record`` are no work.
- ``record_param_comms``: a ``Collective name`` (2.1 and newer), inside the calling op, or alone if C++ calls.

The instant events ``[memory]`` have ``Device Type`` (0: the CPU) and ``Total Allocated`` (in 2021 only ``Bytes``).
FLOPs and the version of PyTorch are not in the file.

Without device events the CPU is the device: device time is self CPU time, as `key_averages` gives it. With them, the
device time of an op is that of the kernels that it launched: a launch belongs to the innermost op around it. Host time
is self CPU time, which includes calls of the driver. Copies between host and device, memsets and synchronisations are
records of their own, since they count wherever they happen; an op that copies by a memcpy counts as that memcpy. Work
launched before the recording began (correlations grow with time) is ``(unlinked)`` and outside of every step; a kernel
launched outside of all ops (by a replayed CUDA graph, CuPy, Triton) is an op by itself.

Read: files of PyTorch 1.8 (2021) to 2.13 (2026), CPU, V100, A100, H100, MI300X and MTIA.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ....errors import TraceError
from ....profile.environment import Environment
from ....profile.events.nesting import TooDeep
from ....profile.saved import OUTSIDE, UNLINKED, SavedKernel, SavedOp, SavedProfile
from ...files.chrome_events import CUT, head, read_events
from ...files.durations import Untimed
from ...files.format import Format, Options, as_number
from ...files.place import Place
from ..events import COMMS, Role, compiler_kernels, transferred
from .kineto_launches import Launches
from .kineto_records import Records
from .nesting import Forest

if TYPE_CHECKING:
    from ....timeline.spans import Timeline
    from .kineto_events import Events

TITLE = "PyTorch profiler trace"
_UNKNOWN = "Chrome trace of an unknown profiler"
_CATEGORIES = frozenset(
    ["cpu_op", "kernel", "cuda_runtime", "Operator", "Kernel", "Runtime", "python_function", "mtia_ccp_events"]
)
_REQUEST = " (dma_request)"
# The ``Device Type`` of the host's memory.
_CPU = 0
# Times in us from which on a float does not hold ns.
_DIGITS_END = 1 << 43


def recognises(place: Place) -> bool:
    """Return True if the header is PyTorch's, or the first events have its categories."""
    found = head(place)
    if found is None or found.bare:
        return False
    return "schemaVersion" in found.header or any(str(event.get("cat")) in _CATEGORIES for event in found.events)


def ranks(place: Place) -> list[int | None]:
    """Return the rank in ``distributedInfo``; None for a process that has none."""
    found = head(place)
    info = found.header.get("distributedInfo") if found else None
    return [as_number(info.get("rank")) if isinstance(info, dict) else None]


def read(place: Place, options: Options) -> SavedProfile:
    """Return the profile. Raises TraceError."""
    # Imported here: it imports msgspec, which detecting a format does not need.
    from .kineto_events import OTHERS, Event, Events, ExactEvent, TooMany
    from .kineto_sites import REMARK, SitedEvents

    header: dict[str, object] = {}
    remarks: list[str] = []
    sited, untimed = SitedEvents() if options.sites else None, Untimed(options.partial)
    events = sited or Events()
    event_type = ExactEvent if _needs_exact_times(place) else Event
    try:
        for some in read_events(place, event_type, header, options.partial, remarks, OTHERS):
            events.take(some)
        if events.timeless:
            untimed.add(place, events.first_timeless, events.timeless, left_out=True)
        remarks += untimed.remarks()
        if events.lacks_totals:
            remarks.append("the file has no totals of memory: its peak lacks what was allocated before the recording")
        if "schemaVersion" not in header:
            remarks.append(
                "the file does not say who wrote it (PyTorch's have a schemaVersion): events of category cpu_op are"
                " taken for ops, those of kernel, gpu_memcpy and gpu_memset for what a device did"
            )
        if sited and sited.tell_sites():
            remarks.append(REMARK)
        if events.calls or events.kernels:
            return _profile(events, header, remarks)
    except OverflowError:
        raise _no_time(place) from None
    except (TooDeep, TooMany) as error:
        raise TraceError(f"{place}: {error}") from None
    raise TraceError(f"{place}: holds neither ops (category cpu_op) nor kernels; was anything run in the recording?")


def timeline(place: Place, options: Options) -> Timeline:
    """Return the timeline. Raises TraceError."""
    from .kineto_events import OTHERS, Event, Events, ExactEvent, TooMany
    from .kineto_timeline import timeline_of

    events = Events()
    event_type = ExactEvent if _needs_exact_times(place) else Event
    try:
        for some in read_events(place, event_type, None, options.partial, None, OTHERS):
            events.take(some)
        return timeline_of(events)
    except OverflowError:
        raise _no_time(place) from None
    except TooMany as error:
        raise TraceError(f"{place}: {error}") from None


def _no_time(place: Place) -> TraceError:
    return TraceError(f"{place}: an event has no time, or a number beyond 64 bits; the file is damaged")


def _needs_exact_times(place: Place) -> bool:
    found = head(place)
    times = [event.get("ts") for event in found.events] if found else []
    return any(isinstance(time, float) and time > _DIGITS_END and not time.is_integer() for time in times)


def _profile(events: Events, header: dict[str, object], remarks: list[str]) -> SavedProfile:
    """Return the profile of *events*, with the *remarks* on the file and its own."""
    from .kineto_collectives import collectives
    from .kineto_events import Steps

    found, distributed = header.get("deviceProperties"), header.get("distributedInfo")
    gpus = [device for device in found if isinstance(device, dict)] if isinstance(found, list) else []
    is_cut = any(remark.startswith(CUT) for remark in remarks)
    steps = Steps.of(events)
    together = collectives(events, steps, distributed.get("pg_config") if isinstance(distributed, dict) else None)
    launches = Launches(events, steps)
    on_device = bool(events.kernels) or launches.start_device_work() or (is_cut and bool(gpus))
    forest = _forest(events, steps.starts, launches)
    peaks = [(kind, max(0, *memory.sizes)) for (kind, _), memory in events.memory().items()]
    of_host = [peak for kind, peak in peaks if kind == _CPU]
    of_devices = [peak for kind, peak in peaks if kind != _CPU]
    records = Records(events, forest.trees.values(), on_device)
    if on_device:
        launches.link()
        records.add(launches)
    for tree in forest.trees.values():
        records.time(tree, launches.copies)
    kernels = tuple(records.kernels()) if events.kernels else None
    shapeless = any(call.is_copy and not call.types for call in events.calls)
    remarks += _launch_remarks(events, launches, kernels or ())
    if on_device and of_host and not of_devices:
        remarks.append("all memory events are the host's: the memory in use on a device is unknown")
    if shapeless:
        remarks.append("shapes were not recorded (record_shapes=True), so casts look like copies")
    return SavedProfile(
        source=TITLE if "schemaVersion" in header else _UNKNOWN,
        environment=Environment(
            (("torch", ""),) if "schemaVersion" in header else (),
            device=_model(gpus, events) if on_device else "cpu",
            arch="",
        ),
        records=tuple(records.ops()),
        steps=(*(steps.labels or ("",)), *((OUTSIDE,) if launches.outside else ())),
        step_ns=steps.durations or None,
        kernels=kernels,
        launches=tuple(SavedOp(call, call, step=step, calls=n) for (step, call), n in sorted(launches.calls.items())),
        collectives=together,
        peak_memory=max(of_devices if on_device or of_devices else of_host, default=None),
        host_peak_memory=max(of_host, default=None) if on_device or of_devices else None,
        untold=("Cast", "Copy") if shapeless else (),
        remarks=tuple(remarks),
    )


def _forest(events: Events, steps: Sequence[int], launches: Launches) -> Forest:
    """Return the trees of all threads. Takes the calls out of *events*."""
    if not any(call.name.startswith(f"{COMMS}::") for call in events.calls):
        # Before PyTorch 2.1, only NCCL's mark inside tells which collective it is.
        events.calls = [
            replace(call, name=name, category="cpu_op") if (name := transferred(call.name)) else call
            for call in events.calls
        ]
    meanings = [call.meaning for call in events.calls]
    names = [call.name for call in events.calls]
    roles = [call.role for call in events.calls]
    machinery = {n for n, call in enumerate(events.calls) if call.role is Role.ANNOTATION and not call.annotates}
    comms = {n for n, name in enumerate(names) if name.startswith(f"{COMMS}::")}
    forest = Forest(meanings, names, steps, roles, machinery, comms)
    for number, thread in enumerate(events.threads):
        forest.grow(thread, launches.spans.get(number))
    events.threads.clear()  # the trees take as much memory again
    return forest


def _model(gpus: Sequence[Mapping[str, object]], events: Events) -> str:
    """Return the model of the devices that worked; *gpus* are all of the machine."""
    used = {str(kernel.device) for kernel in events.kernels}
    # Without activities in the file any of the devices may have worked.
    names = {str(gpu.get("name", "")) for gpu in gpus if not used or str(gpu.get("id")) in used}
    return " + ".join(sorted(names - {""})) or ("mtia" if _is_mtia(events) else "gpu")


def _is_mtia(events: Events) -> bool:
    from .kineto_events import MTIA

    return any(kernel.category == MTIA for kernel in events.kernels)


def _launch_remarks(events: Events, launches: Launches, kernels: Iterable[SavedKernel]) -> Iterator[str]:
    """Yield remarks on launches without an op or a kernel, and on the busy time of the devices."""
    unlinked = sum(kernel.calls for kernel in kernels if kernel.launched_by == UNLINKED)
    if requests := sum(each.calls for each in kernels if each.launched_by == UNLINKED and each.name.endswith(_REQUEST)):
        yield f"copies of MTIA that do not tell which op asked for them: {requests}, listed as {UNLINKED}"
    if unlinked := unlinked - requests:
        outside = f"; activities launched before it are in the step {OUTSIDE!r}" if launches.outside else ""
        yield (
            f"{unlinked} of {len(events.activities)} device activities were launched outside of the"
            f" recording: they have no op, and are listed as {UNLINKED}{outside}"
        )
    if launches.left_out:
        yield compiler_kernels(launches.left_out)
    if launches.lost:
        yield (
            f"{launches.lost} kernel launches have no kernel in the file: the recording ended first, or they were"
            " captured into a graph"
        )
    busy, together = events.busy_ns(), sum(events.activities.columns()[2])
    if busy != together:
        yield (
            f"in the whole recording the device was busy for {busy / 1e6:.3f} ms; its activities add up to"
            f" {together / 1e6:.3f} ms, as some ran at the same time"
        )


FORMAT = Format(TITLE, recognises, read, timeline=timeline, ranks=ranks)

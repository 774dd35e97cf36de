"""The content of a module's files as types: files are decoded into them, and their JSON Schemas are generated from
them.

``python -m pytest_opprof.baselines.files.file_types`` (`make schemas`) writes the published schemas anew. Imported only
to read or write a baseline, since it needs msgspec.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from ...profile.environment_json import EnvironmentJson
from ...profile.op_counts import OpCounts
from ...profile.range import Range
from ...results.json_schema import published
from ...results.run_result import RunResult

_Count = Annotated[int, Meta(ge=1, le=10**15)]
_Range = Annotated[list[Annotated[int, Meta(ge=0, le=10**15)]], Meta(min_length=2, max_length=2)]
_Rounds = Annotated[list[Annotated[float, Meta(ge=0, le=1e15)]], Meta(min_length=1)]
_Processes = Annotated[list[_Rounds], Meta(min_length=1)]


class KeptWindow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The calls and facts of one window of a test in one round."""

    ops: Annotated[
        dict[str, OpCounts] | UnsetType,
        Meta(description="By op: its calls and what they worked on. Absent where `ranks` has them."),
    ] = UNSET
    facts: Annotated[
        dict[str, Range],
        Meta(
            description="Of the window as a whole, by quantity: grad_nodes, peak_memory, recompilations, and sums over"
            " all ops that do not follow from these: calls, bytes, flops."
        ),
    ] = {}
    python: Annotated[
        dict[str, str],
        Meta(
            description="The versions of Python and of the packages called that python_calls, loop_iterations and"
            " collections of `facts` are of."
        ),
    ] = {}
    compiled_anew: Annotated[
        bool,
        Meta(description="Whether `recompilations` also counts a run in which all functions were compiled anew."),
    ] = False
    warm: Annotated[
        KeptWindow | UnsetType,
        Meta(description="The ops and facts that differ in a later run of the same process: not a first use any more."),
    ] = UNSET
    alone: Annotated[
        KeptWindow | UnsetType,
        Meta(description="The ops and facts that differ in a process without other tests; unset if not measured."),
    ] = UNSET
    ranks: Annotated[
        dict[str, KeptWindow], Meta(description="Where ranks differ, what each did: by rank, as 0 or 1-3.")
    ] = {}


class CallsFile(Struct, frozen=True, forbid_unknown_fields=True):
    """``test_x.py.json``: the file for review."""

    environment: EnvironmentJson
    schema: Literal[4]
    tests: Annotated[
        dict[str, Annotated[dict[str, KeptWindow], Meta(min_length=1)]],
        Meta(description="By test id (without the module), then by window."),
    ]


class KeptTimes(Struct, frozen=True, forbid_unknown_fields=True):
    """The times of each process for a window on one machine, in microseconds: a list of rounds for each process."""

    calls_digest: Annotated[str, Meta(description="Of the calls that were timed: beside others they are not used.")]
    ops_us: Annotated[dict[str, _Processes], Meta(description="By op: its self time in each round.")]
    threads: Annotated[
        int, Meta(ge=0, le=10**6, description="How many threads an op might use; 0: as many as it likes.")
    ]
    total_us: Annotated[
        _Processes, Meta(description="The whole round: wall time on a CPU, the sum of the ops on an accelerator.")
    ]
    wait_us: Annotated[
        _Processes | UnsetType,
        Meta(description="How long threads were ready to run in each round without getting a CPU."),
    ] = UNSET
    yardstick_us: Annotated[
        _Processes | UnsetType, Meta(description="How long a fixed piece of work took before each round.")
    ] = UNSET


_Span = Annotated[list[Annotated[float, Meta(ge=0, le=1e12)]], Meta(min_length=2, max_length=2)]


class KeptCoarse(Struct, frozen=True, forbid_unknown_fields=True):
    """The time of a window's round on one machine, from the minimum to the maximum of some processes, rounded."""

    cpu_ms: Annotated[_Span, Meta(description="CPU time of the process, in milliseconds.")]
    processes: Annotated[int, Meta(ge=1, le=10**6)]
    wall_ms: Annotated[_Span, Meta(description="Wall time less what threads waited for a CPU.")]
    first: Annotated[
        KeptCoarse | UnsetType,
        Meta(description="The first run in a process, if a later one takes clearly less: an import, a compilation."),
    ] = UNSET
    unrecorded: Annotated[
        KeptCoarse | UnsetType, Meta(description="A run in which no op is recorded, if that takes clearly less.")
    ] = UNSET
    repeated_ms: Annotated[
        _Span | UnsetType,
        Meta(description="CPU time of the fastest of several later runs in one thread, in which nothing is recorded."),
    ] = UNSET
    yardstick_us: Annotated[
        Annotated[float, Meta(ge=0, le=1e12)] | UnsetType,
        Meta(description="How long a fixed piece of work took, at best."),
    ] = UNSET


class TimesFile(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """``test_x.py.times.json``: the samples by which times are judged."""

    environment: EnvironmentJson
    schema: Literal[1]
    times: Annotated[
        dict[str, dict[str, dict[str, KeptTimes]]],
        Meta(description="By test id (without the module), then by window, then by machine."),
    ]
    coarse: Annotated[
        dict[str, dict[str, dict[str, KeptCoarse]]],
        Meta(description="By test id, then by window, then by machine and Python: what each round takes, coarsely."),
    ] = {}


class Frame(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A line of code: its file relative to pytest's root directory, its function, and its text."""

    file: str
    function: str
    text: str


_CallsByOp = dict[str, _Count | _Range]
_WorkByOp = dict[str, Annotated[list[Annotated[int, Meta(ge=0, le=10**18)] | None], Meta(min_length=2, max_length=2)]]


class KeptSites(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The source lines of the ops of one window in one round."""

    backward: Annotated[
        dict[str, _CallsByOp],
        Meta(description="As calls, of the backward ops of what the line did in the forward pass."),
    ] = {}
    calls: Annotated[
        dict[str, _CallsByOp], Meta(description="By chain, then by op: its calls; [fewest, most] where rounds differ.")
    ] = {}
    work: Annotated[
        dict[str, _WorkByOp],
        Meta(description="By chain of `calls`, then by op: [bytes, FLOPs], null where not known; absent in old files."),
    ] = {}
    backward_work: Annotated[dict[str, _WorkByOp], Meta(description="As work, by chain of `backward`.")] = {}


class SitesFile(Struct, frozen=True, forbid_unknown_fields=True):
    """``test_x.py.sites.json``: the source lines of ops, to tell new lines from old ones. It judges nothing."""

    chains: Annotated[
        dict[str, Annotated[list[str], Meta(max_length=1000)]],
        Meta(description="The frames of each chain of calls: first that which asked for the op, then its caller."),
    ]
    frames: dict[str, Frame]
    schema: Literal[1]
    tests: Annotated[
        dict[str, dict[str, KeptSites]],
        Meta(description="By test id (without the module), then by window."),
    ]


_ByName = dict[str, Annotated[int, Meta(ge=0, le=10**15)]]


class KeptFunctions(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The calls of each Python function by one window in one round."""

    functions: Annotated[dict[str, _ByName], Meta(description="By module or class, then by name: calls.")] = {}
    loops: Annotated[
        dict[str, _ByName], Meta(description="By function, in the same way: how often its loops went round.")
    ] = {}
    above: Annotated[int, Meta(ge=0, le=10**15, description="Functions called no more often are left out.")] = 0
    loops_above: Annotated[int, Meta(ge=0, le=10**15, description="As above, of loops.")] = 0
    has_own: Annotated[
        bool, Meta(description="Whether the project's own functions are kept, however few their calls.")
    ] = False


class PythonFile(Struct, frozen=True, forbid_unknown_fields=True):
    """``test_x.py.python.json``: the called functions, to tell which of them grew. It judges nothing."""

    schema: Literal[1]
    tests: Annotated[
        dict[str, dict[str, KeptFunctions]],
        Meta(description="By test id (without the module), then by window."),
    ]


def schemas() -> dict[str, str]:
    """Return the text of each published JSON Schema, by the name of its file."""
    # Imported here: no baseline needs it.
    from ...frameworks.files.own_format import ProfileFile

    of = "of the tests of one module in one environment"
    return {
        "baseline-4.json": published(CallsFile, "baseline:4", f"pytest-opprof: calls {of}"),
        "profile-1.json": published(ProfileFile, "profile:1", "pytest-opprof profile"),
        "run-4.json": published(RunResult, "run:4", "pytest-opprof: everything that one pytest run measured"),
        "baseline-python-1.json": published(
            PythonFile, "baseline-python:1", f"pytest-opprof: calls of Python functions {of}"
        ),
        "baseline-sites-1.json": published(SitesFile, "baseline-sites:1", f"pytest-opprof: call sites of ops {of}"),
        "baseline-times-1.json": published(TimesFile, "baseline-times:1", f"pytest-opprof: times {of}"),
    }


if __name__ == "__main__":
    for name, text in schemas().items():
        Path(__file__).parents[2].joinpath("schema", name).write_text(text, encoding="utf-8")

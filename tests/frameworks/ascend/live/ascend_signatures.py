"""Whether torch_npu and MindSpore have what the ascend backend and docs/ascend.md use: looked up in their wheels.

    pip download --no-deps torch_npu mindspore
    python -m tests.frameworks.ascend.live.ascend_signatures torch_npu-*.whl mindspore-*.whl

Nothing is imported, so no NPU is needed. Not part of CI: the wheels have 44 and 800 MB.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Wanted:
    """A function or class of a module, the parameters that it is called with, and what it has to contain."""

    module: str
    name: str
    parameters: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()


WANTED: Mapping[str, Sequence[Wanted]] = {
    "torch_npu": (
        Wanted("torch_npu/npu/__init__.py", "is_initialized"),
        Wanted("torch_npu/npu/utils.py", "synchronize"),
        Wanted("torch_npu/npu/utils.py", "current_device"),
        Wanted("torch_npu/npu/streams.py", "Event.__new__", ("enable_timing",)),
        Wanted("torch_npu/npu/streams.py", "Event.elapsed_time", ("end_event",)),
        Wanted(
            "torch_npu/profiler/_profiler_path_creator.py",
            "ProfPathCreator",
            contains=("self.is_prof_inited = False", "self.is_prof_inited = True"),
        ),
        Wanted(
            "torch_npu/profiler/profiler_interface.py",
            "_ProfInterface",
            contains=("ProfPathCreator().create_prof_dir()", "ProfPathCreator().is_prof_inited = False"),
        ),
        Wanted(
            "torch_npu/profiler/analysis/prof_common_func/_constant.py",
            "Constant",
            contains=("'PROFILER_SAMPLECONFIG'", "'PROFILING_MODE'"),
        ),
        Wanted("torch_npu/profiler/scheduler.py", "Schedule.__init__", ("wait", "active", "warmup", "repeat")),
        Wanted(
            "torch_npu/profiler/profiler.py",
            "profile.__init__",
            ("activities", "schedule", "on_trace_ready", "experimental_config"),
        ),
        Wanted("torch_npu/profiler/profiler.py", "tensorboard_trace_handler", ("dir_name", "analyse_flag")),
        Wanted("torch_npu/profiler/profiler.py", "analyse", ("profiler_path",)),
        Wanted(
            "torch_npu/profiler/experimental_config.py",
            "_ExperimentalConfig.__init__",
            ("profiler_level", "aic_metrics", "export_type"),
        ),
        Wanted("torch_npu/profiler/experimental_config.py", "ProfilerLevel", contains=("Level1 =",)),
        Wanted("torch_npu/profiler/experimental_config.py", "AiCMetrics", contains=("AiCoreNone =",)),
        Wanted("torch_npu/profiler/experimental_config.py", "ExportType", contains=("Text =",)),
    ),
    "mindspore": (
        Wanted("mindspore/context.py", "get_context", ("attr_key",)),
        Wanted("mindspore/runtime/stream.py", "synchronize"),
        Wanted("mindspore/runtime/executor.py", "launch_blocking"),
        Wanted("mindspore/runtime/event.py", "Event.__init__", ("enable_timing",)),
        Wanted("mindspore/runtime/event.py", "Event.elapsed_time", ("end_event",)),
        Wanted(
            "mindspore/profiler/profiler_interface.py",
            "ProfilerInterface",
            contains=("is_initialized = False", "cls.is_initialized = True"),
        ),
        Wanted("mindspore/profiler/profiler.py", "tensorboard_trace_handler", ("dir_name", "analyse_flag")),
        Wanted("mindspore/profiler/profiler.py", "analyse", ("profiler_path",)),
        Wanted("mindspore/profiler/schedule.py", "Schedule.__init__", ("wait", "active", "warmup", "repeat")),
    ),
}


def missing(source: str, wanted: Wanted) -> str:
    """Return what of *wanted* the source of its module lacks; empty if it has all."""
    node: ast.AST = ast.parse(source)
    for name in wanted.name.split("."):
        inside = [
            each
            for each in ast.iter_child_nodes(node)
            if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name == name
        ]
        if not inside:
            return f"has no {wanted.name}"
        node = inside[-1]
    parameters = set()
    if isinstance(node, ast.FunctionDef):
        parameters = {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    if lacks := [each for each in wanted.parameters if each not in parameters]:
        return f"{wanted.name} takes no {', '.join(lacks)}"
    text = ast.unparse(node)
    if lacks := [each for each in wanted.contains if each not in text]:
        return f"{wanted.name} does not contain {', '.join(lacks)}"
    return ""


def check(wheel: str) -> Iterator[str]:
    """Yield a line for each thing that is wanted of a wheel."""
    with zipfile.ZipFile(wheel) as files:
        package = next((name for name in WANTED if any(path.startswith(f"{name}/") for path in files.namelist())), "")
        if not package:
            raise SystemExit(f"{wheel}: is no wheel of {' or '.join(WANTED)}")
        for wanted in WANTED[package]:
            if wanted.module not in files.namelist():
                yield f"MISSING  {wanted.module}: is not there"
                continue
            problem = missing(files.read(wanted.module).decode(), wanted)
            yield f"MISSING  {wanted.module}: {problem}" if problem else f"ok       {wanted.module}: {wanted.name}"


if __name__ == "__main__":
    lines = [line for wheel in sys.argv[1:] for line in check(wheel)]
    print("\n".join(lines) or __doc__)
    sys.exit(any(line.startswith("MISSING") for line in lines) or not lines)

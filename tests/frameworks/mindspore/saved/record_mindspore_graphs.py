"""Record graphs that MindSpore saves: ``python -m tests.frameworks.mindspore.saved.record_mindspore_graphs [MODEL]``.

Needs MindSpore. Each model is compiled in a process of its own, which writes its graphs and a MINDIR, and runs once
under MindSpore's profiler. Kept are some stages of each model, and as ``counts.json`` what MindSpore itself says of
them: what it ran, and the nodes of the protobufs that it wrote, read with MindSpore's own descriptions of these.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[3] / "data" / "mindspore-graphs"
KEPT = re.compile(r"(\d+_execute|graph_build_\d+)_\d+\.ir")
EARLIER = re.compile(r"(00_bootstrap|01_type_inference|\d+_validate)_\d+\.ir")
"""Stages that are kept of one model."""


def model(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the network *name* and its inputs."""
    import mindspore as ms
    from mindspore import nn

    from .. import mindspore_nets as nets

    if name == "lenet":
        return nets.LeNet(), (nets.tensor(2, 1, 32, 32),)
    if name == "bert":
        return nets.Transformer(), (nets.tensor(2, 8, 32),)
    if name.startswith("llama"):
        return nets.Llama(more_casts=name == "llama_cast"), (ms.ops.cast(nets.tensor(1, 8, 32), ms.float16),)
    if name == "reused":
        return nets.Reused(), (nets.tensor(2, 8),)
    if name == "branches":
        return nets.Branches(), (nets.tensor(4, 4), ms.Tensor(1, ms.int32))
    if name == "dynamic":
        net = nn.SequentialCell([nn.Dense(8, 16), nn.GELU(), nn.Dense(16, 4), nn.Softmax()])
        net.set_inputs(ms.Tensor(shape=[None, 8], dtype=ms.float32))
        return net, (nets.tensor(3, 8),)
    dense = nn.SequentialCell([nn.Dense(8, 16), nn.ReLU(), nn.Dense(16, 4)])
    momentum = nn.Momentum(dense.trainable_params(), 0.1, 0.9)
    step = nn.TrainOneStepCell(nn.WithLossCell(dense, nn.MSELoss()), momentum)
    return step, (nets.tensor(4, 8), nets.tensor(4, 4))


def run(name: str, folder: Path) -> None:
    """Compile the model *name*, run it under the profiler, export it; write the counts."""
    import mindspore as ms
    from mindspore.train import anf_ir_pb2, mind_ir_pb2

    ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
    if ms.__version__ < "2.1":  # which does not know the variables yet
        ms.set_context(save_graphs=1, save_graphs_path=str(folder))
    net, inputs = model(name)
    for parameter in net.get_parameters():
        parameter.set_data(ms.ops.zeros_like(parameter))  # which gzip makes small
    ms.set_context(mode=ms.GRAPH_MODE)
    net(*inputs)
    counts: dict[str, Any] = {}
    if ms.__version__ != "2.0.0":  # it needs an older Python, and is not measured
        from pytest_opprof.frameworks.mindspore.file_lines import op_type
        from pytest_opprof.frameworks.mindspore.live.profiler import recorded

        with recorded() as calls:
            net(*inputs)
        counts["ran"] = Counter(op_type(call.name) for call in calls)
    # The export compiles the graph once more: that goes into a folder of its own.
    ms.set_context(save_graphs_path=str(folder / "exported"))
    for path in sorted(folder.glob("ms_output_vm_build_*.pb")):
        graph = anf_ir_pb2.ModelProto.FromString(path.read_bytes()).graph
        counts[path.stem] = Counter(node.op_type for node in graph.node)
    if name in ("bert", "llama", "dynamic", "branches"):
        ms.export(net, *inputs, file_name=str(folder / name), file_format="MINDIR")
        exported = mind_ir_pb2.ModelProto.FromString((folder / f"{name}.mindir").read_bytes())
        primitives = {each.name: each.op_type for each in exported.primitives}
        for graph in (exported.graph, *exported.functions):
            types = [node.op_type.replace("REF::", "") for node in graph.node]
            counts.setdefault("mindir", {})[graph.name] = Counter(primitives.get(each, each) for each in types)
    (folder / "counts.json").write_text(json.dumps(counts, ensure_ascii=False))


def keep(name: str, folder: Path, target: Path) -> dict[str, Any]:
    """Write what is kept of *folder* to *target*; return the counts."""
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.glob("*.ir")):
        if KEPT.fullmatch(path.name) or (name == "bert" and EARLIER.fullmatch(path.name)):
            text = re.sub(r"/[\w/.\-]*/(site-packages|tests/backends)/", r"/home/me/\1/", path.read_text("utf-8"))
            if name != "bert":
                text = re.sub(r" *# In file /home/me/site-packages/.*\n", "", text)
            (target / f"{path.name}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    for path in folder.glob("*.mindir"):
        (target / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    found: dict[str, Any] = json.loads((folder / "counts.json").read_text("utf-8"))
    return found


def main(names: list[str]) -> None:
    import mindspore as ms

    target = DATA / ms.__version__
    file = target / "counts.json"
    counts = json.loads(file.read_text("utf-8")) if file.exists() else {}
    for name in names or ["lenet", "bert", "llama", "llama_cast", "training", "dynamic", "branches", "reused"]:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            environment = {**os.environ, "MS_DEV_SAVE_GRAPHS": "1", "MS_DEV_SAVE_GRAPHS_PATH": made}
            subprocess.run([sys.executable, "-m", __spec__.name, "--run", name, made], env=environment, check=True)
            counts[name] = keep(name, folder, target / name)
            print(name, sorted(path.name for path in folder.glob("*.ir"))[-3:])
    file.write_text(json.dumps(counts, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2], Path(sys.argv[3]))
    else:
        main(sys.argv[1:])

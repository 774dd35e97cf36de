"""A suite of ten tests of MindSpore models, as a user has it: baselines, what makes it fail, workers, Ctrl-C."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.processes, pytest.mark.slow]
SUITE = """
import os

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

import nets

BROKEN = os.environ.get("BROKEN", "")
GRAPH, PYNATIVE = ms.GRAPH_MODE, ms.PYNATIVE_MODE
atoms, image, words = nets.tensor(10, 3), nets.tensor(2, 1, 32, 32), nets.tensor(2, 8, 32)


@pytest.fixture
def graph():
    ms.set_context(mode=GRAPH)


@pytest.fixture
def pynative():
    ms.set_context(mode=PYNATIVE)


@pytest.mark.opprof(rounds=3, warmup=1)
def test_lenet(graph, net=nets.LeNet()):
    net(image)


def test_lenet_training(graph, net=nets.LeNet(), kept={}):
    if not kept:
        kept["step"] = nets.training(net, nn.Momentum(net.trainable_params(), 0.1, 0.9), image)
    kept["step"]()


def test_transformer(graph, net=nets.Transformer()):
    net(words)


def test_transformer_training(pynative, net=nets.Transformer(), kept={}):
    if not kept:
        kept["step"] = nets.training(net, nn.SGD(net.trainable_params(), 0.1), words)
    kept["step"]()


@pytest.mark.op_budget({"Cast[*->float64]": 0})
def test_molecules(graph, net=nets.Molecules(hidden=BROKEN == "cast")):
    net(atoms, atoms)


@pytest.mark.op_budget({"Cast[float32->float64]": 0})
def test_molecules_pynative(pynative, net=nets.Molecules(hidden=BROKEN == "cast")):
    net(atoms, atoms)


def test_jit(pynative, function=nets.exact_and_back if BROKEN == "jit" else ms.jit(nets.exact_and_back)):
    function(atoms)


def test_update(graph, net=nets.Update(copies=BROKEN == "copy")):
    net(words)


def test_projection(pynative, weights=nets.tensor(32, 16, dtype=np.float64 if BROKEN == "wide" else np.float32)):
    ops.matmul(nets.tensor(8, 32, dtype=weights.asnumpy().dtype), weights)


def test_positions_from_numpy(pynative, opprof, net=nn.Dense(3, 4)):
    positions = np.ones((5, 3))
    net(ms.Tensor(np.asarray(positions.astype(np.float32))))
"""
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the suite in a process of its own: MindSpore can be imported once."""
    monkeypatch.setenv("GLOG_v", "3")
    pytester.makeini("[pytest]\nopprof_noise = ignore\naddopts = -p no:cacheprovider\n")
    shutil.copy(Path(__file__).parents[1] / "mindspore_nets.py", pytester.path / "nets.py")
    pytester.makepyfile(test_models=SUITE)

    def started(*arguments: str, broken: str = "") -> pytest.RunResult:
        monkeypatch.setenv("BROKEN", broken)
        return pytester.runpytest_subprocess("--opprof", "--opprof-all", *arguments)

    return started


FAILURES = {
    "cast": [
        "*Cast[[]*->float64]: 3 calls (budget: 0)*",
        "FAILED *test_molecules - *",
        "FAILED *pynative - *",
    ],
    "jit": ["FAILED *test_jit - Cast 0 -> 2*"],
    "copy": ["FAILED *test_update - Identity 0 -> 1*"],
    # NumPy's astype to the dtype that is there already is a copy, and no cast any more.
    "wide": [
        "  *MatMul: float64 (baseline: float32), bytes x2*",
        "FAILED *test_projection - Copy 0 -> 1*",
    ],
}


def test_it_passes_ten_times_and_fails_with_the_op_for_what_got_worse(run: Run, pytester: pytest.Pytester) -> None:
    run("--opprof-update", "--opprof-processes=1").assert_outcomes(passed=10)
    folders = [path.name.split("-cpu")[0] for path in (pytester.path / "baselines").glob("[!.]*")]
    assert [folder.split("-")[::2] for folder in sorted(folders)] == [["mindspore"], ["mindspore", "numpy"]]
    for _ in range(10):
        run().assert_outcomes(passed=10)
    run("-n2").assert_outcomes(passed=10)
    for broken, lines in FAILURES.items():
        result = run(broken=broken)
        result.stdout.fnmatch_lines(lines)
        failed = len([line for line in lines if line.startswith("FAILED")])
        result.assert_outcomes(passed=10 - failed, failed=failed)


def test_ctrl_c_ends_a_run_inside_a_window(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        test_models="""
        import os, signal
        import mindspore as ms
        import pytest
        from mindspore import ops

        @pytest.mark.op_budget(Relu=1)
        def test_endless():
            ops.relu(ms.Tensor([1.0]))
            os.kill(os.getpid(), signal.SIGINT)
            ops.relu(ms.Tensor([1.0])).asnumpy()
    """
    )
    result = run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*KeyboardInterrupt*", "*no tests ran*"])


def test_the_users_own_profiler_in_a_test_is_an_error_that_says_so(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        test_models="""
        import mindspore as ms
        import pytest
        from mindspore import ops

        @pytest.mark.op_budget(Relu=1)
        def test_profiles_itself(tmp_path):
            profiler = ms.Profiler(output_path=str(tmp_path))
            ops.relu(ms.Tensor([1.0]))
            profiler.stop()
    """
    )
    result = run()
    result.stdout.fnmatch_lines(["*MindSpore's profiler lost this window: another one (ms.Profiler, *"])
    result.assert_outcomes(failed=1)


def test_the_recipes_of_the_documentation_run(pytester: pytest.Pytester, run: Run) -> None:
    page = (Path(__file__).parents[4] / "docs" / "mindspore.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    pytester.makepyfile(test_models=recipe)
    result = run("--opprof-update", "--opprof-processes=1")
    result.assert_outcomes(passed=2)
    (baselines,) = pytester.path.glob("baselines/*/test_models.py.json")
    assert '"steps 3 to 5"' in baselines.read_text()

"""JAX through the plugin: the ten tests of examples/jax_models, budgets, and what a user meets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.jax, pytest.mark.processes]
SUITE = Path(__file__).parents[4] / "examples" / "jax_models"
Run = Callable[..., pytest.RunResult]


def run_suite(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    plugins = ["-p", "pytest_opprof.plugin", "-p", "xdist", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, "-q", "--opprof-noise=ignore", *flags]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(SUITE, tmp_path_factory.mktemp("recorded") / "jax_models"))
    done = run_suite(folder, "--opprof-update", "--opprof-processes=1")
    assert "opprof: 10 tests measured, 10 ok" in done.stdout, done.stdout + done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["-n", "2"]])
def test_ten_tests_pass_unchanged(recorded: Path, flags: list[str]) -> None:
    done = run_suite(recorded, "--opprof", "--opprof-strict", *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 passed" in done.stdout


CHANGES = {
    "a cast in a loop": (
        "recurrent",
        "state = jnp.tanh(state @ weight + x)",
        "state = jnp.tanh(state @ weight + x).astype(jnp.bfloat16).astype(jnp.float32)",
        "Cast: 14 calls (baseline: 0)",
    ),
    "a lost fusion": (
        "distances",
        "** 2).sum()))),",
        "** 2).sum())), compiler_options={'xla_disable_hlo_passes': 'fusion'}),",
        "jax::kernel: 4 calls (baseline: 1)",
    ),
    "a lost jit": (
        "choice",
        "    @jax.jit\n    def either",
        "    def either",
        "jax::program: 2 calls (baseline: 1)",
    ),
    "a copy": ("update", "@partial(jax.jit, donate_argnums=0)", "@jax.jit", "Copy: 1 call (baseline: 0)"),
    "a wider dtype": (
        "attention",
        "def normal(",
        "jax.config.update('jax_enable_x64', True)\n\n\ndef normal(",
        "MatMul: float64 (baseline: float32), bytes x2",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_fails_the_test_it_made_worse_with_the_op_named(recorded: Path, tmp_path: Path, name: str) -> None:
    program, before, after, line = CHANGES[name]
    folder = Path(shutil.copytree(recorded, tmp_path / "changed"))
    text = (folder / "models.py").read_text(encoding="utf-8")
    assert before in text
    (folder / "models.py").write_text(text.replace(before, after), encoding="utf-8")
    done = run_suite(folder, "--opprof", "-k", f"{program} or convolution")
    assert f"  {line}" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest in a process of its own: one imports JAX only once."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("XLA_FLAGS", "")

    def run(*flags: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess("-p", "pytest_opprof.plugin", "-p", "xdist", "--opprof", *flags)

    return run


def test_a_test_may_be_the_first_to_use_jax_and_say_what_it_compiles(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import jax, jax.numpy as jnp, numpy as np, pytest

        double = jax.jit(lambda x: x * 2)

        @pytest.mark.op_budget({"jax::compile": 1, "jax::program": 1, "Mul": "1..1"})
        def test_the_first():
            double(np.ones(3, np.float32))

        @pytest.mark.op_budget({"jax::compile": 0, "Mul": "1..1", "all-gather": 0})
        def test_not_again():
            double(np.ones(3, np.float32))

        sizes = iter([3, 3, 4, 4])

        @pytest.mark.op_budget({"jax::compile": 0})
        @pytest.mark.opprof(rounds=3, warmup=1)
        def test_another_shape():
            double(np.ones(next(sizes), np.float32))

        @pytest.mark.op_budget({"jax::compil": 0})
        def test_a_spelling():
            pass
        """
    )
    result = run()
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "op budget exceeded: *::test_another_shape  [[]jax * + jaxlib *, cpu]",
            "  jax::compile: 0..1 calls (budget: 0)*",
            "*unknown op 'jax::compil': did you mean 'jax::compile'[?]",
            "*::test_another_shape: in 1 of 3 rounds (first in round 2) JAX compiled jit(<lambda>)",
        ]
    )


AGAIN = """
import jax, jax.numpy as jnp, pytest

@jax.jit
def f(x):
    return x + 1

def test_a():
    f(1.0), f(jnp.ones(2))

def test_b():
    f(1.0), f(jnp.ones(2))

@jax.jit
def step(x):
    return x * 2 + jnp.ones(2).sum()

def test_steps():
    x = {start}
    for _ in range(3):
        x = step(x)
"""


def test_an_update_counts_what_an_earlier_test_had_compiled_so_that_nothing_excuses_one_more(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(test_again=AGAIN.format(start="jnp.ones(())"))
    run("--opprof-all", "--opprof-update", "--opprof-noise=ignore").assert_outcomes(passed=3)
    (file,) = (each for each in pytester.path.rglob("test_again.py.json"))
    bodies = {test: each["body"] for test, each in json.loads(file.read_text(encoding="utf-8"))["tests"].items()}
    # Alone, test_b compiles f for an array as well; after test_a it compiles nothing.
    assert {test: each["facts"]["recompilations"] for test, each in bodies.items()} == {
        "test_a": 1,
        "test_b": 1,
        "test_steps": 0,
    }
    assert all(each["compiled_anew"] for each in bodies.values())
    run("--opprof-all", "-k", "test_b", "--opprof-noise=ignore").assert_outcomes(passed=1)
    pytester.makepyfile(test_again=AGAIN.format(start="1.0"))
    result = run("--opprof-all", "--opprof-noise=ignore")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "  functions compiled again: 1 (baseline: 0)",
            "    JAX traced step (*test_again.py:*) again, in the same test: different input types: *weak_type*",
            "FAILED test_again.py::test_steps - recompilations 0 -> 1*",
        ]
    )


def test_what_only_a_first_use_compiles_again_passes_in_another_order(pytester: pytest.Pytester, run: Run) -> None:
    """An update clears JAX's caches, not the caches of the code under test."""
    pytester.makepyfile(
        test_cached="""
        import functools
        import jax, jax.numpy as jnp

        @jax.jit
        def layer(x):
            return x * 2 + 1

        @functools.cache
        def layers():
            return [layer(jnp.zeros(n)) for n in (2, 3, 4)]

        def test_first():
            layers()

        def test_second():
            layers()
            layer(jnp.ones(5))
        """
    )
    run("--opprof-all", "--opprof-update", "--opprof-noise=ignore").assert_outcomes(passed=2)
    result = run("--opprof-all", "-k", "second", "--opprof-noise=ignore")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*functions compiled again: 3 (baseline: 0)*but its second run in a process matches *"]
    )


def test_numpy_and_jax_in_one_test(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import jax.numpy as jnp, numpy as np, pytest

        @pytest.mark.op_budget(MatMul="3..3", Cast="1..1")
        def test_both(opprof):
            array = np.ones((4, 4), np.float32)
            product = array @ array
            x = jnp.asarray(np.asarray(product))
            (x @ x @ x).astype(jnp.int32)
        """
    )
    run("--opprof-update", "--opprof-processes=1").assert_outcomes(passed=1)
    (folder,) = (pytester.path / "baselines").glob("[!.]*")
    assert folder.name.startswith("jax-")
    assert "-jaxlib-" in folder.name
    assert "-numpy-" in folder.name
    run().assert_outcomes(passed=1)


def test_a_profiler_of_the_users_is_said_around_and_inside(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import jax, jax.numpy as jnp, pytest

        pytestmark = pytest.mark.op_budget(Mul=1)

        @pytest.fixture
        def profiled(tmp_path):
            with jax.profiler.trace(tmp_path):
                yield

        def test_around(profiled):
            jnp.ones(3) * 2

        def test_inside(tmp_path):
            with jax.profiler.trace(tmp_path):
                jnp.ones(3) * 2

        def test_after():
            jnp.ones(3) * 2
        """
    )
    result = run()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "opprof could not measure *::test_around: a session of JAX's profiler was already running. Stop it *",
            "*BackendError: opprof measures this test with JAX's profiler, which has one session per process. *",
        ]
    )


def test_ctrl_c_ends_the_run_and_leaves_no_session(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import jax, jax.numpy as jnp, pytest

        @pytest.mark.op_budget(Mul=1)
        def test_a():
            jnp.ones(3) * 2
            raise KeyboardInterrupt
        """
    )
    pytester.makeconftest(
        """
        import jax

        def pytest_unconfigure():
            jax.profiler.start_trace("trace")
            jax.profiler.stop_trace()
            print("another session ran")
        """
    )
    result = run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["another session ran"])


def test_the_example_of_the_page_passes(pytester: pytest.Pytester, run: Run) -> None:
    page = (Path(__file__).parents[4] / "docs" / "jax.md").read_text(encoding="utf-8")
    pytester.makepyfile(page.partition("```python\n")[2].partition("```")[0])
    run().assert_outcomes(passed=1)


def test_the_commands_know_it() -> None:
    def opprof(*arguments: str) -> list[str]:
        command = [sys.executable, "-m", "pytest_opprof", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()

    assert any(line.split()[:1] == ["jax"] for line in opprof("backends"))
    assert opprof("selfcheck", "--backend", "jax")[-1] == "opprof: 15 ok"


def test_a_longer_trace_fails_though_what_runs_is_the_same_whatever_the_module_compiled(
    pytester: pytest.Pytester, run: Run
) -> None:
    text = """
        import jax, jax.numpy as jnp, pytest

        x = jnp.ones((8, 8))

        @jax.jit
        def step(x):
            y = x
            for i in range({}):
                y = y + 0 * i
            return jnp.tanh(x @ x) + y

        @pytest.mark.opprof
        def test_step():
            step(jnp.ones((8, 8)))
        """
    pytester.makepyfile(test_m=text.format(5))
    run("--opprof-update", "--opprof-processes=1").assert_outcomes(passed=1)
    run().assert_outcomes(passed=1)
    pytester.makepyfile(test_m=text.format(200))
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  ops traced for the programs that ran: * (baseline: *)*",
            "where ops traced for the programs that ran come from (*):",
            "  +*  test_m.py:* in test_step  `step(jnp.ones((8, 8)))`  * -> *",
        ]
    )
    result.stdout.no_fnmatch_line("*calls of*")

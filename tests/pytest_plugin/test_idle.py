"""A plugin that is installed and not used costs nothing that can be felt."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "numpy",
    "torch",
    "jsonschema",
    "tabulate",
    "hypothesis",
    "pytest_opprof.pytest_plugin.hooks",
    "pytest_opprof.model",
)
PRINT = f"import sys; print([m for m in {HEAVY!r} if m in sys.modules])"


@pytest.mark.processes
def test_importing_the_plugin_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import pytest_opprof.plugin; {PRINT}"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "body", ["def test_a(): pass", "import pytest\n@pytest.mark.op_budget(Cast=0)\ndef test_a(): pass"]
)
@pytest.mark.processes
def test_a_run_that_does_not_measure_imports_nothing_heavy(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    pytester.makepyfile(body)
    pytester.makeconftest(f"def pytest_unconfigure(): {PRINT}")
    # Only this plugin: others import what they like.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = pytester.runpytest_subprocess("-p", "pytest_opprof.plugin")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["[[][]]"])


@pytest.mark.slow
@pytest.mark.processes
def test_a_run_that_measures_imports_no_framework_that_the_tests_do_not(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        "from pytest_opprof.backends import fake\nimport pytest\n"
        "@pytest.mark.opprof(backend='fake')\ndef test_a(): fake.launch('Add')\n"
    )
    pytester.makeconftest(
        "def pytest_unconfigure():\n    import sys; print('torch' in sys.modules, 'tabulate' in sys.modules)"
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = pytester.runpytest_subprocess("-p", "pytest_opprof.plugin", "--opprof-update")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["False False"])


@pytest.mark.slow
@pytest.mark.processes
def test_a_run_that_measures_looks_for_no_gpu_where_nothing_uses_one(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile("import numpy as np\ndef test_a(opprof):\n    with opprof(): np.array([1.0]) + 1\n")
    loaded = "[m for m in sys.modules if m.startswith('pytest_opprof.frameworks.nvidia')]"
    pytester.makeconftest(f"def pytest_unconfigure():\n    import sys; print({loaded})")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = pytester.runpytest_subprocess("-p", "pytest_opprof.plugin", "--opprof")
    result.assert_outcomes(passed=1)
    room = "pytest_opprof.frameworks.nvidia"
    result.stdout.fnmatch_lines([f"[[]'{room}', '{room}.live', '{room}.live.backend'[]]"])


def test_an_idle_run_registers_no_session(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_a(request): assert not request.config.pluginmanager.hasplugin('opprof-measuring')")
    pytester.runpytest_inprocess("-p", "no:hypothesispytest", "-p", "no:asyncio").assert_outcomes(passed=1)

"""docs/backends.md is true: its example is installed here as a package of a third party, and works."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from pytest_opprof.backends import Backend, KnownWork

PAGE = (Path(__file__).parents[2] / "docs" / "backends.md").read_text(encoding="utf-8")
MODULE, TEST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(ENTRY_POINT,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def install(pytester: pytest.Pytester, module: str) -> None:
    """Install the example: a module, and what pip makes of its pyproject.toml."""
    (pytester.path / "opprof_zlib.py").write_text(module, encoding="utf-8")
    about = pytester.mkdir("opprof_zlib-0.1.dist-info")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: opprof-zlib\nVersion: 0.1\n", encoding="utf-8")
    (group,) = re.findall(r'project.entry-points."(.*)"', ENTRY_POINT)
    (name,) = re.findall(r'^(zlib) = "(.*)"', ENTRY_POINT, re.MULTILINE)
    (about / "entry_points.txt").write_text(f"[{group}]\n{' = '.join(name)}\n", encoding="utf-8")


@pytest.fixture
def example(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    install(pytester, MODULE)
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return pytester


def run(example: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return example.runpytest_subprocess("-p", "pytest_opprof.plugin", *arguments)


def opprof(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_opprof", *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.processes
def test_the_example_passes_its_own_test(example: pytest.Pytester) -> None:
    example.makepyfile(test_opprof_zlib=TEST)
    result = run(example, "--opprof", "-rA")
    result.assert_outcomes(passed=2)


@pytest.mark.slow
@pytest.mark.processes
def test_its_ops_are_known_to_marks_and_commands(example: pytest.Pytester) -> None:
    example.makepyfile(TEST.replace("Decompress=0", "Decompres=0"))
    run(example, "--opprof").stdout.fnmatch_lines(["*unknown op 'Decompres': did you mean 'Decompress'?*"])
    done = opprof("ops", "zlib.compress")
    assert (done.stdout, done.stderr) == ("Compress  zlib  zlib.compress\n", "")
    assert opprof("selfcheck", "--backend", "zlib").stdout.splitlines()[-1] == "opprof: 12 ok, 3 left out"


@pytest.mark.slow
@pytest.mark.processes
def test_where_nothing_was_recorded_the_hint_is_the_backends(example: pytest.Pytester) -> None:
    example.makepyfile("import pytest\n@pytest.mark.op_budget(Compress=1)\ndef test_a(): pass\n")
    result = run(example, "--opprof", "--opprof-backend=zlib")
    hint = "(zlib's functions must be called as zlib.compress(), not imported by name)"
    result.stdout.fnmatch_lines([f"*nothing was recorded: no op ran, or no backend sees it {hint}. If no op *"])
    result.stdout.no_fnmatch_line("*torch must be*")
    example.makepyfile("def test_a(): pass")
    result = run(example, "--opprof", "--opprof-all", "--opprof-backend=zlib")
    result.stdout.fnmatch_lines([f"*no op ran, or no backend sees it, so only its time is compared {hint[:-1]}; *"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "broken"),
    [
        ("import zlib\n\n        if self", "import zlib\n\n        self.config\n        if self"),
        ("            yield log\n", "            yield log\n            self.config\n"),
        ("    def selfcheck", "    def settle(self):\n        self.config\n\n    def selfcheck"),
        ("    def selfcheck", "    def begin_test(self):\n        self.config\n\n    def selfcheck"),
        ("    def selfcheck", "    def threads_limited(self, threads):\n        self.config\n\n    def selfcheck"),
        ("    def selfcheck", "    def blind(self):\n        self.config\n\n    def selfcheck"),
    ],
)
@pytest.mark.processes
def test_what_breaks_in_a_backend_is_told_as_its_failure_and_no_traceback_is_shown(
    example: pytest.Pytester, where: str, broken: str
) -> None:
    assert where in MODULE
    (example.path / "opprof_zlib.py").write_text(MODULE.replace(where, broken, 1), encoding="utf-8")
    example.makepyfile(
        "import zlib, pytest\npytestmark = pytest.mark.op_budget(Compress=1)\n"
        "@pytest.mark.opprof(rounds=10)\ndef test_a(): zlib.compress(b'abc')\n"
    )
    result = run(example, "--opprof", "--opprof-backend=zlib")
    result.assert_outcomes(failed=1)
    failed = "backend 'zlib' (opprof-zlib 0.1) failed: AttributeError: 'ZlibBackend' object has no attribute 'config'"
    result.stdout.fnmatch_lines([f"opprof could not measure test_*.py::test_a: {failed} (opprof_zlib.py:*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*recorder.py*")
    result.stdout.no_fnmatch_line("*> *")


@pytest.mark.processes
def test_a_run_that_does_not_measure_does_not_import_it(example: pytest.Pytester) -> None:
    (example.path / "opprof_zlib.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    example.makepyfile("import pytest\n@pytest.mark.op_budget(Compress=1)\ndef test_a(): pass\n")
    run(example).assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.processes
def test_one_that_does_not_load_breaks_no_command_and_no_run_that_chose_another(example: pytest.Pytester) -> None:
    (example.path / "opprof_zlib.py").write_text("import no_such_framework", encoding="utf-8")
    done = opprof("ops", "Cast")
    assert (done.returncode, done.stdout[:4]) == (0, "Cast")
    assert done.stderr.startswith("opprof: backend 'zlib' (opprof_zlib:ZlibBackend) does not load: ModuleNotFoundError")
    example.makepyfile("import pytest\n@pytest.mark.op_budget(calls=0)\ndef test_a(): pass\n")
    run(example, "--opprof", "--opprof-backend=fake").assert_outcomes(passed=1)
    run(example, "--opprof").stdout.fnmatch_lines(["*backend 'zlib' (opprof_zlib:ZlibBackend) does not load: *"])


def test_the_table_has_all_that_a_backend_may_do() -> None:
    listed = set(re.findall(r"^\| `(\w+)", PAGE, re.MULTILINE))
    assert listed == {name for name in (*vars(Backend), *Backend.__annotations__) if not name.startswith("_")}
    (signature,) = re.findall(r"KnownWork\((run, .*?)\)`", PAGE)
    assert re.findall(r"(\w+)(?:=|,|$)", re.sub(r"=[^,]+", "=", signature)) == list(
        inspect.signature(KnownWork).parameters
    )


def test_what_stays_as_it_is_is_there() -> None:
    promised = PAGE.partition("## What stays as it is")[2]
    paths = re.findall(r"`(pytest_opprof\.[\w.]+)\.([A-Za-z_]+)`", promised)
    assert len(paths) >= 5
    for module, name in paths:
        if (module, name) != ("pytest_opprof", "backends"):
            assert hasattr(import_module(module), name)

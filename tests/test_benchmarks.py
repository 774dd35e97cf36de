import ast
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import pytest_opprof

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the module and name of each import from the package, also in programs that a benchmark holds as text."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] == pytest_opprof.__name__:
                yield from ((module, each.name) for each in names)
            case ast.Constant(value=str(text)) if f"from {pytest_opprof.__name__}" in text:
                yield from imported(ast.parse(text))


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_imports_what_the_package_has(path: Path) -> None:
    for module, name in imported(ast.parse(path.read_text())):
        if name not in find_sources(module):
            assert hasattr(import_module(module), name), f"{module} has no {name}"


def test_the_live_benchmark_of_the_gate_goes_on_only_with_a_baseline_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy:
        def pytest(self, *arguments: str) -> tuple[int, str, float]:
            # Without the flag an update that records no times passes.
            return int("--opprof-noise=fail" in arguments), "the machine was busy while recording: cc. Again", 1

    monkeypatch.syspath_prepend(BENCHMARKS)
    gate_live: Any = import_module("gate_live")
    monkeypatch.setattr(gate_live, "compare", lambda *_: pytest.fail("went on"))
    with pytest.raises(SystemExit, match="in 5 attempts: the machine was busy while recording: cc"):
        gate_live.stored(Busy(), 1)


def find_sources(module: str) -> set[str]:
    """Return the names that the file of a module defines; of a package, its modules, too."""
    spec = find_spec(module)
    origin = spec.origin if spec else None
    assert origin, f"there is no {module}"
    body = ast.parse(Path(origin).read_text()).body
    names = {each.name for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef)}
    names |= {file.stem for file in Path(origin).parent.iterdir()} if Path(origin).stem == "__init__" else set()
    return names

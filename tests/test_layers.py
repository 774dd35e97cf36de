"""The order of the modules: each imports only those below it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pytest_opprof
from pytest_opprof import traces

PACKAGE = Path(pytest_opprof.__file__).parent
FORMATS = {f"traces.{name}" for name in traces.FORMATS}
SHARED_BY_FORMATS = (
    {f"traces.{path.stem}" for path in (PACKAGE / "traces").glob("[!_]*.py")}
    - FORMATS
    - {"traces.place", "traces.events", "traces.others"}
)
LAYERS = [
    {"errors", "vocabulary", "vocabulary_files", "own", "ids", "processes", "processes.parent"},
    {"units", "names", "samples", "conditions", "worktree", "processes.child"},
    {"attribution", "torch_events", "environment", "judge", "kernel_names", "kernels"},
    {"model"},
    {"ranges"},
    {"trace"},
    {"backends.cupti_records", "backends.cuda_driver"},
    {"backends.cupti", "backends.cuda_events", "backends.nvml"},
    {"backends.cuda_memory", "backends.torch_cuda", "backends.numpy_arrays"},
    {"backends.numpy_functions", "backends.numpy_scalars"},
    {"budgets", "baselines", "query", "backends", "backends.numpy", "backends.torch", "backends.cuda", "backends.fake"},
    {"traces.place"},
    {"traces.events"},
    {"traces.others"},
    {"traces"},
    SHARED_BY_FORMATS,
    FORMATS,
    {"compare", "stale", "store", "recorder", "listing", "workloads"},
    {"reports", "profiles_read", "checks"},
    {"runs", "profiles_show", "profiles_judge"},
    {"profiles", "two_runs", "selfcheck"},
    {"settings", "processes.this_run"},
    {"side", "processes.fresh", "processes.pool"},
    {"fixture", "recording", "conclusion", "pairs", "updates"},
    {"against", "stored", "body"},
    {"session"},
    {"plugin", "cli", "collected"},
    {"__main__"},
]
PYTEST_ALLOWED = {"settings", "recording", "side", "against", "stored", "body", "fixture", "session"} | {
    *("plugin", "collected", "processes.parent", "processes.fresh", "processes.this_run", "processes.pool")
}
FRAMEWORKS = {"torch", "cupy", "mindspore", "jax", "onnxruntime"}
"""`workloads`, which gives them something to do, imports them by name, to say so where that fails."""
MODULES = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}


def rank(module: str) -> int:
    (found,) = (number for number, layer in enumerate(LAYERS) if module in layer)
    return found


def imports(path: Path) -> list[tuple[str, bool]]:
    """Return (module, whether only for types) of each import, ours as their path inside the package."""
    tree = ast.parse(path.read_text())
    for_types = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    package = list(path.relative_to(PACKAGE).parts[:-1])
    found: list[tuple[str, bool]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node in for_types) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.append((node.module or "", node in for_types))
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1], *([node.module] if node.module else [])]
            names = [".".join([*base, alias.name]) for alias in node.names]
            found += [("." + (name if name in MODULES else ".".join(base)), node in for_types) for name in names]
    return found


@pytest.mark.parametrize("module", sorted(set(MODULES) - {"__init__"}))
def test_a_module_imports_only_what_lies_below_it(module: str) -> None:
    name = module.removesuffix(".__init__")
    for imported, for_types in imports(MODULES[module]):
        target = imported[1:].removesuffix(".__init__")
        if imported.startswith(".") and target and not for_types:
            shared = {name, target} <= SHARED_BY_FORMATS
            family = target.startswith("traces.") and name.startswith(f"{target}_")
            same_package = shared or family or (name.startswith("backends.") and target == "backends")
            assert rank(target) < rank(name) or same_package, f"{name} imports {target}"


@pytest.mark.parametrize("module", sorted(MODULES))
def test_pytest_is_imported_only_at_the_edge_and_a_framework_only_by_its_backend(module: str) -> None:
    for imported, for_types in imports(MODULES[module]):
        root = imported.split(".")[0]
        if root == "_pytest":
            pytest.fail(f"{module} imports pytest's private {imported}")
        if root == "pytest" and not for_types:
            assert module in PYTEST_ALLOWED
        if root in FRAMEWORKS:
            assert module == f"backends.{root}"


def test_every_module_has_its_place() -> None:
    assert {name.removesuffix(".__init__") for name in MODULES} - {"__init__"} == set().union(*LAYERS)

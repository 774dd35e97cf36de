"""Change the pure rules at random, one place at a time, and say which changes no test notices (`make mutation`).

Mutates an operator, a number, a branch or a choice in the modules of `RULES`, in a copy of the tree, and runs the tests
of `TESTS` there. A change that survives is a rule that nobody holds, or one that makes no difference (a bound that no
input reaches): read it, and write the test or let it be. Takes about 15 s a change.

    python benchmarks/mutation.py --number 120 --seed 3
    python benchmarks/mutation.py --only verdict/work.py
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
RULES = ("verdict/*.py", "profile/calls.py", "baselines/entry.py")
TESTS = ("tests/verdict", "tests/profile", "tests/baselines")
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-m", "not processes and not slow", "--hypothesis-profile=mutation")
PROFILE = """from hypothesis import settings
settings.register_profile("mutation", max_examples=20, deadline=None, derandomize=True)
"""
"""A conftest.py: properties of fewer examples, always the same ones."""
PATIENCE_S = 300
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_CALLS = {"max": "min", "min": "max", "all": "any", "any": "all"}
Change = Callable[[], None]


def changes(node: ast.AST) -> Iterator[Change]:
    """Yield what can be changed in a *node* itself."""
    match node:
        case ast.Compare(ops=ops):
            for place, each in enumerate(ops):
                yield lambda place=place, each=each: ops.__setitem__(place, _COMPARISONS[type(each)]())  # type: ignore[misc]
        case ast.BinOp(op=operator) if type(operator) in _OPERATORS:
            yield lambda: setattr(node, "op", _OPERATORS[type(operator)]())
        case ast.BoolOp(values=values):
            yield lambda: setattr(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
            for place in range(len(values)):
                yield lambda place=place: values.__delitem__(place)  # type: ignore[misc]
        case ast.Constant(value=bool(value)):
            yield lambda: setattr(node, "value", not value)
        case ast.Constant(value=int(value)):
            yield lambda: setattr(node, "value", value + 1)
        case ast.Constant(value=float(value)):
            yield lambda: setattr(node, "value", value * 1.5 if value else 1.0)
        case ast.UnaryOp(op=ast.Not()):
            yield lambda: _become(node, node.operand)
        case ast.IfExp():
            yield lambda: _become(node, node.body)
            yield lambda: _become(node, node.orelse)
        case ast.If(test=test):
            yield lambda: setattr(node, "test", ast.Constant(False))
            yield lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), test))
        case ast.Call(func=ast.Name(id=name) as function) if name in _CALLS:
            yield lambda: setattr(function, "id", _CALLS[name])
        case ast.comprehension(ifs=[_, *_]):
            yield lambda: setattr(node, "ifs", [])


def _become(node: ast.AST, other: ast.AST) -> None:
    """Put *other* in the place of *node*."""
    node.__class__ = other.__class__  # type: ignore[assignment]
    node.__dict__.clear()
    node.__dict__.update(other.__dict__)


def places(source: str) -> list[tuple[int, int]]:
    """Return all changes of a module: the number of the node, and that of its change."""
    nodes = enumerate(_nodes(ast.parse(source)))
    return [(index, number) for index, node in nodes for number, _ in enumerate(changes(node))]


def mutant(source: str, index: int, number: int) -> tuple[int, str, str, str] | None:
    """Return line, statement before and after, and the changed module; None where the change is none."""
    module = ast.parse(source)
    whole = ast.unparse(module)
    node = _nodes(module)[index]
    line = getattr(node, "lineno", 0)
    [*changes(node)][number]()
    text = ast.unparse(ast.fix_missing_locations(module))
    differ = ((old, new) for old, new in zip(whole.splitlines(), text.splitlines()) if old != new)
    found = next(differ, None)
    return None if found is None else (line, found[0].strip(), found[1].strip(), text)


def _nodes(module: ast.Module) -> list[ast.AST]:
    """Return the nodes of code: not those of annotations, which change nothing."""
    found: list[ast.AST] = []
    stack: list[ast.AST] = [module]
    while stack:
        node = stack.pop()
        found.append(node)
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list"):
                stack += [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, ast.AST)]
    return found


def survives(tree: Path) -> bool:
    """Tell whether all tests pass in the changed *tree*."""
    command = [sys.executable, "-m", "pytest", *OPTIONS, *TESTS]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> None:
    """Try some changes, and print those that no test noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=40, help="how many changes to try (default: 40)")
    parser.add_argument("--seed", type=int, default=0, help="which (default: 0)")
    parser.add_argument("--only", default="", metavar="MODULE", help="only of this module, such as verdict/work.py")
    arguments = parser.parse_args()
    package = ROOT / "pytest_opprof"
    paths = sorted(path for rule in RULES for path in package.glob(rule))
    if arguments.only:
        paths = [path for path in paths if str(path.relative_to(package)) == arguments.only]
    every = [(path, *each) for path in paths for each in places(path.read_text(encoding="utf-8"))]
    if not every:
        parser.error(f"--only {arguments.only}: no module of the rules is called so; they are {', '.join(RULES)}")
    chosen = random.Random(arguments.seed).sample(every, min(arguments.number, len(every)))
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        kept_out = shutil.ignore_patterns(".*", "build", "dist", "site", "__pycache__")
        shutil.copytree(ROOT, tree, ignore=kept_out, symlinks=True)
        (tree / "conftest.py").write_text(PROFILE, encoding="utf-8")
        if not survives(tree):
            sys.exit("the tests fail without any change")
        survivors = 0
        for number, (path, *place) in enumerate(chosen, start=1):
            copy = tree / path.relative_to(ROOT)
            whole = copy.read_text(encoding="utf-8")
            if (found := mutant(whole, *place)) is None:
                continue
            line, before, after, text = found
            copy.write_text(text, encoding="utf-8")
            if survives(tree):
                survivors += 1
                print(f"{path.relative_to(ROOT)}:{line}\n  - {before}\n  + {after}", flush=True)
            copy.write_text(whole, encoding="utf-8")
            print(f"{number} of {len(chosen)}", end="\r", file=sys.stderr)
        print(f"{survivors} of {len(chosen)} changes were noticed by no test ({len(every)} are possible)")


if __name__ == "__main__":
    main()

"""Change the pure rules at random, one place at a time, and say which changes no test notices (`make mutation`).

Mutates an operator, a number, a branch or a choice in the modules of `RULES`, in a copy of the tree, and runs the tests
of `TESTS` there, those of the module first. A change that survives is a rule that no test checks, or one that makes no
difference (a bound that no input reaches): read it, and write the test, or add it to `EQUIVALENT` with the reason.
Takes about 3 s of CPU time a change that a test notices, 25 s otherwise.

    python benchmarks/mutation.py --number 120 --seed 3
    python benchmarks/mutation.py --only verdict/work.py
"""

from __future__ import annotations

import argparse
import ast
import importlib
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RULES = (
    "verdict/*.py",
    "questions/*.py",
    "profile/op_counts.py",
    "profile/range.py",
    "results/acceptance.py",
    "baselines/entry.py",
    "baselines/three_way.py",
)
TESTS = ("tests/verdict", "tests/questions", "tests/profile", "tests/baselines", "tests/results/test_acceptance.py")
OPTIONS = (
    *("-x", "-q", "-p", "no:cacheprovider", "-m", "not processes and not slow"),
    *("--hypothesis-profile=mutation", "--assert=plain"),  # rewriting assertions would take most of the time
)
PROFILE = """from hypothesis import settings
settings.register_profile("mutation", max_examples=20, deadline=None, derandomize=True)
"""
"""A conftest.py: properties of fewer examples, always the same ones."""
PATIENCE_S = 300
PRELOADED = ("hypothesis.strategies", "msgspec.json", "numpy")
"""Imported once, since each run of the tests is a fork of this process."""
EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "verdict/compare.py",
        "known = [amount(name, each) is not None for each in (row.base, row.now) if each is not None]",
        "known = [amount(name, each) is None for each in (row.base, row.now) if each is not None]",
    ): "it asks whether exactly one of two sides knows the amount, so either is one of two",
    **{
        ("verdict/diff.py", "if self.verdict is Verdict.MORE and self.base and self.now:", f"if {left}:"): (
            "an op with more calls has both sides; types need the test"
        )
        for left in ("self.verdict is Verdict.MORE and self.now", "self.verdict is Verdict.MORE and self.base")
    },
    (
        "verdict/diff.py",
        "if row.work.is_unjudged and row.work.number:",
        "if row.work.is_unjudged:",
    ): "a change that is not judged has its number; types need the test",
    **{
        (
            "questions/question.py",
            "labels |= {label for label in saved.steps if label.isdecimal() and int(first) <= int(label) <= int(last)}",
            f"labels |= {{label for label in saved.steps if label.isdecimal() and int(first) {between} int(last)}}",
        ): "both ends are steps that were named, and come with these"
        for between in ("< int(label) <=", "<= int(label) <")
    },
    (
        "verdict/work.py",
        "_DTYPE = re.compile('|'.join(sorted(NAMES, key=len, reverse=True)))",
        "_DTYPE = re.compile('|'.join(sorted(NAMES, key=len, reverse=False)))",
    ): "a dtype whose name begins with that of another one is as wide",
    (
        "verdict/work.py",
        "return max(map(width, floats or found), default=0)",
        "return max(map(width, floats or found), default=1)",
    ): "a dtype of unknown width is narrower than all known ones, whose least is 2",
    (
        "verdict/times/coarse.py",
        "if ns < 10 * _STEP_NS:",
        "if ns < 11 * _STEP_NS:",
    ): "two digits of 1.0 to 1.1 ms are steps of 0.1 ms, too",
    (
        "verdict/times/pair_rule.py",
        "ways = [1]",
        "ways = [2]",
    ): "all ways are doubled, and their sum, too",
    (
        "verdict/times/pair_rule.py",
        "unlikely = sum((below <= 0.025 * sum(ways) for below in accumulate(ways)))",
        "unlikely = sum((below < 0.025 * sum(ways) for below in accumulate(ways)))",
    ): "a fortieth of a power of 2 is no whole number",
    (
        "verdict/times/pair_rule.py",
        "return sum((sign * log > math.log1p(by) for log in logs))",
        "return sum((sign * log >= math.log1p(by) for log in logs))",
    ): "no ratio has just this logarithm: that of 1.02 is 2e-17 more, that of 1.05 4e-17",
    (
        "verdict/times/stored_rule.py",
        "return len(base) > 1 and _second_best(base, tolerances).verdict is Verdict.SLOWER",
        "return len(base) >= 1 and _second_best(base, tolerances).verdict is Verdict.SLOWER",
    ): "a lone process is its own second-best",
    (
        "verdict/times/coarse.py",
        "return round(max(ns, 0) / _STEP_NS) * _STEP_NS",
        "return round(max(ns, 1) / _STEP_NS) * _STEP_NS",
    ): "1 ns is rounded to 0",
    **{
        (
            "verdict/times/coarse.py",
            "shown = f', x{times:.0f}' if times >= 100 else f', x{times:.3g}' if times else ''",
            f"shown = f', x{{times:.0f}}' if times {bound} else f', x{{times:.3g}}' if times else ''",
        ): "both formats show 100 to 999 alike"
        for bound in ("> 100", ">= 101")
    },
    (
        "verdict/times/coarse.py",
        "_THREADED, _THREADED_NS = (0.1, 2000000)",
        "_THREADED, _THREADED_NS = (0.1, 2000001)",
    ): "times are multiples of 0.1 ms",
    (
        "verdict/times/coarse.py",
        "if ns < 10 * _STEP_NS:",
        "if ns <= 10 * _STEP_NS:",
    ): "1.0 ms is 1.0 ms with two digits, too",
    (
        "verdict/times/noise.py",
        "fastest = sorted((min(run.total_ns) for run in runs))[:LEAST_TIMED_PROCESSES] or [0]",
        "fastest = sorted((min(run.total_ns) for run in runs))[:LEAST_TIMED_PROCESSES] or [1]",
    ): "without processes, any one number is as far from itself",
    (
        "questions/spread.py",
        "in_steps[rank][one[0].step] += ns - times[latest]",
        "in_steps[rank][one[1].step] += ns - times[latest]",
    ): "a collective is in the same step on all ranks",
    (
        "questions/spread.py",
        "by = [getattr(each, self.lead) if self.lead else 0 for each in self.totals]",
        "by = [getattr(each, self.lead) if self.lead else 1 for each in self.totals]",
    ): "one number for all ranks keeps their order",
    (
        "questions/spread.py",
        "by_rank = [{line.op or '': line.time_ns or 0 for line in query.answer(saved, question)"
        " if not line.communication} for saved in ranks]",
        "by_rank = [{line.op: line.time_ns or 0 for line in query.answer(saved, question)"
        " if not line.communication} for saved in ranks]",
    ): "a line of an op has its op; types need the text",
    (
        "questions/spread.py",
        "return InSteps(ranks[0].steps, total, tuple((tuple(saved.step_ns or ()) for saved in ranks)))",
        "return InSteps(ranks[0].steps, total, tuple((tuple(saved.step_ns) for saved in ranks)))",
    ): "all ranks have the wall times of steps here; types need the test",
    (
        "verdict/compare.py",
        "repeat = changes(warm, now, diff.tolerances) if better else {}",
        "repeat = changes(warm, now, diff.tolerances)",
    ): "it only saves a comparison that nothing uses",
}
"""Changes that no input can show, and why: by module, and the statement before and after."""
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
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            pass
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


def survives(tree: Path, tests: Iterable[str] = TESTS) -> bool:
    """Tell whether all *tests* pass in the changed *tree*."""
    run = multiprocessing.get_context("fork").Process(target=_run, args=(tree, [*OPTIONS, *tests]))
    run.start()
    run.join(PATIENCE_S)
    if run.exitcode is None:
        run.kill()
        run.join()
    return run.exitcode == 0


def _run(tree: Path, arguments: list[str]) -> None:
    """Run pytest in *tree* without output, and end this process with its exit code."""
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    sys.dont_write_bytecode = (tree / "pytest_opprof" / "__pycache__").exists()  # only the first run, without a change
    sys.path.insert(0, str(tree))
    sys.modules["torch"] = None  # type: ignore[assignment]  # its import takes longer than the tests, which do without
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os._exit(pytest.main(arguments))


def main() -> None:
    """Try some changes, and print those that no test noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=40, help="how many changes to try (default: 40)")
    parser.add_argument("--seed", type=int, default=0, help="which (default: 0)")
    parser.add_argument("--only", default="", metavar="MODULE", help="only of this module, such as verdict/work.py")
    arguments = parser.parse_args()
    package = ROOT / "pytest_opprof"
    found_by = {rule: sorted(package.glob(rule)) for rule in RULES}
    if missing := [rule for rule, found in found_by.items() if not found]:
        parser.error(f"no module of pytest_opprof is called {', '.join(missing)}: correct RULES")
    modules = {path.relative_to(package).as_posix(): path for found in found_by.values() for path in found}
    paths = [path for name, path in modules.items() if name == (arguments.only or name)]
    every = [(path, *each) for path in paths for each in places(path.read_text(encoding="utf-8"))]
    if not every:
        parser.error(f"--only {arguments.only}: no module of the rules is called so; they are {', '.join(RULES)}")
    random.Random(arguments.seed).shuffle(every)
    for name in PRELOADED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        kept_out = shutil.ignore_patterns(".*", "build", "dist", "site", "__pycache__")
        shutil.copytree(ROOT, tree, ignore=kept_out, symlinks=True)
        (tree / "conftest.py").write_text(PROFILE, encoding="utf-8")
        if not survives(tree):
            sys.exit("the tests fail without any change")
        tried = survivors = 0
        for path, *place in every:
            if tried == arguments.number:
                break
            copy = tree / path.relative_to(ROOT)
            whole, when = copy.read_text(encoding="utf-8"), copy.stat().st_mtime
            if (found := mutant(whole, *place)) is None:
                continue
            line, before, after, text = found
            module = path.relative_to(package)
            if (module.as_posix(), before, after) in EQUIVALENT:
                continue
            tried += 1
            copy.write_text(text, encoding="utf-8")
            nearest = Path("tests", module.parent, f"test_{module.name}")
            nearest = nearest if (tree / nearest).exists() else nearest.parent
            if survives(tree, [str(nearest)]) and survives(tree):
                survivors += 1
                print(f"{path.relative_to(ROOT)}:{line}\n  - {before}\n  + {after}", flush=True)
            copy.write_text(whole, encoding="utf-8")
            os.utime(copy, (when, when))  # so that its bytecode is valid again
            print(f"{tried} of {arguments.number}", end="\r", file=sys.stderr)
        print(f"{survivors} of {tried} changes were noticed by no test ({len(every)} are possible)")


if __name__ == "__main__":
    main()

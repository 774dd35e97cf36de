"""Ground truth without a tracer or frames: source rewritten so that each expression says on which line it is."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

lines: list[int] = []
"""Those of the expressions that are evaluated, the innermost last."""


@contextmanager
def on_line(line: int) -> Iterator[None]:
    """Say that what runs in the context is on that line."""
    lines.append(line)
    try:
        yield
    finally:
        lines.pop()


_EXPRESSIONS = ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript


class _Rewritten(ast.NodeTransformer):
    """Wraps expressions and assignments inside of functions; not around a yield, where others run.

    Nor around a `super()` without arguments, which looks for those of its function.
    """

    depth = 0

    def visit(self, node: ast.AST) -> Any:
        is_function = isinstance(node, ast.FunctionDef)
        is_left_out = not self.depth or any(map(_must_stay, ast.walk(node)))
        self.depth += is_function
        inside: Any = self.generic_visit(node)
        self.depth -= is_function
        if is_left_out or isinstance(getattr(node, "ctx", None), ast.Store):
            return inside
        if isinstance(inside, _EXPRESSIONS):
            # CPython has a method call on the line of the method's name, all else where the expression begins.
            is_method = isinstance(inside, ast.Call) and isinstance(inside.func, ast.Attribute)
            return _wrapped(inside, inside.func.end_lineno if is_method else inside.lineno)
        if isinstance(inside, ast.For):
            inside.iter = _wrapped(inside.iter, inside.iter.lineno, "iter")
        if isinstance(inside, ast.If | ast.While):
            inside.test = _wrapped(inside.test, inside.test.lineno, "bool")
        if isinstance(inside, ast.Assign | ast.AugAssign):
            block: Any = ast.parse(f"with __on_line__({inside.lineno}): 0").body[0]
            block.body = [inside]
            return ast.copy_location(block, inside)
        return inside


def _must_stay(node: ast.AST) -> bool:
    return isinstance(node, ast.Yield | ast.YieldFrom) or (isinstance(node, ast.Name) and node.id == "super")


def _wrapped(expression: ast.expr, line: int, function: str = "") -> ast.expr:
    """Return *expression* on that line, given to a *function* there if the program does so without a word."""
    wrapped: Any = ast.parse(f"__on__({line}, lambda: {function}(0))", mode="eval").body
    if function:
        wrapped.args[1].body.args[0] = expression
    else:
        wrapped.args[1].body = expression
    return ast.copy_location(wrapped, expression)


def rewritten(
    module: ModuleType, on_line: Callable[[int], AbstractContextManager[object]] = on_line, file: str = "<rewritten>"
) -> ModuleType:
    """Return *module* once more, of rewritten source: each expression runs in the context *on_line*."""

    def on(line: int, expression: Callable[[], Any]) -> Any:
        with on_line(line):
            return expression()

    assert module.__file__
    tree = _Rewritten().visit(ast.parse(Path(module.__file__).read_text(encoding="utf-8")))
    again = ModuleType(module.__name__)
    again.__dict__.update(__package__=module.__package__, __on__=on, __on_line__=on_line)
    exec(compile(ast.fix_missing_locations(tree), file, "exec"), again.__dict__)
    return again

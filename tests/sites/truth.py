"""Ground truth without a tracer or frames: source rewritten so that each expression says on which line it is."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

lines: list[int] = []
"""Those of the expressions that are evaluated, the innermost last."""


class On:
    """What runs in the context is on that line."""

    def __init__(self, line: int) -> None:
        self.line = line

    def __enter__(self) -> None:
        lines.append(self.line)

    def __exit__(self, *error: object) -> None:
        lines.pop()


def _on(line: int, expression: Callable[[], Any]) -> Any:
    with On(line):
        return expression()


_EXPRESSIONS = ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript


class _Rewritten(ast.NodeTransformer):
    """Wraps expressions and assignments inside of functions; not around a yield, where others run."""

    depth = 0

    def visit(self, node: ast.AST) -> Any:
        is_function = isinstance(node, ast.FunctionDef)
        is_left_out = not self.depth or any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node))
        self.depth += is_function
        inside: Any = self.generic_visit(node)
        self.depth -= is_function
        if is_left_out or isinstance(getattr(node, "ctx", None), ast.Store):
            return inside
        if isinstance(inside, _EXPRESSIONS):
            # CPython has a method call on the line of the method's name, all else where the expression begins.
            is_method = isinstance(inside, ast.Call) and isinstance(inside.func, ast.Attribute)
            line = inside.func.end_lineno if is_method else inside.lineno
            wrapped: Any = ast.parse(f"__on__({line}, lambda: 0)", mode="eval").body
            wrapped.args[1].body = inside
            return ast.copy_location(wrapped, inside)
        if isinstance(inside, ast.Assign | ast.AugAssign):
            block: Any = ast.parse(f"with __On__({inside.lineno}): 0").body[0]
            block.body = [inside]
            return ast.copy_location(block, inside)
        return inside


def rewritten(module: ModuleType) -> ModuleType:
    """Return *module* once more, of rewritten source."""
    assert module.__file__
    tree = _Rewritten().visit(ast.parse(Path(module.__file__).read_text(encoding="utf-8")))
    again = ModuleType(module.__name__)
    again.__dict__.update(__package__=module.__package__, __on__=_on, __On__=On)
    exec(compile(ast.fix_missing_locations(tree), "<rewritten>", "exec"), again.__dict__)
    return again

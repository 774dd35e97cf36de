"""Ground truth without a tracer or frames: source rewritten so that each expression says on which line it is."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

lines: list[int] = []
"""Those of the expressions that are evaluated, the innermost last."""


class On:
    """What runs in the context is on that line."""

    def __init__(self, line: int) -> None:
        self.line = line

    def __enter__(self) -> None:
        lines.append(self.line)

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        lines.pop()


def _on(line: int, expression: Callable[[], Any]) -> Any:
    with On(line):
        return expression()


class _Rewritten(ast.NodeTransformer):
    """Wraps expressions and assignments inside of functions; not around a yield or await, where others run."""

    depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        self.depth += 1
        node.body = [self.visit(each) for each in node.body]
        self.depth -= 1
        return node

    def _expression(self, node: Any) -> Any:
        # CPython has a method call on the line of the method's name, all else where the expression begins.
        is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        line = node.func.end_lineno if is_method else node.lineno
        is_left_out = not self.depth or _waits(node)
        node = self.generic_visit(node)
        if is_left_out:
            return node
        wrapped: Any = ast.parse(f"__on__({line}, lambda: 0)", mode="eval").body
        wrapped.args[1].body = node
        return ast.copy_location(wrapped, node)

    def _statement(self, node: Any) -> Any:
        is_left_out = not self.depth or _waits(node)
        node = self.generic_visit(node)
        if is_left_out:
            return node
        block: Any = ast.parse(f"with __On__({node.lineno}): 0").body[0]
        block.body = [node]
        return ast.copy_location(block, node)

    visit_Call = visit_BinOp = visit_UnaryOp = visit_Compare = _expression
    visit_Assign = visit_AugAssign = _statement

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return self._expression(node) if isinstance(node.ctx, ast.Load) else self.generic_visit(node)


def _waits(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom | ast.Await) for each in ast.walk(node))


def rewritten(module: ModuleType) -> ModuleType:
    """Return *module* once more, of rewritten source."""
    assert module.__file__
    tree = _Rewritten().visit(ast.parse(Path(module.__file__).read_text(encoding="utf-8")))
    again = ModuleType(module.__name__)
    again.__dict__.update(__package__=module.__package__, __on__=_on, __On__=On)
    exec(compile(ast.fix_missing_locations(tree), "<rewritten>", "exec"), again.__dict__)
    return again

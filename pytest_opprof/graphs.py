"""Search graphs: by node, the nodes that it leads to."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

_Node = TypeVar("_Node", bound=Hashable)


def components(edges: Mapping[_Node, Iterable[_Node]]) -> list[list[_Node]]:
    """Return the nodes that lead to each other together, and each other one alone; those that others lead to first.

    These are the strongly connected components, by Tarjan's algorithm without recursion.
    """
    found: list[list[_Node]] = []
    number: dict[_Node, int] = {}
    lowest: dict[_Node, int] = {}
    path: list[_Node] = []
    for start in edges:
        stack = [(start, iter(edges[start]))] if start not in number else []
        while stack:
            node, left = stack[-1]
            if node not in number:
                number[node] = lowest[node] = len(number)
                path.append(node)
            for other in left:
                if other not in number:
                    stack.append((other, iter(edges[other])))
                    break
                lowest[node] = min(lowest[node], lowest[other])
            else:
                stack.pop()
                if stack:
                    lowest[stack[-1][0]] = min(lowest[stack[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    size = next(size for size in range(1, len(path) + 1) if path[-size] == node)
                    found.append(path[-size:])
                    del path[-size:]
                    lowest |= dict.fromkeys(found[-1], len(edges))  # no other belongs to it
    return found


def reached(nodes: Iterable[_Node], edges: Mapping[_Node, Iterable[_Node]]) -> set[_Node]:
    """Return *nodes*, and the ones that these lead to, and so on."""
    found, left = set[_Node](), [*nodes]
    while left:
        if (node := left.pop()) not in found:
            found.add(node)
            left += edges[node]
    return found

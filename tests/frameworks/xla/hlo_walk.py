"""The ops that a program of XLA runs, walked in its text: what the backend of JAX is compared with.

It shares no code with what it checks: that reads protobufs and the events of the profiler.
"""

from __future__ import annotations

import re
from collections import Counter

NO_OPS = frozenset("parameter constant tuple get-tuple-element bitcast fusion call while conditional after-all".split())
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%([\w.\-]+) = (?:\(.*?\)|\S+) ([a-z][\w\-]*)\(")


def executed_ops(text: str, trips: int = 0, branch: int = 0) -> Counter[str]:
    """Return how often each opcode (of a custom call: target) runs when the program runs once on one device.

    *trips* is the length of loops where XLA does not know it: it evaluates their condition once more. *branch* is the
    one that each condition takes.
    """
    computations: dict[str, list[tuple[str, str]]] = {}
    current, entry = "", ""
    for line in text.splitlines():
        if match := _COMPUTATION.match(line):
            current = match[2]
            entry = current if match[1] else entry
            computations[current] = []
        elif match := _INSTRUCTION.match(line):
            computations[current].append((match[2], line))
    found: Counter[str] = Counter()

    def walk(computation: str, times: int) -> None:
        for opcode, line in computations[computation]:
            if opcode == "while":
                known = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
                walk(_called(line, "body"), times * (int(known[1]) if known else trips))
                if not known:
                    walk(_called(line, "condition"), times * (trips + 1))
            elif opcode == "conditional":
                named = re.search(r"branch_computations=\{([^}]*)\}", line)
                both = [_called(line, "false_computation"), _called(line, "true_computation")] if not named else []
                branches = named[1].replace("%", "").split(", ") if named else both
                walk(branches[branch], times)
            elif opcode == "fusion":
                walk(_called(line, "calls"), times)
            elif opcode == "call":
                walk(_called(line, "to_apply"), times)
            elif opcode not in NO_OPS:
                target = re.search(r'custom_call_target="([^"]+)"', line)
                found[target[1] if target else opcode.removesuffix("-start")] += times

    walk(entry, 1)
    return found


def _called(line: str, attribute: str) -> str:
    match = re.search(rf"\b{attribute}=%([\w.\-]+)", line)
    return match[1] if match else ""

"""How often the time gate cries wolf, and how often it sees a slowdown: the shipped rules on recorded samples.

    python benchmarks/gate_quality.py FOLDER [--resamples N] [--json OUT]

FOLDER holds files ``<workload>.npz`` of unchanged code (A/A): ``total_ns`` (processes, rounds), ``ops_ns`` (processes,
rounds, ops), ``op_names``, ``run_delay_ns`` (processes, rounds), and of each process ``mode`` (seq: by itself, lock: in
turns with another), ``kind`` (quiet, load, ...), ``pair`` and ``side``. A workload ``*_mt`` used several threads. The
yardstick that some have, SHA-256 of 96 KiB, is not the one that is shipped: left out, so that all rounds that did not
wait count. Slowdowns are put in afterwards: every time of one side scaled, or one op's with the total following.

One line a rule, condition and slowdown: the share of comparisons called slower, with two 95 % intervals (Wilson): one
as if all resamples were independent, one with as many as there are disjoint groups of processes. The truth is between.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pytest_opprof.profile.timings import ProcessTimes
from pytest_opprof.verdict.times.noise import is_steady
from pytest_opprof.verdict.times.pair_rule import judge_in_rounds, judge_pairs
from pytest_opprof.verdict.times.repeats import BASE_PROCESSES, MOST_TIMED_PROCESSES, ROUND_PAIRS, TIMED_PAIRS
from pytest_opprof.verdict.times.stored_rule import judge
from pytest_opprof.verdict.tolerances import PAIRS
from pytest_opprof.verdict.verdicts import TimingVerdict, Verdict

MOST_BASE = 2 * BASE_PROCESSES
"""How many processes a baseline is recorded in, where they differ."""
SLOWDOWNS = (0.05, 0.10, 0.25, 0.50)
LARGE_OP = 0.15
"""A single op is made slower where it has at least this share of the total."""


@dataclass
class Cell:
    """The verdicts of one rule in one condition on one slowdown."""

    independent: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    processes: int = 0
    wrong_op: int = 0
    """Of a single slower op: found, but the op not named."""

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        count, slower = self.verdicts.total(), self.verdicts["slower"]
        return {
            "comparisons": count,
            "independent": self.independent,
            "slower": slower / count,
            "interval": wilson(slower, count),
            "interval_independent": wilson(slower / count * self.independent, self.independent),
            "processes": self.processes / count,
            "op_not_named": self.wrong_op,
            "verdicts": dict(self.verdicts),
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--resamples", type=int, default=1000, help="a workload and condition, for false alarms")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    cells: dict[tuple[str, str, str, str], Cell] = {}
    files = sorted(arguments.folder.glob("*.npz"))
    if not files:
        parser.error(f"{arguments.folder} holds no .npz file")
    for path in files:
        with np.load(path) as loaded:
            workload = Workload(path.stem, dict(loaded))
        for rule, condition, draw, independent in workload.conditions():
            chance = random.Random(zlib.crc32(f"{path.stem} {rule} {condition}".encode()))
            for what, change in workload.changes():
                count = arguments.resamples if what == "unchanged" else max(arguments.resamples // 5, 1)
                cell = cells.setdefault((workload.threads, rule, condition, what), Cell())
                cell.independent += independent
                for _ in range(count):
                    found, op = draw(chance, change)
                    cell.verdicts[found.verdict.value] += 1
                    cell.processes += found.processes
                    cell.wrong_op += bool(op and found.verdict is Verdict.SLOWER and op not in found.ops)
    report({key: cell.plain() for key, cell in sorted(cells.items())})
    if arguments.json:
        rows = [dict(zip(("threads", "rule", "condition", "what"), key)) | cell.plain() for key, cell in cells.items()]
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


Change = Callable[[random.Random, ProcessTimes], tuple[ProcessTimes, str]]
"""Makes a run slower; returns it and the op that was made so, empty for all."""
Draw = Callable[[random.Random, Change], tuple[TimingVerdict, str]]
Judge = Callable[[Sequence[tuple[ProcessTimes, ProcessTimes]]], TimingVerdict]
OPEN = TimingVerdict(Verdict.OK, settled=False)


class Workload:
    """The samples of one workload."""

    def __init__(self, name: str, arrays: dict[str, Any]) -> None:
        self.threads = "several threads" if name.endswith("_mt") else "one thread"
        self.arrays = arrays
        names = [str(op) for op in arrays["op_names"]]
        waits = arrays["run_delay_ns"]
        self.runs = [
            ProcessTimes(
                tuple(arrays["total_ns"][i].tolist()),
                {op: tuple(arrays["ops_ns"][i, :, k].tolist()) for k, op in enumerate(names)},
                tuple(waits[i].tolist()) if waits.any() else (),
            )
            for i in range(len(arrays["kind"]))
        ]

    def conditions(self) -> Iterator[tuple[str, str, Draw, int]]:
        """Yield (rule, condition, how to draw a comparison, how many disjoint ones there are)."""
        alone = {kind: self._of("seq", kind) for kind in ("quiet", "load")}
        for base in alone:
            for now in alone:
                if len(alone[base]) > MOST_BASE and len(alone[now]) >= MOST_BASE + MOST_TIMED_PROCESSES:
                    shared = alone[base] if base == now else min(alone[base], alone[now], key=len)
                    disjoint = len(shared) // (
                        MOST_BASE + MOST_TIMED_PROCESSES if base == now else MOST_TIMED_PROCESSES
                    )
                    yield "stored", f"{base} -> {now}", self._stored(alone[base], alone[now]), disjoint
        for kind in ("quiet", "load"):
            pairs = self._pairs(kind)
            if len(pairs) >= TIMED_PAIRS[1]:
                for rule, most, judge in (("A/B", TIMED_PAIRS[1], as_asked), ("rounds", ROUND_PAIRS, in_rounds)):
                    yield rule, kind, self._against(pairs, most, judge), len(pairs) // most

    def changes(self) -> Iterator[tuple[str, Change]]:
        """Yield what to do to one side."""
        yield "unchanged", lambda chance, run: (run, "")
        for slowdown in SLOWDOWNS:
            yield f"total {slowdown:+.0%}", lambda chance, run, by=slowdown: (scaled(run, by), "")  # type: ignore[misc]
        whole = sum(np.median(samples) for samples in self.runs[0].ops_ns.values())
        large = [op for op, samples in self.runs[0].ops_ns.items() if np.median(samples) >= LARGE_OP * whole]
        for slowdown in SLOWDOWNS if large else ():
            yield (
                f"one op {slowdown:+.0%}",
                lambda chance, run, by=slowdown: with_slower_op(run, chance.choice(large), by),  # type: ignore[misc]
            )

    def _of(self, mode: str, kind: str) -> list[int]:
        chosen = (self.arrays["mode"] == mode) & (self.arrays["kind"] == kind)
        return [int(i) for i in np.flatnonzero(chosen)]

    def _pairs(self, kind: str) -> list[tuple[int, int]]:
        sides: dict[int, dict[str, int]] = {}
        for i in self._of("lock", kind):
            sides.setdefault(int(self.arrays["pair"][i]), {})[str(self.arrays["side"][i])] = i
        return [(both["A"], both["B"]) for both in sides.values() if len(both) == 2]

    def _stored(self, bases: Sequence[int], nows: Sequence[int]) -> Draw:
        def draw(chance: random.Random, change: Change) -> tuple[TimingVerdict, str]:
            base = self._recorded(chance.sample(bases, MOST_BASE))
            now = chance.sample([i for i in nows if i not in base], MOST_TIMED_PROCESSES)
            op, state = "", chance.getrandbits(32)
            looks: list[ProcessTimes] = []
            for i in now:
                run, op = change(random.Random(state), self.runs[i])
                looks.append(run)
                found = judge([self.runs[i] for i in base], looks)
                if found.settled:
                    break
            return found, op

        return draw

    def _recorded(self, processes: Sequence[int]) -> Sequence[int]:
        """Return as many of *processes* as a recording would take."""
        for count in range(BASE_PROCESSES, MOST_BASE):
            if is_steady([self.runs[i] for i in processes[:count]]):
                return processes[:count]
        return processes

    def _against(self, pairs: Sequence[tuple[int, int]], most: int, judge: Judge) -> Draw:
        def draw(chance: random.Random, change: Change) -> tuple[TimingVerdict, str]:
            op, state = "", chance.getrandbits(32)
            taken: list[tuple[ProcessTimes, ProcessTimes]] = []
            for before, after in chance.sample(pairs, most):
                if chance.random() < 0.5:
                    before, after = after, before
                run, op = change(random.Random(state), self.runs[after])
                taken.append((self.runs[before], run))
                if (found := judge(taken)).settled:
                    break
            return found, op

        return draw


def as_asked(pairs: Sequence[tuple[ProcessTimes, ProcessTimes]]) -> TimingVerdict:
    """Judge a test whose mark asks for rounds, after so many pairs as the plugin does."""
    return judge_pairs(pairs) if len(pairs) in TIMED_PAIRS else OPEN


def in_rounds(pairs: Sequence[tuple[ProcessTimes, ProcessTimes]]) -> TimingVerdict:
    """Judge a test whose mark asks for none."""
    return judge_in_rounds(pairs, PAIRS.in_rounds)


def scaled(run: ProcessTimes, by: float) -> ProcessTimes:
    """Return a run in which everything took so much longer."""
    ops = {op: tuple(round(ns * (1 + by)) for ns in samples) for op, samples in run.ops_ns.items()}
    return ProcessTimes(tuple(round(ns * (1 + by)) for ns in run.total_ns), ops, run.wait_ns, run.yardstick_ns)


def with_slower_op(run: ProcessTimes, op: str, by: float) -> tuple[ProcessTimes, str]:
    """Return a run in which one op took so much longer, and that op."""
    more = [round(ns * by) for ns in run.ops_ns[op]]
    ops = {**run.ops_ns, op: tuple(map(sum, zip(run.ops_ns[op], more)))}
    return ProcessTimes(tuple(map(sum, zip(run.total_ns, more))), ops, run.wait_ns, run.yardstick_ns), op


def wilson(hits: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share."""
    if not count:
        return 0.0, 1.0
    z, share = 1.96, hits / count
    centre = (share + z * z / 2 / count) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / 4 / count**2)
    return max(0.0, centre - half), min(1.0, centre + half)


def report(cells: dict[tuple[str, str, str, str], dict[str, Any]]) -> None:
    print(
        f"{'':46} {'n':>6} {'slower':>8} {'95 %':>15} {'independent':>17} {'faster':>7} {'noisy':>6}"
        f" {'processes':>9} {'op missed':>9}"
    )
    for key, cell in cells.items():
        others = [cell["verdicts"].get(word, 0) / cell["comparisons"] for word in ("faster", Verdict.NOISY.value)]
        low, high = cell["interval"]
        least, most = cell["interval_independent"]
        print(
            f"{key[0]:16}{key[1]:7}{key[2]:15}{key[3]:>12} {cell['comparisons']:6} {cell['slower']:8.2%}"
            f" {low:7.2%}..{high:6.2%} {least:7.1%}..{most:6.1%} {others[0]:7.2%} {others[1]:6.2%}"
            f" {cell['processes']:9.2f} {cell['op_not_named']:9}"
        )


if __name__ == "__main__":
    main()

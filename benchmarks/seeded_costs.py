"""Which costs that no op shows are seen, by tests that have only the plain mark: each seeded into a small library.

    python benchmarks/seeded_costs.py [SEED...] [--python] [--runs 5] [--door stored|against]

Each seed is a module in two versions and a test of it; --opprof-leaks is in the ini file of the project. The first
version runs so many times (no alarm), the second once: against stored baselines, and against the revision before.
Prints for each seed whether the test failed, which of cause, number and line its message has, and the message.
--python counts calls of Python functions in every test, too. pandas and PyTorch are left out where they are missing.
The exit status is the number of alarms and of seeds that did not fail with all three.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple


class Seed(NamedTuple):
    """A cost: the module without and with it, what a test does with the module, and how a message says it."""

    before: str
    after: str
    """The line to blame ends in ``# seeded``."""
    test: str
    cause: str
    """What the message has to name, a regular expression."""
    setup: str = ""
    """What the test's module does when it is imported."""
    needs: str = ""
    """A package that has to be there."""


SEEDS = {
    "loop": Seed(
        """
        import numpy as np

        def revenue(prices, counts):
            return float((prices * counts).sum())
        """,
        """
        import numpy as np

        def revenue(prices, counts):
            total = 0.0
            for price, count in zip(prices, counts):
                total += float(price) * float(count)  # seeded
            return total
        """,
        "assert m.revenue(PRICES, PRICES) > 0",
        r"float|loop|(more calls|Mul)",
        "import numpy as np\nPRICES = np.arange(5000.0)",
    ),
    "lost_cache": Seed(
        """
        from functools import lru_cache

        @lru_cache
        def rate(country):
            return sum(ord(letter) for letter in country) / 100

        def total(orders):
            return sum(price * rate(country) for price, country in orders)
        """,
        """
        def rate(country):
            return sum(ord(letter) for letter in country) / 100

        def total(orders):
            return sum(price * rate(country) for price, country in orders)  # seeded
        """,
        "assert m.total([(1, 'NL'), (2, 'DE')] * 300) > 0",
        r"`[\w.]*rate`",
    ),
    "validation": Seed(
        """
        def load(rows):
            return [row["price"] * row["count"] for row in rows]
        """,
        """
        def check(row):
            for name in ("price", "count"):
                if not isinstance(row.get(name), int):
                    raise TypeError(name)

        def load(rows):
            found = []
            for row in rows:
                check(row)  # seeded
                found.append(row["price"] * row["count"])
            return found
        """,
        "assert len(m.load([{'price': 1, 'count': 2}] * 200)) == 200",
        r"`[\w.]*check`",
    ),
    "quadratic": Seed(
        """
        def squares(numbers):
            return [number * number for number in numbers]
        """,
        """
        def squares(numbers):
            found = ()
            for number in numbers:
                found = (*found, number * number)  # seeded
            return found
        """,
        "assert len(m.squares(range(8000))) == 8000",
        r"squares",
    ),
    "quadratic_numpy": Seed(
        """
        import numpy as np

        def joined(parts):
            return np.concatenate(parts)
        """,
        """
        import numpy as np

        def joined(parts):
            whole = parts[0]
            for part in parts[1:]:
                whole = np.concatenate([whole, part])  # seeded
            return whole
        """,
        "assert len(m.joined([PART] * 100)) == 1000",
        r"Concat|concatenate",
        "import numpy as np\nPART = np.arange(10.0)",
    ),
    "append_frame": Seed(
        """
        import pandas as pd

        def table(rows):
            return pd.DataFrame(rows)
        """,
        """
        import pandas as pd

        def table(rows):
            found = pd.DataFrame(rows[:1])
            for row in rows[1:]:
                found = pd.concat([found, pd.DataFrame([row])], ignore_index=True)  # seeded
            return found
        """,
        "assert len(m.table([{'a': 1, 'b': 2.0}] * 50)) == 50",
        r"pandas|concat|DataFrame|Concat",
        needs="pandas",
    ),
    "regex": Seed(
        """
        import re

        WORDS = re.compile("|".join(f"word{number}" for number in range(50)))

        def words(lines):
            return [WORDS.findall(line) for line in lines]
        """,
        """
        import re

        def words(lines):
            found = []
            for line in lines:
                re.purge()
                found.append(re.compile("|".join(f"word{number}" for number in range(50))).findall(line))  # seeded
            return found
        """,
        "assert m.words(['word1 word2'] * 10)",
        r"re\.compile|_compile",
    ),
    "regexes": Seed(
        """
        import re

        RULES = [re.compile(f"rule{number} (a|b)+") for number in range(600)]

        def matching(line):
            return [rule for rule in RULES if rule.match(line)]
        """,
        """
        import re

        RULES = [f"rule{number} (a|b)+" for number in range(600)]

        def matching(line):
            return [rule for rule in RULES if re.match(rule, line)]  # seeded
        """,
        "assert len(m.matching('rule7 ab')) == 1",
        r"re\.match|re\._compile|re\.compile",
    ),
    "collections": Seed(
        """
        def release(things):
            while things:
                things.pop()
        """,
        """
        import gc

        def release(things):
            while things:
                things.pop()
                gc.collect()  # seeded
        """,
        "m.release(list(range(20)))",
        r"gc\.collect",
    ),
    "sleep": Seed(
        """
        def fetch():
            return 3
        """,
        """
        import time

        def fetch():
            time.sleep(0.2)  # seeded
            return 3
        """,
        "assert m.fetch() == 3",
        r"time\.sleep",
    ),
    "kept_results": Seed(
        """
        class Store:
            def __init__(self):
                self.last = None

            def put(self, result):
                self.last = result
        """,
        """
        class Store:
            def __init__(self):
                self.results = []

            def put(self, result):
                self.results.append(result)  # seeded
        """,
        "STORE.put([1, 2, 3])",
        r"Store\.results",
        "STORE = m.Store()",
    ),
    "kept_graph": Seed(
        """
        class Trainer:
            def __init__(self, model):
                self.model, self.total = model, 0.0

            def step(self, batch):
                self.total += self.model(batch).sum().item()
        """,
        """
        class Trainer:
            def __init__(self, model):
                self.model, self.total = model, 0.0

            def step(self, batch):
                self.total += self.model(batch).sum()  # seeded
        """,
        "TRAINER.step(torch.ones(4, 8))",
        r"Trainer\.total|autograd|grad",
        "import torch\nTRAINER = m.Trainer(torch.nn.Linear(8, 8))",
        "torch",
    ),
    "cycle": Seed(
        """
        class Session:
            def __init__(self):
                self.buffer = bytearray(1 << 12)

            def __del__(self):
                self.buffer = None

        def fetch():
            return len(Session().buffer)
        """,
        """
        class Session:
            def __init__(self):
                self.buffer = bytearray(1 << 12)
                self.closer = self.__del__  # seeded

            def __del__(self):
                self.buffer = None

        def fetch():
            return len(Session().buffer)
        """,
        "assert m.fetch()",
        r"Session",
    ),
    "finalizer": Seed(
        """
        class Session:
            def close(self):
                pass

        def fetch():
            Session().close()
        """,
        """
        import weakref

        class Session:
            def __init__(self):
                weakref.finalize(self, self.close)  # seeded

            def close(self):
                pass

        def fetch():
            Session().close()
        """,
        "m.fetch()",
        r"Session",
    ),
    "threads": Seed(
        """
        import threading

        STOP = threading.Event()

        def start():
            pass
        """,
        """
        import threading

        STOP = threading.Event()

        def start():
            threading.Thread(target=STOP.wait, daemon=True).start()  # seeded
        """,
        "m.start()",
        r"thread",
    ),
    "pools": Seed(
        """
        from concurrent.futures import ThreadPoolExecutor

        POOL = ThreadPoolExecutor(2)

        def total(numbers):
            return sum(POOL.map(abs, numbers))
        """,
        """
        from concurrent.futures import ThreadPoolExecutor

        def total(numbers):
            with ThreadPoolExecutor(2) as pool:
                return sum(pool.map(abs, numbers))  # seeded: it starts the threads
        """,
        "assert m.total([1, -2, 3]) == 6",
        r"[Tt]hread",
    ),
    "hook": Seed(
        """
        class Watch:
            def __init__(self, model):
                self.model, self.seen = model, 0
                model.register_forward_hook(self.note)

            def note(self, module, inputs, output):
                self.seen += 1

            def run(self, batch):
                return self.model(batch)
        """,
        """
        class Watch:
            def __init__(self, model):
                self.model, self.seen = model, 0

            def note(self, module, inputs, output):
                self.seen += 1

            def run(self, batch):
                self.model.register_forward_hook(self.note)  # seeded
                return self.model(batch)
        """,
        "WATCH.run(torch.ones(4, 8))",
        r"_forward_hooks|register_forward_hook",
        "import torch\nWATCH = m.Watch(torch.nn.Linear(8, 8))",
        "torch",
    ),
    "hook_twice": Seed(
        """
        def watched(model, seen):
            model.register_forward_hook(lambda module, inputs, output: seen.append(output.mean()))
            return model
        """,
        """
        def watched(model, seen):
            for _ in range(2):
                model.register_forward_hook(lambda module, inputs, output: seen.append(output.mean()))  # seeded
            return model
        """,
        "seen = []; m.watched(torch.nn.Linear(8, 8), seen)(torch.ones(4, 8))",
        r"ReduceMean|mean",
        "import torch",
        "torch",
    ),
    "unclosed": Seed(
        """
        def size():
            with open(__file__) as file:
                return len(file.read())
        """,
        """
        OPENED = []

        def size():
            OPENED.append(open(__file__))  # seeded
            return len(OPENED[-1].read())
        """,
        "assert m.size()",
        r"open file",
    ),
    "recompiled": Seed(
        """
        import torch

        @torch.compile(backend="eager", dynamic=False)
        def scaled(batch, scale):
            return batch * scale

        def step(batch, number):
            return scaled(batch, 2.0)
        """,
        """
        import torch

        @torch.compile(backend="eager", dynamic=False)
        def scaled(batch, scale):
            return batch * scale

        def step(batch, number):
            return scaled(batch, f"{number}" and float(number))  # seeded
        """,
        "m.step(BATCH, next(NUMBERS))",
        r"compiled",
        "import torch, itertools\nBATCH, NUMBERS = torch.ones(8), itertools.count(2)\nm.step(BATCH, 1)",
        "torch",
    ),
    "compiled": Seed(
        """
        import torch

        def twice(batch):
            return batch * 2

        TWICE = torch.compile(twice, backend="eager")

        def step(batch):
            return TWICE(batch)
        """,
        """
        import torch

        def step(batch):
            def twice(batch):
                return batch * 2
            torch._dynamo.reset()
            return torch.compile(twice, backend="eager")(batch)  # seeded
        """,
        "m.step(BATCH)",
        r"compile",
        "import torch\nBATCH = torch.ones(8)\nm.step(BATCH)",
        "torch",
    ),
}
FLAGS = ["-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "--tb=short"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", nargs="*", metavar="SEED", help=", ".join(SEEDS))
    parser.add_argument("--python", action="store_true", help="count calls of Python functions in every test")
    parser.add_argument("--runs", type=int, default=5, help="of the unchanged version")
    parser.add_argument("--door", choices=["stored", "against"], help="only this one")
    arguments = parser.parse_args()
    seeds = {name: SEEDS[name] for name in arguments.seeds or SEEDS if _is_there(SEEDS[name].needs)}
    flags = ["--opprof-python"] if arguments.python else []
    wrong = 0
    for door in [arguments.door] if arguments.door else ["stored", "against"]:
        with tempfile.TemporaryDirectory() as folder:
            wrong += tried(Path(folder), door, seeds, flags, arguments.runs)
    sys.exit(min(wrong, 100))


def tried(folder: Path, door: str, seeds: dict[str, Seed], flags: list[str], runs: int) -> int:
    """Seed everything in a new project, print what a run says, and return how much is wrong with that."""
    ini = "[pytest]\nopprof_leaks = true\nfilterwarnings = ignore::ResourceWarning\n"
    Path(folder, "pytest.ini").write_text(ini)
    Path(folder, ".gitignore").write_text("__pycache__\n")
    for name, seed in seeds.items():
        Path(folder, f"{name}_library.py").write_text(dedent(seed.before).lstrip())
        Path(folder, f"test_{name}.py").write_text(_test(name, seed))
    run = [*flags, *(["--opprof-against=HEAD~1"] if door == "against" else ["--opprof"])]
    _git(folder, "init", "-q")
    if door == "stored":
        pytest(folder, "--opprof-update", *flags)
    else:
        _commit(folder)
    _commit(folder)
    alarms = [(name, said) for _ in range(runs) for name, said in pytest(folder, *run).items() if said]
    for name, seed in seeds.items():
        Path(folder, f"{name}_library.py").write_text(dedent(seed.after).lstrip())
    _commit(folder)
    print(f"\n== {door}: {runs} runs of unchanged code, {len(alarms)} alarms")
    for name, said in alarms:
        print(f"ALARM {name}\n{said}")
    found = pytest(folder, *run)
    print(f"{'seed':16} {'failed':>7} {'cause':>6} {'number':>7} {'line':>5}")
    wrong = len(alarms)
    for name, seed in seeds.items():
        line = next(at for at, text in enumerate(dedent(seed.after).lstrip().splitlines(), 1) if "# seeded" in text)
        said = found.get(name, "not run")
        marks = [
            bool(said),
            bool(re.search(seed.cause, said)),
            bool(re.search(r"\d", said.partition("]")[2])),
            f"{name}_library.py:{line}" in said,
        ]
        wrong += not all(marks)
        shown = ["yes" if mark else "NO" for mark in marks]
        print(f"{name:16} {shown[0]:>7} {shown[1]:>6} {shown[2]:>7} {shown[3]:>5}")
        print("\n".join(f"      {each}" for each in said.splitlines()), flush=True)
    return wrong


def pytest(folder: Path, *flags: str) -> dict[str, str]:
    """Run the tests; return by seed what its test failed with, empty if it passed."""
    result = folder.parent / f"{folder.name}.xml"
    command = [sys.executable, *FLAGS, f"--junitxml={result}", *flags]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not result.exists():
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    if os.environ.get("SEEDED_COSTS_SHOW"):
        print(done.stdout)
    found = {}
    for case in ElementTree.parse(result).iter("testcase"):
        failure = next((each for each in case if each.tag in ("failure", "error")), None)
        found[(case.get("name") or "").removeprefix("test_")] = "" if failure is None else (failure.text or "").strip()
    result.unlink()
    return found


def _test(name: str, seed: Seed) -> str:
    setup = seed.setup and f"{seed.setup}\n"
    head = f"import pytest\nimport {name}_library as m\n{setup}\n\n@pytest.mark.opprof\n"
    return f"{head}def test_{name}():\n    {seed.test}\n"


def _is_there(package: str) -> bool:
    return not package or importlib.util.find_spec(package) is not None


def _commit(folder: Path) -> None:
    _git(folder, "add", "-A")
    _git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "a version")


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


if __name__ == "__main__":
    main()

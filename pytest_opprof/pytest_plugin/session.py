"""Set up a pytest run with ``--opprof``: choose its hooks."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from ..baselines.stale import Collected
from ..baselines.store import Store
from ..baselines.writing import check_writable
from ..frameworks.live.registry import begin_run
from ..machine.cpu_core import Core
from ..machine.load import RUN
from ..processes.base import base_of
from ..processes.parent import Parent
from ..processes.pool import Pool
from ..processes.ranks import Ranks
from ..processes.this_run import CORE, ONE_THREAD, SITES
from ..report.summary import Summary
from ..sites.code import kinds
from ..sites.shown import package_of
from . import xdist
from .child import Fresh, Side
from .closing import Closing
from .fixture import MEASURING, TURN
from .hooks import Hooks
from .judging import Judging
from .measuring import Measuring
from .options import check_flags, settings_of
from .ranks import Compared, InStep, OtherRank


def register(config: pytest.Config) -> None:
    """Register the hooks that measure, judge and conclude. Raises UsageError for invalid options.

    Workers of pytest-xdist measure and judge; their controller counts and writes. A process that another run started
    measures for that run and keeps nothing.
    """
    settings, manager, is_worker = settings_of(config), config.pluginmanager, xdist.is_worker(config)
    check_flags(config, settings.rank)
    os.environ.setdefault(RUN, str(os.getpid()))
    whose = ExitStack()
    config.add_cleanup(whose.close)
    whose.enter_context(kinds.of_run(config.rootpath, map(package_of, settings.sites_show)))
    parent, base = Parent.found(), None
    if settings.against and parent is None and not config.option.collectonly:
        base = base_of(config.invocation_params.dir, settings.against)
        settings = replace(settings, against=f"{settings.against} ({base.commit[:10]})")
    is_parallel = is_worker and not settings.serialize
    # Sides that take turns see the same speed of the core.
    is_side = parent is not None and parent.kind == "side"
    if settings.noise != "ignore" and not is_parallel and not is_side and settings.rank.is_alone:
        config.stash[CORE] = Core()
    store, pool, summary = Store(settings.baselines, settings.rank.rank), Pool(config, settings.rank), Summary()
    is_partial = bool(config.getoption("lf", False) or config.getoption("pyargs", False))
    collected = Collected(config.rootpath, config.args, config.invocation_params.dir, partial=is_partial)
    ranks = None
    if not settings.rank.is_alone and not config.option.collectonly:
        shared = config.option.opprof_json or config.getini("opprof_json")
        ranks = Ranks(settings.rank, Path(config.invocation_params.dir, shared).parent if shared else None)
    judging = Judging(
        config, settings, store, pool, summary.errors, is_parallel=is_parallel, is_apart=parent is not None
    )
    measuring, closing = Measuring(config, settings, store, summary, pool, judging, Compared(ranks)), None
    begin_run(settings.backends)
    if not is_worker:
        manager.register(xdist.Controller(config, settings, collected, summary), "opprof-controller")
        keeps = parent is None and not settings.against and not settings.rank.rank
        if keeps and settings.update and not config.option.collectonly:
            check_writable(settings.baselines)
        closing = Closing(config, settings, store, pool, collected, summary, keeps, ranks)
    in_step = InStep(ranks, summary) if ranks else None
    manager.register(Hooks(config, collected, summary, measuring, closing, in_step), MEASURING)
    if settings.rank.rank:
        manager.register(OtherRank(config, settings.rank, summary), "opprof-rank")
    if parent and is_side:
        side = Side(config, parent)
        manager.register(side, "opprof-side")
        config.stash[TURN] = side.turn
        config.stash[SITES] = parent.told["sites"]
        config.stash[ONE_THREAD] = parent.told.get("one_thread", False)
    elif parent:
        manager.register(Fresh(config, parent), "opprof-fresh")
    elif base:
        from .against import Against

        manager.register(Against(config, base, settings.against_python, summary), "opprof-against")

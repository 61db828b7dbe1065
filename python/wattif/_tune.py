"""Tunables by multi-objective search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ._api import Setting
from ._sweep import sweep


def tune(
    workload: str,
    space: Mapping[str, tuple[int, int] | Sequence[Setting]],
    objectives: tuple[str, str] = ("energy.total", "wakeup_latency_us.p99"),
    trials: int = 100,
    seeds: int = 3,
    held_out: int = 10,
    search_seed: int = 1,
    store: str | Path = "wattif-sweep.sqlite",
    **where: Any,
) -> list[dict[str, Any]]:
    """Search ``space`` (a pair of whole numbers is a range, a list its members) with Optuna's NSGA-II; lower is better.

    Trials see seeds 1 to ``seeds``. Every proposal is then run on ``held_out`` seeds that the search never saw; both figures are
    returned, for a setting that is only good on the seeds it was found on is not good. ``where`` goes to `sweep`: platform,
    kernel, duration, set.
    """
    import optuna

    def figures(chosen: Mapping[str, Setting], over: Sequence[int]) -> dict[str, Any]:
        axes = {name: [value] for name, value in chosen.items()}
        return dict(sweep(workload, axes, seeds=over, metrics=objectives, store=store, **where)[0])

    def suggest(trial: optuna.Trial, name: str) -> Any:
        values = space[name]
        if isinstance(values, tuple):
            return trial.suggest_int(name, *values)
        return trial.suggest_categorical(name, list(values))

    def objective(trial: optuna.Trial) -> tuple[float, ...]:
        row = figures({name: suggest(trial, name) for name in space}, range(1, seeds + 1))
        return tuple(row[name] for name in objectives)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        directions=["minimize"] * len(objectives), sampler=optuna.samplers.NSGAIISampler(seed=search_seed)
    )
    study.optimize(objective, n_trials=trials)
    unseen = range(seeds + 1, seeds + 1 + held_out)
    proposals = {tuple(sorted(t.params.items())): t for t in study.best_trials}
    return [
        {"set": t.params, "found": dict(zip(objectives, t.values)), "held_out": figures(t.params, unseen)}
        for t in proposals.values()
    ]

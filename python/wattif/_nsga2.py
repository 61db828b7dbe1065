"""NSGA-II of Optuna, asked a generation at a time, in lines of JSON. `wattif tune` runs this file as a program."""

import json
import sys
from collections.abc import Generator
from typing import Any


def conversation(space: str) -> Generator[str, str, None]:
    """Yields ``{"ask": points}``, is sent ``{"tell": figures}``, and ends with ``{"best": points}``.

    ``space`` has ``axes``: whole numbers from ``low`` to ``high``, or so many ``choices`` without an order; ``maximize`` for
    each figure; ``trials``, ``population`` and ``seed``. A figure that is null makes its trial a failed one.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    asked = json.loads(space)
    axes, trials, population = asked["axes"], asked["trials"], asked["population"]
    study = optuna.create_study(
        directions=["maximize" if high else "minimize" for high in asked["maximize"]],
        sampler=optuna.samplers.NSGAIISampler(population_size=population, seed=asked["seed"]),
    )
    for begun in range(0, trials, population):
        generation = [study.ask() for _ in range(min(population, trials - begun))]
        points = [[_suggest(trial, i, axis) for i, axis in enumerate(axes)] for trial in generation]
        told = yield json.dumps({"ask": points})
        for trial, values in zip(generation, json.loads(told)["tell"]):
            if None in values:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, values)
    best = dict.fromkeys(tuple(t.params[str(i)] for i in range(len(axes))) for t in study.best_trials)
    yield json.dumps({"best": list(best)})


def _suggest(trial: Any, i: int, axis: dict[str, int]) -> Any:
    if "choices" in axis:
        return trial.suggest_categorical(str(i), list(range(axis["choices"])))
    return trial.suggest_int(str(i), axis["low"], axis["high"])


if __name__ == "__main__":
    try:
        talk = conversation(sys.stdin.readline())
        answer = next(talk)
        while True:
            print(answer, flush=True)
            answer = talk.send(sys.stdin.readline())
    except StopIteration:
        pass

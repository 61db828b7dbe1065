"""Tunables by multi-objective search."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from . import _wattif
from ._api import Dialect, Setting, inputs, preformatted, seed_list, words
from ._nsga2 import conversation
from ._policies import refuse_own
from ._progress import Progress, watched
from ._sweep import axis_texts

if TYPE_CHECKING:
    from pathlib import Path


class Tuned(Sequence[dict[str, Any]]):
    """Proposals of a search, the object ``wattif.tune/1`` being ``data``.

    Each has ``set``, ``found`` (on the seeds of the trials), ``held_out`` (on seeds the search never saw) and ``ratio`` (there, to
    the unchanged kernel). ``baseline`` is the unchanged kernel.
    """

    def __init__(self, text: str) -> None:
        self.data = json.loads(text)
        self.baseline: dict[str, Any] = self.data["baseline"]
        self._proposals: list[dict[str, Any]] = self.data["proposals"]

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return self._proposals[index]

    def __len__(self) -> int:
        return len(self._proposals)

    def __repr__(self) -> str:
        objectives = self.data["objectives"]
        lines = [f"<wattif.Tuned {len(self)} proposals of {self.data['tried']} settings for {', '.join(objectives)}>"]
        for proposal in self:
            figures = "  ".join(_shown(name, proposal) for name in objectives)
            lines.append(f"  {proposal['set']}  {figures}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return preformatted(repr(self))


def _shown(name: str, proposal: Mapping[str, Any]) -> str:
    ratio = proposal["ratio"].get(name, {})
    value, ci = ratio.get("value"), ratio.get("ci95")
    if value is None:
        return f"{name}: no ratio"
    return f"{name}: × {value:.4g}" + (f" [{ci[0]:.4g}, {ci[1]:.4g}]" if ci else "")


def tune(
    workload: str,
    axes: Mapping[str, str | Sequence[Setting]],
    objectives: str | Sequence[str] = ("energy.total", "wakeup_latency_us.p99"),
    platform: str = "hikey960",
    kernel: str = "linux-6.12",
    trials: int = 100,
    population: int = 20,
    seeds: int | Sequence[int] = 3,
    held_out: int = 10,
    search_seed: int = 1,
    duration: str | float | None = None,
    set: Mapping[str, Setting] | None = None,
    store: str | Path = "wattif-sweep.sqlite",
    progress: Progress = None,
    dialect: Dialect = "workgen",
) -> Tuned:
    """Search ``axes`` (``"500..8000"`` is a range, a list its members) with Optuna's NSGA-II, which must be installed.

    Trials see ``seeds``. Every proposal is then run on ``held_out`` seeds that the search never saw, beside the unchanged kernel:
    a setting that is only good on the seeds it was found on is not good.

    Args:
        workload, platform, kernel, duration, set, dialect: as of `run`.
        axes, store, progress: as of `sweep`.
        objectives: metrics by their paths; direction is the metric's own.
        trials: settings tried, 1 to 100,000.
        population: of each generation, 2 to 10,000.
        seeds: of the trials: so many from 1 on, or the seeds themselves.
        held_out: how many seeds beyond these a proposal is judged on, 1 to 10,000.
        search_seed: of the search itself.

    Raises:
        WattifError: as of `sweep`; Optuna is missing or an objective is nobody's.
        KeyboardInterrupt: after Ctrl-C; what was finished is kept.
    """
    chosen = seed_list(seeds)
    asked = inputs(workload, platform, chosen[0], duration, set, dialect)
    refuse_own(asked["set"], axes)
    texts, names = axis_texts(axes), words(objectives)
    with watched(progress) as tell:
        return Tuned(
            _wattif.tune(
                asked,
                kernel,
                texts,
                names,
                trials=trials,
                population=population,
                search_seed=search_seed,
                seeds=chosen,
                held_out=held_out,
                path=str(store),
                search=conversation,
                tell=tell,
            )
        )

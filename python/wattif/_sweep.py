"""Sweeps, on this machine or through any `concurrent.futures.Executor`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _wattif
from ._api import Dialect, Setting, inputs, seed_list, settings, table_html, words
from ._policies import refuse_own
from ._progress import Progress, watched

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future
    from pathlib import Path

#: Runs handed to an executor at a time, so that a million of them are not all in flight.
IN_FLIGHT = 64
#: A run whose worker died is tried so often.
TRIES = 4


class Sweep(Sequence[dict[str, Any]]):
    """The points of a sweep: axes and figures as flat dicts, which `polars.DataFrame(list(sweep))` takes."""

    def __init__(self, found: tuple[str, _wattif.Table]) -> None:
        self.data = json.loads(found[0])
        self._rows = [_flat(point) for point in self.data["points"]]
        self._df = found[1]

    def df(self) -> _wattif.Table:
        """A row per point, for Polars, pandas, DuckDB and pyarrow; axes as text."""
        return self._df

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def front(self) -> list[dict[str, Any]]:
        """The points that no other beats in both metrics of ``pareto``."""
        return [row for row in self._rows if row["front"]]

    def __repr__(self) -> str:
        return f"<wattif.Sweep {len(self)} points over {', '.join(self.data['axes'])}; {len(self.data['seeds'])} seeds>"

    def _repr_html_(self) -> str:
        head = list(self._rows[0]) if self._rows else []
        return table_html(head, ([_cell(v) for v in row.values()] for row in self._rows))


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _flat(point: dict[str, Any]) -> dict[str, Any]:
    row = dict(point["axes"])
    for name, figure in point["metrics"].items():
        row[name] = figure["mean"]
        row[f"{name}.lo"], row[f"{name}.hi"] = figure["ci95"] or (None, None)
    return row | {"front": point["front"]}


def axis_texts(axes: Mapping[str, str | Sequence[Setting]]) -> list[str]:
    """As ``--axis`` of the command line."""

    def text(values: str | Sequence[Setting]) -> str:
        return values if isinstance(values, str) else ",".join(settings({"v": v})["v"] for v in values)

    return [f"{name}={text(values)}" for name, values in axes.items()]


def sweep(
    workload: str,
    axes: Mapping[str, str | Sequence[Setting]],
    platform: str = "hikey960",
    kernel: str = "linux-6.12",
    seeds: int | Sequence[int] = 1,
    duration: str | float | None = None,
    set: Mapping[str, Setting] | None = None,
    sample: Literal["grid", "random", "lhs"] = "grid",
    samples: int = 100,
    metrics: str | Sequence[str] = ("energy.total", "wakeup_latency_us.mean", "wakeup_latency_us.p99"),
    pareto: tuple[str, str] | None = None,
    store: str | Path = "wattif-sweep.sqlite",
    executor: Executor | None = None,
    progress: Progress = None,
    dialect: Dialect = "workgen",
) -> Sweep:
    """Try many settings; ``axes={"cpuidle": ["menu", "teo"], "schedutil.rate_limit_us": "500..4000/8"}``.

    Finished runs are kept in ``store``: a sweep that was killed goes on, one that is repeated costs nothing. With an
    ``executor`` (a process pool, ``dask.distributed.Client(...).get_executor()``, …) the runs are made by its workers, and
    only this process writes to the store. A run whose worker dies is given to another; what a broken executor leaves is run
    here.

    Args:
        workload, platform, kernel, duration, set, dialect: as of `run`.
        axes: by the paths of ``set``; a list of values, or text: ``"500..4000/8"`` are eight values, equally far apart.
        seeds: so many from 1 on, or the seeds themselves; each setting runs with each of them.
        sample: all points, random ones, or a latin hypercube.
        samples: how many points, where they are sampled.
        metrics: columns of the table, by their paths.
        pareto: two metrics; column ``front`` says which points no other beats in both.
        store: an SQLite file, made if it is missing; several processes may share it.
        executor: see above; None: threads of this process.
        progress: None draws a bar with the time that is left, if stderr is a terminal, True draws it anywhere, False nowhere; a
            function is called with (done, total).

    Raises:
        WattifError: as of `run`; axes without values, a metric that nobody has, a store of another version, governors written in Python.
        KeyboardInterrupt: after Ctrl-C; what was finished is kept.
    """
    chosen = seed_list(seeds)
    texts = axis_texts(axes)
    path, shown = str(store), list(dict.fromkeys([*words(metrics), *(pareto or ())]))
    _wattif.check_metrics(shown)
    asked = inputs(workload, platform, chosen[0], duration, set, dialect)
    refuse_own(asked["set"], axes)
    plan = _wattif.Plan(asked, kernel, texts, chosen, sample, samples)
    if pareto:
        plan.check_front(list(pareto))
    with watched(progress) as tell:
        if executor is not None:
            _distribute(plan.missing(path), path, executor, tell)
        if executor is None or plan.missing(path):  # what a broken executor left
            plan.run_local(path, tell)
    return Sweep(plan.table(path, shown, list(pareto) if pareto else None))


def _execute(canonical: str) -> tuple[str, str, str, bytes]:
    """What a worker does; found there by its name."""
    return (_wattif.MODEL, *_wattif.execute(canonical))


def _distribute(jobs: list[tuple[str, str]], path: str, executor: Executor, tell: _wattif.Tell | None) -> None:
    import warnings
    from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, wait

    waiting = [(canonical, 1) for _, canonical in reversed(jobs)]
    flying: dict[Future[tuple[str, str, str, bytes]], tuple[str, int]] = {}
    try:
        while waiting or flying:
            while waiting and len(flying) < IN_FLIGHT:
                future = executor.submit(_execute, waiting[-1][0])
                flying[future] = waiting.pop()
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                canonical, tries = flying.pop(future)
                if not _kept(future, path, tries):
                    waiting.append((canonical, tries + 1))
            if tell is not None:
                tell(len(jobs) - len(waiting) - len(flying), len(jobs))
    except BrokenExecutor as broken:
        warnings.warn(f"the executor broke ({broken}): the runs that it leaves are made on this machine", stacklevel=3)
    finally:
        for future in flying:
            future.cancel()


def _kept(future: Future[tuple[str, str, str, bytes]], path: str, tries: int) -> bool:
    """Keeps a result; False: its worker was lost, and another shall have it."""
    from concurrent.futures import BrokenExecutor

    try:
        model, key, digest, report = future.result()
    except (_wattif.WattifError, BrokenExecutor):
        raise
    except Exception:
        if tries >= TRIES:
            raise
        return False
    if model != _wattif.MODEL:
        raise _wattif.WattifError(f"a worker has the model {model}, this process {_wattif.MODEL}")
    _wattif.insert(path, key, digest, report)
    return True

"""run, compare, explain, and what there is to choose from."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import _wattif
from ._policies import take_own
from ._wattif import Table

Setting = str | int | bool


def settings(set: Mapping[str, Setting] | None) -> dict[str, str]:
    """As ``--set``: values as text, True as ``true``."""
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in (set or {}).items()}


def length(duration: str | float | None) -> str | None:
    """``"250ms"``, or seconds."""
    return duration if duration is None or isinstance(duration, str) else f"{duration:.9f}".rstrip("0").rstrip(".")


def inputs(
    workload: str,
    platform: str,
    seed: int,
    duration: str | float | None,
    set: Mapping[str, Setting] | None,
) -> _wattif.Inputs:
    """What to run: all but the kernel, as the native part takes it."""
    return {
        "workload": workload,
        "platform": platform,
        "seed": seed,
        "duration": length(duration),
        "set": settings(set),
    }


def seed_list(seeds: int | Sequence[int]) -> list[int]:
    """``20``: seeds 1 to 20; or the seeds themselves."""
    chosen = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)
    if not chosen:
        raise _wattif.WattifError("name at least one seed")
    return chosen


class _Object(Mapping[str, Any]):
    """A JSON object of the contract; reads as a dict."""

    _data: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return self._text()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._text())}</pre>"

    def _text(self) -> str:
        raise NotImplementedError


class Run(_Object):
    """A finished run: ``wattif.run/1`` as a mapping, and tables of what happened.

    Every table says the unit and meaning of its columns: ``run.df_wakeup_latency().columns``.
    """

    def __init__(self, raw: _wattif.RawRun) -> None:
        self._raw = raw
        self._data = json.loads(raw.json)

    @property
    def metrics(self) -> dict[str, Any]:
        """Figures of the whole run."""
        return dict(self["metrics"])

    @property
    def digest(self) -> str:
        """Of all events: the same run has the same."""
        return str(self["digest"])

    def df_wakeup_latency(self) -> Table:
        """A row per wake-up: time [s], cpu, pid, comm, task, latency [ns] from sched_waking until switched in."""
        return self._raw.table("wakeup_latency")

    def df_sched_switch(self) -> Table:
        """A row per context switch: time [s], cpu, prev_pid, prev_comm, prev_state, next_pid, next_comm."""
        return self._raw.table("sched_switch")

    def df_cpu_idle(self) -> Table:
        """A row per idle entry and exit: time [s], cpu, state (-1: left)."""
        return self._raw.table("cpu_idle")

    def df_cpu_frequency(self) -> Table:
        """A row per change of a clock: time [s], domain, frequency [kHz]."""
        return self._raw.table("cpu_frequency")

    def _text(self) -> str:
        spec, m = self["spec"], self.metrics
        lines = [
            f"<wattif.Run {spec['workload']} on {spec['platform']} under {spec['kernel']}, seed {spec['seed']}, "
            f"{spec['duration_s']:g} s>",
            f"  wakeup_latency_us  mean {m['wakeup_latency_us']['mean']:.4g}  p99 {m['wakeup_latency_us']['p99']:.4g}",
        ]
        if m.get("energy"):
            lines.append(f"  energy             {m['energy']['total']:.4g} {m['energy']['unit']}")
        return "\n".join([*lines, f"  digest             {self.digest}"])


class Comparison(_Object):
    """``wattif.compare/1`` as a mapping."""

    def __init__(self, text: tuple[str, str, str]) -> None:
        self._data = json.loads(text[0])
        self._shown, self.markdown = text[1], text[2]

    def _text(self) -> str:
        return self._shown


class Explanation(_Object):
    """``wattif.explain/1`` as a mapping."""

    def __init__(self, text: tuple[str, str]) -> None:
        self._data = json.loads(text[0])
        self._shown = text[1]

    @property
    def summary(self) -> list[str]:
        """Ten sentences at most, each with its number."""
        return list(self["summary"])

    def _text(self) -> str:
        return self._shown


def run(
    workload: str,
    platform: str = "hikey960",
    kernel: str = "linux-6.12",
    seed: int = 1,
    duration: str | float | None = None,
    set: Mapping[str, Setting] | None = None,
) -> Run:
    """Simulate one workload (a model, a name of the gallery, an rt-app file) on one platform under one kernel.

    ``set={"cpuidle": "mine"}`` uses a governor written in Python, see `IdleGovernor` and `CpufreqGovernor`.
    """
    asked = inputs(workload, platform, seed, duration, set)
    own = take_own(asked["set"])
    return Run(_wattif.run(asked, kernel, own.get("cpuidle"), own.get("cpufreq")))


def compare(
    workload: str,
    kernels: Sequence[str],
    platform: str = "hikey960",
    seeds: int | Sequence[int] = 20,
    duration: str | float | None = None,
    set: Mapping[str, Setting] | None = None,
    metrics: Sequence[str] = (),
) -> Comparison:
    """Kernels on paired seeds; the first is what the others are compared with."""
    if len(kernels) < 2:
        raise _wattif.WattifError("name at least two kernels, such as ['linux-5.3', 'linux-5.6']")
    chosen = seed_list(seeds)
    asked = inputs(workload, platform, chosen[0], duration, set)
    return Comparison(_wattif.compare(asked, list(kernels), chosen, list(metrics)))


def explain(
    workload: str,
    a: str,
    b: str,
    platform: str = "hikey960",
    seed: int = 1,
    duration: str | float | None = None,
    set: Mapping[str, Setting] | None = None,
    seeds: int = 8,
    rerun: str | float = "1s",
    metrics: Sequence[str] = ("energy.total", "wakeup_latency_us.mean"),
) -> Explanation:
    """Why kernel ``b`` differs from ``a``: the first decision, energy and latency by cause, shares of the parts."""
    asked = inputs(workload, platform, seed, duration, set)
    return Explanation(_wattif.explain(asked, [a, b], seeds, length(rerun) or "1s", list(metrics)))


def platforms() -> list[str]:
    """Names of the built-in machines."""
    return _wattif.names("platforms")


def kernels() -> list[str]:
    """Names of the built-in kernel profiles."""
    return _wattif.names("kernels")


def workloads() -> list[str]:
    """Names of the models, and of the gallery's workloads."""
    return _wattif.names("workloads")

"""run, compare, explain, replay, and what there is to choose from."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, overload

from . import _wattif
from ._policies import refuse_own, take_own
from ._wattif import Table

Setting = str | int | bool

#: How rt-app files are read, as ``--dialect`` of the command line: docs/concepts/rtapp-dialects.md.
Dialect = Literal["workgen", "rtapp", "legacy-suspend"]


def words(names: str | Sequence[str]) -> list[str]:
    """One name stands for a list of one: it is not split into its letters."""
    return [names] if isinstance(names, str) else list(names)


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
    dialect: Dialect = "workgen",
) -> _wattif.Inputs:
    """What to run: all but the kernel, as the native part takes it."""
    _check_seeds([seed])
    return {
        "workload": workload,
        "platform": platform,
        "seed": seed,
        "duration": length(duration),
        "set": settings(set),
        "dialect": dialect,
    }


def seed_list(seeds: int | Sequence[int]) -> list[int]:
    """``20``: seeds 1 to 20; or the seeds themselves."""
    chosen = list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)
    if not chosen:
        raise _wattif.WattifError("name at least one seed")
    _check_seeds(chosen)
    return chosen


def _check_seeds(seeds: Sequence[int]) -> None:
    for seed in seeds:
        if not 0 <= seed < 2**64:
            raise _wattif.WattifError(f"seed {seed}: a seed is a whole number from 0 to 2**64 - 1")


def preformatted(text: str) -> str:
    """For a notebook."""
    import html

    return f"<pre>{html.escape(text)}</pre>"


def table_html(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """For a notebook."""
    import html

    def row(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{row('th', head)}{''.join(row('td', cells) for cells in rows)}</table>"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _interval(ends: Sequence[float] | None) -> str:
    return "–" if ends is None else f"[{_number(ends[0])}, {_number(ends[1])}]"


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
        return preformatted(self._text())

    def _text(self) -> str:
        raise NotImplementedError


#: Events that a run keeps tables of, where nothing else is said.
EVENTS = (
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "cpu_idle",
    "cpu_frequency",
    "wattif_mark",
)


class Run(_Object):
    """A finished run: ``wattif.run/1`` as a mapping, and tables of what happened.

    Functions ``df_*`` have the names that LISA gives them. Every table says the unit and meaning of its columns:
    ``run.df_wakeup_latency().columns``; Polars, pandas, DuckDB and pyarrow take it as it is.
    """

    def __init__(self, raw: _wattif.RawRun) -> None:
        self._raw = raw
        self._data = json.loads(raw.json)

    @property
    def metrics(self) -> dict[str, Any]:
        """Figures of the whole run; `docs/reference/metrics.md` has the unit and meaning of each.

        Names end in the unit (``_us``, ``_ns``, ``_s``); energy has it beside its figures (``energy["unit"]``). A figure that the run
        has no data for, such as a latency where no thread woke up, is None.
        """
        return dict(self["metrics"])

    @property
    def digest(self) -> str:
        """Of all events: the same run has the same."""
        return str(self["digest"])

    def _table(self, name: str) -> Table:
        table = self._raw.table(name)
        if table is None:
            kept = ", ".join(self._raw.names())
            raise _wattif.WattifError(f"this run has no table of {name}: run(…, events=[…, {name!r}]); it has {kept}")
        return table

    def df_event(self, event: str) -> Table:
        """A row per event of this name, such as ``sched_switch`` or ``wattif_placement``: docs/reference/columns.md."""
        return self._table(event)

    def df_wakeup_latency(self) -> Table:
        """A row per wake-up of the workload: time_ns, cpu, pid, comm, task, latency_ns from sched_waking to switched in."""
        return self._table("wakeup_latency")

    def df_preemption_latency(self) -> Table:
        """A row per time that a thread of the workload was preempted: as `df_wakeup_latency`, from switched out to switched in."""
        return self._table("preemption_latency")

    def df_tasks_runtime(self) -> Table:
        """A row per thread: pid, comm, task, policy, runtime_s [s], cpu_share (of one CPU, 0 to 1), counts of activations and
        migrations, latencies [us]."""
        return self._table("tasks")

    def df_sched_switch(self) -> Table:
        """A row per context switch: time_ns, cpu, prev_pid, prev_comm, prev_prio, prev_state, next_pid, …"""
        return self._table("sched_switch")

    def df_tasks_wakeups(self) -> Table:
        """A row per ``sched_wakeup``: time_ns, cpu of the waker, pid, comm, prio, target_cpu."""
        return self._table("sched_wakeup")

    def df_tasks_migrations(self) -> Table:
        """A row per ``sched_migrate_task``: time_ns, pid, comm, orig_cpu, dest_cpu."""
        return self._table("sched_migrate_task")

    def df_cpus_idle(self) -> Table:
        """A row per idle entry and exit: time_ns, cpu, state (-1: left)."""
        return self._table("cpu_idle")

    def df_cpu_idle_state_residency(self) -> Table:
        """A row per CPU and idle state: time_s, usage, above (too deep), below (too shallow)."""
        return self._table("idle_residency")

    def df_cpus_frequency(self) -> Table:
        """A row per CPU and change of its clock: time_ns, cpu, frequency_khz."""
        return self._table("cpu_frequency")

    def df_domain_frequency_residency(self) -> Table:
        """A row per frequency domain and operating point: cpus, frequency_khz, time_s."""
        return self._table("frequency_residency")

    def df_frequency_decisions(self) -> Table:
        """A row per decision of a frequency governor, with the signals it saw; of a run with ``events=["wattif_frequency"]``."""
        return self._table("wattif_frequency")

    def df_marks(self) -> Table:
        """A row per frame, request, transaction: time_ns, pid, mark, began_ns."""
        return self._table("wattif_mark")

    def _text(self) -> str:
        spec, m = self["spec"], self.metrics
        latency = m["wakeup_latency_us"]
        lines = [
            f"<wattif.Run {spec['workload']} on {spec['platform']} under {spec['kernel']}, seed {spec['seed']}, "
            f"{spec['duration_s']:g} s>",
            f"  wakeup_latency_us  mean {_number(latency['mean'])}  p99 {_number(latency['p99'])}",
        ]
        if m.get("energy"):
            lines.append(f"  energy             {_number(m['energy']['total'])} {m['energy']['unit']}")
        return "\n".join([*lines, f"  digest             {self.digest}"])


class Comparison(_Object):
    """``wattif.compare/1`` as a mapping; ``markdown`` is for a cover letter, with the specs and digests that reproduce it."""

    def __init__(self, raw: _wattif.RawComparison) -> None:
        text, self._shown, self.markdown, self._df = raw
        self._data = json.loads(text)

    def df(self) -> Table:
        """A row per metric and kernel: mean, interval, ratio to the first, p, effect, verdict."""
        return self._df

    def _repr_html_(self) -> str:
        kernels = self["kernels"]
        head = ["metric", "unit", "kernel", "mean", "95 % interval", f"ratio to {kernels[0]}", "95 % interval", "p (Holm)", "effect d", ""]
        rows = []
        for metric in self["metrics"]:
            for k, (name, of, ratio) in enumerate(zip(kernels, metric["per_kernel"], metric["ratio_to_first"])):
                cells = [metric["name"], metric["unit"]] if k == 0 else ["", ""]
                cells += [name, _number(of["mean"]), _interval(of["ci95"])]
                if k > 0:
                    cells += [_number(ratio["value"]), _interval(ratio["ci95"])]
                    cells += [_number(ratio["p_holm"]), _number(ratio["effect"]), ratio["verdict"] or ""]
                rows.append(cells + [""] * (len(head) - len(cells)))
        return table_html(head, rows) + preformatted(self._shown[self._shown.rfind("\n\n") :].strip())

    def _text(self) -> str:
        return self._shown


class Explanation(_Object):
    """``wattif.explain/1`` as a mapping."""

    def __init__(self, raw: _wattif.RawExplanation) -> None:
        text, self._shown = raw
        self._data = json.loads(text)

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
    events: str | Sequence[str] = EVENTS,
    dialect: Dialect = "workgen",
) -> Run:
    """Simulate one workload on one platform under one kernel.

    Args:
        workload: a model, a name of the gallery, an rt-app file.
        platform: a name (`platforms`) or a TOML file.
        kernel: a name (`kernels`) or a TOML file.
        seed: of all noise; the same seed gives the same run.
        duration: simulated time, ``"250ms"`` or seconds; None: the workload's own.
        set: what is different, by the paths of ``--set``; ``{"cpuidle": "mine"}`` uses a governor written in Python, see
            `IdleGovernor` and `CpufreqGovernor`.
        events: those that tables are kept of; decisions (``wattif_placement``, ``wattif_frequency``, ``wattif_idle``) are many and
            only kept when they are named.
        dialect: how an rt-app file is read.

    Raises:
        WattifError: a name, setting or file that is not right; the text says what and where.
        KeyboardInterrupt: after Ctrl-C, which ends the run.
        Exception: whatever a governor written in Python raises.
    """
    asked = inputs(workload, platform, seed, duration, set, dialect)
    own = take_own(asked["set"])
    return Run(_wattif.run(asked, kernel, words(events), own.get("cpuidle"), own.get("cpufreq")))


def _spec_of(run: Run) -> str:
    return json.dumps(run["spec"]["content"])


def _refuse_said(function: Callable[..., Any], **said: Any) -> None:
    """Of finished runs, whose specs say it: arguments that would have no effect."""
    parameters = inspect.signature(function).parameters
    idle = [name for name, value in said.items() if value != parameters[name].default and value != {}]
    if idle:
        raise TypeError(f"{function.__name__}(run, other): the runs say {', '.join(idle)}; leave that out")


def _call(name: str, *arguments: Any, **named: Any) -> str:
    """The call that makes a result again; what is not said is left out."""
    said = {k: v for k, v in named.items() if v not in (None, (), [], {})}
    return f"wattif.{name}({', '.join([*map(repr, arguments), *(f'{k}={v!r}' for k, v in said.items())])})"


@overload
def compare(
    workload: str,
    kernels: Sequence[str],
    platform: str = ...,
    seeds: int | Sequence[int] = ...,
    duration: str | float | None = ...,
    set: Mapping[str, Setting] | None = ...,
    metrics: str | Sequence[str] = ...,
    dialect: Dialect = ...,
) -> Comparison: ...
@overload
def compare(
    workload: Run, kernels: Run | Sequence[Run], *, seeds: int | Sequence[int] = ..., metrics: str | Sequence[str] = ...
) -> Comparison: ...
def compare(
    workload: str | Run,
    kernels: Run | Sequence[str] | Sequence[Run],
    platform: str = "hikey960",
    seeds: int | Sequence[int] = 20,
    duration: str | float | None = None,
    set: Mapping[str, Setting] | None = None,
    metrics: str | Sequence[str] = (),
    dialect: Dialect = "workgen",
) -> Comparison:
    """Kernels on paired seeds; the first is what the others are compared with.

    ``compare(run, other)`` compares the kernels of runs, on ``seeds`` of what they ran. Runs that differ in more than the kernel
    are refused, with the difference.

    Args:
        workload: as of `run`, or a finished run.
        kernels: two names or more, or the other runs.
        platform, duration, set, dialect: as of `run`; with finished runs, not to be said.
        seeds: so many from 1 on, or the seeds themselves; four or more give intervals. Each kernel runs each of them.
        metrics: rows of the table by their paths, ``energy.total``; none: those that suit the workload.

    Raises:
        WattifError: as of `run`; one kernel alone, a metric that nobody has, governors written in Python.
        TypeError: runs mixed with names, or with what runs say themselves.
        KeyboardInterrupt: after Ctrl-C.
    """
    chosen, shown = seed_list(seeds), words(metrics)
    _wattif.check_metrics(shown)
    others = [kernels] if isinstance(kernels, (str, Run)) else list(kernels)
    if isinstance(workload, Run):
        runs = [workload, *(run for run in others if isinstance(run, Run))]
        if len(runs) != 1 + len(others) or len(runs) < 2:
            raise TypeError("compare(run, other): a run is compared with runs")
        _refuse_said(compare, platform=platform, duration=duration, set=set, dialect=dialect)
        rows = f", metrics={shown!r}" if shown else ""
        again = f"wattif.compare({', '.join(_shown(run) for run in runs)}, seeds={seeds!r}{rows})"
        return Comparison(_wattif.compare([_spec_of(run) for run in runs], {}, chosen, shown, again))
    names = [kernel for kernel in others if isinstance(kernel, str)]
    if len(names) != len(others) or len(names) < 2:
        raise _wattif.WattifError("name at least two kernels, such as ['linux-5.3', 'linux-5.6']")
    asked = inputs(workload, platform, chosen[0], duration, set, dialect)
    refuse_own(asked["set"])
    other = None if dialect == "workgen" else dialect
    said = {"platform": platform, "seeds": seeds, "duration": duration, "set": dict(set or {}), "metrics": shown}
    again = _call("compare", workload, names, **said, dialect=other)
    return Comparison(_wattif.compare([_wattif.spec(asked, k) for k in names], asked["set"], chosen, shown, again))


def _shown(run: Run) -> str:
    spec = run["spec"]
    return f"<run of {spec['workload']} under {spec['kernel']}, spec {spec['hash']}>"


@overload
def explain(
    workload: str,
    a: str,
    b: str,
    platform: str = ...,
    seed: int = ...,
    duration: str | float | None = ...,
    set: Mapping[str, Setting] | None = ...,
    seeds: int = ...,
    rerun: str | float | None = ...,
    metrics: str | Sequence[str] = ...,
    dialect: Dialect = ...,
) -> Explanation: ...
@overload
def explain(
    workload: Run, a: Run, *, seeds: int = ..., rerun: str | float | None = ..., metrics: str | Sequence[str] = ...
) -> Explanation: ...
def explain(
    workload: str | Run,
    a: str | Run,
    b: str | None = None,
    platform: str = "hikey960",
    seed: int = 1,
    duration: str | float | None = None,
    set: Mapping[str, Setting] | None = None,
    seeds: int = 8,
    rerun: str | float | None = None,
    metrics: str | Sequence[str] = ("energy.total", "wakeup_latency_us.mean"),
    dialect: Dialect = "workgen",
) -> Explanation:
    """Why kernel ``b`` differs from ``a``: the first decision, energy and latency by cause, shares of the parts.

    ``explain(run, other)`` says it of two runs, which must differ in nothing but the kernel.

    Args:
        workload, platform, seed, duration, set, dialect: as of `run`; or a finished run, and nothing of the others.
        a, b: names of kernels; or ``a`` the other run, and no ``b``.
        seeds: of the reruns in which parts of the kernel are exchanged one by one, 0 (none) or more.
        rerun: simulated time of each of them at most, ``"500ms"`` or seconds; None: a second, or until the work is done where the
            workload ends by itself and both runs did.
        metrics: what is shared out among the parts, by their paths.

    Raises:
        WattifError: as of `run`; seeds below 0, a metric that nobody has, governors written in Python.
        TypeError: other combinations of runs and names, or of runs with what they say themselves.
        KeyboardInterrupt: after Ctrl-C.
    """
    shown = words(metrics)
    _wattif.check_metrics(shown)
    if seeds < 0:
        raise _wattif.WattifError(f"{seeds} seeds: none (0) or more")
    if isinstance(workload, Run) and isinstance(a, Run):
        _refuse_said(explain, b=b, platform=platform, seed=seed, duration=duration, set=set, dialect=dialect)
        specs = [_spec_of(workload), _spec_of(a)]
    elif isinstance(workload, str) and isinstance(a, str) and isinstance(b, str):
        asked = inputs(workload, platform, seed, duration, set, dialect)
        refuse_own(asked["set"])
        specs = [_wattif.spec(asked, kernel) for kernel in (a, b)]
    else:
        raise TypeError("explain(workload, kernel, other kernel), or explain(run, other run)")
    return Explanation(_wattif.explain(specs, seeds, length(rerun), shown))


class Replay(_Object):
    """``wattif.replay/1`` (or, where no kernel was named, ``wattif.recorded/1``) as a mapping."""

    def __init__(self, raw: _wattif.RawReplay) -> None:
        text, self._shown = raw
        self._data = json.loads(text)

    def _text(self) -> str:
        checks = self._data.get("self_check", {}).get("figures", [])
        good = sum(check["ok"] for check in checks)
        head = f"<wattif.Replay {self._data.get('trace', '')}: {good} of {len(checks)} figures are reproduced>"
        return head if self._shown is None else f"{head}\n{self._shown}"


def replay(
    trace: str,
    kernels: str | Sequence[str] = (),
    platform: str | None = None,
    recorded_kernel: str | None = None,
    seeds: int | Sequence[int] = 10,
    set: Mapping[str, Setting] | None = None,
    policies: Mapping[str, str] | None = None,
) -> Replay:
    """What other kernels would have made of a recorded trace: first how well the recording is reproduced, then the comparison.

    Without ``kernels``, the figures of the recording itself.

    Args:
        trace: ftrace text, trace.dat, a Perfetto trace, or an archive of ``wattif record``.
        kernels: names or TOML files; the first is what the others are compared with.
        platform: the machine of the trace, a name or a TOML file; None: that of the archive, or one whose CPUs are all equal.
        recorded_kernel: the kernel it was recorded under; None: that of the archive, or what the trace says.
        seeds: as of `compare`.
        set: as of `run`.
        policies: what a trace cannot say, ``{"background": "SCHED_IDLE"}``: names of threads, policies.

    Raises:
        WattifError: a file that is no trace or holds too little, a name or setting that is not right.
        KeyboardInterrupt: after Ctrl-C.
    """
    unseen = [f"{thread}={policy}" for thread, policy in (policies or {}).items()]
    return Replay(
        _wattif.replay(trace, words(kernels), platform, recorded_kernel, seed_list(seeds), settings(set), unseen)
    )


def platforms() -> list[str]:
    """Names of the built-in machines."""
    return _wattif.names("platforms")


def kernels() -> list[str]:
    """Names of the built-in kernel profiles."""
    return _wattif.names("kernels")


def workloads() -> list[str]:
    """Names of the models, and of the gallery's workloads."""
    return _wattif.names("workloads")

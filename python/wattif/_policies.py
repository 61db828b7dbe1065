"""Governors written in Python: subclass, and use the class's ``name`` in ``set={"cpuidle": name}``.

Slow: every decision calls into Python. Measured cost: docs/python.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from . import _wattif

_REGISTRY: dict[str, dict[str, type]] = {"cpuidle": {}, "cpufreq": {}}


def _register(slot: str, cls: type) -> None:
    name = cls.__dict__.get("name")
    if not isinstance(name, str) or not name:
        raise TypeError(f"{cls.__name__} needs a class attribute `name`, by which a run asks for it")
    _REGISTRY[slot][name] = cls


class IdleGovernor:
    """An idle governor; one object serves all CPUs of a run."""

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        _register("cpuidle", cls)

    def enable(self, cpu: int, states: list[_wattif.IdleState]) -> None:
        """The idle states of a CPU, shallowest first; called once per CPU before all else."""

    def select(
        self, cpu: int, sleep_length_ns: int, delta_tick_ns: int, latency_req_ns: int, tick_stopped: bool
    ) -> int | tuple[int, bool]:
        """Index of the state to enter; or that, and whether the tick may be stopped (by default it may).

        ``sleep_length_ns``: time to the next timer if the tick is stopped; ``delta_tick_ns``: if it is not.
        """
        raise NotImplementedError

    def reflect(self, cpu: int, entered: int | None, residency_ns: int) -> None:
        """What came of the last ``select``: the state entered (None: refused), and the time in it."""

    def poll_limit_ns(self, cpu: int, poll_time_ns: int) -> int:
        """How long a polling state polls before ``select`` is asked again, where the kernel would poll ``poll_time_ns``.

        Without a method of its own a governor has the kernel's time, doubled each time that a CPU reaches it and polls on.
        """
        raise NotImplementedError


class CpufreqGovernor:
    """A frequency governor; one object per frequency domain."""

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        _register("cpufreq", cls)

    def start(self, cpus: list[int], min_khz: int, max_khz: int) -> None:
        """The domain's CPUs and limits; called once before all else."""

    def update(self, now_ns: int, cpu: int, signals: list[_wattif.CpuSignals]) -> int | None:
        """The utilisation of ``cpu`` may have changed: the frequency to ask for, kHz, or None. Called very often."""
        raise NotImplementedError


def take_own(set: dict[str, str]) -> dict[str, tuple[str, type]]:
    """Takes names of registered classes out of ``set``; what is left names built-in policies."""
    own = {}
    for slot, known in _REGISTRY.items():
        if set.get(slot) in known:
            name = set.pop(slot)
            cls = known[name]
            own[slot] = (f"python:{name}@{_wattif.hash(_source(cls))}", cls)
    return own


def refuse_own(set: Mapping[str, str], axes: Mapping[str, Sequence[object] | str] | None = None) -> None:
    """Where runs are made by other threads or processes, which have no governors of this interpreter."""
    for slot, known in _REGISTRY.items():
        values = (axes or {}).get(slot, ())
        asked = [set.get(slot), *(values.split(",") if isinstance(values, str) else values)]
        for name in asked:
            if name in known:
                raise _wattif.WattifError(f"`{name}` is a governor written in Python: only wattif.run can use it")


def _source(cls: type) -> str:
    """Its source is part of the run's spec; without a file (a shell), its byte code is."""
    import inspect  # not needed by those who only run

    try:
        return inspect.getsource(cls)
    except (OSError, TypeError):
        code = {k: v.__code__.co_code.hex() for k, v in vars(cls).items() if inspect.isfunction(v)}
        return f"{cls.__qualname__} {sorted(code.items())}"

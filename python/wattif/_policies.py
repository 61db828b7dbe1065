"""Governors written in Python: subclass, and use the class's ``name`` in ``set={"cpuidle": name}``.

Slow: every decision calls into Python. Measured cost: docs/python.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import ClassVar

from . import _wattif

_REGISTRY: dict[str, dict[str, type]] = {"cpuidle": {}, "cpufreq": {}}


def _register(slot: str, cls: type) -> None:
    name = cls.__dict__.get("name")
    if not isinstance(name, str) or not name:
        raise TypeError(f"{cls.__name__} needs a class attribute `name`, by which a run asks for it")
    if name in _wattif.names("policies"):
        raise _wattif.WattifError(f"{cls.__name__}: `{name}` is the name of a built-in policy; give it another")
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

        Args:
            cpu: the kernel's number of the CPU that goes idle.
            sleep_length_ns: time to the next timer if the tick is stopped.
            delta_tick_ns: if it is not.
            latency_req_ns: the longest exit latency that is tolerated, 0 to 2 * 10**12 ns; 2**63 - 1: any. The same for all CPUs of a run:
                ``set={"pm_qos.cpu_latency_us": …}``.
            tick_stopped: the tick has been stopped earlier in this idle period: no next one ends the sleep, whatever is returned.
        """
        raise NotImplementedError

    def reflect(self, cpu: int, entered: int | None, residency_ns: int) -> None:
        """What came of the last ``select``: the state entered (None: refused), and the time in it, ns."""

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
        """The domain's CPUs, by the kernel's numbers, and limits; called once before all else."""

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
            own[slot] = (f"python:{name}@{_wattif.hash(_code(cls))}", cls)
    return own


def refuse_own(set: Mapping[str, str], axes: Mapping[str, Sequence[object] | str] | None = None) -> None:
    """Where runs are made by other threads or processes, which have no governors of this interpreter."""
    for slot, known in _REGISTRY.items():
        values = (axes or {}).get(slot, ())
        asked = [set.get(slot), *(values.split(",") if isinstance(values, str) else values)]
        for name in asked:
            if name in known:
                raise _wattif.WattifError(f"`{name}` is a governor written in Python: only wattif.run can use it")


def _code(cls: type) -> str:
    """What a class does, for the run's spec: byte code with its constants, defaults and closures, and plain attributes, of the
    class and its bases; and what they call and read of the modules they are in. Classes and objects that they use are only named.
    """
    seen: set[int] = set()
    bases = [base for base in cls.__mro__ if base.__module__ not in (__name__, "builtins")]
    own = [sorted(_attributes(base)) for base in bases]
    return "\n".join(f"{name}: {_text(value, seen)}" for attributes in own for name, value in attributes)


def _attributes(cls: type) -> Iterator[tuple[str, object]]:
    for name, value in vars(cls).items():
        if name not in ("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__firstlineno__"):
            yield name, value


def _text(value: object, seen: set[int]) -> str:
    if _is_plain(value):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(_text(v, seen) for v in value)}]"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(_text(v, seen) for v in value))}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_text(k, seen)}: {_text(v, seen)}' for k, v in value.items())}}}"
    if isinstance(value, (staticmethod, classmethod)):
        return _text(value.__func__, seen)
    if isinstance(value, property):
        return _text([value.fget, value.fset], seen)
    if not isinstance(value, FunctionType):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    if id(value) in seen:
        return value.__qualname__
    seen.add(id(value))
    closure = [cell.cell_contents for cell in value.__closure__ or () if not _is_empty(cell)]
    return f"({_byte_code(value.__code__, value, seen)}, {_text([value.__defaults__, value.__kwdefaults__, closure], seen)})"


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (bool, int, float, complex, str, bytes))


def _is_of(module: str, value: object) -> bool:
    return isinstance(value, FunctionType) and value.__module__ == module


def _is_empty(cell: object) -> bool:
    try:
        cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:
        return True
    return False


def _byte_code(code: CodeType, function: FunctionType, seen: set[int]) -> str:
    """Without names of files and numbers of lines."""
    constants = [_byte_code(c, function, seen) if isinstance(c, CodeType) else _text(c, seen) for c in code.co_consts]
    known = {n: function.__globals__[n] for n in code.co_names if n in function.__globals__}
    used = [f"{n}={_text(v, seen)}" for n, v in known.items() if _is_plain(v) or _is_of(function.__module__, v)]
    local = code.co_varnames + code.co_freevars + code.co_cellvars
    return f"{code.co_code.hex()} {constants} {code.co_names} {local} {used}"

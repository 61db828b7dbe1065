"""The native part. `wattif` itself is the interface."""

from collections.abc import Callable, Generator, Sequence
from typing import Literal, TypedDict

__version__: str
MODEL: str

Tell = Callable[[int, int], object]

class WattifError(ValueError): ...

class IdleState:
    """An idle state as the firmware advertises it."""

    exit_latency_ns: int
    target_residency_ns: int
    polling: bool

class CpuSignals:
    """Of a CPU of the domain: utilisations and capacity are shares of 1024, the fastest CPU at its highest frequency."""

    cpu: int
    util_avg: int
    util_est: int
    runnable_avg: int
    util_rt: int
    nr_running: int
    capacity: int

class Table:
    @property
    def columns(self) -> list[tuple[str, str, str]]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def __len__(self) -> int: ...
    def _repr_html_(self) -> str: ...

class RawRun:
    json: str
    def table(self, name: str) -> Table | None: ...
    def names(self) -> list[str]: ...

# Of the stub only: the object as JSON, the same as text; of a comparison also as Markdown and as a table.
RawComparison = tuple[str, str, str, Table]
RawExplanation = tuple[str, str]
RawReplay = tuple[str, str | None]

class Inputs(TypedDict):
    """Of the stub only: what a dict of inputs holds."""

    workload: str
    platform: str
    seed: int
    duration: str | None
    set: dict[str, str]
    dialect: str

class Plan:
    def __init__(
        self, inputs: Inputs, kernel: str, axes: list[str], seeds: list[int], sample: str, samples: int
    ) -> None: ...
    def check_front(self, front: Sequence[str]) -> None: ...
    def missing(self, path: str) -> list[tuple[str, str]]: ...
    def run_local(self, path: str, tell: Tell | None) -> int: ...
    def table(self, path: str, metrics: list[str], pareto: Sequence[str] | None) -> tuple[str, Table]: ...

def run(
    inputs: Inputs,
    kernel: str,
    events: list[str],
    idle: tuple[str, type] | None = None,
    freq: tuple[str, type] | None = None,
) -> RawRun: ...
def spec(inputs: Inputs, kernel: str) -> str: ...
def compare(
    specs: Sequence[str], set: dict[str, str], seeds: list[int], metrics: list[str], command: str
) -> RawComparison: ...
def explain(specs: Sequence[str], seeds: int, rerun: str | None, metrics: list[str]) -> RawExplanation: ...
def replay(
    trace: str,
    kernels: list[str],
    platform: str | None,
    recorded_kernel: str | None,
    seeds: list[int],
    set: dict[str, str],
    policies: list[str],
) -> RawReplay: ...
def tune(
    inputs: Inputs,
    kernel: str,
    axes: list[str],
    objectives: list[str],
    *,
    trials: int,
    population: int,
    search_seed: int,
    seeds: list[int],
    held_out: int,
    path: str,
    search: Callable[[str], Generator[str, str, None]],
    tell: Tell | None,
) -> str: ...
def execute(canonical: str) -> tuple[str, str, bytes]: ...
def insert(path: str, hash: str, digest: str, report: bytes) -> None: ...
def stored(path: str) -> int: ...
def names(kind: Literal["platforms", "kernels", "workloads", "policies"]) -> list[str]: ...
def check_metrics(names: list[str]) -> None: ...
def statistics(values: list[float]) -> tuple[tuple[float, float] | None, float, list[float]]: ...
def ratio(
    variant: list[float], baseline: list[float]
) -> tuple[float, tuple[float, float] | None, float, float]: ...
def hash(text: str) -> str: ...

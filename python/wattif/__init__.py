"""What-if analysis of Linux CPU scheduling and CPU power management.

>>> import wattif
>>> run = wattif.run("server", platform="hikey620", kernel="linux-5.6", duration="100ms")
>>> run["metrics"]["migrations"] > 0
True

Everything runs in native code without the GIL; Ctrl-C ends it. Results are the JSON objects of the command line as dicts, and
Arrow tables (``df_*``) that Polars, pandas, DuckDB and pyarrow take without a copy.
"""

from ._api import Comparison, Explanation, Replay, Run, compare, explain, kernels, platforms, replay, run, workloads
from ._policies import CpufreqGovernor, IdleGovernor
from ._sweep import Sweep, sweep
from ._tune import Tuned, tune
from ._wattif import MODEL, CpuSignals, IdleState, Table, WattifError, __version__

__all__ = [
    "MODEL",
    "Comparison",
    "CpuSignals",
    "CpufreqGovernor",
    "Explanation",
    "IdleGovernor",
    "IdleState",
    "Replay",
    "Run",
    "Sweep",
    "Table",
    "Tuned",
    "WattifError",
    "__version__",
    "compare",
    "explain",
    "kernels",
    "platforms",
    "replay",
    "run",
    "sweep",
    "tune",
    "workloads",
]

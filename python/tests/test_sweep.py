import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import wattif
from wattif import _wattif

AXES = {"cpuidle": ["menu", "teo"], "schedutil.rate_limit_us": "500..8000/6"}
HERE = dict(platform="hikey620", duration="100ms", seeds=2, pareto=("energy.total", "wakeup_latency_us.mean"))


@pytest.fixture
def alone(tmp_path):
    return list(wattif.sweep("server", AXES, store=tmp_path / "alone.sqlite", **HERE))


def test_local(store, alone):
    assert len(alone) == 12 and any(row["front"] for row in alone)
    again = wattif.sweep("server", AXES, store=store, **HERE)
    assert list(again) == alone and again.front() and "12 points" in repr(again)
    with pytest.raises(wattif.WattifError, match="rate_limit_us"):
        wattif.sweep("server", {"schedutil.rate_limit": [1]}, store=store)


def test_process_pool(store, alone):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = wattif.sweep("server", AXES, store=store, executor=pool, **HERE)
    assert list(found) == alone
    assert _wattif.stored(str(store)) == 24


def test_dask_cluster_with_a_worker_that_dies(store, alone, tmp_path):
    """A real scheduler and two worker processes on loopback; one worker is killed while it works."""
    distributed = pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--nthreads", "1"]
    log = open(tmp_path / "dask.log", "w")
    options = dict(stdout=log, stderr=log)
    processes = [subprocess.Popen([*dask, "--no-dashboard", "--scheduler-file", str(file)], **options)]
    try:
        for name in ("one", "two"):
            processes.append(subprocess.Popen([*worker, "--no-nanny", "--no-dashboard", "--name", name], **options))
        with distributed.Client(scheduler_file=str(file), timeout="60s") as client:
            client.wait_for_workers(2, timeout=90)
            victim = processes[1]
            executor = client.get_executor()
            killer = executor.submit(time.sleep, 0)
            killer.result()
            before = _wattif.stored(str(store))
            assert before == 0
            import threading

            def kill_when_under_way():
                while _wattif.stored(str(store)) < 3:
                    time.sleep(0.01)
                os.kill(victim.pid, signal.SIGKILL)

            threading.Thread(target=kill_when_under_way, daemon=True).start()
            found = wattif.sweep("server", AXES, store=store, executor=executor, **HERE)
        victim.wait(60)
        assert victim.returncode == -signal.SIGKILL
        assert list(found) == alone
        assert _wattif.stored(str(store)) == 24
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_tune_reports_seeds_it_never_saw(store):
    pytest.importorskip("optuna")
    space = {"schedutil.rate_limit_us": (500, 8000), "cpuidle": ["menu", "teo"]}
    proposals = wattif.tune(
        "server", space, trials=6, seeds=1, held_out=2, store=store, platform="hikey620", duration="50ms"
    )
    assert proposals
    for proposal in proposals:
        assert set(proposal["set"]) == set(space)
        assert proposal["held_out"]["energy.total"] > 0

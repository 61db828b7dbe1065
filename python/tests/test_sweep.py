import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import polars as pl
import pytest
import wattif
from wattif import _wattif
from wattif._nsga2 import conversation

AXES = {"cpuidle": ["menu", "teo"], "schedutil.rate_limit_us": "500..8000/6"}
HERE = dict(platform="hikey620", duration="100ms", seeds=2, pareto=("energy.total", "wakeup_latency_us.mean"))


@pytest.fixture
def alone(tmp_path):
    return list(wattif.sweep("server", AXES, store=tmp_path / "alone.sqlite", **HERE))


def test_local(store, alone):
    assert len(alone) == 12 and any(row["front"] for row in alone)
    again = wattif.sweep("server", AXES, store=store, **HERE)
    assert again._repr_html_().count("<tr>") == 13
    assert list(again) == alone and again.front() and "12 points" in repr(again)
    with pytest.raises(wattif.WattifError, match="rate_limit_us"):
        wattif.sweep("server", {"schedutil.rate_limit": [1]}, store=store)


def test_progress_is_told_and_drawn(store, tmp_path, capfd):
    told = []
    found = wattif.sweep("server", AXES, store=store, progress=lambda *now: told.append(now), **HERE)
    assert told[0] == (0, 24) and told[-1] == (24, 24) and told == sorted(told)
    assert capfd.readouterr().err == "", "no terminal, no bar"
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        told.clear()
        wattif.sweep("server", AXES, store=tmp_path / "b", executor=pool, progress=lambda *now: told.append(now), **HERE)
    assert told[-1] == (24, 24) and told == sorted(told)
    wattif.sweep("server", AXES, store=tmp_path / "c", progress=True, **HERE)
    assert "simulating" in (drawn := capfd.readouterr().err) and "24/24 0s" in drawn
    assert list(found)


def test_energies_of_other_units_have_no_front(store):
    axes = {"platform": ["hikey620", "hikey960"]}
    with pytest.raises(wattif.WattifError, match=r"its unit is J or cost\*s"):
        wattif.sweep("server", axes, duration="10ms", pareto=("energy.total", "slices"), store=store)
    found = wattif.sweep("server", axes, duration="10ms", store=store)
    assert found.data["units"] == {"energy.total": "J or cost*s", "wakeup_latency_us.mean": "µs", "wakeup_latency_us.p99": "µs"}
    assert ("wakeup_latency_us.p99", "µs", "Mean over seeds.") in found.df().columns


def test_an_exception_of_progress_ends_a_sweep(store):
    def enough(done, total):
        raise StopIteration("enough")

    with pytest.raises(StopIteration, match="enough"):
        wattif.sweep("server", AXES, store=store, progress=enough, **HERE)


def test_stores_that_cannot_be_used_are_named(tmp_path):
    newer, foreign, text = (tmp_path / name for name in ("newer", "foreign", "text"))
    wattif.sweep("server", {"cpuidle": ["menu"]}, store=newer, platform="hikey620", duration="10ms")
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 99")
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE t (x)")
    text.write_text("hello" * 1000)
    for path, part in [(newer, "newer wattif"), (foreign, "another program"), (text, "not an SQLite file")]:
        with pytest.raises(wattif.WattifError, match=part):
            wattif.sweep("server", {"cpuidle": ["menu"]}, store=path, platform="hikey620", duration="10ms")


def test_a_disk_that_gets_full_loses_nothing(store):
    """Behind a limit on the size of files: what was kept before is there, and the same call goes on."""
    axes = {"schedutil.rate_limit_us": "500..8000/60"}
    short = dict(platform="hikey620", duration="20ms", store=store, set={"platform.hz": 1000})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, before[1]))
    try:
        with pytest.raises(wattif.WattifError, match="every run finished before is kept"):
            wattif.sweep("server", axes, **short)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    kept = _wattif.stored(str(store))
    assert 0 < kept < 60
    told = []
    assert len(wattif.sweep("server", axes, progress=lambda *now: told.append(now), **short)) == 60
    assert told[0] == (0, 60 - kept)


def test_points_are_a_table(store):
    found = wattif.sweep("server", AXES, store=store, **HERE)
    frame = pl.DataFrame(found.df())
    assert frame["front"].sum() == len(found.front()) and frame["energy.total"].to_list() == [r["energy.total"] for r in found]


def test_process_pool(store, alone):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = wattif.sweep("server", AXES, store=store, executor=pool, **HERE)
    assert list(found) == alone
    assert _wattif.stored(str(store)) == 24


def test_process_pool_that_breaks(store, alone):
    """A pool is broken as a whole when a worker of it dies: what it leaves is made here, and nothing twice."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        pids = {pool.submit(os.getpid).result() for _ in range(2)}

        def kill_when_under_way():
            while _wattif.stored(str(store)) < 3:
                time.sleep(0.005)
            os.kill(pids.pop(), signal.SIGKILL)

        killer = threading.Thread(target=kill_when_under_way)
        killer.start()
        with pytest.warns(UserWarning, match="the executor broke"):
            found = wattif.sweep("server", AXES, store=store, executor=pool, **HERE)
        killer.join()
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
    axes = {"schedutil.rate_limit_us": "500..8000", "cpuidle": ["menu", "teo"]}
    asked = dict(platform="hikey620", duration="50ms", trials=12, population=6, seeds=2, held_out=5)
    tuned = wattif.tune("server", axes, store=store, **asked)
    assert len(tuned) and tuned.data["held_out"] == [3, 4, 5, 6, 7]
    for proposal in tuned:
        assert set(proposal["set"]) == set(axes)
        assert proposal["held_out"]["energy.total"]["ci95"] and proposal["ratio"]["energy.total"]["value"] > 0
    assert "proposals" in repr(tuned)
    stored = _wattif.stored(str(store))
    assert wattif.tune("server", axes, store=store, **asked).data == tuned.data
    assert _wattif.stored(str(store)) == stored, "the same search is made of runs that are there"
    with pytest.raises(wattif.WattifError, match="rate_limit_us"):
        wattif.tune("server", {"schedutil.rate_limt_us": "1..5"}, store=store)
    with pytest.raises(wattif.WattifError, match="5 seeds after 18446744073709551615 go beyond the last one"):
        wattif.tune("server", axes, store=store, **{**asked, "seeds": [2**64 - 1]})


def test_the_search_is_better_than_chance():
    """On a known function: the front of NSGA-II's points beats that of as many random ones."""
    talk = conversation(json.dumps(dict(axes=[dict(low=0, high=1000)] * 2, maximize=[False, True], trials=300, population=30, seed=1)))
    answer = json.loads(next(talk))

    def worth(p):
        a, b = p[0] / 1000, p[1] / 1000
        return [a**2 + b, (1 - a) ** 2 * -1 - b]

    points = []
    while "ask" in answer:
        points += answer["ask"]
        answer = json.loads(talk.send(json.dumps({"tell": [worth(p) for p in answer["ask"]]})))
    assert len(points) == 300 and len(answer["best"]) > 5
    assert sum(p[1] for p in points[-60:]) < 0.5 * sum(p[1] for p in points[:60]), "b = 0 is on the front"


def test_the_command_line_searches_through_the_same_file(tmp_path):
    """`wattif tune` runs it with `python -c`, which must not need the package."""
    program = (Path(wattif.__file__).parent / "_nsga2.py").read_text()
    space = dict(axes=[dict(choices=3)], maximize=[True], trials=4, population=2, seed=1)
    lines = [space, {"tell": [[1.0], [2.0]]}, {"tell": [[None], [3.0]]}]
    said = subprocess.run(
        [sys.executable, "-I", "-c", program], input="\n".join(map(json.dumps, lines)) + "\n", text=True, capture_output=True
    )
    answers = [json.loads(line) for line in said.stdout.splitlines()]
    assert [list(a) for a in answers] == [["ask"], ["ask"], ["best"]], said.stderr

import _thread
import subprocess
import sys
import threading
import time

import polars as pl
import pytest
import wattif

HERE = dict(platform="hikey620", kernel="linux-5.6", duration="200ms")


def test_same_spec_same_digest_and_tables_agree_with_the_report():
    a, b = wattif.run("server", **HERE), wattif.run("server", **HERE)
    assert a.digest == b.digest and a["schema"] == "wattif.run/1"
    latency = pl.DataFrame(a.df_wakeup_latency())
    summary = a.metrics["wakeup_latency_us"]
    assert len(latency) == summary["count"]
    assert latency["latency"].mean() / 1e3 == pytest.approx(summary["mean"], rel=1e-9)
    switches = pl.DataFrame(a.df_sched_switch())
    assert (switches["next_pid"] != 0).sum() == a.metrics["slices"]
    assert pl.DataFrame(a.df_cpu_frequency()).columns == ["time", "domain", "frequency"]
    assert pl.DataFrame(a.df_cpu_idle())["state"].min() == -1


def test_columns_say_unit_and_meaning():
    table = wattif.run("server", **HERE).df_wakeup_latency()
    assert ("latency", "ns", "sched_waking until switched in") in table.columns
    assert all(meaning for _, _, meaning in table.columns)
    assert "latency [ns]" in repr(table)


def test_settings_seeds_and_reprs():
    base = wattif.run("server", **HERE)
    other = wattif.run("server", seed=2, set={"cpuidle": "teo", "features.WA_BIAS": False}, **HERE)
    assert base.digest != other.digest
    assert other["spec"]["set"] == {"cpuidle": "teo", "features.WA_BIAS": "false"}
    assert "linux-5.6" in repr(base) and base._repr_html_().startswith("<pre>")
    assert wattif.run("server", platform="hikey620", duration=0.05)["spec"]["duration_s"] == 0.05


def test_bad_input_says_what_is_near():
    for arguments, part in [
        (dict(platform="hikey62"), "hikey620"),
        (dict(kernel="linux-5.5"), "linux-5.4"),
        (dict(set={"schedutil.rate_limit": 5}), "rate_limit_us"),
        (dict(duration="5 parsecs"), "no unit of time"),
    ]:
        with pytest.raises(wattif.WattifError, match=part):
            wattif.run("server", **arguments)


def test_names():
    assert "hikey620" in wattif.platforms() and "linux-6.12" in wattif.kernels() and "server" in wattif.workloads()


def test_compare_and_explain():
    kernels = ["linux-5.3", "linux-5.6"]
    compared = wattif.compare("server", kernels, platform="hikey620", seeds=4, duration="50ms")
    assert compared["schema"] == "wattif.compare/1" and "ratio to linux-5.3" in repr(compared)
    assert "| metric |" in compared.markdown
    explained = wattif.explain("server", *kernels, platform="hikey620", duration="100ms", seeds=2, rerun="50ms")
    assert 0 < len(explained.summary) <= 10
    assert sum(r["difference_fj"] for r in explained["energy"]["by_task"]) == explained["energy"]["difference_fj"]
    with pytest.raises(wattif.WattifError, match="two kernels"):
        wattif.compare("server", ["linux-5.3"])


def test_the_gil_is_released():
    counted = 0
    done = threading.Event()

    def count():
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    wattif.run("server", platform="hikey620", duration="2s")
    done.set()
    thread.join()
    assert counted > 5


def test_ctrl_c_ends_a_run():
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        wattif.run("server", platform="hikey620", duration="7200s")


def test_import_needs_nothing_else():
    code = "import sys, wattif; print([m for m in ('polars', 'pandas', 'optuna', 'numpy') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"

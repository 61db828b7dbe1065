import _thread
import json
import subprocess
import sys
import threading
import time

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import wattif

HERE = dict(platform="hikey620", kernel="linux-5.6", duration="200ms")


@pytest.fixture(scope="module")
def run():
    return wattif.run("server", **HERE)


def test_same_spec_same_digest_and_tables_agree_with_the_report(run):
    assert wattif.run("server", **HERE).digest == run.digest and run["schema"] == "wattif.run/1"
    latency = pl.DataFrame(run.df_wakeup_latency())
    summary = run.metrics["wakeup_latency_us"]
    assert len(latency) == summary["count"]
    assert latency["latency_ns"].mean() / 1e3 == pytest.approx(summary["mean"], rel=1e-9)
    switches = pl.DataFrame(run.df_sched_switch())
    preempted = switches.filter(pl.col("prev_state") == "R", pl.col("prev_pid") != 0)
    own = preempted.join(pl.DataFrame(run.df_tasks_runtime()), left_on="prev_pid", right_on="pid")
    waits = pl.DataFrame(run.df_preemption_latency())
    assert 0 < len(waits) <= len(own) and waits["latency_ns"].min() > 0
    assert (switches["next_pid"] != 0).sum() == run.metrics["slices"]
    assert pl.DataFrame(run.df_cpus_idle())["state"].min() == -1
    assert len(run.df_tasks_migrations()) == run.metrics["migrations"]
    residency = pl.DataFrame(run.df_domain_frequency_residency())
    assert residency["time_s"].sum() == pytest.approx(0.2 * residency["domain"].n_unique())
    idle = pl.DataFrame(run.df_cpu_idle_state_residency()).filter(pl.col("cpu") == 0)["time_s"].sum()
    assert idle + run["cpus"][0]["busy_s"] == pytest.approx(0.2)
    assert len(run.df_tasks_runtime()) == len(run["tasks"])
    assert len(run.df_marks()) == sum(mark["count"] for mark in run.metrics["throughput"].values())


def test_whoever_knows_arrow_reads_the_same(run):
    table = run.df_wakeup_latency()
    total = pl.DataFrame(table)["latency_ns"].sum()
    arrow = pa.table(table)
    assert arrow["latency_ns"].to_numpy().sum() == total
    assert arrow.schema.field("latency_ns").metadata == {b"unit": b"ns", b"doc": b"sched_waking until switched in."}
    frame = pd.DataFrame.from_arrow(table)
    assert frame["latency_ns"].sum() == total and set(frame["task"]) == set(pl.DataFrame(table)["task"])
    duck = duckdb.connect()
    assert duck.execute("select sum(latency_ns) from arrow").fetchone() == (total,)


def test_without_a_copy(run):
    """Two readers see the same memory."""
    table = run.df_wakeup_latency()
    first, second = (pa.table(table)["latency_ns"].chunk(0).buffers()[1].address for _ in range(2))
    assert first == second


def test_columns_say_unit_and_meaning(run):
    table = run.df_wakeup_latency()
    assert ("latency_ns", "ns", "sched_waking until switched in.") in table.columns
    assert "latency_ns [ns]" in repr(table)
    for name in run._raw.names():
        assert all(meaning for _, _, meaning in run.df_event(name).columns), name


def test_a_table_that_was_not_kept_says_how_to_keep_it(run):
    with pytest.raises(wattif.WattifError, match=r"events=\[…, 'wattif_frequency'\]"):
        run.df_frequency_decisions()
    with pytest.raises(wattif.WattifError, match="sched_switch"):
        wattif.run("server", events=["sched_swich"], **HERE)
    more = wattif.run("server", events=["wattif_frequency", "wattif_placement"], **HERE)
    assert more.digest == run.digest
    # A CPU's sum: for a moment beyond 1024, since threads bring theirs along.
    assert 0 < pl.DataFrame(more.df_frequency_decisions())["util_avg"].max() < 2048
    assert len(more.df_event("wattif_placement")) > 0


def test_settings_seeds_and_reprs(run):
    other = wattif.run("server", seed=2, set={"cpuidle": "teo", "features.WA_BIAS": False}, **HERE)
    assert run.digest != other.digest
    assert other["spec"]["set"] == {"cpuidle": "teo", "features.WA_BIAS": "false"}
    assert "linux-5.6" in repr(run) and run._repr_html_().startswith("<pre>")
    assert wattif.run("server", platform="hikey620", duration=0.05)["spec"]["duration_s"] == 0.05


def test_bad_input_says_what_is_near():
    for arguments, part in [
        (dict(platform="hikey62"), "hikey620"),
        (dict(kernel="linux-5.5"), "linux-5.4"),
        (dict(set={"schedutil.rate_limit": 5}), "rate_limit_us"),
        (dict(duration="5 parsecs"), "no unit of time"),
        (dict(seed=-1), "seed -1: a seed is a whole number"),
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
    table = pl.DataFrame(compared.df())
    html = compared._repr_html_()
    assert html.count("<tr>") == 1 + len(compared.df()) and "<th>effect d</th>" in html and "4 seeds: mean" in html
    row = table.filter(metric="energy.total", kernel="linux-5.6").to_dicts()[0]
    said = next(m for m in compared["metrics"] if m["name"] == "energy.total")
    assert [row["lo"], row["hi"]] == said["per_kernel"][1]["ci95"] and row["ratio"] == said["ratio_to_first"][1]["value"]
    explained = wattif.explain("server", *kernels, platform="hikey620", duration="100ms", seeds=4, rerun="50ms")
    assert 0 < len(explained.summary) <= 10
    assert sum(r["difference_fj"] for r in explained["energy"]["by_task"]) == explained["energy"]["difference_fj"]
    with pytest.raises(wattif.WattifError, match="two kernels"):
        wattif.compare("server", ["linux-5.3"])


def test_the_cover_letter_says_what_reproduces_it():
    asked = dict(platform="hikey620", seeds=[3, 5], duration="50ms", set={"cpuidle": "teo"})
    compared = wattif.compare("server", ["linux-5.3", "linux-5.6"], **asked)
    letter, spec = compared.markdown, compared["spec"]
    assert all(digest in letter for digest in spec["digests"] + spec["hashes_of_first_seed"])
    again = next(line.removeprefix("again     ") for line in letter.splitlines() if line.startswith("again "))
    assert "seeds=[3, 5]" in again and eval(again)["spec"]["digests"] == spec["digests"]


def test_runs_are_compared_by_what_they_ran(run):
    teo = wattif.run("server", set={"cpuidle": "teo"}, **HERE)
    compared = wattif.compare(run, teo, seeds=4)
    assert compared["kernels"] == ["linux-5.6", "linux-5.6+cpuidle=teo"]
    assert compared["spec"]["hashes_of_first_seed"] == [run["spec"]["hash"], teo["spec"]["hash"]]
    explained = wattif.explain(run, teo, seeds=0)
    assert [explained["a"]["digest"], explained["b"]["digest"]] == [run.digest, teo.digest]
    for call in (wattif.compare, wattif.explain):
        with pytest.raises(TypeError):
            call(run, "linux-5.3")
        for said in (dict(platform="hikey960x"), dict(duration="1s"), dict(set={"hz": 100}), dict(dialect="rtapp")):
            with pytest.raises(TypeError, match=f"the runs say {next(iter(said))}; leave that out"):
                call(run, teo, **said)
    for said in (dict(b="linux-6.1"), dict(seed=2)):
        with pytest.raises(TypeError, match=f"the runs say {next(iter(said))}; "):
            wattif.explain(run, teo, **said)
    rows = wattif.compare(run, teo, seeds=1, metrics="energy.total", set={}).markdown
    assert ", seeds=1, metrics=['energy.total'])" in rows and "metrics=" not in compared.markdown


def test_runs_that_differ_in_more_than_the_kernel_are_refused_with_the_difference(run):
    for other, difference in [
        (dict(HERE, platform="hikey960"), "platform.name: \"hikey620\" and \"hikey960\""),
        (dict(HERE, set={"workload.side_threads_per_cpu": 0}), "workload."),
        (dict(HERE, duration="100ms"), "duration"),
    ]:
        unlike = wattif.run("server", events=[], **other)
        for call in (wattif.compare, wattif.explain):
            with pytest.raises(wattif.WattifError, match="differ in more than the kernel") as refusal:
                call(run, unlike)
            assert difference in str(refusal.value)

    class Own(wattif.IdleGovernor):
        name = "own_for_compare"

        def select(self, *_):
            return 0

    own = wattif.run("server", **HERE | dict(set={"cpuidle": "own_for_compare"}))
    with pytest.raises(wattif.WattifError, match="only wattif.run can use it"):
        wattif.compare(run, own)


def test_metrics_that_do_not_exist_are_refused_before_anything_runs(store):
    for call in (
        lambda: wattif.compare("server", ["linux-5.3", "linux-5.6"], metrics=["energy.totl"]),
        lambda: wattif.explain("server", "linux-5.3", "linux-5.6", metrics=["energy.totl"]),
        lambda: wattif.sweep("server", {"cpuidle": ["menu", "teo"]}, metrics=["energy.totl"], store=store),
        lambda: wattif.sweep("server", {"cpuidle": ["menu", "teo"]}, pareto=("energy.totl", "slices"), store=store),
    ):
        with pytest.raises(wattif.WattifError, match="energy.total"):
            call()
    assert not store.exists()


def test_tables_in_a_notebook(run):
    html = run.df_tasks_runtime()._repr_html_()
    assert html.count("<tr>") == 1 + min(10, len(run.df_tasks_runtime())) and "runtime_s [s]" in html
    assert f"<p>{len(run.df_wakeup_latency())} rows</p>" in run.df_wakeup_latency()._repr_html_()


def test_too_few_seeds_have_no_interval():
    compared = wattif.compare("server", ["linux-5.3", "linux-5.6"], platform="hikey620", seeds=3, duration="50ms")
    assert all(k["ci95"] is None for m in compared["metrics"] for k in m["per_kernel"])
    assert "3 seeds are too few for an interval" in repr(compared)


SYSTRACE = """\
          <idle>-0     [000] d..3   100.000000: sched_waking: comm=app pid=10 prio=120 target_cpu=000
          <idle>-0     [000] d..3   100.000010: sched_wakeup: comm=app pid=10 prio=120 target_cpu=000
          <idle>-0     [000] d..3   100.000020: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=app next_pid=10 next_prio=120
             app-10    [000] d..3   100.002020: sched_switch: prev_comm=app prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
"""


def test_replay(tmp_path):
    trace = tmp_path / "trace.txt"
    trace.write_text("".join(SYSTRACE.replace("100.", f"{100 + i}.") for i in range(5)))
    recorded = wattif.replay(str(trace))
    assert recorded["schema"] == "wattif.recorded/1" and recorded["metrics"]["wakeup_latency_us"]["count"] == 5
    replayed = wattif.replay(str(trace), ["linux-5.6", "linux-6.12"], seeds=4, policies={"app": "SCHED_BATCH"})
    assert replayed["schema"] == "wattif.replay/1" and len(replayed["comparison"]["kernels"]) == 2
    assert "figures are reproduced" in repr(replayed)
    with pytest.raises(wattif.WattifError, match="SCHED_IDLE"):
        wattif.replay(str(trace), ["linux-5.6"], policies={"app": "idle"})
    with pytest.raises(wattif.WattifError, match="nowhere"):
        wattif.replay("nowhere.txt")


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


def long_replay(folder):
    trace = folder / "long.txt"
    trace.write_text("".join(SYSTRACE.replace("100.", f"{100 + i}.") for i in range(2000)))
    return wattif.replay(str(trace), ["linux-5.6", "linux-6.12"], seeds=10_000)


def long_execution(_):
    run = wattif.run("server", platform="hikey620", duration="1ms", events=[])
    content = run["spec"]["content"] | {"duration": 7_200_000_000_000}
    return wattif._wattif.execute(json.dumps(content))


@pytest.mark.parametrize(
    "what",
    [
        lambda _: wattif.run("server", platform="hikey620", duration="7200s", events=[]),
        lambda _: wattif.compare("server", ["linux-5.3", "linux-5.6"], seeds=10_000, duration="2s"),
        long_replay,
        long_execution,
    ],
    ids=["run", "compare", "replay", "execute"],
)
def test_ctrl_c_ends_it(what, tmp_path):
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        what(tmp_path)


def test_dialects(tmp_path):
    """The last of two keys of one name, or both."""
    app = tmp_path / "app.json"
    app.write_text('{"tasks": {"a": {"loop": 1, "run": 1000, "run": 2000}}}')

    def work(**how):
        run = wattif.run(str(app), platform="hikey620", kernel="linux-6.12", duration="50ms", **how)
        return round(run["metrics"]["work_s"] * 1e3 if "work_s" in run["metrics"] else run["tasks"][0]["work_s"] * 1e3, 2)

    both = work()
    assert both == work(dialect="workgen") == pytest.approx(1.5 * work(dialect="rtapp"), rel=0.02)
    with pytest.raises(wattif.WattifError, match="workgen"):
        work(dialect="workgn")


def test_a_run_in_which_nothing_happened():
    run = wattif.run("server", platform="hikey620", duration="1us")
    assert run["slices"] == 0 and "server" in repr(run)
    assert "<pre" in run._repr_html_()


def test_import_needs_nothing_else():
    code = "import sys, wattif; print([m for m in ('polars', 'pandas', 'optuna', 'numpy', 'pyarrow') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"

import pytest
import wattif

HERE = dict(platform="hikey620", kernel="linux-5.6", duration="100ms")


class Shallowest(wattif.IdleGovernor):
    name = "shallowest"

    def __init__(self):
        self.slept = 0

    def select(self, cpu, sleep_length_ns, delta_tick_ns, latency_req_ns, tick_stopped):
        return 0, False

    def reflect(self, cpu, entered, residency_ns):
        self.slept += residency_ns


class Full(wattif.CpufreqGovernor):
    name = "full"

    def start(self, cpus, min_khz, max_khz):
        self.max_khz = max_khz

    def update(self, now_ns, cpu, signals):
        assert signals[0].capacity > 0
        return self.max_khz


def test_an_idle_governor():
    run = wattif.run("server", set={"cpuidle": "shallowest"}, **HERE)
    states = {s["state"] for c in run["cpus"] for s in c["idle"] if s["usage"]}
    assert states == {0}
    assert run["spec"]["content"]["kernel"]["policies"]["cpuidle"].startswith("python:shallowest@")
    assert run["spec"]["hash"] != wattif.run("server", **HERE)["spec"]["hash"]


def test_a_governor_brings_its_own_kernel(tmp_path):
    """Nothing is left of the one that it replaces: one name of a run, one digest."""

    def run(cpufreq):
        profile = tmp_path / "k.toml"
        profile.write_text(f'name = "k"\ntitle = "k"\ninherits = "linux-6.12"\n[policies]\ncpufreq = "{cpufreq}"\n')
        found = wattif.run(
            "sleepers", platform="hikey960", kernel=str(profile), duration="100ms", set={"cpufreq": "full"}
        )
        return found["spec"]["hash"], found["digest"]

    assert run("schedutil") == run("performance")


def test_the_hash_of_a_governor_is_that_of_all_it_inherits():
    """Of the same name, so that nothing but the code tells them apart."""

    def governor(base_state, mixed_in):
        class Base(wattif.IdleGovernor):
            name = "inherited_base"

            def choose(self):
                return base_state

        class Mixin:
            def tick(self):
                return mixed_in

        class Derived(Mixin, Base):
            name = "inherited"

            def select(self, *_):
                return self.choose(), self.tick()

        run = wattif.run("server", set={"cpuidle": "inherited"}, platform="hikey620", duration="1ms", events=[])
        return run["spec"]["content"]["kernel"]["policies"]["cpuidle"]

    first = governor(0, True)
    assert first.startswith("python:inherited@") and first == governor(0, True)
    assert len({first, governor(1, True), governor(0, False)}) == 3


def test_a_frequency_governor():
    run = wattif.run("server", set={"cpufreq": "full"}, **HERE)
    assert run["domains"][0]["transitions"] <= 2
    highest = run["domains"][0]["freq_residency"][-1]
    assert highest["s"] > 0.09


def test_an_exception_in_a_callback_ends_the_run():
    class Broken(wattif.IdleGovernor):
        name = "broken"

        def select(self, *_):
            raise KeyError("oops")

    with pytest.raises(KeyError, match="oops"):
        wattif.run("server", set={"cpuidle": "broken"}, **HERE)


def test_a_state_that_does_not_exist_is_refused():
    class Deep(wattif.IdleGovernor):
        name = "deep"

        def select(self, *_):
            return 9

    with pytest.raises(ValueError, match="select chose state 9 of CPU"):
        wattif.run("server", set={"cpuidle": "deep"}, **HERE)


IDLE, POWER9 = "schbench:workers=2", dict(platform="power9_2s16c", events=[])


class Poller(wattif.IdleGovernor):
    name = "poller"
    calls = 0

    def select(self, *_):
        Poller.calls += 1
        return 0, False


def test_one_who_only_polls_is_not_asked_for_every_ten_microseconds():
    """128 CPUs, nearly all idle, with a polling state: at the kernel's limit of 10 µs that is 1.2 million calls."""
    Poller.calls = 0
    run = wattif.run(IDLE, set={"cpuidle": "poller"}, **POWER9, duration="100ms")
    assert {s["state"] for c in run["cpus"] for s in c["idle"] if s["usage"]} == {0}
    assert 1_000 < Poller.calls < 60_000


def test_a_governor_may_say_how_long_it_polls():
    class Steady(Poller):
        name = "steady"

        def poll_limit_ns(self, cpu, poll_time_ns):
            return poll_time_ns

    Poller.calls = 0
    kernels = wattif.run(IDLE, set={"cpuidle": "steady"}, **POWER9, duration="5ms")
    steady, Poller.calls = Poller.calls, 0
    wattif.run(IDLE, set={"cpuidle": "poller"}, **POWER9, duration="5ms")
    assert steady > 5 * Poller.calls
    assert kernels["spec"]["content"]["kernel"]["policies"]["cpuidle"].startswith("python:steady@")


def test_a_port_of_a_built_in_governor_keeps_the_same_clocks():

    class Lowest(wattif.CpufreqGovernor):
        name = "lowest"

        def start(self, cpus, min_khz, max_khz):
            self.min_khz = min_khz

        def update(self, now_ns, cpu, signals):
            return self.min_khz

    ours = wattif.run("server", set={"cpufreq": "lowest"}, **HERE)
    theirs = wattif.run("server", set={"cpufreq": "powersave"}, **HERE)
    lowest = [d["freq_residency"][0]["s"] for d in ours["domains"]]
    assert lowest == pytest.approx([d["freq_residency"][0]["s"] for d in theirs["domains"]], rel=0.02)


def test_only_run_uses_them(store):
    mine = dict(set={"cpuidle": "shallowest"})
    for call in (
        lambda: wattif.compare("server", ["linux-5.3", "linux-5.6"], **mine),
        lambda: wattif.explain("server", "linux-5.3", "linux-5.6", **mine),
        lambda: wattif.sweep("server", {"schedutil.rate_limit_us": [500]}, store=store, **mine),
        lambda: wattif.sweep("server", {"cpuidle": ["menu", "shallowest"]}, store=store),
        lambda: wattif.tune("server", {"cpufreq": "schedutil,full"}, store=store),
    ):
        with pytest.raises(wattif.WattifError, match="written in Python: only wattif.run can use it"):
            call()
    assert not store.exists()


def test_a_built_in_name_stays_what_it_is():
    for base, taken in [(wattif.IdleGovernor, "menu"), (wattif.CpufreqGovernor, "schedutil")]:
        with pytest.raises(wattif.WattifError, match=f"Mine: `{taken}` is the name of a built-in policy"):
            type("Mine", (base,), {"name": taken})
    run = wattif.run("server", set={"cpuidle": "menu"}, events=[], **HERE)
    assert run["spec"]["content"]["kernel"]["policies"]["cpuidle"] == "menu"


def test_a_governor_needs_a_name():
    with pytest.raises(TypeError, match="needs a class attribute"):

        class Nameless(wattif.IdleGovernor):
            pass

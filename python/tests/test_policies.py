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


def test_a_governor_needs_a_name():
    with pytest.raises(TypeError, match="needs a class attribute"):

        class Nameless(wattif.IdleGovernor):
            pass

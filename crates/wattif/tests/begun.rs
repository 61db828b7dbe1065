//! Threads that were there before the start, as a recording finds them: they are not new, and keep the utilisation they had.

mod runs;

use runs::under;
use wattif::run::Simulator;
use wattif_model::run::{RunSpec, Runner};
use wattif_model::trace::{Event, Interest, Observer};
use wattif_model::{CpuId, DomainId, Ns, Pid};

/// Four threads with 300 µs of work every 20 ms, on small CPUs; each was on a CPU of its own with a utilisation, or is new.
fn spec(before: Option<u16>) -> RunSpec {
    let text = r#"{ "tasks": { "t": { "instance": 4, "loop": -1, "cpus": [0, 1, 2, 3], "run": 300,
        "timer": { "ref": "unique", "period": 20000, "mode": "absolute" } } } }"#;
    let mut spec = under("hikey960", "linux-6.12", text, &[]);
    spec.platform.noise.housekeeping.clear();
    for task in &mut spec.workload.tasks {
        (task.prev_cpu, task.prev_util) = (before.map(|_| CpuId(2)), before.unwrap_or(0));
    }
    spec
}

/// Threads told as new, the CPU on which the first of them began, and the highest clock of the small CPUs in the first 50 ms, MHz.
#[derive(Debug, Default)]
struct Seen {
    new: u32,
    ran_on: Vec<CpuId>,
    most_mhz: u32,
}

impl Observer for Seen {
    fn interest(&self) -> Interest {
        Interest::ALL
    }
    fn event(&mut self, at: Ns, cpu: CpuId, event: &Event) {
        match *event {
            Event::SchedWakeupNew { pid, .. } if (1..=4).contains(&pid.0) => self.new += 1,
            Event::SchedSwitch { next_pid: Pid(1), .. } if self.ran_on.is_empty() => self.ran_on.push(cpu),
            Event::CpuFrequency { khz, domain: DomainId(0), .. } if at < Ns::from_ms(50) => {
                self.most_mhz = self.most_mhz.max(khz / 1_000);
            }
            _ => {}
        }
    }
}

fn seen(before: Option<u16>) -> Seen {
    let mut seen = Seen::default();
    Simulator.run(&spec(before), &mut [&mut seen]).unwrap();
    seen
}

#[test]
fn who_was_there_before_is_not_new() {
    let (new, old, busy) = (seen(None), seen(Some(8)), seen(Some(400)));
    assert_eq!((new.new, old.new, busy.new), (4, 0, 0));
    assert_eq!(old.ran_on, [CpuId(2)], "there it was");
    assert!(old.most_mhz < new.most_mhz, "a new thread counts half a CPU: {old:?} {new:?}");
    assert!(old.most_mhz < busy.most_mhz, "what it did before counts: {old:?} {busy:?}");
}

//! Threads that were there before the start, as a recording finds them: they are not new, and keep the utilisation they had.

mod runs;

use runs::under;
use wattif::run::Simulator;
use wattif_model::run::{RunSpec, Runner};
use wattif_model::trace::{Event, Interest, Observer};
use wattif_model::workload::{Amount, Op, QueueSpec};
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

/// Threads told as new, when the first of all was woken, the CPU on which the first thread began, and the highest clock of the small CPUs
/// in the first 50 ms, MHz.
#[derive(Debug, Default)]
struct Seen {
    new: u32,
    woken: Option<Ns>,
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
            Event::SchedWaking { pid, .. } if (1..=4).contains(&pid.0) => self.woken = self.woken.or(Some(at)),
            Event::SchedSwitch { next_pid: Pid(1), .. } if self.ran_on.is_empty() => self.ran_on.push(cpu),
            Event::CpuFrequency { khz, domain: DomainId(0), .. } if at < Ns::from_ms(50) => {
                self.most_mhz = self.most_mhz.max(khz / 1_000);
            }
            _ => {}
        }
    }
}

fn seen(before: Option<u16>) -> Seen {
    seen_of(&spec(before))
}

fn seen_of(spec: &RunSpec) -> Seen {
    let mut seen = Seen::default();
    Simulator.run(spec, &mut [&mut seen]).unwrap();
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

#[test]
fn who_begins_with_a_wait_is_in_it() {
    let begins = |first: Op, before| {
        let mut spec = spec(before);
        spec.workload.queues = vec![QueueSpec::new("requests")];
        for task in &mut spec.workload.tasks {
            task.attr.nice = -5;
            task.program.ops = vec![first.clone(), Op::Run(Amount::Fixed(300_000))];
        }
        seen_of(&spec)
    };
    let sleep = Op::Sleep(Amount::Fixed(5_000_000));
    let old = begins(sleep.clone(), Some(8));
    assert!(old.woken >= Some(Ns::from_ms(5)) && old.ran_on == [CpuId(2)], "{old:?}");
    let waits = begins(Op::Get(0), Some(8));
    assert_eq!((waits.woken, waits.ran_on.len()), (None, 0), "nobody asks it for anything");
    let new = begins(sleep, None);
    assert_eq!((new.new, new.ran_on.len()), (4, 1), "a new one is woken to go to sleep");
}

//! `server`: a latency-sensitive server beside a video-encoding side job.
//!
//! Requests arrive at a Poisson rate and wait in one queue; threads of a pool take them, compute (log-normal service time)
//! and answer. The network card's interrupt thread (SCHED_FIFO 50, as `irq/…` threads are) brings them in at their own
//! times, however slow the server is: an overload shows as a growing queue. Their rate is a share of what the machine can do
//! with all its CPUs busy: slow CPUs count for less, and hardware threads of a core for what they leave each other. Where
//! they come less than 2 µs apart on average, the interrupt thread works 0.5 µs for each (estimated): what it cannot keep up
//! with stays outside. The encoder has one thread per CPU, each encoding slices of a frame without pause. A request's
//! latency runs from its arrival to its answer; the side job's throughput is slices per second.

use super::dist::Dist;
use super::forever;
use super::models::{CAPACITY, CPUS, Model, Param, Params, SIDE_POLICY};
use super::{Amount, GroupSpec, Op, Policy, QueueSpec, SchedAttr, TaskSpec, TimerSpec, Workload};
use crate::units::Ns;

/// The model.
pub const MODEL: Model = Model {
    name: "server",
    title: "a server with Poisson arrivals on most CPUs, and a video encoder as side job",
    params: &[
        CPUS,
        CAPACITY,
        Param {
            name: "load_pct",
            default: "70",
            range: Some((1, 1000)),
            words: &[],
            doc: "work of all requests, in percent of what `cpus` of this `capacity` do at full speed; gives the mean arrival rate",
        },
        Param {
            name: "service_us",
            default: "2500",
            range: Some((1, 10_000_000)),
            words: &[],
            doc: "median work of a request at full speed; sigma of its logarithm is 0.5",
        },
        Param {
            name: "workers_per_cpu",
            default: "4",
            range: Some((1, 64)),
            words: &[],
            doc: "threads of the pool, per CPU: so many requests are served at once",
        },
        Param {
            name: "side_threads_per_cpu",
            default: "1",
            range: Some((0, 64)),
            words: &[],
            doc: "threads of the encoder, per CPU; 0: no side job",
        },
        Param { name: "slice_us", default: "4000", range: Some((1, 10_000_000)), words: &[], doc: "work per slice" },
        SIDE_POLICY,
    ],
    source: include_str!("server.rs"),
    build,
};

/// σ of the logarithm of a request's work, in 1/1000; its mean is then 1.1331 times the median.
const SIGMA_MILLI: u32 = 500;
const MEAN_OF_MEDIAN_E4: u64 = 11_331;

/// Requests that come more densely than this cost their interrupt thread so much work each. Without it, what is caught up after
/// the throttling of real-time threads (50 ms) could be 100,000 of them, and would consume no time.
const DENSE_NS: u64 = 2_000;
const RECEIVE_NS: u64 = 500;

fn build(p: &Params) -> Workload {
    let cpus = p.int("cpus");
    let median = p.int("service_us") * 1000;
    // A period of the timer per request; one that was missed is caught up, so that arrivals do not depend on the server.
    let load = cpus * p.int("load_pct") * p.int("capacity");
    let mean = (median * MEAN_OF_MEDIAN_E4 * 1024 / 100 / load).max(1);
    let between = Dist::Exponential { mean };
    let mut arrivals = vec![
        Op::Timer { timer: 0, period: Amount::Random(between), absolute: true },
        Op::Put { queue: 0, forward: false },
    ];
    if mean < DENSE_NS {
        arrivals.push(Op::Run(Amount::Fixed(RECEIVE_NS)));
    }
    let arrivals = forever(arrivals);
    let service = Dist::LogNormal { median, sigma_milli: SIGMA_MILLI };
    let serve = forever(vec![Op::Get(0), Op::Run(Amount::Random(service)), Op::Mark(0)]);
    let interrupt = SchedAttr { policy: Policy::Fifo, rt_priority: 50, ..SchedAttr::default() };
    let side = cpus * p.int("side_threads_per_cpu");
    let mut tasks = vec![
        task("irq/network", 1, interrupt, arrivals),
        task("worker", cpus * p.int("workers_per_cpu"), SchedAttr::default(), serve),
    ];
    if side > 0 {
        let slice = Dist::LogNormal { median: p.int("slice_us") * 1000, sigma_milli: 200 };
        let encode = forever(vec![Op::MarkBegin, Op::Run(Amount::Random(slice)), Op::Mark(1)]);
        tasks.push(task("encoder", side, p.side_attr(), encode));
    }
    Workload {
        name: MODEL.name.into(),
        duration: Some(Ns::from_s(10)),
        tasks,
        timers: vec![TimerSpec { name: "arrivals".into(), shared: false }],
        queues: vec![QueueSpec::new("requests")],
        marks: vec!["request".into(), "slice".into()],
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}

/// `instances` threads on any CPU.
pub(super) fn task(name: &str, instances: u64, attr: SchedAttr, ops: Vec<Op>) -> TaskSpec {
    TaskSpec { instances: instances as u32, attr, ..TaskSpec::new(name, ops) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 CPUs at 70 %: 5.6 s of work a second, in requests of 2.833 ms; half of that where they are half as fast.
    #[test]
    fn arrivals_make_the_load() {
        let full = [("8", "70", "1024", 505_848), ("8", "35", "1024", 1_011_696), ("64", "70", "1024", 63_231)];
        for (cpus, load, capacity, mean_ns) in full.into_iter().chain([("8", "70", "512", 1_011_696)]) {
            let set = [("cpus", cpus), ("load_pct", load), ("capacity", capacity)];
            let set = set.map(|(name, value)| (name.to_string(), value.to_string()));
            let built = MODEL.workload(&set).unwrap();
            let Op::Timer { period: Amount::Random(ref d), .. } = built.tasks[0].program.ops[1] else { panic!() };
            assert_eq!(*d, Dist::Exponential { mean: mean_ns });
            assert_eq!(built.tasks[1].instances, 4 * cpus.parse::<u32>().unwrap());
        }
    }

    /// Dense arrivals that cost nothing would be caught up in no time.
    #[test]
    fn dense_requests_cost_their_interrupt() {
        let arrivals = |service_us: &str| {
            let built = MODEL.workload(&[("service_us".into(), service_us.into())]).unwrap();
            built.tasks[0].program.ops.contains(&Op::Run(Amount::Fixed(RECEIVE_NS)))
        };
        assert!(arrivals("1") && arrivals("2") && !arrivals("100") && !arrivals("2500"));
    }

    #[test]
    fn alone() {
        let built = MODEL.workload(&[("side_threads_per_cpu".into(), "0".into())]).unwrap();
        assert_eq!(built.tasks.len(), 2);
    }
}

//! `androbench`: AndroBench's storage tests: threads that read or write blocks, with a little CPU time for each.
//!
//! Sequential: one thread, large blocks, the device is the limit. Random: eight threads of 4 KiB each; a read takes the
//! device about 100 µs and the CPU 20 to 60 µs, so that threads packed on one CPU wait for each other; writes spend more
//! time in the device. `throughput.io` is what the benchmark prints, in blocks per second.
//!
//! Calibrated: device times (range tried: half to twice as much) and CPU work of a block (range tried: 10 to 80 µs at full
//! speed). With 15 to 25 µs a little CPU carries several such threads by their average, and hardly by what they need at
//! once; with more, they outgrow little CPUs under every tracker.
//!
//! Sources: the four tests, their block sizes and eight threads are the defaults that the benchmark shows, not checked
//! against a copy of it; that a tracker which counts waiting helps the random ones is in "WALT vs PELT: Redux" (2017). What
//! a block costs a CPU, no source says.

use super::dist::Dist;
use super::forever;
use super::frames::nice;
use super::models::{Model, Params, number, word};
use super::server::task;
use super::{Amount, DeviceSpec, GroupSpec, Op, Workload};
use crate::units::Ns;

/// The model.
pub const MODEL: Model = Model {
    name: "androbench",
    title: "AndroBench: sequential and random storage access by several threads",
    params: &[
        word("test", &["random_read", "random_write", "sequential_read", "sequential_write"], "which of its tests"),
        number("threads", "8", (1, 256), "threads of a random test"),
        number(
            "cpu_us",
            "22",
            (1, 10_000),
            "median work per block of a random test at full speed of the platform's calibration CPU, µs",
        ),
    ],
    source: include_str!("androbench.rs"),
    build,
};

fn build(p: &Params) -> Workload {
    let test = p.word("test");
    // Threads, work of a block, time of the device, work that no frequency makes faster; ns.
    let (threads, cpu, device, copy) = match test {
        "random_read" => (p.int("threads"), p.int("cpu_us") * 1_000, 100_000, 0),
        "random_write" => (p.int("threads"), p.int("cpu_us") * 1_000, 250_000, 0),
        "sequential_read" => (1, 60_000, 700_000, 150_000),
        _ => (1, 60_000, 2_500_000, 150_000),
    };
    let work = Op::Run(Amount::Random(Dist::LogNormal { median: cpu, sigma_milli: 300 }));
    let service = Amount::Random(Dist::LogNormal { median: device, sigma_milli: 200 });
    let mut body = vec![Op::MarkBegin, work, Op::Device { device: 0, service }];
    if copy > 0 {
        body.push(Op::RunInsensitive(Amount::Fixed(copy)));
    }
    body.push(Op::Mark(0));
    Workload {
        name: format!("androbench_{test}"),
        duration: Some(Ns::from_s(10)),
        tasks: vec![task("io", threads, nice(0), forever(body))],
        devices: vec![DeviceSpec { name: "flash".into(), servers: 8, iowait: true }],
        marks: vec!["io".into()],
        groups: vec![GroupSpec::root()],
        ..Workload::default()
    }
}

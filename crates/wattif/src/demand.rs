//! What a workload asks for in a second, as far as its clocks and queues tell it, beside what a machine can do: parameters that
//! are each within their range can ask together for what no machine does.

use crate::load::Machine;
use wattif_lab::table::number;
use wattif_model::workload::dist::Dist;
use wattif_model::workload::{Amount, Op, TaskSpec, Workload};

/// One round of an endless program, ns and counts.
#[derive(Default)]
struct Round {
    /// By its own clocks.
    period: f64,
    work: f64,
    /// Device and time of service.
    devices: Vec<(usize, f64)>,
    /// Queue and tokens.
    gets: Vec<(u32, f64)>,
    puts: Vec<(u32, f64)>,
}

/// What is asked for beyond what `machine` does at full speed, a sentence each: what is asked, what is possible. Random amounts
/// count with no more than their mean, and threads whose rounds nothing clocks not at all.
pub fn beyond(workload: &Workload, machine: Machine) -> Vec<String> {
    let rounds: Vec<Option<Round>> = workload.tasks.iter().map(round).collect();
    let rates = rates(workload, &rounds);
    let known =
        || workload.tasks.iter().zip(&rounds).zip(&rates).filter_map(|((t, r), rate)| Some((t, r.as_ref()?, (*rate)?)));
    let (one, all) = machine.speed();
    let figure = |x: f64| number(x, 3);
    let mut told = Vec::new();
    for (task, round, rate) in known() {
        let each = rate * round.work / 1e9 / f64::from(task.instances.max(1));
        if each > one {
            told.push(format!(
                "each thread of `{}` is asked for {} s of work a second; the fastest CPU does {} at full speed",
                task.name,
                figure(each),
                figure(one)
            ));
        }
    }
    for (at, device) in workload.devices.iter().enumerate() {
        let of = |round: &Round| round.devices.iter().filter(|(d, _)| *d == at).map(|(_, ns)| ns).sum::<f64>();
        let asked: f64 = known().map(|(_, round, rate)| rate * of(round) / 1e9).sum();
        if asked > f64::from(device.servers) {
            told.push(format!(
                "device `{}` is asked for {} s of service a second; it serves {} at a time",
                device.name,
                figure(asked),
                device.servers
            ));
        }
    }
    let work: f64 = known().map(|(_, round, rate)| rate * round.work / 1e9).sum();
    if work > all {
        let asked = figure(work);
        told.push(format!(
            "all threads are asked for {asked} s of work a second; the machine does {} at full speed",
            figure(all)
        ));
    }
    told
}

/// `None`: no endless loop, or one whose rounds differ.
fn round(task: &TaskSpec) -> Option<Round> {
    let ops = &task.program.ops;
    let Some(Op::Loop { count: None, end }) = ops.first() else { return None };
    let mut round = Round::default();
    let mut times = vec![(*end as usize, 1.0)];
    for (at, op) in ops.iter().enumerate().take(*end as usize).skip(1) {
        times.retain(|(end, _)| at < *end);
        let n: f64 = times.iter().map(|(_, n)| n).product();
        match op {
            Op::Loop { count: Some(count), end } => times.push((*end as usize, *count as f64)),
            Op::Loop { count: None, .. } | Op::Jump(_) | Op::Drain { .. } | Op::TakeWork { .. } | Op::Exit => {
                return None;
            }
            Op::Run(work) | Op::RunInsensitive(work) => round.work += n * least(work),
            Op::Timer { period, .. } => round.period += n * least(period),
            Op::Vsync { period, .. } => round.period += n * *period as f64,
            Op::Device { device, service, .. } => round.devices.push((*device as usize, n * least(service))),
            Op::Get(queue) | Op::SpinThenBlock { queue, .. } => round.gets.push((*queue, n)),
            Op::Put { queue, .. } => round.puts.push((*queue, n)),
            _ => {}
        }
    }
    Some(round)
}

/// Rounds a second of all threads of each task: by a clock of its own, or by the tokens that others put into its queue.
fn rates(workload: &Workload, rounds: &[Option<Round>]) -> Vec<Option<f64>> {
    let mut rates: Vec<Option<f64>> = vec![None; rounds.len()];
    for _ in 0..rounds.len() {
        let into = |queue: u32| -> f64 {
            let put = |(round, rate): (&Option<Round>, &Option<f64>)| {
                let tokens = round.iter().flat_map(|r| &r.puts).filter(|(q, _)| *q == queue).map(|(_, n)| n);
                rate.unwrap_or(0.0) * tokens.sum::<f64>()
            };
            rounds.iter().zip(&rates).map(put).sum()
        };
        let of = |(task, round): (&TaskSpec, &Option<Round>)| {
            let round = round.as_ref()?;
            if round.period > 0.0 {
                return Some(f64::from(task.instances) * 1e9 / round.period);
            }
            let queue = round.gets.first()?.0;
            let taken: f64 = round.gets.iter().filter(|(q, _)| *q == queue).map(|(_, n)| n).sum();
            Some(into(queue) / taken).filter(|rate| *rate > 0.0)
        };
        let next = workload.tasks.iter().zip(rounds).map(of).collect();
        if rates == next {
            break;
        }
        rates = next;
    }
    rates
}

/// The mean, or what is surely below it.
fn least(amount: &Amount) -> f64 {
    match amount {
        Amount::Fixed(ns) => *ns as f64,
        Amount::Random(Dist::Uniform { lo, hi }) => (*lo as f64 + *hi as f64) / 2.0,
        Amount::Random(Dist::Exponential { mean }) => *mean as f64,
        Amount::Random(Dist::LogNormal { median, .. }) => *median as f64,
        Amount::Random(Dist::Pareto { scale, .. }) => *scale as f64,
        Amount::Random(Dist::Sequence { values } | Dist::Choice { values }) => {
            values.iter().map(|v| *v as f64).sum::<f64>() / values.len().max(1) as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::load::workload;
    use crate::settings::Settings;
    use wattif_formats::rtapp::Dialect;
    use wattif_model::workload::models::MODELS;

    fn told(name: &str, cpus: usize) -> Vec<String> {
        let found = workload(name, cpus, Dialect::Workgen, &Settings::default()).unwrap().findings.diagnostics;
        found.into_iter().filter(|d| d.code == "model::W02").map(|d| d.message).collect()
    }

    #[test]
    fn what_no_machine_does_is_told() {
        for (name, parts) in [
            ("video:feeder_us=100000,workers=64,worker_us=100000", ["`feeder` is asked for 6.00 s", "`worker` is"]),
            ("game:fps=240,gpu_us=1000000", ["device `gpu` is asked for 240 s", "serves 1 at a time"]),
            ("phone:frame_us=1000,ui_us=1000000", ["`ui` is asked for 1000 s", "CPU does 1.00 at full speed"]),
            ("server:load_pct=1000", ["all threads are asked for", "the machine does 8.00 at full speed"]),
        ] {
            let told = told(name, 8).join("\n");
            parts.iter().for_each(|part| assert!(told.contains(part), "{name}: {part}: {told}"));
        }
    }

    #[test]
    fn what_a_machine_does_is_not() {
        for name in ["video:fps=120", "game:fps=60", "phone:ui_us=2000", "server:load_pct=90", "hogs:tasks=64"] {
            assert_eq!(told(name, 8), Vec::<String>::new(), "{name}");
        }
        for model in MODELS {
            assert_eq!(told(model.name, 8), Vec::<String>::new(), "{}", model.name);
        }
    }
}

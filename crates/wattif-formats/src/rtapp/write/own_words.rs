//! The workload again, without what can be said otherwise in rt-app's words.

use super::SERIES;
use wattif_model::run::MAX_OPS_WITHOUT_TIME;
use wattif_model::workload::dist::Dist;
use wattif_model::workload::{Amount, Op, SemaphoreSpec, TaskSpec, Workload};

/// The same, without the semaphores that begin above 0 and the short series that rt-app has no word for.
pub(super) fn in_its_words(workload: &Workload) -> Workload {
    let mut workload = workload.clone();
    for task in &mut workload.tasks {
        if let Some(ops) = series_written_out(&task.program.ops) {
            task.program.ops = ops;
        }
    }
    let taken = |(i, _): &(usize, &SemaphoreSpec)| {
        // Not those of a background that was left out.
        workload.tasks.iter().any(|t| t.program.ops.contains(&Op::SemWait(*i as u32)))
    };
    let full = workload.semaphores.iter().enumerate().filter(taken).map(|(i, s)| (i as u32, s.initial));
    let givers = givers(full).into_iter().map(|ops| TaskSpec::new("tokens", ops)).collect::<Vec<_>>();
    workload.tasks.extend(givers);
    workload
}

/// Posts of one thread, which take no time: a run takes a thread for stuck that goes on so for ever.
const POSTS: u32 = 10_000;
const _: () = assert!(2 * POSTS < MAX_OPS_WITHOUT_TIME, "a post and the loop around it");

/// Programs that post so often to each semaphore.
fn givers(full: impl Iterator<Item = (u32, u32)>) -> Vec<Vec<Op>> {
    let mut programs: Vec<Vec<Op>> = Vec::new();
    let mut room = 0;
    for (semaphore, mut left) in full {
        while left > 0 {
            if room == 0 {
                programs.push(Vec::new());
                room = POSTS;
            }
            let Some(ops) = programs.last_mut() else { break };
            let posts = left.min(room);
            let (begin, count) = (ops.len() as u32, Some(u64::from(posts)));
            ops.extend([Op::Loop { count, end: begin + 2 }, Op::SemPost(semaphore), Op::LoopEnd { begin }]);
            (left, room) = (left - posts, room - posts);
        }
    }
    programs
}

/// An endless program whose amounts come from series of one length: a round for each value.
fn series_written_out(ops: &[Op]) -> Option<Vec<Op>> {
    let [Op::Loop { count: None, .. }, body @ .., Op::LoopEnd { begin: 0 }] = ops else { return None };
    if body.iter().any(|op| matches!(op, Op::Loop { .. } | Op::Jump(_) | Op::TakeWork { .. })) {
        return None;
    }
    let mut lengths = body.iter().filter_map(|op| Some(series(op)?.len()));
    let n = lengths.next()?;
    if !(1..=SERIES).contains(&n) || lengths.any(|other| other != n) {
        return None;
    }
    let round =
        |i: usize| body.iter().map(move |op| series(op).map_or(op.clone(), |values| with_amount(op, values[i])));
    let rounds: Vec<Op> = (0..n).flat_map(round).collect();
    let begin = Op::Loop { count: None, end: rounds.len() as u32 + 1 };
    Some([vec![begin], rounds, vec![Op::LoopEnd { begin: 0 }]].concat())
}

/// The series that the amount of an op that is written as a time comes from.
fn series(op: &Op) -> Option<&[u64]> {
    let amount = match op {
        Op::Run(a) | Op::RunInsensitive(a) | Op::Sleep(a) => a,
        Op::Spin { wall: a, .. } | Op::Timer { period: a, .. } | Op::Device { service: a, .. } => a,
        _ => return None,
    };
    match amount {
        Amount::Random(Dist::Sequence { values }) => Some(values),
        _ => None,
    }
}

fn with_amount(op: &Op, ns: u64) -> Op {
    let mut op = op.clone();
    if let Op::Run(a) | Op::RunInsensitive(a) | Op::Sleep(a) | Op::Spin { wall: a, .. } = &mut op {
        *a = Amount::Fixed(ns);
    }
    if let Op::Timer { period: a, .. } | Op::Device { service: a, .. } = &mut op {
        *a = Amount::Fixed(ns);
    }
    op
}

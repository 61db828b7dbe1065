//! Threads that had one pid after each other: the kernel gives the number of a thread that has ended to a new one. In a recording
//! a pid is one thread, so that the later ones get numbers that the trace does not have.
//!
//! A thread has ended when it is switched out dead or says that it exits; who is then forked or woken for the first time under its
//! pid is another. So is who is just woken or switched in, though the fork is not in the trace, if the death is certain: one that exits
//! goes on until it is switched out dead, and a parked thread looks dead in some traces.
//!
//! The other way round, one thread may have two pids: who executes a program without being the first thread of its process gets the
//! number of that one, which ends for it. It keeps the first of its pids here.

use super::names::DEADLINE;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use wattif_model::trace::{Event, Placement, PrevState, Record, Recorded, RecordedThread};
use wattif_model::{Ns, Pid};

/// So many changes of names are kept.
pub(super) const RENAMED: usize = 1 << 20;

/// A thread got a name at a stamp.
pub(super) struct Renamed {
    pub at: u64,
    pub pid: u32,
    pub comm: String,
}

/// A thread has executed a program, and got another pid by that.
pub(super) struct Exec {
    pub at: u64,
    pub pid: u32,
    pub old: u32,
}

/// Stamps at which pids had SCHED_DEADLINE's priority.
pub(super) type Deadlines = HashMap<u32, Vec<u64>>;

/// The life of a thread whose pid another has had.
struct Life {
    /// The one before ended.
    after: u64,
    /// Its pid from here on.
    own: u32,
    /// It lived before, under that pid alone.
    goes_on: bool,
}

/// Gives threads that have the pid of one that has ended, and [begin](begins) there, pids of their own; the first of these, and how many.
/// Threads without a policy that were seen with SCHED_DEADLINE's priority in their life have that one. All have the last name of
/// their life: streams are read one after another, so that the last one read may be an early one.
pub(super) fn split(
    records: &mut [Record],
    threads: &mut BTreeMap<u32, RecordedThread>,
    begins: &[Begin],
    names: &[Renamed],
    deadlines: &Deadlines,
) -> Option<(u32, usize)> {
    let lives = renumber(records, threads, begins);
    let none = Vec::new();
    // Where some were not kept, the last one read is the better guess for a thread alone.
    let all = names.len() < RENAMED;
    let mut names: Vec<&Renamed> = names.iter().filter(|n| all || lives.contains_key(&n.pid)).collect();
    names.sort_by_key(|n| (n.pid, n.at));
    let named: BTreeSet<u32> = names.iter().map(|n| n.pid).chain(lives.keys().copied()).collect();
    // Those last that give a name to one who lived before.
    let goes_on = |pid: &u32| lives.get(pid).is_some_and(|lives| lives.iter().any(|life| life.goes_on));
    let (last, first): (Vec<u32>, Vec<u32>) = named.into_iter().partition(goes_on);
    for pid in first.into_iter().chain(last) {
        let own = names.partition_point(|n| n.pid < pid)..names.partition_point(|n| n.pid <= pid);
        name(threads, pid, lives.get(&pid).unwrap_or(&none), &names[own]);
    }
    processes(records, threads, &lives);
    for (pid, seen) in deadlines {
        let later = lives.get(pid).unwrap_or(&none);
        for at in seen {
            let own = later.iter().rev().find(|life| life.after < *at).map_or(*pid, |life| life.own);
            threads.entry(own).or_default().policy.get_or_insert(DEADLINE);
        }
    }
    let new = || lives.values().flatten().filter(|life| !life.goes_on).map(|life| life.own);
    Some((new().min()?, new().count()))
}

/// New pids into the records; the later lives of each pid, in order.
fn renumber(
    records: &mut [Record],
    threads: &BTreeMap<u32, RecordedThread>,
    begins: &[Begin],
) -> BTreeMap<u32, Vec<Life>> {
    let mut lives: BTreeMap<u32, Vec<Life>> = BTreeMap::new();
    if begins.is_empty() {
        return lives;
    }
    let mut highest = threads.keys().copied().max().unwrap_or(0);
    for r in records.iter_mut() {
        pids(&mut r.event).into_iter().flatten().for_each(|pid| highest = highest.max(pid.0));
    }
    let mut now: HashMap<Pid, Pid> = HashMap::new();
    let mut next = begins.iter().peekable();
    for (i, r) in records.iter_mut().enumerate() {
        while let Some(begin) = next.next_if(|begin| begin.record == i) {
            highest += u32::from(begin.was.is_none());
            let own = begin.was.map_or(Pid(highest), |was| now.get(&was).copied().unwrap_or(was));
            now.insert(begin.pid, own);
            let life = Life { after: begin.after, own: own.0, goes_on: begin.was.is_some() };
            lives.entry(begin.pid.0).or_default().push(life);
        }
        let of_event = pids(&mut r.event).into_iter().flatten();
        for pid in of_event.chain(&mut r.current) {
            *pid = now.get(pid).copied().unwrap_or(*pid);
        }
    }
    lives
}

/// A thread in the process of a pid that several have had is in that of the one who lived when it was first seen.
fn processes(records: &mut [Record], threads: &mut BTreeMap<u32, RecordedThread>, lives: &BTreeMap<u32, Vec<Life>>) {
    let of = |pid: u32, t: &RecordedThread| t.tgid != pid && lives.contains_key(&t.tgid);
    let mut unknown: HashMap<u32, u32> =
        threads.iter().filter(|(pid, t)| of(**pid, t)).map(|(pid, t)| (*pid, t.tgid)).collect();
    for r in records.iter_mut().take_while(|_| !lives.is_empty()) {
        let at = r.at.0;
        for pid in pids(&mut r.event).into_iter().flatten() {
            let Some(tgid) = unknown.remove(&pid.0) else { continue };
            // Who executes a program stays in its process.
            let life = lives[&tgid].iter().rev().find(|life| life.after < at && !life.goes_on);
            if let (Some(life), Some(thread)) = (life, threads.get_mut(&pid.0)) {
                thread.tgid = life.own;
            }
        }
    }
}

/// Where the life of a thread begins whose pid another has had.
pub(super) struct Begin {
    record: usize,
    pid: Pid,
    /// The end of the one before.
    after: u64,
    /// Its pid until then, if it lived before.
    was: Option<Pid>,
}

/// Where threads get another pid by an exec: behind the end of whose pid it was. The exec itself is told later, when the program is loaded.
fn handed_over(records: &[Record], old: &HashMap<(Ns, Pid), Pid>) -> Vec<Begin> {
    let (mut left, mut all) = (HashMap::new(), Vec::new());
    for (i, r) in records.iter().enumerate().take_while(|_| !old.is_empty()) {
        match r.event() {
            Some(&Event::SchedSwitch { prev_pid, prev_state: PrevState::Dead, .. }) => {
                left.insert(prev_pid, (i + 1, r.at.0));
            }
            Some(&(Event::SchedProcessFork { child_pid: pid, .. } | Event::SchedWakeupNew { pid, .. })) => {
                left.remove(&pid);
            }
            Some(&Event::SchedProcessExec { pid }) => {
                let Some(&was) = old.get(&(r.at, pid)) else { continue };
                let (record, after) = left.remove(&pid).unwrap_or((i, r.at.0.saturating_sub(1)));
                all.push(Begin { record, pid, after, was: Some(was) });
            }
            _ => {}
        }
    }
    all.sort_by_key(|begin| begin.record);
    all
}

/// All of them. Records are in order; of who was switched out dead at these stamps no one knows whether they were parked.
pub(super) fn begins(records: &[Record], may_live: &BTreeSet<(u64, Pid)>, execs: &[Exec]) -> Vec<Begin> {
    let (mut dead, mut exiting, mut all) = (HashMap::<Pid, End>::new(), HashSet::new(), Vec::new());
    let old: HashMap<(Ns, Pid), Pid> = execs.iter().map(|e| ((Ns(e.at), Pid(e.pid)), Pid(e.old))).collect();
    let mut handed_over = handed_over(records, &old).into_iter().peekable();
    for (record, r) in records.iter().enumerate() {
        while let Some(begin) = handed_over.next_if(|begin| begin.record == record) {
            dead.remove(&begin.pid);
            all.push(begin);
        }
        if let Some(&Event::SchedProcessExec { pid }) = r.event() {
            dead.extend(old.get(&(r.at, pid)).map(|was| (*was, End { at: r.at.0, certain: true })));
        }
        let (pid, born) = match r.event() {
            Some(&Event::SchedSwitch { prev_pid, prev_state, next_pid, .. }) => {
                if prev_state == PrevState::Dead {
                    let certain = exiting.remove(&prev_pid) || !may_live.contains(&(r.at.0, prev_pid));
                    dead.insert(prev_pid, End { at: r.at.0, certain });
                }
                (next_pid, false)
            }
            Some(&Event::SchedProcessExit { pid, .. }) => {
                exiting.insert(pid);
                dead.insert(pid, End { at: r.at.0, certain: false });
                continue;
            }
            Some(&(Event::SchedProcessFork { child_pid: pid, .. } | Event::SchedWakeupNew { pid, .. })) => (pid, true),
            Some(
                &(Event::SchedWaking { pid, .. } | Event::SchedWakeup { pid, .. } | Event::SchedProcessExec { pid }),
            ) => (pid, false),
            _ => continue,
        };
        let Some(end) = dead.get(&pid) else { continue };
        if born || end.certain {
            all.push(Begin { record, pid, after: end.at, was: None });
            dead.remove(&pid);
            exiting.remove(&pid);
        } else if matches!(r.event(), Some(Event::SchedSwitch { .. })) {
            dead.remove(&pid);
        }
    }
    all
}

/// A thread has ended.
struct End {
    at: u64,
    certain: bool,
}

/// Each has the last name that it got in its time.
fn name(threads: &mut BTreeMap<u32, RecordedThread>, pid: u32, later: &[Life], names: &[&Renamed]) {
    let mut known = threads.remove(&pid).unwrap_or_default();
    let is_leader = known.tgid == pid;
    let ends = later.iter().map(|l| l.after).chain([u64::MAX]);
    let mut names = names.iter().peekable();
    let lives = [(pid, false)].into_iter().chain(later.iter().map(|l| (l.own, l.goes_on)));
    for ((own, goes_on), until) in lives.zip(ends) {
        let mut told = None;
        while let Some(name) = names.next_if(|n| n.at <= until) {
            told = Some(&name.comm);
        }
        if goes_on {
            let thread = threads.entry(own).or_default();
            told.iter().for_each(|comm| thread.comm.clone_from(comm));
            continue;
        }
        told.iter().for_each(|comm| known.comm.clone_from(comm));
        if is_leader {
            known.tgid = own;
        }
        threads.insert(own, known.clone());
    }
}

/// The threads that an event names.
fn pids(event: &mut Recorded) -> [Option<&mut Pid>; 2] {
    let Recorded::Event(event) = event else { return [None, None] };
    match event {
        Event::SchedSwitch { prev_pid: pid, next_pid: other, .. }
        | Event::SchedProcessFork { pid, child_pid: other } => [Some(pid), Some(other)],
        Event::SchedWaking { pid, .. }
        | Event::SchedWakeup { pid, .. }
        | Event::SchedWakeupNew { pid, .. }
        | Event::SchedMigrateTask { pid, .. }
        | Event::SchedProcessExec { pid }
        | Event::SchedProcessExit { pid, .. }
        | Event::PeltSe { pid, .. }
        | Event::WaltDemand { pid, .. }
        | Event::TimerWake { pid, .. }
        | Event::RtappStats { pid, .. }
        | Event::RtappConfigured { pid, .. }
        | Event::ProgramStep { pid, .. }
        | Event::Mark { pid, .. }
        | Event::Touch { pid }
        | Event::DeviceDone { pid, .. }
        | Event::CgroupAttachTask { pid, .. }
        | Event::DeadlineJob { pid, .. }
        | Event::EnergyCandidate { pid, .. }
        | Event::Placement(Placement { pid, .. }) => [Some(pid), None],
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use wattif_model::Pid;
    use wattif_model::trace::{Event, Recording};

    const USED_AGAIN: &str = "\
alpha-100 [000] 10.000900: sched_process_exit: comm=alpha pid=100 prio=120
alpha-100 [000] 10.001000: sched_switch: alpha:100 [120] Z ==> swapper/0:0 [120]
sh-7 [001] 10.002100: sched_process_fork: comm=sh pid=7 child_comm=sh child_pid=100
sh-7 [001] 10.002100: sched_wakeup_new: comm=sh pid=100 prio=120 target_cpu=000
<idle>-0 [000] 10.002200: sched_switch: swapper/0:0 [120] R ==> sh:100 [120]
beta-100 [000] 10.007200: sched_switch: beta:100 [120] S ==> swapper/0:0 [120]
";

    fn read(text: &str) -> (Recording, String) {
        let read = super::super::read(text.as_bytes());
        let said: Vec<String> = read.diagnostics.into_iter().map(|d| d.message).collect();
        (read.recording.expect("a trace"), said.join("; "))
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_thread() {
        let (r, said) = read(USED_AGAIN);
        let threads: Vec<(u32, &str)> = r.threads.iter().map(|(pid, t)| (*pid, t.comm.as_str())).collect();
        assert_eq!(threads, [(7, "sh"), (100, "alpha"), (101, "beta")]);
        assert!(said.contains("1 thread has the pid of one that had ended: 101 here"), "{said}");
        let fork = Event::SchedProcessFork { pid: Pid(7), child_pid: Pid(101) };
        assert!(r.records.iter().any(|r| r.event() == Some(&fork)));
        assert_eq!(r.records.iter().map(|r| r.current.unwrap().0).collect::<Vec<_>>(), [100, 100, 7, 7, 0, 101]);
    }

    #[test]
    fn what_is_told_of_a_pid_is_told_of_the_life_it_is_told_in() {
        let again = USED_AGAIN.replace("alpha:100 [120] Z", "alpha:100 [-1] Z");
        let told = "sh-7 [001] 10.002000: task_newtask: pid=100 comm=sh clone_flags=0\n";
        let fork = again.find("sh-7").unwrap();
        let (r, _) = read(&[&again[..fork], told, &again[fork..]].concat());
        let threads: Vec<_> = r.threads.iter().map(|(pid, t)| (*pid, t.comm.as_str(), t.policy)).collect();
        assert_eq!(threads, [(7, "sh", None), (100, "alpha", Some("SCHED_DEADLINE")), (101, "beta", None)]);
        let huge = format!("{USED_AGAIN}# wattif thread 4294967295 SCHED_OTHER 0 x\n");
        assert!(read(&huge).0.threads.contains_key(&101), "what is no pid is none");
    }

    /// `trace-cmd report` prints −1 without its sign.
    #[test]
    fn a_priority_without_its_sign() {
        let form = USED_AGAIN.replace("comm=sh pid=100 prio=120 target_cpu=000", "sh:100 [4294967295] CPU:000");
        let (r, _) = read(&form);
        assert_eq!((r.threads[&100].policy, r.threads[&101].policy), (None, Some("SCHED_DEADLINE")));
        let woken = Event::SchedWakeupNew { pid: Pid(101), prio: 0, target_cpu: wattif_model::CpuId(0) };
        assert!(r.records.iter().any(|r| r.event() == Some(&woken)), "{:?}", r.records);
    }

    /// Thread 201 of process 200 executes a program: the first thread has to end, and 201 has its number from then on. It sleeps before the
    /// program is loaded.
    const EXECUTES: &str = "\
java-200 [000] 10.000000: sched_switch: java:200 [120] S ==> swapper/0:0 [120]
worker-201 [001] 10.001000: sched_waking: comm=java pid=200 prio=120 target_cpu=000
<idle>-0 [000] 10.001010: sched_switch: swapper/0:0 [120] R ==> java:200 [120]
worker-201 [001] 10.001020: sched_switch: worker:201 [120] D ==> swapper/1:0 [120]
java-200 [000] 10.001040: sched_process_exit: comm=java pid=200 prio=120
java-200 [000] 10.001050: sched_waking: comm=worker pid=201 prio=120 target_cpu=001
java-200 [000] 10.001060: sched_switch: java:200 [120] Z ==> swapper/0:0 [120]
<idle>-0 [001] 10.001070: sched_switch: swapper/1:0 [120] R ==> worker:201 [120]
worker-200 [001] 10.001300: sched_switch: worker:200 [120] D ==> swapper/1:0 [120]
<idle>-0 [000] 10.001400: sched_waking: comm=worker pid=200 prio=120 target_cpu=001
<idle>-0 [001] 10.001410: sched_switch: swapper/1:0 [120] R ==> worker:200 [120]
new-200 [001] 10.001500: sched_process_exec: filename=/bin/new pid=200 old_pid=201
new-200 [001] 10.020000: sched_switch: new:200 [120] S ==> swapper/1:0 [120]
";

    #[test]
    fn who_gets_the_pid_of_its_process_by_an_exec_goes_on() {
        let threads = |r: &Recording| r.threads.iter().map(|(pid, t)| (*pid, t.comm.clone())).collect::<Vec<_>>();
        let left = |r: &Recording| -> Vec<u32> {
            let of = |r: &wattif_model::trace::Record| match r.event() {
                Some(Event::SchedSwitch { prev_pid, .. }) if prev_pid.0 != 0 => Some((prev_pid.0, r.current)),
                _ => None,
            };
            let all = r.records.iter().filter_map(of);
            all.inspect(|(pid, current)| assert_eq!(*current, Some(Pid(*pid)))).map(|(pid, _)| pid).collect()
        };
        let named =
            |names: &[(u32, &str)]| names.iter().map(|(pid, name)| (*pid, name.to_string())).collect::<Vec<_>>();
        let (r, said) = read(EXECUTES);
        assert_eq!((threads(&r), left(&r)), (named(&[(200, "java"), (201, "new")]), vec![200, 201, 200, 201, 201]));
        assert!(said.is_empty(), "{said}");
        let exec = Event::SchedProcessExec { pid: Pid(201) };
        assert_eq!(r.records.iter().filter(|r| r.event() == Some(&exec)).count(), 1);
        // Of a first thread, or where the file does not tell the old one, it is just one after the death of another.
        for old in ["old_pid=200", ""] {
            let (r, _) = read(&EXECUTES.replace("old_pid=201", old));
            assert_eq!(left(&r), [200, 201, 200, 200, 202], "{old}");
        }
        // Where the end is lost, from the exec on.
        let lost: String = EXECUTES.split_inclusive('\n').filter(|line| !line.contains("[120] Z")).collect();
        let (r, _) = read(&lost);
        assert_eq!((left(&r), r.comm(Pid(201))), (vec![200, 201, 200, 201], "new"));
        // Either number may be another's afterwards.
        let forks = "\
new-200 [001] 10.021000: sched_process_fork: comm=new pid=200 child_comm=new child_pid=201
new-200 [001] 10.022000: sched_switch: new:200 [120] X ==> swapper/1:0 [120]
sh-7 [001] 10.023000: sched_process_fork: comm=sh pid=7 child_comm=sh child_pid=200
sh-200 [001] 10.024000: sched_switch: sh:200 [120] S ==> swapper/1:0 [120]
new-201 [001] 10.025000: sched_switch: new:201 [120] S ==> swapper/1:0 [120]
";
        let (r, said) = read(&[EXECUTES, forks].concat());
        assert_eq!(left(&r)[5..], [201, 203, 202]);
        assert!(said.contains("2 threads have the pids of ones that had ended: from 202 on here"), "{said}");
        let all = [(7, "sh"), (200, "java"), (201, "new"), (202, "new"), (203, "sh")];
        assert_eq!(threads(&r), named(&all));
    }

    /// The bit of a parked thread was that of a dead one before Linux 4.14; `x` is what older tools call it.
    #[test]
    fn who_is_switched_in_again_may_have_been_parked() {
        let woken = "<idle>-0 [000] 10.0015: sched_switch: swapper/0:0 [120] R ==> alpha:100 [120]\n";
        let lines: Vec<&str> = USED_AGAIN.split_inclusive('\n').collect();
        let threads = |release: &str, raw: &str, exit: &str| {
            let keyed = "prev_comm=alpha prev_pid=100 prev_prio=120 prev_state=RAW ==> next_comm=swapper/0 next_pid=0 next_prio=120";
            let died = lines[1].replace("alpha:100 [120] Z ==> swapper/0:0 [120]", &keyed.replace("RAW", raw));
            let (r, _) = read(&[release, exit, &died, woken, lines[2], lines[3]].concat());
            r.threads.len() - 2 // besides sh and alpha
        };
        let [old, new] = ["# os release : 4.9.270-perf\n", "# os release : 5.10.0\n"];
        for raw in ["64", "x"] {
            assert_eq!([threads("", raw, ""), threads(new, raw, ""), threads(old, raw, "")], [0, 0, 1], "{raw}");
            assert_eq!(threads("", raw, lines[0]), 1, "{raw}: it had said that it exits");
        }
        assert_eq!(["X", "Z", "16", "32"].map(|raw| threads("", raw, "")), [1; 4]);
    }

    /// Neither its fork nor its first wake-up is in the trace.
    #[test]
    fn who_is_woken_after_it_has_died_is_another() {
        let waking = "<idle>-0 [000] 10.002000: sched_waking: comm=sh pid=100 prio=120 target_cpu=000\n";
        let lines: Vec<&str> = USED_AGAIN.split_inclusive('\n').collect();
        let wakeup = waking.replace("waking", "wakeup");
        let exec = "sh-100 [001] 10.002000: sched_process_exec: filename=/bin/sh pid=100 old_pid=100\n";
        for seen in [&[waking, lines[4]][..], &[&wakeup, lines[4]], &[lines[4]], &[exec]] {
            let (r, said) = read(&[lines[1], &seen.concat(), lines[5]].concat());
            let threads: Vec<(u32, &str)> = r.threads.iter().map(|(pid, t)| (*pid, t.comm.as_str())).collect();
            assert_eq!(threads, [(100, "alpha"), (101, "beta")]);
            assert!(said.contains("1 thread has the pid of one that had ended: 101 here"), "{said}");
            let first = &r.records[1];
            let of_second = super::pids(&mut first.event.clone()).into_iter().flatten().any(|pid| *pid == Pid(101));
            assert!(of_second, "{first:?}");
        }
    }

    /// On its way out it may be preempted and wait for a lock.
    #[test]
    fn who_exits_runs_until_it_is_dead() {
        let lines: Vec<&str> = USED_AGAIN.split_inclusive('\n').collect();
        let on_its_way = [
            "alpha-100 [000] 10.000910: sched_switch: alpha:100 [120] D ==> swapper/0:0 [120]\n",
            "<idle>-0 [000] 10.000920: sched_waking: comm=alpha pid=100 prio=120 target_cpu=000\n",
            "<idle>-0 [000] 10.000930: sched_switch: swapper/0:0 [120] R ==> alpha:100 [120]\n",
        ];
        let (r, said) = read(&[lines[0], &on_its_way.concat(), lines[1]].concat());
        assert_eq!((r.threads.len(), said.as_str()), (1, ""));
    }
}

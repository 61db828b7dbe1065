//! The fair server of a CPU (6.12): fair tasks that higher classes starve get a budget per period, as a deadline entity.
//!
//! The first time it waits until there is just enough time left before the deadline (deferred), counting what fair tasks
//! get on their own meanwhile; as long as they starve on, it serves at the start of every period.

use super::deadline::{Params, dl_entity_overflow, insert, replenish_dl_entity, replenish_dl_new_period};
use super::dl_bandwidth::to_ratio;
use crate::sched::task::DlEntity;
use crate::sched::{Hrtimer, Sched};
use wattif_model::{CpuId, Pid};

/// Its entry in the deadline queue.
const SERVER: Pid = Pid(0);
/// `dl_server_min_res`: a deferral is not prolonged by less, ns.
const MIN_RES_NS: u64 = 1_000_000;

/// The state of a CPU's server.
#[derive(Clone, Copy, Debug, Default)]
pub struct FairServer {
    /// Budget, deadline, parameters; `dl_runtime` 0: this kernel has no server.
    pub dl: DlEntity,
    /// Fair tasks wait, or did in this period.
    pub active: bool,
    /// Its timer is that of the deferral.
    defer_armed: bool,
    /// It serves: no deferral in the next period.
    defer_running: bool,
    /// From here on what fair tasks run is not accounted yet, `clock_task` ns.
    exec_start: u64,
}

impl FairServer {
    /// Its share of the CPU, which no task can be admitted to.
    pub fn bw(&self) -> u64 {
        to_ratio(self.dl.dl_period, self.dl.dl_runtime)
    }
}

/// Fair tasks are queued beside tasks of higher classes. True: it serves at once.
#[inline(never)]
pub fn dl_server_start(s: &mut Sched, cpu: CpuId) -> bool {
    let rq = &mut s.rqs[cpu.at()];
    let (server, now) = (&mut rq.dl.server, rq.clock);
    if server.active || server.dl.dl_runtime == 0 {
        return false;
    }
    (server.active, server.exec_start) = (true, rq.clock_task);
    let params = server.dl.params();
    if server.dl.deadline == 0 || server.dl.deadline < now || dl_entity_overflow(&server.dl, params, now) {
        new_period(server, params, now);
    } else if !server.defer_running {
        (server.defer_armed, server.dl.throttled) = (true, true);
    }
    enqueue(s, cpu)
}

/// There is no fair task any more.
#[inline(never)]
pub fn dl_server_stop(s: &mut Sched, cpu: CpuId) {
    dequeue(s, cpu);
    let server = &mut s.rqs[cpu.at()].dl.server;
    (server.active, server.defer_armed, server.dl.throttled) = (false, false, false);
    s.cancel_hrtimer(cpu, Hrtimer::Server);
}

/// A fair task gets the CPU.
#[inline(never)]
pub fn dl_server_set_next(s: &mut Sched, cpu: CpuId) {
    let rq = &mut s.rqs[cpu.at()];
    rq.dl.server.exec_start = rq.clock_task;
}

/// `dl_server_update`: a fair task has been running up to now.
#[inline(never)]
pub fn dl_server_update(s: &mut Sched, cpu: CpuId) {
    let rq = &mut s.rqs[cpu.at()];
    let (server, now) = (&mut rq.dl.server, rq.clock);
    let delta = rq.clock_task.wrapping_sub(server.exec_start) as i64;
    if !server.active || delta <= 0 {
        return;
    }
    server.exec_start = rq.clock_task;
    server.dl.runtime -= delta;
    if server.dl.runtime > 0 {
        return;
    }
    let params = server.dl.params();
    if server.dl.throttled {
        // They got their share without its help: the next period is deferred anew.
        server.defer_running = false;
        new_period(server, params, now);
        start_timer(s, cpu);
        return;
    }
    server.dl.throttled = true;
    dequeue(s, cpu);
    if !start_timer(s, cpu) {
        replenish(s, cpu);
        enqueue(s, cpu);
    }
    s.rqs[cpu.at()].need_resched = true;
}

/// Its timer: the deferral ends, or the next period begins. True: it serves, and the CPU should look. `has_tasks`: fair tasks are
/// queued; `starved`: so are tasks of higher classes.
pub fn dl_server_timer(s: &mut Sched, cpu: CpuId, has_tasks: bool, starved: bool) -> bool {
    let rq = &mut s.rqs[cpu.at()];
    let (server, now) = (&mut rq.dl.server, rq.clock);
    if !server.active || !server.dl.throttled {
        return false;
    }
    if !has_tasks || !starved {
        server.defer_running = false;
        dl_server_stop(s, cpu);
        return false;
    }
    if server.defer_armed {
        let zero_laxity = (server.dl.deadline as i64 - server.dl.runtime) as u64;
        if now + MIN_RES_NS < zero_laxity {
            // Fair tasks got something meanwhile: there is time.
            s.start_hrtimer(cpu, Hrtimer::Server, zero_laxity);
            return false;
        }
        server.defer_running = true;
    }
    replenish(s, cpu);
    enqueue(s, cpu)
}

/// Budget and deadline from now on; deferred, unless it serves already.
fn new_period(server: &mut FairServer, params: Params, now: u64) {
    replenish_dl_new_period(&mut server.dl, params, now);
    let deferred = !server.defer_running;
    (server.defer_armed, server.dl.throttled) = (deferred, deferred);
}

fn replenish(s: &mut Sched, cpu: CpuId) {
    let rq = &mut s.rqs[cpu.at()];
    let (server, now) = (&mut rq.dl.server, rq.clock);
    let params = server.dl.params();
    replenish_dl_entity(&mut server.dl, params, now);
    server.defer_armed = false;
}

/// Queued, unless it is deferred. True: it serves.
fn enqueue(s: &mut Sched, cpu: CpuId) -> bool {
    if s.rqs[cpu.at()].dl.server.dl.throttled && start_timer(s, cpu) {
        return false;
    }
    let server = &mut s.rqs[cpu.at()].dl.server;
    (server.dl.throttled, server.defer_armed) = (false, false);
    let deadline = server.dl.deadline;
    insert(s, cpu, deadline, SERVER);
    true
}

fn dequeue(s: &mut Sched, cpu: CpuId) {
    let dl = &mut s.rqs[cpu.at()].dl;
    if dl.queue.take(|e| e.2 == SERVER).is_some() {
        dl.dl_nr_running -= 1;
    }
}

/// For the end of the deferral, or the next period; false if that is over.
fn start_timer(s: &mut Sched, cpu: CpuId) -> bool {
    let (server, now) = (&s.rqs[cpu.at()].dl.server, s.rqs[cpu.at()].clock);
    let spare = if server.defer_armed { server.dl.runtime } else { 0 };
    let at = (server.dl.deadline as i64 - spare) as u64;
    if at < now {
        return false;
    }
    s.start_hrtimer(cpu, Hrtimer::Server, at);
    true
}

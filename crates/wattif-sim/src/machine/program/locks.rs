//! Ops by which threads wait for each other: locks with priority inheritance, conditions, barriers, semaphores, tokens, devices.

use super::{Boost, Effects, Instr, POLL_NS, Pending, Programs, Request, Step, WaitReason, Wake, later};
use crate::machine::resources::Rank;
use wattif_model::Pid;
use wattif_model::trace::Event;
use wattif_model::units::Ns;
use wattif_model::workload::Amount;

/// Longest chain of owners a boost is passed along (the kernel's `max_lock_depth`).
const MAX_LOCK_DEPTH: u32 = 1024;

impl Programs {
    pub(super) fn block(&mut self, pid: Pid, pending: Pending, on: WaitReason) -> Step {
        let thread = self.thread(pid);
        thread.pending = pending;
        thread.waiting = Some(on);
        Step::Block { on }
    }

    fn wake(&mut self, pid: Pid, out: &mut Effects) {
        self.wake_up(pid, false, out);
    }

    fn wake_up(&mut self, pid: Pid, sync: bool, out: &mut Effects) {
        let waited = self.thread(pid).waiting.take();
        assert!(waited.is_some(), "woke a thread that does not wait");
        out.wakes.push(Wake { pid, sync });
    }

    // ---- mutexes -----------------------------------------------------------------------------------------------------

    /// Take the mutex or wait for it. A mutex that lends priority is handed over, so its waiter finds it its own.
    #[inline(never)]
    pub(super) fn lock(&mut self, pid: Pid, mutex: u32, out: &mut Effects) -> Option<Step> {
        let pi = self.workload.pi_enabled;
        let rank = if pi { self.effective_rank(pid) } else { self.rank(pid) };
        let m = &mut self.resources.mutexes[mutex as usize];
        let Some(owner) = m.owner else {
            m.owner = Some(pid);
            if pi {
                self.thread(pid).held.push(mutex);
            }
            return None;
        };
        m.waiters.push(rank, pid);
        let step = self.block(pid, Pending::Mutex(mutex), WaitReason::Mutex(mutex));
        if pi {
            self.update_boost(owner, out);
        }
        Some(step)
    }

    /// Release the mutex and wake its first waiter. Without priority inheritance any thread may do so, as glibc does not check.
    #[inline(never)]
    pub(super) fn unlock(&mut self, pid: Pid, mutex: u32, out: &mut Effects) -> Option<Step> {
        let m = &mut self.resources.mutexes[mutex as usize];
        let owner = m.owner?;
        if self.workload.pi_enabled {
            if owner == pid {
                self.hand_over(pid, mutex, out);
            }
            return None;
        }
        m.owner = None;
        if let Some(next) = m.waiters.pop() {
            self.wake(next, out);
        }
        None
    }

    /// A mutex that lends priority goes straight to its first waiter.
    fn hand_over(&mut self, pid: Pid, mutex: u32, out: &mut Effects) {
        self.thread(pid).held.retain(|&m| m != mutex);
        let m = &mut self.resources.mutexes[mutex as usize];
        m.owner = m.waiters.pop();
        if let Some(next) = m.owner {
            let heir = self.thread(next);
            heir.held.push(mutex);
            heir.pending = Pending::Ready;
            self.wake(next, out);
            self.update_boost(next, out);
        }
        self.update_boost(pid, out);
    }

    /// The better of a thread's own rank and what is lent to it.
    fn effective_rank(&self, pid: Pid) -> Rank {
        self.top_waiter(pid).map_or(self.rank(pid), |(rank, _)| rank.min(self.rank(pid)))
    }

    /// The best waiter on any mutex the thread holds.
    fn top_waiter(&self, pid: Pid) -> Option<(Rank, Pid)> {
        let held = self.thread_ref(pid).held.iter();
        held.filter_map(|&m| self.resources.mutexes[m as usize].waiters.first()).min_by_key(|&(rank, _)| rank)
    }

    /// Recompute who lends `pid` its priority, and along the chain of owners it waits for in turn. The donor is the thread
    /// at the far end, whose own attributes count.
    pub(super) fn update_boost(&mut self, pid: Pid, out: &mut Effects) {
        let mut at = pid;
        for _ in 0..MAX_LOCK_DEPTH {
            let donor = self.find_donor(at);
            let thread = self.thread(at);
            if thread.donor != donor {
                thread.donor = donor;
                out.boosts.push(Boost { pid: at, donor });
            }
            let Some(WaitReason::Mutex(mutex)) = thread.waiting else { return };
            if !self.workload.pi_enabled {
                return;
            }
            let rank = self.effective_rank(at);
            let m = &mut self.resources.mutexes[mutex as usize];
            m.waiters.requeue(rank, at);
            match m.owner {
                Some(owner) if owner != pid => at = owner,
                _ => return,
            }
        }
    }

    /// The waiter whose rank beats the thread's own; a waiter that is boosted itself passes its donor on.
    fn find_donor(&self, pid: Pid) -> Option<Pid> {
        let (rank, waiter) = self.top_waiter(pid)?;
        (rank < self.rank(pid)).then(|| self.thread_ref(waiter).donor.unwrap_or(waiter))
    }

    // ---- conditions and barriers -------------------------------------------------------------------------------------

    /// Get on the condition's list, release the mutex, wait, take the mutex again. To release a mutex that others wait for is a call
    /// of its own, after which the woken may run first; a signal of theirs finds this thread on the list, and it does not sleep then.
    #[inline(never)]
    pub(super) fn wait(&mut self, pid: Pid, cond: u32, mutex: Option<u32>, out: &mut Effects) -> Step {
        let rank = self.rank(pid);
        self.resources.conds[cond as usize].push(rank, pid);
        if let Some(mutex) = mutex {
            self.unlock(pid, mutex, out);
            if out.on_others() {
                self.thread(pid).pending = Pending::Wait { cond, mutex };
                return Step::Called;
            }
        }
        self.block(pid, Pending::Cond(mutex), WaitReason::Cond(cond))
    }

    #[inline(never)]
    pub(super) fn signal(&mut self, cond: u32, out: &mut Effects) -> Option<Step> {
        self.signal_one(cond, out);
        None
    }

    #[inline(never)]
    pub(super) fn broadcast(&mut self, cond: u32, out: &mut Effects) -> Option<Step> {
        while self.signal_one(cond, out) {}
        None
    }

    /// The first on the condition's list goes on, if there is one.
    fn signal_one(&mut self, cond: u32, out: &mut Effects) -> bool {
        let Some(pid) = self.resources.conds[cond as usize].pop() else { return false };
        let thread = self.thread(pid);
        if let Pending::Wait { mutex, .. } = thread.pending {
            thread.pending = Pending::Cond(Some(mutex));
        } else {
            self.wake(pid, out);
        }
        true
    }

    /// The last to arrive wakes the others and goes on.
    #[inline(never)]
    pub(super) fn barrier(&mut self, pid: Pid, barrier: u32, out: &mut Effects) -> Option<Step> {
        let rank = self.rank(pid);
        let b = &mut self.resources.barriers[barrier as usize];
        b.arrived += 1;
        if b.arrived < b.parties {
            b.waiters.push(rank, pid);
            return Some(self.block(pid, Pending::Ready, WaitReason::Barrier(barrier)));
        }
        b.arrived = 0;
        while let Some(other) = self.resources.barriers[barrier as usize].waiters.pop() {
            self.wake(other, out);
        }
        None
    }

    // ---- semaphores and tokens ---------------------------------------------------------------------------------------

    #[inline(never)]
    pub(super) fn sem_post(&mut self, semaphore: u32, out: &mut Effects) -> Option<Step> {
        let wakes = self.resources.semaphores[semaphore as usize].post();
        (0..wakes).for_each(|_| self.sem_wake(semaphore, out));
        None
    }

    fn sem_wake(&mut self, semaphore: u32, out: &mut Effects) {
        let s = &mut self.resources.semaphores[semaphore as usize];
        let sync = s.sync;
        if let Some(pid) = s.waiters.pop() {
            self.wake_up(pid, sync, out);
        }
    }

    /// Take one or wait for it; `woken`: it has waited and was woken.
    #[inline(never)]
    pub(super) fn sem_wait(&mut self, pid: Pid, semaphore: u32, woken: bool, out: &mut Effects) -> Option<Step> {
        let rank = self.rank(pid);
        let s = &mut self.resources.semaphores[semaphore as usize];
        if s.take(woken) {
            if woken && s.wakes_next() {
                self.sem_wake(semaphore, out);
            }
            return None;
        }
        s.waiters.push(rank, pid);
        Some(self.block(pid, Pending::Semaphore(semaphore), WaitReason::Semaphore(semaphore)))
    }

    /// Make a token and give it to a thread that spins or waits for one; otherwise it is kept.
    #[inline(never)]
    pub(super) fn put(&mut self, pid: Pid, queue: u32, forward: bool, now: Ns, out: &mut Effects) -> Option<Step> {
        let stamp = self.thread(pid).stamp.filter(|_| forward).unwrap_or(now);
        self.put_stamped(queue, stamp, out);
        None
    }

    fn put_stamped(&mut self, queue: u32, stamp: Ns, out: &mut Effects) {
        let q = &mut self.resources.queues[queue as usize];
        if let Some(taker) = q.spinners.pop_front() {
            self.thread(taker).pending = Pending::Poll { queue, got: true };
            self.take_token(taker, stamp);
            out.polled.push(taker);
        } else if let Some(taker) = q.waiters.pop() {
            let sync = q.sync;
            self.take_token(taker, stamp);
            self.wake_up(taker, sync, out);
        } else {
            q.tokens.push_back(stamp);
        }
    }

    #[inline(never)]
    pub(super) fn drain(&mut self, from: u32, to: u32, forward: bool, now: Ns, out: &mut Effects) -> Option<Step> {
        while let Some(stamp) = self.resources.queues[from as usize].tokens.pop_front() {
            self.put_stamped(to, if forward { stamp } else { now }, out);
        }
        None
    }

    #[inline(never)]
    pub(super) fn get(&mut self, pid: Pid, queue: u32) -> Option<Step> {
        match self.resources.queues[queue as usize].tokens.pop_front() {
            Some(stamp) => {
                self.take_token(pid, stamp);
                None
            }
            None => Some(self.wait_for_token(pid, queue)),
        }
    }

    fn take_token(&mut self, pid: Pid, stamp: Ns) {
        let thread = self.thread(pid);
        thread.stamp = Some(stamp);
        thread.began = stamp;
    }

    fn wait_for_token(&mut self, pid: Pid, queue: u32) -> Step {
        let rank = self.rank(pid);
        self.resources.queues[queue as usize].waiters.push(rank, pid);
        self.block(pid, Pending::Ready, WaitReason::Queue(queue))
    }

    pub(super) fn spin_then_block(
        &mut self,
        pid: Pid,
        spin: &Amount,
        queue: u32,
        instr: &Instr,
        now: Ns,
    ) -> Option<Step> {
        // Drawn even when it is not needed, so that the stream does not depend on the schedule.
        let spin_ns = self.draw(pid, spin, instr);
        let q = &mut self.resources.queues[queue as usize];
        if spin_ns == 0 || !q.tokens.is_empty() {
            return self.get(pid, queue);
        }
        q.spinners.push_back(pid);
        self.thread(pid).pending = Pending::Poll { queue, got: false };
        Some(Step::Execute(self.spin_segment(later(now, spin_ns), POLL_NS)))
    }

    /// The spin ran out: sleep for the token.
    #[inline(never)]
    pub(super) fn stop_polling(&mut self, pid: Pid, queue: u32) -> Step {
        self.resources.queues[queue as usize].spinners.retain(|&p| p != pid);
        self.wait_for_token(pid, queue)
    }

    // ---- devices -----------------------------------------------------------------------------------------------------

    /// Hand a request to the device, or queue it.
    #[inline(never)]
    pub(super) fn request(&mut self, pid: Pid, device: u32, service_ns: u64, now: Ns, out: &mut Effects) -> Step {
        let d = &mut self.resources.devices[device as usize];
        let on = if d.iowait { WaitReason::Device(device) } else { WaitReason::Completion(device) };
        self.requests[pid.at()] = Request { device, service_ns, asked: now };
        if d.busy < d.servers {
            d.busy += 1;
            self.serve(pid, now, out);
        } else {
            d.waiting.push_back(pid);
        }
        self.block(pid, Pending::Ready, on)
    }

    fn serve(&mut self, pid: Pid, now: Ns, out: &mut Effects) {
        let until = later(now, self.requests[pid.at()].service_ns);
        self.served.arm(&mut self.positions, pid.0, until.0);
        out.devices_changed = true;
    }

    /// Has the device something to do?
    pub fn device_works(&self, device: u32) -> bool {
        self.resources.devices[device as usize].busy > 0
    }

    /// When the next request will have been served; `None` when no device is busy. [`Programs::devices_done`] is due then.
    pub fn next_completion(&self) -> Option<Ns> {
        self.served.peek().map(|(at, _)| Ns(at))
    }

    /// Requests served by `now`: their threads wake up, and the next requests begin.
    pub fn devices_done(&mut self, now: Ns, out: &mut Effects) {
        while self.next_completion().is_some_and(|at| at <= now) {
            let (end, pid) = self.served.pop(&mut self.positions).expect("peeked");
            let Request { device, service_ns, asked } = self.requests[pid as usize];
            let queued_ns = Ns(end).since(asked).saturating_sub(service_ns);
            self.emit(out, Event::DeviceDone { pid: Pid(pid), device, queued_ns, service_ns });
            let d = &mut self.resources.devices[device as usize];
            match d.waiting.pop_front() {
                Some(next) => self.serve(next, now, out),
                None => d.busy -= 1,
            }
            self.wake(Pid(pid), out);
            out.devices_changed = true;
        }
    }
}

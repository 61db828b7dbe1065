//! What makes of a [`Workload`] none that a file can describe: a spec may come from elsewhere. What programs name is checked
//! where they are prepared to run, budgets of deadline tasks where the kernel checks them, by its tunables.

use super::*;
use crate::units::CAPACITY_SCALE;
use std::collections::BTreeSet;

impl Workload {
    /// What no file says of a workload, if anything: what is wrong, where, and what may stand there.
    pub fn flaw(&self) -> Option<String> {
        self.check().err()
    }

    fn check(&self) -> Result<(), String> {
        let threads: u64 = self.tasks.iter().map(|t| u64::from(t.instances)).sum();
        if threads > MAX_THREADS {
            return Err(format!("{threads} threads; {MAX_THREADS} is the limit"));
        }
        let period = |p: &&Ns| !(Ns(1)..=MAX_TIME).contains(p);
        if let Some(period) = self.mark_periods.iter().flatten().find(period) {
            return Err(format!("a mark's period is {} ns; 1 to {} are possible", period.0, MAX_TIME.0));
        }
        self.check_groups()?;
        for semaphore in &self.semaphores {
            semaphore.check().map_err(|why| format!("semaphore `{}`: {why}", semaphore.name))?;
        }
        for task in &self.tasks {
            let of_task = |why| format!("task `{}`: {why}", task.name);
            task.check().map_err(of_task)?;
            for (pc, op) in task.program.ops.iter().enumerate() {
                if let Op::SetAttr(attr) = op {
                    attr.check().map_err(|why| of_task(format!("op {pc}: {why}")))?;
                }
            }
        }
        Ok(())
    }

    fn check_groups(&self) -> Result<(), String> {
        let Some((root, others)) = self.groups.split_first() else { return Ok(()) };
        if root.path != "/" {
            return Err(format!("the first group is `{}`; it is the root, `/`", root.path));
        }
        if others.len() > MAX_GROUPS {
            return Err(format!("{} groups below the root; {MAX_GROUPS} is the limit", others.len()));
        }
        let mut paths = BTreeSet::from(["/"]);
        for group in others {
            let path = group.path.as_str();
            if path.len() > MAX_PATH {
                return Err(format!("a group's path has {} bytes; {MAX_PATH} is the limit", path.len()));
            }
            if group.parent().is_none_or(|up| !paths.contains(up)) {
                return Err(format!("group `{path}` stands before the group above it"));
            }
            if !paths.insert(path) {
                return Err(format!("group `{path}` stands there twice"));
            }
            group.check().map_err(|why| format!("group `{path}`: {why}"))?;
        }
        Ok(())
    }
}

impl GroupSpec {
    /// The path of the group above it; `None` for the root, and for what is no path.
    pub fn parent(&self) -> Option<&str> {
        let (up, name) = self.path.rsplit_once('/')?;
        if name.is_empty() { None } else { Some(if up.is_empty() { "/" } else { up }) }
    }

    /// What the kernel demands of a group's files, and of its bandwidth as a whole (`tg_set_cfs_bandwidth`).
    pub fn check(&self) -> Result<(), String> {
        if self.shares == 0 {
            let alone = GroupSpec { shares: 0, ..GroupSpec::named(&self.path) };
            return if *self == alone {
                Ok(())
            } else {
                Err("without shares it can have no other file of the cpu controller".into())
            };
        }
        if !SHARES.contains(&self.shares) {
            return Err(format!("its shares must lie between {} and {}", SHARES.start(), SHARES.end()));
        }
        if self.uclamp_min.max(self.uclamp_max) > 1024 {
            return Err("its clamps must lie between 0 and 1024".into());
        }
        if !(Ns::from_ms(1)..=Ns::from_s(1)).contains(&self.period) {
            return Err("its period must lie between 1000 and 1000000 µs".into());
        }
        match self.quota {
            Some(quota) if quota < Ns::from_ms(1) || quota > MAX_QUOTA => {
                Err(format!("its quota must lie between 1000 and {} µs", MAX_QUOTA.0 / 1000))
            }
            Some(quota) if self.burst > quota => Err("its burst must not exceed its quota".into()),
            _ => Ok(()),
        }
    }
}

impl SemaphoreSpec {
    /// Who waits for more than there can be is never woken.
    fn check(&self) -> Result<(), String> {
        match self.release {
            Release::AllFrom(n) | Release::Lots(n) if !(1..=self.initial).contains(&n) => {
                Err(format!("it releases {n}, and {} are all there are", self.initial))
            }
            _ => Ok(()),
        }
    }
}

impl TaskSpec {
    fn check(&self) -> Result<(), String> {
        for (name, time) in [("start", self.start), ("startup", self.startup), ("delay", self.delay)] {
            if time > MAX_TIME {
                return Err(format!("its {name} is {} ns; {} is the limit", time.0, MAX_TIME.0));
            }
        }
        if u64::from(self.prev_util) > CAPACITY_SCALE {
            return Err(format!("its prev_util is {}: 0..=1024", self.prev_util));
        }
        self.attr.check()
    }
}

impl SchedAttr {
    /// What `sched_setattr` refuses whatever the kernel's tunables are.
    fn check(&self) -> Result<(), String> {
        if self.policy.is_fair() && !(-20..=19).contains(&self.nice) {
            return Err(format!("nice {} under {}: -20..=19", self.nice, self.policy.name()));
        }
        if self.policy.is_rt() && !(1..=99).contains(&self.rt_priority) {
            return Err(format!("priority {} under {}: 1..=99", self.rt_priority, self.policy.name()));
        }
        let (min, max) = (self.util_min.unwrap_or(0), self.util_max.unwrap_or(1024));
        if min > max || max > 1024 {
            return Err(format!("clamps from util_min {min} to util_max {max}: 0 <= util_min <= util_max <= 1024"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl Fn(&mut Workload)) -> String {
        let groups = ["/", "/a", "/a/b"].map(GroupSpec::named).into();
        let tasks = vec![TaskSpec::new("t", vec![Op::SetAttr(SchedAttr::default())])];
        let mut workload = Workload { groups, tasks, mark_periods: vec![None, Some(Ns(1))], ..Workload::default() };
        change(&mut workload);
        workload.flaw().unwrap_or_default()
    }

    #[test]
    fn what_no_file_says() {
        assert_eq!(check(|_| {}), "");
        assert_eq!(check(|w| w.groups.clear()), "", "the root alone");
        assert_eq!(check(|w| w.tasks[0].instances = 65_537), "65537 threads; 65536 is the limit");
        let period = "a mark's period is 0 ns; 1 to 1000000000000000 are possible";
        assert_eq!(check(|w| w.mark_periods[1] = Some(Ns(0))), period);
        let semaphore = |release| check(|w| w.semaphores.push(SemaphoreSpec { release, ..SemaphoreSpec::new("s", 8) }));
        assert_eq!([Release::Each, Release::AllFrom(8), Release::Lots(1)].map(semaphore), ["", "", ""]);
        assert_eq!(semaphore(Release::Lots(0)), "semaphore `s`: it releases 0, and 8 are all there are");
        assert_eq!(semaphore(Release::AllFrom(9)), "semaphore `s`: it releases 9, and 8 are all there are");
        let start = format!("task `t`: its start is {} ns; 1000000000000000 is the limit", u64::MAX);
        assert_eq!(check(|w| w.tasks[0].start = Ns::MAX), start);
    }

    #[test]
    fn groups() {
        assert_eq!(check(|w| w.groups.swap(0, 1)), "the first group is `/a`; it is the root, `/`");
        assert_eq!(check(|w| w.groups.swap(1, 2)), "group `/a/b` stands before the group above it");
        assert_eq!(check(|w| w.groups[1].path = "no such".into()), "group `no such` stands before the group above it");
        assert_eq!(check(|w| w.groups[2].path = "/a/".into()), "group `/a/` stands before the group above it");
        assert_eq!(check(|w| w.groups[2].path = "/".into()), "group `/` stands before the group above it");
        assert_eq!(check(|w| w.groups[2].path = "/a".into()), "group `/a` stands there twice");
        assert_eq!(check(|w| w.groups[2].path = "x".repeat(256)), "a group's path has 256 bytes; 255 is the limit");
        let many = |w: &mut Workload| w.groups.extend((0..255).map(|i| GroupSpec::named(&format!("/{i}"))));
        assert_eq!(check(many), "257 groups below the root; 256 is the limit");
        assert_eq!(check(|w| w.groups[1].shares = 1), "group `/a`: its shares must lie between 2 and 262144");
        assert_eq!(check(|w| w.groups[1].shares = 0), "", "schedtune's alone");
        let both = |w: &mut Workload| (w.groups[1].shares, w.groups[1].idle) = (0, true);
        assert_eq!(check(both), "group `/a`: without shares it can have no other file of the cpu controller");
        assert_eq!(check(|w| w.groups[1].uclamp_max = 1025), "group `/a`: its clamps must lie between 0 and 1024");
        assert_eq!(
            check(|w| w.groups[1].period = Ns(0)),
            "group `/a`: its period must lie between 1000 and 1000000 µs"
        );
        let quota = "group `/a`: its quota must lie between 1000 and 1000000000 µs";
        assert_eq!(check(|w| w.groups[1].quota = Some(Ns(0))), quota);
        assert_eq!(check(|w| w.groups[1].quota = Some(Ns::MAX)), quota);
        let burst = |w: &mut Workload| (w.groups[1].quota, w.groups[1].burst) = (Some(Ns::from_ms(1)), Ns::from_ms(2));
        assert_eq!(check(burst), "group `/a`: its burst must not exceed its quota");
    }

    #[test]
    fn attributes() {
        assert_eq!(check(|w| w.tasks[0].attr.nice = 20), "task `t`: nice 20 under SCHED_OTHER: -20..=19");
        assert_eq!(check(|w| w.tasks[0].attr.policy = Policy::Fifo), "task `t`: priority 0 under SCHED_FIFO: 1..=99");
        let attr = SchedAttr { util_min: Some(600), util_max: Some(500), ..SchedAttr::default() };
        assert_eq!(
            check(|w| w.tasks[0].program.ops[0] = Op::SetAttr(attr)),
            "task `t`: op 0: clamps from util_min 600 to util_max 500: 0 <= util_min <= util_max <= 1024"
        );
    }
}

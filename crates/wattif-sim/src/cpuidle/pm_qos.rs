//! CPU latency QoS: how long a CPU may take to wake up.
//!
//! # Idea
//! An application that cannot wait writes the longest wake-up it accepts to `/dev/cpu_dma_latency` and keeps the file open; a driver
//! whose device works asks for the same in the kernel. As long as they do, idle governors pass over states that take longer to leave.
//!
//! # Signals
//! | name | unit, range | source | updated |
//! |---|---|---|---|
//! | `cpu_latency_us` | µs, 0 to 2 000 000 000; `none` | this tunable: an application's request | constant for a run |
//! | request of a driver | ns; `none` | the platform: `driver.gpu.cpu_latency_us` | held while its device works, and `hold_ms` more |
//! | `exit_latency` | ns | idle state, as advertised | – |
//!
//! # Decision
//! 1. The limit is the smallest of the requests that are held.
//! 2. None: every state is allowed.
//! 3. Otherwise a state is allowed whose *advertised* exit latency is not above the limit. What the hardware then takes does
//!    not matter to the governor.
//! 4. A limit of 0 allows polling and states of no latency only; where there is none, the shallowest state is taken anyway.
//! 5. When the limit changes, all CPUs that are idle are woken, so that they choose anew (`wake_up_all_idle_cpus`).
//! 6. A driver's request is held from when its device has something to do. When the device has done nothing for `hold_ms` it goes to
//!    sleep, and the request ends.
//!
//! Worked example: on a POWER9 a limit of 50 µs allows up to `stop2` (10 µs) and forbids `stop4` (advertised 100 µs). If on a
//! Snapdragon 835 the driver of the GPU asks for 501 µs, no cluster is powered down (2.8 and 5.4 ms) between two frames, nor in the 80 ms
//! after the last (`platform.driver.gpu.cpu_latency_us=501`).
//!
//! # State and cost
//! A word per driver; a comparison per state considered. A change costs every idle CPU the way out of its state and back.
//!
//! # Where it fails
//! The limit is for the whole machine, so one careful application or driver keeps every CPU out of deep states; and it trusts the
//! firmware, which may be wrong tenfold.
//!
//! # Differences from the kernel
//! FIDELITY(pm-qos-cpu): an application's request is held for a whole run; those of drivers begin and end at no cost, and the shorter limit
//! that some ask for while their device starts is missing, and so is that Qualcomm's are for the CPUs of the device's interrupt alone (by default all). The kernel has further limits per CPU (`pm_qos_resume_latency_us`) and takes the
//! smaller.
//!
//! # Source
//! Linux 6.12 `kernel/power/qos.c`, `drivers/cpuidle/governor.c` (behaviour): `cpuidle_governor_latency_req`,
//! `cpu_latency_qos_update_request`; 4.9 did the same by a notifier (`cpuidle_latency_notify`). Drivers: the platform's file.

use super::NO_LATENCY_LIMIT;
use crate::registry::Tunable;
use wattif_model::platform::Driver;
use wattif_model::workload::DeviceSpec;

/// Tunables of this policy.
pub const TUNABLES: &[Tunable] = &[Tunable {
    name: "cpu_latency_us",
    default: "none",
    allowed: &["none", "0..=2000000000"],
    doc: "no idle state that advertises a longer exit latency, µs",
}];

/// `cpuidle_governor_latency_req`: the limit as governors see it, ns.
pub fn latency_req_ns(cpu_latency_us: Option<u64>) -> i64 {
    cpu_latency_us.map_or(NO_LATENCY_LIMIT, |us| i64::try_from(us.saturating_mul(1000)).unwrap_or(NO_LATENCY_LIMIT))
}

/// Is a driver's request held?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    No,
    /// Its device works.
    Works,
    /// It has nothing to do; until then, ns.
    Until(u64),
}

/// A driver's request.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// Index into the workload's devices.
    device: u32,
    latency_ns: i64,
    hold_ns: u64,
    held: Held,
}

/// All requests (`cpu_latency_constraints`).
#[derive(Clone, Debug)]
pub struct CpuLatency {
    /// The application's, ns.
    own_ns: i64,
    drivers: Vec<Request>,
    /// The limit now, ns.
    pub target_ns: i64,
}

impl Default for CpuLatency {
    fn default() -> CpuLatency {
        CpuLatency { own_ns: NO_LATENCY_LIMIT, drivers: Vec::new(), target_ns: NO_LATENCY_LIMIT }
    }
}

impl CpuLatency {
    /// An application's request, and those of the drivers of a workload's devices; none of these is held yet.
    pub fn new(own_ns: i64, drivers: &[Driver], devices: &[DeviceSpec]) -> CpuLatency {
        let request = |driver: &Driver| {
            let latency_ns = i64::try_from(driver.cpu_latency_ns?).unwrap_or(NO_LATENCY_LIMIT);
            let device = devices.iter().position(|d| d.name == driver.device)? as u32;
            Some(Request { device, latency_ns, hold_ns: driver.hold_ns, held: Held::No })
        };
        CpuLatency { own_ns, drivers: drivers.iter().filter_map(request).collect(), target_ns: own_ns }
    }

    /// Does any driver ask for something?
    pub fn has_drivers(&self) -> bool {
        !self.drivers.is_empty()
    }

    /// Devices work or not, or time has passed: has the limit changed?
    pub fn update(&mut self, now: u64, works: impl Fn(u32) -> bool) -> bool {
        for request in &mut self.drivers {
            request.held = match request.held {
                _ if works(request.device) => Held::Works,
                Held::Works => Held::Until(now.saturating_add(request.hold_ns)),
                held => held,
            };
            if matches!(request.held, Held::Until(end) if end <= now) {
                request.held = Held::No;
            }
        }
        let held = self.drivers.iter().filter(|r| r.held != Held::No).map(|r| r.latency_ns);
        let target_ns = held.fold(self.own_ns, i64::min);
        std::mem::replace(&mut self.target_ns, target_ns) != target_ns
    }

    /// When the next request ends if its device gets nothing to do, ns.
    pub fn next_end(&self) -> Option<u64> {
        let end = |r: &Request| if let Held::Until(end) = r.held { Some(end) } else { None };
        self.drivers.iter().filter_map(end).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert_eq!([None, Some(0), Some(50)].map(latency_req_ns), [NO_LATENCY_LIMIT, 0, 50_000]);
    }

    fn driver(device: &str, cpu_latency_ns: Option<u64>, hold_ns: u64) -> Driver {
        Driver { device: device.into(), cpu_latency_ns, hold_ns }
    }

    #[test]
    fn a_request_is_held_while_its_device_works_and_for_a_while() {
        let devices = ["disk", "gpu"].map(|name| DeviceSpec { name: name.into(), servers: 1, iowait: false });
        let drivers = [driver("gpu", Some(500), 80), driver("disk", Some(100), 10), driver("radio", Some(1), 1)];
        let mut qos = CpuLatency::new(9_000, &drivers, &devices);
        let mut at = |now, working: &[u32]| {
            let changed = qos.update(now, |device| working.contains(&device));
            (changed, qos.target_ns, qos.next_end())
        };
        assert_eq!(at(0, &[]), (false, 9_000, None));
        assert_eq!(at(10, &[1]), (true, 500, None));
        assert_eq!(at(20, &[]), (false, 500, Some(100)));
        assert_eq!(at(90, &[1]), (false, 500, None), "it works again before the end");
        assert_eq!(at(95, &[]), (false, 500, Some(175)));
        assert_eq!(at(100, &[0]), (true, 100, Some(175)), "the smaller one");
        assert_eq!(at(110, &[]), (false, 100, Some(120)));
        assert_eq!(at(120, &[]), (true, 500, Some(175)));
        assert_eq!(at(175, &[]), (true, 9_000, None));
    }

    #[test]
    fn drivers_that_ask_for_nothing_or_whose_device_is_not_there_count_for_nothing() {
        let devices = [DeviceSpec { name: "gpu".into(), servers: 1, iowait: false }];
        let drivers = [driver("gpu", None, 80), driver("disk", Some(1), 1)];
        assert!(!CpuLatency::new(NO_LATENCY_LIMIT, &drivers, &devices).has_drivers());
        assert!(CpuLatency::new(NO_LATENCY_LIMIT, &[driver("gpu", Some(1), 0)], &devices).has_drivers());
    }
}

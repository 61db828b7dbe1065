//! From nice values to weights, and from time to virtual time.

use crate::sched::task::SchedEntity;
pub use wattif_model::workload::SCHED_PRIO_TO_WEIGHT;

/// Weight of nice 0, scaled (`NICE_0_LOAD`).
pub const NICE_0_LOAD: u64 = 1 << 20;
/// Weight of SCHED_IDLE, unscaled (`WEIGHT_IDLEPRIO`).
pub const WEIGHT_IDLEPRIO: u32 = 3;
/// 2^32 / [`WEIGHT_IDLEPRIO`].
pub const WMULT_IDLEPRIO: u32 = 1_431_655_765;

/// 2^32 / weight, rounded as the kernel rounds it (`sched_prio_to_wmult`).
#[rustfmt::skip]
pub const SCHED_PRIO_TO_WMULT: [u32; 40] = [
    48388, 59856, 76040, 92818, 118348, 147320, 184698, 229616, 287308, 360437,
    449829, 563644, 704093, 875809, 1099582, 1376151, 1717300, 2157191, 2708050, 3363326,
    4194304, 5237765, 6557202, 8165337, 10153587, 12820798, 15790321, 19976592, 24970740, 31350126,
    39045157, 49367440, 61356676, 76695844, 95443717, 119304647, 148102320, 186737708, 238609294, 286331153,
];

/// Scaled weight and its inverse of a nice value, −20..=19, or of SCHED_IDLE.
#[doc(alias = "set_load_weight")]
pub fn load_weight(nice: i8, idle_policy: bool) -> (u64, u32) {
    if idle_policy {
        return (u64::from(WEIGHT_IDLEPRIO) << 10, WMULT_IDLEPRIO);
    }
    let at = (i32::from(nice) + 20).clamp(0, 39) as usize;
    (u64::from(SCHED_PRIO_TO_WEIGHT[at]) << 10, SCHED_PRIO_TO_WMULT[at])
}

/// Scaled weight → weight; at least 2 unless 0.
#[inline]
pub fn scale_load_down(weight: u64) -> u64 {
    if weight == 0 { 0 } else { (weight >> 10).max(2) }
}

/// The inverse that the kernel computes for a weight that is no task's (`__update_inv_weight`).
#[inline]
pub fn inverse(weight: u64) -> u32 {
    match scale_load_down(weight) {
        0 => u32::MAX,
        w if w >= u64::from(u32::MAX) => 1,
        w => (u64::from(u32::MAX) / w) as u32,
    }
}

/// `delta · weight / lw`, both scaled weights; `inv` is the inverse of `lw`, 0 when it must be computed (`__calc_delta`).
#[inline]
pub fn calc_delta(delta: u64, weight: u64, lw: u64, inv: u32) -> u64 {
    let inv = if inv == 0 { inverse(lw) } else { inv };
    let (mut fact, mut shift) = (scale_load_down(weight), 32);
    shrink(&mut fact, &mut shift);
    fact = (fact as u32 as u64) * u64::from(inv);
    shrink(&mut fact, &mut shift);
    ((u128::from(delta) * u128::from(fact)) >> shift) as u64
}

/// Cuts a factor to 32 bits and remembers by how much.
#[inline]
fn shrink(fact: &mut u64, shift: &mut u32) {
    let high = (*fact >> 32) as u32;
    let fls = 32 - high.leading_zeros();
    *fact >>= fls;
    *shift -= fls;
}

/// Time → virtual time of an entity: `delta · 1024 / weight`.
#[inline]
pub fn calc_delta_fair(delta: u64, se: &SchedEntity) -> u64 {
    if se.weight == NICE_0_LOAD { delta } else { calc_delta(delta, NICE_0_LOAD, se.weight, se.inv_weight) }
}

/// An entity's weight, unscaled (`se_weight`).
#[inline]
pub fn se_weight(se: &SchedEntity) -> u64 {
    scale_load_down(se.weight)
}

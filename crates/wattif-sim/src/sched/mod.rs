//! The scheduler, in the shape of the kernel's `kernel/sched`.

pub mod class;
pub mod load;
pub mod placement;

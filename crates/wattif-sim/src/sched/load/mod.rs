//! Load tracking.

pub mod cpu_load;
pub mod pelt;
pub mod rt_avg;
pub mod util_est;
pub mod walt;
pub mod walt_qti;

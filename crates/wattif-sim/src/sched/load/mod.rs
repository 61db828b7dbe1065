//! Load tracking.

pub mod pelt;

//! Moving tasks between run queues.

pub mod group_stats;

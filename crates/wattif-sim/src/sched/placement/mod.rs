//! Where a task goes when it wakes up.

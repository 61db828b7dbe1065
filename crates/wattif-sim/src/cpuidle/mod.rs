//! Idle governors: one file each, by their sysfs names.

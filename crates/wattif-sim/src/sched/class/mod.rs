//! Scheduling classes.

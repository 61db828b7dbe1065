//! The discrete-event core: queue, random streams, digest. It knows nothing of CPUs.

pub mod digest;
pub mod queue;
pub mod rng;

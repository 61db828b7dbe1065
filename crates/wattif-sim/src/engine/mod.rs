//! The discrete-event core: queue, random streams, digest. It knows nothing of CPUs.

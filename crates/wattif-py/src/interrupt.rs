//! Work without the GIL that Ctrl-C ends.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Set when nobody wants the result any more.
pub type Stop = Arc<AtomicBool>;

/// The flag twice: for who sets it, and for who looks at it.
pub fn flags() -> (Stop, Stop) {
    let stop = Stop::default();
    (stop.clone(), stop)
}

/// Do `work` in a thread of its own, looking for Ctrl-C meanwhile, which sets `stop`.
pub fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    stop: &Stop,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    let thread = std::thread::Builder::new().stack_size(16 << 20);
    thread.spawn(move || drop(sender.send(panic::catch_unwind(AssertUnwindSafe(work)))))?;
    let wait = || receiver.lock().expect("only this thread locks it").recv_timeout(Duration::from_millis(50));
    loop {
        match py.detach(wait) {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(_)) => return Err(PyRuntimeError::new_err("a bug of wattif: the simulation panicked (see stderr)")),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("the run has vanished")),
            Err(mpsc::RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| {
                stop.store(true, Ordering::Relaxed);
            })?,
        }
    }
}

//! Work without the GIL that Ctrl-C ends.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
    watched(py, stop, work, || Ok(()))
}

/// How far many runs have come: told to a function of Python, if there is one.
#[derive(Clone)]
pub struct Progress {
    tell: Option<Arc<Py<PyAny>>>,
    total: usize,
    done: Arc<AtomicUsize>,
}

impl Progress {
    /// Of so many runs, to `tell(done, total)`.
    pub fn new(tell: Option<Py<PyAny>>, total: usize) -> Progress {
        Progress { tell: tell.map(Arc::new), total, done: Arc::default() }
    }
    /// One more is finished.
    pub fn step(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
    fn tell(&self, py: Python<'_>) -> PyResult<()> {
        let Some(tell) = &self.tell else { return Ok(()) };
        tell.call1(py, (self.done.load(Ordering::Relaxed), self.total)).map(drop)
    }
}

/// [`interruptible`], telling meanwhile how far it has come.
pub fn progressing<T: Send + 'static>(
    py: Python<'_>,
    stop: &Stop,
    progress: &Progress,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    progress.tell(py)?;
    let done = watched(py, stop, work, || progress.tell(py))?;
    progress.tell(py)?;
    Ok(done)
}

/// `look` is called while the work goes on; its exceptions end it as Ctrl-C does.
fn watched<T: Send + 'static>(
    py: Python<'_>,
    stop: &Stop,
    work: impl FnOnce() -> T + Send + 'static,
    look: impl Fn() -> PyResult<()>,
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
            Err(mpsc::RecvTimeoutError::Timeout) => py.check_signals().and_then(|()| look()).inspect_err(|_| {
                stop.store(true, Ordering::Relaxed);
            })?,
        }
    }
}

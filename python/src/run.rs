//! Where work runs: without the interpreter's lock, on threads of its own, open to Ctrl-C.
//!
//! No pool outlives a call, so nothing is left over for a forked process to wait for. Short work runs
//! on the calling thread, which is made the only member of a rayon pool first: a parallel loop of
//! the library then never reaches for the global one. Longer work gets a pool for the call, and the
//! calling thread asks Python for signals meanwhile.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use hdse::monitor::Monitor;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::ThreadPoolBuilder;

use crate::error::{raise, wrong};

/// How often Python is asked for signals.
const PAUSE: Duration = Duration::from_millis(50);

/// The process that loaded the module; another one was forked from it.
static LOADED_IN: OnceLock<u32> = OnceLock::new();

/// To be called when the module is loaded.
pub fn loaded() {
    LOADED_IN.get_or_init(std::process::id);
}

/// How many threads to work with: as asked; else one where the work is short or this process is a
/// worker among others; else all cores.
pub fn threads(py: Python<'_>, asked: Option<i64>, long: bool) -> PyResult<usize> {
    match asked {
        Some(threads @ 1..=1024) => Ok(threads as usize),
        Some(threads) => Err(wrong(format!("`--threads {threads}`: take between 1 and 1024"))),
        None if !long || is_worker(py)? => Ok(1),
        None => Ok(0), // rayon counts cores
    }
}

/// Whether this process was forked, or started by `multiprocessing`.
fn is_worker(py: Python<'_>) -> PyResult<bool> {
    if LOADED_IN.get().is_some_and(|&pid| pid != std::process::id()) {
        return Ok(true);
    }
    let modules = py.import("sys")?.getattr("modules")?;
    match modules.get_item("multiprocessing.process") {
        Ok(module) => Ok(!module.call_method0("parent_process")?.is_none()),
        Err(_) => Ok(false),
    }
}

/// Runs `work` on so many threads (0 for all cores), without the interpreter's lock.
pub fn run<T: Send>(
    py: Python<'_>,
    threads: usize,
    work: impl FnOnce(&dyn Monitor) -> hdse::Result<T> + Send,
) -> PyResult<T> {
    let signals = Signals::new();
    let work = || catch_unwind(AssertUnwindSafe(|| work(&signals)));
    let done = match threads {
        1 => py.detach(|| {
            stay_on_this_thread()?;
            Ok(work())
        }),
        _ => py.detach(|| on_pool(threads, &signals, work)),
    };
    let done = done.map_err(|e: rayon::ThreadPoolBuildError| {
        PyRuntimeError::new_err(format!("cannot start threads: {e}"))
    })?;
    if let Some(raised) = signals.take() {
        return Err(raised);
    }
    done.map_err(|panic| PyRuntimeError::new_err(panicked(&*panic)))?.map_err(|e| raise(&e))
}

/// Makes this thread a pool of its own, unless it is in one. Once per thread: rayon keeps the few
/// kilobytes it takes.
fn stay_on_this_thread() -> Result<(), rayon::ThreadPoolBuildError> {
    if rayon::current_thread_index().is_none() {
        let pool = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()?;
        std::mem::forget(pool);
    }
    Ok(())
}

/// Runs `work` on a pool for this call; this thread asks for signals until it is done.
fn on_pool<T: Send>(
    threads: usize,
    signals: &Signals,
    work: impl FnOnce() -> T + Send,
) -> Result<T, rayon::ThreadPoolBuildError> {
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|i| format!("hdse-{i}"))
        .build()?;
    let (send, receive) = channel();
    Ok(pool.in_place_scope(|scope| {
        scope.spawn(move |_| {
            let _ = send.send(work());
        });
        loop {
            match receive.recv_timeout(PAUSE) {
                Ok(done) => break done,
                Err(RecvTimeoutError::Timeout) => signals.ask(),
                Err(RecvTimeoutError::Disconnected) => unreachable!("the work never panics"),
            }
        }
    }))
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panic");
    format!("a mistake in hdse itself, please report it: {text}")
}

/// Tells work to stop once Python has a signal, such as Ctrl-C, whose handler raises.
struct Signals {
    caller: ThreadId,
    start: Instant,
    /// Milliseconds since `start` when Python was last asked.
    asked: AtomicU64,
    stop: AtomicBool,
    raised: Mutex<Option<PyErr>>,
}

impl Signals {
    fn new() -> Signals {
        Signals {
            caller: std::thread::current().id(),
            start: Instant::now(),
            asked: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            raised: Mutex::new(None),
        }
    }

    fn ask(&self) {
        if let Err(error) = Python::attach(|py| py.check_signals()) {
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            self.stop.store(true, Relaxed);
        }
    }

    fn take(self) -> Option<PyErr> {
        self.raised.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Monitor for Signals {
    fn stopped(&self) -> bool {
        if self.stop.load(Relaxed) {
            return true;
        }
        let now = self.start.elapsed().as_millis() as u64;
        let due = now >= self.asked.load(Relaxed) + PAUSE.as_millis() as u64;
        // Python handles signals on its main thread only; workers rely on the calling one.
        if due && std::thread::current().id() == self.caller {
            self.asked.store(now, Relaxed);
            self.ask();
        }
        self.stop.load(Relaxed)
    }
}

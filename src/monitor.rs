//! How long work reports progress and learns that it should stop.
//!
//! Library functions that may run for minutes take a `&dyn Monitor`. The command shows a bar and
//! listens for Ctrl-C; a script passes `&()`, which does neither.

use crate::{Error, Result};

/// A listener to long work.
pub trait Monitor: Sync {
    /// `done` more units of work are finished.
    fn advance(&self, done: u64) {
        let _ = done;
    }

    /// Whether the work should stop as soon as it conveniently can.
    fn stopped(&self) -> bool {
        false
    }
}

impl Monitor for () {}

/// An error once the monitor asks to stop; called between units of work.
pub fn check(monitor: &dyn Monitor) -> Result<()> {
    if monitor.stopped() { Err(Error::interrupted()) } else { Ok(()) }
}

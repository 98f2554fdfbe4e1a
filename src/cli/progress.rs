//! A progress bar on a terminal, and Ctrl-C.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::output::Output;
use crate::Error;
use crate::data::AtomicFile;
use crate::monitor::Monitor;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Seconds that work has to end cleanly.
static GRACE: AtomicU64 = AtomicU64::new(1);

/// Gives work a minute to end cleanly from now on, as training needs for a step and a checkpoint.
#[cfg(feature = "train")]
pub(super) fn allow_to_finish() {
    GRACE.store(60, Ordering::Relaxed);
}

/// From now on, Ctrl-C or a termination signal stops the work: what watches its [`Monitor`] ends
/// cleanly; if it has not in good time, files that are half written are removed and the process ends.
pub(super) fn listen_for_interrupts() {
    // Only fails if a handler is set already, which then serves as well.
    let _ = ctrlc::set_handler(|| {
        INTERRUPTED.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(GRACE.load(Ordering::Relaxed)));
        AtomicFile::discard_all();
        eprintln!("error: {:#}", Error::interrupted());
        std::process::exit(130);
    });
}

/// Shows progress on a terminal, and tells the work when it should stop.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar over `total` units called `unit`; 0 for work whose length is unknown.
    pub(super) fn new(total: u64, unit: &str, output: &Output) -> Progress {
        let visible = !output.quiet && !output.json && std::io::stderr().is_terminal();
        let target =
            if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = match total {
            0 | 1 => ProgressBar::no_length(),
            total => ProgressBar::new(total),
        };
        bar.set_draw_target(target);
        let progress = Progress { bar };
        progress.set_style(&match total {
            0 | 1 => format!("{{spinner}} {unit} {{elapsed}}"),
            _ => {
                format!("{{bar:30}} {{human_pos}}/{{human_len}} {unit}, {{rate}}, {{eta}} left")
            }
        });
        if visible {
            progress.bar.enable_steady_tick(Duration::from_millis(200));
        }
        progress
    }

    fn set_style(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            let rate = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
                let _ = write!(text, "{:.0}/s", state.per_sec());
            };
            self.bar.set_style(style.with_key("rate", rate));
        }
    }

    /// Starts anew with the bytes of a file, `done` of which are there.
    pub(super) fn begin_file(&self, name: &str, done: u64, total: Option<u64>) {
        self.bar.reset();
        // Names are those of splits, which are no templates.
        self.set_style(&match total {
            Some(_) => format!(
                "{{bar:30}} {{bytes}}/{{total_bytes}} of {name}, {{bytes_per_sec}}, {{eta}} left"
            ),
            None => format!("{{spinner}} {{bytes}} of {name}, {{bytes_per_sec}}"),
        });
        if let Some(total) = total {
            self.bar.set_length(total);
        }
        self.bar.set_position(done);
        self.bar.reset_eta();
    }

    /// Lets something be printed without mixing it with the bar.
    pub(super) fn aside(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Shows a line above the bar, or on standard error where there is none.
    #[cfg(feature = "train")]
    pub(super) fn line(&self, text: &str, output: &Output) {
        match output.quiet || output.json {
            true => {}
            false if std::io::stderr().is_terminal() => self.bar.println(text),
            false => eprintln!("{text}"),
        }
    }
}

impl Monitor for Progress {
    fn advance(&self, done: u64) {
        self.bar.inc(done);
    }

    fn stopped(&self) -> bool {
        INTERRUPTED.load(Ordering::Relaxed)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

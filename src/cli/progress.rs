//! A progress bar on a terminal, and Ctrl-C.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::output::Output;
use crate::monitor::Monitor;

/// Shows progress on a terminal and stops the work on Ctrl-C or a termination signal: the first one
/// lets it clean up, the second ends the process at once.
pub(super) struct Progress {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// A bar over `total` units called `unit`; 0 for work whose length is unknown.
    pub(super) fn new(total: u64, unit: &str, output: &Output) -> Progress {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        // Only fails if a handler is set already, which then serves as well.
        let _ = ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        });
        let visible = !output.quiet && !output.json && std::io::stderr().is_terminal();
        let target =
            if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = match total {
            0 | 1 => ProgressBar::no_length(),
            total => ProgressBar::new(total),
        };
        bar.set_draw_target(target);
        let template = match total {
            0 | 1 => format!("{{spinner}} {unit} {{elapsed}}"),
            _ => {
                format!("{{bar:30}} {{human_pos}}/{{human_len}} {unit}, {{rate}}, {{eta}} left")
            }
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            let rate = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
                let _ = write!(text, "{:.0}/s", state.per_sec());
            };
            bar.set_style(style.with_key("rate", rate));
        }
        if visible {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Progress { bar, stop }
    }
}

impl Monitor for Progress {
    fn advance(&self, done: u64) {
        self.bar.inc(done);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

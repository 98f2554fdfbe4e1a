//! What the command prints, and where.

use std::io::{ErrorKind, Write as _};
use std::time::Instant;

use serde_json::Value;

use super::{Common, usage};
use crate::graph::Repairs;
pub(super) use crate::text::{count, thousands};
use crate::{Error, Result};

/// How much to print, and in which form.
pub(super) struct Output {
    pub json: bool,
    pub quiet: bool,
    pub verbose: bool,
    started: Instant,
}

impl Output {
    pub(super) fn new(common: &Common) -> Output {
        let Common { json, quiet, verbose, .. } = *common;
        Output { json, quiet, verbose, started: Instant::now() }
    }

    /// The result: JSON or text, on standard output.
    pub(super) fn result(
        &self,
        json: impl FnOnce() -> Value,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        if self.json {
            self.print(&format!("{:#}\n", json()))
        } else if self.quiet {
            Ok(())
        } else {
            self.print(&text())
        }
    }

    /// Text on standard output. A reader that has gone away is no error.
    pub(super) fn print(&self, text: &str) -> Result<()> {
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => {
                Err(Error::io("cannot write", "standard output", e))
            }
            _ => Ok(()),
        }
    }

    /// Something worth knowing, on standard error.
    pub(super) fn note(&self, text: &str) {
        if !self.quiet {
            eprintln!("note: {text}");
        }
    }

    /// A detail, on standard error, with `--verbose`.
    pub(super) fn detail(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("{}", text());
        }
    }

    /// Says what was mended in the input, if anything was. One-way edges are only a detail: most
    /// lists of undirected edges give each once.
    pub(super) fn repairs(&self, repairs: Repairs) {
        let Repairs { self_loops, duplicates, one_way } = repairs;
        if self_loops + duplicates > 0 {
            self.note(&format!(
                "dropped {} and merged {}",
                count(self_loops, "self-loop"),
                count(duplicates, "repeated edge")
            ));
        }
        self.detail(|| format!("listed in one direction only: {}", count(one_way, "edge")));
    }

    /// Wall time so far, CPU time and peak memory, as JSON fields.
    pub(super) fn resources(&self) -> [(&'static str, Value); 3] {
        let usage = usage::now();
        [
            ("seconds", self.seconds().into()),
            ("cpu_seconds", usage.cpu_seconds.into()),
            ("peak_rss_bytes", usage.peak_rss_bytes.into()),
        ]
    }

    /// Wall time so far.
    pub(super) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

/// A JSON object from fields.
pub(super) fn object(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    fields.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}

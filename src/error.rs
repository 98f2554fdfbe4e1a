//! One error type for the whole library.
//!
//! A message says *what* was wrong, *where* (file, row, key) and *what to do*. Callers do not
//! match on variants; they ask [`Error::is_config`] and its siblings, which is enough to choose
//! an exit code or an exception class. `{}` prints the outermost message, `{:#}` the whole chain.
//!
//! ```
//! use hdse::Error;
//! let inner = Error::data("node id 9 is out of range for 4 nodes");
//! let outer = inner.context("zinc.parquet, row 17");
//! assert_eq!(format!("{outer:#}"), "zinc.parquet, row 17: node id 9 is out of range for 4 nodes");
//! assert!(outer.is_data());
//! ```

use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, where, and what to do about it. One word wide, cheap to clone.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: Kind,
    message: String,
    source: Option<Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Config,
    Data,
    Io,
    Memory,
    Interrupted,
}

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Arc::new(Inner { kind, message: message.into(), source: None }))
    }

    /// A wrong argument, option or configuration key.
    pub fn config(message: impl Into<String>) -> Self {
        Error::new(Kind::Config, message)
    }

    /// Input that does not hold what it should.
    pub fn data(message: impl Into<String>) -> Self {
        Error::new(Kind::Data, message)
    }

    /// A failed operation on a file: `action` is a phrase such as "cannot read".
    pub fn io(action: &str, path: impl AsRef<Path>, cause: impl fmt::Display) -> Self {
        Error::new(Kind::Io, format!("{action} {}: {cause}", path.as_ref().display()))
    }

    /// An allocation refused before it was made; see [`crate::memory`].
    pub fn memory(message: impl Into<String>) -> Self {
        Error::new(Kind::Memory, message)
    }

    /// The work was stopped from outside, for instance by Ctrl-C.
    pub fn interrupted() -> Self {
        Error::new(Kind::Interrupted, "interrupted; nothing was written")
    }

    /// The same, where something is left to go on from.
    #[cfg(any(feature = "fetch", all(feature = "cli", feature = "train")))]
    pub(crate) fn interrupted_but(message: impl Into<String>) -> Self {
        Error::new(Kind::Interrupted, message)
    }

    /// Puts `message` in front: where the error happened, as seen one level further out.
    pub fn context(self, message: impl Into<String>) -> Self {
        Error(Arc::new(Inner { kind: self.0.kind, message: message.into(), source: Some(self) }))
    }

    /// Whether an argument, option or configuration key was wrong.
    pub fn is_config(&self) -> bool {
        self.0.kind == Kind::Config
    }

    /// Whether the input did not hold what it should.
    pub fn is_data(&self) -> bool {
        self.0.kind == Kind::Data
    }

    /// Whether reading or writing failed.
    pub fn is_io(&self) -> bool {
        self.0.kind == Kind::Io
    }

    /// Whether an allocation was refused.
    pub fn is_memory(&self) -> bool {
        self.0.kind == Kind::Memory
    }

    /// Whether the work was stopped from outside.
    pub fn is_interrupted(&self) -> bool {
        self.0.kind == Kind::Interrupted
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.source {
            Some(source) if f.alternate() => write!(f, ": {source:#}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as _)
    }
}

/// Adds the place of an error on its way out.
pub(crate) trait Context<T> {
    /// Puts the message in front of an error, if there is one.
    fn context(self, message: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for Result<T> {
    fn context(self, message: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| e.context(message()))
    }
}

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Runs code of others that panics on broken input, and gives nothing if it does.
#[cfg(feature = "parquet")]
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Option<T> {
    let outer = CATCHING.replace(true);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok();
    CATCHING.set(outer);
    result
}

/// Whether this thread is inside [`catch`], where a panic is no news for the user.
#[cfg(feature = "cli")]
pub(crate) fn is_catching() -> bool {
    CATCHING.get()
}

/// "; did you mean `louvain`?" if a candidate is close to `word`, else nothing.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    candidates
        .into_iter()
        .map(|c| (edit_distance(word, c), c))
        .min_by_key(|&(d, _)| d)
        .filter(|&(d, c)| d <= 2.max(c.len() / 3))
        .map_or_else(String::new, |(_, c)| format!("; did you mean `{c}`?"))
}

/// Refuses a name that is not among `candidates`, with the nearest one, and says where all are.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    all: &str,
) -> Error {
    let hint = match did_you_mean(name, candidates) {
        hint if hint.is_empty() => ";".into(),
        hint => hint,
    };
    Error::config(format!("unknown {what} `{name}`{hint} {all}"))
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_near_or_absent() {
        assert_eq!(did_you_mean("luvain", ["newman", "louvain"]), "; did you mean `louvain`?");
        assert_eq!(did_you_mean("quicksort", ["newman", "louvain"]), "");
        assert_eq!(did_you_mean("x", []), "");
    }

    #[test]
    fn edit_distance_counts_edits() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("same", "same"), 0);
    }

    #[test]
    fn context_keeps_the_kind() {
        let e = Error::memory("too much").context("here");
        assert!(e.is_memory() && !e.is_io());
        assert_eq!(e.to_string(), "here");
    }
}

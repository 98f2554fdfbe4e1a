//! The bytes of an input: a file or standard input, gzip undone.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use crate::{Error, MemoryLimit, Result};

/// The bytes of an input, with the name to use in messages.
pub struct Source {
    name: String,
    bytes: Arc<Vec<u8>>,
    hash: String,
}

impl Source {
    /// Reads a file, or standard input for `-`, whole; gzip is recognised by its first bytes.
    ///
    /// # Errors
    /// If it can't be read, is a directory, is empty, is broken gzip, or needs more than `limit`.
    pub fn load(input: &str, limit: MemoryLimit) -> Result<Source> {
        let mut raw = Vec::new();
        let name = if input == "-" {
            read_within(std::io::stdin().lock(), &mut raw, limit, "standard input")?;
            "standard input".to_string()
        } else {
            let path = Path::new(input);
            let problem = |e: std::io::Error| Error::io("cannot read", path, e);
            let file = File::open(path).map_err(problem)?;
            if file.metadata().map_err(problem)?.is_dir() {
                return Err(is_directory(path));
            }
            read_within(file, &mut raw, limit, input)?;
            path.file_name().map_or(input.into(), |n| n.to_string_lossy().into_owned())
        };
        Source::from_bytes(&name, raw, limit)
    }

    /// Takes bytes that were read already; gzip is undone.
    ///
    /// # Errors
    /// If they are empty, broken gzip, or need more than `limit` once unpacked.
    pub fn from_bytes(name: &str, raw: Vec<u8>, limit: MemoryLimit) -> Result<Source> {
        let hash = blake3::hash(&raw).to_hex().to_string();
        let mut bytes = raw;
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut plain = Vec::new();
            let decoder = flate2::read::MultiGzDecoder::new(&bytes[..]);
            read_within(decoder, &mut plain, limit, name)
                .map_err(|e| e.context("broken or truncated gzip; get the file again"))?;
            bytes = plain;
        }
        // Some editors put a byte order mark in front of text.
        if bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        if bytes.iter().all(|b| b.is_ascii_whitespace()) {
            return Err(Error::data(format!("{name} is empty; it should hold a graph")));
        }
        Ok(Source { name: name.to_string(), bytes: Arc::new(bytes), hash })
    }

    /// File name or "standard input".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes, after gzip.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same bytes, shared.
    #[cfg(feature = "parquet")]
    pub(super) fn shared(&self) -> Arc<Vec<u8>> {
        self.bytes.clone()
    }

    /// blake3 of the bytes as they lie on disk.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The text of an input that should be text.
    pub fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.bytes).map_err(|e| {
            let line = self.bytes[..e.valid_up_to()].iter().filter(|&&b| b == b'\n').count() + 1;
            Error::data(format!("line {line} is not UTF-8 text; save it as UTF-8"))
        })
    }

    #[cfg(test)]
    pub(crate) fn test(name: &str, bytes: &[u8]) -> Source {
        Source { name: name.into(), bytes: Arc::new(bytes.to_vec()), hash: "test".into() }
    }
}

fn read_within(
    reader: impl Read,
    into: &mut Vec<u8>,
    limit: MemoryLimit,
    name: &str,
) -> Result<()> {
    let most = limit.0.saturating_add(1);
    match reader.take(most).read_to_end(into) {
        Ok(read) => limit.check(
            read as u128,
            name,
            "split the input, or raise `--max-memory` if the machine has it",
        ),
        Err(e) if e.kind() == ErrorKind::OutOfMemory => {
            Err(Error::memory(format!("{name} does not fit into memory")))
        }
        Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::UnexpectedEof) => {
            Err(Error::data(format!("{name}: {e}")))
        }
        Err(e) => Err(Error::io("cannot read", name, e)),
    }
}

fn is_directory(path: &Path) -> Error {
    let mut inside: Vec<String> = std::fs::read_dir(path)
        .map(|entries| {
            entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect()
        })
        .unwrap_or_default();
    inside.sort();
    let example =
        inside.iter().find(|n| super::formats::by_file_name(n).is_some_and(|f| f.reads()));
    let hint = example.map_or_else(
        || "give a file".to_string(),
        |n| format!("give a file in it, for instance {}", path.join(n).display()),
    );
    Error::config(format!("{} is a directory; {hint}", path.display()))
}

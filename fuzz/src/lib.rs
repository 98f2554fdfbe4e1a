//! What the fuzz targets share: read, and ignore errors; a panic is what is looked for.

use std::path::PathBuf;

use hdse::MemoryLimit;
use hdse::data::{ReadOptions, encoded, open_graph_file, read_bytes};

/// Reads graphs from bytes of the format that `name` tells.
pub fn read(name: &str, bytes: &[u8]) {
    let options = ReadOptions { limit: MemoryLimit(64 << 20), ..ReadOptions::default() };
    let _ = read_bytes(name, bytes.to_vec(), &options);
}

/// Reads an encoded set.
pub fn read_encoded(bytes: &[u8]) {
    let path = on_disk(bytes);
    if let Ok(mut set) = encoded::open(&path) {
        while let Ok(Some(_)) = set.next() {}
    }
}

/// Opens a graph file.
pub fn read_graph_file(bytes: &[u8]) {
    let _ = open_graph_file(&on_disk(bytes));
}

/// For readers that need a file: one per process, overwritten each time.
fn on_disk(bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("hdse-fuzz-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("a writable temporary folder");
    path
}

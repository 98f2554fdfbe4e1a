//! The list of file formats, and how one is recognised.

use std::path::Path;

use super::{GraphSet, ReadOptions, Source, edge_list, jsonl};
use crate::error::did_you_mean;
use crate::{Error, Result};

/// A file format.
pub struct Format {
    /// The name to choose it by.
    pub name: &'static str,
    /// File name endings, without the dot.
    pub extensions: &'static [&'static str],
    /// One line for lists.
    pub summary: &'static str,
    /// Reads graphs, if the format holds them.
    pub read: Option<fn(&Source, &ReadOptions) -> Result<GraphSet>>,
    /// Whether encoded sets can be written.
    pub writes: bool,
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every format, in the order of the documentation.
pub const FORMATS: &[Format] = &[
    #[cfg(feature = "parquet")]
    Format {
        name: "parquet",
        extensions: &["parquet", "pq"],
        summary: "graph set in, encoded set out, one row per graph",
        read: Some(super::parquet::read),
        writes: true,
    },
    Format {
        name: "jsonl",
        extensions: &["jsonl", "ndjson"],
        summary: "graph set in, one JSON object per line, same columns as parquet",
        read: Some(jsonl::read),
        writes: false,
    },
    Format {
        name: "edge-list",
        extensions: &["txt", "edges", "edgelist", "csv", "tsv", "el"],
        summary: "one graph in, one edge per line, optional weight, any ids",
        read: Some(edge_list::read),
        writes: false,
    },
    Format {
        name: "safetensors",
        extensions: &["safetensors"],
        summary: "encoded set out, for torch and others",
        read: None,
        writes: true,
    },
    Format {
        name: "npz",
        extensions: &["npz"],
        summary: "encoded set out, for numpy",
        read: None,
        writes: true,
    },
];

/// The format called `name`.
pub(crate) fn by_name(name: &str) -> Result<&'static Format> {
    FORMATS.iter().find(|f| f.name == name).ok_or_else(|| {
        Error::config(format!(
            "unknown format `{name}`{} (formats: {})",
            did_you_mean(name, FORMATS.iter().map(|f| f.name)),
            FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
        ))
    })
}

/// The format that a file name ends in, `.gz` aside.
pub(crate) fn by_file_name(name: &str) -> Option<&'static Format> {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let extension = Path::new(name).extension()?.to_str()?.to_ascii_lowercase();
    FORMATS.iter().find(|f| f.extensions.contains(&extension.as_str()))
}

/// The format of an input: by its first bytes where they are telling, else by its name, else an
/// edge list.
pub(crate) fn detect(source: &Source) -> Result<&'static Format> {
    let first = source.bytes().iter().find(|b| !b.is_ascii_whitespace());
    let is_parquet = source.bytes().starts_with(b"PAR1") || source.name().ends_with(".parquet");
    if is_parquet && cfg!(not(feature = "parquet")) {
        return Err(Error::config(format!(
            "{} is a Parquet file, and this program was built without the feature `parquet`",
            source.name()
        )));
    }
    match first {
        Some(b'P') if is_parquet => by_name("parquet"),
        Some(b'{') => by_name("jsonl"),
        _ => by_file_name(source.name()).map_or_else(|| by_name("edge-list"), Ok),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_name_and_content() {
        let of = |name: &str, bytes: &[u8]| detect(&Source::from_bytes(name, bytes)).unwrap().name;
        assert_eq!(of("a.csv.gz", b"1,2\n"), "edge-list");
        assert_eq!(of("standard input", b" {\"num_nodes\": 1}"), "jsonl");
        assert_eq!(of("graph", b"1 2\n"), "edge-list");
        #[cfg(feature = "parquet")]
        assert_eq!(of("x.bin", b"PAR1...."), "parquet");
        assert!(by_name("parket").unwrap_err().to_string().contains("unknown format `parket`"));
    }
}

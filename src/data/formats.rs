//! The list of file formats, and how one is recognised.

use std::io::Write as _;
use std::path::Path;

use super::arrays::{self, ArraySpec, Dtype};
use super::{
    AtomicFile, GraphSet, ReadOptions, Source, edge_list, gml, graphml, jsonl, matrix_market,
    metis, numpy, write_graph_file,
};
use crate::error::did_you_mean;
use crate::{Error, Graph, Result};

/// A file format.
pub struct Format {
    /// The name to choose it by.
    pub name: &'static str,
    /// File name endings, without the dot.
    pub extensions: &'static [&'static str],
    /// One line for lists.
    pub summary: &'static str,
    /// How graphs are read, if the format holds them.
    pub read: Reader,
    /// Writes one graph, if the format holds that.
    pub write_graph: Option<fn(&GraphOut<'_>, AtomicFile) -> Result<()>>,
    /// Whether encoded sets can be written.
    pub writes_sets: bool,
}

/// How a format is read.
pub enum Reader {
    /// Not at all.
    None,
    /// From its bytes.
    Bytes(fn(&Source, &ReadOptions) -> Result<GraphSet>),
    /// By path, because it is a folder or mapped into memory.
    Path,
}

/// One graph to write, with what some formats hold besides.
pub struct GraphOut<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// Names of nodes, if they are not 0 … n − 1.
    pub ids: Option<&'a [String]>,
    /// Integer attributes of nodes, by name; only GraphML and GEXF hold them.
    pub attributes: &'a [(String, Vec<u32>)],
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Format {
    /// Whether graphs can be read.
    pub fn reads(&self) -> bool {
        !matches!(self.read, Reader::None)
    }
}

/// Every format, in the order of the documentation.
pub const FORMATS: &[Format] = &[
    #[cfg(feature = "parquet")]
    Format {
        name: "parquet",
        extensions: &["parquet", "pq"],
        summary: "graph set, one row per graph; or one graph, one row per edge; encoded set",
        read: Reader::Bytes(super::parquet::read),
        write_graph: Some(super::parquet::write_graph),
        writes_sets: true,
    },
    Format {
        name: "jsonl",
        extensions: &["jsonl", "ndjson"],
        summary: "graph set, one JSON object per line, same columns as parquet",
        read: Reader::Bytes(jsonl::read),
        write_graph: None,
        writes_sets: false,
    },
    Format {
        name: "tu",
        extensions: &[],
        summary: "graph set of the TU collection: a folder with NAME_A.txt and its companions",
        read: Reader::Path,
        write_graph: None,
        writes_sets: false,
    },
    Format {
        name: "edge-list",
        extensions: &["txt", "edges", "edgelist", "csv", "tsv", "el"],
        summary: "one graph, one edge per line, optional weight, any ids",
        read: Reader::Bytes(edge_list::read),
        write_graph: Some(|out, file| {
            let name = file.path().extension().and_then(|e| e.to_str()).unwrap_or("");
            let delimiter = match name {
                "csv" => ',',
                "tsv" => '\t',
                _ => ' ',
            };
            text(edge_list::write(out.graph, out.ids, delimiter)?, file)
        }),
        writes_sets: false,
    },
    Format {
        name: "metis",
        extensions: &["graph", "metis"],
        summary: "one graph, a line of neighbours per node, weights of edges and nodes",
        read: Reader::Bytes(metis::read),
        write_graph: Some(|out, file| text(metis::write(out.graph)?, file)),
        writes_sets: false,
    },
    Format {
        name: "gml",
        extensions: &["gml"],
        summary: "one graph, labels, classes and weights",
        read: Reader::Bytes(gml::read),
        write_graph: Some(|out, file| text(gml::write(out.graph, out.ids)?, file)),
        writes_sets: false,
    },
    Format {
        name: "graphml",
        extensions: &["graphml"],
        summary: "one graph, labels, weights and clusters; opens in Gephi",
        read: Reader::Bytes(graphml::read),
        write_graph: Some(|out, file| {
            text(graphml::write(out.graph, out.ids, out.attributes)?, file)
        }),
        writes_sets: false,
    },
    Format {
        name: "gexf",
        extensions: &["gexf"],
        summary: "one graph, labels, weights and clusters; opens in Gephi",
        read: Reader::None,
        write_graph: Some(|out, file| {
            text(graphml::write_gexf(out.graph, out.ids, out.attributes)?, file)
        }),
        writes_sets: false,
    },
    Format {
        name: "matrix-market",
        extensions: &["mtx"],
        summary: "one graph as a sparse matrix",
        read: Reader::Bytes(matrix_market::read),
        write_graph: Some(|out, file| text(matrix_market::write(out.graph)?, file)),
        writes_sets: false,
    },
    Format {
        name: "npz",
        extensions: &["npz"],
        summary: "one graph as arrays, or a scipy sparse matrix; encoded set, for numpy",
        read: Reader::Bytes(numpy::read_npz),
        write_graph: Some(write_npz),
        writes_sets: true,
    },
    Format {
        name: "npy",
        extensions: &["npy"],
        summary: "one graph as an array of pairs",
        read: Reader::Bytes(numpy::read_npy),
        write_graph: None,
        writes_sets: false,
    },
    Format {
        name: "hgraph",
        extensions: &["hgraph"],
        summary: "one graph, ours: checked by hash and mapped into memory instead of parsed",
        read: Reader::Path,
        write_graph: Some(|out, file| write_graph_file(out.graph, file)),
        writes_sets: false,
    },
    Format {
        name: "safetensors",
        extensions: &["safetensors"],
        summary: "encoded set, for torch and others",
        read: Reader::None,
        write_graph: None,
        writes_sets: true,
    },
];

/// Writes a whole text file.
fn text(text: String, mut file: AtomicFile) -> Result<()> {
    file.write_all(text.as_bytes()).map_err(|e| Error::io("cannot write", file.path(), e))?;
    file.commit()
}

/// Arrays `edges`, `num_nodes` and, where there are any, `weights`.
fn write_npz(out: &GraphOut<'_>, file: AtomicFile) -> Result<()> {
    let graph = out.graph;
    let mut specs = vec![
        ArraySpec::new("num_nodes", Dtype::U64, &[]),
        ArraySpec::new("edges", Dtype::U32, &[graph.num_edges(), 2]),
    ];
    if graph.is_weighted() {
        specs.push(ArraySpec::new("weights", Dtype::F32, &[graph.num_edges()]));
    }
    let mut arrays = arrays::create("npz", file, specs, "{}")?;
    arrays.begin(0)?;
    arrays.write(&(graph.num_nodes() as u64).to_le_bytes())?;
    arrays.begin(1)?;
    let edges: Vec<[u32; 2]> = graph.edges().map(|(u, v, _)| [u, v]).collect();
    arrays.write(bytemuck::cast_slice(&edges))?;
    if graph.is_weighted() {
        arrays.begin(2)?;
        let weights: Vec<f32> = graph.edges().map(|(.., w)| w).collect();
        arrays.write(bytemuck::cast_slice(&weights))?;
    }
    arrays.finish()
}

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
    let bytes = source.bytes();
    let first = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    let is_parquet = bytes.starts_with(b"PAR1") || source.name().ends_with(".parquet");
    if is_parquet && cfg!(not(feature = "parquet")) {
        return Err(Error::config(format!(
            "{} is a Parquet file, and this program was built without the feature `parquet`",
            source.name()
        )));
    }
    let named = || by_file_name(source.name()).map_or_else(|| by_name("edge-list"), Ok);
    match &bytes[first..] {
        _ if is_parquet => by_name("parquet"),
        b if b.starts_with(b"PK\x03\x04") => by_name("npz"),
        b if b.starts_with(b"\x93NUMPY") => by_name("npy"),
        b if b.starts_with(b"{") => by_name("jsonl"),
        b if b.starts_with(b"<") => by_name("graphml"),
        b if b.len() > 14 && b[..14].eq_ignore_ascii_case(b"%%MatrixMarket") => {
            by_name("matrix-market")
        }
        _ => named(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_name_and_content() {
        let of = |name: &str, bytes: &[u8]| detect(&Source::test(name, bytes)).unwrap().name;
        assert_eq!(of("a.csv.gz", b"1,2\n"), "edge-list");
        assert_eq!(of("standard input", b" {\"num_nodes\": 1}"), "jsonl");
        assert_eq!(of("graph", b"1 2\n"), "edge-list");
        assert_eq!(of("x.graph.gz", b"1 0\n\n"), "metis");
        assert_eq!(of("-", b"%%MatrixMarket matrix"), "matrix-market");
        assert_eq!(of("-", b"<?xml"), "graphml");
        #[cfg(feature = "parquet")]
        assert_eq!(of("x.bin", b"PAR1...."), "parquet");
        assert!(by_name("parket").unwrap_err().to_string().contains("unknown format `parket`"));
    }

    #[test]
    fn names_and_extensions_are_unique() {
        let mut names: Vec<&str> = FORMATS.iter().map(|f| f.name).collect();
        let mut endings: Vec<&str> = FORMATS.iter().flat_map(|f| f.extensions).copied().collect();
        let (n, e) = (names.len(), endings.len());
        names.sort_unstable();
        names.dedup();
        endings.sort_unstable();
        endings.dedup();
        assert_eq!((names.len(), endings.len()), (n, e));
    }
}

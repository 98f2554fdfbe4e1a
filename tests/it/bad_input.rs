//! Broken files: a clear error each, never a panic.

use hdse::data::{ReadOptions, read};
use hdse::{MemoryLimit, Result};
use std::path::Path;

fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_string_lossy().into_owned()
}

fn load(path: &str) -> Result<hdse::data::GraphSet> {
    read(path, &ReadOptions { limit: MemoryLimit(1 << 30), ..ReadOptions::default() })
}

#[test]
fn files_that_are_no_graphs() {
    let folder = tempfile::tempdir().unwrap();
    let cases: &[(&str, &[u8], &str)] = &[
        ("empty.txt", b"", "empty.txt is empty"),
        ("blank.txt", b" \n\n", "blank.txt is empty"),
        ("empty.parquet", b"", "empty.parquet is empty"),
        ("text.parquet", b"hello", "not a readable Parquet file"),
        ("short.parquet", b"PAR1", "not a readable Parquet file"),
        ("broken.jsonl", b"{\"num_nodes\": 1\n", "broken.jsonl: line 1:"),
        ("cut.txt.gz", b"\x1f\x8b\x08\x00\x00", "broken or truncated gzip"),
        ("words.txt", b"just one column\nof words, no edges at all\n", "words.txt: line"),
        ("binary.txt", b"\xff\xfe\x00\x01", "is not UTF-8"),
    ];
    for (name, bytes, expected) in cases {
        let expected = match name.ends_with(".parquet") && cfg!(not(feature = "parquet")) {
            true if !bytes.is_empty() => "built without the feature `parquet`",
            _ => expected,
        };
        let error = load(&write(folder.path(), name, bytes)).err();
        let error = error.unwrap_or_else(|| panic!("{name} was read"));
        assert!(format!("{error:#}").contains(expected), "{name}: {error:#}");
    }
    let error = load(&folder.path().to_string_lossy()).unwrap_err();
    assert!(error.to_string().contains("is a directory; give a file in it"), "{error}");
}

#[test]
fn gzip_of_every_format_is_undone() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().unwrap();
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let text = write(folder.path(), "a.csv.gz", &gzip(b"0,1\n1,2\n"));
    assert_eq!(load(&text).unwrap().samples[0].graph.num_edges(), 2);
    let lines = b"{\"num_nodes\": 2, \"edge_index\": [[0],[1]]}\n";
    let jsonl = write(folder.path(), "a.jsonl.gz", &gzip(lines));
    assert_eq!(load(&jsonl).unwrap().samples[0].graph.num_edges(), 1);
    // A gzip bomb stays within the limit.
    let bomb = write(folder.path(), "bomb.gz", &gzip(&vec![b' '; 50 << 20]));
    let options = ReadOptions { limit: MemoryLimit(1 << 20), ..ReadOptions::default() };
    assert!(read(&bomb, &options).unwrap_err().is_memory());
}

#[cfg(feature = "parquet")]
mod parquet {
    use std::sync::Arc;

    use arrow_array::builder::{Int64Builder, ListBuilder};
    use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};

    use super::{load, write};

    type Nested<'a> = &'a [&'a [&'a [i64]]];

    fn nested(rows: Nested) -> ArrayRef {
        let mut builder = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
        for lists in rows {
            for list in *lists {
                builder.values().values().append_slice(list);
                builder.values().append(true);
            }
            builder.append(true);
        }
        Arc::new(builder.finish())
    }

    fn file(columns: &[(&str, ArrayRef)]) -> Vec<u8> {
        let batch = RecordBatch::try_from_iter(columns.iter().cloned()).unwrap();
        let mut bytes = Vec::new();
        let mut writer =
            parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        bytes
    }

    fn ints(values: &[i64]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    const EDGES: Nested = &[&[&[0, 1], &[1, 2]], &[&[0], &[1]], &[&[], &[]]];

    fn good() -> Vec<u8> {
        let features: Nested = &[&[&[5], &[6], &[7]], &[&[8], &[9]], &[&[1]]];
        file(&[
            ("num_nodes", ints(&[3, 2, 1])),
            ("edge_index", nested(EDGES)),
            ("node_feat", nested(features)),
            ("y", ints(&[4, 5, 6])),
        ])
    }

    #[test]
    fn a_good_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let set = load(&write(folder.path(), "good.parquet", &good())).unwrap();
        let sizes: Vec<usize> = set.samples.iter().map(|s| s.graph.num_edges()).collect();
        assert_eq!(sizes, [2, 1, 0]);
        let features = set.samples[1].node_feat.as_ref().unwrap();
        assert_eq!(features.values, hdse::data::Values::Int(vec![8, 9]));
        assert_eq!(set.samples[2].y, Some(hdse::data::Values::Int(vec![6])));
    }

    #[test]
    fn edge_tables_with_any_kind_of_id() {
        use arrow_array::types::Int32Type;
        use arrow_array::{DictionaryArray, Float32Array, LargeStringArray, UInt64Array};
        let folder = tempfile::tempdir().unwrap();
        let weight = || ("weight", Arc::new(Float32Array::from(vec![0.5, 2.0])) as ArrayRef);
        let words = (vec!["x", "y"], vec!["y", "z"]);
        let dictionary = |v: &[&str]| {
            Arc::new(v.iter().copied().collect::<DictionaryArray<Int32Type>>()) as ArrayRef
        };
        let tables: Vec<Vec<(&str, ArrayRef)>> = vec![
            vec![
                ("src", Arc::new(UInt64Array::from(vec![0, 1]))),
                ("dst", Arc::new(UInt64Array::from(vec![1, 2]))),
                weight(),
            ],
            vec![
                ("source", Arc::new(StringArray::from(words.0.clone()))),
                ("target", Arc::new(StringArray::from(words.1.clone()))),
                weight(),
            ],
            vec![
                ("source", Arc::new(LargeStringArray::from(words.0.clone()))),
                ("target", Arc::new(LargeStringArray::from(words.1.clone()))),
                weight(),
            ],
            vec![("u", dictionary(&words.0)), ("v", dictionary(&words.1)), weight()],
        ];
        for (i, table) in tables.iter().enumerate() {
            let set = load(&write(folder.path(), "edges.parquet", &file(table))).unwrap();
            let edges: Vec<_> = set.samples[0].graph.edges().collect();
            assert_eq!(edges, [(0, 1, 0.5), (1, 2, 2.0)]);
            assert_eq!(set.ids.map(|ids| ids.concat()), (i > 0).then(|| "xyz".to_string()));
        }
        let bad: ArrayRef = Arc::new(Int64Array::from(vec![0, -1]));
        let table = [("source", bad.clone()), ("target", bad)];
        let error = load(&write(folder.path(), "bad.parquet", &file(&table))).unwrap_err();
        assert!(format!("{error:#}").contains("node id -1 is negative"), "{error:#}");
    }

    #[test]
    fn wrong_content_is_named_with_its_row() {
        let folder = tempfile::tempdir().unwrap();
        let nodes = || ("num_nodes", ints(&[3, 2, 1]));
        let edges = || ("edge_index", nested(EDGES));
        let with = |rows: Nested| vec![nodes(), ("edge_index", nested(rows))];
        let cases: Vec<(&str, Vec<(&str, ArrayRef)>, &str)> = vec![
            ("no nodes", vec![edges()], "no column `num_nodes`"),
            ("no edges", vec![nodes()], "no column `edge_index`"),
            (
                "out of range",
                with(&[&[&[0], &[1]], &[&[0], &[2]], &[&[], &[]]]),
                "row 1: edge 0 (0, 2) is out of range",
            ),
            (
                "negative",
                with(&[&[&[0], &[1]], &[&[], &[]], &[&[-1], &[0]]]),
                "row 2: edge 0 (-1, 0) is out of range",
            ),
            (
                "one list",
                with(&[&[&[0]], &[&[], &[]], &[&[], &[]]]),
                "row 0: `edge_index` has 1 inner",
            ),
            (
                "unequal lists",
                with(&[&[&[], &[]], &[&[0, 1], &[1]], &[&[], &[]]]),
                "row 1: `edge_index` has 2 sources and 1 targets",
            ),
            (
                "zero nodes",
                vec![("num_nodes", ints(&[3, 0, 1])), edges()],
                "row 1: `num_nodes` is 0",
            ),
            (
                "absurd nodes",
                vec![("num_nodes", ints(&[3, i64::MAX, 1])), edges()],
                "row 1: `num_nodes` is 9223372036854775807",
            ),
            (
                "many nodes",
                vec![("num_nodes", ints(&[3, 2_000_000_000, 1])), edges()],
                "needs 29.8 GiB and the limit is 1.0 GiB",
            ),
            (
                "real node counts",
                vec![("num_nodes", Arc::new(Float64Array::from(vec![3., 2., 1.]))), edges()],
                "`num_nodes` holds real numbers",
            ),
            (
                "missing value",
                vec![
                    ("num_nodes", Arc::new(Int64Array::from(vec![Some(3), None, Some(1)]))),
                    edges(),
                ],
                "column `num_nodes` has 1 missing value(s)",
            ),
            (
                "edges as text",
                vec![nodes(), ("edge_index", Arc::new(StringArray::from(vec!["a", "b", "c"])))],
                "it needs lists of lists of numbers",
            ),
            (
                "feature rows",
                vec![nodes(), edges(), ("node_feat", nested(&[&[&[1]], &[&[1], &[1]], &[&[1]]]))],
                "row 0: `node_feat` has 1 rows, but there are 3 nodes",
            ),
            (
                "feature widths",
                vec![nodes(), edges(), ("edge_attr", nested(&[&[&[1], &[1, 2]], &[&[1]], &[]]))],
                "row 0: row 1 of `edge_attr` has 2 numbers",
            ),
            ("no rows", vec![("num_nodes", ints(&[])), ("edge_index", nested(&[]))], "no row;"),
        ];
        for (name, columns, expected) in cases {
            let path = write(folder.path(), "bad.parquet", &file(&columns));
            let error = load(&path).err().unwrap_or_else(|| panic!("{name}: it was read"));
            let text = format!("{error:#}");
            assert!(text.contains(expected), "{name}: {text}");
            assert!(text.starts_with("bad.parquet: "), "{name}: {text}");
        }
    }

    #[test]
    fn truncated_and_mutated_files_never_panic() {
        let folder = tempfile::tempdir().unwrap();
        let good = good();
        for cut in (0..good.len()).step_by(3) {
            let path = write(folder.path(), "cut.parquet", &good[..cut]);
            assert!(load(&path).is_err(), "cut at {cut}");
        }
        let mut stream = hdse::rng::Seed(0).stream("mutate", 0, 0);
        for _ in 0..2000 {
            let mut bad = good.clone();
            for _ in 0..=stream.below(3) {
                let at = stream.below(bad.len() as u64) as usize;
                bad[at] = stream.next_u64() as u8;
            }
            let _ = load(&write(folder.path(), "mutated.parquet", &bad));
        }
    }
}

//! Every reader on thousands of damaged files: an error or a graph, never a panic, in bounded memory.

use std::path::Path;

use hdse::MemoryLimit;
use hdse::data::{ReadOptions, read};
use hdse::rng::{Seed, Stream};

/// Small good files of every text format and of numpy.
fn corpus() -> Vec<(&'static str, Vec<u8>)> {
    let text = |text: &str| text.as_bytes().to_vec();
    let npy = |header: &str, data: &[u8]| {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    };
    let pairs: Vec<u8> = [0i64, 1, 1, 2, 2, 0].iter().flat_map(|x| x.to_le_bytes()).collect();
    vec![
        ("g.txt", text("# c\na b 1.5\nb c 2\nc a 0.25\n")),
        ("g.csv", text("source,target,weight\n0,1,1\n1,2,3\n")),
        (
            "g.jsonl",
            text(
                "{\"num_nodes\": 3, \"edge_index\": [[0, 1], [1, 2]], \"node_feat\": [[1], [2], [3]], \
                 \"edge_attr\": [[0.5], [1]], \"y\": [1]}\n{\"num_nodes\": 1, \"edge_index\": [[], []]}\n",
            ),
        ),
        ("g.graph", text("% c\n4 3 011 1\n1 2 5\n2 1 5 3 7\n3 2 7 4 1\n4 3 1\n")),
        (
            "g.gml",
            text(
                "graph [ directed 0 node [ id 0 label \"a\" gt 1 ] node [ id 1 label \"b\" gt 2 ] \
                 edge [ source 0 target 1 weight 2.5 ] ]",
            ),
        ),
        (
            "g.graphml",
            text(
                "<?xml version=\"1.0\"?><graphml><key id=\"w\" for=\"edge\" attr.name=\"weight\" \
                 attr.type=\"double\"/><graph edgedefault=\"undirected\"><node id=\"a\"/><node id=\"b\"/>\
                 <edge source=\"a\" target=\"b\"><data key=\"w\">2</data></edge></graph></graphml>",
            ),
        ),
        ("g.mtx", text("%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 0.5\n3 2 4\n")),
        (
            "g.npy",
            npy("{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2), }          \n", &pairs),
        ),
    ]
}

/// Damages a file in up to four places.
pub fn mutate(bytes: &mut Vec<u8>, stream: &mut Stream) {
    const WORDS: [&[u8]; 12] = [
        b"99999999999999999999",
        b"-1",
        b"4294967295",
        b"nan",
        b"1e39",
        b"\"",
        b"[",
        b"]",
        b"\n",
        b"\0",
        b"\xff",
        b"<",
    ];
    for _ in 0..=stream.below(3) {
        let at = stream.below(bytes.len() as u64 + 1) as usize;
        match stream.below(5) {
            0 if at < bytes.len() => bytes[at] = stream.next_u64() as u8,
            1 => bytes.truncate(at),
            2 if at < bytes.len() => {
                let end = (at + stream.below(20) as usize).min(bytes.len());
                bytes.drain(at..end);
            }
            3 => {
                let end = (at + stream.below(30) as usize).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => {
                let word = WORDS[stream.below(WORDS.len() as u64) as usize];
                bytes.splice(at..at, word.iter().copied());
            }
        }
    }
}

fn try_file(path: &Path, bytes: &[u8]) -> bool {
    std::fs::write(path, bytes).unwrap();
    let options = ReadOptions { limit: MemoryLimit(256 << 20), ..ReadOptions::default() };
    read(&path.to_string_lossy(), &options).is_ok()
}

#[test]
fn readers_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let mut stream = Seed(0).stream("mutate", 0, 0);
    for (name, good) in corpus() {
        let path = folder.path().join(name);
        assert!(try_file(&path, &good), "{name} is good");
        let mut accepted = 0;
        for _ in 0..2000 {
            let mut bad = good.clone();
            mutate(&mut bad, &mut stream);
            accepted += usize::from(try_file(&path, &bad));
        }
        // Most damage must be noticed, or the reader checks nothing.
        println!("{name}: {accepted} of 2000 damaged files are still graphs");
        assert!(accepted < 1900, "{name}");
    }
}

/// Files that are archives of arrays: damage inside and outside of the arrays.
#[test]
fn archives_and_graph_files_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let (graph, _) =
        hdse::Graph::from_weighted_pairs(5, &[(0, 1), (1, 2), (3, 4)], &[1., 2., 3.]).unwrap();
    let mut stream = Seed(1).stream("mutate", 0, 0);
    for name in ["g.npz", "g.hgraph"] {
        let path = folder.path().join(name);
        let write = hdse::data::format_of_file(name).unwrap().write_graph.unwrap();
        let file = hdse::data::AtomicFile::create(&path, false).unwrap();
        let out = hdse::data::GraphOut { graph: &graph, ids: None, attributes: &[] };
        write(&out, file).unwrap();
        let good = std::fs::read(&path).unwrap();
        assert!(try_file(&path, &good), "{name} is good");
        for _ in 0..2000 {
            let mut bad = good.clone();
            mutate(&mut bad, &mut stream);
            try_file(&path, &bad);
        }
    }
}

/// A folder of files that refer to each other.
#[test]
fn tu_folders_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("X_A.txt", "1, 2\n2, 1\n3, 4\n4, 3\n"),
        ("X_graph_indicator.txt", "1\n1\n2\n2\n"),
        ("X_graph_labels.txt", "1\n2\n"),
        ("X_node_attributes.txt", "0.5, 1\n1, 2\n3, 4\n5, 6\n"),
        ("X_edge_labels.txt", "1\n1\n2\n2\n"),
    ];
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let load = || read(&folder.path().to_string_lossy(), &ReadOptions::default());
    assert_eq!(load().unwrap().samples.len(), 2);
    let mut stream = Seed(2).stream("mutate", 0, 0);
    for (name, text) in files {
        for _ in 0..500 {
            let mut bad = text.as_bytes().to_vec();
            mutate(&mut bad, &mut stream);
            std::fs::write(folder.path().join(name), bad).unwrap();
            let _ = load();
        }
        std::fs::write(folder.path().join(name), text).unwrap();
    }
}

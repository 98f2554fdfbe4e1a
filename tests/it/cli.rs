//! The command as a user sees it: transcripts, files, exit codes.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use hdse::distance::{Distances, HighLevel, MaxDistance};
use hdse::{Hierarchy, MemoryLimit};
use safetensors::SafeTensors;
use serde_json::Value;

fn hdse() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hdse"))
}

fn run(folder: &Path, arguments: &str) -> Output {
    let output = hdse().current_dir(folder).args(arguments.split(' ')).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hdse {arguments}: {error}");
    output
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn transcripts() {
    let cases = trycmd::TestCases::new();
    cases.case("tests/cli/*.trycmd").case("README.md");
    if !cfg!(feature = "fetch") {
        cases.skip("tests/cli/fetch.trycmd");
    }
    cases.run();
}

/// Groups of a set, a column per distance: two copies of one graph, and one that only hops tell from it.
#[test]
fn groups_of_a_set_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let hexagon = r#"{"num_nodes": 6, "edge_index": [[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]}"#;
    let triangles = r#"{"num_nodes": 6, "edge_index": [[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]]}"#;
    let moved = r#"{"num_nodes": 6, "edge_index": [[0, 3, 1, 4, 2, 5], [3, 1, 4, 2, 5, 0]]}"#;
    let lines = [hexagon, triangles, moved].map(|line| format!("{line}\n")).concat();
    std::fs::write(folder.path().join("set.jsonl"), lines).unwrap();
    run(folder.path(), "wl --set set.jsonl -d adjacency,spd,resistance -o groups.csv");
    let written = std::fs::read_to_string(folder.path().join("groups.csv")).unwrap();
    assert_eq!(written, "graph,\"adjacency\",\"spd\",\"resistance\"\n0,0,0,0\n1,0,1,1\n2,0,0,0\n");
}

/// Several windows of work and several Parquet row groups: 600 graphs, 20 MB of distances.
fn write_large_set(folder: &Path) -> &'static str {
    let line = |i: u64| {
        let n = 40 + (i % 120) as u32;
        let graph = crate::support::random_graph(n, n + n / 2, i);
        let (sources, targets): (Vec<u32>, Vec<u32>) =
            graph.edges().map(|(u, v, _)| (u, v)).unzip();
        format!("{}\n", serde_json::json!({"num_nodes": n, "edge_index": [sources, targets]}))
    };
    std::fs::write(folder.join("large.jsonl"), (0..600).map(line).collect::<String>()).unwrap();
    "large.jsonl"
}

#[test]
fn bytes_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().unwrap();
    let large = write_large_set(folder.path());
    for format in ["safetensors", "npz", "parquet"] {
        for (input, coarsener) in
            [("community-small", "newman"), (large, "louvain"), (large, "random:like=louvain")]
        {
            let encode = |threads: usize| {
                let out = format!("{threads}.{format}");
                let options = format!("-c {coarsener} -k 2 -t {threads} -o {out} --force -q");
                run(folder.path(), &format!("encode {input} {options}"));
                std::fs::read(folder.path().join(out)).unwrap()
            };
            let one = encode(1);
            assert!(one == encode(2), "{format} {coarsener}");
            assert!(one == encode(7), "{format} {coarsener}");
        }
    }
}

#[test]
fn merged_shards_equal_one_run() {
    for format in ["safetensors", "npz", "parquet"] {
        let folder = tempfile::tempdir().unwrap();
        let large = write_large_set(folder.path());
        let encode = format!("encode {large} -c louvain -k 2 -o set.{format} -q");
        run(folder.path(), &encode);
        for index in [2, 0, 3, 1] {
            run(folder.path(), &format!("{encode} --shard {index}/4"));
        }
        let parts: String = [3, 1, 0, 2].map(|i| format!(" set.{i}-of-4.{format}")).concat();
        run(folder.path(), &format!("merge -o merged.{format}{parts}"));
        let read =
            |name: &str| std::fs::read(folder.path().join(format!("{name}.{format}"))).unwrap();
        assert!(read("set") == read("merged"), "{format}");

        for (wrong, expected) in [
            (format!("merge -o x.{format} set.0-of-4.{format}"), "is one of 4 shards, but 1 files"),
            (format!("merge -o x.{format} set.{format}"), "is a whole set, not a shard"),
            (
                format!(
                    "merge -o x.{format} set.0-of-4.{format} set.0-of-4.{format} set.1-of-4.{format} set.2-of-4.{format}"
                ),
                "are both shard 0",
            ),
            (format!("merge -o merged.{format}{parts}"), "exists; choose another name"),
        ] {
            let output = hdse().current_dir(&folder).args(wrong.split(' ')).output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{wrong}: {error}");
            assert!(error.contains(expected), "{wrong}: {error}");
        }
        run(
            folder.path(),
            &format!("encode {large} -c random -k 2 -o other.{format} --shard 0/4 -q"),
        );
        let mixed = format!(
            "merge -o x.{format} other.0-of-4.{format} set.1-of-4.{format} set.2-of-4.{format} set.3-of-4.{format}"
        );
        let output = hdse().current_dir(&folder).args(mixed.split(' ')).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("coarsener is \"random:ratio=0.1\" there"), "{error}");
        assert!(!folder.path().join(format!("x.{format}")).exists());
    }
}

/// The arrays hold what the library computes, as another implementation of safetensors reads them.
#[test]
fn encoded_sets_hold_what_the_library_computes() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "encode community-small -c newman -k 2 -l 30/2 -o set.safetensors");
    let bytes = std::fs::read(folder.path().join("set.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let shape = |name: &str| tensors.tensor(name).unwrap().shape().to_vec();
    let words = |name: &str| -> Vec<u32> {
        let data = tensors.tensor(name).unwrap().data();
        data.as_chunks::<4>().0.iter().map(|&w| u32::from_le_bytes(w)).collect()
    };
    let longs = |name: &str| -> Vec<u64> {
        let data = tensors.tensor(name).unwrap().data();
        data.as_chunks::<8>().0.iter().map(|&w| u64::from_le_bytes(w)).collect()
    };
    assert_eq!(shape("num_nodes"), [100]);
    assert_eq!(shape("node_offsets"), [101]);
    assert_eq!(shape("pair_offsets"), [101]);
    let (nodes, pairs) = (longs("node_offsets")[100] as usize, longs("pair_offsets")[100] as usize);
    assert_eq!(shape("clusters"), [nodes, 2]);
    assert_eq!(shape("distances"), [pairs, 3]);

    let set = hdse::data::read("community-small", &Default::default()).unwrap();
    let newman = hdse::coarsen::parse("newman").unwrap();
    for (i, sample) in set.samples.iter().enumerate() {
        let n = sample.graph.num_nodes();
        assert_eq!(words("num_nodes")[i] as usize, n);
        let context = hdse::coarsen::Context { graph: i as u64, ..Default::default() };
        let hierarchy = Hierarchy::build(&sample.graph, newman.as_ref(), 2, &context).unwrap();
        let clip = MaxDistance::new(&[30, 2]).unwrap();
        let expected =
            Distances::new(&sample.graph, &hierarchy, &clip, MemoryLimit::NONE).unwrap().lifted();
        let start = longs("pair_offsets")[i] as usize * 3;
        let found = &tensors.tensor("distances").unwrap().data()[start..start + n * n * 3];
        assert!(found == expected, "graph {i}");
        let start = longs("node_offsets")[i] as usize * 2;
        for u in 0..n {
            let found = &words("clusters")[start + 2 * u..][..2];
            assert_eq!(found, [hierarchy.ancestor(1, u as u32), hierarchy.ancestor(2, u as u32)]);
        }
    }
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let text = &header.metadata().as_ref().unwrap()["hdse"];
    let metadata: Value = serde_json::from_str(text).unwrap();
    assert_eq!(metadata["coarsener"], "newman:ties=canonical");
    assert_eq!(metadata["max_distance"], serde_json::json!([30, 2, 2]));
}

#[test]
fn coarsen_writes_what_encode_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("g.txt"), "7 9\n9 12\n12 7\n20 21\n21 22\n22 20\n12 20\n")
        .unwrap();
    let output = run(folder.path(), "coarsen g.txt -c louvain -o g.part --json");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in [
        "clusters",
        "cut",
        "cut_fraction",
        "modularity",
        "imbalance",
        "seconds",
        "cpu_seconds",
        "peak_rss_bytes",
    ] {
        assert!(json[key].is_number(), "{key}: {json}");
    }
    assert_eq!(json["clusters"], 2);
    assert_eq!(json["cut"], 1.0);
    assert!(json["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
    let lines = std::fs::read_to_string(folder.path().join("g.part")).unwrap();
    assert_eq!(lines, "0\n0\n0\n1\n1\n1\n");
    let ids = std::fs::read_to_string(folder.path().join("g.part.ids.txt")).unwrap();
    assert_eq!(ids, "7\n9\n12\n20\n21\n22\n");
    run(folder.path(), "encode g.txt --partition g.part -o given.safetensors -q");
    run(folder.path(), "encode g.txt -c louvain -o made.safetensors -q");
    let arrays = |name: &str| {
        let bytes = std::fs::read(folder.path().join(name)).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let get = |array: &str| tensors.tensor(array).unwrap().data().to_vec();
        ["distances", "clusters", "num_nodes", "pair_offsets", "node_offsets"].map(get)
    };
    assert_eq!(arrays("given.safetensors"), arrays("made.safetensors"));
    // Replaced by a graph that needs no ids, the list of ids goes away.
    assert!(folder.path().join("made.safetensors.ids.txt").exists());
    std::fs::write(folder.path().join("h.txt"), "0 1\n1 2\n").unwrap();
    run(folder.path(), "encode h.txt -o made.safetensors --force");
    assert!(!folder.path().join("made.safetensors.ids.txt").exists());
}

#[test]
fn high_level_files_hold_clusters_and_tables() {
    let folder = tempfile::tempdir().unwrap();
    let ring: String = (0..600).map(|u| format!("{u} {}\n", (u + 1) % 600)).collect();
    std::fs::write(folder.path().join("ring.txt"), ring).unwrap();
    run(folder.path(), "encode ring.txt -c louvain -k 2 --high-level 1 -o ring.safetensors");
    let bytes = std::fs::read(folder.path().join("ring.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(tensors.tensor("cluster_of").unwrap().shape(), [600, 2]);
    let pairs: Vec<(u32, u32)> = (0..600).map(|u| (u, (u + 1) % 600)).collect();
    let graph = crate::support::graph(600, &pairs);
    let louvain = hdse::coarsen::parse("louvain").unwrap();
    let hierarchy = Hierarchy::build(&graph, louvain.as_ref(), 2, &Default::default()).unwrap();
    let clip = MaxDistance::default();
    let high = HighLevel::new(&graph, &hierarchy, 1, &clip, MemoryLimit::NONE).unwrap();
    assert!(high.num_clusters() > 3);
    for k in [1, 2] {
        let table = tensors.tensor(&format!("distances.{k}")).unwrap();
        assert_eq!(table.shape(), [high.num_clusters(); 2]);
        assert_eq!(table.data(), high.table(k));
    }
    let mut cluster_of = vec![0; 1200];
    hdse::encode::write_clusters(&hierarchy, &mut cluster_of);
    let found = tensors.tensor("cluster_of").unwrap().data().as_chunks::<4>().0;
    assert!(found.iter().map(|&w| u32::from_le_bytes(w)).eq(cluster_of));
}

#[test]
fn standard_input_and_gzip_are_read() {
    use std::io::Write as _;
    let mut child = hdse()
        .args(["encode", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Default::default());
    gzip.write_all(b"{\"num_nodes\": 2, \"edge_index\": [[0],[1]]}\n").unwrap();
    child.stdin.take().unwrap().write_all(&gzip.finish().unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["nodes"], 2);
}

#[test]
fn a_failed_run_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let good = "{\"num_nodes\": 2, \"edge_index\": [[0],[1]]}\n".repeat(500);
    let bad = good + "{\"num_nodes\": 2, \"edge_index\": [[0],[5]]}\n";
    std::fs::write(folder.path().join("in.jsonl"), bad).unwrap();
    let output =
        hdse().current_dir(&folder).args(["encode", "in.jsonl", "-o", "out.npz"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(names(folder.path()), ["in.jsonl"]);
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_no_file() {
    // Dense enough that newman has work for many seconds.
    let folder = tempfile::tempdir().unwrap();
    let graph = crate::support::random_graph(120, 3000, 0);
    let (sources, targets): (Vec<u32>, Vec<u32>) = graph.edges().map(|(u, v, _)| (u, v)).unzip();
    let line = serde_json::json!({"num_nodes": 120, "edge_index": [sources, targets]});
    std::fs::write(folder.path().join("in.jsonl"), format!("{line}\n").repeat(200)).unwrap();
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let child = hdse()
            .current_dir(&folder)
            .args(["encode", "in.jsonl", "-o", "out.safetensors"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Wait until the temporary file shows that work has begun.
        while names(folder.path()).len() < 2 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
        // SAFETY: a signal to a child process that is alive.
        unsafe { libc::kill(child.id() as i32, signal) };
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("interrupted; nothing was written"), "{error}");
        assert_eq!(names(folder.path()), ["in.jsonl"]);
    }
}

/// A signal while input is still being read.
#[cfg(unix)]
#[test]
fn an_interrupt_while_reading_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = hdse()
        .current_dir(&folder)
        .args(["encode", "-", "-o", "out.npz"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while names(folder.path()).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // SAFETY: a signal to a child process that is alive.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let stdin = child.stdin.take();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(stdin);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_list_of_ids_is_never_removed_unasked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("g.txt"), "0 1\n1 2\n").unwrap();
    let mine = folder.path().join("out.npz.ids.txt");
    std::fs::write(&mine, "precious\n").unwrap();
    for arguments in ["encode g.txt -o out.npz", "graph convert g.txt -o out.npz"] {
        let output = hdse().current_dir(&folder).args(arguments.split(' ')).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert_eq!(std::fs::read_to_string(&mine).unwrap(), "precious\n");
        assert_eq!(names(folder.path()), ["g.txt", "out.npz.ids.txt"]);
    }
}

#[test]
fn inputs_are_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("g.txt"), "0 1\n").unwrap();
    for arguments in [
        "encode g.txt -o g.txt --format npz --force",
        "coarsen g.txt -c louvain -o g.txt --force",
        "graph convert g.txt -o g.txt --force",
    ] {
        let output = hdse().current_dir(&folder).args(arguments.split(' ')).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("g.txt is the input"), "{arguments}: {error}");
    }
    assert_eq!(std::fs::read(folder.path().join("g.txt")).unwrap(), b"0 1\n");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = hdse().args(["list", "coarseners"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn completions_know_the_coarseners() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = run(Path::new("."), &format!("completions {shell}"));
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("high-level"), "{shell}");
        // The other shells' scripts do not complete values.
        assert!(script.contains("louvain") || ["powershell", "elvish"].contains(&shell), "{shell}");
    }
}

#[test]
fn sets_are_listed_in_two_places_alike() {
    for form in ["", " --json", " --markdown"] {
        let print = |verb: &str| run(Path::new("."), &format!("{verb}{form}")).stdout;
        assert_eq!(print("list sets"), print("data list"), "{form}");
    }
}

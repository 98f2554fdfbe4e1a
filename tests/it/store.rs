//! The store under pressure: several processes, kills, damage.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hdse::rng::Seed;
use serde_json::Value;

fn hdse(home: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hdse"));
    command.args(arguments.split(' ')).env("HDSE_HOME", home).stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    command
}

fn json(home: &Path, arguments: &str) -> Value {
    let output = hdse(home, &format!("{arguments} --json")).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

const ENCODE: &str = "encode community-small -c newman -k 2 --store";

#[test]
fn two_processes_make_one_entry() {
    let home = tempfile::tempdir().unwrap();
    let start = || hdse(home.path(), &format!("{ENCODE} --json")).spawn().unwrap();
    let children: Vec<_> = (0..4).map(|_| start()).collect();
    let mut computed = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        computed += usize::from(result["found"] == false);
    }
    assert_eq!(computed, 1, "the others waited and found it");
    assert_eq!(json(home.path(), "store verify")["entries"], 1);
    // Another encoder leaves the first alone.
    json(home.path(), "encode community-small -c louvain --store");
    assert_eq!(json(home.path(), ENCODE)["found"], true);
    assert_eq!(json(home.path(), "store verify")["entries"], 2);
}

#[test]
fn a_store_survives_kills_at_any_moment() {
    let home = tempfile::tempdir().unwrap();
    let mut stream = Seed(0).stream("kill", 0, 0);
    for round in 0..50 {
        // A new seed each time, so that there is always something to write.
        let encode = format!("{ENCODE} --seed {round}");
        let mut child = hdse(home.path(), &encode).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(stream.below(60_000)));
        let _ = child.kill();
        child.wait().unwrap();
        json(home.path(), "store verify");
    }
    assert_eq!(json(home.path(), ENCODE)["coarsener"], "newman:ties=canonical");
    json(home.path(), "store clean");
    let verified = json(home.path(), "store verify");
    assert_eq!(verified["leftovers"], 0);
    assert!(verified["entries"].as_u64().unwrap() >= 1);
}

#[test]
fn damage_is_noticed_and_mended() {
    let home = tempfile::tempdir().unwrap();
    let entry = json(home.path(), ENCODE)["store"].as_str().unwrap().to_string();
    let good = std::fs::read(&entry).unwrap();
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    std::fs::write(&entry, &bad).unwrap();
    let output = hdse(home.path(), "store verify").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let output = hdse(home.path(), &format!("{ENCODE} --json")).output().unwrap();
    let warning = String::from_utf8_lossy(&output.stderr);
    assert!(warning.contains("is damaged; computing it again"), "{warning}");
    assert!(std::fs::read(&entry).unwrap() == good);
    json(home.path(), "store verify");
}

/// The same bytes are another graph in another format, and the same graph may lie in two files.
#[test]
fn entries_are_found_by_graph_not_by_file() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        format!("encode {} -c louvain --store", path.display())
    };
    let metis = file("a.graph", "4 3\n2 3\n1 3\n1 2\n\n");
    let edges = file("a.txt", "4 3\n2 3\n1 3\n1 2\n\n");
    let same =
        file("b.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n4 4 3\n2 1\n3 1\n3 2\n");
    assert_eq!(json(home.path(), &metis)["found"], false);
    assert_eq!(json(home.path(), &edges)["found"], false);
    assert_eq!(json(home.path(), &same)["found"], true);
}

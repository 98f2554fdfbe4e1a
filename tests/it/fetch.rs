//! `hdse data fetch` and `import` as a user sees them, against a server in this process that can do all
//! that servers do to a download. Nothing here touches another network.

use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

mod server;

use serde_json::{Value, json};
use server::{Fault, Request, Server, tag};
use tempfile::TempDir;

/// The command with its sets in `home`, and no network but that of the mirrors given.
fn hdse(home: &Path, mirrors: &[&Server], arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hdse"));
    let urls: Vec<&str> = mirrors.iter().map(|server| server.url.as_str()).collect();
    for proxy in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"] {
        command.env_remove(proxy).env_remove(proxy.to_lowercase());
    }
    command.arg("data").args(arguments).env("HDSE_DATA", home).env_remove("HDSE_OFFLINE");
    command.env("HDSE_MIRROR", urls.join(",")).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(command: &mut Command) -> (i32, String, String) {
    finished(command.output().unwrap())
}

fn finished(output: Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn good(command: &mut Command) -> String {
    let (code, out, error) = output(command);
    assert_eq!(code, 0, "{error}");
    out
}

/// Standard error of a command that ends with `code`.
fn bad(command: &mut Command, code: i32) -> String {
    let (found, out, error) = output(command);
    assert_eq!(found, code, "{out}{error}");
    error
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

const TRAIN: &str = "/cluster/train.jsonl";
const WHOLE: [&str; 4] = ["hdse-data.json", "test.jsonl", "train.jsonl", "val.jsonl"];

/// A folder of graphs of `cluster`; the larger split takes several reads.
fn copies(graphs: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let files = crate::support::checkout().join("tests/cli/files/cluster");
    for (name, repeats) in [("train.jsonl", graphs / 2), ("val.jsonl", 1), ("test.jsonl", 1)] {
        let text = std::fs::read_to_string(files.join(name)).unwrap().repeat(repeats);
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// A home with the set in it, as import leaves it.
fn home(graphs: usize) -> TempDir {
    let (home, copies) = (tempfile::tempdir().unwrap(), copies(graphs));
    import(&home, &[copies.path()], &[]);
    home
}

fn import(home: &TempDir, paths: &[&Path], options: &[&str]) -> String {
    good(&mut import_command(home, paths, options))
}

fn import_command(home: &TempDir, paths: &[&Path], options: &[&str]) -> Command {
    let mut command = hdse(home.path(), &[], &["import", "cluster"]);
    command.args(paths).args(options);
    command
}

/// A published set, its mirror, and an empty home.
fn scene(graphs: usize) -> (TempDir, Server, TempDir) {
    let published = home(graphs);
    let server = Server::mirror(published.path());
    (published, server, tempfile::tempdir().unwrap())
}

fn assert_same(home: &Path, published: &Path) {
    assert_eq!(names(&home.join("cluster")), WHOLE);
    for name in &WHOLE[1..] {
        let read = |home: &Path| std::fs::read(home.join("cluster").join(name)).unwrap();
        assert!(read(home) == read(published), "{name}");
    }
    // No trace of the way here but the lock.
    assert_eq!(names(home), [".cluster.lock", "cluster"]);
}

#[test]
fn a_mirror_gives_a_set_once() {
    let (published, server, home) = scene(1000);
    let text = good(&mut hdse(home.path(), &[&server], &["fetch", "cluster"]));
    assert!(text.contains("train graphs            1,000        10,000\n"), "{text}");
    assert_same(home.path(), published.path());
    assert_eq!(server.log().len(), 4);

    // It is there: nothing is asked for, and loading compares it with its manifest.
    let (code, out, error) =
        output(&mut hdse(home.path(), &[&server], &["fetch", "cluster", "--json"]));
    assert_eq!((code, server.log().len()), (0, 4), "{error}");
    assert!(error.contains("note: it is there already"), "{error}");
    let out: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["files"][0]["name"], "train.jsonl");
    assert_eq!(out["files"][0]["url"], format!("{}{TRAIN}", server.url));
    assert_eq!(out["files"][0]["sha256"].as_str().unwrap().len(), 64);
    good(&mut hdse(home.path(), &[], &["check", "cluster"]));

    good(&mut hdse(home.path(), &[&server], &["fetch", "cluster", "--force", "-q"]));
    assert_eq!(server.log().len(), 8);
    assert_same(home.path(), published.path());
}

#[test]
fn broken_connections_go_on_where_they_broke() {
    for ranges in [true, false] {
        for tags in [true, false] {
            let (published, server, home) = scene(2000);
            server.set(|state| (state.no_ranges, state.no_tags) = (!ranges, !tags));
            server.fault(TRAIN, Fault::Cut(100_000));
            server.fault(TRAIN, Fault::Cut(50_000));
            let (code, _, error) =
                output(&mut hdse(home.path(), &[&server], &["fetch", "cluster"]));
            assert_eq!(code, 0, "{error}");
            assert_eq!(error.matches("trying again").count(), 2, "{error}");
            assert_same(home.path(), published.path());
            let asked = server.asked("train.jsonl");
            let whole: &Vec<u8> = &server.state.lock().unwrap().files[TRAIN];
            assert_eq!(asked.len(), 3);
            assert_eq!((&asked[0].range, &asked[0].if_range), (&None, &None));
            if !tags {
                // Nothing says that the rest is of the same file.
                assert!(asked.iter().all(|request| request.range.is_none()), "{asked:?}");
                continue;
            }
            assert!(asked[1..].iter().all(|request| request.if_range == Some(tag(whole))));
            let ranges_of = |requests: &[Request]| {
                requests.iter().map(|r| (r.range.clone().unwrap(), r.status)).collect::<Vec<_>>()
            };
            let expected = match ranges {
                true => [("bytes=100000-".to_string(), 206), ("bytes=150000-".to_string(), 206)],
                // The second answer was the whole file from its beginning, cut.
                false => [("bytes=100000-".to_string(), 200), ("bytes=50000-".to_string(), 200)],
            };
            assert_eq!(ranges_of(&asked[1..]), expected);
        }
    }
}

#[test]
fn passing_trouble_is_waited_out_and_lasting_trouble_told() {
    let (published, server, home) = scene(10);
    for status in [503, 429, 500] {
        server.fault(TRAIN, Fault::Status(status));
    }
    server.fault("/cluster/hdse-data.json", Fault::Status(502));
    good(&mut hdse(home.path(), &[&server], &["fetch", "cluster"]));
    assert_same(home.path(), published.path());
    assert_eq!(server.asked("train.jsonl").len(), 4);

    let home = tempfile::tempdir().unwrap();
    (0..5).for_each(|_| server.fault(TRAIN, Fault::Status(503)));
    let error = bad(&mut hdse(home.path(), &[&server], &["fetch", "cluster"]), 1);
    assert!(error.contains("train.jsonl: HTTP status 503, 5 times"), "{error}");
    assert!(error.contains("`hdse data import cluster FILES`"), "{error}");
    assert_eq!(names(&home.path().join("cluster")), [] as [&str; 0]);

    // Forbidden stays forbidden.
    let before = server.asked("train.jsonl").len();
    server.fault(TRAIN, Fault::Status(403));
    let error = bad(&mut hdse(home.path(), &[&server], &["fetch", "cluster"]), 1);
    assert!(error.contains("HTTP status 403"), "{error}");
    assert_eq!(server.asked("train.jsonl").len(), before + 1);
}

#[test]
fn missing_sets_and_servers_are_told() {
    let (empty, home) = (Server::new(&[]), tempfile::tempdir().unwrap());
    let error = bad(&mut hdse(home.path(), &[&empty], &["fetch", "cluster"]), 1);
    assert!(error.contains("/cluster/train.parquet: HTTP status 404; try again later"), "{error}");
    assert_eq!(names(home.path()), [".cluster.lock"]);
    let mut nobody = hdse(home.path(), &[], &["fetch", "cluster"]);
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    nobody.env("HDSE_MIRROR", format!("http://{port}"));
    let error = bad(&mut nobody, 1);
    assert!(error.contains("5 times"), "{error}");
    nobody.env("HDSE_MIRROR", "here");
    let error = bad(&mut nobody, 2);
    assert!(error.contains("HDSE_MIRROR: `here` is no address"), "{error}");
}

#[test]
fn the_next_mirror_helps() {
    let (published, server, home) = scene(10);
    let empty = Server::new(&[]);
    let (code, _, error) =
        output(&mut hdse(home.path(), &[&empty, &server], &["fetch", "cluster"]));
    assert_eq!(code, 0, "{error}");
    assert!(error.contains(&format!("note: cannot fetch {}", empty.url)), "{error}");
    assert_same(home.path(), published.path());
    // Three names without a manifest, of which the first was missing.
    assert_eq!(empty.log().len(), 2);
}

#[test]
fn other_bytes_than_promised_are_refused() {
    let (published, server, home) = scene(10);
    let bytes = server.state.lock().unwrap().files[TRAIN].clone();
    let fetch = || hdse(home.path(), &[&server], &["fetch", "cluster"]);
    // As long, but another file; then a shorter one.
    let mut other = bytes.clone();
    other[20] ^= 1;
    for (other, expected) in
        [(other, "SHA-256 is "), (bytes[..500].to_vec(), "500 bytes long, not 1760")]
    {
        server.set(|state| state.files.insert(TRAIN.into(), other).map(drop).unwrap());
        let error = bad(&mut fetch(), 1);
        assert!(error.contains(expected), "{error}");
        assert_eq!(names(&home.path().join("cluster")), [] as [&str; 0]);
        assert!(!home.path().join("cluster.part/train.jsonl").exists());
    }
    server.set(|state| state.files.insert(TRAIN.into(), bytes).map(drop).unwrap());
    good(&mut fetch());
    assert_same(home.path(), published.path());

    // A manifest can't name files elsewhere.
    let evil = json!({"files": [{"name": "../../x", "bytes": 1, "sha256": "", "blake3": ""}]});
    for text in [evil.to_string(), "<html>".to_string()] {
        let server = Server::new(&[("/cluster/hdse-data.json", text.into_bytes())]);
        let home = tempfile::tempdir().unwrap();
        let error = bad(&mut hdse(home.path(), &[&server], &["fetch", "cluster"]), 1);
        assert!(error.contains("hdse-data.json: "), "{error}");
        assert_eq!(names(home.path()), [".cluster.lock"]);
    }
}

/// Waits until a partial file has `bytes`.
#[cfg(unix)]
fn wait_for(path: &Path, bytes: u64) {
    for _ in 0..1000 {
        if path.metadata().is_ok_and(|data| data.len() >= bytes) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{} never had {bytes} bytes", path.display());
}

/// Interrupts a fetch from a slow server in the middle of the training file; gives what it said.
#[cfg(unix)]
fn interrupt(server: &Server, home: &Path) -> String {
    server.fault(TRAIN, Fault::Slow(60_000));
    let child = hdse(home, &[server], &["fetch", "cluster"]).spawn().unwrap();
    wait_for(&home.join("cluster.part/train.jsonl"), 60_000);
    // SAFETY: a signal to a child process that is alive.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let (code, _, error) = finished(child.wait_with_output().unwrap());
    assert_eq!(code, 130, "{error}");
    assert_eq!(names(&home.join("cluster")), [] as [&str; 0]);
    error
}

#[cfg(unix)]
#[test]
fn an_interrupted_fetch_goes_on() {
    let (published, server, home) = scene(1000);
    let error = interrupt(&server, home.path());
    assert!(error.contains("interrupted; what has come is kept in"), "{error}");
    let have = home.path().join("cluster.part/train.jsonl").metadata().unwrap().len();
    good(&mut hdse(home.path(), &[&server], &["fetch", "cluster"]));
    assert_same(home.path(), published.path());
    let last = server.asked("train.jsonl").pop().unwrap();
    assert_eq!((last.range, last.status), (Some(format!("bytes={have}-")), 206));
}

#[test]
fn redirects_are_followed_and_resumed() {
    let (published, server, home) = scene(1000);
    server.fault(TRAIN, Fault::Cut(60_000));
    let mut fetch = hdse(home.path(), &[], &["fetch", "cluster"]);
    good(fetch.env("HDSE_MIRROR", format!("{}/moved/", server.url)));
    assert_same(home.path(), published.path());
    let last = server.asked("train.jsonl").pop().unwrap();
    assert_eq!((last.path.as_str(), last.status), (TRAIN, 206));
}

#[test]
fn what_is_asked_for_over_tls_comes_over_tls() {
    let (_, server, home) = scene(10);
    let mut fetch = hdse(home.path(), &[], &["fetch", "cluster"]);
    let error = bad(fetch.env("HDSE_MIRROR", server.url.replace("http://", "https://")), 1);
    // The server speaks plainly, which is no TLS, and asking again would not help.
    assert!(error.contains("corrupt message") && !error.contains("trying again"), "{error}");
    assert!(server.log().is_empty());
}

#[cfg(unix)]
#[test]
fn a_file_that_changed_meanwhile_is_fetched_anew() {
    let (_, server, fetched) = scene(1000);
    interrupt(&server, fetched.path());
    let newer = home(1002);
    let next = Server::mirror(newer.path());
    server.set(|state| state.files = std::mem::take(&mut next.state.lock().unwrap().files));
    good(&mut hdse(fetched.path(), &[&server], &["fetch", "cluster"]));
    assert_same(fetched.path(), newer.path());
    let last = server.asked("train.jsonl").pop().unwrap();
    assert_eq!(last.status, 200);
    assert!(last.range.is_some());
}

#[test]
fn a_whole_file_that_changed_meanwhile_is_fetched_anew() {
    let (_, server, fetched) = scene(100);
    let fetch = || hdse(fetched.path(), &[&server], &["fetch", "cluster"]);
    server.fault("/cluster/val.jsonl", Fault::Status(403));
    bad(&mut fetch(), 1);
    assert!(fetched.path().join("cluster.part/train.jsonl").exists());
    // What has come whole is not asked for again.
    server.fault("/cluster/val.jsonl", Fault::Status(403));
    bad(&mut fetch(), 1);
    assert_eq!(server.asked("train.jsonl").len(), 1);
    let newer = home(102);
    let next = Server::mirror(newer.path());
    server.set(|state| state.files = std::mem::take(&mut next.state.lock().unwrap().files));
    good(&mut fetch());
    assert_same(fetched.path(), newer.path());
}

#[cfg(unix)]
#[test]
fn a_killed_fetch_goes_on_too() {
    let (published, server, home) = scene(1000);
    server.fault(TRAIN, Fault::Slow(60_000));
    let mut child = hdse(home.path(), &[&server], &["fetch", "cluster"]).spawn().unwrap();
    wait_for(&home.path().join("cluster.part/train.jsonl"), 60_000);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(&home.path().join("cluster")), [] as [&str; 0]);
    good(&mut hdse(home.path(), &[&server], &["fetch", "cluster"]));
    assert_same(home.path(), published.path());
    assert_eq!(server.asked("train.jsonl").pop().unwrap().status, 206);
}

#[test]
fn two_processes_fetch_once() {
    let (published, server, home) = scene(1000);
    server.fault("/cluster/val.jsonl", Fault::Status(503));
    let start = || hdse(home.path(), &[&server], &["fetch", "cluster"]).spawn().unwrap();
    let children = [start(), start(), start()];
    for child in children {
        let (code, _, error) = finished(child.wait_with_output().unwrap());
        assert_eq!(code, 0, "{error}");
    }
    assert_same(home.path(), published.path());
    assert_eq!(server.asked("train.jsonl").len(), 1);
}

#[test]
fn offline_nothing_is_asked_for() {
    let (_, server, home) = scene(10);
    let error = bad(&mut hdse(home.path(), &[&server], &["fetch", "cluster", "--offline"]), 1);
    assert!(error.contains(&format!("{}/cluster/hdse-data.json", server.url)), "{error}");
    let error = bad(hdse(home.path(), &[], &["fetch", "mnist"]).env("HDSE_OFFLINE", "1"), 1);
    assert!(
        error.contains("https://huggingface.co/datasets/graphs-datasets/MNIST/resolve/"),
        "{error}"
    );
    assert!(names(home.path()).is_empty() && server.log().is_empty());
    // What is there needs no network.
    let there = self::home(10);
    good(&mut hdse(there.path(), &[&server], &["fetch", "cluster", "--offline"]));
    assert!(server.log().is_empty());
}

/// Graphs of `cluster` as Parquet.
fn parquet_bytes(graphs: usize) -> Vec<u8> {
    use arrow_array::builder::{Int64Builder, ListBuilder};
    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    let nested = |rows: &[Vec<i64>]| {
        let mut builder = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
        for _ in 0..graphs {
            rows.iter()
                .for_each(|row| builder.values().append_value(row.iter().copied().map(Some)));
            builder.append(true);
        }
        Arc::new(builder.finish()) as ArrayRef
    };
    let mut targets = ListBuilder::new(Int64Builder::new());
    (0..graphs).for_each(|_| targets.append_value([Some(0), Some(5)]));
    let batch = RecordBatch::try_from_iter([
        ("num_nodes", Arc::new(Int64Array::from(vec![2; graphs])) as ArrayRef),
        ("edge_index", nested(&[vec![0, 1], vec![1, 0]])),
        ("node_feat", nested(&[vec![1], vec![6]])),
        ("y", Arc::new(targets.finish()) as ArrayRef),
    ])
    .unwrap();
    let mut bytes = Vec::new();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn a_mirror_needs_no_manifest() {
    let file = |split: &str, bytes: Vec<u8>| (format!("/cluster/{split}.parquet"), bytes);
    let files = [
        file("train", parquet_bytes(3)),
        file("val", parquet_bytes(2)),
        file("test", parquet_bytes(1)),
    ];
    let files = files.each_ref().map(|(path, bytes)| (path.as_str(), bytes.clone()));
    let (server, home) = (Server::new(&files), tempfile::tempdir().unwrap());
    let fetch = || hdse(home.path(), &[&server], &["fetch", "cluster"]);
    let text = good(&mut fetch());
    assert!(text.contains("train graphs                3        10,000\n"), "{text}");
    let folder = home.path().join("cluster");
    let first = std::fs::read(folder.join("hdse-data.json")).unwrap();

    // Pinned now: what was deleted must come back the same, unless it is to be replaced.
    for split in ["train", "val", "test"] {
        std::fs::remove_file(folder.join(format!("{split}.parquet"))).unwrap();
    }
    good(&mut fetch());
    assert_eq!(std::fs::read(folder.join("hdse-data.json")).unwrap(), first);
    server.set(|state| {
        state.files.insert("/cluster/val.parquet".into(), parquet_bytes(4)).map(drop).unwrap()
    });
    std::fs::remove_file(folder.join("val.parquet")).unwrap();
    let error = bad(&mut fetch(), 2);
    assert!(error.contains("`--force` replaces them"), "{error}");
    for split in ["train", "test"] {
        std::fs::remove_file(folder.join(format!("{split}.parquet"))).unwrap();
    }
    let error = bad(&mut fetch(), 1);
    assert!(error.contains("val.parquet: "), "{error}");
    let (code, out, error) = output(fetch().arg("--force"));
    assert_eq!(code, 0, "{error}");
    assert!(error.contains("note: val.parquet is another file than before"), "{error}");
    assert!(out.contains("val graphs                  4         1,000\n"), "{out}");

    // A page instead of a file does not stay.
    let home = tempfile::tempdir().unwrap();
    server.set(|state| {
        state
            .files
            .insert("/cluster/val.parquet".into(), b"<html>log in".to_vec())
            .map(drop)
            .unwrap()
    });
    let error = bad(&mut hdse(home.path(), &[&server], &["fetch", "cluster"]), 1);
    assert!(error.contains("set `cluster`: "), "{error}");
    assert_eq!(names(home.path()), [".cluster.lock"]);
}

#[test]
fn changed_files_are_noticed_and_can_be_taken() {
    let there = home(10);
    let path = there.path().join("cluster/train.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() / 5]).unwrap();
    for arguments in [["check", "cluster"], ["fetch", "cluster"]] {
        let error = bad(&mut hdse(there.path(), &[], &arguments), 1);
        assert!(error.contains("train.jsonl changed since it was fetched or imported"), "{error}");
    }
    let folder = there.path().join("cluster");
    let error = bad(&mut import_command(&there, &[&folder], &[]), 1);
    assert!(error.contains("is not what hdse-data.json beside it says"), "{error}");
    import(&there, &[&folder], &["--force"]);
    good(&mut hdse(there.path(), &[], &["check", "cluster"]));
    assert_eq!(names(&folder), WHOLE);
}

#[test]
fn files_are_imported_under_their_plain_names() {
    let copies = copies(10);
    let at = |name: &str| copies.path().join(name);
    let mut train = std::fs::read_to_string(at("train.jsonl")).unwrap();
    let rest = train.split_off(train.len() / 5 * 3);
    let gzipped = |text: &str| {
        let mut encoder =
            flate2::read::GzEncoder::new(text.as_bytes(), flate2::Compression::fast());
        let mut bytes = Vec::new();
        encoder.read_to_end(&mut bytes).unwrap();
        bytes
    };
    std::fs::write(at("train-00000-of-00002-0a1b.jsonl.gz"), gzipped(&train)).unwrap();
    std::fs::write(at("train-00001-of-00002-2c3d.jsonl.gz"), gzipped(&rest)).unwrap();
    std::fs::rename(at("val.jsonl"), at("validation-00000-of-00001.jsonl")).unwrap();
    let paths = [
        at("train-00001-of-00002-2c3d.jsonl.gz"),
        at("train-00000-of-00002-0a1b.jsonl.gz"),
        at("validation-00000-of-00001.jsonl"),
        at("test.jsonl"),
    ];
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let home = tempfile::tempdir().unwrap();
    let text = import(&home, &paths, &[]);
    assert!(text.contains("train graphs               10        10,000\n"), "{text}");
    let expected = [
        "hdse-data.json",
        "test.jsonl",
        "train-00000-of-00002.jsonl.gz",
        "train-00001-of-00002.jsonl.gz",
        "val.jsonl",
    ];
    assert_eq!(names(&home.path().join("cluster")), expected);
    // Problems say which of the files they are in.
    let broken =
        std::fs::read_to_string(at("test.jsonl")).unwrap().replace("\"y\": [", "\"y\": [9, ");
    std::fs::write(at("train-00001-of-00002-2c3d.jsonl.gz"), gzipped(&broken)).unwrap();
    let error = bad(&mut import_command(&home, &paths, &["--force"]), 1);
    let start = "error: set `cluster`: train-00001-of-00002.jsonl.gz: row 0 (from 0): ";
    assert!(error.starts_with(start), "{error}");
    good(&mut hdse(home.path(), &[], &["check", "cluster"]));

    // Another machine takes the folder over as it is, and by way of a mirror.
    let (second, third) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    import(&second, &[&home.path().join("cluster")], &[]);
    let server = Server::mirror(second.path());
    good(&mut hdse(third.path(), &[&server], &["fetch", "cluster"]));
    assert_eq!(names(&third.path().join("cluster")), expected);
}

#[test]
fn import_replaces_only_when_told() {
    let home = home(10);
    let manifest = std::fs::read(home.path().join("cluster/hdse-data.json")).unwrap();
    let (same, other) = (copies(10), copies(20));
    let (code, _, error) = output(&mut import_command(&home, &[same.path()], &[]));
    assert_eq!(code, 0);
    assert!(error.contains("it is there already"), "{error}");
    assert_eq!(std::fs::read(home.path().join("cluster/hdse-data.json")).unwrap(), manifest);
    let error = bad(&mut import_command(&home, &[other.path()], &[]), 2);
    assert!(error.contains("`--force` replaces them"), "{error}");
    good(&mut hdse(home.path(), &[], &["check", "cluster"]));
    std::fs::write(other.path().join("label.txt"), "made for a test\n").unwrap();
    let text = import(&home, &[other.path()], &["--force"]);
    assert!(text.contains("label   made for a test, subset (20 / 1 / 1 of"), "{text}");
    let text = good(&mut hdse(home.path(), &[], &["check", "cluster"]));
    assert!(text.contains("label   made for a test"), "{text}");
    // The label goes with the files it was for.
    let text = import(&home, &[same.path()], &["--force"]);
    assert!(!text.contains("made for a test"), "{text}");
    assert_eq!(names(home.path()), [".cluster.lock", "cluster"]);
}

#[cfg(unix)]
#[test]
fn links_share_bytes() {
    use std::os::unix::fs::MetadataExt as _;
    let copies = copies(10);
    let home = tempfile::TempDir::new_in(copies.path().parent().unwrap()).unwrap();
    import(&home, &[copies.path()], &["--link"]);
    for name in &WHOLE[1..] {
        let inode = |folder: &Path| folder.join(name).metadata().unwrap().ino();
        assert_eq!(inode(copies.path()), inode(&home.path().join("cluster")), "{name}");
    }
    good(&mut hdse(home.path(), &[], &["check", "cluster"]));
}

#[test]
fn wrong_imports_are_explained_and_leave_nothing() {
    let copies = copies(10);
    let at = |name: &str| copies.path().join(name);
    let home = tempfile::tempdir().unwrap();
    std::fs::write(at("graphs.jsonl"), "").unwrap();
    for (paths, code, expected) in [
        (vec![at("nowhere")], 2, "there is no "),
        (vec![at("graphs.jsonl")], 2, "its name does not say which split it is"),
        (vec![at("train.jsonl"), at("val.jsonl")], 2, "no test file in "),
        (vec![copies.path().into(), at("val.jsonl")], 2, "are both there"),
    ] {
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let error = bad(&mut import_command(&home, &paths, &[]), code);
        assert!(error.contains("set `cluster`: ") && error.contains(expected), "{error}");
    }
    assert!(names(home.path()).is_empty());
    std::fs::write(at("val.jsonl"), "{\"num_nodes\": 1}").unwrap();
    let error = bad(&mut import_command(&home, &[copies.path()], &[]), 1);
    assert!(error.contains("val.jsonl"), "{error}");
    assert_eq!(names(home.path()), [".cluster.lock"]);
    let error = bad(hdse(home.path(), &[], &["import", "community-small"]).arg(copies.path()), 2);
    assert!(error.contains("it is generated and needs no files"), "{error}");
    let error =
        bad(import_command(&home, &[copies.path()], &[]).env("HDSE_DATA", at("test.jsonl")), 1);
    assert!(error.contains("cannot create") && error.contains("HDSE_DATA"), "{error}");
}

#[test]
fn without_a_folder_named_sets_lie_in_the_users() {
    let (user, copies) = (tempfile::tempdir().unwrap(), copies(10));
    let command = |arguments: &[&str]| {
        let mut command = hdse(user.path(), &[], arguments);
        command.env_remove("HDSE_DATA").env_remove("XDG_DATA_HOME").env("HOME", user.path());
        command.env("LOCALAPPDATA", user.path());
        command
    };
    good(command(&["import", "cluster", "-q"]).arg(copies.path()));
    let text = good(&mut command(&["check", "cluster"]));
    assert!(text.contains("train graphs               10"), "{text}");
    if cfg!(target_os = "linux") {
        assert_eq!(names(&user.path().join(".local/share/hdse/cluster")), WHOLE);
    }
}

//! `hdse reproduce`: rows of the paper as runs that can be gone on with.

use std::path::Path;
use std::process::Command;

fn hdse(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hdse"));
    let output = command.args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_page_is_a_function_of_finished_runs() {
    let folder = tempfile::tempdir().unwrap();
    let page = || std::fs::read_to_string(folder.path().join("page.md")).unwrap();
    let run = |rows: &str, seeds: &str| {
        let arguments = ["reproduce", "community-small", "--epochs", "2", "--page", "page.md"];
        let (code, text, errors) =
            hdse(folder.path(), &[&arguments[..], &["--rows", rows, "--seeds", seeds]].concat());
        assert_eq!(code, Some(0), "{errors}");
        (text, errors)
    };
    let (text, _) = run("hdse,off", "2");
    let first = page();
    assert!(first.contains("`hdse reproduce community-small --rows hdse,off --epochs 2 --seeds 2"));
    for words in
        ["| GT | 64.7 ± 1.1 | ", "| GT + HDSE | 88.6 ± 0.9 |", "2 epochs instead of", "regenerated"]
    {
        assert!(first.contains(words), "{words}\n{first}");
    }
    assert!(text.contains("the runs are in runs/community-small-2-epochs"), "{text}");

    let best = folder.path().join("runs/community-small-2-epochs/hdse/seed-1/best.safetensors");
    let written = |path: &Path| std::fs::metadata(path).unwrap().modified().unwrap();
    let before = written(&best);
    run("hdse,off", "2");
    assert_eq!(page(), first);
    assert_eq!(written(&best), before, "what is done is not done again");

    // A row is a run like any other.
    let row = "runs/community-small-2-epochs/hdse";
    let (code, text, errors) = hdse(folder.path(), &["eval", row, "--json"]);
    assert_eq!(code, Some(0), "{errors}");
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    let result = folder.path().join(row).join("seed-0/result.json");
    let kept: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(result).unwrap()).unwrap();
    assert_eq!(found["rows"][0]["metric"], kept["test_metric"]);
    assert_eq!(found["rows"].as_array().unwrap().len(), 2);
}

#[test]
fn a_folder_of_other_runs_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let run = |epochs: &str| {
        let rows = ["--rows", "off", "--seeds", "1", "-o", "mine", "--epochs", epochs];
        hdse(folder.path(), &[&["reproduce", "community-small"][..], &rows].concat())
    };
    assert_eq!(run("1").0, Some(0));
    let (code, _, errors) = run("2");
    assert_eq!(code, Some(2));
    assert!(errors.contains("other settings; give another folder with -o"), "{errors}");
}

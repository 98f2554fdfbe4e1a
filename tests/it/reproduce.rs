//! `hdse reproduce`: rows of the paper as runs that can be gone on with.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::train_command::wait;

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
    assert!(
        first.contains("`hdse reproduce community-small --rows off,hdse --epochs 2 --seeds 2`")
    );
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
    assert!(
        errors.contains(
            "holds `community-small` with `--epochs 1`, 1 epoch for every run; say the same"
        ),
        "{errors}"
    );

    // A run that some other command has made there.
    std::fs::remove_file(folder.path().join("mine/plan.json")).unwrap();
    let (code, _, errors) = run("2");
    assert_eq!(code, Some(2));
    assert!(errors.contains("other settings; give another folder with -o"), "{errors}");
}

#[test]
fn parts_of_several_machines_make_one_table() {
    let folder = tempfile::tempdir().unwrap();
    let run = |output: &str, more: &[&str]| {
        let common = ["--rows", "off,spd,hdse", "--seeds", "2", "--epochs", "2", "-o", output];
        let (code, text, errors) =
            hdse(folder.path(), &[&["reproduce", "community-small"][..], &common, more].concat());
        assert_eq!(code, Some(0), "{errors}");
        text
    };
    run("whole", &[]);
    let text = run("first", &["--shard", "0/2"]);
    assert!(text.contains("of 2 seeds are finished"), "{text}");
    run("second", &["--shard", "1/2"]);
    let done = |place: &str| {
        let rows = ["off", "spd", "hdse"]
            .iter()
            .flat_map(|row| [0, 1].map(|seed| format!("{row}/seed-{seed}")));
        rows.filter(|run| folder.path().join(place).join(run).join("result.json").exists())
            .collect::<Vec<_>>()
    };
    let (first, second) = (done("first"), done("second"));
    assert_eq!((first.len(), second.len()), (3, 3));
    assert!(first.iter().all(|run| !second.contains(run)), "{first:?} {second:?}");
    let status =
        Command::new("cp").args(["-r", "second/.", "first"]).current_dir(folder.path()).status();
    assert!(status.unwrap().success());
    let page = |place: &str| {
        // Time is not a function of the seed.
        for run in done(place) {
            std::fs::remove_file(folder.path().join(place).join(run).join("cost.json")).unwrap();
        }
        let (code, text, errors) = hdse(folder.path(), &["report", place, "--format", "md"]);
        assert_eq!(code, Some(0), "{errors}");
        text
    };
    assert_eq!(page("first"), page("whole"));
    let (code, _, errors) = hdse(
        folder.path(),
        &["reproduce", "community-small", "--budget", "1", "--shard", "0/2", "-o", "third"],
    );
    assert_eq!(code, Some(2));
    assert!(errors.contains("different numbers of epochs"), "{errors}");
}

#[test]
fn rows_that_do_not_fit_into_memory_together_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = |rows: &str| {
        let common = ["--epochs", "1", "--seeds", "1", "--max-memory", "900K", "--rows", rows];
        hdse(folder.path(), &[&["reproduce", "community-small"][..], &common].concat())
    };
    let (code, _, errors) = run("hdse");
    assert_eq!(code, Some(0), "{errors}");
    let (code, _, errors) = run("off,spd,random,hdse");
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("beside"), "{errors}");
}

#[test]
fn a_budget_settles_the_epochs_once() {
    let folder = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| {
        let rows = ["--rows", "off,hdse", "--seeds", "1", "-o", "mine"];
        let (code, text, errors) =
            hdse(folder.path(), &[&["reproduce", "community-small"][..], &rows, more].concat());
        assert_eq!(code, Some(0), "{errors}");
        (text, errors)
    };
    let plan = || -> serde_json::Value {
        let text = std::fs::read_to_string(folder.path().join("mine/plan.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let (text, errors) = run(&["--budget", "0.0001"]);
    let epochs = plan()["epochs"].as_u64().unwrap();
    assert!(errors.contains("for every run, of the recipe's"), "{errors}");
    assert!(text.contains("instead of the recipe's") && epochs > 0, "{text}");
    let lines =
        std::fs::read_to_string(folder.path().join("mine/hdse/seed-0/metrics.jsonl")).unwrap();
    assert_eq!(lines.lines().count() as u64, epochs);
    // Whatever the machine does the next time.
    run(&["--budget", "0.0001"]);
    assert_eq!(plan()["epochs"].as_u64(), Some(epochs));
    // One row: a run by itself, which all threads do, and more runs than rows.
    for seeds in ["1", "3"] {
        let alone = ["--budget", "0.0001", "--rows", "off", "--seeds", seeds, "-o", seeds];
        let (code, _, errors) =
            hdse(folder.path(), &[&["reproduce", "community-small"][..], &alone].concat());
        assert_eq!(code, Some(0), "{errors}");
    }
    // Rows and seeds that are added later join the table.
    let more = ["--budget", "0.0001", "--rows", "spd", "--seeds", "2", "-o", "mine"];
    let (code, text, errors) =
        hdse(folder.path(), &[&["reproduce", "community-small"][..], &more].concat());
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(plan()["epochs"].as_u64(), Some(epochs));
    assert_eq!(plan()["rows"], serde_json::json!(["off", "spd", "hdse"]));
    assert!(text.contains("GT + SPD") && text.contains("GT + HDSE"), "{text}");
    for other in [&["--budget", "0.01"][..], &["--quick"], &[]] {
        let arguments = [&["reproduce", "community-small", "-o", "mine"][..], other].concat();
        let (code, _, errors) = hdse(folder.path(), &arguments);
        assert_eq!(code, Some(2));
        assert!(
            errors.contains("with `--budget 0.0001`") && errors.contains("say the same"),
            "{errors}"
        );
    }
    let (code, _, errors) = hdse(folder.path(), &["reproduce", "community-small", "--budget", "0"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("take a number of hours"), "{errors}");
    let (code, _, errors) = hdse(folder.path(), &["reproduce", "cora-ansgt"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("needs the backbone `ansgt`, which is still to come"), "{errors}");
}

#[test]
fn a_stop_leaves_a_page_of_finished_runs() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    let arguments = ["--rows", "off,hdse", "--epochs", "100", "--seeds", "1", "-t", "1"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_hdse"))
        .args(["reproduce", "community-small", "--results", "kept.json", "--page", "page.md"])
        .args(arguments)
        .current_dir(folder.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait(&mut child, || page.metadata().is_ok_and(|page| page.len() > 0));
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().code(), None, "too late");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("0 of 1 seeds are finished"), "{page}");
    let (code, report, errors) = hdse(folder.path(), &["report", "kept.json", "--format", "md"]);
    assert_eq!((code, report), (Some(0), page), "{errors}");
}

#[test]
fn results_in_a_file_are_gone_on_with_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let read = |file: &str| std::fs::read_to_string(folder.path().join(file)).unwrap();
    let run = |output: &str, more: &[&str]| {
        let common = ["reproduce", "community-small", "--results", "kept.json", "-o", output];
        hdse(folder.path(), &[&common[..], more].concat())
    };
    let done = |run: (Option<i32>, String, String)| {
        assert_eq!(run.0, Some(0), "{}", run.2);
        run.1
    };
    let rows = ["--rows", "off,hdse", "--epochs", "2", "--page", "page.md"];
    done(run("here", &[&rows[..], &["--seeds", "1"]].concat()));
    let report = done(hdse(folder.path(), &["report", "kept.json", "--format", "md"]));
    assert_eq!(report, read("page.md"), "the file gives the page");

    // Nothing is left to do, then one seed of either row is.
    let (kept, page) = (read("kept.json"), read("page.md"));
    done(run("there", &[&rows[..], &["--seeds", "1"]].concat()));
    assert_eq!((read("kept.json"), read("page.md")), (kept, page));
    let trained = |run: &str| folder.path().join(run).join("best.safetensors").exists();
    done(run("there", &[&rows[..], &["--seeds", "2"]].concat()));
    for row in ["off", "hdse"] {
        let seeds = [0, 1].map(|seed| trained(&format!("there/{row}/seed-{seed}")));
        assert_eq!(seeds, [false, true], "{row}");
    }
    // The first folder takes over what the second has done.
    let page = read("page.md");
    done(run("here", &[&rows[..], &["--seeds", "2"]].concat()));
    assert_eq!(read("page.md"), page);
    assert!(!trained("here/hdse/seed-1"));

    let refused = |(code, _, errors): (Option<i32>, String, String), words: &str| {
        assert_ne!(code, Some(0), "{errors}");
        assert!(errors.contains(words), "{errors}");
    };
    let words =
        "kept.json holds `community-small` with `--epochs 2`, 2 epochs for every run; say the same";
    refused(run("other", &["--epochs", "3"]), words);
    assert!(!folder.path().join("other").exists());
    let other = ["reproduce", "community-small", "--rows", "off", "--seeds", "1", "-o", "third"];
    done(hdse(folder.path(), &[&other[..], &["--epochs", "1"]].concat()));
    refused(run("third", &["--epochs", "2"]), "holds runs of another plan than the results");
    std::fs::write(folder.path().join("kept.json"), "{\"rows\": []}").unwrap();
    refused(run("here", &rows), "kept.json: missing field `plan`");
    assert_eq!(read("kept.json"), "{\"rows\": []}", "nothing is lost");
}

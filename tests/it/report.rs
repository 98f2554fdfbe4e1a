//! `hdse report`: from run directories to tables and pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use hdse::report::statistics::{moments, paired, welch};
use serde_json::{Value, json};

fn hdse(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hdse"));
    let output = command.args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn good(folder: &Path, arguments: &[&str]) -> String {
    let (code, text, errors) = hdse(folder, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {errors}");
    text
}

/// Two rows of two seeds and three epochs, in `mine`.
static RUNS: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let rows =
        ["--rows", "off,hdse", "--seeds", "2", "--epochs", "3", "-o", "mine", "--page", "page.md"];
    good(folder.path(), &[&["reproduce", "community-small"][..], &rows].concat());
    folder
});

/// A copy that a test may change.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let status =
        Command::new("cp").arg("-r").arg(RUNS.path().join("mine")).arg(folder.path()).status();
    assert!(status.unwrap().success());
    folder
}

fn change(path: &Path, of: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    of(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

#[test]
fn tests_agree_with_scipy() {
    let text = include_str!("student.json");
    let file: Value = serde_json::from_str(text).unwrap();
    let near = |ours: f64, theirs: &Value, what: &str| {
        let theirs = theirs.as_f64().unwrap();
        assert!(
            (ours - theirs).abs() <= 1e-10 * theirs.abs().max(1e-3),
            "{what}: {ours} instead of {theirs}"
        );
    };
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() >= 50);
    for case in cases {
        let values: Vec<f64> = serde_json::from_value(case["values"].clone()).unwrap();
        let (mean, deviation) = moments(&values);
        near(mean, &case["mean"], "mean");
        near(deviation.unwrap(), &case["deviation"], "deviation");
        let test = paired(&values).unwrap();
        near(test.t, &case["paired"][0], "t");
        near(test.p, &case["paired"][1], "p");
        let number = |place: usize| case["published"][place].as_f64().unwrap();
        let test = welch(&values, number(0), number(1), number(2) as u32).unwrap();
        near(test.t, &case["welch"][0], "Welch's t");
        near(test.p, &case["welch"][1], "Welch's p");
    }
}

#[test]
fn the_same_directories_give_the_same_bytes() {
    let folder = RUNS.path();
    let page = fs::read_to_string(folder.join("page.md")).unwrap();
    assert_eq!(good(folder, &["report", "mine", "--format", "md"]), page);
    good(
        folder,
        &[
            "reproduce",
            "community-small",
            "--rows",
            "off,hdse",
            "--seeds",
            "2",
            "--epochs",
            "3",
            "-o",
            "mine",
            "--page",
            "again.md",
        ],
    );
    assert_eq!(fs::read_to_string(folder.join("again.md")).unwrap(), page);
    // Neither data nor models are needed, and where the folder lies makes no difference.
    let other = copy();
    for row in ["off", "hdse"] {
        for file in ["best.safetensors", "last.safetensors"] {
            fs::remove_file(other.path().join("mine").join(row).join("seed-1").join(file)).unwrap();
        }
    }
    for format in ["text", "html", "md", "csv", "latex", "json"] {
        let both = [folder, other.path()]
            .map(|folder| good(folder, &["report", "mine", "--format", format]));
        assert_eq!(both[0], both[1], "{format}");
    }
}

#[test]
fn tables_hold_what_runs_came_to() {
    let folder = RUNS.path();
    let outcome = |row: &str, seed: u64| -> Value {
        let path = folder.join(format!("mine/{row}/seed-{seed}/result.json"));
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    let test =
        |row: &str| [0, 1].map(|seed| outcome(row, seed)["test_metric"].as_f64().unwrap() * 100.0);
    let report: Value = serde_json::from_str(&good(folder, &["report", "mine", "--json"])).unwrap();
    let section = &report["sections"][0];
    assert_eq!(section["baseline"], "GT");
    let row = &section["rows"][1];
    let ours = test("hdse");
    assert!((row["mean"].as_f64().unwrap() - moments(&ours).0).abs() < 1e-12);
    assert_eq!(
        (&row["name"], &row["published_mean"], &row["seeds"]),
        (&json!("GT + HDSE"), &json!(88.6), &json!(2))
    );
    let off = test("off");
    let expected = paired(&[ours[0] - off[0], ours[1] - off[1]]).map(|test| test.p);
    let found = row["p_baseline"].as_f64();
    assert!((found.unwrap() - expected.unwrap()).abs() < 1e-9);
    assert!(row["seconds_per_epoch"].as_f64().unwrap() > 0.0);
    for words in ["3 epochs instead of the recipe's", "regenerated", "share of targets whose class"]
    {
        assert!(section["remarks"].to_string().contains(words), "{words}: {}", section["remarks"]);
    }
    assert!(section["warnings"].to_string().contains("Fewer than 4 seeds (2)"));

    // Rows as runs of their own, against one of them.
    let text =
        good(folder, &["report", "mine/off", "mine/hdse", "--baseline", "hdse", "--format", "csv"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[1].starts_with("community-small,off,accuracy,2,"), "{text}");
    assert!(lines[2].contains("model.bias="), "{text}");
    let (code, _, errors) =
        hdse(folder, &["report", "mine/off", "mine/hdse", "--baseline", "hsde"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("did you mean `hdse`?"), "{errors}");
}

#[test]
fn rows_that_were_only_begun_have_no_costs_and_are_named() {
    let folder = copy();
    for seed in ["seed-0", "seed-1"] {
        let seed = folder.path().join("mine/hdse").join(seed);
        fs::remove_file(seed.join("result.json")).unwrap();
        change(&seed.join("cost.json"), |cost| cost["epochs"] = json!(0));
    }
    let report = good(folder.path(), &["report", "mine", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let [off, begun] = [0, 1].map(|row| &report["sections"][0]["rows"][row]);
    for cost in ["seconds_per_epoch", "peak_bytes"] {
        assert!(off[cost].is_number() && begun[cost].is_null(), "{cost}: {off} {begun}");
    }
    let warnings = report["sections"][0]["warnings"].to_string();
    for words in ["Fewer than 4 seeds (2)", "GT + HDSE: 0 of 2 seeds are finished"] {
        assert!(warnings.contains(words), "{words}: {warnings}");
    }
}

#[test]
fn doubtful_numbers_are_marked() {
    let folder = copy();
    let mine = folder.path().join("mine");
    change(&mine.join("hdse/data.json"), |data| data["hash"] = json!("0123456789abcdef"));
    fs::remove_file(mine.join("hdse/seed-1/result.json")).unwrap();
    let text = good(folder.path(), &["report", "mine"]);
    assert!(text.contains("Warning: GT + HDSE was trained on other data than GT."), "{text}");
    assert!(text.contains("Warning: GT + HDSE: 1 of 2 seeds are finished."), "{text}");

    let folder = copy();
    change(&folder.path().join("mine/hdse/seed-1/result.json"), |result| {
        result["split"] = json!("abc")
    });
    let (_, _, errors) =
        hdse(folder.path(), &["report", "mine", "--format", "html", "-o", "page.html"]);
    assert!(errors.contains("GT + HDSE was trained on other splits than GT."), "{errors}");
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("<aside>") && page.contains("other splits"));

    fs::rename(folder.path().join("mine/hdse"), folder.path().join("away")).unwrap();
    let text = good(folder.path(), &["report", "mine"]);
    assert!(text.contains("Still to be run: GT + HDSE.") && !text.contains("88.6"), "{text}");

    let (code, _, errors) = hdse(folder.path(), &["report", "nothing"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("there is no run in it; name folders"), "{errors}");
    let line = folder.path().join("mine/off/seed-0/metrics.jsonl");
    let text = fs::read_to_string(&line).unwrap();
    fs::write(&line, format!("{{\n{text}")).unwrap();
    let (code, _, errors) = hdse(folder.path(), &["report", "mine"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("metrics.jsonl, line 1: "), "{errors}");
}

/// Run directories with names and labels that would do harm.
fn hostile() -> (tempfile::TempDir, Vec<String>) {
    let folder = copy();
    let mine = folder.path().join("mine");
    let names = ["<script>alert(1)<%2fscript>", "=1+1 | `a` \\textbf{b} & $c$ \u{1b}[31m\n\"'"]
        .map(String::from);
    for (row, name) in ["off", "hdse"].iter().zip(&names) {
        change(&mine.join(row).join("data.json"), |data| {
            data["label"] = json!("</li><img src=x onerror=alert(1)>")
        });
        fs::rename(mine.join(row), folder.path().join(name)).unwrap();
    }
    (folder, names.to_vec())
}

#[test]
fn hostile_names_and_labels_are_escaped() {
    let (folder, names) = hostile();
    let write = |format: &str| {
        let arguments =
            ["report", &names[0], &names[1], "--baseline", &names[0], "--format", format];
        good(folder.path(), &arguments)
    };
    let html = write("html");
    assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
    assert!(html.contains("&lt;script&gt;") && html.contains("&lt;img src=x"));
    let open = |tag: &str| html.matches(&format!("<{tag}")).count();
    for tag in ["table", "tr", "svg", "figure", "ul"] {
        assert_eq!(open(tag), html.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    let md = write("md");
    assert!(!md.contains("<script") && !md.contains("<img") && md.contains("\\| \\`a\\`"), "{md}");
    let latex = write("latex");
    assert!(latex.contains("\\textbackslash{}textbf\\{b\\} \\& \\$c\\$"), "{latex}");
    assert!(write("csv").contains("\"'=1+1 | `a`"));
    for format in ["text", "md", "html", "latex"] {
        assert!(!write(format).contains('\u{1b}'), "{format}");
    }
    let _: Value = serde_json::from_str(&write("json")).unwrap();
}

/// A browser, if there is one.
fn browser() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.exists())
}

#[test]
fn a_browser_has_nothing_to_complain_of() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium at hand");
        return;
    };
    let (folder, names) = hostile();
    good(folder.path(), &["report", &names[0], &names[1], "-o", "page.html"]);
    let page = format!("file://{}", folder.path().join("page.html").display());
    let arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        "--dump-dom",
        &page,
    ];
    let output = Command::new(browser).args(arguments).env("HOME", folder.path()).output().unwrap();
    let (dom, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(dom.contains("val accuracy in %") && dom.contains("</html>"), "{dom}\n{errors}");
    assert!(!errors.contains("CONSOLE"), "{errors}");
}

#[test]
fn pages_of_the_documentation_are_those_of_their_results() {
    let folder = crate::support::checkout().join("docs/results");
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    assert!(!files.is_empty(), "none in {}", folder.display());
    for file in files {
        let text = good(&folder, &["report", file.to_str().unwrap(), "--format", "md"]);
        let page = fs::read_to_string(file.with_extension("md")).unwrap();
        assert_eq!(text, page, "{}", file.display());
    }
}

//! Mistakes in experiments and in their data, as a user of `hdse train` meets them. Every message says what,
//! where and what to do; the exit code is 2 for what was asked and 1 for what was found; nothing is left behind.

use std::path::Path;

use super::train_command::{fail, hdse, succeed};

/// What is wrong with an experiment that is otherwise configs/gt-community-small.toml.
enum Wrong {
    /// This text in it, for that one.
    Text(&'static str, &'static str),
    /// These changes on the command line.
    Set(&'static [&'static str]),
    /// All of it.
    Bytes(&'static [u8]),
    /// The command: `CONFIG`, `RUN` (one that is finished), `NEW` (none yet), `HERE` (a folder).
    Command(&'static [&'static str]),
}
use Wrong::{Bytes, Command, Set, Text};

/// What is wrong, the exit code, and what the message says: which file, where in it, what to do.
type Case = (Wrong, i32, [&'static str; 3]);

const OWN: &str = "data.task={level='graph',target={classes=2}}";
const WHOLE: &str = "a whole number, 0 or more";

#[rustfmt::skip]
const CONFIGS: &[Case] = &[
    // Names that are not there.
    (Text("[model]", "[modle]"), 2, ["small.toml, line 5", "`modle`", "did you mean `model`?"]),
    (Text("layers = 4", "layer = 4"), 2, ["small.toml, line 7", "`layer = 4`", "did you mean `layers`?"]),
    (Text("data.set", "data.sett"), 2, ["small.toml, line 2", "`sett`", "did you mean `set`?"]),
    (Text("\"gt\"", "\"gtt\""), 2, ["small.toml", "[model]", "did you mean `gt`?"]),
    (Text("\"mlp\"", "\"mpl\""), 2, ["small.toml, line 14", "bias", "did you mean `mlp`?"]),
    (Text("plain = 2", "plane = 2"), 2, ["small.toml, line 12", "head", "did you mean `plain`?"]),
    (Text("cross-entropy", "crossentropy"), 2, ["small.toml, line 21", "loss", "did you mean `cross-entropy`?"]),
    (Text("accuracy", "acuracy"), 2, ["small.toml, line 22", "metric", "did you mean `accuracy`?"]),
    (Text("adamw", "adamv"), 2, ["small.toml, line 24", "optimizer", "did you mean `adamw`?"]),
    (Text("weight_decay", "weight_decai"), 2, ["small.toml, line 24", "optimizer", "did you mean `weight_decay`?"]),
    (Text("cosine", "cosin"), 2, ["small.toml, line 25", "schedule", "did you mean `cosine`?"]),
    (Text("warmup", "warm_up"), 2, ["small.toml, line 25", "schedule", "did you mean `warmup`?"]),
    (Set(&["data.set=zink"]), 2, ["small.toml", "`data.set`", "did you mean `zinc`?"]),
    (Set(&["hierarchy.coarsener=luvain"]), 2, ["small.toml", "`hierarchy.coarsener`", "did you mean `louvain`?"]),
    (Set(&["hierarchy.coarsener=louvain:resolutoin=1"]), 2, ["small.toml", "`hierarchy.coarsener`", "did you mean `resolution`?"]),
    (Set(&["model.layer=2"]), 2, ["small.toml, changed by --set", "`layer = 2`", "did you mean `layers`?"]),
    (Set(&["modle.dim=2"]), 2, ["small.toml, changed by --set", "`modle`", "did you mean `model`?"]),
    (Set(&["model.encoding={rwse={step=4}}"]), 2, ["small.toml", "`step = 4`", "did you mean `steps`?"]),
    // Values of another kind.
    (Text("dim = 32", "dim = \"32\""), 2, ["small.toml, line 8", "`dim = \"32\"`", WHOLE]),
    (Text("dim = 32", "dim = 3.5"), 2, ["small.toml, line 8", "`dim = 3.5`", WHOLE]),
    (Text("dim = 32", "dim = -3"), 2, ["small.toml, line 8", "`dim = -3`", WHOLE]),
    (Text("dim = 32", "dim = 99999999999999999999"), 2, ["small.toml, line 8", "`dim = 9999", WHOLE]),
    (Text("epochs = 100", "epochs = 1e3"), 2, ["small.toml, line 19", "`epochs = 1e3`", WHOLE]),
    (Text("up_to_swap = true", "up_to_swap = 1"), 2, ["small.toml, line 23", "`up_to_swap = 1`", "expected a boolean"]),
    (Text("{ plain = 2 }", "\"plain\""), 2, ["small.toml, line 12", "head", "expected one with a value"]),
    (Text("{ name = \"adamw\", weight_decay = 1e-5 }", "\"adamw\""), 2, ["small.toml, line 24", "optimizer", "expected a table, as { name"]),
    (Set(&["model=3"]), 2, ["small.toml", "`model = 3`", "expected a table"]),
    (Set(&["model.max_distance='far'"]), 2, ["small.toml", "max_distance", "expected one distance, or a list"]),
    (Set(&["train.optimizer.betas=[0.9]"]), 2, ["small.toml", "[train.optimizer]", "expected an array of length 2"]),
    // What is missing.
    (Text("dim = 32\n", ""), 2, ["small.toml, line 5", "[model]", "missing field `dim`; add it"]),
    (Text("loss = \"cross-entropy\"\n", ""), 2, ["small.toml, line 18", "[train]", "missing field `loss`; add it"]),
    (Text("rate = 2e-3, ", ""), 2, ["small.toml, line 25", "schedule", "missing field `rate`; add it"]),
    (Text("data.set = \"community-small\"\n", ""), 2, ["small.toml", "`data`", "add it"]),
    // Numbers out of range.
    (Set(&["model.dim=0"]), 2, ["small.toml", "`dim` is 0", "between 1 and 65536"]),
    (Set(&["model.dim=9223372036854775807"]), 2, ["small.toml", "`dim` is 9", "between 1 and 65536"]),
    (Set(&["model.dim=65536", "model.layers=4096"]), 1, ["4096 layers", "`model.dim` 65536", "make the model smaller"]),
    (Set(&["model.levels=99"]), 2, ["small.toml", "`levels + 1` is 100", "between 1 and 64"]),
    (Set(&["model.max_distance=255"]), 2, ["small.toml", "`max_distance`", "between 1 and 254"]),
    (Set(&["model.dropout=1.5"]), 2, ["small.toml", "`dropout` is 1.5", "from 0 to 1"]),
    (Set(&["model.dropout=nan"]), 2, ["small.toml", "`dropout` is NaN", "from 0 to 1"]),
    (Set(&["model.encoding={rwse={steps=0}}"]), 2, ["small.toml", "`encoding` is 0", "between 1 and 65536"]),
    (Set(&["train.epochs=0"]), 2, ["small.toml", "`train.epochs` is 0", "between 1 and"]),
    (Set(&["train.epochs=9000000000000"]), 2, ["small.toml", "`train.epochs` is 9", "between 1 and 4294967296"]),
    (Set(&["train.batch_size=0"]), 2, ["small.toml", "`train.batch_size` is 0", "between 1 and"]),
    (Set(&["train.clip_norm=0"]), 2, ["small.toml", "`train.clip_norm`", "more than 0, or left out"]),
    (Set(&["train.clip_norm=nan"]), 2, ["small.toml", "`train.clip_norm` is NaN", "more than 0"]),
    (Set(&["train.schedule.rate=nan"]), 2, ["small.toml", "`train.schedule`", "take a number, 0 or more"]),
    (Set(&["train.schedule.rate=-1"]), 2, ["small.toml", "`train.schedule`: -1", "take a number, 0 or more"]),
    (Set(&["train.schedule={name='linear',rate=1,end=inf}"]), 2, ["small.toml", "`train.schedule`: inf", "take a number"]),
    (Set(&["train.schedule.warmup=-5"]), 2, ["small.toml", "[train.schedule]", WHOLE]),
    (Set(&["train.schedule.warmup=1000"]), 2, ["small.toml", "`train.schedule`", "lower `warmup`"]),
    (Set(&["train.optimizer.weight_decay=-1"]), 2, ["small.toml", "`train.optimizer`: `-1`", "expected a number ≥ 0"]),
    (Set(&["train.optimizer.betas=[0.9,1]"]), 2, ["small.toml", "`betas`", "from 0 to below 1"]),
    (Set(&["hierarchy.coarsener=louvain:resolution=-1"]), 2, ["small.toml", "`resolution`", "expected a number > 0"]),
    (Set(&["hierarchy.coarsener=louvain:resolution=high"]), 2, ["small.toml", "`resolution`", "expected a number > 0"]),
    // Keys that do not fit one another.
    (Set(&["model.heads=5"]), 2, ["small.toml", "`heads`", "take a multiple of `heads`"]),
    (Set(&["model.max_distance=[30,3,3]"]), 2, ["small.toml", "`max_distance` has 3", "give one for each"]),
    (Set(&["model.outputs=3"]), 2, ["small.toml", "`train.up_to_swap`", "set that to 2"]),
    (Set(&["model.local=gine"]), 2, ["small.toml", "gt reads no arcs", "leave out `edge` and `local`"]),
    // Keys that do not fit the data.
    (Set(&["train.up_to_swap=false", "model.outputs=3"]), 2, ["small.toml", "`model.outputs` is 3", "take 2"]),
    (Set(&["train.loss=l1"]), 2, ["small.toml", "`train.loss` is l1", "take cross-entropy or"]),
    (Set(&["train.metric=mae"]), 2, ["small.toml", "`train.metric` is mae", "take accuracy or"]),
    (Set(&["model.pool=sum"]), 2, ["small.toml", "`model.pool` is sum", "take none"]),
    (Set(&["model.node={linear=3}"]), 1, ["`community-small`", "3 column(s) of node features", "`model.node`"]),
    (Set(&["data.set=zinc"]), 2, ["small.toml", "`zinc`", "inside the folder that HDSE_DATA names"]),
    (Set(&["data.path=x"]), 2, ["small.toml", "`community-small`", "leave out its folder (x)"]),
    (Set(&["data.set=mine", "data.path=x"]), 2, ["small.toml", "`data.set`", "say what to predict with `data.task`"]),
    (Set(&["data.set=mine", OWN]), 2, ["small.toml", "`data.task`", "say where it is with `data.path`"]),
    (Set(&["data.set=mine", "data.path=x", OWN]), 2, ["small.toml", "no folder x", "it needs train, val and test"]),
    (Set(&["data.task={level='graf',target={classes=2}}"]), 2, ["small.toml", "`level = \"graf\"`", "did you mean `graph`?"]),
    (Set(&["data.path=x", "data.task={level='graph',target={classes=0}}"]), 2, ["small.toml", "[data]", "say how many"]),
    // The form of `--set`.
    (Set(&["dim"]), 2, ["", "`--set dim` has no value", "write it as model.dim=32"]),
    (Set(&["=3"]), 2, ["", "`--set =3` names no key", "write it as model.dim=32"]),
    (Set(&["model.dim.x=3"]), 2, ["", "`--set model.dim.x=3`", "leave out what follows"]),
    (Set(&["model.dim="]), 2, ["small.toml, changed by --set", "`dim = \"\"`", WHOLE]),
    // The form of the file.
    (Text("dim = 32", "dim = = 32"), 2, ["small.toml, line 8", "`dim = = 32`", "extra `=`"]),
    (Text("[model]", "[model"), 2, ["small.toml, line 5", "`[model`", "expected `]`"]),
    (Text("dim = 32", "dim = 32\ndim = 16"), 2, ["small.toml, line 9", "`dim = 16`", "keep one"]),
    (Bytes(b""), 2, ["small.toml", "missing field `data`", "add it"]),
    (Bytes(b"{\"model\": {}}"), 2, ["small.toml, line 1", "`{\"model\": {}}`", "expected key"]),
    (Bytes(b"# one\n# \xe9\n"), 2, ["small.toml, line 2", "not UTF-8", "save it as UTF-8"]),
    // The command.
    (Command(&["train", "HERE/no.toml"]), 1, ["no.toml", "there is no such file", "`configs/` has examples"]),
    (Command(&["train", "HERE"]), 2, ["HERE", "is a directory", "give a TOML file"]),
    (Command(&["train", "CONFIG", "-o", "NEW", "--epochs", "0"]), 2, ["", "--epochs", "not in 1.."]),
    (Command(&["train", "CONFIG", "-o", "RUN"]), 2, ["RUN", "holds a run already", "--resume RUN"]),
    (Command(&["train", "CONFIG", "-o", "CONFIG/run"]), 1, ["CONFIG/run", "cannot make", "another folder with -o"]),
    (Command(&["train", "--resume", "HERE"]), 1, ["HERE", "no config.toml", "name a folder that `hdse train` made"]),
    (Command(&["eval", "NEW"]), 1, ["NEW", "no config.toml", "name a folder"]),
    (Command(&["export", "RUN", "--seed", "7", "-o", "NEW"]), 2, ["RUN", "no model of seed 7", "--resume RUN"]),
    (Command(&["predict", "RUN", "comunity-small", "-o", "NEW"]), 2, ["", "no file `comunity-small`", "did you mean"]),
    (Command(&["predict", "RUN", "community-small", "-o", "NEW", "--seed", "7"]), 2, ["RUN", "no model of seed 7", "--resume RUN"]),
    (Command(&["predict", "RUN", "community-small", "-o", "NEW.xlsx"]), 2, ["NEW.xlsx", ".xlsx", "end it in .jsonl"]),
    (Command(&["predict", "RUN", "HERE/typed.jsonl", "-o", "NEW"]), 1, ["typed.jsonl", "graph 0", "`model.node`"]),
];

const GOOD: &str = r#"{"num_nodes": 3, "edge_index": [[0, 1, 1, 2], [1, 0, 2, 1]], "node_feat": [[0], [1], [1]], "y": 1}"#;

#[test]
fn experiments() {
    assert!(CONFIGS.len() >= 30);
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    let own = crate::support::checkout().join("configs/gt-community-small.toml");
    let text = std::fs::read_to_string(own).unwrap();
    let [config, finished, new] =
        ["small.toml", "finished", "new"].map(|name| format!("{here}/{name}"));
    std::fs::write(folder.path().join("typed.jsonl"), GOOD).unwrap();
    std::fs::write(&config, &text).unwrap();
    succeed(&["train", &config, "--epochs", "1", "-o", &finished]);
    let mut problems = Vec::new();
    for (wrong, code, words) in CONFIGS {
        let place = |word: &str| {
            let names = [("CONFIG", &config), ("RUN", &finished), ("NEW", &new)];
            let word =
                names.iter().fold(word.to_string(), |word, (name, path)| word.replace(name, path));
            word.replace("HERE", here)
        };
        let mut command = vec!["train", "CONFIG", "-o", "NEW"];
        let mut bytes = text.clone().into_bytes();
        match wrong {
            Text(from, to) => {
                assert!(text.contains(from), "{from}");
                bytes = text.replacen(from, to, 1).into_bytes();
            }
            Set(changes) => command.extend(changes.iter().flat_map(|change| ["--set", change])),
            Bytes(all) => bytes = all.to_vec(),
            Command(all) => command = all.to_vec(),
        }
        std::fs::write(&config, bytes).unwrap();
        let command: Vec<String> = command.iter().map(|word| place(word)).collect();
        let words = words.map(&place);
        problems.extend(problem(&command, *code, &words));
        let left =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let known = ["small.toml", "finished", "typed.jsonl"].map(Into::into);
        let mut left = left.filter(|name| !known.contains(name));
        problems.extend(left.next().map(|name| format!("{command:?} leaves {name:?} behind")));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// How a command's failure differs from what is expected of it.
fn problem(command: &[String], code: i32, words: &[String]) -> Option<String> {
    let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
    let output = hdse(&arguments).env_remove("HDSE_DATA").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    let missing: Vec<&String> = words.iter().filter(|word| !error.contains(*word)).collect();
    let as_expected = output.status.code() == Some(code) && missing.is_empty();
    let status = output.status;
    (!as_expected).then(|| format!("{command:?}, {status}: no {missing:?} in {error}"))
}

/// What is wrong with a set of one's own, two good graphs in each file, in its file val.jsonl.
enum Bad {
    /// A third graph, good but for these columns; `null` takes a column away.
    Row(&'static str),
    /// A third line.
    Line(&'static str),
    /// All of it, under this name.
    File(&'static str, &'static [u8]),
    /// Something else about these files.
    Folder(fn(&Path)),
}
use Bad::{File, Folder, Line, Row};

/// What is to be predicted; the other keys follow from it.
#[derive(Clone, Copy)]
enum Kind {
    Classes,
    Labels,
    Numbers,
}
use Kind::{Classes, Labels, Numbers};

const OBJECT: &str = "expected an object with `num_nodes` and `edge_index`";
const THREE: &str = "it needs train, val and test";

#[rustfmt::skip]
const DATA: &[(Kind, Bad, i32, [&str; 3])] = &[
    // Files.
    (Classes, Folder(|folder| remove(folder, "val.jsonl")), 2, ["mine", "no val file", THREE]),
    (Classes, Folder(|folder| std::fs::remove_dir_all(folder).unwrap()), 2, ["mine", "there is no folder", THREE]),
    (Classes, Folder(|folder| write(folder, "val.parquet", b"PAR1")), 2, ["val.parquet and val.jsonl", "both there", "keep one"]),
    (Classes, Folder(|folder| { remove(folder, "val.jsonl"); std::fs::create_dir(folder.join("val.jsonl")).unwrap() }), 2, ["mine", "no val file", THREE]),
    #[cfg(unix)]
    (Classes, Folder(|folder| { remove(folder, "val.jsonl"); std::os::unix::fs::symlink("nowhere", folder.join("val.jsonl")).unwrap() }), 2, ["mine", "no val file", THREE]),
    #[cfg(target_os = "linux")]
    (Classes, Folder(|folder| { remove(folder, "val.jsonl"); std::os::unix::fs::symlink("/proc/self/mem", folder.join("val.jsonl")).unwrap() }), 1, ["val.jsonl", "cannot read", "Input/output error"]),
    (Classes, File("val.jsonl", b""), 1, ["val.jsonl", "is empty", "should hold a graph"]),
    (Classes, File("val.jsonl", b"\n \n"), 1, ["val.jsonl", "is empty", "should hold a graph"]),
    (Classes, File("val.jsonl", b"\xe9\n"), 1, ["val.jsonl", "line 1 is not UTF-8", "save it as UTF-8"]),
    (Classes, File("val.jsonl.gz", b"\x1f\x8b\x08\x00\x00"), 1, ["val.jsonl.gz", "truncated gzip", "get the file again"]),
    #[cfg(feature = "parquet")]
    (Classes, File("val.parquet", GOOD.as_bytes()), 1, ["val.parquet", "not a readable Parquet file", "get the file again"]),
    #[cfg(feature = "parquet")]
    (Classes, Folder(|folder| parquet(folder, |bytes| bytes.truncate(bytes.len() / 2))), 1, ["val.parquet", "not a readable Parquet file", "get the file again"]),
    #[cfg(feature = "parquet")]
    (Classes, Folder(|folder| parquet(folder, |_| {})), 1, ["val.parquet", "no column `num_nodes`", "it has: graph, node, level_1"]),
    // Lines that are no graphs.
    (Classes, Line(r#"{"num_nodes": 3"#), 1, ["val.jsonl", "line 3", OBJECT]),
    (Classes, Line("hello"), 1, ["val.jsonl", "line 3", OBJECT]),
    (Classes, Line("[3, [[0], [1]]]"), 1, ["val.jsonl", "line 3", "`node_feat`"]),
    (Classes, Line(r#"{"num_nodes": 1, "edge_index": [[], []], "node_feat": [[NaN]], "y": 1}"#), 1, ["val.jsonl", "line 3", "JSON has no NaN"]),
    (Classes, Row(r#"{"edge_index": null}"#), 1, ["val.jsonl", "line 3: missing field `edge_index`", OBJECT]),
    (Classes, Row(r#"{"num_nodes": "3"}"#), 1, ["val.jsonl", "line 3", "expected i64"]),
    (Classes, Row(r#"{"num_nodes": 3.5}"#), 1, ["val.jsonl", "line 3", "expected i64"]),
    (Classes, Row(r#"{"y": "yes"}"#), 1, ["val.jsonl", "line 3", "expected a number, or a list of numbers"]),
    // Graphs that cannot be.
    (Classes, Row(r#"{"edge_index": [[0], [3]]}"#), 1, ["val.jsonl", "line 3: edge 0 (0, 3)", "ids run from 0 to 2"]),
    (Classes, Row(r#"{"edge_index": [[0], [-1]]}"#), 1, ["val.jsonl", "line 3: edge 0 (0, -1)", "ids run from 0 to 2"]),
    (Classes, Row(r#"{"edge_index": [[0], [1], [2]]}"#), 1, ["val.jsonl", "line 3: `edge_index` has 3", "it needs two"]),
    (Classes, Row(r#"{"edge_index": [[0, 1], [1]]}"#), 1, ["val.jsonl", "line 3: `edge_index`", "must be equally long"]),
    (Classes, Row(r#"{"num_nodes": 0, "edge_index": [[], []], "node_feat": []}"#), 1, ["val.jsonl", "line 3: `num_nodes` is 0", "at least one node"]),
    (Classes, Row(r#"{"num_nodes": -3}"#), 1, ["val.jsonl", "line 3: `num_nodes` is -3", "between 1 and"]),
    (Classes, Row(r#"{"num_nodes": 1000000000000}"#), 1, ["val.jsonl", "line 3: `num_nodes`", "between 1 and"]),
    (Classes, Row(r#"{"num_nodes": 2000000000}"#), 1, ["val.jsonl", "line 3", "check `num_nodes`"]),
    // Features.
    (Classes, Row(r#"{"node_feat": null}"#), 1, ["val.jsonl", "row 2 (from 0)", "all graphs need the same columns"]),
    (Classes, Row(r#"{"node_feat": [[0], [1, 1], [1]]}"#), 1, ["val.jsonl", "line 3: row 1 of `node_feat`", "equally long"]),
    (Classes, Row(r#"{"node_feat": [[0], [1]]}"#), 1, ["val.jsonl", "line 3: `node_feat` has 2 rows", "give each its row"]),
    (Classes, Row(r#"{"node_feat": [[0, 0], [1, 1], [1, 1]]}"#), 1, ["val.jsonl", "row 2 (from 0)", "all graphs need the same columns"]),
    (Classes, Row(r#"{"node_feat": [[0], [1], [2]]}"#), 1, ["mine, part `val`", "graph 2 (from 0)", "declare more in `model.node`"]),
    (Classes, Row(r#"{"node_feat": [[0], [1], [-1]]}"#), 1, ["mine, part `val`", "is -1 in row 2", "types 0 to 1"]),
    (Classes, Row(r#"{"node_feat": [[0], [1], [0.5]]}"#), 1, ["mine", "real numbers", "use whole numbers"]),
    (Numbers, Row(r#"{"node_feat": [[0], [1], [1e60]]}"#), 1, ["val.jsonl", "row 2 (from 0): node 2", "must be finite"]),
    (Classes, Row(r#"{"edge_attr": [[1]]}"#), 1, ["val.jsonl", "line 3: `edge_attr` has 1 rows", "give each its row"]),
    (Classes, Row(r#"{"edge_attr": [[1], [1], [1], [1]]}"#), 1, ["val.jsonl", "row 2 (from 0)", "all graphs need the same columns"]),
    // Targets.
    (Classes, Row(r#"{"y": null}"#), 1, ["val.jsonl", "row 2 (from 0): no targets", "needs one of 2 classes"]),
    (Classes, Row(r#"{"y": [0, 1]}"#), 1, ["val.jsonl", "row 2 (from 0): `y` has 2", "needs 1"]),
    (Classes, Row(r#"{"y": 2}"#), 1, ["val.jsonl", "row 2 (from 0): the graph has class 2", "from 0 to 1"]),
    (Classes, Row(r#"{"y": -1}"#), 1, ["val.jsonl", "row 2 (from 0): the graph has class -1", "from 0 to 1"]),
    (Classes, Row(r#"{"y": 0.5}"#), 1, ["val.jsonl", "row 2 (from 0): the graph has class 0.5", "classes are whole"]),
    (Numbers, Row(r#"{"y": [null]}"#), 1, ["val.jsonl", "row 2 (from 0): target 0", "must be finite"]),
    (Labels, Row(r#"{"y": [0, 2]}"#), 1, ["val.jsonl", "row 2 (from 0): label 1", "labels are 0 or 1"]),
    (Labels, Row(r#"{"y": [1]}"#), 1, ["val.jsonl", "row 2 (from 0): `y` has 1", "needs 2"]),
    (Labels, Row(r#"{"y": [null, null]}"#), 1, ["val.jsonl", "row 2 (from 0)", "leave the graph out"]),
    (Labels, Folder(|_| {}), 1, ["mine", "part `val`", "need both"]),
];

fn remove(folder: &Path, name: &str) {
    std::fs::remove_file(folder.join(name)).unwrap();
}

fn write(folder: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(folder.join(name), bytes).unwrap();
}

/// A table of something else in the place of val.jsonl, and a change to its bytes.
#[cfg(feature = "parquet")]
fn parquet(folder: &Path, change: fn(&mut Vec<u8>)) {
    remove(folder, "val.jsonl");
    let path = folder.join("val.parquet");
    let path = path.to_str().unwrap();
    succeed(&["coarsen", "community-small", "--coarsener", "louvain", "-o", path]);
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

impl Kind {
    /// An experiment on the set in `folder`, and a good graph of it.
    fn experiment(self, folder: &Path) -> (String, String) {
        let (target, node, outputs, loss, metric, y) = match self {
            Classes => ("classes = 2", "types = 2", 2, "cross-entropy", "accuracy", "1"),
            Labels => ("labels = 2", "types = 2", 2, "binary-cross-entropy", "mean-ap", "[0, 1]"),
            Numbers => ("regression = 1", "linear = 1", 1, "l1", "mae", "0.5"),
        };
        let config = format!(
            r#"
                data.set = "mine"
                data.path = '{}'
                data.task = {{ level = "graph", target = {{ {target} }} }}
                [model]
                backbone = "gt"
                layers = 1
                dim = 4
                heads = 1
                node = {{ {node} }}
                pool = "sum"
                head = {{ plain = 1 }}
                outputs = {outputs}
                [train]
                epochs = 1
                batch_size = 2
                loss = "{loss}"
                metric = "{metric}"
                optimizer = {{ name = "adamw" }}
                schedule = {{ name = "constant", rate = 1e-3 }}
            "#,
            folder.display()
        );
        (config, GOOD.replace("\"y\": 1", &format!("\"y\": {y}")))
    }
}

#[test]
fn data() {
    assert!(DATA.len() >= 20);
    let mut problems = Vec::new();
    for (number, (kind, bad, code, words)) in DATA.iter().enumerate() {
        let scratch = tempfile::tempdir().unwrap();
        let [mine, config, run] = ["mine", "own.toml", "run"].map(|name| scratch.path().join(name));
        let (text, good) = kind.experiment(&mine);
        std::fs::write(&config, text).unwrap();
        std::fs::create_dir(&mine).unwrap();
        for part in ["train", "val", "test"] {
            write(&mine, &format!("{part}.jsonl"), format!("{good}\n{good}\n").as_bytes());
        }
        match bad {
            Row(columns) => {
                let columns: serde_json::Value = serde_json::from_str(columns).unwrap();
                let mut row: serde_json::Value = serde_json::from_str(&good).unwrap();
                let row = row.as_object_mut().unwrap();
                row.extend(columns.as_object().unwrap().clone());
                row.retain(|_, value| !value.is_null());
                write(
                    &mine,
                    "val.jsonl",
                    format!("{good}\n{good}\n{}\n", serde_json::json!(row)).as_bytes(),
                );
            }
            Line(line) => write(&mine, "val.jsonl", format!("{good}\n{good}\n{line}\n").as_bytes()),
            File(name, bytes) => {
                remove(&mine, "val.jsonl");
                write(&mine, name, bytes);
            }
            Folder(change) => change(&mine),
        }
        let [config, run] = [config, run].map(|path| path.to_str().unwrap().to_string());
        // A limit that does not depend on the machine.
        let command = ["train", &config, "-o", &run, "--max-memory", "1G"].map(String::from);
        let found = problem(&command, *code, &words.map(String::from));
        problems.extend(found.map(|found| format!("case {number}: {found}")));
        if Path::new(&run).exists() {
            problems.push(format!("case {number} leaves a run behind"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// What is good is trained: the mistakes above are all that is wrong.
#[test]
fn sets_without_mistakes_are_trained() {
    for (kind, other) in [(Classes, "0"), (Labels, "[1, null]"), (Numbers, "-3")] {
        let scratch = tempfile::tempdir().unwrap();
        let [mine, config, run] = ["mine", "own.toml", "run"].map(|name| scratch.path().join(name));
        let (text, good) = kind.experiment(&mine);
        std::fs::write(&config, text).unwrap();
        std::fs::create_dir(&mine).unwrap();
        let place = good.find("\"y\"").unwrap();
        let other = format!("{}\"y\": {other}}}", &good[..place]);
        for part in ["train", "val", "test"] {
            // Both labels of a task, so that a ranking is possible.
            let third = good.replace("[0, 1]", "[0, 0]");
            write(
                &mine,
                &format!("{part}.jsonl"),
                format!("{good}\n{other}\n{third}\n").as_bytes(),
            );
        }
        let [config, run] = [config, run].map(|path| path.to_str().unwrap().to_string());
        succeed(&["train", &config, "-o", &run]);
        succeed(&["eval", &run]);
        let [input, out] = ["mine/test.jsonl", "out.csv"].map(|name| scratch.path().join(name));
        let [input, out] = [&input, &out].map(|path| path.to_str().unwrap());
        let predict = ["predict", &run, input, "-o", out, "--probabilities"];
        if let Numbers = kind {
            let error = fail(&predict, 2);
            assert!(error.contains("predicts numbers; leave it out"), "{error}");
        } else {
            succeed(&predict);
            let text = std::fs::read_to_string(out).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!((lines[0], lines.len()), ("graph,output_0,output_1", 4));
            let numbers = lines[1..].iter().flat_map(|line| line.split(',').skip(1));
            assert!(numbers.map(|n| n.parse().unwrap()).all(|n: f32| 0.0 < n && n < 1.0), "{text}");
        }
        // Data that changed since is told.
        write(&mine, "val.jsonl", format!("{good}\n{other}\n{good}\n{good}\n").as_bytes());
        let error = fail(&["eval", &run], 1);
        assert!(error.contains("the data has changed since"), "{error}");
        let error = fail(&["train", "--resume", &run], 1);
        assert!(error.contains("restore it, or begin a new run"), "{error}");
    }
}

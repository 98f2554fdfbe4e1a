//! Sets in files: one per split, in a folder of the set.
//!
//! `train`, `val` and `test`, each ending in `.parquet`, `.jsonl` or `.jsonl.gz`, with the columns of every
//! graph set (`num_nodes`, `edge_index`, `node_feat`, `edge_attr`, `pos`, `y`); a split may be cut into
//! several files. Who makes a copy that is not the official one says so in the first line of `label.txt`
//! beside them, for instance `regenerated`. Files that were fetched or imported must still have the bytes
//! they had then.
//!
//! ```no_run
//! use hdse::data::sets::{Level, Place, Target, Task, load_own};
//! use hdse::MemoryLimit;
//! let task = Task { level: Level::Graph, target: Target::Classes(2) };
//! let splits = load_own(&Place::Folder("mutag".into()), task, MemoryLimit::default())?;
//! # Ok::<(), hdse::Error>(())
//! ```

use std::path::{Path, PathBuf};

use super::check::{Problems, Rows};
use super::manifest::Manifest;
use super::names::{self, Files, file_name};
use super::{Dataset, Entry, LoadOptions, Parts, Splits, Statistics, Task, check, statistics};
use crate::data::{Matrix, ReadOptions, Sample, Values};
use crate::error::Context as _;
use crate::{Error, MemoryLimit, Result};

/// A listed set that is read from files.
pub struct FromFiles {
    /// What is known of it.
    pub entry: Entry,
    /// What samples are instead of the official ones, as far as a sign tells.
    pub origin: fn(&Parts) -> Option<&'static str>,
}

impl Dataset for FromFiles {
    fn entry(&self) -> &Entry {
        &self.entry
    }

    fn load(&self, options: &LoadOptions) -> Result<Splits> {
        let load = || {
            if options.graphs.is_some() {
                return Err(Error::config(
                    "it is read from files, which say how many graphs it has",
                ));
            }
            let folder = find(&self.entry, options)?;
            let files = files_in(&folder).map_err(|e| explain(e, &self.entry))?;
            let mut read = Read::new(&files, file_name, options.limit)?;
            Manifest::of_folder(&folder)?.check(self.entry.name, &read.hashes)?;
            let check = |sample: &mut Sample| check::listed(sample, &self.entry);
            read.check(check)?;
            let Read { parts, hash, .. } = read;
            let declared = declared_label(&folder)?;
            let origin = declared.as_deref().or((self.origin)(&parts));
            let found = Statistics::of(&parts);
            let label = statistics::label(&self.entry, &found, origin);
            Ok(splits(parts, self.entry.task, hash, label))
        };
        load().context(|| format!("set `{}`", self.entry.name))
    }
}

/// Where a set of one's own lies.
#[derive(Clone, Debug)]
pub enum Place {
    /// A folder with `train`, `val` and `test`.
    Folder(PathBuf),
    /// Files for training, validation and test, of any format that holds graph sets.
    Files([PathBuf; 3]),
}

/// Loads a set that is not in the list. Targets must be those of `task`, features finite, and all graphs
/// must have the same columns; nothing else is asked of them. There is no label: no official set is known.
pub fn load_own(place: &Place, task: Task, limit: MemoryLimit) -> Result<Splits> {
    if task.target.width() == 0 || task.target == super::Target::Classes(0) {
        return Err(Error::config("the task of a data set has 0 targets or classes; say how many"));
    }
    let files = match place {
        Place::Folder(folder) => files_in(folder).map_err(|e| {
            Error::config(format!(
                "{e}; it needs train, val and test, each as {}",
                names::ENDINGS.join(", ")
            ))
        })?,
        Place::Files(files) => files.each_ref().map(|file| vec![file.clone()]),
    };
    let mut read = Read::new(&files, |file| file.display().to_string(), limit)?;
    unify(&mut read.parts);
    let widths = read.parts[0].first().map(widths).unwrap_or_default();
    read.check(|sample| {
        same_widths(sample, widths)?;
        check::any(sample, task)
    })?;
    Ok(splits(read.parts, task, read.hash, None))
}

/// Checked samples as splits.
pub(super) fn splits(parts: Parts, task: Task, hash: String, label: Option<String>) -> Splits {
    let [train, val, test] = parts;
    Splits { train, val, test, task, label, hash }
}

/// What `label.txt` beside the files says of them, in its first line: who makes a copy knows best.
fn declared_label(folder: &Path) -> Result<Option<String>> {
    let path = folder.join(super::LABEL);
    if !path.is_file() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&path).map_err(|e| Error::io("cannot read", &path, e))?;
    let line = text.lines().next().unwrap_or_default().trim();
    Ok((!line.is_empty()).then(|| line.chars().take(200).collect()))
}

/// The folder of a listed set.
fn find(entry: &Entry, options: &LoadOptions) -> Result<PathBuf> {
    if let Some(path) = &options.path {
        return Ok(path.clone());
    }
    let Some(home) = &options.home else {
        return Err(explain(Error::config("no folder is named"), entry));
    };
    let candidates = || entry.folders.iter().map(|folder| home.join(folder));
    candidates().find(|folder| folder.is_dir()).ok_or_else(|| {
        let looked: Vec<String> = candidates().map(|path| path.display().to_string()).collect();
        explain(Error::config(format!("there is no folder {}", looked.join(" or "))), entry)
    })
}

/// Adds what files are expected, where, and how to get them.
fn explain(error: Error, entry: &Entry) -> Error {
    let folder = entry.folders.first().copied().unwrap_or(entry.name);
    Error::config(format!(
        "{error}; it needs train, val and test, each as .parquet, .jsonl or .jsonl.gz, in the folder \
         given with `--path` (`data.path` in a configuration) or in {folder}/ inside the folder that \
         HDSE_DATA names; `hdse data fetch {0}` or `hdse data import {0}` puts them there, and \
         `hdse data info {0}` says more",
        entry.name
    ))
}

/// The files of the three splits.
pub(super) fn files_in(folder: &Path) -> Result<Files> {
    if !folder.is_dir() {
        return Err(Error::config(format!("there is no folder {}", folder.display())));
    }
    names::group(names::in_folder(folder)?, &folder.display().to_string())
}

/// What was read from files.
struct Read {
    parts: Parts,
    /// Which rows came from which file.
    rows: [Rows; 3],
    /// blake3 of every file.
    hashes: Vec<(String, String)>,
    /// blake3 of all.
    hash: String,
    problems: Problems,
}

impl Read {
    /// Reads all files. Those that can't be are problems to be told with the others; `name` is what a
    /// file is called in these.
    fn new(files: &Files, name: fn(&Path) -> String, limit: MemoryLimit) -> Result<Read> {
        let mut hasher = blake3::Hasher::new();
        let options = ReadOptions { limit, ..ReadOptions::default() };
        let mut read = Read {
            parts: Default::default(),
            rows: Default::default(),
            hashes: Vec::new(),
            hash: String::new(),
            problems: Problems::default(),
        };
        for (split, files) in files.iter().enumerate() {
            for file in files {
                let set = match crate::data::read(&file.to_string_lossy(), &options) {
                    Err(error) if error.is_data() => {
                        read.problems.push(error);
                        continue;
                    }
                    result => result?,
                };
                hasher.update(set.hash.as_bytes());
                read.hashes.push((file_name(file), set.hash));
                read.rows[split].push((name(file), set.samples.len()));
                read.parts[split].extend(set.samples);
            }
        }
        read.hash = hasher.finalize().to_hex().to_string();
        Ok(read)
    }

    /// Checks every sample.
    fn check(&mut self, check: impl Fn(&mut Sample) -> Result<()> + Sync) -> Result<()> {
        check::every(&mut self.parts, &self.rows, &mut self.problems, check);
        std::mem::take(&mut self.problems).into_result()
    }
}

/// Whether every graph of a set has a column as real numbers is told from all of them: JSON writes 1.0 as 1.
fn unify(parts: &mut Parts) {
    let columns: [fn(&mut Sample) -> &mut Option<Matrix>; 3] =
        [|sample| &mut sample.node_feat, |sample| &mut sample.edge_attr, |sample| &mut sample.pos];
    for column in columns {
        let is_real = |sample: &mut Sample| {
            matches!(column(sample), Some(Matrix { values: Values::Float(_), .. }))
        };
        if parts.iter_mut().flatten().any(is_real) {
            for matrix in parts.iter_mut().flatten().filter_map(|sample| column(sample).as_mut()) {
                matrix.values = Values::Float(matrix.values.to_floats());
            }
        }
    }
}

/// Numbers per row of `node_feat`, `edge_attr` and `pos`, where there are such columns.
type Widths = [Option<usize>; 3];

fn widths(sample: &Sample) -> Widths {
    [&sample.node_feat, &sample.edge_attr, &sample.pos]
        .map(|column| column.as_ref().map(|matrix| matrix.width))
}

fn same_widths(sample: &Sample, expected: Widths) -> Result<()> {
    let arcs = sample.edges.sources.len();
    let columns = ["node_feat", "edge_attr", "pos"].into_iter().zip(widths(sample));
    for ((column, here), there) in columns.zip(expected) {
        // Without arcs there is no row to tell the width from.
        let unknown = column == "edge_attr" && arcs == 0;
        if here != there && !unknown {
            let say = |width: Option<usize>| width.map_or("no".to_string(), |w| w.to_string());
            return Err(Error::data(format!(
                "{} numbers per row of `{column}`, but the first training graph has {}; all graphs \
                 need the same columns",
                say(here),
                say(there)
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Level, SPLITS, Target, molecules};
    use super::*;

    const TASK: Task = Task { level: Level::Graph, target: Target::Classes(2) };

    fn line(columns: &str) -> String {
        format!("{{\"num_nodes\": 2, \"edge_index\": [[0, 1], [1, 0]], {columns}}}\n")
    }

    fn folder_of(files: &[(&str, String)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    fn own(folder: &tempfile::TempDir) -> Result<Splits> {
        load_own(&Place::Folder(folder.path().into()), TASK, MemoryLimit::default())
    }

    #[test]
    fn sets_of_ones_own_are_read_from_folders_and_files() {
        let good = line(r#""node_feat": [[1, 2], [3, 4]], "y": 1"#);
        let real = line(r#""node_feat": [[1, 2.5], [3, 4]], "y": 0"#);
        let folder = folder_of(&[
            ("train.jsonl", good.repeat(3)),
            ("val.jsonl", real),
            ("test.jsonl", good),
        ]);
        let splits = own(&folder).unwrap();
        assert_eq!(splits.statistics().graphs, [3, 1, 1]);
        assert_eq!((splits.label.clone(), splits.task), (None, TASK));
        // One real number anywhere makes the column real everywhere.
        let Matrix { width: 2, values: Values::Float(_) } =
            splits.train[0].node_feat.as_ref().unwrap()
        else {
            panic!("not real")
        };
        let files = SPLITS.map(|split| folder.path().join(format!("{split}.jsonl")));
        let same = load_own(&Place::Files(files), TASK, MemoryLimit::default()).unwrap();
        assert_eq!(same.hash, splits.hash);
    }

    #[test]
    fn wrong_sets_of_ones_own_are_explained() {
        let good = || line(r#""node_feat": [[1, 2], [3, 4]], "y": 1"#);
        let with = |bad: &str| {
            let files = [
                ("train.jsonl", good() + &good()),
                ("val.jsonl", good() + &line(bad)),
                ("test.jsonl", good()),
            ];
            format!("{:#}", own(&folder_of(&files)).unwrap_err())
        };
        for (bad, expected) in [
            (
                r#""node_feat": [[1], [3]], "y": 1"#,
                "val.jsonl: row 1 (from 0): 1 numbers per row of `node_feat`",
            ),
            (r#""y": 1"#, "no numbers per row of `node_feat`, but the first training graph has 2"),
            (r#""node_feat": [[1, 2], [3, 4]], "y": 2"#, "the graph has class 2"),
            (r#""node_feat": [[1, 2], [3, 4]], "y": []"#, "`y` has 0 number(s)"),
            (r#""node_feat": [[1, 2], [3, 1e60]], "y": 1"#, "node 1 has feature inf in column 1"),
        ] {
            let error = with(bad);
            assert!(error.contains(expected), "{bad}: {error}");
        }
        let two = [("train.jsonl", good()), ("train.parquet", good()), ("val.jsonl", good())];
        let error = own(&folder_of(&two)).unwrap_err().to_string();
        assert!(error.contains("and train.jsonl are both there"), "{error}");
        let error = own(&folder_of(&two[..1])).unwrap_err().to_string();
        assert!(error.contains("no val file in"), "{error}");
        let none = Task { target: Target::Classes(0), ..TASK };
        assert!(load_own(&Place::Folder("x".into()), none, MemoryLimit::NONE).is_err());
    }

    #[test]
    fn labels_are_declared_beside_the_files() {
        let graph = line(r#""node_feat": [0, 1], "edge_attr": [1, 1], "y": 0.5"#);
        let mut files: Vec<(&str, String)> =
            ["train.jsonl", "val.jsonl", "test.jsonl"].map(|name| (name, graph.clone())).into();
        let label = |files: &[(&str, String)]| {
            let folder = folder_of(files);
            let path = Some(folder.path().to_path_buf());
            let options = LoadOptions { path, ..LoadOptions::default() };
            molecules::ZINC.load(&options).unwrap().label.unwrap()
        };
        assert!(label(&files).starts_with("subset (1 / 1 / 1 of"));
        files.push(("label.txt", " made for a test \nmore".to_string()));
        assert!(label(&files).starts_with("made for a test, subset (1 / 1 / 1 of"));
    }

    #[test]
    fn missing_folders_are_explained() {
        let load = |options: LoadOptions| molecules::ZINC.load(&options).unwrap_err().context("");
        let home = tempfile::tempdir().unwrap();
        for (options, expected) in [
            (LoadOptions::default(), "no folder is named; it needs train, val and test"),
            (
                LoadOptions { path: Some("nowhere".into()), ..LoadOptions::default() },
                "there is no folder nowhere; it needs",
            ),
            (
                LoadOptions { home: Some(home.path().into()), ..LoadOptions::default() },
                "zinc; it needs train",
            ),
            (
                LoadOptions { graphs: Some([1; 3]), ..LoadOptions::default() },
                "it is read from files",
            ),
        ] {
            let error = load(options);
            assert!(error.is_config());
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
        std::fs::create_dir(home.path().join("zinc")).unwrap();
        let error = load(LoadOptions { home: Some(home.path().into()), ..LoadOptions::default() });
        assert!(format!("{error:#}").contains("no train file in"), "{error:#}");
    }
}

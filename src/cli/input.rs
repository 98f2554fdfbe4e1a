//! What several verbs share: the input, names of coarseners and formats, files beside the output.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};

use super::estimate::{duration, rough_seconds};
use super::output::{Output, count};
use crate::coarsen;
use crate::data::{AtomicFile, FORMATS, Format, GraphSet, ReadOptions, Shard, format_of_file};
use crate::data::{nodes, sets};
use crate::{Error, MemoryLimit, Result};

/// Where graphs come from.
#[derive(clap::Args)]
pub(super) struct InputOptions {
    /// A file, `-` for standard input, the name of a generated set (`hdse data list`), or `named:NAME`
    /// (`hdse list graphs`)
    #[arg(value_name = "INPUT")]
    input: String,
    /// Format of the input; told from its name and first bytes by default
    #[arg(long, value_parser = FormatParser::Input)]
    input_format: Option<&'static Format>,
}

impl InputOptions {
    /// What a user would have called `input`.
    pub(super) fn of(input: &str, input_format: Option<&'static Format>) -> InputOptions {
        InputOptions { input: input.to_string(), input_format }
    }

    /// What the user called it.
    pub(super) fn name(&self) -> &str {
        &self.input
    }

    /// Reads the graphs, or a part of them, and says what was repaired.
    pub(super) fn read(
        &self,
        shard: Option<Shard>,
        limit: MemoryLimit,
        output: &Output,
    ) -> Result<GraphSet> {
        let options = ReadOptions { format: self.input_format, features: false, shard, limit };
        let set = crate::data::read(&self.input, &options)?;
        output.repairs(set.repairs());
        output.detail(|| {
            let graphs = count(set.samples.len() as u64, "graph");
            format!("read {graphs} in {:.2} s", output.seconds())
        });
        Ok(set)
    }

    /// Reads everything, features and targets too.
    pub(super) fn read_whole(&self, limit: MemoryLimit) -> Result<GraphSet> {
        let options = ReadOptions { format: self.input_format, limit, ..ReadOptions::default() };
        crate::data::read(&self.input, &options)
    }

    /// Opens an output file, unless it is the input.
    pub(super) fn create(&self, output: &Path, force: bool) -> Result<AtomicFile> {
        refuse_same(Path::new(&self.input), output)?;
        AtomicFile::create(output, force)
    }
}

/// An output must not replace what is read.
pub(super) fn refuse_same(input: &Path, output: &Path) -> Result<()> {
    match (input.canonicalize(), output.canonicalize()) {
        (Ok(a), Ok(b)) if a == b => {
            Err(Error::config(format!("{} is the input; choose another output", output.display())))
        }
        _ => Ok(()),
    }
}

/// The format for encoded sets that a file name asks for; safetensors where it does not say.
pub(super) fn set_format(path: &Path) -> Result<&'static Format> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ends = "end it in .safetensors, .npz or .parquet, or say `--format`";
    if name.ends_with(".gz") {
        return Err(Error::config(format!("`{name}`: output is not gzipped; {ends}")));
    }
    match format_of_file(&name) {
        Some(format) if format.writes_sets => Ok(format),
        Some(format) => Err(Error::config(format!(
            "`{name}` looks like {}, which can't hold encoded graphs; {ends}",
            format.name
        ))),
        None => crate::data::format_by_name("safetensors"),
    }
}

/// Any text, with the names of a list for help and completions.
#[derive(Clone)]
pub(super) enum NameParser {
    Coarseners,
    #[cfg(feature = "train")]
    Experiments,
    Sets,
}

impl TypedValueParser for NameParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |name, summary| PossibleValue::new(name).help(summary);
        Some(match self {
            NameParser::Coarseners => {
                Box::new(coarsen::ALL.iter().map(move |entry| value(entry.name, entry.summary)))
            }
            #[cfg(feature = "train")]
            NameParser::Experiments => {
                let all = crate::experiments::all().iter();
                let all = all.map(|experiment| (&*experiment.name, &*experiment.summary));
                let others = super::reproduce::MEASURED.map(|[name, summary, ..]| (name, summary));
                let list = [("list", "show all experiments")];
                let all = list.into_iter().chain(all).chain(others);
                Box::new(all.map(move |(name, help)| value(name, help)))
            }
            NameParser::Sets => {
                let graphs = sets::ALL.iter().map(|set| (set.entry().name, set.entry().summary));
                let nodes = nodes::ALL.iter().map(|entry| (entry.name, entry.summary));
                Box::new(graphs.chain(nodes).map(move |(name, summary)| value(name, summary)))
            }
        })
    }
}

/// The name of a format that can do what is needed.
#[derive(Clone, Copy)]
pub(super) enum FormatParser {
    /// Be read.
    Input,
    /// Hold a single graph.
    Graphs,
    /// Hold an encoded set.
    Sets,
}

impl FormatParser {
    fn formats(self) -> impl Iterator<Item = &'static Format> {
        FORMATS.iter().filter(move |format| match self {
            FormatParser::Input => format.reads(),
            FormatParser::Graphs => format.write_graph.is_some(),
            FormatParser::Sets => format.writes_sets,
        })
    }
}

impl TypedValueParser for FormatParser {
    type Value = &'static Format;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<&'static Format, clap::Error> {
        let parser = clap::builder::PossibleValuesParser::new(self.formats().map(|f| f.name));
        let name = parser.parse_ref(command, argument, value)?;
        let found = self.formats().find(|f| f.name == name);
        Ok(found.expect("only listed names are accepted"))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.formats().map(|f| PossibleValue::new(f.name).help(f.summary))))
    }
}

/// Says so when the largest graph alone will take very long.
pub(super) fn warn_if_slow(coarsener: &str, set: &GraphSet, output: &Output) {
    let seconds = set.samples.iter().map(|sample| rough_seconds(coarsener, &sample.graph));
    let longest = seconds.fold(0.0, f64::max);
    if longest > 300.0 {
        let name = coarsener.split(':').next().unwrap_or(coarsener);
        output.note(&format!(
            "{name} takes about {} for a graph of this size; leiden and louvain are fast",
            duration(longest)
        ));
    }
}

/// The file beside the output that lists the original ids of relabelled nodes: line i is node i.
pub(super) struct IdsFile {
    path: Option<PathBuf>,
    file: Option<AtomicFile>,
}

impl IdsFile {
    /// Opened before long work, if nodes were relabelled and there is an output.
    ///
    /// # Errors
    /// If such a file is there already and may not be replaced: it is somebody's, and beside this
    /// output it would be taken for its ids.
    pub(super) fn open(set: &GraphSet, output: Option<&Path>, force: bool) -> Result<IdsFile> {
        let path = output.map(ids_path);
        let file = match (&set.ids, &path) {
            (Some(_), Some(path)) => Some(AtomicFile::create(path, force)?),
            (None, Some(path)) if !force && path.exists() => {
                return Err(Error::config(format!(
                    "{} exists and would be taken for the ids of this output; move it away, or \
                     remove it with `--force`",
                    path.display()
                )));
            }
            _ => None,
        };
        Ok(IdsFile { path, file })
    }

    /// Written after the output is; one of an output that was replaced goes away.
    pub(super) fn write(self, set: &GraphSet, output: &Output) -> Result<()> {
        let Some(path) = self.path else { return Ok(()) };
        let (Some(mut file), Some(ids)) = (self.file, &set.ids) else {
            // With `--force` only (see `open`): it belonged to the output just replaced.
            let _ = std::fs::remove_file(&path);
            return Ok(());
        };
        // One line per node, whatever an id holds.
        let line = |id: &String| id.replace(char::is_control, " ") + "\n";
        let text: String = ids.iter().map(line).collect();
        file.write_all(text.as_bytes()).map_err(|e| Error::io("cannot write", &path, e))?;
        file.commit()?;
        output.note(&format!("nodes were relabelled; {} lists their ids in order", path.display()));
        Ok(())
    }
}

/// `out.npz` → `out.npz.ids.txt`.
pub(super) fn ids_path(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".ids.txt");
    PathBuf::from(name)
}

//! `hdse data fetch` and `hdse data import`: files of sets, put where they are found.

use std::path::PathBuf;

use super::data::{Name, report};
use super::output::Output;
use super::progress::Progress;
use crate::data::sets::{self, Dataset, Installed, Listener};
use crate::monitor::Monitor;
use crate::{Error, MemoryLimit, Result};

#[derive(clap::Args)]
pub(super) struct Fetch {
    #[command(flatten)]
    name: Name,
    /// Fetch again what is there already, and replace it
    #[arg(long)]
    force: bool,
    /// Leave the network alone; if the set is not there, say what would be fetched. As HDSE_OFFLINE=1
    #[arg(long)]
    offline: bool,
}

#[derive(clap::Args)]
pub(super) struct Import {
    #[command(flatten)]
    name: Name,
    /// A folder with train, val and test files (.parquet, .jsonl, .jsonl.gz), or these files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Link the files instead of copying them
    #[arg(long)]
    link: bool,
    /// Replace files of the set that are there already
    #[arg(long)]
    force: bool,
}

/// Shows what happens to files.
struct Reporter<'a> {
    progress: Progress,
    output: &'a Output,
}

impl Reporter<'_> {
    fn new(output: &Output) -> Reporter<'_> {
        Reporter { progress: Progress::new(0, "looking", output), output }
    }
}

impl Monitor for Reporter<'_> {
    fn advance(&self, done: u64) {
        self.progress.advance(done);
    }

    fn stopped(&self) -> bool {
        self.progress.stopped()
    }
}

impl Listener for Reporter<'_> {
    fn file(&self, name: &str, done: u64, total: Option<u64>) {
        self.progress.begin_file(name, done, total);
        self.output.detail(|| match done {
            0 => format!("{name}: from the beginning"),
            done => format!("{name}: from byte {done} on"),
        });
    }

    fn note(&self, text: &str) {
        self.progress.aside(|| self.output.note(text));
    }
}

/// The folder of all sets.
fn home() -> Result<PathBuf> {
    sets::user_home()
        .ok_or_else(|| Error::config("no place for data sets: set HDSE_DATA to a folder"))
}

#[cfg(feature = "fetch")]
pub(super) fn fetch(options: &Fetch, limit: MemoryLimit, output: &Output) -> Result<()> {
    let set = sets::by_name(&options.name.name)?;
    let of_user = sets::Fetch::of_user(home()?)?;
    let options = sets::Fetch {
        force: options.force,
        offline: options.offline || of_user.offline,
        limit,
        ..of_user
    };
    let reporter = Reporter::new(output);
    let installed = sets::fetch(set, &options, &reporter)?;
    drop(reporter);
    finish(set, &installed, output)
}

#[cfg(not(feature = "fetch"))]
pub(super) fn fetch(options: &Fetch, _: MemoryLimit, _: &Output) -> Result<()> {
    let Fetch { name, force: _, offline: _ } = options;
    let entry = sets::by_name(&name.name)?.entry();
    Err(Error::config(format!(
        "this program was built without the network; build it with `--features fetch`, or get the files from {} \
         and put them in place with `hdse data import {} FILES`",
        entry.source, entry.name
    )))
}

pub(super) fn import(options: &Import, limit: MemoryLimit, output: &Output) -> Result<()> {
    let set = sets::by_name(&options.name.name)?;
    let Import { ref paths, link, force, .. } = *options;
    let options = sets::Import { paths: paths.clone(), home: home()?, link, force, limit };
    let reporter = Reporter::new(output);
    let installed = sets::import(set, &options, &reporter)?;
    drop(reporter);
    finish(set, &installed, output)
}

fn finish(set: &dyn Dataset, installed: &Installed, output: &Output) -> Result<()> {
    let Installed { folder, found, files, splits } = installed;
    if *found {
        output.note("it is there already; `--force` replaces it");
    }
    report(set.entry(), splits, Some((folder, files)), output)
}

//! `hdse merge`.

use std::path::PathBuf;

use serde_json::json;

use super::input::{ids_path, refuse_same, set_format};
use super::output::{Output, count, object};
use super::progress::Progress;
use crate::Result;
use crate::data::{AtomicFile, encoded};

#[derive(clap::Args)]
pub(super) struct Options {
    /// The files of all shards, in any order
    #[arg(required = true, value_name = "SHARD")]
    shards: Vec<PathBuf>,
    /// The file to write
    #[arg(long, short, value_name = "OUT")]
    output: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

pub(super) fn run(options: &Options, output: &Output) -> Result<()> {
    let progress = Progress::new(0, "merging", output);
    for shard in &options.shards {
        refuse_same(shard, &options.output)?;
    }
    let format = set_format(&options.output)?.name;
    let file = AtomicFile::create(&options.output, options.force)?;
    let graphs = encoded::merge(&options.shards, format, file, &progress)?;
    // A set of one relabelled graph has its ids beside the shard that holds it.
    for shard in &options.shards {
        let _ = std::fs::copy(ids_path(shard), ids_path(&options.output));
    }
    drop(progress);
    let path = options.output.display().to_string();
    output.result(
        || {
            let fields = [("output", json!(path)), ("graphs", json!(graphs))];
            object(fields.into_iter().chain(output.resources()))
        },
        || {
            let shards = count(options.shards.len() as u64, "shard");
            format!("wrote {path}: {} from {shards}\n", count(graphs as u64, "graph"))
        },
    )
}

//! `hdse merge`.

use std::path::PathBuf;

use serde_json::json;

use super::output::{Output, count, object};
use super::progress::Progress;
use crate::Result;
use crate::data::encoded;

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
    let graphs = encoded::merge(&options.shards, &options.output, options.force, &progress)?;
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

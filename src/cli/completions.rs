//! `hdse completions`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Cli;
use super::output::Output;
use crate::Result;

#[derive(clap::Args)]
pub(super) struct Options {
    /// The shell to complete in
    shell: Shell,
}

pub(super) fn run(options: &Options, output: &Output) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "hdse", &mut script);
    output.print(&String::from_utf8_lossy(&script))
}

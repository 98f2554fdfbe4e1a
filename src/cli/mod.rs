//! The `hdse` command: one file per verb.
//!
//! Results go to standard output (as JSON with `--json`), notes and progress to standard error. Exit
//! codes: 0 good, 1 the work failed, 2 wrong usage, 130 interrupted; a closed pipe is 0.

#[cfg(feature = "train")]
mod allocator;
#[cfg(feature = "train")]
mod bench;
mod coarsen;
mod completions;
#[cfg(feature = "train")]
mod config;
#[cfg(feature = "train")]
mod core_neighbourhood;
mod data;
mod doctor;
#[cfg(feature = "train")]
mod efficiency;
mod encode;
mod estimate;
#[cfg(feature = "train")]
mod eval;
#[cfg(feature = "train")]
mod examples;
#[cfg(feature = "train")]
mod export;
mod fetch;
mod graph;
mod input;
mod list;
mod merge;
mod output;
#[cfg(feature = "train")]
mod predict;
mod progress;
#[cfg(feature = "train")]
mod properties;
#[cfg(feature = "train")]
mod report;
#[cfg(feature = "train")]
mod reproduce;
#[cfg(feature = "train")]
mod runtime;
mod store;
#[cfg(feature = "train")]
mod train;
mod usage;
mod wl;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::error::is_catching;
use crate::{Error, MemoryLimit, Result};
use output::Output;

/// Graph hierarchies and hierarchical distances for graph transformers.
#[derive(Parser)]
#[command(name = "hdse", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    common: Common,
}

/// Options of every verb.
#[derive(Args)]
#[command(next_help_heading = "Options of every command")]
struct Common {
    /// Print the result as JSON
    #[arg(long, global = true)]
    json: bool,
    /// Print nothing but errors and the result asked for with --json
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Say more about what is done
    #[arg(long, short, global = true, action = ArgAction::SetTrue)]
    verbose: bool,
    /// Threads to use; all cores by default. The result does not depend on it
    #[arg(long, short, global = true, value_name = "T")]
    threads: Option<usize>,
    /// The most memory to take, such as 8G; 80 % of what is free by default
    #[arg(long, global = true, value_name = "SIZE", value_parser = MemoryLimit::parse)]
    max_memory: Option<MemoryLimit>,
}

#[derive(Subcommand)]
enum Verb {
    /// Compute hierarchies and distances of all graphs of a set, or of one large graph
    Encode(encode::Options),
    /// Partition a graph: one cluster id per line
    Coarsen(coarsen::Options),
    /// Import, inspect, check and convert single graphs
    Graph(graph::Options),
    /// Data sets to train on: what there is, getting them, and whether files hold what they should
    Data(data::Options),
    /// Join the files of `hdse encode --shard` into what one run would have written
    Merge(merge::Options),
    /// Train a model and report on it
    #[cfg(feature = "train")]
    Train(train::Options),
    /// Evaluate a trained model on a part of its set
    #[cfg(feature = "train")]
    Eval(eval::Options),
    /// Predict targets of new graphs, or of all nodes of one graph, with a trained model
    #[cfg(feature = "train")]
    Predict(predict::Options),
    /// Write a trained model as safetensors, with its configuration and a card
    #[cfg(feature = "train")]
    Export(export::Options),
    /// Experiments: what their keys mean, what is filled in, how two of them differ
    #[cfg(feature = "train")]
    Config(config::Options),
    /// Run an experiment of the paper and print its numbers beside ours
    #[cfg(feature = "train")]
    Reproduce(reproduce::Options),
    /// Say what runs came to: tables, tests, learning curves
    #[cfg(feature = "train")]
    Report(report::Options),
    /// Measure what training steps take
    #[cfg(feature = "train")]
    Bench(bench::Options),
    /// Which graphs distances tell apart: the Weisfeiler-Leman test with hops, resistances, hierarchies
    Wl(wl::Options),
    /// Results that were computed before: what there is, whether it is intact, cleaning up
    Store(store::Options),
    /// Say what this program and machine are like, for bug reports
    Doctor,
    /// List coarseners, file formats, data sets, named graphs
    List(list::Options),
    /// Print shell completions, for instance `hdse completions bash`
    Completions(completions::Options),
}

/// Runs the command line and gives the exit code.
pub fn main(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
    exit_code(arguments).into()
}

/// The same as a number, for programs with a `main` of another language.
pub fn exit_code(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    let parsed = Cli::command().try_get_matches_from(arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return error.exit_code() as u8;
        }
    };
    let print_panic = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !is_catching() {
            print_panic(info);
        }
    }));
    let output = Output::new(&cli.common);
    match run(cli, &output) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("error: {error:#}");
            match error {
                e if e.is_interrupted() => 130,
                e if e.is_config() => 2,
                _ => 1,
            }
        }
    }
}

fn run(cli: Cli, output: &Output) -> Result<()> {
    if let Some(threads) = cli.common.threads
        && !(1..=1024).contains(&threads)
    {
        return Err(Error::config(format!("`--threads {threads}`: take between 1 and 1024")));
    }
    progress::listen_for_interrupts();
    let threads = || rayon::ThreadPoolBuilder::new().num_threads(cli.common.threads.unwrap_or(0));
    // The first thread works, too: glibc gives others large arrays straight from the system, and back to it. It can't where it
    // is of another pool already, called from another language.
    let pool = threads()
        .use_current_thread()
        .build()
        .or_else(|_| threads().build())
        .map_err(|e| Error::config(format!("cannot start threads: {e}")))?;
    let limit = cli.common.max_memory.unwrap_or_default();
    pool.install(|| match cli.verb {
        Verb::Encode(options) => encode::run(&options, limit, output),
        Verb::Coarsen(options) => coarsen::run(&options, limit, output),
        Verb::Graph(options) => graph::run(&options, limit, output),
        Verb::Data(options) => data::run(&options, limit, output),
        Verb::Merge(options) => merge::run(&options, output),
        #[cfg(feature = "train")]
        Verb::Train(options) => train::run(&options, limit, output),
        #[cfg(feature = "train")]
        Verb::Eval(options) => eval::run(&options, limit, output),
        #[cfg(feature = "train")]
        Verb::Predict(options) => predict::run(&options, limit, output),
        #[cfg(feature = "train")]
        Verb::Export(options) => export::run(&options, output),
        #[cfg(feature = "train")]
        Verb::Config(options) => config::run(&options, output),
        #[cfg(feature = "train")]
        Verb::Reproduce(options) => reproduce::run(&options, limit, output),
        #[cfg(feature = "train")]
        Verb::Report(options) => report::run(&options, output),
        #[cfg(feature = "train")]
        Verb::Bench(options) => bench::run(&options, limit, output),
        Verb::Wl(options) => wl::run(&options, limit, output),
        Verb::Store(options) => store::run(&options, output),
        Verb::Doctor => doctor::run(output),
        Verb::List(options) => list::run(&options, output),
        Verb::Completions(options) => completions::run(&options, output),
    })
}

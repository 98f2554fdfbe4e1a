//! One task of this crate on one thread, measured from outside: `run.py` sets it beside other
//! software, `instructions.py` counts its instructions.
//!
//! `peers TASK INPUT [--count N] [--repeat R]` reads the first N graphs of INPUT, runs TASK on all
//! of them R times, and prints one JSON object. TASK is `distances`, `read`, or any coarsener, for
//! instance `louvain:resolution=2`. `peers export INPUT` writes the graphs for other programs.

use std::hint::black_box;
use std::io::Write as _;
use std::process::ExitCode;

use hdse::coarsen::{self, Coarsener, Context};
use hdse::data::{self, ReadOptions};
use hdse::distance::{Distances, MaxDistance, Scratch, UNREACHABLE};
use hdse::{Error, Graph, Hierarchy, MemoryLimit, Result};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("the first pool");
    let arguments = Arguments::parse()?;
    let graphs = read(&arguments.input, arguments.count)?;
    if arguments.task == "export" {
        return export(&graphs);
    }
    let mut task = prepare(&arguments, graphs)?;
    let mut seconds: Vec<f64> = (0..arguments.repeat).map(|_| timed(&mut task.pass)).collect();
    seconds.sort_by(f64::total_cmp);
    let report = serde_json::json!({
        "task": arguments.task,
        "version": env!("CARGO_PKG_VERSION"),
        "graphs": task.check.len(),
        "seconds": seconds.get(seconds.len() / 2),
        "peak_rss_bytes": peak_rss_bytes(),
        "check": task.check,
    });
    println!("{report}");
    Ok(())
}

struct Arguments {
    task: String,
    input: String,
    count: usize,
    repeat: usize,
}

impl Arguments {
    fn parse() -> Result<Arguments> {
        let usage = || Error::config("usage: peers TASK INPUT [--count N] [--repeat R]");
        let mut words = std::env::args().skip(1);
        let (task, input) = words.next().zip(words.next()).ok_or_else(usage)?;
        let mut arguments = Arguments { task, input, count: usize::MAX, repeat: 1 };
        while let Some(option) = words.next() {
            let number = words.next().and_then(|word| word.parse().ok()).ok_or_else(usage)?;
            match option.as_str() {
                "--count" => arguments.count = number,
                "--repeat" => arguments.repeat = number,
                _ => return Err(usage()),
            }
        }
        Ok(arguments)
    }
}

/// A task that is ready to run.
struct Task {
    /// One pass over all graphs.
    pass: Box<dyn FnMut()>,
    /// A number per graph that tells whether results are right: see [`prepare`].
    check: Vec<f64>,
}

/// Everything that is not to be measured happens here.
fn prepare(arguments: &Arguments, graphs: Vec<Graph>) -> Result<Task> {
    match arguments.task.as_str() {
        "distances" => distances(graphs),
        "read" => reading(arguments.input.clone(), graphs),
        coarsener => communities(coarsen::parse(coarsener)?, graphs),
    }
}

/// Both levels, from graph and hierarchy to the `[n · n, 2]` bytes that are stored. Checked by the
/// sum of the finite ones.
fn distances(graphs: Vec<Graph>) -> Result<Task> {
    let hierarchies = hierarchies(&graphs)?;
    let clip = MaxDistance::default();
    let sum = |lifted: Vec<u8>| -> u64 {
        lifted.into_iter().filter(|&d| d != UNREACHABLE).map(u64::from).sum()
    };
    let check = |(graph, hierarchy)| {
        let distances = Distances::new(graph, hierarchy, &clip, MemoryLimit::NONE)?;
        Ok(sum(distances.lifted()) as f64)
    };
    let check = graphs.iter().zip(&hierarchies).map(check).collect::<Result<_>>()?;
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    let pass = Box::new(move || {
        for (graph, hierarchy) in graphs.iter().zip(&hierarchies) {
            let limit = MemoryLimit::NONE;
            let distances = Distances::with_scratch(graph, hierarchy, &clip, limit, &mut scratch)
                .expect("no limit");
            out.resize(graph.num_nodes() * graph.num_nodes() * 2, 0);
            distances.lift_into(&mut out);
            black_box(&out);
        }
    });
    Ok(Task { pass, check })
}

/// From graph to partition. Checked by modularity.
fn communities(coarsener: Box<dyn Coarsener>, graphs: Vec<Graph>) -> Result<Task> {
    let context = Context::default();
    let modularity = |graph| Ok(coarsener.coarsen(graph, &context)?.quality(graph).modularity);
    let check = graphs.iter().map(modularity).collect::<Result<_>>()?;
    let pass = Box::new(move || {
        for graph in &graphs {
            black_box(coarsener.coarsen(graph, &Context::default()).expect("it did before"));
        }
    });
    Ok(Task { pass, check })
}

/// From file to graphs, always the whole file. Checked by the number of edges.
fn reading(input: String, graphs: Vec<Graph>) -> Result<Task> {
    let check = graphs.iter().map(|graph| graph.num_edges() as f64).collect();
    let pass = Box::new(move || {
        black_box(data::read(&input, &OPTIONS).expect("it did before"));
    });
    Ok(Task { pass, check })
}

const OPTIONS: ReadOptions =
    ReadOptions { format: None, features: false, shard: None, limit: MemoryLimit::NONE };

fn read(input: &str, count: usize) -> Result<Vec<Graph>> {
    let samples = data::read(input, &OPTIONS)?.samples;
    Ok(samples.into_iter().take(count).map(|sample| (*sample.graph).clone()).collect())
}

fn hierarchies(graphs: &[Graph]) -> Result<Vec<Hierarchy>> {
    let louvain = coarsen::parse("louvain")?;
    let build = |graph| Hierarchy::build(graph, louvain.as_ref(), 1, &Context::default());
    graphs.iter().map(build).collect()
}

/// Writes to standard output, as little-endian `u32`, for every graph: nodes n, edges m, m pairs of
/// nodes, n clusters of the hierarchy that `distances` uses.
fn export(graphs: &[Graph]) -> Result<()> {
    let mut words = Vec::new();
    for (graph, hierarchy) in graphs.iter().zip(hierarchies(graphs)?) {
        words.extend([graph.num_nodes() as u32, graph.num_edges() as u32]);
        words.extend(graph.edges().flat_map(|(u, v, _)| [u, v]));
        words.extend_from_slice(&hierarchy.ancestors(1));
    }
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    std::io::stdout()
        .write_all(&bytes)
        .map_err(|error| Error::io("cannot write", "standard output", error))
}

fn timed(pass: &mut dyn FnMut()) -> f64 {
    let start = cpu_seconds();
    pass();
    cpu_seconds() - start
}

/// Processor time of this process so far, all threads, user and system.
fn cpu_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the structure it is given; all zeros are a valid one too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// The most memory this process ever held, where the system tells. Not `ru_maxrss`: on Linux that
/// one starts with the size of the process that started this one.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

//! One task of this crate on one thread, measured from outside: `run.py` sets it beside other
//! software, `instructions.py` counts its instructions.
//!
//! `peers TASK INPUT [--count N] [--repeat R] [--out FILE]` reads the first N graphs of INPUT, runs
//! TASK on all of them R times, and prints one JSON object. INPUT may also be `power-law`, see
//! [`power_law`]. TASK is one of:
//!
//! * `distances`, `read`;
//! * any coarsener, for instance `louvain:resolution=2`: writes partitions to FILE, as the cluster
//!   of every node of every graph;
//! * `planted`: writes the communities that `power-law` was made with, in the same form;
//! * `export`: writes the graphs for other programs: for each its number of nodes, number of edges,
//!   and both ends of every edge.
//!
//! Files hold little-endian `u32`.

mod power_law;

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write as _};
use std::process::ExitCode;

use hdse::coarsen::{self, Coarsener, Context};
use hdse::data::{self, ReadOptions};
use hdse::distance::{Distances, MaxDistance, Scratch, UNREACHABLE};
use hdse::{Error, Graph, Hierarchy, MemoryLimit, Partition, Result};

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
    if arguments.task == "planted" {
        return arguments.write_partitions(&[planted(&arguments.input)?]);
    }
    let graphs = read(&arguments.input, arguments.count)?;
    let count = graphs.len();
    if arguments.task == "export" {
        return export(&arguments, &graphs);
    }
    let mut task = prepare(&arguments, graphs)?;
    let mut partitions = None;
    let mut seconds: Vec<f64> = (0..arguments.repeat)
        .map(|_| {
            let start = cpu_seconds();
            let result = (task.pass)();
            let end = cpu_seconds();
            partitions.get_or_insert(result);
            end - start
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    let peak = peak_rss_bytes();
    arguments.write_partitions(&partitions.unwrap_or_default())?;
    let report = serde_json::json!({
        "task": arguments.task,
        "version": env!("CARGO_PKG_VERSION"),
        "graphs": count,
        "seconds": seconds.get(seconds.len() / 2),
        "peak_rss_bytes": peak,
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
    out: Option<String>,
}

impl Arguments {
    fn parse() -> Result<Arguments> {
        let usage =
            || Error::config("usage: peers TASK INPUT [--count N] [--repeat R] [--out FILE]");
        let mut words = std::env::args().skip(1);
        let (task, input) = words.next().zip(words.next()).ok_or_else(usage)?;
        let mut arguments = Arguments { task, input, count: usize::MAX, repeat: 1, out: None };
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(usage)?;
            let number = || value.parse().map_err(|_| usage());
            match option.as_str() {
                "--count" => arguments.count = number()?,
                "--repeat" => arguments.repeat = number()?,
                "--out" => arguments.out = Some(value),
                _ => return Err(usage()),
            }
        }
        Ok(arguments)
    }

    fn write_partitions(&self, partitions: &[Partition]) -> Result<()> {
        self.write(partitions.iter().flat_map(|partition| partition.cluster_of().iter().copied()))
    }

    /// Writes to the file that is asked for, if there is one.
    fn write(&self, words: impl Iterator<Item = u32>) -> Result<()> {
        let Some(name) = &self.out else { return Ok(()) };
        let write = || {
            let mut file = BufWriter::new(File::create(name)?);
            words.into_iter().try_for_each(|word| file.write_all(&word.to_le_bytes()))?;
            file.flush()
        };
        write().map_err(|error| Error::io("cannot write", name, error))
    }
}

/// A task that is ready to run.
struct Task {
    /// One pass over all graphs; gives their partitions, if that is the task.
    pass: Box<dyn FnMut() -> Vec<Partition>>,
    /// A number per graph that tells whether results are right; none for partitions, which
    /// quality.py looks at.
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
            let distances =
                Distances::with_scratch(graph, hierarchy, &clip, limit, &mut scratch, &())
                    .expect("no limit");
            out.resize(graph.num_nodes() * graph.num_nodes() * 2, 0);
            distances.lift_into(&mut out);
            black_box(&out);
        }
        Vec::new()
    });
    Ok(Task { pass, check })
}

/// From graph to partition.
fn communities(coarsener: Box<dyn Coarsener>, graphs: Vec<Graph>) -> Result<Task> {
    // Made once, as for a set: it asks the system how much memory is free.
    let context = Context::default();
    let pass = Box::new(move || {
        let partition = |graph| coarsener.coarsen(graph, &context);
        graphs.iter().map(partition).collect::<Result<_>>().expect("nothing stops it")
    });
    Ok(Task { pass, check: Vec::new() })
}

/// From file to graphs, always the whole file. Checked by the number of edges.
fn reading(input: String, graphs: Vec<Graph>) -> Result<Task> {
    let check = graphs.iter().map(|graph| graph.num_edges() as f64).collect();
    let pass = Box::new(move || {
        black_box(data::read(&input, &OPTIONS).expect("it did before"));
        Vec::new()
    });
    Ok(Task { pass, check })
}

const OPTIONS: ReadOptions =
    ReadOptions { format: None, features: false, shard: None, limit: MemoryLimit::NONE };

fn read(input: &str, count: usize) -> Result<Vec<Graph>> {
    if let Some((graph, _)) = power_law::generate(input)? {
        return Ok(vec![graph]);
    }
    let samples = data::read(input, &OPTIONS)?.samples;
    Ok(samples.into_iter().take(count).map(|sample| (*sample.graph).clone()).collect())
}

fn hierarchies(graphs: &[Graph]) -> Result<Vec<Hierarchy>> {
    let louvain = coarsen::parse("louvain")?;
    let build = |graph| Hierarchy::build(graph, louvain.as_ref(), 1, &Context::default());
    graphs.iter().map(build).collect()
}

fn planted(input: &str) -> Result<Partition> {
    let generated = power_law::generate(input)?;
    let unknown = || Error::config(format!("no communities are planted in `{input}`"));
    generated.map(|(_, communities)| communities).ok_or_else(unknown)
}

/// Also prints how many edges the largest graph has: not every program is run on large ones.
fn export(arguments: &Arguments, graphs: &[Graph]) -> Result<()> {
    arguments.write(graphs.iter().flat_map(|graph| {
        let sizes = [graph.num_nodes() as u32, graph.num_edges() as u32];
        sizes.into_iter().chain(graph.edges().flat_map(|(u, v, _)| [u, v]))
    }))?;
    let most_edges = graphs.iter().map(Graph::num_edges).max();
    println!("{}", serde_json::json!({ "graphs": graphs.len(), "most_edges": most_edges }));
    Ok(())
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

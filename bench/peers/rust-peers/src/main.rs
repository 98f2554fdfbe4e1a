//! Measures a peer that is a Rust crate, as worker.py measures those of Python:
//! `rust-peers PACKAGE TASK GRAPHS PARTITIONS COUNT PASSES SECONDS`.

use std::fs;
use std::io::{Error, Result};

use serde_json::json;
use single_clustering::community_search::leiden::{LeidenConfig, leiden};
use single_clustering::network::CSRNetwork;

/// The cluster of every node of a graph.
type Partition = Vec<usize>;
/// What is measured.
type Call = Box<dyn Fn() -> Partition>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [package, task, graphs, partitions, count, passes, seconds] = words.as_slice() else {
        return Err(Error::other(
            "usage: rust-peers PACKAGE TASK GRAPHS PARTITIONS COUNT PASSES SECONDS",
        ));
    };
    let number = |word: &str| word.parse::<f64>().map_err(Error::other);
    let mut graphs = read_graphs(graphs)?;
    graphs.truncate(number(count)? as usize);
    let count = graphs.len();
    let prepare = |graph| match package.as_str() {
        "single-clustering" => single_clustering(graph, task),
        _ => Err(Error::other(format!("no peer `{package}`"))),
    };
    let calls = graphs.into_iter().map(prepare).collect::<Result<Vec<Call>>>()?;
    let (time, results) = measure(&calls, number(passes)? as usize, number(seconds)?);
    let peak = peak_rss_bytes();
    let clusters = results.iter().flatten();
    fs::write(partitions, clusters.flat_map(|&c| (c as u32).to_le_bytes()).collect::<Vec<u8>>())?;
    let report = json!({
        "task": task,
        "version": version(package),
        "graphs": count,
        "seconds": time,
        "peak_rss_bytes": peak,
        "check": [],
    });
    println!("{report}");
    Ok(())
}

/// Louvain is its Leiden without refinement, says its documentation.
fn single_clustering(graph: Graph, task: &str) -> Result<Call> {
    let refine = match task {
        "leiden" => true,
        "louvain" => false,
        _ => return Err(Error::other(format!("single-clustering has no `{task}`"))),
    };
    let config = LeidenConfig { refine, ..Default::default() };
    let weights = vec![1.0; graph.targets.len()];
    let network = CSRNetwork::from_csr_parts(graph.offsets, graph.targets, weights, None)
        .map_err(Error::other)?;
    Ok(Box::new(move || leiden(&network, &config).expect("a valid graph").labels().to_vec()))
}

/// Compressed sparse rows, both directions of every edge.
struct Graph {
    offsets: Vec<usize>,
    targets: Vec<u32>,
}

impl Graph {
    /// `ends` holds both ends of every edge.
    fn new(nodes: usize, ends: &[u32]) -> Graph {
        let mut offsets = vec![0; nodes + 1];
        for &node in ends {
            offsets[node as usize + 1] += 1;
        }
        for node in 0..nodes {
            offsets[node + 1] += offsets[node];
        }
        let mut free = offsets.clone();
        let mut targets = vec![0; ends.len()];
        for edge in ends.chunks_exact(2) {
            for (from, to) in [(edge[0], edge[1]), (edge[1], edge[0])] {
                targets[free[from as usize]] = to;
                free[from as usize] += 1;
            }
        }
        Graph { offsets, targets }
    }
}

/// All graphs of a file that `peers export` wrote.
fn read_graphs(file: &str) -> Result<Vec<Graph>> {
    let bytes = fs::read(file)?;
    let (words, _) = bytes.as_chunks::<4>();
    let words: Vec<u32> = words.iter().map(|&word| u32::from_le_bytes(word)).collect();
    drop(bytes);
    let mut rest = words.as_slice();
    let mut graphs = Vec::new();
    while let [nodes, edges, others @ ..] = rest {
        let (ends, others) = others.split_at(2 * *edges as usize);
        graphs.push(Graph::new(*nodes as usize, ends));
        rest = others;
    }
    Ok(graphs)
}

/// Median of some passes, fewer if `seconds` are used up before; results of the first.
fn measure(calls: &[Call], passes: usize, seconds: f64) -> (f64, Vec<Partition>) {
    let (mut times, mut results) = (Vec::new(), None);
    while times.len() < passes && times.iter().sum::<f64>() < seconds {
        let start = cpu_seconds();
        let outcomes: Vec<Partition> = calls.iter().map(|call| call()).collect();
        times.push(cpu_seconds() - start);
        results.get_or_insert(outcomes);
    }
    times.sort_by(f64::total_cmp);
    (times.get(times.len() / 2).copied().unwrap_or(f64::NAN), results.unwrap_or_default())
}

/// The version that was built, from the list of them.
fn version(package: &str) -> Option<&'static str> {
    let named = format!("name = \"{package}\"\nversion = \"");
    let (_, after) = include_str!("../Cargo.lock").split_once(&named)?;
    after.split('"').next()
}

/// As in ours.rs.
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

/// As in ours.rs.
fn peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

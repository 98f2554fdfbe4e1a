//! Breadth-first search from many sources at once, a bit per source.
//!
//! All sources advance together: bit s of row u says that the search from s has reached u, and one
//! step ors the rows of all neighbours (Then et al., "The More the Merrier", VLDB 2015). A graph of
//! up to 512 nodes fits rows of at most eight words, with every node a source; since distances are
//! symmetric, its rows are then read as "reached from u" and written out in order. Larger graphs
//! run blocks of 512 sources, in parallel.
//!
//! Time O(L · m · n / 64) word operations plus n² bytes written; working memory 24 bytes · n · words
//! per thread. Deterministic: no order of evaluation enters the result.

use std::sync::OnceLock;

use rayon::prelude::*;

use super::UNREACHABLE;
use crate::monitor::{Monitor, check};
use crate::{Error, Graph, MemoryLimit, Partition, Result};

/// Sources that advance together on a large graph: 8 words.
const BLOCK: usize = 512;

/// Working memory, reused from graph to graph.
#[derive(Debug, Default)]
pub struct Scratch(Vec<u64>);

impl Scratch {
    /// `count` zeroed rows.
    fn rows<const W: usize>(&mut self, count: usize) -> &mut [[u64; W]] {
        self.0.clear();
        self.0.resize(count * W, 0);
        self.0.as_chunks_mut::<W>().0
    }

    /// Three zeroed tables of `rows` rows: sources seen, new in the last step, new in this step.
    fn tables<const W: usize>(&mut self, rows: usize) -> [&mut [[u64; W]]; 3] {
        let (seen, rest) = self.rows(3 * rows).split_at_mut(rows);
        let (last, next) = rest.split_at_mut(rows);
        [seen, last, next]
    }

    /// The same, and eight zeroed bit planes per row.
    fn tables_and_planes<const W: usize>(&mut self, rows: usize) -> TablesAndPlanes<'_, W> {
        let (seen, rest) = self.rows((3 + 8) * rows).split_at_mut(rows);
        let (last, rest) = rest.split_at_mut(rows);
        let (next, planes) = rest.split_at_mut(rows);
        ([seen, last, next], planes.as_chunks_mut::<8>().0)
    }
}

type TablesAndPlanes<'a, const W: usize> = ([&'a mut [[u64; W]]; 3], &'a mut [[[u64; W]; 8]]);

/// Distances of all pairs of nodes, row by row, clipped at `max_distance`.
///
/// # Errors
/// If n² bytes are more than `limit`.
pub fn all_pairs(graph: &Graph, max_distance: u8, limit: MemoryLimit) -> Result<Vec<u8>> {
    let n = graph.num_nodes();
    limit.check((n as u128).pow(2), &format!("all pairs of {n} nodes"), "use `between`")?;
    let mut out = vec![0; n * n];
    all_pairs_into(graph, max_distance, &mut out, &mut Scratch::default(), &())?;
    Ok(out)
}

/// [`all_pairs`] into given memory of n² bytes.
///
/// # Errors
/// If `monitor` asks to stop.
///
/// # Panics
/// If `out` has another length.
pub fn all_pairs_into(
    graph: &Graph,
    max_distance: u8,
    out: &mut [u8],
    scratch: &mut Scratch,
    monitor: &dyn Monitor,
) -> Result<()> {
    let n = graph.num_nodes();
    assert_eq!(out.len(), n * n, "n² bytes");
    match n.div_ceil(64) {
        0 => {}
        1 => small::<1>(graph, max_distance, out, scratch),
        2 => small::<2>(graph, max_distance, out, scratch),
        3 => small::<3>(graph, max_distance, out, scratch),
        4 => small::<4>(graph, max_distance, out, scratch),
        5 => small::<5>(graph, max_distance, out, scratch),
        6 => small::<6>(graph, max_distance, out, scratch),
        7 => small::<7>(graph, max_distance, out, scratch),
        8 => small::<8>(graph, max_distance, out, scratch),
        _ => {
            let all: Vec<u32> = (0..n as u32).collect();
            return blocks(graph, &all, &all, max_distance, out, monitor);
        }
    }
    Ok(())
}

/// Distances from every source (row) to every target (column), clipped at `max_distance`.
///
/// ```
/// use hdse::{Graph, MemoryLimit, distance::between};
/// let (path, _) = Graph::from_pairs(5, &[(0, 1), (1, 2), (2, 3)])?;
/// let distances = between(&path, &[0, 3], &[3, 1, 4], 30, MemoryLimit::default())?;
/// assert_eq!(distances, [3, 1, 255, 0, 2, 255]);
/// # Ok::<(), hdse::Error>(())
/// ```
///
/// # Errors
/// If a node is out of range, or the result needs more bytes than `limit`.
pub fn between(
    graph: &Graph,
    sources: &[u32],
    targets: &[u32],
    max_distance: u8,
    limit: MemoryLimit,
) -> Result<Vec<u8>> {
    let n = graph.num_nodes();
    if let Some(node) = sources.iter().chain(targets).find(|&&node| node as usize >= n) {
        return Err(Error::data(format!("node {node} is out of range for {n} nodes")));
    }
    limit.check(
        sources.len() as u128 * targets.len() as u128,
        &format!("distances of {} sources and {} targets", sources.len(), targets.len()),
        "take fewer of them at a time",
    )?;
    let mut out = vec![0; sources.len() * targets.len()];
    blocks(graph, sources, targets, max_distance, &mut out, &())?;
    Ok(out)
}

/// All pairs of at most 64 · W nodes. What step t reaches is at distance t, so its bits go into those
/// of eight bit planes where the binary form of t has a one; reading a column across the planes
/// gives the distance. That costs a few word operations per row and step and no branch per pair.
fn small<const W: usize>(graph: &Graph, max_distance: u8, out: &mut [u8], scratch: &mut Scratch) {
    let n = graph.num_nodes();
    let (tables, planes) = scratch.tables_and_planes::<W>(n);
    let [seen, mut last, mut next] = tables;
    for u in 0..n {
        seen[u][u / 64] = 1 << (u % 64);
        last[u] = seen[u];
    }
    let mut farthest = 0;
    let mut exhausted = false;
    for distance in 1..max_distance {
        let mut any = 0;
        for u in 0..n {
            let mut reached = [0; W];
            for &v in graph.neighbors(u as u32) {
                for (r, l) in reached.iter_mut().zip(&last[v as usize]) {
                    *r |= l;
                }
            }
            for (r, s) in reached.iter_mut().zip(&mut seen[u]) {
                *r &= !*s;
                *s |= *r;
                any |= *r;
            }
            mark(&mut planes[u], distance, &reached);
            next[u] = reached;
        }
        if any == 0 {
            exhausted = true;
            break;
        }
        farthest = distance;
        std::mem::swap(&mut last, &mut next);
    }

    // What is left is far if the search stopped at the clip and the nodes are connected, else
    // unreachable.
    let mut all = [0; W];
    for u in 0..n {
        all[u / 64] |= 1 << (u % 64);
    }
    if seen.iter().any(|row| *row != all) {
        let components = (!exhausted).then(|| graph.components());
        let mut connected = vec![[0; W]; components.as_ref().map_or(0, Partition::num_clusters)];
        if let Some(components) = &components {
            for (u, &c) in components.cluster_of().iter().enumerate() {
                connected[c as usize][u / 64] |= 1 << (u % 64);
            }
        }
        for u in 0..n {
            let near = match &components {
                Some(components) => connected[components.cluster_of()[u] as usize],
                None => seen[u],
            };
            let mut far = [0; W];
            let mut unreachable = [0; W];
            for word in 0..W {
                far[word] = near[word] & !seen[u][word];
                unreachable[word] = all[word] & !near[word];
            }
            mark(&mut planes[u], max_distance, &far);
            mark(&mut planes[u], UNREACHABLE, &unreachable);
        }
        farthest = UNREACHABLE;
    }
    let used = (u8::BITS - farthest.leading_zeros()) as usize;
    for (row, planes) in out.chunks_exact_mut(n).zip(planes.iter()) {
        read_planes(&planes[..used], row);
    }
}

fn mark<const W: usize>(planes: &mut [[u64; W]; 8], distance: u8, bits: &[u64; W]) {
    let mut ones = distance;
    while ones != 0 {
        for (plane, bits) in planes[ones.trailing_zeros() as usize].iter_mut().zip(bits) {
            *plane |= bits;
        }
        ones &= ones - 1;
    }
}

/// Reads columns across bit planes, eight at a time.
fn read_planes<const W: usize>(planes: &[[u64; W]], row: &mut [u8]) {
    for (group, cells) in row.chunks_mut(8).enumerate() {
        let mut eight = 0;
        for (power, plane) in planes.iter().enumerate() {
            let byte = (plane[group / 8] >> (group % 8 * 8)) as u8;
            eight |= SPREAD[byte as usize] << power;
        }
        match <&mut [u8; 8]>::try_from(&mut *cells) {
            Ok(cells) => *cells = eight.to_le_bytes(),
            Err(_) => cells.copy_from_slice(&eight.to_le_bytes()[..cells.len()]),
        }
    }
}

/// Bit i of the index as byte i.
const SPREAD: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            table[byte] |= ((byte as u64 >> bit) & 1) << (8 * bit);
            bit += 1;
        }
        byte += 1;
    }
    table
};

fn blocks(
    graph: &Graph,
    sources: &[u32],
    targets: &[u32],
    max_distance: u8,
    out: &mut [u8],
    monitor: &dyn Monitor,
) -> Result<()> {
    if sources.is_empty() || targets.is_empty() {
        return Ok(());
    }
    // Only needed where the search stops at the clip, and then once.
    let components = OnceLock::new();
    let components = || components.get_or_init(|| graph.components());
    out.par_chunks_mut(BLOCK * targets.len()).zip(sources.par_chunks(BLOCK)).try_for_each_init(
        Scratch::default,
        |scratch, (out, sources)| {
            check(monitor)?;
            let block = match sources.len().div_ceil(64) {
                1 => block::<1>,
                2 => block::<2>,
                3 | 4 => block::<4>,
                _ => block::<8>,
            };
            block(graph, sources, targets, max_distance, &components, out, scratch);
            Ok(())
        },
    )
}

fn block<'a, const W: usize>(
    graph: &Graph,
    sources: &[u32],
    targets: &[u32],
    max_distance: u8,
    components: &dyn Fn() -> &'a Partition,
    out: &mut [u8],
    scratch: &mut Scratch,
) {
    let [seen, last, next] = scratch.tables::<W>(graph.num_nodes());
    out.fill(UNREACHABLE);
    for (s, &u) in sources.iter().enumerate() {
        seen[u as usize][s / 64] |= 1 << (s % 64);
        last[u as usize] = seen[u as usize];
    }
    let mut distance = 0;
    let exhausted = loop {
        for (t, &target) in targets.iter().enumerate() {
            for (word, &bits) in last[target as usize].iter().enumerate() {
                for_each_bit(bits, |bit| out[(word * 64 + bit) * targets.len() + t] = distance);
            }
        }
        distance += 1;
        if distance == max_distance {
            break false;
        }
        for (u, row) in last.iter().enumerate().filter(|(_, row)| **row != [0; W]) {
            for &v in graph.neighbors(u as u32) {
                for (n, l) in next[v as usize].iter_mut().zip(row) {
                    *n |= l;
                }
            }
        }
        let mut any = 0;
        for ((seen, last), next) in seen.iter_mut().zip(last.iter_mut()).zip(next.iter_mut()) {
            for word in 0..W {
                last[word] = next[word] & !seen[word];
                seen[word] |= last[word];
                any |= last[word];
            }
            *next = [0; W];
        }
        if any == 0 {
            break true;
        }
    };
    if exhausted {
        return;
    }
    // The search stopped at the clip: what it did not reach is far if connected, else unreachable.
    let component = components().cluster_of();
    for (row, &s) in out.chunks_exact_mut(targets.len()).zip(sources) {
        for (d, &t) in row.iter_mut().zip(targets) {
            if component[s as usize] == component[t as usize] {
                *d = max_distance.min(*d);
            }
        }
    }
}

#[inline]
fn for_each_bit(mut bits: u64, mut visit: impl FnMut(usize)) {
    while bits != 0 {
        visit(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    /// The slow version: Floyd-Warshall, clipped afterwards.
    fn floyd_warshall(graph: &Graph, max_distance: u8) -> Vec<u8> {
        let n = graph.num_nodes();
        let mut d = vec![u32::MAX / 2; n * n];
        for u in 0..n {
            d[u * n + u] = 0;
            for &v in graph.neighbors(u as u32) {
                d[u * n + v as usize] = 1;
            }
        }
        for k in 0..n {
            for i in 0..n {
                for j in 0..n {
                    d[i * n + j] = d[i * n + j].min(d[i * n + k] + d[k * n + j]);
                }
            }
        }
        let byte = |&x: &u32| match x {
            x if x >= u32::MAX / 2 => UNREACHABLE,
            x => x.min(u32::from(max_distance)) as u8,
        };
        d.iter().map(byte).collect()
    }

    fn random(n: u64, edges: u64, stream: &mut crate::rng::Stream) -> Graph {
        let pairs: Vec<_> =
            (0..edges).map(|_| (stream.below(n) as u32, stream.below(n) as u32)).collect();
        Graph::from_pairs(n as usize, &pairs).unwrap().0
    }

    #[test]
    fn agrees_with_floyd_warshall_at_every_width() {
        let mut stream = Seed(0).stream("test", 0, 0);
        for n in [1, 2, 5, 63, 64, 65, 128, 150, 200, 300, 330, 400, 500, 512, 513] {
            for (per_node, clip) in [(0.4, 254), (0.7, 2), (1.1, 7), (1.1, 254), (3.0, 1)] {
                let graph = random(n, (n as f64 * per_node) as u64, &mut stream);
                let found = all_pairs(&graph, clip, MemoryLimit::NONE).unwrap();
                assert_eq!(found, floyd_warshall(&graph, clip), "n = {n}");
            }
        }
    }

    #[test]
    fn impossible_requests_are_errors() {
        let (graph, _) = Graph::from_pairs(100, &[(0, 1)]).unwrap();
        assert!(all_pairs(&graph, 30, MemoryLimit(9_999)).unwrap_err().is_memory());
        assert!(between(&graph, &[0; 10], &[1; 10], 30, MemoryLimit(99)).unwrap_err().is_memory());
        assert!(between(&graph, &[100], &[1], 30, MemoryLimit::NONE).unwrap_err().is_data());
    }

    #[test]
    fn subsets_agree_with_all_pairs() {
        let mut stream = Seed(1).stream("test", 0, 0);
        for (n, sources, targets) in [(40, 3, 7), (700, 600, 20), (700, 100, 650), (50, 0, 3)] {
            let graph = random(n, n + n / 5, &mut stream);
            let mut draw = |k| (0..k).map(|_| stream.below(n) as u32).collect::<Vec<_>>();
            let (sources, targets) = (draw(sources), draw(targets));
            let all = all_pairs(&graph, 9, MemoryLimit::NONE).unwrap();
            let expected: Vec<u8> = sources
                .iter()
                .flat_map(|&s| targets.iter().map(move |&t| (s, t)))
                .map(|(s, t)| all[s as usize * n as usize + t as usize])
                .collect();
            let found = between(&graph, &sources, &targets, 9, MemoryLimit::NONE).unwrap();
            assert_eq!(found, expected);
        }
    }
}

//! Degrees as small numbers, for tables of learned vectors.
//!
//! Ying, Cai, Luo, Zheng, Ke, He, Shen & Liu, "Do Transformers Really Perform Badly for Graph
//! Representation?", NeurIPS 2021, add a learned vector per in-degree and out-degree to a node's features.
//! O(n + m).

use crate::{Error, Graph, Result};

/// How often every node is listed in `ends`, at most `maximum`: out-degrees of the sources of arcs,
/// in-degrees of their targets. Self-loops and repeated arcs count.
///
/// ```
/// use hdse::encoding::arc_degrees;
/// let (sources, targets) = ([0, 0, 0, 2], [1, 1, 2, 2]);
/// assert_eq!(arc_degrees(3, &sources, 2)?, [2, 0, 1]); // three arcs leave node 0, clipped
/// assert_eq!(arc_degrees(3, &targets, 9)?, [0, 2, 2]);
/// # Ok::<(), hdse::Error>(())
/// ```
///
/// # Errors
/// If an id is not below `num_nodes`.
pub fn arc_degrees(num_nodes: usize, ends: &[u32], maximum: u32) -> Result<Vec<u32>> {
    let mut counts = vec![0u32; num_nodes];
    for (arc, &node) in ends.iter().enumerate() {
        let Some(count) = counts.get_mut(node as usize) else {
            return Err(Error::data(format!(
                "arc {arc}: node {node} is out of range for {num_nodes} nodes"
            )));
        };
        // Never beyond the clip, so that no number of arcs is too many.
        if *count < maximum {
            *count += 1;
        }
    }
    Ok(counts)
}

/// Number of neighbours of every node, at most `maximum`.
///
/// ```
/// use hdse::{Graph, encoding};
/// let (star, _) = Graph::from_pairs(4, &[(0, 1), (0, 2), (0, 3)])?;
/// assert_eq!(encoding::degrees(&star, 2), [2, 1, 1, 1]);
/// # Ok::<(), hdse::Error>(())
/// ```
pub fn degrees(graph: &Graph, maximum: u32) -> Vec<u32> {
    (0..graph.num_nodes() as u32).map(|u| (graph.degree(u) as u32).min(maximum)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_out_of_range_are_named() {
        let error = arc_degrees(2, &[0, 2], 5).unwrap_err();
        assert!(error.is_data());
        assert_eq!(error.to_string(), "arc 1: node 2 is out of range for 2 nodes");
    }
}

//! Arcs between rows, by where they start, and those inside a part of the graph.

use super::rows::Rows;
use crate::Graph;
use crate::data::Edges;

/// Arcs in compressed sparse rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arcs {
    offsets: Vec<usize>,
    targets: Vec<u32>,
}

impl Arcs {
    /// Bytes of it.
    pub fn bytes(&self) -> u128 {
        (size_of_val(&self.offsets[..]) + size_of_val(&self.targets[..])) as u128
    }

    /// Both directions of every edge.
    pub fn undirected(graph: &Graph, rows: &Rows) -> Arcs {
        let mut arcs =
            Arcs { offsets: vec![0], targets: Vec::with_capacity(2 * graph.num_edges()) };
        for &node in rows.nodes() {
            let start = arcs.targets.len();
            arcs.targets.extend(graph.neighbors(node).iter().map(|&other| rows.row(other)));
            arcs.targets[start..].sort_unstable();
            arcs.offsets.push(arcs.targets.len());
        }
        arcs
    }

    /// Arcs as given.
    pub fn directed(edges: &Edges, rows: &Rows) -> Arcs {
        let mut offsets = vec![0; rows.len() + 1];
        edges.sources.iter().for_each(|&node| offsets[rows.row(node) as usize + 1] += 1);
        for row in 0..rows.len() {
            offsets[row + 1] += offsets[row];
        }
        let (mut next, mut targets) = (offsets.clone(), vec![0; edges.targets.len()]);
        for (&source, &target) in edges.sources.iter().zip(&edges.targets) {
            let place = &mut next[rows.row(source) as usize];
            targets[*place] = rows.row(target);
            *place += 1;
        }
        for row in 0..rows.len() {
            targets[offsets[row]..offsets[row + 1]].sort_unstable();
        }
        Arcs { offsets, targets }
    }

    /// Number of arcs.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    fn of(&self, row: u32) -> &[u32] {
        &self.targets[self.offsets[row as usize]..self.offsets[row as usize + 1]]
    }

    /// All of them.
    pub fn edges(&self) -> Edges {
        let rows = 0..self.offsets.len() as u32 - 1;
        let sources = rows.flat_map(|row| std::iter::repeat_n(row, self.of(row).len()));
        Edges { sources: sources.collect(), targets: self.targets.clone() }
    }

    /// Those between these rows, which are ascending, by their positions among these.
    pub fn inside(&self, rows: &[u32]) -> Edges {
        const OUTSIDE: u32 = u32::MAX;
        let mut place = vec![OUTSIDE; self.offsets.len() - 1];
        for (position, &row) in (0..).zip(rows) {
            place[row as usize] = position;
        }
        let mut edges = Edges::default();
        for (position, &row) in (0..).zip(rows) {
            let targets = self.of(row).iter().map(|&target| place[target as usize]);
            edges.targets.extend(targets.filter(|&target| target != OUTSIDE));
            edges.sources.resize(edges.targets.len(), position);
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arcs_follow_rows() {
        // A path 0 – 1 – 2 – 3, as arcs to the right and a loop; rows 1, 3, 0, 2.
        let edges = Edges { sources: vec![2, 0, 1, 3], targets: vec![3, 1, 2, 3] };
        let (graph, _) = Graph::from_pairs(4, &[(0, 1), (1, 2), (2, 3)]).unwrap();
        let rows = Rows::new(4, Some(&[1, 0, 1, 0]));
        let both = Arcs::undirected(&graph, &rows);
        let all = both.edges();
        assert_eq!(all.sources, [0, 0, 1, 2, 3, 3]);
        assert_eq!(all.targets, [2, 3, 3, 0, 0, 1]);
        let given = Arcs::directed(&edges, &rows);
        let all = given.edges();
        assert_eq!((all.sources, all.targets), (vec![0, 1, 2, 3], vec![3, 1, 0, 1]));
        let some = both.inside(&[0, 1, 3]);
        assert_eq!((some.sources, some.targets), (vec![0, 1, 2, 2], vec![2, 2, 0, 1]));
        assert_eq!((given.inside(&[]).sources, both.len(), given.is_empty()), (vec![], 6, false));
    }
}

//! Which row of a model's tensors a node is. Nothing else knows both.

/// Nodes in the order of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    node_of: Vec<u32>,
    row_of: Vec<u32>,
}

impl Rows {
    /// Nodes in their own order, or by cluster first, so that clusters are contiguous.
    pub fn new(nodes: usize, cluster_of: Option<&[u32]>) -> Rows {
        let mut node_of: Vec<u32> = (0..nodes as u32).collect();
        if let Some(cluster_of) = cluster_of {
            // Stable: by node within a cluster.
            node_of.sort_by_key(|&node| cluster_of[node as usize]);
        }
        let mut row_of = vec![0; nodes];
        for (row, &node) in node_of.iter().enumerate() {
            row_of[node as usize] = row as u32;
        }
        Rows { node_of, row_of }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.node_of.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.node_of.is_empty()
    }

    /// The node of every row.
    pub fn nodes(&self) -> &[u32] {
        &self.node_of
    }

    /// The row of a node.
    pub fn row(&self, node: u32) -> u32 {
        self.row_of[node as usize]
    }

    /// Rows of `width` values each, from the order of nodes to that of rows.
    pub fn by_row<T: Copy>(&self, values: &[T], width: usize) -> Vec<T> {
        pick(values, width, &self.node_of)
    }

    /// Rows of `width` values each, from the order of rows to that of nodes.
    pub fn by_node<T: Copy>(&self, values: &[T], width: usize) -> Vec<T> {
        pick(values, width, &self.row_of)
    }
}

/// The rows named, in that order.
pub(super) fn pick<T: Copy>(values: &[T], width: usize, rows: &[u32]) -> Vec<T> {
    rows.iter().flat_map(|&row| &values[row as usize * width..][..width]).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let rows = Rows::new(5, Some(&[1, 0, 1, 2, 0]));
        assert_eq!(rows.nodes(), [1, 4, 0, 2, 3]);
        assert_eq!(rows.row(3), 4);
        let values: Vec<u32> = (0..10).collect();
        let sorted = rows.by_row(&values, 2);
        assert_eq!(sorted, [2, 3, 8, 9, 0, 1, 4, 5, 6, 7]);
        assert_eq!(rows.by_node(&sorted, 2), values);
        assert_eq!(Rows::new(3, None).nodes(), [0, 1, 2]);
    }
}

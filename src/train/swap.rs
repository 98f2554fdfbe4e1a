//! Two communities that could as well be named the other way round.
//!
//! Where classes are exchangeable within each graph, a model cannot know which one is called 0. Targets are
//! then taken up to a swap: of both namings of a graph's classes, the one that fits the predictions
//! better. Accuracy of guessing is above ½ that way, by the more the smaller graphs are.

/// Targets with the classes 0 and 1 swapped in those graphs where that raises the number of right
/// predictions, or for equally many the sum of the margins. Logits are `[nodes, 2]`, sizes those of the graphs.
///
/// ```
/// use hdse::train::swap::align;
/// // Two graphs of two nodes; the model names the second the other way round.
/// let logits = [2.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 2.0];
/// assert_eq!(align(&logits, &[0, 1, 1, 0], &[2, 2]), [0, 1, 0, 1]);
/// ```
///
/// # Panics
/// If lengths do not fit.
pub fn align(logits: &[f32], targets: &[i64], sizes: &[usize]) -> Vec<i64> {
    assert_eq!(logits.len(), 2 * targets.len(), "two logits a node");
    assert_eq!(targets.len(), sizes.iter().sum::<usize>(), "a target for every node");
    let mut aligned = targets.to_vec();
    let mut start = 0;
    for size in sizes {
        let nodes = start..start + size;
        // How much more the naming as given agrees: right ones first, then margins.
        let (mut right, mut margin) = (0i64, 0f64);
        for node in nodes.clone() {
            let towards = f64::from(logits[2 * node + 1]) - f64::from(logits[2 * node]);
            let agreement = if targets[node] == 1 { towards } else { -towards };
            right += if agreement > 0.0 { 1 } else { -1 };
            margin += agreement;
        }
        if (right, margin) < (0, 0.0) {
            aligned[nodes].iter_mut().for_each(|class| *class = 1 - *class);
        }
        start += size;
    }
    aligned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_is_aligned_as_a_whole_and_on_its_own() {
        let logits = [0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 3.0, 0.0];
        // Three of the first graph's nodes disagree: swapped. The second agrees.
        assert_eq!(align(&logits, &[0, 0, 0, 0], &[3, 1]), [1, 1, 1, 0]);
        assert_eq!(align(&logits, &[1, 1, 0, 1], &[3, 1]), [1, 1, 0, 0]);
        assert_eq!(align(&[], &[], &[]), [0i64; 0]);
    }

    #[test]
    fn equal_numbers_are_decided_by_margins() {
        assert_eq!(align(&[0.0, 5.0, 0.0, 1.0], &[0, 1], &[2]), [1, 0]);
        assert_eq!(align(&[0.0, 1.0, 0.0, 5.0], &[0, 1], &[2]), [0, 1]);
    }
}

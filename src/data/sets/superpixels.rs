//! Images as graphs: a node is a superpixel, with arcs to its eight nearest ones.
//!
//! | set | graphs | of a node | of an arc | target |
//! |---|---|---|---|---|
//! | `mnist` | 70,000, at most 75 nodes | grey, row, column | nearness | digit |
//! | `cifar10` | 60,000, at most 150 nodes | red, green, blue, row, column | nearness | one of ten things |
//!
//! Arcs are directed: being among the eight nearest is not mutual. Some copies keep row and column in `pos`;
//! they are put behind the colours. Dwivedi et al., "Benchmarking Graph Neural Networks", JMLR 2023, after
//! Knyazev, Taylor & Amer, "Understanding Attention and Generalization in Graph Neural Networks", NeurIPS 2019.
//!
//! The official graphs have their nodes in random order. Made anew from the images they come in the order of
//! the segmentation, row by row, and that is the sign by which copies are labelled as regenerated.

use super::{Columns, Entry, FromFiles, Level, Parts, Statistics, Target, Task};
use crate::data::Sample;

const CLASSES: Task = Task { level: Level::Graph, target: Target::Classes(10) };

pub(super) const MNIST: FromFiles = FromFiles {
    entry: Entry {
        name: "mnist",
        folders: &["mnist", "mnist-superpixels"],
        summary: "superpixels of handwritten digits, at most 75",
        task: CLASSES,
        metric: "accuracy",
        nodes: Columns::Reals(3),
        arcs: Columns::Reals(1),
        published: Statistics {
            graphs: [55_000, 5_000, 10_000],
            mean_nodes: 70.57,
            mean_arcs: 564.53,
        },
        licence: "MIT (images: none stated)",
        citation: "Dwivedi et al., Benchmarking Graph Neural Networks, JMLR 2023",
        source: "https://github.com/graphdeeplearning/benchmarking-gnns",
        generated: false,
    },
    origin: |parts| in_raster_order(parts).then_some("regenerated"),
};

pub(super) const CIFAR10: FromFiles = FromFiles {
    entry: Entry {
        name: "cifar10",
        folders: &["cifar10", "cifar10-superpixels"],
        summary: "superpixels of small photographs, at most 150",
        nodes: Columns::Reals(5),
        published: Statistics {
            graphs: [45_000, 5_000, 10_000],
            mean_nodes: 117.63,
            mean_arcs: 941.07,
        },
        ..MNIST.entry
    },
    origin: |parts| in_raster_order(parts).then_some("regenerated"),
};

/// Whether nodes are numbered along one of the two coordinates, in the first training graphs.
fn in_raster_order(parts: &Parts) -> bool {
    let graphs = &parts[0][..parts[0].len().min(100)];
    let mean = |from_last: usize| {
        let sum: f64 = graphs.iter().map(|sample| correlation(sample, from_last)).sum();
        sum / graphs.len().max(1) as f64
    };
    // Random orders have correlations around 0, of a tenth at most in the mean.
    mean(1).max(mean(2)) > 0.5
}

/// The correlation of a node's number with a column, counted from the last.
fn correlation(sample: &Sample, from_last: usize) -> f64 {
    let Some(features) = &sample.node_feat else { return 0.0 };
    let Some(column) = features.width.checked_sub(from_last) else { return 0.0 };
    let values: Vec<f64> = (features.values.to_floats().iter().map(|&x| f64::from(x)))
        .skip(column)
        .step_by(features.width)
        .collect();
    let count = values.len() as f64;
    let (middle, mean) = ((count - 1.0) / 2.0, values.iter().sum::<f64>() / count);
    let (mut both, mut numbers, mut column) = (0.0, 0.0, 0.0);
    for (number, value) in values.iter().enumerate() {
        let (x, y) = (number as f64 - middle, value - mean);
        both += x * y;
        numbers += x * x;
        column += y * y;
    }
    let scale = (numbers * column).sqrt();
    if scale > 0.0 { both / scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Edges, Matrix, Values};
    use crate::graph::Graph;
    use crate::rng::Seed;

    fn grid(order: &[usize]) -> Sample {
        let centre = |&node: &usize| [0.5, (node / 8) as f32 / 8.0, (node % 8) as f32 / 8.0];
        let (graph, _) = Graph::from_pairs(order.len(), &[]).unwrap();
        let mut sample = Sample::bare(Edges::default(), graph, Default::default());
        let values = Values::Float(order.iter().flat_map(centre).collect());
        sample.node_feat = Some(Matrix { width: 3, values });
        sample
    }

    #[test]
    fn raster_order_is_told_from_random_order() {
        let ordered: Vec<usize> = (0..64).collect();
        let of = |samples| in_raster_order(&[samples, Vec::new(), Vec::new()]);
        assert!(of(vec![grid(&ordered); 3]));
        let shuffled = |i| {
            let mut order = ordered.clone();
            Seed(0).stream("test", i, 0).shuffle(&mut order);
            grid(&order)
        };
        assert!(!of((0..20).map(shuffled).collect()));
        assert!(!of(Vec::new()));
        assert!(!of(vec![grid(&[5])]));
    }
}

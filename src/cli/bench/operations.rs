//! How many floating-point operations a training step has, by counting.
//!
//! ```text
//! products   Σ over maps W [out, in]:  3 · 2 · rows · in · out
//! attention  layers · Σ over graphs:   3 · 4 · n² · dim
//! ```
//!
//! A product forward is followed by two of the same size backward, by its input and by its weights; attention
//! has two products (scores, and their use) and four backward. Whatever goes number by number is left out:
//! activations, norms, softmax, dropout, sums over arcs, the optimiser. What rows a map is applied to follows from
//! its name; the bias counts once for each distinct code, as it is computed. GRIT's attention has three products. In the
//! surroundings of SAT, PNA counts as it is computed, too: maps of rows that differ, and one after the aggregates of all towers.

use crate::nn::config::{Local, Pool};
use crate::nn::{Batch, Model};

/// Operations of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operations {
    /// In products with weights.
    pub products: u64,
    /// In products of attention.
    pub attention: u64,
}

/// How many there are of what maps are applied to, in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub graphs: usize,
    pub nodes: usize,
    pub arcs: usize,
    /// Ordered pairs of nodes inside graphs.
    pub pairs: usize,
    /// Distinct tuples of distances.
    pub codes: usize,
    /// Clusters that nodes attend to.
    pub clusters: usize,
    /// Nodes times the eigenvectors of their graph.
    pub frequencies: usize,
    /// Rows and arcs of the surroundings of all nodes, or of the graph.
    pub around: [usize; 2],
    /// Rows that send and rows that receive, of those that differ, in all layers of an extractor; 0 if they are not told apart.
    pub differing: [usize; 2],
}

impl Rows {
    pub(super) fn of(batch: &Batch) -> Rows {
        let levels = batch.subgraphs.as_ref().map_or(&[][..], |lists| &lists.levels);
        let received = levels.iter().map(|level| level.own.len());
        let sent = [batch.num_nodes()].into_iter().chain(received.clone()).take(levels.len());
        let around = batch.subgraphs.as_ref().map(|lists| [lists.nodes.len(), lists.arcs.len()]);
        let counts = batch.spectrum.as_ref().map_or(&[][..], |spectrum| &spectrum.counts);
        Rows {
            graphs: batch.num_graphs(),
            nodes: batch.num_nodes(),
            arcs: batch.num_arcs(),
            pairs: batch.sizes.iter().map(|size| size * size).sum(),
            codes: batch.codes.as_ref().map_or(0, |codes| codes.codebook().len()),
            clusters: batch.clusters.as_ref().map_or(0, |clusters| clusters.len()),
            frequencies: counts.iter().zip(&batch.sizes).map(|(count, size)| count * size).sum(),
            around: around.unwrap_or([batch.num_nodes(), batch.num_arcs()]),
            differing: [sent.sum(), received.sum()],
        }
    }
}

/// The operations of a training step of `model` on a batch with these rows.
pub(super) fn of(model: &Model, rows: &Rows) -> Operations {
    let product = |(name, shape): (&str, &[usize])| match shape {
        [outputs, inputs] => (6 * applied(name, model, rows) * outputs * inputs) as u64,
        _ => 0,
    };
    let maps = model.parameters.entries().iter().map(|entry| (&entry.name[..], &entry.shape[..]));
    let config = &model.config;
    let products_of_attention = if config.backbone == "grit" { 3 } else { 2 };
    Operations {
        products: maps.map(product).sum::<u64>() + folded(model, rows),
        attention: (products_of_attention * 6 * rows.pairs * config.dim * config.layers) as u64,
    }
}

/// Maps of PNA along rows that differ: terms of both ends tower by tower and states of rows that send, then aggregates of all towers.
fn folded(model: &Model, rows: &Rows) -> u64 {
    let config = &model.config;
    let Local::Pna { towers, aggregators } = &config.local else { return 0 };
    let ([sent, received], whole) = (rows.differing, config.dim.pow(2));
    let products = sent * (2 * whole / towers + whole) + received * aggregators.len() * whole;
    (6 * config.layers * products) as u64
}

/// The rows that the map of this name is applied to; 0 for tables, from which rows are only copied.
fn applied(name: &str, model: &Model, rows: &Rows) -> usize {
    let has = |words: &[&str]| name.split('.').any(|word| words.contains(&word));
    let is_table = |word: &str| word == "tables" || word.ends_with("_emb");
    if name.split('.').any(is_table) {
        0
    } else if has(&["hdse", "hdse_map"]) {
        rows.codes
    } else if has(&["gnn"]) && !has(&["edge_encoder"]) && rows.differing[1] > 0 {
        0 // in `folded`
    } else if has(&["gnn"]) {
        rows.around[usize::from(has(&["edge_encoder", "pre_nns"]))]
    } else if model.config.backbone == "grit" && has(&["E", "O_e", "rrwp_pair"]) {
        rows.pairs
    } else if has(&["head"]) && model.config.pool != Pool::None {
        rows.graphs
    } else if has(&["C", "gate", "edge_lin", "edge_encoder", "pre_nns"]) {
        rows.arcs
    } else if has(&["pe_lin1", "pe_lin2"]) {
        rows.frequencies
    } else {
        rows.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Edges;
    use crate::distance::Codes;
    use crate::nn::{ModelConfig, Spectrum};
    use crate::rng::Seed;

    /// Graphs of 3 and 2 nodes: 13 pairs, 4 arcs, and so many distinct codes of so many levels.
    fn batch(codes: u8, width: usize) -> Batch {
        let tuples: Vec<u8> = (0..13).flat_map(|pair| vec![pair % codes; width]).collect();
        Batch {
            sizes: vec![3, 2],
            edges: Edges { sources: vec![0, 1, 3, 4], targets: vec![1, 0, 4, 3] },
            codes: Some(Codes::from_tuples(&tuples, width)),
            ..Batch::default()
        }
    }

    fn operations(config: &str, batch: &Batch) -> Operations {
        let config: ModelConfig = serde_json::from_str(config).unwrap();
        of(&Model::new(&config, Seed(0)).unwrap(), &Rows::of(batch))
    }

    #[test]
    fn gine_with_random_walks_as_counted_by_hand() {
        let config = r#"{ "backbone": "gps", "dim": 8, "heads": 2, "layers": 3, "local": "gine",
            "node": { "types": 28 }, "edge": { "types": 4 }, "encoding": { "rwse": { "steps": 20, "dim": 4 } },
            "pool": "sum", "head": "san", "outputs": 1, "levels": 1 }"#;
        // Nodes (5): walks 20 × 4; in a layer in 8 × 24, out 8 × 8, feed-forward 2 · 8 × 16, GINE 2 · 8 × 8.
        let nodes = 5 * (80 + 3 * (192 + 64 + 256 + 128));
        // Codes (4): shared 16 × 8; in a layer 8 × 2. Graphs (2): 8 × 4, 4 × 2, 2 × 1.
        let (codes, graphs) = (4 * (128 + 3 * 16), 2 * (32 + 8 + 2));
        let expected =
            Operations { products: 6 * (nodes + codes + graphs), attention: 12 * 13 * 8 * 3 };
        assert_eq!(operations(config, &batch(4, 2)), expected);
        assert_eq!(expected, Operations { products: 64_728, attention: 3_744 });
    }

    #[test]
    fn gated_gcn_with_eigenvectors_as_counted_by_hand() {
        let config = r#"{ "backbone": "gps", "dim": 8, "heads": 4, "layers": 2, "local": "gatedgcn",
            "node": { "atoms": [9, 3] }, "edge": { "bonds": [5, 6] },
            "encoding": { "lappe": { "frequencies": 3, "dim": 2 } },
            "pool": "mean", "head": { "graphgym": 1 }, "outputs": 10, "levels": 0, "bias_dim": 4 }"#;
        let spectrum = Spectrum {
            frequencies: 3,
            vectors: vec![0.0; 15],
            values: vec![0.0; 6],
            counts: vec![3, 2],
        };
        let batch = Batch { spectrum: Some(spectrum), ..batch(3, 1) };
        // Frequencies (3 · 3 + 2 · 2 = 13): 2 × 4, 4 × 2.
        let frequencies = 13 * (8 + 8);
        // Nodes (5): in 192, out 64, feed-forward 256, A, B, D, E 64 each. Arcs (4): C 64.
        let layers = 2 * (5 * (192 + 64 + 256 + 256) + 4 * 64);
        // Codes (3): shared 4 × 4; in a layer 4 × 4. Graphs (2): 8 × 10.
        let (codes, graphs) = (3 * (16 + 2 * 16), 2 * 80);
        let products = 6 * (frequencies + layers + codes + graphs);
        let expected = Operations { products, attention: 12 * 13 * 8 * 2 };
        assert_eq!(operations(config, &batch), expected);
        assert_eq!(expected, Operations { products: 52_224, attention: 2_496 });
    }

    #[test]
    fn gt_for_nodes_as_counted_by_hand() {
        let config = r#"{ "backbone": "gt", "dim": 8, "heads": 2, "layers": 1, "node": { "linear": 3 },
            "bias": "none", "pool": "none", "head": { "plain": 2 }, "outputs": 2 }"#;
        // Nodes (5): features 3 × 8, keys and queries 8 × 16, values 8 × 8, out 8 × 8, feed-forward 2 · 8 × 16,
        // head 8 × 8, 8 × 2.
        let products = 6 * 5 * (24 + 128 + 64 + 64 + 256 + 64 + 16);
        let expected = Operations { products, attention: 12 * 13 * 8 };
        assert_eq!(operations(config, &batch(4, 2)), expected);
        assert_eq!(products, 18_480);
    }
}

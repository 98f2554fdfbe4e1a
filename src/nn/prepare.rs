//! From a sample of a data set to what a model reads.

use super::batch::{Batch, Spectrum};
use std::sync::Arc;

use super::config::{EdgeInput, Encoding, Extractor, Local, ModelConfig, NodeInput};
use super::subgraphs::Subgraphs;
use crate::data::{Matrix, Sample, Values};
use crate::distance::Codes;
use crate::encoding::{Laplacian, LaplacianEncoding, SelfLoops, Walk, random_walk};
use crate::{MemoryLimit, Result};

/// One graph, with the features and encodings that the model of `config` reads, as a batch of one.
/// Coordinates are put behind node features if the model reads as many numbers as both have. The distance
/// codes are needed unless `bias` is none.
///
/// ```
/// use hdse::data::{ReadOptions, read_bytes};
/// use hdse::nn::{Model, ModelConfig, Pass, prepare, values};
/// use hdse::{MemoryLimit, rng::Seed};
///
/// let text = r#"{"num_nodes": 3, "edge_index": [[0, 1, 1, 2], [1, 0, 2, 1]], "node_feat": [[0], [1], [0]]}"#;
/// let set = read_bytes("path.jsonl", text.into(), &ReadOptions::default())?;
/// let config: ModelConfig = serde_json::from_str(
///     r#"{ "backbone": "gt", "dim": 16, "heads": 2, "layers": 2, "node": { "types": 2 }, "bias": "none",
///          "encoding": { "rwse": { "steps": 4 } }, "pool": "none", "head": { "plain": 2 }, "outputs": 2 }"#,
/// )?;
/// let batch = prepare(&set.samples[0], &config, None, MemoryLimit::default())?;
/// let model = Model::new(&config, Seed(0))?;
/// let prediction = model.backbone.forward(&Pass::eval(&model.parameters), &batch)?;
/// assert_eq!(values(prediction).len(), 3 * 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn prepare(
    sample: &Sample,
    config: &ModelConfig,
    codes: Option<Codes>,
    limit: MemoryLimit,
) -> Result<Batch> {
    let nodes = sample.graph.num_nodes();
    let edges = sample.edges.clone();
    let (mut walks, mut spectrum) = (None, None);
    match &config.encoding {
        Encoding::None
        | Encoding::Degree { .. }
        | Encoding::Rrwp { .. }
        | Encoding::Node2Vec(_) => {}
        Encoding::Rwse { steps, self_loops, .. } => {
            let loops = if *self_loops { SelfLoops::Keep } else { SelfLoops::Drop };
            let walk = Walk::new(nodes, &edges.sources, &edges.targets, loops)?;
            let values = Values::Float(random_walk(&walk, *steps, limit)?);
            walks = Some(Matrix { width: *steps, values });
        }
        Encoding::LapPe { frequencies, laplacian, skip, .. }
        | Encoding::SignNet { frequencies, laplacian, skip, .. }
        | Encoding::EsLapPe { frequencies, laplacian, skip } => {
            spectrum = Some(lowest(sample, *laplacian, *frequencies, *skip, limit)?);
        }
    }
    let edge_features = match config.edge {
        EdgeInput::None | EdgeInput::Dummy => None,
        _ => sample.edge_attr.clone(),
    };
    let subgraphs = match config.extractor {
        Some(Extractor::Subgraph(hops)) => {
            let found = Subgraphs::new(nodes, &edges, hops, limit)?;
            // Other layers want to know of senders how much these receive.
            let alike = matches!(config.local, Local::Pna { .. });
            Some(Arc::new(if alike { found.with_levels(hops, limit)? } else { found }))
        }
        _ => None,
    };
    let walk_powers = match config.encoding {
        Encoding::Rrwp { steps } => {
            limit.check(
                (nodes as u128).pow(2) * 4 * steps as u128,
                &format!("{steps} walk probabilities for all pairs of {nodes} nodes"),
                "take fewer `steps` or smaller graphs, or raise the limit",
            )?;
            Some(steps)
        }
        _ => None,
    };
    let batch = Batch {
        sizes: vec![nodes],
        edges,
        node_features: node_features(sample, &config.node),
        edge_features,
        random_walk: walks,
        spectrum,
        codes,
        subgraphs,
        walk_powers,
        targets: sample.y.clone(),
        ..Batch::default()
    };
    super::encoder::check(&batch, config)?;
    Ok(batch)
}

fn lowest(
    sample: &Sample,
    laplacian: Laplacian,
    frequencies: usize,
    skip: usize,
    limit: MemoryLimit,
) -> Result<Spectrum> {
    let found = LaplacianEncoding::new(&sample.graph, laplacian, frequencies, skip, limit)?;
    Ok(Spectrum {
        frequencies,
        vectors: found.vectors,
        values: found.values.iter().map(|&value| value as f32).collect(),
        counts: vec![found.count],
    })
}

/// Node features, with coordinates behind them if the model reads as many numbers as both have.
fn node_features(sample: &Sample, input: &NodeInput) -> Option<Matrix> {
    let (Some(features), Some(positions), Some((_, width))) =
        (&sample.node_feat, &sample.pos, input.reals())
    else {
        return sample.node_feat.clone();
    };
    match features.width + positions.width == width {
        true => Some(features.beside(positions, sample.graph.num_nodes())),
        false => Some(features.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ReadOptions, read_bytes};

    fn features(node_feat: &str, pos: &str, width: usize) -> Matrix {
        let text = format!(
            r#"{{"num_nodes": 2, "edge_index": [[0], [1]], "node_feat": {node_feat}, "pos": {pos}}}"#
        );
        let set = read_bytes("a.jsonl", text.into(), &ReadOptions::default()).unwrap();
        node_features(&set.samples[0], &NodeInput::Linear(width)).unwrap()
    }

    #[test]
    fn coordinates_go_behind_features_if_the_model_is_that_wide() {
        let both = features("[[0.5], [1.5]]", "[[1.0, 2.0], [3.0, 4.0]]", 3);
        assert_eq!(both.values, Values::Float(vec![0.5, 1.0, 2.0, 1.5, 3.0, 4.0]));
        assert_eq!(features("[[0.5], [1.5]]", "[[1.0, 2.0], [3.0, 4.0]]", 1).width, 1);
        assert_eq!(features("[[0.5], [1.5]]", "[[], []]", 1).width, 1);
        let positions = features("[[], []]", "[[1.0], [3.0]]", 1);
        assert_eq!(positions.values, Values::Float(vec![1.0, 3.0]));
    }
}

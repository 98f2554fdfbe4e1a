//! Graphs made ready for training: coarsened, measured, encoded, once.

use rayon::prelude::*;

use crate::config::Config;
use crate::data::Sample;
use crate::distance::{Codes, Distances};
use crate::encode::{Encoder, Partitions};
use crate::monitor::{Monitor, check};
use crate::nn::config::BiasKind;
use crate::nn::{Batch, prepare};
use crate::rng::Seed;
use crate::{MemoryLimit, Result, coarsen};

/// Examples of all three parts of a set, a batch of one graph each.
#[derive(Clone, Debug, Default)]
pub struct Examples {
    /// To learn from.
    pub train: Vec<Batch>,
    /// To choose the best epoch by.
    pub val: Vec<Batch>,
    /// To report on.
    pub test: Vec<Batch>,
}

/// Makes the examples of one part of a set, graphs in parallel, results in order. `first` is the number of
/// the first graph within the whole set, which random choices of a coarsener follow.
pub fn examples(
    config: &Config,
    samples: &[Sample],
    first: usize,
    limit: MemoryLimit,
    monitor: &dyn Monitor,
) -> Result<Vec<Batch>> {
    let encoder = Encoder {
        partitions: Partitions::Coarsener(coarsen::parse(&config.hierarchy.coarsener)?),
        levels: config.model.levels,
        max_distance: config.model.max_distance.per_level(config.model.levels)?,
        seed: Seed(0),
        limit,
    };
    let example = |(number, sample): (usize, &Sample)| {
        check(monitor)?;
        let codes = match config.model.bias {
            BiasKind::None => None,
            _ => {
                let hierarchy = encoder.hierarchy(&sample.graph, first + number, monitor)?;
                let clip = &encoder.max_distance;
                let distances = Distances::new(&sample.graph, &hierarchy, clip, limit)?;
                Some(Codes::new(&distances))
            }
        };
        let batch = prepare(sample, &config.model, codes, limit);
        monitor.advance(1);
        batch.map_err(|e| e.context(format!("graph {number} (from 0)")))
    };
    samples.par_iter().enumerate().map(example).collect()
}

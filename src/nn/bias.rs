//! The distance bias: what attention adds for how far apart two nodes are, at every level.
//!
//! With tables E_k for the distances of level k, a shared map A and a map B_l for each layer l,
//!
//! ```text
//! mlp     H_l = B_l relu(A [E_0[d⁰]; …; E_K[d^K]])      (Luo et al. 2024, equation 6)
//! linear  H_l = B_l A [E_0[d⁰]; …; E_K[d^K]]            (their released GraphGPS)
//! ```
//!
//! one number for each head. `combine = sum` adds the rows instead of concatenating them; `linear` then
//! has no A (their released GT and SAT). Pairs with equal distances have equal biases, so everything
//! is evaluated once for each row of the codebook, tens to hundreds of rows, and looked up by the
//! attention. That is exact, and no array of pairs × width ever exists.

use burn::tensor::{Tensor, activation};

use super::batch::Batch;
use super::config::{BiasKind, Combine, ModelConfig, Unreachable};
use super::layers::{Embedding, Linear};
use super::parameters::{Init, Scope};
use super::pass::Pass;
use crate::distance::{Codebook, MaxDistance};
use crate::{Error, Result};

/// What distances mean, shared by all layers.
#[derive(Clone, Debug)]
pub struct Bias {
    /// From the lowest level on.
    tables: Vec<Embedding>,
    lowest: usize,
    shared: Option<Linear>,
    kind: BiasKind,
    combine: Combine,
    max_distance: MaxDistance,
    unreachable: Unreachable,
    pub(super) width: usize,
}

impl Bias {
    /// The bias of a configuration, under `hdse`, for pairs of nodes; none if there is to be none.
    pub fn new(scope: &mut Scope, config: &ModelConfig) -> Result<Option<Bias>> {
        match config.bias {
            BiasKind::None => Ok(None),
            BiasKind::Linear | BiasKind::Mlp => Ok(Some(Bias::from_level(scope, config, 0)?)),
            BiasKind::Scalar | BiasKind::Slope => Err(Error::config(format!(
                "`bias = \"{}\"` is for attention to clusters, which {} has not; take mlp, linear or none",
                format!("{:?}", config.bias).to_lowercase(),
                config.backbone
            ))),
        }
    }

    /// The bias of a configuration, under `hdse`, for distances of level `lowest` and above.
    pub fn from_level(scope: &mut Scope, config: &ModelConfig, lowest: usize) -> Result<Bias> {
        let max_distance = config.max_distance.per_level(config.levels)?;
        let width = config.bias_dim.unwrap_or(config.dim);
        let mut scope = scope.at("hdse");
        let levels = lowest..=config.levels;
        let count = levels.clone().count();
        let tables = levels
            .map(|level| {
                let own = usize::from(config.unreachable == Unreachable::Own);
                let rows = usize::from(max_distance.at(level)) + 1 + own;
                Embedding::new(scope.at("tables").at(level), rows, width, Init::Normal(1.0))
            })
            .collect();
        let inputs = match config.combine {
            Combine::Concat => count * width,
            Combine::Sum => width,
        };
        let shared = (config.combine, config.bias) != (Combine::Sum, BiasKind::Linear);
        let shared = shared.then(|| Linear::new(scope.at("proj"), inputs, width));
        Ok(Bias {
            tables,
            lowest,
            shared,
            kind: config.bias,
            combine: config.combine,
            max_distance,
            unreachable: config.unreachable,
            width,
        })
    }

    /// The map of one layer to its heads, under `hdse_map`.
    pub fn layer(&self, scope: &mut Scope, heads: usize) -> Linear {
        Linear::new(scope.at("hdse_map"), self.width, heads)
    }

    /// What goes into the maps of the layers, for each row of the codebook: `[codes, width]`.
    pub fn forward(&self, pass: &Pass, batch: &Batch) -> Result<Tensor<2>> {
        let Some(codes) = &batch.codes else {
            return Err(Error::data(
                "the model has a distance bias, but the batch has no distance codes; encode its \
                 graphs, or set `bias = \"none\"`",
            ));
        };
        self.of_codebook(pass, codes.codebook())
    }

    /// The same for each row of a codebook, whose columns are levels from the lowest on.
    pub fn of_codebook(&self, pass: &Pass, codebook: &Codebook) -> Result<Tensor<2>> {
        if codebook.width() < self.tables.len() {
            return Err(Error::data(format!(
                "the distance bias uses levels {} to {}, but there are distances of {} level(s) from {} on; \
                 encode with more `--levels`, or lower `levels`",
                self.lowest,
                self.lowest + self.tables.len() - 1,
                codebook.width(),
                self.lowest
            )));
        }
        let rows = self.tables.iter().enumerate().map(|(level, table)| {
            let distances = codebook.rows().chunks_exact(codebook.width()).map(|row| row[level]);
            table.forward(pass, distances.map(|distance| self.row(level, distance)).collect())
        });
        let combined = match self.combine {
            Combine::Concat => Tensor::cat(rows.collect(), 1),
            Combine::Sum => rows.reduce(|a, b| a + b).expect("there is a level"),
        };
        let mapped = match &self.shared {
            Some(shared) => shared.forward(pass, combined),
            None => combined,
        };
        Ok(if self.kind == BiasKind::Mlp { activation::relu(mapped) } else { mapped })
    }

    /// The row of a table, the lowest level's first, for a distance, 255 meaning unreachable.
    fn row(&self, level: usize, distance: u8) -> u32 {
        let clip = self.max_distance.at(self.lowest + level);
        match (distance, self.unreachable) {
            (u8::MAX, Unreachable::Own) => u32::from(clip) + 1,
            _ => u32::from(distance.min(clip)),
        }
    }
}

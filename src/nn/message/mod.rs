//! Message passing: what nodes learn from the arcs that end at them.
//!
//! One file for each layer. Arcs are used as given, in one direction if so given; messages are added
//! up in the order of the arcs, so results are the same each time.

mod gat;
mod gated_gcn;
mod gcn;
mod gine;
mod layer;
mod pna;
mod sage;

pub use gat::Gat;
pub use gated_gcn::GatedGcn;
pub use gcn::Gcn;
pub use gine::Gine;
pub use layer::{MessageLayer, check_arcs};
pub use pna::{Aggregator, Pna, PnaShape};
pub use sage::Sage;

use std::sync::Arc;

use burn::tensor::Tensor;

use super::ops::rows::{Groups, sum};
use super::pass::{Pass, matrix};

/// The mean of the rows of every group; 0 for a group without rows.
pub(super) fn mean(pass: &Pass, groups: &Arc<Groups>, rows: Tensor<2>) -> Tensor<2> {
    let factors: Vec<f32> = groups.sizes().map(|size| 1.0 / size.max(1) as f32).collect();
    let factors = matrix(factors, [groups.len(), 1], pass.device());
    sum(pass, groups, rows) * factors
}

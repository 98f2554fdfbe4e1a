//! The CPU path of hot backbones: all layers as one operation.
//!
//! A tape of tensor operations reads and writes every intermediate result through memory, operation by operation,
//! and that is where its time goes. Here the layers of a model are one differentiable operation instead. The
//! definition stays that of the composed path ([`gps`](super::gps), [`gt`](super::gt)), with the same parameters
//! under the same names; tests hold both together. On the CPU this path is taken unless a pass is
//! [traced](super::Pass::traced), composed, or told otherwise.
//!
//! | file | |
//! |---|---|
//! | `product` | matrix products in tiles, with what follows done before a tile is stored |
//! | `weights` | linear maps in the form that products want |
//! | `norm` | BatchNorm folded into its neighbours |
//! | `attention`, `bias` | biased attention, graph by graph, and the tables of its bias |
//! | `gine`, `gated_gcn` | sums over arcs |
//! | `lanes`, `team` | a batch dealt to lanes, worked through by a few threads that meet at barriers |
//! | `network`, `stack` | what a stack is made of, and its memory |
//! | `phase`, `forward`, `forward_message`, `backward`, `backward_message` | its two passes, phase by phase |
//! | `clock`, `profile` | where the time goes |
//!
//! A [`Team`] keeps the memory of a pass for the next.

pub(super) mod attention;
mod backward;
mod backward_message;
mod bias;
mod clock;
mod forward;
mod forward_message;
mod gated_gcn;
mod gine;
pub(super) mod lanes;
pub(super) mod network;
pub(super) mod norm;
mod phase;
pub(super) mod product;
pub(crate) mod profile;
mod stack;
mod team;
#[cfg(test)]
mod tests;
pub(super) mod weights;

pub use team::Team;

use std::sync::{Arc, Mutex};

use burn::tensor::Tensor;

use super::batch::Structure;
use super::ops::{apply, has_kernels};
use super::pass::Pass;
use network::{Network, PLACES};
use stack::{LayerCoins, Stack, UNBROKEN};

/// What layers work on besides the states of nodes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extras<'a> {
    /// States of arcs.
    pub arcs: Option<&'a Tensor<2>>,
    /// A row of the distance bias for each code.
    pub bias: Option<&'a Tensor<2>>,
    /// Positions for the edge gate.
    pub positions: Option<&'a Tensor<2>>,
}

/// The states of nodes after all layers; none where this path is not to be taken.
pub(super) fn run(
    pass: &Pass,
    structure: &Structure,
    network: &Arc<Network>,
    nodes: &Tensor<2>,
    extras: Extras,
) -> Option<Tensor<2>> {
    // In evaluation there are no derivatives to be had from here.
    let differentiable = pass.is_training() || !pass.device().is_autodiff();
    if !pass.is_fused() || !differentiable || !has_kernels(nodes) || network.layers.is_empty() {
        return None;
    }
    let lanes = structure.lanes();
    let codes = extras.bias.map_or(0, |bias| bias.dims()[0]);
    assert_eq!(extras.bias.is_some(), network.bias_width > 0, "a bias where layers have one");
    assert!(extras.bias.is_none() || lanes.codes() <= codes, "a row of the bias for each code");
    assert!(i32::try_from(codes).is_ok(), "codes are looked up by 32-bit numbers");
    let team = pass.team().clone();
    let mut workspace = team.take(network);
    workspace.prepare(network, &lanes, pass.parameters(), &team, pass.is_training());
    let shares = lanes.shares(team.size().min(lanes.groups()));
    let coins = |layer| LayerCoins::new(layer, |dropout| dropout.coins(pass));
    let stack = Arc::new(Stack {
        network: network.clone(),
        lanes,
        team,
        simd: pass.simd(),
        training: pass.is_training(),
        shares,
        coins: network.layers.iter().map(coins).collect(),
        codes,
        workspace: Mutex::new(workspace),
        gradients: pass.flat_gradients().clone(),
        parameters: pass.parameters().count(),
    });
    let or_nothing = |tensor: Option<&Tensor<2>>| match tensor {
        Some(tensor) => tensor.clone(),
        None => Tensor::zeros([1, 1], pass.device()),
    };
    let inputs = [extras.arcs, extras.bias, extras.positions].map(or_nothing);
    let [arcs, bias, positions] = inputs;
    let out = apply(&stack, [nodes.clone(), arcs, bias, positions]).ok()?;
    if pass.is_training() {
        let workspace = stack.workspace.lock().expect(UNBROKEN);
        for (packed, statistics) in workspace.layers.iter().zip(&workspace.statistics) {
            let packed = packed.read().expect(UNBROKEN);
            for (norm, place) in packed.norms.iter().zip(PLACES) {
                let found = statistics[place as usize].read().expect(UNBROKEN);
                norm.layer.update(pass, found.rows as usize, &found.mean, &found.variance);
            }
        }
    }
    Some(out)
}

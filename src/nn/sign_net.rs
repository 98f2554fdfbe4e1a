//! SignNet: positions of nodes from eigenvectors, whatever their signs (Lim et al. 2023), as GraphGPS has it.
//!
//! An eigenvector v times −1 is one, too. For every frequency f a network φ of message passing reads v_f and −v_f; the sum does not
//! depend on the sign. A network ρ then reads all frequencies, side by side (`concat`) or added up (`sum`):
//!
//! ```text
//! φ   x ← W₂ BN relu W₁ (x_i + Σ x_j over arcs j → i)       layer after layer, with BN between them
//! ρ   [φ(v_f) + φ(−v_f)]_f  →  (linear, relu, BN)…, linear
//! ```
//!
//! A row is a node, a frequency that its graph has, and a sign; in training, statistics of BatchNorm are of all of them.
//! Frequencies that a graph does not have give zeros.

use std::sync::Arc;

use burn::tensor::{Tensor, activation};

use super::batch::{Spectrum, Structure};
use super::config::Combine;
use super::layers::{BatchNorm, Linear};
use super::ops::propagate::{Propagation, propagate};
use super::ops::rows::{Groups, sum};
use super::parameters::Scope;
use super::pass::{Pass, matrix};
use crate::{Error, Result};

/// Both networks.
#[derive(Clone, Debug)]
pub struct SignNet {
    layers: Vec<Layer>,
    last: Vec<(Linear, Option<BatchNorm>)>,
    hidden: usize,
    width: usize,
    combine: Combine,
}

#[derive(Clone, Debug)]
struct Layer {
    before: Option<BatchNorm>,
    first: Linear,
    norm: BatchNorm,
    second: Linear,
}

/// Sizes of SignNet.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Frequencies.
    pub frequencies: usize,
    /// Width between the layers of both networks.
    pub hidden: usize,
    /// What φ gives for a frequency.
    pub width: usize,
    /// Layers of φ.
    pub layers: usize,
    /// Linear maps of ρ.
    pub post_layers: usize,
    /// What ρ gives.
    pub outputs: usize,
}

impl SignNet {
    /// Parameters `pe_phi.N` and `pe_rho.N`.
    pub fn new(scope: &mut Scope, sizes: Sizes, combine: Combine) -> SignNet {
        let Sizes { frequencies, hidden, width, layers, post_layers, outputs } = sizes;
        let layer = |number: usize| {
            let mut scope = scope.at("pe_phi");
            let mut scope = scope.at(number);
            let inputs = if number == 0 { 1 } else { hidden };
            let outputs = if number + 1 == layers { width } else { hidden };
            Layer {
                before: (number > 0).then(|| BatchNorm::new(scope.at("before"), inputs)),
                first: Linear::new(scope.at("lin1"), inputs, hidden),
                norm: BatchNorm::new(scope.at("norm"), hidden),
                second: Linear::new(scope.at("lin2"), hidden, outputs),
            }
        };
        let layers = (0..layers).map(layer).collect();
        let read = match combine {
            Combine::Concat => frequencies * width,
            Combine::Sum => width,
        };
        let map = |number: usize| {
            let mut scope = scope.at("pe_rho");
            let mut scope = scope.at(number);
            let is_last = number + 1 == post_layers;
            let inputs = if number == 0 { read } else { hidden };
            let to = if is_last { outputs } else { hidden };
            let map = Linear::new(scope.at("lin"), inputs, to);
            (map, (!is_last).then(|| BatchNorm::new(scope.at("norm"), to)))
        };
        SignNet { layers, last: (0..post_layers).map(map).collect(), hidden, width, combine }
    }

    /// `[nodes, outputs]`.
    ///
    /// # Errors
    /// If there are more rows than memory, or than numbers for them.
    pub fn forward(
        &self,
        pass: &Pass,
        structure: &Structure,
        spectrum: &Spectrum,
    ) -> Result<Tensor<2>> {
        let count =
            |&arc: &u32| spectrum.counts[structure.by_graph.of_row()[arc as usize] as usize];
        let rows = 2 * structure.by_graph.of_row().len() * spectrum.frequencies;
        let arcs = 2 * structure.by_source.of_row().iter().map(count).sum::<usize>();
        if rows.max(arcs) > i32::MAX as usize {
            return Err(Error::data(format!(
                "`encoding.signnet` has {rows} rows and {arcs} arcs in a batch, and numbers for 2³¹ of them; use smaller batches or fewer `frequencies`"
            )));
        }
        pass.check_rows(rows, 0, self.hidden, self.layers.len())?;
        let rows = SignedRows::new(structure, spectrum);
        let mut x = matrix(rows.entries.clone(), [rows.entries.len(), 1], pass.device());
        for layer in &self.layers {
            if let Some(norm) = &layer.before {
                x = norm.forward(pass, x);
            }
            let received = propagate(pass, &rows.arcs, x.clone());
            let hidden = activation::relu(layer.first.forward(pass, x + received));
            x = layer.second.forward(pass, layer.norm.forward(pass, hidden));
        }
        let nodes = structure.by_graph.of_row().len();
        let frequencies = spectrum.frequencies;
        let mut x = match self.combine {
            Combine::Concat => {
                let places = sum(pass, &Groups::new(rows.places, nodes * frequencies), x);
                places.reshape([nodes, frequencies * self.width])
            }
            Combine::Sum => {
                let node = rows.places.iter().map(|place| place / frequencies as u32);
                sum(pass, &Groups::new(node.collect(), nodes), x)
            }
        };
        for (map, norm) in &self.last {
            x = map.forward(pass, x);
            if let Some(norm) = norm {
                x = norm.forward(pass, activation::relu(x));
            }
        }
        Ok(x)
    }
}

/// Rows of φ: all entries of eigenvectors that there are, then the same times −1.
struct SignedRows {
    entries: Vec<f32>,
    /// Node × frequencies + frequency of every row.
    places: Vec<u32>,
    /// For every arc and frequency, twice: from the row where it starts to that where it ends.
    arcs: Arc<Propagation>,
}

impl SignedRows {
    fn new(structure: &Structure, spectrum: &Spectrum) -> SignedRows {
        let frequencies = spectrum.frequencies;
        let graphs = structure.by_graph.of_row();
        let count = |node: usize| spectrum.counts[graphs[node] as usize];
        let (mut entries, mut places, mut first) = (Vec::new(), Vec::new(), Vec::new());
        for node in 0..graphs.len() {
            first.push(places.len() as u32);
            let own = node * frequencies..node * frequencies + count(node);
            entries.extend_from_slice(&spectrum.vectors[own.clone()]);
            places.extend(own.map(|place| place as u32));
        }
        let rows = places.len();
        let [sources, targets] = [&structure.by_source, &structure.by_target].map(|groups| {
            let of_arc = |&node: &u32| {
                let node = node as usize;
                first[node]..first[node] + count(node) as u32
            };
            let mut ends: Vec<u32> = groups.of_row().iter().flat_map(of_arc).collect();
            ends.extend_from_within(..);
            let half = ends.len() / 2;
            ends[half..].iter_mut().for_each(|row| *row += rows as u32);
            Groups::new(ends, 2 * rows)
        });
        let ones = vec![1.0; sources.of_row().len()];
        let arcs = Arc::new(Propagation::new(sources, targets, ones));
        entries.extend_from_within(..);
        entries[rows..].iter_mut().for_each(|entry| *entry = -*entry);
        places.extend_from_within(..);
        SignedRows { entries, places, arcs }
    }
}

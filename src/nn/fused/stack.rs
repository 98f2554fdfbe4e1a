//! All layers of a model as one operation, and the memory it works in.

use std::sync::{Arc, Mutex, RwLock};

use super::attention;
use super::backward::Gradients;
use super::bias::BiasTables;
use super::clock::Clock;
use super::lanes::Lanes;
use super::network::{Local, Network, PLACES, Packed};
use super::norm::{Exchange, Statistics};
use super::product::Tosses;
use super::team::Team;
use crate::nn::layers::Dropout;
use crate::nn::ops::{self, Operation};
use crate::nn::parameters::Parameters;
use crate::rng::Coins;
use crate::simd::Simd;

/// The layers of a model on one batch.
#[derive(Debug)]
pub struct Stack {
    pub network: Arc<Network>,
    pub lanes: Arc<Lanes>,
    pub team: Arc<Team>,
    pub simd: Simd,
    pub training: bool,
    /// The lanes of each thread.
    pub shares: Vec<Vec<usize>>,
    /// Dropouts of every layer.
    pub coins: Vec<LayerCoins>,
    /// Rows of the distance bias.
    pub codes: usize,
    /// Holds packed weights at first, then all that the backward pass needs.
    pub workspace: Mutex<Workspace>,
    /// Where derivatives by parameters go: flat, as the parameters are.
    pub gradients: Arc<Mutex<Option<Vec<f32>>>>,
    /// How many parameters there are.
    pub parameters: usize,
}

/// The dropouts of a layer; none where nothing drops.
#[derive(Clone, Copy, Debug, Default)]
pub struct LayerCoins {
    pub weights: Option<Coins>,
    pub attention: Option<Coins>,
    pub inner: Option<Coins>,
    pub outer: Option<Coins>,
    pub local: Option<Coins>,
    pub edge: Option<Coins>,
}

impl LayerCoins {
    /// The coins of a layer, by what `coins` gives for a dropout.
    pub fn new(
        layer: &super::network::Layer,
        coins: impl Fn(&Dropout) -> Option<Coins>,
    ) -> LayerCoins {
        let (local, edge) = match &layer.local {
            Local::None => (None, None),
            Local::Gine { dropout, .. } => (coins(dropout), None),
            Local::GatedGcn { node_dropout, edge_dropout, .. } => {
                (coins(node_dropout), coins(edge_dropout))
            }
        };
        let [inner, outer] = &layer.feed_forward_dropout;
        LayerCoins {
            weights: coins(&layer.weight_dropout),
            attention: coins(&layer.attention_dropout),
            inner: coins(inner),
            outer: coins(outer),
            local,
            edge,
        }
    }
}

/// Memory of a pass, used again by the next.
#[derive(Debug, Default)]
pub struct Workspace {
    network: Option<Arc<Network>>,
    pub layers: Vec<RwLock<Packed>>,
    pub lanes: Vec<Mutex<LaneSpace>>,
    /// Of every [`Place`](super::network::Place).
    pub exchanges: [Exchange; PLACES.len()],
    /// Of both branches in the backward pass.
    pub branches: Exchange,
    /// By the bias of a layer.
    pub by_bias: Exchange,
    /// The distance bias of all layers.
    pub bias: BiasTables,
    /// Statistics of every layer and place.
    pub statistics: Vec<[RwLock<Statistics>; PLACES.len()]>,
    /// For each group of lanes, derivatives by the parameters of a layer; layers take turns.
    pub gradients: Vec<[RwLock<Vec<f32>>; 2]>,
    /// Time of each thread.
    pub clocks: Vec<Mutex<Clock>>,
}

/// Memory of one lane.
#[derive(Debug, Default)]
pub struct LaneSpace {
    /// Of every layer in training, else of one.
    pub layers: Vec<Kept>,
    /// Numbers of the first coin of every row: of nodes, between the maps of the feed-forward network, of arcs.
    pub firsts: [Vec<u32>; 3],
    /// 1/√(1 + degree)
    pub scales: Vec<f32>,
    /// Squared distances of the ends of arcs.
    pub distances: Vec<f32>,
    pub by_distances: Vec<f32>,
    pub scratch: attention::Scratch,
    /// The last state of nodes; in the backward pass, the derivative by the state.
    pub x: Vec<f32>,
    /// States of arcs that no layer changes.
    pub arcs: Vec<f32>,
    /// The derivative by the states of arcs.
    pub by_arcs: Vec<f32>,
    pub temporary: [Vec<f32>; 6],
}

/// What a layer keeps for its backward pass.
#[derive(Debug, Default)]
pub struct Kept {
    pub x: Vec<f32>,
    pub packed: Vec<f32>,
    pub weights: Vec<f32>,
    pub mixed: Vec<f32>,
    pub attended: Vec<f32>,
    pub local: KeptLocal,
    pub y: Vec<f32>,
    pub hidden: Vec<f32>,
    pub out: Vec<f32>,
}

/// What message passing keeps.
#[derive(Debug, Default)]
pub struct KeptLocal {
    /// GINE: the sum over arcs. GatedGCN: four maps of the nodes.
    pub first: Vec<f32>,
    /// GINE: between both maps. GatedGCN: gates of arcs.
    pub second: Vec<f32>,
    /// The result, before the BatchNorm of the layer.
    pub out: Vec<f32>,
    /// GatedGCN, for nodes: 1 / sum of gates, mean of what came, update.
    pub inverse: Vec<f32>,
    pub received: Vec<f32>,
    pub update: Vec<f32>,
    /// States of arcs before the layer.
    pub arcs: Vec<f32>,
    /// The edge gate of arcs.
    pub gate: Vec<f32>,
}

impl Workspace {
    /// Whether it was last used for this network.
    pub fn is_of(&self, network: &Arc<Network>) -> bool {
        self.network.as_ref().is_some_and(|own| Arc::ptr_eq(own, network))
    }

    /// Makes room for a network and takes over its parameters.
    pub fn prepare(
        &mut self,
        network: &Arc<Network>,
        lanes: &Lanes,
        parameters: &Parameters,
        team: &Team,
        training: bool,
    ) {
        if !self.is_of(network) {
            let packed = |layer| RwLock::new(Packed::new(network, layer, parameters));
            self.layers = network.layers.iter().map(packed).collect();
            self.statistics = network.layers.iter().map(|_| Default::default()).collect();
            self.bias = BiasTables::new(network, parameters);
            self.network = Some(network.clone());
        }
        let (count, groups) = (lanes.all().len(), lanes.groups());
        let exchanges = self.exchanges.iter_mut().chain([&mut self.branches]);
        exchanges.for_each(|exchange| exchange.resize(count));
        self.by_bias.resize(groups);
        self.lanes.resize_with(count.max(self.lanes.len()), Mutex::default);
        self.gradients.resize_with(groups.max(self.gradients.len()), Default::default);
        self.clocks.resize_with(team.size(), Mutex::default);
        let on = super::profile::is_on();
        for clock in &mut self.clocks {
            *clock.get_mut().expect(UNBROKEN) = Clock::new(on);
        }
        self.bias.pack(parameters, training);
        let workspace = &*self;
        team.run(usize::MAX, |member| {
            let mut clock = workspace.clocks[member.number].lock().expect(UNBROKEN);
            // The part of the parameters that the optimiser left in this thread's cache.
            for layer in &workspace.layers[member.share(workspace.layers.len())] {
                let mut layer = layer.write().expect(UNBROKEN);
                layer.pack(parameters, network.width(), training, &mut clock);
            }
            clock.stop();
        });
    }
}

pub const UNBROKEN: &str = "no thread of the team has failed";

/// The inputs of a stack, row by row as the batch has them.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// `[nodes, dim]`
    pub nodes: &'a [f32],
    /// `[arcs, dim]`
    pub arcs: &'a [f32],
    /// `[codes, width]`
    pub bias: &'a [f32],
    /// `[nodes, any]`
    pub positions: &'a [f32],
}

impl Stack {
    /// Where what a layer keeps is.
    pub fn kept(&self, layer: usize) -> usize {
        if self.training { layer } else { 0 }
    }
}

/// A buffer with room for `count` numbers.
pub fn fit(buffer: &mut Vec<f32>, count: usize) -> &mut [f32] {
    if buffer.len() < count {
        buffer.resize(count, 0.0);
    }
    &mut buffer[..count]
}

/// Dropout for the rows of a matrix.
pub fn tosses<'a>(coins: Option<&'a Coins>, firsts: &'a [u32]) -> Option<Tosses<'a>> {
    coins.map(|coins| Tosses { coins, firsts })
}

/// Rows of `from`, `width` apart, into padded rows.
pub fn gather(rows: &[u32], from: &[f32], width: usize, to: &mut Vec<f32>, padded: usize) {
    let to = fit(to, rows.len() * padded);
    for (&row, to) in rows.iter().zip(to.chunks_exact_mut(padded)) {
        to[..width].copy_from_slice(&from[row as usize * width..][..width]);
        to[width..].fill(0.0);
    }
}

/// Padded rows back to where they came from.
pub fn scatter(rows: &[u32], from: &[f32], padded: usize, to: &mut [f32], width: usize) {
    for (&row, from) in rows.iter().zip(from.chunks_exact(padded)) {
        to[row as usize * width..][..width].copy_from_slice(&from[..width]);
    }
}

impl Operation<4> for Stack {
    type Saved = ();

    fn shape(&self, shapes: [[usize; 2]; 4]) -> [usize; 2] {
        shapes[0]
    }

    fn forward(&self, [nodes, arcs, bias, positions]: [&[f32]; 4]) -> (Vec<f32>, ()) {
        (self.compute(Inputs { nodes, arcs, bias, positions }), ())
    }

    fn backward(&self, kept: ops::Kept<'_, (), 4>, by_out: &[f32]) -> [Vec<f32>; 4] {
        let [nodes, arcs, bias, positions] = kept.inputs;
        let inputs = Inputs { nodes, arcs, bias, positions };
        let Gradients { nodes, arcs, bias, positions, parameters } =
            self.differentiate(inputs, by_out);
        // Of two passes through a model, derivatives add up.
        let mut flat = self.gradients.lock().expect(UNBROKEN);
        match &mut *flat {
            Some(flat) => flat.iter_mut().zip(&parameters).for_each(|(sum, by)| *sum += by),
            None => *flat = Some(parameters),
        }
        drop(flat);
        [nodes, arcs, bias, positions]
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if let Ok(workspace) = self.workspace.get_mut() {
            let clocks = workspace.clocks.iter_mut();
            super::profile::add(
                clocks.filter_map(|clock| clock.get_mut().ok().map(|clock| &*clock)),
            );
            self.team.give(std::mem::take(workspace));
        }
    }
}

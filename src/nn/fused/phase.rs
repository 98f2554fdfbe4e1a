//! What every phase of a pass is told: the thread that it runs on, and the layer at hand.
//!
//! Between two barriers each [`Worker`] goes through its lanes. Phases are methods of it, in `forward`, `backward` and their
//! parts for message passing; what all of them share is here.

use std::sync::{MutexGuard, RwLockReadGuard};

use super::clock::{Clock, Kind};
use super::lanes::Lane;
use super::network::{Layer, Local, Packed, Place};
use super::norm::{Affine, Statistics};
use super::stack::{LaneSpace, LayerCoins, Stack, UNBROKEN, Workspace};
use super::team::Member;
use crate::simd::Simd;

/// A thread of the team in a pass.
#[derive(Debug)]
pub struct Worker<'a> {
    pub stack: &'a Stack,
    pub workspace: &'a Workspace,
    pub member: Member<'a>,
    pub clock: MutexGuard<'a, Clock>,
}

/// The layer at hand.
#[derive(Debug)]
pub struct At<'a> {
    pub number: usize,
    pub layer: &'a Layer,
    pub coins: &'a LayerCoins,
    pub packed: RwLockReadGuard<'a, Packed>,
}

/// A lane that belongs to a thread.
#[derive(Debug)]
pub struct Own<'a> {
    pub number: usize,
    /// Its group, and whether it is the first of it.
    pub group: (usize, bool),
    pub lane: &'a Lane,
    pub space: MutexGuard<'a, LaneSpace>,
}

impl At<'_> {
    /// Whether it has message passing.
    pub fn has_local(&self) -> bool {
        !matches!(self.layer.local, Local::None)
    }

    /// Whether that is GatedGCN, which has BatchNorms of its own.
    pub fn is_gated(&self) -> bool {
        matches!(self.layer.local, Local::GatedGcn { .. })
    }
}

impl<'a> Worker<'a> {
    /// The thread `member` of a pass.
    pub fn new(stack: &'a Stack, workspace: &'a Workspace, member: Member<'a>) -> Worker<'a> {
        let clock = workspace.clocks[member.number].lock().expect(UNBROKEN);
        Worker { stack, workspace, member, clock }
    }

    /// Its lanes, with their memory.
    pub fn own(&self) -> Vec<Own<'a>> {
        let own = |number: usize| Own {
            number,
            group: self.stack.lanes.group_of(number),
            lane: &self.stack.lanes.all()[number],
            space: self.workspace.lanes[number].lock().expect(UNBROKEN),
        };
        self.stack.shares[self.member.number].iter().copied().map(own).collect()
    }

    /// A layer.
    pub fn at(&self, number: usize) -> At<'a> {
        At {
            number,
            layer: &self.stack.network.layers[number],
            coins: &self.stack.coins[number],
            packed: self.workspace.layers[number].read().expect(UNBROKEN),
        }
    }

    /// Number of layers.
    pub fn layers(&self) -> usize {
        self.stack.network.layers.len()
    }

    /// Columns of a node's row.
    pub fn width(&self) -> usize {
        self.stack.network.width()
    }

    /// What products and passes over rows are done with.
    pub fn simd(&self) -> Simd {
        self.stack.simd
    }

    /// Meets the others, if there are statistics to share.
    pub fn meet(&mut self) {
        if self.stack.training {
            self.clock.to(Kind::Wait);
            self.member.meet();
            self.clock.to(Kind::Norm);
        }
    }

    /// Constants of a BatchNorm after a barrier; the first thread keeps the statistics.
    pub fn normalise(&self, at: &At, place: Place) -> Affine {
        let norm = at.packed.norm(place);
        if !self.stack.training {
            return norm.running.clone();
        }
        let lanes = self.stack.lanes.all().iter();
        let counts: Vec<usize> = match place {
            Place::Edge => lanes.map(Lane::num_arcs).collect(),
            _ => lanes.map(Lane::rows).collect(),
        };
        let exchange = &self.workspace.exchanges[place as usize];
        let statistics = Statistics::of_lanes(exchange, self.width(), &counts);
        let affine = statistics.forward(&norm.weight, &norm.bias);
        if self.member.number == 0 {
            let kept = &self.workspace.statistics[at.number][place as usize];
            *kept.write().expect(UNBROKEN) = statistics;
        }
        affine
    }

    /// What was kept of a BatchNorm.
    pub fn statistics(&self, layer: usize, place: Place) -> RwLockReadGuard<'a, Statistics> {
        self.workspace.statistics[layer][place as usize].read().expect(UNBROKEN)
    }
}

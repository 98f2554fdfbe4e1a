//! Moving single nodes between communities while that gains: the engine of `louvain`, `leiden` and
//! `label-propagation`, which differ in what a move is worth.
//!
//! Nodes are visited in an order drawn from the seed; a node is visited again only after a neighbour
//! has moved (pruning). The weight from a node to the communities around it is added up in a table
//! with one cell per community and a list of the cells in use: no hashing, and clearing costs as much as
//! filling.
//!
//! **Large graphs** are worked on in parallel, with the same result for any number of threads. Nodes are
//! taken in batches of fixed size. All nodes of a batch choose against the same state, in parallel;
//! then the choices are carried out one after the other. A choice whose neighbourhood has not changed
//! is right up to the masses of the two communities, which are looked at again; any other is made anew.
//! So every move gains, as if nodes had moved one by one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::Context;
use crate::rng::{Stream, mix};
use crate::{Graph, Partition, Result, monitor};

/// What a node gains from a community.
pub(super) trait Worth: Send + Sync {
    /// For a node of this `mass`: the worth of a community to which it has edges of this total `weight`,
    /// and which has this mass without the node.
    fn worth(&self, weight: f64, mass: f64, others: f64) -> f64;

    /// Whether a node may leave for a community of its own.
    const MAY_LEAVE: bool;
}

/// Nodes in communities, and what is known of both.
pub(super) struct Moving<'a, W> {
    graph: &'a Graph,
    worth: W,
    /// Of every node.
    mass: &'a [f64],
    community: Vec<u32>,
    /// Mixed into the choice between equal communities.
    salt: u64,
    work: &'a mut Workspace,
}

/// Arrays that are used again from level to level.
#[derive(Default)]
pub(super) struct Workspace {
    /// Of every community: mass and number of nodes.
    total: Vec<f64>,
    size: Vec<u32>,
    /// Communities without nodes.
    empty: Vec<u32>,
    /// Nodes to be visited.
    active: Vec<AtomicBool>,
    order: Vec<u32>,
    /// Place of every node in its batch, if it has chosen to move.
    place: Vec<u32>,
    tables: Tables,
}

impl Workspace {
    /// All nodes, in an order drawn from the stream. Nodes of a large graph stay together in runs, so
    /// that its rows are read from memory as they lie there.
    pub fn order(&mut self, graph: &Graph, stream: &mut Stream) -> Vec<u32> {
        let nodes = graph.num_nodes() as u32;
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        if is_large(graph) {
            let mut runs: Vec<u32> = (0..nodes).step_by(RUN as usize).collect();
            stream.shuffle(&mut runs);
            order.extend(runs.into_iter().flat_map(|start| start..(start + RUN).min(nodes)));
        } else {
            order.extend(0..nodes);
            stream.shuffle(&mut order);
        }
        order
    }

    /// A table for every thread that works on such a graph.
    pub fn tables(&mut self, graph: &Graph) -> Tables {
        let threads = if is_large(graph) { rayon::current_num_threads() } else { 1 };
        let mut tables = std::mem::take(&mut self.tables);
        tables.make_room(graph.num_nodes(), threads);
        tables
    }

    /// Takes back what was lent.
    pub fn give_back(&mut self, order: Vec<u32>, tables: Tables) {
        (self.order, self.tables) = (order, tables);
    }
}

/// When to stop before no move is left.
#[derive(Clone, Copy)]
pub(super) struct Until {
    /// A sweep that gained no more than this.
    pub gain: f64,
    /// So many sweeps.
    pub sweeps: usize,
}

impl Until {
    pub const NO_MOVE_IS_LEFT: Until = Until { gain: 0.0, sweeps: usize::MAX };
}

/// Whether a graph is worked on in batches: by its number of edges.
pub(super) fn is_large(graph: &Graph) -> bool {
    graph.num_edges() >= 1 << 15
}

/// A batch is this part of all nodes, and not fewer than so many.
const BATCHES: usize = 256;
const LEAST_BATCH: usize = 2048;
/// Nodes of a large graph that are visited in a row.
const RUN: u32 = 64;
/// What a task takes from a batch.
const TASK: usize = 256;

/// A move that a node has chosen.
#[derive(Clone, Copy)]
struct Move {
    node: u32,
    to: u32,
    weight_here: f64,
    weight_there: f64,
    gain: f64,
}

/// Stands for any community without nodes.
const NEW: u32 = u32::MAX;

impl<'a, W: Worth> Moving<'a, W> {
    /// Starts with the communities given, one number below the number of nodes for each node.
    pub fn new(
        graph: &'a Graph,
        mass: &'a [f64],
        community: Vec<u32>,
        worth: W,
        stream: &mut Stream,
        work: &'a mut Workspace,
    ) -> Self {
        let n = graph.num_nodes();
        let Workspace { total, size, empty, active, place, .. } = &mut *work;
        total.clear();
        total.resize(n, 0.0);
        size.clear();
        size.resize(n, 0);
        for (&c, mass) in community.iter().zip(mass) {
            total[c as usize] += mass;
            size[c as usize] += 1;
        }
        empty.clear();
        empty.extend((0..n as u32).rev().filter(|&c| size[c as usize] == 0));
        active.clear();
        active.resize_with(n, || AtomicBool::new(true));
        if is_large(graph) {
            place.clear();
            place.resize(n, u32::MAX);
        }
        Moving { graph, worth, mass, community, salt: stream.next_u64(), work }
    }

    /// Moves nodes until no move gains, or as told. The total gain: above 0 if any moved.
    pub fn run(&mut self, until: Until, stream: &mut Stream, context: &Context<'_>) -> Result<f64> {
        let order = self.work.order(self.graph, stream);
        let tables = self.work.tables(self.graph);
        let mut total = 0.0;
        for _ in 0..until.sweeps {
            monitor::check(context.monitor)?;
            let (moves, gain) = if is_large(self.graph) {
                // On a thread of the pool, so that batches don't go back and forth.
                rayon::scope(|_| self.sweep_in_batches(&order, &tables))
            } else {
                self.sweep(&order, &tables)
            };
            total += gain;
            if moves == 0 || gain <= until.gain {
                break;
            }
        }
        self.work.give_back(order, tables);
        Ok(total)
    }

    pub fn communities(&self) -> Partition {
        Partition::by_first_node(&self.community)
    }

    /// One node after the other; number of moves and total gain.
    fn sweep(&mut self, order: &[u32], tables: &Tables) -> (usize, f64) {
        let (mut moves, mut gain) = (0, 0.0);
        tables.with(|table| {
            for &node in order {
                if !*self.work.active[node as usize].get_mut() {
                    continue;
                }
                *self.work.active[node as usize].get_mut() = false;
                if let Some(chosen) = self.choose(node, table) {
                    self.carry_out(chosen);
                    self.wake_neighbors(node);
                    moves += 1;
                    gain += chosen.gain;
                }
            }
        });
        (moves, gain)
    }

    fn sweep_in_batches(&mut self, order: &[u32], tables: &Tables) -> (usize, f64) {
        let (mut moves, mut gain) = (0, 0.0);
        let mut place = std::mem::take(&mut self.work.place);
        let mut moved = Vec::new();
        for nodes in order.chunks(LEAST_BATCH.max(order.len() / BATCHES)) {
            let choose = |nodes: &[u32]| -> Vec<Move> {
                let due = |&&u: &&u32| self.work.active[u as usize].swap(false, Ordering::Relaxed);
                tables.with(|table| {
                    nodes.iter().filter(due).filter_map(|&u| self.choose(u, table)).collect()
                })
            };
            let batch: Vec<Move> = nodes.par_chunks(TASK).flat_map_iter(choose).collect();
            for (i, chosen) in (0..).zip(&batch) {
                place[chosen.node as usize] = i;
            }
            let is_stale = |(i, chosen): (usize, &Move)| {
                let neighbors = self.graph.neighbors(chosen.node);
                neighbors.iter().any(|&v| (place[v as usize] as usize) < i)
            };
            let stale: Vec<bool> =
                batch.par_iter().enumerate().with_min_len(TASK).map(is_stale).collect();
            moved.clear();
            tables.with(|table| {
                for (&chosen, stale) in batch.iter().zip(stale) {
                    place[chosen.node as usize] = u32::MAX;
                    let still = match stale {
                        true => self.choose(chosen.node, table),
                        false => self.look_again(chosen),
                    };
                    if let Some(still) = still {
                        self.carry_out(still);
                        moved.push(still.node);
                        gain += still.gain;
                    } else {
                        // It may find something else; if it has looked, it rests.
                        *self.work.active[chosen.node as usize].get_mut() = !stale;
                    }
                }
            });
            moves += moved.len();
            moved.par_iter().with_min_len(TASK).for_each(|&node| self.wake_neighbors(node));
        }
        self.work.place = place;
        (moves, gain)
    }

    /// The best community for a node, if it gains by leaving its own.
    fn choose(&self, node: u32, table: &mut Table) -> Option<Move> {
        let here = self.community[node as usize];
        table.fill(self.graph, node, &self.community);
        let mass = self.mass[node as usize];
        let worth = |c: u32, weight: f64| {
            let others = self.work.total[c as usize] - if c == here { mass } else { 0.0 };
            self.worth.worth(weight, mass, others)
        };
        let weight_here = table.weight[here as usize];
        let stay = worth(here, weight_here);
        let (mut to, mut best, mut weight_there) = (here, stay, weight_here);
        // A margin against rounding, so that equal moves never alternate.
        let margin = MARGIN * (weight_here + mass);
        for &c in table.keys.iter().filter(|&&c| c != here) {
            let weight = table.weight[c as usize];
            let value = worth(c, weight);
            let equal = (value - best).abs() <= margin && value > stay + margin;
            if value > best + margin || equal && to != here && self.comes_first(c, to) {
                (to, best, weight_there) = (c, value, weight);
            }
        }
        if W::MAY_LEAVE && best < -margin && self.work.size[here as usize] > 1 {
            (to, best, weight_there) = (NEW, 0.0, 0.0);
        }
        table.clear();
        (to != here).then_some(Move { node, to, weight_here, weight_there, gain: best - stay })
    }

    /// The same move against the masses as they are now.
    fn look_again(&self, chosen: Move) -> Option<Move> {
        let Move { node, to, weight_here, weight_there, .. } = chosen;
        let mass = self.mass[node as usize];
        let here = self.community[node as usize] as usize;
        let stay = self.worth.worth(weight_here, mass, self.work.total[here] - mass);
        if to == NEW && self.work.size[here] == 1 {
            return None;
        }
        let others = if to == NEW { 0.0 } else { self.work.total[to as usize] };
        let gain = self.worth.worth(weight_there, mass, others) - stay;
        (gain > MARGIN * (weight_here + mass)).then_some(Move { gain, ..chosen })
    }

    fn carry_out(&mut self, chosen: Move) {
        let node = chosen.node as usize;
        let from = self.community[node] as usize;
        self.work.total[from] -= self.mass[node];
        self.work.size[from] -= 1;
        let to = match chosen.to {
            NEW => {
                self.work.empty.pop().expect("a node that leaves others leaves an unused number")
            }
            to => to,
        };
        self.community[node] = to;
        self.work.total[to as usize] += self.mass[node];
        self.work.size[to as usize] += 1;
        if self.work.size[from] == 0 {
            self.work.total[from] = 0.0;
            self.work.empty.push(from as u32);
        }
    }

    fn wake_neighbors(&self, node: u32) {
        let own = self.community[node as usize];
        for &v in self.graph.neighbors(node) {
            if self.community[v as usize] != own {
                self.work.active[v as usize].store(true, Ordering::Relaxed);
            }
        }
    }

    /// An order of communities that means nothing.
    fn comes_first(&self, a: u32, b: u32) -> bool {
        mix(self.salt ^ u64::from(a)) < mix(self.salt ^ u64::from(b))
    }
}

/// Relative to the weight and mass of a node.
const MARGIN: f64 = 1e-12;

/// Weight from one node to the communities around it.
#[derive(Default)]
pub(super) struct Table {
    pub weight: Vec<f64>,
    pub keys: Vec<u32>,
}

impl Table {
    #[inline]
    pub fn add(&mut self, community: u32, weight: f64) {
        let cell = &mut self.weight[community as usize];
        // A cell of edges without weight is listed more than once, which harms nobody.
        if *cell == 0.0 {
            self.keys.push(community);
        }
        *cell += weight;
    }

    fn fill(&mut self, graph: &Graph, node: u32, community: &[u32]) {
        graph.for_each_neighbor(node, |v, w| self.add(community[v as usize], w));
    }

    pub fn clear(&mut self) {
        for c in self.keys.drain(..) {
            self.weight[c as usize] = 0.0;
        }
    }
}

/// One table per thread.
#[derive(Default)]
pub(super) struct Tables(Vec<Mutex<Table>>);

impl Tables {
    fn make_room(&mut self, communities: usize, threads: usize) {
        self.0.resize_with(threads.max(self.0.len()), Default::default);
        for table in &mut self.0[..threads] {
            let table = table.get_mut().expect("no panic while a table is lent");
            if table.weight.len() < communities {
                // Anew, not grown: memory that is never touched then costs nothing.
                table.weight = vec![0.0; communities];
            }
        }
    }

    /// Lends this thread's table, which must be given back clear. Nothing parallel may be started
    /// meanwhile: it could come back to the same table.
    pub fn with<T>(&self, use_table: impl FnOnce(&mut Table) -> T) -> T {
        let thread = rayon::current_thread_index().unwrap_or(0) % self.0.len();
        let mut table = self.0[thread].lock().expect("no panic while a table is lent");
        use_table(&mut table)
    }
}

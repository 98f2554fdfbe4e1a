//! Where the time of a step goes, kernel by kernel.

use std::time::{Duration, Instant};

/// What a thread can be doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Matrix products forward.
    Forward,
    /// Matrix products backward, for inputs.
    Backward,
    /// Matrix products backward, for weights.
    Gradient,
    /// Attention.
    Attention,
    /// Sums over arcs.
    Message,
    /// BatchNorm and other passes over rows.
    Norm,
    /// Packing weights.
    Pack,
    /// Adding up the gradients of lanes.
    Reduce,
    /// The distance bias of all layers.
    Bias,
    /// Copying rows in and out.
    Copy,
    /// Waiting for other threads.
    Wait,
}

impl Kind {
    /// Every kind with its name.
    pub const ALL: [(Kind, &'static str); 11] = [
        (Kind::Forward, "products, forward"),
        (Kind::Backward, "products, by inputs"),
        (Kind::Gradient, "products, by weights"),
        (Kind::Attention, "attention"),
        (Kind::Message, "sums over arcs"),
        (Kind::Norm, "BatchNorm"),
        (Kind::Pack, "packing weights"),
        (Kind::Reduce, "adding up gradients"),
        (Kind::Bias, "distance bias"),
        (Kind::Copy, "copying rows"),
        (Kind::Wait, "waiting"),
    ];
}

/// Counts the time of one thread; costs nothing unless it is on.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    now: Option<(Instant, Kind)>,
    paused: bool,
    times: [Duration; Kind::ALL.len()],
}

impl Clock {
    /// A clock that runs, or one that does not.
    pub fn new(on: bool) -> Clock {
        Clock { now: on.then(|| (Instant::now(), Kind::Copy)), ..Clock::default() }
    }

    /// Until [`Clock::to`], no time is counted.
    pub fn stop(&mut self) {
        self.to(Kind::Wait);
        self.paused = true;
    }

    /// From now on, time is spent on `kind`.
    #[inline]
    pub fn to(&mut self, kind: Kind) {
        if let Some((since, of)) = &mut self.now {
            let now = Instant::now();
            if !std::mem::take(&mut self.paused) {
                self.times[*of as usize] += now - *since;
            }
            (*since, *of) = (now, kind);
        }
    }

    /// The time of every kind so far.
    pub fn times(&self) -> [Duration; Kind::ALL.len()] {
        self.times
    }
}

//! A few threads that do one thing together.
//!
//! Every member of a [`Team`] runs the same function on its own share, and all meet at barriers. Tasks and queues
//! cost more than a phase of work here takes, some ten microseconds. Members wait by turning in a loop, for a short
//! while; they sleep between runs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::lanes::GROUPS;
use super::stack::Workspace;
use crate::{Error, Result};

/// Threads that stay, and memory that is used again.
#[derive(Debug, Default)]
pub struct Team {
    /// None for a team of one: the caller.
    pool: Option<rayon::ThreadPool>,
    spare: Mutex<Vec<Workspace>>,
}

impl Team {
    /// A team of `threads`, at least one.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn new(threads: usize) -> Result<Team> {
        if threads <= 1 {
            return Ok(Team::default());
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|number| format!("hdse-team-{number}"))
            .build()
            .map_err(|e| Error::config(format!("{threads} threads cannot be started: {e}")))?;
        Ok(Team { pool: Some(pool), spare: Mutex::default() })
    }

    /// A team as large as the current thread pool, as far as more threads are of use.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn current() -> Result<Team> {
        Team::new(rayon::current_num_threads().min(GROUPS))
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.pool.as_ref().map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// Runs `work` on every member at once.
    ///
    /// # Panics
    /// If a member does; the others are let go.
    pub(crate) fn run(&self, work: impl Fn(Member) + Sync) {
        let barrier = Barrier::new(self.size());
        let work = |number| {
            let member = Member { number, barrier: &barrier };
            let alarm = Alarm(&barrier);
            work(member);
            std::mem::forget(alarm);
        };
        match &self.pool {
            Some(pool) => {
                pool.broadcast(|context| work(context.index()));
            }
            None => work(0),
        }
    }

    /// Shares so many things among the members, each a piece of about equal length.
    pub(crate) fn share(&self, count: usize, work: impl Fn(std::ops::Range<usize>) + Sync) {
        self.run(|member| work(member.share(count)));
    }

    /// Memory of an earlier run, if there is some.
    pub(super) fn take(&self) -> Workspace {
        self.spare.lock().map(|mut spare| spare.pop()).ok().flatten().unwrap_or_default()
    }

    /// Gives memory back.
    pub(super) fn give(&self, workspace: Workspace) {
        if let Ok(mut spare) = self.spare.lock() {
            spare.push(workspace);
        }
    }
}

/// Which thread of a team this is.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// From 0.
    pub number: usize,
    barrier: &'a Barrier,
}

impl Member<'_> {
    /// Members in all.
    pub fn of(&self) -> usize {
        self.barrier.members
    }

    /// Waits for all others.
    pub fn meet(&self) {
        self.barrier.wait();
    }

    /// This member's share of so many things: an equal part, in one piece.
    pub fn share(&self, count: usize) -> std::ops::Range<usize> {
        count * self.number / self.of()..count * (self.number + 1) / self.of()
    }
}

#[derive(Debug)]
struct Barrier {
    members: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
    broken: AtomicBool,
}

/// Turns in the loop before a waiting thread lets others run.
const PATIENCE: usize = 4000;

impl Barrier {
    fn new(members: usize) -> Barrier {
        let [arrived, round] = [0, 0].map(AtomicUsize::new);
        Barrier { members, arrived, round, broken: AtomicBool::new(false) }
    }

    fn wait(&self) {
        if self.members == 1 {
            return;
        }
        let round = self.round.load(Ordering::Relaxed);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.members {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut turns = 0;
        while self.round.load(Ordering::Acquire) == round {
            assert!(!self.broken.load(Ordering::Relaxed), "another thread of the team failed");
            turns += 1;
            if turns < PATIENCE { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// Tells those who wait that nobody will come.
struct Alarm<'a>(&'a Barrier);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0.broken.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_a_barrier_before_all_are_there() {
        for threads in [1, 2, 3, 5] {
            let team = Team::new(threads).unwrap();
            let counts: Vec<AtomicUsize> = (0..50).map(|_| AtomicUsize::new(0)).collect();
            team.run(|member| {
                for count in &counts {
                    count.fetch_add(1, Ordering::Relaxed);
                    member.meet();
                    assert_eq!(count.load(Ordering::Relaxed), threads);
                }
            });
        }
    }

    #[test]
    fn shares_cover_all_once() {
        let team = Team::new(3).unwrap();
        let taken: Vec<AtomicUsize> = (0..10).map(|_| AtomicUsize::new(0)).collect();
        team.run(|member| {
            for i in member.share(10) {
                taken[i].fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(taken.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    #[test]
    #[should_panic(expected = "team")]
    fn a_panic_reaches_the_caller() {
        let team = Team::new(2).unwrap();
        team.run(|member| {
            assert!(member.number == 0, "a failure in the team");
            member.meet();
        });
    }
}

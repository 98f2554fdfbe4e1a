//! A few threads that do one thing together.
//!
//! Every member of a [`Team`] runs the same function on its own share, and all meet at barriers. Tasks and queues
//! cost more than a phase of work here takes, some hundred microseconds. Members wait by turning in a loop, for a short
//! while; between runs they sleep.

use std::any::Any;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::lanes::GROUPS;
use super::network::Network;
use super::stack::Workspace;
use crate::{Error, Result};

/// Threads that stay, and memory that is used again. The caller is one of the team; several callers take turns.
#[derive(Debug, Default)]
pub struct Team {
    others: Vec<JoinHandle<()>>,
    board: Arc<Board>,
    turn: Mutex<()>,
    spare: Mutex<Vec<Workspace>>,
    gradients: Mutex<Vec<f32>>,
}

impl Team {
    /// A team of `threads`, at least one.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn new(threads: usize) -> Result<Team> {
        let mut team = Team::default();
        for number in 1..threads {
            let board = team.board.clone();
            let thread = std::thread::Builder::new()
                .name(format!("hdse-team-{number}"))
                .spawn(move || board.work(number))
                .map_err(|e| Error::config(format!("{threads} threads cannot be started: {e}")))?;
            team.others.push(thread);
        }
        Ok(team)
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
        self.others.len() + 1
    }

    /// Runs `work` on every member at once, or on the first so many. Must not be called from within.
    ///
    /// # Panics
    /// If a member does; the others are let go.
    pub(crate) fn run(&self, most: usize, work: impl Fn(Member) + Sync) {
        let members = self.size().min(most.max(1));
        let barrier = Barrier::new(members);
        let work = |number| {
            if number >= members {
                return;
            }
            let member = Member { number, barrier: &barrier };
            let alarm = Alarm(&barrier);
            work(member);
            std::mem::forget(alarm);
        };
        if members == 1 {
            return work(0);
        }
        let _turn = unpoisoned(self.turn.lock());
        self.board.post(&work, self.others.len());
        let own = catch_unwind(AssertUnwindSafe(|| work(0)));
        // Whatever happened here: others may still be using `work`.
        let theirs = self.board.finish();
        // Some may have failed because another did.
        let panics = own.err().into_iter().chain(theirs);
        if let Some(panic) = panics.min_by_key(|panic| panic.is::<Abandoned>()) {
            resume_unwind(panic);
        }
    }

    /// Shares so many things among the members, each a piece of about equal length.
    pub(crate) fn share(&self, count: usize, work: impl Fn(Range<usize>) + Sync) {
        self.run(count, |member| work(member.share(count)));
    }

    /// Hands one thing after another to whichever member is free.
    pub(crate) fn each<T: Send>(
        &self,
        things: impl IntoIterator<Item = T>,
        work: impl Fn(T) + Sync,
    ) {
        let things: Vec<Mutex<Option<T>>> =
            things.into_iter().map(|thing| Mutex::new(Some(thing))).collect();
        let next = AtomicUsize::new(0);
        self.run(things.len(), |_| {
            while let Some(thing) = things.get(next.fetch_add(1, Ordering::Relaxed)) {
                unpoisoned(thing.lock()).take().into_iter().for_each(&work);
            }
        });
    }

    /// Hands pieces of rows of `width` numbers, with the number of their first row, to whichever member is free.
    pub(crate) fn share_rows(
        &self,
        rows: &mut [f32],
        width: usize,
        work: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        let piece = (rows.len() / width.max(1)).div_ceil(PIECES).max(SHORTEST);
        let pieces = rows.chunks_mut(piece * width.max(1)).enumerate();
        self.each(pieces, |(number, rows)| work(number * piece, rows));
    }

    /// Makes an array of pieces, one for each thing, with room for so many numbers. Whichever member is free gets a thing and the memory for
    /// its piece, which it clears as it takes it: an array that is cleared before it is filled goes through memory twice.
    pub(crate) fn make<T: Send>(
        &self,
        things: impl IntoIterator<Item = T>,
        room: impl Fn(&T) -> usize,
        work: impl Fn(T, &mut Fresh) + Sync,
    ) -> Vec<f32> {
        let things: Vec<T> = things.into_iter().collect();
        let count = things.iter().map(&room).sum();
        let mut numbers = Vec::with_capacity(count);
        let mut rest = &mut numbers.spare_capacity_mut()[..count];
        let mut places = Vec::with_capacity(things.len());
        for thing in things {
            let place = rest.split_off_mut(..room(&thing)).expect("as much as all have");
            places.push((thing, place));
        }
        assert!(rest.is_empty(), "a thing has the same room each time");
        self.each(places, |(thing, place)| {
            let mut fresh = Fresh(place);
            work(thing, &mut fresh);
            fresh.rest();
        });
        // SAFETY: pieces cover as many numbers, and nothing of any piece is left to be cleared.
        unsafe { numbers.set_len(count) };
        numbers
    }

    /// The same of rows of `width` numbers, in pieces that stay in the cache; each goes with the number of its first row.
    pub(crate) fn make_rows(
        &self,
        rows: usize,
        width: usize,
        work: impl Fn(usize, &mut [f32]) + Sync,
    ) -> Vec<f32> {
        let most = (CACHED / width.max(1)).max(SHORTEST);
        let piece = rows.div_ceil(PIECES).clamp(SHORTEST, most);
        let firsts = (0..rows).step_by(piece);
        let room = |first: &usize| piece.min(rows - first) * width;
        self.make(firsts, room, |first, fresh| work(first, fresh.rest()))
    }

    /// Memory of an earlier run, of the same network if there is some.
    pub(super) fn take(&self, network: &Arc<Network>) -> Workspace {
        let mut spare = unpoisoned(self.spare.lock());
        let place = spare.iter().position(|workspace| workspace.is_of(network));
        match place.or(spare.len().checked_sub(1)) {
            Some(place) => spare.swap_remove(place),
            None => Workspace::default(),
        }
    }

    /// So many zeros.
    pub(super) fn zeros(&self, count: usize) -> Vec<f32> {
        let mut zeros = std::mem::take(&mut *unpoisoned(self.gradients.lock()));
        zeros.clear();
        zeros.resize(count, 0.0);
        zeros
    }

    /// Takes back the derivatives of a pass when they have been used: a megabyte or more, which the system would
    /// have to give anew.
    pub(crate) fn recycle(&self, gradients: Vec<f32>) {
        *unpoisoned(self.gradients.lock()) = gradients;
    }

    /// Gives memory back.
    pub(super) fn give(&self, workspace: Workspace) {
        let mut spare = unpoisoned(self.spare.lock());
        if spare.len() < SPARE {
            spare.push(workspace);
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        unpoisoned(self.board.state.lock()).stop = true;
        self.board.posted.notify_all();
        for thread in self.others.drain(..) {
            // Panics of work have been passed on.
            let _ = thread.join();
        }
    }
}

type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// Where work is posted for the other threads.
#[derive(Debug, Default)]
struct Board {
    state: Mutex<State>,
    /// How often something was posted.
    round: AtomicU64,
    posted: Condvar,
    finished: Condvar,
}

#[derive(Default)]
struct State {
    work: Option<&'static Work<'static>>,
    round: u64,
    /// Threads that are not done with it.
    left: usize,
    panics: Vec<Box<dyn Any + Send>>,
    stop: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("round", &self.round).finish_non_exhaustive()
    }
}

impl Board {
    /// Posts work for so many threads. Whoever does must call [`Board::finish`] before `work` ends.
    fn post<'a>(&self, work: &'a Work<'a>, threads: usize) {
        // SAFETY: the reference is given up in `finish`, which waits for all who use it.
        let work = unsafe { std::mem::transmute::<&'a Work<'a>, &'static Work<'static>>(work) };
        let mut state = unpoisoned(self.state.lock());
        state.work = Some(work);
        state.left = threads;
        state.round += 1;
        self.round.store(state.round, Ordering::Release);
        drop(state);
        self.posted.notify_all();
    }

    /// Waits until all are done, and takes the work down. Gives their panics.
    fn finish(&self) -> Vec<Box<dyn Any + Send>> {
        let state = unpoisoned(self.state.lock());
        let mut state = unpoisoned(self.finished.wait_while(state, |state| state.left > 0));
        state.work = None;
        std::mem::take(&mut state.panics)
    }

    /// What another thread does all the time.
    fn work(&self, number: usize) {
        let mut round = 0;
        loop {
            // The next work is often not far.
            let mut turns = 0;
            while self.round.load(Ordering::Acquire) == round && turns < PATIENCE {
                std::hint::spin_loop();
                turns += 1;
            }
            let state = unpoisoned(self.state.lock());
            let idle = |state: &mut State| state.round == round && !state.stop;
            let state = unpoisoned(self.posted.wait_while(state, idle));
            if state.stop {
                return;
            }
            round = state.round;
            let work = state.work;
            drop(state);
            let result = catch_unwind(AssertUnwindSafe(|| work.map(|work| work(number))));
            let mut state = unpoisoned(self.state.lock());
            if let Err(panic) = result {
                state.panics.push(panic);
            }
            state.left -= 1;
            if state.left == 0 {
                self.finished.notify_one();
            }
        }
    }
}

/// A lock that a panic elsewhere has not made useless: what it guards is whole at all times.
fn unpoisoned<'a, T>(
    lock: std::result::Result<MutexGuard<'a, T>, PoisonError<MutexGuard<'a, T>>>,
) -> MutexGuard<'a, T> {
    lock.unwrap_or_else(PoisonError::into_inner)
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
    pub fn share(&self, count: usize) -> Range<usize> {
        share(count, self.number, self.of())
    }
}

/// The share of member `number` of so many things.
pub fn share(count: usize, number: usize, members: usize) -> Range<usize> {
    count * number / members..count * (number + 1) / members
}

#[derive(Debug)]
struct Barrier {
    members: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
    broken: AtomicBool,
}

/// Memory for a piece of an array, cleared as it is taken.
#[derive(Debug)]
pub(crate) struct Fresh<'a>(&'a mut [MaybeUninit<f32>]);

impl<'a> Fresh<'a> {
    /// The next so many numbers, all 0.
    pub(crate) fn next(&mut self, count: usize) -> &'a mut [f32] {
        let place = self.0.split_off_mut(..count).expect("no more than there are");
        place.fill(MaybeUninit::new(0.0));
        // SAFETY: it has just been filled.
        unsafe { place.assume_init_mut() }
    }

    /// All that are left.
    pub(crate) fn rest(&mut self) -> &'a mut [f32] {
        self.next(self.0.len())
    }
}

/// Pieces that rows are cut into, and how short they may be.
const PIECES: usize = 64;
const SHORTEST: usize = 16;
/// Numbers of a piece that is to stay in the cache.
const CACHED: usize = 1 << 16;

/// How much memory is kept: for a model, and for another that takes turns with it.
const SPARE: usize = 2;

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
            if self.broken.load(Ordering::Relaxed) {
                resume_unwind(Box::new(Abandoned));
            }
            turns += 1;
            if turns < PATIENCE { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// The panic of a thread whose fellow failed.
struct Abandoned;

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
            team.run(usize::MAX, |member| {
                for count in &counts {
                    count.fetch_add(1, Ordering::Relaxed);
                    member.meet();
                    assert_eq!(count.load(Ordering::Relaxed), threads);
                }
            });
        }
    }

    #[test]
    fn pieces_lie_in_order_and_what_nobody_took_is_zero() {
        for threads in [1, 3] {
            let team = Team::new(threads).unwrap();
            let made = team.make(
                0..20usize,
                |&thing| thing,
                |thing, fresh| {
                    assert!(fresh.next(thing / 2).iter().all(|x| *x == 0.0));
                    if thing.is_multiple_of(3) {
                        fresh.rest().fill(thing as f32);
                    }
                },
            );
            let piece = |thing: usize| {
                let value = move |i: usize| {
                    if thing.is_multiple_of(3) && i >= thing / 2 { thing } else { 0 }
                };
                (0..thing).map(move |i| value(i) as f32)
            };
            assert!(made.into_iter().eq((0..20).flat_map(piece)));
            let rows = team.make_rows(1000, 3, |first, rows| {
                for (i, row) in rows.as_chunks_mut::<3>().0.iter_mut().enumerate() {
                    row.fill((first + i) as f32);
                }
            });
            assert!(rows.into_iter().eq((0..3000).map(|i| (i / 3) as f32)));
            assert!(team.make_rows(0, 3, |_, _| unreachable!()).is_empty());
        }
    }

    #[test]
    fn shares_cover_all_once() {
        let team = Team::new(3).unwrap();
        let taken: Vec<AtomicUsize> = (0..10).map(|_| AtomicUsize::new(0)).collect();
        team.run(usize::MAX, |member| {
            for i in member.share(10) {
                taken[i].fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(taken.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_goes_on() {
        let team = Team::new(3).unwrap();
        for number in 0..3 {
            let failed = catch_unwind(AssertUnwindSafe(|| {
                team.run(usize::MAX, |member| {
                    assert!(member.number != number, "a failure");
                    member.meet();
                });
            }));
            let panic = failed.unwrap_err();
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"a failure"));
            let count = AtomicUsize::new(0);
            team.run(usize::MAX, |member| {
                count.fetch_add(1, Ordering::Relaxed);
                member.meet();
            });
            assert_eq!(count.load(Ordering::Relaxed), 3);
        }
    }

    #[test]
    fn callers_take_turns() {
        let team = Team::new(2).unwrap();
        let sum = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        team.run(usize::MAX, |member| {
                            member.meet();
                            sum.fetch_add(1, Ordering::Relaxed);
                            member.meet();
                        });
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 800);
    }
}

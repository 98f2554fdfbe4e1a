//! Time spent in stacks, added up over passes while somebody asks for it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::clock::{Clock, Kind};
use super::product::{Left, PANEL, Right, Store, product};
use crate::simd::Simd;

static ON: AtomicBool = AtomicBool::new(false);
static TIMES: Mutex<[Duration; Kind::ALL.len()]> = Mutex::new([Duration::ZERO; Kind::ALL.len()]);

/// Begins to measure, from zero.
pub fn start() {
    if let Ok(mut times) = TIMES.lock() {
        *times = Default::default();
    }
    ON.store(true, Ordering::Relaxed);
}

/// Ends measuring, and gives the time of all threads together by what it was spent on.
pub fn stop() -> Vec<(&'static str, Duration)> {
    ON.store(false, Ordering::Relaxed);
    let times = TIMES.lock().map(|times| *times).unwrap_or_default();
    Kind::ALL.iter().map(|&(kind, name)| (name, times[kind as usize])).collect()
}

pub(super) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Adds the times of a pass.
pub(super) fn add<'a>(clocks: impl Iterator<Item = &'a Clock>) {
    if !is_on() {
        return;
    }
    if let Ok(mut times) = TIMES.lock() {
        for clock in clocks {
            for (sum, time) in times.iter_mut().zip(clock.times()) {
                *sum += time;
            }
        }
    }
}

/// Floating-point operations per second of one thread in a product of these sizes (rows, columns, inner
/// dimension), with everything in the cache: the best of many runs.
pub fn product_rate([rows, columns, inner]: [usize; 3]) -> f64 {
    let simd = Simd::detect();
    let columns = columns.next_multiple_of(PANEL);
    let (a, b) = (vec![0.5; rows * inner], vec![0.25; columns * inner]);
    let mut out = vec![0.0; rows * columns];
    let work = 2.0 * (rows * columns * inner) as f64;
    let repeats = (2e7 / work).ceil() as usize;
    let mut best = 0.0f64;
    for _ in 0..30 {
        let start = Instant::now();
        for _ in 0..repeats {
            let store = Store::new(&mut out, columns);
            let (a, b) = (Left::rows(&a, inner), Right::packed(&b, inner));
            product(simd, [rows, columns, inner], a, b, store);
        }
        best = best.max(work * repeats as f64 / start.elapsed().as_secs_f64());
    }
    best
}

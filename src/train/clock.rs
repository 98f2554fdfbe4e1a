//! Time and memory of training, as the system tells.

use std::fs;
use std::time::Instant;

/// Time since it was last read.
#[derive(Debug)]
pub struct Clock {
    last: Instant,
    /// Processor time of this thread, where it does all the work.
    cpu: Option<f64>,
    is_alone: bool,
}

impl Clock {
    /// A clock of work that `threads` threads do, this one among them.
    pub fn start(threads: usize) -> Clock {
        let is_alone = threads == 1;
        Clock { last: Instant::now(), cpu: thread_seconds().filter(|_| is_alone), is_alone }
    }

    /// Seconds since the last call or the start, and processor seconds where they are known. The thread must be the one that
    /// started it.
    pub fn lap(&mut self) -> (f64, Option<f64>) {
        let seconds = self.last.elapsed().as_secs_f64();
        let cpu = thread_seconds().filter(|_| self.is_alone);
        let spent = self.cpu.zip(cpu).map(|(before, now)| now - before);
        (self.last, self.cpu) = (Instant::now(), cpu);
        (seconds, spent)
    }
}

/// Processor time of this thread so far, on Linux.
fn thread_seconds() -> Option<f64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? * 1e-9)
}

/// The most memory that this process has had so far, on Linux.
pub fn peak_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_that_of_the_thread() {
        let mut clock = Clock::start(1);
        let mut sum = 0u64;
        while clock.last.elapsed().as_millis() < 20 {
            sum = sum.wrapping_mul(31).wrapping_add(1);
        }
        let (seconds, cpu) = clock.lap();
        assert!(seconds >= 0.02 && sum != 0);
        assert!(cpu.is_none_or(|cpu| cpu > 0.0 && cpu <= seconds + 0.1), "{cpu:?} of {seconds}");
        assert_eq!(Clock::start(2).lap().1, None);
        assert!(peak_memory().is_none_or(|bytes| bytes > 1 << 20));
    }
}

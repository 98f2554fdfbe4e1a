//! What this machine can do: the rate of a matrix product that stays in the cache.

use std::sync::Mutex;

use crate::nn::fused::{Team, profile};

/// GFLOP/s of the products that steps are made of, on all threads at once, each with its own.
pub(super) fn peak(team: &Team) -> f64 {
    let rates = Mutex::new(Vec::new());
    team.run(usize::MAX, |_| {
        let rate = profile::product_rate([96, 64, 64]) * 1e-9;
        rates.lock().expect("no thread has failed").push(rate);
    });
    rates.into_inner().unwrap_or_default().iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_found() {
        let found = peak(&Team::default());
        assert!(found.is_finite() && found > 0.0, "{found}");
    }
}

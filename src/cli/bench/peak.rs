//! What this machine can do: the rate of a matrix product that stays in the cache.

use crate::nn::fused::profile;

/// GFLOP/s of the products that steps are made of, on all threads at once, each with its own.
pub(super) fn peak() -> f64 {
    let rate = |_: rayon::BroadcastContext<'_>| profile::product_rate([96, 64, 64]) * 1e-9;
    rayon::broadcast(rate).into_iter().sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_rate_is_found() {
        let found = super::peak();
        assert!(found.is_finite() && found > 0.0, "{found}");
    }
}

//! Fractions of 128-bit whole numbers, for `exact`: every operation gives the true value or nothing.

use std::cmp::Ordering;

/// A fraction in lowest terms, not negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ratio {
    numerator: u128,
    denominator: u128,
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Ratio {
    pub fn whole(number: u128) -> Ratio {
        Ratio { numerator: number, denominator: 1 }
    }

    pub fn add(self, other: Ratio) -> Option<Ratio> {
        let common = gcd(self.denominator, other.denominator);
        let scale = other.denominator / common;
        let left = self.numerator.checked_mul(scale)?;
        let right = other.numerator.checked_mul(self.denominator / common)?;
        let numerator = left.checked_add(right)?;
        let shared = gcd(numerator, common);
        Some(Ratio {
            numerator: numerator / shared,
            denominator: (self.denominator / shared).checked_mul(scale)?,
        })
    }

    pub fn mul(self, other: Ratio) -> Option<Ratio> {
        let (a, b) =
            (gcd(self.numerator, other.denominator), gcd(other.numerator, self.denominator));
        Some(Ratio {
            numerator: (self.numerator / a).checked_mul(other.numerator / b)?,
            denominator: (self.denominator / b).checked_mul(other.denominator / a)?,
        })
    }

    /// None if `other` is zero, too.
    pub fn div(self, other: Ratio) -> Option<Ratio> {
        let inverse = Ratio { numerator: other.denominator, denominator: other.numerator };
        (other.numerator != 0).then(|| self.mul(inverse))?
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Ratio) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    /// Compares whole parts, then the inverses of the rests: products could overflow.
    fn cmp(&self, other: &Ratio) -> Ordering {
        let (mut a, mut b) = (*self, *other);
        let mut swapped = false;
        loop {
            let (x, y) = (a.numerator / a.denominator, b.numerator / b.denominator);
            let (rest_a, rest_b) = (a.numerator % a.denominator, b.numerator % b.denominator);
            let order = x.cmp(&y).then_with(|| match (rest_a, rest_b) {
                (0, 0) => Ordering::Equal,
                (0, _) => Ordering::Less,
                (_, 0) => Ordering::Greater,
                _ => Ordering::Equal,
            });
            if order != Ordering::Equal || rest_a == 0 {
                return if swapped { order.reverse() } else { order };
            }
            a = Ratio { numerator: a.denominator, denominator: rest_a };
            b = Ratio { numerator: b.denominator, denominator: rest_b };
            swapped = !swapped;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ratio(numerator: u128, denominator: u128) -> Ratio {
        Ratio::whole(numerator).div(Ratio::whole(denominator)).unwrap()
    }

    proptest! {
        #[test]
        fn arithmetic_is_that_of_fractions(
            a in 0..1000u128, b in 1..1000u128, c in 0..1000u128, d in 1..1000u128
        ) {
            let (x, y) = (ratio(a, b), ratio(c, d));
            prop_assert_eq!(x.add(y).unwrap(), ratio(a * d + c * b, b * d));
            prop_assert_eq!(x.mul(y).unwrap(), ratio(a * c, b * d));
            prop_assert_eq!(x.div(y), (c > 0).then(|| ratio(a * d, b * c.max(1))));
            prop_assert_eq!(x.cmp(&y), (a * d).cmp(&(c * b)));
        }
    }

    #[test]
    fn overflow_is_noticed() {
        let tiny = ratio(1, u128::MAX);
        assert_eq!(tiny.mul(tiny), None);
        assert_eq!(tiny.add(ratio(1, u128::MAX - 1)), None);
        assert!(tiny < ratio(1, u128::MAX - 1));
        assert_eq!(tiny.add(tiny), Some(ratio(2, u128::MAX)));
    }
}

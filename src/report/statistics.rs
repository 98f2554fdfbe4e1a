//! Means, deviations, and Student's t.
//!
//! A model is compared with its control by the *paired* test: seeds are shared, so differences of the same seed are what counts. A
//! published number comes as mean, deviation and number of runs, which is what *Welch's* test takes. Both are one-tailed: p is the
//! probability of such a lead, or a larger one, if there were none.
//!
//! Student, "The probable error of a mean", 1908; Welch, "The generalization of 'Student's' problem when several different
//! population variances are involved", 1947. The incomplete beta function is by its continued fraction (Abramowitz & Stegun
//! 26.5.8) in Lentz' form, the gamma function by Lanczos' approximation.

/// Mean and sample standard deviation.
pub fn moments(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt()))
}

/// What a test came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Test {
    /// The lead in units of its standard error.
    pub t: f64,
    /// Degrees of freedom.
    pub freedom: f64,
    /// One-tailed p.
    pub p: f64,
}

/// Whether differences are positive on average; `None` for fewer than two, or if all are 0.
///
/// ```
/// let test = hdse::report::statistics::paired(&[0.2, 0.1, 0.4]).unwrap();
/// assert!((test.p - 0.05904).abs() < 1e-5);
/// ```
pub fn paired(differences: &[f64]) -> Option<Test> {
    let (mean, deviation) = moments(differences);
    let count = differences.len() as f64;
    test(mean, deviation? / count.sqrt(), count - 1.0)
}

/// Whether the mean of `values` is larger than that of `count` others with this mean and deviation.
pub fn welch(values: &[f64], mean: f64, deviation: f64, count: u32) -> Option<Test> {
    let (ours, spread) = moments(values);
    let (here, there) = (values.len() as f64, f64::from(count));
    let [a, b] = [spread?.powi(2) / here, deviation.powi(2) / there];
    let freedom = (a + b).powi(2) / (a.powi(2) / (here - 1.0) + b.powi(2) / (there - 1.0));
    test(ours - mean, (a + b).sqrt(), if freedom.is_nan() { here + there - 2.0 } else { freedom })
}

fn test(lead: f64, error: f64, freedom: f64) -> Option<Test> {
    let t = lead / error;
    (!t.is_nan()).then(|| Test { t, freedom, p: upper_tail(t, freedom) })
}

/// The probability that Student's t with so many degrees of freedom is `t` or more.
pub fn upper_tail(t: f64, freedom: f64) -> f64 {
    if t.is_infinite() {
        return if t > 0.0 { 0.0 } else { 1.0 };
    }
    let both = incomplete_beta(freedom / 2.0, 0.5, freedom / t.mul_add(t, freedom));
    if t > 0.0 { both / 2.0 } else { 1.0 - both / 2.0 }
}

/// The regularised incomplete beta function.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction is fast on this side of the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    let tiny = 1e-300;
    let not_zero = |x: f64| if x.abs() < tiny { tiny } else { x };
    let (mut c, mut d) = (1.0, 1.0 / not_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..1000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for numerator in [even, odd] {
            d = 1.0 / not_zero(numerator.mul_add(d, 1.0));
            c = not_zero(1.0 + numerator / c);
            fraction *= c * d;
        }
        if (fraction / before - 1.0).abs() < 1e-16 {
            break;
        }
    }
    front.exp() * fraction / a
}

/// The logarithm of the gamma function of a positive number.
fn ln_gamma(x: f64) -> f64 {
    const FACTORS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let rest = FACTORS.iter().enumerate().skip(1);
    let sum: f64 = FACTORS[0] + rest.map(|(i, factor)| factor / (x + i as f64)).sum::<f64>();
    let shifted = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * shifted.ln() - shifted + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_closed_forms() {
        // One degree of freedom is Cauchy's distribution, two have a closed form, very many are normal.
        for t in [-30.0, -2.5, -0.1, 0.0, 0.3, 1.0, 4.0, 100.0f64] {
            let cauchy = 0.5 - t.atan() / std::f64::consts::PI;
            assert!((upper_tail(t, 1.0) - cauchy).abs() < 1e-13, "{t}");
            let two = 0.5 - t / (2.0 * (2.0 + t * t).sqrt());
            assert!((upper_tail(t, 2.0) - two).abs() < 1e-13, "{t}");
        }
        assert!((upper_tail(1.959_963_984_540_054, 1e6) - 0.025).abs() < 1e-6);
        assert_eq!(
            [upper_tail(f64::INFINITY, 3.0), upper_tail(f64::NEG_INFINITY, 3.0)],
            [0.0, 1.0]
        );
    }

    #[test]
    fn too_little_is_no_test() {
        assert_eq!(paired(&[]), None);
        assert_eq!(paired(&[1.0]), None);
        assert_eq!(paired(&[0.0, 0.0]), None);
        assert_eq!(paired(&[0.5, 0.5]).unwrap().p, 0.0);
        assert_eq!(welch(&[1.0], 0.0, 1.0, 5), None);
        assert_eq!(welch(&[1.0, 1.0], 0.0, 0.0, 5).unwrap().p, 0.0);
        assert_eq!(moments(&[2.0]), (2.0, None));
    }
}

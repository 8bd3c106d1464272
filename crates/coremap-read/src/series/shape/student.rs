//! Student's t distribution.

use std::f64::consts::PI;

/// Two-sided tail probability of `t` with `free` degrees of freedom (any number above zero, whole or not).
pub(crate) fn two_sided(t: f64, free: f64) -> f64 {
    if t.is_nan() || free.is_nan() || free <= 0.0 {
        return 1.0;
    }
    if t.is_infinite() {
        return 0.0;
    }
    // The tail of Student's distribution is an incomplete beta function (NIST DLMF 8.17).
    incomplete_beta(free / 2.0, 0.5, free / t.mul_add(t, free)).clamp(0.0, 1.0)
}

/// Two-sided quantile: the distance from zero within which `share` of all values are. 1.96 for 0.95 and many degrees
/// of freedom.
pub(crate) fn within(share: f64, free: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided(high, free) > 1.0 - share && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if two_sided(middle, free) > 1.0 - share { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The regularized incomplete beta function, by its continued fraction (NIST DLMF 8.17.22). The fraction converges
/// fast below the mean of the distribution. Above it the complement is computed.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

/// Evaluates the continued fraction by Lentz's method.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut sum = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = sum;
        for part in [even, odd] {
            d = 1.0 / away(1.0 + part * d);
            c = away(1.0 + part / c);
            sum *= c * d;
        }
        if (sum - before).abs() <= 1e-14 * sum.abs() {
            break;
        }
    }
    sum
}

/// Logarithm of the gamma function for numbers above zero: Stirling's series (NIST DLMF 5.11.1) from 10 on. Smaller
/// numbers are reduced from there by the recurrence.
fn ln_gamma(x: f64) -> f64 {
    let mut x = x;
    let mut steps = 0.0;
    while x < 10.0 {
        steps += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series - steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_tables_have_it() {
        // Two-sided critical values of Student's distribution, as in any table.
        for (free, share, t) in [
            (1.0, 0.95, 12.706),
            (1.0, 0.999, 636.619),
            (2.0, 0.99, 9.925),
            (4.0, 0.999, 8.610),
            (9.0, 0.95, 2.262),
            (30.0, 0.99, 2.750),
            (1e6, 0.95, 1.960),
        ] {
            let found = within(share, free);
            assert!((found - t).abs() < t * 1e-3, "{free} {share}: {found}, the table has {t}");
            assert!((two_sided(found, free) - (1.0 - share)).abs() < 1e-6);
            assert!((two_sided(-found, free) - (1.0 - share)).abs() < 1e-6);
        }
    }

    #[test]
    fn gamma_of_whole_numbers_is_a_factorial() {
        for (n, factorial) in [(1.0, 1.0_f64), (2.0, 1.0), (5.0, 24.0), (11.0, 3_628_800.0)] {
            assert!((ln_gamma(n) - factorial.ln()).abs() < 1e-10, "{n}");
        }
        assert!((ln_gamma(0.5) - PI.sqrt().ln()).abs() < 1e-10);
    }

    #[test]
    fn odd_numbers_are_no_news() {
        assert_eq!(two_sided(f64::NAN, 3.0), 1.0);
        assert_eq!(two_sided(2.0, 0.0), 1.0);
        assert_eq!(two_sided(f64::INFINITY, 3.0), 0.0);
        assert_eq!(two_sided(0.0, 3.0), 1.0);
    }
}

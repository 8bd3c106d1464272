//! The rank test for a trend (Mann and Kendall): how many pairs of values are in rising order. It uses only the order
//! of the values, so a few outliers or uneven steps do not hide a trend. Six values in rising order are already
//! significant.

use crate::series::shape::student::two_sided;

/// Maximum number of different values for the exact distribution. With more, the normal distribution is accurate.
const EXACT: usize = 10;

/// Degrees of freedom with which Student's distribution is the normal one.
pub(super) const NORMAL: f64 = 1e6;

/// The order of a series' values.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// Number of values.
    count: usize,
    /// Pairs in rising order minus pairs in falling order.
    balance: i64,
    /// Sizes of groups of equal values.
    ties: Vec<usize>,
}

impl Order {
    /// Compares all pairs of `values`.
    pub(super) fn of(values: &[f64]) -> Order {
        let pairs = values.iter().enumerate().flat_map(|(i, a)| values.iter().skip(i + 1).map(move |b| (a, b)));
        let balance = pairs.map(|(a, b)| i64::from(b > a) - i64::from(b < a)).sum::<i64>();
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let ties = sorted.chunk_by(|a, b| a == b).map(<[f64]>::len).filter(|n| *n > 1).collect();
        Order { count: values.len(), balance, ties }
    }

    /// Direction of most pairs: 1 up, −1 down, 0 neither.
    pub(super) fn sign(&self) -> f64 {
        self.balance.signum() as f64
    }

    /// Whether each value is larger than the one before, or each is smaller.
    pub(super) fn is_strict(&self) -> bool {
        self.count > 1 && self.balance.unsigned_abs() as usize == self.count * (self.count - 1) / 2
    }

    /// Two-sided probability of such an order if every order is equally likely. `inflation` is the number of values
    /// divided by the number of independent values that they are worth. If it is 1 and values are few and differ, the
    /// probability is exact.
    pub(super) fn chance(&self, inflation: f64) -> f64 {
        if self.balance == 0 {
            return 1.0;
        }
        if inflation <= 1.0 && self.count <= EXACT && self.ties.is_empty() {
            return self.exact();
        }
        // Variance with the correction for equal values (Kendall, Rank Correlation Methods, chapter 4).
        let part = |n: usize| n as f64 * (n as f64 - 1.0) * (2.0 * n as f64 + 5.0);
        let ties = self.ties.iter().map(|n| part(*n)).sum::<f64>();
        let variance = (part(self.count) - ties) / 18.0 * inflation.max(1.0);
        if variance <= 0.0 {
            return 1.0;
        }
        two_sided((self.balance.unsigned_abs() as f64 - 1.0) / variance.sqrt(), NORMAL)
    }

    /// Counts the orders with at most as many pairs in the rarer direction, among all orders of so many values.
    fn exact(&self) -> f64 {
        // Number of orders by pairs in falling order. One more value adds from none to all of its pairs.
        let mut orders = vec![1.0_f64];
        for value in 2..=self.count {
            let mut next = vec![0.0; orders.len() + value - 1];
            for (pairs, of) in orders.iter().enumerate() {
                next.iter_mut().skip(pairs).take(value).for_each(|sum| *sum += of);
            }
            orders = next;
        }
        let pairs = self.count * self.count.saturating_sub(1) / 2;
        let rarer = pairs.saturating_sub(self.balance.unsigned_abs() as usize) / 2;
        let tail = orders.iter().take(rarer + 1).sum::<f64>();
        (2.0 * tail / orders.iter().sum::<f64>()).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_tables_have_it() {
        // Upper tail probabilities of Kendall's S: Hollander and Wolfe, Nonparametric Statistical Methods, table A.30.
        for (values, tail) in [
            (&[1.0, 2.0, 3.0, 4.0][..], 0.042),
            (&[1.0, 2.0, 3.0, 4.0, 5.0][..], 0.0083),
            (&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0][..], 0.0014),
            // S is 13, 11 and 9: each swap of neighbours costs 2.
            (&[2.0, 1.0, 3.0, 4.0, 5.0, 6.0][..], 0.0083),
            (&[2.0, 1.0, 4.0, 3.0, 5.0, 6.0][..], 0.028),
            (&[2.0, 1.0, 4.0, 3.0, 6.0, 5.0][..], 0.068),
        ] {
            let chance = Order::of(values).chance(1.0);
            assert!((chance / 2.0 - tail).abs() < 0.0006, "{values:?}: {chance}, the table has {tail} on each side");
            let falling: Vec<f64> = values.iter().map(|v| -v).collect();
            assert_eq!(Order::of(&falling).chance(1.0), chance);
            assert_eq!(Order::of(&falling).sign(), -1.0);
        }
    }

    #[test]
    fn equal_values_count_for_neither() {
        let order = Order::of(&[1.0, 1.0, 2.0, 2.0]);
        assert_eq!((order.balance, order.ties.as_slice(), order.is_strict()), (4, &[2, 2][..], false));
        assert_eq!(Order::of(&[7.0; 9]).chance(1.0), 1.0);
        assert_eq!(Order::of(&[]).chance(1.0), 1.0);
        assert!(!Order::of(&[1.0]).is_strict());
        assert!(Order::of(&[3.0, 2.0, -1.0]).is_strict());
    }

    #[test]
    fn the_normal_distribution_continues_the_exact_one() {
        let rising: Vec<f64> = (0..11).map(|i| f64::from((i * 4) % 11)).collect();
        let (exact, normal) = (Order::of(&rising).exact(), Order::of(&rising).chance(1.0));
        assert!((exact - normal).abs() < 0.02, "{exact} {normal}");
        // Values that are worth half as many say less.
        let rising: Vec<f64> = (0..30).map(f64::from).collect();
        assert!(Order::of(&rising).chance(2.0) > Order::of(&rising).chance(1.0));
    }
}

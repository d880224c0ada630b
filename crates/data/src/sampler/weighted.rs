//! Sampling in proportion to weights.

use samebits_numerics::memory;
use samebits_rng::Generator;

use super::{digest, words64};
use crate::memory::allocated;
use crate::{Error, Order, Result, Sampler};

const OP: &str = "weighted sampler";

/// Sampler that draws in proportion to weights.
///
/// # Determinism
///
/// The weights form the leaves of a binary tree whose nodes hold the sum of their two children,
/// each sum rounded once. A draw takes a 64-bit number as in
/// [`WithReplacement`](crate::WithReplacement), computes u = (number >> 11) · 2^-53, multiplies it
/// by the root and walks down: left if the rest is below the left child, otherwise right after
/// subtracting the left child; never into a node of weight 0. Without replacement, the drawn leaf
/// becomes 0 and its ancestors are summed again, so rounding errors do not accumulate.
///
/// # Examples
///
/// ```
/// use samebits_data::{Sampler, Weighted};
/// use samebits_rng::Generator;
///
/// let sampler = Weighted::without_replacement(vec![1.0, 0.0, 3.0], 2)?;
/// let mut order = sampler.order(3, 0, &Generator::new(0))?.into_vec()?;
/// order.sort_unstable();
/// assert_eq!(order, [0, 2]);
/// # Ok::<(), samebits_data::Error>(())
/// ```
#[doc(alias = "WeightedRandomSampler")]
#[derive(Clone, Debug)]
pub struct Weighted {
    weights: Vec<f64>,
    samples: usize,
    replacement: bool,
}

impl Weighted {
    /// Creates a sampler of `samples` draws per epoch, each from all samples.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if a weight is negative or not finite, or if the weights sum to
    /// zero or to infinity.
    pub fn with_replacement(weights: Vec<f64>, samples: usize) -> Result<Self> {
        check(&weights)?;
        Ok(Weighted { weights, samples, replacement: true })
    }

    /// Creates a sampler of `samples` distinct samples per epoch.
    ///
    /// # Errors
    ///
    /// As for [`with_replacement`](Weighted::with_replacement), and if fewer than `samples`
    /// weights are above 0.
    pub fn without_replacement(weights: Vec<f64>, samples: usize) -> Result<Self> {
        check(&weights)?;
        let positive = weights.iter().filter(|&&weight| weight > 0.0).count();
        if samples > positive {
            return Err(Error::option(
                OP,
                "samples",
                samples,
                format!("must not exceed the {positive} weights above 0"),
            ));
        }
        Ok(Weighted { weights, samples, replacement: false })
    }
}

impl Sampler for Weighted {
    fn describe(&self) -> String {
        let digest = digest(self.weights.iter().map(|weight| weight.to_bits()));
        let how = if self.replacement { "with" } else { "without" };
        format!("{} weighted {how} replacement, digest {digest:016x}", self.samples)
    }

    fn order(&self, len: usize, _: u64, generator: &Generator) -> Result<Order> {
        if len != self.weights.len() {
            return Err(Error::option(
                OP,
                "number of weights",
                self.weights.len(),
                format!("must be the dataset's length {len}"),
            ));
        }
        let mut tree = Tree::new(&self.weights)?;
        let mut order = allocated(OP, memory::with_capacity(self.samples))?;
        for word in words64(generator).take(self.samples) {
            let leaf = tree.find((word >> 11) as f64 * (1.0 / (1_u64 << 53) as f64));
            if !self.replacement {
                tree.clear(leaf);
            }
            order.push(leaf);
        }
        Ok(order.into())
    }

    fn may_repeat(&self) -> bool {
        self.replacement
    }
}

fn check(weights: &[f64]) -> Result<()> {
    if let Some(at) = weights.iter().position(|w| !w.is_finite() || *w < 0.0) {
        return Err(Error::option(
            OP,
            "weight",
            format!("{} at index {at}", weights[at]),
            "must be finite and not negative",
        ));
    }
    let total = Tree::new(weights)?.total();
    if total == 0.0 || !total.is_finite() {
        return Err(Error::option(OP, "sum of the weights", total, "must be above 0 and finite"));
    }
    Ok(())
}

/// Binary tree of sums over a power of two of leaves; node `i` has the children `2 i` and
/// `2 i + 1`.
struct Tree {
    nodes: Vec<f64>,
    leaves: usize,
}

impl Tree {
    fn new(weights: &[f64]) -> Result<Self> {
        let leaves = weights.len().next_power_of_two();
        let mut nodes: Vec<f64> = allocated(OP, memory::zeroed(2 * leaves))?;
        nodes[leaves..leaves + weights.len()].copy_from_slice(weights);
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node] + nodes[2 * node + 1];
        }
        Ok(Tree { nodes, leaves })
    }

    fn total(&self) -> f64 {
        self.nodes[1]
    }

    /// Finds the leaf at the fraction `u` of the total, which is above 0.
    fn find(&self, u: f64) -> usize {
        let mut rest = u * self.total();
        let mut node = 1;
        while node < self.leaves {
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            // Rounding may leave a rest that exceeds the right side, or a right side of weight 0;
            // neither may lead to a leaf of weight 0.
            if left > 0.0 && (rest < left || right == 0.0) {
                node *= 2;
            } else {
                rest -= left;
                node = 2 * node + 1;
            }
        }
        node - self.leaves
    }

    fn clear(&mut self, leaf: usize) {
        let mut node = self.leaves + leaf;
        self.nodes[node] = 0.0;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node] + self.nodes[2 * node + 1];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_follow_the_weights() {
        let sampler = Weighted::with_replacement(vec![1.0, 0.0, 2.0, 5.0, 0.0], 80_000).unwrap();
        let mut counts = [0_usize; 5];
        let order = sampler.order(5, 0, &Generator::new(1)).unwrap();
        for index in order.into_vec().unwrap() {
            counts[index] += 1;
        }
        for (count, expected) in counts.into_iter().zip([10_000, 0, 20_000, 50_000, 0_usize]) {
            assert!(count.abs_diff(expected) <= expected.min(700), "{counts:?}");
        }
    }

    #[test]
    fn without_replacement_nothing_repeats_and_zeros_stay_out() {
        let weights: Vec<f64> = (0..1000).map(|i| f64::from(i % 3) * 1e-300).collect();
        let sampler = Weighted::without_replacement(weights.clone(), 666).unwrap();
        let order = sampler.order(1000, 0, &Generator::new(1)).unwrap();
        let mut order = order.into_vec().unwrap();
        order.sort_unstable();
        let expected: Vec<usize> = (0..1000).filter(|i| i % 3 != 0).collect();
        assert_eq!(order, expected);
        assert!(Weighted::without_replacement(weights, 667).is_err());
    }

    #[test]
    fn useless_weights_are_refused() {
        for weights in [vec![], vec![0.0], vec![-1.0, 2.0], vec![f64::NAN], vec![f64::MAX; 3]] {
            assert!(Weighted::with_replacement(weights, 1).is_err());
        }
        let sampler = Weighted::with_replacement(vec![1.0], 1).unwrap();
        assert!(sampler.order(2, 0, &Generator::new(0)).is_err());
    }
}

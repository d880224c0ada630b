//! The fixed tree: revealed by probing, compared with a scalar oracle at every SIMD level.

use samebits_numerics::extrema::{Ordered, argmax, argmin, max, min};
use samebits_numerics::nan::canonical;
use samebits_numerics::reduce::{
    Accumulator, BLOCK, block_partial, columns, combine, dot, dot_of, mean_var, product_rows, rows,
    sum, sum_by, sum_of, sum_squares,
};
use samebits_numerics::simd::{self, Kernel, Level};

/// Computes the pseudocode in the documentation of `reduce`, step by step.
fn oracle(t: &[f64]) -> f64 {
    let n = t.len();
    if n == 0 {
        return 0.0;
    }
    let mut partial = Vec::new();
    for b in 0..n.div_ceil(4096) {
        let mut lane = [0.0f64; 32];
        for i in 4096 * b..(4096 * (b + 1)).min(n) {
            lane[i % 32] += t[i];
        }
        for w in [16, 8, 4, 2, 1] {
            for l in 0..w {
                lane[l] += lane[l + w];
            }
        }
        partial.push(lane[0]);
    }
    if partial.len() == 1 { partial[0] } else { oracle(&partial) }
}

fn random(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let size = ((state >> 40) & 31) as i32 - 16;
            let scale = f32::from_bits(((127 + size) as u32) << 23);
            ((state >> 33) as i32 as f32 / 1073741824.0 - 1.0) * scale
        })
        .collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}

/// A comparison of every way to compute the same sum, at one level.
struct AllWays<'a>(&'a [f32]);

impl Kernel for AllWays<'_> {
    type Output = Vec<u64>;
    #[inline(always)]
    fn run(self) -> Vec<u64> {
        let values = self.0;
        let ones = vec![1.0f32; values.len()];
        let partials: Vec<f64> =
            values.chunks(BLOCK).map(|block| block_partial(block, f64::from)).collect();
        let mut pieces = Accumulator::new();
        let mut rest = values;
        let mut length = 1;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(length.min(rest.len()));
            pieces.push_slice(now, f64::from);
            length = length * 3 % 8191 + 1;
            rest = later;
        }
        let mut single = Accumulator::new();
        values.iter().for_each(|&x| single.push(x.into()));
        let mut column = [0.0];
        columns(values, 1, f64::from, &mut column);
        [
            sum_of(values, f64::from),
            dot_of(values, &ones, |x, y| f64::from(x) * f64::from(y)),
            sum_by(values.len(), |i| f64::from(values[i])),
            combine(&partials),
            pieces.finish(),
            single.finish(),
            column[0],
        ]
        .map(f64::to_bits)
        .to_vec()
    }
}

#[test]
fn every_function_at_every_level_equals_the_written_tree() {
    let sizes = [0, 1, 2, 31, 32, 33, 63, 64, 100, 4095, 4096, 4097, 8192, 9000, 131_072, 300_001];
    for n in sizes {
        let values = random(n, n as u64);
        let expected = oracle(&wide(&values)).to_bits();
        for level in Level::ALL {
            for (way, got) in simd::dispatch_at(level, AllWays(&values)).into_iter().enumerate() {
                assert_eq!(got, expected, "n {n} {level:?} way {way}");
            }
        }
        assert_eq!(sum(&values).to_bits(), expected);
        assert_eq!(sum(&wide(&values)).to_bits(), expected);
    }
}

#[test]
fn three_levels_of_blocks() {
    // More than 4096^2 terms.
    let n = 4096 * 4096 + 5000;
    let values = random(n, 9);
    assert_eq!(sum(&values).to_bits(), oracle(&wide(&values)).to_bits());
}

#[test]
fn a_different_order_would_be_seen() {
    let values = random(9000, 3);
    let sequential = values.iter().fold(0.0f64, |sum, &x| sum + f64::from(x));
    assert_ne!(sequential.to_bits(), oracle(&wide(&values)).to_bits());
}

/// Reveals the tree by probing (FPRev): with `M` at `i`, `-M` at `j` and ones elsewhere, `M` so
/// large that it absorbs ones, every one added before `M` and `-M` meet is lost. The rest counts
/// the leaves outside the smallest subtree that contains both.
fn outside(n: usize, i: usize, j: usize, sum: impl Fn(&[f32]) -> f64) -> usize {
    let mut probe = vec![1.0f32; n];
    probe[i] = 1e30;
    probe[j] = -1e30;
    sum(&probe) as usize
}

/// Returns the same count from the written tree, by following the terms symbolically.
fn outside_as_written(n: usize, i: usize, j: usize) -> usize {
    // A node is (terms below it, holds i, holds j).
    type Node = (usize, bool, bool);
    fn join(a: Node, b: Node, met: &mut Option<usize>) -> Node {
        let node = (a.0 + b.0, a.1 || b.1, a.2 || b.2);
        if node.1 && node.2 && met.is_none() {
            *met = Some(node.0);
        }
        node
    }
    fn level(nodes: &[Node], met: &mut Option<usize>) -> Node {
        let mut partials = Vec::new();
        for block in nodes.chunks(4096) {
            let mut lanes: [Node; 32] = [(0, false, false); 32];
            for (k, &node) in block.iter().enumerate() {
                lanes[k % 32] = join(lanes[k % 32], node, met);
            }
            for w in [16, 8, 4, 2, 1] {
                for l in 0..w {
                    lanes[l] = join(lanes[l], lanes[l + w], met);
                }
            }
            partials.push(lanes[0]);
        }
        if partials.len() == 1 { partials[0] } else { level(&partials, met) }
    }
    let leaves: Vec<Node> = (0..n).map(|k| (1, k == i, k == j)).collect();
    let mut met = None;
    level(&leaves, &mut met);
    n - met.expect("both leaves are in the tree")
}

#[test]
fn the_revealed_tree_is_the_written_one() {
    for n in [2, 5, 33, 70, 100] {
        for i in 0..n {
            for j in i + 1..n {
                assert_eq!(outside(n, i, j, sum), outside_as_written(n, i, j), "n {n}: {i}, {j}");
            }
        }
    }
    let n = 4096 * 34 + 7;
    let probes = [0, 1, 31, 32, 33, 4095, 4096, 4128, 8191, 40_000, 4096 * 32, 4096 * 33, n - 1];
    for (k, &i) in probes.iter().enumerate() {
        for &j in &probes[k + 1..] {
            assert_eq!(outside(n, i, j, sum), outside_as_written(n, i, j), "n {n}: {i}, {j}");
        }
    }
}

#[test]
fn probing_tells_trees_apart() {
    let sequential = |values: &[f32]| values.iter().fold(0.0f64, |sum, &x| sum + f64::from(x));
    let differs = (1..70).any(|j| outside(70, 0, j, sequential) != outside_as_written(70, 0, j));
    assert!(differs);
}

struct Columns<'a>(&'a [f32], usize);

impl Kernel for Columns<'_> {
    type Output = Vec<f64>;
    #[inline(always)]
    fn run(self) -> Vec<f64> {
        let mut out = vec![0.0; self.1];
        columns(self.0, self.1, f64::from, &mut out);
        out
    }
}

#[test]
fn columns_are_independent_and_follow_the_tree() {
    for (n, width) in [(0, 3), (1, 1), (40, 64), (33, 65), (100, 130), (5000, 7), (9000, 70)] {
        let values = random(n * width, width as u64);
        for level in Level::ALL {
            let got = simd::dispatch_at(level, Columns(&values, width));
            for j in 0..width {
                let column: Vec<f64> = (0..n).map(|k| f64::from(values[k * width + j])).collect();
                assert_eq!(
                    got[j].to_bits(),
                    oracle(&column).to_bits(),
                    "({n}, {width}) {level:?} column {j}"
                );
            }
        }
    }
}

struct Rows<'a>(&'a [f32], usize, &'a [f64]);

impl Kernel for Rows<'_> {
    type Output = [Vec<f64>; 2];
    #[inline(always)]
    fn run(self) -> [Vec<f64>; 2] {
        let Rows(values, n, scales) = self;
        let mut out = [vec![7.0; scales.len()], vec![7.0; scales.len()]];
        let term = |row: usize| {
            let scale = scales[row];
            move |x: f32| scale * f64::from(x)
        };
        rows(values, n, term, &mut out[0]);
        product_rows(values, n, &mut out[1]);
        out
    }
}

#[test]
fn rows_are_independent_and_follow_the_tree() {
    for n in [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100, 4096] {
        for count in [0, 1, 2, 15, 16, 17, 33] {
            let mut values = random(n * count, n as u64);
            // A row whose values would spread to its neighbours if rows were mixed.
            values.iter_mut().skip(n).take(n).for_each(|x| *x = f32::NAN);
            values.iter_mut().skip(3 * n).take(n).for_each(|x| *x = -0.0);
            let scales: Vec<f64> = (0..count).map(|row| 1.0 + row as f64).collect();
            for level in Level::ALL {
                let [sums, products] = simd::dispatch_at(level, Rows(&values, n, &scales));
                for row in 0..count {
                    let x = wide(&values[row * n..][..n]);
                    let terms: Vec<f64> = x.iter().map(|x| scales[row] * x).collect();
                    let expected = [oracle(&terms), product_oracle(&x)];
                    let got = [sums[row], products[row]];
                    assert_eq!(
                        got.map(|x| canonical(x).to_bits()),
                        expected.map(|x| canonical(x).to_bits()),
                        "{count} rows of {n}, {level:?}, row {row}"
                    );
                }
            }
        }
    }
}

/// Computes one block of the tree with `*` instead of `+` and 1 instead of 0.
fn product_oracle(t: &[f64]) -> f64 {
    let mut lane = [1.0f64; 32];
    for (i, t) in t.iter().enumerate() {
        lane[i % 32] *= t;
    }
    for w in [16, 8, 4, 2, 1] {
        for l in 0..w {
            lane[l] *= lane[l + w];
        }
    }
    lane[0]
}

#[test]
fn squares_products_and_moments() {
    let x = random(10_000, 5);
    let y = random(10_000, 6);
    let squares: Vec<f64> = x.iter().map(|&x| f64::from(x) * f64::from(x)).collect();
    let products: Vec<f64> = x.iter().zip(&y).map(|(&x, &y)| f64::from(x) * f64::from(y)).collect();
    assert_eq!(sum_squares(&x).to_bits(), oracle(&squares).to_bits());
    assert_eq!(dot(&x, &y).to_bits(), oracle(&products).to_bits());
    let moments = mean_var(&x);
    let mean = oracle(&wide(&x)) / 1e4;
    let deviations: Vec<f64> = wide(&x).iter().map(|x| (x - mean) * (x - mean)).collect();
    assert_eq!(moments.mean.to_bits(), mean.to_bits());
    assert_eq!(moments.squared_deviations.to_bits(), oracle(&deviations).to_bits());
    assert_eq!(moments.variance(1.0), oracle(&deviations) / 9999.0);
    assert!(mean_var::<f32>(&[]).mean.is_nan());
    assert!(mean_var(&[1.0f32]).variance(1.0).is_nan());
}

#[test]
fn no_terms_and_negative_zeros_give_positive_zero() {
    assert_eq!(sum::<f32>(&[]).to_bits(), 0);
    assert_eq!(sum(&[-0.0f32; 5]).to_bits(), 0);
    assert_eq!(combine(&[]).to_bits(), 0);
    assert_eq!(Accumulator::new().finish().to_bits(), 0);
}

#[test]
fn the_first_nan_is_both_extrema_of_64_bit_numbers() {
    for n in [3, 40, 2500] {
        let mut values: Vec<f64> = (0..n).map(f64::from).collect();
        values[1] = f64::NAN;
        values[2] = -f64::NAN;
        for (index, value) in [argmax(&values), argmin(&values)].into_iter().flatten() {
            assert_eq!((index, value.to_bits()), (1, canonical(f64::NAN).to_bits()), "{n}");
        }
        assert!(max(&values).is_some_and(f64::is_nan) && min(&values).is_some_and(f64::is_nan));
    }
    assert!(Ordered::is_nan(f64::NAN) && !Ordered::is_nan(f64::INFINITY));
}

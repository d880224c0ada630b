use samebits::functional as f;
use samebits::ops::Reduction;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Result, Tensor};

use super::{Node, constant, ones, pairs, probe, remains, values};

const BLOCK: usize = 4096;
const FLOATS: [DType; 2] = [DType::F32, DType::F64];

/// Computes the contract's tree.
fn tree<N: Copy>(leaves: &[N], zero: N, join: &mut dyn FnMut(N, N) -> N) -> N {
    let mut partials = Vec::new();
    for block in leaves.chunks(BLOCK) {
        let mut lanes = [zero; 32];
        for (k, &leaf) in block.iter().enumerate() {
            lanes[k % 32] = join(lanes[k % 32], leaf);
        }
        for half in [16, 8, 4, 2, 1] {
            for lane in 0..half {
                lanes[lane] = join(lanes[lane], lanes[lane + half]);
            }
        }
        partials.push(lanes[0]);
    }
    match partials[..] {
        [] => zero,
        [one] => one,
        _ => tree(&partials, zero, join),
    }
}

fn expected(n: usize, places: [usize; 2]) -> f32 {
    remains(n, places, |_| true, |leaves, join| tree(leaves, Node::default(), join))
}

/// Computes the sum of positive terms, as written.
fn sum(terms: &[f64]) -> f64 {
    tree(terms, 0.0, &mut |a, b| a + b)
}

/// A reduction of `[n]` to one number.
type Reduce = fn(&Tensor) -> Result<Tensor>;

#[test]
fn sums_and_means() {
    let reductions: [(_, bool, Reduce); _] = [
        ("sum", false, |x| f::sum(x, [0], true)),
        ("sum of rows", false, |x| {
            f::sum(&f::expand(&f::reshape(x, [1, x.shape()[0]])?, &[20, x.shape()[0]])?, [1], true)
        }),
        ("sum of columns", false, |x| {
            f::sum(&f::expand(&f::reshape(x, [x.shape()[0], 1])?, &[x.shape()[0], 7])?, [0], true)
        }),
        ("sum over two dimensions", false, |x| {
            let n = x.shape()[0];
            f::sum(&f::expand(&f::reshape(x, [n / 10, 1, 10])?, &[n / 10, 3, 10])?, [0, 2], true)
        }),
        ("mean", true, |x| f::mean(x, [0], true)),
        ("mean of var_mean", true, |x| Ok(f::var_mean(x, [0], 0.0, true)?.1)),
        ("nll_loss", false, |x| {
            let target = Value::zeros(x.shape(), DType::I64).unwrap();
            let options = f::ClassLoss { reduction: Reduction::Sum, ..Default::default() };
            f::neg(&f::nll_loss_with(
                &f::reshape(x, [x.shape()[0], 1])?,
                &Tensor::from(&target),
                &options,
            )?)
        }),
    ];
    let borders = [31, 32, 64, BLOCK, 2 * BLOCK, 32 * BLOCK, 33 * BLOCK];
    for n in [70, 100, 2 * BLOCK + 98, 34 * BLOCK + 6] {
        for places in pairs(n, &borders) {
            let sum = f64::from(expected(n, places));
            let probe = probe(n, places, |_| true);
            for dtype in FLOATS {
                let x = constant(&probe, &[n], dtype);
                for (name, mean, reduce) in reductions {
                    // Blocks of blocks, for only one of them: these take long.
                    if n > 32 * BLOCK && name != "sum" {
                        continue;
                    }
                    let expected = if mean { sum / n as f64 } else { sum };
                    let found = values(reduce(&x).unwrap().value());
                    let same = found.iter().all(|&found| found == expected as f32);
                    assert!(same, "{name} {dtype} of {n}: {expected} remain at {places:?}");
                }
            }
        }
    }
}

/// Many wide rows have a loop of their own, with the bits that each column has alone.
#[test]
fn sums_of_wide_columns() {
    for n in [600, 2 * BLOCK + 98] {
        let x = f::randn_with(&[n, 300], &mut samebits::Generator::new(n as u64)).unwrap();
        // Sums of f64 are not rounded again, which would hide their order.
        let x = x.to(DType::F64).unwrap().square().unwrap();
        let sums = f::sum(&x, [0], false).unwrap().to_vec::<f64>().unwrap();
        for column in (0..300).step_by(13) {
            let alone = f::narrow(&x, 1, column, 1).unwrap().to_vec::<f64>().unwrap();
            assert_eq!(sums[column], sum(&alone), "column {column} of {n} rows");
        }
    }
}

#[test]
fn gradients_of_a_bias() {
    for dtype in FLOATS {
        for n in [100, 2 * BLOCK + 100] {
            for places in pairs(n, &[32, BLOCK, 2 * BLOCK]) {
                let bias = Tensor::zeros(&[1], dtype).unwrap().set_requires_grad(true).unwrap();
                let y = f::linear(&ones(&[n, 2], dtype), &ones(&[1, 2], dtype), Some(&bias));
                let grad = constant(&probe(n, places, |_| true), &[n, 1], dtype);
                let gradients = y.unwrap().backward_from(grad, false).unwrap();
                assert_eq!(values(gradients.of(&bias).unwrap().value()), [expected(n, places)]);
            }
        }
    }
}

/// Squares do not cancel. Ones added to a huge term one by one are lost, several together are not:
/// the sum shows their order.
#[test]
fn squares() {
    // The square's last place is 2, so a one is half of it and is rounded away.
    let huge = 3.0 * 33_554_432.0;
    for n in [100, BLOCK + 100] {
        for [i, j] in pairs(n, &[32, 64, BLOCK]) {
            // Equally many of each sign, so that the mean is zero.
            let (i, j) = (i & !1, j | 1);
            let sign = |k: usize| if k.is_multiple_of(2) { 1.0 } else { -1.0 };
            let size = |k: usize| if k == i || k == j { huge } else { 1.0 };
            let x: Vec<f64> = (0..n).map(|k| sign(k) * size(k)).collect();
            let squares: Vec<f64> = x.iter().map(|x| x * x).collect();
            let written = sum(&squares);
            let tensor = Tensor::from_slice(&x, &[n]).unwrap();
            assert_eq!(f::mean(&tensor, [0], true).unwrap().item::<f64>().unwrap(), 0.0);
            let var = f::var(&tensor, [0], 0.0, false).unwrap();
            assert_eq!(var.item::<f64>().unwrap(), written / n as f64, "at {i}, {j}");
            let norm = f::norm(&tensor, 2.0, [0], false).unwrap();
            assert_eq!(norm.item::<f64>().unwrap(), written.sqrt(), "at {i}, {j}");
        }
    }
}

/// Beside a one, terms just below half its last place are lost one by one, and kept in pairs: the
/// sum is 1 + m · 2^-52, whose logarithm shows m.
#[test]
fn denominators() {
    let small = -36.75;
    let term = samebits::numerics::math::f64::exp(small);
    let last = f64::EPSILON;
    assert!(term < last / 2.0 && term > last / 4.0);
    let steps = |log: f64| (log / last).round();
    let mut seen = std::collections::BTreeSet::new();
    for n in [70, 100, BLOCK + 100] {
        let one = [0, 1, 31, 32, 33, 50, 69, n - 1];
        for i in one {
            let mut x = vec![small; n];
            x[i] = 0.0;
            let terms: Vec<f64> = x.iter().map(|&x| if x == 0.0 { 1.0 } else { term }).collect();
            let m = (sum(&terms) - 1.0) / last;
            seen.insert(m as i64);
            let x = Tensor::from_slice(&x, &[1, n]).unwrap();
            let softmax = f::log_softmax(&x, 1).unwrap().to_vec::<f64>().unwrap();
            assert_eq!(steps(-softmax[i]), m, "log_softmax of {n} at {i}");
            let log = f::logsumexp(&x, [1], false).unwrap().to_vec::<f64>().unwrap();
            assert_eq!(steps(log[0]), m, "logsumexp of {n} at {i}");
            // Columns have a loop of their own.
            let columns = f::transpose(&x, 0, 1).unwrap();
            let softmax = f::log_softmax(&columns, 0).unwrap().to_vec::<f64>().unwrap();
            assert_eq!(steps(-softmax[i]), m, "log_softmax of a column of {n} at {i}");
            let target = Value::from_slice(&[i as i64], &[1]).unwrap();
            let loss = f::cross_entropy(&x, &Tensor::from(&target)).unwrap().item::<f64>().unwrap();
            assert_eq!(steps(loss), m, "cross_entropy of {n} at {i}");
        }
    }
    assert!(seen.len() > 3, "the probes see little: {seen:?}");
}

/// A chain differs from the tree.
#[test]
fn probing_tells_orders_apart() {
    let n = 100;
    let chain = |places| -> f32 { probe(n, places, |_| true).iter().sum() };
    let differs = |places: &[usize; 2]| chain(*places) != expected(n, *places);
    assert!(pairs(n, &[32]).iter().filter(|places| differs(places)).count() > 10);
}

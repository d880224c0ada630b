//! The order in which contractions and reductions add, revealed by probing (FPRev's method) and
//! compared with the written one.
//!
//! With `M` at `i`, `−M` at `j` and ones elsewhere, `M` so large that it absorbs ones, every one
//! added before `M` and `−M` meet is lost. The rest counts the terms outside the smallest partial
//! sum that contains both.
//!
//! P. Xie, Y. Gao and J. Xue, *FPRev: Revealing the Order of Floating-Point Summation*, USENIX ATC
//! 2025.

mod attention;
mod contraction;
mod norm;
mod recurrent;
mod reduce;

use samebits::ops::Cast;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Tensor, dispatch};

/// A number that absorbs ones, in f32 and in f64.
const HUGE: f32 = 1e30;

/// Returns the terms of a probe; those that `present` excludes are zero.
fn probe(n: usize, [i, j]: [usize; 2], present: impl Fn(usize) -> bool) -> Vec<f32> {
    (0..n)
        .map(|k| match k {
            k if k == i => HUGE,
            k if k == j => -HUGE,
            k => f32::from(u8::from(present(k))),
        })
        .collect()
}

/// Returns the remaining sum of a probe that follows `tree`.
fn remains(
    n: usize,
    [i, j]: [usize; 2],
    present: impl Fn(usize) -> bool,
    tree: impl FnOnce(&[Node], &mut dyn FnMut(Node, Node) -> Node) -> Node,
) -> f32 {
    let ones = |k: usize| usize::from(k != i && k != j && present(k));
    let leaves: Vec<Node> = (0..n).map(|k| Node { ones: ones(k), i: k == i, j: k == j }).collect();
    let mut join = |a: Node, b: Node| {
        let (i, j) = (a.i || b.i, a.j || b.j);
        match (i, j) {
            // They cancel.
            (true, true) => Node::default(),
            (false, false) => Node { ones: a.ones + b.ones, i, j },
            // Absorbed.
            _ => Node { ones: 0, i, j },
        }
    };
    tree(&leaves, &mut join).ones as f32
}

/// A partial sum of a probe: the ones that remain in it, and its huge terms.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    ones: usize,
    i: bool,
    j: bool,
}

/// Returns the written order of contractions: a chain in each block, and blocks in ascending order.
fn chain(block: usize) -> impl Fn(&[Node], &mut dyn FnMut(Node, Node) -> Node) -> Node {
    move |leaves, join| {
        let mut total = None;
        for block in leaves.chunks(block) {
            let partial = block.iter().fold(Node::default(), |sum, &leaf| join(sum, leaf));
            total = Some(total.map_or(partial, |total| join(total, partial)));
        }
        total.unwrap_or_default()
    }
}

/// Returns a constant with these values, of some type.
fn constant(values: &[f32], shape: &[usize], dtype: DType) -> Tensor {
    let x = Value::from_slice(values, shape).unwrap();
    Tensor::from(dispatch(&Cast { x, to: dtype }).unwrap())
}

fn ones(shape: &[usize], dtype: DType) -> Tensor {
    Tensor::ones(shape, dtype).unwrap()
}

/// Returns every element as f32, which represents the numbers of terms.
fn values(x: &Value) -> Vec<f32> {
    dispatch(&Cast { x: x.clone(), to: DType::F32 }).unwrap().to_vec().unwrap()
}

/// Compares the remaining sums of probes of `n` terms with the chain of blocks of `block`. `run`
/// returns the remaining sum in every element of a result.
#[track_caller]
fn check_chain(
    name: &str,
    n: usize,
    block: usize,
    present: impl Fn(usize) -> bool + Copy,
    run: impl Fn(&[f32]) -> Vec<f32>,
) {
    for places in pairs(n, &[block, 2 * block, 3 * block]) {
        let expected = remains(n, places, present, chain(block));
        let found = run(&probe(n, places, present));
        assert!(!found.is_empty(), "{name}: no results");
        let same = found.iter().all(|&found| found == expected);
        assert!(same, "{name}: {found:?} and not {expected} remain of a probe at {places:?}");
    }
}

/// Returns pairs of positions around the borders of blocks.
fn pairs(n: usize, borders: &[usize]) -> Vec<[usize; 2]> {
    let mut places: Vec<usize> =
        borders.iter().flat_map(|&b| [b.saturating_sub(1), b, b + 1, b + 7]).collect();
    places.extend([0, 1, 2, 5, n / 3, n / 2, n - 2, n - 1]);
    places.retain(|&place| place < n);
    places.sort_unstable();
    places.dedup();
    let after = |(k, &i): (usize, &usize)| -> Vec<[usize; 2]> {
        places[k + 1..].iter().map(|&j| [i, j]).collect()
    };
    places.iter().enumerate().flat_map(after).collect()
}

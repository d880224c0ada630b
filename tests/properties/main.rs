//! Random shapes, parameters and indices, valid and not: every operation gives the right result
//! or a typed error, and never panics; one file per family of operations.
//!
//! `PROPTEST_CASES` sets the number of cases of each property.

mod bincount;
mod contraction;
mod conv;
mod elementwise;
mod embedding;
mod index;
mod loss;
mod norm;
mod pooling;
mod recurrent;
mod reduce;
mod resample;
mod scan;
mod scatter;
mod sort;
mod sparse;

use proptest::prelude::*;
use proptest::test_runner::Config;

/// The number of cases of a property, unless `PROPTEST_CASES` asks for another.
fn cases(count: u32) -> Config {
    let mut config = Config::with_cases(count);
    if let Some(asked) = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()) {
        config.cases = asked;
    }
    // A failing case is printed whole; there is no file to commit.
    config.failure_persistence = None;
    config
}

/// A shape of up to `rank` dimensions, sizes 0 and 1 included.
fn shape(rank: usize) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(
        prop_oneof![2 => Just(1usize), 1 => Just(0), 5 => 2usize..6],
        0..=rank,
    )
}

/// Every position of a shape, in row-major order.
fn positions(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &size in shape {
        all = all
            .into_iter()
            .flat_map(|at: Vec<usize>| (0..size).map(move |i| [&at[..], &[i]].concat()))
            .collect();
    }
    all
}

/// The number of a position in row-major order.
fn row_major(at: &[usize], shape: &[usize]) -> usize {
    at.iter().zip(shape).fold(0, |number, (&i, &size)| number * size + i)
}

//! Random shapes, parameters and indices, valid and invalid: every operation returns the right
//! result or a typed error, and never panics. One file per family of operations.
//!
//! A family has at least a thousand cases. `PROPTEST_CASES` sets the number for each property, and
//! `cargo xtask properties` runs more.

mod bincount;
mod contraction;
mod conv;
mod elementwise;
mod embedding;
mod index;
mod limits;
mod loss;
mod norm;
mod overwrite;
mod pooling;
mod ranges;
mod recurrent;
mod reduce;
mod resample;
mod scan;
mod scatter;
mod search;
mod sort;
mod sparse;

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::Config;
use samebits::{Device, cuda};

/// Returns the number of cases of each property in a family with so many properties, unless
/// `PROPTEST_CASES` sets another.
fn cases(properties: u32) -> Config {
    let mut config = Config::with_cases(1000_u32.div_ceil(properties));
    if let Some(asked) = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()) {
        config.cases = asked;
    }
    // A failing case is printed whole; there is no file to commit.
    config.failure_persistence = None;
    config
}

#[test]
fn a_family_has_a_thousand_cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("properties");
    let mut families = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let properties = text.matches("    #[test]\n").count();
        if path.ends_with("main.rs") {
            continue;
        }
        families += 1;
        let stated = text.split("proptest_config(cases(").skip(1);
        let stated: Vec<usize> =
            stated.map(|rest| rest.split(')').next().unwrap().parse().unwrap()).collect();
        assert!(!stated.is_empty(), "{path:?} has no properties");
        assert!(
            stated.iter().all(|&n| n == properties),
            "{path:?} has {properties} properties and states {stated:?}"
        );
    }
    assert!(families >= 16, "only {families} families were found");
}

/// Returns the results of `f` on the CPU. A CUDA device, if the driver offers one, must give the same bits.
fn on_devices(mut f: impl FnMut(Device) -> Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    static CUDA: LazyLock<bool> = LazyLock::new(|| matches!(cuda::install(), Ok(1..)));
    let bits = |x: &[Vec<f64>]| -> Vec<Vec<u64>> {
        x.iter().map(|x| x.iter().map(|x| x.to_bits()).collect()).collect()
    };
    let here = f(Device::Cpu);
    if *CUDA {
        let there = f(Device::Cuda(0));
        assert_eq!(bits(&here), bits(&there), "the CPU gives {here:?}, the device {there:?}");
    }
    here
}

/// Returns whether PyTorch has the dimension: a tensor without dimensions has dimension 0, of size
/// 1.
fn has_dim(shape: &[usize], dim: usize) -> bool {
    dim < shape.len().max(1)
}

/// Draws numbers at which formulas break, and ordinary ones.
fn special() -> impl Strategy<Value = f64> {
    prop_oneof![
        2 => prop_oneof![Just(0.0), Just(-0.0)],
        1 => prop_oneof![Just(1e-45), Just(-3e-41), Just(5e-324)],
        1 => prop_oneof![Just(1e-30), Just(-1e-30)],
        1 => prop_oneof![Just(1e30), Just(-1e30), Just(3e38), Just(-3e38)],
        2 => prop_oneof![Just(f64::INFINITY), Just(f64::NEG_INFINITY)],
        1 => Just(f64::NAN),
        3 => (-4i32..4).prop_map(f64::from),
        3 => -4.0..4.0,
    ]
}

/// Draws a shape of up to `rank` dimensions, including sizes 0 and 1.
fn shape(rank: usize) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(
        prop_oneof![2 => Just(1usize), 1 => Just(0), 5 => 2usize..6],
        0..=rank,
    )
}

/// Returns every position of a shape, in row-major order.
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

/// Returns the row-major index of a position.
fn row_major(at: &[usize], shape: &[usize]) -> usize {
    at.iter().zip(shape).fold(0, |number, (&i, &size)| number * size + i)
}

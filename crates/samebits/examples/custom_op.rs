//! A user-defined operation with a variant per level, under the same rule as any other.
//!
//! `cargo run --package samebits --example custom_op`

// The example prints its results.
#![allow(clippy::print_stdout)]

use std::sync::Mutex;

use samebits::registry::{Kernel, register};
use samebits::tensor_core::Tensor;
use samebits::{DType, Determinism, Error, Op, Result, dispatch, dispatch_at, manual_seed};

/// The sum of the elements above a threshold.
struct SumAbove {
    x: Tensor,
    threshold: f32,
}

impl Op for SumAbove {
    const NAME: &'static str = "sum_above";
    type Plan = ();
    type Output = Tensor;

    samebits::tensor_core::inputs![x];

    fn plan(&self) -> Result<()> {
        if self.x.rank() == 1 {
            return Ok(());
        }
        let message = format!("expected 1 dimension, got shape {:?}", self.x.shape());
        Err(Error::InvalidArgument { op: Self::NAME, message })
    }
}

/// Adds in four threads to one sum, in order of arrival.
fn unordered(op: &SumAbove, (): &()) -> Result<Tensor> {
    let values = op.x.to_vec::<f32>()?;
    let sum = Mutex::new(0.0f32);
    std::thread::scope(|threads| {
        for part in values.chunks(values.len().div_ceil(4).max(1)) {
            let sum = &sum;
            threads.spawn(move || {
                for &x in part.iter().filter(|&&x| x > op.threshold) {
                    *sum.lock().expect("no holder panics") += x;
                }
            });
        }
    });
    Ok(Tensor::scalar(sum.into_inner().expect("no holder panics")))
}

/// Computes the exact sum, rounded once, whatever the threads and the order.
fn exact(op: &SumAbove, (): &()) -> Result<Tensor> {
    let mut sum = samebits::numerics::exact::ExactSum::new();
    for x in op.x.to_vec::<f32>()?.into_iter().filter(|&x| x > op.threshold) {
        sum.add(x);
    }
    Ok(Tensor::scalar(sum.to_f32()))
}

fn main() -> Result<()> {
    // First register only the variant without guarantees.
    register(Kernel::fast("unordered", &[DType::F32], "added as threads come", unordered));
    manual_seed(0);
    let op = SumAbove { x: samebits::randn(&[100_000])?.into(), threshold: 0.5 };

    // At the default level, `Portable`, the call is rejected.
    let refusal = dispatch(&op).expect_err("nothing meets the level");
    println!("refused: {refusal}");
    let sum = dispatch_at(&op, Determinism::NotGuaranteed)?;
    println!("not guaranteed: {}", sum.item::<f32>()?);

    // With a variant that meets the level, it runs.
    register(Kernel::portable("exact", &[DType::F32], "the sum is exact", exact));
    println!("portable: {}", dispatch(&op)?.item::<f32>()?);
    Ok(())
}

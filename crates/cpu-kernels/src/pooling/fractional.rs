//! Maximum pooling over windows at pseudo-random positions.

use super::adaptive::first_largest;
use super::{FractionalAxis, FractionalPool};
use crate::error::{Error, Result, expect_len};
use crate::{Float, memory, parallel};
use samebits_numerics::fpenv;

/// Computes the largest element of each window, and its position in its plane; see
/// [`FractionalPool`]. Its gradient is [`max_pool_backward`](super::max_pool_backward).
///
/// # Shapes
///
/// `input` has [`FractionalPool::input_len`] elements, `out` and `indices` have
/// [`FractionalPool::output_len`]; `samples` is (planes, dimensions), numbers in [0, 1).
///
/// # Determinism
///
/// Portable: ties go to the lowest index; see the [module](super).
///
/// # Errors
///
/// [`Error::Length`] if a slice has the wrong length; [`Error::Argument`] if a sample is not in [0,
/// 1); [`Error::OutOfMemory`].
///
/// # References
///
/// As [`FractionalPool`].
pub fn fractional_max_pool<T: Float>(
    pool: &FractionalPool,
    input: &[T],
    samples: &[T],
    out: &mut [T],
    indices: &mut [i64],
) -> Result<()> {
    expect_len(pool.op(), "input", input.len(), pool.input_len())?;
    expect_len(pool.op(), "samples", samples.len(), pool.samples_len())?;
    expect_len(pool.op(), "out", out.len(), pool.output_len())?;
    expect_len(pool.op(), "indices", indices.len(), pool.output_len())?;
    let outside = |&&u: &&T| !(u >= T::ZERO && u < T::ONE);
    if let Some(sample) = fpenv::ieee(|| samples.iter().find(outside)) {
        return Err(Error::argument(pool.op(), format!("sample {sample:?} is not in [0, 1)")));
    }
    if out.is_empty() {
        return Ok(());
    }
    let (in_plane, out_plane) = (pool.input_plane(), pool.output_plane());
    let [depth, height, width] = pool.axes();
    let inputs = parallel::chunks(input, in_plane).zip(parallel::chunks(samples, pool.dims()));
    parallel::chunks_mut(out, out_plane)
        .zip(parallel::chunks_mut(indices, out_plane))
        .zip(inputs)
        .try_for_each(|((out, indices), (input, samples))| {
            // PyTorch's order of samples: (W, H) in two dimensions, (D, H, W) in three.
            let samples = match *samples {
                [w, h] => [T::ZERO, h, w],
                _ => [samples[0], samples[1], samples[2]],
            };
            let starts = |axis, dim: usize| starts(pool.op(), axis, samples[dim]);
            let starts = [starts(depth, 0)?, starts(height, 1)?, starts(width, 2)?];
            for (o, (out, index)) in out.iter_mut().zip(indices).enumerate() {
                let at = [
                    starts[0][o / (height.output * width.output)],
                    starts[1][o / width.output % height.output],
                    starts[2][o % width.output],
                ];
                let mut best = None;
                for d in at[0]..at[0] + depth.kernel {
                    for h in at[1]..at[1] + height.kernel {
                        let line = (d * height.input + h) * width.input + at[2];
                        best = first_largest(input, best, line..line + width.kernel);
                    }
                }
                let best = best.expect("a window has an element");
                *out = input[best].canonical();
                *index = best as i64;
            }
            Ok(())
        })
}

/// Returns the starts of the windows of one dimension.
fn starts<T: Float>(op: &'static str, axis: &FractionalAxis, sample: T) -> Result<Vec<usize>> {
    let FractionalAxis { input, output, kernel } = *axis;
    let last = input - kernel;
    if output == 1 {
        return Ok(vec![last]);
    }
    let (span, sample) = ((output - 1) as f64, sample.into());
    let place = |outputs: f64| (outputs * last as f64 / span) as usize;
    let start = |o: usize| {
        if o == output - 1 {
            return last;
        }
        let start = place(o as f64 + sample) - place(sample);
        // Limits the start: a sample that was rounded up to 1 must not lead outside the plane.
        start.min(last)
    };
    memory::collected(op, (0..output).map(start))
}

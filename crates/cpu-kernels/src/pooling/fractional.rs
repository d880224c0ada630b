//! Maximum pooling over windows at pseudo-random places.

use super::adaptive::first_largest;
use crate::error::{Error, Result, expect_countable, expect_len, expect_size};
use crate::{Float, memory, parallel};
use samebits_numerics::fpenv;

/// The sizes of a fractional pooling.
///
/// Window `o` of a dimension starts at `floor((o + u) * a) - floor(u * a)` with
/// `a = (input - kernel) / (output - 1)` and `u` the plane's random sample for that dimension,
/// each operation rounded in the element type; the last window ends at the end of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fractional {
    op: &'static str,
    planes: usize,
    dims: usize,
    input: [usize; 3],
    output: [usize; 3],
    kernel: [usize; 3],
}

impl Fractional {
    /// The sizes of a pooling of `planes` planes of size `input` to size `output` with windows
    /// of size `kernel`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the sizes are not two or three numbers each, a kernel or output
    /// size is 0, `output + kernel - 1` exceeds the input, or the sizes are more elements than can
    /// be counted.
    ///
    /// # References
    ///
    /// B. Graham, *Fractional Max-Pooling*, 2014; `torch.nn.functional.fractional_max_pool2d`.
    pub fn new(
        op: &'static str,
        planes: usize,
        input: &[usize],
        output: &[usize],
        kernel: &[usize],
    ) -> Result<Fractional> {
        let dims = input.len();
        if !(2..=3).contains(&dims) || output.len() != dims || kernel.len() != dims {
            return Err(Error::argument(
                op,
                format!(
                    "input {input:?}, output {output:?} and kernel {kernel:?} must have 2 or 3 sizes each"
                ),
            ));
        }
        for d in 0..dims {
            let last = input[d].checked_sub(kernel[d]);
            if kernel[d] == 0 || output[d] == 0 || last.is_none_or(|last| output[d] - 1 > last) {
                return Err(Error::argument(
                    op,
                    format!(
                        "{} windows of {} do not fit an input of {}",
                        output[d], kernel[d], input[d]
                    ),
                ));
            }
        }
        // An output is at most as large.
        expect_countable(op, &[&[planes], input].concat())?;
        let mut sizes =
            Fractional { op, planes, dims, input: [1; 3], output: [1; 3], kernel: [1; 3] };
        sizes.input[3 - dims..].copy_from_slice(input);
        sizes.output[3 - dims..].copy_from_slice(output);
        sizes.kernel[3 - dims..].copy_from_slice(kernel);
        Ok(sizes)
    }

    /// Elements of the input, all planes together.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.planes * self.input.iter().product::<usize>()
    }

    /// Elements of the output, all planes together.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.planes * self.output.iter().product::<usize>()
    }

    /// Where the windows of one dimension start.
    fn starts<T: Float>(&self, dim: usize, samples: &[T]) -> Result<Vec<usize>> {
        let (input, output, kernel) = (self.input[dim], self.output[dim], self.kernel[dim]);
        // PyTorch's order of the samples: (W, H) in two dimensions, (D, H, W) in three.
        let sample = match (self.dims, dim) {
            (2, 0) => T::ZERO,
            (2, dim) => samples[2 - dim],
            (_, dim) => samples[dim],
        };
        let last = input - kernel;
        if output == 1 {
            return Ok(vec![last]);
        }
        let step = T::from_usize(last) / T::from_usize(output - 1);
        let truncate = |x: T| x.into() as usize;
        let start = |o: usize| {
            if o == output - 1 {
                return last;
            }
            let start = truncate((T::from_usize(o) + sample) * step) - truncate(sample * step);
            // A sample that is rounded up to 1 must not lead outside the plane.
            start.min(last)
        };
        memory::collected(self.op, (0..output).map(start))
    }
}

/// The largest element of each window, and its position in its plane; see [`Fractional`]. Its
/// gradient is [`max_pool_backward`](super::max_pool_backward).
///
/// # Shapes
///
/// `input` has [`Fractional::input_len`] elements, `out` and `indices` have
/// [`Fractional::output_len`]; `samples` is (planes, dimensions), numbers in [0, 1).
///
/// # Determinism
///
/// Portable: the first index wins, see the [module](super).
///
/// # Errors
///
/// [`Error::Length`] if a slice does not fit the sizes; [`Error::Argument`] if a sample is not
/// in [0, 1); [`Error::OutOfMemory`].
///
/// # References
///
/// As [`Fractional::new`].
pub fn fractional_max_pool<T: Float>(
    sizes: &Fractional,
    input: &[T],
    samples: &[T],
    out: &mut [T],
    indices: &mut [i64],
) -> Result<()> {
    expect_len(sizes.op, "input", input.len(), sizes.input_len())?;
    expect_size(sizes.op, "samples", samples.len(), &[sizes.planes, sizes.dims])?;
    expect_len(sizes.op, "out", out.len(), sizes.output_len())?;
    expect_len(sizes.op, "indices", indices.len(), sizes.output_len())?;
    let outside = |&&u: &&T| !(u >= T::ZERO && u < T::ONE);
    if let Some(sample) = fpenv::ieee(|| samples.iter().find(outside)) {
        return Err(Error::argument(sizes.op, format!("sample {sample:?} is not in [0, 1)")));
    }
    if out.is_empty() {
        return Ok(());
    }
    let in_plane: usize = sizes.input.iter().product();
    let out_plane: usize = sizes.output.iter().product();
    let [_, height, width] = sizes.output;
    let inputs = parallel::chunks(input, in_plane).zip(parallel::chunks(samples, sizes.dims));
    parallel::chunks_mut(out, out_plane)
        .zip(parallel::chunks_mut(indices, out_plane))
        .zip(inputs)
        .try_for_each(|((out, indices), (input, samples))| {
            let starts =
                [sizes.starts(0, samples)?, sizes.starts(1, samples)?, sizes.starts(2, samples)?];
            for (o, (out, index)) in out.iter_mut().zip(indices).enumerate() {
                let at = [
                    starts[0][o / (height * width)],
                    starts[1][o / width % height],
                    starts[2][o % width],
                ];
                let mut best = None;
                for d in at[0]..at[0] + sizes.kernel[0] {
                    for h in at[1]..at[1] + sizes.kernel[1] {
                        let line = (d * sizes.input[1] + h) * sizes.input[2] + at[2];
                        best = first_largest(input, best, line..line + sizes.kernel[2]);
                    }
                }
                let best = best.expect("a window has an element");
                *out = input[best].canonical();
                *index = best as i64;
            }
            Ok(())
        })
}

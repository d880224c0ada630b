//! Constructors of regular tensors.

use samebits_tensor_core::layout::numel;
use samebits_tensor_core::{DType, Error, Result, Tensor as Value};

use crate::Tensor;

/// Creation of regular tensors.
impl Tensor {
    /// Creates the `n` × `n` host matrix with ones on the diagonal and zeros elsewhere.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if no machine can address that many elements,
    /// [`Error::OutOfMemory`] if there is no memory for them.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::{DType, Tensor};
    ///
    /// assert_eq!(Tensor::eye(2, DType::F32)?.to_vec::<f32>()?, [1.0, 0.0, 0.0, 1.0]);
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    pub fn eye(n: usize, dtype: DType) -> Result<Tensor> {
        numel("eye", &[n, n])?;
        let columns = Tensor::arange(n)?;
        columns.eq(&columns.unsqueeze(-1)?)?.to_dtype(dtype).map_err(|error| error.called("eye"))
    }

    /// Creates `steps` evenly spaced host numbers from `start` to `end`, inclusive.
    ///
    /// # Determinism
    ///
    /// Portable. The first half is `start + i · step`, the second `end − (steps − 1 − i) · step`,
    /// with `step = (end − start) / (steps − 1)`; if the difference overflows, each end is divided
    /// first. Every operation is rounded to f64, and the result to `dtype`.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] if `dtype` is not a float, [`Error::InvalidArgument`] if no machine
    /// can address that many elements, [`Error::OutOfMemory`] if there is no memory for them.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::{DType, Tensor};
    ///
    /// let x = Tensor::linspace(0.0, 1.0, 5, DType::F32)?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    pub fn linspace(start: f64, end: f64, steps: usize, dtype: DType) -> Result<Tensor> {
        let op = "linspace";
        if !dtype.is_float() {
            let (what, expected) = ("the result", DType::F32);
            return Err(Error::DTypeMismatch { op, what, expected, got: dtype });
        }
        numel(op, &[steps])?;
        let mut numbers = Value::scratch(&[steps], DType::F64).map_err(|error| error.called(op))?;
        let last = steps.saturating_sub(1);
        let step = match end - start {
            way if way.is_finite() => way / last as f64,
            _ => end / last as f64 - start / last as f64,
        };
        for (i, number) in numbers.as_mut_slice::<f64>()?.iter_mut().enumerate() {
            *number = match (last, i < steps / 2) {
                (0, _) => start,
                (_, true) => start + i as f64 * step,
                (_, false) => end - (last - i) as f64 * step,
            };
        }
        Tensor::from(numbers).to_dtype(dtype).map_err(|error| error.called(op))
    }

    /// Creates the host tensor `[start, start + step, ..]` of type `I64`, up to but not including
    /// `end`: PyTorch's `arange(start, end, step)`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if `step` is 0 or leads away from `end`, or no machine can address
    /// that many elements, [`Error::OutOfMemory`] if there is no memory for them.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::Tensor;
    ///
    /// assert_eq!(Tensor::arange_step(1, 8, 3)?.to_vec::<i64>()?, [1, 4, 7]);
    /// assert_eq!(Tensor::arange_step(3, 0, -1)?.to_vec::<i64>()?, [3, 2, 1]);
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    #[doc(alias = "arange")]
    pub fn arange_step(start: i64, end: i64, step: i64) -> Result<Tensor> {
        let op = "arange_step";
        let (distance, wide) = (i128::from(end) - i128::from(start), i128::from(step));
        if step == 0 || distance.signum() * wide.signum() < 0 {
            let message = format!("step {step} does not lead from {start} towards {end}");
            return Err(Error::invalid(op, message));
        }
        let count = distance.unsigned_abs().div_ceil(wide.unsigned_abs());
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        numel(op, &[count])?;
        let mut numbers = Value::scratch(&[count], DType::I64).map_err(|error| error.called(op))?;
        for (i, number) in numbers.as_mut_slice::<i64>()?.iter_mut().enumerate() {
            // The number lies between `start` and `end`, so it fits the type.
            *number = (i128::from(start) + i as i128 * wide) as i64;
        }
        Ok(numbers.into())
    }
}

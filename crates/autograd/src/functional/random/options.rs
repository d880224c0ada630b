use samebits_tensor_core::{DType, Device, Error, Result};

use super::{normals, randint_with, to_dtype, uniform};
use crate::Tensor;
use crate::scope::with_generator;

/// The element type and device of random tensors (default: f32 on the host).
///
/// The numbers come from the generator in force: that of [`nn::draw_from`], else this thread's
/// default generator of the device.
///
/// [`nn::draw_from`]: crate::nn::draw_from
///
/// # Examples
///
/// ```
/// use samebits_autograd::DType;
/// use samebits_autograd::functional::RandomOptions;
///
/// samebits_tensor_core::random::manual_seed(7);
/// let x = RandomOptions::new().dtype(DType::F64).randn(&[2, 3])?;
/// assert_eq!(x.dtype(), DType::F64);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// The arguments `dtype` and `device` of `torch.rand`, `torch.randn`, `torch.normal` and
/// `torch.randint`.
#[derive(Clone, Copy, Debug)]
pub struct RandomOptions {
    dtype: Option<DType>,
    device: Device,
}

impl Default for RandomOptions {
    fn default() -> RandomOptions {
        RandomOptions { dtype: None, device: Device::Cpu }
    }
}

impl RandomOptions {
    /// Returns PyTorch's defaults: f32 on the host, but i64 for
    /// [`randint`](RandomOptions::randint).
    pub fn new() -> RandomOptions {
        RandomOptions::default()
    }

    /// Sets the element type.
    #[must_use]
    pub fn dtype(self, dtype: DType) -> RandomOptions {
        RandomOptions { dtype: Some(dtype), ..self }
    }

    /// Sets the device.
    #[must_use]
    pub fn device(self, device: Device) -> RandomOptions {
        RandomOptions { device, ..self }
    }

    /// Draws uniform numbers in [0, 1), as [`rand`](super::rand) does.
    ///
    /// # Errors
    ///
    /// As [`rand_like`](super::rand_like).
    pub fn rand(self, shape: &[usize]) -> Result<Tensor> {
        let dtype = self.float("rand")?;
        with_generator("rand", self.device, |generator| {
            uniform(shape, dtype, self.device, generator).map_err(|error| error.called("rand"))
        })
    }

    /// Draws standard normal numbers, as [`randn`](super::randn) does.
    ///
    /// # Errors
    ///
    /// As [`randn_like`](super::randn_like).
    pub fn randn(self, shape: &[usize]) -> Result<Tensor> {
        self.normals("randn", [0.0, 1.0], shape)
    }

    /// Draws normal numbers with one mean and one standard deviation, as
    /// [`normal_scalar`](super::normal_scalar) does.
    ///
    /// # Errors
    ///
    /// As [`normal_scalar`](super::normal_scalar); or the type is not a float.
    pub fn normal(self, mean: f64, std: f64, shape: &[usize]) -> Result<Tensor> {
        self.normals("normal", [mean, std], shape)
    }

    /// Draws uniform integers in `low..high`, as [`randint`](super::randint) does, converted to the
    /// type.
    ///
    /// # Errors
    ///
    /// As [`randint`](super::randint).
    pub fn randint(self, low: i64, high: i64, shape: &[usize]) -> Result<Tensor> {
        let numbers = with_generator("randint", self.device, |generator| {
            randint_with(low, high, shape, generator)
        });
        numbers
            .and_then(|x| to_dtype(&x, self.dtype.unwrap_or(DType::I64))?.to(self.device))
            .map_err(|error| error.called("randint"))
    }

    fn normals(self, op: &'static str, numbers: [f64; 2], shape: &[usize]) -> Result<Tensor> {
        let dtype = self.float(op)?;
        with_generator(op, self.device, |generator| {
            normals(shape, dtype, self.device, numbers, generator).map_err(|error| error.called(op))
        })
    }

    fn float(self, op: &'static str) -> Result<DType> {
        let (got, what) = (self.dtype.unwrap_or(DType::F32), "the result");
        match got.is_full_float() {
            true => Ok(got),
            false => Err(Error::DTypeMismatch { op, what, expected: DType::F32, got }),
        }
    }
}

//! Conversions between tensors and numbers or arrays.

use samebits_tensor_core::{bf16, f16};

use crate::{Error, Result, Tensor};

/// A Rust number type that tensors convert from and to: `f32`, `f64`, `f16`, `bf16`, `i64`, `u32`,
/// `u8`, `bool`, and `i32`. An `i32` becomes i64, as PyTorch's integers do; [`Tensor::from_slice`]
/// keeps i32.
pub trait Number: Copy {
    /// Creates a tensor of `values` in row-major order.
    ///
    /// # Errors
    ///
    /// As [`Tensor::from_slice`].
    fn tensor(values: &[Self], shape: &[usize]) -> Result<Tensor>;

    /// Returns the elements of a tensor of this type in row-major order; `i32` reads i32.
    ///
    /// # Errors
    ///
    /// As [`Tensor::to_vec`].
    fn values(x: &Tensor) -> Result<Vec<Self>>;
}

macro_rules! elements {
    ($($number:ty),*) => {$(
        impl Number for $number {
            fn tensor(values: &[Self], shape: &[usize]) -> Result<Tensor> {
                Tensor::from_slice(values, shape)
            }

            fn values(x: &Tensor) -> Result<Vec<Self>> {
                x.to_vec()
            }
        }

        impl From<$number> for Tensor {
            /// Creates a tensor without dimensions.
            fn from(value: $number) -> Tensor {
                Tensor::scalar(value)
            }
        }

        /// Returns the only element.
        impl TryFrom<&Tensor> for $number {
            type Error = Error;

            fn try_from(x: &Tensor) -> Result<$number> {
                x.item()
            }
        }
    )*};
}
elements!(f32, f64, f16, bf16, i64, u32, u8);

impl Number for i32 {
    fn tensor(values: &[Self], shape: &[usize]) -> Result<Tensor> {
        let wide: Vec<i64> = values.iter().copied().map(i64::from).collect();
        Tensor::from_slice(&wide, shape)
    }

    fn values(x: &Tensor) -> Result<Vec<i32>> {
        x.to_vec()
    }
}

impl From<i32> for Tensor {
    /// Creates a tensor without dimensions, of type i64 as in [`Tensor::new`].
    fn from(value: i32) -> Tensor {
        Tensor::scalar(i64::from(value))
    }
}

/// Returns the only element.
impl TryFrom<&Tensor> for i32 {
    type Error = Error;

    fn try_from(x: &Tensor) -> Result<i32> {
        x.item()
    }
}

impl Number for bool {
    fn tensor(values: &[Self], shape: &[usize]) -> Result<Tensor> {
        Tensor::from_bools(values, shape)
    }

    fn values(x: &Tensor) -> Result<Vec<bool>> {
        x.to_bools()
    }
}

impl TryFrom<bool> for Tensor {
    type Error = Error;

    /// Creates a tensor without dimensions.
    fn try_from(value: bool) -> Result<Tensor> {
        Tensor::new(value)
    }
}

/// Returns the only element.
impl TryFrom<&Tensor> for bool {
    type Error = Error;

    fn try_from(x: &Tensor) -> Result<bool> {
        expect_shape(x, &vec![1; x.rank()])?;
        Ok(x.to_bools()?[0])
    }
}

/// The argument of [`Tensor::new`]: a number, or an array of arguments, nested to any depth.
pub trait Nested {
    /// The type of the innermost numbers.
    type Number: Number;

    /// Appends the size of each dimension.
    fn sizes(shape: &mut Vec<usize>);

    /// Appends the numbers in row-major order.
    fn flatten(&self, numbers: &mut Vec<Self::Number>);

    /// Builds the value whose [`flatten`](Nested::flatten) appends `numbers`.
    ///
    /// # Panics
    ///
    /// There are fewer numbers than the product of the [`sizes`](Nested::sizes).
    fn nest(numbers: &[Self::Number]) -> Self;
}

impl<N: Number> Nested for N {
    type Number = N;

    fn sizes(_: &mut Vec<usize>) {}

    fn flatten(&self, numbers: &mut Vec<N>) {
        numbers.push(*self);
    }

    fn nest(numbers: &[N]) -> N {
        numbers[0]
    }
}

impl<T: Nested, const N: usize> Nested for [T; N] {
    type Number = T::Number;

    fn sizes(shape: &mut Vec<usize>) {
        shape.push(N);
        T::sizes(shape);
    }

    fn flatten(&self, numbers: &mut Vec<T::Number>) {
        self.iter().for_each(|inner| inner.flatten(numbers));
    }

    fn nest(numbers: &[T::Number]) -> [T; N] {
        let inner = numbers.len().checked_div(N).unwrap_or(0);
        std::array::from_fn(|i| T::nest(&numbers[i * inner..(i + 1) * inner]))
    }
}

impl Tensor {
    /// Creates a host tensor from a number, an array or nested arrays, with Rust's type of the
    /// numbers: `1.0` gives f64 and `1` gives i64.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if there is no memory for it.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::Tensor;
    ///
    /// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
    /// assert_eq!(x.shape(), [2, 2]);
    /// assert_eq!(f32::try_from(&x.sum(())?)?, 10.0);
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    #[doc(alias = "tensor")]
    pub fn new<T: Nested>(values: T) -> Result<Tensor> {
        let (mut shape, mut numbers) = (Vec::new(), Vec::new());
        T::sizes(&mut shape);
        values.flatten(&mut numbers);
        T::Number::tensor(&numbers, &shape)
    }
}

impl<T: Nested, const N: usize> TryFrom<[T; N]> for Tensor {
    type Error = Error;

    fn try_from(values: [T; N]) -> Result<Tensor> {
        Tensor::new(values)
    }
}

/// Returns the elements as the nested array that [`Tensor::new`] takes.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
/// assert_eq!(<[[f32; 2]; 2]>::try_from(&x.t()?)?, [[1.0, 3.0], [2.0, 4.0]]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
impl<T: Nested, const N: usize> TryFrom<&Tensor> for [T; N] {
    type Error = Error;

    fn try_from(x: &Tensor) -> Result<[T; N]> {
        let mut shape = Vec::new();
        <[T; N]>::sizes(&mut shape);
        expect_shape(x, &shape)?;
        Ok(<[T; N]>::nest(&T::Number::values(x)?))
    }
}

/// Returns the elements in row-major order.
impl<N: Number> TryFrom<&Tensor> for Vec<N> {
    type Error = Error;

    fn try_from(x: &Tensor) -> Result<Vec<N>> {
        N::values(x)
    }
}

fn expect_shape(x: &Tensor, shape: &[usize]) -> Result<()> {
    if x.shape() == shape {
        return Ok(());
    }
    let (expected, got) = (shape.to_vec(), x.shape().to_vec());
    Err(Error::ShapeMismatch { op: "try_from", what: "the tensor", expected, got })
}

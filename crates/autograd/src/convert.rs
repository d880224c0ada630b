//! Tensors from numbers and arrays, and back.

use samebits_tensor_core::{bf16, f16};

use crate::{Error, Result, Tensor};

/// An element as Rust writes it: `f32`, `f64`, `f16`, `bf16`, `i64`, `u32`, `u8`, `bool`, and `i32`,
/// which becomes i64 as PyTorch's integers do; [`Tensor::from_slice`] keeps it.
pub trait Number: Copy {
    /// A tensor of `values` in row-major order.
    ///
    /// # Errors
    ///
    /// As [`Tensor::from_slice`].
    fn tensor(values: &[Self], shape: &[usize]) -> Result<Tensor>;

    /// The elements of a tensor of this very type in row-major order; `i32` reads i32.
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
            /// A tensor without dimensions.
            fn from(value: $number) -> Tensor {
                Tensor::scalar(value)
            }
        }

        /// The only element.
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
    /// A tensor without dimensions, of type i64 as [`Tensor::new`] makes it.
    fn from(value: i32) -> Tensor {
        Tensor::scalar(i64::from(value))
    }
}

/// The only element.
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

    /// A tensor without dimensions.
    fn try_from(value: bool) -> Result<Tensor> {
        Tensor::new(value)
    }
}

/// The only element.
impl TryFrom<&Tensor> for bool {
    type Error = Error;

    fn try_from(x: &Tensor) -> Result<bool> {
        expect_shape(x, &vec![1; x.rank()])?;
        Ok(x.to_bools()?[0])
    }
}

/// What [`Tensor::new`] takes: a number, or an array of such things, to any depth.
pub trait Nested {
    /// The numbers at the bottom.
    type Number: Number;

    /// Appends the size of each dimension.
    fn sizes(shape: &mut Vec<usize>);

    /// Appends the numbers in row-major order.
    fn flatten(&self, numbers: &mut Vec<Self::Number>);

    /// What [`flatten`](Nested::flatten) appends `numbers` for.
    ///
    /// # Panics
    ///
    /// There are fewer numbers than [`sizes`](Nested::sizes) says.
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
    /// A host tensor of a number, an array or nested arrays, of the type that they have in Rust:
    /// `1.0` is an f64 and `1` an i64.
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

/// The elements, as [`Tensor::new`] takes them.
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

/// The elements in row-major order.
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

//! Conversions from and to arrays of the crate `ndarray`.

use ndarray::{Array, ArrayBase, Data, Dimension, IxDyn};
use samebits_tensor_core::{Element, bf16, f16};

use crate::memory::room;
use crate::{Error, Result, Tensor};

const OP: &str = "ndarray";

/// An element of both tensors and arrays: `f32`, `f64`, `f16`, `bf16`, `i64`, `i32`, `u32`, `u8` or
/// `bool`. The tensor has the element type of the same name.
///
/// # Examples
///
/// Arrays of any layout and number of dimensions convert to tensors and back. If the array's type
/// or number of dimensions differs from the tensor's, the conversion returns an error:
///
/// ```
/// use ndarray::{Array1, Array2, ArrayD, array};
/// use samebits_autograd::Tensor;
///
/// let a = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
/// let x = Tensor::try_from(a.t())?;
/// assert_eq!(x.shape(), [3, 2]);
/// assert_eq!(Array2::<f32>::try_from(&x)?, a.t());
/// assert_eq!(ArrayD::<f32>::try_from(&x)?.ndim(), 2);
/// assert!(Array1::<f32>::try_from(&x).is_err());
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
pub trait ArrayElement: Copy + sealed::Sealed {
    /// Creates a tensor of `values` in row-major order.
    #[doc(hidden)]
    fn tensor(values: &[Self], shape: &[usize]) -> Result<Tensor>;

    /// Returns the elements in row-major order.
    #[doc(hidden)]
    fn values(x: &Tensor) -> Result<Vec<Self>>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($element:ty),*) => {$(
        impl sealed::Sealed for $element {}

        impl ArrayElement for $element {
            fn tensor(values: &[Self], shape: &[usize]) -> Result<Tensor> {
                Tensor::from_slice(values, shape)
            }

            fn values(x: &Tensor) -> Result<Vec<Self>> {
                match x.dtype() == <$element as Element>::DTYPE {
                    true => x.to_vec(),
                    false => Err(Error::DTypeMismatch {
                        op: OP,
                        what: "the tensor",
                        expected: <$element as Element>::DTYPE,
                        got: x.dtype(),
                    }),
                }
            }
        }
    )*};
}
elements!(f32, f64, f16, bf16, i64, i32, u32, u8);

impl sealed::Sealed for bool {}

impl ArrayElement for bool {
    fn tensor(values: &[bool], shape: &[usize]) -> Result<Tensor> {
        Tensor::from_bools(values, shape)
    }

    fn values(x: &Tensor) -> Result<Vec<bool>> {
        x.to_bools()
    }
}

/// Copies the elements of an array or view to a host tensor in row-major order, whatever the
/// strides.
impl<A, S, D> TryFrom<&ArrayBase<S, D, A>> for Tensor
where
    A: ArrayElement,
    S: Data<Elem = A>,
    D: Dimension,
{
    type Error = Error;

    fn try_from(array: &ArrayBase<S, D, A>) -> Result<Tensor> {
        let tensor = |values: &[A]| A::tensor(values, array.shape());
        let copied = match array.as_slice() {
            Some(values) => tensor(values),
            None => {
                let mut values = room(OP, array.len())?;
                values.extend(array.iter().copied());
                tensor(&values)
            }
        };
        copied.map_err(|error| error.called(OP))
    }
}

/// Copies the elements, as for a reference.
impl<A, S, D> TryFrom<ArrayBase<S, D, A>> for Tensor
where
    A: ArrayElement,
    S: Data<Elem = A>,
    D: Dimension,
{
    type Error = Error;

    fn try_from(array: ArrayBase<S, D, A>) -> Result<Tensor> {
        Tensor::try_from(&array)
    }
}

/// Copies the elements from any device, without their graph.
impl<A: ArrayElement, D: Dimension> TryFrom<&Tensor> for Array<A, D> {
    type Error = Error;

    fn try_from(x: &Tensor) -> Result<Array<A, D>> {
        if let Some(rank) = D::NDIM
            && rank != x.rank()
        {
            let shape = x.shape();
            let message = format!("expected {rank} dimensions, got a tensor of shape {shape:?}");
            return Err(Error::invalid(OP, message));
        }
        let values = A::values(x).map_err(|error| error.called(OP))?;
        Array::from_shape_vec(IxDyn(x.shape()), values)
            .and_then(Array::into_dimensionality)
            .map_err(|error| Error::invalid(OP, error.to_string()))
    }
}

/// Copies the elements, as for a reference.
impl<A: ArrayElement, D: Dimension> TryFrom<Tensor> for Array<A, D> {
    type Error = Error;

    fn try_from(x: Tensor) -> Result<Array<A, D>> {
        Array::try_from(&x)
    }
}

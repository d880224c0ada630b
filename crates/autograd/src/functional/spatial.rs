//! Helpers of operations over spatial dimensions.

use samebits_tensor_core::{Error, Result};

use super::shape::reshape;
use crate::Tensor;

/// Runs `f` on an input with `dims` spatial dimensions; adds the batch dimension if it is missing.
#[track_caller]
pub(super) fn batched(
    input: &Tensor,
    dims: usize,
    f: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    if input.shape().len() != dims + 1 {
        return f(input);
    }
    let y = f(&reshape(input, [&[1], input.shape()].concat())?)?;
    reshape(&y, &y.shape()[1..])
}

/// Does what [`batched`] does, for a function that also returns indices.
#[track_caller]
pub(super) fn batched_with_indices(
    input: &Tensor,
    dims: usize,
    f: impl FnOnce(&Tensor) -> Result<(Tensor, Tensor)>,
) -> Result<(Tensor, Tensor)> {
    if input.shape().len() != dims + 1 {
        return f(input);
    }
    let (y, indices) = f(&reshape(input, [&[1], input.shape()].concat())?)?;
    let shape = y.shape()[1..].to_vec();
    Ok((reshape(&y, &shape)?, indices.reshape(&shape)?))
}

/// Checks the number of spatial dimensions that parameters are for.
pub(super) fn expect_dims(op: &'static str, got: usize, expected: usize) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    Err(Error::invalid(
        op,
        format!("expected parameters for {expected} spatial dimensions, got {got}"),
    ))
}

/// Defines functions for one, two and three spatial dimensions, which check that number and call
/// the general function.
macro_rules! by_dims {
    ($general:ident $args:tt -> $result:ty, dims: $dims:expr;
     $($name:ident: $count:literal, $words:literal;)*) => {
        $(
            $crate::functional::spatial::by_dims! {
                @one $general $args -> $result, $dims, $name, $count, $words
            }
        )*
    };
    (@one $general:ident ($($arg:ident: $type:ty),*) -> $result:ty, $dims:expr,
     $name:ident, $count:literal, $words:literal) => {
        #[doc = concat!("[`", stringify!($general), "`] over ", $words, ".")]
        ///
        /// # Errors
        ///
        #[doc = concat!("As [`", stringify!($general), "`]; the parameters are for another \
                         number of dimensions.")]
        #[samebits_macros::named]
        #[track_caller]
        pub fn $name($($arg: $type),*) -> $crate::Result<$result> {
            $crate::functional::spatial::expect_dims(stringify!($name), $dims, $count)?;
            $general($($arg),*)
        }
    };
}
pub(super) use by_dims;

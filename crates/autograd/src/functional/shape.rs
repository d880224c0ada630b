use samebits_tensor_core::Result;

use super::reduce::sum_to;
use crate::Var;

/// The same elements under another shape.
///
/// # Errors
///
/// The number of elements differs.
pub fn reshape(x: &Var, shape: &[usize]) -> Result<Var> {
    let old = x.shape().to_vec();
    Ok(Var::computed(x.value().reshape(shape)?, &[x], move |grad| {
        Ok(vec![Some(reshape(grad, &old)?)])
    }))
}

/// Dimensions `from..` flattened into one.
///
/// # Errors
///
/// There is no such dimension.
pub fn flatten_from(x: &Var, from: usize) -> Result<Var> {
    let flat = x.value().flatten_from(from)?;
    reshape(x, flat.shape())
}

/// Reorders the dimensions.
///
/// # Errors
///
/// `order` is not a permutation of them.
pub fn permute(x: &Var, order: &[usize]) -> Result<Var> {
    let value = x.value().permute(order)?;
    let mut inverse = vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        inverse[from] = to;
    }
    Ok(Var::computed(value, &[x], move |grad| Ok(vec![Some(permute(grad, &inverse)?)])))
}

/// Swaps two dimensions.
///
/// # Errors
///
/// There is no such dimension.
pub fn transpose(x: &Var, a: usize, b: usize) -> Result<Var> {
    let value = x.value().transpose(a, b)?;
    Ok(Var::computed(value, &[x], move |grad| Ok(vec![Some(transpose(grad, a, b)?)])))
}

/// Repeats dimensions of size 1 (and new leading ones) up to `shape`.
///
/// # Errors
///
/// A dimension is neither 1 nor already right.
pub fn expand(x: &Var, shape: &[usize]) -> Result<Var> {
    let old = x.shape().to_vec();
    Ok(Var::computed(x.value().expand(shape)?, &[x], move |grad| {
        Ok(vec![Some(sum_to(grad, &old)?)])
    }))
}

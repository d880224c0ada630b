use samebits_tensor_core::ops::Matmul;
use samebits_tensor_core::{Error, Result};

use super::elementwise::{add, wanted};
use super::reduce::sum_to;
use super::shape::transpose;
use crate::{Var, run};

/// The matrix product of the last two dimensions; earlier ones are a batch and broadcast.
///
/// # Errors
///
/// The shapes do not go together.
#[track_caller]
pub fn matmul(a: &Var, b: &Var) -> Result<Var> {
    let value = run(&Matmul { a: a.value().clone(), b: b.value().clone() })?;
    let (x, y) = (a.clone(), b.clone());
    Ok(Var::computed(value, &[a, b], move |grad| {
        let flip = |x: &Var| transpose(x, x.shape().len() - 2, x.shape().len() - 1);
        Ok(vec![
            wanted(&x, || sum_to(&matmul(grad, &flip(&y)?)?, x.shape()))?,
            wanted(&y, || sum_to(&matmul(&flip(&x)?, grad)?, y.shape()))?,
        ])
    }))
}

/// `x · weightᵀ + bias`.
///
/// # Shapes
///
/// `x` is `[.., in]` with at least two dimensions, `weight` `[out, in]`, `bias` `[out]`.
///
/// # Errors
///
/// The shapes do not go together.
#[track_caller]
pub fn linear(x: &Var, weight: &Var, bias: Option<&Var>) -> Result<Var> {
    if weight.shape().len() != 2 {
        return Err(Error::invalid(
            "linear",
            format!("expected a weight of shape [out, in], got {:?}", weight.shape()),
        ));
    }
    let product = matmul(x, &transpose(weight, 0, 1)?)?;
    match bias {
        Some(bias) => add(&product, bias),
        None => Ok(product),
    }
}

use samebits_macros::named;
use samebits_tensor_core::layout::broadcast;
use samebits_tensor_core::ops::{HalfMatmul, Matmul};
use samebits_tensor_core::{Device, Error, Result};

use super::broadcast::sum_to;
use super::elementwise::{add, scaled, wanted};
use super::shape::{reshape, transpose};
use crate::half::{Narrow, in_f32, widen};
use crate::{Tensor, run};

/// Multiplies matrices, with PyTorch's rules for the number of dimensions.
///
/// # Shapes
///
/// The last two dimensions are matrices; earlier ones are a batch and broadcast. A left operand
/// with one dimension is a row, a right one a column, and the result lacks that dimension. Two
/// vectors give a tensor without dimensions.
///
/// # Determinism
///
/// Each element is a chain of fma in ascending k in blocks of fixed length, whatever else the batch
/// holds. If only the left operand has a batch, all its rows are multiplied at once, and the
/// gradient of the right one is a single chain over all of them.
///
/// # Errors
///
/// The shapes do not match.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let a = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
/// let x = Tensor::from_slice(&[1.0f32, 10.0], &[2])?;
/// assert_eq!(functional::matmul(&a, &x)?.to_vec::<f32>()?, [21.0, 43.0]);
/// assert_eq!(functional::matmul(&x, &x)?.item::<f32>()?, 101.0);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[named]
#[track_caller]
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (shape_a, shape_b) = (a.shape(), b.shape());
    match (shape_a, shape_b) {
        ([], _) | (_, []) => Err(Error::invalid(
            "matmul",
            format!("cannot multiply shapes {shape_a:?} and {shape_b:?}; use `mul` for scalars"),
        )),
        (&[k], _) => {
            let product = matmul(&reshape(a, [1, k])?, b)?;
            let mut shape = product.shape().to_vec();
            // The row is the second-last dimension, or the last if `b` was a column.
            let row = shape.len() - if shape_b.len() == 1 { 1 } else { 2 };
            shape.remove(row);
            reshape(&product, &shape)
        }
        (_, &[k]) => {
            let product = matmul(a, &reshape(b, [k, 1])?)?;
            reshape(&product, &shape_a[..shape_a.len() - 1])
        }
        ([batch @ .., k], &[_, n]) if batch.len() > 1 => {
            let rows: usize = batch.iter().product();
            let mut shape = batch.to_vec();
            shape.push(n);
            reshape(&product(&reshape(a, [rows, *k])?, b)?, &shape)
        }
        _ => product(a, b),
    }
}

/// Multiplies matrices batch by batch.
///
/// # Shapes
///
/// `a` is `[batch, m, k]`, `b` `[batch, k, n]`; nothing broadcasts.
///
/// # Errors
///
/// The shapes do not match.
#[named]
#[track_caller]
pub fn bmm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (a.shape(), b.shape()) {
        ([batch_a, _, inner_a], [batch_b, inner_b, _])
            if batch_a == batch_b && inner_a == inner_b =>
        {
            product(a, b)
        }
        (a, b) => Err(Error::invalid(
            "bmm",
            format!("expected shapes [batch, m, k] and [batch, k, n], got {a:?} and {b:?}"),
        )),
    }
}

/// Computes `beta · input + alpha · (a · b)` for matrices.
///
/// With `beta` 0, the input is ignored: its NaN and infinities do not spread. An `alpha` of 0 is an
/// ordinary factor: NaN and infinities of the product become NaN.
///
/// # Shapes
///
/// `a` is `[m, k]`, `b` `[k, n]`; `input` broadcasts to `[m, n]`.
///
/// # Determinism
///
/// The product is that of [`matmul`]. Product and input are multiplied by their factors, then
/// added: three roundings. A factor of 1 multiplies nothing. With `beta` 0 nothing is added, so -0
/// stays.
///
/// # Errors
///
/// The shapes do not match, or the types differ.
#[named]
#[track_caller]
pub fn addmm(input: &Tensor, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Result<Tensor> {
    if a.shape().len() != 2 || b.shape().len() != 2 {
        return Err(Error::invalid(
            "addmm",
            format!("expected two matrices, got shapes {:?} and {:?}", a.shape(), b.shape()),
        ));
    }
    add_product("addmm", input, product(a, b)?, beta, alpha)
}

/// Computes [`addmm`] for each matrix of a batch.
///
/// # Shapes
///
/// As [`bmm`]; `input` broadcasts to `[batch, m, n]`.
///
/// # Determinism
///
/// As [`addmm`].
///
/// # Errors
///
/// The shapes do not match, or the types differ.
#[named]
#[track_caller]
pub fn baddbmm(input: &Tensor, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Result<Tensor> {
    add_product("baddbmm", input, bmm(a, b)?, beta, alpha)
}

/// Computes `x · weightᵀ + bias`.
///
/// # Shapes
///
/// `x` is `[.., in]`, `weight` `[out, in]` or `[in]`, `bias` `[out]` or `[]`; the result is
/// `[.., out]` or `[..]`.
///
/// # Errors
///
/// The shapes do not match.
#[named]
#[track_caller]
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if let Some(bias) = bias.filter(|_| x.dtype().is_half()) {
        return half_linear(x, weight, bias);
    }
    let product = match weight.shape() {
        [_] => matmul(x, weight)?,
        [_, _] => matmul(x, &transpose(weight, 0, 1)?)?,
        shape => {
            return Err(Error::invalid(
                "linear",
                format!("expected a weight of shape [out, in] or [in], got {shape:?}"),
            ));
        }
    };
    match bias {
        Some(bias) => add(&product, bias),
        None => Ok(product),
    }
}

/// Computes [`linear`] of halves, rounded once.
#[track_caller]
fn half_linear(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    match (x.shape(), weight.shape(), bias.shape()) {
        ([rows @ .., width], &[columns, _], &[length]) if length == columns => {
            let flat = reshape(x, [rows.iter().product(), *width])?;
            let product = half_product(&flat, &transpose(weight, 0, 1)?, Some(bias))?;
            reshape(&product, [rows, &[columns]].concat())
        }
        _ => linear(&widen(x)?, &widen(weight)?, Some(&widen(bias)?))?.narrow(x.dtype()),
    }
}

/// Multiplies matrices; both operands have at least two dimensions.
#[track_caller]
fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.dtype().is_half() {
        return half_product(a, b, None);
    }
    let value = run(&Matmul { a: a.value().clone(), b: b.value().clone() })?;
    let (x, y) = (a.clone(), b.clone());
    Ok(Tensor::computed(value, &[a, b], move |grad| factor_gradients(grad, &x, &y)))
}

/// Returns the gradients of the factors of a product.
fn factor_gradients(grad: &Tensor, x: &Tensor, y: &Tensor) -> Result<Vec<Option<Tensor>>> {
    let flip = |x: &Tensor| transpose(x, x.shape().len() - 2, x.shape().len() - 1);
    Ok(vec![
        wanted(x, || sum_to(&product(grad, &flip(y)?)?, x.shape()))?,
        wanted(y, || {
            // Use the layout of the factor, usually a weight seen transposed. The product of two
            // elements is the same in either order.
            let flipped = !y.value().is_contiguous() && flip(y)?.value().is_contiguous();
            let along =
                if flipped { flip(&product(&flip(grad)?, x)?)? } else { product(&flip(x)?, grad)? };
            sum_to(&along, y.shape())
        })?,
    ])
}

/// Multiplies matrices of halves and adds a bias of the result's columns; each element is rounded once.
#[track_caller]
fn half_product(a: &Tensor, b: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let batch = |x: &Tensor| x.shape()[..x.shape().len() - 2].to_vec();
    // The gradient of an operand that is repeated is a sum, which is in f32.
    if a.device() != Device::Cpu || batch(a) != batch(b) {
        let half = a.dtype();
        let product = product(&widen(a)?, &widen(b)?)?;
        return match bias {
            Some(bias) => add(&product, &widen(bias)?)?.narrow(half),
            None => product.narrow(half),
        };
    }
    let value = run(&HalfMatmul {
        a: a.value().clone(),
        b: b.value().clone(),
        bias: bias.map(|bias| bias.value().clone()),
    })?;
    let (x, y, z) = (a.clone(), b.clone(), bias.cloned());
    let inputs: Vec<&Tensor> = [Some(a), Some(b), bias].into_iter().flatten().collect();
    Ok(Tensor::computed(value, &inputs, move |grad| {
        let mut found = factor_gradients(grad, &x, &y)?;
        if let Some(bias) = &z {
            found.push(wanted(bias, || in_f32(grad, |grad| sum_to(grad, bias.shape())))?);
        }
        Ok(found)
    }))
}

/// Returns `beta · input + alpha · product`. The input is checked even if it is ignored.
#[track_caller]
fn add_product(
    op: &'static str,
    input: &Tensor,
    product: Tensor,
    beta: f64,
    alpha: f64,
) -> Result<Tensor> {
    let (expected, got) = (product.dtype(), input.dtype());
    if got != expected {
        return Err(Error::DTypeMismatch { op, what: "the input", expected, got });
    }
    let (expected, got) = (product.shape(), broadcast(op, input.shape(), product.shape())?);
    if got[..] != *expected {
        let (expected, got) = (expected.to_vec(), got.to_vec());
        return Err(Error::ShapeMismatch { op, what: "the sum with the input", expected, got });
    }
    let product = scaled(&product, alpha)?;
    if beta == 0.0 { Ok(product) } else { add(&scaled(input, beta)?, &product) }
}

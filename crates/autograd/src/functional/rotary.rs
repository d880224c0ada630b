//! Rotary position embedding.

use samebits_macros::named;
use samebits_tensor_core::layout::{broadcast, numel};
use samebits_tensor_core::ops::RotaryEmbedding;
use samebits_tensor_core::{Error, Result};

use super::elementwise::{add, mul, neg, sub};
use super::shape::{cat, narrow, reshape, squeeze, stack};
use crate::{Tensor, run};

/// Rotates pairs of features by angles that depend on the position.
///
/// With `interleaved` false, feature `i` is paired with feature `i + half`, as in Llama and
/// GPT-NeoX. With `interleaved` true, feature `2i` is paired with feature `2i + 1`, as in GPT-J.
/// Features from `2 · half` on stay as they are. [`RotaryEmbedding`](crate::nn::RotaryEmbedding)
/// makes the tables.
///
/// # Shapes
///
/// `x` and the result are `[.., length, width]`. `cos` and `sin` have one shape, `[.., length,
/// half]`, which broadcasts to that of `x` with `half` features; `2 · half` is at most `width`.
///
/// # Determinism
///
/// Portable. A pair `(a, b)` becomes `(a · cos − b · sin, b · cos + a · sin)`; each operation is
/// rounded.
///
/// # Errors
///
/// The shapes do not match, or the types differ.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// // A quarter turn of both pairs.
/// let x = Tensor::new([[1.0f32, 2.0, 3.0, 4.0]])?;
/// let (cos, sin) = (Tensor::new([[0.0f32, 0.0]])?, Tensor::new([[1.0f32, 1.0]])?);
/// let y = functional::rotary_embedding(&x, &cos, &sin, false)?;
/// assert_eq!(y.to_vec::<f32>()?, [-3.0, -4.0, 1.0, 2.0]);
/// let y = functional::rotary_embedding(&x, &cos, &sin, true)?;
/// assert_eq!(y.to_vec::<f32>()?, [-2.0, 1.0, -4.0, 3.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `RotaryEmbedding` of ONNX; `apply_rotary_pos_emb` of the Python library `transformers`.
#[named]
#[track_caller]
pub fn rotary_embedding(
    x: &Tensor,
    cos: &Tensor,
    sin: &Tensor,
    interleaved: bool,
) -> Result<Tensor> {
    let ([outer @ .., width], Some(&half)) = (x.shape(), cos.shape().last()) else {
        return Err(mismatch(x, cos, sin));
    };
    let rotated = [outer, &[half]].concat();
    let fits = broadcast("rotary_embedding", cos.shape(), &rotated);
    if cos.shape() != sin.shape()
        || outer.is_empty()
        || half == 0
        || half > width / 2
        || !fits.is_ok_and(|both| both[..] == rotated)
    {
        return Err(mismatch(x, cos, sin));
    }
    let table = &cos.shape()[cos.rank().saturating_sub(2)..];
    let alike = numel("rotary_embedding", table)? == cos.numel() && table.len() == 2;
    if !alike || table[0] != outer[outer.len() - 1] || cos.requires_grad() || sin.requires_grad() {
        return composed(x, cos, sin, interleaved);
    }
    turned(x, &reshape(cos, table)?, &reshape(sin, table)?, interleaved)
}

/// Rotates by tables `[length, half]` that have no gradient.
fn turned(x: &Tensor, cos: &Tensor, sin: &Tensor, interleaved: bool) -> Result<Tensor> {
    let [of_x, of_cos, of_sin] = [x, cos, sin].map(|x| x.value().clone());
    let value = run(&RotaryEmbedding { x: of_x, cos: of_cos, sin: of_sin, interleaved })?;
    let (cos, sin) = (cos.clone(), sin.clone());
    // The inverse is a turn in the other direction.
    Ok(Tensor::computed(value, &[x], move |grad| {
        Ok(vec![Some(turned(grad, &cos, &neg(&sin)?, interleaved)?)])
    }))
}

/// Rotates as a composition, with gradients of the tables.
fn composed(x: &Tensor, cos: &Tensor, sin: &Tensor, interleaved: bool) -> Result<Tensor> {
    let (Some((&width, outer)), Some(&half)) = (x.shape().split_last(), cos.shape().last()) else {
        return Err(mismatch(x, cos, sin));
    };
    let rotated = [outer, &[half]].concat();
    let part = |start, length| narrow(x, -1, start, length);
    let (a, b) = if interleaved {
        let pairs = reshape(&part(0, 2 * half)?, [&rotated[..], &[2]].concat())?;
        let side = |i| squeeze(&narrow(&pairs, -1, i, 1)?, -1);
        (side(0)?, side(1)?)
    } else {
        (part(0, half)?, part(half, half)?)
    };
    let first = sub(&mul(&a, cos)?, &mul(&b, sin)?)?;
    let second = add(&mul(&b, cos)?, &mul(&a, sin)?)?;
    let rest = (2 * half < width).then(|| part(2 * half, width - 2 * half)).transpose()?;
    let mut parts = match interleaved {
        true => vec![reshape(&stack(&[first, second], -1)?, [outer, &[2 * half]].concat())?],
        false => vec![first, second],
    };
    parts.extend(rest);
    cat(&parts, -1)
}

fn mismatch(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Error {
    let [x, cos, sin] = [x, cos, sin].map(Tensor::shape);
    let message = format!(
        "expected [.., length, width] and two tables [length, half] with 1 <= half <= width / 2, \
         got {x:?}, {cos:?} and {sin:?}"
    );
    Error::invalid("rotary_embedding", message)
}

use samebits_rng::{Draw, Generator};
use samebits_tensor_core::Result;
use samebits_tensor_core::ops::{Cast, Dropout};

use super::elementwise::{affine, mul};
use crate::{Var, run};

/// Sets each element to zero with probability `p` and scales the others by `1 / (1 − p)`. Moves
/// `generator` on by a quarter of the number of elements, rounded up.
///
/// # Errors
///
/// `p` is not in `[0, 1]`. The generator then has not moved.
#[track_caller]
pub fn dropout(x: &Var, p: f64, generator: &mut Generator) -> Result<Var> {
    let (value, mask) = run(&Dropout { x: x.value().clone(), p, generator: generator.clone() })?;
    generator.advance(Draw::blocks_u32(x.value().numel()));
    let dtype = x.dtype();
    Ok(Var::computed(value, &[x], move |grad| {
        let mask = Var::constant(run(&Cast { x: mask.clone(), to: dtype })?);
        let scale = if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) };
        Ok(vec![Some(affine(&mul(grad, &mask)?, scale, 0.0)?)])
    }))
}

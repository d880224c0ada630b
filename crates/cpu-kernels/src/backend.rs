//! Registers the kernels of this crate for tensors on the host.

mod attention;
mod bincount;
mod conv;
mod ctc;
mod elementwise;
mod embedding;
mod grid_sample;
mod index;
mod interpolate;
mod linalg;
mod loss;
mod matmul;
mod norm;
mod optim;
mod padding;
mod pooling;
mod random;
mod recurrent;
mod reduce;
mod reduced;
mod rotary;
mod scan;
mod scatter;
mod shape;
mod sort;
mod sparse;

use std::sync::Once;

use samebits_tensor_core::{DType, Result, Tensor, with_bits, with_float};

use crate::elementwise::Elementary;

/// Registers every kernel of this crate; calls after the first do nothing.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::ops::{Unary, UnaryKind};
/// use samebits_tensor_core::{Tensor, dispatch};
///
/// samebits_cpu_kernels::install();
/// let x = Tensor::from_slice(&[4.0f32, 9.0], &[2])?;
/// let y = dispatch(&Unary { kind: UnaryKind::Sqrt, x })?;
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 3.0]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        crate::parallel::bound_the_pool();
        samebits_tensor_core::backend::share_copies(crate::parallel::run_tasks);
        attention::register_all();
        bincount::register_all();
        crate::autotune::register_all();
        conv::register_all();
        ctc::register_all();
        elementwise::register_all();
        embedding::register_all();
        grid_sample::register_all();
        index::register_all();
        interpolate::register_all();
        linalg::register_all();
        loss::register_all();
        matmul::register_all();
        norm::register_all();
        optim::register_all();
        padding::register_all();
        pooling::register_all();
        random::register_all();
        recurrent::register_all();
        reduce::register_all();
        rotary::register_all();
        scan::register_all();
        scatter::register_all();
        shape::register_all();
        sort::register_all();
        sparse::register_all();
    });
}

/// The element types of most kernels.
const FLOATS: &[DType] = &[DType::F32, DType::F64];
/// The element type of integer arithmetic.
const INTEGERS: &[DType] = &[DType::I64];
/// The reason why integer arithmetic is portable.
const WRAPS: &str = "integers wrap around, so every order gives the same bits";
/// The element type of kernels that use the correctly rounded f32 functions.
const F32: &[DType] = &[DType::F32];

/// A float type of tensor elements.
trait Element: Elementary + samebits_tensor_core::Element {}

impl Element for f32 {}
impl Element for f64 {}

/// Returns a new tensor of the given shape; `fill` must write all its elements.
fn filled<T: samebits_tensor_core::Element>(
    shape: &[usize],
    fill: impl FnOnce(&mut [T]) -> Result<()>,
) -> Result<Tensor> {
    let mut out = Tensor::scratch(shape, T::DTYPE)?;
    fill(out.as_mut_slice()?)?;
    Ok(out)
}

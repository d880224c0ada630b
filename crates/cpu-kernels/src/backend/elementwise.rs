use samebits_tensor_core::layout::PerDim;
use samebits_tensor_core::ops::{
    Affine, Binary, BinaryKind, Cast, Compare, Gelu, GeluGrad, Unary, Where,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::scalar::{self, Exact, Scalar};
use samebits_tensor_core::{DType, Element, Layout, Result, Tensor, with_element};

use super::{FLOATS, INTEGERS, WRAPS, filled, with_bits, with_float};
use crate::elementwise::{self, Operand};
use crate::{integer, parallel};

const EACH: &str = "each element is its own fixed sequence of correctly rounded operations";

pub(super) fn register_all() {
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &Unary, ()| {
        let x = op.x.contiguous()?;
        with_float!(x.dtype(), T => filled(x.shape(), |out| {
            Ok(elementwise::unary::<T>(op.kind, x.as_slice()?, out)?)
        }))
    }));
    register(Kernel::portable("integers", INTEGERS, WRAPS, |op: &Unary, ()| {
        let x = op.x.contiguous()?;
        filled(x.shape(), |out| Ok(integer::unary(op.kind, x.as_slice()?, out)?))
    }));
    register(Kernel::portable("vectorized", FLOATS, EACH, float_binary));
    register(Kernel::portable("integers", INTEGERS, WRAPS, |op: &Binary, shape| {
        binary(op, shape, integer::binary)
    }));
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &Affine, ()| {
        let x = op.x.contiguous()?;
        with_float!(x.dtype(), T => filled(x.shape(), |out| {
            Ok(elementwise::affine(x.as_slice()?, op.scale as T, op.shift as T, out)?)
        }))
    }));
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &Gelu, ()| {
        let x = op.x.contiguous()?;
        with_float!(x.dtype(), T => filled(x.shape(), |out| {
            Ok(elementwise::gelu::<T>(op.form, x.as_slice()?, out)?)
        }))
    }));
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &GeluGrad, ()| {
        let (grad, x) = (op.grad.contiguous()?, op.x.contiguous()?);
        let found = op.found.as_ref().map(Tensor::contiguous).transpose()?;
        with_float!(x.dtype(), T => filled(x.shape(), |out| {
            let found = found.as_ref().map(Tensor::as_slice).transpose()?;
            let (grad, x) = (grad.as_slice::<T>()?, x.as_slice()?);
            Ok(elementwise::gelu_backward(op.form, grad, x, found, out)?)
        }))
    }));
    register(Kernel::portable("vectorized", &DType::ALL, EACH, compare));
    register(Kernel::portable("vectorized", &DType::ALL, EACH, select));
    register(Kernel::portable("vectorized", &DType::ALL, EACH, |op: &Cast, ()| {
        converted(&op.x, op.to)
    }));
}

fn float_binary(op: &Binary, shape: &PerDim) -> Result<Tensor> {
    with_float!(op.a.dtype(), T => binary(op, shape, elementwise::binary::<T>))
}

fn binary<T: Element>(
    op: &Binary,
    shape: &[usize],
    f: impl Fn(BinaryKind, Operand<'_, T>, Operand<'_, T>, &mut [T]) -> crate::Result<()> + Sync + Send,
) -> Result<Tensor> {
    let (a, b) = (op.a.expand(shape)?, op.b.expand(shape)?);
    // Trailing dimensions over which each operand is dense or constant form one run.
    let mut dims = shape.len();
    while dims > 0
        && run_kind(a.layout(), dims - 1).is_some()
        && run_kind(b.layout(), dims - 1).is_some()
    {
        dims -= 1;
    }
    let run: usize = shape[dims..].iter().product();
    let (a, b) = if run < 32 && run < a.numel() {
        dims = 0;
        (a.contiguous()?, b.contiguous()?)
    } else {
        (a, b)
    };
    let run: usize = shape[dims..].iter().product();
    let (data_a, data_b) = (storage::<T>(&a)?, storage::<T>(&b)?);
    let starts = |x: &Tensor| {
        let layout = x.layout();
        Layout::strided(&shape[..dims], &layout.strides()[..dims], layout.offset())
    };
    let (starts_a, starts_b) = (starts(&a)?, starts(&b)?);
    let (dense_a, dense_b) = (is_dense(a.layout(), dims), is_dense(b.layout(), dims));
    filled(shape, |out| {
        if run == 0 {
            return Ok(());
        }
        parallel::try_rows(run, out, |start, out| {
            let first = start / run;
            let starts = starts_a.positions_from(first).zip(starts_b.positions_from(first));
            for (out, (a, b)) in out.chunks_exact_mut(run).zip(starts) {
                let operand_a = if dense_a {
                    Operand::Each(&data_a[a..a + run])
                } else {
                    Operand::Splat(data_a[a])
                };
                let operand_b = if dense_b {
                    Operand::Each(&data_b[b..b + run])
                } else {
                    Operand::Splat(data_b[b])
                };
                f(op.kind, operand_a, operand_b, out)?;
            }
            Ok(())
        })?;
        Ok(())
    })
}

/// Returns `Some(true)` if the dimensions from `dim` on are dense, `Some(false)` if they are
/// constant.
fn run_kind(layout: &Layout, dim: usize) -> Option<bool> {
    let (shape, strides) = (&layout.shape()[dim..], &layout.strides()[dim..]);
    let mut expected = 1;
    let mut dense = true;
    for (&n, &stride) in shape.iter().zip(strides).rev() {
        dense &= n == 1 || stride == expected;
        expected *= n;
    }
    let constant = shape.iter().zip(strides).all(|(&n, &stride)| n == 1 || stride == 0);
    if dense { Some(true) } else { constant.then_some(false) }
}

fn is_dense(layout: &Layout, dim: usize) -> bool {
    run_kind(layout, dim).unwrap_or(true)
}

/// Returns the whole storage of a host tensor, to be read at its layout's positions.
fn storage<T: Element>(x: &Tensor) -> Result<&[T]> {
    x.storage_slice()
}

fn compare(op: &Compare, shape: &PerDim) -> Result<Tensor> {
    let a = comparable(&op.a)?.expand(shape)?.contiguous()?;
    let b = comparable(&op.b)?.expand(shape)?.contiguous()?;
    let mut out = Tensor::scratch(shape, DType::Bool)?;
    let bytes = out.as_mut_slice()?;
    match a.dtype() {
        DType::F32 => elementwise::compare::<f32>(op.kind, a.as_slice()?, b.as_slice()?, bytes),
        DType::F64 => elementwise::compare::<f64>(op.kind, a.as_slice()?, b.as_slice()?, bytes),
        DType::I64 => elementwise::compare::<i64>(op.kind, a.as_slice()?, b.as_slice()?, bytes),
        _ => elementwise::compare::<u8>(op.kind, a.as_slice()?, b.as_slice()?, bytes),
    }?;
    Ok(out)
}

/// Returns a dense tensor with the same comparisons as `x`, of type f32, f64, i64, u8 or bool.
/// Other types are cast to one of these that holds all their values.
pub(super) fn comparable(x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        DType::F16 | DType::BF16 => converted(x, DType::F32),
        DType::I32 | DType::U32 => converted(x, DType::I64),
        _ => x.contiguous(),
    }
}

fn select(op: &Where, shape: &PerDim) -> Result<Tensor> {
    let condition = op.condition.expand(shape)?.contiguous()?;
    let a = op.a.expand(shape)?.contiguous()?;
    let b = op.b.expand(shape)?.contiguous()?;
    let mut out = Tensor::scratch(shape, a.dtype())?;
    with_bits!(a.dtype(), T => {
        let condition = condition.as_slice()?;
        elementwise::select(condition, a.as_slice::<T>()?, b.as_slice()?, out.as_mut_slice()?)?;
    });
    Ok(out)
}

fn converted(x: &Tensor, to: DType) -> Result<Tensor> {
    let x = x.contiguous()?;
    if x.dtype() == to {
        return Ok(x);
    }
    let mut out = Tensor::scratch(x.shape(), to)?;
    with_element!(x.dtype(), T => {
        let from = x.as_slice::<T>()?;
        match to {
            DType::Bool => {
                let zero = T::of(Exact::Integer(0));
                parallel::pieces(out.as_mut_slice::<u8>()?, |start, truths| {
                    let from = &from[start..][..truths.len()];
                    truths.iter_mut().zip(from).for_each(|(to, x)| *to = u8::from(*x != zero));
                });
            }
            _ => with_element!(to, R => parallel::pieces(out.as_mut_slice::<R>()?, |start, to| {
                scalar::cast::<T, R>(&from[start..][..to.len()], to);
            })),
        }
    });
    Ok(out)
}

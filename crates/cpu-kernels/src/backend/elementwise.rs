use samebits_tensor_core::layout::broadcast;
use samebits_tensor_core::ops::{Affine, Binary, Cast, Compare, Unary, Where};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Layout, Op, Result, Tensor};

use super::{Element, FLOATS, filled, with_float};
use crate::elementwise::{self, Operand};

const EACH: &str = "each element is its own fixed sequence of correctly rounded operations";

pub(super) fn register_all() {
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &Unary, ()| {
        let x = op.x.contiguous()?;
        with_float!(x.dtype(), T => filled(x.shape(), |out| {
            Ok(elementwise::unary::<T>(op.kind, x.as_slice()?, out)?)
        }))
    }));
    register(Kernel::portable(
        "vectorized",
        FLOATS,
        EACH,
        |op: &Binary, ()| with_float!(op.a.dtype(), T => binary::<T>(op)),
    ));
    register(Kernel::portable("vectorized", FLOATS, EACH, |op: &Affine, ()| {
        let x = op.x.contiguous()?;
        with_float!(x.dtype(), T => filled(x.shape(), |out| {
            Ok(elementwise::affine(x.as_slice()?, op.scale as T, op.shift as T, out)?)
        }))
    }));
    register(Kernel::portable("vectorized", &DType::ALL, EACH, compare));
    register(Kernel::portable("vectorized", &DType::ALL, EACH, select));
    register(Kernel::portable("vectorized", &DType::ALL, EACH, cast));
}

fn binary<T: Element>(op: &Binary) -> Result<Tensor> {
    let shape = broadcast(Binary::NAME, op.a.shape(), op.b.shape())?;
    let (a, b) = (op.a.expand(&shape)?, op.b.expand(&shape)?);
    // Trailing dimensions over which each operand is dense or constant make one run.
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
    filled(&shape, |out| {
        if run == 0 {
            return Ok(());
        }
        let starts = starts_a.positions().zip(starts_b.positions());
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
            elementwise::binary(op.kind, operand_a, operand_b, out)?;
        }
        Ok(())
    })
}

/// Whether the dimensions from `dim` on are dense (`true`) or constant (`false`), if either.
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

/// Everything that a host tensor's storage holds, for use with its layout's positions.
fn storage<T: Element>(x: &Tensor) -> Result<&[T]> {
    x.storage_slice()
}

fn compare(op: &Compare, (): &()) -> Result<Tensor> {
    let shape = broadcast(Compare::NAME, op.a.shape(), op.b.shape())?;
    let a = op.a.expand(&shape)?.contiguous()?;
    let b = op.b.expand(&shape)?.contiguous()?;
    let mut out = Tensor::scratch(&shape, DType::Bool)?;
    let bytes = out.as_mut_slice()?;
    match a.dtype() {
        DType::F32 => elementwise::compare::<f32>(op.kind, a.as_slice()?, b.as_slice()?, bytes),
        DType::F64 => elementwise::compare::<f64>(op.kind, a.as_slice()?, b.as_slice()?, bytes),
        DType::I64 => elementwise::compare::<i64>(op.kind, a.as_slice()?, b.as_slice()?, bytes),
        _ => elementwise::compare::<u8>(op.kind, a.as_slice()?, b.as_slice()?, bytes),
    }?;
    Ok(out)
}

fn select(op: &Where, (): &()) -> Result<Tensor> {
    let shape = broadcast(Where::NAME, op.a.shape(), op.b.shape())?;
    let shape = broadcast(Where::NAME, &shape, op.condition.shape())?;
    let condition = op.condition.expand(&shape)?.contiguous()?;
    let a = op.a.expand(&shape)?.contiguous()?;
    let b = op.b.expand(&shape)?.contiguous()?;
    fn typed<T: samebits_tensor_core::Element>(
        condition: &Tensor,
        a: &Tensor,
        b: &Tensor,
    ) -> Result<Tensor> {
        let mut out = Tensor::scratch(a.shape(), a.dtype())?;
        let condition = condition.as_slice()?;
        elementwise::select(condition, a.as_slice::<T>()?, b.as_slice()?, out.as_mut_slice()?)?;
        Ok(out)
    }
    match a.dtype() {
        DType::F32 => typed::<f32>(&condition, &a, &b),
        DType::F64 => typed::<f64>(&condition, &a, &b),
        DType::I64 => typed::<i64>(&condition, &a, &b),
        _ => typed::<u8>(&condition, &a, &b),
    }
}

fn cast(op: &Cast, (): &()) -> Result<Tensor> {
    let x = op.x.contiguous()?;
    if x.dtype() == op.to {
        return Ok(x);
    }
    fn convert<T: samebits_tensor_core::Element>(
        x: &Tensor,
        to: DType,
        f32s: fn(T) -> f32,
        f64s: fn(T) -> f64,
        i64s: fn(T) -> i64,
        u8s: fn(T) -> u8,
        bools: fn(T) -> bool,
    ) -> Result<Tensor> {
        fn mapped<T: Copy, R>(from: &[T], to: &mut [R], f: impl Fn(T) -> R) {
            to.iter_mut().zip(from).for_each(|(to, &from)| *to = f(from));
        }
        let from = x.as_slice::<T>()?;
        let mut out = Tensor::scratch(x.shape(), to)?;
        match to {
            DType::F32 => mapped(from, out.as_mut_slice()?, f32s),
            DType::F64 => mapped(from, out.as_mut_slice()?, f64s),
            DType::I64 => mapped(from, out.as_mut_slice()?, i64s),
            DType::U8 => mapped(from, out.as_mut_slice()?, u8s),
            _ => mapped(from, out.as_mut_slice::<u8>()?, |x| u8::from(bools(x))),
        }
        Ok(out)
    }
    use samebits_numerics::nan::canonical;
    match x.dtype() {
        DType::F32 => convert::<f32>(
            &x,
            op.to,
            canonical,
            |x| canonical(f64::from(x)),
            |x| x as i64,
            |x| x as u8,
            |x| x != 0.0,
        ),
        DType::F64 => convert::<f64>(
            &x,
            op.to,
            |x| canonical(x as f32),
            canonical,
            |x| x as i64,
            |x| x as u8,
            |x| x != 0.0,
        ),
        DType::I64 => convert::<i64>(
            &x,
            op.to,
            |x| x as f32,
            |x| x as f64,
            |x| x,
            |x| x.clamp(0, 255) as u8,
            |x| x != 0,
        ),
        _ => convert::<u8>(&x, op.to, f32::from, f64::from, i64::from, |x| x, |x| x != 0),
    }
}

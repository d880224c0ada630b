use samebits_tensor_core::layout::PerDim;
use samebits_tensor_core::ops::{
    Affine, Binary, BinaryKind, Cast, Compare, CompareKind, Gelu, GeluGrad, Unary, UnaryKind, Where,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Tensor, bf16, f16};

use super::memory::{Input, storage};
use super::{
    EACH, F32, FLOATS, Failure, Gpu, INTEGERS, Stored, Tensors, WRAPS, on, portable,
    with_comparable, with_float, with_word,
};
use crate::device::Word;
use crate::elementwise::{self as kernels, MAX_RANK, Narrow, Pairing, View, gelu, integer};

pub(super) fn register_all() {
    let each = Kernel {
        applies: |op: &Unary, ()| function(op.kind).is_some(),
        ..portable("each", F32, EACH, unary)
    };
    register(each);
    let each = Kernel {
        applies: |op: &Unary, ()| function(op.kind).is_some_and(kernels::Unary::has_f64),
        ..portable("each", &[DType::F64], EACH, unary)
    };
    register(each);
    register(Kernel {
        applies: |op: &Binary, _| pair(op.kind).is_some(),
        ..portable("each", FLOATS, EACH, binary)
    });
    register(Kernel {
        applies: |op: &Unary, ()| integer_function(op.kind).is_some(),
        ..portable("integers", INTEGERS, WRAPS, |op: &Unary, ()| {
            on(op, |gpu| {
                let kind = integer_function(op.kind).expect("the kernel applies");
                let out = integer::unary(gpu.device, kind, &*gpu.input(&op.x)?)?;
                gpu.tensor(out, op.x.shape())
            })
        })
    });
    register(Kernel {
        applies: |op: &Binary, _| integer_pair(op.kind).is_some(),
        ..portable("integers", INTEGERS, WRAPS, integer_binary)
    });
    register(portable("each", FLOATS, EACH, |op: &Affine, ()| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let x = gpu.input::<T>(&op.x)?;
                let out = kernels::affine(gpu.device, &x, op.scale as T, op.shift as T)?;
                gpu.tensor(out, op.x.shape())
            })
        })
    }));
    register(portable("composed", FLOATS, EACH, |op: &Gelu, ()| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let x = gpu.input::<T>(&op.x)?;
                gpu.tensor(gelu::forward(gpu.device, op.form, &x)?, op.x.shape())
            })
        })
    }));
    register(portable("composed", FLOATS, EACH, |op: &GeluGrad, ()| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let (grad, x) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.x)?);
                let found = op.found.as_ref().map(|found| gpu.input(found)).transpose()?;
                let sum = gelu::backward(gpu.device, op.form, &grad, &x, found.as_deref())?;
                gpu.tensor(sum, op.x.shape())
            })
        })
    }));
    register(portable("each", &DType::ALL, EACH, compare));
    register(portable("each", &DType::ALL, "each element is copied", select));
    register(portable("each", &DType::ALL, EACH, |op: &Cast, ()| {
        on(op, |gpu| converted(&gpu, &op.x, op.to))
    }));
}

fn unary(op: &Unary, (): &()) -> Tensors<Tensor> {
    on(op, |gpu| {
        let kind = function(op.kind).expect("the kernel applies");
        with_float!(op.x.dtype(), T => {
            let x = gpu.input::<T>(&op.x)?;
            gpu.tensor(kernels::unary(gpu.device, kind, &x)?, op.x.shape())
        })
    })
}

fn function(kind: UnaryKind) -> Option<kernels::Unary> {
    use kernels::Unary;
    Some(match kind {
        UnaryKind::Neg => Unary::Neg,
        UnaryKind::Abs => Unary::Abs,
        UnaryKind::Exp => Unary::Exp,
        UnaryKind::Exp2 => Unary::Exp2,
        UnaryKind::Expm1 => Unary::Expm1,
        UnaryKind::Log => Unary::Log,
        UnaryKind::Log2 => Unary::Log2,
        UnaryKind::Log10 => Unary::Log10,
        UnaryKind::Log1p => Unary::Log1p,
        UnaryKind::Sqrt => Unary::Sqrt,
        UnaryKind::Rsqrt => Unary::Rsqrt,
        UnaryKind::Sin => Unary::Sin,
        UnaryKind::Cos => Unary::Cos,
        UnaryKind::Tanh => Unary::Tanh,
        UnaryKind::Sigmoid => Unary::Sigmoid,
        UnaryKind::Erf => Unary::Erf,
        UnaryKind::Relu => Unary::Relu,
        UnaryKind::Reciprocal => Unary::Reciprocal,
        UnaryKind::Square => Unary::Square,
        _ => return None,
    })
}

fn binary(op: &Binary, shape: &PerDim) -> Tensors<Tensor> {
    on(op, |gpu| {
        let kind = pair(op.kind).expect("the kernel applies");
        with_float!(op.a.dtype(), T => {
            let out = Pair::<T>::new(&gpu, &op.a, &op.b, shape)?
                .run(|a, b, pairing| kernels::binary(gpu.device, kind, a, b, pairing))?;
            gpu.tensor(out, shape)
        })
    })
}

fn pair(kind: BinaryKind) -> Option<kernels::Binary> {
    use kernels::Binary;
    Some(match kind {
        BinaryKind::Add => Binary::Add,
        BinaryKind::Sub => Binary::Sub,
        BinaryKind::Mul => Binary::Mul,
        BinaryKind::Div => Binary::Div,
        BinaryKind::Maximum => Binary::Maximum,
        BinaryKind::Minimum => Binary::Minimum,
        BinaryKind::Pow => Binary::Pow,
        BinaryKind::Weigh => Binary::Weigh,
        BinaryKind::ReluGrad => Binary::ReluGrad,
        BinaryKind::TanhGrad => Binary::TanhGrad,
        BinaryKind::SigmoidGrad => Binary::SigmoidGrad,
        _ => return None,
    })
}

fn integer_function(kind: UnaryKind) -> Option<integer::Unary> {
    Some(match kind {
        UnaryKind::Neg => integer::Unary::Neg,
        UnaryKind::Abs => integer::Unary::Abs,
        UnaryKind::Relu => integer::Unary::Relu,
        UnaryKind::Square => integer::Unary::Square,
        _ => return None,
    })
}

fn integer_binary(op: &Binary, shape: &PerDim) -> Tensors<Tensor> {
    on(op, |gpu| {
        let kind = integer_pair(op.kind).expect("the kernel applies");
        // An operand is only rejected if the result has elements.
        if kind.is_partial() && !shape.contains(&0) {
            integer::check(gpu.device, kind, &*gpu.input(&op.b)?)?;
        }
        let out = Pair::<i64>::new(&gpu, &op.a, &op.b, shape)?
            .run(|a, b, pairing| integer::binary(gpu.device, kind, a, b, pairing))?;
        gpu.tensor(out, shape)
    })
}

fn integer_pair(kind: BinaryKind) -> Option<integer::Binary> {
    use integer::Binary;
    Some(match kind {
        BinaryKind::Add => Binary::Add,
        BinaryKind::Sub => Binary::Sub,
        BinaryKind::Mul => Binary::Mul,
        BinaryKind::Maximum => Binary::Maximum,
        BinaryKind::Minimum => Binary::Minimum,
        BinaryKind::FloorDivide => Binary::FloorDivide,
        BinaryKind::Remainder => Binary::Remainder,
        BinaryKind::Pow => Binary::Pow,
        _ => return None,
    })
}

fn compare(op: &Compare, shape: &PerDim) -> Tensors<Tensor> {
    on(op, |gpu| {
        let kind = match op.kind {
            CompareKind::Eq => kernels::Compare::Eq,
            CompareKind::Ne => kernels::Compare::Ne,
            CompareKind::Lt => kernels::Compare::Lt,
            CompareKind::Le => kernels::Compare::Le,
            CompareKind::Gt => kernels::Compare::Gt,
            CompareKind::Ge => kernels::Compare::Ge,
        };
        let (a, b) = (comparable(&gpu, &op.a)?, comparable(&gpu, &op.b)?);
        with_comparable!(a.dtype(), T => {
            let out = Pair::<T>::new(&gpu, &a, &b, shape)?
                .run(|a, b, pairing| kernels::compare(gpu.device, kind, a, b, pairing))?;
            gpu.typed(out, shape, DType::Bool)
        })
    })
}

fn select(op: &Where, shape: &PerDim) -> Tensors<Tensor> {
    on(op, |gpu| {
        let condition = gpu.input::<u8>(&op.condition.expand(shape)?)?;
        with_word!(op.a.dtype(), T => {
            let a = gpu.input::<T>(&op.a.expand(shape)?)?;
            let b = gpu.input::<T>(&op.b.expand(shape)?)?;
            let out = kernels::select(gpu.device, &condition, &a, &b)?;
            gpu.typed(out, shape, op.a.dtype())
        })
    })
}

/// Returns a tensor with the same comparisons as `x`, of a type that has comparison kernels. Other
/// types are cast to one of these that holds all their values.
pub(super) fn comparable(gpu: &Gpu<'_>, x: &Tensor) -> Result<Tensor, Failure> {
    fn widened<T: Narrow<Wide: Stored>>(gpu: &Gpu<'_>, x: &Tensor) -> Result<Tensor, Failure> {
        gpu.tensor(kernels::widen(gpu.device, &*gpu.input::<T>(x)?)?, x.shape())
    }
    match x.dtype() {
        DType::I32 => widened::<i32>(gpu, x),
        DType::U32 => widened::<u32>(gpu, x),
        DType::F16 => widened::<f16>(gpu, x),
        DType::BF16 => widened::<bf16>(gpu, x),
        _ => Ok(x.clone()),
    }
}

fn converted(gpu: &Gpu<'_>, x: &Tensor, to: DType) -> Result<Tensor, Failure> {
    if x.dtype() == to {
        return Ok(x.contiguous()?);
    }
    let (x, shape) = (comparable(gpu, x)?, x.shape());
    with_comparable!(x.dtype(), T => {
        let source = || gpu.input::<T>(&x);
        match to {
            DType::F32 => gpu.tensor(kernels::cast::<T, f32>(gpu.device, &*source()?)?, shape),
            DType::F64 => gpu.tensor(kernels::cast::<T, f64>(gpu.device, &*source()?)?, shape),
            DType::I64 => gpu.tensor(kernels::cast::<T, i64>(gpu.device, &*source()?)?, shape),
            DType::U8 => gpu.tensor(kernels::cast::<T, u8>(gpu.device, &*source()?)?, shape),
            DType::I32 => narrowed::<i32>(gpu, &x),
            DType::U32 => narrowed::<u32>(gpu, &x),
            DType::F16 => narrowed::<f16>(gpu, &x),
            DType::BF16 => narrowed::<bf16>(gpu, &x),
            _ => gpu.typed(kernels::truth(gpu.device, &*source()?)?, shape, DType::Bool),
        }
    })
}

fn narrowed<R: Narrow + Stored>(gpu: &Gpu<'_>, x: &Tensor) -> Result<Tensor, Failure> {
    let shape = x.shape();
    if x.dtype().is_float() {
        let x = converted(gpu, x, DType::F64)?;
        return gpu.tensor(kernels::narrow::<f64, R>(gpu.device, &*gpu.input(&x)?)?, shape);
    }
    let x = converted(gpu, x, DType::I64)?;
    gpu.tensor(kernels::narrow::<i64, R>(gpu.device, &*gpu.input(&x)?)?, shape)
}

/// Two operands, both in the shape of their result.
struct Pair<T> {
    a: Input<T>,
    b: Input<T>,
    walk: Walk,
}

enum Walk {
    Dense(usize),
    Strided { shape: Vec<usize>, strides: [Vec<isize>; 2], offsets: [usize; 2] },
}

impl<T: Word> Pair<T> {
    fn new(gpu: &Gpu<'_>, a: &Tensor, b: &Tensor, shape: &[usize]) -> Result<Pair<T>, Failure> {
        let (a, b) = (a.expand(shape)?, b.expand(shape)?);
        let (merged, strides) = merge(shape, [a.layout().strides(), b.layout().strides()]);
        if (a.is_contiguous() && b.is_contiguous()) || merged.len() > MAX_RANK {
            let walk = Walk::Dense(a.numel());
            return Ok(Pair { a: gpu.input(&a)?, b: gpu.input(&b)?, walk });
        }
        let offsets = [a.layout().offset(), b.layout().offset()];
        let walk = Walk::Strided { shape: merged, strides, offsets };
        Ok(Pair { a: storage(&a)?, b: storage(&b)?, walk })
    }

    fn run<R>(
        &self,
        kernel: impl FnOnce(&crate::Buffer<T>, &crate::Buffer<T>, Pairing<'_>) -> R,
    ) -> R {
        let pairing = match &self.walk {
            Walk::Dense(n) => Pairing::Dense(*n),
            Walk::Strided { shape, strides, offsets } => Pairing::Strided {
                shape,
                a: View { strides: &strides[0], offset: offsets[0] },
                b: View { strides: &strides[1], offset: offsets[1] },
            },
        };
        kernel(&self.a, &self.b, pairing)
    }
}

/// Merges neighbouring dimensions that a single stride covers in both operands.
fn merge(shape: &[usize], strides: [&[usize]; 2]) -> (Vec<usize>, [Vec<isize>; 2]) {
    let mut sizes: Vec<usize> = Vec::new();
    let mut merged = [Vec::<isize>::new(), Vec::new()];
    for (dim, &n) in shape.iter().enumerate().filter(|&(_, &n)| n != 1) {
        let here = strides.map(|list| list[dim] as isize);
        let walks = |i: usize| merged[i].last() == Some(&(here[i] * n as isize));
        if walks(0) && walks(1) {
            *sizes.last_mut().expect("there is a stride, so there is a size") *= n;
            (0..2).for_each(|i| *merged[i].last_mut().expect("just compared") = here[i]);
        } else {
            sizes.push(n);
            (0..2).for_each(|i| merged[i].push(here[i]));
        }
    }
    (sizes, merged)
}

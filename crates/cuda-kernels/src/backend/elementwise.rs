use samebits_tensor_core::layout::PerDim;
use samebits_tensor_core::ops::{
    Affine, Binary, Cast, Compare, Formula, Gelu, GeluGrad, LogitLoss, LogitLossGrad, Ramp,
    RampGrad, Silu, SiluGrad, Step, Unary, Where,
};
use samebits_tensor_core::registry::{register, register_for_several};
use samebits_tensor_core::{DType, Op, Tensor, bf16, f16};

use super::memory::{Input, storage};
use super::optim::{affine_all, by_settings, cast_all, ops_of};
use super::{
    EACH, FLOATS, Failure, Gpu, INTEGERS, Stored, Tensors, WRAPS, on, portable, with_comparable,
    with_float, with_word,
};
use crate::device::Word;
use crate::elementwise::formula::{Call, formula_all};
use crate::elementwise::{
    self as kernels, MAX_RANK, Narrow, Pairing, View, activation, gelu, integer, logits,
};

pub(super) fn register_all() {
    register_for_several(portable("each", FLOATS, EACH, unary), |calls| {
        let steps = |op: &Unary| vec![Step::Unary(op.kind, 0)];
        by_formulas(calls, steps, |op, ()| op.x.shape(), unary)
    });
    register_for_several(portable("each", FLOATS, EACH, binary), |calls| {
        let steps = |op: &Binary| vec![Step::Binary(op.kind, 0, 1)];
        by_formulas(calls, steps, |_, shape| shape, binary)
    });
    register(portable("integers", INTEGERS, WRAPS, |op: &Unary, ()| {
        on(op, |gpu| {
            let out = integer::unary(gpu.device, op.kind, &*gpu.input(&op.x)?)?;
            gpu.tensor(out, op.x.shape())
        })
    }));
    register(portable("integers", INTEGERS, WRAPS, integer_binary));
    let affine = portable("each", FLOATS, EACH, |op: &Affine, ()| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let x = gpu.input::<T>(&op.x)?;
                let out = kernels::affine(gpu.device, &x, op.scale as T, op.shift as T)?;
                gpu.tensor(out, op.x.shape())
            })
        })
    });
    register_for_several(
        affine,
        |calls| with_float!(calls[0].0.x.dtype(), T => affine_all::<T>(&ops_of(calls))),
    );
    register_for_several(portable("steps", FLOATS, EACH, formula), formulas);
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
    register(portable("composed", FLOATS, EACH, |op: &Silu, ()| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let x = gpu.input::<T>(&op.x)?;
                gpu.tensor(activation::silu(gpu.device, &x)?, op.x.shape())
            })
        })
    }));
    register(portable("composed", FLOATS, EACH, |op: &SiluGrad, ()| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let (grad, x) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.x)?);
                let found = op.found.as_ref().map(|found| gpu.input(found)).transpose()?;
                let sum = activation::silu_backward(gpu.device, &grad, &x, found.as_deref())?;
                gpu.tensor(sum, op.x.shape())
            })
        })
    }));
    register(portable("composed", FLOATS, EACH, |op: &Ramp, ()| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let x = gpu.input::<T>(&op.x)?;
                gpu.tensor(activation::ramp(gpu.device, op.kind, &x)?, op.x.shape())
            })
        })
    }));
    register(portable("composed", FLOATS, EACH, |op: &RampGrad, ()| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let (grad, x) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.x)?);
                let found = activation::ramp_backward(gpu.device, op.kind, &grad, &x)?;
                gpu.tensor(found, op.x.shape())
            })
        })
    }));
    register(portable("composed", FLOATS, EACH, |op: &LogitLoss, ()| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let (x, target) = (gpu.input::<T>(&op.x)?, gpu.input(&op.target)?);
                gpu.tensor(logits::logit_loss(gpu.device, &x, &target)?, op.x.shape())
            })
        })
    }));
    register(portable("composed", FLOATS, EACH, |op: &LogitLossGrad, ()| {
        on(op, |gpu| {
            with_float!(op.x.dtype(), T => {
                let (grad, x) = (gpu.input::<T>(&op.grad)?, gpu.input(&op.x)?);
                let target = gpu.input(&op.target)?;
                let found = op.found.as_ref().map(|found| gpu.input(found)).transpose()?;
                let (device, found) = (gpu.device, found.as_deref());
                let sum = logits::logit_loss_backward(device, &grad, &x, &target, found)?;
                gpu.tensor(sum, op.x.shape())
            })
        })
    }));
    register(portable("each", &DType::ALL, EACH, compare));
    register(portable("each", &DType::ALL, "each element is copied", select));
    let cast = portable("each", &DType::ALL, EACH, |op: &Cast, ()| {
        on(op, |gpu| converted(&gpu, &op.x, op.to))
    });
    register_for_several(cast, |calls| casts(&ops_of(calls)));
}

/// Computes calls of one device and type as formulas of their inputs, those with the same steps in one
/// launch. If a formula is too long for a kernel, `alone` computes its call.
fn by_formulas<'a, O: Op<Output = Tensor>>(
    calls: &[(&'a O, &'a O::Plan)],
    steps: impl Fn(&O) -> Vec<Step>,
    shape: impl Fn(&'a O, &'a O::Plan) -> &'a [usize],
    alone: impl Fn(&O, &O::Plan) -> Tensors<Tensor>,
) -> Tensors<Vec<Tensor>> {
    let steps: Vec<Vec<Step>> = calls.iter().map(|(op, _)| steps(op)).collect();
    let shapes: Vec<&[usize]> = calls.iter().map(|&(op, plan)| shape(op, plan)).collect();
    let found = on(calls[0].0, |gpu| {
        with_float!(calls[0].0.dtype(), T => {
            let whole = |input: &Tensor, shape: &[usize]| match input.numel() {
                1 => gpu.input::<T>(&input.reshape(&[1])?),
                _ => gpu.input::<T>(&input.expand(shape)?),
            };
            let inputs = calls.iter().zip(&shapes).map(|((op, _), shape)| {
                let inputs = op.inputs().into_iter().map(|input| whole(input, shape));
                inputs.collect::<Result<Vec<_>, Failure>>()
            });
            let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
            let formulas = inputs.iter().zip(&steps).zip(&shapes).map(|((inputs, steps), shape)| {
                let inputs = inputs.iter().map(|input| &**input).collect();
                Call { steps, inputs, n: shape.iter().product() }
            });
            let results = formula_all(gpu.device, &formulas.collect::<Vec<_>>())?;
            let tensor = |(result, shape): (Option<_>, &&[usize])| {
                result.map(|result| gpu.tensor(result, shape)).transpose()
            };
            results.into_iter().zip(&shapes).map(tensor).collect::<Result<Vec<_>, Failure>>()
        })
    })?;
    let all = found.into_iter().zip(calls);
    all.map(|(found, (op, plan))| found.map_or_else(|| alone(op, plan), Ok)).collect()
}

/// Computes a formula by one kernel, or step by step if it is too long for that.
fn formula(op: &Formula, shape: &PerDim) -> Tensors<Tensor> {
    let mut results = formulas(&[(op, shape)])?;
    Ok(results.pop().expect("a result for each call"))
}

fn formulas(calls: &[(&Formula, &PerDim)]) -> Tensors<Vec<Tensor>> {
    by_formulas(calls, |op| op.steps.clone(), |_, shape| shape, |op, _| op.by_steps())
}

fn unary(op: &Unary, (): &()) -> Tensors<Tensor> {
    on(op, |gpu| {
        with_float!(op.x.dtype(), T => {
            let x = gpu.input::<T>(&op.x)?;
            gpu.tensor(kernels::unary(gpu.device, op.kind, &x)?, op.x.shape())
        })
    })
}

fn binary(op: &Binary, shape: &PerDim) -> Tensors<Tensor> {
    on(op, |gpu| {
        with_float!(op.a.dtype(), T => {
            let out = Pair::<T>::new(&gpu, &op.a, &op.b, shape)?
                .run(|a, b, pairing| kernels::binary(gpu.device, op.kind, a, b, pairing))?;
            gpu.tensor(out, shape)
        })
    })
}

fn integer_binary(op: &Binary, shape: &PerDim) -> Tensors<Tensor> {
    on(op, |gpu| {
        // An operand is only rejected if the result has elements.
        if integer::is_partial(op.kind) && !shape.contains(&0) {
            integer::check(gpu.device, op.kind, &*gpu.input(&op.b)?)?;
        }
        let out = Pair::<i64>::new(&gpu, &op.a, &op.b, shape)?
            .run(|a, b, pairing| integer::binary(gpu.device, op.kind, a, b, pairing))?;
        gpu.tensor(out, shape)
    })
}

fn compare(op: &Compare, shape: &PerDim) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (a, b) = (comparable(&gpu, &op.a)?, comparable(&gpu, &op.b)?);
        with_comparable!(a.dtype(), T => {
            let out = Pair::<T>::new(&gpu, &a, &b, shape)?
                .run(|a, b, pairing| kernels::compare(gpu.device, op.kind, a, b, pairing))?;
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

/// Computes several casts from one type, those from a half to f32 or back in one launch.
fn casts(ops: &[&Cast]) -> Tensors<Vec<Tensor>> {
    on(ops[0], |gpu| {
        by_settings(
            ops,
            |a, b| a.to == b.to,
            |places| {
                let (dtype, to) = (ops[0].x.dtype(), ops[places[0]].to);
                let all: Vec<&Tensor> = places.iter().map(|&place| &ops[place].x).collect();
                match (dtype, to) {
                    (DType::F16, DType::F32) => cast_all::<f16, f32>(&gpu, &all),
                    (DType::BF16, DType::F32) => cast_all::<bf16, f32>(&gpu, &all),
                    (DType::F32, DType::F16) => cast_all::<f32, f16>(&gpu, &all),
                    (DType::F32, DType::BF16) => cast_all::<f32, bf16>(&gpu, &all),
                    _ => all.iter().map(|x| converted(&gpu, x, to)).collect(),
                }
            },
        )
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

use samebits_tensor_core::ops::{AdamParams, AdamStep, Affine, SgdParams, SgdStep};
use samebits_tensor_core::registry::register_for_several;

use samebits_tensor_core::Tensor;

use super::failure::Failure;
use super::{EACH, FLOATS, Gpu, Real, Stored, Tensors, on, portable, with_float};
use crate::launch::Buffer;
use crate::optim::{
    Adam, Sgd, adam_step, adam_step_all, affine_all as affine_all_in_one,
    cast_all as cast_all_in_one, sgd_step, sgd_step_all,
};

pub(super) fn register_all() {
    register_for_several(
        portable(
            "fused",
            FLOATS,
            EACH,
            |op: &SgdStep, ()| with_float!(op.param.dtype(), T => sgd::<T>(op)),
        ),
        |calls| with_float!(calls[0].0.param.dtype(), T => sgd_all::<T>(&ops_of(calls))),
    );
    register_for_several(
        portable(
            "fused",
            FLOATS,
            EACH,
            |op: &AdamStep, ()| with_float!(op.param.dtype(), T => adam::<T>(op)),
        ),
        |calls| with_float!(calls[0].0.param.dtype(), T => adam_all::<T>(&ops_of(calls))),
    );
}

/// Returns the operations of calls that need no plan.
pub(super) fn ops_of<'a, O>(calls: &[(&'a O, &())]) -> Vec<&'a O> {
    calls.iter().map(|(op, ())| *op).collect()
}

/// A parameter and its velocity.
type Moved = (Tensor, Option<Tensor>);
/// A parameter, its mean and its mean square.
type Adapted = (Tensor, Tensor, Tensor);

fn sgd<T: Real>(op: &SgdStep) -> Tensors<Moved> {
    on(op, |gpu| {
        let (param, grad) = (gpu.input::<T>(&op.param)?, gpu.input(&op.grad)?);
        let velocity = op.velocity.as_ref().map(|velocity| gpu.input(velocity)).transpose()?;
        let settings = sgd_settings(&op.params);
        let stepped = sgd_step(gpu.device, &settings, &param, velocity.as_deref(), &grad)?;
        moved(&gpu, stepped, op.param.shape())
    })
}

fn sgd_all<T: Real>(ops: &[&SgdStep]) -> Tensors<Vec<Moved>> {
    on(ops[0], |gpu| {
        let inputs = ops.iter().map(|op| {
            let (param, grad) = (gpu.input::<T>(&op.param)?, gpu.input::<T>(&op.grad)?);
            let velocity = op.velocity.as_ref().map(|velocity| gpu.input::<T>(velocity));
            Ok((param, velocity.transpose()?, grad))
        });
        let inputs = inputs.collect::<Result<Vec<_>, Failure>>()?;
        by_settings(
            ops,
            |a, b| a.params == b.params,
            |places| {
                let tensors = places.iter().map(|&place| {
                    let (param, velocity, grad) = &inputs[place];
                    (&**param, velocity.as_deref(), &**grad)
                });
                let settings = sgd_settings(&ops[places[0]].params);
                let stepped = sgd_step_all(gpu.device, &settings, &tensors.collect::<Vec<_>>())?;
                let shapes = places.iter().map(|&place| ops[place].param.shape());
                stepped
                    .into_iter()
                    .zip(shapes)
                    .map(|(new, shape)| moved(&gpu, new, shape))
                    .collect()
            },
        )
    })
}

fn sgd_settings(params: &SgdParams) -> Sgd {
    let SgdParams { lr, momentum, dampening, weight_decay, nesterov } = *params;
    Sgd { lr, momentum, dampening, weight_decay, nesterov }
}

fn moved<T: Real>(
    gpu: &Gpu<'_>,
    (param, velocity): (Buffer<T>, Option<Buffer<T>>),
    shape: &[usize],
) -> Result<Moved, Failure> {
    let velocity = velocity.map(|velocity| gpu.tensor(velocity, shape));
    Ok((gpu.tensor(param, shape)?, velocity.transpose()?))
}

fn adam<T: Real>(op: &AdamStep) -> Tensors<Adapted> {
    on(op, |gpu| {
        let (param, grad) = (gpu.input::<T>(&op.param)?, gpu.input(&op.grad)?);
        let (mean, square) = (gpu.input(&op.mean)?, gpu.input(&op.square)?);
        let old = [&*param, &*mean, &*square];
        let stepped = adam_step(gpu.device, &adam_settings(&op.params), op.step, old, &grad)?;
        adapted(&gpu, stepped, op.param.shape())
    })
}

fn adam_all<T: Real>(ops: &[&AdamStep]) -> Tensors<Vec<Adapted>> {
    on(ops[0], |gpu| {
        let inputs = ops.iter().map(|op| {
            let (param, mean) = (gpu.input::<T>(&op.param)?, gpu.input::<T>(&op.mean)?);
            Ok([param, mean, gpu.input(&op.square)?, gpu.input(&op.grad)?])
        });
        let inputs = inputs.collect::<Result<Vec<_>, Failure>>()?;
        let alike = |a: &AdamStep, b: &AdamStep| (a.step, a.params) == (b.step, b.params);
        by_settings(ops, alike, |places| {
            let tensors = places.iter().map(|&place| inputs[place].each_ref().map(|x| &**x));
            let AdamStep { step, ref params, .. } = *ops[places[0]];
            let tensors: Vec<_> = tensors.collect();
            let stepped = adam_step_all(gpu.device, &adam_settings(params), step, &tensors)?;
            let shapes = places.iter().map(|&place| ops[place].param.shape());
            stepped.into_iter().zip(shapes).map(|(new, shape)| adapted(&gpu, new, shape)).collect()
        })
    })
}

fn adam_settings(params: &AdamParams) -> Adam {
    let AdamParams { lr, beta1, beta2, eps, weight_decay, decoupled } = *params;
    Adam { lr, beta1, beta2, eps, weight_decay, decoupled }
}

fn adapted<T: Real>(
    gpu: &Gpu<'_>,
    [param, mean, square]: [Buffer<T>; 3],
    shape: &[usize],
) -> Result<Adapted, Failure> {
    Ok((gpu.tensor(param, shape)?, gpu.tensor(mean, shape)?, gpu.tensor(square, shape)?))
}

/// Computes several [`Affine`]s.
pub(super) fn affine_all<T: Real>(ops: &[&Affine]) -> Tensors<Vec<Tensor>> {
    on(ops[0], |gpu| {
        let inputs = ops.iter().map(|op| gpu.input::<T>(&op.x));
        let inputs = inputs.collect::<Result<Vec<_>, Failure>>()?;
        let bits = |op: &Affine| (op.scale.to_bits(), op.shift.to_bits());
        by_settings(
            ops,
            |a, b| bits(a) == bits(b),
            |places| {
                let tensors: Vec<_> = places.iter().map(|&place| &*inputs[place]).collect();
                let Affine { scale, shift, .. } = *ops[places[0]];
                let (scale, shift) = (T::from_f64(scale), T::from_f64(shift));
                let all = affine_all_in_one(gpu.device, &tensors, scale, shift)?;
                let shapes = places.iter().map(|&place| ops[place].x.shape());
                all.into_iter().zip(shapes).map(|(out, shape)| gpu.tensor(out, shape)).collect()
            },
        )
    })
}

/// Converts several tensors of type `T`, a half or f32, to f32 or a half.
pub(super) fn cast_all<T: Stored, R: Stored>(
    gpu: &Gpu<'_>,
    tensors: &[&Tensor],
) -> Result<Vec<Tensor>, Failure> {
    let inputs = tensors.iter().map(|x| gpu.input::<T>(x)).collect::<Result<Vec<_>, _>>()?;
    let inputs: Vec<_> = inputs.iter().map(|x| &**x).collect();
    let all = cast_all_in_one::<T, R>(gpu.device, &inputs)?;
    all.into_iter().zip(tensors).map(|(out, x)| gpu.tensor(out, x.shape())).collect()
}

/// Runs calls with the same settings together: `run` takes their positions, and returns their results.
pub(super) fn by_settings<O, R>(
    ops: &[&O],
    alike: impl Fn(&O, &O) -> bool,
    mut run: impl FnMut(&[usize]) -> Result<Vec<R>, Failure>,
) -> Result<Vec<R>, Failure> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (place, op) in ops.iter().enumerate() {
        match groups.iter_mut().find(|group| alike(ops[group[0]], op)) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    let mut results: Vec<Option<R>> = ops.iter().map(|_| None).collect();
    for group in groups {
        for (place, result) in group.iter().zip(run(&group)?) {
            results[*place] = Some(result);
        }
    }
    Ok(results.into_iter().flatten().collect())
}

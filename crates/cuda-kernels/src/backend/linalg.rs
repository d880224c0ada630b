use samebits_tensor_core::ops::{Qr, QrGrad, Svd};
use samebits_tensor_core::registry::register;
use samebits_tensor_core::{Op, Tensor};

use super::{FLOATS, Failure, Real, Tensors, on, portable, with_float};
use crate::error::CudaError;
use crate::linalg;

const F64: &str = "each matrix is its own fixed sequence of f64 operations";

pub(super) fn register_all() {
    register(portable(
        "householder",
        FLOATS,
        F64,
        |op: &Qr, ()| with_float!(op.x.dtype(), T => qr::<T>(op)),
    ));
    register(portable(
        "substitution",
        FLOATS,
        F64,
        |op: &QrGrad, ()| with_float!(op.q.dtype(), T => qr_grad::<T>(op)),
    ));
    register(portable(
        "jacobi",
        FLOATS,
        F64,
        |op: &Svd, ()| with_float!(op.x.dtype(), T => svd::<T>(op)),
    ));
}

fn qr<T: Real>(op: &Qr) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let [shape_q, shape_r] = op.output_shapes()?;
        let columns = shape_q[shape_q.len() - 1];
        let x = gpu.input::<T>(&op.x)?;
        let (q, r) = linalg::qr(gpu.device, &x, matrices::<Qr>(&op.x)?, columns)?;
        Ok((gpu.tensor(q, &shape_q)?, gpu.tensor(r, &shape_r)?))
    })
}

fn qr_grad<T: Real>(op: &QrGrad) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad_q, grad_r) = (gpu.input::<T>(&op.grad_q)?, gpu.input(&op.grad_r)?);
        let (q, r) = (gpu.input(&op.q)?, gpu.input(&op.r)?);
        let shape = matrices::<QrGrad>(&op.q)?;
        let out = linalg::qr_grad(gpu.device, [&grad_q, &grad_r], [&q, &r], shape)?;
        gpu.tensor(out, op.q.shape())
    })
}

fn svd<T: Real>(op: &Svd) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let [shape_u, shape_s, shape_v] = op.output_shapes()?;
        let x = gpu.input::<T>(&op.x)?;
        let (u, s, v) = linalg::svd(gpu.device, &x, matrices::<Svd>(&op.x)?)?;
        Ok((gpu.tensor(u, &shape_u)?, gpu.tensor(s, &shape_s)?, gpu.tensor(v, &shape_v)?))
    })
}

/// Returns the number of matrices, and their rows and columns.
fn matrices<O: Op>(x: &Tensor) -> Result<[usize; 3], Failure> {
    match x.shape() {
        [batch @ .., m, n] => Ok([batch.iter().product(), *m, *n]),
        shape => {
            let message = format!("expected a matrix, got shape {shape:?}");
            Err(CudaError::invalid(O::NAME, message).into())
        }
    }
}

use samebits_tensor_core::Tensor;
use samebits_tensor_core::geometry::Matrices;
use samebits_tensor_core::ops::{Qr, QrGrad, Svd};
use samebits_tensor_core::registry::register;

use super::{FLOATS, Real, Tensors, on, portable, with_float};
use crate::linalg;

const F64: &str = "each matrix is its own fixed sequence of f64 operations";

pub(super) fn register_all() {
    register(portable(
        "householder",
        FLOATS,
        F64,
        |op: &Qr, (matrices, shapes)| with_float!(op.x.dtype(), T => qr::<T>(op, *matrices, shapes)),
    ));
    register(portable(
        "substitution",
        FLOATS,
        F64,
        |op: &QrGrad, &matrices| with_float!(op.q.dtype(), T => qr_grad::<T>(op, matrices)),
    ));
    register(portable(
        "golub-kahan",
        FLOATS,
        F64,
        |op: &Svd, (matrices, shapes)| with_float!(op.x.dtype(), T => svd::<T>(op, *matrices, shapes)),
    ));
}

fn qr<T: Real>(
    op: &Qr,
    matrices: Matrices,
    [shape_q, shape_r]: &[Vec<usize>; 2],
) -> Tensors<(Tensor, Tensor)> {
    on(op, |gpu| {
        let columns = shape_q[shape_q.len() - 1];
        let x = gpu.input::<T>(&op.x)?;
        let (q, r) = linalg::qr(gpu.device, &x, sizes(matrices), columns)?;
        Ok((gpu.tensor(q, shape_q)?, gpu.tensor(r, shape_r)?))
    })
}

fn qr_grad<T: Real>(op: &QrGrad, matrices: Matrices) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (grad_q, grad_r) = (gpu.input::<T>(&op.grad_q)?, gpu.input(&op.grad_r)?);
        let (q, r) = (gpu.input(&op.q)?, gpu.input(&op.r)?);
        let out = linalg::qr_grad(gpu.device, [&grad_q, &grad_r], [&q, &r], sizes(matrices))?;
        gpu.tensor(out, op.q.shape())
    })
}

fn svd<T: Real>(
    op: &Svd,
    matrices: Matrices,
    [shape_u, shape_s, shape_v]: &[Vec<usize>; 3],
) -> Tensors<(Tensor, Tensor, Tensor)> {
    on(op, |gpu| {
        let x = gpu.input::<T>(&op.x)?;
        let (u, s, v) = linalg::svd(gpu.device, &x, sizes(matrices))?;
        Ok((gpu.tensor(u, shape_u)?, gpu.tensor(s, shape_s)?, gpu.tensor(v, shape_v)?))
    })
}

fn sizes(matrices: Matrices) -> [usize; 3] {
    [matrices.count, matrices.rows, matrices.columns]
}

use samebits_tensor_core::geometry::Matrices;
use samebits_tensor_core::ops::{Qr, QrGrad, Svd};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Op, Result, Tensor};

use super::{Element, FLOATS, filled, with_float};
use crate::linalg;
use crate::parallel::try_parts;

const F64: &str = "each matrix is its own fixed sequence of f64 operations";

pub(super) fn register_all() {
    register(Kernel::portable(
        "householder",
        FLOATS,
        F64,
        |op: &Qr, (matrices, shapes)| with_float!(op.x.dtype(), T => qr::<T>(op, *matrices, shapes)),
    ));
    register(Kernel::portable(
        "substitution",
        FLOATS,
        F64,
        |op: &QrGrad, &matrices| with_float!(op.q.dtype(), T => qr_grad::<T>(op, matrices)),
    ));
    register(Kernel::portable(
        "golub-kahan",
        FLOATS,
        F64,
        |op: &Svd, (matrices, shapes)| with_float!(op.x.dtype(), T => svd::<T>(op, *matrices, shapes)),
    ));
}

fn qr<T: Element>(
    op: &Qr,
    matrices: Matrices,
    [shape_q, shape_r]: &[Vec<usize>; 2],
) -> Result<(Tensor, Tensor)> {
    let x = op.x.contiguous()?;
    let Matrices { count, rows: m, columns: n } = matrices;
    let columns = shape_q[shape_q.len() - 1];
    let x = x.as_slice::<T>()?;
    let (mut q, mut r) = (scratch::<T>(shape_q)?, scratch::<T>(shape_r)?);
    linalg::qr_batched(x, [count, m, n], columns, q.as_mut_slice()?, r.as_mut_slice()?)?;
    Ok((q, r))
}

fn qr_grad<T: Element>(op: &QrGrad, matrices: Matrices) -> Result<Tensor> {
    let (grad_q, grad_r) = (op.grad_q.contiguous()?, op.grad_r.contiguous()?);
    let (q, r) = (op.q.contiguous()?, op.r.contiguous()?);
    let Matrices { count, rows: m, columns: n } = matrices;
    let (tall, square) = (m.saturating_mul(n), n.saturating_mul(n));
    let (grad_q, grad_r) = (grad_q.as_slice::<T>()?, grad_r.as_slice::<T>()?);
    let (q_values, r_values) = (q.as_slice::<T>()?, r.as_slice::<T>()?);
    filled(q.shape(), |out| {
        let work = out.len().saturating_mul(n);
        try_parts(QrGrad::NAME, count, work, [(out, tall)], |i, [out]| {
            linalg::qr_backward(
                [&grad_q[i * tall..][..tall], &grad_r[i * square..][..square]],
                [&q_values[i * tall..][..tall], &r_values[i * square..][..square]],
                [m, n],
                out,
            )
        })?;
        Ok(())
    })
}

fn svd<T: Element>(
    op: &Svd,
    matrices: Matrices,
    [shape_u, shape_s, shape_v]: &[Vec<usize>; 3],
) -> Result<(Tensor, Tensor, Tensor)> {
    let x = op.x.contiguous()?;
    let Matrices { count, rows: m, columns: n } = matrices;
    let k = m.min(n);
    let x = x.as_slice::<T>()?;
    let mut u = scratch::<T>(shape_u)?;
    let (mut s, mut v) = (scratch::<T>(shape_s)?, scratch::<T>(shape_v)?);
    let outs = [
        (u.as_mut_slice()?, m.saturating_mul(k)),
        (s.as_mut_slice()?, k),
        (v.as_mut_slice()?, n.saturating_mul(k)),
    ];
    try_parts(Svd::NAME, count, x.len().saturating_mul(k), outs, |i, [u, s, v]| {
        linalg::svd(&x[i * m * n..][..m * n], [m, n], u, s, v)
    })?;
    Ok((u, s, v))
}

/// Returns an uninitialised tensor, whose elements the caller must all write.
fn scratch<T: Element>(shape: &[usize]) -> Result<Tensor> {
    Tensor::scratch(shape, T::DTYPE)
}

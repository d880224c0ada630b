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
        |op: &Qr, ()| with_float!(op.x.dtype(), T => qr::<T>(op)),
    ));
    register(Kernel::portable(
        "substitution",
        FLOATS,
        F64,
        |op: &QrGrad, ()| with_float!(op.q.dtype(), T => qr_grad::<T>(op)),
    ));
    register(Kernel::portable(
        "jacobi",
        FLOATS,
        F64,
        |op: &Svd, ()| with_float!(op.x.dtype(), T => svd::<T>(op)),
    ));
}

fn qr<T: Element>(op: &Qr) -> Result<(Tensor, Tensor)> {
    let x = op.x.contiguous()?;
    let (count, [m, n]) = matrices(&x);
    let [shape_q, shape_r] = op.output_shapes()?;
    let columns = shape_q[shape_q.len() - 1];
    let x = x.as_slice::<T>()?;
    let (mut q, mut r) = (scratch::<T>(&shape_q)?, scratch::<T>(&shape_r)?);
    let work = x.len().saturating_mul(m.min(n)).saturating_add(q.numel());
    let outs = [
        (q.as_mut_slice()?, m.saturating_mul(columns)),
        (r.as_mut_slice()?, columns.saturating_mul(n)),
    ];
    try_parts(Qr::NAME, count, work, outs, |i, [q, r]| {
        linalg::qr(&x[i * m * n..][..m * n], [m, n], columns, q, r)
    })?;
    Ok((q, r))
}

fn qr_grad<T: Element>(op: &QrGrad) -> Result<Tensor> {
    let (grad_q, grad_r) = (op.grad_q.contiguous()?, op.grad_r.contiguous()?);
    let (q, r) = (op.q.contiguous()?, op.r.contiguous()?);
    let (count, [m, n]) = matrices(&q);
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

fn svd<T: Element>(op: &Svd) -> Result<(Tensor, Tensor, Tensor)> {
    let x = op.x.contiguous()?;
    let (count, [m, n]) = matrices(&x);
    let k = m.min(n);
    let [shape_u, shape_s, shape_v] = op.output_shapes()?;
    let x = x.as_slice::<T>()?;
    let mut u = scratch::<T>(&shape_u)?;
    let (mut s, mut v) = (scratch::<T>(&shape_s)?, scratch::<T>(&shape_v)?);
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

/// Returns the number of matrices, and their rows and columns.
fn matrices(x: &Tensor) -> (usize, [usize; 2]) {
    match x.shape() {
        [batch @ .., m, n] => (batch.iter().product(), [*m, *n]),
        _ => unreachable!("the operation checked the rank"),
    }
}

/// Returns an uninitialised tensor, whose elements the caller must all write.
fn scratch<T: Element>(shape: &[usize]) -> Result<Tensor> {
    Tensor::scratch(shape, T::DTYPE)
}

use samebits_tensor_core::ops::{Qr, QrGrad, Svd};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Op, Result, Tensor};

use super::{Element, FLOATS, filled, with_float};
use crate::linalg;
use crate::memory;
use crate::parallel::try_each;

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
    let all = try_each(Qr::NAME, count, x.len().saturating_mul(m.min(n)), |i| {
        let (mut q, mut r) = (zeros::<T>(Qr::NAME, m, columns)?, zeros(Qr::NAME, columns, n)?);
        linalg::qr(&x[i * m * n..][..m * n], [m, n], columns, &mut q, &mut r)?;
        Ok((q, r))
    })?;
    Ok((
        joined(&shape_q, all.iter().map(|(q, _)| q))?,
        joined(&shape_r, all.iter().map(|(_, r)| r))?,
    ))
}

fn qr_grad<T: Element>(op: &QrGrad) -> Result<Tensor> {
    let (grad_q, grad_r) = (op.grad_q.contiguous()?, op.grad_r.contiguous()?);
    let (q, r) = (op.q.contiguous()?, op.r.contiguous()?);
    let (count, [m, n]) = matrices(&q);
    let (tall, square) = (m * n, n * n);
    let (grad_q, grad_r) = (grad_q.as_slice::<T>()?, grad_r.as_slice::<T>()?);
    let (q_values, r_values) = (q.as_slice::<T>()?, r.as_slice::<T>()?);
    let all = try_each(QrGrad::NAME, count, q_values.len().saturating_mul(n), |i| {
        let mut out = zeros(QrGrad::NAME, m, n)?;
        linalg::qr_backward(
            [&grad_q[i * tall..][..tall], &grad_r[i * square..][..square]],
            [&q_values[i * tall..][..tall], &r_values[i * square..][..square]],
            [m, n],
            &mut out,
        )?;
        Ok(out)
    })?;
    joined(q.shape(), all.iter())
}

fn svd<T: Element>(op: &Svd) -> Result<(Tensor, Tensor, Tensor)> {
    let x = op.x.contiguous()?;
    let (count, [m, n]) = matrices(&x);
    let k = m.min(n);
    let [shape_u, shape_s, shape_v] = op.output_shapes()?;
    let x = x.as_slice::<T>()?;
    let all = try_each(Svd::NAME, count, x.len().saturating_mul(k), |i| {
        let zeros = |rows| zeros::<T>(Svd::NAME, rows, k);
        let (mut u, mut s, mut v) = (zeros(m)?, zeros(1)?, zeros(n)?);
        linalg::svd(&x[i * m * n..][..m * n], [m, n], &mut u, &mut s, &mut v)?;
        Ok([u, s, v])
    })?;
    let part = |shape: &[usize], which: usize| joined(shape, all.iter().map(|all| &all[which]));
    Ok((part(&shape_u, 0)?, part(&shape_s, 1)?, part(&shape_v, 2)?))
}

/// How many matrices there are, and their rows and columns.
fn matrices(x: &Tensor) -> (usize, [usize; 2]) {
    match x.shape() {
        [batch @ .., m, n] => (batch.iter().product(), [*m, *n]),
        _ => unreachable!("the operation checked the rank"),
    }
}

/// Matrices one after the other.
fn joined<'a, T: Element>(
    shape: &[usize],
    parts: impl Iterator<Item = &'a Vec<T>>,
) -> Result<Tensor> {
    filled(shape, |mut out| {
        for part in parts {
            let (to, rest) = out.split_at_mut(part.len());
            to.copy_from_slice(part);
            out = rest;
        }
        Ok(())
    })
}

fn zeros<T: Element>(op: &'static str, rows: usize, columns: usize) -> crate::Result<Vec<T>> {
    memory::filled(op, memory::volume(op, &[rows, columns])?, T::ZERO)
}

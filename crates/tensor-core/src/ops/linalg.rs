//! Decompositions of matrices.

use super::{expect_dtype, expect_float, expect_shape};
use crate::geometry::Matrices;
use crate::layout::numel;
use crate::{Error, Op, Result, Tensor};

/// The parts of a QR decomposition to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QrMode {
    /// Q with as many columns, and R with as many rows, as the shorter side has.
    #[default]
    Reduced,
    /// A square Q.
    Complete,
}

/// `x = Q · R` with orthogonal columns of Q and an upper triangular R, by Householder
/// reflections in f64. The diagonal of R has the signs that LAPACK gives it.
///
/// Returns Q and R.
#[derive(Clone, Debug)]
pub struct Qr {
    /// `[.., m, n]`
    pub x: Tensor,
    /// The parts to compute.
    pub mode: QrMode,
}

impl Op for Qr {
    const NAME: &'static str = "qr";
    /// The matrices, and the shapes of Q and R.
    type Plan = (Matrices, [Vec<usize>; 2]);
    type Output = (Tensor, Tensor);

    crate::inputs![x];
    crate::parameters![mode];

    fn plan(&self) -> Result<(Matrices, [Vec<usize>; 2])> {
        expect_float(Self::NAME, "the matrix", &self.x)?;
        let matrices = Matrices::new(Self::NAME, self.x.shape())?;
        let Matrices { rows: m, columns: n, .. } = matrices;
        let k = if self.mode == QrMode::Complete { m } else { m.min(n) };
        let batch = batch(&self.x);
        let shapes = [[batch, &[m, k]].concat(), [batch, &[k, n]].concat()];
        for shape in &shapes {
            numel(Self::NAME, shape)?;
        }
        Ok((matrices, shapes))
    }
}

/// The gradient of a reduced [`Qr`] of matrices with at least as many rows as columns and full
/// rank: `(grad_q + Q · sym(triu(grad_r · Rᵀ − Qᵀ · grad_q))) · R⁻ᵀ`, where `sym` reflects at the
/// diagonal, in f64.
///
/// # References
///
/// M. Seeger, A. Hetzel, Z. Dai, E. Meissner and N. D. Lawrence, *Auto-Differentiating Linear
/// Algebra*, 2017.
#[derive(Clone, Debug)]
pub struct QrGrad {
    /// `[.., m, n]`
    pub grad_q: Tensor,
    /// `[.., n, n]`
    pub grad_r: Tensor,
    /// `[.., m, n]`: a result of the forward pass.
    pub q: Tensor,
    /// `[.., n, n]`: a result of the forward pass.
    pub r: Tensor,
}

impl Op for QrGrad {
    const NAME: &'static str = "qr";
    const PASS: crate::Pass = crate::Pass::Backward;
    type Plan = Matrices;
    type Output = Tensor;

    crate::inputs![grad_q, grad_r, q, r];

    fn plan(&self) -> Result<Matrices> {
        expect_float(Self::NAME, "Q", &self.q)?;
        let matrices = Matrices::new(Self::NAME, self.q.shape())?;
        let Matrices { rows: m, columns: n, .. } = matrices;
        if m < n {
            return Err(Error::invalid(
                Self::NAME,
                format!("Q must have at least as many rows as columns, got {m} and {n}"),
            ));
        }
        let square = [batch(&self.q), &[n, n]].concat();
        for (what, x, shape) in [
            ("the gradient of Q", &self.grad_q, self.q.shape()),
            ("the gradient of R", &self.grad_r, &square[..]),
            ("R", &self.r, &square[..]),
        ] {
            expect_dtype(Self::NAME, what, x, self.q.dtype())?;
            expect_shape(Self::NAME, what, x, shape)?;
        }
        Ok(matrices)
    }
}

/// The thin singular value decomposition `x = U · diag(S) · Vᵀ`, by a bidiagonal matrix and implicit
/// QR iteration in f64. Singular values descend; in each column of U the first element of largest
/// magnitude is not negative.
///
/// Returns U `[.., m, k]`, S `[.., k]` and V `[.., n, k]` with `k = min(m, n)`.
#[derive(Clone, Debug)]
pub struct Svd {
    /// `[.., m, n]`, finite.
    pub x: Tensor,
}

impl Op for Svd {
    const NAME: &'static str = "svd";
    /// The matrices, and the shapes of U, S and V.
    type Plan = (Matrices, [Vec<usize>; 3]);
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![x];

    fn plan(&self) -> Result<(Matrices, [Vec<usize>; 3])> {
        expect_float(Self::NAME, "the matrix", &self.x)?;
        let matrices = Matrices::new(Self::NAME, self.x.shape())?;
        let Matrices { rows: m, columns: n, .. } = matrices;
        let k = m.min(n);
        let shape = |rest: &[usize]| [batch(&self.x), rest].concat();
        Ok((matrices, [shape(&[m, k]), shape(&[k]), shape(&[n, k])]))
    }
}

/// Returns the batch dimensions of matrices.
fn batch(x: &Tensor) -> &[usize] {
    &x.shape()[..x.rank() - 2]
}

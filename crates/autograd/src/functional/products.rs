//! Products of vectors, matrices and tensors, and distances between vectors.

use samebits_macros::named;
use samebits_tensor_core::layout::numel;
use samebits_tensor_core::{Error, Result};

use super::distance::norm;
use super::elementwise::{mul, sub};
use super::linear::matmul;
use super::shape::{permute, reshape, unsqueeze};
use crate::Tensor;
use crate::dims::Dims;

/// Multiplies two matrices without broadcasting.
///
/// # Shapes
///
/// `a` is `[m, k]`, `b` `[k, n]`.
///
/// # Determinism
///
/// As [`matmul`].
///
/// # Errors
///
/// The shapes do not match, or the types differ.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let a = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
/// assert_eq!(a.mm(&a)?.to_vec::<f32>()?, [7.0, 10.0, 15.0, 22.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.mm`.
#[named]
#[track_caller]
pub fn mm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    expect_ranks("mm", a, b, [2, 2])?;
    matmul(a, b)
}

/// Multiplies a matrix by a vector.
///
/// # Shapes
///
/// `a` is `[m, k]`, `x` `[k]`.
///
/// # Determinism
///
/// As [`matmul`].
///
/// # Errors
///
/// The shapes do not match, or the types differ.
///
/// # References
///
/// `torch.mv`.
#[named]
#[track_caller]
pub fn mv(a: &Tensor, x: &Tensor) -> Result<Tensor> {
    expect_ranks("mv", a, x, [2, 1])?;
    matmul(a, x)
}

/// Computes the dot product of two vectors.
///
/// # Determinism
///
/// As [`matmul`].
///
/// # Errors
///
/// The arguments are not two vectors of the same length and type.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, 2.0, 3.0])?;
/// assert_eq!(x.dot(&x)?.item::<f32>()?, 14.0);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.dot`.
#[named]
#[track_caller]
pub fn dot(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    expect_ranks("dot", a, b, [1, 1])?;
    matmul(a, b)
}

/// Multiplies each element of one vector by each of another.
///
/// # Shapes
///
/// `a` is `[m]`, `b` `[n]`, the result `[m, n]`.
///
/// # Errors
///
/// The arguments are not two vectors, or the types differ.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let (a, b) = (Tensor::new([1.0f32, 2.0])?, Tensor::new([3.0f32, 4.0])?);
/// assert_eq!(a.outer(&b)?.to_vec::<f32>()?, [3.0, 4.0, 6.0, 8.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.outer`.
#[named]
#[track_caller]
pub fn outer(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    expect_ranks("outer", a, b, [1, 1])?;
    mul(&unsqueeze(a, 1)?, b)
}

/// Computes the Kronecker product: each element of `a` times the whole of `b`, side by side.
///
/// # Shapes
///
/// The tensor with fewer dimensions gets new leading ones; sizes multiply.
///
/// # Errors
///
/// The types differ, or the result has too many elements.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let (a, b) = (Tensor::new([1.0f32, 10.0])?, Tensor::new([1.0f32, 2.0, 3.0])?);
/// assert_eq!(a.kron(&b)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 10.0, 20.0, 30.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.kron`.
#[named]
#[track_caller]
pub fn kron(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let rank = a.rank().max(b.rank());
    let padded = |x: &Tensor| [vec![1; rank - x.rank()], x.shape().to_vec()].concat();
    let (shape_a, shape_b) = (padded(a), padded(b));
    let pairs = || shape_a.iter().zip(&shape_b);
    let left: Vec<usize> = pairs().flat_map(|(&m, _)| [m, 1]).collect();
    let right: Vec<usize> = pairs().flat_map(|(_, &n)| [1, n]).collect();
    let sizes = pairs().map(|(&m, &n)| numel("kron", &[m, n])).collect::<Result<Vec<usize>>>()?;
    reshape(&mul(&reshape(a, &left)?, &reshape(b, &right)?)?, &sizes)
}

/// Contracts dimensions `dims_a` of `a` with `dims_b` of `b`, paired in the given order.
///
/// # Shapes
///
/// The result has the other dimensions of `a`, then those of `b`.
///
/// # Determinism
///
/// As [`matmul`], over the dimensions in the given order.
///
/// # Errors
///
/// A dimension does not exist or is listed twice, or the sizes or types differ.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{DType, Tensor};
///
/// let (a, b) = (Tensor::ones(&[2, 3, 4], DType::F32)?, Tensor::ones(&[4, 3, 5], DType::F32)?);
/// let y = a.tensordot(&b, [1, 2], [1, 0])?;
/// assert_eq!((y.shape(), y.to_vec::<f32>()?[0]), (&[2, 5][..], 12.0));
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.tensordot`, whose `dims=n` means the last `n` dimensions of `a` and the first `n` of `b`.
#[named]
#[track_caller]
pub fn tensordot(a: &Tensor, b: &Tensor, dims_a: impl Dims, dims_b: impl Dims) -> Result<Tensor> {
    let op = "tensordot";
    let (dims_a, dims_b) = (dims_a.dims(op, a.rank())?, dims_b.dims(op, b.rank())?);
    let sizes = |x: &Tensor, dims: &[usize]| -> Result<Vec<usize>> {
        dims.iter().map(|&dim| x.value().size(op, dim)).collect()
    };
    let (sizes_a, sizes_b) = (sizes(a, &dims_a)?, sizes(b, &dims_b)?);
    if sizes_a != sizes_b {
        let message = format!(
            "dimensions {dims_a:?} of shape {:?} and {dims_b:?} of shape {:?} differ",
            a.shape(),
            b.shape()
        );
        return Err(Error::invalid(op, message));
    }
    let others = |x: &Tensor, dims: &[usize]| -> Vec<usize> {
        (0..x.rank()).filter(|dim| !dims.contains(dim)).collect()
    };
    let (rest_a, rest_b) = (others(a, &dims_a), others(b, &dims_b));
    let (shape_a, shape_b) = (sizes(a, &rest_a)?, sizes(b, &rest_b)?);
    let inner = numel(op, &sizes_a)?;
    let left = permute(a, [rest_a, dims_a].concat())?;
    let left = reshape(&left, [numel(op, &shape_a)?, inner])?;
    let right = permute(b, [dims_b, rest_b].concat())?;
    let right = reshape(&right, [inner, numel(op, &shape_b)?])?;
    reshape(&matmul(&left, &right)?, [shape_a, shape_b].concat())
}

/// Computes the `p`-norms of the differences of all pairs of rows. PyTorch's default `p` is 2.
///
/// The differences are stored, so memory grows by the size of the result for each feature.
///
/// # Shapes
///
/// `a` is `[.., m, features]` and `b` `[.., n, features]`; the result is `[.., m, n]`. The leading
/// dimensions broadcast.
///
/// # Errors
///
/// There are fewer than two dimensions, the shapes do not match, or the types differ or are not
/// floats.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let (a, b) = (Tensor::new([[0.0f32, 0.0]])?, Tensor::new([[3.0f32, 4.0], [0.0, 1.0]])?);
/// assert_eq!(a.cdist(&b, 2.0)?.to_vec::<f32>()?, [5.0, 1.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.cdist` with `compute_mode="donot_use_mm_for_euclid_dist"`.
#[named]
#[track_caller]
pub fn cdist(a: &Tensor, b: &Tensor, p: f64) -> Result<Tensor> {
    match (a.shape(), b.shape()) {
        ([.., _, features], [.., _, others]) if features == others => {
            norm(&sub(&unsqueeze(a, -2)?, &unsqueeze(b, -3)?)?, p, -1, false)
        }
        (a, b) => {
            let message =
                format!("expected [.., m, features] and [.., n, features], got {a:?} and {b:?}");
            Err(Error::invalid("cdist", message))
        }
    }
}

/// Checks for numbers of dimensions.
fn expect_ranks(op: &'static str, a: &Tensor, b: &Tensor, ranks: [usize; 2]) -> Result<()> {
    if [a.rank(), b.rank()] == ranks {
        return Ok(());
    }
    let words = ranks.map(|rank| if rank == 1 { "a vector" } else { "a matrix" });
    let [first, second] = words;
    let (a, b) = (a.shape(), b.shape());
    Err(Error::invalid(op, format!("expected {first} and {second}, got shapes {a:?} and {b:?}")))
}

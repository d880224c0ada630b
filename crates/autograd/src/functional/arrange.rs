//! Rearrangements of elements.

use samebits_macros::named;
use samebits_tensor_core::ops::{CompareKind, Flip, PadMode};
use samebits_tensor_core::{Error, Result, Tensor as Value};

use super::elementwise::{relation, scalar_like};
use super::{
    cat, expand, flatten, index_select, narrow, pad, permute, reshape, sum, transpose, unsqueeze,
    where_,
};
use crate::dims::{Dim, Dims};
use crate::memory::room;
use crate::{Tensor, no_grad, run};

/// Splits `x` along `dim` into at most `chunks` parts of equal size; the last may be smaller.
///
/// # Errors
///
/// There is no such dimension, or `chunks` is 0.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let parts = Tensor::arange(5)?.chunk(3, 0)?;
/// let sizes: Vec<usize> = parts.iter().map(Tensor::numel).collect();
/// assert_eq!(sizes, [2, 2, 1]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.chunk`, which may also return fewer parts.
#[named]
#[track_caller]
pub fn chunk(x: &Tensor, chunks: usize, dim: impl Dim) -> Result<Vec<Tensor>> {
    let dim = dim.dim("chunk", x.rank())?;
    let total = x.value().size("chunk", dim)?;
    if chunks == 0 {
        return Err(Error::invalid("chunk", "expected at least one chunk, got 0"));
    }
    let size = total.div_ceil(chunks);
    // PyTorch splits an empty dimension into the requested number of parts.
    let count = if size == 0 { chunks } else { total.div_ceil(size) };
    let mut parts = room("chunk", count)?;
    for part in 0..count {
        let start = part * size;
        parts.push(narrow(x, dim, start, size.min(total - start))?);
    }
    Ok(parts)
}

/// Returns diagonal `offset` of the matrices in dimensions `dim1` and `dim2`, as a new last
/// dimension. Diagonal 0 is the main one, 1 the one above it.
///
/// # Errors
///
/// There is no such dimension, or `dim1` and `dim2` are the same.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
/// assert_eq!(x.diagonal(0, 0, 1)?.to_vec::<f32>()?, [1.0, 5.0]);
/// assert_eq!(x.diagonal(1, 0, 1)?.to_vec::<f32>()?, [2.0, 6.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.diagonal`.
#[named]
#[track_caller]
pub fn diagonal(x: &Tensor, offset: i64, dim1: impl Dim, dim2: impl Dim) -> Result<Tensor> {
    let op = "diagonal";
    let (a, b) = (dim1.dim(op, x.rank())?, dim2.dim(op, x.rank())?);
    let (rows, columns) = (x.value().size(op, a)?, x.value().size(op, b)?);
    if a == b {
        return Err(Error::invalid(op, format!("expected two dimensions, got {a} twice")));
    }
    let apart = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    let (down, right) = if offset < 0 { (apart, 0) } else { (0, apart) };
    let length = rows.saturating_sub(down).min(columns.saturating_sub(right));
    let square = narrow(x, a, down.min(rows), length)?;
    let square = narrow(&square, b, right.min(columns), length)?;
    let others = (0..x.rank()).filter(|&dim| dim != a && dim != b);
    let last = permute(&square, others.chain([a, b]).collect::<Vec<usize>>())?;
    let flat = flatten(&last, -2, -1)?;
    // Every size fits an i64.
    let places = Tensor::arange_step(0, (length * length) as i64, length as i64 + 1)?;
    index_select(&flat, -1, &places.to(x.device())?)
}

/// Keeps the lower triangle of each matrix, up to and including diagonal `diagonal`, and sets the
/// rest to 0. Diagonal 0 is the main one, 1 the one above it.
///
/// # Shapes
///
/// `x` is `[.., n, m]`.
///
/// # Errors
///
/// `x` has fewer than two dimensions.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
/// assert_eq!(x.tril(0)?.to_vec::<f32>()?, [1.0, 0.0, 3.0, 4.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
#[track_caller]
pub fn tril(x: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle("tril", CompareKind::Le, x, diagonal)
}

/// Keeps the upper triangle of each matrix, from diagonal `diagonal` on, and sets the rest to 0.
/// Diagonal 0 is the main one, 1 the one above it.
///
/// # Shapes
///
/// `x` is `[.., n, m]`.
///
/// # Errors
///
/// `x` has fewer than two dimensions.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
/// assert_eq!(x.triu(1)?.to_vec::<f32>()?, [0.0, 2.0, 0.0, 0.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
#[track_caller]
pub fn triu(x: &Tensor, diagonal: i64) -> Result<Tensor> {
    triangle("triu", CompareKind::Ge, x, diagonal)
}

/// Keeps the elements for which `kind` holds between the column and the row plus `diagonal`.
#[track_caller]
fn triangle(op: &'static str, kind: CompareKind, x: &Tensor, diagonal: i64) -> Result<Tensor> {
    let &[.., rows, columns] = x.shape() else {
        let message = format!("expected matrices, got shape {:?}", x.shape());
        return Err(Error::invalid(op, message));
    };
    let mut bounds = Value::arange(rows)?;
    for bound in bounds.as_mut_slice::<i64>()? {
        // Saturation is safe: no column exceeds the range of i64.
        *bound = bound.saturating_add(diagonal);
    }
    let bounds = Tensor::from(bounds.reshape(&[rows, 1])?).to(x.device())?;
    let kept = relation(kind, &Tensor::arange(columns)?.to(x.device())?, &bounds)?;
    where_(&kept, x, &scalar_like(x, 0.0)?)
}

/// Reverses the order of the elements along each of `dims`.
///
/// # Errors
///
/// There is no such dimension, or a dimension is listed twice.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
/// assert_eq!(x.flip(-1)?.to_vec::<f32>()?, [2.0, 1.0, 4.0, 3.0]);
/// assert_eq!(x.flip([0, 1])?.to_vec::<f32>()?, [4.0, 3.0, 2.0, 1.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
#[track_caller]
pub fn flip(x: &Tensor, dims: impl Dims) -> Result<Tensor> {
    let dims = dims.dims("flip", x.rank())?;
    let flipped = run(&Flip { x: x.value().clone(), dims: dims.to_vec() })?;
    Ok(Tensor::computed(flipped, &[x], move |grad| Ok(vec![Some(flip(grad, &dims)?)])))
}

/// Rolls the elements by `shifts[i]` positions along `dims[i]`; elements that leave at one end
/// enter at the other.
///
/// # Errors
///
/// There is no such dimension, or the numbers of shifts and dimensions differ.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, 2.0, 3.0])?;
/// assert_eq!(x.roll(&[1], 0)?.to_vec::<f32>()?, [3.0, 1.0, 2.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.roll` with `dims`. Without them it equals `x.flatten(0, -1)?.roll(&[shift], 0)` in the
/// shape of `x`.
#[named]
#[track_caller]
pub fn roll(x: &Tensor, shifts: &[i64], dims: impl Dims) -> Result<Tensor> {
    let dims = dims.dims("roll", x.rank())?;
    if shifts.len() != dims.len() {
        let message = format!("expected a shift for each of {dims:?}, got {shifts:?}");
        return Err(Error::invalid("roll", message));
    }
    let mut rolled = x.clone();
    for (&shift, dim) in shifts.iter().zip(dims) {
        let size = x.value().size("roll", dim)?;
        if size > 0 {
            let shift = i128::from(shift).rem_euclid(size as i128) as usize;
            rolled = rolled_by(&rolled, shift, dim)?;
        }
    }
    Ok(rolled)
}

/// Moves the last `shift` positions along `dim` to the front.
#[track_caller]
fn rolled_by(x: &Tensor, shift: usize, dim: usize) -> Result<Tensor> {
    let size = x.shape()[dim];
    let kept = size - shift;
    let rolled = no_grad(|| cat(&[narrow(x, dim, kept, shift)?, narrow(x, dim, 0, kept)?], dim))?;
    Ok(Tensor::computed(rolled.into(), &[x], move |grad| {
        Ok(vec![Some(rolled_by(grad, kept % size, dim)?)])
    }))
}

/// Repeats `x` `sizes[i]` times along dimension `i`. Extra sizes insert dimensions in front.
///
/// # Errors
///
/// There are fewer sizes than dimensions, or the result has too many elements.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, 2.0])?;
/// assert_eq!(x.repeat(&[2])?.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0]);
/// assert_eq!(x.repeat(&[3, 1])?.shape(), [3, 2]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[named]
#[track_caller]
pub fn repeat(x: &Tensor, sizes: &[usize]) -> Result<Tensor> {
    let new = sizes.len().checked_sub(x.rank()).ok_or_else(|| {
        Error::invalid("repeat", format!("expected at least {} sizes, got {sizes:?}", x.rank()))
    })?;
    let old = std::iter::repeat_n(&1, new).chain(x.shape());
    let (mut apart, mut repeated, mut joined) = (Vec::new(), Vec::new(), Vec::new());
    for (&times, &size) in sizes.iter().zip(old) {
        apart.extend([1, size]);
        repeated.extend([times, size]);
        joined.push(times.checked_mul(size).ok_or_else(|| {
            let message = format!("sizes {sizes:?} of shape {:?}: too many elements", x.shape());
            Error::invalid("repeat", message)
        })?);
    }
    reshape(&expand(&reshape(x, &apart)?, &repeated)?, &joined)
}

/// Moves dimensions `from` to positions `to`; the others keep their order.
///
/// # Errors
///
/// There is no such dimension, one is listed twice, or the lists differ in length.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{DType, Tensor};
///
/// let x = Tensor::zeros(&[2, 3, 4], DType::F32)?;
/// assert_eq!(x.movedim(0, -1)?.shape(), [3, 4, 2]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.movedim`.
#[doc(alias = "moveaxis")]
#[named]
#[track_caller]
pub fn movedim(x: &Tensor, from: impl Dims, to: impl Dims) -> Result<Tensor> {
    let (op, rank) = ("movedim", x.rank());
    let (from, to) = (from.dims(op, rank)?, to.dims(op, rank)?);
    let refused =
        || Error::invalid(op, format!("cannot move dimensions {from:?} to positions {to:?}"));
    let mut order = vec![None; rank];
    for (&old, &new) in from.iter().zip(&to) {
        match order.get_mut(new) {
            Some(place @ None) => *place = Some(old),
            _ => return Err(refused()),
        }
    }
    let mut others = (0..rank).filter(|dim| !from.contains(dim));
    let order: Option<Vec<usize>> =
        order.into_iter().map(|place| place.or_else(|| others.next())).collect();
    match order {
        Some(order) if from.len() == to.len() => permute(x, order),
        _ => Err(refused()),
    }
}

/// Rotates the plane of two dimensions by `k` times 90 degrees, from `dim1` to `dim2`.
///
/// # Errors
///
/// There is no such dimension, or `dim1` and `dim2` are the same.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
/// assert_eq!(x.rot90(1, 0, 1)?.to_vec::<f32>()?, [2.0, 4.0, 1.0, 3.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.rot90`.
#[named]
#[track_caller]
pub fn rot90(x: &Tensor, k: i64, dim1: impl Dim, dim2: impl Dim) -> Result<Tensor> {
    let (op, rank) = ("rot90", x.rank());
    let (a, b) = (dim1.dim(op, rank)?, dim2.dim(op, rank)?);
    for dim in [a, b] {
        x.value().size(op, dim)?;
    }
    if a == b {
        return Err(Error::invalid(op, format!("expected two dimensions, got {a} twice")));
    }
    match k.rem_euclid(4) {
        0 => Ok(x.clone()),
        1 => flip(&transpose(x, a, b)?, a),
        2 => flip(x, [a, b]),
        _ => flip(&transpose(x, a, b)?, b),
    }
}

/// Places the last dimension on diagonal `offset` of new square matrices, in dimensions `dim1` and
/// `dim2` of the result, with zeros elsewhere. PyTorch's defaults are 0, −2 and −1.
///
/// # Errors
///
/// There is no such dimension, `dim1` and `dim2` are the same, or `x` has no dimensions.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// let x = Tensor::new([1.0f32, 2.0])?;
/// assert_eq!(x.diag_embed(0, -2, -1)?.to_vec::<f32>()?, [1.0, 0.0, 0.0, 2.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.diag_embed`.
#[named]
#[track_caller]
pub fn diag_embed(x: &Tensor, offset: i64, dim1: impl Dim, dim2: impl Dim) -> Result<Tensor> {
    let (op, rank) = ("diag_embed", x.rank() + 1);
    let (a, b) = (dim1.dim(op, rank)?, dim2.dim(op, rank)?);
    let Some(&n) = x.shape().last() else {
        return Err(Error::invalid(op, "expected at least one dimension, got shape []"));
    };
    let size = usize::try_from(offset.unsigned_abs()).ok().and_then(|far| n.checked_add(far));
    let Some(size) = size.filter(|&size| size <= i64::MAX as usize) else {
        let message = format!("diagonal {offset} of {n} elements makes the matrix too large");
        return Err(Error::invalid(op, message));
    };
    let (down, right) = if offset < 0 { (size - n, 0) } else { (0, size - n) };
    // Element `i` goes to row `down + i`; the `down` rows above are zeros.
    let columns = Tensor::arange(size)?;
    let rows = Tensor::arange_step(right as i64, (right + n) as i64, 1)?;
    let kept = relation(CompareKind::Eq, &columns, &rows.unsqueeze(1)?)?.to(x.device())?;
    let square = where_(&kept, &unsqueeze(x, -1)?, &scalar_like(x, 0.0)?)?;
    let square =
        pad(&square, &[0, 0, down as i64, (size - n - down) as i64], PadMode::Constant, 0.0)?;
    movedim(&square, [-2, -1], [a, b])
}

/// Returns diagonal `diagonal` of a matrix, or the matrix with a vector on that diagonal.
///
/// # Errors
///
/// `x` is neither a vector nor a matrix.
///
/// # References
///
/// `torch.diag`.
#[named]
#[track_caller]
pub fn diag(x: &Tensor, diagonal: i64) -> Result<Tensor> {
    match x.rank() {
        1 => diag_embed(x, diagonal, -2, -1),
        2 => self::diagonal(x, diagonal, 0, 1),
        _ => {
            let message = format!("expected a vector or a matrix, got shape {:?}", x.shape());
            Err(Error::invalid("diag", message))
        }
    }
}

/// Sums the diagonal of a matrix.
///
/// # Errors
///
/// `x` is not a matrix.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
///
/// assert_eq!(Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?.trace()?.item::<f32>()?, 5.0);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.trace`.
#[named]
#[track_caller]
pub fn trace(x: &Tensor) -> Result<Tensor> {
    match x.rank() {
        2 => sum(&diagonal(x, 0, 0, 1)?, (), false),
        _ => {
            let message = format!("expected a matrix, got shape {:?}", x.shape());
            Err(Error::invalid("trace", message))
        }
    }
}

/// Transposes a matrix; returns vectors and scalars unchanged.
///
/// # Errors
///
/// There are more than two dimensions: see [`transpose`].
///
/// # References
///
/// `torch.t`.
#[named]
#[track_caller]
pub fn t(x: &Tensor) -> Result<Tensor> {
    match x.rank() {
        0 | 1 => Ok(x.clone()),
        2 => transpose(x, 0, 1),
        _ => {
            let message = format!(
                "expected at most 2 dimensions, got shape {:?}; use `transpose`",
                x.shape()
            );
            Err(Error::invalid("t", message))
        }
    }
}

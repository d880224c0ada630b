//! The operations of `functional` as methods of `Tensor`.

use crate::dims::{Dim, DimOrAll, Dims, Sizes};
use crate::{DType, Result, Tensor, functional as f};

use super::{IndexTensor, Operand, Positions};

use samebits_tensor_core::ops::{QrMode, ScatterReduceKind};

/// Writes the link from a method to its function.
macro_rules! see {
    ($name:ident) => {
        concat!(
            "See [`functional::",
            stringify!($name),
            "`](fn@crate::functional::",
            stringify!($name),
            ")."
        )
    };
}

/// Defines a method `name(arguments) -> result;` for each function with the same arguments.
macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        /// The operations of [`functional`](crate::functional) as methods, with all arguments.
        #[allow(clippy::missing_errors_doc, reason = "the function states them")]
        impl Tensor {
            $(
                $(#[$doc])*
                #[doc = see!($name)]
                #[track_caller]
                pub fn $name(&self $(, $arg: $type)*) -> Result<$result> {
                    f::$name(self $(, $arg)*)
                }
            )*
        }
    };
}

methods! {
    /// Returns the absolute value of each element.
    abs() -> Tensor;
    /// Adds `other`, with broadcasting.
    add(other: &Tensor) -> Tensor;
    /// Computes `self + value · a / b`, with broadcasting (PyTorch's default: `value = 1`).
    addcdiv(a: &Tensor, b: &Tensor, value: f64) -> Tensor;
    /// Computes `self + value · a · b`, with broadcasting (PyTorch's default: `value = 1`).
    addcmul(a: &Tensor, b: &Tensor, value: f64) -> Tensor;
    /// Computes `beta · self + alpha · (a · b)` for matrices (PyTorch's defaults: both 1).
    addmm(a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Tensor;
    /// Computes `self · scale + shift`, with two roundings.
    affine(scale: f64, shift: f64) -> Tensor;
    /// Returns whether all elements are close to those of `other` (PyTorch's defaults:
    /// `rtol = 1e-5`, `atol = 1e-8`, `equal_nan = false`).
    allclose(other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> bool;
    /// Returns the indices that sort along `dim` (PyTorch's defaults: `dim = -1`,
    /// `descending = false`).
    argsort(dim: impl Dim, descending: bool) -> Tensor;
    /// Computes [`addmm`](Tensor::addmm) for each matrix of a batch (PyTorch's defaults:
    /// `beta = alpha = 1`).
    baddbmm(a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Tensor;
    /// Draws 1 with the probability in each element, else 0.
    bernoulli() -> Tensor;
    /// Counts how often each value occurs, or sums its weights (PyTorch's defaults: no weights,
    /// `minlength = 0`).
    bincount(weights: Option<&Tensor>, minlength: usize) -> Tensor;
    /// Counts how often each value below `bins` occurs, or sums its weights.
    bincount_n(weights: Option<&Tensor>, bins: usize) -> Tensor;
    /// Multiplies matrices batch by batch.
    bmm(other: &Tensor) -> Tensor;
    /// Returns the insertion position of each element among sorted boundaries (PyTorch's default:
    /// `right = false`).
    bucketize(boundaries: &Tensor, right: bool) -> Tensor;
    /// Computes the `p`-norms of the differences of all pairs of rows (PyTorch's default: `p = 2`).
    cdist(other: &Tensor, p: f64) -> Tensor;
    /// Rounds each element up to an integer.
    ceil() -> Tensor;
    /// Applies the continuously differentiable exponential linear unit (PyTorch's default:
    /// `alpha = 1`).
    celu(alpha: f64) -> Tensor;
    /// Splits this tensor along `dim` into at most `chunks` parts (PyTorch's default: `dim = 0`).
    chunk(chunks: usize, dim: impl Dim) -> Vec<Tensor>;
    /// Clamps the elements to `[min, max]`; a bound of `None` does not apply.
    clamp(min: Option<f64>, max: Option<f64>) -> Tensor;
    /// Replaces elements above `max` with `max`.
    clamp_max(max: f64) -> Tensor;
    /// Replaces elements below `min` with `min`.
    clamp_min(min: f64) -> Tensor;
    /// Returns the correlation coefficients of the rows.
    corrcoef() -> Tensor;
    /// Computes the cosine of each element.
    cos() -> Tensor;
    /// Counts the nonzero elements over `dims` (PyTorch's default: all).
    count_nonzero(dims: impl Dims) -> Tensor;
    /// Returns the covariances of the rows (PyTorch's defaults: `correction = 1`, no weights).
    cov(correction: usize, fweights: Option<&Tensor>, aweights: Option<&Tensor>) -> Tensor;
    /// Returns the running maximum along `dim`, and its indices.
    cummax(dim: impl Dim) -> (Tensor, Tensor);
    /// Returns the running minimum along `dim`, and its indices.
    cummin(dim: impl Dim) -> (Tensor, Tensor);
    /// Computes the running product along `dim`.
    cumprod(dim: impl Dim) -> Tensor;
    /// Computes the running sum along `dim`.
    cumsum(dim: impl Dim) -> Tensor;
    /// Returns diagonal `diagonal` of a matrix, or the matrix with a vector on that diagonal
    /// (PyTorch's default: 0).
    diag(diagonal: i64) -> Tensor;
    /// Places the last dimension on the diagonals of new matrices (PyTorch's defaults:
    /// `offset = 0`, `dim1 = -2`, `dim2 = -1`).
    diag_embed(offset: i64, dim1: impl Dim, dim2: impl Dim) -> Tensor;
    /// Returns diagonal `offset` of the matrices in two dimensions (PyTorch's defaults:
    /// `offset = 0`, `dim1 = 0`, `dim2 = 1`).
    diagonal(offset: i64, dim1: impl Dim, dim2: impl Dim) -> Tensor;
    /// Returns the differences of neighbouring elements along `dim`, taken `n` times (PyTorch's
    /// defaults: `n = 1`, `dim = -1`).
    diff(n: usize, dim: impl Dim) -> Tensor;
    /// Divides by `other`, with broadcasting.
    div(other: &Tensor) -> Tensor;
    /// Computes the dot product with another vector.
    dot(other: &Tensor) -> Tensor;
    /// Applies the exponential linear unit (PyTorch's default: `alpha = 1`).
    elu(alpha: f64) -> Tensor;
    /// Tests elementwise if this tensor equals `other`.
    eq(other: impl Operand) -> Tensor;
    /// Returns whether both tensors have the same shape and equal elements.
    equal(other: &Tensor) -> bool;
    /// Computes the error function of each element.
    erf() -> Tensor;
    /// Computes the exponential of each element.
    exp() -> Tensor;
    /// Computes 2 to the power of each element.
    exp2() -> Tensor;
    /// Broadcasts this tensor to `shape`.
    expand(shape: &[usize]) -> Tensor;
    /// Broadcasts this tensor to the shape of `other`.
    expand_as(other: &Tensor) -> Tensor;
    /// Computes `exp(x) − 1` of each element.
    expm1() -> Tensor;
    /// Merges dimensions `start_dim` to `end_dim` into one (PyTorch's defaults: 0 and −1).
    flatten(start_dim: impl Dim, end_dim: impl Dim) -> Tensor;
    /// Reverses the order of the elements along each of `dims`.
    flip(dims: impl Dims) -> Tensor;
    /// Rounds each element down to an integer.
    floor() -> Tensor;
    /// Divides i64 integers and rounds down.
    floor_divide(other: impl Operand) -> Tensor;
    /// Returns the fractional part of each element.
    frac() -> Tensor;
    /// Returns a tensor with this shape, type and device, filled with `value`.
    full_like(value: f64) -> Tensor;
    /// Gathers the elements along `dim` at the positions in `index`.
    gather(dim: impl Dim, index: &Tensor) -> Tensor;
    /// Tests elementwise if this tensor is greater than or equal to `other`.
    ge(other: impl Operand) -> Tensor;
    /// Applies the Gaussian error linear unit, with the error function.
    gelu() -> Tensor;
    /// Applies the gated linear unit along `dim` (PyTorch's default: `dim = -1`).
    glu(dim: impl Dim) -> Tensor;
    /// Tests elementwise if this tensor is greater than `other`.
    gt(other: impl Operand) -> Tensor;
    /// Sets elements within `±lambda` to 0 (PyTorch's default: `lambda = 0.5`).
    hardshrink(lambda: f64) -> Tensor;
    /// Computes `relu6(x + 3) / 6` of each element.
    hardsigmoid() -> Tensor;
    /// Computes `x · relu6(x + 3) / 6` of each element.
    hardswish() -> Tensor;
    /// Clamps the elements to `[min, max]` (PyTorch's defaults: −1 and 1).
    hardtanh(min: f64, max: f64) -> Tensor;
    /// Counts the elements in bins of equal width (PyTorch's defaults: `bins = 100`,
    /// `min = max = 0`).
    histc(bins: usize, min: f64, max: f64) -> Tensor;
    /// Indexes this tensor by integers and ranges, as `x[.., 1:3, -1]` does in PyTorch.
    i(positions: impl Positions) -> Tensor;
    /// Returns the slices at several index tensors, as `x[i, j]` does in PyTorch.
    index(indices: &[impl IndexTensor]) -> Tensor;
    /// Adds `alpha · source` to the slices along `dim` named by `index` (PyTorch's default:
    /// `alpha = 1`).
    index_add(dim: impl Dim, index: &Tensor, source: &Tensor, alpha: f64) -> Tensor;
    /// Replaces the slices along `dim` named by `index` with those of `source`.
    index_copy(dim: impl Dim, index: &Tensor, source: &Tensor) -> Tensor;
    /// Fills the slices along `dim` named by `index` with `value`.
    index_fill(dim: impl Dim, index: &Tensor, value: f64) -> Tensor;
    /// Assigns `values` to the slices at several index tensors, or adds them (PyTorch's default:
    /// `accumulate = false`).
    index_put(indices: &[impl IndexTensor], values: &Tensor, accumulate: bool) -> Tensor;
    /// Reduces slices of `source` into the slices along `dim` named by `index` (PyTorch's default:
    /// `include_self = true`).
    index_reduce(
        dim: impl Dim,
        index: &Tensor,
        source: &Tensor,
        reduce: ScatterReduceKind,
        include_self: bool
    ) -> Tensor;
    /// Returns the slices along `dim` named by `index`.
    index_select(dim: impl Dim, index: &Tensor) -> Tensor;
    /// Tests elementwise if this tensor is close to `other` (PyTorch's defaults: `rtol = 1e-5`,
    /// `atol = 1e-8`, `equal_nan = false`).
    isclose(other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Tensor;
    /// Tests elementwise if a number is neither infinite nor NaN.
    isfinite() -> Tensor;
    /// Tests elementwise if a number is among `elements`.
    isin(elements: &Tensor) -> Tensor;
    /// Tests elementwise if a number is infinite.
    isinf() -> Tensor;
    /// Tests elementwise if a number is NaN.
    isnan() -> Tensor;
    /// Computes the Kronecker product with `other`.
    kron(other: &Tensor) -> Tensor;
    /// Tests elementwise if this tensor is less than or equal to `other`.
    le(other: impl Operand) -> Tensor;
    /// Applies the leaky rectified linear unit (PyTorch's default: `negative_slope = 0.01`).
    leaky_relu(negative_slope: f64) -> Tensor;
    /// Interpolates linearly from this tensor to `end`.
    lerp(end: &Tensor, weight: impl Operand) -> Tensor;
    /// Computes the natural logarithm of each element.
    log() -> Tensor;
    /// Computes the logarithm to base 10 of each element.
    log10() -> Tensor;
    /// Computes `log(1 + x)` of each element.
    log1p() -> Tensor;
    /// Computes the logarithm to base 2 of each element.
    log2() -> Tensor;
    /// Computes the logarithm of the sigmoid of each element.
    log_sigmoid() -> Tensor;
    /// Computes the logarithm of the softmax along `dim`.
    log_softmax(dim: impl Dim) -> Tensor;
    /// Computes `log(exp(self) + exp(other))` without overflow.
    logaddexp(other: &Tensor) -> Tensor;
    /// Computes the logarithm of the running sum of exponentials along `dim`.
    logcumsumexp(dim: impl Dim) -> Tensor;
    /// Tests elementwise if both tensors are nonzero.
    logical_and(other: &Tensor) -> Tensor;
    /// Tests elementwise if this tensor is 0 or false.
    logical_not() -> Tensor;
    /// Tests elementwise if one of the tensors is nonzero.
    logical_or(other: &Tensor) -> Tensor;
    /// Tests elementwise if exactly one of the tensors is nonzero.
    logical_xor(other: &Tensor) -> Tensor;
    /// Computes `log(x / (1 − x))` of each element (PyTorch's default: no `eps`).
    logit(eps: Option<f64>) -> Tensor;
    /// Tests elementwise if this tensor is less than `other`.
    lt(other: impl Operand) -> Tensor;
    /// Replaces elements by `value` if the mask is true.
    masked_fill(mask: &Tensor, value: f64) -> Tensor;
    /// Replaces elements by those of `source`, in order, if the mask is true.
    masked_scatter(mask: &Tensor, source: &Tensor) -> Tensor;
    /// Returns the elements for which the mask is true, in row-major order.
    masked_select(mask: &Tensor) -> Tensor;
    /// Multiplies matrices or vectors, with PyTorch's rules for the number of dimensions.
    matmul(other: &Tensor) -> Tensor;
    /// Returns the larger element of each pair, with broadcasting.
    maximum(other: &Tensor) -> Tensor;
    /// Returns the median of all elements: the lower of the two middle elements.
    median() -> Tensor;
    /// Returns the smaller element of each pair, with broadcasting.
    minimum(other: &Tensor) -> Tensor;
    /// Computes `x · tanh(softplus(x))` of each element.
    mish() -> Tensor;
    /// Multiplies two matrices without broadcasting.
    mm(other: &Tensor) -> Tensor;
    /// Moves dimensions `from` to positions `to`.
    movedim(from: impl Dims, to: impl Dims) -> Tensor;
    /// Multiplies by `other`, with broadcasting.
    mul(other: &Tensor) -> Tensor;
    /// Draws positions with probabilities proportional to the elements of each row (PyTorch's
    /// default: `replacement = false`).
    multinomial(num_samples: usize, replacement: bool) -> Tensor;
    /// Multiplies a matrix by a vector.
    mv(x: &Tensor) -> Tensor;
    /// Replaces NaN and infinities with numbers (PyTorch's defaults: 0, and the largest and
    /// smallest finite numbers).
    nan_to_num(nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> Tensor;
    /// Returns the median of all elements that are not NaN.
    nanmedian() -> Tensor;
    /// Returns the slices `start .. start + length` along `dim`.
    narrow(dim: impl Dim, start: usize, length: usize) -> Tensor;
    /// Tests elementwise if this tensor differs from `other`.
    ne(other: impl Operand) -> Tensor;
    /// Negates each element.
    neg() -> Tensor;
    /// Returns the positions of the nonzero elements, in row-major order.
    nonzero() -> Tensor;
    /// Returns the one-hot encoding of classes, in a new last dimension.
    one_hot(num_classes: usize) -> Tensor;
    /// Returns ones with this shape, type and device.
    ones_like() -> Tensor;
    /// Multiplies each element of this vector by each of another.
    outer(other: &Tensor) -> Tensor;
    /// Reorders the dimensions.
    permute(order: impl Dims) -> Tensor;
    /// Raises each element to its own power, with broadcasting.
    pow(exponent: &Tensor) -> Tensor;
    /// Raises each element to the power `exponent`.
    pow_scalar(exponent: f64) -> Tensor;
    /// Applies the leaky rectified linear unit with trained slopes.
    prelu(weight: &Tensor) -> Tensor;
    /// Assigns `source` to the elements at `index`, or adds it; indices count in row-major order
    /// (PyTorch's default: `accumulate = false`).
    put(index: &Tensor, source: &Tensor, accumulate: bool) -> Tensor;
    /// Computes the QR decomposition (PyTorch's default: the reduced mode).
    qr(mode: QrMode) -> (Tensor, Tensor);
    /// Draws uniform numbers in [0, 1) with this shape, type and device.
    rand_like() -> Tensor;
    /// Draws uniform integers in `low..high` with this shape, type and device (PyTorch's default:
    /// `low = 0`).
    randint_like(low: i64, high: i64) -> Tensor;
    /// Draws standard normal numbers with this shape, type and device.
    randn_like() -> Tensor;
    /// Computes `1 / x` of each element.
    reciprocal() -> Tensor;
    /// Computes `max(x, 0)` of each element.
    relu() -> Tensor;
    /// Computes `min(max(x, 0), 6)` of each element.
    relu6() -> Tensor;
    /// Returns the remainder of the floored division of i64 integers; it has the divisor's sign.
    remainder(other: impl Operand) -> Tensor;
    /// Repeats this tensor `sizes[i]` times along dimension `i`.
    repeat(sizes: &[usize]) -> Tensor;
    /// Repeats element `i` of `dim` `repeats[i]` times (PyTorch's default: the flattened tensor).
    repeat_interleave(repeats: &Tensor, dim: impl DimOrAll) -> Tensor;
    /// Repeats every element of `dim` `repeats` times (PyTorch's default: the flattened tensor).
    repeat_interleave_n(repeats: usize, dim: impl DimOrAll) -> Tensor;
    /// Repeats elements a number of times each, to `output_size` in all.
    repeat_interleave_to(repeats: &Tensor, dim: impl DimOrAll, output_size: usize) -> Tensor;
    /// Returns the same elements in another shape; one size may be `-1`.
    reshape(shape: impl Sizes) -> Tensor;
    /// Rolls the elements by `shifts[i]` positions along `dims[i]`.
    roll(shifts: &[i64], dims: impl Dims) -> Tensor;
    /// Rotates a plane of two dimensions by `k` times 90 degrees (PyTorch's defaults: `k = 1`,
    /// dimensions 0 and 1).
    rot90(k: i64, dim1: impl Dim, dim2: impl Dim) -> Tensor;
    /// Rounds each element to the nearest integer, ties to even.
    round() -> Tensor;
    /// Computes `1 / √x` of each element.
    rsqrt() -> Tensor;
    /// Replaces the elements along `dim` at the positions in `index` with those of `source`.
    scatter(dim: impl Dim, index: &Tensor, source: &Tensor) -> Tensor;
    /// Adds the elements of `source` to those along `dim` at the positions in `index`.
    scatter_add(dim: impl Dim, index: &Tensor, source: &Tensor) -> Tensor;
    /// Reduces the elements of `source` into those along `dim` at the positions in `index`
    /// (PyTorch's default: `include_self = true`).
    scatter_reduce(
        dim: impl Dim,
        index: &Tensor,
        source: &Tensor,
        reduce: ScatterReduceKind,
        include_self: bool
    ) -> Tensor;
    /// Replaces the elements along `dim` at the positions in `index` with `value`.
    scatter_value(dim: impl Dim, index: &Tensor, value: f64) -> Tensor;
    /// Returns one position of `dim` and removes that dimension.
    select(dim: impl Dim, index: i64) -> Tensor;
    /// Applies the scaled exponential linear unit.
    selu() -> Tensor;
    /// Computes `1 / (1 + exp(−x))` of each element.
    sigmoid() -> Tensor;
    /// Returns −1, 0 or 1 by the sign of each element.
    sign() -> Tensor;
    /// Computes `x · sigmoid(x)` of each element.
    silu() -> Tensor;
    /// Computes the sine of each element.
    sin() -> Tensor;
    /// Computes the softmax along `dim`.
    softmax(dim: impl Dim) -> Tensor;
    /// Computes the softmax of the negated elements along `dim`.
    softmin(dim: impl Dim) -> Tensor;
    /// Computes `log(1 + exp(beta · x)) / beta` of each element (PyTorch's defaults: `beta = 1`,
    /// `threshold = 20`).
    softplus(beta: f64, threshold: f64) -> Tensor;
    /// Moves each element towards 0 by `lambda`, at most to 0 (PyTorch's default: `lambda = 0.5`).
    softshrink(lambda: f64) -> Tensor;
    /// Computes `x / (1 + |x|)` of each element.
    softsign() -> Tensor;
    /// Sorts along `dim`; also returns the original index of each element (PyTorch's defaults:
    /// `dim = -1`, `descending = false`).
    sort(dim: impl Dim, descending: bool) -> (Tensor, Tensor);
    /// Splits this tensor along `dim` into parts of the given sizes (PyTorch's default: `dim = 0`).
    split(sizes: &[usize], dim: impl Dim) -> Vec<Tensor>;
    /// Computes the square root of each element.
    sqrt() -> Tensor;
    /// Squares each element.
    square() -> Tensor;
    /// Removes those of `dims` that have size 1 (PyTorch's default: all).
    squeeze(dims: impl Dims) -> Tensor;
    /// Subtracts `other`, with broadcasting.
    sub(other: &Tensor) -> Tensor;
    /// Computes the thin singular value decomposition.
    svd() -> (Tensor, Tensor, Tensor);
    /// Transposes a matrix.
    t() -> Tensor;
    /// Returns the elements at `index`, counted in row-major order.
    take(index: &Tensor) -> Tensor;
    /// Gathers elements along `dim`, with broadcasting along the others.
    take_along_dim(index: &Tensor, dim: impl Dim) -> Tensor;
    /// Computes the hyperbolic tangent of each element.
    tanh() -> Tensor;
    /// Computes `x − tanh(x)` of each element.
    tanhshrink() -> Tensor;
    /// Splits this tensor along `dim` before each index in `ends` (PyTorch's default: `dim = 0`).
    tensor_split(ends: &[usize], dim: impl Dim) -> Vec<Tensor>;
    /// Contracts dimensions of this tensor with as many of another.
    tensordot(other: &Tensor, dims_a: impl Dims, dims_b: impl Dims) -> Tensor;
    /// Replaces elements up to the threshold with `value`.
    threshold(threshold: f64, value: f64) -> Tensor;
    /// Repeats this tensor; missing leading sizes count as 1.
    tile(sizes: &[usize]) -> Tensor;
    /// Converts this tensor to another element type.
    to_dtype(dtype: DType) -> Tensor;
    /// Returns the `k` largest or smallest elements along `dim`, and their indices (PyTorch's
    /// defaults: `dim = -1`, `largest = true`).
    topk(k: usize, dim: impl Dim, largest: bool) -> (Tensor, Tensor);
    /// Sums the diagonal of a matrix.
    trace() -> Tensor;
    /// Swaps two dimensions.
    transpose(a: impl Dim, b: impl Dim) -> Tensor;
    /// Keeps the lower triangle of each matrix (PyTorch's default: `diagonal = 0`).
    tril(diagonal: i64) -> Tensor;
    /// Keeps the upper triangle of each matrix (PyTorch's default: `diagonal = 0`).
    triu(diagonal: i64) -> Tensor;
    /// Rounds each element towards 0 to an integer.
    trunc() -> Tensor;
    /// Returns all slices along `dim` (PyTorch's default: `dim = 0`).
    unbind(dim: impl Dim) -> Vec<Tensor>;
    /// Splits one dimension into several; one size may be `-1`.
    unflatten(dim: impl Dim, sizes: impl Sizes) -> Tensor;
    /// Returns the distinct elements in ascending order, with inverse indices and counts.
    unique() -> (Tensor, Tensor, Tensor);
    /// Returns the elements that differ from the one before, with inverse indices and counts.
    unique_consecutive() -> (Tensor, Tensor, Tensor);
    /// Returns the slices along `dim` that differ from the one before, with inverse indices and
    /// counts.
    unique_consecutive_dim(dim: impl Dim) -> (Tensor, Tensor, Tensor);
    /// Returns the distinct slices along `dim` in ascending order, with inverse indices and counts.
    unique_dim(dim: impl Dim) -> (Tensor, Tensor, Tensor);
    /// Inserts a dimension of size 1 before dimension `dim`.
    unsqueeze(dim: impl Dim) -> Tensor;
    /// Returns windows of `size` elements along `dim`, `step` apart, as a new last dimension.
    windows(dim: impl Dim, size: usize, step: usize) -> Tensor;
    /// Returns zeros with this shape, type and device.
    zeros_like() -> Tensor;
}

impl Tensor {
    /// Computes [`pca_lowrank`](f::pca_lowrank) with PyTorch's defaults: a rank of at most 6, centred,
    /// 2 iterations.
    ///
    /// # Errors
    ///
    /// As [`pca_lowrank`](f::pca_lowrank).
    #[track_caller]
    pub fn pca_lowrank(&self) -> Result<(Tensor, Tensor, Tensor)> {
        f::pca_lowrank(self, None, true, 2)
    }

    /// Computes [`svd_lowrank`](f::svd_lowrank) with PyTorch's defaults: a rank of 6, 2 iterations.
    ///
    /// # Errors
    ///
    /// As [`svd_lowrank`](f::svd_lowrank).
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::{DType, Tensor};
    ///
    /// samebits_tensor_core::random::manual_seed(0);
    /// let (u, s, v) = Tensor::ones(&[9, 8], DType::F32)?.svd_lowrank()?;
    /// assert_eq!((u.shape(), s.shape(), v.shape()), (&[9, 6][..], &[6][..], &[8, 6][..]));
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    #[track_caller]
    pub fn svd_lowrank(&self) -> Result<(Tensor, Tensor, Tensor)> {
        f::svd_lowrank(self, 6, 2, None)
    }

    /// Returns this tensor's element if the condition is true, else that of `other`, with
    /// broadcasting; see [`where_`](f::where_), whose first argument is the condition.
    ///
    /// # Errors
    ///
    /// As [`where_`](f::where_), or the type cannot represent the number.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_autograd::Tensor;
    ///
    /// let x = Tensor::new([-1.0f32, 2.0])?;
    /// assert_eq!(x.where_(&x.gt(0.0)?, 0.0)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), samebits_autograd::Error>(())
    /// ```
    #[track_caller]
    pub fn where_(&self, condition: &Tensor, other: impl Operand) -> Result<Tensor> {
        f::where_(condition, self, &other.operand("where_", self)?)
    }
}

/// Defines two methods for each reduction: one removes the reduced dimensions, the other keeps them
/// with size 1.
macro_rules! reductions {
    ($(
        $(#[$doc:meta])*
        $name:ident, $keepdim:ident(
            $dims:ident: $type:ty $(, $last:expr)? $(; before $first:ident: $first_type:ty)?
        ) -> $result:ty;
    )*) => {
        /// Reductions of [`functional`](crate::functional) as methods, with PyTorch's defaults. `()`
        /// stands for all dimensions. Methods that end in `_keepdim` keep them with size 1.
        #[allow(clippy::missing_errors_doc, reason = "the function states them")]
        impl Tensor {
            $(
                $(#[$doc])*
                #[doc = see!($name)]
                #[track_caller]
                pub fn $name(&self, $($first: $first_type,)? $dims: $type) -> Result<$result> {
                    f::$name(self, $($first,)? $dims, $($last,)? false)
                }

                $(#[$doc])*
                /// Keeps the reduced dimensions with size 1.
                #[doc = see!($name)]
                #[track_caller]
                pub fn $keepdim(&self, $($first: $first_type,)? $dims: $type) -> Result<$result> {
                    f::$name(self, $($first,)? $dims, $($last,)? true)
                }
            )*
        }
    };
}

reductions! {
    /// Tests if all elements over `dims` are nonzero.
    all, all_keepdim(dims: impl Dims) -> Tensor;
    /// Returns the largest element over `dims`.
    amax, amax_keepdim(dims: impl Dims) -> Tensor;
    /// Returns the smallest element over `dims`.
    amin, amin_keepdim(dims: impl Dims) -> Tensor;
    /// Tests if any element over `dims` is nonzero.
    any, any_keepdim(dims: impl Dims) -> Tensor;
    /// Returns the index of the largest element along `dim`, or of all elements.
    argmax, argmax_keepdim(dim: impl DimOrAll) -> Tensor;
    /// Returns the index of the smallest element along `dim`, or of all elements.
    argmin, argmin_keepdim(dim: impl DimOrAll) -> Tensor;
    /// Returns the `k`-th smallest element along `dim`, counted from 1, and its index (PyTorch's
    /// default: `dim = -1`).
    kthvalue, kthvalue_keepdim(dim: impl Dim; before k: usize) -> (Tensor, Tensor);
    /// Computes the logarithm of the sum of the exponentials over `dims`.
    logsumexp, logsumexp_keepdim(dims: impl Dims) -> Tensor;
    /// Returns the largest element along `dim`, and its index.
    max, max_keepdim(dim: impl Dim) -> (Tensor, Tensor);
    /// Computes the mean over `dims`.
    mean, mean_keepdim(dims: impl Dims) -> Tensor;
    /// Returns the median along `dim`, and its index (PyTorch's default: `dim = -1`).
    median_dim, median_dim_keepdim(dim: impl Dim) -> (Tensor, Tensor);
    /// Returns the smallest element along `dim`, and its index.
    min, min_keepdim(dim: impl Dim) -> (Tensor, Tensor);
    /// Returns the median along `dim` of the elements that are not NaN, and its index (PyTorch's
    /// default: `dim = -1`).
    nanmedian_dim, nanmedian_dim_keepdim(dim: impl Dim) -> (Tensor, Tensor);
    /// Computes the mean over `dims` of the elements that are not NaN.
    nanmean, nanmean_keepdim(dims: impl Dims) -> Tensor;
    /// Computes the sum over `dims` of the elements that are not NaN.
    nansum, nansum_keepdim(dims: impl Dims) -> Tensor;
    /// Computes the `p`-norm over `dims` (PyTorch's default: `p = 2`, over all).
    norm, norm_keepdim(dims: impl Dims; before p: f64) -> Tensor;
    /// Computes the product over `dims`.
    prod, prod_keepdim(dims: impl Dims) -> Tensor;
    /// Computes the `q`-th quantile along `dim`, or of all elements.
    quantile, quantile_keepdim(dim: impl DimOrAll; before q: f64) -> Tensor;
    /// Computes the standard deviation over `dims`, with a correction of 1.
    std, std_keepdim(dims: impl Dims, 1.0) -> Tensor;
    /// Computes the sum over `dims`.
    sum, sum_keepdim(dims: impl Dims) -> Tensor;
    /// Computes the variance over `dims`, with a correction of 1.
    var, var_keepdim(dims: impl Dims, 1.0) -> Tensor;
    /// Computes the variance and the mean over `dims`, with a correction of 1.
    var_mean, var_mean_keepdim(dims: impl Dims, 1.0) -> (Tensor, Tensor);
}

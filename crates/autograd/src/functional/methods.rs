//! The operations as methods.

use crate::dims::{Dim, DimOrAll, Dims, Sizes};
use crate::{DType, Result, Tensor, functional as f};

use super::{IndexTensor, Operand, Positions};

use samebits_tensor_core::ops::{QrMode, ScatterReduceKind};

/// `name(arguments) -> result;` for each function that is a method as it is.
macro_rules! methods {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        /// The operations of [`functional`](crate::functional) as methods, with all arguments.
        #[allow(missing_docs, reason = "each is the function of its name")]
        #[allow(clippy::missing_errors_doc, reason = "each is the function of its name")]
        impl Tensor {
            $(
                #[track_caller]
                pub fn $name(&self $(, $arg: $type)*) -> Result<$result> {
                    f::$name(self $(, $arg)*)
                }
            )*
        }
    };
}

methods! {
    abs() -> Tensor;
    add(other: &Tensor) -> Tensor;
    addcdiv(a: &Tensor, b: &Tensor, value: f64) -> Tensor;
    addcmul(a: &Tensor, b: &Tensor, value: f64) -> Tensor;
    addmm(a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Tensor;
    affine(scale: f64, shift: f64) -> Tensor;
    allclose(other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> bool;
    argsort(dim: impl Dim, descending: bool) -> Tensor;
    baddbmm(a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Tensor;
    bernoulli() -> Tensor;
    bincount(weights: Option<&Tensor>, minlength: usize) -> Tensor;
    bmm(other: &Tensor) -> Tensor;
    bucketize(boundaries: &Tensor, right: bool) -> Tensor;
    cdist(other: &Tensor, p: f64) -> Tensor;
    ceil() -> Tensor;
    celu(alpha: f64) -> Tensor;
    chunk(chunks: usize, dim: impl Dim) -> Vec<Tensor>;
    clamp(min: Option<f64>, max: Option<f64>) -> Tensor;
    clamp_max(max: f64) -> Tensor;
    clamp_min(min: f64) -> Tensor;
    cos() -> Tensor;
    count_nonzero(dims: impl Dims) -> Tensor;
    cummax(dim: impl Dim) -> (Tensor, Tensor);
    cummin(dim: impl Dim) -> (Tensor, Tensor);
    cumprod(dim: impl Dim) -> Tensor;
    cumsum(dim: impl Dim) -> Tensor;
    diag(diagonal: i64) -> Tensor;
    diag_embed(offset: i64, dim1: impl Dim, dim2: impl Dim) -> Tensor;
    diagonal(offset: i64, dim1: impl Dim, dim2: impl Dim) -> Tensor;
    diff(n: usize, dim: impl Dim) -> Tensor;
    div(other: &Tensor) -> Tensor;
    dot(other: &Tensor) -> Tensor;
    elu(alpha: f64) -> Tensor;
    eq(other: impl Operand) -> Tensor;
    equal(other: &Tensor) -> bool;
    erf() -> Tensor;
    exp() -> Tensor;
    exp2() -> Tensor;
    expand(shape: &[usize]) -> Tensor;
    expand_as(other: &Tensor) -> Tensor;
    expm1() -> Tensor;
    flatten(start_dim: impl Dim, end_dim: impl Dim) -> Tensor;
    flip(dims: impl Dims) -> Tensor;
    floor() -> Tensor;
    floor_divide(other: impl Operand) -> Tensor;
    frac() -> Tensor;
    full_like(value: f64) -> Tensor;
    gather(dim: impl Dim, index: &Tensor) -> Tensor;
    ge(other: impl Operand) -> Tensor;
    gelu() -> Tensor;
    glu(dim: impl Dim) -> Tensor;
    gt(other: impl Operand) -> Tensor;
    hardshrink(lambda: f64) -> Tensor;
    hardsigmoid() -> Tensor;
    hardswish() -> Tensor;
    hardtanh(min: f64, max: f64) -> Tensor;
    histc(bins: usize, min: f64, max: f64) -> Tensor;
    i(positions: impl Positions) -> Tensor;
    index(indices: &[impl IndexTensor]) -> Tensor;
    index_add(dim: impl Dim, index: &Tensor, source: &Tensor, alpha: f64) -> Tensor;
    index_copy(dim: impl Dim, index: &Tensor, source: &Tensor) -> Tensor;
    index_fill(dim: impl Dim, index: &Tensor, value: f64) -> Tensor;
    index_put(indices: &[impl IndexTensor], values: &Tensor, accumulate: bool) -> Tensor;
    index_reduce(
        dim: impl Dim,
        index: &Tensor,
        source: &Tensor,
        reduce: ScatterReduceKind,
        include_self: bool
    ) -> Tensor;
    index_select(dim: impl Dim, index: &Tensor) -> Tensor;
    isclose(other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Tensor;
    isfinite() -> Tensor;
    isin(elements: &Tensor) -> Tensor;
    isinf() -> Tensor;
    isnan() -> Tensor;
    kron(other: &Tensor) -> Tensor;
    le(other: impl Operand) -> Tensor;
    leaky_relu(negative_slope: f64) -> Tensor;
    lerp(end: &Tensor, weight: impl Operand) -> Tensor;
    log() -> Tensor;
    log10() -> Tensor;
    log1p() -> Tensor;
    log2() -> Tensor;
    log_sigmoid() -> Tensor;
    log_softmax(dim: impl Dim) -> Tensor;
    logaddexp(other: &Tensor) -> Tensor;
    logcumsumexp(dim: impl Dim) -> Tensor;
    logical_and(other: &Tensor) -> Tensor;
    logical_not() -> Tensor;
    logical_or(other: &Tensor) -> Tensor;
    logical_xor(other: &Tensor) -> Tensor;
    logit(eps: Option<f64>) -> Tensor;
    lt(other: impl Operand) -> Tensor;
    masked_fill(mask: &Tensor, value: f64) -> Tensor;
    masked_scatter(mask: &Tensor, source: &Tensor) -> Tensor;
    masked_select(mask: &Tensor) -> Tensor;
    matmul(other: &Tensor) -> Tensor;
    maximum(other: &Tensor) -> Tensor;
    median() -> Tensor;
    minimum(other: &Tensor) -> Tensor;
    mish() -> Tensor;
    mm(other: &Tensor) -> Tensor;
    movedim(from: impl Dims, to: impl Dims) -> Tensor;
    mul(other: &Tensor) -> Tensor;
    multinomial(num_samples: usize, replacement: bool) -> Tensor;
    mv(x: &Tensor) -> Tensor;
    nan_to_num(nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> Tensor;
    nanmedian() -> Tensor;
    narrow(dim: impl Dim, start: usize, length: usize) -> Tensor;
    ne(other: impl Operand) -> Tensor;
    neg() -> Tensor;
    nonzero() -> Tensor;
    one_hot(num_classes: usize) -> Tensor;
    ones_like() -> Tensor;
    outer(other: &Tensor) -> Tensor;
    permute(order: impl Dims) -> Tensor;
    pow(exponent: &Tensor) -> Tensor;
    pow_scalar(exponent: f64) -> Tensor;
    prelu(weight: &Tensor) -> Tensor;
    put(index: &Tensor, source: &Tensor, accumulate: bool) -> Tensor;
    qr(mode: QrMode) -> (Tensor, Tensor);
    rand_like() -> Tensor;
    randint_like(low: i64, high: i64) -> Tensor;
    randn_like() -> Tensor;
    reciprocal() -> Tensor;
    relu() -> Tensor;
    relu6() -> Tensor;
    remainder(other: impl Operand) -> Tensor;
    repeat(sizes: &[usize]) -> Tensor;
    repeat_interleave(repeats: &Tensor, dim: impl DimOrAll) -> Tensor;
    repeat_interleave_n(repeats: usize, dim: impl DimOrAll) -> Tensor;
    reshape(shape: impl Sizes) -> Tensor;
    roll(shifts: &[i64], dims: impl Dims) -> Tensor;
    rot90(k: i64, dim1: impl Dim, dim2: impl Dim) -> Tensor;
    round() -> Tensor;
    rsqrt() -> Tensor;
    scatter(dim: impl Dim, index: &Tensor, source: &Tensor) -> Tensor;
    scatter_add(dim: impl Dim, index: &Tensor, source: &Tensor) -> Tensor;
    scatter_reduce(
        dim: impl Dim,
        index: &Tensor,
        source: &Tensor,
        reduce: ScatterReduceKind,
        include_self: bool
    ) -> Tensor;
    scatter_value(dim: impl Dim, index: &Tensor, value: f64) -> Tensor;
    select(dim: impl Dim, index: i64) -> Tensor;
    selu() -> Tensor;
    sigmoid() -> Tensor;
    sign() -> Tensor;
    silu() -> Tensor;
    sin() -> Tensor;
    softmax(dim: impl Dim) -> Tensor;
    softmin(dim: impl Dim) -> Tensor;
    softplus(beta: f64, threshold: f64) -> Tensor;
    softshrink(lambda: f64) -> Tensor;
    softsign() -> Tensor;
    sort(dim: impl Dim, descending: bool) -> (Tensor, Tensor);
    split(sizes: &[usize], dim: impl Dim) -> Vec<Tensor>;
    sqrt() -> Tensor;
    square() -> Tensor;
    squeeze(dims: impl Dims) -> Tensor;
    sub(other: &Tensor) -> Tensor;
    svd() -> (Tensor, Tensor, Tensor);
    t() -> Tensor;
    take(index: &Tensor) -> Tensor;
    take_along_dim(index: &Tensor, dim: impl Dim) -> Tensor;
    tanh() -> Tensor;
    tanhshrink() -> Tensor;
    tensor_split(ends: &[usize], dim: impl Dim) -> Vec<Tensor>;
    tensordot(other: &Tensor, dims_a: impl Dims, dims_b: impl Dims) -> Tensor;
    threshold(threshold: f64, value: f64) -> Tensor;
    tile(sizes: &[usize]) -> Tensor;
    to_dtype(dtype: DType) -> Tensor;
    topk(k: usize, dim: impl Dim, largest: bool) -> (Tensor, Tensor);
    trace() -> Tensor;
    transpose(a: impl Dim, b: impl Dim) -> Tensor;
    tril(diagonal: i64) -> Tensor;
    triu(diagonal: i64) -> Tensor;
    trunc() -> Tensor;
    unbind(dim: impl Dim) -> Vec<Tensor>;
    unflatten(dim: impl Dim, sizes: impl Sizes) -> Tensor;
    unique() -> (Tensor, Tensor, Tensor);
    unique_consecutive() -> (Tensor, Tensor, Tensor);
    unique_consecutive_dim(dim: impl Dim) -> (Tensor, Tensor, Tensor);
    unique_dim(dim: impl Dim) -> (Tensor, Tensor, Tensor);
    unsqueeze(dim: impl Dim) -> Tensor;
    windows(dim: impl Dim, size: usize, step: usize) -> Tensor;
    zeros_like() -> Tensor;
}

impl Tensor {
    /// [`pca_lowrank`](f::pca_lowrank) with PyTorch's defaults: a rank of at most 6, centred, 2
    /// iterations.
    ///
    /// # Errors
    ///
    /// As there.
    #[track_caller]
    pub fn pca_lowrank(&self) -> Result<(Tensor, Tensor, Tensor)> {
        f::pca_lowrank(self, None, true, 2)
    }

    /// [`svd_lowrank`](f::svd_lowrank) with PyTorch's defaults: a rank of 6, 2 iterations.
    ///
    /// # Errors
    ///
    /// As there.
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

    /// This tensor where the condition holds, else `other`, with broadcasting; see
    /// [`where_`](f::where_), whose first argument is the condition.
    ///
    /// # Errors
    ///
    /// As there, or the type does not hold the number.
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

/// A pair of methods for each reduction: one that removes the dimensions and one that keeps them
/// as size 1.
macro_rules! reductions {
    ($(
        $name:ident, $keepdim:ident(
            $dims:ident: $type:ty $(, $last:expr)? $(; before $first:ident: $first_type:ty)?
        ) -> $result:ty;
    )*) => {
        /// Reductions of [`functional`](crate::functional) as methods, with PyTorch's defaults. Those
        /// that end in `_keepdim` keep the dimensions as size 1.
        #[allow(missing_docs, reason = "each is the function of its name")]
        #[allow(clippy::missing_errors_doc, reason = "each is the function of its name")]
        impl Tensor {
            $(
                #[track_caller]
                pub fn $name(&self, $($first: $first_type,)? $dims: $type) -> Result<$result> {
                    f::$name(self, $($first,)? $dims, $($last,)? false)
                }

                #[track_caller]
                pub fn $keepdim(&self, $($first: $first_type,)? $dims: $type) -> Result<$result> {
                    f::$name(self, $($first,)? $dims, $($last,)? true)
                }
            )*
        }
    };
}

reductions! {
    all, all_keepdim(dims: impl Dims) -> Tensor;
    amax, amax_keepdim(dims: impl Dims) -> Tensor;
    amin, amin_keepdim(dims: impl Dims) -> Tensor;
    any, any_keepdim(dims: impl Dims) -> Tensor;
    argmax, argmax_keepdim(dim: impl DimOrAll) -> Tensor;
    argmin, argmin_keepdim(dim: impl DimOrAll) -> Tensor;
    kthvalue, kthvalue_keepdim(dim: impl Dim; before k: usize) -> (Tensor, Tensor);
    logsumexp, logsumexp_keepdim(dims: impl Dims) -> Tensor;
    max, max_keepdim(dim: impl Dim) -> (Tensor, Tensor);
    mean, mean_keepdim(dims: impl Dims) -> Tensor;
    median_dim, median_dim_keepdim(dim: impl Dim) -> (Tensor, Tensor);
    min, min_keepdim(dim: impl Dim) -> (Tensor, Tensor);
    nanmedian_dim, nanmedian_dim_keepdim(dim: impl Dim) -> (Tensor, Tensor);
    nanmean, nanmean_keepdim(dims: impl Dims) -> Tensor;
    nansum, nansum_keepdim(dims: impl Dims) -> Tensor;
    norm, norm_keepdim(dims: impl Dims; before p: f64) -> Tensor;
    prod, prod_keepdim(dims: impl Dims) -> Tensor;
    quantile, quantile_keepdim(dim: impl DimOrAll; before q: f64) -> Tensor;
    std, std_keepdim(dims: impl Dims, 1.0) -> Tensor;
    sum, sum_keepdim(dims: impl Dims) -> Tensor;
    var, var_keepdim(dims: impl Dims, 1.0) -> Tensor;
    var_mean, var_mean_keepdim(dims: impl Dims, 1.0) -> (Tensor, Tensor);
}

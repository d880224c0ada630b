//! Matrix products by cuBLAS, with the feature `cublas`.
//!
//! The library is opened at run time; building does not need it. Run on one GPU, an H200.
//!
//! # Determinism
//!
//! Run to run: the same bits on the same machine with the same release of cuBLAS, but other bits
//! than [`matmul`](mod@crate::matmul). cuBLAS promises that for calls without concurrent streams,
//! or with a handle and a workspace for each stream. A [`Device`] has both, created once. The
//! workspace has a fixed size, because its size takes part in the choice of an algorithm. TF32 is
//! off (`CUBLAS_DEFAULT_MATH`), and so are atomics (`CUBLAS_ATOMICS_NOT_ALLOWED`).
//! `CUBLAS_WORKSPACE_CONFIG` is not needed, but checked: see [`WorkspaceConfig`].
//!
//! # References
//!
//! cuBLAS documentation, "Results reproducibility", `cublasSetWorkspace`.

use crate::launch::Buffer;
pub use crate::launch::cublas::LIBRARY;
use cudarc::cublas::sys::cublasOperation_t;
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig, StridedBatchedConfig};

use crate::device::{Device, Float, product};
use crate::error::{CudaError, Result};
use crate::launch::cublas as raw;
use crate::matmul::Matrix;
use crate::workspace::{WORKSPACE_VARIABLE, WorkspaceConfig};

/// The size of the workspace of each stream in bytes: NVIDIA's recommendation for the largest GPUs.
const WORKSPACE: usize = 32 << 20;

/// Checks that cuBLAS can be used.
///
/// # Errors
///
/// [`CudaError::LibraryMissing`]; [`CudaError::InvalidArgument`] if `CUBLAS_WORKSPACE_CONFIG` has a
/// value that cuBLAS does not understand.
pub fn find() -> Result<()> {
    if !raw::is_present() {
        return Err(CudaError::LibraryMissing { library: LIBRARY });
    }
    match WorkspaceConfig::from_environment() {
        unclear @ WorkspaceConfig::Unclear(_) => {
            Err(CudaError::invalid("cublas", format!("{WORKSPACE_VARIABLE} is {unclear}")))
        }
        _ => Ok(()),
    }
}

/// Computes `a · b` for each pair of matrices, as [`matmul`](crate::matmul::matmul).
///
/// # Shapes
///
/// `[batch, m, k]` by `[batch, k, n]`, `shape = [m, n, k]`; returns `[batch, m, n]`.
///
/// # Determinism
///
/// Run to run; see the [module](self).
///
/// # Errors
///
/// The errors of [`find`]; [`CudaError::InvalidArgument`] if a matrix reaches outside its buffer,
/// the batches differ, or cuBLAS does not support the layout ([`takes`]); [`CudaError::Library`].
pub fn matmul<T: Float>(
    device: &Device,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    shape: [usize; 3],
) -> Result<Buffer<T>>
where
    CudaBlas: Gemm<T>,
{
    let op = "matmul";
    let [m, n, k] = shape;
    find()?;
    a.check(op, "the left matrix", m, k)?;
    b.check(op, "the right matrix", k, n)?;
    if a.offsets.len() != b.offsets.len() {
        return Err(CudaError::invalid(
            op,
            format!("the batches have {} and {} matrices", a.offsets.len(), b.offsets.len()),
        ));
    }
    let outputs = product(op, &[a.offsets.len(), m, n])?;
    if outputs == 0 || k == 0 {
        return device.zeros_for(op, outputs);
    }
    let (of_a, of_b) = ([a.row, a.column], [b.row, b.column]);
    let Some(plan) = Plan::new(of_a, a.offsets, of_b, b.offsets, shape) else {
        return Err(CudaError::invalid(
            op,
            format!(
                "cuBLAS takes no matrices with strides {} and {}, {} and {}, or none so large",
                a.row, a.column, b.row, b.column
            ),
        ));
    };
    let mut out = device.uninitialised(op, outputs)?;
    let factors = [(b.data, plan.first[0]), (a.data, plan.first[1])];
    let config = StridedBatchedConfig {
        gemm: GemmConfig {
            transa: operation(plan.transposed[0]),
            transb: operation(plan.transposed[1]),
            m: plan.sizes[0],
            n: plan.sizes[1],
            k: plan.sizes[2],
            alpha: T::from_f64(1.0),
            lda: plan.leading[0],
            ldb: plan.leading[1],
            beta: T::from_f64(0.0),
            ldc: plan.sizes[0],
        },
        batch_size: plan.batch,
        stride_a: plan.step[0],
        stride_b: plan.step[1],
        stride_c: (m * n) as i64,
    };
    device.with_held("cublas", Blas::new, |blas| {
        raw::gemm(op, device.stream(), &blas.handle, config, factors, &mut out)
    })?;
    Ok(out)
}

/// Returns true if cuBLAS supports matrices in these layouts: each has neighbouring elements in its
/// rows or in its columns, the matrices of a batch are at equal distances, and sizes fit 32 bits.
/// Strides are the distances of rows and of columns.
pub fn takes(
    a: [usize; 2],
    offsets_a: &[usize],
    b: [usize; 2],
    offsets_b: &[usize],
    shape: [usize; 3],
) -> bool {
    Plan::new(a, offsets_a, b, offsets_b, shape).is_some()
}

/// The handle of a stream, and its workspace.
#[derive(Debug)]
pub(crate) struct Blas {
    // The handle, which is dropped before its workspace.
    handle: CudaBlas,
    _workspace: Buffer<u8>,
}

impl Blas {
    pub(crate) fn new(device: &Device) -> Result<Blas> {
        let op = "cublas";
        let mut workspace = device.zeros_for::<u8>(op, WORKSPACE)?;
        let handle = raw::open(device.stream_handle(), &mut workspace);
        let handle = handle.map_err(|error| raw::failed(op, &error))?;
        Ok(Blas { handle, _workspace: workspace })
    }
}

fn operation(transposed: bool) -> cublasOperation_t {
    if transposed { cublasOperation_t::CUBLAS_OP_T } else { cublasOperation_t::CUBLAS_OP_N }
}

/// A product in cuBLAS's column-major order: `outᵀ = bᵀ · aᵀ`. The first of each pair belongs to
/// `b`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plan {
    /// The sizes n, m and k.
    sizes: [i32; 3],
    transposed: [bool; 2],
    leading: [i32; 2],
    first: [usize; 2],
    step: [i64; 2],
    batch: i32,
}

impl Plan {
    fn new(
        a: [usize; 2],
        offsets_a: &[usize],
        b: [usize; 2],
        offsets_b: &[usize],
        [m, n, k]: [usize; 3],
    ) -> Option<Plan> {
        let narrow = |x: usize| i32::try_from(x).ok();
        let (left, right) = (leading(b, k, n)?, leading(a, m, k)?);
        let (from_b, from_a) = (steps(offsets_b)?, steps(offsets_a)?);
        Some(Plan {
            sizes: [narrow(n)?, narrow(m)?, narrow(k)?],
            transposed: [left.0, right.0],
            leading: [left.1, right.1],
            first: [from_b.0, from_a.0],
            step: [from_b.1, from_a.1],
            batch: narrow(offsets_a.len())?,
        })
    }
}

/// Returns true if cuBLAS, which sees the transposed matrix, must transpose it, and the distance of
/// its columns as cuBLAS sees them.
fn leading([row, column]: [usize; 2], rows: usize, columns: usize) -> Option<(bool, i32)> {
    let by_rows = if rows <= 1 { columns.max(1) } else { row };
    if (column == 1 || columns <= 1) && by_rows >= columns.max(1) {
        return Some((false, i32::try_from(by_rows).ok()?));
    }
    let by_columns = if columns <= 1 { rows.max(1) } else { column };
    if (row == 1 || rows <= 1) && by_columns >= rows.max(1) {
        return Some((true, i32::try_from(by_columns).ok()?));
    }
    None
}

/// Returns the first of equally spaced offsets, and their distance.
fn steps(offsets: &[usize]) -> Option<(usize, i64)> {
    let first = offsets.first().copied()?;
    let distance = |pair: &[usize]| pair[1] as i64 - pair[0] as i64;
    let step = offsets.windows(2).next().map_or(0, distance);
    let equal = offsets.windows(2).all(|pair| distance(pair) == step);
    (equal && step >= 0).then_some((first, step))
}

#[cfg(test)]
mod tests {
    use super::{Plan, takes};

    /// Computes what cuBLAS documents: column-major, `op(left) · op(right)`.
    fn by_columns(plan: &Plan, left: &[f64], right: &[f64]) -> Vec<f64> {
        let [m, n, k] = plan.sizes.map(|x| x as usize);
        let mut out = vec![0.0; m * n * plan.batch as usize];
        for batch in 0..plan.batch as usize {
            let at = |which: usize, i: usize, j: usize| {
                let (i, j) = if plan.transposed[which] { (j, i) } else { (i, j) };
                let start = plan.first[which] + batch * plan.step[which] as usize;
                start + i + j * plan.leading[which] as usize
            };
            for i in 0..m {
                for j in 0..n {
                    let terms = (0..k).map(|p| left[at(0, i, p)] * right[at(1, p, j)]);
                    out[(batch * n + j) * m + i] = terms.sum();
                }
            }
        }
        out
    }

    #[test]
    fn plans_describe_the_product() {
        let values: Vec<f64> = (0..400).map(|i| f64::from(i % 17) - 8.0).collect();
        let mut planned = 0;
        for shape @ [m, n, k] in [[3, 4, 5], [1, 4, 5], [3, 1, 5], [3, 4, 1], [1, 1, 1], [2, 6, 2]]
        {
            for a @ [a_row, a_column] in [[k, 1], [k + 2, 1], [1, m], [1, m + 3]] {
                for b @ [b_row, b_column] in [[n, 1], [n + 1, 1], [1, k], [1, k + 2]] {
                    for offsets in [&[0][..], &[3, 40, 77], &[5, 5]] {
                        let plan = Plan::new(a, offsets, b, offsets, shape).unwrap();
                        let mut expected = Vec::new();
                        for &offset in offsets {
                            for i in 0..m {
                                for j in 0..n {
                                    let terms = (0..k).map(|p| {
                                        values[offset + i * a_row + p * a_column]
                                            * values[offset + p * b_row + j * b_column]
                                    });
                                    expected.push(terms.sum::<f64>());
                                }
                            }
                        }
                        assert_eq!(by_columns(&plan, &values, &values), expected, "{plan:?}");
                        planned += 1;
                    }
                }
            }
        }
        assert_eq!(planned, 6 * 4 * 4 * 3);
    }

    #[test]
    fn other_layouts_are_refused() {
        let of = |a, offsets: &[usize]| takes(a, offsets, [4, 1], offsets, [3, 4, 5]);
        assert!(of([5, 1], &[0]));
        assert!(!of([0, 1], &[0]), "a broadcast row");
        assert!(!of([10, 2], &[0]), "every second element");
        assert!(!of([5, 1], &[0, 1, 5]), "uneven distances");
        assert!(!of([5, 1], &[5, 0]), "backwards");
        assert!(!takes([1 << 40, 1], &[0], [4, 1], &[0], [3, 4, 5]), "too far apart");
    }
}

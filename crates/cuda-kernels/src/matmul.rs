//! Matrix products in the contract's order.
//!
//! # Examples
//!
//! ```
//! use samebits_cuda_kernels::matmul::{Matrix, matmul};
//! use samebits_cuda_kernels::Device;
//! # if !samebits_cuda_kernels::is_available() {
//! #     return Ok(());
//! # }
//! let device = Device::new(0)?;
//! let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0])?;
//! let a = Matrix { data: &x, row: 2, column: 1, offsets: &[0] };
//! let transposed = Matrix { row: 1, column: 2, ..a };
//! let product = matmul(&device, a, transposed, [2, 2, 2])?;
//! assert_eq!(device.download(&product)?, [5.0, 11.0, 11.0, 25.0]);
//! # Ok::<(), samebits_cuda_kernels::CudaError>(())
//! ```

use crate::launch::declared::matmul::RawMatmul;
use crate::launch::kernels::matmul as kernels;
use crate::launch::{Buffer, Launch};

use crate::device::{Device, Float, product};
use crate::error::{CudaError, Result};
use crate::reduce::grid;

/// The number of k within which a partial sum is one chain.
pub(crate) const K_BLOCK: usize = 256;
/// The largest size of a grid's second and third dimension.
pub(crate) const MOST_BLOCKS: usize = 65_535;

/// A matrix in a buffer, by strides: element (i, j) of matrix b of the batch is
/// `offsets[b] + i · row + j · column`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    /// The buffer of the elements.
    pub data: &'a Buffer<T>,
    /// The distance between rows.
    pub row: usize,
    /// The distance between columns.
    pub column: usize,
    /// The start of each matrix of the batch.
    pub offsets: &'a [usize],
}

/// Computes `a · b` for each pair of matrices.
///
/// # Shapes
///
/// `[batch, m, k]` by `[batch, k, n]`, `shape = [m, n, k]`; returns `[batch, m, n]`.
///
/// # Determinism
///
/// Portable. For each output: within each block of 256 consecutive k, ascending,
/// `acc = fma(a, b, acc)` from +0; then the blocks are added in ascending order, one rounding each.
/// Splitting k over thread blocks at these borders changes no bit, so it is done if it is faster.
///
/// # Errors
///
/// [`CudaError::InvalidArgument`] if a matrix reaches outside its buffer or the batches differ.
pub fn matmul<T: Float>(
    device: &Device,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    shape: [usize; 3],
) -> Result<Buffer<T>> {
    matmul_by(device, a, b, shape, Plan::likely::<T>(shape, a.offsets.len()))
}

/// The way to compute a product. No choice changes a bit of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// If true, a block of threads computes 128 x 128 outputs, otherwise 64 x 64. For f32 only.
    pub large: bool,
    /// If true, blocks of k are computed in parallel, and a second kernel adds them.
    pub split: bool,
}

impl Plan {
    /// Returns the plan with the lowest estimate.
    #[must_use]
    pub fn likely<T: Float>(shape: [usize; 3], batch: usize) -> Plan {
        let plans = [(false, false), (true, false), (false, true), (true, true)];
        let plans = plans.map(|(large, split)| Plan { large, split });
        let estimate = |plan: &Plan| plan.estimate(shape, batch);
        plans
            .into_iter()
            .filter(|plan| plan.applies::<T>(shape[2]))
            .min_by(|a, b| estimate(a).total_cmp(&estimate(b)))
            .unwrap_or(plans[0])
    }

    fn applies<T: Float>(self, k: usize) -> bool {
        let splits = (2..=MOST_BLOCKS).contains(&k.div_ceil(K_BLOCK));
        !(self.large && T::WIDE) && (splits || !self.split)
    }

    /// Returns the number of outputs of a block of threads along each side.
    fn side(self) -> usize {
        if self.large { 128 } else { 64 }
    }

    /// Returns the estimated time in cycles on a GPU with 128 multiprocessors, from the shape
    /// alone.
    fn estimate(self, [m, n, k]: [usize; 3], batch: usize) -> f64 {
        let layers = if self.split { k.div_ceil(K_BLOCK) } else { 1 };
        let tiles = m.div_ceil(self.side()) as f64 * n.div_ceil(self.side()) as f64 * batch as f64;
        let depth = if self.split { K_BLOCK } else { k };
        let multiply = tile_time(tiles * layers as f64, [self.side() / 16; 2], 3.0, depth);
        // Partial sums are written and read again, at 2400 bytes per cycle.
        let moved = (8 * layers + 4) as f64 * m as f64 * n as f64 * batch as f64;
        multiply + if self.split { LAUNCH + moved / 2400.0 } else { 0.0 }
    }
}

/// The cost of a launch in cycles.
pub(crate) const LAUNCH: f64 = 4000.0;

/// Returns the estimated cycles of a product on a GPU with 128 multiprocessors. Blocks of eight
/// warps take turns on a multiprocessor, which issues four instructions at once; if there are few
/// blocks, the latency of each k dominates. Each thread has `rows` x `columns` sums, and issues
/// `staging` more instructions for each k.
pub(crate) fn tile_time(blocks: f64, [rows, columns]: [usize; 2], staging: f64, k: usize) -> f64 {
    let sums = (rows * columns) as f64;
    let operands = (rows.div_ceil(4) + columns.div_ceil(4)) as f64;
    let turns = (blocks / 128.0).ceil();
    LAUNCH + k.next_multiple_of(16) as f64 * (turns * (sums + operands + staging) * 2.0).max(50.0)
}

/// Computes `a · b` with the given `plan`.
///
/// # Shapes
///
/// As [`matmul`].
///
/// # Determinism
///
/// Portable: the bits of [`matmul`].
///
/// # Errors
///
/// As [`matmul`], and [`CudaError::InvalidArgument`] for a plan that the element type or k does not
/// support.
pub fn matmul_by<T: Float>(
    device: &Device,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    shape: [usize; 3],
    plan: Plan,
) -> Result<Buffer<T>> {
    let op = "matmul";
    if !plan.applies::<T>(shape[2]) {
        let message = format!("{plan:?} does not apply to {} and k = {}", T::NAME, shape[2]);
        return Err(CudaError::invalid(op, message));
    }
    let product = Product::new(device, op, a, b, shape)?;
    if !plan.split {
        return product.tiles(plan, 1);
    }
    let blocks = shape[2].div_ceil(K_BLOCK);
    let partials = &product.tiles(plan, blocks)?;
    let n = product.outputs;
    let mut out = device.uninitialised(op, n)?;
    kernels::MatmulCombine { out: &mut out, partials, n, blocks }.threads(device, op, n)?;
    Ok(out)
}

/// Computes `a · b` with k split over blocks of threads, whose sums are added in the order of
/// arrival.
///
/// # Shapes
///
/// As [`matmul`].
///
/// # Determinism
///
/// Not guaranteed: float atomics.
///
/// # Errors
///
/// As [`matmul`], and [`CudaError::InvalidArgument`] if k has more than 65,535 blocks of the
/// contract's order.
pub fn matmul_atomic(
    device: &Device,
    a: Matrix<'_, f32>,
    b: Matrix<'_, f32>,
    shape: [usize; 3],
) -> Result<Buffer<f32>> {
    let op = "matmul";
    let product = Product::new(device, op, a, b, shape)?;
    let (n, blocks) = (product.outputs, shape[2].div_ceil(K_BLOCK));
    let mut out = device.zeros_for(op, n)?;
    if blocks > MOST_BLOCKS {
        return Err(CudaError::invalid(op, format!("k = {} is too long to split", shape[2])));
    }
    if blocks > 0 {
        let partials = &product.tiles(Plan { large: false, split: true }, blocks)?;
        let threads = crate::device::product(op, &[n, blocks])?;
        kernels::MatmulCombineAtomic { out: &mut out, partials, n, blocks }
            .threads(device, op, threads)?;
    }
    Ok(out)
}

/// A product whose arguments have been checked.
struct Product<'a, T> {
    device: &'a Device,
    op: &'static str,
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
    /// The starts of the matrices of both sides, unless they have a formula.
    offsets: Option<Buffer<u64>>,
    raw: RawMatmul,
    outputs: usize,
}

impl<'a, T: Float> Product<'a, T> {
    fn new(
        device: &'a Device,
        op: &'static str,
        a: Matrix<'a, T>,
        b: Matrix<'a, T>,
        [m, n, k]: [usize; 3],
    ) -> Result<Product<'a, T>> {
        let batch = a.offsets.len();
        if batch != b.offsets.len() {
            return Err(CudaError::invalid(
                op,
                format!("the batches have {batch} and {} matrices", b.offsets.len()),
            ));
        }
        a.check(op, "the left matrix", m, k)?;
        b.check(op, "the right matrix", k, n)?;
        let outputs = product(op, &[batch, m, n])?;
        let starts = [progression(a.offsets), progression(b.offsets)];
        let offsets = match starts {
            [Some(_), Some(_)] => None,
            _ => {
                let both = a.offsets.iter().zip(b.offsets);
                let both: Vec<u64> = both.flat_map(|(&a, &b)| [a as u64, b as u64]).collect();
                Some(device.upload(&both)?)
            }
        };
        let [(a_first, a_step), (b_first, b_step)] = starts.map(Option::unwrap_or_default);
        let raw = RawMatmul {
            m,
            n,
            k,
            a_row: a.row,
            a_column: a.column,
            b_row: b.row,
            b_column: b.column,
            batch,
            a_first,
            a_step,
            b_first,
            b_step,
            table: usize::from(offsets.is_some()),
        };
        Ok(Product { device, op, a, b, offsets, raw, outputs })
    }

    /// Computes the outputs, or the partial sums of `layers` blocks of k.
    fn tiles(&self, plan: Plan, layers: usize) -> Result<Buffer<T>> {
        let Product { device, op, a, b, offsets, raw, outputs } = self;
        let offsets = offsets.as_ref().unwrap_or(device.nothing());
        let mut out = device.uninitialised(op, product(op, &[*outputs, layers])?)?;
        let side = plan.side();
        let tiles = product(op, &[raw.m.div_ceil(side), raw.n.div_ceil(side), raw.batch])?;
        let grid = (grid(op, tiles)?, layers as u32, 1);
        macro_rules! launch {
            ($kernel:ident) => {
                kernels::$kernel {
                    out: &mut out,
                    a: a.data,
                    b: b.data,
                    offsets,
                    p: *raw,
                    split: u32::from(plan.split),
                }
                .grid(device, op, grid, (256, 1, 1))?
            };
        }
        if plan.large {
            launch!(Matmul128x128)
        } else {
            launch!(Matmul64x64)
        }
        Ok(out)
    }
}

/// Returns the first of numbers and the step between them, if the step is always the same and none is
/// smaller than the one before.
fn progression(numbers: &[usize]) -> Option<(usize, usize)> {
    let &[first, second, ..] = numbers else {
        return Some((numbers.first().copied().unwrap_or(0), 0));
    };
    let step = second.checked_sub(first)?;
    numbers
        .windows(2)
        .all(|pair| pair[1].checked_sub(pair[0]) == Some(step))
        .then_some((first, step))
}

impl<T> Matrix<'_, T> {
    pub(crate) fn check(
        &self,
        op: &'static str,
        what: &str,
        rows: usize,
        columns: usize,
    ) -> Result<()> {
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        let reach = (rows as u128 - 1) * self.row as u128
            + (columns as u128 - 1) * self.column as u128
            + self.offsets.iter().copied().max().unwrap_or(0) as u128;
        if reach >= self.data.len() as u128 && !self.offsets.is_empty() {
            return Err(CudaError::invalid(
                op,
                format!(
                    "{what} ({rows} x {columns}, strides {} and {}) reaches {reach} in a buffer of \
                     {} elements",
                    self.row,
                    self.column,
                    self.data.len()
                ),
            ));
        }
        Ok(())
    }
}

use samebits_tensor_core::geometry::Products;
use samebits_tensor_core::ops::Matmul;
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Layout, Op, Tensor};

use super::memory::{on_host, storage};
use super::{F32, FLOATS, Failure, Stored, Tensors, atomic, on, portable, with_float};
use crate::Buffer;
use crate::device::Device;
use crate::error::Result;
use crate::matmul::{Matrix, matmul, matmul_atomic};

const CHAIN: &str = "each element is a chain of fma in ascending k within blocks of a fixed length";

pub(super) fn register_all() {
    #[cfg(feature = "cublas")]
    vendor::register_all();
    // Applies only if splitting k pays: with few outputs and a long k.
    register(Kernel {
        applies: |_: &Matmul, products| {
            let [m, n, k] = products.sizes();
            k >= 2048 && m.saturating_mul(n) <= 1 << 18
        },
        ..atomic(
            F32,
            "partial sums are added in the order in which blocks arrive",
            |op, products| product(op, products, matmul_atomic),
        )
    });
    register(portable(
        "tiled",
        FLOATS,
        CHAIN,
        |op: &Matmul, products| with_float!(op.a.dtype(), T => product::<T>(op, products, matmul)),
    ));
}

fn product<T: Stored>(
    op: &Matmul,
    products: &Products,
    kernel: impl FnOnce(&Device, Matrix<'_, T>, Matrix<'_, T>, [usize; 3]) -> Result<Buffer<T>>,
) -> Tensors<Tensor> {
    on(op, |gpu| {
        let (a, b) = (storage::<T>(&op.a)?, storage::<T>(&op.b)?);
        let (offsets_a, offsets_b) =
            (offsets(&op.a, &products.batch)?, offsets(&op.b, &products.batch)?);
        let left = matrix(&op.a, &a, &offsets_a);
        let out = kernel(gpu.device, left, matrix(&op.b, &b, &offsets_b), products.sizes())?;
        gpu.tensor(out, &products.shape)
    })
}

fn matrix<'a, T>(x: &Tensor, data: &'a Buffer<T>, offsets: &'a [usize]) -> Matrix<'a, T> {
    let strides = x.layout().strides();
    let first = x.rank() - 2;
    Matrix { data, row: strides[first], column: strides[first + 1], offsets }
}

/// Returns the start of each matrix of the batch.
fn offsets(x: &Tensor, batch: &[usize]) -> Result<Vec<usize>, Failure> {
    let (layout, first) = (x.layout(), x.rank() - 2);
    let outer = Layout::strided(&x.shape()[..first], &layout.strides()[..first], layout.offset())?
        .expand(Matmul::NAME, batch)?;
    let mut offsets = on_host(Matmul::NAME, outer.numel())?;
    offsets.extend(outer.positions());
    Ok(offsets)
}

/// Products by the vendor's library, if it is present and supports the layouts.
#[cfg(feature = "cublas")]
mod vendor {
    use samebits_tensor_core::Determinism;

    use super::*;
    use crate::cublas;

    pub(super) fn register_all() {
        let why = "one handle, stream and workspace, no atomics: cuBLAS repeats its bits";
        let kernel = portable(
            "cublas",
            FLOATS,
            why,
            |op: &Matmul, products| with_float!(op.a.dtype(), T => product::<T>(op, products, cublas::matmul)),
        );
        register(Kernel { level: Determinism::RunToRun, applies, ..kernel });
    }

    fn applies(op: &Matmul, products: &Products) -> bool {
        let fits = || -> Result<bool, Failure> {
            let (a, b) = (offsets(&op.a, &products.batch)?, offsets(&op.b, &products.batch)?);
            Ok(cublas::takes(strides(&op.a), &a, strides(&op.b), &b, products.sizes()))
        };
        cublas::find().is_ok() && fits().unwrap_or(false)
    }

    /// Returns the distances between rows and between columns.
    fn strides(x: &Tensor) -> [usize; 2] {
        let strides = x.layout().strides();
        [strides[x.rank() - 2], strides[x.rank() - 1]]
    }
}

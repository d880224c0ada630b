//! Kernels on plain slices, without tensors: crate `samebits-cpu-kernels` alone.

use samebits_cpu_kernels::matmul::{Matrix, matmul};
use samebits_cpu_kernels::reduce::sum_rows;
use samebits_cpu_kernels::scatter::index_add;

pub(super) fn run() -> super::Result<()> {
    // Sums whose order does not show: each is exact, and rounded once.
    let (values, mut indices) = ([1e20f32, 1.0, -1e20, 2.0], [0, 1, 0, 0]);
    let mut sums = [0.0f32; 2];
    index_add(&mut sums, [1, 2, 1], &indices, &values, 1.0)?;
    assert_eq!(sums, [2.0, 1.0]);
    let mut reversed = values;
    reversed.reverse();
    indices.reverse();
    let mut again = [0.0f32; 2];
    index_add(&mut again, [1, 2, 1], &indices, &reversed, 1.0)?;
    assert_eq!(sums.map(f32::to_bits), again.map(f32::to_bits));

    // The rows of a matrix, and its product with its transpose.
    let x = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let mut rows = [0.0; 2];
    sum_rows(&x, 3, &mut rows)?;
    let a = Matrix::new(&x, 2, 3)?;
    let mut product = [0.0; 4];
    matmul(a, a.transposed(), &mut product)?;
    println!("index_add {sums:?}, rows {rows:?}, product {product:?}");
    assert_eq!((rows, product), ([6.0, 15.0], [14.0, 32.0, 32.0, 77.0]));
    Ok(())
}

//! Products with sparse matrices. The deterministic forms are compared with the CPU's in the
//! workspace tests.

use crate::data::{bits, order_sensitive};
use crate::device::varies;
use samebits_cuda_kernels::Variant::Atomic;
use samebits_cuda_kernels::sparse::{Elements, sparse_mm};

#[test]
fn the_atomic_product_varies() {
    let x = order_sensitive(300);
    varies(|device| {
        let values = device.upload(&x).unwrap();
        let rows = device.upload(&vec![0i64; 300]).unwrap();
        let columns = device.upload(&(0..300).collect::<Vec<i64>>()).unwrap();
        let dense = device.upload(&vec![1.0f32; 300]).unwrap();
        let elements = Elements { rows: &rows, columns: &columns, count: 300, size: [1, 300] };
        let got = sparse_mm(device, elements, &values, &dense, 1, 300, Atomic).unwrap();
        bits(&device.download(&got).unwrap())
    });
}

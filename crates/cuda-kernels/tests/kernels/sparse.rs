//! Products with sparse matrices.

use crate::data::{Source, bits, order_sensitive};
use crate::device::{on_device, under_schedules, varies};
use crate::numbers::{Number, all_bits, mixed, same_bits};
use samebits_cuda_kernels::Device;
use samebits_cuda_kernels::Variant::{Atomic, Deterministic};
use samebits_cuda_kernels::sparse::{Elements, sparse_mm};

/// Computes the written order: ascending columns, then positions in the list, in blocks of 256
/// columns.
fn product_of<T: Number>(
    elements: &[(i64, i64)],
    values: &[T],
    dense: &[T],
    [rows, width, period]: [usize; 3],
) -> Vec<T> {
    let mut order: Vec<usize> = (0..elements.len()).collect();
    order.sort_by_key(|&i| elements[i]);
    let mut out = Vec::new();
    for row in 0..rows {
        let row: Vec<usize> =
            order.iter().copied().filter(|&i| elements[i].0 == row as i64).collect();
        let block = |&i: &usize| elements[i].1 as usize % period / 256;
        for j in 0..width {
            let chain = |block: &[usize]| {
                block.iter().fold(T::from_f64(0.0), |sum, &i| {
                    T::fma(values[i], dense[elements[i].1 as usize * width + j], sum)
                })
            };
            let blocks = row.chunk_by(|a, b| block(a) == block(b)).map(chain);
            let sum = blocks.reduce(|total, partial| total + partial);
            out.push(sum.unwrap_or(T::from_f64(0.0)).canonical());
        }
    }
    out
}

fn products<T: Number>(device: &Device) -> Vec<u64> {
    let mut all = Vec::new();
    // Rows, columns, width, period; number of elements; number of nonempty rows.
    for ([rows, columns, width, period], count, used) in [
        ([5, 700, 3, 700], 0, 1),
        ([1, 1, 1, 1], 1, 1),
        ([7, 700, 5, 700], 40, 6),
        ([3, 600, 2, 300], 1025, 1),
        ([50, 1000, 1, 1000], 2600, 50),
        ([4, 3, 2, 3], 2100, 2),
    ] {
        let mut source = Source::new(count as u64 + 9);
        // Some positions have several elements.
        let elements: Vec<(i64, i64)> =
            (0..count).map(|_| (source.below(used) as i64, source.below(columns) as i64)).collect();
        let values: Vec<T> = mixed(&mut source, false, count);
        let dense: Vec<T> = mixed(&mut source, count == 40, columns * width);
        let expected = product_of(&elements, &values, &dense, [rows, width, period]);
        let (r, c): (Vec<i64>, Vec<i64>) = elements.into_iter().unzip();
        let (r, c) = (device.upload(&r).unwrap(), device.upload(&c).unwrap());
        let elements = Elements { rows: &r, columns: &c, count, size: [rows, columns] };
        let (values, dense) = (device.upload(&values).unwrap(), device.upload(&dense).unwrap());
        let got = sparse_mm(device, elements, &values, &dense, width, period, Deterministic);
        let got = device.download(&got.unwrap()).unwrap();
        same_bits(&format!("{count} elements in {rows} x {columns}"), &got, &expected);
        all.extend(all_bits(&got));
    }
    all
}

#[test]
fn products_follow_the_written_order() {
    under_schedules(|device| (products::<f32>(device), products::<f64>(device)));
}

#[test]
fn an_element_outside_is_reported() {
    on_device(|device| {
        let rows = device.upload(&[0i64, 1, 1]).unwrap();
        let columns = device.upload(&[1i64, 2, -1]).unwrap();
        let (values, dense) =
            (device.upload(&[1.0f32; 3]).unwrap(), device.upload(&[1.0f32; 3]).unwrap());
        let elements = Elements { rows: &rows, columns: &columns, count: 3, size: [2, 3] };
        let got = sparse_mm(device, elements, &values, &dense, 1, 3, Deterministic);
        assert!(got.is_ok());
        let error = device.synchronize().unwrap_err().to_string();
        assert_eq!(error, "sparse_mm: index -1 at position 2 is out of range for size 3");
    });
}

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

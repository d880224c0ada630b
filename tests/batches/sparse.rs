use samebits::Tensor;
use samebits::functional as f;
use samebits::ops::QrMode;
use samebits::sparse::{SparseCoo, sparse_bmm, sparse_mm};
use samebits::tensor_core::Tensor as Value;
use workspace_tests::{indices, normal_of};

use super::{Batches, Input, Make};

pub(super) fn add(batches: &mut Batches, make: Make) {
    let (count, rows, columns) = (5000, 40, 700);
    let places = |count, sizes: &[usize]| -> Vec<i64> {
        let of = |(i, &n): (usize, &usize)| {
            indices(count, n as i64, 150 + i as u64).to_vec::<i64>().unwrap()
        };
        sizes.iter().enumerate().flat_map(of).collect()
    };
    // The columns of the dense matrix are a batch.
    let matrix = Value::from_slice(&places(count, &[rows, columns]), &[2, count]).unwrap();
    let values = normal_of(&[count], make.0, 152);
    let dense = Input(normal_of(&[columns, 37], make.0, 153), Some(1));
    batches.add_part(make.name("sparse_mm"), [dense], 1, move |x, _| {
        let values = Tensor::from(values.clone());
        Ok(vec![sparse_mm(
            &SparseCoo::new(&Tensor::from(&matrix), &values, &[rows, columns])?,
            &x[0],
        )?])
    });
    // Each matrix of the batch has as many elements, so that the values are one too.
    let (n, each) = (5, 300);
    let inputs = [make.each(&[n, each], 154), make.each(&[n, 29, 40], 155)];
    let matrix = places(n * each, &[13, 29]);
    batches.add_part(make.name("sparse_bmm"), inputs, 0, move |x, part| {
        let mut all = Vec::new();
        (0..part.len()).for_each(|i| all.extend(vec![i as i64; each]));
        for line in matrix.chunks_exact(n * each) {
            all.extend_from_slice(&line[part.start * each..part.end * each]);
        }
        let count = part.len() * each;
        let places = Value::from_slice(&all, &[3, count])?;
        let sparse = SparseCoo::new(
            &Tensor::from(&places),
            &f::reshape(&x[0], [count])?,
            &[part.len(), 13, 29],
        )?;
        Ok(vec![sparse_bmm(&sparse, &x[1])?])
    });
    for shape in [[5, 40, 17], [4, 17, 40]] {
        batches.add(make.name(&format!("qr, svd {shape:?}")), [make.each(&shape, 156)], |x| {
            let (q, r) = f::qr(&x[0], QrMode::Reduced)?;
            let (u, s, v) = f::svd(&x[0].detach())?;
            Ok(vec![q, r, u, s, v])
        });
    }
}

//! Writes that overwrite each other: the last one is kept and receives the gradient.

use proptest::prelude::*;
use samebits::functional as f;
use samebits::ops::PoolParams;
use samebits::{Device, Result, Tensor};

use super::{cases, on_devices, special};

/// A tensor after the writes `(position, source)` in order: the last one is kept.
struct Written {
    y: Tensor,
    writes: Vec<(usize, usize)>,
}

/// Calls one of the functions that overwrite, with `rows` rows of `width` elements and
/// `index.len()` writes in each row.
fn write(kind: u8, x: &Tensor, source: &Tensor, width: usize, index: &[usize]) -> Result<Written> {
    let (rows, n) = (x.numel() / width, index.len());
    let ints: Vec<i64> = index.iter().map(|&i| i as i64).collect();
    let indices = Tensor::from_slice(&ints, &[n])?.to(x.device())?;
    let by_row = |x: &Tensor, n: usize| x.reshape([rows, n]);
    let along = |row: usize, i: usize| (row * width + index[i], row * n + i);
    let mut writes: Vec<_> = (0..rows)
        .flat_map(|row| (0..n).map(move |i| (row, i)))
        .map(|(row, i)| along(row, i))
        .collect();
    let y = match kind {
        0 => {
            let indices = indices.expand(&[rows, n])?;
            f::scatter(&by_row(x, width)?, 1, &indices, &by_row(source, n)?)?
        }
        1 => f::index_copy(&by_row(x, width)?, 1, &indices, &by_row(source, n)?)?,
        2 => {
            // The rows of the transposed tensor; half of the indices count from the end.
            let from_end = |i: usize| ints[i] - if i.is_multiple_of(2) { width as i64 } else { 0 };
            let ends: Vec<i64> = (0..n).map(from_end).collect();
            let y = by_row(x, width)?.transpose(0, 1)?;
            let source = by_row(source, n)?.transpose(0, 1)?;
            let ends = Tensor::from_slice(&ends, &[n])?.to(x.device())?;
            let y = f::index_put(&y, &[ends], &source, false)?;
            y.transpose(0, 1)?
        }
        3 => {
            // The first row alone; its sources are the first ones.
            writes.truncate(n);
            f::put(x, &indices, &f::narrow(source, 0, 0, n)?, false)?
        }
        _ => {
            // Into zeros: the padding lets any number of elements come from `width`.
            let (kernel, stride, padding) = (vec![width + n + 1], vec![1], vec![n]);
            let params = PoolParams { kernel, stride, padding, ..PoolParams::square(1, 1) };
            let indices = indices.expand(&[1, rows, n])?;
            f::max_unpool(&source.reshape([1, rows, n])?, &indices, &params, None)?
        }
    };
    Ok(Written { y: y.reshape([x.numel()])?, writes })
}

fn same(found: &[f64], expected: &[f64]) -> std::result::Result<(), TestCaseError> {
    let equal = |(&a, &b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
    prop_assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(equal),
        "{found:?}, expected {expected:?}"
    );
    Ok(())
}

fn variable(values: &[f64], device: Device) -> Tensor {
    let x = Tensor::from_slice(values, &[values.len()]).unwrap().to(device).unwrap();
    x.set_requires_grad(true).unwrap()
}

proptest! {
    #![proptest_config(cases(1))]

    #[test]
    fn only_what_stays_has_a_gradient(
        kind in 0u8..5,
        (rows, width, index) in (1usize..4, 1usize..6).prop_flat_map(|(rows, width)| {
            (Just(rows), Just(width), proptest::collection::vec(0..width, 1..7))
        }),
        numbers in proptest::collection::vec(special(), 90),
    ) {
        let (size, sources) = (rows * width, rows * index.len());
        let (grads, outer) = (&numbers[40..40 + size], &numbers[60..60 + sources]);
        let mut writes = Vec::new();
        let results = on_devices(|device| {
            let x = variable(&numbers[..size], device);
            let source = variable(&numbers[20..20 + sources], device);
            let grad = variable(grads, device);
            let written = write(kind, &x, &source, width, &index).unwrap();
            let gradients = written.y.backward_from(grad.clone(), true).unwrap();
            let slope = gradients.of(&source).unwrap();
            let outer = Tensor::from_slice(outer, &[sources]).unwrap().to(device).unwrap();
            let twice = slope.backward_from(outer, false).unwrap();
            let of_x = gradients.of(&x).filter(|_| kind != 4);
            let found = [Some(&written.y), Some(slope), twice.of(&grad), of_x];
            let found = found.into_iter().flatten().map(|x| x.to_vec::<f64>().unwrap()).collect();
            writes = written.writes;
            found
        });

        // The definition: one write after the other.
        let mut stays = vec![None; size];
        writes.iter().for_each(|&(place, source)| stays[place] = Some(source));
        let (own, sent) = (&numbers[..size], &numbers[20..]);
        let own = |place: usize| if kind == 4 { 0.0 } else { own[place] };
        let expected: Vec<f64> =
            (0..size).map(|place| stays[place].map_or(own(place), |from| sent[from])).collect();
        same(&results[0], &expected)?;
        let (mut to_source, mut to_grad) = (vec![0.0; sources], vec![0.0; size]);
        for (place, from) in stays.iter().enumerate() {
            if let Some(from) = *from {
                to_source[from] = grads[place];
                to_grad[place] = outer[from];
            }
        }
        same(&results[1], &to_source)?;
        // The derivative of that gradient, too.
        same(&results[2], &to_grad)?;
        if kind != 4 {
            let rest: Vec<f64> =
                (0..size).map(|place| if stays[place].is_none() { grads[place] } else { 0.0 }).collect();
            same(&results[3], &rest)?;
        }
    }
}

use proptest::prelude::*;
use samebits::functional as f;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Error, Tensor};
use workspace_tests::{indices, normal_of};

use super::{cases, shape};

proptest! {
    #![proptest_config(cases(4))]

    #[test]
    fn index_select_is_right_or_an_error(
        shape in shape(4),
        dim in 0usize..5,
        index in proptest::collection::vec(-1i64..6, 0..5),
    ) {
        let x = normal_of(&shape, DType::F64, 1);
        let index = Value::from_slice(&index, &[index.len()]).unwrap();
        let chosen = index.to_vec::<i64>().unwrap();
        let result = f::index_select(&Tensor::from(x.clone()), dim, &Tensor::from(&index));
        if shape.is_empty() && dim == 0 {
            prop_assert_eq!(result.is_ok(), chosen == [0]);
            return Ok(());
        }
        let size = shape.get(dim).copied();
        let inside = |&i: &i64| size.is_some_and(|size| (0..size as i64).contains(&i));
        if size.is_none() {
            prop_assert!(result.is_err());
        } else if let Some(position) = chosen.iter().position(|i| !inside(i)) {
            let is_index_error = matches!(
                result,
                Err(Error::IndexOutOfRange { position: at, .. }) if at == position
            );
            prop_assert!(is_index_error);
        } else {
            let result = result.unwrap();
            for (to, &from) in chosen.iter().enumerate() {
                let (to, from) = (result.value().select(dim, to), x.select(dim, from as usize));
                prop_assert_eq!(to.unwrap().to_bytes(), from.unwrap().to_bytes());
            }
        }
    }
}

/// Returns the positions of a tensor of `shape` in row-major order.
pub(crate) fn positions(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![Vec::new()], |all, &size| {
        all.iter().flat_map(|at| (0..size).map(|i| [at.as_slice(), &[i]].concat())).collect()
    })
}

/// Returns the row-major index of the element at `at` in a tensor of `shape`.
pub(crate) fn flat(shape: &[usize], at: &[usize]) -> usize {
    shape.iter().zip(at).fold(0, |place, (&size, &i)| place * size + i)
}

/// Returns the row-major index in a tensor of `shape` of each element of an index along `dim`, if
/// the index fits and all are inside.
pub(crate) fn places(shape: &[usize], dim: usize, index: &Value) -> Option<Vec<usize>> {
    if shape.is_empty() && dim == 0 {
        return places(&[1], 0, &index.reshape(&[1]).unwrap());
    }
    let fits = dim < shape.len()
        && index.rank() == shape.len()
        && (0..shape.len()).all(|d| d == dim || index.shape()[d] <= shape[d]);
    if !fits {
        return None;
    }
    let values = index.to_vec::<i64>().unwrap();
    positions(index.shape())
        .into_iter()
        .zip(values)
        .map(|(mut at, i)| {
            at[dim] = usize::try_from(i).ok().filter(|&i| i < shape[dim])?;
            Some(flat(shape, &at))
        })
        .collect()
}

/// Draws an index along `dim` of a tensor of `shape`; most of them fit.
pub(crate) fn index_for(shape: Vec<usize>) -> impl Strategy<Value = (Vec<usize>, usize, Value)> {
    let rank = shape.len();
    let sizes: Vec<_> = shape.iter().map(|&size| 0..=size + size / 4).collect();
    (Just(shape), 0..rank + 1, sizes, 0usize..7, 0u64..1000, 0u8..10).prop_map(
        |(shape, dim, mut sizes, along, seed, wrong)| {
            if let Some(size) = sizes.get_mut(dim) {
                *size = along;
            }
            let bound = shape.get(dim).map_or(1, |&size| size.max(1) as i64);
            let count = sizes.iter().product();
            // One in ten exceeds the bound.
            let bound = bound + i64::from(wrong == 0);
            let index = indices(count, bound, seed).reshape(&sizes).unwrap();
            (shape, dim, index)
        },
    )
}

proptest! {
    #![proptest_config(cases(4))]

    #[test]
    fn gather_and_scatter_are_right_or_an_error(
        (shape, dim, index) in shape(3).prop_flat_map(index_for),
        extra in 0usize..2,
    ) {
        let x = normal_of(&shape, DType::F32, 1);
        let data = x.to_vec::<f32>().unwrap();
        let wide: Vec<usize> = index.shape().iter().map(|size| size + extra).collect();
        let source = normal_of(&wide, DType::F32, 2);
        let var = Tensor::from(x);
        let gathered = f::gather(&var, dim, &Tensor::from(&index));
        let scattered = f::scatter(&var, dim, &Tensor::from(&index), &Tensor::from(source.clone()));
        let Some(places) = places(&shape, dim, &index) else {
            prop_assert!(gathered.is_err() && scattered.is_err());
            return Ok(());
        };
        let gathered = gathered.unwrap();
        prop_assert_eq!(gathered.shape(), index.shape());
        let expected: Vec<f32> = places.iter().map(|&place| data[place]).collect();
        prop_assert_eq!(gathered.to_vec::<f32>().unwrap(), expected);
        let mut expected = data;
        let sources = source.to_vec::<f32>().unwrap();
        for (at, &place) in positions(index.shape()).iter().zip(&places) {
            expected[place] = sources[flat(&wide, at)];
        }
        prop_assert_eq!(scattered.unwrap().to_vec::<f32>().unwrap(), expected);
    }

    #[test]
    fn index_put_is_right_or_an_error(
        shape in shape(3),
        rows in proptest::collection::vec(-5i64..5, 0..5),
        columns in proptest::collection::vec(-5i64..5, 1..4),
        both in any::<bool>(),
        accumulate in any::<bool>(),
    ) {
        let index = |values: &[i64], shape: &[usize]| Value::from_slice(values, shape).unwrap();
        let (m, n) = (rows.len(), columns.len());
        let mut list = vec![index(&rows, &[m, 1])];
        let mut named = [m, 1];
        if both {
            list.push(index(&columns, &[n]));
            named[1] = n;
        }
        let x = normal_of(&shape, DType::F64, 3);
        let var = Tensor::from(x.clone());
        let values_shape = [&named[..], shape.get(list.len()..).unwrap_or(&[])].concat();
        let values = normal_of(&values_shape, DType::F64, 4);
        let list: Vec<Tensor> = list.iter().map(Tensor::from).collect();
        let read = f::index(&var, &list);
        let put = f::index_put(&var, &list, &Tensor::from(values.clone()), accumulate);
        let wrap = |i: i64, size: usize| {
            let i = if i < 0 { i + size as i64 } else { i };
            usize::try_from(i).ok().filter(|&i| i < size)
        };
        let inside = shape.len() >= list.len()
            && named.iter().product::<usize>() > 0
            && rows.iter().all(|&i| wrap(i, shape[0]).is_some())
            && (!both || columns.iter().all(|&i| wrap(i, shape[1]).is_some()));
        if !inside {
            // Nothing is named, or there is an error.
            prop_assert!(m == 0 || (read.is_err() && put.is_err()));
            return Ok(());
        }
        let (data, sources) = (x.to_vec::<f64>().unwrap(), values.to_vec::<f64>().unwrap());
        let (mut gathered, mut expected) = (Vec::new(), data.clone());
        for at in positions(&values_shape) {
            let mut to = vec![wrap(rows[at[0]], shape[0]).unwrap()];
            if both {
                to.push(wrap(columns[at[1]], shape[1]).unwrap());
            }
            to.extend(&at[2..]);
            let (to, from) = (flat(&shape, &to), flat(&values_shape, &at));
            gathered.push(data[to]);
            expected[to] = if accumulate { expected[to] + sources[from] } else { sources[from] };
        }
        prop_assert_eq!(read.unwrap().to_vec::<f64>().unwrap(), gathered);
        prop_assert_eq!(put.unwrap().to_vec::<f64>().unwrap(), expected);
    }

    #[test]
    fn masks_and_repeats_are_right_or_an_error(
        shape in shape(3),
        counts in proptest::collection::vec(-1i64..4, 0..6),
        dim in proptest::option::of(0usize..4),
        source in 0usize..40,
    ) {
        let x = normal_of(&shape, DType::F32, 5);
        let data = x.to_vec::<f32>().unwrap();
        let var = Tensor::from(x.clone());
        let held: Vec<bool> = data.iter().map(|&x| x > 0.3).collect();
        let mask = Value::from_bools(&held, &shape).unwrap();
        let chosen = f::masked_select(&var, &Tensor::from(&mask)).unwrap().to_vec::<f32>().unwrap();
        let expected: Vec<f32> = data.iter().copied().filter(|&x| x > 0.3).collect();
        prop_assert_eq!(&chosen, &expected);
        let values = normal_of(&[source], DType::F32, 6);
        let filled = f::masked_scatter(&var, &Tensor::from(&mask), &Tensor::from(values.clone()));
        if source < expected.len() {
            prop_assert!(filled.is_err());
        } else {
            let mut values = values.to_vec::<f32>().unwrap().into_iter();
            let expected: Vec<f32> = data
                .iter()
                .map(|&x| if x > 0.3 { values.next().unwrap() } else { x })
                .collect();
            prop_assert_eq!(filled.unwrap().to_vec::<f32>().unwrap(), expected);
        }
        let repeats = Value::from_slice(&counts, &[counts.len()]).unwrap();
        let repeated = f::repeat_interleave(&var, &Tensor::from(&repeats), dim);
        let size = match dim {
            None => Some(data.len()),
            Some(dim) => shape.get(dim).copied(),
        };
        let fits = size.is_some_and(|size| counts.len() == 1 || counts.len() == size);
        if !fits || (counts.contains(&-1) && size != Some(0)) {
            prop_assert!(repeated.is_err());
            return Ok(());
        }
        let size = size.unwrap();
        let count = |i: usize| if counts.len() == 1 { counts[0] } else { counts[i] };
        let index: Vec<i64> =
            (0..size).flat_map(|i| vec![i as i64; count(i) as usize]).collect();
        let index = Value::from_slice(&index, &[index.len()]).unwrap();
        let flat = if dim.is_none() { f::reshape(&var, [data.len()]).unwrap() } else { var };
        let expected = f::index_select(&flat, dim.unwrap_or(0), &Tensor::from(&index)).unwrap();
        let repeated = repeated.unwrap();
        prop_assert_eq!(repeated.shape(), expected.shape());
        prop_assert_eq!(repeated.to_bytes(), expected.to_bytes());
    }
}

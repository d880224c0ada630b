use proptest::prelude::*;
use samebits::functional as f;
use samebits::ops::{Cast, PoolParams};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Error, Generator, Tensor, dispatch};
use workspace_tests::{indices, normal_of};

use super::{cases, positions, row_major};

/// A shape and windows on it, valid or not.
#[derive(Clone, Debug)]
struct Windows {
    planes: Vec<usize>,
    size: Vec<usize>,
    params: PoolParams,
}

impl Windows {
    fn input(&self) -> Value {
        normal_of(&[&self.planes[..], &self.size].concat(), DType::F64, 1)
    }

    /// Returns the span of a window in each dimension, if the parameters are valid.
    fn spans(&self) -> Option<Vec<usize>> {
        let p = &self.params;
        (0..self.size.len())
            .map(|d| {
                if p.kernel[d] == 0 || p.stride[d] == 0 || p.dilation[d] == 0 || self.size[d] == 0 {
                    return None;
                }
                let span = (p.kernel[d] - 1) * p.dilation[d] + 1;
                let fits = p.padding[d] <= span / 2 && span <= self.size[d] + 2 * p.padding[d];
                fits.then_some(span)
            })
            .collect()
    }

    /// Returns the number of windows in each dimension.
    fn counts(&self, spans: &[usize]) -> Vec<usize> {
        let p = &self.params;
        (0..self.size.len())
            .map(|d| {
                let padded = self.size[d] + 2 * p.padding[d];
                let slack = if p.ceil_mode { p.stride[d] - 1 } else { 0 };
                let starts = (0..).map(|o| o * p.stride[d]);
                starts
                    .take_while(|start| start + spans[d] <= padded + slack)
                    .take_while(|&start| {
                        start == 0 || !p.ceil_mode || start < self.size[d] + p.padding[d]
                    })
                    .count()
            })
            .collect()
    }

    /// Returns the positions of a window's elements in the plane, in row-major order.
    fn window(&self, at: &[usize]) -> Vec<usize> {
        let p = &self.params;
        let elements = positions(&p.kernel).into_iter().filter_map(|tap| {
            let inside: Option<Vec<usize>> = (0..at.len())
                .map(|d| {
                    let padded = at[d] * p.stride[d] + tap[d] * p.dilation[d];
                    padded.checked_sub(p.padding[d]).filter(|&i| i < self.size[d])
                })
                .collect();
            inside.map(|inside| row_major(&inside, &self.size))
        });
        elements.collect()
    }

    /// Returns the divisor of a window's sum.
    fn divisor(&self, at: &[usize], include: bool) -> f64 {
        let p = &self.params;
        let along = |d: usize| {
            let start = at[d] * p.stride[d];
            let (low, high) = match include {
                true => (0, self.size[d] + 2 * p.padding[d]),
                false => (p.padding[d], p.padding[d] + self.size[d]),
            };
            (start..start + p.kernel[d]).filter(|i| (low..high).contains(i)).count().max(1)
        };
        (0..at.len()).map(along).product::<usize>() as f64
    }
}

prop_compose! {
    fn windows()(dims in 1usize..=3, with_batch in any::<bool>())(
        planes in proptest::collection::vec(0usize..3, 1 + usize::from(with_batch)),
        size in proptest::collection::vec(prop_oneof![1 => Just(0usize), 12 => 1usize..8], dims),
        kernel in proptest::collection::vec(prop_oneof![1 => Just(0usize), 12 => 1usize..4], dims),
        stride in proptest::collection::vec(prop_oneof![1 => Just(0usize), 12 => 1usize..4], dims),
        padding in proptest::collection::vec(prop_oneof![3 => Just(0usize), 2 => 1usize..3], dims),
        dilation in proptest::collection::vec(
            prop_oneof![1 => Just(0usize), 20 => Just(1), 6 => Just(2)], dims),
        ceil_mode in any::<bool>(),
    ) -> Windows {
        Windows { planes, size, params: PoolParams { kernel, stride, padding, dilation, ceil_mode } }
    }
}

proptest! {
    #![proptest_config(cases(5))]

    #[test]
    fn max_pool_is_right_or_an_error(windows in windows()) {
        let x = windows.input();
        let result = f::max_pool(&Tensor::from(x.clone()).set_requires_grad(true).unwrap(), &windows.params);
        let Some(spans) = windows.spans() else {
            let is_error = matches!(result, Err(Error::InvalidArgument { op: "max_pool", .. }));
            prop_assert!(is_error);
            return Ok(());
        };
        let (y, chosen) = result.unwrap();
        let counts = windows.counts(&spans);
        prop_assert_eq!(y.shape(), [&windows.planes[..], &counts].concat());
        let (x, y, chosen) =
            (x.to_vec::<f64>().unwrap(), y.to_vec::<f64>().unwrap(), chosen.to_vec::<i64>().unwrap());
        let (plane, outputs) = (windows.size.iter().product::<usize>(), positions(&counts));
        for (i, (&y, &chosen)) in y.iter().zip(&chosen).enumerate() {
            let x = &x[i / outputs.len() * plane..][..plane];
            let mut best: Option<usize> = None;
            for at in windows.window(&outputs[i % outputs.len()]) {
                if best.is_none_or(|best| x[at] > x[best]) {
                    best = Some(at);
                }
            }
            prop_assert_eq!(chosen, best.map_or(-1, |best| best as i64));
            prop_assert_eq!(y, best.map_or(f64::NEG_INFINITY, |best| x[best]));
        }
    }

    #[test]
    fn avg_pool_is_right_or_an_error(
        windows in windows(),
        include in any::<bool>(),
        divisor in prop_oneof![6 => Just(None), 3 => (1i64..9).prop_map(Some), 1 => Just(Some(0))],
    ) {
        let x = windows.input();
        let result = f::avg_pool(&Tensor::from(x.clone()), &windows.params, include, divisor);
        let dilated = windows.params.dilation.iter().any(|&dilation| dilation != 1);
        let spans = windows.spans().filter(|_| !dilated && divisor != Some(0));
        let Some(spans) = spans else {
            prop_assert!(result.is_err());
            return Ok(());
        };
        let counts = windows.counts(&spans);
        let y = result.unwrap();
        prop_assert_eq!(y.shape(), [&windows.planes[..], &counts].concat());
        let (x, y) = (x.to_vec::<f64>().unwrap(), y.to_vec::<f64>().unwrap());
        let (plane, outputs) = (windows.size.iter().product::<usize>(), positions(&counts));
        for (i, &y) in y.iter().enumerate() {
            let x = &x[i / outputs.len() * plane..][..plane];
            let at = &outputs[i % outputs.len()];
            let sum = windows.window(at).into_iter().fold(0.0, |sum, at| sum + x[at]);
            prop_assert_eq!(y, sum / divisor.map_or(windows.divisor(at, include), |n| n as f64));
        }
    }

    #[test]
    fn adaptive_pools_are_right_or_errors(
        size in proptest::collection::vec(0usize..7, 1..=3),
        target in proptest::collection::vec(0usize..7, 1..=3),
        planes in proptest::collection::vec(0usize..3, 1..=2),
    ) {
        let x = normal_of(&[&planes[..], &size].concat(), DType::F64, 1);
        let average = f::adaptive_avg_pool(&Tensor::from(x.clone()), &target);
        let largest = f::adaptive_max_pool(&Tensor::from(x.clone()), &target);
        prop_assert_eq!(average.is_ok(), largest.is_ok());
        // A batch of planes and a volume without a batch look the same.
        let size = match (x.rank()).checked_sub(target.len()) {
            Some(planes @ 1..=2) => &x.shape()[planes..],
            _ => {
                prop_assert!(average.is_err());
                return Ok(());
            }
        };
        if size.contains(&0) {
            prop_assert!(average.is_err());
            return Ok(());
        }
        let (average, (largest, _)) = (average.unwrap(), largest.unwrap());
        let planes = &x.shape()[..x.rank() - size.len()];
        prop_assert_eq!(average.shape(), [planes, &target].concat());
        let (plane, outputs) = (size.iter().product::<usize>(), positions(&target));
        let x = x.to_vec::<f64>().unwrap();
        let largest = largest.to_vec::<f64>().unwrap();
        for (i, y) in average.to_vec::<f64>().unwrap().into_iter().enumerate() {
            let (x, o) = (&x[i / outputs.len() * plane..][..plane], &outputs[i % outputs.len()]);
            let covers = |d: usize, at: usize| {
                at >= o[d] * size[d] / target[d] && at < ((o[d] + 1) * size[d]).div_ceil(target[d])
            };
            let window: Vec<f64> = positions(size)
                .into_iter()
                .zip(x)
                .filter(|(at, _)| (0..size.len()).all(|d| covers(d, at[d])))
                .map(|(_, &x)| x)
                .collect();
            prop_assert_eq!(y, window.iter().sum::<f64>() / window.len() as f64);
            prop_assert_eq!(largest[i], window.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        }
    }

    #[test]
    fn max_unpool_is_right_or_an_error(
        planes in 1usize..3,
        count in 0usize..6,
        size in 0usize..8,
        bound in 1i64..9,
        seed in any::<u64>(),
    ) {
        let x = normal_of(&[planes, count], DType::F64, 1);
        let chosen = indices(planes * count, bound, seed).reshape(&[planes, count]).unwrap();
        let params = PoolParams::square(1, 2);
        let result = f::max_unpool(&Tensor::from(x.clone()), &Tensor::from(&chosen), &params, Some(&[size]));
        let chosen = chosen.to_vec::<i64>().unwrap();
        if count == 0 || (2 * count).abs_diff(size) > 1 {
            prop_assert!(result.is_err());
        } else if let Some(bad) = chosen.iter().position(|&i| i >= size as i64) {
            let is_index_error =
                matches!(result, Err(Error::IndexOutOfRange { position, .. }) if position == bad);
            prop_assert!(is_index_error);
        } else {
            let mut expected = vec![0.0; planes * size];
            for (i, (&x, &at)) in x.to_vec::<f64>().unwrap().iter().zip(&chosen).enumerate() {
                expected[i / count * size + at as usize] = x;
            }
            prop_assert_eq!(result.unwrap().to_vec::<f64>().unwrap(), expected);
        }
    }

    #[test]
    fn fractional_max_pool_picks_or_refuses(
        size in proptest::collection::vec(0usize..9, 1..=4),
        kernel in proptest::collection::vec(0usize..4, 1..=4),
        target in proptest::collection::vec(0usize..5, 1..=4),
        seed in any::<u64>(),
    ) {
        let x = Tensor::from(normal_of(&[&[1, 2], &size[..]].concat(), DType::F32, 1));
        let Ok(samples) = f::fractional_samples_with(&x, size.len(), &mut Generator::new(seed)) else {
            prop_assert!(false, "a batch and channels are there");
            return Ok(());
        };
        let good = (2..=3).contains(&size.len())
            && kernel.len() == size.len()
            && target.len() == size.len()
            && (0..size.len())
                .all(|d| kernel[d] > 0 && target[d] > 0 && target[d] + kernel[d] - 1 <= size[d]);
        let result = f::fractional_max_pool(&x, &kernel, &target, Some(&samples));
        prop_assert_eq!(result.is_ok(), good);
        let Ok((y, chosen)) = result else { return Ok(()) };
        let (plane, outputs) = (size.iter().product::<usize>(), target.iter().product::<usize>());
        let x = x.to_vec::<f32>().unwrap();
        let chosen = chosen.to_vec::<i64>().unwrap();
        for (i, y) in y.to_vec::<f32>().unwrap().into_iter().enumerate() {
            prop_assert_eq!(y.to_bits(), x[i / outputs * plane + chosen[i] as usize].to_bits());
        }
    }
}

#[test]
fn fractional_samples_of_two_draws_differ() {
    for dtype in [DType::F32, DType::F64] {
        let x = Tensor::from(normal_of(&[3, 5, 4, 4, 4], dtype, 1));
        let mut generator = Generator::new(7);
        let mut draw = || {
            let samples = f::fractional_samples_with(&x, 3, &mut generator).unwrap();
            dispatch(&Cast { x: samples.into(), to: DType::F64 }).unwrap().to_vec::<f64>().unwrap()
        };
        let mut samples = [draw(), draw()].concat();
        samples.sort_by(f64::total_cmp);
        assert!(samples.is_sorted_by(|a, b| a < b), "{dtype}: a number came twice");
    }
}

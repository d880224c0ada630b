use proptest::prelude::*;
use samebits::functional::{self as f, Resize};
use samebits::ops::{GridMode, GridPadding, GridParams, InterpolateMode, PadMode};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Tensor};
use workspace_tests::normal_of;

use super::{cases, on_devices, positions, row_major, shape};

/// Returns the source of output `o` in a padded dimension; `None` means the constant.
fn source(o: i64, [before, after]: [i64; 2], size: i64, mode: PadMode) -> Option<i64> {
    let at = o - before;
    if mode == PadMode::Circular && before.min(after) < 0 {
        // Crops, then wraps.
        let cut = [before.min(0), after.min(0)];
        let rest = source(o, [before.max(0), after.max(0)], size + cut[0] + cut[1], mode);
        return rest.map(|at| at - cut[0]);
    }
    match mode {
        _ if (0..size).contains(&at) => Some(at),
        PadMode::Constant => None,
        PadMode::Reflect => Some(if at < 0 { -at } else { 2 * (size - 1) - at }),
        PadMode::Replicate => Some(at.clamp(0, size - 1)),
        PadMode::Circular => Some(at.rem_euclid(size)),
    }
}

fn pad_mode() -> impl Strategy<Value = PadMode> {
    prop_oneof![
        Just(PadMode::Constant),
        Just(PadMode::Reflect),
        Just(PadMode::Replicate),
        Just(PadMode::Circular),
    ]
}

fn interpolate_mode() -> impl Strategy<Value = InterpolateMode> {
    (0..6, any::<bool>()).prop_map(|(mode, align_corners)| match mode {
        0 => InterpolateMode::Nearest,
        1 => InterpolateMode::NearestExact,
        2 => InterpolateMode::Linear { align_corners },
        3 => InterpolateMode::Cubic { align_corners },
        4 => InterpolateMode::LinearAntialias { align_corners },
        _ => InterpolateMode::CubicAntialias { align_corners },
    })
}

proptest! {
    #![proptest_config(cases(6))]

    #[test]
    fn pad_is_right_or_an_error(
        shape in shape(5),
        pads in proptest::collection::vec(prop_oneof![20 => -2i64..4, 1 => Just(i64::MAX), 1 => Just(i64::MIN)], 0..=10),
        mode in pad_mode(),
    ) {
        let x = normal_of(&shape, DType::F32, 1);
        let result = f::pad(&Tensor::from(x.clone()), &pads, mode, 0.5);
        let padded = pads.len() / 2;
        let mut size = shape.clone();
        let mut good = pads.len() % 2 == 0
            && padded <= shape.len()
            && (padded <= 3 || mode == PadMode::Constant);
        for (k, pair) in pads.chunks_exact(2).enumerate() {
            if !good {
                break;
            }
            let d = shape.len() - 1 - k;
            let (n, most) = (shape[d] as i64, pair[0].max(pair[1]));
            let total = n.saturating_add(pair[0]).saturating_add(pair[1]);
            let allowed = match mode {
                PadMode::Constant => most < 100,
                PadMode::Reflect => most <= (n - 1).max(0),
                PadMode::Replicate => n > 0 && most < 100 || most <= 0,
                PadMode::Circular => most <= n + pair[0].clamp(-100, 0) + pair[1].clamp(-100, 0),
            };
            good = allowed && total >= 0 && pair.iter().all(|&p| p > -100);
            size[d] = total.max(0) as usize;
        }
        prop_assert_eq!(result.is_ok(), good, "{:?}", result);
        let Ok(y) = result else { return Ok(()) };
        prop_assert_eq!(y.shape(), &size[..]);
        let x = x.to_vec::<f32>().unwrap();
        for (y, at) in y.to_vec::<f32>().unwrap().iter().zip(positions(&size)) {
            let from: Option<Vec<usize>> = (0..size.len())
                .map(|d| {
                    let k = size.len() - 1 - d;
                    let pair = if k < padded { [pads[2 * k], pads[2 * k + 1]] } else { [0, 0] };
                    source(at[d] as i64, pair, shape[d] as i64, mode).map(|at| at as usize)
                })
                .collect();
            let expected = from.map_or(0.5, |from| x[row_major(&from, &shape)]);
            prop_assert_eq!(y.to_bits(), expected.to_bits());
        }
    }

    /// One dimension, which a pad crops in most cases, and its gradient.
    #[test]
    fn a_line_is_padded_and_cut(
        size in 1i64..7,
        pair in [-4i64..5, -4i64..5],
        mode in pad_mode(),
    ) {
        let values: Vec<f64> = (0..size).map(|i| i as f64).collect();
        let x = Tensor::from_slice(&values, &[values.len()]).unwrap();
        let x = x.set_requires_grad(true).unwrap();
        let result = f::pad(&x, &pair, mode, -1.0);
        let (left, most) = (size + pair[0].min(0) + pair[1].min(0), pair[0].max(pair[1]));
        let total = size + pair[0] + pair[1];
        let allowed = match mode {
            PadMode::Constant | PadMode::Replicate => true,
            PadMode::Reflect => most < size,
            PadMode::Circular => most <= left,
        };
        prop_assert_eq!(result.is_ok(), allowed && total >= 0, "{:?}", result);
        let Ok(y) = result else { return Ok(()) };
        let from: Vec<_> = (0..total).map(|o| source(o, pair, size, mode)).collect();
        let expected: Vec<f64> = from.iter().map(|at| at.map_or(-1.0, |at| at as f64)).collect();
        prop_assert_eq!(y.to_vec::<f64>().unwrap(), expected);
        let grad: Vec<f64> = (0..total).map(|o| f64::from(1 << o)).collect();
        let mut sums = vec![0.0; values.len()];
        for (at, grad) in from.iter().zip(&grad) {
            at.iter().for_each(|&at| sums[at as usize] += grad);
        }
        let grad = Tensor::from_slice(&grad, &[grad.len()]).unwrap();
        let gradients = y.backward_from(grad, false).unwrap();
        prop_assert_eq!(gradients.of(&x).unwrap().to_vec::<f64>().unwrap(), sums);
    }

    /// The weights of an output add up to 1, so a constant stays and no gradient is lost.
    #[test]
    fn interpolate_keeps_constants_or_refuses(
        planes in proptest::collection::vec(0usize..3, 2..=2),
        size in proptest::collection::vec(0usize..9, 0..=4),
        target in proptest::collection::vec(prop_oneof![1 => Just(0usize), 9 => 1usize..9], 1..=3),
        scale in proptest::option::of(prop_oneof![
            10 => 0.2f64..3.0, 1 => Just(0.0), 1 => Just(-1.0), 1 => Just(f64::NAN), 1 => Just(1e300)]),
        mode in interpolate_mode(),
    ) {
        let shape = [&planes[..], &size].concat();
        let x = Tensor::full(&shape, 0.75, DType::F64).unwrap().set_requires_grad(true).unwrap();
        let result = match scale {
            None => f::interpolate(&x, Resize::Size(&target), mode),
            Some(scale) => f::interpolate(&x, Resize::Scale(&vec![scale; size.len()]), mode),
        };
        let good = match scale {
            None => size.len() == target.len() && !target.contains(&0),
            Some(scale) => {
                scale > 0.0 && scale < 10.0 && size.iter().all(|&n| n as f64 * scale >= 1.0)
            }
        };
        let good = good && (1..=3).contains(&size.len()) && !size.contains(&0);
        prop_assert_eq!(result.is_ok(), good, "{:?}", result);
        let Ok(y) = result else { return Ok(()) };
        for y in y.to_vec::<f64>().unwrap() {
            prop_assert!((y - 0.75).abs() < 1e-12, "{}", y);
        }
        let gradients = y.sum_all().unwrap().backward().unwrap();
        let total: f64 = gradients.of(&x).unwrap().to_vec::<f64>().unwrap().iter().sum();
        prop_assert!((total - y.numel() as f64).abs() < 1e-9);
    }

    #[test]
    fn shuffled_pixels_come_back_or_are_refused(shape in shape(5), factor in 0usize..4) {
        let x = Tensor::from(normal_of(&shape, DType::F32, 1));
        let good = shape.len() >= 3
            && factor > 0
            && shape[shape.len() - 3].is_multiple_of(factor * factor);
        let result = f::pixel_shuffle(&x, factor);
        prop_assert_eq!(result.is_ok(), good);
        if let Ok(y) = result {
            let back = f::pixel_unshuffle(&y, factor).unwrap();
            prop_assert_eq!(back.shape(), x.shape());
            prop_assert_eq!(back.to_bytes(), x.to_bytes());
        }
        let fits = |d: usize| shape[shape.len() - d].is_multiple_of(factor);
        let good = shape.len() >= 3 && factor > 0 && fits(1) && fits(2);
        prop_assert_eq!(f::pixel_unshuffle(&x, factor).is_ok(), good);
    }

    #[test]
    fn grids_stay_inside_or_are_refused(
        size in proptest::collection::vec(0usize..5, 1..=4),
        points in proptest::collection::vec(0usize..4, 1..=3),
        batch in (0usize..3, 0usize..3),
        mode in prop_oneof![Just(GridMode::Nearest), Just(GridMode::Linear), Just(GridMode::Cubic)],
        padding in prop_oneof![
            Just(GridPadding::Zeros), Just(GridPadding::Border), Just(GridPadding::Reflection)],
        align_corners in any::<bool>(),
        special in prop_oneof![
            Just(0.3f64), Just(f64::NAN), Just(f64::INFINITY), Just(-1e300), Just(7.9), Just(1.0)],
    ) {
        let dims = size.len();
        let x = normal_of(&[&[batch.0, 2], &size[..]].concat(), DType::F64, 1);
        let grid = normal_of(&[&[batch.1], &points[..], &[dims]].concat(), DType::F64, 2);
        let mut coordinates = grid.to_vec::<f64>().unwrap();
        coordinates.iter_mut().step_by(3).for_each(|x| *x = special);
        let grid = Value::from_slice(&coordinates, grid.shape()).unwrap();
        let (x, grid) = (Tensor::from(x).set_requires_grad(true).unwrap(), Tensor::from(grid).set_requires_grad(true).unwrap());
        let result = f::grid_sample(&x, &grid, GridParams { mode, padding, align_corners });
        let good = (2..=3).contains(&dims)
            && points.len() == dims
            && batch.0 == batch.1
            && !size.contains(&0)
            && !(dims == 3 && mode == GridMode::Cubic);
        prop_assert_eq!(result.is_ok(), good, "{:?}", result);
        let Ok(y) = result else { return Ok(()) };
        prop_assert_eq!(y.shape(), [&[batch.0, 2], &points[..]].concat());
        let gradients = y.sum_all().unwrap().backward().unwrap();
        prop_assert!(gradients.of(&x).is_some() && gradients.of(&grid).is_some());
        if mode != GridMode::Cubic {
            let most = x.to_vec::<f64>().unwrap().iter().fold(0.0, |m: f64, x| m.max(x.abs()));
            for y in y.to_vec::<f64>().unwrap() {
                prop_assert!(y.abs() <= most * (1.0 + 1e-12), "{} beyond {}", y, most);
            }
        }
    }
    /// The place of an output is an integer quotient, and its gradient goes there.
    #[test]
    fn nearest_takes_exact_places(
        n in 1usize..300,
        size in 1usize..300,
        exact in any::<bool>(),
    ) {
        let (mode, shift, scale) = match exact {
            true => (InterpolateMode::NearestExact, n, 2),
            false => (InterpolateMode::Nearest, 0, 1),
        };
        let values: Vec<f64> = (0..n).map(|i| i as f64).collect();
        let weights: Vec<f64> = (0..size).map(|o| 1.0 + o as f64).collect();
        let found = on_devices(|device| {
            let x = Tensor::from_slice(&values, &[1, 1, n]).unwrap().to(device).unwrap();
            let x = x.set_requires_grad(true).unwrap();
            let y = f::interpolate(&x, Resize::Size(&[size]), mode).unwrap();
            let grad = Tensor::from_slice(&weights, &[1, 1, size]).unwrap().to(device).unwrap();
            let gradients = y.backward_from(grad, false).unwrap();
            [&y, gradients.of(&x).unwrap()].map(|x| x.to_vec::<f64>().unwrap()).to_vec()
        });
        let places: Vec<usize> = (0..size).map(|o| (scale * o * n + shift) / (scale * size)).collect();
        let mut slope = vec![0.0; n];
        places.iter().zip(&weights).for_each(|(&place, weight)| slope[place] += weight);
        prop_assert_eq!(&found[0], &places.iter().map(|&place| place as f64).collect::<Vec<_>>());
        prop_assert_eq!(&found[1], &slope);
    }
}

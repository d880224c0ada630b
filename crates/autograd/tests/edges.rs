//! Edge cases: NaN and infinities among sorted elements, positions on an edge, overwritten sources.

use samebits_autograd::{Tensor, functional as f};
use samebits_tensor_core::DType;
use samebits_tensor_core::ops::{PadMode, PoolParams};

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

fn tensor(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, &[values.len()]).unwrap()
}

fn variable(values: &[f32]) -> Tensor {
    tensor(values).set_requires_grad(true).unwrap()
}

/// Returns the gradient of the sum of `y` with respect to `x`.
fn gradient(y: &Tensor, x: &Tensor) -> Vec<f32> {
    y.sum_all().unwrap().backward().unwrap().of(x).unwrap().to_vec().unwrap()
}

#[test]
fn numbers_are_found_in_front_of_nan() {
    let found = |sorted: &[f32], value: f32| {
        [false, true].map(|right| {
            let places = f::searchsorted(&tensor(sorted), &tensor(&[value]), right).unwrap();
            let same = f::bucketize(&tensor(&[value]), &tensor(sorted), right).unwrap();
            let places = places.to_vec::<i64>().unwrap();
            assert_eq!(same.to_vec::<i64>().unwrap(), places);
            places[0]
        })
    };
    assert_eq!(found(&[1.0, 3.0, NAN], 4.0), [2, 2]);
    assert_eq!(found(&[1.0, 3.0, NAN], 3.0), [1, 2]);
    assert_eq!(found(&[1.0, 3.0, NAN, NAN], NAN), [2, 4]);
    assert_eq!(found(&[1.0, 3.0], NAN), [2, 2]);
    assert_eq!(found(&[NAN, NAN, NAN], 0.0), [0, 0]);
    assert_eq!(found(&[], NAN), [0, 0]);
    assert_eq!(found(&[-INF, -0.0, 0.0, INF, NAN], 0.0), [1, 3]);
    assert_eq!(found(&[-INF, -0.0, 0.0, INF, NAN], INF), [3, 4]);
}

#[test]
fn an_element_is_found_beside_nan() {
    let among = |x: &[f32], elements: &[f32]| {
        f::isin(&tensor(x), &tensor(elements)).unwrap().to_bools().unwrap()
    };
    assert_eq!(among(&[1.0], &[1.0, NAN]), [true]);
    assert_eq!(among(&[1.0, NAN, INF, 2.0], &[NAN, INF, NAN, 1.0]), [true, false, true, false]);
}

#[test]
fn only_the_last_source_of_a_place_has_a_gradient() {
    let x = variable(&[0.5, 0.25, 0.75, 2.0]).reshape([1, 1, 4]).unwrap().detach();
    let x = x.set_requires_grad(true).unwrap();
    let indices = Tensor::from_slice(&[4i64, 2, 3, 4], &[1, 1, 4]).unwrap();
    let y = f::max_unpool1d(&x, &indices, &PoolParams::square(1, 2), None).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap()[2..5], [0.25, 0.75, 2.0]);
    assert_eq!(gradient(&y, &x), [0.0, 1.0, 1.0, 1.0]);
}

#[test]
fn between_infinities() {
    let quantile = |x: &[f32], q: f64| {
        let (x, all) = (variable(x), f::quantile(&variable(x), q, (), false).unwrap());
        let y = f::quantile(&x, q, 0, false).unwrap();
        assert_eq!(y.to_bytes().unwrap(), all.to_bytes().unwrap());
        (y.item::<f32>().unwrap(), gradient(&y, &x))
    };
    assert_eq!(quantile(&[INF, INF], 0.5), (INF, vec![0.5, 0.5]));
    assert_eq!(quantile(&[3.0, INF], 0.25), (INF, vec![0.75, 0.25]));
    assert_eq!(quantile(&[3.0, INF], 0.75), (INF, vec![0.25, 0.75]));
    assert_eq!(quantile(&[3.0, INF], 0.0), (3.0, vec![1.0, 0.0]));
    assert_eq!(quantile(&[3.0, -INF], 0.25), (-INF, vec![0.25, 0.75]));
    assert_eq!(quantile(&[-3e38, 3e38], 0.5), (0.0, vec![0.5, 0.5]));
    assert!(quantile(&[-INF, INF], 0.5).0.is_nan());
    assert!(quantile(&[1.0, NAN], 0.0).0.is_nan());
}

#[test]
fn numbers_of_equal_distance_over_the_whole_type() {
    let (low, high) = (f64::MIN, f64::MAX);
    let x = Tensor::linspace(low, high, 3, DType::F64).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(x, [low, 0.0, high]);
}

#[test]
fn the_way_between_equal_numbers_has_a_slope() {
    let (a, b, w) = (variable(&[2.0, INF]), variable(&[2.0, INF]), variable(&[0.25, 0.75]));
    let y = f::lerp(&a, &b, &w).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, INF]);
    let gradients = y.backward_from(variable(&[1.0, 1.0]), true).unwrap();
    let slope = gradients.of(&w).unwrap();
    assert_eq!(slope.to_vec::<f32>().unwrap(), [0.0, 0.0]);
    assert_eq!(gradients.of(&a).unwrap().to_vec::<f32>().unwrap(), [0.75, 0.25]);
    // The slope by the weight grows with the end.
    assert_eq!(gradient(slope, &b), [1.0, 0.0]);
}

#[test]
fn circular_padding_cuts_first() {
    let pad = |size: i64, pads: [i64; 2]| {
        let values: Vec<f32> = (0..size).map(|i| i as f32).collect();
        let x = variable(&values);
        let y = f::pad(&x, &pads, PadMode::Circular, 0.0)?;
        Ok::<_, samebits_autograd::Error>((y.to_vec::<f32>()?, gradient(&y, &x)))
    };
    let rows = [
        ([-1, 1], vec![1.0, 2.0, 3.0, 1.0], [0.0, 2.0, 1.0, 1.0]),
        ([1, -1], vec![2.0, 0.0, 1.0, 2.0], [1.0, 1.0, 2.0, 0.0]),
        ([-2, 2], vec![2.0, 3.0, 2.0, 3.0], [0.0, 0.0, 2.0, 2.0]),
        ([-1, -1], vec![1.0, 2.0], [0.0, 1.0, 1.0, 0.0]),
        ([-1, 3], vec![1.0, 2.0, 3.0, 1.0, 2.0, 3.0], [0.0, 2.0, 2.0, 2.0]),
        ([-2, -2], vec![], [0.0; 4]),
    ];
    for (pads, values, slopes) in rows {
        assert_eq!(pad(4, pads).unwrap(), (values, slopes.to_vec()), "{pads:?}");
    }
    // Too little remains to wrap, or nothing.
    for pads in [[-4, 2], [2, -4], [-2, 3], [-5, 3], [4, -1]] {
        let error = pad(4, pads).unwrap_err().to_string();
        let [before, after] = pads;
        let expected = format!("Circular padding by {before} and {after} does not fit a size of 4");
        assert!(error.starts_with("pad: ") && error.contains(&expected), "{error}");
    }
}

#[test]
fn numbers_on_an_edge_are_in_the_bin_above() {
    for dtype in [DType::F32, DType::F64] {
        let x = Tensor::full(&[1], 27.0, dtype).unwrap();
        let counts = f::to_dtype(&f::histc(&x, 49, 0.0, 49.0).unwrap(), DType::I64).unwrap();
        let expected: Vec<i64> = (0..49).map(|bin| i64::from(bin == 27)).collect();
        assert_eq!(counts.to_vec::<i64>().unwrap(), expected);
        for n in 1..200 {
            let x = f::to_dtype(&Tensor::arange(n + 1).unwrap(), dtype).unwrap();
            let counts = f::to_dtype(&f::histc(&x, n, 0.0, n as f64).unwrap(), DType::I64).unwrap();
            let mut expected = vec![1; n];
            expected[n - 1] = 2;
            assert_eq!(counts.to_vec::<i64>().unwrap(), expected, "{n} bins of {dtype}");
        }
    }
    // The width of the range overflows the type.
    let x = tensor(&[-3e38, -1.0, 1.0, 3e38]);
    assert_eq!(f::histc(&x, 3, -3e38, 3e38).unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0, 1.0]);
}

#[test]
fn weights_of_zero_take_nothing_from_infinities() {
    use samebits_tensor_core::ops::{GridMode, GridPadding, GridParams, InterpolateMode};
    let line = |values: &[f32]| tensor(values).reshape([1, 1, values.len()]).unwrap();
    for mode in [true, false].into_iter().flat_map(|align_corners| {
        [InterpolateMode::Linear { align_corners }, InterpolateMode::Cubic { align_corners }]
    }) {
        let image = [1.0, INF, 2.0, -INF];
        let x = line(&image).unsqueeze(2).unwrap();
        let y = f::interpolate(&x, f::Resize::Size(&[1, 4]), mode).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), image, "{mode:?}");
    }
    for n in 2..60 {
        // The last output equals the last input; its neighbour has weight 0.
        let mut values = vec![INF; n];
        values[n - 1] = 5.0;
        let mode = InterpolateMode::Linear { align_corners: true };
        for size in 2..60 {
            let y = f::interpolate(&line(&values), f::Resize::Size(&[size]), mode).unwrap();
            assert_eq!(y.to_vec::<f32>().unwrap()[size - 1], 5.0, "{n} to {size}");
        }
    }
    let x = tensor(&[1.0, INF, 2.0, INF]).reshape([1, 1, 2, 2]).unwrap();
    let grid =
        tensor(&[-1.0, -1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 0.0]).reshape([1, 1, 4, 2]).unwrap();
    for mode in [GridMode::Linear, GridMode::Cubic] {
        let params = GridParams { mode, padding: GridPadding::Zeros, align_corners: true };
        let grid = grid.clone().set_requires_grad(true).unwrap();
        let y = f::grid_sample(&x, &grid, params).unwrap();
        let values = y.to_vec::<f32>().unwrap();
        assert_eq!(values[..3], [1.0, INF, 2.0], "{mode:?}");
        if mode == GridMode::Linear {
            // The middle of the left column, beside an infinite one.
            assert_eq!(values[3], 1.5);
            assert_eq!(gradient(&y.narrow(3, 3, 1).unwrap(), &grid)[7], 0.5);
        }
    }
}

#[test]
fn nearest_places_are_exact() {
    use samebits_tensor_core::ops::InterpolateMode;
    for n in 1..80usize {
        let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let x = tensor(&values).reshape([1, 1, n]).unwrap();
        for size in 1..80usize {
            let resized = |mode| {
                let y = f::interpolate(&x, f::Resize::Size(&[size]), mode).unwrap();
                y.to_vec::<f32>().unwrap()
            };
            let floor: Vec<f32> = (0..size).map(|o| (o * n / size) as f32).collect();
            assert_eq!(resized(InterpolateMode::Nearest), floor, "{n} to {size}");
            let centre: Vec<f32> =
                (0..size).map(|o| ((2 * o + 1) * n / (2 * size)) as f32).collect();
            assert_eq!(resized(InterpolateMode::NearestExact), centre, "{n} to {size}");
        }
    }
    // 6 / 1.2 is 5.
    let x = tensor(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).reshape([1, 1, 6]).unwrap();
    let y = f::interpolate(&x, f::Resize::Scale(&[1.2]), InterpolateMode::Nearest).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

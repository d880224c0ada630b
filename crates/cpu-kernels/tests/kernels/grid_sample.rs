//! Grid sampling: values and gradients by definition, and the same bits everywhere.

use crate::invariance::{Random, bits, everywhere};
use crate::sampling::sampling;
use samebits_cpu_kernels::grid_sample::{
    GridMode, GridPadding, GridParams, Sampling, grid_sample, grid_sample_grid_backward,
    grid_sample_input_backward,
};
use samebits_numerics::exact::ExactSum;

const PADDINGS: [GridPadding; 3] =
    [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection];

/// Samples one image linearly, tap by tap; also returns the taps of every point, for the gradient.
fn linear_taps(
    point: &[f32],
    size: [usize; 2],
    padding: GridPadding,
    align: bool,
) -> Vec<(usize, f64)> {
    let axis = |coordinate: f32, n: usize| -> Vec<(Option<usize>, f64)> {
        let n = n as f64;
        let mut at = if align {
            (f64::from(coordinate) + 1.0) * ((n - 1.0) / 2.0)
        } else {
            ((f64::from(coordinate) + 1.0) * n - 1.0) / 2.0
        };
        if padding == GridPadding::Reflection {
            let (low, high) = if align { (0.0, n - 1.0) } else { (-0.5, n - 0.5) };
            if high == low {
                at = 0.0;
            }
            // Mirror step by step; the points of this test are near.
            while high > low && !(low..=high).contains(&at) {
                at = if at < low { low + (low - at) } else { high - (at - high) };
            }
        }
        if padding != GridPadding::Zeros {
            at = at.clamp(0.0, n - 1.0);
        }
        let left = at.floor();
        [(left, 1.0 - (at - left)), (left + 1.0, at - left)]
            .map(|(place, weight)| ((place >= 0.0 && place < n).then_some(place as usize), weight))
            .to_vec()
    };
    let mut taps = Vec::new();
    for (y, wy) in axis(point[1], size[0]) {
        for (x, wx) in axis(point[0], size[1]) {
            if let (Some(y), Some(x)) = (y, x) {
                taps.push((y * size[1] + x, wy * wx));
            }
        }
    }
    taps
}

fn params(mode: GridMode, padding: GridPadding, align_corners: bool) -> GridParams {
    GridParams { mode, padding, align_corners }
}

#[test]
fn linear_sampling_equals_the_definition() {
    let mut random = Random(1);
    for round in 0..60 {
        let (batch, channels) = (1 + random.below(6), 1 + random.below(6));
        let size = [1 + random.below(6), 1 + random.below(6)];
        let (points, align) = (1 + random.below(40), random.below(2) == 1);
        let padding = PADDINGS[round % 3];
        let sample = sampling(
            "g",
            [batch, channels, points],
            &size,
            params(GridMode::Linear, padding, align),
        )
        .unwrap();
        let mut input: Vec<f32> = random.wide(sample.input_len());
        // Multiples of 1/16, so that any way of mirroring is exact.
        let mut grid: Vec<f32> =
            (0..sample.grid_len()).map(|_| random.below(64) as f32 / 16.0 - 2.0).collect();
        let mut grad: Vec<f32> = random.wide(sample.output_len());
        if round % 4 == 1 && points > 2 {
            // The first and the last point of an image are the same, and their gradients cancel.
            for image in grid.chunks_exact_mut(2 * points) {
                image.copy_within(..2, 2 * points - 2);
            }
            for row in grad.chunks_exact_mut(points) {
                (row[0], row[points - 1]) = (1e30, -1e30);
            }
        }
        if round % 4 == 3 {
            // Many points lie on elements: their other neighbours have no weight.
            let (at, from) = (random.below(input.len()), random.below(grad.len()));
            (input[at], grad[from]) = (f32::INFINITY, f32::INFINITY);
        }
        let plane = size[0] * size[1];
        let mut values = vec![0.0f32; grad.len()];
        let mut sums = vec![ExactSum::new(); input.len()];
        for at in 0..grad.len() {
            let (c, point) = (at / points, at % points);
            let place = (c / channels * points + point) * 2;
            for (tap, weight) in linear_taps(&grid[place..place + 2], size, padding, align) {
                let from = c * plane + tap;
                if weight as f32 != 0.0 {
                    values[at] = input[from].mul_add(weight as f32, values[at]);
                    sums[from].add(grad[at] * weight as f32);
                }
            }
            if values[at].is_nan() {
                values[at] = f32::NAN;
            }
        }
        let expected: Vec<f32> = sums.iter().map(ExactSum::to_f32).collect();
        let run = || {
            let mut out = vec![9.0; values.len()];
            grid_sample(&sample, &input, &grid, &mut out).unwrap();
            let mut back = vec![9.0; input.len()];
            grid_sample_input_backward(&sample, &grad, &grid, &mut back).unwrap();
            (bits(&out), bits(&back))
        };
        let got = if round < 6 { everywhere(run) } else { run() };
        assert_eq!(got.0, bits(&values), "{size:?} {padding:?} align {align}");
        assert_eq!(got.1, bits(&expected), "{size:?} {padding:?} align {align}");
    }
}

/// Computes both gradients of linear sampling in f64 in the order of the module: (input, grid).
fn linear_gradients(
    sample: &Sampling,
    input: &[f64],
    grid: &[f64],
    grad: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    let [_, height, width] = sample.input();
    let (points, channels, plane) = (sample.points(), sample.channels(), height * width);
    let align = sample.params().align_corners;
    let border = sample.params().padding == GridPadding::Border;
    // The taps (place, weight, derivative) and the derivative of the position.
    let axis = |coordinate: f64, n: usize| {
        let size = n as f64;
        let (mut at, mut scale) = if align {
            ((coordinate + 1.0) * ((size - 1.0) / 2.0), (size - 1.0) / 2.0)
        } else {
            (((coordinate + 1.0) * size - 1.0) / 2.0, size / 2.0)
        };
        if border && !(at > 0.0 && at < size - 1.0) {
            (at, scale) = (at.clamp(0.0, size - 1.0), 0.0);
        }
        let left = at.floor();
        let taps = [(left, 1.0 - (at - left), -1.0), (left + 1.0, at - left, 1.0)];
        (taps.map(|(place, w, s)| (place >= 0.0 && place < size).then_some((place, w, s))), scale)
    };
    let (mut by_input, mut by_grid) = (vec![0.0; input.len()], vec![0.0; grid.len()]);
    for (point, at) in grid.chunks_exact(2).enumerate() {
        let ((across, across_scale), (down, down_scale)) =
            (axis(at[0], width), axis(at[1], height));
        let mut sums = [0.0; 2];
        for channel in 0..channels {
            let row = point / points * channels + channel;
            let g = grad[row * points + point % points];
            let mut inner = [0.0; 2];
            for (y, wy, sy) in down.into_iter().flatten() {
                for (x, wx, sx) in across.into_iter().flatten() {
                    let place = row * plane + y as usize * width + x as usize;
                    if wy * wx != 0.0 {
                        by_input[place] += g * (wy * wx);
                    }
                    for (inner, slope) in inner.iter_mut().zip([wy * sx, sy * wx]) {
                        if slope != 0.0 {
                            *inner += input[place] * slope;
                        }
                    }
                }
            }
            for (sum, inner) in sums.iter_mut().zip(inner) {
                *sum += g * inner;
            }
        }
        by_grid[2 * point] = sums[0] * across_scale;
        by_grid[2 * point + 1] = sums[1] * down_scale;
    }
    (by_input, by_grid)
}

#[test]
fn linear_gradients_follow_the_written_order_everywhere() {
    let mut random = Random(5);
    for round in 0..24 {
        let (batch, channels) = (1 + random.below(9), 1 + random.below(9));
        let size = [1 + random.below(7), 1 + random.below(7)];
        let (points, align) = (1 + random.below(40), random.below(2) == 1);
        let sample = sampling(
            "g",
            [batch, channels, points],
            &size,
            params(GridMode::Linear, PADDINGS[round % 2], align),
        )
        .unwrap();
        let mut input: Vec<f64> = random.wide(sample.input_len());
        let mut grad: Vec<f64> = random.wide(sample.output_len());
        if round % 4 == 3 {
            // Of the neighbours of these, some have no weight and must not turn into NaN.
            let (at, from) = (random.below(input.len()), random.below(grad.len()));
            (input[at], grad[from]) = (f64::INFINITY, f64::NEG_INFINITY);
        }
        let mut grid: Vec<f64> =
            (0..sample.grid_len()).map(|_| random.unit::<f64>() * 1.5).collect();
        // Some points lie on elements.
        grid.iter_mut().step_by(5).for_each(|x| *x = 1.0);
        let canonical = |values: Vec<f64>| -> Vec<f64> {
            values.iter().map(|x| if x.is_nan() { f64::NAN } else { *x }).collect()
        };
        let (by_input, by_grid) = linear_gradients(&sample, &input, &grid, &grad);
        let (by_input, by_grid) = (canonical(by_input), canonical(by_grid));
        let got = everywhere(|| {
            let mut by_input = vec![9.0; input.len()];
            grid_sample_input_backward(&sample, &grad, &grid, &mut by_input).unwrap();
            let mut by_grid = vec![9.0; grid.len()];
            grid_sample_grid_backward(&sample, &grad, &input, &grid, &mut by_grid).unwrap();
            (bits(&by_input), bits(&by_grid))
        });
        assert_eq!(got.0, bits(&by_input), "{sample:?}: the input");
        assert_eq!(got.1, bits(&by_grid), "{sample:?}: the grid");
    }
}

/// A sampling with its input, grid and output gradient.
type Case = (Sampling, Vec<f64>, Vec<f64>, Vec<f64>);

/// Returns a case of every mode, with its own random input.
fn cases() -> Vec<Case> {
    let mut random = Random(2);
    let mut cases = Vec::new();
    for padding in PADDINGS {
        for align in [false, true] {
            for (mode, size) in [
                (GridMode::Nearest, &[4, 5][..]),
                (GridMode::Linear, &[4, 5]),
                (GridMode::Cubic, &[6, 5]),
                (GridMode::Nearest, &[3, 4, 5]),
                (GridMode::Linear, &[3, 4, 5]),
            ] {
                let sample = sampling("g", [2, 3, 40], size, params(mode, padding, align)).unwrap();
                let input = random.units(sample.input_len());
                let grid: Vec<f64> =
                    random.units::<f64>(sample.grid_len()).iter().map(|x| 1.7 * x).collect();
                let grad = random.units(sample.output_len());
                cases.push((sample, input, grid, grad));
            }
        }
    }
    cases
}

#[test]
fn gradients_equal_finite_differences() {
    for (sample, input, grid, grad) in cases() {
        let loss = |input: &[f64], grid: &[f64]| {
            let mut out = vec![0.0; grad.len()];
            grid_sample(&sample, input, grid, &mut out).unwrap();
            out.iter().zip(&grad).map(|(x, g)| x * g).fold(0.0, |sum, x| sum + x)
        };
        let mut by_input = vec![0.0; input.len()];
        grid_sample_input_backward(&sample, &grad, &grid, &mut by_input).unwrap();
        let mut by_grid = vec![9.0; grid.len()];
        grid_sample_grid_backward(&sample, &grad, &input, &grid, &mut by_grid).unwrap();
        let step = 1e-6;
        for (at, gradient) in by_input.iter().enumerate().step_by(7) {
            let (mut low, mut high) = (input.clone(), input.clone());
            low[at] -= step;
            high[at] += step;
            let slope = (loss(&high, &grid) - loss(&low, &grid)) / (2.0 * step);
            assert!((slope - gradient).abs() < 1e-6, "{sample:?} input {at}: {slope} {gradient}");
        }
        let mut kinks = 0;
        for (at, gradient) in by_grid.iter().enumerate().step_by(3) {
            let (mut low, mut high) = (grid.clone(), grid.clone());
            low[at] -= step;
            high[at] += step;
            let slope = (loss(&input, &high) - loss(&input, &low)) / (2.0 * step);
            // Sampling is not smooth where a point crosses an element.
            kinks += usize::from((slope - gradient).abs() > 1e-5);
        }
        assert!(kinks <= 1, "{sample:?}: {kinks} of {} slopes differ", by_grid.len() / 3);
    }
}

#[test]
fn every_mode_is_the_same_everywhere() {
    for (sample, input, grid, grad) in cases() {
        let narrow = |values: &[f64]| values.iter().map(|&x| x as f32).collect::<Vec<f32>>();
        let (input, grid, grad) = (narrow(&input), narrow(&grid), narrow(&grad));
        everywhere(|| {
            let mut out = vec![9.0; grad.len()];
            grid_sample(&sample, &input, &grid, &mut out).unwrap();
            let mut back = vec![9.0; input.len()];
            grid_sample_input_backward(&sample, &grad, &grid, &mut back).unwrap();
            let mut points = vec![9.0; grid.len()];
            grid_sample_grid_backward(&sample, &grad, &input, &grid, &mut points).unwrap();
            (bits(&out), bits(&back), bits(&points))
        });
    }
}

#[test]
fn points_that_are_no_numbers_sample_nothing() {
    let grid = [f32::NAN, 0.0, 0.0, f32::INFINITY, -3e38, 3e38];
    for padding in PADDINGS {
        for mode in [GridMode::Nearest, GridMode::Linear, GridMode::Cubic] {
            let sample = sampling("g", [1, 1, 3], &[3, 3], params(mode, padding, true)).unwrap();
            let mut out = [9.0f32; 3];
            grid_sample(&sample, &[1.0; 9], &grid, &mut out).unwrap();
            assert_eq!(out[0].to_bits(), 0, "{padding:?} {mode:?}");
            let mut points = [9.0f32; 6];
            grid_sample_grid_backward(&sample, &[1.0; 3], &[1.0; 9], &grid, &mut points).unwrap();
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let new = |size: &[usize], mode| {
        sampling("g", [1; 3], size, params(mode, GridPadding::Zeros, true)).map(|_| ())
    };
    assert!(new(&[3], GridMode::Linear).is_err());
    assert!(new(&[3, 0], GridMode::Linear).is_err());
    assert!(new(&[3, 3, 3], GridMode::Cubic).is_err());
    let sample =
        sampling("g", [1; 3], &[2, 2], params(GridMode::Linear, GridPadding::Zeros, true)).unwrap();
    let mut out = [0.0f32; 1];
    assert!(grid_sample(&sample, &[0.0; 4], &[0.0; 3], &mut out).is_err());
    assert!(grid_sample(&sample, &[0.0; 3], &[0.0; 2], &mut out).is_err());
    let empty =
        sampling("g", [0, 1, 1], &[2, 2], params(GridMode::Linear, GridPadding::Zeros, true))
            .unwrap();
    grid_sample::<f32>(&empty, &[], &[], &mut []).unwrap();
    grid_sample_input_backward::<f32>(&empty, &[], &[], &mut []).unwrap();
    grid_sample_grid_backward::<f32>(&empty, &[], &[], &[], &mut []).unwrap();
}

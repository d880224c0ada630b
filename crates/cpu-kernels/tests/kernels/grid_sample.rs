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
        let (batch, channels) = (1 + random.below(2), 1 + random.below(3));
        let size = [1 + random.below(6), 1 + random.below(6)];
        let (points, align) = (1 + random.below(30), random.below(2) == 1);
        let padding = PADDINGS[round % 3];
        let sample = sampling(
            "g",
            [batch, channels, points],
            &size,
            params(GridMode::Linear, padding, align),
        )
        .unwrap();
        let input: Vec<f32> = random.wide(sample.input_len());
        // Multiples of 1/16, so that any way of mirroring is exact.
        let grid: Vec<f32> =
            (0..sample.grid_len()).map(|_| random.below(64) as f32 / 16.0 - 2.0).collect();
        let grad: Vec<f32> = random.wide(sample.output_len());
        let plane = size[0] * size[1];
        let mut values = vec![0.0f32; grad.len()];
        let mut sums = vec![ExactSum::new(); input.len()];
        for at in 0..grad.len() {
            let (c, point) = (at / points, at % points);
            let place = (c / channels * points + point) * 2;
            for (tap, weight) in linear_taps(&grid[place..place + 2], size, padding, align) {
                let from = c * plane + tap;
                values[at] = input[from].mul_add(weight as f32, values[at]);
                sums[from].add(grad[at] * weight as f32);
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

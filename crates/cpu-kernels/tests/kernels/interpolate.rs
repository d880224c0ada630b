//! Interpolation against loops written from the definition.

use crate::invariance::{Random, bits, everywhere};
use samebits_cpu_kernels::Float;
use samebits_cpu_kernels::interpolate::{
    InterpolateMode, Resize, interpolate, interpolate_backward,
};
use std::collections::BTreeMap;

/// Returns the inputs of output `o` and their weights; positions beyond the border move to it.
fn taps(
    o: usize,
    input: usize,
    output: usize,
    scale: Option<f64>,
    mode: InterpolateMode,
) -> BTreeMap<usize, f64> {
    let (o, n) = (o as f64, input as f64);
    // Integers and their halves are exact.
    let product = |o: f64, n: f64, of: f64| match o * n / of {
        exact if (2.0 * exact).fract() == 0.0 => exact,
        _ => o * (n / of),
    };
    let covered = |o| scale.map_or_else(|| product(o, n, output as f64), |s| product(o, 1.0, s));
    let at = |align: bool| {
        if !align {
            covered(o + 0.5) - 0.5
        } else if output > 1 {
            product(o, n - 1.0, output as f64 - 1.0)
        } else {
            0.0
        }
    };
    let kernel = |x: f64| {
        let (a, x) = (-0.75, x.abs());
        if x <= 1.0 {
            ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
        } else {
            ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
        }
    };
    let mut list: Vec<(f64, f64)> = Vec::new();
    match mode {
        InterpolateMode::Nearest => list.push((covered(o).floor(), 1.0)),
        InterpolateMode::NearestExact => list.push((covered(o + 0.5).floor(), 1.0)),
        InterpolateMode::Linear { align_corners } => {
            let at = at(align_corners).max(0.0);
            let left = at.floor().min(n - 1.0);
            let part = (at - left).min(1.0);
            list.extend([(left, 1.0 - part), (left + 1.0, part)]);
        }
        InterpolateMode::Cubic { align_corners } => {
            let at = at(align_corners);
            let t = at - at.floor();
            for (k, x) in [t + 1.0, t, 1.0 - t, 2.0 - t].into_iter().enumerate() {
                list.push((at.floor() + k as f64 - 1.0, kernel(x)));
            }
        }
        InterpolateMode::LinearAntialias { align_corners }
        | InterpolateMode::CubicAntialias { align_corners } => {
            let step = match align_corners {
                false => covered(1.0),
                true if output > 1 => (n - 1.0) / (output as f64 - 1.0),
                true => 0.0,
            };
            let centre = step * (o + 0.5);
            // Every input under the kernel, wherever it lies.
            for i in 0..input {
                let weight = filter((i as f64 - centre + 0.5) / step.max(1.0), mode);
                if weight != 0.0 {
                    list.push((i as f64, weight));
                }
            }
            let total = list.iter().fold(0.0, |total, tap| total + tap.1);
            list.iter_mut().for_each(|tap| tap.1 /= total);
        }
    }
    let mut merged = BTreeMap::new();
    for (place, weight) in list {
        let place = place.clamp(0.0, n - 1.0) as usize;
        merged.entry(place).and_modify(|sum| *sum += weight).or_insert(weight);
    }
    merged
}

/// Evaluates the triangle filter, or Keys' cubic with a = -0.5.
fn filter(x: f64, mode: InterpolateMode) -> f64 {
    let (a, x) = (-0.5, x.abs());
    match mode {
        InterpolateMode::LinearAntialias { .. } => (1.0 - x).max(0.0),
        _ if x < 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        _ if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * a,
        _ => 0.0,
    }
}

fn check<T: Float>(seed: u64) {
    let mut random = Random(seed);
    for round in 0..150 {
        let dims = 1 + random.below(3);
        let input: Vec<usize> = (0..dims).map(|_| 1 + random.below(11)).collect();
        let output: Vec<usize> = (0..dims).map(|_| 1 + random.below(9)).collect();
        let align_corners = random.below(2) == 1;
        let mode = [
            InterpolateMode::Nearest,
            InterpolateMode::NearestExact,
            InterpolateMode::Linear { align_corners },
            InterpolateMode::Cubic { align_corners },
            InterpolateMode::LinearAntialias { align_corners },
            InterpolateMode::CubicAntialias { align_corners },
        ][round % 6];
        let scale: Vec<Option<f64>> = (0..dims)
            .map(|d| (random.below(3) == 0).then(|| (output[d] as f64 + 0.25) / input[d] as f64))
            .collect();
        let planes = 1 + random.below(3);
        let resize =
            Resize::new("i", &[&[1, planes], &input[..]].concat(), &output, &scale, mode).unwrap();
        let x: Vec<T> = random.wide(resize.input_len());
        let grad: Vec<T> = random.wide(resize.output_len());
        // One dimension at a time, in three dimensions.
        let (mut size, mut target) = ([1; 3], [1; 3]);
        size[3 - dims..].copy_from_slice(&input);
        target[3 - dims..].copy_from_slice(&output);
        let tap = |dim: usize, o: usize| match (dim + dims).checked_sub(3) {
            None => BTreeMap::from([(0, 1.0)]),
            Some(d) => taps(o, input[d], output[d], scale[d], mode),
        };
        let (small, large) = (size.iter().product::<usize>(), target.iter().product::<usize>());
        let mut values = vec![T::ZERO; grad.len()];
        let mut back = vec![T::ZERO; x.len()];
        for at in 0..grad.len() {
            let o = at % large;
            let [_, height, width] = target;
            for (d, wd) in tap(0, o / (height * width)) {
                for (h, wh) in tap(1, o / width % height) {
                    for (w, ww) in tap(2, o % width) {
                        let weight = T::from_f64(wd) * T::from_f64(wh) * T::from_f64(ww);
                        let from = at / large * small + (d * size[1] + h) * size[2] + w;
                        values[at] = x[from].mul_add(weight, values[at]);
                        back[from] = grad[at].mul_add(weight, back[from]);
                    }
                }
            }
        }
        let run = || {
            let mut out = vec![T::ONE; values.len()];
            interpolate(&resize, &x, &mut out).unwrap();
            let mut got = vec![T::ONE; back.len()];
            interpolate_backward(&resize, &grad, &mut got).unwrap();
            (bits(&out), bits(&got))
        };
        let got = if round < 8 { everywhere(run) } else { run() };
        assert_eq!(got.0, bits(&values), "{input:?} -> {output:?}, {mode:?} {scale:?}");
        assert_eq!(got.1, bits(&back), "{input:?} -> {output:?}, {mode:?} {scale:?}");
    }
}

#[test]
fn every_mode_equals_the_definition() {
    check::<f32>(1);
    check::<f64>(2);
}

#[test]
fn large_images_are_the_same_everywhere() {
    let mut random = Random(3);
    let mode = InterpolateMode::Linear { align_corners: false };
    let resize = Resize::new("i", &[1, 10, 56, 56], &[112, 112], &[None, None], mode).unwrap();
    let grad = random.units(resize.output_len());
    let x = random.units(resize.input_len());
    everywhere(|| {
        let (mut out, mut back) = (vec![0.0; grad.len()], vec![0.0; x.len()]);
        interpolate(&resize, &x, &mut out).unwrap();
        interpolate_backward(&resize, &grad, &mut back).unwrap();
        (bits(&out), bits(&back))
    });
}

#[test]
fn an_infinite_neighbour_that_is_not_a_tap_does_no_harm() {
    let mode = InterpolateMode::Linear { align_corners: false };
    // Outputs 0 and 3 lie outside the centres and take only one input.
    let resize = Resize::new("i", &[1, 1, 2], &[4], &[None], mode).unwrap();
    let mut back = [0.0f32; 2];
    interpolate_backward(&resize, &[1.0, 1.0, 1.0, f32::INFINITY], &mut back).unwrap();
    assert_eq!(back, [2.0, f32::INFINITY]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mode = InterpolateMode::Nearest;
    let new = |input: &[usize], output: &[usize], scale: &[Option<f64>]| {
        Resize::new("i", &[&[1, 1], input].concat(), output, scale, mode).map(|_| ())
    };
    assert!(new(&[0], &[1], &[None]).is_err());
    assert!(new(&[1], &[1, 1], &[None]).is_err());
    assert!(new(&[1], &[1], &[Some(0.0)]).is_err());
    assert!(new(&[1], &[1], &[Some(f64::NAN)]).is_err());
    assert!(new(&[], &[], &[]).is_err());
    let none = Resize::new("i", &[1, 2, 3], &[0], &[None], mode).unwrap();
    interpolate(&none, &[0.0f32; 6], &mut []).unwrap();
    let mut back = [1.0f32; 6];
    interpolate_backward(&none, &[], &mut back).unwrap();
    assert_eq!(back, [0.0; 6]);
    assert!(interpolate(&none, &[0.0f32; 5], &mut []).is_err());
}

//! Resizing and its gradient.

use crate::data::{Source, bits, clean, order_sensitive, same};
use crate::device::{on_device, under_schedules, varies};
use samebits_cuda_kernels::Variant::{Atomic, Deterministic};
use samebits_cuda_kernels::interpolate::{InterpolateMode, Resize, interpolate, interpolate_grad};

/// Returns the taps of output `o` in one dimension, by the definition.
fn taps(o: usize, input: usize, output: usize, mode: InterpolateMode) -> Vec<(usize, f32)> {
    // Integers and their halves are exact.
    let product = |o: f64, n: usize, of: usize| match o * n as f64 / of as f64 {
        exact if (2.0 * exact).fract() == 0.0 => exact,
        _ => o * (n as f64 / of as f64),
    };
    let covered = |o: f64| product(o, input, output);
    let top = input - 1;
    let centre = |align: bool| match align {
        true if output > 1 => product(o as f64, top, output - 1),
        true => 0.0,
        false => covered(o as f64 + 0.5) - 0.5,
    };
    let raw: Vec<(i64, f64)> = match mode {
        InterpolateMode::Nearest => vec![(covered(o as f64) as i64, 1.0)],
        InterpolateMode::NearestExact => vec![(covered(o as f64 + 0.5) as i64, 1.0)],
        InterpolateMode::Linear { align_corners } => {
            let at = centre(align_corners).max(0.0);
            let part = at - at.floor();
            vec![(at as i64, 1.0 - part), (at as i64 + 1, part)]
        }
        InterpolateMode::Cubic { align_corners } => {
            let at = centre(align_corners);
            let t = at - at.floor();
            let a = -0.75f64;
            let near = |x: f64| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
            let far = |x: f64| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
            let weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
            (0..4).map(|k| (at.floor() as i64 + k as i64 - 1, weights[k])).collect()
        }
        InterpolateMode::LinearAntialias { .. } | InterpolateMode::CubicAntialias { .. } => {
            unreachable!("compared with the CPU's in the workspace tests")
        }
    };
    let mut found: Vec<(usize, f64)> = Vec::new();
    for (place, weight) in raw {
        let place = place.clamp(0, top as i64) as usize;
        match found.last_mut() {
            Some(last) if last.0 == place => last.1 += weight,
            _ => found.push((place, weight)),
        }
    }
    found.into_iter().map(|(place, weight)| (place, weight as f32)).collect()
}

#[test]
fn resizing_and_its_gradient() {
    use InterpolateMode::{Cubic, Linear, Nearest, NearestExact};
    let modes = [
        Nearest,
        NearestExact,
        Linear { align_corners: false },
        Linear { align_corners: true },
        Cubic { align_corners: false },
        Cubic { align_corners: true },
    ];
    under_schedules(|device| {
        let mut all = Vec::new();
        let cases: [(&[usize], &[usize]); 4] =
            [(&[5], &[12]), (&[7, 6], &[3, 11]), (&[1, 4], &[3, 1]), (&[3, 4, 2], &[5, 2, 4])];
        for (input, output) in cases {
            for mode in modes {
                let planes = 9;
                let rank = input.len();
                let none = vec![None; rank];
                let resize =
                    Resize::new("i", &[&[1, planes], input].concat(), output, &none, mode).unwrap();
                let (n_in, n): (usize, usize) = (input.iter().product(), output.iter().product());
                // (position, weight) of each output, row-major; three dimensions, so that the
                // weight is (w_d * w_h) * w_w.
                let table = |mut o: usize| -> Vec<(usize, f32)> {
                    let mut axes = vec![vec![(0, 1.0f32)]; 3];
                    for d in (0..rank).rev() {
                        axes[3 - rank + d] = taps(o % output[d], input[d], output[d], mode);
                        o /= output[d];
                    }
                    let size = |d: usize| if d + rank < 3 { 1 } else { input[d + rank - 3] };
                    let mut found = Vec::new();
                    for &(d, wd) in &axes[0] {
                        for &(h, wh) in &axes[1] {
                            for &(w, ww) in &axes[2] {
                                found.push(((d * size(1) + h) * size(2) + w, wd * wh * ww));
                            }
                        }
                    }
                    found
                };
                let mut source = Source::new(n as u64);
                let (x, grad) = (source.wild(planes * n_in), source.wild(planes * n));
                let what = format!("{input:?} {output:?} {mode:?}");
                let expected: Vec<f32> = (0..planes * n)
                    .map(|o| {
                        let plane = &x[o / n * n_in..];
                        let add = |sum: f32, (p, w): (usize, f32)| plane[p].mul_add(w, sum);
                        clean(table(o % n).into_iter().fold(0.0, add))
                    })
                    .collect();
                let got = interpolate(device, &device.upload(&x).unwrap(), &resize).unwrap();
                same(&what, &device.download(&got).unwrap(), &expected);
                let mut back = vec![0.0f32; planes * n_in];
                for o in 0..planes * n {
                    for (p, w) in table(o % n) {
                        let sum = &mut back[o / n * n_in + p];
                        *sum = grad[o].mul_add(w, *sum);
                    }
                }
                let back: Vec<f32> = back.into_iter().map(clean).collect();
                let g = device.upload(&grad).unwrap();
                let got = interpolate_grad(device, &g, &resize, Deterministic).unwrap();
                let got = device.download(&got).unwrap();
                same(&format!("{what} gradient"), &got, &back);
                all.extend(bits(&got));
            }
        }
        all
    });
}

#[test]
fn sizes_beyond_32_bits_are_refused() {
    on_device(|device| {
        let x = device.upload(&[1.0f32]).unwrap();
        let mode = InterpolateMode::Nearest;
        let resize = Resize::new("interpolate", &[1, 1, 1], &[1 << 31], &[None], mode).unwrap();
        let error = interpolate(device, &x, &resize).unwrap_err().to_string();
        let sizes = "sizes [1, 1, 2147483648] must be below 2^31 on a CUDA device";
        assert_eq!(error, format!("interpolate: {sizes}"));
    });
}

#[test]
fn the_atomic_gradient_varies() {
    let grad = order_sensitive(300);
    varies(|device| {
        let mode = InterpolateMode::Linear { align_corners: false };
        let resize = Resize::new("i", &[1, 1, 1], &[300], &[None], mode).unwrap();
        let g = device.upload(&grad).unwrap();
        bits(&device.download(&interpolate_grad(device, &g, &resize, Atomic).unwrap()).unwrap())
    });
}

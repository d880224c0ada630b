//! Padding and its gradient.

use crate::data::{Source, bits, clean, order_sensitive, same};
use crate::device::{on_device, under_schedules, varies};
use samebits_cuda_kernels::Variant::{Atomic, Deterministic};
use samebits_cuda_kernels::padding::{PadMode, Padding, pad, pad_grad};

/// Returns the input position that output `o` copies.
fn copied(mode: PadMode, o: usize, size: usize, [before, after]: [i64; 2]) -> Option<usize> {
    let (n, i) = (size as i64, o as i64 - before);
    if mode == PadMode::Circular {
        // The part that is not cropped.
        let kept: Vec<i64> = (-before.min(0)..n + after.min(0)).collect();
        return Some(kept[(i - kept[0]).rem_euclid(kept.len() as i64) as usize] as usize);
    }
    if (0..n).contains(&i) {
        return Some(i as usize);
    }
    let i = match mode {
        PadMode::Constant => return None,
        PadMode::Reflect => {
            if i < 0 {
                -i
            } else {
                2 * (n - 1) - i
            }
        }
        PadMode::Replicate => i.clamp(0, n - 1),
        PadMode::Circular => unreachable!(),
    };
    Some(i as usize)
}

#[test]
fn padding_and_its_gradient() {
    type Case = (&'static [usize], &'static [[i64; 2]]);
    let cases: [Case; 6] = [
        (&[5], &[[3, 2]]),
        (&[4, 6], &[[1, 3], [2, 0]]),
        (&[6, 5], &[[-1, 2], [3, -2]]),
        (&[3, 4, 5], &[[2, 1], [1, 1], [0, 4]]),
        (&[1, 7], &[[0, 0], [-3, -3]]),
        (&[4, 5, 6], &[[-2, 2], [1, -3], [-1, 4]]),
    ];
    under_schedules(|device| {
        let mut all = Vec::new();
        for (input, amounts) in cases {
            for mode in [PadMode::Constant, PadMode::Reflect, PadMode::Replicate, PadMode::Circular]
            {
                let planes = 10;
                let padding =
                    Padding::new("pad", &[&[planes], input].concat(), amounts, mode).unwrap();
                let output = &padding.output_shape()[1..];
                let rank = input.len();
                let (n_in, n): (usize, usize) = (input.iter().product(), output.iter().product());
                let place = |mut o: usize| -> Option<usize> {
                    let (mut place, mut step) = (0, 1);
                    for d in (0..rank).rev() {
                        let size = output[d];
                        place += step * copied(mode, o % size, input[d], amounts[d])?;
                        (o, step) = (o / size, step * input[d]);
                    }
                    Some(place)
                };
                let mut source = Source::new(n as u64);
                let (x, grad) = (source.broken(planes * n_in), source.wild(planes * n));
                let expected: Vec<f32> = (0..planes * n)
                    .map(|o| place(o % n).map_or(-0.25, |p| x[o / n * n_in + p]))
                    .collect();
                let what = format!("{input:?} {amounts:?} {mode:?}");
                let buffer = device.upload(&x).unwrap();
                let got = pad(device, &buffer, &padding, -0.25).unwrap();
                same(&what, &device.download(&got).unwrap(), &expected);
                let mut back = vec![0.0f32; planes * n_in];
                for o in 0..planes * n {
                    if let Some(p) = place(o % n) {
                        back[o / n * n_in + p] += grad[o];
                    }
                }
                let back: Vec<f32> = back.into_iter().map(clean).collect();
                let g = device.upload(&grad).unwrap();
                let got = pad_grad(device, &g, &padding, Deterministic).unwrap();
                let got = device.download(&got).unwrap();
                same(&format!("{what} gradient"), &got, &back);
                all.extend(bits(&got));
            }
        }
        all
    });
}

#[test]
fn paddings_beyond_32_bits_are_refused() {
    on_device(|device| {
        let x = device.upload(&[1.0f32; 3]).unwrap();
        let padding =
            Padding::new("pad", &[3], &[[1 << 31, 2 - (1 << 31)]], PadMode::Constant).unwrap();
        let error = pad(device, &x, &padding, 0.0).unwrap_err().to_string();
        assert_eq!(error, "pad: padding [0, 0, 2147483648] must be below 2^31 on a CUDA device");
    });
}

#[test]
fn the_atomic_gradient_varies() {
    let padding = Padding::new("pad", &[1], &[[150, 150]], PadMode::Replicate).unwrap();
    let grad = order_sensitive(301);
    varies(|device| {
        let g = device.upload(&grad).unwrap();
        bits(&device.download(&pad_grad(device, &g, &padding, Atomic).unwrap()).unwrap())
    });
}

//! Padding against loops written from the definition.

use crate::invariance::{Random, bits, everywhere};
use samebits_cpu_kernels::padding::{PadMode, Padding, pad, pad_backward};

/// Returns the input position of output `o` in one dimension.
fn source(o: i64, [before, after]: [i64; 2], size: i64, mode: PadMode) -> Option<i64> {
    let at = o - before;
    let (first, end) = (-before.min(0), size + after.min(0));
    match mode {
        // Wraps around the part that is not cropped.
        PadMode::Circular => Some((at - first + 10 * (end - first)) % (end - first) + first),
        _ if (0..size).contains(&at) => Some(at),
        PadMode::Constant => None,
        PadMode::Replicate => Some(if at < 0 { 0 } else { size - 1 }),
        PadMode::Reflect => Some(if at < 0 { -at } else { size - 1 - (at - (size - 1)) }),
    }
}

#[test]
fn every_mode_equals_the_definition() {
    let mut random = Random(1);
    let modes = [PadMode::Constant, PadMode::Reflect, PadMode::Replicate, PadMode::Circular];
    let mut done = 0;
    for round in 0..400 {
        let mode = modes[round % 4];
        let dims = 1 + random.below(3);
        let input: Vec<usize> = (0..dims).map(|_| 1 + random.below(7)).collect();
        let pads: Vec<[i64; 2]> =
            (0..dims).map(|_| [random.below(9) as i64 - 2, random.below(9) as i64 - 2]).collect();
        let planes = 1 + random.below(3);
        let fits = input.iter().zip(&pads).all(|(&n, &[before, after])| {
            let n = n as i64;
            let largest = match mode {
                PadMode::Reflect => n - 1,
                PadMode::Circular => n + before.min(0) + after.min(0),
                _ => 100,
            };
            before <= largest && after <= largest && n + before + after >= 0
        });
        let padding = Padding::new("pad", &[&[planes], &input[..]].concat(), &pads, mode);
        assert_eq!(padding.is_ok(), fits, "{input:?} {pads:?} {mode:?}");
        let Ok(padding) = padding else { continue };
        done += 1;
        let output = &padding.output_shape()[1..];
        let (small, large) = (input.iter().product::<usize>(), output.iter().product::<usize>());
        let x: Vec<f32> = random.wide(planes * small);
        let grad: Vec<f32> = random.wide(planes * large);
        let mut values = vec![0.5f32; planes * large];
        let mut back = vec![0.0f32; planes * small];
        for at in 0..planes * large {
            let mut rest = at % large;
            let mut position = Some(0usize);
            let mut scale = 1;
            for d in (0..dims).rev() {
                let o = (rest % output[d]) as i64;
                rest /= output[d];
                position = position.and_then(|sum| {
                    let i = source(o, pads[d], input[d] as i64, mode)?;
                    Some(sum + i as usize * scale)
                });
                scale *= input[d];
            }
            if let Some(position) = position {
                let place = at / large * small + position;
                values[at] = x[place];
                back[place] += grad[at];
            }
        }
        let run = || {
            let mut out = vec![9.0; values.len()];
            pad(&padding, &x, 0.5, &mut out).unwrap();
            let mut got = vec![9.0; back.len()];
            pad_backward(&padding, &grad, &mut got).unwrap();
            (bits(&out), bits(&got))
        };
        let got = if round < 12 { everywhere(run) } else { run() };
        assert_eq!(got.0, bits(&values), "{input:?} {pads:?} {mode:?}");
        assert_eq!(got.1, bits(&back), "{input:?} {pads:?} {mode:?}");
    }
    assert!(done > 100, "only {done} cases fit");
}

#[test]
fn large_images_are_the_same_everywhere() {
    let mut random = Random(2);
    let padding = Padding::new("pad", &[20, 56, 57], &[[3, 2], [3, 4]], PadMode::Reflect).unwrap();
    let grad: Vec<f64> = random.units(padding.output_len());
    everywhere(|| {
        let mut back = vec![9.0; padding.input_len()];
        pad_backward(&padding, &grad, &mut back).unwrap();
        bits(&back)
    });
}

#[test]
fn nan_gradients_are_canonical_and_values_keep_their_bits() {
    let nan = f32::from_bits(0xffc0_0007);
    let padding = Padding::new("pad", &[2], &[[1, 0]], PadMode::Replicate).unwrap();
    let mut out = [0.0; 3];
    pad(&padding, &[nan, 1.0], 0.0, &mut out).unwrap();
    assert_eq!(bits(&out), [0xffc0_0007, 0xffc0_0007, 0x3f80_0000]);
    let mut back = [0.0; 2];
    pad_backward(&padding, &[1.0, nan, -0.0], &mut back).unwrap();
    assert_eq!(bits(&back), [0x7fc0_0000, 0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let error = Padding::new("pad", &[3], &[[3, 0]], PadMode::Reflect).unwrap_err();
    assert_eq!(error.to_string(), "pad: Reflect padding by 3 and 0 does not fit a size of 3");
    assert!(Padding::new("pad", &[3], &[[-2, -2]], PadMode::Constant).is_err());
    assert!(Padding::new("pad", &[3], &[[i64::MAX, 1]], PadMode::Constant).is_err());
    assert!(Padding::new("pad", &[0], &[[1, 0]], PadMode::Replicate).is_err());
    assert!(Padding::new("pad", &[0], &[[1, 0]], PadMode::Circular).is_err());
    assert!(Padding::new("pad", &[], &[], PadMode::Constant).is_err());
    let empty = Padding::new("pad", &[0], &[[1, 1]], PadMode::Constant).unwrap();
    let mut out = [0.0f32; 2];
    pad(&empty, &[], 3.0, &mut out).unwrap();
    assert_eq!(out, [3.0; 2]);
    pad_backward::<f32>(&empty, &[1.0, 1.0], &mut []).unwrap();
    assert!(pad(&empty, &[1.0f32], 3.0, &mut out).is_err());
}

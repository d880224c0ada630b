//! Convolutions in the written order.

use crate::data::{Source, bits, clean, same};
use crate::device::{under_schedules, varies};
use samebits_cuda_kernels::Variant::{Atomic, Deterministic};
use samebits_cuda_kernels::conv::{Convolution, Params};
use samebits_numerics::reduce::sum_by;

struct Case {
    input: Vec<usize>,
    weight: Vec<usize>,
    params: Params,
}

fn cases() -> Vec<Case> {
    let case = |input: &[usize], weight: &[usize], s: usize, p: usize, d: usize, groups: usize| {
        let each = |x| vec![x; input.len() - 2];
        let params = Params { stride: each(s), padding: each(p), dilation: each(d), groups };
        Case { input: input.to_vec(), weight: weight.to_vec(), params }
    };
    vec![
        case(&[2, 3, 8], &[4, 3, 3], 1, 1, 1, 1),
        case(&[2, 4, 6, 7], &[6, 2, 3, 2], 2, 1, 1, 2),
        // More than 256 k, so that blocks are added.
        case(&[1, 40, 5, 5], &[2, 40, 3, 3], 1, 2, 1, 1),
        case(&[1, 2, 9, 8], &[3, 2, 3, 3], 2, 2, 2, 1),
        case(&[1, 2, 4, 5, 3], &[2, 2, 2, 3, 2], 1, 1, 1, 1),
        // More than 1024 positions for the weight gradient.
        case(&[2, 1, 30, 30], &[2, 1, 3, 3], 1, 1, 1, 1),
    ]
}

/// What all passes walk over: (output element, k of the forward pass, input element, weight).
struct Link {
    out: usize,
    input: usize,
    weight: usize,
    k_forward: usize,
    k_input: usize,
    k_weight: usize,
}

/// Every pair of elements that meet, found by brute force.
fn links(case: &Case, output: &[usize]) -> Vec<Link> {
    let rank = case.input.len() - 2;
    let (size, kernel) = (&case.input[2..], &case.weight[2..]);
    let volume: usize = kernel.iter().product();
    let positions: usize = output[2..].iter().product();
    let plane: usize = size.iter().product();
    let (groups, inputs) = (case.params.groups, case.weight[1]);
    let outputs = case.weight[0] / groups;
    let coordinates = |mut i: usize, size: &[usize]| -> Vec<usize> {
        let mut found = vec![0; rank];
        for d in (0..rank).rev() {
            (found[d], i) = (i % size[d], i / size[d]);
        }
        found
    };
    let mut found = Vec::new();
    for image in 0..case.input[0] {
        for position in 0..positions {
            let o = coordinates(position, &output[2..]);
            for tap in 0..volume {
                let t = coordinates(tap, kernel);
                let place = (0..rank).try_fold(0, |place, d| {
                    let x = o[d] * case.params.stride[d] + t[d] * case.params.dilation[d];
                    let x = x.checked_sub(case.params.padding[d]).filter(|&x| x < size[d])?;
                    Some(place * size[d] + x)
                });
                let Some(place) = place else { continue };
                for group in 0..groups {
                    for oc in 0..outputs {
                        for ic in 0..inputs {
                            let channel = group * outputs + oc;
                            found.push(Link {
                                out: (image * groups * outputs + channel) * positions + position,
                                input: (image * groups * inputs + group * inputs + ic) * plane
                                    + place,
                                weight: (channel * inputs + ic) * volume + tap,
                                k_forward: ic * volume + tap,
                                k_input: oc * volume + tap,
                                k_weight: image * positions + position,
                            });
                        }
                    }
                }
            }
        }
    }
    found
}

/// Sums by the letter: ascending k, blocks of `block` counted over all `k_len` k.
fn chains(
    n: usize,
    k_len: usize,
    block: usize,
    mut terms: Vec<(usize, usize, f32, f32)>,
) -> Vec<f32> {
    terms.sort_by_key(|t| (t.0, t.1));
    let blocks = k_len.div_ceil(block);
    let mut out = vec![0.0f32; n];
    let mut at = 0;
    for (target, out) in out.iter_mut().enumerate() {
        for b in 0..blocks {
            let mut acc = 0.0f32;
            while at < terms.len() && terms[at].0 == target && terms[at].1 < (b + 1) * block {
                acc = terms[at].2.mul_add(terms[at].3, acc);
                at += 1;
            }
            *out = if b == 0 { acc } else { *out + acc };
        }
    }
    out
}

#[test]
fn all_passes_follow_the_written_order() {
    under_schedules(|device| {
        let mut all = Vec::new();
        for (number, case) in cases().into_iter().enumerate() {
            let conv = Convolution::new(&case.input, &case.weight, &case.params).unwrap();
            let output = conv.output_shape().to_vec();
            let links = links(&case, &output);
            let mut source = Source::new(number as u64);
            let len = |shape: &[usize]| shape.iter().product::<usize>();
            let mut make = |n| if number % 2 == 0 { source.plain(n) } else { source.wild(n) };
            let (x, w) = (make(len(&case.input)), make(len(&case.weight)));
            let (grad, bias) = (make(len(&output)), make(output[1]));
            let volume = len(&case.weight[2..]);
            let positions = len(&output[2..]);
            let upload = |x: &[f32]| device.upload(x).unwrap();
            let (x_dev, w_dev, g_dev) = (upload(&x), upload(&w), upload(&grad));

            let terms = links.iter().map(|l| (l.out, l.k_forward, w[l.weight], x[l.input]));
            let k = case.weight[1] * volume;
            let plain: Vec<f32> = chains(grad.len(), k, 256, terms.collect());
            let expected: Vec<f32> = plain.iter().map(|&v| clean(v)).collect();
            let got = conv.forward(device, &x_dev, &w_dev, None).unwrap();
            let got = device.download(&got).unwrap();
            same(&format!("case {number} forward"), &got, &expected);
            all.extend(bits(&got));
            let expected: Vec<f32> = plain
                .iter()
                .enumerate()
                .map(|(i, &v)| clean(clean(v) + bias[i / positions % output[1]]))
                .collect();
            let got = conv.forward(device, &x_dev, &w_dev, Some(&upload(&bias))).unwrap();
            same(&format!("case {number} bias"), &device.download(&got).unwrap(), &expected);

            let terms = links.iter().map(|l| (l.input, l.k_input, w[l.weight], grad[l.out]));
            let k = case.weight[0] / case.params.groups * volume;
            let expected = chains(x.len(), k, 256, terms.collect());
            let expected: Vec<f32> = expected.into_iter().map(clean).collect();
            let got = conv.input_grad(device, &g_dev, &w_dev, None).unwrap();
            same(&format!("case {number} input"), &device.download(&got).unwrap(), &expected);

            let terms = links.iter().map(|l| (l.weight, l.k_weight, x[l.input], grad[l.out]));
            let k = case.input[0] * positions;
            let expected = chains(w.len(), k, 1024, terms.collect());
            let expected: Vec<f32> = expected.into_iter().map(clean).collect();
            let got = conv.weight_grad(device, &g_dev, &x_dev, Deterministic).unwrap();
            same(&format!("case {number} weight"), &device.download(&got).unwrap(), &expected);

            let expected: Vec<f32> = (0..output[1])
                .map(|c| {
                    let term = |t: usize| {
                        let image = t / positions;
                        grad[(image * output[1] + c) * positions + t % positions]
                    };
                    clean(sum_by(case.input[0] * positions, |t| f64::from(term(t))) as f32)
                })
                .collect();
            let got = conv.bias_grad(device, &g_dev).unwrap();
            same(&format!("case {number} bias grad"), &device.download(&got).unwrap(), &expected);
        }
        all
    });
}

#[test]
fn padding_is_skipped_not_multiplied() {
    under_schedules(|device| {
        // An infinite weight times a padding zero would be NaN.
        let params = Params { stride: vec![1], padding: vec![1], dilation: vec![1], groups: 1 };
        let conv = Convolution::new(&[1, 1, 2], &[1, 1, 3], &params).unwrap();
        let x = device.upload(&[1.0f32, 2.0]).unwrap();
        let w = device.upload(&[f32::INFINITY, 1.0, 1.0]).unwrap();
        let got = conv.forward(device, &x, &w, None).unwrap();
        same("padding", &device.download(&got).unwrap(), &[3.0, f32::INFINITY]);
    });
}

#[test]
fn the_atomic_weight_gradient_varies() {
    // One block of positions each: 1, 2^24, -2^24.
    let n = 1024 * 6;
    let x: Vec<f32> = (0..n)
        .map(|i| if i % 1024 == 0 { [1.0, 16777216.0, -16777216.0][i / 1024 % 3] } else { 0.0 })
        .collect();
    let params = Params { stride: vec![1], padding: vec![0], dilation: vec![1], groups: 1 };
    let conv = Convolution::new(&[1, 1, n], &[1, 1, 1], &params).unwrap();
    varies(|device| {
        let x = device.upload(&x).unwrap();
        let grad = device.upload(&vec![1.0f32; n]).unwrap();
        let got = conv.weight_grad(device, &grad, &x, Atomic).unwrap();
        bits(&device.download(&got).unwrap())
    });
}

#[test]
fn bad_shapes_are_refused() {
    let params = Params { stride: vec![1], padding: vec![0], dilation: vec![1], groups: 1 };
    assert!(Convolution::new(&[1, 2, 4], &[1, 3, 2], &params).is_err());
    assert!(Convolution::new(&[1, 2, 4], &[1, 2, 5], &params).is_err());
    assert!(Convolution::new(&[1, 2, 4, 4], &[1, 2, 2], &params).is_err());
    let none = Params { stride: vec![0], ..params };
    assert!(Convolution::new(&[1, 2, 4], &[1, 2, 2], &none).is_err());
}

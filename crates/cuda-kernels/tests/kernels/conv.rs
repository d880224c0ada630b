//! Convolutions in the written order.

use crate::data::{Source, bits, clean, same};
use crate::device::{on_device, under_schedules, varies};
use samebits_cuda_kernels::Variant::Atomic;
use samebits_cuda_kernels::conv::{self, ConvParams, Convolution};
use samebits_cuda_kernels::conv_algorithms::{Algorithm, ConvPass};
use samebits_cuda_kernels::{Buffer, Device};
use samebits_numerics::reduce::sum_by;

struct Case {
    input: Vec<usize>,
    weight: Vec<usize>,
    params: ConvParams,
}

fn case(input: &[usize], weight: &[usize], s: usize, p: usize, d: usize, groups: usize) -> Case {
    let each = |x| vec![x; input.len() - 2];
    let params = ConvParams { stride: each(s), padding: each(p), dilation: each(d), groups };
    Case { input: input.to_vec(), weight: weight.to_vec(), params }
}

/// More than 1024 positions for the weight gradient: over one block of the order, and with groups
/// of one channel over images whose borders are not those of blocks.
fn long_cases() -> Vec<Case> {
    vec![
        case(&[2, 1, 24, 24], &[2, 1, 3, 3], 1, 1, 1, 1),
        case(&[3, 2, 21, 18], &[2, 1, 3, 3], 1, 1, 1, 2),
    ]
}

fn cases() -> Vec<Case> {
    vec![
        case(&[2, 3, 8], &[4, 3, 3], 1, 1, 1, 1),
        case(&[2, 4, 6, 7], &[6, 2, 3, 2], 2, 1, 1, 2),
        // More than 256 k, so that blocks are added.
        case(&[1, 40, 5, 5], &[2, 40, 3, 3], 1, 2, 1, 1),
        case(&[1, 2, 9, 8], &[3, 2, 3, 3], 2, 2, 2, 1),
        case(&[1, 2, 4, 5, 3], &[2, 2, 2, 3, 2], 1, 1, 1, 1),
        // More channels than the largest tile has rows, and a long k for the input gradient.
        case(&[1, 3, 9, 9], &[140, 3, 2, 2], 1, 0, 1, 1),
        // Depthwise: strided and dilated, with three dimensions.
        case(&[2, 3, 6, 7], &[3, 1, 3, 2], 2, 1, 2, 3),
        case(&[2, 2, 4, 5, 3], &[2, 1, 2, 3, 2], 1, 1, 1, 2),
        // No images.
        case(&[0, 2, 5, 5], &[2, 2, 3, 3], 1, 1, 1, 1),
    ]
}

/// Returns the result of every canonical algorithm for a pass; runs the others, too, and checks
/// that they are close.
fn by_each(
    conv: &Convolution,
    pass: ConvPass,
    device: &Device,
    run: impl Fn(Algorithm) -> Buffer<f32>,
) -> Vec<(Algorithm, Vec<f32>)> {
    let applicable = Algorithm::ALL.into_iter().filter(|&a| a.applies(conv, pass));
    applicable.map(|a| (a, device.download(&run(a)).unwrap())).collect()
}

/// Compares every algorithm with the sums computed by the definition.
fn all_same(what: &str, got: Vec<(Algorithm, Vec<f32>)>, expected: &[f32]) {
    for (algorithm, mut got) in got {
        let what = format!("{what} by {}", algorithm.name());
        // An empty buffer has one element without meaning.
        got.truncate(expected.len());
        if algorithm.is_canonical() {
            same(&what, &got, expected);
        } else if expected.iter().all(|x| x.abs() < 1e3) {
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-3;
            assert!(got.iter().zip(expected).all(close), "{what}: {got:?}, not {expected:?}");
        }
    }
}

/// An index set of a product that all passes visit: (output element, k of the forward pass, input
/// element, weight).
struct Link {
    out: usize,
    input: usize,
    weight: usize,
    k_forward: usize,
    k_input: usize,
    k_weight: usize,
}

/// Finds every pair of elements that meet, by brute force.
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

/// Sums by the definition: ascending k, blocks of `block` counted over all `k_len` k.
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

/// Runs every pass of a case by every algorithm, and returns the bits that must not vary.
fn check(device: &Device, number: usize, case: &Case) -> Vec<u32> {
    let mut all = Vec::new();
    let conv = Convolution::new("conv", &case.input, &case.weight, &case.params).unwrap();
    let output = conv.output_shape().to_vec();
    let links = links(case, &output);
    let mut source = Source::new(number as u64);
    let len = |shape: &[usize]| shape.iter().product::<usize>();
    let mut make = |n| match number % 3 {
        0 => source.plain(n),
        1 => source.wild(n),
        _ => source.broken(n),
    };
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
    let run = |a: Algorithm| a.forward(device, &conv, &x_dev, &w_dev, None).unwrap();
    let got = by_each(&conv, ConvPass::Forward, device, run);
    all_same(&format!("case {number} forward"), got, &expected);
    all.extend(bits(&expected));
    let expected: Vec<f32> = plain
        .iter()
        .enumerate()
        .map(|(i, &v)| clean(clean(v) + bias[i / positions % output[1]]))
        .collect();
    let b_dev = upload(&bias);
    let run = |a: Algorithm| a.forward(device, &conv, &x_dev, &w_dev, Some(&b_dev)).unwrap();
    let got = by_each(&conv, ConvPass::Forward, device, run);
    all_same(&format!("case {number} bias"), got, &expected);

    let terms = links.iter().map(|l| (l.input, l.k_input, w[l.weight], grad[l.out]));
    let k = case.weight[0] / case.params.groups * volume;
    let expected = chains(x.len(), k, 256, terms.collect());
    let expected: Vec<f32> = expected.into_iter().map(clean).collect();
    let run = |a: Algorithm| a.input_grad(device, &conv, &g_dev, &w_dev, None).unwrap();
    let got = by_each(&conv, ConvPass::InputGrad, device, run);
    all_same(&format!("case {number} input"), got, &expected);

    let terms = links.iter().map(|l| (l.weight, l.k_weight, x[l.input], grad[l.out]));
    let k = case.input[0] * positions;
    let expected = chains(w.len(), k, 1024, terms.collect());
    let expected: Vec<f32> = expected.into_iter().map(clean).collect();
    let run = |a: Algorithm| a.weight_grad(device, &conv, &g_dev, &x_dev).unwrap();
    let got = by_each(&conv, ConvPass::WeightGrad, device, run);
    all_same(&format!("case {number} weight"), got, &expected);

    let expected: Vec<f32> = (0..output[1])
        .map(|c| {
            let term = |t: usize| {
                let image = t / positions;
                grad[(image * output[1] + c) * positions + t % positions]
            };
            clean(sum_by(case.input[0] * positions, |t| f64::from(term(t))) as f32)
        })
        .collect();
    let got = conv::bias_grad(device, &conv, &g_dev).unwrap();
    let mut got = device.download(&got).unwrap();
    got.truncate(expected.len());
    same(&format!("case {number} bias grad"), &got, &expected);
    all
}

#[test]
fn all_passes_follow_the_written_order() {
    under_schedules(|device| {
        let checked = cases().into_iter().enumerate().map(|(n, case)| check(device, n, &case));
        checked.flatten().collect::<Vec<u32>>()
    });
}

#[test]
fn long_sums_follow_the_written_order() {
    on_device(|device| {
        for (number, case) in long_cases().iter().enumerate() {
            check(device, number, case);
        }
    });
}

#[test]
fn padding_is_skipped_not_multiplied() {
    under_schedules(|device| {
        // An infinite weight times a padding zero would be NaN.
        let params = ConvParams { stride: vec![1], padding: vec![1], dilation: vec![1], groups: 1 };
        let conv = Convolution::new("conv", &[1, 1, 2], &[1, 1, 3], &params).unwrap();
        let x = device.upload(&[1.0f32, 2.0]).unwrap();
        let w = device.upload(&[f32::INFINITY, 1.0, 1.0]).unwrap();
        let run = |a: Algorithm| a.forward(device, &conv, &x, &w, None).unwrap();
        let got = by_each(&conv, ConvPass::Forward, device, run);
        assert!(got.len() >= 5, "{got:?}");
        all_same("padding", got, &[3.0, f32::INFINITY]);
    });
}

#[test]
fn no_number_is_mistaken_for_padding() {
    on_device(|device| {
        // The NaN that marks padding in the tiles of a convolution.
        let x = [1.0, f32::from_bits(0x7fc0_5b1d), 2.0];
        let params = ConvParams { stride: vec![1], padding: vec![1], dilation: vec![1], groups: 1 };
        let conv = Convolution::new("conv", &[1, 1, 3], &[1, 1, 1], &params).unwrap();
        let (x, w) = (device.upload(&x).unwrap(), device.upload(&[1.0f32]).unwrap());
        let run = |a: Algorithm| a.forward(device, &conv, &x, &w, None).unwrap();
        let got = by_each(&conv, ConvPass::Forward, device, run);
        all_same("a certain NaN", got, &[0.0, 1.0, clean(f32::NAN), 2.0, 0.0]);
    });
}

#[test]
fn the_atomic_weight_gradient_varies() {
    // One block of positions each: 1, 2^24, -2^24.
    let n = 1024 * 6;
    let x: Vec<f32> = (0..n)
        .map(|i| if i % 1024 == 0 { [1.0, 16777216.0, -16777216.0][i / 1024 % 3] } else { 0.0 })
        .collect();
    let params = ConvParams { stride: vec![1], padding: vec![0], dilation: vec![1], groups: 1 };
    let conv = Convolution::new("conv", &[1, 1, n], &[1, 1, 1], &params).unwrap();
    varies(|device| {
        let x = device.upload(&x).unwrap();
        let grad = device.upload(&vec![1.0f32; n]).unwrap();
        let got = conv::weight_grad(device, &conv, &grad, &x, Atomic).unwrap();
        bits(&device.download(&got).unwrap())
    });
}

#[test]
fn an_atomic_split_of_k_varies() {
    // One block of channels each: 1, 2^24, -2^24.
    let k = 256 * 6;
    let one = |i: usize| {
        if i.is_multiple_of(256) { [1.0, 16777216.0, -16777216.0][i / 256 % 3] } else { 0.0 }
    };
    let params = ConvParams { stride: vec![1], padding: vec![0], dilation: vec![1], groups: 1 };
    let conv = Convolution::new("conv", &[1, k, 1], &[1, k, 1], &params).unwrap();
    let x: Vec<f32> = (0..k).map(one).collect();
    varies(|device| {
        let x = device.upload(&x).unwrap();
        let w = device.upload(&vec![1.0f32; k]).unwrap();
        let got = Algorithm::AtomicSplitK.forward(device, &conv, &x, &w, None).unwrap();
        bits(&device.download(&got).unwrap())
    });
}

#[test]
fn an_algorithm_that_does_not_apply_is_an_error() {
    on_device(|device| {
        let params = ConvParams { stride: vec![1], padding: vec![0], dilation: vec![1], groups: 1 };
        let conv = Convolution::new("conv", &[1, 2, 4], &[1, 2, 2], &params).unwrap();
        let (x, w) = (device.upload(&[0.0f32; 8]).unwrap(), device.upload(&[0.0f32; 4]).unwrap());
        let error = Algorithm::Depthwise.forward(device, &conv, &x, &w, None).unwrap_err();
        assert!(error.to_string().contains("depthwise does not apply to forward"), "{error}");
    });
}

#[test]
fn sizes_beyond_the_kernels_are_refused() {
    on_device(|device| {
        let params = ConvParams { padding: vec![1 << 31], ..ConvParams::padded(1, 0) };
        let conv = Convolution::new("conv", &[1, 1, 4], &[1, 1, 2], &params).unwrap();
        assert!(Algorithm::ALL.iter().all(|a| !a.applies(&conv, ConvPass::Forward)));
        let (x, w) = (device.upload(&[0.0f32; 4]).unwrap(), device.upload(&[0.0f32; 2]).unwrap());
        let error = Algorithm::Direct.forward(device, &conv, &x, &w, None).unwrap_err();
        assert!(error.to_string().contains("must be below 2^31 on a CUDA device"), "{error}");
    });
}

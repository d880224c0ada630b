//! Every check of an operation with parameters at the limits of their types, on operands that are a
//! single stored number: accepted, or rejected in the operation's name, and never an overflow.

use std::sync::Arc;

use samebits_tensor_core::geometry::BagBounds;
use samebits_tensor_core::layout::numel;
use samebits_tensor_core::ops::*;
use samebits_tensor_core::{DType, Device, Error, Op, Tensor};

/// Sizes whose sums and products exceed each limit: 32 bits, the address space, a `usize`.
const SIZES: [usize; 10] = [
    0,
    1,
    3,
    1 << 31,
    1 << 40,
    (1 << 60) - 1,
    1 << 61,
    isize::MAX as usize,
    usize::MAX - 1,
    usize::MAX,
];

fn wide(shape: &[usize], dtype: DType) -> Option<Tensor> {
    Tensor::zeros(&[], dtype).unwrap().expand(shape).ok()
}

fn floats(shape: &[usize]) -> Option<Tensor> {
    wide(shape, DType::F32)
}

fn indices(shape: &[usize]) -> Option<Tensor> {
    wide(shape, DType::I64)
}

/// Checks an operation; `None` means that its operands are impossible.
fn check<O: Op>(op: Option<O>) {
    if let Some(Err(error)) = op.map(|op| op.plan()) {
        let text = error.to_string();
        assert!(text.starts_with(&format!("{}: ", O::NAME)), "{text}");
        assert!(!matches!(error, Error::Backend { .. }), "{text}");
    }
}

/// Returns every triple of [`SIZES`].
fn triples() -> impl Iterator<Item = [usize; 3]> {
    let all = || SIZES.into_iter();
    all().flat_map(move |a| all().flat_map(move |b| all().map(move |c| [a, b, c])))
}

#[test]
fn windows() {
    for [a, b, c] in triples() {
        for size in [0, 4, 1 << 30] {
            let params = ConvParams {
                stride: vec![a, 1],
                padding: vec![b, 0],
                dilation: vec![c, 1],
                groups: 1,
            };
            let weight = floats(&[1, 1, 3, 1]).unwrap();
            let input = floats(&[1, 1, size, 1]).unwrap();
            let forward = Conv { input: input.clone(), weight, bias: None, params };
            check(Some(ConvInputGrad {
                grad: input.clone(),
                weight: forward.weight.clone(),
                input_shape: vec![a, 1, b, c],
                params: forward.params.clone(),
            }));
            check(Some(ConvWeightGrad {
                grad: input.clone(),
                input: input.clone(),
                weight_shape: vec![a, 1, b, c],
                params: forward.params.clone(),
            }));
            check(Some(Conv {
                params: ConvParams { groups: a, ..forward.params.clone() },
                ..forward.clone()
            }));
            let shape = forward.params.output_shape("conv", &[1, 1, size, 1], &[1, 1, 3, 1]);
            assert!(shape.is_err() || numel("conv", &shape.unwrap()).is_ok());
            check(Some(forward));

            for ceil_mode in [false, true] {
                for kernel in [2, a, usize::MAX] {
                    let params = PoolParams {
                        kernel: vec![kernel],
                        stride: vec![a],
                        padding: vec![b],
                        dilation: vec![c],
                        ceil_mode,
                    };
                    let input = floats(&[1, 1, size]).unwrap();
                    let input_shape = vec![1, a, b];
                    let divisor_override = Some(i64::MIN);
                    check(Some(MaxPoolGrad {
                        grad: input.clone(),
                        indices: indices(&[1, 1, size]).unwrap(),
                        input_shape: input_shape.clone(),
                        params: params.clone(),
                    }));
                    check(Some(AvgPoolGrad {
                        grad: input.clone(),
                        input_shape,
                        params: PoolParams { dilation: vec![1], ..params.clone() },
                        count_include_pad: true,
                        divisor_override,
                    }));
                    check(Some(AvgPool {
                        input: input.clone(),
                        params: PoolParams { dilation: vec![1], ..params.clone() },
                        count_include_pad: true,
                        divisor_override,
                    }));
                    check(Some(MaxPool { input, params }));
                }
            }
        }
    }
}

#[test]
fn sizes_of_results() {
    for [a, b, c] in triples() {
        let input = floats(&[1, 1, 3, 3]).unwrap();
        let places = indices(&[1, 1, 3, 3]).unwrap();
        let (output_size, input_shape) = (vec![a, b], vec![1, c, a, b]);
        check(Some(AdaptiveAvgPool { input: input.clone(), output_size: output_size.clone() }));
        check(Some(AdaptiveMaxPool { input: input.clone(), output_size: output_size.clone() }));
        check(Some(AdaptiveAvgPoolGrad { grad: input.clone(), input_shape: input_shape.clone() }));
        check(Some(AdaptiveMaxPoolGrad {
            grad: input.clone(),
            indices: places.clone(),
            input_shape: input_shape.clone(),
        }));
        check(Some(FractionalMaxPool {
            input: input.clone(),
            samples: floats(&[1, 1, 2]).unwrap(),
            kernel: vec![c, c],
            output_size: output_size.clone(),
        }));
        check(Some(FractionalMaxPoolGrad {
            grad: input.clone(),
            indices: places.clone(),
            input_shape: input_shape.clone(),
        }));
        check(Some(MaxUnpool {
            input: input.clone(),
            indices: places.clone(),
            output_size: output_size.clone(),
        }));
        for scale in [None, Some(f64::MIN_POSITIVE), Some(f64::MAX)] {
            check(Some(Interpolate {
                input: input.clone(),
                output_size: output_size.clone(),
                scales: vec![scale; 2],
                mode: InterpolateMode::Nearest,
            }));
            check(Some(InterpolateGrad {
                grad: input.clone(),
                input_shape: input_shape.clone(),
                scales: vec![scale; 2],
                mode: InterpolateMode::Nearest,
            }));
        }
        let params = GridParams {
            mode: GridMode::Linear,
            padding: GridPadding::Zeros,
            align_corners: false,
        };
        check(Some(GridSampleInputGrad {
            grad: input.clone(),
            grid: floats(&[1, 3, 3, 2]).unwrap(),
            input_shape: input_shape.clone(),
            params,
        }));
        check(floats(&[1, a, b, 2]).map(|grid| GridSample { input: input.clone(), grid, params }));
        check(Some(NllLossGrad {
            grad: Tensor::scalar(1.0f32),
            target: indices(&[1, 3]).unwrap(),
            weight: None,
            ignore_index: i64::MIN,
            reduction: Reduction::Mean,
            input_shape: vec![1, a, 3],
        }));

        let generator = samebits_rng::Generator::new(0);
        let (dtype, device, shape) = (DType::F32, Device::Cpu, vec![a, b, c]);
        let (low, high) = (0.0, 1.0);
        check(Some(Uniform {
            shape: shape.clone(),
            dtype,
            device,
            low,
            high,
            generator: generator.clone(),
        }));
        check(Some(Normal { shape, dtype, device, mean: 0.0, std: 1.0, generator }));
        check(Some(Bincount { x: indices(&[3]).unwrap(), bins: Bins::AtLeast(a) }));
        check(Some(Histc { x: input.clone(), bins: a, min: f64::MIN, max: f64::MAX }));
        check(Some(Topk { x: input.clone(), k: a, dim: b, largest: true }));
        check(Some(Kthvalue { x: input, k: a, dim: b }));
    }
}

#[test]
fn pads() {
    let numbers = [0, 1, -1, 5, 1 << 47, 1 << 48, i64::MAX, i64::MIN, i64::MIN + 1];
    for mode in [PadMode::Constant, PadMode::Reflect, PadMode::Replicate, PadMode::Circular] {
        for before in numbers {
            for after in numbers {
                for size in SIZES {
                    let pads = vec![[before, after], [after, before]];
                    check(floats(&[size, 2]).map(|input| Pad {
                        input,
                        pads: pads.clone(),
                        mode,
                        value: f64::NAN,
                    }));
                    let grad = floats(&[4, 4]).unwrap();
                    check(Some(PadGrad { grad, input_shape: vec![size, size], pads, mode }));
                }
            }
        }
    }
}

#[test]
fn operands_of_any_size() {
    for [a, b, c] in triples() {
        check(floats(&[a, c]).zip(floats(&[c, b])).map(|(a, b)| Matmul { a, b }));
        check(floats(&[c, a, 0]).zip(floats(&[0, b])).map(|(a, b)| Matmul { a, b }));
        let pair = floats(&[a, b]).zip(floats(&[c, b]));
        let cat = pair.map(|(x, y)| Cat { inputs: vec![x, y], dim: 0 });
        assert!(cat.is_none_or(|op| op.plan().is_err() || numel("cat", &[a + c, b]).is_ok()));
        check(floats(&[a, b]).map(|x| Qr { x, mode: QrMode::Complete }));
        check(floats(&[a, b]).map(|x| Svd { x }));
        check(floats(&[a, 0, b]).map(|x| Flip { x, dims: vec![0, 2] }));
        check(floats(&[a, b]).map(|x| Flip { x, dims: vec![c] }));
        check(floats(&[a, 0]).zip(indices(&[b])).map(|(x, index)| IndexSelect {
            x,
            dim: c,
            index,
        }));
        check(floats(&[a, 0]).zip(indices(&[b])).map(|(x, index)| IndexSelect {
            x,
            dim: 1,
            index,
        }));
        check(
            indices(&[b, c])
                .zip(floats(&[a, 0]))
                .map(|(index, x)| Index { x, indices: vec![index] }),
        );
        check(floats(&[1, c]).zip(indices(&[1])).map(|(grad, index)| EmbeddingGrad {
            grad,
            index,
            rows: a,
            padding_idx: Some(b),
            scale_grad_by_freq: true,
        }));
        check(floats(&[3, c]).map(|dense| SparseMm {
            rows: indices(&[1]).unwrap(),
            columns: indices(&[1]).unwrap(),
            values: floats(&[1]).unwrap(),
            dense,
            size: a,
            period: b,
        }));
        check(floats(&[2, 1, 3]).zip(indices(&[b])).map(|(log_probs, labels)| CtcLoss {
            log_probs,
            targets: CtcTargets {
                labels,
                input_lengths: vec![a],
                target_lengths: vec![b],
                blank: c,
            },
            reduction: Reduction::Mean,
            zero_infinity: false,
        }));
        // A layer without hidden units, although its projection has some.
        let layer = || {
            Some(RecurrentLayer {
                cell: RecurrentCell::Lstm,
                reverse: false,
                batch_sizes: vec![b, c],
                gates: floats(&[b.checked_add(c)?, 0])?,
                weight_hh: floats(&[0, a])?,
                bias_x: None,
                bias_h: None,
                weight_hr: Some(floats(&[a, 0])?),
                hidden: floats(&[b, a])?,
                cells: Some(floats(&[b, 0])?),
                keep: true,
            })
        };
        check(layer());
        check(layer().map(|layer| RecurrentLayerGrad {
            layer,
            grad: floats(&[0]).unwrap(),
            result: floats(&[0]).unwrap(),
            kept: vec![],
        }));
    }
}

/// Checks the guarantees that kernels rely on, with an operation whose operand does not match the
/// others.
fn refused<O: Op>(op: O, expected: &str) {
    let error = op.plan().map(|_| ()).unwrap_err().to_string();
    assert_eq!(error, expected);
}

#[test]
fn operands_that_do_not_go_together() {
    let (x, places) = (floats(&[2, 3]).unwrap(), indices(&[4]).unwrap());
    refused(
        Logcumsumexp { x: places.clone(), dim: 0 },
        "logcumsumexp: expected the input of type f32, got i64",
    );
    refused(
        Logcumsumexp { x: x.clone(), dim: 2 },
        "logcumsumexp: dimension 2 of a tensor of shape [2, 3]",
    );
    refused(
        Unique { x: wide(&[2], DType::Bool).unwrap(), consecutive: false },
        "unique: expected the input of type i64, got bool",
    );
    let norm = |weight: &[usize], bias| BatchNorm {
        input: x.clone(),
        weight: floats(weight).unwrap(),
        bias: wide(&[3], bias).unwrap(),
        eps: 1e-5,
    };
    norm(&[3], DType::F32).plan().unwrap();
    refused(norm(&[2], DType::F32), "batch_norm: expected the weight of shape [3], got [2]");
    refused(norm(&[3], DType::F64), "batch_norm: expected the bias of type f32, got f64");
    let bags = |weight: &[usize], index: &Tensor, padding_idx| EmbeddingBagWeightsGrad {
        grad: x.clone(),
        weight: floats(weight).unwrap(),
        index: index.clone(),
        bags: Arc::new(BagBounds::new("embedding_bag", 2, &[0, 1], false).unwrap()),
        params: BagParams { mode: BagMode::Sum, padding_idx },
    };
    bags(&[5, 3], &places, Some(4)).plan().unwrap();
    refused(
        bags(&[5, 2], &places, None),
        "embedding_bag_weights: expected the table of shape [5, 3], got [5, 2]",
    );
    let mixed = "embedding_bag_weights: expected the index of type i64, got f32";
    refused(bags(&[5, 3], &x, None), mixed);
    refused(
        bags(&[5, 3], &places, Some(5)),
        "embedding_bag_weights: padding_idx 5 is not a row of a table with 5 rows",
    );
}

#[test]
fn views() {
    // A reshaped view may be a copy; with this many elements it fails.
    samebits_numerics::memory::set_limit(Some(1 << 20));
    for [a, b, c] in triples() {
        for x in [floats(&[a, b]), floats(&[b, 1, a]), floats(&[3, 2])].into_iter().flatten() {
            for dim in [0, 1, c] {
                // Every accepted view can be viewed again, and reaches its first and last element.
                for view in [
                    x.narrow(dim, a, c),
                    x.stepped(dim, c, a),
                    x.stepped(dim, 0, usize::MAX),
                    x.select(dim, c),
                    x.unsqueeze(dim),
                    x.squeeze(dim),
                    x.transpose(dim, 0),
                    x.permute(&[a, b, c]),
                    x.expand(&[c, a, b]),
                    x.reshape(&[c, a, b]),
                    x.flatten_from(dim),
                ]
                .into_iter()
                .flatten()
                {
                    let layout = view.layout();
                    assert_eq!(layout.extent() == 0, view.numel() == 0);
                    assert_eq!(layout.positions().size_hint().0, view.numel());
                    let first = layout.positions().next();
                    assert_eq!(first.is_none(), view.numel() == 0);
                }
            }
            assert!(
                samebits_tensor_core::layout::outer_dim_inner("view", &[a, b, c], 1).is_ok()
                    == numel("view", &[a, b, c]).is_ok()
            );
        }
        let _ = samebits_tensor_core::Layout::strided(&[a, b], &[b, c], c);
        let _ = samebits_tensor_core::layout::broadcast("view", &[a, b], &[c, 1, 1]);
    }
}

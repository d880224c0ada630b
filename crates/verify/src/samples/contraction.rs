use samebits::functional::{self as f, AttentionOptions};
use samebits::ops::*;
use samebits::{DType, Generator, Result, Tensor, nn};

use super::sample::{Samples, each, normal};
use super::{Cases, FLOATS, Make};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        of_type(cases, make, dtype);
    }
}

fn of_type(cases: &mut Cases, make: Make, dtype: DType) {
    for (a, b) in [
        (vec![65, 700], vec![700, 130]),
        (vec![1, 3000], vec![3000, 257]),
        (vec![300, 3], vec![3, 1]),
        (vec![4, 1, 20, 30], vec![3, 30, 17]),
        (vec![5, 0], vec![0, 4]),
        (vec![0, 5], vec![5, 4]),
    ] {
        let name = format!("matmul {dtype} {a:?} {b:?}");
        cases.add(name, Matmul { a: make.normal(&a, dtype, 11), b: make.normal(&b, dtype, 12) });
    }
    let a = make.wild(&[40, 300], dtype, 13);
    let b = make.wild(&[50, 300], dtype, 14).transpose(0, 1).expect("two dimensions");
    cases.add(format!("matmul {dtype} wild"), Matmul { a, b });
    for (name, product, a, b) in products() {
        cases.call(format!("{name} {dtype} {a:?} {b:?}"), move || {
            let arguments = [make.normal(&a, dtype, 51), make.normal(&b, dtype, 52)];
            make.with_gradients(&arguments, |x| product(&x[0], &x[1]))
        });
    }
    for (input, weight, params) in convolutions() {
        transposed(cases, make, dtype, &input, &weight, &params);
        let name = format!("{dtype} {input:?} {weight:?} {params:?}");
        let x = make.normal(&input, dtype, 15);
        let w = make.normal(&weight, dtype, 16);
        let output = params.output_shape("case", &input, &weight).expect("a valid case");
        let grad = make.normal(&output, dtype, 17);
        cases.add(
            format!("conv {name}"),
            Conv {
                input: x.clone(),
                weight: w.clone(),
                bias: Some(make.normal(&weight[..1], dtype, 18)),
                params: params.clone(),
            },
        );
        cases.add(
            format!("conv_input {name}"),
            ConvInputGrad {
                grad: grad.clone(),
                weight: w,
                input_shape: input,
                params: params.clone(),
            },
        );
        cases.add(
            format!("conv_weight {name}"),
            ConvWeightGrad { grad, input: x, weight_shape: weight, params },
        );
    }
    cases.functions(dtype, attention);
    cases.functions(dtype, rotary);
}

/// A product of two variables, and shapes for it.
type Product = (&'static str, fn(&Tensor, &Tensor) -> Result<Tensor>, Vec<usize>, Vec<usize>);

fn products() -> Vec<Product> {
    vec![
        ("matmul", f::matmul, vec![700], vec![700]),
        ("matmul", f::matmul, vec![3, 40], vec![5, 40, 7]),
        ("matmul", f::matmul, vec![6, 9, 40], vec![40]),
        ("matmul", f::matmul, vec![6, 9, 300], vec![300, 33]),
        ("bmm", f::bmm, vec![4, 9, 300], vec![4, 300, 33]),
        ("linear", |x, w| f::linear(x, w, None), vec![3, 4, 50], vec![60, 50]),
        (
            "addmm",
            |a, b| f::addmm(&f::sum(b, [0], true)?, a, b, 0.5, 2.0),
            vec![30, 40],
            vec![40, 20],
        ),
        (
            "baddbmm",
            |a, b| f::baddbmm(&f::sum(b, [1], true)?, a, b, 0.5, 1.0),
            vec![2, 30, 40],
            vec![2, 40, 20],
        ),
    ]
}

fn params(stride: &[usize], padding: &[usize], dilation: &[usize], groups: usize) -> ConvParams {
    ConvParams {
        stride: stride.to_vec(),
        padding: padding.to_vec(),
        dilation: dilation.to_vec(),
        groups,
    }
}

fn convolutions() -> Vec<(Vec<usize>, Vec<usize>, ConvParams)> {
    vec![
        (vec![3, 16, 14, 15], vec![24, 16, 3, 3], ConvParams::padded(2, 1)),
        (vec![2, 6, 9, 11], vec![9, 2, 2, 3], params(&[2, 1], &[1, 0], &[1, 2], 3)),
        (vec![2, 8, 12, 12], vec![8, 1, 3, 3], params(&[1, 1], &[1, 1], &[1, 1], 8)),
        (vec![2, 4, 50], vec![5, 4, 7], params(&[3], &[3], &[1], 1)),
        (vec![1, 3, 6, 7, 8], vec![4, 3, 3, 2, 3], params(&[1, 2, 1], &[1, 0, 1], &[1, 1, 2], 1)),
        (vec![0, 2, 5, 5], vec![2, 2, 3, 3], ConvParams::padded(2, 1)),
        // Enough work that algorithms race.
        (vec![2, 16, 40, 40], vec![32, 16, 3, 3], ConvParams::padded(2, 1)),
    ]
}

/// Adds the transposed convolution that maps the result of a convolution back.
fn transposed(
    cases: &mut Cases,
    make: Make,
    dtype: DType,
    input: &[usize],
    weight: &[usize],
    params: &ConvParams,
) {
    let output = params.output_shape("case", input, weight).expect("a valid case");
    let channels = weight[1] * params.groups;
    let arguments = vec![
        make.normal(&output, dtype, 68),
        make.normal(weight, dtype, 69),
        make.normal(&[channels], dtype, 70),
    ];
    let params = params.clone();
    let more: Vec<usize> = params.stride.iter().map(|stride| stride - 1).collect();
    let name = format!("conv_transpose {dtype} {output:?} {weight:?} {params:?}");
    cases.graded(name, arguments, move |x| {
        f::conv_transpose(&x[0], &x[1], Some(&x[2]), &params, &more)
    });
}

pub(super) fn samples(samples: &mut Samples) {
    products_of(samples);
    for (mut input, weight, params) in convolutions() {
        // A batch of several samples.
        input[0] = input[0].max(1) + 2;
        let output = params.output_shape("case", &input, &weight).expect("a valid case");
        let channels = weight[1] * params.groups;
        let more: Vec<usize> = params.stride.iter().map(|stride| stride - 1).collect();
        let name = format!("{input:?} {weight:?} {params:?}");
        let again = params.clone();
        samples
            .add(format!("conv {name}"), move |x| f::conv(&x[0], &x[1], Some(&x[2]), &params))
            .batch([each(&input), normal(&weight), normal(&weight[..1])]);
        samples
            .add(format!("conv_transpose {name}"), move |x| {
                f::conv_transpose(&x[0], &x[1], Some(&x[2]), &again, &more)
            })
            .batch([each(&output), normal(&weight), normal(&[channels])]);
    }
    let uneven = || params(&[2, 1], &[1, 0], &[1, 2], 2);
    samples.add("conv2d", move |x| f::conv2d(&x[0], &x[1], Some(&x[2]), &uneven())).twice([
        normal(&[2, 4, 5, 6]),
        normal(&[4, 2, 3, 2]),
        normal(&[4]),
    ]);
    samples
        .add("conv1d", |x| f::conv1d(&x[0], &x[1], None, &ConvParams::padded(1, 2)))
        .twice([normal(&[1, 2, 7]), normal(&[3, 2, 3])]);
    samples
        .add("conv3d", |x| f::conv3d(&x[0], &x[1], None, &ConvParams::padded(3, 1)))
        .twice([normal(&[1, 1, 4, 3, 4]), normal(&[2, 1, 2, 2, 3])]);
    samples
        .add("conv_transpose2d", move |x| {
            f::conv_transpose2d(&x[0], &x[1], Some(&x[2]), &uneven(), &[1, 0])
        })
        .twice([normal(&[2, 4, 3, 2]), normal(&[4, 2, 3, 2]), normal(&[4])]);
    samples
        .add("conv_transpose1d, output padding above the stride", |x| {
            f::conv_transpose1d(&x[0], &x[1], None, &params(&[2], &[1], &[5], 1), &[3])
        })
        .twice([normal(&[2, 4]), normal(&[2, 3, 2])]);
    samples
        .add("conv_transpose3d", |x| {
            f::conv_transpose3d(&x[0], &x[1], None, &ConvParams::padded(3, 0), &[0, 0, 0])
        })
        .twice([normal(&[1, 2, 2, 1, 2]), normal(&[2, 1, 2, 2, 1])]);
    samples.add("conv_same", |x| f::conv_same(&x[0], &x[1], Some(&x[2]), &[3, 1], 2)).twice([
        normal(&[1, 2, 5, 4]),
        normal(&[2, 1, 2, 3]),
        normal(&[2]),
    ]);
}

/// Attention with each option. The first has several blocks of queries and of keys.
fn attention(samples: &mut Samples) {
    let with = |x: &[Tensor], options: AttentionOptions<'_>| {
        f::scaled_dot_product_attention_with(&x[0], &x[1], &x[2], &options)
    };
    samples
        .add("scaled_dot_product_attention_with", move |x| with(x, AttentionOptions::default()))
        .digest_as(
            "attention of many keys",
            [normal(&[33, 9]), normal(&[270, 9]), normal(&[270, 5])],
        )
        .digest_as(
            "attention of many queries",
            [normal(&[260, 3]), normal(&[20, 3]), normal(&[20, 5])],
        )
        .batch([each(&[3, 270, 9]), each(&[3, 531, 9]), each(&[3, 531, 5])])
        .twice([normal(&[3, 4]), normal(&[4, 4]), normal(&[4, 2])]);
    samples
        .add("scaled_dot_product_attention_with, causal after a cache", move |x| {
            with(x, AttentionOptions { causal_offset: Some(260), ..AttentionOptions::default() })
        })
        .digest_as(
            "attention, causal after a cache",
            [normal(&[2, 15, 16]), normal(&[2, 275, 16]), normal(&[2, 275, 33])],
        )
        .batch([each(&[2, 300, 16]), each(&[2, 560, 16]), each(&[2, 560, 33])])
        .twice([normal(&[2, 3]), normal(&[4, 3]), normal(&[4, 2])]);
    samples
        .add("scaled_dot_product_attention_with, grouped queries", move |x| {
            let options = AttentionOptions { enable_gqa: true, ..AttentionOptions::default() };
            with(x, AttentionOptions { causal_offset: Some(0), scale: Some(0.3), ..options })
        })
        .digest_as(
            "attention, grouped queries",
            [normal(&[4, 70, 8]), normal(&[2, 70, 8]), normal(&[2, 70, 8])],
        )
        .batch([each(&[2, 6, 40, 8]), each(&[2, 2, 40, 8]), each(&[2, 2, 40, 8])])
        .twice([normal(&[2, 2, 3]), normal(&[1, 2, 3]), normal(&[1, 2, 2])]);
    samples
        .add("scaled_dot_product_attention_with, dropout", move |x| {
            let options = AttentionOptions { dropout_p: 0.3, ..AttentionOptions::default() };
            let options = AttentionOptions { causal_offset: Some(1), ..options };
            nn::draw_from(&mut Generator::new(3), || with(x, options))
        })
        .digest_as(
            "attention, dropout",
            [normal(&[2, 33, 9]), normal(&[2, 270, 9]), normal(&[2, 270, 5])],
        )
        .twice([normal(&[2, 3, 4]), normal(&[2, 5, 4]), normal(&[2, 5, 2])]);
    samples
        .add("scaled_dot_product_attention_with, mask of numbers", move |x| {
            with(x, AttentionOptions { attn_mask: Some(&x[3]), ..AttentionOptions::default() })
        })
        .digest_as(
            "attention, mask of numbers",
            [
                normal(&[3, 20, 8]),
                normal(&[3, 30, 8]),
                normal(&[3, 30, 8]),
                normal(&[20, 30]).constant(),
            ],
        )
        .batch([each(&[3, 50, 8]), each(&[3, 70, 8]), each(&[3, 70, 8]), normal(&[50, 70])])
        .twice([normal(&[2, 3]), normal(&[3, 3]), normal(&[3, 2]), normal(&[2, 3])]);
    samples
        .add("scaled_dot_product_attention_with, mask of truth values", move |x| {
            let shown = x[3].gt(1.0)?;
            with(x, AttentionOptions { attn_mask: Some(&shown), ..AttentionOptions::default() })
        })
        .digest_as(
            "attention, mask of truth values",
            [
                normal(&[3, 20, 8]),
                normal(&[3, 7, 8]),
                normal(&[3, 7, 8]),
                normal(&[3, 20, 7]).constant(),
            ],
        )
        .batch([each(&[3, 50, 8]), each(&[3, 7, 8]), each(&[3, 7, 8]), each(&[3, 50, 7])])
        .twice([normal(&[3, 3]), normal(&[2, 3]), normal(&[2, 2]), normal(&[3, 2])]);
}

/// Rotations in both conventions, without and with gradients of the tables.
fn rotary(samples: &mut Samples) {
    for (name, interleaved) in
        [("rotary_embedding", false), ("rotary_embedding, interleaved", true)]
    {
        samples
            .add(name, move |x| f::rotary_embedding(&x[0], &x[1], &x[2], interleaved))
            .digest_as(
                name,
                [normal(&[2, 3, 37, 9]), normal(&[37, 4]).constant(), normal(&[37, 4]).constant()],
            )
            .batch([each(&[3, 37, 9]), normal(&[37, 4]), normal(&[37, 4])])
            .batch([each(&[3, 37, 9]), normal(&[37, 4]).constant(), normal(&[37, 4]).constant()])
            .twice([normal(&[2, 3, 5]), normal(&[3, 2]), normal(&[3, 2])]);
    }
}

fn products_of(samples: &mut Samples) {
    samples
        .add("scaled_dot_product_attention", |x| {
            f::scaled_dot_product_attention(&x[0], &x[1], &x[2], None, 0.0, true, None)
        })
        .batch([each(&[5, 33, 8]), each(&[5, 40, 8]), each(&[5, 40, 9])])
        .twice([normal(&[3, 4]), normal(&[3, 4]), normal(&[3, 2])]);
    attention(samples);
    rotary(samples);
    samples
        .add("cdist", |x| f::cdist(&x[0], &x[1], 2.0))
        .batch([each(&[5, 33, 8]), each(&[5, 40, 8])])
        .twice([normal(&[2, 3]), normal(&[4, 3])]);
    samples
        .add("tensordot", |x| f::tensordot(&x[0], &x[1], [1, 2], [1, 0]))
        .twice([normal(&[2, 3, 4]), normal(&[4, 3, 2])]);
    samples
        .add("kron", |x| f::kron(&x[0], &x[1]))
        .batch([each(&[5, 7]), normal(&[1, 300])])
        .twice([normal(&[2, 3]), normal(&[2])]);
    sums_of_products(samples);
    let matmul = samples.add("matmul", |x| f::matmul(&x[0], &x[1]));
    for [rows, k, n] in [[13, 700, 33], [70, 40, 1], [5, 3, 257]] {
        matmul.batch([each(&[rows, k]), normal(&[k, n])]);
    }
    matmul.batch([each(&[5, 3, 20, 30]), normal(&[3, 30, 9])]);
    let pairs: [(&[usize], &[usize]); _] = [
        (&[3, 5], &[5, 2]),
        (&[2, 1, 3, 4], &[5, 4, 2]),
        (&[5], &[5]),
        (&[4], &[2, 4, 3]),
        (&[2, 3, 4], &[4]),
        (&[2, 3, 4], &[4, 5]),
    ];
    for (a, b) in pairs {
        matmul.twice([normal(a), normal(b)]);
    }
    samples
        .add("bmm", |x| f::bmm(&x[0], &x[1]))
        .batch([each(&[7, 20, 300]), each(&[7, 300, 33])])
        .twice([normal(&[2, 3, 4]), normal(&[2, 4, 5])]);
    samples
        .add("linear", |x| f::linear(&x[0], &x[1], Some(&x[2])))
        .batch([each(&[6, 3, 50]), normal(&[60, 50]), normal(&[60])])
        .twice([normal(&[2, 3, 5]), normal(&[4, 5]), normal(&[4])])
        // With vectors.
        .twice([normal(&[5]), normal(&[5]), normal(&[])]);
    samples.add("addmm", |x| f::addmm(&x[0], &x[1], &x[2], 0.7, 1.3)).twice([
        normal(&[5]),
        normal(&[3, 4]),
        normal(&[4, 5]),
    ]);
    samples
        .add("baddbmm", |x| f::baddbmm(&x[0], &x[1], &x[2], 0.5, 2.0))
        .batch([each(&[6, 9, 8]), each(&[6, 9, 40]), each(&[6, 40, 8])])
        .twice([normal(&[3, 1]), normal(&[2, 3, 4]), normal(&[2, 4, 5])]);
    samples.add("baddbmm, beta of one", |x| f::baddbmm(&x[0], &x[1], &x[2], 1.0, 1.3)).twice([
        normal(&[3, 1]),
        normal(&[2, 3, 4]),
        normal(&[2, 4, 5]),
    ]);
}

fn sums_of_products(samples: &mut Samples) {
    let equations: [(_, &[&[usize]]); _] = [
        ("ij,jk->ik", &[&[2, 3], &[3, 4]]),
        ("bij,bjk", &[&[2, 3, 2], &[2, 2, 3]]),
        ("ij,j", &[&[2, 3], &[3]]),
        ("i,j->ij", &[&[2], &[3]]),
        ("ij,ij->", &[&[2, 3], &[2, 3]]),
        ("ii->", &[&[3, 3]]),
        ("iij->ij", &[&[2, 2, 3]]),
        ("iijj,j", &[&[2, 2, 3, 3], &[3]]),
        ("...ij,...jk->...ik", &[&[2, 1, 2, 3], &[3, 3, 2]]),
        ("a...,...->...a", &[&[2, 3], &[1]]),
        ("ij,jk,kl,il->j", &[&[2, 3], &[3, 2], &[2, 2], &[2, 2]]),
        ("ij,kj->ik", &[&[2, 1], &[3, 4]]),
        ("i,i,i->", &[&[1], &[3], &[1]]),
        (",i", &[&[], &[3]]),
    ];
    for (equation, shapes) in equations {
        let function = |x: &[Tensor]| f::einsum(equation, &x.iter().collect::<Vec<_>>());
        let inputs: Vec<_> = shapes.iter().map(|shape| normal(shape)).collect();
        samples.add(format!("einsum {equation}"), function).twice(inputs);
    }
}

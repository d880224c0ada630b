//! The cases of `cargo xtask kernel-cost`: operations at small sizes, run on the emulated device,
//! which counts what their kernels cost.
//!
//! `SAMEBITS_EMULATOR_COUNTS` names the file to which the device adds a line for each launch; this
//! program adds one before and after each case. Arguments are parts of the names of the cases to run.

mod places;

use std::error::Error;
use std::fs::File;
use std::io::Write;

use samebits_cuda_kernels::Variant::{self, Atomic, Deterministic};
use samebits_cuda_kernels::attention::{Call, Upstream, attention, attention_grad};
use samebits_cuda_kernels::conv::{self, ConvParams, Convolution};
use samebits_cuda_kernels::conv_algorithms::{Algorithm, Tile};
use samebits_cuda_kernels::elementwise::formula::{Call as Formula, formula_all};
use samebits_cuda_kernels::elementwise::{
    BinaryKind, Pairing, UnaryKind, View, affine, binary, cast, cat, copy, unary,
};
use samebits_cuda_kernels::loss::{log_softmax, log_softmax_grad};
use samebits_cuda_kernels::matmul::{Matrix, Plan, matmul_atomic, matmul_by};
use samebits_cuda_kernels::norm::{
    Batch, Groups, batch_norm_grad, batch_normalize, batch_statistics, group_norm, group_norm_grad,
    layer_norm, layer_norm_grad, rms_norm, rms_norm_grad,
};
use samebits_cuda_kernels::optim::{Adam, adam_step, adam_step_all};
use samebits_cuda_kernels::recurrent::{Gates, lstm_cell};
use samebits_cuda_kernels::reduce::{Sum, extreme, sum, sum_with};
use samebits_cuda_kernels::scan::{Scan, scan};
use samebits_cuda_kernels::totals::{Floats, sum_of_powers};
use samebits_cuda_kernels::{Buffer, Device, random};
use samebits_rng::{Draw, Generator};
use samebits_tensor_core::geometry::AttentionSizes;
use samebits_tensor_core::ops::Step;

type Outcome = Result<(), Box<dyn Error>>;

/// An operation whose cost is linear in a size: it is run at two small ones.
struct Case {
    name: &'static str,
    /// The real size and the two small ones.
    real: usize,
    sizes: [usize; 2],
    /// Bytes that the operation cannot avoid to read and write at the real size.
    bytes: usize,
    /// How many times as many blocks the real operation has, and how much longer each runs, where
    /// that is not in the size.
    times: [usize; 2],
    /// Floating-point operations of a product at the real size.
    flops: usize,
    variants: &'static [Variant],
    run: fn(&Run, usize, Variant) -> Outcome,
}

/// A run of a case.
struct Run {
    device: Device,
    marks: File,
    /// What the line before the launches says.
    mark: String,
}

const ONE: &[Variant] = &[Deterministic];
const BOTH: &[Variant] = &[Deterministic, Atomic];
const M: usize = 1_000_000;
/// A batch of images: 16 of 64 channels of 56 x 56.
const IMAGES: usize = 16 * 64 * 56 * 56;

const fn case(
    name: &'static str,
    real: usize,
    sizes: [usize; 2],
    bytes: usize,
    variants: &'static [Variant],
    run: fn(&Run, usize, Variant) -> Outcome,
) -> Case {
    Case { name, real, sizes, bytes, times: [1, 1], flops: 0, variants, run }
}

fn main() -> Outcome {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let path = std::env::var("SAMEBITS_EMULATOR_COUNTS")
        .map_err(|_| "SAMEBITS_EMULATOR_COUNTS must name a file")?;
    for case in cases() {
        if !wanted.is_empty() && !wanted.iter().any(|part| case.name.contains(part)) {
            continue;
        }
        for &variant in case.variants {
            for size in case.sizes {
                let Case { name, real, bytes, times: [blocks, depth], flops, .. } = case;
                let form = if variant == Atomic { "atomic" } else { "deterministic" };
                let mark = format!(
                    "case\t{name}\t{form}\t{size} {real} {bytes} {blocks} {depth} {flops}\n"
                );
                let marks = File::options().create(true).append(true).open(&path)?;
                let run = Run { device: Device::new(0)?, marks, mark };
                (case.run)(&run, size, variant).map_err(|error| format!("{name}: {error}"))?;
                run.device.synchronize()?;
                (&run.marks).write_all(b"end\n")?;
            }
        }
    }
    Ok(())
}

impl Run {
    /// Ends the preparation: launches from here on count.
    fn begin(&self) -> Outcome {
        self.device.synchronize()?;
        Ok((&self.marks).write_all(self.mark.as_bytes())?)
    }

    fn floats(&self, count: usize) -> Result<Buffer<f32>, Box<dyn Error>> {
        self.between(count, -1.0, 1.0)
    }

    /// Creates reciprocals of standard deviations, as ordinary rows have them.
    fn rstds(&self, count: usize) -> Result<Buffer<f32>, Box<dyn Error>> {
        self.between(count, 0.5, 2.0)
    }

    fn between(&self, count: usize, low: f32, high: f32) -> Result<Buffer<f32>, Box<dyn Error>> {
        let mut values = vec![0.0f32; count];
        Generator::new(1).fill_uniform_f32(&mut values, low, high)?;
        Ok(self.device.upload(&values)?)
    }

    fn indices(&self, count: usize, bound: usize) -> Result<Buffer<i64>, Box<dyn Error>> {
        let mut values = vec![0i64; count];
        Generator::new(2).fill_randint(&mut values, 0, bound as i64)?;
        Ok(self.device.upload(&values)?)
    }

    /// Returns indices of which the low ones are far more likely, like the words of a text.
    fn skewed(&self, count: usize, bound: usize) -> Result<Buffer<i64>, Box<dyn Error>> {
        let index = |share: f64| (share * bound as f64) as i64;
        let values: Vec<i64> = skewed_shares(count)?.into_iter().map(index).collect();
        Ok(self.device.upload(&values)?)
    }

    /// Returns `count` coordinates of a sampling grid, most of them near the first corner.
    fn crowded(&self, count: usize) -> Result<Buffer<f32>, Box<dyn Error>> {
        let coordinate = |share: f64| (2.0 * share - 1.0) as f32;
        let values: Vec<f32> = skewed_shares(count)?.into_iter().map(coordinate).collect();
        Ok(self.device.upload(&values)?)
    }
}

/// Returns numbers from 0 to 1 of which the small ones are far more likely.
fn skewed_shares(count: usize) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut shares = vec![0f64; count];
    Generator::new(3).fill_uniform_f64(&mut shares, 0.0, 1.0)?;
    Ok(shares.into_iter().map(|u| u * u * u * u).collect())
}

fn cases() -> Vec<Case> {
    let mut all = elementwise();
    all.extend(reductions());
    all.extend(products());
    all.extend(attentions());
    all.extend(places::irregular());
    all.extend(places::windows());
    all.extend(layers());
    all
}

fn elementwise() -> Vec<Case> {
    let sizes = [8192, 16384];
    let n = 16 * M;
    vec![
        case("add 16M", n, sizes, 12 * n, ONE, |run, n, _| {
            let (a, b) = (run.floats(n)?, run.floats(n)?);
            run.begin()?;
            binary(&run.device, BinaryKind::Add, &a, &b, Pairing::Dense(n))?;
            Ok(())
        }),
        case("add a row, 16k x 1024", n, sizes, 8 * n, ONE, |run, n, _| {
            let (a, b) = (run.floats(n)?, run.floats(1024)?);
            run.begin()?;
            let pairing = Pairing::Strided {
                shape: &[n / 1024, 1024],
                a: View { strides: &[1024, 1], offset: 0 },
                b: View { strides: &[0, 1], offset: 0 },
            };
            binary(&run.device, BinaryKind::Add, &a, &b, pairing)?;
            Ok(())
        }),
        case("affine 16M", n, sizes, 8 * n, ONE, |run, n, _| {
            let x = run.floats(n)?;
            run.begin()?;
            affine(&run.device, &x, 0.5, 1.0)?;
            Ok(())
        }),
        case("relu 16M", n, sizes, 8 * n, ONE, |run, n, _| {
            let x = run.floats(n)?;
            run.begin()?;
            unary(&run.device, UnaryKind::Relu, &x)?;
            Ok(())
        }),
        case("exp 16M", n, sizes, 8 * n, ONE, |run, n, _| {
            let x = run.floats(n)?;
            run.begin()?;
            unary(&run.device, UnaryKind::Exp, &x)?;
            Ok(())
        }),
        case("cast to f64 16M", n, sizes, 12 * n, ONE, |run, n, _| {
            let x = run.floats(n)?;
            run.begin()?;
            let _: Buffer<f64> = cast(&run.device, &x)?;
            Ok(())
        }),
        case("cat of two 8M", n, sizes, 8 * n, ONE, |run, n, _| {
            let (a, b) = (run.floats(n / 2)?, run.floats(n / 2)?);
            run.begin()?;
            cat(&run.device, &[&a, &b], 1, &[n / 2, n / 2])?;
            Ok(())
        }),
        case("transpose 4096 x 4096", 4096, [128, 256], 8 * 4096 * 4096, ONE, |run, rows, _| {
            let columns = 128;
            let x = run.floats(rows * columns)?;
            run.begin()?;
            let view = View { strides: &[1, columns as isize], offset: 0 };
            copy(&run.device, &x, &[columns, rows], view)?;
            Ok(())
        })
        .times(32, 1),
        case("rand 16M", n, sizes, 4 * n, ONE, |run, n, _| {
            run.begin()?;
            random::uniform(&run.device, &Draw::new(1, 2, 3), n, 0.0f32, 1.0)?;
            Ok(())
        }),
        case("randn 16M", n, sizes, 4 * n, ONE, |run, n, _| {
            run.begin()?;
            random::normal(&run.device, &Draw::new(1, 2, 3), n, 0.0f32, 1.0)?;
            Ok(())
        }),
        case("dropout 16M", n, sizes, 9 * n, ONE, |run, n, _| {
            let x = run.floats(n)?;
            run.begin()?;
            random::dropout(&run.device, &Draw::new(1, 2, 3), &x, 0.5)?;
            Ok(())
        }),
        case("adam 16M", n, sizes, 28 * n, ONE, |run, n, _| {
            let settings = Adam {
                lr: 0.01,
                beta1: 0.9,
                beta2: 0.999,
                eps: 1e-8,
                weight_decay: 0.0,
                decoupled: false,
            };
            let (p, m, v) = (run.floats(n)?, run.floats(n)?, run.floats(n)?);
            let grad = run.floats(n)?;
            run.begin()?;
            adam_step(&run.device, &settings, 1, [&p, &m, &v], &grad)?;
            Ok(())
        }),
        case("adam of 100 parameters, 16M", n, [409_600, 819_200], 28 * n, ONE, |run, n, _| {
            let settings = Adam {
                lr: 0.01,
                beta1: 0.9,
                beta2: 0.999,
                eps: 1e-8,
                weight_decay: 0.0,
                decoupled: false,
            };
            let parts = || (0..100).map(|_| run.floats(n / 100)).collect::<Result<Vec<_>, _>>();
            let [p, m, v, grad] = [parts()?, parts()?, parts()?, parts()?];
            let tensors: Vec<_> = (0..100).map(|k| [&p[k], &m[k], &v[k], &grad[k]]).collect();
            run.begin()?;
            adam_step_all(&run.device, &settings, 1, &tensors)?;
            Ok(())
        }),
        case(
            "mean squares of 100 tensors, 16M",
            n,
            [409_600, 819_200],
            12 * n,
            ONE,
            |run, n, _| {
                // 0.99 · v + 0.01 · (g · g).
                let steps = [
                    Step::Affine { x: 0, scale: 0.99, shift: -0.0 },
                    Step::Binary(BinaryKind::Mul, 1, 1),
                    Step::Affine { x: 3, scale: 0.01, shift: -0.0 },
                    Step::Binary(BinaryKind::Add, 2, 4),
                ];
                let parts = || (0..100).map(|_| run.floats(n / 100)).collect::<Result<Vec<_>, _>>();
                let (v, g) = (parts()?, parts()?);
                let call =
                    |k: usize| Formula { steps: &steps, inputs: vec![&v[k], &g[k]], n: n / 100 };
                let calls: Vec<_> = (0..100).map(call).collect();
                run.begin()?;
                formula_all(&run.device, &calls)?;
                Ok(())
            },
        ),
        case("norm of 100 tensors, 16M", n, [409_600, 819_200], 4 * n, ONE, |run, n, _| {
            let parts = (0..100).map(|_| run.floats(n / 100)).collect::<Result<Vec<_>, _>>()?;
            let floats: Vec<_> = parts.iter().map(Floats::F32).collect();
            run.begin()?;
            sum_of_powers(&run.device, &floats, 1.0, 2.0)?;
            Ok(())
        }),
    ]
}

fn reductions() -> Vec<Case> {
    let n = 16 * M;
    vec![
        case("sum 16M", n, [32768, 65536], 4 * n, BOTH, |run, n, variant| {
            let x = run.floats(n)?;
            run.begin()?;
            sum_with(&run.device, &x, [1, n, 1], variant)?;
            Ok(())
        }),
        case("sum of rows 4096 x 4096", 4096, [16, 32], 4 * 4096 * 4096, ONE, |run, rows, _| {
            let x = run.floats(rows * 4096)?;
            run.begin()?;
            sum(&run.device, &x, [rows, 4096, 1], Sum::Sum)?;
            Ok(())
        }),
        case(
            "sum of columns 4096 x 4096",
            4096,
            [32, 64],
            4 * 4096 * 4096,
            ONE,
            |run, width, _| {
                let x = run.floats(4096 * width)?;
                run.begin()?;
                sum(&run.device, &x, [1, 4096, width], Sum::Sum)?;
                Ok(())
            },
        ),
        case("sum of columns 256k x 64", 1 << 18, [8192, 16384], 4 << 24, ONE, |run, n, _| {
            let x = run.floats(n * 64)?;
            run.begin()?;
            sum(&run.device, &x, [1, n, 64], Sum::Sum)?;
            Ok(())
        }),
        case("amax of rows 4096 x 4096", 4096, [16, 32], 4 * 4096 * 4096, ONE, |run, rows, _| {
            let x = run.floats(rows * 4096)?;
            run.begin()?;
            extreme(&run.device, &x, [rows, 4096, 1], false)?;
            Ok(())
        }),
        case("amax 16M", n, [2 << 20, 4 << 20], 4 * n, ONE, |run, n, _| {
            let x = run.floats(n)?;
            run.begin()?;
            extreme(&run.device, &x, [1, n, 1], false)?;
            Ok(())
        }),
        case("cumsum 16M", n, [32768, 65536], 8 * n, ONE, |run, n, _| {
            let x = run.floats(n)?;
            run.begin()?;
            scan(&run.device, &x, [1, n, 1], Scan::Sum)?;
            Ok(())
        }),
        case("cumsum down 4096 x 4096", 4096, [32, 64], 8 * 4096 * 4096, ONE, |run, width, _| {
            let x = run.floats(4096 * width)?;
            run.begin()?;
            scan(&run.device, &x, [1, 4096, width], Scan::Sum)?;
            Ok(())
        }),
        case("log_softmax 4096 x 4096", 4096, [16, 32], 8 * 4096 * 4096, ONE, |run, rows, _| {
            let x = run.floats(rows * 4096)?;
            run.begin()?;
            log_softmax(&run.device, &x, [rows, 4096, 1])?;
            Ok(())
        }),
        case("log_softmax grad 4096 x 4096", 4096, [16, 32], 12 << 24, ONE, |run, rows, _| {
            let (grad, y) = (run.floats(rows * 4096)?, run.floats(rows * 4096)?);
            run.begin()?;
            log_softmax_grad(&run.device, &grad, &y, [rows, 4096, 1])?;
            Ok(())
        }),
        case(
            "log_softmax down, 16 x 21 x 64k",
            1 << 20,
            [2048, 4096],
            (8 * 21) << 20,
            ONE,
            |run, n, _| {
                let x = run.floats(21 * n)?;
                run.begin()?;
                log_softmax(&run.device, &x, [1, 21, n])?;
                Ok(())
            },
        ),
        case("layer_norm 8192 x 768", 8192, [16, 32], 8 * 8192 * 768, ONE, |run, rows, _| {
            let x = run.floats(rows * 768)?;
            let (weight, bias) = (run.floats(768)?, run.floats(768)?);
            run.begin()?;
            layer_norm(&run.device, &x, [rows, 768], &weight, &bias, 1e-5)?;
            Ok(())
        }),
        case(
            "layer_norm grad 8192 x 768",
            8192,
            [64, 128],
            12 * 8192 * 768,
            ONE,
            |run, rows, _| {
                let (grad, x, weight) =
                    (run.floats(rows * 768)?, run.floats(rows * 768)?, run.floats(768)?);
                let (mean, rstd) = (run.floats(rows)?, run.rstds(rows)?);
                run.begin()?;
                layer_norm_grad(
                    &run.device,
                    &grad,
                    &x,
                    [rows, 768],
                    &weight,
                    [&mean, &rstd],
                    1e-5,
                )?;
                Ok(())
            },
        ),
        case("rms_norm 8192 x 768", 8192, [16, 32], 8 * 8192 * 768, ONE, |run, rows, _| {
            let (x, weight) = (run.floats(rows * 768)?, run.floats(768)?);
            run.begin()?;
            rms_norm(&run.device, &x, [rows, 768], Some(&weight), 1e-5)?;
            Ok(())
        }),
        case("rms_norm grad 8192 x 768", 8192, [64, 128], 12 * 8192 * 768, ONE, |run, rows, _| {
            let (grad, x, weight) =
                (run.floats(rows * 768)?, run.floats(rows * 768)?, run.floats(768)?);
            let (factor, rstd) = (run.rstds(rows)?, run.rstds(rows)?);
            let (shape, statistics) = ([rows, 768], [&factor, &rstd]);
            run.begin()?;
            rms_norm_grad(&run.device, &grad, &x, shape, Some(&weight), statistics, false)?;
            Ok(())
        }),
    ]
}

fn layers() -> Vec<Case> {
    const SHAPE: Batch = Batch { n: 0, channels: 64, spatial: 56 * 56 };
    const GROUP: Groups = Groups { n: 0, groups: 1, channels: 8, spatial: 56 * 56 };
    vec![
        case("batch_norm 16x64x56x56", 16, [8, 16], 8 * IMAGES, ONE, |run, n, _| {
            let shape = Batch { n, channels: 8, ..SHAPE };
            let x = run.floats(n * 8 * shape.spatial)?;
            let (weight, bias) = (run.floats(8)?, run.floats(8)?);
            run.begin()?;
            let found = batch_statistics(&run.device, &x, shape, 1e-5)?;
            batch_normalize(&run.device, &x, shape, &found.scaled, &weight, &bias)?;
            Ok(())
        })
        .times(8, 1),
        case("batch_norm grad 16x64x56x56", 16, [8, 16], 12 * IMAGES, ONE, |run, n, _| {
            let shape = Batch { n, channels: 8, ..SHAPE };
            let elements = n * 8 * shape.spatial;
            let (grad, x, weight) = (run.floats(elements)?, run.floats(elements)?, run.floats(8)?);
            let (mean, rstd) = (run.floats(8)?, run.rstds(8)?);
            run.begin()?;
            batch_norm_grad(&run.device, &grad, &x, shape, [&mean, &rstd], &weight, 1e-5)?;
            Ok(())
        })
        .times(8, 1),
        case("group_norm 16x64x56x56 in 8 groups", 16, [8, 16], 8 * IMAGES, ONE, |run, n, _| {
            let shape = Groups { n, ..GROUP };
            let (x, weight, bias) =
                (run.floats(n * GROUP.width())?, run.floats(8)?, run.floats(8)?);
            run.begin()?;
            group_norm(&run.device, &x, shape, Some(&weight), Some(&bias), 1e-5)?;
            Ok(())
        })
        .times(8, 1),
        // With the products, whose sums are the gradient of the weight.
        case(
            "group_norm grad 16x64x56x56 in 8 groups",
            16,
            [8, 16],
            16 * IMAGES,
            ONE,
            |run, n, _| {
                let (shape, elements) = (Groups { n, ..GROUP }, n * GROUP.width());
                let (grad, x, weight) =
                    (run.floats(elements)?, run.floats(elements)?, run.floats(8)?);
                let (mean, rstd) = (run.floats(n)?, run.rstds(n)?);
                let statistics = [&mean, &rstd];
                run.begin()?;
                group_norm_grad(&run.device, &grad, &x, shape, Some(&weight), statistics, 1e-5)?;
                Ok(())
            },
        )
        .times(8, 1),
        case("lstm cell 32 x 256", 32, [8, 16], 4 * 32 * 256 * 15, ONE, |run, n, _| {
            let (x, h) = (run.floats(n * 1024)?, run.floats(n * 1024)?);
            let (bias, cell) = (run.floats(1024)?, run.floats(n * 256)?);
            run.begin()?;
            let gates = Gates { x: &x, h: &h, bias_x: Some(&bias), bias_h: None };
            lstm_cell(&run.device, [n, 256], gates, &cell)?;
            Ok(())
        }),
    ]
}

/// `[m, k]` by `[k, n]`, dense, by the plan of the real size; None adds by atomics.
fn dense(run: &Run, [m, n, k]: [usize; 3], plan: Option<Plan>) -> Outcome {
    let (a, b) = (run.floats(m * k)?, run.floats(k * n)?);
    run.begin()?;
    let a = Matrix { data: &a, row: k, column: 1, offsets: &[0] };
    let b = Matrix { data: &b, row: n, column: 1, offsets: &[0] };
    match plan {
        Some(plan) => matmul_by(&run.device, a, b, [m, n, k], plan)?,
        None => matmul_atomic(&run.device, a, b, [m, n, k])?,
    };
    Ok(())
}

/// How large convolutions run.
const TILED: Algorithm = Algorithm::ImplicitGemm(Tile::Medium);

/// A convolution of 3 x 3 over images that are `height` rows of 56 in all.
fn convolution(height: usize) -> Result<(Convolution, usize), Box<dyn Error>> {
    let params =
        ConvParams { stride: vec![1; 2], padding: vec![1; 2], dilation: vec![1; 2], groups: 1 };
    let conv = Convolution::new("conv", &[1, 64, height, 56], &[64, 64, 3, 3], &params)?;
    Ok((conv, 64 * height * 56))
}

/// The length and the width of the heads of the attention cases.
const HEAD: [usize; 2] = [256, 64];

/// Calls `compute` with an attention of `heads` heads over dense arguments, and with a gradient.
fn attended(
    run: &Run,
    heads: usize,
    compute: impl FnOnce(&Call<'_, f32>, Upstream<'_, f32>) -> Outcome,
) -> Outcome {
    let [length, width] = HEAD;
    let sizes = AttentionSizes::new(
        "attention",
        &[heads, length, width],
        &[heads, length, width],
        &[heads, length, width],
    )?;
    let offsets: Vec<usize> = (0..heads).map(|head| head * length * width).collect();
    let floats = || run.floats(heads * length * width);
    let (query, key, value, grad) = (floats()?, floats()?, floats()?, floats()?);
    let (shared, largest) = (run.floats(heads * length)?, run.floats(heads * length)?);
    let matrix = |data| Matrix { data, row: width, column: 1, offsets: &offsets };
    let call = Call {
        sizes,
        query: matrix(&query),
        key: matrix(&key),
        value: matrix(&value),
        added: None,
        hidden: None,
        causal: None,
        dropout: None,
    };
    compute(&call, Upstream { grad: matrix(&grad), shared: &shared, largest: &largest })
}

fn attentions() -> Vec<Case> {
    let [length, width] = HEAD;
    let (bytes, flops) = (4 * 32 * length * width, 2 * 32 * length * length * width);
    vec![
        case("attention 32x256x64", 32, [1, 2], 4 * bytes, ONE, |run, heads, _| {
            attended(run, heads, |call, _| {
                run.begin()?;
                attention(&run.device, call)?;
                Ok(())
            })
        })
        .flops(2 * flops),
        case("attention 32x256x64 grad", 32, [1, 2], 7 * bytes, BOTH, |run, heads, variant| {
            attended(run, heads, |call, upstream| {
                run.begin()?;
                attention_grad(&run.device, call, upstream, variant)?;
                Ok(())
            })
        })
        .flops(5 * flops),
    ]
}

fn products() -> Vec<Case> {
    let flops = 2 * 64 * 64 * 9 * 16 * 56 * 56;
    let bytes = 8 * IMAGES;
    vec![
        case("matmul 1024^3", 1024, [128, 256], 12 << 20, ONE, |run, m, _| {
            dense(run, [m, 128, 512], Some(Plan::likely::<f32>([1024; 3], 1)))
        })
        .times(8, 2)
        .flops(2 << 30),
        case("matmul 4096^3", 4096, [128, 256], 12 << 24, ONE, |run, m, _| {
            dense(run, [m, 128, 512], Some(Plan::likely::<f32>([4096; 3], 1)))
        })
        .times(32, 8)
        .flops(2 << 36),
        case("matmul 64 x 64, k 64k", 1 << 16, [1024, 2048], 8 << 22, BOTH, |run, k, variant| {
            let plan = Plan { large: false, split: true };
            dense(run, [64, 64, k], (variant == Deterministic).then_some(plan))
        })
        .flops(2 << 28),
        case("conv2d 3x3 16x64x56x56", 896, [8, 16], bytes, ONE, |run, height, _| {
            let (conv, n) = convolution(height)?;
            let (x, weight) = (run.floats(n)?, run.floats(64 * 64 * 9)?);
            run.begin()?;
            TILED.forward(&run.device, &conv, &x, &weight, None)?;
            Ok(())
        })
        .flops(flops),
        case("conv2d 3x3 input grad", 896, [8, 16], bytes, ONE, |run, height, _| {
            let (conv, n) = convolution(height)?;
            let (grad, weight) = (run.floats(n)?, run.floats(64 * 64 * 9)?);
            run.begin()?;
            TILED.input_grad(&run.device, &conv, &grad, &weight, None)?;
            Ok(())
        })
        .flops(flops),
        case("conv2d 3x3 weight grad", 896, [19, 38], bytes, BOTH, |run, height, variant| {
            let (conv, n) = convolution(height)?;
            let (grad, x) = (run.floats(n)?, run.floats(n)?);
            run.begin()?;
            let algorithm = match variant {
                Deterministic => Algorithm::SplitK(Tile::Medium),
                Atomic => Algorithm::AtomicSplitK,
            };
            algorithm.weight_grad(&run.device, &conv, &grad, &x)?;
            Ok(())
        })
        .flops(flops),
        case("conv2d bias grad", 896, [448, 896], bytes / 2, ONE, |run, height, _| {
            let (conv, n) = convolution(height)?;
            let grad = run.floats(n)?;
            run.begin()?;
            conv::bias_grad(&run.device, &conv, &grad)?;
            Ok(())
        }),
    ]
}

impl Case {
    fn times(self, blocks: usize, depth: usize) -> Case {
        Case { times: [blocks, depth], ..self }
    }

    fn flops(self, flops: usize) -> Case {
        Case { flops, ..self }
    }
}

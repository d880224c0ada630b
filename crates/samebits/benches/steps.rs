//! Training steps and operators as users call them, all in one process.
//!
//! Prints `name<TAB>median ms<TAB>least ms<TAB>CPU ms of a call` for each case. Arguments are parts
//! of the names to run. The environment sets `REPS` (default 7 calls of each), `THREADS` (2) and
//! `REVERSE` (0; 1 runs the last case first). The script `python/benchmarks/steps.py` has the same
//! cases in PyTorch.

#![allow(clippy::mod_module_files, reason = "Cargo takes a file beside this one for a bench")]
#![allow(clippy::print_stdout, reason = "the table is what a benchmark is for")]

mod clock;
mod training;

use std::cell::RefCell;
use std::env;
use std::hint::black_box;
use std::mem;
use std::time::Instant;

use samebits::functional::{self as f, AttentionOptions, CtcOptions, Reduction, Resize};
use samebits::nn::{self, BatchNorm2d};
use samebits::ops::{ConvParams, PoolParams, QrMode};
use samebits::prelude::*;
use samebits::tensor_core::geometry::{
    GridMode, GridPadding, GridParams, InterpolateMode, PadMode,
};
use samebits::{Result, no_grad, rand, randint, randn, randperm};

/// The selection of cases, and the number of their calls.
struct Bench {
    wanted: Vec<String>,
    reps: usize,
    turn: Turn,
}

/// The action of a group when it is called.
enum Turn {
    /// Runs its cases.
    All,
    /// Lists their names.
    Names(RefCell<Vec<String>>),
    /// Runs the case of this name.
    Only(String),
}

impl Bench {
    fn runs(&self, name: &str) -> bool {
        if !self.wanted.is_empty() && !self.wanted.iter().any(|part| name.contains(part)) {
            return false;
        }
        match &self.turn {
            Turn::All => true,
            Turn::Names(names) => {
                names.borrow_mut().push(name.to_owned());
                false
            }
            Turn::Only(only) => only == name,
        }
    }

    /// Runs the cases of `group` from the last to the first.
    fn reversed(&mut self, group: Group) -> Result<()> {
        self.turn = Turn::Names(RefCell::default());
        group(self)?;
        let Turn::Names(names) = mem::replace(&mut self.turn, Turn::All) else { return Ok(()) };
        for name in names.into_inner().into_iter().rev() {
            self.turn = Turn::Only(name);
            group(self)?;
        }
        Ok(())
    }

    fn case(&self, name: &str, mut call: impl FnMut() -> Result<()>) -> Result<()> {
        if !self.runs(name) {
            return Ok(());
        }
        for _ in 0..2 {
            call()?;
        }
        let mut times = Vec::new();
        let before = clock::processor_seconds();
        for _ in 0..self.reps {
            let start = Instant::now();
            call()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let busy = (clock::processor_seconds() - before) * 1e3 / self.reps as f64;
        times.sort_by(f64::total_cmp);
        let median = (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0;
        println!("{name}\t{median:.3}\t{:.3}\t{busy:.3}", times[0]);
        Ok(())
    }

    /// Times a result alone.
    fn forward<R>(&self, name: &str, call: impl Fn() -> Result<R>) -> Result<()> {
        self.case(name, || no_grad(&call).map(|result| drop(black_box(result))))
    }

    /// Times a result and the gradients of its inputs, given one of the result.
    fn both(&self, name: &str, call: impl Fn() -> Result<Tensor>) -> Result<()> {
        if !self.runs(name) {
            return Ok(());
        }
        let result = no_grad(&call)?;
        let grad = randn(result.shape())?.to_dtype(result.dtype())?;
        self.case(name, || {
            black_box(call()?.backward_from(grad.clone(), false)?);
            Ok(())
        })
    }
}

/// Cases that share their inputs.
type Group = fn(&Bench) -> Result<()>;

fn parameter(shape: &[usize]) -> Result<Tensor> {
    randn(shape)?.set_requires_grad(true)
}

fn steps(bench: &Bench) -> Result<()> {
    for (name, make) in training::ALL {
        if bench.runs(name) {
            let mut training = make()?;
            bench.case(name, || training.step().map(|results| drop(black_box(results))))?;
        }
    }
    Ok(())
}

fn products(bench: &Bench) -> Result<()> {
    for n in [128, 512, 1024, 2048] {
        let (a, b) = (randn(&[n, n])?, randn(&[n, n])?);
        bench.forward(&format!("matmul_{n}"), || f::matmul(&a, &b))?;
    }
    let (a, b) = (randn(&[8192, 64])?, randn(&[64, 64])?);
    bench.forward("matmul_8192x64x64", || f::matmul(&a, &b))?;
    let (a, b) = (randn(&[1, 4096])?, randn(&[4096, 4096])?);
    bench.forward("matvec_4096", || f::matmul(&a, &b))?;
    let (a, b) = (randn(&[64, 128, 64])?, randn(&[64, 64, 128])?);
    bench.forward("bmm_64x128x64x128", || f::bmm(&a, &b))?;
    let (a, b) = (randn(&[4096, 16, 16])?, randn(&[4096, 16, 16])?);
    bench.forward("bmm_4096x16", || f::bmm(&a, &b))
}

fn convolutions(bench: &Bench) -> Result<()> {
    let conv = |name: &str, shapes: [&[usize]; 2], forward: bool, params: ConvParams| {
        let (x, w) = (parameter(shapes[0])?, parameter(shapes[1])?);
        let call = || f::conv(&x, &w, None, &params);
        if forward {
            bench.forward(&format!("{name}_fwd"), call)?;
        }
        bench.both(&format!("{name}_both"), call)
    };
    let padded = ConvParams::padded;
    conv("conv3x3", [&[16, 64, 56, 56], &[64, 64, 3, 3]], true, padded(2, 1))?;
    conv("conv1x1", [&[16, 256, 28, 28], &[64, 256, 1, 1]], true, padded(2, 0))?;
    let depthwise = ConvParams { groups: 96, ..padded(2, 1) };
    conv("depthwise", [&[8, 96, 56, 56], &[96, 1, 3, 3]], true, depthwise)?;
    let strided = ConvParams { stride: vec![2; 2], ..padded(2, 3) };
    conv("conv7x7s2", [&[4, 3, 224, 224], &[64, 3, 7, 7]], true, strided)?;
    conv("conv1d", [&[16, 64, 1000], &[64, 64, 5]], false, padded(1, 2))?;
    conv("conv3d", [&[2, 16, 16, 32, 32], &[32, 16, 3, 3, 3]], false, padded(3, 1))
}

fn elements(bench: &Bench) -> Result<()> {
    let (x, y) = (randn(&[16_000_000])?, randn(&[16_000_000])?);
    let leaf = x.clone().set_requires_grad(true)?;
    bench.forward("add_16M", || f::add(&x, &y))?;
    bench.forward("exp_16M", || x.exp())?;
    bench.forward("tanh_16M", || x.tanh())?;
    bench.forward("sin_16M", || x.sin())?;
    bench.forward("sum_16M", || x.sum(()))?;
    bench.forward("cumsum_16M", || x.cumsum(0))?;
    bench.both("gelu_16M_both", || leaf.gelu())?;
    bench.forward("dropout_16M", || f::dropout(&x, 0.5))?;
    let (x, y) = (randn(&[10])?, randn(&[10])?);
    bench.case("tiny_add_x1000", || {
        for _ in 0..1000 {
            black_box(f::add(&x, &y)?);
        }
        Ok(())
    })?;
    let (x, w, b) = (parameter(&[1, 16])?, parameter(&[16, 16])?, parameter(&[16])?);
    bench.case("tiny_linear_both_x1000", || {
        for _ in 0..1000 {
            black_box(f::linear(&x, &w, Some(&b))?.sum(())?.backward()?);
        }
        Ok(())
    })
}

fn rows(bench: &Bench) -> Result<()> {
    let x = randn(&[4096, 4096])?;
    bench.forward("softmax_4096", || x.softmax(1))?;
    bench.forward("transpose_copy_4096", || x.transpose(0, 1)?.reshape([4096 * 4096]))?;
    bench.forward("sum_dim0_4096", || x.sum(0))?;
    bench.forward("argmax_4096", || x.argmax(1))?;
    bench.forward("topk_50_4096", || f::topk(&x, 50, 1, true))?;
    bench.forward("sort_rows_4096", || f::sort(&x, 1, false))?;
    let (x, w, b) = (parameter(&[4096, 1024])?, parameter(&[1024])?, parameter(&[1024])?);
    bench.both("layer_norm_both", || f::layer_norm(&x, &[1024], Some(&w), Some(&b), 1e-5))?;
    let norm = BatchNorm2d::new(64)?;
    let x = parameter(&[16, 64, 56, 56])?;
    bench.both("batch_norm_both", || nn::train(|| norm.forward(&x)))?;
    let (logits, y) = (parameter(&[2048, 4000])?, randint(0, 4000, &[2048])?);
    bench.case("cross_entropy_both_2048x4000", || {
        black_box(f::cross_entropy(&logits, &y)?.backward()?);
        Ok(())
    })?;
    let window = PoolParams { stride: vec![2; 2], padding: vec![1; 2], ..PoolParams::square(2, 3) };
    bench.both("max_pool_both", || Ok(f::max_pool(&x, &window)?.0))?;
    bench.both("reflect_pad_both", || f::pad(&x, &[3; 4], PadMode::Reflect, 0.0))?;
    let bilinear = InterpolateMode::Linear { align_corners: false };
    bench.both("bilinear_both", || f::interpolate(&x, Resize::Scale(&[2.0; 2]), bilinear))?;
    let grid = f::affine(&rand(&[16, 56, 56, 2])?, 2.0, -1.0)?.set_requires_grad(true)?;
    let params =
        GridParams { mode: GridMode::Linear, padding: GridPadding::Zeros, align_corners: false };
    bench.both("grid_sample_both", || f::grid_sample(&x, &grid, params))
}

fn indices(bench: &Bench) -> Result<()> {
    let zeros = Tensor::zeros(&[100_000, 16], DType::F32)?;
    let (source, index) = (randn(&[1_000_000, 16])?, randint(0, 100_000, &[1_000_000])?);
    bench.forward("index_add", || f::index_add(&zeros, 0, &index, &source, 1.0))?;
    bench.forward("index_select", || f::index_select(&zeros, 0, &index))?;
    let zeros = Tensor::zeros(&[1_000_000], DType::F32)?;
    let (source, index) = (randn(&[4_000_000])?, randint(0, 1_000_000, &[4_000_000])?);
    bench.forward("scatter_add", || f::scatter_add(&zeros, 0, &index, &source))?;
    let (labels, weights) = (randint(0, 1000, &[8_000_000])?, randn(&[8_000_000])?);
    bench.forward("bincount_w", || f::bincount(&labels, Some(&weights), 1000))?;
    let (weight, ids) = (parameter(&[32_000, 256])?, randint(0, 32_000, &[64, 512])?);
    bench.both("embedding_both", || f::embedding(&weight, &ids))?;
    let log_probs = randn(&[150, 32, 60])?.log_softmax(2)?.set_requires_grad(true)?;
    let text = randint(1, 60, &[32, 30])?;
    let options = CtcOptions { reduction: Reduction::Mean, ..CtcOptions::default() };
    bench.case("ctc_both", || {
        let loss = f::ctc_loss(&log_probs, &text, &[150; 32], &[30; 32], options)?;
        black_box(loss.backward()?);
        Ok(())
    })
}

fn others(bench: &Bench) -> Result<()> {
    bench.forward("randn_16M", || randn(&[16_000_000]))?;
    bench.forward("rand_16M", || rand(&[16_000_000]))?;
    bench.forward("randperm_4M", || randperm(4_000_000))?;
    let x = randn(&[4_000_000])?;
    bench.forward("sort_4M", || f::sort(&x, 0, false))?;
    let labels = randint(0, 100_000, &[4_000_000])?;
    bench.forward("unique_4M", || f::unique(&labels))?;
    bench.forward("median_4M", || f::median(&x))?;
    let (x, y) = (randn(&[256, 256])?, randn(&[128, 128])?);
    bench.forward("qr_256", || f::qr(&x, QrMode::Reduced))?;
    bench.forward("svd_128", || f::svd(&y))
}

/// Attention: of self, without and with a causal mask; of groups of heads; under masks; and of new
/// queries to a cache.
fn attention(bench: &Bench) -> Result<()> {
    let both = |name: &str, x: &[Tensor; 3], options: &AttentionOptions<'_>| {
        let call = || {
            let [query, key, value] = x;
            f::scaled_dot_product_attention_with(query, key, value, options)
        };
        bench.forward(&format!("attention_{name}_fwd"), call)?;
        bench.both(&format!("attention_{name}_both"), call)
    };
    let inputs = |query: &[usize], key: &[usize]| -> Result<[Tensor; 3]> {
        Ok([parameter(query)?, parameter(key)?, parameter(key)?])
    };
    let plain = AttentionOptions::default();
    let causal = AttentionOptions { causal_offset: Some(0), ..plain };
    for (name, shape) in [
        ("4x8x256x64", [4, 8, 256, 64]),
        ("1x4x1024x32", [1, 4, 1024, 32]),
        ("2x12x1024x64", [2, 12, 1024, 64]),
        ("3x5x333x40", [3, 5, 333, 40]),
        ("1x1x2048x128", [1, 1, 2048, 128]),
        ("32x4x48x16", [32, 4, 48, 16]),
    ] {
        let x = inputs(&shape, &shape)?;
        both(name, &x, &plain)?;
        both(&format!("{name}_causal"), &x, &causal)?;
    }
    let grouped = AttentionOptions { enable_gqa: true, ..causal };
    both("groups", &inputs(&[1, 8, 512, 64], &[1, 2, 512, 64])?, &grouped)?;
    let x = inputs(&[4, 8, 256, 64], &[4, 8, 256, 64])?;
    let shown = f::lt(&rand(&[4, 1, 1, 256])?, 0.8)?;
    both("mask", &x, &AttentionOptions { attn_mask: Some(&shown), ..plain })?;
    let added = randn(&[8, 256, 256])?;
    both("bias", &x, &AttentionOptions { attn_mask: Some(&added), ..plain })?;
    both("cross", &inputs(&[4, 8, 100, 64], &[4, 8, 700, 64])?, &plain)?;
    both("cache", &inputs(&[4, 8, 1, 64], &[4, 8, 1000, 64])?, &plain)
}

/// The same in bf16 as other cases in f32, by name.
fn halves(bench: &Bench) -> Result<()> {
    let half = DType::BF16;
    let of = |shape: &[usize]| randn(shape)?.to_dtype(half);
    let parameter = |shape: &[usize]| of(shape)?.set_requires_grad(true);
    let (a, b) = (of(&[2048, 2048])?, of(&[2048, 2048])?);
    bench.forward("bf16_matmul_2048", || f::matmul(&a, &b))?;
    let (a, b) = (of(&[1, 4096])?, of(&[4096, 4096])?);
    bench.forward("bf16_matvec_4096", || f::matmul(&a, &b))?;
    let (x, w, b) = (parameter(&[1024, 1024])?, parameter(&[1024, 1024])?, parameter(&[1024])?);
    bench.both("bf16_linear_1024_both", || f::linear(&x, &w, Some(&b)))?;
    let x = of(&[4096, 4096])?;
    bench.forward("bf16_add_4096", || f::add(&x, &x))?;
    bench.forward("bf16_softmax_4096", || x.softmax(1))?;
    let (x, w, b) = (parameter(&[4096, 1024])?, parameter(&[1024])?, parameter(&[1024])?);
    bench.both("bf16_layer_norm_both", || f::layer_norm(&x, &[1024], Some(&w), Some(&b), 1e-5))?;
    if bench.runs("step_gpt_bf16") {
        let mut training = training::gpt_in(half, 8, 128)?;
        bench.case("step_gpt_bf16", || training.step().map(|results| drop(black_box(results))))?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let number = |name: &str, default: usize| {
        env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    // Cargo passes `--bench`.
    let wanted = env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let wanted = wanted.flat_map(|a| a.split(',').map(str::to_owned).collect::<Vec<_>>()).collect();
    let reps = number("REPS", 7).max(1);
    let mut bench = Bench { wanted, reps, turn: Turn::All };
    let groups: [Group; 9] =
        [steps, products, convolutions, elements, rows, indices, others, attention, halves];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(number("THREADS", 2)).build();
    pool.expect("threads can be started").install(|| {
        manual_seed(1);
        if number("REVERSE", 0) == 1 {
            return groups.into_iter().rev().try_for_each(|group| bench.reversed(group));
        }
        groups.into_iter().try_for_each(|group| group(&bench))
    })
}

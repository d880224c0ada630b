//! Training steps and operators as users call them, all in one process.
//!
//! Prints `name<TAB>median ms<TAB>least ms<TAB>CPU ms of a call` for each case. Arguments are parts of the
//! names wanted; the environment gives `REPS` (7 calls of each), `THREADS` (2) and `REVERSE` (0; 1 for the
//! last case first). The script `python/benchmarks/steps.py` has the same cases in PyTorch.

#![allow(clippy::print_stdout, reason = "the table is what a benchmark is for")]

use std::cell::RefCell;
use std::env;
use std::fs;
use std::hint::black_box;
use std::mem;
use std::time::Instant;

use samebits::functional::{self as f, CtcOptions, EmbeddingBagOptions, Reduction, Resize};
use samebits::nn::{
    self, AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Embedding, Flatten, LSTM, LayerNorm, Linear,
    ReLU, Sequential,
};
use samebits::ops::{BagMode, ConvParams, PoolParams, QrMode};
use samebits::optim::{AdamW, Sgd};
use samebits::prelude::*;
use samebits::tensor_core::geometry::{
    GridMode, GridPadding, GridParams, InterpolateMode, PadMode,
};
use samebits::{Result, no_grad, rand, randint, randn, randperm, sequential};

/// Which cases run, and how often.
struct Bench {
    wanted: Vec<String>,
    reps: usize,
    turn: Turn,
}

/// What a group does when it is called.
enum Turn {
    /// Runs its cases.
    All,
    /// Says their names.
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

    /// The cases of `group` from the last to the first.
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
        let before = cpu_seconds();
        for _ in 0..self.reps {
            let start = Instant::now();
            call()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let busy = (cpu_seconds() - before) * 1e3 / self.reps as f64;
        times.sort_by(f64::total_cmp);
        let median = (times[(times.len() - 1) / 2] + times[times.len() / 2]) / 2.0;
        println!("{name}\t{median:.3}\t{:.3}\t{busy:.3}", times[0]);
        Ok(())
    }

    /// A result alone.
    fn forward<R>(&self, name: &str, call: impl Fn() -> Result<R>) -> Result<()> {
        self.case(name, || no_grad(&call).map(|result| drop(black_box(result))))
    }

    /// A result and the gradients of what it is computed from, given one of the result.
    fn both(&self, name: &str, call: impl Fn() -> Result<Tensor>) -> Result<()> {
        if !self.runs(name) {
            return Ok(());
        }
        let grad = no_grad(&call)?.randn_like()?;
        self.case(name, || {
            black_box(call()?.backward_from(grad.clone(), false)?);
            Ok(())
        })
    }

    /// A step of training.
    fn step<M: Module>(
        &self,
        name: &str,
        model: &mut M,
        optimizer: &mut impl Optimizer,
        loss: impl Fn(&M) -> Result<Tensor>,
    ) -> Result<()> {
        self.case(name, || {
            let gradients = nn::train(|| loss(model))?.backward()?;
            optimizer.step(model, &gradients)
        })
    }
}

/// Cases that share their inputs.
type Group = fn(&Bench) -> Result<()>;

/// Processor time that this process has used; 0 where the system does not say.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // User and system time in hundredths of a second, the 14th and 15th field.
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn parameter(shape: &[usize]) -> Result<Tensor> {
    randn(shape)?.set_requires_grad(true)
}

#[derive(Module)]
struct Block {
    ln1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    ln2: LayerNorm,
    up: Linear,
    down: Linear,
    #[module(skip)]
    heads: usize,
}

impl Block {
    fn new(c: usize, heads: usize) -> Result<Block> {
        Ok(Block {
            ln1: LayerNorm::new(c)?,
            qkv: Linear::new(c, 3 * c)?,
            proj: Linear::new(c, c)?,
            ln2: LayerNorm::new(c)?,
            up: Linear::new(c, 4 * c)?,
            down: Linear::new(4 * c, c)?,
            heads,
        })
    }

    fn forward(&self, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let &[n, t, c] = x.shape() else { unreachable!("[n, t, c]") };
        let width = c / self.heads;
        let qkv = self.qkv.forward(&self.ln1.forward(x)?)?;
        let heads = |x: &Tensor| f::transpose(&f::reshape(x, [n, t, self.heads, width])?, 1, 2);
        let [q, k, v] = &f::split(&qkv, &[c; 3], 2)?[..] else { unreachable!("three parts") };
        let (q, k, v) = (heads(q)?, heads(k)?, heads(v)?);
        let scores = f::matmul(&q, &f::transpose(&k, 2, 3)?)?;
        let scores = f::affine(&scores, 1.0 / (width as f64).sqrt(), -0.0)?;
        let weights = f::softmax(&f::add(&scores, mask)?, 3)?;
        let found = f::transpose(&f::matmul(&weights, &v)?, 1, 2)?;
        let x = (x + self.proj.forward(&f::reshape(&found, [n, t, c])?)?)?;
        let h = self.up.forward(&self.ln2.forward(&x)?)?.gelu()?;
        &x + self.down.forward(&h)?
    }
}

#[derive(Module)]
struct Gpt {
    emb: Embedding,
    pos: Tensor,
    blocks: Vec<Block>,
    ln: LayerNorm,
    head: Linear,
}

impl Gpt {
    fn new(words: usize, c: usize, layers: usize, heads: usize, t: usize) -> Result<Gpt> {
        Ok(Gpt {
            emb: Embedding::new(words, c)?,
            pos: parameter(&[t, c])?,
            blocks: (0..layers).map(|_| Block::new(c, heads)).collect::<Result<_>>()?,
            ln: LayerNorm::new(c)?,
            head: Linear::new(c, words)?,
        })
    }

    fn forward(&self, ids: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let mut x = (self.emb.forward(ids)? + &self.pos)?;
        for block in &self.blocks {
            x = block.forward(&x, mask)?;
        }
        self.head.forward(&self.ln.forward(&x)?)
    }
}

#[derive(Module)]
struct Recommender {
    items: Tensor,
    out: Sequential,
}

fn steps(bench: &Bench) -> Result<()> {
    let mut mlp = sequential![
        Linear::new(784, 512)?,
        ReLU,
        Linear::new(512, 512)?,
        ReLU,
        Linear::new(512, 10)?,
    ];
    let (x, y) = (randn(&[256, 784])?, randint(0, 10, &[256])?);
    let sgd = || Sgd::options(0.01).momentum(0.9).init();
    bench.step("step_mlp", &mut mlp, &mut sgd()?, |m| f::cross_entropy(&m.forward(&x)?, &y))?;

    let mut cnn = Sequential::new();
    for channels in [3, 64, 64, 64, 64] {
        cnn = cnn
            .append(Conv2d::options(channels, 64, 3).padding(1).init()?)
            .append(BatchNorm2d::new(64)?)
            .append(ReLU);
    }
    cnn = cnn
        .append(AdaptiveAvgPool2d::new(1))
        .append(Flatten::default())
        .append(Linear::new(64, 10)?);
    let (x, y) = (randn(&[16, 3, 32, 32])?, randint(0, 10, &[16])?);
    bench.step("step_cnn", &mut cnn, &mut sgd()?, |m| f::cross_entropy(&m.forward(&x)?, &y))?;

    let mut gpt = Gpt::new(1000, 256, 2, 4, 128)?;
    let (ids, y) = (randint(0, 1000, &[8, 128])?, randint(0, 1000, &[8 * 128])?);
    let mask = Tensor::full(&[128, 128], f64::NEG_INFINITY, DType::F32)?.triu(1)?;
    let mut adam = AdamW::options(1e-3).weight_decay(0.0).init()?;
    bench.step("step_gpt", &mut gpt, &mut adam, |m| {
        f::cross_entropy(&f::reshape(&m.forward(&ids, &mask)?, [8 * 128, 1000])?, &y)
    })?;

    let lstm = LSTM::new(256, 256)?;
    let (x, grad) = (parameter(&[64, 32, 256])?, randn(&[64, 32, 256])?);
    bench.case("step_lstm", || {
        black_box(lstm.forward(&x, None)?.0.backward_from(grad.clone(), false)?);
        Ok(())
    })?;

    let out = sequential![Linear::new(64, 256)?, ReLU, Linear::new(256, 2)?];
    let mut recommender = Recommender { items: parameter(&[100_000, 64])?, out };
    let (ids, y) = (randint(0, 100_000, &[512, 64])?, randint(0, 2, &[512])?);
    let mut optimizer = sgd()?;
    bench.case("step_recsys", || {
        let sums = EmbeddingBagOptions { mode: BagMode::Sum, ..EmbeddingBagOptions::default() };
        let bags = f::embedding_bag(&recommender.items, &ids, None, None, sums)?;
        let loss = f::cross_entropy(&recommender.out.forward(&bags)?, &y)?;
        optimizer.step(&mut recommender.out, &loss.backward()?)
    })
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

fn main() -> Result<()> {
    let number = |name: &str, default: usize| {
        env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    // Cargo passes `--bench`.
    let wanted = env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let wanted = wanted.flat_map(|a| a.split(',').map(str::to_owned).collect::<Vec<_>>()).collect();
    let reps = number("REPS", 7).max(1);
    let mut bench = Bench { wanted, reps, turn: Turn::All };
    let groups: [Group; 7] = [steps, products, convolutions, elements, rows, indices, others];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(number("THREADS", 2)).build();
    pool.expect("threads can be started").install(|| {
        manual_seed(1);
        if number("REVERSE", 0) == 1 {
            return groups.into_iter().rev().try_for_each(|group| bench.reversed(group));
        }
        groups.into_iter().try_for_each(|group| group(&bench))
    })
}

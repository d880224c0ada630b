//! Several algorithms for one convolution of f32, to be raced against each other.
//!
//! Any [`Algorithm`] runs any checked [`Convolution`] that it applies to. The canonical ones give the
//! bits of [`conv`], whatever the data: each sum belongs to one thread, or is cut at the
//! borders of the written order and put together in that order.

use crate::launch::kernels::{conv as kernels, conv_tiles as tiles};
use crate::launch::{Buffer, Launch};
pub use samebits_tensor_core::geometry::ConvPass;
use samebits_tensor_core::geometry::ConvSizes;

use crate::Variant;
use crate::conv::{self, Convolution, WEIGHT_BLOCK};
use crate::device::{Device, expect_len};
use crate::error::{CudaError, Result};
use crate::launch::declared::conv::RawConv;
use crate::matmul::{K_BLOCK, LAUNCH, MOST_BLOCKS, tile_time};
use crate::reduce::grid;

/// Taps whose weights fit the shared memory of `conv_depthwise_f32`.
const DEPTHWISE_TAPS: usize = 1024;
/// Threads of a block over a tile.
const THREADS: u32 = 256;

/// A way to compute a convolution of f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Algorithm {
    /// One thread for each sum, straight from global memory. Canonical, every pass, every shape.
    Direct,
    /// The product of matrices that are never formed, tile by tile. Canonical, every pass.
    ImplicitGemm(Tile),
    /// As `ImplicitGemm`, with k split over thread blocks at the borders of the order, and the
    /// partial sums added in ascending order by a second kernel. Canonical, every pass.
    SplitK(Tile),
    /// One channel in and out per group: the weights in shared memory, and for their gradient a few
    /// threads for each channel. Canonical, every pass.
    Depthwise,
    /// As `SplitK`, but the partial sums are added by float atomics as they arrive. Bounded, and
    /// not even repeatable; needs no memory for them.
    AtomicSplitK,
}

/// Outputs that one thread block computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Tile {
    /// One per thread.
    Small,
    /// 4 x 4 per thread.
    Medium,
    /// 8 x 4 per thread.
    Large,
}

impl Tile {
    /// Returns the rows and columns.
    #[must_use]
    pub fn size(self) -> [usize; 2] {
        match self {
            Tile::Small => [16, 16],
            Tile::Medium => [64, 64],
            Tile::Large => [128, 64],
        }
    }
}

impl Algorithm {
    /// Every algorithm. The order is that of the ids of candidates, which break ties.
    pub const ALL: [Algorithm; 9] = [
        Algorithm::Direct,
        Algorithm::ImplicitGemm(Tile::Small),
        Algorithm::ImplicitGemm(Tile::Medium),
        Algorithm::ImplicitGemm(Tile::Large),
        Algorithm::SplitK(Tile::Small),
        Algorithm::SplitK(Tile::Medium),
        Algorithm::SplitK(Tile::Large),
        Algorithm::Depthwise,
        Algorithm::AtomicSplitK,
    ];

    /// Returns the name in choice files, whose meaning never changes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Direct => "direct",
            Algorithm::ImplicitGemm(Tile::Small) => "implicit-gemm-16x16",
            Algorithm::ImplicitGemm(Tile::Medium) => "implicit-gemm-64x64",
            Algorithm::ImplicitGemm(Tile::Large) => "implicit-gemm-128x64",
            Algorithm::SplitK(Tile::Small) => "split-k-16x16",
            Algorithm::SplitK(Tile::Medium) => "split-k-64x64",
            Algorithm::SplitK(Tile::Large) => "split-k-128x64",
            Algorithm::Depthwise => "depthwise",
            Algorithm::AtomicSplitK => "atomic-split-k-64x64",
        }
    }

    /// Returns true if it has the bits of the contract.
    #[must_use]
    pub fn is_canonical(self) -> bool {
        self != Algorithm::AtomicSplitK
    }

    /// Returns the largest distance of an element from the contract's, as a multiple of terms · max
    /// |a| · max |b|: the terms are those of the element's sum, a and b the two factors. 0 of a
    /// canonical algorithm. Holds for finite inputs whose sums do not overflow.
    #[must_use]
    pub fn tolerance(self) -> f64 {
        if self.is_canonical() { 0.0 } else { 1e-6 }
    }
}

/// The matrices of one group, for a pass: C is m x n, and k is summed over.
#[derive(Clone, Copy, Debug)]
struct Product {
    m: usize,
    n: usize,
    k: usize,
    /// Consecutive k in one chain of the order.
    block: usize,
}

impl Product {
    fn new(s: &ConvSizes, pass: ConvPass) -> Product {
        let volume = |size: [usize; 3]| size.iter().product::<usize>();
        let ConvSizes { batch, inputs, outputs, .. } = *s;
        let (kernel, input, output) = (volume(s.kernel), volume(s.input), volume(s.output));
        match pass {
            ConvPass::Forward => {
                Product { m: outputs, n: batch * output, k: inputs * kernel, block: K_BLOCK }
            }
            ConvPass::InputGrad => {
                Product { m: inputs, n: batch * input, k: outputs * kernel, block: K_BLOCK }
            }
            ConvPass::WeightGrad => {
                Product { m: outputs, n: inputs * kernel, k: batch * output, block: WEIGHT_BLOCK }
            }
        }
    }

    /// Blocks of the order.
    fn blocks(&self) -> usize {
        self.k.div_ceil(self.block)
    }
}

impl Algorithm {
    /// Returns true if the algorithm can compute `pass` of the convolution.
    #[must_use]
    pub fn applies(self, conv: &Convolution, pass: ConvPass) -> bool {
        if RawConv::new(conv, false).is_err() {
            return false;
        }
        let s = conv.sizes();
        let product = Product::new(s, pass);
        match self {
            Algorithm::Direct => pass != ConvPass::WeightGrad || product.blocks() <= MOST_BLOCKS,
            Algorithm::ImplicitGemm(tile) => fits(s, tile, &product),
            Algorithm::SplitK(tile) => {
                (2..=MOST_BLOCKS).contains(&product.blocks()) && fits(s, tile, &product)
            }
            Algorithm::AtomicSplitK => {
                (2..=MOST_BLOCKS).contains(&product.blocks()) && fits(s, Tile::Medium, &product)
            }
            Algorithm::Depthwise => {
                let single = s.inputs == 1 && s.outputs == 1;
                single && volume(s.kernel) <= DEPTHWISE_TAPS as u128
            }
        }
    }

    /// Returns the bytes that the algorithm needs beside input, weight and output.
    #[must_use]
    pub fn workspace(self, conv: &Convolution, pass: ConvPass) -> usize {
        let product = Product::new(conv.sizes(), pass);
        let partials = match self {
            Algorithm::SplitK(_) => product.blocks(),
            Algorithm::Direct | Algorithm::Depthwise if pass == ConvPass::WeightGrad => {
                product.blocks()
            }
            _ => 0,
        };
        let outputs = product.m * product.n * conv.sizes().groups;
        partials.saturating_mul(outputs).saturating_mul(size_of::<f32>())
    }

    /// Returns the written heuristic: an estimate of the time in cycles of a GPU with 128 multiprocessors,
    /// from the shape alone. It was written before this ran on any GPU.
    #[must_use]
    pub fn estimate(self, conv: &Convolution, pass: ConvPass) -> f64 {
        let product = Product::new(conv.sizes(), pass);
        let Product { m, n, k, block } = product;
        let groups = conv.sizes().groups;
        let outputs = (m * n * groups) as f64;
        let blocks = product.blocks();
        // Thread blocks of eight warps take turns on a multiprocessor that issues four instructions
        // at once; with few of them, what a k waits for its operands decides.
        let time = |thread_blocks: f64, instructions: f64, waits: f64, k: usize| {
            let turns = (thread_blocks / 128.0).ceil();
            LAUNCH + k as f64 * (turns * instructions * 2.0).max(waits)
        };
        let combine = || time(outputs / 256.0, 4.0, 16.0, blocks);
        let tiles = |tile: Tile, depth: usize, layers: usize| {
            let [rows, columns] = tile.size();
            let thread_blocks =
                (m.div_ceil(rows) * n.div_ceil(columns) * groups) as f64 * layers as f64;
            let [i, j] = [rows / 16, columns / 16];
            // Places of A and B, and the taps that are skipped.
            let staging = (8 * i + 22 * j) as f64 / 16.0 + 2.0 * j as f64;
            tile_time(thread_blocks, [i, j], staging, depth)
        };
        let weight = pass == ConvPass::WeightGrad;
        match self {
            Algorithm::Direct if weight => {
                time(outputs * blocks as f64 / 256.0, 60.0, 120.0, k.min(block)) + combine()
            }
            // A thread visits only the taps through which its element meets outputs.
            Algorithm::Direct if pass == ConvPass::InputGrad => {
                let met = k / conv.sizes().stride.iter().product::<usize>().max(1);
                time(outputs / 256.0, 20.0, 40.0, met)
            }
            Algorithm::Direct => time(outputs / 256.0, 20.0, 40.0, k),
            Algorithm::ImplicitGemm(tile) => tiles(tile, k, 1),
            Algorithm::SplitK(tile) => tiles(tile, k.min(block), blocks) + combine(),
            Algorithm::AtomicSplitK => {
                tiles(Tile::Medium, k.min(block), blocks) + combine() - LAUNCH
            }
            Algorithm::Depthwise if weight => {
                let threads = groups as f64 * blocks as f64 * lanes(conv.sizes()) as f64;
                time(threads / 256.0, 15.0, 40.0, k.min(block)) + combine()
            }
            Algorithm::Depthwise => time(outputs / 256.0, 12.0, 40.0, k),
        }
    }

    /// Returns the canonical algorithm with the lowest estimate.
    #[must_use]
    pub fn likely(conv: &Convolution, pass: ConvPass) -> Algorithm {
        Algorithm::ALL
            .into_iter()
            .filter(|&algorithm| algorithm.is_canonical() && algorithm.applies(conv, pass))
            .min_by(|&a, &b| a.estimate(conv, pass).total_cmp(&b.estimate(conv, pass)))
            .unwrap_or(Algorithm::Direct)
    }

    /// Computes [`conv::forward`] by this algorithm.
    ///
    /// # Determinism
    ///
    /// Portable for a canonical algorithm, with the same bits. Not guaranteed for the other.
    ///
    /// # Errors
    ///
    /// [`CudaError::Length`]; [`CudaError::InvalidArgument`] if the algorithm does not
    /// [apply](Algorithm::applies).
    pub fn forward(
        self,
        device: &Device,
        conv: &Convolution,
        input: &Buffer<f32>,
        weight: &Buffer<f32>,
        bias: Option<&Buffer<f32>>,
    ) -> Result<Buffer<f32>> {
        let pass = ConvPass::Forward;
        self.check(conv, pass)?;
        if self == Algorithm::Direct {
            return conv::forward(device, conv, input, weight, bias);
        }
        let (op, s) = (conv.op(), conv.sizes());
        expect_len(op, "the input", input, s.input_len())?;
        expect_len(op, "the weight", weight, s.weight_len())?;
        if let Some(bias) = bias {
            expect_len(op, "the bias", bias, s.channels())?;
        }
        let call = Call { conv, pass, device };
        match self {
            Algorithm::Depthwise => call.planes(input, weight, bias),
            _ => call.tiles(self, weight, input, bias),
        }
    }

    /// Computes [`conv::input_grad`] by this algorithm.
    ///
    /// # Determinism
    ///
    /// As [`forward`](Algorithm::forward).
    ///
    /// # Errors
    ///
    /// As [`forward`](Algorithm::forward).
    pub fn input_grad(
        self,
        device: &Device,
        conv: &Convolution,
        grad: &Buffer<f32>,
        weight: &Buffer<f32>,
        bias: Option<&Buffer<f32>>,
    ) -> Result<Buffer<f32>> {
        let pass = ConvPass::InputGrad;
        self.check(conv, pass)?;
        if self == Algorithm::Direct {
            return conv::input_grad(device, conv, grad, weight, bias);
        }
        let (op, s) = (conv.op(), conv.sizes());
        expect_len(op, "the gradient", grad, s.output_len())?;
        expect_len(op, "the weight", weight, s.weight_len())?;
        if let Some(bias) = bias {
            expect_len(op, "the bias", bias, s.groups * s.inputs)?;
        }
        let call = Call { conv, pass, device };
        match self {
            Algorithm::Depthwise => call.planes(grad, weight, bias),
            _ => call.tiles(self, weight, grad, bias),
        }
    }

    /// Computes [`conv::weight_grad`] by this algorithm.
    ///
    /// # Determinism
    ///
    /// As [`forward`](Algorithm::forward).
    ///
    /// # Errors
    ///
    /// As [`forward`](Algorithm::forward).
    pub fn weight_grad(
        self,
        device: &Device,
        conv: &Convolution,
        grad: &Buffer<f32>,
        input: &Buffer<f32>,
    ) -> Result<Buffer<f32>> {
        let pass = ConvPass::WeightGrad;
        self.check(conv, pass)?;
        if self == Algorithm::Direct {
            return conv::weight_grad(device, conv, grad, input, Variant::Deterministic);
        }
        let (op, s) = (conv.op(), conv.sizes());
        expect_len(op, "the gradient", grad, s.output_len())?;
        expect_len(op, "the input", input, s.input_len())?;
        let call = Call { conv, pass, device };
        match self {
            Algorithm::Depthwise => call.depthwise_weight(grad, input),
            _ => call.tiles(self, grad, input, None),
        }
    }

    fn check(self, conv: &Convolution, pass: ConvPass) -> Result<()> {
        if self.applies(conv, pass) {
            return Ok(());
        }
        // A size that no kernel takes has an error of its own.
        RawConv::new(conv, false)?;
        let (name, sizes) = (self.name(), conv.sizes());
        Err(CudaError::invalid(conv.op(), format!("{name} does not apply to {pass} of {sizes:?}")))
    }
}

/// Returns true if the places of the tiles' kernels fit 31 bits, and the tiles a grid.
fn fits(s: &ConvSizes, tile: Tile, product: &Product) -> bool {
    let limit = 1u128 << 31;
    let [rows, columns] = tile.size();
    let tiles =
        product.m.div_ceil(rows) as u128 * product.n.div_ceil(columns) as u128 * s.groups as u128;
    volume(s.input) < limit && volume(s.output) < limit && tiles < limit
}

/// Returns the number of neighbouring threads that share a channel in the depthwise weight gradient.
fn lanes(s: &ConvSizes) -> usize {
    (volume(s.kernel).min(32) as usize).next_power_of_two()
}

/// One pass of a convolution whose arguments have been checked.
struct Call<'a> {
    conv: &'a Convolution,
    pass: ConvPass,
    device: &'a Device,
}

impl Call<'_> {
    /// By tiles of the product of `a` and `b`.
    fn tiles(
        &self,
        algorithm: Algorithm,
        a: &Buffer<f32>,
        b: &Buffer<f32>,
        bias: Option<&Buffer<f32>>,
    ) -> Result<Buffer<f32>> {
        let (op, device) = (self.conv.op(), self.device);
        let product = Product::new(self.conv.sizes(), self.pass);
        let groups = self.conv.sizes().groups;
        let outputs = product.m * product.n * groups;
        let (tile, layers) = match algorithm {
            Algorithm::ImplicitGemm(tile) => (tile, 1),
            Algorithm::SplitK(tile) => (tile, product.blocks()),
            _ => (Tile::Medium, product.blocks()),
        };
        let split = u32::from(!matches!(algorithm, Algorithm::ImplicitGemm(_)));
        let partials = matches!(algorithm, Algorithm::SplitK(_));
        let mut out = match algorithm {
            Algorithm::AtomicSplitK => device.zeros_for(op, outputs)?,
            Algorithm::SplitK(_) => {
                device.uninitialised(op, crate::device::product(op, &[outputs, layers])?)?
            }
            _ => device.uninitialised(op, outputs)?,
        };
        let [rows, columns] = tile.size();
        let tiles = product.m.div_ceil(rows) * product.n.div_ceil(columns) * groups;
        // The kernel that combines the partials adds the bias.
        let p = self.raw(bias.filter(|_| !partials))?;
        let bias_or_any = bias.unwrap_or(a);
        let (grid, block) = ((grid(op, tiles)?, layers as u32, 1), (THREADS, 1, 1));
        macro_rules! launch {
            ($kernel:ident) => {
                tiles::$kernel { out: &mut out, a, b, bias: bias_or_any, p, split }
                    .grid(device, op, grid, block)?
            };
        }
        let canonical = algorithm.is_canonical().then_some(tile);
        match (self.pass, canonical) {
            (ConvPass::Forward, Some(Tile::Small)) => launch!(Conv16x16),
            (ConvPass::Forward, Some(Tile::Medium)) => launch!(Conv64x64),
            (ConvPass::Forward, Some(Tile::Large)) => launch!(Conv128x64),
            (ConvPass::Forward, None) => launch!(Conv64x64Atomic),
            (ConvPass::InputGrad, Some(Tile::Small)) => launch!(ConvInputGrad16x16),
            (ConvPass::InputGrad, Some(Tile::Medium)) => launch!(ConvInputGrad64x64),
            (ConvPass::InputGrad, Some(Tile::Large)) => launch!(ConvInputGrad128x64),
            (ConvPass::InputGrad, None) => launch!(ConvInputGrad64x64Atomic),
            (ConvPass::WeightGrad, Some(Tile::Small)) => launch!(ConvWeightGrad16x16),
            (ConvPass::WeightGrad, Some(Tile::Medium)) => launch!(ConvWeightGrad64x64),
            (ConvPass::WeightGrad, Some(Tile::Large)) => launch!(ConvWeightGrad128x64),
            (ConvPass::WeightGrad, None) => launch!(ConvWeightGrad64x64Atomic),
        }
        if partials { self.combine(&out, outputs, layers, bias) } else { Ok(out) }
    }

    /// Groups of one channel, forward or with respect to the input.
    fn planes(
        &self,
        source: &Buffer<f32>,
        weight: &Buffer<f32>,
        bias: Option<&Buffer<f32>>,
    ) -> Result<Buffer<f32>> {
        let (op, device) = (self.conv.op(), self.device);
        let product = Product::new(self.conv.sizes(), self.pass);
        let groups = self.conv.sizes().groups;
        let mut out = device.uninitialised(op, product.n * groups)?;
        let batch = self.conv.sizes().batch;
        let positions = product.n.checked_div(batch).unwrap_or(0);
        let chunks = positions.div_ceil(device.block() as usize);
        let blocks = crate::device::product(op, &[batch, groups, chunks])?;
        let (grid, block) = ((grid(op, blocks)?, 1, 1), (device.block(), 1, 1));
        let (p, bias) = (self.raw(bias)?, bias.unwrap_or(weight));
        if self.pass == ConvPass::Forward {
            kernels::ConvDepthwise { out: &mut out, input: source, weight, bias, p }
                .grid(device, op, grid, block)?;
        } else {
            kernels::ConvDepthwiseInputGrad { grad_in: &mut out, grad: source, weight, bias, p }
                .grid(device, op, grid, block)?;
        }
        Ok(out)
    }

    fn depthwise_weight(&self, grad: &Buffer<f32>, input: &Buffer<f32>) -> Result<Buffer<f32>> {
        let (op, device) = (self.conv.op(), self.device);
        let product = Product::new(self.conv.sizes(), self.pass);
        let groups = self.conv.sizes().groups;
        let (outputs, blocks) = (product.n * groups, product.blocks());
        if outputs == 0 || blocks == 0 {
            return device.zeros_for(op, outputs);
        }
        let mut partials =
            device.uninitialised(op, crate::device::product(op, &[outputs, blocks])?)?;
        let lanes = lanes(self.conv.sizes());
        let threads = crate::device::product(op, &[groups, blocks, lanes])?;
        kernels::ConvDepthwiseWeightPartial {
            partials: &mut partials,
            grad,
            input,
            p: self.raw(None)?,
            blocks,
            lanes: lanes as u32,
        }
        .threads(device, op, threads)?;
        self.combine(&partials, outputs, blocks, None)
    }

    /// Adds partial sums in ascending order, and then the bias.
    fn combine(
        &self,
        partials: &Buffer<f32>,
        outputs: usize,
        blocks: usize,
        bias: Option<&Buffer<f32>>,
    ) -> Result<Buffer<f32>> {
        let (op, device) = (self.conv.op(), self.device);
        let mut out = device.uninitialised(op, outputs)?;
        let Product { m, n, .. } = Product::new(self.conv.sizes(), self.pass);
        let s = self.conv.sizes();
        let positions = n.checked_div(s.batch).unwrap_or(1).max(1);
        tiles::ConvCombine {
            out: &mut out,
            partials,
            bias: bias.unwrap_or(partials),
            n: outputs,
            blocks,
            channels: m * s.groups,
            positions,
            with_bias: u32::from(bias.is_some()),
        }
        .threads(device, op, outputs)?;
        Ok(out)
    }

    fn raw(&self, bias: Option<&Buffer<f32>>) -> Result<RawConv> {
        RawConv::new(self.conv, bias.is_some())
    }
}

fn volume(size: [usize; 3]) -> u128 {
    size.into_iter().map(|n| n as u128).product()
}

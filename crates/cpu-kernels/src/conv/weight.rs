//! The weight gradient.
//!
//! For each pair of channels and each tap, the sum over images and output positions of output
//! gradient times input. Rows of a register tile are pairs of input channel and tap, read from
//! a padded copy of the input; lanes are output channels, read from the transposed gradient.
//!
//! As in the [`gather`](super::gather) passes, the copy multiplies with zero where the contract
//! skips, and what that could change is formed again.

use super::geometry::{DIMS, Dims, Phase, coordinates, volume};
use super::source::{Fill, Window};
use crate::arch::{Finish, Offsets, TileMut, Tiling};
use crate::gemm::pack::{Lanes, PackPanels};
use crate::gemm::scratch::Buffer;
use crate::gemm::{Real, even_parts};
use crate::parallel;
use parking_lot::Mutex;
use samebits_numerics::memory::{self, OutOfMemory};
use samebits_numerics::simd;
use samebits_tensor_core::geometry::ConvSizes;

use std::ops::Range;

/// Positions in one chain of fused multiply-adds of a weight gradient.
///
/// Part of the numerics contract. It is longer than [`K_BLOCK`](crate::gemm::K_BLOCK) because
/// this sum has as many terms as there are output positions in the batch: with shorter blocks
/// the block sums, which are kept until it is their turn to be added, would take more memory
/// than the tensors.
pub const WEIGHT_BLOCK: usize = 1024;

/// Bytes of block sums or transposed gradients that are kept at a time, at most.
const ROUND_BYTES: usize = 8 << 20;

struct Runner<'a, T: 'static> {
    geometry: &'a ConvSizes,
    phase: Phase,
    input: &'a [T],
    gradient: &'a [T],
    /// The columns are the output channels of a group.
    tiles: Tiling<T>,
    /// Output positions of an image and of the batch.
    positions: usize,
    total: usize,
    /// Output channels of a group, rounded up to whole tiles.
    lanes: usize,
    /// Input channels times taps that do not lie in the padding everywhere.
    rows: usize,
}

/// Writes the weight gradient in the order of the contract.
pub(crate) fn run<T: Real>(
    geometry: &ConvSizes,
    input: &[T],
    gradient: &[T],
    out: &mut [T],
) -> Result<(), OutOfMemory> {
    let runner = Runner::new(geometry, input, gradient);
    let blocks = runner.total.div_ceil(WEIGHT_BLOCK);
    if blocks == 0 || runner.rows == 0 {
        out.fill(T::default());
        return Ok(());
    }
    let mut sums = runner.sums()?;
    // With many blocks and few weights the blocks are shared among threads, otherwise the
    // weights are. Each block's sum is the same either way.
    let by_block = blocks >= 8 && sums.len() * size_of::<T>() <= ROUND_BYTES / 8;
    if by_block {
        runner.by_block(blocks, &mut sums)?;
    } else {
        runner.by_channel(blocks, &mut sums)?;
    }
    runner.put(&sums, out);
    runner.mend(out)
}

/// Writes the weight gradient with the block sums merged in the order in which threads finish:
/// one pass, no block sums to keep, and bits that change from run to run.
pub(crate) fn run_unordered<T: Real>(
    geometry: &ConvSizes,
    input: &[T],
    gradient: &[T],
    out: &mut [T],
) -> Result<(), OutOfMemory> {
    let runner = Runner::new(geometry, input, gradient);
    let blocks = runner.total.div_ceil(WEIGHT_BLOCK);
    if runner.rows == 0 {
        out.fill(T::default());
        return Ok(());
    }
    let shared = Mutex::new(runner.sums()?);
    parallel::items(0..blocks).try_for_each_with(
        || runner.sums(),
        |partial, block| {
            runner.whole_block(block, partial)?;
            for (sum, &part) in shared.lock().iter_mut().zip(&*partial) {
                *sum = sum.plus(part);
            }
            Ok(())
        },
    )?;
    runner.put(&shared.into_inner(), out);
    Ok(())
}

impl<'a, T: Real> Runner<'a, T> {
    fn new(geometry: &'a ConvSizes, input: &'a [T], gradient: &'a [T]) -> Self {
        let kernels = T::kernels(simd::level());
        let vectors = if geometry.outputs <= kernels.lanes() { 1 } else { 2 };
        let tiles = kernels.tiling(kernels.with_vectors(vectors), geometry.outputs);
        let phase = Phase::of_outputs(geometry);
        let rows = geometry.inputs * phase.taps.len();
        let positions = volume(geometry.output);
        Runner {
            geometry,
            phase,
            input,
            gradient,
            lanes: geometry.outputs.next_multiple_of(tiles.columns()),
            tiles,
            positions,
            total: geometry.batch * positions,
            rows,
        }
    }

    /// Returns zeros for the sums of every weight, `[group][channel and tap][lane]`.
    fn sums(&self) -> Result<Vec<T>, OutOfMemory> {
        let len = memory::product(&[self.geometry.groups, self.rows, self.lanes]);
        memory::zeroed(len.ok_or(OutOfMemory { bytes: usize::MAX })?)
    }

    /// Threads take blocks; block sums are added in ascending order afterwards.
    fn by_block(&self, blocks: usize, sums: &mut [T]) -> Result<(), OutOfMemory> {
        let len = sums.len();
        let at_once = (ROUND_BYTES / size_of_val(sums)).clamp(8, blocks.max(8));
        let mut partials: Vec<T> = memory::zeroed(at_once.min(blocks) * len)?;
        for from in (0..blocks).step_by(at_once) {
            let count = at_once.min(blocks - from);
            parallel::chunks_mut(&mut partials[..count * len], len)
                .enumerate()
                .try_for_each(|(i, partial)| self.whole_block(from + i, partial))?;
            const PIECE: usize = 1 << 12;
            parallel::chunks_mut(sums, PIECE).enumerate().for_each(|(piece, sums)| {
                for i in 0..count {
                    let partial = &partials[i * len + piece * PIECE..][..sums.len()];
                    for (sum, &partial) in sums.iter_mut().zip(partial) {
                        *sum = if from + i == 0 { partial } else { sum.plus(partial) };
                    }
                }
            });
        }
        Ok(())
    }

    /// Returns the sums of one block for every weight.
    fn whole_block(&self, block: usize, partial: &mut [T]) -> Result<(), OutOfMemory> {
        let finish = Finish { add: false, last: false };
        T::with_scratch(|scratch| {
            for (group, partial) in partial.chunks_exact_mut(self.rows * self.lanes).enumerate() {
                let steps = self.steps(block);
                let packed = scratch.b.slice(&[steps.len(), self.lanes])?;
                self.transpose(group, steps, packed);
                let (channels, source) = (0..self.geometry.inputs, &mut scratch.source);
                self.form(group, channels, block, packed, partial, finish, source)?;
            }
            Ok(())
        })
    }

    /// Threads take input channels and walk through the blocks in order.
    fn by_channel(&self, blocks: usize, sums: &mut [T]) -> Result<(), OutOfMemory> {
        let taps = self.phase.taps.len();
        let (lanes, rows) = (self.lanes, self.rows);
        let block_len =
            memory::product(&[WEIGHT_BLOCK.min(self.total), lanes, self.geometry.groups])
                .ok_or(OutOfMemory { bytes: usize::MAX })?;
        // With few output channels most lanes of a tile are empty, and all blocks together would take
        // many times the memory of the gradient.
        let round = ROUND_BYTES.min(size_of_val(self.gradient)) / size_of::<T>();
        let at_once = (round / block_len).clamp(1, blocks);
        // Channels of a task: several row panels, so that the gradient is read seldom.
        let channels = (3 * self.tiles.max_rows()).div_ceil(taps).min(self.geometry.inputs);
        let per_group = self.geometry.inputs.div_ceil(channels);
        T::with_scratch(|scratch| {
            for from in (0..blocks).step_by(at_once) {
                let round = from..blocks.min(from + at_once);
                let packed = scratch.b.slice(&[round.len(), block_len])?;
                let pieces = parallel::chunks_mut(packed, block_len);
                pieces.zip(parallel::items(round.clone())).for_each(|(packed, block)| {
                    let steps = self.steps(block);
                    for group in 0..self.geometry.groups {
                        let part = &mut packed[group * steps.len() * lanes..];
                        self.transpose(group, steps.clone(), &mut part[..steps.len() * lanes]);
                    }
                });
                let packed = &*packed;
                let mut tasks = memory::with_capacity(per_group * self.geometry.groups)?;
                for (group, sums) in sums.chunks_exact_mut(rows * lanes).enumerate() {
                    for (part, sums) in sums.chunks_mut(channels * taps * lanes).enumerate() {
                        tasks.push(Some((group, part * channels, sums)));
                    }
                }
                debug_assert_eq!(tasks.len(), per_group * self.geometry.groups);
                parallel::tasks(&mut tasks).at_most(1).try_for_each(|(group, first, sums)| {
                    let channels = first..first + sums.len() / (taps * lanes);
                    T::with_scratch(|scratch| {
                        for block in round.clone() {
                            let steps = self.steps(block).len();
                            let at = (block - from) * block_len + group * steps * lanes;
                            let packed = &packed[at..at + steps * lanes];
                            let finish = Finish { add: block > 0, last: false };
                            let (channels, source) = (channels.clone(), &mut scratch.source);
                            self.form(group, channels, block, packed, sums, finish, source)?;
                        }
                        Ok(())
                    })
                })?;
            }
            Ok(())
        })
    }

    /// Returns the output positions of a block, counted through the batch.
    fn steps(&self, block: usize) -> Range<usize> {
        block * WEIGHT_BLOCK..self.total.min((block + 1) * WEIGHT_BLOCK)
    }

    /// Returns the parts of a range of positions that lie in one image each.
    fn images(&self, steps: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> + use<T> {
        let positions = self.positions;
        (steps.start / positions..steps.end.div_ceil(positions)).map(move |image| {
            let first = image * positions;
            let from = steps.start.max(first) - first;
            let to = steps.end.min(first + positions) - first;
            (image, from..to)
        })
    }

    /// Packs the gradient of some positions as `[tile][position][lane]`.
    fn transpose(&self, group: usize, steps: Range<usize>, packed: &mut [T]) {
        let width = self.tiles.columns();
        let outputs = self.geometry.outputs;
        for (tile, panel) in packed.chunks_exact_mut(width * steps.len()).enumerate() {
            let lanes = tile * width..outputs.min((tile + 1) * width);
            let mut rest = panel;
            for (image, part) in self.images(steps.clone()) {
                let (now, after) = rest.split_at_mut(part.len() * width);
                rest = after;
                let from = (image * self.geometry.groups + group) * outputs * self.positions;
                simd::dispatch(PackPanels {
                    source: Lanes {
                        data: &self.gradient[from..],
                        lane_stride: self.positions,
                        step_stride: 1,
                    },
                    panels: std::slice::from_ref(&lanes),
                    steps: part,
                    width,
                    out: now,
                });
            }
        }
    }

    /// Adds one block to `sums`, `[channel and tap][lane]`.
    fn form(
        &self,
        group: usize,
        channels: Range<usize>,
        block: usize,
        packed: &[T],
        sums: &mut [T],
        finish: Finish,
        source: &mut Buffer<T>,
    ) -> Result<(), OutOfMemory> {
        let geometry = self.geometry;
        let steps = self.steps(block);
        let parts: Vec<_> = self
            .images(steps.clone())
            .map(|(image, part)| {
                let (first, count) = enclosing_box(part.clone(), geometry.output);
                (image, part, first, count)
            })
            .collect();
        // One layout for all parts, so that a row has one offset.
        let mut count = [1; DIMS];
        for (_, _, _, part) in &parts {
            for d in 0..DIMS {
                count[d] = count[d].max(part[d]);
            }
        }
        let mut window = Window::new(&self.phase, [0; DIMS], count)?;
        let source = source.slice(&[parts.len(), channels.len(), window.channel])?;
        let per_part = channels.len() * window.channel;
        let mut places = Vec::with_capacity(steps.len());
        for (index, ((image, part, first, _), to)) in
            parts.iter().zip(source.chunks_exact_mut(per_part)).enumerate()
        {
            window.move_to(*first);
            let channel = volume(geometry.input);
            let from =
                ((image * geometry.groups + group) * geometry.inputs + channels.start) * channel;
            let from = &self.input[from..][..channels.len() * channel];
            let inside = &window.inside(geometry.input)?;
            let (channels, images) = (channels.len(), 0..1);
            simd::dispatch(Fill { inside, channel, channels, images, from, image_stride: 0, to });
            for position in part.clone() {
                let at = coordinates(position, geometry.output);
                let at = std::array::from_fn(|d| at[d] - first[d]);
                places.push(index * per_part + window.position(at));
            }
        }
        let places = Offsets::new(places);
        let taps = (0..self.phase.taps.len()).map(|tap| window.tap(&self.phase, tap));
        let taps: Vec<_> = memory::collected(taps)?;
        let row_places = (0..channels.len() * taps.len())
            .map(|row| row / taps.len() * window.channel + taps[row % taps.len()]);
        let row_places: Vec<usize> = memory::collected(row_places)?;
        let width = self.tiles.columns();
        let mut to = TileMut::from_slice(sums, row_places.len(), self.lanes);
        let mut rows = Offsets::default();
        for part in even_parts(row_places.len(), self.tiles.max_rows()) {
            rows.refill(row_places[part.clone()].iter().copied());
            for (tile, panel) in packed.chunks_exact(width * steps.len()).enumerate() {
                let at = (part.start, tile * width);
                let k = steps.len();
                let steps = (&places, 0, k);
                let tiles = self.tiles.of(self.geometry.outputs - tile * width);
                tiles.run_strided(source, &rows, steps, panel, width, &mut to, at, finish);
            }
        }
        Ok(())
    }

    /// Turns `[group][channel and tap][lane]` into the layout of the weights.
    fn put(&self, sums: &[T], out: &mut [T]) {
        let (rows, lanes, outputs) = (self.rows, self.lanes, self.geometry.outputs);
        let of_channel = parallel::chunks_mut(out, self.weights());
        of_channel.at_least(8).enumerate().for_each(|(channel, out)| {
            let (group, lane) = (channel / outputs, channel % outputs);
            let sums = &sums[group * rows * lanes..][..rows * lanes];
            if rows < out.len() {
                out.fill(T::default());
            }
            for row in 0..rows {
                out[self.place(row)] = sums[row * lanes + lane].canonical();
            }
        });
    }

    /// Weights of one output channel.
    fn weights(&self) -> usize {
        self.geometry.inputs * volume(self.geometry.kernel)
    }

    /// Returns the place of a row among the weights of an output channel.
    fn place(&self, row: usize) -> usize {
        let taps = &self.phase.taps;
        row / taps.len() * volume(self.geometry.kernel) + taps[row % taps.len()].index
    }

    /// Forms again what multiplying with padding zeros may have changed.
    fn mend(&self, out: &mut [T]) -> Result<(), OutOfMemory> {
        let geometry = self.geometry;
        let padded =
            (0..DIMS).any(|d| self.phase.interior(d, geometry.input[d]) != (0..geometry.output[d]));
        if !padded {
            return Ok(());
        }
        let taps = self.phase.taps.len();
        let channel = volume(geometry.input);
        let least = |values: &mut dyn Iterator<Item = &T>| {
            values.filter(|x| x.finite()).map(|x| x.last_bit_exponent()).min()
        };
        // Most gradients are finite and not zero; then nothing below is needed.
        let doubt = |x: &T| !x.finite() || *x == T::default();
        if !parallel::chunks(out, parallel::CHUNK).any(|piece| piece.iter().any(doubt)) {
            return Ok(());
        }
        let channels = geometry.groups * geometry.inputs;
        let mut input_least: Vec<i32> = memory::zeroed(channels)?;
        parallel::chunks_mut(&mut input_least, 1).enumerate().for_each(|(c, to)| {
            let mut values = self.input.chunks_exact(channel).skip(c).step_by(channels).flatten();
            to[0] = least(&mut values).unwrap_or(i32::MAX / 4);
        });
        parallel::chunks_mut(out, self.weights()).enumerate().for_each(|(output, out)| {
            let group = output / geometry.outputs;
            let gradients = || {
                self.gradient
                    .chunks_exact(self.positions)
                    .skip(output)
                    .step_by(geometry.groups * geometry.outputs)
            };
            // A gradient that is not finite makes every sum it enters not finite, zeros of the
            // padding included: finite sums prove finite gradients.
            let broken =
                out.iter().any(|x| !x.finite()) && gradients().flatten().any(|x| !x.finite());
            if !broken && out.iter().all(|x| *x != T::default()) {
                return;
            }
            let gradient_least = least(&mut gradients().flatten()).unwrap_or(i32::MAX / 4);
            for row in 0..self.rows {
                let out = &mut out[self.place(row)];
                let input = group * geometry.inputs + row / taps;
                let doubtful = broken
                    || (*out == T::default()
                        && gradient_least + input_least[input] < T::MIN_EXPONENT);
                if doubtful {
                    *out = self.skip(output, input, row % taps);
                }
            }
        });
        Ok(())
    }

    /// Computes one weight by the letter of the contract.
    fn skip(&self, output: usize, input: usize, tap: usize) -> T {
        let geometry = self.geometry;
        let (inputs, outputs) =
            (geometry.groups * geometry.inputs, geometry.groups * geometry.outputs);
        let [d0, d1, d2] = geometry.input;
        let offset = self.phase.taps[tap].offset;
        let mut total = T::default();
        for block in 0..self.total.div_ceil(WEIGHT_BLOCK) {
            let mut partial = T::default();
            for (image, part) in self.images(self.steps(block)) {
                let values = &self.input[(image * inputs + input) * d0 * d1 * d2..][..d0 * d1 * d2];
                let gradient = &self.gradient[(image * outputs + output) * self.positions..];
                for position in part {
                    let at = coordinates(position, geometry.output);
                    let x: Dims = std::array::from_fn(|d| {
                        ((at[d] * geometry.stride[d]) as isize + offset[d]) as usize
                    });
                    if x[0] < d0 && x[1] < d1 && x[2] < d2 {
                        let x = values[(x[0] * d1 + x[1]) * d2 + x[2]];
                        partial = x.fma(gradient[position], partial);
                    }
                }
            }
            total = if block == 0 { partial } else { total.plus(partial) };
        }
        total.canonical()
    }
}

/// Returns the smallest box that holds a range of row-major positions.
fn enclosing_box(positions: Range<usize>, dims: Dims) -> (Dims, Dims) {
    let mut first = coordinates(positions.start, dims);
    let last = coordinates(positions.end - 1, dims);
    let mut count = [1; DIMS];
    let mut split = false;
    for d in 0..DIMS {
        if split {
            first[d] = 0;
            count[d] = dims[d];
        } else {
            count[d] = last[d] - first[d] + 1;
            split = count[d] > 1;
        }
    }
    (first, count)
}

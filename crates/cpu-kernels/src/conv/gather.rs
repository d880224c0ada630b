//! Runs a [`Gather`] pass: forward, input gradient and transposed convolution.
//!
//! The pass is a product of the weights with the matrix of source elements under each target
//! position, which is never built. A task copies a piece of the source with zeros around it, and
//! register tiles read their columns from there.
//!
//! The contract skips taps in the padding; the copy multiplies them with zero instead. With
//! finite weights this can change nothing but the sign of a zero: adding ±0 leaves every sum as it
//! is, except that −0 may become +0, and a sum that differs in this way alone stays equal until
//! it is zero again at the end. −0 comes from underflow only. So a border position is formed
//! once more, by skipping, if a weight is not finite, or if a result is zero and a product of
//! such small numbers is possible.

use super::cut::Cut;
use super::exact::{Column, FindZeros};
use super::geometry::{DIMS, Dims, Gather, Phase, volume};
use super::source::{Fill, Inside, Window};
use super::weights::{PackedWeights, WeightRange};
use crate::arch::{Finish, Kernels, Offsets, TileFns, TileGrid, TileMut};
use crate::gemm::driver::products;
use crate::gemm::pack::{Factors, Lanes};
use crate::gemm::scratch::Scratch;
use crate::gemm::{K_BLOCK, Real};
use crate::parallel;
use samebits_numerics::memory::{self, OutOfMemory};
use samebits_numerics::simd;
use std::ops::Range;

/// A piece of the target that one task forms.
struct Piece {
    images: Range<usize>,
    groups: Range<usize>,
    /// Target channels of each group.
    rows: Range<usize>,
    /// Target coordinates of the split dimension.
    strip: Range<usize>,
}

struct Runner<'a, T: 'static> {
    pass: &'a Gather,
    phases: Vec<(&'a Phase, PackedWeights<T>, &'static TileFns<T>)>,
    source: &'a [T],
    bias: Option<&'a [T]>,
    range: WeightRange,
    cut: Cut,
    kernels: &'static Kernels<T>,
}

/// Forms every element of `target`.
pub(crate) fn run<T: Real>(
    pass: &Gather,
    source: &[T],
    weights: &[T],
    bias: Option<&[T]>,
    target: &mut [T],
) -> Result<(), OutOfMemory> {
    if target.is_empty() {
        return Ok(());
    }
    if is_pointwise(pass) {
        return run_pointwise(pass, source, weights, bias, target);
    }
    if !pass.covers_target() {
        // What no tap reaches is the empty sum.
        target.fill(T::default());
        add_bias(bias, volume(pass.target), target);
    }
    let kernels = T::kernels(simd::level());
    let cut = Cut::new::<T>(pass, kernels.with_vectors(2).max_rows());
    let phases = pass
        .phases
        .iter()
        .map(|phase| {
            let columns = volume(phase.count) * pass.batch;
            let vectors = match pass.rows {
                _ if columns <= kernels.lanes() => 1,
                1..=3 => 8,
                4..=6 => 4,
                _ => 2,
            };
            let tiles = kernels.with_vectors(vectors);
            let rows = cut.channels.min(pass.rows);
            let packed = PackedWeights::new(pass, phase, weights, rows, tiles.max_rows())?;
            Ok((phase, packed, tiles))
        })
        .collect::<Result<_, _>>()?;
    let range = WeightRange::of(weights);
    let runner = Runner { pass, phases, source, bias, range, cut, kernels };
    let inner: usize = pass.target[cut.axis + 1..].iter().product();
    let shape = (pass.groups * pass.rows, volume(pass.target));
    let tile = (cut.images, cut.channels, cut.strip * inner);
    TileGrid::new(target, pass.batch, shape, tile).try_for_each(
        |image, channel, column, mut out| {
            let (group, row) = (channel / pass.rows, channel % pass.rows);
            let piece = Piece {
                images: image..image + out.matrices,
                groups: group..group + out.rows.div_ceil(pass.rows),
                rows: row..row + out.rows.min(pass.rows),
                strip: column / inner..(column + out.columns) / inner,
            };
            T::with_scratch(|scratch| runner.piece(&piece, &mut out, scratch))
        },
    )
}

/// Returns true if each target position reads the source position of the same place: a matrix
/// product.
fn is_pointwise(pass: &Gather) -> bool {
    pass.volume == 1
        && pass.source == pass.target
        && matches!(&pass.phases[..], [phase] if phase.source_step == [1; DIMS]
            // Without a tap the target lies between the strides, and nothing is read.
            && matches!(&phase.taps[..], [tap] if tap.offset == [0; DIMS]))
}

/// Returns one product for each image and group, in the same order of k.
fn run_pointwise<T: Real>(
    pass: &Gather,
    source: &[T],
    weights: &[T],
    bias: Option<&[T]>,
    target: &mut [T],
) -> Result<(), OutOfMemory> {
    let positions = volume(pass.target);
    let factors = |index: usize| Factors {
        a: Lanes {
            data: &weights[index % pass.groups * pass.weight_group..],
            lane_stride: pass.weight_row,
            step_stride: pass.weight_channel,
        },
        b: Lanes {
            data: &source[index * pass.channels * positions..],
            lane_stride: 1,
            step_stride: positions,
        },
    };
    let shape = (pass.rows, positions, pass.channels);
    products(pass.batch * pass.groups, shape, factors, target)?;
    add_bias(bias, positions, target);
    Ok(())
}

/// Adds each channel's bias to its positions.
fn add_bias<T: Real>(bias: Option<&[T]>, positions: usize, target: &mut [T]) {
    let Some(bias) = bias else { return };
    let least = parallel::CHUNK.div_ceil(positions);
    parallel::chunks_mut(target, positions).enumerate().at_least(least).for_each(|(index, row)| {
        simd::dispatch(PlusBias { bias: bias[index % bias.len()], row });
    });
}

/// A run of neighbouring target positions: lanes of a column tile and where they go.
#[derive(Clone, Copy)]
struct Run {
    lane: usize,
    len: usize,
    /// Image within the piece.
    image: usize,
    /// Target coordinates relative to the box.
    at: Dims,
}

/// What does not change while a task works on one phase.
struct Frame<'a, T: 'static> {
    phase: &'a Phase,
    weights: &'a PackedWeights<T>,
    tiles: &'static TileFns<T>,
    window: Window,
    inside: Inside,
    /// Elements of the copy of one image.
    per_image: usize,
    /// Box of target coordinates of the phase.
    first: Dims,
    count: Dims,
    /// Where each step reads in the copy.
    steps: Offsets,
    /// The same, for columns gathered into a panel.
    panel_steps: Offsets,
    interior: [Range<usize>; DIMS],
    /// True if a position of the box has a tap in the padding.
    padded: bool,
    /// First target coordinate of the piece in the split dimension.
    strip_start: usize,
}

impl<T: Real> Runner<'_, T> {
    fn piece(
        &self,
        piece: &Piece,
        out: &mut TileMut<'_, T>,
        scratch: &mut Scratch<T>,
    ) -> Result<(), OutOfMemory> {
        for (phase, weights, tiles) in &self.phases {
            let Some(frame) = self.frame(phase, weights, tiles, piece)? else { continue };
            let images = piece.images.len();
            let merged = images > 1 && !self.is_direct(&frame, piece.rows.len(), images);
            for group in piece.groups.clone() {
                if merged {
                    self.columns(&frame, piece, piece.images.clone(), group, out, scratch)?;
                } else {
                    for image in piece.images.clone() {
                        self.columns(&frame, piece, image..image + 1, group, out, scratch)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn frame<'f>(
        &self,
        phase: &'f Phase,
        weights: &'f PackedWeights<T>,
        tiles: &'static TileFns<T>,
        piece: &Piece,
    ) -> Result<Option<Frame<'f, T>>, OutOfMemory> {
        let mut first = [0; DIMS];
        let mut count = phase.count;
        let axis = self.cut.axis;
        let (start, step) = (phase.start[axis], phase.step[axis]);
        let below = |bound: usize| bound.saturating_sub(start).div_ceil(step);
        first[axis] = below(piece.strip.start);
        count[axis] = below(piece.strip.end) - first[axis];
        if volume(count) == 0 {
            return Ok(None);
        }
        let window = Window::new(phase, first, count)?;
        let per_image = memory::product(&[self.pass.channels, window.channel])
            .ok_or(OutOfMemory { bytes: usize::MAX })?;
        let taps = (0..phase.taps.len()).map(|tap| window.tap(phase, tap));
        let taps: Vec<_> = memory::collected(taps)?;
        let places = weights.steps.iter().map(|&(c, tap)| c * window.channel + taps[tap]);
        Ok(Some(Frame {
            phase,
            weights,
            tiles,
            first,
            count,
            steps: Offsets::new(memory::collected(places)?),
            panel_steps: Offsets::linear(K_BLOCK, tiles.columns()),
            per_image,
            padded: (0..DIMS).any(|d| {
                let inside = phase.interior(d, self.pass.source[d]);
                first[d] < inside.start || first[d] + count[d] > inside.end
            }),
            interior: std::array::from_fn(|d| phase.interior(d, self.pass.source[d])),
            inside: window.inside(self.pass.source)?,
            window,
            strip_start: piece.strip.start,
        }))
    }

    /// Returns all target positions of the frame for one group and some images.
    fn columns(
        &self,
        frame: &Frame<'_, T>,
        piece: &Piece,
        images: Range<usize>,
        group: usize,
        out: &mut TileMut<'_, T>,
        scratch: &mut Scratch<T>,
    ) -> Result<(), OutOfMemory> {
        let (pass, window, tiles) = (self.pass, &frame.window, frame.tiles);
        let width = tiles.columns();
        let rows = piece.rows.len();
        let row_panels = frame.panels(piece);
        let per_image = frame.per_image;
        // Lanes beyond the last position read behind the copy.
        let source_len = memory::product(&[images.len(), per_image])
            .and_then(|len| len.checked_add(width))
            .ok_or(OutOfMemory { bytes: usize::MAX })?;
        let Scratch { b: panels, tile: sums, source, .. } = scratch;
        let source = source.slice(&[source_len])?;
        let channel = volume(pass.source);
        simd::dispatch(Fill {
            inside: &frame.inside,
            channel,
            channels: pass.channels,
            images: images.clone(),
            from: &self.source[group * pass.channels * channel..],
            image_stride: pass.groups * pass.channels * channel,
            to: source,
        });
        let direct = images.len() == 1 && self.is_direct(frame, rows, 1);
        let total =
            if direct { window.flat_len(frame.count) } else { images.len() * volume(frame.count) };
        let tiles = self.kernels.tiling(tiles, total);
        // As many column tiles at a time as keep their sums in the cache.
        let group_tiles = ((1 << 17) / (rows * width)).clamp(1, total.div_ceil(width));
        let stride = sums_stride::<T>(group_tiles * width);
        let sums = sums.slice(&[rows, stride])?;
        let panel = panels.slice(&[K_BLOCK, width])?;
        let mut least = None;
        for start in (0..total).step_by(group_tiles * width) {
            let lanes = start..total.min(start + group_tiles * width);
            let tile_runs: Vec<Vec<Run>> = if direct {
                Vec::new()
            } else {
                let of_tile = |from| frame.panel_runs(from..lanes.end.min(from + width));
                lanes.clone().step_by(width).map(of_tile).collect()
            };
            let blocks = frame.weights.blocks.len();
            for block in 0..blocks {
                let steps = frame.weights.blocks[block].clone();
                let finish = Finish { add: block > 0, last: block + 1 == blocks };
                for (tile, from) in lanes.clone().step_by(width).enumerate() {
                    let columns: (&[T], &Offsets, usize) = if direct {
                        (&source[from..], &frame.steps, steps.start)
                    } else {
                        simd::dispatch(GatherPanel {
                            source,
                            places: &frame.steps.list()[steps.clone()],
                            runs: &tile_runs[tile],
                            window,
                            per_image,
                            width,
                            panel,
                        });
                        (panel, &frame.panel_steps, 0)
                    };
                    let mut to = TileMut::from_slice(sums, rows, stride);
                    let tiles = tiles.of(lanes.end - from);
                    let (from, places, first) = columns;
                    let steps = (places, first, steps.len());
                    for lanes in row_panels {
                        let values = frame.weights.panel(group, block, lanes);
                        let at = (lanes.start - piece.rows.start, tile * width);
                        tiles.run_packed(lanes.len(), values, from, steps, &mut to, at, finish);
                    }
                }
            }
            let runs = if direct { frame.flat_runs(lanes) } else { frame.dense_runs(lanes) };
            let column = (&*source, per_image);
            self.mend_border(frame, piece, group, &runs, column, (sums, stride), &mut least);
            self.put(frame, piece, &images, group, &runs, (sums, stride), out);
        }
        Ok(())
    }

    /// Returns true if it is faster that tiles read their columns from the copy, image by image,
    /// than to gather the columns of all images.
    fn is_direct(&self, frame: &Frame<'_, T>, rows: usize, images: usize) -> bool {
        let width = frame.tiles.columns();
        let flat = images * frame.window.flat_len(frame.count).div_ceil(width);
        let total = images * volume(frame.count);
        let dense = total.div_ceil(width);
        // Gathering a panel costs about as much as this many products with a vector.
        let [_, lines, columns] = frame.count;
        let run = if frame.window.extent[2] == columns { lines * columns } else { columns };
        let runs = width.min(total).div_ceil(run) + 1;
        let rows = rows * (width / self.kernels.lanes()).max(1);
        flat * rows <= dense * (rows + 12 + 8 * runs)
    }

    /// Forms border positions again where multiplying with zeros may have told.
    fn mend_border(
        &self,
        frame: &Frame<'_, T>,
        piece: &Piece,
        group: usize,
        runs: &[Run],
        (source, per_image): (&[T], usize),
        (sums, stride): (&mut [T], usize),
        least_source: &mut Option<i32>,
    ) {
        if !frame.padded {
            return;
        }
        let lanes = runs.last().map_or(0, |run| run.lane + run.len);
        let mut zeros = Vec::new();
        if self.range.finite {
            zeros = simd::dispatch(FindZeros { sums, stride, lanes });
            if zeros.is_empty() {
                return;
            }
        }
        for run in runs {
            for i in 0..run.len {
                let mut at = run.at;
                at[2] += i;
                let inside = |d: usize| frame.interior[d].contains(&(at[d] + frame.first[d]));
                if inside(0) && inside(1) {
                    let interior = &frame.interior[2];
                    let x = at[2] + frame.first[2];
                    if interior.contains(&x) {
                        continue;
                    }
                }
                let lane = run.lane + i;
                if self.range.finite {
                    if !zeros[lane] {
                        continue;
                    }
                    let least = *least_source.get_or_insert_with(|| {
                        source
                            .iter()
                            .filter(|x| x.finite())
                            .map(|x| x.last_bit_exponent())
                            .min()
                            .unwrap_or(i32::MAX / 4)
                    });
                    if self.range.last_bit.saturating_add(least) >= T::MIN_EXPONENT {
                        continue;
                    }
                }
                let valid: Vec<bool> = frame
                    .phase
                    .taps
                    .iter()
                    .map(|tap| {
                        (0..DIMS).all(|d| {
                            let t = (at[d] + frame.first[d]) * frame.phase.source_step[d];
                            let x = t as isize + tap.offset[d];
                            x >= 0 && (x as usize) < self.pass.source[d]
                        })
                    })
                    .collect();
                let base = run.image * per_image + frame.window.position(at);
                simd::dispatch(Column {
                    weights: frame.weights,
                    panels: frame.panels(piece),
                    group,
                    source: &source[base..],
                    places: frame.steps.list(),
                    valid: &valid,
                    put: |row: usize, value: T| {
                        sums[(row - piece.rows.start) * stride + lane] = value;
                    },
                });
            }
        }
    }

    /// Adds the bias and moves sums to the target.
    fn put(
        &self,
        frame: &Frame<'_, T>,
        piece: &Piece,
        images: &Range<usize>,
        group: usize,
        runs: &[Run],
        (sums, stride): (&[T], usize),
        out: &mut TileMut<'_, T>,
    ) {
        let (pass, phase) = (self.pass, frame.phase);
        let (step, dims) = (phase.step[2], pass.target);
        let mut stretches: Vec<Stretch> = Vec::with_capacity(runs.len());
        for run in runs {
            let image = images.start + run.image - piece.images.start;
            let mut at: Dims = std::array::from_fn(|d| {
                phase.start[d] + (frame.first[d] + run.at[d]) * phase.step[d]
            });
            at[self.cut.axis] -= frame.strip_start;
            let from = (at[0] * dims[1] + at[1]) * dims[2] + at[2];
            match stretches.last_mut() {
                Some((lanes, last_image, last_from))
                    if step == 1
                        && *last_image == image
                        && lanes.end == run.lane
                        && *last_from + lanes.len() == from =>
                {
                    lanes.end += run.len;
                }
                _ => stretches.push((run.lane..run.lane + run.len, image, from)),
            }
        }
        let first = group * pass.rows;
        simd::dispatch(Put {
            bias: self.bias.map(|bias| &bias[first + piece.rows.start..first + piece.rows.end]),
            rows: piece.rows.len(),
            channel: (group - piece.groups.start) * pass.rows,
            stretches: &stretches,
            step,
            sums: (sums, stride),
            out,
        });
    }
}

/// Lanes, image and place of what lies side by side among the sums and in the target.
type Stretch = (Range<usize>, usize, usize);

/// Arguments of a kernel that adds the bias and moves sums to the target.
struct Put<'a, 'b, T> {
    /// The bias of each row.
    bias: Option<&'a [T]>,
    rows: usize,
    /// The channel of the first row in the tile.
    channel: usize,
    stretches: &'a [Stretch],
    /// The distance between neighbours in the target.
    step: usize,
    /// The sums, and the distance between their rows.
    sums: (&'a [T], usize),
    out: &'a mut TileMut<'b, T>,
}

impl<T: Real> simd::Kernel for Put<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Put { bias, rows, channel, stretches, step, sums: (sums, stride), out } = self;
        for i in 0..rows {
            for (lanes, image, from) in stretches {
                let values = &sums[i * stride..][lanes.clone()];
                let last = from + (lanes.len() - 1) * step;
                let to = out.row(*image, channel + i, *from, last + 1);
                match bias {
                    None if step == 1 => to.copy_from_slice(values),
                    None => {
                        for (to, &value) in to.iter_mut().step_by(step).zip(values) {
                            *to = value;
                        }
                    }
                    Some(bias) if step == 1 => {
                        for (to, &value) in to.iter_mut().zip(values) {
                            *to = value.plus(bias[i]).canonical();
                        }
                    }
                    Some(bias) => {
                        for (to, &value) in to.iter_mut().step_by(step).zip(values) {
                            *to = value.plus(bias[i]).canonical();
                        }
                    }
                }
            }
        }
    }
}

/// Adds a bias to values.
struct PlusBias<'a, T> {
    bias: T,
    row: &'a mut [T],
}

impl<T: Real> simd::Kernel for PlusBias<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for x in self.row {
            *x = x.plus(self.bias).canonical();
        }
    }
}

impl<T: Real> Frame<'_, T> {
    /// Returns the weight panels of the rows of a piece.
    fn panels(&self, piece: &Piece) -> &[Range<usize>] {
        let panels = &self.weights.panels;
        let from = panels.partition_point(|panel| panel.start < piece.rows.start);
        let to = panels.partition_point(|panel| panel.end <= piece.rows.end);
        &panels[from..to]
    }

    /// Runs of lanes that are positions of the copy, garbage between rows left out.
    fn flat_runs(&self, positions: Range<usize>) -> Vec<Run> {
        let [_, e1, e2] = self.window.extent;
        let [_, c1, c2] = self.count;
        let mut runs = Vec::new();
        let mut position = positions.start;
        while position < positions.end {
            let (line, x) = (position / e2, position % e2);
            let (plane, y) = (line / e1, line % e1);
            if y < c1 && x < c2 {
                let len = (c2 - x).min(positions.end - position);
                let lane = position - positions.start;
                runs.push(Run { lane, len, image: 0, at: [plane, y, x] });
            }
            position += e2 - x;
        }
        runs
    }

    /// Runs of lanes that are consecutive target positions.
    fn dense_runs(&self, positions: Range<usize>) -> Vec<Run> {
        let [_, c1, c2] = self.count;
        let mut runs = Vec::new();
        let mut position = positions.start;
        while position < positions.end {
            let (line, x) = (position / c2, position % c2);
            let (plane, y) = (line / c1, line % c1);
            let (image, z) = (plane / self.count[0], plane % self.count[0]);
            let len = (c2 - x).min(positions.end - position);
            let lane = position - positions.start;
            runs.push(Run { lane, len, image, at: [z, y, x] });
            position += len;
        }
        runs
    }

    /// Returns [`dense_runs`](Frame::dense_runs), with those that are neighbours in the copy as one.
    fn panel_runs(&self, positions: Range<usize>) -> Vec<Run> {
        let mut runs = self.dense_runs(positions);
        runs.dedup_by(|next, run| {
            let neighbours = next.image == run.image
                && self.window.position(next.at) == self.window.position(run.at) + run.len;
            if neighbours {
                run.len += next.len;
            }
            neighbours
        });
        runs
    }
}

/// Gathers the columns of one tile, `[step][width]`.
struct GatherPanel<'a, T> {
    source: &'a [T],
    places: &'a [usize],
    runs: &'a [Run],
    window: &'a Window,
    per_image: usize,
    width: usize,
    panel: &'a mut [T],
}

impl<T: Real> simd::Kernel for GatherPanel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        for run in self.runs {
            // A copy of fixed length is a few instructions. What it writes beyond the run is
            // overwritten by the next one, or belongs to lanes that nobody reads.
            let fits = |length: usize| run.len <= length && run.lane + length <= self.width;
            if fits(4) {
                self.copy::<4>(run);
            } else if fits(8) {
                self.copy::<8>(run);
            } else if fits(16) {
                self.copy::<16>(run);
            } else {
                let base = run.image * self.per_image + self.window.position(run.at);
                for (row, &place) in self.panel.chunks_exact_mut(self.width).zip(self.places) {
                    let from = &self.source[base + place..][..run.len];
                    row[run.lane..run.lane + run.len].copy_from_slice(from);
                }
            }
        }
    }
}

impl<T: Real> GatherPanel<'_, T> {
    /// Copies `N` lanes of each step, at least the run.
    #[inline(always)]
    fn copy<const N: usize>(&mut self, run: &Run) {
        let base = run.image * self.per_image + self.window.position(run.at);
        for (row, &place) in self.panel.chunks_exact_mut(self.width).zip(self.places) {
            let from: [T; N] = std::array::from_fn(|i| self.source[base + place..][..N][i]);
            row[run.lane..][..N].copy_from_slice(&from);
        }
    }
}

/// Returns the number of elements between rows of sums. Rows a multiple of a page apart fight for
/// the same cache lines.
fn sums_stride<T>(lanes: usize) -> usize {
    let line = 64 / size_of::<T>();
    if (lanes * size_of::<T>()).is_multiple_of(4096) { lanes + line } else { lanes }
}

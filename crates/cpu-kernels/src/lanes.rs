//! Planes side by side: element `p` of a block of planes is [`SIDE`] numbers, one of each plane, so that a
//! kernel over small planes or short rows fills vectors without a change to the order in any plane.

use crate::error::Result;
use crate::{Float, memory, parallel};
use samebits_numerics::simd::{self, Kernel};
use std::ops::Range;

/// The number of planes in a block.
pub(crate) const SIDE: usize = 16;

/// The number of bytes of a block of inputs and outputs: they stay in the second-level cache.
const CACHED: usize = 1 << 18;

/// The largest number of bytes of a block.
const LARGEST: usize = 1 << 22;

/// The number of elements per task.
const TASK: usize = 1 << 14;

/// A computation of planes from planes, the same for every plane.
pub(crate) trait Lanes<T: Float>: Sync {
    /// The sizes of a plane of the input and of the output.
    fn sizes(&self) -> [[usize; 3]; 2];

    /// Returns the range of input positions that an output of dimension `dim` reads.
    fn reach(&self, dim: usize, output: usize) -> Range<usize>;

    /// Computes a part of the output. `at` is for the positions of maxima, or empty.
    fn compute(&self, part: Part, from: &[[T; SIDE]], to: &mut [[T; SIDE]], at: &mut [[T; SIDE]]);
}

/// A part of a plane: some outputs of its first dimension of more than one element.
pub(crate) struct Part {
    /// The outputs by dimension.
    pub(crate) outputs: [Range<usize>; 3],
    /// The number in its plane of the first element of the input at hand.
    pub(crate) first: usize,
    /// The number in its plane of the first output.
    pub(crate) first_output: usize,
}

/// Runs a block of statements for each output of a part, in ascending order, with its number, which
/// counts from 0, and its place. A closure would not always be inlined, and then have no vectors.
macro_rules! each_output {
    ($part:expr, $number:ident, [$d:ident, $h:ident, $w:ident], $body:block) => {
        let [depth, height, width] = &$part.outputs;
        let mut $number = 0;
        for $d in depth.clone() {
            for $h in height.clone() {
                for $w in width.clone() {
                    $body
                    $number += 1;
                }
            }
        }
    };
}
pub(crate) use each_output;

/// The elements of a plane that are processed together, as ranges of the flat plane.
#[derive(Clone)]
struct Strip {
    outer: Range<usize>,
    outputs: Range<usize>,
    inputs: Range<usize>,
}

/// How planes are cut into blocks and strips.
pub(crate) struct Cut {
    dim: usize,
    strips: Vec<Strip>,
    inputs: usize,
    outputs: usize,
}

/// Returns the cut for a computation, or `None` if blocks would not fit into a cache.
pub(crate) fn cut<T: Float>(op: &'static str, lanes: &impl Lanes<T>) -> Result<Option<Cut>> {
    let [from, to] = lanes.sizes();
    let dim = (0..3).find(|&dim| from[dim] > 1 || to[dim] > 1).unwrap_or(2);
    let [inner_from, inner_to] = [from, to].map(|size| size[dim + 1..].iter().product::<usize>());
    let bytes = |inputs: &Range<usize>, outputs: usize| {
        (inputs.len() * inner_from + 2 * outputs * inner_to) * SIDE * size_of::<T>()
    };
    let joined = |a: &Range<usize>, b: Range<usize>| match (a.is_empty(), b.is_empty()) {
        (_, true) => a.clone(),
        (true, _) => b,
        _ => a.start.min(b.start)..a.end.max(b.end),
    };
    let mut cut = Cut { dim, strips: Vec::new(), inputs: 0, outputs: 0 };
    let mut start = 0;
    while start < to[dim] {
        let mut inputs = lanes.reach(dim, start);
        let mut end = start + 1;
        while end < to[dim] {
            let more = joined(&inputs, lanes.reach(dim, end));
            if bytes(&more, end + 1 - start) > CACHED {
                break;
            }
            (inputs, end) = (more, end + 1);
        }
        if bytes(&inputs, end - start) > LARGEST {
            return Ok(None);
        }
        let strip = Strip {
            outer: start..end,
            outputs: start * inner_to..end * inner_to,
            inputs: inputs.start * inner_from..inputs.end * inner_from,
        };
        cut.inputs = cut.inputs.max(strip.inputs.len());
        cut.outputs = cut.outputs.max(strip.outputs.len());
        memory::reserve(op, &mut cut.strips, 1)?;
        cut.strips.push(strip);
        start = end;
    }
    Ok(Some(cut))
}

/// Computes all planes; `indices` is for the positions of maxima, or empty.
pub(crate) fn run<T: Float, L: Lanes<T>>(
    op: &'static str,
    lanes: &L,
    cut: &Cut,
    input: &[T],
    out: &mut [T],
    indices: &mut [i64],
) -> Result<()> {
    let [from, to] = lanes.sizes().map(|size| size.iter().product::<usize>());
    if out.is_empty() {
        return Ok(());
    }
    let several = (TASK / (from.max(to) * SIDE)).max(1) * SIDE;
    let planes = out.len() / to;
    let mut tasks = memory::with_capacity(op, planes.div_ceil(several))?;
    let with_indices = !indices.is_empty();
    let mut indices = indices.chunks_mut(several * to);
    for (number, out) in out.chunks_mut(several * to).enumerate() {
        let input = &input[number * several * from..];
        tasks.push(Some((input, out, indices.next().unwrap_or_default())));
    }
    let room = if with_indices { 2 * cut.outputs } else { cut.outputs } + cut.inputs;
    let scratch = || memory::filled(op, room, [T::ZERO; SIDE]);
    let one = |scratch: &mut Vec<[T; SIDE]>, (input, out, indices)| {
        simd::dispatch(Blocks { lanes, cut, input, from, to, out, indices, scratch });
        Ok(())
    };
    match &mut tasks[..] {
        [only] => only.take().map_or(Ok(()), |task| one(&mut scratch()?, task)),
        tasks => parallel::tasks(tasks).try_for_each_with(scratch, one),
    }
}

/// Arguments of a kernel: some blocks of planes.
struct Blocks<'a, T, L> {
    lanes: &'a L,
    cut: &'a Cut,
    /// The input from the first of these planes on.
    input: &'a [T],
    /// The numbers of elements of a plane.
    from: usize,
    to: usize,
    out: &'a mut [T],
    indices: &'a mut [i64],
    scratch: &'a mut [[T; SIDE]],
}

impl<T: Float, L: Lanes<T>> Kernel for Blocks<'_, T, L> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Blocks { lanes, cut, input, from, to, out, indices, scratch } = self;
        let (inputs, rest) = scratch.split_at_mut(cut.inputs);
        let (outputs, at) = rest.split_at_mut(cut.outputs);
        let [_, sizes] = lanes.sizes();
        let mut indices = indices.chunks_mut(SIDE * to);
        for (block, out) in out.chunks_mut(SIDE * to).enumerate() {
            let indices = indices.next().unwrap_or_default();
            let input = &input[block * SIDE * from..];
            let planes = out.len() / to;
            for strip in &cut.strips {
                let shape = (planes, strip.inputs.len());
                let side = inputs.as_flattened_mut();
                if !strip.inputs.is_empty() {
                    T::transpose(&input[strip.inputs.start..], from, shape, side, SIDE);
                }
                let mut ranges = sizes.map(|size| 0..size);
                ranges[cut.dim] = strip.outer.clone();
                let (first, first_output) = (strip.inputs.start, strip.outputs.start);
                let part = Part { outputs: ranges, first, first_output };
                let count = strip.outputs.len();
                let at = if indices.is_empty() { &mut [] } else { &mut at[..count] };
                lanes.compute(part, &*inputs, &mut outputs[..count], at);
                let shape = (count, planes);
                T::transpose(outputs.as_flattened(), SIDE, shape, &mut out[first_output..], to);
                for (plane, indices) in indices.chunks_exact_mut(to).enumerate() {
                    let indices = &mut indices[strip.outputs.clone()];
                    for (index, at) in indices.iter_mut().zip(&*at) {
                        let at: f64 = at[plane].into();
                        *index = at as i64;
                    }
                }
            }
        }
    }
}

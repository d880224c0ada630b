//! Compositions of elementwise operations, in one pass over memory.

use std::hint::select_unpredictable;

use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::ops::{CompareKind, Formula, Step, truth_values};

use super::{
    Elementary, Operand, affine_piece, binary_piece, compare_piece, select_piece, unary_piece,
};
use crate::error::{Error, Result};
use crate::parallel::CHUNK;
use crate::{memory, parallel};

/// The bytes of a block of a value: several blocks fit the first cache.
const BLOCK_BYTES: usize = 1 << 12;

/// The elements of the largest vector.
const VECTOR: usize = 16;

/// Elements of a call that are worth its setup.
pub(crate) const RUN: usize = CHUNK;

const OP: &str = "formula";

/// Computes the last of `steps` for each element of `out`, block by block.
///
/// # Errors
///
/// [`Error::Length`] if an input differs from the result in length; [`Error::Argument`] if a step
/// reads a value that is not computed before, or of the wrong kind; [`Error::OutOfMemory`].
pub fn formula<T: Elementary>(
    steps: &[Step],
    inputs: &[Operand<'_, T>],
    out: &mut [T],
) -> Result<()> {
    for input in inputs {
        input.expect_len(OP, "an input", out.len())?;
    }
    let places = Places::new(steps, inputs.len())?;
    parallel::try_pieces_of(CHUNK, out, |start, out| {
        // Blocks of whole vectors are aligned, one after the other.
        let size = (BLOCK_BYTES / size_of::<T>()).min(out.len().next_multiple_of(VECTOR));
        let mut values = memory::scratch::<T>(OP, memory::volume(OP, &[places.values(), size])?)?;
        let mut truths = memory::zeroed(OP, memory::volume(OP, &[places.truths, size])?)?;
        let mut blocks = Blocks::new(&places, inputs, values.as_mut_slice(), &mut truths, size);
        for (at, out) in (start..).step_by(size).zip(out.chunks_mut(size)) {
            blocks.run(&places, inputs, at, out);
        }
        Ok(())
    })
}

/// A step, or several that have a kernel of their own.
#[derive(Clone, Copy, Debug)]
enum Work {
    Step(Step),
    /// The third value where the comparison of the first two holds, else the fourth.
    Compared(CompareKind, [usize; 4]),
    /// All of [`Formula::LERP`].
    Lerp,
}

impl Work {
    fn arguments(&self) -> impl Iterator<Item = usize> + use<> {
        let (step, values) = match *self {
            Work::Step(step) => (Some(step), [None; 4]),
            Work::Compared(_, values) => (None, values.map(Some)),
            Work::Lerp => (None, [Some(0), Some(1), Some(2), None]),
        };
        let of_step = step.into_iter().flat_map(|step| step.arguments());
        of_step.chain(values.into_iter().flatten())
    }
}

/// The place of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Input(usize),
    /// A block of one number, repeated.
    Number(usize),
    /// A block of numbers.
    Block(usize),
    /// A block of truth values.
    Truths(usize),
}

/// The work of a formula, with the places of its arguments and of its result.
#[derive(Default)]
struct Places {
    work: Vec<(Work, [Place; 4], Place)>,
    /// The number of inputs.
    inputs: usize,
    /// The numbers in the formula.
    numbers: Vec<f64>,
    /// How many blocks of numbers and of truth values are needed.
    blocks: usize,
    truths: usize,
}

impl Places {
    /// Gives each value a block that no later step reads for another value.
    fn new(steps: &[Step], inputs: usize) -> Result<Places> {
        let is_truth =
            truth_values(steps, inputs).map_err(|message| Error::argument(OP, message))?;
        let work = with_comparisons(steps, inputs, &is_truth);
        let mut last_use = vec![None; inputs + steps.len()];
        for (value, work) in &work {
            work.arguments().for_each(|x| last_use[x] = Some(*value));
        }
        let mut all = vec![Place::Input(0); inputs + steps.len()];
        (0..inputs).for_each(|input| all[input] = Place::Input(input));
        let mut placed = Places { inputs, ..Places::default() };
        let (mut blocks, mut truths) = (Vec::new(), Vec::new());
        for (value, work) in work {
            let mut from = [Place::Input(0); 4];
            for (from, x) in from.iter_mut().zip(work.arguments()) {
                *from = all[x];
            }
            let to = match work {
                Work::Step(Step::Number(x)) => {
                    placed.numbers.push(x);
                    Place::Number(placed.numbers.len() - 1)
                }
                _ if is_truth[value] => Place::Truths(truths.pop().unwrap_or_else(|| {
                    placed.truths += 1;
                    placed.truths - 1
                })),
                _ => Place::Block(blocks.pop().unwrap_or_else(|| {
                    placed.blocks += 1;
                    placed.blocks - 1
                })),
            };
            let mut ended: Vec<usize> = work.arguments().collect();
            ended.sort_unstable();
            ended.dedup();
            for x in ended.into_iter().filter(|&x| last_use[x] == Some(value)) {
                match all[x] {
                    Place::Block(block) => blocks.push(block),
                    Place::Truths(block) => truths.push(block),
                    Place::Input(_) | Place::Number(_) => {}
                }
            }
            all[value] = to;
            placed.work.push((work, from, to));
        }
        Ok(placed)
    }

    /// Returns the number of blocks of numbers: a repeated one for each input and for each number in the
    /// formula, and those of its values.
    fn values(&self) -> usize {
        self.inputs + self.numbers.len() + self.blocks
    }
}

/// Returns the work of the steps, each with the number of its value: choices take their comparison
/// with them, and comparisons that nothing else reads are gone.
fn with_comparisons(steps: &[Step], inputs: usize, is_truth: &[bool]) -> Vec<(usize, Work)> {
    let together = |step: &Step| match *step {
        Step::Where { condition, a, b } if !is_truth[a] && condition >= inputs => {
            match steps[condition - inputs] {
                Step::Compare(kind, x, y) => Work::Compared(kind, [x, y, a, b]),
                _ => Work::Step(*step),
            }
        }
        step => Work::Step(step),
    };
    if *steps == Formula::LERP && inputs == 3 {
        return vec![(inputs + steps.len() - 1, Work::Lerp)];
    }
    let mut is_read = vec![false; inputs + steps.len()];
    let mut work = Vec::with_capacity(steps.len());
    for (i, step) in steps.iter().enumerate().rev() {
        let value = inputs + i;
        if i + 1 < steps.len() && !is_read[value] {
            continue;
        }
        let next = together(step);
        next.arguments().for_each(|x| is_read[x] = true);
        work.push((value, next));
    }
    work.reverse();
    work
}

/// The values of a block of elements.
struct Blocks<'a, T> {
    /// The only element of an input, repeated; unspecified for other inputs.
    inputs: Vec<&'a mut [T]>,
    numbers: Vec<(T, &'a mut [T])>,
    blocks: Vec<&'a mut [T]>,
    truths: Vec<&'a mut [u8]>,
}

impl<'a, T: Elementary> Blocks<'a, T> {
    fn new(
        places: &Places,
        inputs: &[Operand<'_, T>],
        values: &'a mut [T],
        truths: &'a mut [u8],
        size: usize,
    ) -> Blocks<'a, T> {
        let mut values = values.chunks_exact_mut(size);
        let mut block = || values.next().expect("there is a block for each value");
        let inputs = inputs.iter().map(|input| {
            let repeated = block();
            if let Operand::Splat(x) = *input {
                repeated.fill(x);
            }
            repeated
        });
        let inputs = inputs.collect();
        let numbers = places.numbers.iter().map(|&x| {
            let (x, repeated) = (T::from_f64(x), block());
            repeated.fill(x);
            (x, repeated)
        });
        let numbers = numbers.collect();
        let blocks = (0..places.blocks).map(|_| block()).collect();
        Blocks { inputs, numbers, blocks, truths: truths.chunks_exact_mut(size).collect() }
    }

    fn run(&mut self, places: &Places, inputs: &[Operand<'_, T>], start: usize, out: &mut [T]) {
        let n = out.len();
        let last = places.work.len() - 1;
        for (i, (work, from, to)) in places.work.iter().enumerate() {
            match *to {
                Place::Block(_) if i == last => self.number(work, from, inputs, start, out),
                Place::Block(block) => {
                    // No argument lies in this block, so it is free.
                    let result = std::mem::take(&mut self.blocks[block]);
                    self.number(work, from, inputs, start, &mut result[..n]);
                    self.blocks[block] = result;
                }
                Place::Truths(block) => {
                    let result = std::mem::take(&mut self.truths[block]);
                    self.truth(work, from, inputs, start, &mut result[..n]);
                    self.truths[block] = result;
                }
                Place::Number(number) if i == last => out.fill(self.numbers[number].0),
                Place::Input(_) | Place::Number(_) => {}
            }
        }
    }

    /// Returns `n` elements of a value, from `start` on.
    fn values<'b>(
        &'b self,
        place: Place,
        inputs: &[Operand<'b, T>],
        start: usize,
        n: usize,
    ) -> &'b [T] {
        match place {
            Place::Input(input) => match inputs[input] {
                Operand::Each(x) => &x[start..start + n],
                Operand::Splat(_) => &self.inputs[input][..n],
            },
            Place::Number(number) => &self.numbers[number].1[..n],
            Place::Block(block) => &self.blocks[block][..n],
            Place::Truths(_) => unreachable!("the kinds of arguments are checked"),
        }
    }

    /// Returns `n` elements of a value, from `start` on, or the one that they all are.
    fn operand<'b>(
        &'b self,
        place: Place,
        inputs: &[Operand<'b, T>],
        start: usize,
        n: usize,
    ) -> Operand<'b, T> {
        match place {
            Place::Input(input) => inputs[input].part(start, n),
            Place::Number(number) => Operand::Splat(self.numbers[number].0),
            _ => Operand::Each(self.values(place, inputs, start, n)),
        }
    }

    fn truths(&self, place: Place, n: usize) -> Operand<'_, u8> {
        match place {
            Place::Truths(block) => Operand::Each(&self.truths[block][..n]),
            _ => unreachable!("the kinds of arguments are checked"),
        }
    }

    /// Computes a number.
    fn number(
        &self,
        work: &Work,
        from: &[Place; 4],
        inputs: &[Operand<'_, T>],
        start: usize,
        out: &mut [T],
    ) {
        let n = out.len();
        let values = |i: usize| self.values(from[i], inputs, start, n);
        let operand = |i: usize| self.operand(from[i], inputs, start, n);
        match *work {
            Work::Step(Step::Unary(kind, _)) => unary_piece(kind, values(0), out),
            Work::Step(Step::Affine { scale, shift, .. }) => {
                affine_piece(values(0), T::from_f64(scale), T::from_f64(shift), out);
            }
            Work::Step(Step::Binary(kind, ..)) => binary_piece(kind, operand(0), operand(1), out),
            Work::Step(Step::Where { .. }) => {
                select_piece(self.truths(from[0], n), operand(1), operand(2), out);
            }
            Work::Compared(kind, _) => {
                compared(kind, [values(0), values(1), values(2), values(3)], out);
            }
            Work::Lerp => {
                let [start, end, weight] = [values(0), values(1), values(2)];
                simd::dispatch_inside(Lerp { start, end, weight, out });
            }
            Work::Step(Step::Number(_) | Step::Compare(..)) => {
                unreachable!("the kinds of results are checked: {work:?}")
            }
        }
    }

    /// Computes a truth value.
    fn truth(
        &self,
        work: &Work,
        from: &[Place; 4],
        inputs: &[Operand<'_, T>],
        start: usize,
        out: &mut [u8],
    ) {
        let n = out.len();
        match *work {
            Work::Step(Step::Compare(kind, ..)) => {
                let operand = |i: usize| self.operand(from[i], inputs, start, n);
                compare_piece(kind, operand(0), operand(1), out);
            }
            _ => {
                let truths = |i: usize| self.truths(from[i], n);
                select_piece(truths(0), truths(1), truths(2), out);
            }
        }
    }
}

/// Computes [`Formula::LERP`].
struct Lerp<'a, T> {
    start: &'a [T],
    end: &'a [T],
    weight: &'a [T],
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for Lerp<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Lerp { start, end, weight, out } = self;
        let n = out.len();
        let (start, end, weight) = (&start[..n], &end[..n], &weight[..n]);
        let (zero, one) = (T::ZERO, T::ONE);
        let is_infinite = |x: T| x.abs() == T::from_f64(f64::INFINITY);
        let share = |weight: T, x: T| select_unpredictable(weight == zero, zero, weight * x);
        for i in 0..n {
            let (start, end, weight) = (start[i], end[i], weight[i]);
            let both = is_infinite(start) & (start == end);
            let way = select_unpredictable(both, zero, end - start);
            let near = weight.abs() < T::from_f64(0.5);
            let part = select_unpredictable(near, weight, weight - one);
            let along = select_unpredictable(near, start, end) + part * way;
            let mixed = share(one - weight, start) + share(weight, end);
            out[i] = select_unpredictable(is_infinite(way), mixed, along).canonical();
        }
    }
}

/// Computes `out[i] = x[i]` if the comparison of `a[i]` and `b[i]` holds, else `y[i]`.
fn compared<T: Elementary>(kind: CompareKind, values: [&[T]; 4], out: &mut [T]) {
    match kind {
        CompareKind::Eq => simd::dispatch_inside(Compared { holds: |a, b| a == b, values, out }),
        CompareKind::Ne => simd::dispatch_inside(Compared { holds: |a, b| a != b, values, out }),
        CompareKind::Lt => simd::dispatch_inside(Compared { holds: |a, b| a < b, values, out }),
        CompareKind::Le => simd::dispatch_inside(Compared { holds: |a, b| a <= b, values, out }),
        CompareKind::Gt => simd::dispatch_inside(Compared { holds: |a, b| b < a, values, out }),
        CompareKind::Ge => simd::dispatch_inside(Compared { holds: |a, b| b <= a, values, out }),
    }
}

struct Compared<'a, T, F> {
    holds: F,
    values: [&'a [T]; 4],
    out: &'a mut [T],
}

impl<T: Copy, F: Fn(T, T) -> bool> Kernel for Compared<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Compared { holds, values, out } = self;
        let [a, b, x, y] = values.map(|values| &values[..out.len()]);
        for i in 0..out.len() {
            // Of an `if` the compiler would make a gather of what is chosen.
            out[i] = select_unpredictable(holds(a[i], b[i]), x[i], y[i]);
        }
    }
}

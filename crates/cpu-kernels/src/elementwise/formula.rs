//! Compositions of elementwise operations, in one pass over memory.

use std::hint::select_unpredictable;

use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::ops::{CompareKind, Step, truth_values};

use super::{Elementary, Operand, affine, binary, compare, select, unary};
use crate::error::{Error, Result};
use crate::parallel::CHUNK;
use crate::{memory, parallel};

/// The bytes of a block of a value: several blocks fit the first cache.
const BLOCK_BYTES: usize = 1 << 12;

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
        let size = (BLOCK_BYTES / size_of::<T>()).min(out.len());
        let mut blocks = Blocks::new(&places, inputs, size)?;
        for (at, out) in (start..).step_by(size).zip(out.chunks_mut(size)) {
            blocks.run(&places, inputs, at, out)?;
        }
        Ok(())
    })
}

/// A step, or a choice together with the comparison that decides it.
#[derive(Clone, Copy, Debug)]
enum Work {
    Step(Step),
    /// The third value where the comparison of the first two holds, else the fourth.
    Compared(CompareKind, [usize; 4]),
}

impl Work {
    fn arguments(&self) -> impl Iterator<Item = usize> + use<> {
        let (step, values) = match *self {
            Work::Step(step) => (Some(step), None),
            Work::Compared(_, values) => (None, Some(values)),
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
        let mut placed = Places::default();
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
struct Blocks<T> {
    /// The only element of an input, repeated; empty for other inputs.
    inputs: Vec<Vec<T>>,
    numbers: Vec<Vec<T>>,
    blocks: Vec<Vec<T>>,
    truths: Vec<Vec<u8>>,
}

impl<T: Elementary> Blocks<T> {
    fn new(places: &Places, inputs: &[Operand<'_, T>], size: usize) -> Result<Blocks<T>> {
        let repeated = |x| memory::filled(OP, size, x);
        let inputs = inputs.iter().map(|input| match *input {
            Operand::Each(_) => Ok(Vec::new()),
            Operand::Splat(x) => repeated(x),
        });
        let numbers = places.numbers.iter().map(|&x| repeated(T::from_f64(x)));
        Ok(Blocks {
            inputs: inputs.collect::<Result<_>>()?,
            numbers: numbers.collect::<Result<_>>()?,
            blocks: (0..places.blocks).map(|_| memory::zeroed(OP, size)).collect::<Result<_>>()?,
            truths: (0..places.truths).map(|_| memory::zeroed(OP, size)).collect::<Result<_>>()?,
        })
    }
}

impl<T: Elementary> Blocks<T> {
    fn run(
        &mut self,
        places: &Places,
        inputs: &[Operand<'_, T>],
        start: usize,
        out: &mut [T],
    ) -> Result<()> {
        let n = out.len();
        let last = places.work.len() - 1;
        for (i, (work, from, to)) in places.work.iter().enumerate() {
            match *to {
                Place::Block(_) if i == last => self.number(work, from, inputs, start, out)?,
                Place::Block(block) => {
                    // No argument lies in this block, so it is free.
                    let mut result = std::mem::take(&mut self.blocks[block]);
                    self.number(work, from, inputs, start, &mut result[..n])?;
                    self.blocks[block] = result;
                }
                Place::Truths(block) => {
                    let mut result = std::mem::take(&mut self.truths[block]);
                    self.truth(work, from, inputs, start, &mut result[..n])?;
                    self.truths[block] = result;
                }
                Place::Number(number) if i == last => {
                    out.copy_from_slice(&self.numbers[number][..n]);
                }
                Place::Input(_) | Place::Number(_) => {}
            }
        }
        Ok(())
    }

    /// Returns `n` elements of a value, from `start` on.
    fn values<'a>(
        &'a self,
        place: Place,
        inputs: &[Operand<'a, T>],
        start: usize,
        n: usize,
    ) -> &'a [T] {
        match place {
            Place::Input(input) => match inputs[input] {
                Operand::Each(x) => &x[start..start + n],
                Operand::Splat(_) => &self.inputs[input][..n],
            },
            Place::Number(number) => &self.numbers[number][..n],
            Place::Block(block) => &self.blocks[block][..n],
            Place::Truths(_) => unreachable!("the kinds of arguments are checked"),
        }
    }

    fn truths(&self, place: Place, n: usize) -> &[u8] {
        match place {
            Place::Truths(block) => &self.truths[block][..n],
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
    ) -> Result<()> {
        let n = out.len();
        let values = |i: usize| self.values(from[i], inputs, start, n);
        let each = |i: usize| Operand::Each(values(i));
        match *work {
            Work::Step(Step::Unary(kind, _)) => unary(kind, values(0), out),
            Work::Step(Step::Affine { scale, shift, .. }) => {
                affine(values(0), T::from_f64(scale), T::from_f64(shift), out)
            }
            Work::Step(Step::Binary(kind, ..)) => binary(kind, each(0), each(1), out),
            Work::Step(Step::Where { .. }) => {
                select(Operand::Each(self.truths(from[0], n)), each(1), each(2), out)
            }
            Work::Compared(kind, _) => {
                let values = [values(0), values(1), values(2), values(3)];
                compared(kind, values, out);
                Ok(())
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
    ) -> Result<()> {
        let n = out.len();
        match *work {
            Work::Step(Step::Compare(kind, ..)) => {
                let each = |i: usize| Operand::Each(self.values(from[i], inputs, start, n));
                compare(kind, each(0), each(1), out)
            }
            _ => {
                let each = |i: usize| Operand::Each(self.truths(from[i], n));
                select(each(0), each(1), each(2), out)
            }
        }
    }
}

/// Computes `out[i] = x[i]` if the comparison of `a[i]` and `b[i]` holds, else `y[i]`.
fn compared<T: Elementary>(kind: CompareKind, values: [&[T]; 4], out: &mut [T]) {
    match kind {
        CompareKind::Eq => simd::dispatch(Compared { holds: |a, b| a == b, values, out }),
        CompareKind::Ne => simd::dispatch(Compared { holds: |a, b| a != b, values, out }),
        CompareKind::Lt => simd::dispatch(Compared { holds: |a, b| a < b, values, out }),
        CompareKind::Le => simd::dispatch(Compared { holds: |a, b| a <= b, values, out }),
        CompareKind::Gt => simd::dispatch(Compared { holds: |a, b| b < a, values, out }),
        CompareKind::Ge => simd::dispatch(Compared { holds: |a, b| b <= a, values, out }),
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

//! Compositions of elementwise operations, in one pass over memory.

use bytemuck::Zeroable;
use samebits_tensor_core::ops::Step;

use super::{Elementary, Operand, affine, binary, compare, select, unary};
use crate::error::{Error, Result};
use crate::parallel::CHUNK;
use crate::{memory, parallel};

/// The bytes of a block of a value: several blocks fit the first cache.
const BLOCK_BYTES: usize = 1 << 13;

/// Elements of a call that are worth its setup.
pub(crate) const RUN: usize = 1 << 10;

const OP: &str = "formula";

/// Computes the last of `steps` for each element of `out`, block by block.
///
/// # Errors
///
/// [`Error::Length`] if an input differs from the result in length; [`Error::Argument`] if a step
/// reads a value that is not computed before, or of the wrong kind; [`Error::OutOfMemory`].
pub fn formula<T: Elementary + Zeroable>(
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
        let mut blocks = Blocks {
            numbers: collect(places.numbers, || memory::zeroed(OP, size))?,
            truths: collect(places.truths, || memory::zeroed(OP, size))?,
        };
        for (at, out) in (start..).step_by(size).zip(out.chunks_mut(size)) {
            blocks.run(&places, inputs, at, out)?;
        }
        Ok(())
    })
}

fn collect<B>(count: usize, new: impl Fn() -> Result<B>) -> Result<Vec<B>> {
    (0..count).map(|_| new()).collect()
}

/// The place of a value.
#[derive(Clone, Copy, Debug)]
enum Place {
    Input(usize),
    Number(f64),
    /// A block of numbers.
    Block(usize),
    /// A block of truth values.
    Truths(usize),
}

/// The steps, each with the places of its arguments and of its result.
struct Places<'a> {
    steps: Vec<(&'a Step, [Place; 3], Place)>,
    /// The number of blocks of numbers and of truth values.
    numbers: usize,
    truths: usize,
}

impl<'a> Places<'a> {
    /// Gives each value a block that no later step reads for another value.
    fn new(steps: &'a [Step], inputs: usize) -> Result<Places<'a>> {
        let mut last_use = vec![0; inputs + steps.len()];
        for (i, step) in steps.iter().enumerate() {
            for x in step.arguments() {
                *last_use.get_mut(x).ok_or_else(|| wrong(i, step))? = i;
            }
        }
        let mut places: Vec<Place> = (0..inputs).map(Place::Input).collect();
        let mut placed = Places { steps: Vec::new(), numbers: 0, truths: 0 };
        let (mut numbers, mut truths) = (Vec::new(), Vec::new());
        for (i, step) in steps.iter().enumerate() {
            let mut from = [Place::Number(0.0); 3];
            for (from, x) in from.iter_mut().zip(step.arguments()) {
                *from = *places.get(x).ok_or_else(|| wrong(i, step))?;
            }
            let is_truth = |place: &Place| matches!(place, Place::Truths(_));
            let (expected, gives_truth) = match step {
                Step::Where { .. } => {
                    ([true, is_truth(&from[2]), is_truth(&from[2])], is_truth(&from[2]))
                }
                Step::Compare(..) => ([false; 3], true),
                _ => ([false; 3], false),
            };
            if from.each_ref().map(is_truth) != expected {
                return Err(wrong(i, step));
            }
            let to = match step {
                Step::Number(x) => Place::Number(*x),
                _ if gives_truth => Place::Truths(truths.pop().unwrap_or(placed.truths)),
                _ => Place::Block(numbers.pop().unwrap_or(placed.numbers)),
            };
            match to {
                Place::Block(block) => placed.numbers = placed.numbers.max(block + 1),
                Place::Truths(block) => placed.truths = placed.truths.max(block + 1),
                _ => {}
            }
            let mut ended: Vec<usize> = step.arguments().filter(|&x| last_use[x] == i).collect();
            ended.sort_unstable();
            ended.dedup();
            for x in ended {
                match places[x] {
                    Place::Block(block) => numbers.push(block),
                    Place::Truths(block) => truths.push(block),
                    _ => {}
                }
            }
            places.push(to);
            placed.steps.push((step, from, to));
        }
        match places.last() {
            Some(Place::Block(_)) if !steps.is_empty() => Ok(placed),
            _ => Err(Error::argument(OP, "the last step must compute a number")),
        }
    }
}

fn wrong(i: usize, step: &Step) -> Error {
    Error::argument(OP, format!("step {i}, {step:?}, reads a value that it cannot take"))
}

/// The values of a block of elements.
struct Blocks<T> {
    numbers: Vec<Vec<T>>,
    truths: Vec<Vec<u8>>,
}

impl<T: Elementary> Blocks<T> {
    fn run(
        &mut self,
        places: &Places<'_>,
        inputs: &[Operand<'_, T>],
        start: usize,
        out: &mut [T],
    ) -> Result<()> {
        let n = out.len();
        let last = places.steps.len() - 1;
        for (i, (step, from, to)) in places.steps.iter().enumerate() {
            match *to {
                Place::Block(_) if i == last => {
                    self.number(step, from, inputs, start, out)?;
                }
                Place::Block(block) => {
                    // Its place is free: no argument of the step lies in it.
                    let mut result = std::mem::take(&mut self.numbers[block]);
                    self.number(step, from, inputs, start, &mut result[..n])?;
                    self.numbers[block] = result;
                }
                Place::Truths(block) => {
                    let mut result = std::mem::take(&mut self.truths[block]);
                    self.truth(step, from, inputs, start, &mut result[..n])?;
                    self.truths[block] = result;
                }
                Place::Input(_) | Place::Number(_) => {}
            }
        }
        Ok(())
    }

    /// Returns `n` elements of a value, from `start` on.
    fn operand<'a>(
        &'a self,
        place: Place,
        inputs: &[Operand<'a, T>],
        start: usize,
        n: usize,
    ) -> Operand<'a, T> {
        match place {
            Place::Input(input) => inputs[input].part(start, n),
            Place::Number(x) => Operand::Splat(T::from_f64(x)),
            Place::Block(block) => Operand::Each(&self.numbers[block][..n]),
            Place::Truths(_) => unreachable!("the kinds of arguments are checked"),
        }
    }

    fn truths(&self, place: Place, n: usize) -> Operand<'_, u8> {
        match place {
            Place::Truths(block) => Operand::Each(&self.truths[block][..n]),
            _ => unreachable!("the kinds of arguments are checked"),
        }
    }

    /// Computes a step whose result is a number.
    fn number(
        &self,
        step: &Step,
        from: &[Place; 3],
        inputs: &[Operand<'_, T>],
        start: usize,
        out: &mut [T],
    ) -> Result<()> {
        let n = out.len();
        let operand = |i: usize| self.operand(from[i], inputs, start, n);
        match *step {
            Step::Unary(kind, _) => match operand(0) {
                Operand::Each(x) => unary(kind, x, out),
                Operand::Splat(x) => repeated(out, |out| unary(kind, &[x], out)),
            },
            Step::Affine { scale, shift, .. } => {
                let (scale, shift) = (T::from_f64(scale), T::from_f64(shift));
                match operand(0) {
                    Operand::Each(x) => affine(x, scale, shift, out),
                    Operand::Splat(x) => repeated(out, |out| affine(&[x], scale, shift, out)),
                }
            }
            Step::Binary(kind, ..) => binary(kind, operand(0), operand(1), out),
            Step::Where { .. } => select(self.truths(from[0], n), operand(1), operand(2), out),
            Step::Number(_) | Step::Compare(..) => {
                unreachable!("the kinds of results are checked: {step:?}")
            }
        }
    }

    /// Computes a step whose result is a truth value.
    fn truth(
        &self,
        step: &Step,
        from: &[Place; 3],
        inputs: &[Operand<'_, T>],
        start: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let n = out.len();
        match *step {
            Step::Compare(kind, ..) => {
                let operand = |i: usize| self.operand(from[i], inputs, start, n);
                compare(kind, operand(0), operand(1), out)
            }
            _ => select(
                self.truths(from[0], n),
                self.truths(from[1], n),
                self.truths(from[2], n),
                out,
            ),
        }
    }
}

/// Fills `out` with the one element that `f` computes.
fn repeated<T: Copy>(out: &mut [T], f: impl FnOnce(&mut [T]) -> Result<()>) -> Result<()> {
    if let Some((first, rest)) = out.split_first_mut() {
        f(std::slice::from_mut(first))?;
        rest.fill(*first);
    }
    Ok(())
}

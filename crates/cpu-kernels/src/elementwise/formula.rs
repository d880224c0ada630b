//! Compositions of elementwise operations, in one pass over memory.

use std::hint::select_unpredictable;

use samebits_numerics::simd::{self, Kernel};
use samebits_tensor_core::buffer::Buffer;
use samebits_tensor_core::ops::{BinaryKind, Bowl, CompareKind, Formula, Step, truth_values};

use super::{
    Elementary, Operand, affine_piece, binary_piece, compare_piece, select_piece, unary_piece,
};
use crate::error::{Error, Result};
use crate::{memory, parallel};

/// The bytes of a block of a value: several blocks fit the first cache.
const BLOCK_BYTES: usize = 1 << 12;

/// The elements of the largest vector.
const VECTOR: usize = 16;

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
    Prepared::new(steps, inputs.len(), out.len())?.run(inputs, out)
}

/// A formula with the places of its values.
pub(crate) struct Prepared {
    places: Places,
    len: usize,
}

impl Prepared {
    /// Prepares the computation of `len` elements from `inputs` inputs.
    ///
    /// # Errors
    ///
    /// As [`formula`].
    pub(crate) fn new(steps: &[Step], inputs: usize, len: usize) -> Result<Prepared> {
        Ok(Prepared { places: Places::new(steps, inputs)?, len })
    }

    /// Computes the formula of operands that have the length of `out`, on several threads if it is long.
    pub(crate) fn run<T: Elementary>(
        &self,
        inputs: &[Operand<'_, T>],
        out: &mut [T],
    ) -> Result<()> {
        parallel::try_pieces(out, |start, out| {
            let inputs: Vec<_> = inputs.iter().map(|input| input.part(start, out.len())).collect();
            self.workspace()?.run(&inputs, out);
            Ok(())
        })
    }

    /// Returns the memory in which a thread computes the formula.
    pub(crate) fn workspace<T: Elementary>(&self) -> Result<Workspace<'_, T>> {
        let places = &self.places;
        // Blocks of whole vectors are aligned, one after the other.
        let size = (BLOCK_BYTES / size_of::<T>()).min(self.len.next_multiple_of(VECTOR));
        let mut values = memory::scratch::<T>(OP, memory::volume(OP, &[places.values(), size])?)?;
        let blocks = values.as_mut_slice::<T>().chunks_exact_mut(size).skip(places.inputs);
        for (block, &x) in blocks.zip(&places.numbers) {
            block.fill(T::from_f64(x));
        }
        let truths = memory::zeroed(OP, memory::volume(OP, &[places.truths, size])?)?;
        Ok(Workspace { places, size, values, truths, repeated: vec![None; places.inputs] })
    }
}

/// A step, or several that have a kernel of their own.
#[derive(Clone, Copy, Debug)]
enum Work {
    Step(Step),
    /// The third value where the comparison of the first two holds, else the fourth.
    Compared(CompareKind, [usize; 4]),
    /// The sum of the first value and the product of the other two, each rounded.
    SumOfProduct([usize; 3]),
    /// All steps.
    Whole(Whole),
}

/// Formulas that have a kernel of their own.
#[derive(Clone, Copy, Debug)]
enum Whole {
    /// [`Formula::LERP`].
    Lerp,
    /// [`Bowl::steps`].
    Bowl(Bowl),
    /// [`Bowl::gradient_steps`].
    BowlGradient(Bowl),
}

impl Whole {
    fn of(steps: &[Step], inputs: usize) -> Option<Whole> {
        match inputs {
            2 => Bowl::of_steps(steps).map(Whole::Bowl),
            3 if *steps == Formula::LERP => Some(Whole::Lerp),
            3 => Bowl::of_gradient_steps(steps).map(Whole::BowlGradient),
            _ => None,
        }
    }

    fn inputs(&self) -> usize {
        match self {
            Whole::Bowl(_) => 2,
            Whole::Lerp | Whole::BowlGradient(_) => 3,
        }
    }
}

impl Work {
    fn arguments(&self) -> impl Iterator<Item = usize> + use<> {
        let (step, values) = match *self {
            Work::Step(step) => (Some(step), [None; 4]),
            Work::Compared(_, values) => (None, values.map(Some)),
            Work::SumOfProduct([x, a, b]) => (None, [Some(x), Some(a), Some(b), None]),
            Work::Whole(whole) => (None, [0, 1, 2, 3].map(|i| (i < whole.inputs()).then_some(i))),
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
    /// The inputs that are read element by element, even if all are one number.
    read_each: Vec<bool>,
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
        let work = joined(steps, inputs, &is_truth);
        let mut last_use = vec![None; inputs + steps.len()];
        for (value, work) in &work {
            work.arguments().for_each(|x| last_use[x] = Some(*value));
        }
        let mut all = vec![Place::Input(0); inputs + steps.len()];
        (0..inputs).for_each(|input| all[input] = Place::Input(input));
        let mut placed = Places { inputs, read_each: vec![false; inputs], ..Places::default() };
        let (mut blocks, mut truths) = (Vec::new(), Vec::new());
        for (value, work) in work {
            let mut from = [Place::Input(0); 4];
            let takes_numbers = matches!(
                work,
                Work::Step(Step::Binary(..) | Step::Compare(..) | Step::Where { .. })
                    | Work::SumOfProduct(_)
            );
            for (from, x) in from.iter_mut().zip(work.arguments()) {
                *from = all[x];
                if x < inputs && !takes_numbers {
                    placed.read_each[x] = true;
                }
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

    /// Returns the number of the block of `place` among those of its kind.
    fn block(&self, place: Place) -> usize {
        match place {
            Place::Input(input) => input,
            Place::Number(number) => self.inputs + number,
            Place::Block(block) => self.inputs + self.numbers.len() + block,
            Place::Truths(block) => block,
        }
    }
}

/// Returns the work of the steps, each with the number of its value: choices take their comparison with
/// them and sums a product that nothing else reads, and values that nothing else reads are gone.
fn joined(steps: &[Step], inputs: usize, is_truth: &[bool]) -> Vec<(usize, Work)> {
    let mut readers = vec![0; inputs + steps.len()];
    for x in steps.iter().flat_map(Step::arguments) {
        readers[x] += 1;
    }
    let product = |x: usize| match steps.get(x.checked_sub(inputs)?)? {
        &Step::Binary(BinaryKind::Mul, a, b) if readers[x] == 1 => Some([a, b]),
        _ => None,
    };
    let together = |step: &Step| match *step {
        Step::Where { condition, a, b } if !is_truth[a] && condition >= inputs => {
            match steps[condition - inputs] {
                Step::Compare(kind, x, y) => Work::Compared(kind, [x, y, a, b]),
                _ => Work::Step(*step),
            }
        }
        Step::Binary(BinaryKind::Add, x, y) => match (product(y), product(x)) {
            (Some([a, b]), _) => Work::SumOfProduct([x, a, b]),
            (None, Some([a, b])) => Work::SumOfProduct([y, a, b]),
            (None, None) => Work::Step(*step),
        },
        step => Work::Step(step),
    };
    if let Some(whole) = Whole::of(steps, inputs) {
        return vec![(inputs + steps.len() - 1, Work::Whole(whole))];
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

/// The memory in which a thread computes a formula.
pub(crate) struct Workspace<'a, T> {
    places: &'a Places,
    /// The elements of a block.
    size: usize,
    /// A block for each number of [`Places::values`].
    values: Buffer,
    truths: Vec<u8>,
    /// The numbers that the blocks of inputs repeat.
    repeated: Vec<Option<T>>,
}

impl<T: Elementary> Workspace<'_, T> {
    /// Computes the formula of operands that have the length of `out`, inside
    /// [`fpenv::ieee`](samebits_numerics::fpenv::ieee).
    pub(crate) fn run(&mut self, inputs: &[Operand<'_, T>], out: &mut [T]) {
        let (places, size) = (self.places, self.size);
        let values = self.values.as_mut_slice::<T>();
        let blocks = values.chunks_exact_mut(size);
        let repeated = self.repeated.iter_mut().zip(&places.read_each);
        for ((input, block), (repeated, &read_each)) in inputs.iter().zip(blocks).zip(repeated) {
            if let Operand::Splat(x) = *input
                && read_each
                && repeated.is_none_or(|old| old.into().to_bits() != x.into().to_bits())
            {
                block.fill(x);
                *repeated = Some(x);
            }
        }
        let last = places.work.len() - 1;
        for (start, out) in (0..).step_by(size).zip(out.chunks_mut(size)) {
            let n = out.len();
            for (i, (work, from, to)) in places.work.iter().enumerate() {
                let to = match *to {
                    Place::Number(number) if i == last => {
                        out.fill(T::from_f64(places.numbers[number]));
                        continue;
                    }
                    Place::Input(_) | Place::Number(_) => continue,
                    Place::Truths(_) => {
                        let (truths, to) =
                            Blocks::without(&mut self.truths, size, places.block(*to));
                        let values = Blocks::all(values, size);
                        let read = Arguments { places, from, inputs, start, n, values, truths };
                        read.truth(work, &mut to[..n]);
                        continue;
                    }
                    Place::Block(_) => places.block(*to),
                };
                let truths = Blocks::all(&self.truths, size);
                if i == last {
                    let values = Blocks::all(values, size);
                    let read = Arguments { places, from, inputs, start, n, values, truths };
                    read.number(work, out);
                } else {
                    // No argument lies in the block of the result, so it is free.
                    let (values, to) = Blocks::without(values, size, to);
                    let read = Arguments { places, from, inputs, start, n, values, truths };
                    read.number(work, &mut to[..n]);
                }
            }
        }
    }
}

/// Blocks of one size, without one that may lie between.
#[derive(Clone, Copy)]
struct Blocks<'a, T> {
    before: &'a [T],
    after: &'a [T],
    size: usize,
}

impl<'a, T> Blocks<'a, T> {
    fn all(blocks: &'a [T], size: usize) -> Blocks<'a, T> {
        Blocks { before: blocks, after: &[], size }
    }

    /// Returns the blocks without one, and that one.
    fn without(blocks: &'a mut [T], size: usize, number: usize) -> (Blocks<'a, T>, &'a mut [T]) {
        let (before, rest) = blocks.split_at_mut(number * size);
        let (block, after) = rest.split_at_mut(size);
        (Blocks { before, after, size }, block)
    }

    /// Returns the first `n` elements of a block.
    fn block(&self, number: usize, n: usize) -> &'a [T] {
        let start = number * self.size;
        match start.checked_sub(self.before.len()) {
            None => &self.before[start..][..n],
            Some(later) => &self.after[later - self.size..][..n],
        }
    }
}

/// What a step reads.
struct Arguments<'a, T> {
    places: &'a Places,
    from: &'a [Place; 4],
    inputs: &'a [Operand<'a, T>],
    /// The first element, and how many there are.
    start: usize,
    n: usize,
    values: Blocks<'a, T>,
    truths: Blocks<'a, u8>,
}

impl<'a, T: Elementary> Arguments<'a, T> {
    /// Returns the elements of a value.
    fn values(&self, argument: usize) -> &'a [T] {
        let place = self.from[argument];
        if let Place::Input(input) = place
            && let Operand::Each(x) = self.inputs[input]
        {
            return &x[self.start..][..self.n];
        }
        match place {
            Place::Truths(_) => unreachable!("the kinds of arguments are checked"),
            _ => self.values.block(self.places.block(place), self.n),
        }
    }

    /// Returns the elements of a value, or the one that they all are.
    fn operand(&self, argument: usize) -> Operand<'a, T> {
        match self.from[argument] {
            Place::Input(input) => self.inputs[input].part(self.start, self.n),
            Place::Number(number) => Operand::Splat(T::from_f64(self.places.numbers[number])),
            _ => Operand::Each(self.values(argument)),
        }
    }

    fn truths(&self, argument: usize) -> Operand<'a, u8> {
        match self.from[argument] {
            Place::Truths(block) => Operand::Each(self.truths.block(block, self.n)),
            _ => unreachable!("the kinds of arguments are checked"),
        }
    }

    /// Computes a number.
    fn number(&self, work: &Work, out: &mut [T]) {
        match *work {
            Work::Step(Step::Unary(kind, _)) => unary_piece(kind, self.values(0), out),
            Work::Step(Step::Affine { scale, shift, .. }) => {
                affine_piece(self.values(0), T::from_f64(scale), T::from_f64(shift), out);
            }
            Work::Step(Step::Binary(kind, ..)) => {
                binary_piece(kind, self.operand(0), self.operand(1), out);
            }
            Work::Step(Step::Where { .. }) => {
                select_piece(self.truths(0), self.operand(1), self.operand(2), out);
            }
            Work::Compared(kind, _) => compared(kind, [0, 1, 2, 3].map(|i| self.values(i)), out),
            Work::SumOfProduct(_) => {
                let [x, a, b] = [0, 1, 2].map(|i| self.operand(i));
                simd::dispatch_inside(SumOfProduct { x, a, b, out });
            }
            Work::Whole(Whole::Lerp) => {
                let [start, end, weight] = [0, 1, 2].map(|i| self.values(i));
                simd::dispatch_inside(Lerp { start, end, weight, out });
            }
            Work::Whole(Whole::Bowl(bowl)) => {
                let inputs = [0, 1].map(|i| self.values(i));
                simd::dispatch_inside(BowlLoss { bowl: Numbers::of(bowl), inputs, out });
            }
            Work::Whole(Whole::BowlGradient(bowl)) => {
                let inputs = [0, 1, 2].map(|i| self.values(i));
                simd::dispatch_inside(BowlGradient { bowl: Numbers::of(bowl), inputs, out });
            }
            Work::Step(Step::Number(_) | Step::Compare(..)) => {
                unreachable!("the kinds of results are checked: {work:?}")
            }
        }
    }

    /// Computes a truth value.
    fn truth(&self, work: &Work, out: &mut [u8]) {
        match *work {
            Work::Step(Step::Compare(kind, ..)) => {
                compare_piece(kind, self.operand(0), self.operand(1), out);
            }
            _ => select_piece(self.truths(0), self.truths(1), self.truths(2), out),
        }
    }
}

/// Adds products to numbers.
struct SumOfProduct<'a, T> {
    x: Operand<'a, T>,
    a: Operand<'a, T>,
    b: Operand<'a, T>,
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for SumOfProduct<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let SumOfProduct { x, a, b, out } = self;
        let n = out.len();
        // A product is the same in either order.
        let (a, b) = if let Operand::Splat(_) = a { (b, a) } else { (a, b) };
        match (x, a, b) {
            (Operand::Each(x), Operand::Each(a), Operand::Each(b)) => {
                let (x, a, b) = (&x[..n], &a[..n], &b[..n]);
                for i in 0..n {
                    out[i] = (x[i] + a[i] * b[i]).canonical();
                }
            }
            (Operand::Each(x), Operand::Each(a), Operand::Splat(b)) => {
                for ((out, &x), &a) in out.iter_mut().zip(x).zip(a) {
                    *out = (x + a * b).canonical();
                }
            }
            (Operand::Splat(x), Operand::Each(a), Operand::Splat(b)) => {
                for (out, &a) in out.iter_mut().zip(a) {
                    *out = (x + a * b).canonical();
                }
            }
            _ => {
                let at = |operand: Operand<'_, T>, i: usize| match operand {
                    Operand::Each(x) => x[i],
                    Operand::Splat(x) => x,
                };
                for (i, out) in out.iter_mut().enumerate() {
                    *out = (at(x, i) + at(a, i) * at(b, i)).canonical();
                }
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
        /// Elements that stay in the first cache.
        const CHUNK: usize = 256;
        let infinity = T::from_f64(f64::INFINITY);
        let (zero, one, half) = (T::ZERO, T::ONE, T::from_f64(0.5));
        let is_infinite = |x: T| x.abs() == infinity;
        let share = |weight: T, x: T| select_unpredictable(weight == zero, zero, weight * x);
        let part = |weight: T| select_unpredictable(weight.abs() < half, weight, weight - one);
        let nearest =
            |weight: T, start: T, end: T| select_unpredictable(weight.abs() < half, start, end);
        let inputs = start.chunks(CHUNK).zip(end.chunks(CHUNK)).zip(weight.chunks(CHUNK));
        for (out, ((start, end), weight)) in out.chunks_mut(CHUNK).zip(inputs) {
            let n = out.len();
            let (start, end, weight) = (&start[..n], &end[..n], &weight[..n]);
            let mut finite = true;
            for i in 0..n {
                let way = end[i] - start[i];
                finite &= way.abs() < infinity;
                let from = nearest(weight[i], start[i], end[i]);
                out[i] = (from + part(weight[i]) * way).canonical();
            }
            if finite {
                continue;
            }
            for i in 0..n {
                let (start, end, weight) = (start[i], end[i], weight[i]);
                let both = is_infinite(start) & (start == end);
                let way = select_unpredictable(both, zero, end - start);
                let along = nearest(weight, start, end) + part(weight) * way;
                let mixed = share(one - weight, start) + share(weight, end);
                out[i] = select_unpredictable(is_infinite(way), mixed, along).canonical();
            }
        }
    }
}

/// The numbers of a [`Bowl`], rounded.
struct Numbers<T> {
    bound: T,
    scale: T,
    shift: T,
    slope: T,
}

impl<T: Elementary> Numbers<T> {
    fn of(bowl: Bowl) -> Numbers<T> {
        let Bowl { bound, scale, shift, slope } = bowl;
        let [bound, scale, shift, slope] = [bound, scale, shift, slope].map(T::from_f64);
        Numbers { bound, scale, shift, slope }
    }
}

/// Computes [`Bowl::steps`].
struct BowlLoss<'a, T> {
    bowl: Numbers<T>,
    inputs: [&'a [T]; 2],
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for BowlLoss<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let BowlLoss { bowl: Numbers { bound, scale, shift, slope }, inputs, out } = self;
        let [x, target] = inputs.map(|input| &input[..out.len()]);
        for i in 0..out.len() {
            let distance = (x[i] - target[i]).abs();
            let line = (distance + shift) * slope;
            let loss = select_unpredictable(distance < bound, distance * distance * scale, line);
            out[i] = loss.canonical();
        }
    }
}

/// Computes [`Bowl::gradient_steps`].
struct BowlGradient<'a, T> {
    bowl: Numbers<T>,
    inputs: [&'a [T]; 3],
    out: &'a mut [T],
}

impl<T: Elementary> Kernel for BowlGradient<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let BowlGradient { bowl: Numbers { bound, scale, slope, .. }, inputs, out } = self;
        let [x, target, grad] = inputs.map(|input| &input[..out.len()]);
        let two = T::from_f64(2.0);
        for i in 0..out.len() {
            let (difference, grad) = (x[i] - target[i], grad[i]);
            let distance = difference.abs();
            let near = distance < bound;
            // A sum with +0, so that it is no −0.
            let bowl = T::ZERO * slope + grad * scale * (distance * two);
            let line = grad * slope + T::ZERO;
            let size = select_unpredictable(near, bowl, line);
            let sign = select_unpredictable(difference < T::ZERO, T::from_f64(-1.0), T::ONE);
            let is_zero = difference == T::ZERO;
            let sign = select_unpredictable(is_zero, T::ZERO, sign);
            let sign = select_unpredictable(difference.is_nan(), difference, sign);
            out[i] = (size * sign).canonical();
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

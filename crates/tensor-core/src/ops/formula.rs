//! Compositions of elementwise operations.

use super::{
    Affine, Binary, BinaryKind, Compare, CompareKind, Unary, UnaryKind, Where, expect_dtype,
    expect_float,
};
use crate::layout::{PerDim, broadcast};
use crate::{DType, Error, Op, Result, Tensor, dispatch, observe};

/// A composition of elementwise operations, with broadcasting, which needs no memory for what lies
/// between. Each step is rounded as the operation of its name is.
#[derive(Clone, Debug)]
pub struct Formula {
    /// The operands: floats of one type, at most [`MOST_INPUTS`](Formula::MOST_INPUTS).
    pub inputs: Vec<Tensor>,
    /// The steps, of which the last computes the result. The values are counted from 0: first the
    /// inputs, then the results of the steps.
    pub steps: Vec<Step>,
}

/// A step of a [`Formula`]; a `usize` is the number of an earlier value. Steps are equal if their numbers
/// have the same bits: −0 is not +0, since sums and products with them differ.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A number, rounded to the type of the inputs.
    Number(f64),
    /// A function of one value.
    Unary(UnaryKind, usize),
    /// A function of two values.
    Binary(BinaryKind, usize, usize),
    /// `x · scale + shift`, as [`Affine`].
    Affine {
        /// The argument.
        x: usize,
        /// The factor.
        scale: f64,
        /// The addend.
        shift: f64,
    },
    /// A comparison of two values, whose result is a truth value.
    Compare(CompareKind, usize, usize),
    /// The first value where the truth value holds, else the second. Both are floats, or both are
    /// truth values.
    Where {
        /// The truth value.
        condition: usize,
        /// Taken where it holds.
        a: usize,
        /// Taken elsewhere.
        b: usize,
    },
}

impl PartialEq for Step {
    fn eq(&self, other: &Step) -> bool {
        let same = |a: f64, b: f64| a.to_bits() == b.to_bits();
        match (*self, *other) {
            (Step::Number(a), Step::Number(b)) => same(a, b),
            (Step::Unary(kind, x), Step::Unary(other, y)) => (kind, x) == (other, y),
            (Step::Binary(kind, a, b), Step::Binary(other, c, d)) => (kind, a, b) == (other, c, d),
            (
                Step::Affine { x, scale, shift },
                Step::Affine { x: y, scale: factor, shift: addend },
            ) => x == y && same(scale, factor) && same(shift, addend),
            (Step::Compare(kind, a, b), Step::Compare(other, c, d)) => {
                (kind, a, b) == (other, c, d)
            }
            (Step::Where { condition, a, b }, Step::Where { condition: other, a: c, b: d }) => {
                (condition, a, b) == (other, c, d)
            }
            _ => false,
        }
    }
}

impl Eq for Step {}

impl Step {
    /// Returns the numbers of the values that the step reads.
    pub fn arguments(&self) -> impl Iterator<Item = usize> + use<> {
        let arguments = match *self {
            Step::Number(_) => [None; 3],
            Step::Unary(_, x) | Step::Affine { x, .. } => [Some(x), None, None],
            Step::Binary(_, a, b) | Step::Compare(_, a, b) => [Some(a), Some(b), None],
            Step::Where { condition, a, b } => [Some(condition), Some(a), Some(b)],
        };
        arguments.into_iter().flatten()
    }

    /// Returns the step with the value `number(x)` in place of each value `x` that it reads.
    #[must_use]
    pub fn renumbered(self, number: impl Fn(usize) -> usize) -> Step {
        match self {
            Step::Number(x) => Step::Number(x),
            Step::Unary(kind, x) => Step::Unary(kind, number(x)),
            Step::Binary(kind, a, b) => Step::Binary(kind, number(a), number(b)),
            Step::Affine { x, scale, shift } => Step::Affine { x: number(x), scale, shift },
            Step::Compare(kind, a, b) => Step::Compare(kind, number(a), number(b)),
            Step::Where { condition, a, b } => {
                Step::Where { condition: number(condition), a: number(a), b: number(b) }
            }
        }
    }
}

impl Formula {
    /// The number of inputs that a formula may have.
    pub const MOST_INPUTS: usize = 5;

    /// The steps of `lerp(start, end, weight)`, whose inputs are in this order.
    pub const LERP: [Step; 27] = {
        use BinaryKind::{Add, Mul, Sub};
        use CompareKind::{Eq, Lt};
        [
            Step::Number(0.0),                              // 3
            Step::Number(f64::INFINITY),                    // 4
            Step::Unary(UnaryKind::Abs, 0),                 // 5
            Step::Compare(Eq, 5, 4),                        // 6
            Step::Compare(Eq, 0, 1),                        // 7
            Step::Where { condition: 6, a: 7, b: 6 },       // 8: equal infinities
            Step::Binary(Sub, 1, 0),                        // 9
            Step::Where { condition: 8, a: 3, b: 9 },       // 10: the way from start to end
            Step::Unary(UnaryKind::Abs, 2),                 // 11
            Step::Number(0.5),                              // 12
            Step::Compare(Lt, 11, 12),                      // 13: start is nearer than end
            Step::Affine { x: 2, scale: 1.0, shift: -1.0 }, // 14
            Step::Where { condition: 13, a: 2, b: 14 },     // 15: the part of the way to go
            Step::Where { condition: 13, a: 0, b: 1 },      // 16: from here
            Step::Binary(Mul, 15, 10),                      // 17
            Step::Binary(Add, 16, 17),                      // 18: the result if the way is finite
            Step::Affine { x: 2, scale: -1.0, shift: 1.0 }, // 19
            Step::Compare(Eq, 19, 3),                       // 20
            Step::Binary(Mul, 19, 0),                       // 21
            Step::Where { condition: 20, a: 3, b: 21 },     // 22: the share of start
            Step::Compare(Eq, 2, 3),                        // 23
            Step::Binary(Mul, 2, 1),                        // 24
            Step::Where { condition: 23, a: 3, b: 24 },     // 25: the share of end
            Step::Binary(Add, 22, 25),                      // 26: the result if it is infinite
            Step::Unary(UnaryKind::Abs, 10),                // 27
            Step::Compare(Eq, 27, 4),                       // 28
            Step::Where { condition: 28, a: 26, b: 18 },    // 29
        ]
    };

    /// Computes the formula by an operation for each step, unobserved, where no kernel takes it whole.
    ///
    /// # Errors
    ///
    /// As the operations.
    pub fn by_steps(&self) -> Result<Tensor> {
        let first = &self.inputs[0];
        let number = |x: f64| {
            let host = match first.dtype() {
                DType::F32 => Tensor::scalar(x as f32),
                _ => Tensor::scalar(x),
            };
            host.to(first.device())
        };
        let mut values = self.inputs.clone();
        observe::unobserved(|| {
            for step in &self.steps {
                let value = |i: usize| values[i].clone();
                let next = match *step {
                    Step::Number(x) => number(x)?,
                    Step::Unary(kind, x) => dispatch(&Unary { kind, x: value(x) })?,
                    Step::Binary(kind, a, b) => {
                        dispatch(&Binary { kind, a: value(a), b: value(b) })?
                    }
                    Step::Affine { x, scale, shift } => {
                        dispatch(&Affine { x: value(x), scale, shift })?
                    }
                    Step::Compare(kind, a, b) => {
                        dispatch(&Compare { kind, a: value(a), b: value(b) })?
                    }
                    Step::Where { condition, a, b } => {
                        dispatch(&Where { condition: value(condition), a: value(a), b: value(b) })?
                    }
                };
                values.push(next);
            }
            Ok(())
        })?;
        let result = values.pop().expect("a formula has a step");
        result.expand(&self.plan()?)?.contiguous()
    }
}

/// A loss of the distance `d` of two inputs: `scale · d²` below a bound, and `(d + shift) · slope` from
/// it on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bowl {
    /// The distance from which the loss is a line.
    pub bound: f64,
    /// The factor of the square.
    pub scale: f64,
    /// Added to distances on the line.
    pub shift: f64,
    /// The slope of the line; 1 takes no step.
    pub slope: f64,
}

impl Bowl {
    /// Returns the steps of the loss of two inputs.
    pub fn steps(&self) -> Vec<Step> {
        use CompareKind::Lt;
        let mut list = List { inputs: 2, steps: Vec::new() };
        let difference = list.push(Step::Binary(BinaryKind::Sub, 0, 1));
        let distance = list.push(Step::Unary(UnaryKind::Abs, difference));
        let bound = list.push(Step::Number(self.bound));
        let near = list.push(Step::Compare(Lt, distance, bound));
        let zero = list.push(Step::Number(0.0));
        // A square of a far distance could overflow.
        let inside = list.push(Step::Where { condition: near, a: distance, b: zero });
        let square = list.push(Step::Unary(UnaryKind::Square, inside));
        let bowl = list.times(square, self.scale);
        let shifted = Step::Affine { x: distance, scale: 1.0, shift: self.shift };
        let mut line = list.push(shifted);
        if self.slope != 1.0 {
            line = list.times(line, self.slope);
        }
        list.push(Step::Where { condition: near, a: bowl, b: line });
        list.steps
    }

    /// Returns the steps of the gradient of the first input, in the order of a backward pass through
    /// [`steps`](Bowl::steps). The third input is the gradient of the loss.
    pub fn gradient_steps(&self) -> Vec<Step> {
        use CompareKind::{Eq, Gt, Lt};
        let mut list = List { inputs: 3, steps: Vec::new() };
        let difference = list.push(Step::Binary(BinaryKind::Sub, 0, 1));
        let distance = list.push(Step::Unary(UnaryKind::Abs, difference));
        let bound = list.push(Step::Number(self.bound));
        let near = list.push(Step::Compare(Lt, distance, bound));
        let zero = list.push(Step::Number(0.0));
        let inside = list.push(Step::Where { condition: near, a: distance, b: zero });
        let none = list.push(Step::Number(0.0));
        let of_bowl = list.push(Step::Where { condition: near, a: 2, b: none });
        let mut of_line = list.push(Step::Where { condition: near, a: none, b: 2 });
        if self.slope != 1.0 {
            of_line = list.times(of_line, self.slope);
        }
        let of_line = list.times(of_line, 1.0);
        let of_square = list.times(of_bowl, self.scale);
        let twice = list.times(inside, 2.0);
        let of_inside = list.push(Step::Binary(BinaryKind::Mul, of_square, twice));
        let none = list.push(Step::Number(0.0));
        let of_near = list.push(Step::Where { condition: near, a: of_inside, b: none });
        let of_distance = list.push(Step::Binary(BinaryKind::Add, of_line, of_near));
        let ordered = list.push(Step::Compare(Eq, difference, difference));
        let zero = list.push(Step::Number(0.0));
        let rest = list.push(Step::Where { condition: ordered, a: zero, b: difference });
        let negative = list.push(Step::Compare(Lt, difference, zero));
        let minus = list.push(Step::Number(-1.0));
        let below = list.push(Step::Where { condition: negative, a: minus, b: rest });
        let positive = list.push(Step::Compare(Gt, difference, zero));
        let one = list.push(Step::Number(1.0));
        let sign = list.push(Step::Where { condition: positive, a: one, b: below });
        list.push(Step::Binary(BinaryKind::Mul, of_distance, sign));
        list.steps
    }

    /// Returns the loss whose [`steps`](Bowl::steps) these are.
    pub fn of_steps(steps: &[Step]) -> Option<Bowl> {
        let bound = first_number(steps)?;
        let numbers: Vec<[f64; 2]> = affine_numbers(steps).collect();
        let bowl = match *numbers {
            [[scale, _], [_, shift]] => Bowl { bound, scale, shift, slope: 1.0 },
            [[scale, _], [_, shift], [slope, _]] => Bowl { bound, scale, shift, slope },
            _ => return None,
        };
        (bowl.steps() == steps).then_some(bowl)
    }

    /// Returns the loss whose [`gradient_steps`](Bowl::gradient_steps) these are; its shift is 0,
    /// because the gradient does not depend on it.
    pub fn of_gradient_steps(steps: &[Step]) -> Option<Bowl> {
        let bound = first_number(steps)?;
        let scales: Vec<f64> = affine_numbers(steps).map(|[scale, _]| scale).collect();
        let bowl = match *scales {
            [_, scale, _] => Bowl { bound, scale, shift: 0.0, slope: 1.0 },
            [slope, _, scale, _] => Bowl { bound, scale, shift: 0.0, slope },
            _ => return None,
        };
        (bowl.gradient_steps() == steps).then_some(bowl)
    }
}

fn first_number(steps: &[Step]) -> Option<f64> {
    steps.iter().find_map(|step| match *step {
        Step::Number(x) => Some(x),
        _ => None,
    })
}

fn affine_numbers(steps: &[Step]) -> impl Iterator<Item = [f64; 2]> {
    steps.iter().filter_map(|step| match *step {
        Step::Affine { scale, shift, .. } => Some([scale, shift]),
        _ => None,
    })
}

/// Steps after some inputs.
struct List {
    inputs: usize,
    steps: Vec<Step>,
}

impl List {
    /// Returns the number of the value of the step.
    fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.inputs + self.steps.len() - 1
    }

    fn times(&mut self, x: usize, factor: f64) -> usize {
        self.push(Step::Affine { x, scale: factor, shift: -0.0 })
    }
}

/// Returns which values of a formula, from the inputs on, are truth values.
///
/// # Errors
///
/// A message, if a step cannot take the values that it reads, or the last one computes no number.
pub fn truth_values(steps: &[Step], inputs: usize) -> std::result::Result<Vec<bool>, String> {
    let mut is_truth = vec![false; inputs];
    for (i, step) in steps.iter().enumerate() {
        let place = inputs + i;
        if let Some(later) = step.arguments().find(|&x| x >= place) {
            return Err(format!("step {i} reads value {later}, expected one below {place}"));
        }
        let fits = match *step {
            Step::Binary(BinaryKind::FloorDivide | BinaryKind::Remainder, ..) => {
                return Err(format!("step {i}, {step:?}, is defined for integers only"));
            }
            Step::Where { condition, a, b } => is_truth[condition] && is_truth[a] == is_truth[b],
            _ => step.arguments().all(|x| !is_truth[x]),
        };
        if !fits {
            return Err(format!("step {i}, {step:?}, takes a truth value for a number"));
        }
        is_truth.push(match *step {
            Step::Compare(..) => true,
            Step::Where { a, .. } => is_truth[a],
            _ => false,
        });
    }
    match steps.last() {
        Some(_) if is_truth.last() == Some(&false) => Ok(is_truth),
        _ => Err("the last step must compute a number".into()),
    }
}

impl Op for Formula {
    const NAME: &'static str = "formula";
    /// The shape of the result.
    type Plan = PerDim;
    type Output = Tensor;

    crate::inputs![inputs];
    crate::parameters![steps];

    fn plan(&self) -> Result<PerDim> {
        let Some(first) = self.inputs.first().filter(|_| self.inputs.len() <= Self::MOST_INPUTS)
        else {
            let (most, got) = (Self::MOST_INPUTS, self.inputs.len());
            let message = format!("expected 1 to {most} inputs, got {got}");
            return Err(Error::invalid(Self::NAME, message));
        };
        expect_float(Self::NAME, "the first input", first)?;
        let mut shape = PerDim::from(first.shape());
        for input in &self.inputs[1..] {
            expect_dtype(Self::NAME, "another input", input, first.dtype())?;
            shape = broadcast(Self::NAME, &shape, input.shape())?;
        }
        truth_values(&self.steps, self.inputs.len())
            .map_err(|message| Error::invalid(Self::NAME, message))?;
        Ok(shape)
    }
}

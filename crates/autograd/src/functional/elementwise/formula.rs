//! Functions that are compositions of elementwise operations, computed in one pass each way.

use samebits_tensor_core::layout::{PerDim, broadcast};
use samebits_tensor_core::ops::{BinaryKind, CompareKind, Formula, Step, UnaryKind};
use samebits_tensor_core::{Op, Result, Tensor as Value};

use super::{
    abs, add, affine, div, exp, expm1, log, log1p, maximum, minimum, mul, neg, relation,
    scalar_like, sqrt, square, sub, wanted, weigh, where_,
};
use crate::functional::broadcast::sum_to;
use crate::tensor::is_wanted;
use crate::{Tensor, untracked};

/// A value of a formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Symbol(usize);

/// The steps of a formula that is being written.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    inputs: usize,
    steps: Vec<Step>,
}

/// Computes a formula, whose result `write` returns. It has the bits of its operations one by one.
/// So have its gradients, if each input occurs once.
#[track_caller]
pub(crate) fn formula<const N: usize>(
    inputs: [&Tensor; N],
    write: impl FnOnce(&mut Steps, [Symbol; N]) -> Symbol,
) -> Result<Tensor> {
    let mut steps = Steps { inputs: N, steps: Vec::new() };
    let result = write(&mut steps, std::array::from_fn(Symbol));
    computed(&inputs, &steps.used_for(result))
}

/// Computes a function of `x` in one pass each way. `terms` writes the parts of its gradient from that of
/// the result and `x`: they are added, one after the other, to the gradient that was found so far.
#[track_caller]
pub(crate) fn curve<const N: usize>(
    x: &Tensor,
    value: impl FnOnce(&mut Steps, Symbol) -> Symbol,
    terms: impl Fn(&mut Steps, Symbol, Symbol) -> [Symbol; N] + Send + Sync + 'static,
) -> Result<Tensor> {
    let value = formula([&x.detach()], |f, [x]| value(f, x))?.value().clone();
    let saved = x.clone();
    Ok(Tensor::computed_onto(value, x, move |grad, found| {
        let sum = |f: &mut Steps, [grad, x]: [Symbol; 2], found: Option<Symbol>| {
            let parts = found.into_iter().chain(terms(f, grad, x));
            parts.reduce(|sum, part| f.add(sum, part)).expect("a gradient has a part")
        };
        match &found {
            None => formula([grad, &saved], |f, inputs| sum(f, inputs, None)),
            Some(found) => {
                formula([found, grad, &saved], |f, [found, grad, x]| sum(f, [grad, x], Some(found)))
            }
        }
    }))
}

/// Returns a formula of values outside the graph, which are floats of one type. At least one step
/// computes its result.
pub(crate) fn formula_of_values(
    inputs: &[&Value],
    write: impl FnOnce(&mut Steps, &[Symbol]) -> Symbol,
) -> Formula {
    let mut steps = Steps { inputs: inputs.len(), steps: Vec::new() };
    let result = write(&mut steps, &(0..inputs.len()).map(Symbol).collect::<Vec<_>>());
    let used = steps.used_for(result);
    let inputs = used.inputs.iter().map(|&input| inputs[input].clone()).collect();
    Formula { inputs, steps: used.steps.steps }
}

/// Computes the result of steps, and records it for the backward pass.
#[track_caller]
fn computed(inputs: &[&Tensor], used: &Used) -> Result<Tensor> {
    let inputs: Vec<&Tensor> = used.inputs.iter().map(|&input| inputs[input]).collect();
    if used.steps.steps.is_empty() {
        return Ok(inputs[0].clone());
    }
    let Some(first) = inputs.first() else { return composed(&inputs, &used.steps) };
    let is_one_type = inputs.iter().all(|x| x.dtype() == first.dtype());
    let is_one_shape = inputs.iter().all(|x| x.shape() == first.shape());
    let has_gradients =
        || inputs.len() < Formula::MOST_INPUTS && (is_one_shape || used.steps.sum_last(&inputs));
    if !is_one_type || !first.dtype().is_float() || is_wanted(&inputs) && !has_gradients() {
        return composed(&inputs, &used.steps);
    }
    let values = inputs.iter().map(|input| input.value().clone()).collect();
    let value = untracked(&Formula { inputs: values, steps: used.steps.steps.clone() })?;
    if !is_wanted(&inputs) {
        return Ok(value);
    }
    let saved: Vec<Tensor> = inputs.iter().map(|input| (*input).clone()).collect();
    let steps = used.steps.clone();
    Ok(Tensor::computed(value.into(), &inputs, move |grad| {
        let all: Vec<&Tensor> = saved.iter().chain([grad]).collect();
        let of = |(i, input): (usize, &Tensor)| {
            let is_whole = input.shape() == grad.shape();
            // What is subtracted, or divides, negates the sum of its gradients.
            let negates = !is_whole && steps.negate(i);
            let Some(gradient) = steps.gradient(i, negates) else { return Ok(None) };
            wanted(input, || {
                let sum = sum_to(&computed(&all, &gradient)?, input.shape())?;
                if negates { neg(&sum) } else { Ok(sum) }
            })
        };
        saved.iter().enumerate().map(of).collect()
    }))
}

/// Computes the result of steps by a function for each.
#[track_caller]
fn composed(inputs: &[&Tensor], steps: &Steps) -> Result<Tensor> {
    let mut values: Vec<Tensor> = inputs.iter().map(|input| (*input).clone()).collect();
    for step in &steps.steps {
        let value = match *step {
            Step::Number(x) => scalar_like(&values[0], x)?,
            Step::Unary(kind, x) => {
                let function = match kind {
                    UnaryKind::Neg => neg,
                    UnaryKind::Abs => abs,
                    UnaryKind::Square => square,
                    UnaryKind::Exp => exp,
                    UnaryKind::Expm1 => expm1,
                    UnaryKind::Sqrt => sqrt,
                    UnaryKind::Log => log,
                    UnaryKind::Log1p => log1p,
                    _ => unreachable!("`Steps` has no function that writes {kind:?}"),
                };
                function(&values[x])?
            }
            Step::Binary(kind, a, b) => {
                let function = match kind {
                    BinaryKind::Add => add,
                    BinaryKind::Sub => sub,
                    BinaryKind::Mul => mul,
                    BinaryKind::Div => div,
                    BinaryKind::Maximum => maximum,
                    BinaryKind::Minimum => minimum,
                    BinaryKind::Weigh => weigh,
                    _ => unreachable!("`Steps` has no function that writes {kind:?}"),
                };
                function(&values[a], &values[b])?
            }
            Step::Affine { x, scale, shift } => affine(&values[x], scale, shift)?,
            Step::Compare(kind, a, b) => relation(kind, &values[a], &values[b])?,
            Step::Where { condition, a, b } => where_(&values[condition], &values[a], &values[b])?,
        };
        values.push(value);
    }
    Ok(values.pop().expect("steps have a result"))
}

/// The inputs that some steps read, and the steps, whose values are counted without the others.
struct Used {
    inputs: Vec<usize>,
    steps: Steps,
}

impl Steps {
    fn push(&mut self, step: Step) -> Symbol {
        self.steps.push(step);
        Symbol(self.inputs + self.steps.len() - 1)
    }

    /// Writes steps that are known as a whole, before any other.
    pub(crate) fn known(&mut self, steps: &[Step]) -> Symbol {
        self.steps.extend_from_slice(steps);
        Symbol(self.inputs + self.steps.len() - 1)
    }

    pub(crate) fn number(&mut self, x: f64) -> Symbol {
        self.push(Step::Number(x))
    }

    fn unary(&mut self, kind: UnaryKind, x: Symbol) -> Symbol {
        self.push(Step::Unary(kind, x.0))
    }

    fn binary(&mut self, kind: BinaryKind, a: Symbol, b: Symbol) -> Symbol {
        self.push(Step::Binary(kind, a.0, b.0))
    }

    pub(crate) fn compare(&mut self, kind: CompareKind, a: Symbol, b: Symbol) -> Symbol {
        self.push(Step::Compare(kind, a.0, b.0))
    }

    /// Compares a value with a number.
    pub(crate) fn compare_to(&mut self, kind: CompareKind, a: Symbol, bound: f64) -> Symbol {
        let bound = self.number(bound);
        self.compare(kind, a, bound)
    }

    pub(crate) fn choose(&mut self, condition: Symbol, a: Symbol, b: Symbol) -> Symbol {
        self.push(Step::Where { condition: condition.0, a: a.0, b: b.0 })
    }

    pub(crate) fn affine(&mut self, x: Symbol, scale: f64, shift: f64) -> Symbol {
        self.push(Step::Affine { x: x.0, scale, shift })
    }

    /// Computes `x · factor`, rounded once, as [`times`](super::times).
    pub(crate) fn times(&mut self, x: Symbol, factor: f64) -> Symbol {
        self.affine(x, factor, -0.0)
    }

    pub(crate) fn add(&mut self, a: Symbol, b: Symbol) -> Symbol {
        self.binary(BinaryKind::Add, a, b)
    }

    pub(crate) fn sub(&mut self, a: Symbol, b: Symbol) -> Symbol {
        self.binary(BinaryKind::Sub, a, b)
    }

    pub(crate) fn mul(&mut self, a: Symbol, b: Symbol) -> Symbol {
        self.binary(BinaryKind::Mul, a, b)
    }

    pub(crate) fn div(&mut self, a: Symbol, b: Symbol) -> Symbol {
        self.binary(BinaryKind::Div, a, b)
    }

    pub(crate) fn maximum(&mut self, a: Symbol, b: Symbol) -> Symbol {
        self.binary(BinaryKind::Maximum, a, b)
    }

    pub(crate) fn minimum(&mut self, a: Symbol, b: Symbol) -> Symbol {
        self.binary(BinaryKind::Minimum, a, b)
    }

    /// Computes `x · weight`, or a zero if the weight is 0.
    pub(crate) fn weigh(&mut self, x: Symbol, weight: Symbol) -> Symbol {
        self.binary(BinaryKind::Weigh, x, weight)
    }

    pub(crate) fn neg(&mut self, x: Symbol) -> Symbol {
        self.unary(UnaryKind::Neg, x)
    }

    pub(crate) fn abs(&mut self, x: Symbol) -> Symbol {
        self.unary(UnaryKind::Abs, x)
    }

    pub(crate) fn square(&mut self, x: Symbol) -> Symbol {
        self.unary(UnaryKind::Square, x)
    }

    pub(crate) fn sqrt(&mut self, x: Symbol) -> Symbol {
        self.unary(UnaryKind::Sqrt, x)
    }

    pub(crate) fn exp(&mut self, x: Symbol) -> Symbol {
        self.unary(UnaryKind::Exp, x)
    }

    pub(crate) fn expm1(&mut self, x: Symbol) -> Symbol {
        self.unary(UnaryKind::Expm1, x)
    }

    pub(crate) fn log(&mut self, x: Symbol) -> Symbol {
        self.unary(UnaryKind::Log, x)
    }

    pub(crate) fn log1p(&mut self, x: Symbol) -> Symbol {
        self.unary(UnaryKind::Log1p, x)
    }

    /// Returns a value, or NaN where another is NaN.
    pub(crate) fn nan_where(&mut self, x: Symbol, value: Symbol) -> Symbol {
        let (ordered, nan) = (self.compare(CompareKind::Eq, x, x), self.number(f64::NAN));
        // A number has the bits of the device's conversion, the result of an operation is canonical.
        let nan = self.neg(nan);
        self.choose(ordered, value, nan)
    }

    /// Computes the sign of a value, as [`sign`](super::sign).
    pub(crate) fn sign(&mut self, x: Symbol) -> Symbol {
        let ordered = self.compare(CompareKind::Eq, x, x);
        let zero = self.number(0.0);
        let rest = self.choose(ordered, zero, x);
        let (negative, minus) = (self.compare(CompareKind::Lt, x, zero), self.number(-1.0));
        let below = self.choose(negative, minus, rest);
        let (positive, one) = (self.compare(CompareKind::Gt, x, zero), self.number(1.0));
        self.choose(positive, one, below)
    }

    /// Returns the steps without those that the result does not need.
    fn used_for(&self, result: Symbol) -> Used {
        let mut is_used = vec![false; self.inputs + self.steps.len()];
        is_used[result.0] = true;
        for (i, step) in self.steps.iter().enumerate().rev() {
            if is_used[self.inputs + i] {
                step.arguments().for_each(|x| is_used[x] = true);
            }
        }
        let inputs: Vec<usize> = (0..self.inputs).filter(|&i| is_used[i]).collect();
        let mut places = vec![0; is_used.len()];
        inputs.iter().enumerate().for_each(|(place, &input)| places[input] = place);
        let mut steps = Steps { inputs: inputs.len(), steps: Vec::new() };
        for (i, step) in self.steps.iter().enumerate() {
            if is_used[self.inputs + i] {
                places[self.inputs + i] = steps.push(step.renumbered(|x| places[x])).0;
            }
        }
        Used { inputs, steps }
    }

    /// Returns true if the gradients of the functions of the steps are added up over broadcast
    /// dimensions at the inputs alone, and once for each: all other values have the shape of the result.
    fn sum_last(&self, inputs: &[&Tensor]) -> bool {
        let mut shapes: Vec<PerDim> = inputs.iter().map(|x| x.shape().into()).collect();
        let mut reads = vec![0; inputs.len() + self.steps.len()];
        for step in &self.steps {
            let mut shape = PerDim::new();
            for x in step.arguments() {
                reads[x] += 1;
                match broadcast(Formula::NAME, &shape, &shapes[x]) {
                    Ok(wider) => shape = wider,
                    Err(_) => return false,
                }
            }
            shapes.push(shape);
        }
        let (of_inputs, of_steps) = shapes.split_at(inputs.len());
        let Some(whole) = of_steps.last() else { return false };
        let is_number = |step: &Step| matches!(step, Step::Number(_));
        of_steps.iter().zip(&self.steps).all(|(shape, step)| shape == whole || is_number(step))
            && of_inputs.iter().zip(reads).all(|(shape, reads)| shape == whole || reads == 1)
    }

    /// Returns true if a step subtracts an input, or divides by it.
    fn negate(&self, input: usize) -> bool {
        let negates = |step: &Step| match *step {
            Step::Binary(BinaryKind::Sub | BinaryKind::Div, _, b) => b == input,
            _ => false,
        };
        self.steps.iter().any(negates)
    }

    /// Returns the steps of the gradient of an input, in the order of a backward pass through these
    /// steps, without the negation at their end if it is left to the caller; none if the input is only
    /// compared. The gradient of the result is one more input.
    fn gradient(&self, input: usize, without_negation: bool) -> Option<Used> {
        let inputs = self.inputs;
        let moved = |x: usize| if x < inputs { x } else { x + 1 };
        let steps = self.steps.iter().map(|step| step.renumbered(moved)).collect();
        let mut all = Steps { inputs: inputs + 1, steps };
        let count = inputs + self.steps.len();
        let mut depends = vec![false; count];
        depends[input] = true;
        for (i, step) in self.steps.iter().enumerate() {
            depends[inputs + i] = step.arguments().any(|x| depends[x]);
        }
        let mut grads = vec![None; count];
        grads[count - 1] = Some(Symbol(inputs));
        for (i, step) in self.steps.iter().enumerate().rev() {
            let Some(grad) = grads[inputs + i] else { continue };
            let value = Symbol(moved(inputs + i));
            for (x, part) in all.parts(step.renumbered(moved), value, grad) {
                let x = if x < inputs { x } else { x - 1 };
                if depends[x] {
                    grads[x] = Some(match grads[x] {
                        Some(found) => all.add(found, part),
                        None => part,
                    });
                }
            }
        }
        let mut result = grads[input]?;
        if without_negation
            && let Some(&Step::Unary(UnaryKind::Neg, x)) =
                result.0.checked_sub(all.inputs).and_then(|step| all.steps.get(step))
        {
            result = Symbol(x);
        }
        Some(all.used_for(result))
    }

    /// Writes what the arguments of a step get of the gradient of its value.
    fn parts(&mut self, step: Step, value: Symbol, grad: Symbol) -> Vec<(usize, Symbol)> {
        match step {
            Step::Number(_) | Step::Compare(..) => Vec::new(),
            Step::Unary(kind, x) => {
                let at = Symbol(x);
                let part = match kind {
                    UnaryKind::Neg => self.neg(grad),
                    UnaryKind::Abs => {
                        let sign = self.sign(at);
                        self.mul(grad, sign)
                    }
                    UnaryKind::Square => {
                        let twice = self.times(at, 2.0);
                        self.mul(grad, twice)
                    }
                    UnaryKind::Exp => self.mul(grad, value),
                    UnaryKind::Expm1 => {
                        let slope = self.exp(at);
                        self.mul(grad, slope)
                    }
                    UnaryKind::Sqrt => {
                        let twice = self.times(value, 2.0);
                        self.div(grad, twice)
                    }
                    UnaryKind::Log => self.div(grad, at),
                    UnaryKind::Log1p => {
                        let next = self.affine(at, 1.0, 1.0);
                        self.div(grad, next)
                    }
                    _ => unreachable!("`Steps` has no function that writes {kind:?}"),
                };
                vec![(x, part)]
            }
            Step::Affine { x, scale, .. } => vec![(x, self.times(grad, scale))],
            Step::Where { condition, a, b } => {
                let zero = self.number(0.0);
                let of_a = self.choose(Symbol(condition), grad, zero);
                let of_b = self.choose(Symbol(condition), zero, grad);
                vec![(a, of_a), (b, of_b)]
            }
            Step::Binary(kind, a, b) => {
                let (x, y) = (Symbol(a), Symbol(b));
                let (of_a, of_b) = match kind {
                    BinaryKind::Add => (grad, grad),
                    BinaryKind::Sub => (grad, self.neg(grad)),
                    BinaryKind::Mul | BinaryKind::Weigh => (self.mul(grad, y), self.mul(grad, x)),
                    BinaryKind::Div => {
                        let quotient = self.div(grad, y);
                        let product = self.mul(quotient, x);
                        let ratio = self.div(product, y);
                        (quotient, self.neg(ratio))
                    }
                    BinaryKind::Maximum | BinaryKind::Minimum => {
                        let loses = match kind {
                            BinaryKind::Maximum => CompareKind::Lt,
                            _ => CompareKind::Gt,
                        };
                        let (half, zero) = (self.times(grad, 0.5), self.number(0.0));
                        let equal = self.compare(CompareKind::Eq, x, y);
                        let shared = self.choose(equal, half, grad);
                        let mut share = |mine, other| {
                            let lost = self.compare(loses, mine, other);
                            self.choose(lost, zero, shared)
                        };
                        (share(x, y), share(y, x))
                    }
                    _ => unreachable!("`Steps` has no function that writes {kind:?}"),
                };
                vec![(a, of_a), (b, of_b)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use samebits_tensor_core::ops::Bowl;

    use super::*;

    #[test]
    fn the_gradient_of_a_bowl_is_known() {
        for slope in [1.0, 1.5] {
            let bowl = Bowl { bound: 1.5, scale: 0.25, shift: -0.5, slope };
            let mut steps = Steps { inputs: 2, steps: Vec::new() };
            steps.known(&bowl.steps());
            assert_eq!(Bowl::of_steps(&steps.steps), Some(bowl));
            let gradient = steps.gradient(0, false).unwrap().steps.steps;
            assert_eq!(gradient, bowl.gradient_steps());
            let found = Bowl::of_gradient_steps(&gradient);
            assert_eq!(found, Some(Bowl { shift: 0.0, ..bowl }));
        }
    }

    #[test]
    fn an_input_that_is_only_compared_has_no_gradient() {
        let [x, y] = [[1.0f32, 2.0], [3.0, 1.0]]
            .map(|x| Tensor::new(x).unwrap().set_requires_grad(true).unwrap());
        let larger = formula([&x, &y], |f, [x, y]| {
            let less = f.compare_to(CompareKind::Lt, x, 1.5);
            let doubled = f.times(y, 2.0);
            f.choose(less, doubled, y)
        });
        let gradients = larger.unwrap().sum_all().unwrap().backward().unwrap();
        assert!(gradients.of(&x).is_none());
        assert_eq!(gradients.of(&y).unwrap().to_vec::<f32>().unwrap(), [2.0, 1.0]);
    }
}

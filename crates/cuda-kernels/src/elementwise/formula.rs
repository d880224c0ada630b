//! Compositions of elementwise functions in one launch.

use std::marker::PhantomData;

use bytemuck::{Zeroable, bytes_of};
use samebits_tensor_core::ops::{BinaryKind, CompareKind, Step, UnaryKind, truth_values};

use crate::device::{Device, Float, expect_len};
use crate::error::{CudaError, Result};
use crate::launch::declared::formula::{
    Code, FORMULA_INPUTS, FORMULA_SLOTS, FORMULA_STEPS, RawFormula,
};
use crate::launch::kernels::formula as kernels;
use crate::launch::{Buffer, Launch, Table};

/// The threads of a block, each of which has slots for the values of the elements of one access.
const THREADS: u32 = 128;
const ACCESS_BYTES: usize = 16;
const OP: &str = "formula";

/// A formula of `n` elements: its steps, and its inputs, which have `n` elements, or one that serves all.
#[derive(Clone, Debug)]
pub struct Call<'a, T> {
    /// The steps, of which the last computes the result.
    pub steps: &'a [Step],
    /// The inputs.
    pub inputs: Vec<&'a Buffer<T>>,
    /// The number of elements.
    pub n: usize,
}

impl<T: Float> Call<'_, T> {
    /// Returns the parameter of the kernel but for the number of elements, or nothing if the steps are
    /// more than a kernel takes.
    fn program(&self) -> Result<Option<RawFormula>> {
        let Call { steps, ref inputs, n } = *self;
        truth_values(steps, inputs.len()).map_err(|message| CudaError::invalid(OP, message))?;
        let Some(mut p) = program(steps, inputs.len()) else { return Ok(None) };
        for (apart, input) in p.apart.iter_mut().zip(inputs) {
            if input.len() != 1 || n == 1 {
                expect_len(OP, "an input", input, n)?;
                *apart = 1;
            }
        }
        Ok(Some(p))
    }
}

/// Computes the last of `steps` for `n` elements; an input has `n` elements, or one that serves all.
/// Returns nothing if the steps are more than a kernel takes.
///
/// # Determinism
///
/// Portable: each step is rounded as the kernel of its name rounds it.
///
/// # Errors
///
/// [`CudaError::Length`]; [`CudaError::InvalidArgument`] if a step reads a value that is not computed
/// before, or of the wrong kind.
pub fn formula<T: Float>(
    device: &Device,
    steps: &[Step],
    inputs: &[&Buffer<T>],
    n: usize,
) -> Result<Option<Buffer<T>>> {
    let call = Call { steps, inputs: inputs.to_vec(), n };
    let program = call.program()?;
    program.map(|p| computed(device, &call.inputs, RawFormula { n, ..p })).transpose()
}

fn computed<T: Float>(device: &Device, inputs: &[&Buffer<T>], p: RawFormula) -> Result<Buffer<T>> {
    let n = p.n;
    let input = |i: usize| inputs.get(i).copied().unwrap_or(inputs[0]);
    let mut out = device.uninitialised(OP, n)?;
    let Ok(blocks) = u32::try_from(n.div_ceil(THREADS as usize * (ACCESS_BYTES / size_of::<T>())))
    else {
        let message = format!("{n} elements are more than one launch can cover");
        return Err(CudaError::invalid(OP, message));
    };
    let [in0, in1, in2, in3, in4] = [0, 1, 2, 3, 4].map(input);
    kernels::Formula { out: &mut out, in0, in1, in2, in3, in4, p }.grid(
        device,
        OP,
        (blocks, 1, 1),
        (THREADS, 1, 1),
    )?;
    Ok(out)
}

/// Computes several formulas as [`formula`] does each. Those with the same steps, whose inputs of one
/// element are the same, make one launch.
///
/// # Determinism
///
/// As [`formula`].
///
/// # Errors
///
/// As [`formula`].
pub fn formula_all<T: Float>(
    device: &Device,
    calls: &[Call<'_, T>],
) -> Result<Vec<Option<Buffer<T>>>> {
    let mut results: Vec<Option<Buffer<T>>> = calls.iter().map(|_| None).collect();
    // The programs, each with the places of its calls.
    let mut groups: Vec<(RawFormula, Vec<usize>)> = Vec::new();
    for (place, call) in calls.iter().enumerate() {
        let Some(p) = call.program()? else { continue };
        match groups.iter_mut().find(|(known, _)| bytes_of(known) == bytes_of(&p)) {
            Some((_, places)) => places.push(place),
            None => groups.push((p, vec![place])),
        }
    }
    for (p, places) in groups {
        if let [place] = places[..] {
            let Call { ref inputs, n, .. } = calls[place];
            results[place] = Some(computed(device, inputs, RawFormula { n, ..p })?);
            continue;
        }
        let mut table = Table::new(THREADS);
        for place in places {
            let Call { ref inputs, n, .. } = calls[place];
            let mut out = [device.uninitialised(OP, n)?];
            table.push(n, &mut out, inputs);
            results[place] = out.into_iter().next();
        }
        table.launch(device, OP, |rows, count, [grid, block]| {
            kernels::FormulaAll::<T> { rows, count, p, t: PhantomData }
                .grid(device, OP, grid, block)
        })?;
    }
    Ok(results)
}

/// Returns the steps as the kernel takes them, or nothing if they are too many, or hold too many values
/// at once.
fn program(steps: &[Step], inputs: usize) -> Option<RawFormula> {
    if !(1..=FORMULA_INPUTS).contains(&inputs) || steps.len() > FORMULA_STEPS {
        return None;
    }
    let mut p =
        RawFormula { inputs: inputs as u32, steps: steps.len() as u32, ..Zeroable::zeroed() };
    let mut last_use = vec![0; inputs + steps.len()];
    for (i, step) in steps.iter().enumerate() {
        step.arguments().for_each(|x| last_use[x] = i);
    }
    let mut slots: Vec<usize> = (0..inputs).collect();
    let mut free: Vec<usize> = (inputs..FORMULA_SLOTS).rev().collect();
    for (i, step) in steps.iter().enumerate() {
        let mut arguments = [0; 3];
        for (argument, x) in arguments.iter_mut().zip(step.arguments()) {
            *argument = slots[x] as u32;
        }
        [p.a[i], p.b[i], p.c[i]] = arguments;
        (p.code[i], p.x[i], p.y[i]) = match *step {
            Step::Number(x) => (Code::Number as u32, x, 0.0),
            Step::Affine { scale, shift, .. } => (Code::Affine as u32, scale, shift),
            Step::Unary(kind, _) => (of_unary(kind)? as u32, 0.0, 0.0),
            Step::Binary(kind, ..) => (of_binary(kind)? as u32, 0.0, 0.0),
            Step::Compare(kind, ..) => (of_compare(kind) as u32, 0.0, 0.0),
            Step::Where { .. } => (Code::Where as u32, 0.0, 0.0),
        };
        // A step reads before it writes, so its result may take the slot of an argument.
        let mut ended: Vec<usize> = step.arguments().filter(|&x| last_use[x] == i).collect();
        ended.sort_unstable();
        ended.dedup();
        free.extend(ended.into_iter().map(|x| slots[x]));
        let slot = free.pop()?;
        p.to[i] = slot as u32;
        slots.push(slot);
    }
    Some(p)
}

fn of_unary(kind: UnaryKind) -> Option<Code> {
    Some(match kind {
        UnaryKind::Neg => Code::Neg,
        UnaryKind::Abs => Code::Abs,
        UnaryKind::Exp => Code::Exp,
        UnaryKind::Exp2 => Code::Exp2,
        UnaryKind::Expm1 => Code::Expm1,
        UnaryKind::Log => Code::Log,
        UnaryKind::Log2 => Code::Log2,
        UnaryKind::Log10 => Code::Log10,
        UnaryKind::Log1p => Code::Log1p,
        UnaryKind::Sqrt => Code::Sqrt,
        UnaryKind::Rsqrt => Code::Rsqrt,
        UnaryKind::Sin => Code::Sin,
        UnaryKind::Cos => Code::Cos,
        UnaryKind::Tanh => Code::Tanh,
        UnaryKind::Sigmoid => Code::Sigmoid,
        UnaryKind::Erf => Code::Erf,
        UnaryKind::Relu => Code::Relu,
        UnaryKind::Reciprocal => Code::Reciprocal,
        UnaryKind::Square => Code::Square,
        _ => return None,
    })
}

fn of_binary(kind: BinaryKind) -> Option<Code> {
    Some(match kind {
        BinaryKind::Add => Code::Add,
        BinaryKind::Sub => Code::Sub,
        BinaryKind::Mul => Code::Mul,
        BinaryKind::Div => Code::Div,
        BinaryKind::Maximum => Code::Maximum,
        BinaryKind::Minimum => Code::Minimum,
        BinaryKind::Pow => Code::Pow,
        BinaryKind::Weigh => Code::Weigh,
        BinaryKind::ReluGrad => Code::ReluGrad,
        BinaryKind::TanhGrad => Code::TanhGrad,
        BinaryKind::SigmoidGrad => Code::SigmoidGrad,
        _ => return None,
    })
}

fn of_compare(kind: CompareKind) -> Code {
    match kind {
        CompareKind::Eq => Code::Eq,
        CompareKind::Ne => Code::Ne,
        CompareKind::Lt => Code::Lt,
        CompareKind::Le => Code::Le,
        CompareKind::Gt => Code::Gt,
        CompareKind::Ge => Code::Ge,
    }
}

/// Steps, written one after the other; each returns the number of its value.
pub(super) struct Steps(Vec<Step>, usize);

impl Steps {
    /// Begins with the values of `inputs` inputs.
    pub(super) fn of(inputs: usize) -> Steps {
        Steps(Vec::new(), inputs)
    }

    pub(super) fn step(&mut self, step: Step) -> usize {
        self.0.push(step);
        self.1 + self.0.len() - 1
    }

    pub(super) fn number(&mut self, x: f64) -> usize {
        self.step(Step::Number(x))
    }

    pub(super) fn unary(&mut self, kind: UnaryKind, x: usize) -> usize {
        self.step(Step::Unary(kind, x))
    }

    pub(super) fn both(&mut self, kind: BinaryKind, a: usize, b: usize) -> usize {
        self.step(Step::Binary(kind, a, b))
    }

    pub(super) fn affine(&mut self, x: usize, scale: f64, shift: f64) -> usize {
        self.step(Step::Affine { x, scale, shift })
    }

    /// Multiplies with `factor`; the added -0 changes no number.
    pub(super) fn times(&mut self, x: usize, factor: f64) -> usize {
        self.affine(x, factor, -0.0)
    }

    /// Limits `x` to `±bound`; NaN stays NaN.
    pub(super) fn within(&mut self, x: usize, bound: f64) -> usize {
        let [low, high] = [-bound, bound].map(|bound| self.number(bound));
        let above = self.both(BinaryKind::Maximum, x, low);
        self.both(BinaryKind::Minimum, above, high)
    }

    /// Computes `x` where the comparison of `a` with `b` holds, else `y`.
    pub(super) fn choose(
        &mut self,
        [a, b]: [usize; 2],
        kind: CompareKind,
        x: usize,
        y: usize,
    ) -> usize {
        let condition = self.step(Step::Compare(kind, a, b));
        self.step(Step::Where { condition, a: x, b: y })
    }

    /// Computes the last step for each element of inputs of one length.
    pub(super) fn run<T: Float>(self, device: &Device, inputs: &[&Buffer<T>]) -> Result<Buffer<T>> {
        let n = inputs[0].len();
        for input in inputs {
            expect_len(OP, "an input", input, n)?;
        }
        let out = formula(device, &self.0, inputs, n)?;
        out.ok_or_else(|| CudaError::invalid(OP, "more steps than a kernel takes"))
    }
}

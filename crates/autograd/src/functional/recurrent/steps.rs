//! A [`Direction`], forward and backward through time: a single operation if the device
//! has it, else a loop over steps.

use samebits_tensor_core::ops::{
    Binary, BinaryKind, Cat, GruCell, GruCellGrad, LstmCell, LstmCellGrad, Matmul, RecurrentLayer,
    RecurrentLayerGrad, Reduce, ReduceKind, Unary, UnaryKind,
};
use samebits_tensor_core::{Result, Tensor as Value, registry};

use super::composed;
use super::direction::{Direction, Kind, States, name};
use crate::functional::shape::{narrow, reshape};
use crate::functional::twice_differentiable;
use crate::{Tensor, is_recording, run};

/// Values that the forward pass saves for the gradient.
enum Kept {
    /// The result, and the values that the operation returned beside it.
    Layer(Value, Vec<Value>),
    Steps(Vec<Step>),
}

/// Values that a step saves for its gradient.
struct Step {
    /// The hidden state before the step.
    before: Value,
    /// The hidden state after the step, before projection.
    after: Value,
    /// The cells before and after the step.
    cells: Option<[Value; 2]>,
    /// The activations of gated cells.
    activations: Option<Value>,
}

impl Direction {
    /// Returns the outputs of all steps, and the last hidden and cell states.
    pub(super) fn run(self) -> Result<(Tensor, States)> {
        let inputs = self.inputs();
        let keep = is_recording() && inputs.iter().any(Tensor::requires_grad);
        let layer = self.layer(keep);
        let (value, kept) = if registry::is_available(&layer) {
            let (value, kept) = run(&layer)?;
            (value.clone(), Kept::Layer(value, kept))
        } else {
            let (value, steps) = self.forward(keep)?;
            (value, Kept::Steps(steps))
        };
        let rows = self.gates.shape()[0];
        let (hidden, cell) =
            (self.h0.shape().to_vec(), self.c0.as_ref().map(|c| c.shape().to_vec()));
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let op = name(self.kind);
        // The result is one flat tensor: a step of the graph has one result.
        let flat = Tensor::computed(value, &inputs, move |grad| {
            let grads = match &kept {
                Kept::Layer(result, kept) => self.layer_backward(grad.value(), result, kept)?,
                Kept::Steps(steps) => self.backward(grad.value(), steps)?,
            };
            if !is_recording() {
                return Ok(grads.into_iter().map(|grad| Some(Tensor::from(grad))).collect());
            }
            // The gradients are one flat tensor: they are differentiated together.
            let shapes: Vec<Vec<usize>> = grads.iter().map(|x| x.shape().to_vec()).collect();
            let flat = grads.into_iter().map(|x| x.reshape(&[x.numel()]));
            let flat = cat(flat.collect::<Result<_>>()?)?;
            let inputs = self.inputs();
            let all: Vec<&Tensor> = std::iter::once(grad).chain(&inputs).collect();
            let again = self.clone();
            let flat = twice_differentiable(op, flat, &all, move |inputs| {
                composed::gradients(&again.with_inputs(&inputs[1..]), &inputs[0])
            });
            let mut start = 0;
            let part = |shape: Vec<usize>| {
                let size = shape.iter().product();
                start += size;
                reshape(&narrow(&flat, 0, start - size, size)?, &shape).map(Some)
            };
            shapes.into_iter().map(part).collect()
        });
        let (n, width) = (hidden[0], hidden[1]);
        let part = |start: usize, shape: &[usize]| {
            reshape(&narrow(&flat, 0, start, shape.iter().product())?, shape)
        };
        let output = part(0, &[rows, width])?;
        let h_n = part(rows * width, &[n, width])?;
        let c_n = match cell {
            Some(shape) => part((rows + n) * width, &shape)?,
            None => h_n.clone(),
        };
        Ok((output, [h_n, c_n]))
    }

    fn layer(&self, keep: bool) -> RecurrentLayer {
        let value = |x: &Option<Tensor>| x.as_ref().map(|x| x.value().clone());
        RecurrentLayer {
            cell: self.kind,
            reverse: self.reverse,
            batch_sizes: self.batch_sizes.clone(),
            gates: self.gates.value().clone(),
            weight_hh: self.weight_hh.value().clone(),
            bias_x: value(&self.bias_x),
            bias_h: value(&self.bias_h),
            weight_hr: value(&self.weight_hr),
            hidden: self.h0.value().clone(),
            cells: value(&self.c0),
            keep,
        }
    }

    /// Computes [`backward`](Self::backward) from the values saved by the single operation.
    fn layer_backward(&self, grad: &Value, result: &Value, kept: &[Value]) -> Result<Vec<Value>> {
        let rows = self.gates.shape()[0];
        let width = self.h0.shape()[1];
        let output = result.narrow(0, 0, rows * width)?.reshape(&[rows, width])?;
        let grads = run(&RecurrentLayerGrad {
            layer: self.layer(true),
            grad: grad.clone(),
            result: result.clone(),
            kept: kept.to_vec(),
        })?;
        let mut grads = grads.into_iter();
        let mut next = || grads.next().expect("the operation says how many it returns");
        let (gates_x, h0) = (next(), next());
        let c0 = self.c0.as_ref().map(|_| next());
        let gates_h = if self.kind == Kind::Gru { next() } else { gates_x.clone() };
        let projected = self.weight_hr.as_ref().map(|_| [next(), kept[2].clone()]);
        let before = self.states_before(&output)?;
        self.collect(Sums { gates_x, gates_h, before, projected, h0, c0 })
    }

    /// Returns the hidden states before each step, `[rows, state]`.
    fn states_before(&self, output: &Value) -> Result<Value> {
        let order = self.order(false);
        let first = self.h0.value();
        let mut pieces = Vec::new();
        for (step, place) in order.iter().enumerate() {
            let earlier = if self.reverse { order.get(step + 1) } else { order[..step].last() };
            let had = earlier.map_or(0, |earlier| earlier.count.min(place.count));
            if let (Some(earlier), true) = (earlier, had > 0) {
                pieces.push(output.narrow(0, earlier.row, had)?);
            }
            if had < place.count {
                pieces.push(first.narrow(0, had, place.count - had)?);
            }
        }
        if pieces.is_empty() {
            return output.narrow(0, 0, 0);
        }
        cat(pieces)
    }

    /// Returns outputs, last hidden and last cell states in one flat tensor, and the values that
    /// the gradient needs, in the order of the steps.
    fn forward(&self, keep: bool) -> Result<(Value, Vec<Step>)> {
        let gates = self.gates.value().contiguous()?;
        let weight_hh = self.weight_hh.value().transpose(0, 1)?.contiguous()?;
        let weight_hr = match &self.weight_hr {
            Some(weight) => Some(weight.value().transpose(0, 1)?.contiguous()?),
            None => None,
        };
        let order = self.order(self.reverse);
        let first = order.first().map_or(0, |step| step.count);
        let mut hidden = Rows::new(self.h0.value(), first)?;
        let mut cell = self.c0.as_ref().map(|c0| Rows::new(c0.value(), first)).transpose()?;
        let mut outputs = Vec::new();
        let mut steps = Vec::new();
        for place in &order {
            hidden.resize(place.count)?;
            if let Some(cell) = &mut cell {
                cell.resize(place.count)?;
            }
            let gates_x = gates.narrow(0, place.row, place.count)?;
            let before = hidden.current.clone();
            let gates_h = run(&Matmul { a: before.clone(), b: weight_hh.clone() })?;
            let mut step = self.cell(gates_x, gates_h, before, cell.as_ref())?;
            hidden.current = match &weight_hr {
                Some(weight) => run(&Matmul { a: step.after.clone(), b: weight.clone() })?,
                None => step.after.clone(),
            };
            if let (Some(cell), Some([_, after])) = (&mut cell, &step.cells) {
                cell.current = after.clone();
            }
            outputs.push(hidden.current.clone());
            if keep {
                if matches!(self.kind, Kind::Gru)
                    || (self.kind == Kind::Lstm && weight_hr.is_none())
                {
                    // Only the gradients of a projection and of plain cells read it.
                    step.after = step.before.clone();
                }
                steps.push(step);
            }
        }
        if self.reverse {
            outputs.reverse();
            steps.reverse();
        }
        outputs.push(hidden.finish()?);
        if let Some(cell) = cell {
            outputs.push(cell.finish()?);
        }
        let flat =
            outputs.into_iter().map(|x| x.reshape(&[x.numel()])).collect::<Result<Vec<Value>>>()?;
        Ok((run(&Cat { inputs: flat, dim: 0 })?, steps))
    }

    fn cell(
        &self,
        gates_x: Value,
        gates_h: Value,
        before: Value,
        cell: Option<&Rows>,
    ) -> Result<Step> {
        let value = |x: &Option<Tensor>| x.as_ref().map(|x| x.value().clone());
        match (self.kind, cell) {
            (Kind::Gru, _) => {
                let (after, activations) = run(&GruCell {
                    gates_x,
                    gates_h,
                    bias_x: value(&self.bias_x),
                    bias_h: value(&self.bias_h),
                    hidden: before.clone(),
                })?;
                Ok(Step { before, after, cells: None, activations: Some(activations) })
            }
            (Kind::Lstm, Some(cell)) => {
                let old = cell.current.clone();
                let (after, new, activations) = run(&LstmCell {
                    gates_x,
                    gates_h,
                    bias: value(&self.bias_x),
                    cell: old.clone(),
                })?;
                let cells = Some([old, new]);
                Ok(Step { before, after, cells, activations: Some(activations) })
            }
            _ => {
                let sum = run(&Binary { kind: BinaryKind::Add, a: gates_x, b: gates_h })?;
                let kind = if self.kind == Kind::Relu { UnaryKind::Relu } else { UnaryKind::Tanh };
                let after = run(&Unary { kind, x: sum })?;
                Ok(Step { before, after, cells: None, activations: None })
            }
        }
    }

    /// Returns the gradients of gates, recurrent weights and initial hidden state, then those of
    /// the biases, the projection and the initial cell, if present.
    fn backward(&self, grad: &Value, steps: &[Step]) -> Result<Vec<Value>> {
        let rows = self.gates.shape()[0];
        let (n, width) = (self.h0.shape()[0], self.h0.shape()[1]);
        let part = |start: usize, shape: &[usize]| {
            grad.narrow(0, start, shape.iter().product())?.reshape(shape)
        };
        let grad_output = part(0, &[rows, width])?;
        let order = self.order(!self.reverse);
        let first = order.first().map_or(0, |step| step.count);
        let mut hidden = Rows::new(&part(rows * width, &[n, width])?, first)?;
        let mut cell = match &self.c0 {
            Some(c0) => Some(Rows::new(&part((rows + n) * width, c0.shape())?, first)?),
            None => None,
        };
        let weight_hh = self.weight_hh.value().contiguous()?;
        let mut all = Pieces::default();
        for place in &order {
            hidden.resize(place.count)?;
            if let Some(cell) = &mut cell {
                cell.resize(place.count)?;
            }
            let step = &steps[place.step];
            let output = grad_output.narrow(0, place.row, place.count)?;
            let incoming = add(&hidden.current, &output)?;
            let grad = match &self.weight_hr {
                Some(weight) => {
                    all.projected.push(incoming.clone());
                    all.unprojected.push(step.after.clone());
                    run(&Matmul { a: incoming, b: weight.value().contiguous()? })?
                }
                None => incoming,
            };
            let (gates_x, gates_h, direct) = self.cell_grad(grad, step, cell.as_mut())?;
            let through = run(&Matmul { a: gates_h.clone(), b: weight_hh.clone() })?;
            hidden.current = match direct {
                Some(direct) => add(&direct, &through)?,
                None => through,
            };
            all.before.push(step.before.clone());
            if self.kind == Kind::Gru {
                all.gates_h.push(gates_h);
            }
            all.gates_x.push(gates_x);
        }
        if !self.reverse {
            all.reverse();
        }
        let gates_x = cat(all.gates_x)?;
        let projected = match self.weight_hr {
            Some(_) => Some([cat(all.projected)?, cat(all.unprojected)?]),
            None => None,
        };
        self.collect(Sums {
            gates_h: if self.kind == Kind::Gru { cat(all.gates_h)? } else { gates_x.clone() },
            gates_x,
            before: cat(all.before)?,
            projected,
            h0: hidden.finish()?,
            c0: cell.map(Rows::finish).transpose()?,
        })
    }

    /// Returns the gradients of both sums of gates, and the part of the hidden state's gradient
    /// that does not pass through them.
    fn cell_grad(
        &self,
        grad: Value,
        step: &Step,
        cell: Option<&mut Rows>,
    ) -> Result<(Value, Value, Option<Value>)> {
        match (cell, &step.cells, &step.activations) {
            (Some(cell), Some([old, new]), Some(activations)) => {
                let (gates, before) = run(&LstmCellGrad {
                    grad_hidden: grad,
                    grad_cell: cell.current.clone(),
                    activations: activations.clone(),
                    cell: old.clone(),
                    next_cell: new.clone(),
                })?;
                cell.current = before;
                Ok((gates.clone(), gates, None))
            }
            (_, _, Some(activations)) => {
                let (x, h, direct) = run(&GruCellGrad {
                    grad,
                    activations: activations.clone(),
                    hidden: step.before.clone(),
                })?;
                Ok((x, h, Some(direct)))
            }
            _ => {
                let kind = match self.kind {
                    Kind::Relu => BinaryKind::ReluGrad,
                    _ => BinaryKind::TanhGrad,
                };
                let gates = run(&Binary { kind, a: grad, b: step.after.clone() })?;
                Ok((gates.clone(), gates, None))
            }
        }
    }

    /// Returns all gradients, in the order of [`backward`](Self::backward).
    fn collect(&self, sums: Sums) -> Result<Vec<Value>> {
        let weight_hh = wide_product(&sums.gates_h, &sums.before)?;
        let mut grads = vec![sums.gates_x.clone(), weight_hh, sums.h0];
        for (bias, gates) in [(&self.bias_x, &sums.gates_x), (&self.bias_h, &sums.gates_h)] {
            if let Some(bias) = bias {
                let op = Reduce { kind: ReduceKind::Sum, x: gates.clone(), dims: vec![0] };
                grads.push(run(&op)?.reshape(bias.shape())?);
            }
        }
        if let Some([projected, unprojected]) = &sums.projected {
            grads.push(wide_product(projected, unprojected)?);
        }
        grads.extend(sums.c0);
        Ok(grads)
    }
}

/// A state whose leading rows take part in a step.
struct Rows {
    /// The initial values of rows that join.
    full: Value,
    current: Value,
    /// Rows that have left; the last ones come first.
    left: Vec<Value>,
}

impl Rows {
    fn new(full: &Value, count: usize) -> Result<Rows> {
        let full = full.contiguous()?;
        Ok(Rows { current: full.narrow(0, 0, count)?, full, left: Vec::new() })
    }

    fn resize(&mut self, count: usize) -> Result<()> {
        let now = self.current.shape()[0];
        if count < now {
            self.left.push(self.current.narrow(0, count, now - count)?);
            self.current = self.current.narrow(0, 0, count)?;
        } else if count > now {
            let joining = self.full.narrow(0, now, count - now)?;
            self.current = cat(vec![self.current.clone(), joining])?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Value> {
        let mut parts = vec![self.current];
        parts.extend(self.left.into_iter().rev());
        cat(parts)
    }
}

/// Gradients and states of all rows, and the gradients of the initial states.
struct Sums {
    gates_x: Value,
    gates_h: Value,
    before: Value,
    /// The gradient of the projected states, and the states before projection.
    projected: Option<[Value; 2]>,
    h0: Value,
    c0: Option<Value>,
}

/// Gradients and states of single steps.
#[derive(Default)]
struct Pieces {
    gates_x: Vec<Value>,
    gates_h: Vec<Value>,
    before: Vec<Value>,
    projected: Vec<Value>,
    unprojected: Vec<Value>,
}

impl Pieces {
    fn reverse(&mut self) {
        self.gates_x.reverse();
        self.gates_h.reverse();
        self.before.reverse();
        self.projected.reverse();
        self.unprojected.reverse();
    }
}

fn add(a: &Value, b: &Value) -> Result<Value> {
    run(&Binary { kind: BinaryKind::Add, a: a.clone(), b: b.clone() })
}

/// Returns `aᵀ · b`.
fn wide_product(a: &Value, b: &Value) -> Result<Value> {
    run(&Matmul { a: a.transpose(0, 1)?, b: b.clone() })
}

fn cat(mut parts: Vec<Value>) -> Result<Value> {
    if parts.len() == 1 {
        return Ok(parts.remove(0));
    }
    run(&Cat { inputs: parts, dim: 0 })
}

//! One direction of a layer, composed of differentiable operations. The gradients of [`Direction`]
//! are differentiated through it.

use samebits_tensor_core::Result;

use super::direction::{Direction, Kind};
use crate::Tensor;
use crate::functional::elementwise::{add, mul, relu, sigmoid, sub, tanh};
use crate::functional::linear::linear;
use crate::functional::shape::{cat, narrow, reshape};
use crate::functional::zeros_for;

/// Returns the gradients of the inputs of `direction`, each flat, concatenated.
pub(super) fn gradients(direction: &Direction, grad: &Tensor) -> Result<Tensor> {
    let found = forward(direction)?.backward_from(grad.clone(), true)?;
    let flat = |input: &Tensor| match found.of(input) {
        Some(grad) => reshape(grad, [grad.numel()]),
        None => reshape(&zeros_for(input)()?, [input.numel()]),
    };
    cat(&direction.inputs().iter().map(flat).collect::<Result<Vec<Tensor>>>()?, 0)
}

/// Returns outputs, last hidden and last cell states, flat.
fn forward(direction: &Direction) -> Result<Tensor> {
    let order = direction.order(direction.reverse);
    let first = order.first().map_or(0, |place| place.count);
    let mut hidden = Rows::new(&direction.h0, first)?;
    let mut cell = direction.c0.as_ref().map(|c0| Rows::new(c0, first)).transpose()?;
    let mut outputs = Vec::new();
    for place in &order {
        hidden.resize(place.count)?;
        let x = narrow(&direction.gates, 0, place.row, place.count)?;
        let h = linear(&hidden.current, &direction.weight_hh, None)?;
        let after = match (direction.kind, &mut cell) {
            (Kind::Lstm, Some(cell)) => {
                cell.resize(place.count)?;
                let gates = add(&biased(&x, &direction.bias_x)?, &h)?;
                let [i, f, g, o] = [0, 1, 2, 3].map(|gate| part(&gates, gate, 4));
                let kept = mul(&sigmoid(&f?)?, &cell.current)?;
                cell.current = add(&kept, &mul(&sigmoid(&i?)?, &tanh(&g?)?)?)?;
                mul(&sigmoid(&o?)?, &tanh(&cell.current)?)?
            }
            (Kind::Gru, _) => {
                let (x, h) = (biased(&x, &direction.bias_x)?, biased(&h, &direction.bias_h)?);
                let [r, z] =
                    [0, 1].map(|gate| sigmoid(&add(&part(&x, gate, 3)?, &part(&h, gate, 3)?)?));
                let n = tanh(&add(&part(&x, 2, 3)?, &mul(&r?, &part(&h, 2, 3)?)?)?)?;
                add(&mul(&z?, &sub(&hidden.current, &n)?)?, &n)?
            }
            (Kind::Relu, _) => relu(&add(&x, &h)?)?,
            _ => tanh(&add(&x, &h)?)?,
        };
        hidden.current = match &direction.weight_hr {
            Some(weight) => linear(&after, weight, None)?,
            None => after,
        };
        outputs.push(hidden.current.clone());
    }
    if direction.reverse {
        outputs.reverse();
    }
    outputs.push(hidden.finish()?);
    if let Some(cell) = cell {
        outputs.push(cell.finish()?);
    }
    let flat = outputs.iter().map(|x| reshape(x, [x.numel()]));
    cat(&flat.collect::<Result<Vec<Tensor>>>()?, 0)
}

fn biased(gates: &Tensor, bias: &Option<Tensor>) -> Result<Tensor> {
    bias.as_ref().map_or_else(|| Ok(gates.clone()), |bias| add(gates, bias))
}

/// Returns one of the gates that lie side by side.
fn part(gates: &Tensor, gate: usize, gates_in_all: usize) -> Result<Tensor> {
    let width = gates.shape()[1] / gates_in_all;
    narrow(gates, 1, gate * width, width)
}

/// The state of the running sequences; sequences join or end between steps.
struct Rows {
    /// The initial values of rows that join.
    full: Tensor,
    current: Tensor,
    /// The rows of sequences that have ended; those that ended last come first.
    left: Vec<Tensor>,
}

impl Rows {
    fn new(full: &Tensor, count: usize) -> Result<Rows> {
        Ok(Rows { current: narrow(full, 0, 0, count)?, full: full.clone(), left: Vec::new() })
    }

    fn resize(&mut self, count: usize) -> Result<()> {
        let now = self.current.shape()[0];
        if count < now {
            self.left.push(narrow(&self.current, 0, count, now - count)?);
            self.current = narrow(&self.current, 0, 0, count)?;
        } else if count > now {
            let joining = narrow(&self.full, 0, now, count - now)?;
            self.current = cat(&[self.current.clone(), joining], 0)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Tensor> {
        let parts: Vec<Tensor> =
            [self.current].into_iter().chain(self.left.into_iter().rev()).collect();
        cat(&parts, 0)
    }
}

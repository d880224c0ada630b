//! The elementwise part of one step of recurrent networks.

use super::{expect_dtype, expect_float, expect_shape};
use crate::{Error, Op, Result, Tensor};

/// One step of a long short-term memory.
///
/// With the gates `a = (x + bias) + h` in the order i, f, g, o:
/// `c' = fma(σ(a_f), c, σ(a_i) · tanh(a_g))` and `hidden = σ(a_o) · tanh(c')`.
///
/// Returns the hidden state, the new cell and the four activations.
#[derive(Clone, Debug)]
pub struct LstmCell {
    /// `[n, 4 · size]`: the input times its weights.
    pub gates_x: Tensor,
    /// `[n, 4 · size]`: the hidden state times its weights.
    pub gates_h: Tensor,
    /// `[4 · size]`.
    pub bias: Option<Tensor>,
    /// `[n, size]`: the cell before.
    pub cell: Tensor,
}

impl Op for LstmCell {
    const NAME: &'static str = "lstm_cell";
    /// The number of rows, and of hidden units.
    type Plan = [usize; 2];
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![gates_x, gates_h, cell, bias];

    fn plan(&self) -> Result<[usize; 2]> {
        let ([n, size], width) = check_state(Self::NAME, "the cell", &self.cell, 4)?;
        let gates = [("the gates of the input", &self.gates_x), ("the gates", &self.gates_h)];
        check_gates(Self::NAME, &self.cell, width, &gates)?;
        check_bias(Self::NAME, &self.cell, width, &self.bias)?;
        Ok([n, size])
    }
}

/// The gradient of [`LstmCell`].
///
/// With `t = tanh(c')` and `d = fma(grad_hidden · o, 1 − t·t, grad_cell)`, the gradient of the
/// gates is `d·g · ((1−i)·i)`, `d·c · ((1−f)·f)`, `d·i · (1−g·g)`, `grad_hidden·t · ((1−o)·o)`,
/// and that of the cell before `d · f`; each operation is rounded.
///
/// Returns the gradients of the gates and of the cell before.
#[derive(Clone, Debug)]
pub struct LstmCellGrad {
    /// `[n, size]`
    pub grad_hidden: Tensor,
    /// `[n, size]`
    pub grad_cell: Tensor,
    /// `[n, 4 · size]`: the activations that the forward pass returned.
    pub activations: Tensor,
    /// `[n, size]`: the cell before.
    pub cell: Tensor,
    /// `[n, size]`: the cell after.
    pub next_cell: Tensor,
}

impl Op for LstmCellGrad {
    const NAME: &'static str = "lstm_cell";
    const PASS: crate::Pass = crate::Pass::Backward;
    /// The number of rows, and of hidden units.
    type Plan = [usize; 2];
    type Output = (Tensor, Tensor);

    crate::inputs![grad_hidden, grad_cell, activations, cell, next_cell];

    fn plan(&self) -> Result<[usize; 2]> {
        let ([n, size], width) = check_state(Self::NAME, "the cell", &self.cell, 4)?;
        check_gates(Self::NAME, &self.cell, width, &[("the activations", &self.activations)])?;
        let states = [
            ("the gradient of the hidden state", &self.grad_hidden),
            ("the gradient of the cell", &self.grad_cell),
            ("the cell after", &self.next_cell),
        ];
        check_gates(Self::NAME, &self.cell, size, &states)?;
        Ok([n, size])
    }
}

/// One step of a gated recurrent unit.
///
/// With `x + bias_x` and `h + bias_h` in the order r, z, n: `r = σ(x_r + h_r)`,
/// `z = σ(x_z + h_z)`, `n = tanh(fma(r, h_n, x_n))` and `hidden' = fma(z, hidden − n, n)`.
///
/// Returns the hidden state and `r`, `z`, `n` and `h_n`.
#[derive(Clone, Debug)]
pub struct GruCell {
    /// `[n, 3 · size]`: the input times its weights.
    pub gates_x: Tensor,
    /// `[n, 3 · size]`: the hidden state times its weights.
    pub gates_h: Tensor,
    /// `[3 · size]`.
    pub bias_x: Option<Tensor>,
    /// `[3 · size]`.
    pub bias_h: Option<Tensor>,
    /// `[n, size]`: the hidden state before.
    pub hidden: Tensor,
}

impl Op for GruCell {
    const NAME: &'static str = "gru_cell";
    /// The number of rows, and of hidden units.
    type Plan = [usize; 2];
    type Output = (Tensor, Tensor);

    crate::inputs![gates_x, gates_h, hidden, bias_x, bias_h];

    fn plan(&self) -> Result<[usize; 2]> {
        let ([n, size], width) = check_state(Self::NAME, "the hidden state", &self.hidden, 3)?;
        let gates = [("the gates of the input", &self.gates_x), ("the gates", &self.gates_h)];
        check_gates(Self::NAME, &self.hidden, width, &gates)?;
        check_bias(Self::NAME, &self.hidden, width, &self.bias_x)?;
        check_bias(Self::NAME, &self.hidden, width, &self.bias_h)?;
        Ok([n, size])
    }
}

/// The gradient of [`GruCell`].
///
/// With `d = grad · (1 − z) · (1 − n·n)`, from left to right, the gradient of the gates of the
/// input is `d·h_n · ((1−r)·r)`, `grad · (hidden − n) · ((1−z)·z)` and `d`; that of the gates of
/// the hidden state has `d · r` in the last place; that of the state before is `grad · z`; each
/// operation is rounded.
///
/// Returns the gradients of the gates of the input, of the gates of the hidden state, and of the
/// previous hidden state, without the part that comes through the gates.
#[derive(Clone, Debug)]
pub struct GruCellGrad {
    /// `[n, size]`
    pub grad: Tensor,
    /// `[n, 4 · size]`: the activations that the forward pass returned.
    pub activations: Tensor,
    /// `[n, size]`: the hidden state before.
    pub hidden: Tensor,
}

impl Op for GruCellGrad {
    const NAME: &'static str = "gru_cell";
    const PASS: crate::Pass = crate::Pass::Backward;
    /// The number of rows, and of hidden units.
    type Plan = [usize; 2];
    type Output = (Tensor, Tensor, Tensor);

    crate::inputs![grad, activations, hidden];

    fn plan(&self) -> Result<[usize; 2]> {
        let ([n, size], width) = check_state(Self::NAME, "the hidden state", &self.hidden, 4)?;
        check_gates(Self::NAME, &self.hidden, width, &[("the activations", &self.activations)])?;
        check_gates(Self::NAME, &self.hidden, size, &[("the gradient", &self.grad)])?;
        Ok([n, size])
    }
}

/// Checks a state; returns its shape and the width of its `gates` gates.
fn check_state(
    op: &'static str,
    what: &'static str,
    state: &Tensor,
    gates: usize,
) -> Result<([usize; 2], usize)> {
    expect_float(op, what, state)?;
    let [n, size] = *state.shape() else {
        return Err(Error::invalid(
            op,
            format!("expected {what} of shape [n, size], got {:?}", state.shape()),
        ));
    };
    let width = size.checked_mul(gates);
    let width = width.ok_or_else(|| Error::invalid(op, format!("{what} is too wide")))?;
    Ok(([n, size], width))
}

fn check_gates(
    op: &'static str,
    state: &Tensor,
    width: usize,
    gates: &[(&'static str, &Tensor)],
) -> Result<()> {
    for (what, gates) in gates {
        expect_dtype(op, what, gates, state.dtype())?;
        expect_shape(op, what, gates, &[state.shape()[0], width])?;
    }
    Ok(())
}

fn check_bias(op: &'static str, state: &Tensor, width: usize, bias: &Option<Tensor>) -> Result<()> {
    let Some(bias) = bias else { return Ok(()) };
    expect_dtype(op, "the bias", bias, state.dtype())?;
    expect_shape(op, "the bias", bias, &[width])
}

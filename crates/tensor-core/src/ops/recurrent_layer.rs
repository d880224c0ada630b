//! All steps of one direction of a recurrent layer.

use super::{expect_dtype, expect_float, expect_shape};
use crate::layout::numel;
use crate::registry::Inputs;
use crate::{Error, Op, Pass, Result, Tensor};

/// The computation of a step of a recurrent network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecurrentCell {
    /// `tanh(x + h)`
    Tanh,
    /// `max(x + h, 0)`
    Relu,
    /// [`GruCell`](super::GruCell)
    Gru,
    /// [`LstmCell`](super::LstmCell)
    Lstm,
}

impl RecurrentCell {
    /// Returns the number of gates.
    #[must_use]
    pub fn gates(self) -> usize {
        match self {
            RecurrentCell::Tanh | RecurrentCell::Relu => 1,
            RecurrentCell::Gru => 3,
            RecurrentCell::Lstm => 4,
        }
    }
}

/// All steps of one direction of a recurrent layer. Each step is a [`Matmul`](super::Matmul) of the
/// hidden state with `weight_hh`ᵀ and a cell; an LSTM with a projection adds a product with
/// `weight_hr`ᵀ.
///
/// Rows are packed: the rows of the sequences in step 0, then the rows in step 1, and so on.
///
/// Returns one flat tensor of the outputs `[rows, state]`, the last hidden states `[n, state]` and,
/// for an LSTM, the last cells `[n, size]`; then the tensors that [`RecurrentLayerGrad`] reads, of
/// which there are none unless `keep`.
#[derive(Clone, Debug)]
pub struct RecurrentLayer {
    /// The computation of a step.
    pub cell: RecurrentCell,
    /// True if the last step comes first.
    pub reverse: bool,
    /// The number of sequences in each step; these are the first ones, and the numbers never
    /// ascend.
    pub batch_sizes: Vec<usize>,
    /// `[rows, gates · size]`: the inputs times their weights.
    pub gates: Tensor,
    /// `[gates · size, state]`
    pub weight_hh: Tensor,
    /// `[gates · size]`, of gated cells.
    pub bias_x: Option<Tensor>,
    /// `[gates · size]`, of a GRU.
    pub bias_h: Option<Tensor>,
    /// `[state, size]`, of an LSTM; without it `state` is `size`.
    pub weight_hr: Option<Tensor>,
    /// `[n, state]`
    pub hidden: Tensor,
    /// `[n, size]`, of an LSTM.
    pub cells: Option<Tensor>,
    /// True if the results for the gradient are kept.
    pub keep: bool,
}

impl RecurrentLayer {
    /// Returns the number of hidden units.
    #[must_use]
    pub fn size(&self) -> usize {
        self.gates.shape().get(1).map_or(0, |width| width / self.cell.gates())
    }

    /// Returns the number of elements of the flat result; the operands must fit each other.
    fn flat(&self, rows: usize, n: usize, state: usize) -> Result<usize> {
        let cells = if self.cell == RecurrentCell::Lstm { self.size() } else { 0 };
        let states = rows.checked_add(n).and_then(|rows| rows.checked_mul(state));
        let flat = n.checked_mul(cells).and_then(|cells| states?.checked_add(cells));
        numel(Self::NAME, &[flat.unwrap_or(usize::MAX)])
    }
}

impl Op for RecurrentLayer {
    const NAME: &'static str = "recurrent_layer";
    type Plan = ();
    type Output = (Tensor, Vec<Tensor>);

    crate::inputs![gates, weight_hh, hidden, bias_x, bias_h, weight_hr, cells];
    crate::parameters![cell, reverse, batch_sizes, keep];

    fn plan(&self) -> Result<()> {
        let op = Self::NAME;
        expect_float(op, "the gates", &self.gates)?;
        let rows = self.check_batch_sizes()?;
        let gates = self.cell.gates();
        let width = match *self.gates.shape() {
            [found, width] if found == rows && width.is_multiple_of(gates) => width,
            ref shape => {
                return Err(Error::invalid(
                    op,
                    format!("expected gates of shape [{rows}, {gates} · size], got {shape:?}"),
                ));
            }
        };
        let size = width / gates;
        let state = match (&self.weight_hr, self.cell) {
            (Some(weight), RecurrentCell::Lstm) => weight.shape().first().copied().unwrap_or(0),
            (Some(_), cell) => {
                return Err(Error::invalid(op, format!("a projection of a {cell:?} cell")));
            }
            (None, _) => size,
        };
        let n = self.batch_sizes[0];
        let expect = |what, x: &Option<Tensor>, shape: &[usize]| {
            let Some(x) = x else { return Ok(()) };
            expect_dtype(op, what, x, self.gates.dtype())?;
            expect_shape(op, what, x, shape)
        };
        for (what, x, shape) in
            [("weight_hh", &self.weight_hh, [width, state]), ("hidden", &self.hidden, [n, state])]
        {
            expect_dtype(op, what, x, self.gates.dtype())?;
            expect_shape(op, what, x, &shape)?;
        }
        expect("weight_hr", &self.weight_hr, &[state, size])?;
        expect("bias_x", &self.bias_x, &[width])?;
        expect("bias_h", &self.bias_h, &[width])?;
        expect("the cells", &self.cells, &[n, size])?;
        if self.cells.is_some() != (self.cell == RecurrentCell::Lstm) {
            return Err(Error::invalid(op, format!("cells are for an LSTM, not {:?}", self.cell)));
        }
        self.flat(rows, n, state).map(|_| ())
    }
}

impl RecurrentLayer {
    /// Checks the batch sizes and returns the number of rows.
    fn check_batch_sizes(&self) -> Result<usize> {
        let sizes = &self.batch_sizes;
        if sizes.is_empty() || !sizes.is_sorted_by(|a, b| a >= b) {
            return Err(Error::invalid(
                Self::NAME,
                format!("expected batch sizes that never ascend, got {sizes:?}"),
            ));
        }
        sizes
            .iter()
            .try_fold(0usize, |sum, &count| sum.checked_add(count))
            .ok_or_else(|| Error::invalid(Self::NAME, "the number of rows overflows"))
    }
}

/// The gradient of [`RecurrentLayer`].
///
/// Returns the gradients of the gates `[rows, gates · size]`, of the hidden states `[n, state]`,
/// then of the cells `[n, size]` of an LSTM. A GRU adds the gradient of the gates before the
/// multiplication with `r`, `[rows, 3 · size]`; a projection adds that of the projected states
/// `[rows, state]`. The gradients of the weights are products of these.
#[derive(Clone, Debug)]
pub struct RecurrentLayerGrad {
    /// The layer, with `keep`.
    pub layer: RecurrentLayer,
    /// The gradient of the flat result.
    pub grad: Tensor,
    /// The flat result.
    pub result: Tensor,
    /// The other results of the forward pass.
    pub kept: Vec<Tensor>,
}

impl Inputs for RecurrentLayer {
    fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a Tensor)) {
        self.each_input(visit);
    }
}

impl Op for RecurrentLayerGrad {
    const NAME: &'static str = RecurrentLayer::NAME;
    const PASS: Pass = Pass::Backward;
    type Plan = ();
    type Output = Vec<Tensor>;

    crate::inputs![layer, grad, result, kept];
    crate::parameters![layer.cell, layer.reverse, layer.batch_sizes];

    fn plan(&self) -> Result<()> {
        self.layer.plan()?;
        let rows: usize = self.layer.batch_sizes.iter().sum();
        let (n, size) = (self.layer.batch_sizes[0], self.layer.size());
        let state = self.layer.hidden.shape()[1];
        let flat = self.layer.flat(rows, n, state)?;
        for (what, x) in [("the gradient", &self.grad), ("the result", &self.result)] {
            expect_dtype(Self::NAME, what, x, self.layer.gates.dtype())?;
            expect_shape(Self::NAME, what, x, &[flat])?;
        }
        let widths: &[usize] = match self.layer.cell {
            RecurrentCell::Tanh | RecurrentCell::Relu => &[],
            RecurrentCell::Gru => &[4 * size],
            RecurrentCell::Lstm if self.layer.weight_hr.is_none() => &[4 * size, size],
            RecurrentCell::Lstm => &[4 * size, size, size],
        };
        if self.kept.len() != widths.len() {
            let (want, got) = (widths.len(), self.kept.len());
            return Err(Error::invalid(
                Self::NAME,
                format!("expected {want} tensors of the forward pass, got {got}"),
            ));
        }
        for (x, &width) in self.kept.iter().zip(widths) {
            expect_dtype(Self::NAME, "what was kept", x, self.layer.gates.dtype())?;
            expect_shape(Self::NAME, "what was kept", x, &[rows, width])?;
        }
        Ok(())
    }
}

//! One direction of a layer, and the order of its steps.

pub(super) use samebits_tensor_core::ops::RecurrentCell as Kind;

use crate::Tensor;

/// The last hidden and cell states; without cells, the hidden state twice.
pub(super) type States = [Tensor; 2];

/// Returns PyTorch's name.
pub(super) fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Tanh => "rnn_tanh",
        Kind::Relu => "rnn_relu",
        Kind::Gru => "gru",
        Kind::Lstm => "lstm",
    }
}

/// A loop over packed rows. All shapes have been checked.
#[derive(Clone)]
pub(super) struct Direction {
    pub(super) kind: Kind,
    pub(super) reverse: bool,
    /// The number of sequences still running at each step; it never ascends.
    pub(super) batch_sizes: Vec<usize>,
    /// The inputs times their weights, `[rows, gates · hidden]`.
    pub(super) gates: Tensor,
    pub(super) weight_hh: Tensor,
    pub(super) bias_x: Option<Tensor>,
    pub(super) bias_h: Option<Tensor>,
    pub(super) weight_hr: Option<Tensor>,
    pub(super) h0: Tensor,
    pub(super) c0: Option<Tensor>,
}

impl Direction {
    /// Returns the tensors that the result depends on, in the order of the gradients.
    pub(super) fn inputs(&self) -> Vec<Tensor> {
        [Some(&self.gates), Some(&self.weight_hh), Some(&self.h0)]
            .into_iter()
            .chain([&self.bias_x, &self.bias_h, &self.weight_hr, &self.c0].map(Option::as_ref))
            .flatten()
            .cloned()
            .collect()
    }

    /// Returns this direction with other [`inputs`](Direction::inputs).
    pub(super) fn with_inputs(&self, inputs: &[Tensor]) -> Direction {
        let mut next = inputs.iter().cloned();
        let mut take = || next.next().expect("as many inputs as there were");
        let (gates, weight_hh, h0) = (take(), take(), take());
        let mut replaced = |old: &Option<Tensor>| old.as_ref().map(|_| take());
        Direction {
            gates,
            weight_hh,
            h0,
            bias_x: replaced(&self.bias_x),
            bias_h: replaced(&self.bias_h),
            weight_hr: replaced(&self.weight_hr),
            c0: replaced(&self.c0),
            kind: self.kind,
            reverse: self.reverse,
            batch_sizes: self.batch_sizes.clone(),
        }
    }

    /// Returns the steps with their rows, from first to last or reversed.
    pub(super) fn order(&self, reverse: bool) -> Vec<Place> {
        let mut row = 0;
        let mut places: Vec<Place> = self
            .batch_sizes
            .iter()
            .enumerate()
            .map(|(step, &count)| {
                let place = Place { step, row, count };
                row += count;
                place
            })
            .collect();
        if reverse {
            places.reverse();
        }
        places
    }
}

/// A step among the packed rows.
pub(super) struct Place {
    pub(super) step: usize,
    pub(super) row: usize,
    pub(super) count: usize,
}

use samebits::functional::{self as f, Stack, Weights};
use samebits::ops::{GruCell, GruCellGrad, LstmCell, LstmCellGrad};
use samebits::{Result, Tensor, dispatch};
use workspace_tests::normal_of;

use super::{Batches, Input, Make, plain};

/// A recurrent network of inputs, first states and weights.
type Network = fn(&[Tensor], &[Weights]) -> Result<Vec<Tensor>>;

pub(super) fn add(batches: &mut Batches, make: Make) {
    fn both() -> Stack<'static> {
        Stack { bidirectional: true, ..Stack::default() }
    }
    let networks: [(_, _, Network); _] = [
        ("rnn_tanh", 1, |x, weights| {
            let (y, h) = f::rnn_tanh(&x[0], &x[1], weights, both())?;
            Ok(vec![y, h])
        }),
        ("rnn_relu", 1, |x, weights| {
            let (y, h) = f::rnn_relu(&x[0], &x[1], weights, both())?;
            Ok(vec![y, h])
        }),
        ("gru", 3, |x, weights| {
            let (y, h) = f::gru(&x[0], &x[1], weights, both())?;
            Ok(vec![y, h])
        }),
        ("lstm", 4, |x, weights| {
            let (y, h, c) = f::lstm(&x[0], &x[1], &x[2], weights, both())?;
            Ok(vec![y, h, c])
        }),
    ];
    cells(batches, make);
    let (input, hidden) = (13, 21);
    for (name, gates, network) in networks {
        let normal = |shape: &[usize], seed| Tensor::from(normal_of(shape, make.0, seed));
        let weights: Vec<Weights> = (0..4)
            .map(|i| Weights {
                weight_ih: normal(&[gates * hidden, if i < 2 { input } else { 2 * hidden }], i),
                weight_hh: normal(&[gates * hidden, hidden], 10 + i),
                bias_ih: Some(normal(&[gates * hidden], 20 + i)),
                bias_hh: Some(normal(&[gates * hidden], 30 + i)),
                weight_hr: None,
            })
            .collect();
        let each = |shape: &[usize], seed| Input(normal_of(shape, make.0, seed), Some(1));
        let inputs =
            [each(&[7, 6, input], 90), each(&[4, 6, hidden], 91), each(&[4, 6, hidden], 92)];
        batches.add_part(make.name(name), inputs, 1, move |x, _| network(x, &weights));
    }
}

/// The elementwise part of a step.
fn cells(batches: &mut Batches, make: Make) {
    let size = 37;
    let each = |width: usize, seed| make.each(&[19, width * size], seed);
    let bias = normal_of(&[4 * size], make.0, 93);
    batches.add(make.name("lstm_cell"), [each(4, 94), each(4, 95), each(1, 96)], move |x| {
        let [gates_x, gates_h, cell] = [0, 1, 2].map(|i| x[i].value().clone());
        let op = LstmCell { gates_x, gates_h, bias: Some(bias.clone()), cell: cell.clone() };
        let (hidden, next_cell, activations) = dispatch(&op)?;
        let (gates, before) = dispatch(&LstmCellGrad {
            grad_hidden: hidden.clone(),
            grad_cell: cell.clone(),
            activations: activations.clone(),
            cell,
            next_cell: next_cell.clone(),
        })?;
        Ok([hidden, next_cell, activations, gates, before].map(plain).to_vec())
    });
    let bias = normal_of(&[3 * size], make.0, 97);
    batches.add(make.name("gru_cell"), [each(3, 98), each(3, 99), each(1, 100)], move |x| {
        let [gates_x, gates_h, hidden] = [0, 1, 2].map(|i| x[i].value().clone());
        let op = GruCell {
            gates_x,
            gates_h,
            bias_x: Some(bias.clone()),
            bias_h: None,
            hidden: hidden.clone(),
        };
        let (next, activations) = dispatch(&op)?;
        let (x, h, before) = dispatch(&GruCellGrad {
            grad: next.clone(),
            activations: activations.clone(),
            hidden,
        })?;
        Ok([next, activations, x, h, before].map(plain).to_vec())
    });
}

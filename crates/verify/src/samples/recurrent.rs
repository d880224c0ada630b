use samebits::functional::{self as f, Stack, Weights};
use samebits::ops::*;
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Generator, Result, Tensor, dispatch};

use super::sample::{Input, Samples, each, normal};
use super::{Cases, FLOATS, Make, Tensors};

pub(super) fn add(cases: &mut Cases, make: Make) {
    for dtype in FLOATS {
        cells(cases, make, dtype);
        for (name, gates, network) in networks() {
            cases.call(format!("{name} {dtype}"), move || {
                let arguments = arguments(make, dtype, gates);
                make.with_gradients(&arguments, network)
            });
        }
        for (name, cell, gates, projection) in [
            ("rnn_tanh", RecurrentCell::Tanh, 1, None),
            ("gru", RecurrentCell::Gru, 3, None),
            ("lstm", RecurrentCell::Lstm, 4, None),
            ("lstm projected", RecurrentCell::Lstm, 4, Some(261)),
        ] {
            cases.call(format!("{name} wide {dtype}"), move || {
                let x = wide_arguments(make, dtype, gates, projection);
                make.with_gradients(&x, |x| wide(cell, x))
            });
        }
    }
}

/// Returns input, first states and weights of a layer. Its products have several blocks of k and
/// are so large that threads do not share the sequences.
fn wide_arguments(make: Make, dtype: DType, gates: usize, projection: Option<usize>) -> Vec<Value> {
    let (input, hidden) = (5, 270);
    let state = projection.unwrap_or(hidden);
    let tensor = |shape: &[usize], scale: f64, seed| {
        let x = make.normal(shape, dtype, seed);
        make.here(dispatch(&Affine { x, scale, shift: 0.0 }).expect("floats"))
    };
    let mut all = vec![
        tensor(&[3, 3, input], 1.0, 110),
        tensor(&[1, 3, state], 1.0, 111),
        tensor(&[1, 3, hidden], 1.0, 112),
        tensor(&[gates * hidden, input], 0.2, 113),
        tensor(&[gates * hidden, state], 0.05, 114),
        tensor(&[gates * hidden], 0.1, 115),
    ];
    all.extend(projection.map(|state| tensor(&[state, hidden], 0.05, 116)));
    all
}

fn wide(cell: RecurrentCell, x: &[Tensor]) -> Result<Tensor> {
    let weights = [Weights {
        weight_ih: x[3].clone(),
        weight_hh: x[4].clone(),
        bias_ih: Some(x[5].clone()),
        bias_hh: None,
        weight_hr: x.get(6).cloned(),
    }];
    let stack = Stack::default();
    Ok(match cell {
        RecurrentCell::Gru => f::gru(&x[0], &x[1], &weights, stack)?.0,
        RecurrentCell::Lstm => f::lstm(&x[0], &x[1], &x[2], &weights, stack)?.0,
        RecurrentCell::Tanh | RecurrentCell::Relu => f::rnn_tanh(&x[0], &x[1], &weights, stack)?.0,
    })
}

fn cells(cases: &mut Cases, make: Make, dtype: DType) {
    let tensor = |width: usize, seed| make.wild(&[19, width * 37], dtype, seed);
    let bias = |width: usize, seed| Some(make.normal(&[width * 37], dtype, seed));
    let forward = LstmCell {
        gates_x: tensor(4, 60),
        gates_h: tensor(4, 61),
        bias: bias(4, 62),
        cell: tensor(1, 63),
    };
    let (_, next_cell, activations) = dispatch(&forward).expect("a valid case");
    let [next_cell, activations] = [next_cell, activations].map(|x| make.here(x));
    let backward = LstmCellGrad {
        grad_hidden: tensor(1, 64),
        grad_cell: tensor(1, 65),
        activations,
        cell: forward.cell.clone(),
        next_cell,
    };
    cases.add(format!("lstm_cell {dtype}"), forward);
    cases.add(format!("lstm_cell grad {dtype}"), backward);
    let forward = GruCell {
        gates_x: tensor(3, 66),
        gates_h: tensor(3, 67),
        bias_x: bias(3, 68),
        bias_h: bias(3, 69),
        hidden: tensor(1, 70),
    };
    let (_, activations) = dispatch(&forward).expect("a valid case");
    let activations = make.here(activations);
    let hidden = forward.hidden.clone();
    let backward = GruCellGrad { grad: tensor(1, 71), activations, hidden };
    cases.add(format!("gru_cell {dtype}"), forward);
    cases.add(format!("gru_cell grad {dtype}"), backward);
    // Enough rows to be shared between threads.
    let tensor = |width: usize, seed| make.normal(&[128, width * 64], dtype, seed);
    cases.add(
        format!("lstm_cell rows {dtype}"),
        LstmCell {
            gates_x: tensor(4, 60),
            gates_h: tensor(4, 61),
            bias: None,
            cell: tensor(1, 62),
        },
    );
    cases.add(
        format!("gru_cell rows {dtype}"),
        GruCell {
            gates_x: tensor(3, 63),
            gates_h: tensor(3, 64),
            bias_x: None,
            bias_h: None,
            hidden: tensor(1, 65),
        },
    );
    cases.add(
        format!("gru_cell grad rows {dtype}"),
        GruCellGrad { grad: tensor(1, 66), activations: tensor(4, 67), hidden: tensor(1, 68) },
    );
    for dim in [0, 1] {
        let inputs = vec![
            make.wild(&[19, 37], dtype, 72),
            make.wild(&[37, 19], dtype, 73).transpose(0, 1).expect("two dimensions"),
        ];
        cases.add(format!("cat {dtype} {dim}"), Cat { inputs, dim });
    }
}

/// Returns the input, first states and the weights of two layers in both directions.
fn arguments(make: Make, dtype: DType, gates: usize) -> Vec<Value> {
    let (input, hidden) = (13, 21);
    let mut all = vec![
        make.normal(&[7, 5, input], dtype, 80),
        make.normal(&[4, 5, hidden], dtype, 81),
        make.normal(&[4, 5, hidden], dtype, 82),
    ];
    for i in 0..4 {
        let input = if i < 2 { input } else { 2 * hidden };
        for shape in
            [vec![gates * hidden, input], vec![gates * hidden, hidden], vec![gates * hidden]]
        {
            all.push(make.normal(&shape, dtype, 90 + 3 * i + shape.len() as u64));
        }
    }
    all
}

/// A name, the number of gates and the function.
type Network = (&'static str, usize, fn(&[Tensor]) -> Result<Tensor>);

fn networks() -> Vec<Network> {
    fn weights(x: &[Tensor]) -> Vec<Weights> {
        x[3..]
            .chunks_exact(3)
            .map(|x| Weights {
                weight_ih: x[0].clone(),
                weight_hh: x[1].clone(),
                bias_ih: Some(x[2].clone()),
                bias_hh: Some(x[2].clone()),
                weight_hr: None,
            })
            .collect()
    }
    fn both(generator: &mut Generator) -> Stack<'_> {
        Stack { bidirectional: true, batch_first: false, dropout: Some((0.2, generator)) }
    }
    vec![
        ("rnn_tanh", 1, |x| {
            Ok(f::rnn_tanh(&x[0], &x[1], &weights(x), both(&mut Generator::new(1)))?.0)
        }),
        ("rnn_relu", 1, |x| {
            Ok(f::rnn_relu(&x[0], &x[1], &weights(x), both(&mut Generator::new(1)))?.0)
        }),
        ("gru", 3, |x| Ok(f::gru(&x[0], &x[1], &weights(x), both(&mut Generator::new(1)))?.0)),
        ("lstm", 4, |x| {
            Ok(f::lstm(&x[0], &x[1], &x[2], &weights(x), both(&mut Generator::new(1)))?.0)
        }),
        ("lstm packed", 4, |x| {
            let packed = f::pack_padded_sequence(&x[0], &[3, 7, 1, 3, 6], false, false)?;
            let mut generator = Generator::new(1);
            let stack = both(&mut generator);
            let (y, h, _) = f::lstm_packed(&packed, &x[1], &x[2], &weights(x), stack)?;
            f::cat(&[f::reshape(y.data(), [20 * 42])?, f::reshape(&h, [4 * 5 * 21])?], 0)
        }),
    ]
}

/// One or several layers: the number of gates, of biases for the projection, and the function of
/// input, hidden and cell state.
type Layers = fn(&[Tensor], &[Weights], Stack<'_>) -> Result<Vec<Tensor>>;

/// Groups consecutive weights: five per direction with a projection, else four.
fn weights_of(x: &[Tensor], projected: bool) -> Vec<Weights> {
    x.chunks_exact(if projected { 5 } else { 4 })
        .map(|x| Weights {
            weight_ih: x[0].clone(),
            weight_hh: x[1].clone(),
            bias_ih: Some(x[2].clone()),
            bias_hh: Some(x[3].clone()),
            weight_hr: x.get(4).cloned(),
        })
        .collect()
}

/// The sizes of a stack of layers.
#[derive(Clone, Copy)]
struct Sizes {
    input: usize,
    hidden: usize,
    projection: Option<usize>,
    layers: usize,
    directions: usize,
}

impl Sizes {
    /// Returns the input of `steps` and `n` sequences, both states, and the weights.
    fn inputs(self, gates: usize, steps: usize, n: usize) -> Vec<Input> {
        let Sizes { input, hidden, projection, layers, directions } = self;
        let state = projection.unwrap_or(hidden);
        let mut all = vec![
            normal(&[steps, n, input]).along(1),
            normal(&[layers * directions, n, state]).along(1),
            normal(&[layers * directions, n, hidden]).along(1),
        ];
        for layer in 0..layers {
            let input = if layer == 0 { input } else { state * directions };
            for _ in 0..directions {
                all.extend([&[gates * hidden, input][..], &[gates * hidden, state]].map(normal));
                all.extend([normal(&[gates * hidden]), normal(&[gates * hidden])]);
                all.extend(projection.map(|projection| normal(&[projection, hidden])));
            }
        }
        all
    }
}

pub(super) fn samples(samples: &mut Samples) {
    let networks: [(_, usize, bool, Layers); _] = [
        ("rnn_tanh", 1, false, |x, weights, stack| {
            Ok(f::rnn_tanh(&x[0], &x[1], weights, stack)?.tensors())
        }),
        ("rnn_relu", 1, false, |x, weights, stack| {
            Ok(f::rnn_relu(&x[0], &x[1], weights, stack)?.tensors())
        }),
        ("gru", 3, false, |x, weights, stack| Ok(f::gru(&x[0], &x[1], weights, stack)?.tensors())),
        ("lstm", 4, false, |x, weights, stack| {
            Ok(f::lstm(&x[0], &x[1], &x[2], weights, stack)?.tensors())
        }),
        ("lstm projected", 4, true, |x, weights, stack| {
            Ok(f::lstm(&x[0], &x[1], &x[2], weights, stack)?.tensors())
        }),
        ("lstm packed", 4, false, |x, weights, stack| {
            let packed = f::pack_padded_sequence(&x[0], &[2, x[0].shape()[0]], false, false)?;
            let (y, h, c) = f::lstm_packed(&packed, &x[1], &x[2], weights, stack)?;
            Ok(vec![f::pad_packed_sequence(&y, true, 0.5, Some(6))?.0, h, c])
        }),
        ("gru packed", 3, false, |x, weights, stack| {
            let packed = f::pack_padded_sequence(&x[0], &[2, x[0].shape()[0]], false, false)?;
            let (y, h) = f::gru_packed(&packed, &x[1], weights, stack)?;
            Ok(vec![y.data().clone(), h])
        }),
    ];
    for (name, gates, projected, layers) in networks {
        let large = Sizes { input: 13, hidden: 21, projection: None, layers: 2, directions: 2 };
        let small = Sizes {
            input: 2,
            hidden: 2,
            projection: projected.then_some(1),
            layers: 1,
            directions: 2,
        };
        let sample = samples
            .add(name, move |x| {
                let stack = Stack { bidirectional: true, ..Stack::default() };
                layers(&x[..3], &weights_of(&x[3..], projected), stack)
            })
            .twice(small.inputs(gates, 3, 2));
        // The lengths of packed sequences belong to one batch.
        if !projected && !name.ends_with("packed") {
            sample.batch_along(1, large.inputs(gates, 7, 6));
        }
        for bidirectional in [false, true] {
            let directions = if bidirectional { 2 } else { 1 };
            let projection = projected.then_some(2);
            let sizes = Sizes { input: 3, hidden: 4, projection, layers: 2, directions };
            samples
                .add(format!("{name}, two layers, bidirectional {bidirectional}"), move |x| {
                    let mut generator = Generator::new(8);
                    let dropout = Some((0.3, &mut generator));
                    let stack = Stack { bidirectional, batch_first: false, dropout };
                    layers(&x[..3], &weights_of(&x[3..], projected), stack)
                })
                .once("slow twice, which one layer is", sizes.inputs(gates, 5, 2));
        }
    }
    let (size, state) = (37, || each(&[19, 37]));
    let (gates, bias) =
        (move |n: usize| each(&[19, n * size]), move |n: usize| normal(&[n * size]));
    samples
        .add("lstm_cell", |x| {
            let [gates_x, gates_h, cell, bias] = [0, 1, 2, 3].map(|i| x[i].value().clone());
            let op = LstmCell { gates_x, gates_h, bias: Some(bias), cell: cell.clone() };
            let (hidden, next_cell, activations) = dispatch(&op)?;
            let (gates, before) = dispatch(&LstmCellGrad {
                grad_hidden: hidden.clone(),
                grad_cell: cell.clone(),
                activations: activations.clone(),
                cell,
                next_cell: next_cell.clone(),
            })?;
            Ok([hidden, next_cell, activations, gates, before].map(Tensor::from).to_vec())
        })
        .batch([gates(4), gates(4), state(), bias(4)]);
    samples
        .add("gru_cell", |x| {
            let [gates_x, gates_h, hidden, bias] = [0, 1, 2, 3].map(|i| x[i].value().clone());
            let op = GruCell {
                gates_x,
                gates_h,
                bias_x: Some(bias),
                bias_h: None,
                hidden: hidden.clone(),
            };
            let (next, activations) = dispatch(&op)?;
            let (x, h, before) = dispatch(&GruCellGrad {
                grad: next.clone(),
                activations: activations.clone(),
                hidden,
            })?;
            Ok([next, activations, x, h, before].map(Tensor::from).to_vec())
        })
        .batch([gates(3), gates(3), state(), bias(3)]);
}

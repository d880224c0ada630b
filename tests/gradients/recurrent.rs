use super::normal_of;
use samebits::functional::{self as f, Stack, Weights};
use samebits::{DType, Generator, Result, Tensor};

use super::{check, check_twice};

/// Shapes of the weights of two layers, one after the other, for `check`.
fn shapes(gates: usize, directions: usize, projection: Option<usize>) -> Vec<Vec<usize>> {
    let (input, hidden) = (3, 4);
    let state = projection.unwrap_or(hidden);
    let mut shapes = Vec::new();
    for layer in 0..2 {
        for _ in 0..directions {
            let input = if layer == 0 { input } else { state * directions };
            shapes.extend([vec![gates * hidden, input], vec![gates * hidden, state]]);
            shapes.extend([vec![gates * hidden], vec![gates * hidden]]);
            shapes.extend(projection.map(|projection| vec![projection, hidden]));
        }
    }
    shapes
}

fn weights(x: &[Tensor], projection: bool) -> Vec<Weights> {
    x.chunks_exact(if projection { 5 } else { 4 })
        .map(|x| Weights {
            weight_ih: x[0].clone(),
            weight_hh: x[1].clone(),
            bias_ih: Some(x[2].clone()),
            bias_hh: Some(x[3].clone()),
            weight_hr: x.get(4).cloned(),
        })
        .collect()
}

/// All results in one.
fn joined(results: &[Tensor]) -> Result<Tensor> {
    let flat: Result<Vec<Tensor>> = results.iter().map(|x| f::reshape(x, [x.numel()])).collect();
    f::cat(&flat?, 0)
}

/// A recurrent network of inputs, weights and the shape of its stack.
type Network<'a> = dyn Fn(&[Tensor], Vec<Weights>, Stack<'_>) -> Result<Vec<Tensor>> + 'a;

#[track_caller]
fn check_layers(name: &str, gates: usize, projection: Option<usize>, run: &Network<'_>) {
    for bidirectional in [false, true] {
        let directions = if bidirectional { 2 } else { 1 };
        let state = vec![2 * directions, 2, projection.unwrap_or(4)];
        let mut all = vec![vec![5, 2, 3], state, vec![2 * directions, 2, 4]];
        all.extend(shapes(gates, directions, projection));
        let all: Vec<&[usize]> = all.iter().map(Vec::as_slice).collect();
        check(name, &all, &|x| {
            let mut generator = Generator::new(8);
            let dropout = Some((0.3, &mut generator));
            let stack = Stack { bidirectional, batch_first: false, dropout };
            joined(&run(&x[..3], weights(&x[3..], projection.is_some()), stack)?)
        });
    }
}

#[track_caller]
fn check_direction_twice(name: &str, gates: usize, projection: Option<usize>, run: &Network<'_>) {
    let (hidden, directions) = (2, 2);
    let state = projection.unwrap_or(hidden);
    let mut all = vec![vec![3, 2, 2], vec![directions, 2, state], vec![directions, 2, hidden]];
    for _ in 0..directions {
        all.extend([vec![gates * hidden, 2], vec![gates * hidden, state]]);
        all.extend([vec![gates * hidden], vec![gates * hidden]]);
        all.extend(projection.map(|projection| vec![projection, hidden]));
    }
    let all: Vec<&[usize]> = all.iter().map(Vec::as_slice).collect();
    check_twice(name, &all, &|x| {
        let stack = Stack { bidirectional: true, ..Stack::default() };
        joined(&run(&x[..3], weights(&x[3..], projection.is_some()), stack)?)
    });
}

#[test]
fn recurrent_twice() {
    check_direction_twice("rnn_tanh", 1, None, &|x, weights, stack| {
        let (y, h) = f::rnn_tanh(&x[0], &x[1], &weights, stack)?;
        Ok(vec![y, h])
    });
    check_direction_twice("rnn_relu", 1, None, &|x, weights, stack| {
        let (y, h) = f::rnn_relu(&x[0], &x[1], &weights, stack)?;
        Ok(vec![y, h])
    });
    check_direction_twice("gru", 3, None, &|x, weights, stack| {
        let (y, h) = f::gru(&x[0], &x[1], &weights, stack)?;
        Ok(vec![y, h])
    });
    for projection in [None, Some(1)] {
        check_direction_twice("lstm", 4, projection, &|x, weights, stack| {
            let (y, h, c) = f::lstm(&x[0], &x[1], &x[2], &weights, stack)?;
            Ok(vec![y, h, c])
        });
    }
    check_direction_twice("packed lstm", 4, None, &|x, weights, stack| {
        let packed = f::pack_padded_sequence(&x[0], &[1, 3], false, false)?;
        let (y, h, c) = f::lstm_packed(&packed, &x[1], &x[2], &weights, stack)?;
        Ok(vec![y.data().clone(), h, c])
    });
}

#[test]
fn recurrent() {
    check_layers("rnn_tanh", 1, None, &|x, weights, stack| {
        let (y, h) = f::rnn_tanh(&x[0], &x[1], &weights, stack)?;
        Ok(vec![y, h])
    });
    check_layers("rnn_relu", 1, None, &|x, weights, stack| {
        let (y, h) = f::rnn_relu(&x[0], &x[1], &weights, stack)?;
        Ok(vec![y, h])
    });
    check_layers("gru", 3, None, &|x, weights, stack| {
        let (y, h) = f::gru(&x[0], &x[1], &weights, stack)?;
        Ok(vec![y, h])
    });
    for projection in [None, Some(2)] {
        check_layers("lstm", 4, projection, &|x, weights, stack| {
            let (y, h, c) = f::lstm(&x[0], &x[1], &x[2], &weights, stack)?;
            Ok(vec![y, h, c])
        });
    }
}

#[test]
fn packed_sequences() {
    let lengths = [2, 5];
    check_layers("packed lstm", 4, None, &|x, weights, stack| {
        let packed = f::pack_padded_sequence(&x[0], &lengths, false, false)?;
        let (y, h, c) = f::lstm_packed(&packed, &x[1], &x[2], &weights, stack)?;
        Ok(vec![f::pad_packed_sequence(&y, true, 0.5, Some(6))?.0, h, c])
    });
    check_layers("packed gru", 3, None, &|x, weights, stack| {
        let packed = f::pack_padded_sequence(&x[0], &lengths, false, false)?;
        let (y, h) = f::gru_packed(&packed, &x[1], &weights, stack)?;
        Ok(vec![y.data().clone(), h])
    });
}

/// A sequence has the bits that it has alone, whatever it is packed or batched with.
#[test]
fn a_sequence_does_not_feel_its_neighbours() {
    let normal = |shape: &[usize], seed| normal_of(shape, DType::F32, seed);
    let hidden = 33;
    let weights: Vec<Weights> = (0..4)
        .map(|i| Weights {
            weight_ih: normal(&[4 * hidden, if i < 2 { 7 } else { 2 * hidden }], i),
            weight_hh: normal(&[4 * hidden, hidden], 10 + i),
            bias_ih: Some(normal(&[4 * hidden], 20 + i)),
            bias_hh: None,
            weight_hr: None,
        })
        .collect();
    let lengths = [3, 1, 9, 3, 6];
    let input = normal(&[9, 5, 7], 30);
    let states = [normal(&[4, 5, hidden], 31), normal(&[4, 5, hidden], 32)];
    let both = || Stack { bidirectional: true, ..Stack::default() };
    let packed = f::pack_padded_sequence(&input, &lengths, false, false).unwrap();
    let (y, h, c) = f::lstm_packed(&packed, &states[0], &states[1], &weights, both()).unwrap();
    let (y, _) = f::pad_packed_sequence(&y, false, 0.0, None).unwrap();
    for (i, &length) in lengths.iter().enumerate() {
        let one = |x: &Tensor, dim| Tensor::from(x.value().narrow(dim, i, 1).unwrap());
        let alone = Tensor::from(one(&input, 1).value().narrow(0, 0, length).unwrap());
        let (h0, c0) = (one(&states[0], 1), one(&states[1], 1));
        let (y_alone, h_alone, c_alone) = f::lstm(&alone, &h0, &c0, &weights, both()).unwrap();
        let y = one(&y, 1).value().narrow(0, 0, length).unwrap();
        assert_eq!(y.to_bytes(), y_alone.to_bytes(), "output of sequence {i}");
        assert_eq!(one(&h, 1).to_bytes(), h_alone.to_bytes(), "state {i}");
        assert_eq!(one(&c, 1).to_bytes(), c_alone.to_bytes(), "cell {i}");
    }
}

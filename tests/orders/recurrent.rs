use samebits::functional::{self as f, Stack, Weights};
use samebits::{DType, Tensor};

use super::{chain, constant, ones, pairs, probe, remains, values};

const BLOCK: usize = 256;

/// A step of a network: the hidden state, or the cell of an LSTM.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Relu,
    Gru,
    Lstm,
}

impl Kind {
    fn gates(self) -> usize {
        match self {
            Kind::Relu => 1,
            Kind::Gru => 3,
            Kind::Lstm => 4,
        }
    }

    /// Returns the probed gate: n or g, the only one that is not a factor.
    fn probed(self) -> usize {
        match self {
            Kind::Relu => 0,
            Kind::Gru | Kind::Lstm => 2,
        }
    }

    /// Returns weights of the input and of the hidden state: one, where wanted, for the probed gate, and
    /// zero for the others.
    fn weights(
        self,
        [input, hidden]: [usize; 2],
        ones_of: [bool; 2],
        dtype: DType,
    ) -> [Weights; 1] {
        let weight = |columns: usize, ones: bool| {
            let rows = self.gates() * hidden;
            let probed = self.probed() * hidden..(self.probed() + 1) * hidden;
            let row =
                |row: usize| vec![f32::from(u8::from(ones && probed.contains(&row))); columns];
            constant(&(0..rows).flat_map(row).collect::<Vec<f32>>(), &[rows, columns], dtype)
        };
        [Weights {
            weight_ih: weight(input, ones_of[0]),
            weight_hh: weight(hidden, ones_of[1]),
            bias_ih: None,
            bias_hh: None,
            weight_hr: None,
        }]
    }

    /// Runs one step.
    fn step(self, x: &Tensor, h0: &Tensor, weights: &[Weights]) -> Vec<f32> {
        let result = match self {
            Kind::Relu => f::rnn_relu(x, h0, weights, Stack::default()).unwrap().1,
            Kind::Gru => f::gru(x, h0, weights, Stack::default()).unwrap().1,
            Kind::Lstm => {
                let c0 = Tensor::zeros(h0.shape(), h0.dtype()).unwrap();
                f::lstm(x, h0, &c0, weights, Stack::default()).unwrap().2
            }
        };
        values(result.value())
    }
}

/// A term so small that the number of ones does not saturate a gate.
const UNIT: f32 = 1.0 / 1024.0;

fn scaled(probe: &[f32]) -> Vec<f32> {
    probe.iter().map(|x| x * UNIT).collect()
}

/// Returns terms with the whole sum in the first, to compare with the remaining sum of a probe.
fn alone(n: usize, sum: f32) -> Vec<f32> {
    let mut terms = vec![0.0; n];
    terms[0] = sum * UNIT;
    terms
}

#[test]
fn gates_of_the_input() {
    let (k, hidden) = (2 * BLOCK + 40, 5);
    let h0 = |dtype| Tensor::zeros(&[1, 1, hidden], dtype).unwrap();
    for dtype in [DType::F32, DType::F64] {
        for kind in [Kind::Relu, Kind::Gru, Kind::Lstm] {
            let weights = kind.weights([k, hidden], [true, false], dtype);
            let run = |x: &[f32]| kind.step(&constant(x, &[1, 1, k], dtype), &h0(dtype), &weights);
            for places in pairs(k, &[BLOCK, 2 * BLOCK]) {
                let expected = remains(k, places, |_| true, chain(BLOCK));
                let found = run(&scaled(&probe(k, places, |_| true)));
                assert_eq!(found, run(&alone(k, expected)), "{kind:?}, a probe at {places:?}");
            }
            assert_ne!(run(&alone(k, 7.0)), run(&alone(k, 8.0)), "{kind:?} tells numbers apart");
        }
    }
}

#[test]
fn gates_of_the_hidden_state() {
    let k = 2 * BLOCK + 40;
    for dtype in [DType::F32, DType::F64] {
        let x = ones(&[1, 1, 3], dtype);
        for kind in [Kind::Relu, Kind::Lstm] {
            let weights = kind.weights([3, k], [false, true], dtype);
            let run = |h: &[f32]| kind.step(&x, &constant(h, &[1, 1, k], dtype), &weights);
            for places in pairs(k, &[BLOCK, 2 * BLOCK]) {
                let expected = remains(k, places, |_| true, chain(BLOCK));
                let found = run(&scaled(&probe(k, places, |_| true)));
                assert_eq!(found, run(&alone(k, expected)), "{kind:?}, a probe at {places:?}");
            }
        }
        // A GRU keeps a part of each element, so the one that is read is zero.
        let weights = Kind::Gru.weights([3, k], [false, true], dtype);
        let run = |h: &[f32]| {
            let h = constant(h, &[1, 1, k], dtype);
            Kind::Gru.step(&x, &h, &weights)[k / 3 + 1]
        };
        let present = |place| place != k / 3 + 1;
        for places in pairs(k, &[BLOCK, 2 * BLOCK]) {
            let expected = remains(k, places, present, chain(BLOCK));
            let found = run(&scaled(&probe(k, places, present)));
            assert_eq!(found, run(&alone(k, expected)), "a probe at {places:?}");
        }
    }
}

/// The input's product, the bias, the hidden state's product.
#[test]
fn the_parts_of_a_gate() {
    let sum = |x: f32, bias: f32, h: f32| {
        let one = |value: f32, shape: &[usize]| constant(&[value], shape, DType::F32);
        let weights = [Weights {
            weight_ih: one(1.0, &[1, 1]),
            weight_hh: one(1.0, &[1, 1]),
            bias_ih: Some(one(bias, &[1])),
            bias_hh: None,
            weight_hr: None,
        }];
        let (x, h) = (one(x, &[1, 1, 1]), one(h, &[1, 1, 1]));
        values(f::rnn_relu(&x, &h, &weights, Stack::default()).unwrap().1.value())[0]
    };
    assert_eq!(sum(1e30, 1.0, -1e30), 0.0);
    assert_eq!(sum(1e30, -1e30, 1.0), 1.0);
    assert_eq!(sum(1.0, 1e30, -1e30), 0.0);
}

//! Functions that take f32 take halves, too.

use std::collections::BTreeSet;

use samebits_autograd::{DType, Result, Tensor, functional as f};
use samebits_rng::Generator;

use super::{Call, Hostile, calls, functions};

/// Functions that refuse halves, with the reason.
const REFUSED: &[(&str, &str)] = &[(
    "a rounded number could be the bound that the range excludes",
    "rand_like rand_like_with randn_like randn_like_with",
)];

/// Functions that no arguments here fit: some have no tensor among their arguments, some take
/// integers only, and `tests/half.rs` calls the others by their samples.
const OTHERS: [&str; 3] = [
    "normal_scalar normal_scalar_with randint randperm randperm_with tril_indices triu_indices",
    "floor_divide remainder",
    "fractional_max_pool fractional_max_pool2d fractional_max_pool3d gru gru_packed lstm \
     lstm_packed max_unpool max_unpool1d max_unpool2d max_unpool3d rnn_relu rnn_relu_packed \
     rnn_tanh rnn_tanh_packed",
];

const SHAPES: [&[usize]; 11] = [
    &[4],
    &[2, 2],
    &[2, 2, 3],
    &[2, 4, 2],
    &[3, 4],
    &[2, 3, 4],
    &[4, 2, 2],
    &[1, 4, 4, 4],
    &[2, 4, 4, 4],
    &[1, 4, 4, 4, 4],
    &[],
];

/// Numbers from 0 to 1 that halves hold.
fn quarters(shape: &[usize]) -> Result<Tensor> {
    let count = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..count).map(|i| ((i * 3 + 1) % 5) as f32 / 4.0).collect();
    Tensor::from_slice(&values, shape)
}

/// Arguments that fit many functions, with floats of this type.
fn friendly(dtype: DType) -> Result<Vec<Hostile>> {
    let mut all = Vec::new();
    for shape in SHAPES {
        let x = quarters(shape)?.to_dtype(dtype)?;
        let mut others = vec![x.to_dtype(DType::I64)?, x.gt(0.3)?, x.clone()];
        let length = shape.last().copied().unwrap_or(1);
        let halved = [shape.first().copied().unwrap_or(1), length / 2];
        let square = [1, length, length, 2];
        for part in [
            &[length][..],
            &[length; 2],
            &[length, 2, 2],
            &[length; 3],
            &[length; 4],
            &[length; 5],
            &square,
            &halved,
        ] {
            others.push(quarters(part)?.to_dtype(dtype)?);
        }
        others.push(Tensor::zeros(&[shape.first().copied().unwrap_or(1)], DType::I64)?);
        let indices = [
            Tensor::from_slice(&[1i64, 0], &[2])?,
            Tensor::zeros(shape, DType::I64)?,
            x.clone(),
            Tensor::zeros(&shape[..shape.len().min(1)], DType::I64)?,
        ];
        let rank = shape.len();
        let sizes: [&[usize]; 7] = [
            &[length],
            shape,
            &[2, 3, 4, 4],
            &[1; 3],
            &[0; 3][..rank.clamp(3, 5) - 2],
            &[2, 2],
            &shape[rank.min(2)..],
        ];
        for y in &others {
            for index in &indices {
                for sizes in sizes {
                    for dim in [0, -1, 1] {
                        all.push(Hostile {
                            x: x.clone(),
                            y: y.clone(),
                            index: index.clone(),
                            dim,
                            sizes: sizes.to_vec(),
                            generator: Generator::new(0),
                            p: 0.5,
                            negative: 1.0,
                            zero: 1,
                            many: 2,
                            most: 2,
                            far: 0,
                        });
                    }
                }
            }
        }
    }
    Ok(all)
}

/// Calls with arguments that fit f32, at most so many.
const CALLS: usize = 6;

fn names(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn every_function_of_f32_takes_halves() {
    samebits_tensor_core::random::manual_seed(0);
    let mut wide = friendly(DType::F32).unwrap();
    let mut halves = [DType::BF16, DType::F16].map(|half| (half, friendly(half).unwrap()));
    let mut unreached = BTreeSet::new();
    let mut refused: Vec<(&str, String)> = Vec::new();
    let mut called = BTreeSet::new();
    for (name, call) in calls() {
        let call: Call = call;
        called.insert(name.to_owned());
        let mut taken = 0;
        for i in 0..wide.len() {
            let h = &mut wide[i];
            if taken == CALLS || call(h).is_some() {
                continue;
            }
            taken += 1;
            for (half, all) in &mut halves {
                if let Some(error) = call(&mut all[i]) {
                    refused.push((name, format!("{half}: {error}")));
                }
            }
        }
        if taken == 0 {
            unreached.insert(name.to_owned());
        }
    }
    let listed: Vec<&str> = REFUSED.iter().map(|(_, names)| *names).collect();
    let listed = names(&listed.join(" "));
    let unlisted: Vec<_> = refused.iter().filter(|(name, _)| !listed.contains(*name)).collect();
    assert!(unlisted.is_empty(), "{unlisted:#?}");
    let found: BTreeSet<String> = refused.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(found, listed);
    assert_eq!(unreached, names(&OTHERS.join(" ")));
    assert!(called.len() > 330 && called.is_subset(&functions()));
}

#[test]
fn recurrent_networks_of_packed_sequences_take_halves() {
    for half in [DType::BF16, DType::F16] {
        let zeros = |shape: &[usize]| Tensor::zeros(shape, half).unwrap();
        let (x, state) = (zeros(&[3, 2, 4]), zeros(&[1, 2, 5]));
        let packed = f::pack_padded_sequence(&x, &[3, 1], false, true).unwrap();
        let weights = |gates: usize| {
            let (weight_ih, weight_hh) = (zeros(&[5 * gates, 4]), zeros(&[5 * gates, 5]));
            let bias = Some(zeros(&[5 * gates]));
            let (bias_ih, bias_hh) = (bias.clone(), bias);
            [f::Weights { weight_ih, weight_hh, bias_ih, bias_hh, weight_hr: None }]
        };
        let stack = f::Stack::default;
        for (y, last) in [
            f::rnn_relu_packed(&packed, &state, &weights(1), stack()).unwrap(),
            f::rnn_tanh_packed(&packed, &state, &weights(1), stack()).unwrap(),
            f::gru_packed(&packed, &state, &weights(3), stack()).unwrap(),
        ] {
            assert_eq!((y.data().dtype(), last.dtype()), (half, half));
        }
        let (y, hidden, cell) =
            f::lstm_packed(&packed, &state, &state, &weights(4), stack()).unwrap();
        let types = [y.data().dtype(), hidden.dtype(), cell.dtype()];
        assert_eq!(types, [half; 3]);
    }
}

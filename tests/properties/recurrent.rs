use proptest::prelude::*;
use samebits::functional::{self as f, Stack, Weights};
use samebits::{DType, Tensor};
use workspace_tests::normal_of;

use super::cases;

fn make(shape: &[usize], seed: u64) -> Tensor {
    Tensor::from(normal_of(shape, DType::F32, seed)).set_requires_grad(true).unwrap()
}

proptest! {
    #![proptest_config(cases(2))]

    #[test]
    fn packing_keeps_every_element_or_refuses(
        (steps, n, width) in (0usize..5, 0usize..5, 0usize..3),
        lengths in proptest::collection::vec(0usize..6, 0..5),
        batch_first in any::<bool>(),
        enforce_sorted in any::<bool>(),
    ) {
        let shape = if batch_first { [n, steps, width] } else { [steps, n, width] };
        let x = make(&shape, 1);
        let packed = f::pack_padded_sequence(&x, &lengths, batch_first, enforce_sorted);
        let valid = lengths.len() == n
            && lengths.iter().all(|length| (1..=steps).contains(length))
            && (!enforce_sorted || lengths.is_sorted_by(|a, b| a >= b));
        prop_assert_eq!(packed.is_ok(), valid);
        let Ok(packed) = packed else { return Ok(()) };
        prop_assert_eq!(packed.data().shape(), &[lengths.iter().sum::<usize>(), width][..]);
        let (padded, again) =
            f::pad_packed_sequence(&packed, batch_first, 0.25, Some(steps)).unwrap();
        prop_assert_eq!(&again, &lengths);
        prop_assert_eq!(padded.shape(), &shape[..]);
        let (x, padded) = (x.to_vec::<f32>().unwrap(), padded.to_vec::<f32>().unwrap());
        for (i, (&from, &to)) in x.iter().zip(&padded).enumerate() {
            let (first, second) = (i / width / shape[1], i / width % shape[1]);
            let (t, sequence) = if batch_first { (second, first) } else { (first, second) };
            prop_assert_eq!(to, if t < lengths[sequence] { from } else { 0.25 });
        }
    }

    #[test]
    fn networks_fit_or_refuse(
        (steps, n, input, hidden) in (0usize..4, 0usize..3, 0usize..3, 0usize..4),
        (state, layers, kind) in (0usize..4, 0usize..3, 0usize..3),
        bidirectional in any::<bool>(),
    ) {
        let gates = [1, 3, 4][kind];
        let directions = if bidirectional { 2 } else { 1 };
        let weights: Vec<Weights> = (0..layers * directions)
            .map(|i| Weights {
                weight_ih: make(
                    &[gates * hidden, if i < directions { input } else { hidden * directions }],
                    i as u64,
                ),
                weight_hh: make(&[gates * hidden, hidden], 10),
                bias_ih: Some(make(&[gates * hidden], 11)),
                bias_hh: None,
                weight_hr: None,
            })
            .collect();
        let x = make(&[steps, n, input], 2);
        let h = make(&[layers * directions, n, state], 3);
        let stack = Stack { bidirectional, ..Stack::default() };
        let result = match kind {
            0 => f::rnn_tanh(&x, &h, &weights, stack).map(|(y, h)| vec![y, h]),
            1 => f::gru(&x, &h, &weights, stack).map(|(y, h)| vec![y, h]),
            _ => f::lstm(&x, &h, &h, &weights, stack).map(|(y, h, c)| vec![y, h, c]),
        };
        let valid = steps > 0 && layers > 0 && state == hidden;
        prop_assert_eq!(result.is_ok(), valid, "{:?}", result);
        let Ok(result) = result else { return Ok(()) };
        prop_assert_eq!(result[0].shape(), &[steps, n, directions * hidden][..]);
        prop_assert_eq!(result[1].shape(), h.shape());
        let gradients = result[0].sum_all().unwrap().backward().unwrap();
        prop_assert_eq!(gradients.of(&x).unwrap().shape(), x.shape());
    }
}

use samebits::functional::{self as f, Stack, Weights};
use samebits::{DType, Tensor};

use super::normal_of;

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

//! Formulas: one launch with the bits of a launch for each step, whose kernels have tests of their own.

use crate::data::{Source, same};
use crate::device::{on_device, under_schedules};
use samebits_cuda_kernels::elementwise::formula::{Call, formula, formula_all};
use samebits_cuda_kernels::elementwise::{
    BinaryKind, CompareKind, Pairing, UnaryKind, View, affine, binary, compare, select, unary,
};
use samebits_cuda_kernels::{Buffer, Device};
use samebits_tensor_core::ops::Step;

const UNARY: [UnaryKind; 19] = [
    UnaryKind::Neg,
    UnaryKind::Abs,
    UnaryKind::Exp,
    UnaryKind::Exp2,
    UnaryKind::Expm1,
    UnaryKind::Log,
    UnaryKind::Log2,
    UnaryKind::Log10,
    UnaryKind::Log1p,
    UnaryKind::Sqrt,
    UnaryKind::Rsqrt,
    UnaryKind::Sin,
    UnaryKind::Cos,
    UnaryKind::Tanh,
    UnaryKind::Sigmoid,
    UnaryKind::Erf,
    UnaryKind::Relu,
    UnaryKind::Reciprocal,
    UnaryKind::Square,
];

const BINARY: [BinaryKind; 11] = [
    BinaryKind::Add,
    BinaryKind::Sub,
    BinaryKind::Mul,
    BinaryKind::Div,
    BinaryKind::Maximum,
    BinaryKind::Minimum,
    BinaryKind::Pow,
    BinaryKind::Weigh,
    BinaryKind::ReluGrad,
    BinaryKind::TanhGrad,
    BinaryKind::SigmoidGrad,
];

const COMPARE: [CompareKind; 6] = [
    CompareKind::Eq,
    CompareKind::Ne,
    CompareKind::Lt,
    CompareKind::Le,
    CompareKind::Gt,
    CompareKind::Ge,
];

fn computed(device: &Device, steps: &[Step], inputs: &[&Buffer<f32>], n: usize) -> Vec<f32> {
    device.download(&formula(device, steps, inputs, n).unwrap().unwrap()).unwrap()
}

#[test]
fn a_step_has_the_bits_of_its_kernel() {
    on_device(|device| {
        let mut source = Source::new(7);
        let (a, b) = (source.broken(1021), source.broken(1021));
        let [a, b] = [a, b].map(|x| device.upload(&x).unwrap());
        let n = a.len();
        let check = |what: &str, steps: &[Step], expected: Buffer<f32>| {
            let expected = device.download(&expected).unwrap();
            same(what, &computed(device, steps, &[&a, &b], n), &expected);
        };
        for kind in UNARY {
            let expected = unary(device, kind, &a).unwrap();
            check(&format!("{kind:?}"), &[Step::Unary(kind, 0)], expected);
        }
        for kind in BINARY {
            let expected = binary(device, kind, &a, &b, Pairing::Dense(n)).unwrap();
            check(&format!("{kind:?}"), &[Step::Binary(kind, 0, 1)], expected);
        }
        for kind in COMPARE {
            let truth = compare(device, kind, &a, &b, Pairing::Dense(n)).unwrap();
            let chosen = select(device, &truth, &b, &a).unwrap();
            let choice = Step::Where { condition: 2, a: 1, b: 0 };
            check(&format!("{kind:?}"), &[Step::Compare(kind, 0, 1), choice], chosen);
        }
        let expected = affine(device, &a, 0.3, -0.7).unwrap();
        check(
            "affine",
            &[Step::Affine { x: 0, scale: 0.3f32.into(), shift: (-0.7f32).into() }],
            expected,
        );
    });
}

#[test]
fn steps_follow_each_other_at_any_length() {
    on_device(|device| {
        let mut source = Source::new(8);
        let one = device.upload(&[-1.25f32]).unwrap();
        // (x * one + 3) less e to the power of x, and its larger one of itself and x.
        let steps = [
            Step::Binary(BinaryKind::Mul, 0, 1),
            Step::Number(3.0),
            Step::Binary(BinaryKind::Add, 2, 3),
            Step::Unary(UnaryKind::Exp, 0),
            Step::Binary(BinaryKind::Sub, 4, 5),
            Step::Binary(BinaryKind::Maximum, 6, 0),
        ];
        for n in [1, 3, 4, 5, 127, 512, 515, 1025] {
            let x = device.upload(&source.broken(n)).unwrap();
            let shape = [n];
            let splat = Pairing::Strided {
                shape: &shape,
                a: View { strides: &[1], offset: 0 },
                b: View { strides: &[0], offset: 0 },
            };
            let dense = Pairing::Dense(n);
            let three = device.upload(&[3.0f32]).unwrap();
            let product = binary(device, BinaryKind::Mul, &x, &one, splat).unwrap();
            let sum = binary(device, BinaryKind::Add, &product, &three, splat).unwrap();
            let exp = unary(device, UnaryKind::Exp, &x).unwrap();
            let rest = binary(device, BinaryKind::Sub, &sum, &exp, dense).unwrap();
            let expected = binary(device, BinaryKind::Maximum, &rest, &x, dense).unwrap();
            let got = computed(device, &steps, &[&x, &one], n);
            same(&format!("{n} elements"), &got, &device.download(&expected).unwrap());
        }
    });
}

#[test]
fn steps_that_a_kernel_does_not_take_are_told() {
    on_device(|device| {
        let x = device.upload(&[1.0f32, 2.0]).unwrap();
        let negations = |count: usize| (0..count).map(|i| Step::Unary(UnaryKind::Neg, i));
        let short: Vec<_> = negations(32).collect();
        assert_eq!(computed(device, &short, &[&x], 2), [1.0, 2.0]);
        let long: Vec<_> = negations(33).collect();
        assert!(formula(device, &long, &[&x], 2).unwrap().is_none());
        // Twelve values that the last steps still read.
        let mut wide: Vec<_> = (0..12).map(|_| Step::Unary(UnaryKind::Neg, 0)).collect();
        wide.extend(
            (1..12).map(|i| Step::Binary(BinaryKind::Add, if i == 1 { 1 } else { 11 + i }, i + 1)),
        );
        assert!(formula(device, &wide, &[&x], 2).unwrap().is_none());
        let later = [Step::Unary(UnaryKind::Neg, 1)];
        assert!(formula(device, &later, &[&x], 2).unwrap_err().to_string().contains("value 1"));
        assert!(formula(device, &short, &[&x], 3).unwrap_err().to_string().contains("an input"));
    });
}

/// The lengths of calls that are computed together: of a block of any size, less, and more than two.
const LENGTHS: [usize; 8] = [300, 1, 16 * 128, 0, 7, 2 * 16 * 128 + 5, 4099, 3];

#[test]
fn calls_together_have_the_bits_of_each_alone() {
    under_schedules(|device| {
        // The work of another stream, which must be awaited, makes some of the buffers.
        let other = device.with_new_stream().unwrap();
        let mut source = Source::new(9);
        let mut make = || -> Vec<Buffer<f32>> {
            let devices = LENGTHS.iter().zip([device, &other].into_iter().cycle());
            devices
                .map(|(&n, device)| {
                    device.duplicate(&device.upload(&source.broken(n)).unwrap()).unwrap()
                })
                .collect()
        };
        let [a, b, c] = [(); 3].map(|()| make());
        let one = device.upload(&[-1.25f32]).unwrap();
        let sum = |factor: f64, shift: f64| {
            [
                Step::Affine { x: 0, scale: factor, shift },
                Step::Binary(BinaryKind::Add, 3, 1),
                Step::Binary(BinaryKind::Div, 4, 2),
            ]
        };
        // The shifts differ in their signs only.
        let steps = [sum(0.5, 0.0), sum(0.5, -0.0), sum(0.75, 0.0)];
        let long: Vec<_> =
            (0..33).map(|i| Step::Unary(UnaryKind::Neg, i.max(2) as usize)).collect();
        let mut calls = Vec::new();
        for (k, &n) in LENGTHS.iter().chain(&LENGTHS).enumerate() {
            let place = k % LENGTHS.len();
            // An input of one element serves all.
            let last = if k % 5 == 4 { &one } else { &c[place] };
            calls.push(Call { steps: &steps[k % 3], inputs: vec![&a[place], &b[place], last], n });
        }
        calls.push(Call { steps: &long, inputs: vec![&a[0], &b[0], &c[0]], n: LENGTHS[0] });
        let together = formula_all(device, &calls).unwrap();
        assert_eq!(together.len(), calls.len());
        let mut all = Vec::new();
        for (k, (found, Call { steps, inputs, n })) in together.iter().zip(&calls).enumerate() {
            let alone = formula(device, steps, inputs, *n).unwrap();
            assert_eq!(found.is_some(), alone.is_some(), "call {k}");
            if let (Some(found), Some(alone), 1..) = (found, alone, *n) {
                let found = device.download(found).unwrap();
                same(&format!("call {k}"), &found, &device.download(&alone).unwrap());
                all.push(found.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
            }
        }
        assert!(together.last().unwrap().is_none());
        let wrong = Call { steps: &steps[0], inputs: vec![&a[0], &b[1], &c[0]], n: 300 };
        // One element serves all, but not seven.
        assert!(formula_all(device, &[calls[0].clone(), wrong]).is_ok());
        let wrong = Call { steps: &steps[0], inputs: vec![&a[0], &b[4], &c[0]], n: 300 };
        let error = formula_all(device, &[calls[0].clone(), wrong]).unwrap_err().to_string();
        assert_eq!(error, "formula: expected an input with 300 elements, got 7");
        all
    });
}

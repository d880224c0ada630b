//! Formulas in one pass have the bits of their steps one by one, and refuse what makes no sense.

use samebits_tensor_core::ops::{BinaryKind, Bowl, CompareKind, Formula, Step, UnaryKind};
use samebits_tensor_core::{DType, Tensor, dispatch};

/// Steps on three inputs: every kind, a value that is read late, and truth values of truth values.
fn steps() -> Vec<Step> {
    vec![
        Step::Number(0.3),                              // 3
        Step::Compare(CompareKind::Lt, 0, 3),           // 4
        Step::Binary(BinaryKind::Mul, 0, 1),            // 5
        Step::Unary(UnaryKind::Exp, 2),                 // 6
        Step::Compare(CompareKind::Ne, 5, 6),           // 7
        Step::Where { condition: 4, a: 7, b: 4 },       // 8
        Step::Affine { x: 6, scale: -1.3, shift: 0.1 }, // 9
        Step::Where { condition: 8, a: 9, b: 3 },       // 10
        Step::Unary(UnaryKind::Square, 3),              // 11
        Step::Binary(BinaryKind::Maximum, 10, 5),       // 12
        Step::Binary(BinaryKind::Sub, 12, 11),          // 13
        Step::Binary(BinaryKind::Add, 13, 0),           // 14
    ]
}

fn drawn(shape: &[usize], dtype: DType, seed: u64) -> Tensor {
    let mut state = seed;
    let n: usize = shape.iter().product();
    let values = (0..n).map(|i| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let x = (state >> 40) as f64 / (1 << 23) as f64 - 1.0;
        match i % 97 {
            13 => f64::NAN,
            14 => f64::INFINITY,
            15 => -0.0,
            16 => 1e-40,
            17 => f64::INFINITY * if seed == 2 { -1.0 } else { 1.0 },
            18 if seed == 7 => 0.0,
            19 if seed == 7 => 1.0,
            20 if seed == 7 => -0.0,
            _ => x * 3.0,
        }
    });
    let values: Vec<f64> = values.collect();
    match dtype {
        DType::F64 => Tensor::from_slice(&values, shape).unwrap(),
        _ => {
            let values: Vec<f32> = values.iter().map(|&x| x as f32).collect();
            Tensor::from_slice(&values, shape).unwrap()
        }
    }
}

#[test]
fn one_pass_has_the_bits_of_the_steps() {
    samebits_cpu_kernels::install();
    for dtype in [DType::F32, DType::F64] {
        let shapes = [
            &[][..],
            &[1],
            &[1023],
            &[2049],
            &[3, 5, 70],
            &[5, 3001],
            &[700, 40],
            &[100_003],
            &[0],
        ];
        for shape in shapes {
            let inputs = vec![drawn(shape, dtype, 1), drawn(shape, dtype, 2), drawn(&[], dtype, 5)];
            let rank = shape.len();
            let turned: Vec<usize> = (0..rank).rev().collect();
            let back = |x: &Tensor| {
                let x = x.permute(&turned).unwrap().contiguous().unwrap();
                x.permute(&turned).unwrap()
            };
            let views = vec![back(&inputs[0]), inputs[1].clone(), inputs[2].clone()];
            let mut weighed = inputs.clone();
            weighed[2] = drawn(shape, dtype, 7);
            // A number for each row, and a row for all.
            let mut by_rows = inputs.clone();
            if let [rows @ .., columns] = shape {
                by_rows[0] = drawn(&[rows, &[1]].concat(), dtype, 7);
                by_rows[2] = drawn(&[*columns], dtype, 5);
            }
            let lerp = Formula::LERP.to_vec();
            let bowls =
                [(1.5, 0.25, -0.75, 1.0), (0.5, 0.5, -0.25, 1.5), (1e-38, 3e38, 1e-40, 3e38)];
            let bowls =
                bowls.map(|(bound, scale, shift, slope)| Bowl { bound, scale, shift, slope });
            let of_bowls = bowls.iter().flat_map(|bowl| {
                let losses = (weighed[..2].to_vec(), bowl.steps());
                let gradient = (weighed.clone(), bowl.gradient_steps());
                // The gradient of a mean is one number.
                let of_mean = (inputs.clone(), bowl.gradient_steps());
                [losses, gradient, of_mean]
            });
            let of_bowls: Vec<_> = of_bowls.collect();
            let calls = [
                (inputs, steps()),
                (views.clone(), steps()),
                (by_rows.clone(), steps()),
                (by_rows, lerp.clone()),
                (views, lerp.clone()),
                (weighed, lerp),
            ];
            for (inputs, steps) in calls.into_iter().chain(of_bowls) {
                let formula = Formula { inputs, steps };
                let expected = formula.by_steps().unwrap().to_bytes().unwrap();
                let found = || dispatch(&formula).unwrap().to_bytes().unwrap();
                assert!(found() == expected, "{dtype} {shape:?}");
                test_support::at_every_level(|level| {
                    for threads in 1..=7 {
                        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                        let pool = pool.build().unwrap();
                        let same = pool.install(found) == expected;
                        assert!(same, "{dtype} {shape:?}, {level:?} with {threads} threads");
                    }
                });
            }
        }
    }
}

/// A formula that differs from a known one by the sign of a zero is not taken for it.
#[test]
fn the_sign_of_a_zero_is_part_of_a_formula() {
    samebits_cpu_kernels::install();
    let bowl = Bowl { bound: 1.5, scale: -0.25, shift: -0.75, slope: -1.5 };
    let all = [1, 2, 7].map(|seed| drawn(&[2049], DType::F32, seed));
    let known = [(2, bowl.steps()), (3, bowl.gradient_steps()), (3, Formula::LERP.to_vec())];
    for (inputs, steps) in known {
        for i in 0..steps.len() {
            let mut steps = steps.clone();
            match &mut steps[i] {
                Step::Number(x) | Step::Affine { shift: x, .. } if *x == 0.0 => *x = -*x,
                _ => continue,
            }
            let formula = Formula { inputs: all[..inputs].to_vec(), steps };
            let expected = formula.by_steps().unwrap().to_bytes().unwrap();
            assert!(dispatch(&formula).unwrap().to_bytes().unwrap() == expected, "step {i}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn subnormal_numbers_survive_in_a_thread_that_flushes_them() {
    samebits_cpu_kernels::install();
    let x = drawn(&[300], DType::F32, 1);
    let steps = vec![
        Step::Affine { x: 0, scale: 1e-38, shift: -0.0 },
        Step::Affine { x: 1, scale: 1e10, shift: 0.5 },
    ];
    let formula = Formula { inputs: vec![x], steps };
    let expected = formula.by_steps().unwrap().to_bytes().unwrap();
    let found = std::thread::spawn(move || {
        test_support::flush_to_zero();
        dispatch(&formula).unwrap().to_bytes().unwrap()
    });
    assert!(found.join().unwrap() == expected);
}

#[test]
fn a_number_is_a_result() {
    samebits_cpu_kernels::install();
    for n in [0, 3, 40_000] {
        let formula =
            Formula { inputs: vec![drawn(&[n], DType::F32, 1)], steps: vec![Step::Number(0.3)] };
        let found = dispatch(&formula).unwrap();
        assert_eq!(found.to_vec::<f32>().unwrap(), vec![0.3; n]);
        assert!(found.to_bytes().unwrap() == formula.by_steps().unwrap().to_bytes().unwrap());
    }
}

#[test]
fn wrong_steps_are_refused() {
    samebits_cpu_kernels::install();
    let x = || drawn(&[4], DType::F32, 1);
    let refused = |inputs: Vec<Tensor>, steps: Vec<Step>, part: &str| {
        let error = dispatch(&Formula { inputs, steps }).unwrap_err().to_string();
        assert!(error.starts_with("formula") && error.contains(part), "{error}");
    };
    let late = Step::Unary(UnaryKind::Neg, 1);
    refused(vec![x()], vec![late], "step 0 reads value 1, expected one below 1");
    refused(vec![x()], vec![], "the last step must compute a number");
    refused(vec![], vec![Step::Number(1.0)], "expected 1 to 5 inputs, got 0");
    refused(vec![x(); 6], vec![Step::Number(1.0)], "expected 1 to 5 inputs, got 6");
    let truth = Step::Compare(CompareKind::Lt, 0, 0);
    refused(vec![x()], vec![truth], "the last step must compute a number");
    refused(vec![x()], vec![truth, Step::Unary(UnaryKind::Neg, 1)], "takes a truth value");
    refused(vec![x()], vec![Step::Where { condition: 0, a: 0, b: 0 }], "takes a truth value");
    refused(vec![x()], vec![Step::Binary(BinaryKind::Remainder, 0, 0)], "integers only");
    let integers = Tensor::from_slice(&[1i64; 4], &[4]).unwrap();
    refused(vec![x(), integers.clone()], vec![Step::Binary(BinaryKind::Add, 0, 1)], "i64");
    refused(vec![integers], vec![Step::Unary(UnaryKind::Neg, 0)], "i64");
    let wide = drawn(&[3], DType::F32, 1);
    refused(vec![x(), wide], vec![Step::Binary(BinaryKind::Add, 0, 1)], "[4]");
}

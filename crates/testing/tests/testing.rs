//! The assertions, and a proof that each of them can fail.

use std::sync::atomic::{AtomicUsize, Ordering};

use samebits::numerics::simd::{self, Level};
use samebits::{Tensor, manual_seed, randn};
use samebits_testing::{
    Cause, Difference, Extent, NotReproducible, assert_reproducible, assert_same_bits,
    check_reproducible, compare, listing,
};

#[track_caller]
fn extent(left: &[f32], right: &[f32]) -> Extent {
    match compare(left, right).unwrap_err() {
        Difference::Elements(extent) => *extent,
        other => panic!("{other}"),
    }
}

#[test]
fn the_place_and_the_distance_are_said() {
    assert_same_bits!([1.0f32, f32::NAN], vec![1.0f32, f32::NAN]);
    let (left, mut right) = ([1.0f32, 2.0, 3.0, -4.0], [1.0f32, 2.0f32.next_up(), 3.0, -4.0]);
    right[3] = f32::from_bits((-4.0f32).to_bits() + 5);
    let found = extent(&left, &right);
    assert_eq!(
        found.to_string(),
        "2 of 4 elements of f32 [4] differ, first at [1]: 2.0 (40000000) and 2.0000002 (40000001), \
         1 ulp; most at [3]: -4.0 (c0800000) and -4.0000024 (c0800005), 5 ulps"
    );
    assert_eq!(extent(&[0.0], &[-0.0]).first.ulps, Some(1));
    assert_eq!(extent(&[f32::from_bits(1)], &[-f32::from_bits(1)]).first.ulps, Some(3));
    assert_eq!(extent(&[f32::MAX], &[f32::INFINITY]).first.ulps, Some(1));
    let nan = extent(&[1.0, f32::NAN], &[2.0, 1.0]);
    assert_eq!((nan.first.ulps, nan.farthest), (Some(1 << 23), None));
    let whole = compare(&[5i64, i64::MIN], &[5i64, -3]).unwrap_err().to_string();
    assert_eq!(
        whole,
        "1 of 2 elements of i64 [2] differ, first at [1]: -9223372036854775808 and -3"
    );
    let ends = compare(&[f64::NEG_INFINITY], &[f64::INFINITY]).unwrap_err();
    assert!(ends.to_string().ends_with(" ulps"), "{ends}");
}

#[test]
fn shapes_and_types_differ_before_elements_do() {
    let x = Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap();
    let row = x.reshape([1, 2]).unwrap();
    assert_eq!(compare(&x, &row).unwrap_err().to_string(), "shapes differ: [2] and [1, 2]");
    assert_eq!(compare(&x, &[1u32, 2]).unwrap_err().to_string(), "types differ: f32 and u32");
    assert_same_bits!(x, [1.0f32, 2.0], "a tensor and its elements");
}

#[test]
#[should_panic = "`[1u8]` and `[2u8]`: 1 of 1 elements of u8 [1] differ"]
fn a_difference_panics() {
    assert_same_bits!([1u8], [2u8]);
}

#[test]
#[should_panic = "step 3: 1 of 1 elements"]
fn a_difference_panics_with_the_words_of_the_caller() {
    assert_same_bits!([1u8], [2u8], "step {}", 3);
}

#[test]
fn what_is_reproducible_passes() {
    assert_reproducible(|| {
        manual_seed(3);
        let x = randn(&[64, 300])?.set_requires_grad(true)?;
        let y = x.matmul(&randn(&[300, 20])?)?.softmax(-1)?.sum(())?;
        Ok((y.clone(), y.backward()?.of(&x).cloned().into_iter().collect::<Vec<_>>()))
    });
}

#[track_caller]
fn parting(error: NotReproducible) -> (String, Cause) {
    match error {
        NotReproducible::Differs { parting: Some(parting), .. } => {
            (parting.left.unwrap_or_default(), parting.cause)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_generator_that_moves_is_found() {
    manual_seed(1);
    let moved = || randn(&[10])?.exp();
    let error = check_reproducible(moved).unwrap_err();
    assert!(error.to_string().contains("another position of its generator"), "{error}");
    let (operation, cause) = parting(error);
    assert!(operation.starts_with("normal (forward, at "), "{operation}");
    assert_eq!(cause, Cause::Generator);
}

#[test]
fn what_depends_on_the_instruction_set_is_found_and_named() {
    // `SAMEBITS_SIMD` leaves the levels below it.
    if simd::level() == Level::Portable {
        return;
    }
    let planted = || {
        manual_seed(1);
        let dim = i64::from(simd::level() == Level::Portable);
        randn(&[5, 5])?.cumsum(dim)
    };
    let (operation, cause) = parting(check_reproducible(planted).unwrap_err());
    assert!(operation.starts_with("cumsum "), "{operation}");
    assert_eq!(cause, Cause::Parameters);
}

#[test]
fn what_enters_besides_operations_is_found() {
    let runs = AtomicUsize::new(0);
    let counted = || {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        Tensor::from_slice(&[run as f32], &[1])?.exp()
    };
    let (operation, cause) = parting(check_reproducible(counted).unwrap_err());
    assert!(operation.starts_with("unary "), "{operation}");
    assert_eq!(cause, Cause::Inputs);
    // Only once: when observed, it does not recur.
    let runs = AtomicUsize::new(0);
    let once = || {
        let second = runs.fetch_add(1, Ordering::Relaxed) == 1;
        Tensor::from_slice(&[f32::from(second)], &[1])
    };
    let error = check_reproducible(once).unwrap_err().to_string();
    assert!(error.contains("no operation differed"), "{error}");
}

#[test]
fn a_function_that_fails_says_where() {
    let fails = || Tensor::from_slice(&[1.0f32], &[2]);
    let error = check_reproducible(fails).unwrap_err().to_string();
    assert!(error.starts_with("the function failed (cpu, all threads"), "{error}");
}

#[test]
fn a_listing_has_a_line_for_each_tensor() {
    let x = Tensor::from_slice(&[1i64, 2], &[2, 1]).unwrap();
    let lines = listing([("ids", &x), ("again", &x)]).unwrap();
    let lines: Vec<_> = lines.lines().collect();
    assert!(lines[0].ends_with("  i64 [2, 1]  ids") && lines[1].ends_with("  again"), "{lines:?}");
    assert_eq!(lines[0][..16], lines[1][..16]);
}

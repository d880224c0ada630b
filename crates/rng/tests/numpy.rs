//! Every case of a file of NumPy's streams. `SAMEBITS_NUMPY_STREAMS` names another file.

use samebits_rng::numpy::{BitGenerator, Generator, SeedSequence};
use samebits_rng::{Pcg64, Pcg64Dxsm, Philox4x64};
use serde_json::Value;

#[test]
fn every_case_of_the_file_of_streams() {
    let path = std::env::var("SAMEBITS_NUMPY_STREAMS").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/numpy_streams.json").to_owned()
    });
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let file: Value = serde_json::from_str(&text).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(!cases.is_empty(), "{path} holds no case");
    let mut checked = 0;
    for case in cases {
        let seed = case["seed"].as_str().unwrap();
        let mut sequence = SeedSequence::from_decimal(seed).unwrap();
        for (key, expected) in case.as_object().unwrap() {
            let found = match key.as_str() {
                "seed" => continue,
                "generate_state_u32_8" => {
                    assert_eq!(
                        numbers(expected),
                        words(sequence.generate_state_u32(8).unwrap()),
                        "{key} of {seed}"
                    );
                    checked += 1;
                    continue;
                }
                "generate_state_u64_4" => vec![sequence.generate_state_u64(4).unwrap()],
                "spawn3_u64_2" => {
                    let children = sequence.clone().spawn(3).unwrap();
                    children.iter().map(|child| child.generate_state_u64(2).unwrap()).collect()
                }
                "spawn_1_1_u64_2" => {
                    let grandchild = sequence.spawn(2).unwrap()[1].spawn(2).unwrap()[1].clone();
                    sequence = SeedSequence::from_decimal(seed).unwrap();
                    vec![grandchild.generate_state_u64(2).unwrap()]
                }
                "PCG64" => {
                    checked += bit_generator::<Pcg64>(seed, &sequence, expected);
                    continue;
                }
                "PCG64DXSM" => {
                    checked += bit_generator::<Pcg64Dxsm>(seed, &sequence, expected);
                    continue;
                }
                "Philox" => {
                    checked += bit_generator::<Philox4x64>(seed, &sequence, expected);
                    continue;
                }
                other => panic!("{path}: no check for {other}"),
            };
            let expected: Vec<Vec<u64>> = match expected[0].as_array() {
                Some(_) => expected.as_array().unwrap().iter().map(numbers).collect(),
                None => vec![numbers(expected)],
            };
            assert_eq!(found, expected, "{key} of {seed}");
            checked += 1;
        }
    }
    assert!(checked >= 4 * cases.len(), "{path}: only {checked} checks");
}

/// So many that all layers of the ziggurat occur and some numbers are drawn again. None lies in the tail,
/// whose logarithm is the C library's.
#[test]
fn normal_numbers_that_are_drawn_again() {
    // numpy.random.default_rng(42).standard_normal(5000).tobytes(), by FNV-1a.
    let sequence = SeedSequence::from_decimal("42").unwrap();
    let mut generator = Generator::new(Pcg64::from_seed_sequence(&sequence));
    let bytes = (0..5000).flat_map(|_| generator.standard_normal().to_le_bytes());
    let digest = bytes.fold(0xcbf29ce484222325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3)
    });
    assert_eq!(digest, 0x4dbdbcf062a8607d);
}

#[test]
fn a_spawn_key_names_the_ancestors() {
    let mut root = SeedSequence::from_decimal("7").unwrap();
    assert!(root.spawn_key().is_empty());
    let mut children = root.spawn(3).unwrap();
    assert_eq!(children[2].spawn(2).unwrap()[1].spawn_key(), [2, 1]);
    assert_eq!(root.spawn(1).unwrap()[0].spawn_key(), [3]);
}

fn bit_generator<B: BitGenerator>(seed: &str, sequence: &SeedSequence, case: &Value) -> usize {
    let case = case.as_object().unwrap();
    for (key, expected) in case {
        let mut generator = Generator::new(B::from_seed_sequence(sequence));
        let count = expected.as_array().unwrap().len();
        let at = format!("{key} of {seed}");
        match key.as_str() {
            "raw6" => assert_eq!(draw(&mut generator, count), numbers(expected), "{at}"),
            "random4" => {
                let found: Vec<u64> = (0..count).map(|_| generator.random().to_bits()).collect();
                assert_eq!(found, floats(expected), "{at}");
            }
            "random_f32_4" => {
                let found: Vec<u64> =
                    (0..count).map(|_| f64::from(generator.random_f32()).to_bits()).collect();
                assert_eq!(found, floats(expected), "{at}");
            }
            "integers_0_1000_8" => {
                let found: Vec<u64> =
                    (0..count).map(|_| generator.integers(0, 1000).unwrap() as u64).collect();
                assert_eq!(found, numbers(expected), "{at}");
            }
            "permutation10" => {
                let found: Vec<u64> =
                    generator.permutation(count).unwrap().iter().map(|&i| i as u64).collect();
                assert_eq!(found, numbers(expected), "{at}");
            }
            "standard_normal4" => {
                let found: Vec<u64> =
                    (0..count).map(|_| generator.standard_normal().to_bits()).collect();
                assert_eq!(found, floats(expected), "{at}");
            }
            "jumped3_raw2" => {
                let mut jumped = Generator::new(generator.bits().jumped(3));
                assert_eq!(draw(&mut jumped, count), numbers(expected), "{at}");
            }
            "advance1000_raw2" => {
                generator.advance(1000);
                assert_eq!(draw(&mut generator, count), numbers(expected), "{at}");
            }
            other => panic!("no check for {other}"),
        }
    }
    case.len()
}

fn draw<B: BitGenerator>(generator: &mut Generator<B>, n: usize) -> Vec<u64> {
    (0..n).map(|_| generator.next_u64()).collect()
}

fn words(words: Vec<u32>) -> Vec<u64> {
    words.into_iter().map(u64::from).collect()
}

/// Numbers, or numbers as text where JSON's would lose bits.
fn numbers(value: &Value) -> Vec<u64> {
    let number = |value: &Value| match value.as_str() {
        Some(text) => text.parse().unwrap(),
        None => value.as_u64().unwrap(),
    };
    value.as_array().unwrap().iter().map(number).collect()
}

/// The bits of floats in C's hexadecimal notation, such as -0x1.8p+1.
fn floats(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|text| hex_float(text.as_str().unwrap())).collect()
}

fn hex_float(text: &str) -> u64 {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (1 << 63, rest),
        None => (0, text),
    };
    let (mantissa, exponent) = text.strip_prefix("0x").unwrap().split_once('p').unwrap();
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    assert!(fraction.len() <= 13, "{text}");
    let fraction = u64::from_str_radix(&format!("{fraction:0<13}"), 16).unwrap();
    let exponent: i64 = exponent.parse().unwrap();
    match whole {
        "0" => sign,
        "1" => sign | ((exponent + 1023) as u64) << 52 | fraction,
        _ => panic!("{text} is not normalised"),
    }
}

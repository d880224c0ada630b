//! Every case of a file of NumPy's streams. `SAMEBITS_NUMPY_STREAMS` names another file.

use samebits_rng::numpy::{BitGenerator, Generator, RandomState, SeedSequence, default_rng};
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

/// So many that all layers of the ziggurat occur and some numbers are redrawn. None lies in the
/// tail, whose logarithm is the C library's.
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

/// A range of three quarters of all words: without rejection, every third number would occur twice
/// as often.
#[test]
fn integers_of_a_wide_range_are_even() {
    let mut generator = default_rng(1);
    let mut counts = [0; 3];
    for _ in 0..3000 {
        let number = generator.integers(i64::MIN, 1 << 62).unwrap();
        counts[(number.wrapping_sub(i64::MIN) as u64 % 3) as usize] += 1;
    }
    assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
}

#[test]
fn a_state_is_the_key_and_how_much_of_it_is_used() {
    let mut random = RandomState::new(42);
    // A new key begins with the seed and counts as used up.
    let (key, position, gauss) = random.get_state();
    assert_eq!((key[0], position, gauss), (42, 624, None));
    random.random_sample();
    let (key, position, _) = random.get_state();
    assert_eq!(position, 2);
    let mut restored = RandomState::from_state(*key, position, None).unwrap();
    assert_eq!(restored.random_sample(), random.random_sample());
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

/// Returns numbers; those that JSON would round are strings.
fn numbers(value: &Value) -> Vec<u64> {
    let number = |value: &Value| match value.as_str() {
        Some(text) => text.parse().unwrap(),
        None => value.as_u64().unwrap(),
    };
    value.as_array().unwrap().iter().map(number).collect()
}

/// Returns the bits of floats in C's hexadecimal notation, such as -0x1.8p+1.
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

/// The draws of a generator under NumPy's names.
trait Draws {
    fn float(&mut self, name: &str, arguments: &[f64]) -> f64;
    fn choice(&mut self, n: usize, size: usize, replace: bool, p: Option<&[f64]>) -> Vec<i64>;
    fn permutation(&mut self, n: usize) -> Vec<i64>;
    fn shuffle(&mut self, items: &mut [i64]);
    fn randint(&mut self, low: i64, high: i64) -> i64;
    fn binomial(&mut self, n: i64, p: f64) -> i64;
}

macro_rules! draws {
    ($generator:ty, $random:ident, $integers:ident) => {
        impl Draws for $generator {
            fn float(&mut self, name: &str, arguments: &[f64]) -> f64 {
                match (name, arguments) {
                    ("random_sample", []) => self.$random(),
                    ("uniform", &[low, high]) => self.uniform(low, high),
                    ("standard_normal", []) => self.standard_normal(),
                    ("normal", &[loc, scale]) => self.normal(loc, scale).unwrap(),
                    ("standard_exponential", []) => self.standard_exponential(),
                    ("exponential", &[scale]) => self.exponential(scale).unwrap(),
                    (other, _) => panic!("no check for {other}{arguments:?}"),
                }
            }

            fn choice(
                &mut self,
                n: usize,
                size: usize,
                replace: bool,
                p: Option<&[f64]>,
            ) -> Vec<i64> {
                self.choice(n, size, replace, p).unwrap()
            }

            fn permutation(&mut self, n: usize) -> Vec<i64> {
                self.permutation(n).unwrap()
            }

            fn shuffle(&mut self, items: &mut [i64]) {
                self.shuffle(items);
            }

            fn randint(&mut self, low: i64, high: i64) -> i64 {
                self.$integers(low, high).unwrap()
            }

            fn binomial(&mut self, n: i64, p: f64) -> i64 {
                self.binomial(n, p).unwrap()
            }
        }
    };
}

draws!(RandomState, random_sample, randint);
draws!(Generator<Pcg64>, random, integers);

/// `numpy_draws.py` wrote the file.
#[test]
fn every_call_of_the_file_of_draws() {
    let cases: Value = serde_json::from_str(include_str!("numpy_draws.json")).unwrap();
    for case in cases.as_array().unwrap() {
        let (kind, seed) = (case["generator"].as_str().unwrap(), &case["seed"]);
        let mut generator: Box<dyn Draws> = match (kind, seed.as_u64()) {
            ("RandomState", Some(seed)) => Box::new(RandomState::new(seed as u32)),
            ("RandomState", None) => {
                let words: Vec<u32> = numbers(seed).into_iter().map(|word| word as u32).collect();
                Box::new(RandomState::from_words(&words).unwrap())
            }
            _ => Box::new(default_rng(seed.as_u64().unwrap())),
        };
        for (i, call) in case["calls"].as_array().unwrap().iter().enumerate() {
            let (name, arguments, expected) = (call[0].as_str().unwrap(), &call[1], &call[2]);
            let integer = |i: usize| arguments[i].as_i64().unwrap();
            let size = |i: usize| integer(i) as usize;
            let found = match name {
                "choice" => {
                    let p: Option<Vec<f64>> = arguments[3]
                        .as_array()
                        .map(|p| p.iter().map(|p| p.as_f64().unwrap()).collect());
                    let replace = arguments[2].as_bool().unwrap();
                    Value::from(generator.choice(size(0), size(1), replace, p.as_deref()))
                }
                "permutation" => Value::from(generator.permutation(size(0))),
                "shuffle" => {
                    let mut items: Vec<i64> = (0..integer(0)).collect();
                    generator.shuffle(&mut items);
                    Value::from(items)
                }
                "randint" => Value::from(generator.randint(integer(0), integer(1))),
                "binomial" => {
                    Value::from(generator.binomial(integer(0), arguments[1].as_f64().unwrap()))
                }
                _ => {
                    let arguments: Vec<f64> = arguments
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|argument| argument.as_f64().unwrap())
                        .collect();
                    let found = generator.float(name, &arguments);
                    let bits = hex_float(expected.as_str().unwrap());
                    assert_eq!(
                        found.to_bits(),
                        bits,
                        "call {i} of {kind}({seed}), {name}: {found:e}, expected {:e}",
                        f64::from_bits(bits)
                    );
                    continue;
                }
            };
            assert_eq!(&found, expected, "call {i} of {kind}({seed}): {name}{arguments}");
        }
    }
}

#[test]
fn what_numpy_refuses_is_an_error() {
    let mut random = RandomState::new(0);
    let before = random.clone();
    let mut refused = |p: Option<&[f64]>, n: usize, size: usize, replace: bool, why: &str| {
        let error = random.choice(n, size, replace, p).unwrap_err().to_string();
        assert!(error.starts_with("numpy::RandomState::choice: "), "{error}");
        assert!(error.ends_with(why), "{error}: {why}");
        let error = default_rng(0).choice(n, size, replace, p).unwrap_err().to_string();
        assert!(error.starts_with("numpy::Generator::choice: "), "{error}");
    };
    refused(None, 0, 1, true, "n is 0, but must be at least 1 to choose from");
    refused(None, 2, 3, false, "size is 3, but must be at most n without replacement");
    refused(Some(&[1.0]), 2, 1, true, "p has 1 elements, but 2 are needed to match n");
    refused(Some(&[1.5, -0.5]), 2, 1, true, "a probability is -0.5, but must be at least 0");
    refused(Some(&[0.5, f64::NAN]), 2, 1, true, "a probability is NaN, but must be at least 0");
    refused(Some(&[0.5, 0.4]), 2, 1, true, "the sum of p is 0.9, but must be 1");
    refused(Some(&[0.5, f64::INFINITY]), 2, 1, true, "the sum of p is inf, but must be 1");
    refused(Some(&[1.0, 0.0]), 2, 2, false, "must be at least size without replacement");
    refused(None, 1 << 50, 1 << 50, false, "bytes");
    assert!(random.normal(0.0, -1.0).is_err() && random.exponential(f64::NAN).is_err());
    for (n, p) in [(-1, 0.5), (5, -0.1), (5, 1.0000000000000002), (5, f64::NAN)] {
        let error = random.binomial(n, p).unwrap_err().to_string();
        assert!(error.starts_with("numpy::RandomState::binomial: "), "{error}");
        assert!(default_rng(0).binomial(n, p).is_err());
    }
    assert!(random.randint(3, 3).is_err() && RandomState::from_words(&[]).is_err());
    assert!(RandomState::from_state([1; 624], 625, None).is_err());
    // The recurrence reads only the highest bit of the first word.
    let first = |word: u32| {
        let mut key = [0; 624];
        key[0] = word;
        RandomState::from_state(key, 624, None)
    };
    assert!(first(1).is_err() && first(u32::MAX >> 1).is_err() && first(1 << 31).is_ok());
    assert_eq!(random, before);
}

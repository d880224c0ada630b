//! The f32 functions against CORE-MATH on samples: special values, every exponent, pseudo-random
//! inputs and known hard cases, at every SIMD level. `cargo xtask verify-math` does the same with
//! all 2^32 inputs.

mod f64;
mod hard;
mod oracle;
mod pow;

use oracle::{Function, Mismatch, functions};
use samebits_numerics::math::{self, UnaryF32};
use samebits_numerics::simd::Level;

/// Returns inputs at critical points, then some of every exponent.
fn sample() -> Vec<f32> {
    let mut inputs = Vec::new();
    let mut both = |x: f32| inputs.extend([x, -x]);
    let edges = [0u32, 1, 2, 3, 0x3f_ffff, 0x40_0000, 0x40_0001, 0x7f_fffe, 0x7f_ffff];
    let mut state = 1;
    for exponent in 0..256u32 {
        for mantissa in edges {
            both(f32::from_bits(exponent << 23 | mantissa));
        }
        for _ in 0..40 {
            both(f32::from_bits(exponent << 23 | random(&mut state) >> 9));
        }
    }
    // Small integers and halves, integers near the limits of exactness, bounds of exp.
    for i in 0..600 {
        both(i as f32 * 0.5);
    }
    for bound in [87.33654, 88.72284, 103.27893, 103.97208, 17.328_68, 9.010_913, 3.919_206] {
        for step in 0..64u32 {
            both(f32::from_bits(f32::to_bits(bound) - 32 + step));
        }
    }
    for power in 18..27 {
        for step in 0..64u32 {
            both(f32::from_bits(((1u32 << power) as f32).to_bits() - 32 + step));
        }
    }
    for _ in 0..200_000 {
        inputs.push(f32::from_bits(random(&mut state)));
    }
    inputs
}

/// Returns the upper half of Knuth's linear congruential generator.
fn random(state: &mut u64) -> u32 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 32) as u32
}

fn hard(name: &str) -> Vec<f32> {
    let cases = hard::HARD.iter().filter(|(function, _)| *function == name);
    cases.flat_map(|(_, bits)| bits.iter().map(|&b| f32::from_bits(b))).collect()
}

#[test]
fn correctly_rounded_on_samples_at_every_level() {
    let inputs = sample();
    for function in functions() {
        for level in Level::ALL {
            let wrong = function.check(level, &inputs);
            assert!(wrong.is_empty(), "{} {}: {:x?}", function.name, level.name(), &wrong[0]);
        }
    }
}

#[test]
fn correctly_rounded_on_hard_cases() {
    for function in functions() {
        let mut inputs = hard(function.name);
        inputs.extend(inputs.clone().iter().map(|x| -x));
        for level in Level::ALL {
            assert_eq!(function.check(level, &inputs), [], "{}", function.name);
            check_alone(&function, level, &inputs);
        }
    }
}

#[test]
fn correctly_rounded_at_special_values() {
    let positive =
        [0.0, 1e-45, 1e-38, f32::MIN_POSITIVE, 0.5, 1.0, 2.0, f32::MAX, f32::INFINITY, f32::NAN];
    let inputs: Vec<f32> = positive.into_iter().flat_map(|x| [x, -x]).collect();
    for function in functions() {
        for level in Level::ALL {
            check_alone(&function, level, &inputs);
        }
    }
}

/// Checks inputs one by one: among others, one that is special may have a whole block computed in
/// another way.
fn check_alone(function: &Function, level: Level, inputs: &[f32]) {
    for input in inputs.chunks(1) {
        assert_eq!(function.check(level, input), [], "{}", function.name);
    }
}

/// A slice of exponentials is first computed with a smaller precision, and again where its error could
/// matter.
#[test]
fn the_error_bound_of_exponentials_on_slices_holds() {
    let inputs: Vec<f32> = (0..1 << 23).map(|i| (i as f32 + 0.5) * -2.4e-6).collect();
    let want: Vec<u32> = inputs.iter().map(|&x| math::exp(x).to_bits()).collect();
    for level in Level::ALL {
        let mut y = vec![0.0; inputs.len()];
        math::Exp.map_at(level, &inputs, &mut y);
        assert!(y.iter().map(|y| y.to_bits()).eq(want.iter().copied()), "{level:?}");
    }
}

/// A special value may have its vector computed in another way.
#[test]
fn special_values_leave_their_neighbours_as_they_are() {
    let ordinary: Vec<f32> = (0..40).map(|i| i as f32 * 0.0493 - 0.97).collect();
    let special = [
        f32::NEG_INFINITY,
        -104.1,
        -103.9,
        -88.0,
        -87.1,
        -0.0,
        1e-42,
        87.1,
        88.8,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
    ];
    for function in functions() {
        for level in Level::ALL {
            for place in 0..ordinary.len() {
                for (i, &special) in special.iter().enumerate() {
                    let mut inputs = ordinary.clone();
                    inputs[place] = special;
                    // Also two of them.
                    inputs[(place + 1 + i) % ordinary.len()] = f32::NEG_INFINITY;
                    assert_eq!(function.check(level, &inputs), [], "{} {level:?}", function.name);
                }
            }
        }
    }
}

#[test]
fn hard_cases_name_functions() {
    for (name, inputs) in hard::HARD {
        assert!(functions().iter().any(|f| f.name == *name), "{name}");
        assert!(!inputs.is_empty());
    }
}

#[test]
fn slices_of_any_length_and_alignment_equal_scalars() {
    let mut state = 7;
    // Mostly ordinary values: in a short slice, one huge angle changes the path of sin.
    let x: Vec<f32> = (0..300)
        .map(|i| {
            let bits = random(&mut state);
            if i % 97 == 96 { f32::from_bits(bits) } else { bits as f32 * 1e-8 - 21.0 }
        })
        .collect();
    for function in functions() {
        let want: Vec<u32> = x.iter().map(|&x| (function.eval)(x).to_bits()).collect();
        for level in Level::ALL {
            for start in [0, 1, 2, 3, 5] {
                for length in [0, 1, 2, 3, 7, 8, 9, 31, 64, 127, 128, 129, 295] {
                    let mut y = vec![0.0; length];
                    (function.map_at)(level, &x[start..start + length], &mut y);
                    let got: Vec<u32> = y.iter().map(|y| y.to_bits()).collect();
                    assert_eq!(got, want[start..start + length], "{}", function.name);
                }
            }
        }
    }
}

#[test]
fn every_nan_becomes_the_canonical_one() {
    let mut state = 3;
    let nans: Vec<f32> = [0x7f80_0001, 0x7fc0_0000, 0x7fff_ffff, 0xff80_0001, 0xffff_ffff]
        .into_iter()
        .chain((0..4000).map(|_| random(&mut state) | 0x7f80_0001))
        .map(f32::from_bits)
        .collect();
    for function in functions() {
        for level in Level::ALL {
            let mut y = vec![0.0; nans.len()];
            (function.map_at)(level, &nans, &mut y);
            assert!(y.iter().all(|y| y.to_bits() == 0x7fc0_0000), "{}", function.name);
        }
        assert!(nans.iter().all(|&x| (function.eval)(x).to_bits() == 0x7fc0_0000));
    }
}

#[test]
fn slice_functions_are_the_ones_of_their_names() {
    let x = [0.3, 0.7];
    let mut y = [0.0; 2];
    math::slice::exp(&x, &mut y);
    assert_eq!(y.map(f32::to_bits), x.map(|x| math::exp(x).to_bits()));
    math::slice::sin(&x, &mut y);
    assert_eq!(y.map(f32::to_bits), x.map(|x| math::sin(x).to_bits()));
}

#[test]
#[should_panic(expected = "equally long")]
fn slices_of_different_lengths_are_refused() {
    math::slice::exp(&[0.0; 3], &mut [0.0; 2]);
}

/// The function exp with the coefficient of r^4 too large by one part in 2^26.
#[derive(Clone, Copy, Default)]
struct FaultyExp;

impl UnaryF32 for FaultyExp {
    const NAME: &'static str = "exp";
    fn eval(self, x: f32) -> f32 {
        let r = f64::from(x);
        if r.abs() > 0.34 {
            return math::exp(x);
        }
        let mut p = 0.0;
        let mut factorial = 1.0;
        for i in 0..14 {
            factorial *= f64::max(f64::from(i), 1.0);
            let fault = if i == 4 { 1.0 + 1.0 / f64::from(1 << 26) } else { 1.0 };
            p += fault * (0..i).map(|_| r).product::<f64>() / factorial;
        }
        bits_of(p as f32)
    }
}

fn bits_of(y: f32) -> f32 {
    f32::from_bits(oracle::bits(y))
}

/// The check must be able to fail, even on a fault far below the spacing of f32.
#[test]
fn a_planted_fault_is_seen() {
    let faulty = Function::new(FaultyExp, core_math::expf);
    let mut near_zero: Vec<f32> = (0..1 << 22).map(|i| i as f32 / 12.4e6).collect();
    near_zero.push(1.0);
    let wrong = faulty.check(Level::Portable, &near_zero);
    assert!(!wrong.is_empty() && wrong.len() < 10_000, "{}", wrong.len());
    // Each is off by one in the last place, and the correct function passes on the same inputs.
    assert!(wrong.iter().all(|m| m.got.abs_diff(m.want) == 1));
    assert_eq!(Function::new(math::Exp, core_math::expf).check(Level::Avx512, &near_zero), []);
}

/// An exception handled specially, without its handling: the hard cases alone must catch it.
#[test]
fn hard_cases_catch_an_error_of_one_f64_ulp() {
    fn nudged(_: Level, input: &[f32], output: &mut [f32]) {
        for (y, &x) in output.iter_mut().zip(input) {
            let wide = core_math::log(f64::from(x));
            *y = f64::from_bits(wide.to_bits() + 1) as f32;
        }
    }
    let faulty = Function { name: "log", map_at: nudged, eval: math::log, truth: core_math::logf };
    let wrong: Vec<Mismatch> = faulty.check(Level::Portable, &hard("log"));
    assert!(!wrong.is_empty());
}

/// The oracle for the logistic function against values computed with 300 bits.
#[test]
fn sigmoid_oracle() {
    for (x, want) in [
        (0xba92_8601, 0x3eff_db5f),
        (0x3d21_bc81, 0x3f02_86dc),
        (0xbe10_4170, 0x3eed_ff70),
        (0x34c0_0000, 0x3f00_0001),
        (0xb440_0000, 0x3eff_ffff),
    ] {
        assert_eq!(oracle::sigmoid(f32::from_bits(x)).to_bits(), want);
    }
}

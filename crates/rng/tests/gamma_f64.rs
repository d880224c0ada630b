//! Gamma, beta and Dirichlet numbers of f64.

// Tests may use the platform's functions: their rounding does not reach a result.
#![allow(clippy::disallowed_methods)]

#[allow(dead_code, reason = "each test file uses its own part")]
mod common;

use common::{kolmogorov_smirnov, tabulated};
use samebits_rng::{Draw, Error, Generator};

const N: usize = 50_000;
/// A limit that Kolmogorov's distribution exceeds with a probability of 10^-4.
const KS: f64 = 2.225;
const SHAPES: [f64; 7] = [0.01, 0.3, 0.999, 1.0, 2.5, 40.0, 1e6];

fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        // The error of a logarithm of 86 becomes that of its exponential.
        assert!((found / expected - 1.0).abs() < 4e-14, "{found:e}, not {expected:e}");
    }
}

/// The numbers come from a second program, written from the documentation alone, which computes
/// with 60 digits.
#[test]
fn known_answers() {
    let draw = Draw::new(7, 3, 1 << 35);
    let mut out = [0.0; 7];
    draw.gamma_f64(0, &SHAPES, &mut out).unwrap();
    let expected = [
        3.307541569579893e-38,
        0.19321661964669584,
        0.17189656531394545,
        0.19128266458951604,
        2.6820082902253053,
        43.27953698173578,
        1000924.972366925,
    ];
    close(&out, &expected);
    draw.loggamma_f64(0, &SHAPES, &mut out).unwrap();
    let expected = [
        -86.30202834856762,
        -1.6439433378874628,
        -1.7608623475146177,
        -1.6540030256200386,
        0.9865658759155989,
        3.767679936277113,
        13.816435102807871,
    ];
    close(&out, &expected);
    let betas = [2.0, 0.02, 4.0, 0.4, 1.0, 30.0, 1e6];
    draw.beta_f64(0, &SHAPES, &betas, &mut out).unwrap();
    let expected = [
        8.261671633125249e-38,
        0.9999973922901503,
        0.03610870767796666,
        0.9765916749922205,
        0.5763064933734094,
        0.5618765112493881,
        0.4998423701950433,
    ];
    close(&out, &expected);
    let mut rows = [0.0; 6];
    draw.dirichlet_f64(0, &[0.3, 1.0, 2.5], &mut rows).unwrap();
    let expected = [
        0.00045952169726024526,
        0.596224937460651,
        0.40331554084208876,
        0.00011295098867123507,
        0.23850577620275373,
        0.761381272808575,
    ];
    close(&rows, &expected);
}

#[test]
fn a_part_is_that_of_the_whole_and_a_scalar_is_the_first() {
    let (draw, mut part) = (Draw::new(7, 3, 5), [0.0; 3]);
    let (mut gamma, mut beta) = ([0.0; 7], [0.0; 7]);
    draw.gamma_f64(0, &SHAPES, &mut gamma).unwrap();
    draw.gamma_f64(4, &SHAPES[4..], &mut part).unwrap();
    assert_eq!(part, gamma[4..]);
    draw.beta_f64(0, &SHAPES, &SHAPES, &mut beta).unwrap();
    draw.beta_f64(4, &SHAPES[4..], &SHAPES[4..], &mut part).unwrap();
    assert_eq!(part, beta[4..]);
    let at = |block| Generator::new(7).with_stream(3).with_offset(block);
    assert_eq!(at(6).gamma(0.3), Ok(gamma[1]));
    assert_eq!(at(6).beta(0.3, 0.3), Ok(beta[1]));
    let (mut rows, mut row) = ([0.0; 14], [0.0; 7]);
    draw.dirichlet_f64(0, &SHAPES, &mut rows).unwrap();
    draw.dirichlet_f64(1, &SHAPES, &mut row).unwrap();
    assert_eq!(row, rows[7..]);
}

#[test]
fn the_distributions_are_right() {
    let mut generator = Generator::new(0x7e57).fold_in(101);
    let mut sample = vec![0.0; N];
    // The distribution functions of shapes 1, 2 and 1/2 are elementary, except for erf in the last.
    generator.fill_gamma_f64(&vec![1.0; N], &mut sample).unwrap();
    assert!(kolmogorov_smirnov(sample.clone(), |x| 1.0 - (-x).exp()) < KS);
    generator.fill_gamma_f64(&vec![2.0; N], &mut sample).unwrap();
    assert!(kolmogorov_smirnov(sample.clone(), |x| 1.0 - (1.0 + x) * (-x).exp()) < KS);
    generator.fill_loggamma_f64(&vec![0.5; N], &mut sample).unwrap();
    let root_of_pi = std::f64::consts::PI.sqrt();
    let half = tabulated(-60.0, 10.0, |y: f64| (0.5 * y - y.exp()).exp() / root_of_pi);
    assert!(kolmogorov_smirnov(sample.clone(), half) < KS);
    generator.fill_beta_f64(&vec![3.0; N], &vec![1.0; N], &mut sample).unwrap();
    assert!(kolmogorov_smirnov(sample.clone(), |x| x * x * x) < KS);
    generator.fill_beta_f64(&vec![0.5; N], &vec![0.5; N], &mut sample).unwrap();
    let arcsine = |x: f64| 2.0 / std::f64::consts::PI * x.sqrt().asin();
    assert!(kolmogorov_smirnov(sample, arcsine) < KS);
    let mut rows = vec![0.0; 4 * N];
    generator.fill_dirichlet_f64(&[0.3, 1.0, 2.0, 5.0], &mut rows).unwrap();
    assert!(rows.chunks(4).all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-15));
    let second = rows.iter().skip(1).step_by(4).copied().collect();
    assert!(kolmogorov_smirnov(second, |x| 1.0 - (1.0 - x).powf(7.3)) < KS);
}

#[test]
fn all_bits_are_used() {
    let mut sample = vec![0.0; 1000];
    Generator::new(1).fill_gamma_f64(&[3.0; 1000], &mut sample).unwrap();
    assert!(sample.iter().filter(|x| f64::from(**x as f32) == **x).count() < 3);
}

#[test]
fn what_is_refused_moves_nothing() {
    let (mut g, mut out) = (Generator::new(1), [0.0; 2]);
    let errors = [
        g.fill_gamma_f64(&[1.0, 0.0], &mut out),
        g.fill_loggamma_f64(&[f64::NAN, 1.0], &mut out),
        g.fill_beta_f64(&[1.0, 1.0], &[1.0, f64::INFINITY], &mut out),
        g.fill_dirichlet_f64(&[1.0, -1.0], &mut out),
        g.fill_dirichlet_f64(&[], &mut out),
        g.fill_gamma_f64(&[1.0], &mut out),
        g.fill_dirichlet_f64(&[1.0; 3], &mut out),
        g.gamma(-1.0f64).map(|_| ()),
        g.beta(1.0, 0.0f64).map(|_| ()),
    ];
    let ops = ["gamma_f64", "loggamma_f64", "beta_f64", "dirichlet_f64", "dirichlet_f64"];
    let ops = ops.into_iter().chain(["gamma_f64", "dirichlet_f64", "gamma", "beta"]);
    for (i, (error, op)) in errors.into_iter().zip(ops).enumerate() {
        let error = error.unwrap_err();
        let kind = matches!(error, Error::Length { .. }) == (i == 5 || i == 6);
        assert!(kind && error.to_string().starts_with(&format!("{op}: ")), "{error}");
    }
    assert_eq!(g.offset(), 0);
}

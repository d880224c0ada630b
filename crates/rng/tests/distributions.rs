//! Every distribution against its distribution function, with a fixed seed. A correct sampler
//! exceeds the bounds once in about 10,000 seeds.

// Tests may use the platform's functions: their rounding does not reach a result.
#![allow(clippy::disallowed_methods)]

mod common;

use std::collections::BTreeSet;

use common::{chi_square, integral, kolmogorov_smirnov, tabulated};
use samebits_rng::{Generator, init};

const N: usize = 200_000;
/// A limit that Kolmogorov's distribution exceeds with a probability of 10^-4.
const KS: f64 = 2.225;
/// A limit that a normal deviate's magnitude exceeds as rarely.
const DEVIATE: f64 = 3.9;

fn generator(test: u64) -> Generator {
    Generator::new(0x7e57).fold_in(test)
}

fn wide(sample: Vec<f32>) -> Vec<f64> {
    sample.into_iter().map(f64::from).collect()
}

fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

fn log_gamma(x: f64) -> f64 {
    // Stirling's series, shifted to arguments for which it is exact enough.
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

fn log_choose(n: u64, k: u64) -> f64 {
    log_gamma(n as f64 + 1.0) - log_gamma(k as f64 + 1.0) - log_gamma((n - k) as f64 + 1.0)
}

#[test]
fn the_statistics_notice_a_wrong_distribution() {
    let mut sample = vec![0.0; N];
    generator(0).fill_uniform_f64(&mut sample, 0.0, 1.0).unwrap();
    let slightly_bent = sample.iter().map(|x| x.powf(1.02)).collect();
    assert!(kolmogorov_smirnov(sample, |x| x) < KS);
    assert!(kolmogorov_smirnov(slightly_bent, |x| x) > KS);
    assert!(chi_square(&[10_000, 10_100], &[0.5, 0.5]).abs() < DEVIATE);
    assert!(chi_square(&[10_000, 11_000], &[0.5, 0.5]) > DEVIATE);
}

#[test]
fn uniform() {
    let mut sample = vec![0.0; N];
    generator(1).fill_uniform_f32(&mut sample, -1.0, 3.0).unwrap();
    assert!(sample.iter().all(|x| (-1.0..3.0).contains(x)));
    assert!(kolmogorov_smirnov(wide(sample), |x| (x + 1.0) / 4.0) < KS);

    let mut sample = vec![0.0; N];
    generator(2).fill_uniform_f64(&mut sample, 2.0, 5.0).unwrap();
    assert!(kolmogorov_smirnov(sample, |x| (x - 2.0) / 3.0) < KS);
}

#[test]
fn rounding_never_reaches_the_upper_bound() {
    // 2^24 and 2^24 + 2 are neighbours: about half of the sums round to the bound.
    let mut sample = vec![0.0; 1000];
    generator(3).fill_uniform_f32(&mut sample, 16777216.0, 16777218.0).unwrap();
    assert!(sample.iter().all(|x| *x == 16777216.0));
    generator(3).fill_uniform_f32(&mut sample, 5.0, 5.0).unwrap();
    assert!(sample.iter().all(|x| *x == 5.0));
}

#[test]
fn normal() {
    let below = tabulated(-9.0, 9.0, density);
    let mut sample = vec![0.0; N];
    generator(4).fill_normal_f32(&mut sample, 1.5, 2.0).unwrap();
    assert!(kolmogorov_smirnov(wide(sample), |x| below((x - 1.5) / 2.0)) < KS);

    let mut sample = vec![0.0; N];
    generator(5).fill_normal_f64(&mut sample, 0.0, 1.0).unwrap();
    // Neighbours come from one pair of uniform numbers and must still be independent.
    let products: Vec<f64> = sample.chunks_exact(2).map(|pair| pair[0] * pair[1]).collect();
    let mean = products.iter().sum::<f64>() / (products.len() as f64).sqrt();
    assert!(mean.abs() < DEVIATE, "{mean}");
    assert!(kolmogorov_smirnov(sample, &below) < KS);
}

#[test]
fn log_normal() {
    let below = tabulated(-9.0, 9.0, density);
    let mut sample = vec![0.0; N];
    generator(6).fill_log_normal_f32(&mut sample, 0.5, 0.25).unwrap();
    assert!(kolmogorov_smirnov(wide(sample), |x| below((x.ln() - 0.5) / 0.25)) < KS);
}

#[test]
fn exponential() {
    let mut sample = vec![0.0; N];
    generator(7).fill_exponential_f32(&mut sample, 2.5).unwrap();
    assert!(kolmogorov_smirnov(wide(sample), |x| 1.0 - (-2.5 * x).exp()) < KS);
}

#[test]
fn truncated_normal() {
    // Around the mean, one-sided, far below and far above it.
    for (case, low, high) in
        [(0, -2.0, 2.0), (1, 0.5, f32::INFINITY), (2, -9.0, -8.0), (3, 8.0, 9.0), (4, 30.0, 31.0)]
    {
        let mut sample = vec![0.0; N / 4];
        let mut generator = generator(8).fold_in(case);
        generator.fill_truncated_normal_f32(&mut sample, 0.0, 1.0, low, high).unwrap();
        assert!(sample.iter().all(|x| (low..=high).contains(x)));
        // Relative to the near bound, so that nothing underflows.
        let near = if low.abs() < high.abs() { f64::from(low) } else { f64::from(high) };
        let relative = |x: f64| (-0.5 * (x - near) * (x + near)).exp();
        let (low, high) = (f64::from(low), f64::from(high).min(9.0f64.max(f64::from(low) + 1.0)));
        let below = tabulated(low, high, relative);
        let all = integral(low, high, relative);
        let distance = kolmogorov_smirnov(wide(sample), |x| below(x) / all);
        assert!(distance < KS, "case {case}: {distance}");
    }
}

#[test]
fn bernoulli_and_dropout() {
    for (case, p) in [(0, 0.3), (1, 0.999), (2, 1e-3)] {
        let mut sample = vec![false; N];
        generator(9).fold_in(case).fill_bernoulli(&mut sample, p).unwrap();
        let yes = sample.iter().filter(|x| **x).count() as u64;
        assert!(chi_square(&[yes, N as u64 - yes], &[p, 1.0 - p]) < DEVIATE);

        let mut mask = vec![0; N];
        generator(10).fold_in(case).fill_dropout_mask(p, &mut mask).unwrap();
        let kept = mask.iter().filter(|x| **x == 1).count() as u64;
        assert!(chi_square(&[kept, N as u64 - kept], &[1.0 - p, p]) < DEVIATE);
    }
    for (p, expected) in [(0.0, false), (1.0, true)] {
        let mut sample = vec![!expected; 1000];
        generator(9).fill_bernoulli(&mut sample, p).unwrap();
        assert!(sample.iter().all(|x| *x == expected), "p = {p}");
    }
    let p: Vec<f32> = (0..N).map(|i| (i % 4) as f32 / 4.0).collect();
    let mut sample = vec![false; N];
    generator(11).fill_bernoulli_each(&p, &mut sample).unwrap();
    for class in 0..4 {
        let found = sample.iter().skip(class).step_by(4).filter(|x| **x).count() as f64;
        let (n, p) = (N as f64 / 4.0, class as f64 / 4.0);
        assert!((found - n * p).abs() <= DEVIATE * (n * p * (1.0 - p)).sqrt());
    }
}

#[test]
fn dropout_multiplies_by_the_mask() {
    let mut input = vec![0.0; 1003];
    generator(12).fill_normal_f32(&mut input, 0.0, 1.0).unwrap();
    (input[3], input[4]) = (f32::NAN, f32::INFINITY);
    let (mut out, mut mask) = (vec![0.0; 1003], vec![0; 1003]);
    generator(13).dropout(&input, 0.4, &mut out, &mut mask).unwrap();
    let mut alone = vec![0; 1003];
    generator(13).fill_dropout_mask(0.4, &mut alone).unwrap();
    assert_eq!(mask, alone);
    let scale = samebits_rng::dropout_scale(0.4);
    for i in 0..input.len() {
        let kept = input[i] * scale;
        let kept = if kept.is_nan() { f32::from_bits(0x7fc00000) } else { kept };
        let expected = if mask[i] == 1 { kept } else { 0.0 };
        assert_eq!(out[i].to_bits(), expected.to_bits(), "element {i}");
    }
    generator(13).dropout(&input, 1.0, &mut out, &mut mask).unwrap();
    assert!(out.iter().all(|x| x.to_bits() == 0));
}

#[test]
fn integers() {
    let mut sample = vec![0; N];
    generator(14).fill_randint(&mut sample, -3, 7).unwrap();
    let mut found = [0; 10];
    sample.iter().for_each(|x| found[(x + 3) as usize] += 1);
    assert!(chi_square(&found, &[0.1; 10]) < DEVIATE);

    // A third of all words is rejected in this range, so redraws are common.
    let (low, high) = (i64::MIN, 1i64 << 62);
    generator(15).fill_randint(&mut sample, low, high).unwrap();
    let mut found = [0; 3];
    sample.iter().for_each(|x| found[(x.wrapping_sub(low) as u64 >> 62) as usize] += 1);
    assert!(chi_square(&found, &[1.0 / 3.0; 3]) < DEVIATE);

    generator(15).fill_randint(&mut sample, i64::MIN, i64::MAX).unwrap();
    generator(15).fill_randint(&mut sample, 5, 6).unwrap();
    assert!(sample.iter().all(|x| *x == 5));
}

#[test]
fn permutations() {
    // All 24 orders of four things, and the position of the first of 1000.
    let (mut orders, mut places) = ([0; 24], vec![0; 1000]);
    let mut generator = generator(16);
    for _ in 0..24_000 {
        let order = generator.permutation(4).unwrap();
        let rank = order.iter().enumerate().fold(0, |rank, (i, x)| {
            let smaller = order[i + 1..].iter().filter(|y| *y < x).count();
            rank * (4 - i) + smaller
        });
        orders[rank] += 1;
    }
    assert!(chi_square(&orders, &[1.0 / 24.0; 24]) < DEVIATE);
    for _ in 0..2_000 {
        let order = generator.permutation(1000).unwrap();
        places[order.iter().position(|x| *x == 0).unwrap()] += 1;
        places[order.iter().position(|x| *x == 999).unwrap()] += 1;
    }
    assert!(chi_square(&places, &[1e-3; 1000]) < DEVIATE);

    let mut items: Vec<usize> = (0..100).collect();
    generator.shuffle(&mut items).unwrap();
    assert!(!items.is_sorted());
    items.sort();
    assert!(items.into_iter().eq(0..100));
}

#[test]
fn multinomial_with_replacement() {
    let weights = [1.0, 0.0, 3.0, 0.5, 2.5, 0.0];
    let mut sample = vec![0; N];
    generator(17).fill_multinomial(&weights, &mut sample).unwrap();
    let mut found = [0; 6];
    sample.iter().for_each(|k| found[*k as usize] += 1);
    assert_eq!((found[1], found[5]), (0, 0));
    let found = [found[0], found[2], found[3], found[4]];
    assert!(chi_square(&found, &[1.0 / 7.0, 3.0 / 7.0, 0.5 / 7.0, 2.5 / 7.0]) < DEVIATE);
}

#[test]
fn multinomial_without_replacement() {
    let weights = [1.0, 0.0, 2.0, 3.0];
    let mut generator = generator(18);
    let mut found = [0; 6];
    for _ in 0..50_000 {
        let mut pair = [0; 2];
        generator.fill_multinomial_without_replacement(&weights, &mut pair).unwrap();
        found[match pair {
            [0, 2] => 0,
            [0, 3] => 1,
            [2, 0] => 2,
            [2, 3] => 3,
            [3, 0] => 4,
            [3, 2] => 5,
            _ => panic!("{pair:?} cannot be drawn"),
        }] += 1;
    }
    // The first by weight, the second by weight among the others.
    let chance = |a: f64, b: f64| a / 6.0 * b / (6.0 - a);
    let chances = [
        chance(1.0, 2.0),
        chance(1.0, 3.0),
        chance(2.0, 1.0),
        chance(2.0, 3.0),
        chance(3.0, 1.0),
        chance(3.0, 2.0),
    ];
    assert!(chi_square(&found, &chances) < DEVIATE);
    let mut all = [0; 3];
    generator.fill_multinomial_without_replacement(&weights, &mut all).unwrap();
    all.sort();
    assert_eq!(all, [0, 2, 3]);
}

#[test]
fn gamma() {
    for (case, shape) in [(0, 0.3f32), (1, 1.0), (2, 2.5), (3, 40.0)] {
        let mut sample = vec![0.0; N / 2];
        let shapes = vec![shape; sample.len()];
        generator(19).fold_in(case).fill_gamma_f32(&shapes, &mut sample).unwrap();
        let a = f64::from(shape);
        // In terms of the logarithm, whose density is smooth for small shapes, too.
        let density = |y: f64| (a * y - y.exp() - log_gamma(a)).exp();
        let below = tabulated(-60.0, 10.0, density);
        let logs = sample.iter().map(|x| f64::from(*x).ln()).collect();
        let distance = kolmogorov_smirnov(logs, below);
        assert!(distance < KS, "shape {shape}: {distance}");
    }
}

#[test]
fn the_logarithm_of_gamma() {
    for (case, shape) in [(0, 0.3f32), (1, 1.0), (2, 40.0), (3, 0.01)] {
        let (mut sample, mut logs) = (vec![0.0; N / 2], vec![0.0; N / 2]);
        let shapes = vec![shape; sample.len()];
        generator(19).fold_in(case).fill_gamma_f32(&shapes, &mut sample).unwrap();
        generator(19).fold_in(case).fill_loggamma_f32(&shapes, &mut logs).unwrap();
        let least = f64::from(f32::MIN_POSITIVE);
        for (&x, &log) in sample.iter().zip(&logs) {
            let (x, from_log) = (f64::from(x), f64::from(log).exp().max(least));
            assert!((from_log / x - 1.0).abs() < 1e-5, "shape {shape}: {x:e} and e^{log}");
        }
        let tiny = logs.iter().filter(|log| f64::from(**log) < least.ln()).count();
        let share = tiny as f64 / logs.len() as f64;
        // P(x < least) is least^shape / gamma(shape + 1), except for a factor of 1 - 1e-38.
        let a = f64::from(shape);
        let expected = (a * least.ln() - log_gamma(a + 1.0)).exp();
        assert!((share - expected).abs() < 0.01, "shape {shape}: {share}, not {expected}");
    }
}

#[test]
fn laplace_gumbel_and_cauchy() {
    let laplace = |x: f64| if x < 0.0 { 0.5 * x.exp() } else { 1.0 - 0.5 * (-x).exp() };
    let gumbel = |x: f64| (-(-x).exp()).exp();
    let cauchy = |x: f64| 0.5 + x.atan() / std::f64::consts::PI;
    let placed = |x: f64| (x - 1.5) / 2.0;
    let (mut narrow, mut wide_sample) = (vec![0.0f32; N], vec![0.0f64; N]);
    let g = || generator(26);
    g().fill_laplace(&mut narrow, 1.5, 2.0).unwrap();
    g().fill_laplace(&mut wide_sample, 1.5, 2.0).unwrap();
    assert!(kolmogorov_smirnov(wide(narrow.clone()), |x| laplace(placed(x))) < KS);
    assert!(kolmogorov_smirnov(wide_sample.clone(), |x| laplace(placed(x))) < KS);
    g().fill_gumbel(&mut narrow, 1.5, 2.0).unwrap();
    g().fill_gumbel(&mut wide_sample, 1.5, 2.0).unwrap();
    assert!(kolmogorov_smirnov(wide(narrow.clone()), |x| gumbel(placed(x))) < KS);
    assert!(kolmogorov_smirnov(wide_sample.clone(), |x| gumbel(placed(x))) < KS);
    g().fill_cauchy(&mut narrow, 1.5, 2.0).unwrap();
    g().fill_cauchy(&mut wide_sample, 1.5, 2.0).unwrap();
    assert!(kolmogorov_smirnov(wide(narrow), |x| cauchy(placed(x))) < KS);
    assert!(kolmogorov_smirnov(wide_sample.clone(), |x| cauchy(placed(x))) < KS);
    g().fill_exponential_f64(&mut wide_sample, 2.5).unwrap();
    assert!(kolmogorov_smirnov(wide_sample, |x| 1.0 - (-2.5 * x).exp()) < KS);

    let mut still = [0.0f32; 9];
    g().fill_cauchy(&mut still, 4.0, 0.0).unwrap();
    assert_eq!(still, [4.0; 9]);
}

/// A few elements against their formulas, with the platform's functions.
#[test]
fn quantiles_are_those_of_their_words() {
    let draw = generator(27).draw(0);
    let (mut words, mut pairs) = ([0; 400], [0; 400]);
    draw.words(0, &mut words);
    draw.words64(0, &mut pairs);
    let (mut narrow, mut wide) = ([0.0f32; 400], [0.0f64; 400]);
    let mut check = |fill: &dyn Fn(&mut [f32], &mut [f64]), formula: &dyn Fn(f64) -> f64| {
        fill(&mut narrow, &mut wide);
        for i in 0..400 {
            let u = (f64::from(words[i]) + 0.5) / 4294967296.0;
            let expected = formula(u);
            let error = (f64::from(narrow[i]) - expected).abs();
            assert!(error <= 1e-7 * expected.abs(), "{} for {expected}", narrow[i]);
            let expected = formula(((pairs[i] >> 12) as f64 + 0.5) / 4503599627370496.0);
            let error = (wide[i] - expected).abs();
            // The formula itself loses digits near a zero and a pole of the tangent.
            let tolerance = 1e-14 * expected.abs().max(0.1) * (1.0 + expected.abs());
            assert!(error <= tolerance, "{} for {expected}", wide[i]);
        }
    };
    check(
        &|narrow, wide| {
            draw.laplace(0, narrow, 0.0, 1.0).unwrap();
            draw.laplace(0, wide, 0.0, 1.0).unwrap();
        },
        &|u| if u < 0.5 { (2.0 * u).ln() } else { -(2.0 * (1.0 - u)).ln() },
    );
    check(
        &|narrow, wide| {
            draw.gumbel(0, narrow, 0.0, 1.0).unwrap();
            draw.gumbel(0, wide, 0.0, 1.0).unwrap();
        },
        &|u| -(-u.ln()).ln(),
    );
    check(
        &|narrow, wide| {
            draw.cauchy(0, narrow, 0.0, 1.0).unwrap();
            draw.cauchy(0, wide, 0.0, 1.0).unwrap();
        },
        &|u| -1.0 / (std::f64::consts::PI * u).tan(),
    );
}

#[test]
fn geometric() {
    for (case, p) in [(0, 0.5), (1, 0.9), (2, 0.05), (3, 1e-3)] {
        let mut sample = vec![0u64; N];
        generator(28).fold_in(case).fill_geometric(&mut sample, p).unwrap();
        let mut found = vec![0; 20_000];
        sample.iter().for_each(|n| found[*n as usize - 1] += 1);
        let chances: Vec<f64> = (0..20_000).map(|n| p * (1.0 - p).powi(n)).collect();
        let deviate = chi_square(&found, &chances);
        assert!(deviate < DEVIATE, "p {p}: {deviate}");
    }
    let mut edges = [0i64; 3];
    generator(28).fill_geometric(&mut edges, 1.0).unwrap();
    assert_eq!(edges, [1; 3]);
    generator(28).fill_geometric(&mut edges, f64::MIN_POSITIVE).unwrap();
    assert_eq!(edges, [i64::MAX; 3]);
    let mut sample = vec![0.0f64; N / 10];
    generator(28).fill_geometric(&mut sample, 1e-15).unwrap();
    assert!(kolmogorov_smirnov(sample, |x| 1.0 - (-1e-15 * x).exp()) < KS);
}

#[test]
fn beta() {
    for (case, a, b) in
        [(0, 2.0f32, 3.0f32), (1, 0.5, 0.5), (2, 0.02, 4.0), (3, 30.0, 0.4), (4, 1.0, 1.0)]
    {
        let mut sample = vec![0.0; N / 4];
        let (alphas, betas) = (vec![a; sample.len()], vec![b; sample.len()]);
        generator(29).fold_in(case).fill_beta_f32(&alphas, &betas, &mut sample).unwrap();
        assert!(sample.iter().all(|x| (0.0..=1.0).contains(x)));
        let (a, b) = (f64::from(a), f64::from(b));
        let scale = log_gamma(a + b) - log_gamma(a) - log_gamma(b);
        // In terms of the logarithm of x / (1 - x), whose density is smooth for small shapes, too.
        // Numbers that f32 rounds to 0 or 1 lie at the ends.
        let density = |y: f64| {
            let (x, rest) = (1.0 / (1.0 + (-y).exp()), 1.0 / (1.0 + y.exp()));
            (scale + a * x.ln() + b * rest.ln()).exp()
        };
        let below = tabulated(-700.0, 60.0, density);
        // 1 - x has lost its digits near 1.
        let near = if b < 1.0 { 10.0 } else { 60.0 };
        let logits: Vec<f64> = wide(sample).iter().map(|x| (x / (1.0 - x)).ln()).collect();
        let n = logits.len() as f64;
        let distance =
            [-90.0, -50.0, -20.0, -10.0, -5.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 5.0, near]
                .map(|y| {
                    let found = logits.iter().filter(|logit| **logit <= y).count() as f64;
                    (found / n - below(y)).abs() * n.sqrt()
                })
                .into_iter()
                .fold(0.0, f64::max);
        assert!(distance < KS, "{a}, {b}: {distance}");
    }
    // Shapes so small that a gamma number would be 0.
    let mut sample = vec![0.0; 1000];
    generator(29).fill_beta_f32(&[1e-30; 1000], &[1e-30; 1000], &mut sample).unwrap();
    let ones = sample.iter().filter(|x| **x == 1.0).count();
    assert!(sample.iter().all(|x| *x == 0.0 || *x == 1.0) && (400..600).contains(&ones), "{ones}");
}

#[test]
fn dirichlet() {
    let alpha = [0.3f32, 1.0, 2.0, 5.0];
    let mut sample = vec![0.0; 4 * N / 4];
    generator(30).fill_dirichlet_f32(&alpha, &mut sample).unwrap();
    for row in sample.chunks(4) {
        assert!((wide(row.to_vec()).iter().sum::<f64>() - 1.0).abs() < 1e-6, "{row:?}");
    }
    // The shares are beta numbers: that of shape 1 of 8.3 has the distribution 1 - (1 - x)^7.3. So
    // have their ratios, which do not depend on the other shares.
    let second = wide(sample.iter().skip(1).step_by(4).copied().collect());
    assert!(kolmogorov_smirnov(second, |x| 1.0 - (1.0 - x).powf(7.3)) < KS);
    let ratios = sample.chunks(4).map(|row| f64::from(row[1]) / f64::from(row[1] + row[2]));
    assert!(kolmogorov_smirnov(ratios.collect(), |x| 1.0 - (1.0 - x).powi(2)) < KS);
    // A row can be computed alone.
    let mut row = [0.0; 4];
    generator(30).draw(0).dirichlet_f32(5, &alpha, &mut row).unwrap();
    assert_eq!(row, sample[20..24]);
    let mut tiny = [0.0; 3];
    generator(30).fill_dirichlet_f32(&[1e-40; 3], &mut tiny).unwrap();
    assert_eq!(tiny.iter().sum::<f32>(), 1.0);
}

#[test]
fn categories_by_rows() {
    let weights = [1.0f32, 0.0, 3.0, 0.5, 2.5, 1.0, 0.0, 0.0];
    let mut sample = vec![0; 2 * N];
    generator(31).fill_multinomial_rows(&weights, 2, &mut sample).unwrap();
    let logits = weights.map(|weight| f64::from(weight).ln() as f32 + 300.0);
    let mut by_logits = vec![0; 2 * N];
    generator(31).fill_categorical(&logits, 2, &mut by_logits).unwrap();
    // f32 logits are off by 10^-5, and so are the draws.
    let different = sample.iter().zip(&by_logits).filter(|(a, b)| a != b).count();
    assert!(different < 40, "{different}");
    for (row, drawn) in sample.chunks(N).enumerate() {
        let weights = &weights[4 * row..][..4];
        let total: f32 = weights.iter().sum();
        let mut found = [0; 4];
        drawn.iter().for_each(|k| found[*k as usize] += 1);
        let (found, chances): (Vec<u64>, Vec<f64>) = (found.into_iter().zip(weights))
            .filter(|(found, weight)| **weight > 0.0 || *found > 0)
            .map(|(found, weight)| (found, f64::from(weight / total)))
            .unzip();
        assert!(chi_square(&found, &chances) < DEVIATE, "row {row}");
        // A row can be computed alone, and one row is the plain operation.
        let mut alone = vec![0; N];
        generator(31).draw(0).multinomial_rows(row as u64, weights, 1, &mut alone).unwrap();
        assert_eq!(alone, drawn);
    }
    let mut plain = vec![0; N];
    generator(31).fill_multinomial(&weights[..4], &mut plain).unwrap();
    assert_eq!(plain, sample[..N]);
}

#[test]
fn poisson() {
    for (case, rate) in [(0, 0.2f32), (1, 9.9), (2, 10.1), (3, 100.0)] {
        let mut sample = vec![0i64; N / 2];
        let rates = vec![rate; sample.len()];
        generator(20).fold_in(case).fill_poisson(&rates, &mut sample).unwrap();
        let mut found = vec![0; 1000];
        sample.iter().for_each(|k| found[*k as usize] += 1);
        let r = f64::from(rate);
        let chance = |k: usize| (k as f64 * r.ln() - r - log_gamma(k as f64 + 1.0)).exp();
        let chances: Vec<f64> = (0..1000).map(chance).collect();
        let deviate = chi_square(&found, &chances);
        assert!(deviate < DEVIATE, "rate {rate}: {deviate}");
    }
    // A rate at which log k! alone would lose all digits.
    let mut sample = vec![0.0f64; 10_000];
    generator(21).fill_poisson(&vec![1e15; sample.len()], &mut sample).unwrap();
    let rate = f64::from(1e15f32);
    let deviates: Vec<f64> = sample.iter().map(|x| (x - rate) / rate.sqrt()).collect();
    assert!(kolmogorov_smirnov(deviates, tabulated(-9.0, 9.0, density)) < KS);
}

#[test]
fn binomial() {
    for (case, n, p) in [
        (0, 20u64, 0.1f32),
        (1, 50, 0.5),
        (2, 1000, 0.3),
        (3, 200, 0.97),
        (4, 7, 0.5),
        (5, 400, 0.8),
    ] {
        let mut sample = vec![0i64; N / 2];
        let (trials, ps) = (vec![n; sample.len()], vec![p; sample.len()]);
        generator(22).fold_in(case).fill_binomial(&trials, &ps, &mut sample).unwrap();
        let mut found = vec![0; n as usize + 1];
        sample.iter().for_each(|k| found[*k as usize] += 1);
        let (log_p, log_q) = (f64::from(p).ln(), (1.0 - f64::from(p)).ln());
        let chance = |k: u64| (log_choose(n, k) + k as f64 * log_p + (n - k) as f64 * log_q).exp();
        let chances: Vec<f64> = (0..=n).map(chance).collect();
        let deviate = chi_square(&found, &chances);
        assert!(deviate < DEVIATE, "{n} trials of {p}: {deviate}");
    }
    // 0 lies far below the mean of 10 and is drawn nevertheless.
    let mut sample = vec![0i64; 1 << 20];
    let (trials, ps) = (vec![1000; sample.len()], vec![0.01001f32; sample.len()]);
    generator(22).fold_in(6).fill_binomial(&trials, &ps, &mut sample).unwrap();
    let zeros = sample.iter().filter(|&&k| k == 0).count();
    // 2^20 * 0.98999^1000 = 44.8, and five standard deviations are 33.
    assert!((12..=78).contains(&zeros), "{zeros}");
    let mut edges = [0i64; 4];
    generator(22).fill_binomial(&[9, 9, 0, 1 << 52], &[0.0, 1.0, 0.5, 1.0], &mut edges).unwrap();
    assert_eq!(edges, [0, 9, 0, 1 << 52]);
}

#[test]
fn counts_are_the_same_numbers_in_every_type() {
    let rates = [0.5, 3.0, 40.0, 1e6];
    macro_rules! counts {
        ($number:ty) => {{
            let (mut poisson, mut geometric) =
                ([<$number>::default(); 4], [<$number>::default(); 64]);
            generator(31).fill_poisson(&rates, &mut poisson).unwrap();
            generator(31).fill_geometric(&mut geometric, 0.2).unwrap();
            poisson.iter().chain(&geometric).map(|&count| count as f64).collect::<Vec<_>>()
        }};
    }
    let counts = counts!(i64);
    assert!(counts.iter().any(|&count| count > 1.0));
    assert_eq!(counts!(u64), counts);
    assert_eq!(counts!(f32), counts);
    assert_eq!(counts!(f64), counts);
}

#[test]
fn initialisers() {
    let below = tabulated(-9.0, 9.0, density);
    let (fan_in, fan_out) = init::fans(&[100, 20, 5, 4]).unwrap();
    assert_eq!((fan_in, fan_out), (400, 2000));
    let mut generator = generator(23);
    let mut weight = vec![0.0; 40_000];

    init::kaiming_uniform(&mut generator, &mut weight, fan_in, init::Gain::Relu).unwrap();
    let bound = (6.0f64 / 400.0).sqrt();
    assert!(kolmogorov_smirnov(wide(weight.clone()), |x| 0.5 + x / bound / 2.0) < KS);

    init::kaiming_normal(&mut generator, &mut weight, fan_in, init::Gain::LeakyRelu(0.1)).unwrap();
    let std = (2.0f64 / 1.01 / 400.0).sqrt();
    assert!(kolmogorov_smirnov(wide(weight.clone()), |x| below(x / std)) < KS);

    init::xavier_uniform(&mut generator, &mut weight, fan_in, fan_out, init::Gain::Tanh).unwrap();
    let bound = 5.0 / 3.0 * (6.0f64 / 2400.0).sqrt();
    assert!(kolmogorov_smirnov(wide(weight.clone()), |x| 0.5 + x / bound / 2.0) < KS);

    init::xavier_normal(&mut generator, &mut weight, fan_in, fan_out, init::Gain::Selu).unwrap();
    let std = 0.75 * (2.0f64 / 2400.0).sqrt();
    assert!(kolmogorov_smirnov(wide(weight), |x| below(x / std)) < KS);

    assert!(init::fans(&[3]).is_err());
    assert!(init::kaiming_normal(&mut generator, &mut [0.0; 2], 0, init::Gain::Relu).is_err());
    assert!(init::kaiming_uniform(&mut generator, &mut [0.0; 2], 0, init::Gain::Relu).is_err());
}

#[test]
fn orthogonal_matrices() {
    for (rows, columns) in [(1, 1), (7, 3), (3, 7), (40, 40), (100, 33)] {
        let mut matrix = vec![0.0; rows * columns];
        let mut generator = generator(24);
        init::orthogonal(&mut generator, &mut matrix, rows, columns, init::Gain::Relu).unwrap();
        let at = |row: usize, column: usize| f64::from(matrix[row * columns + column]);
        let short = rows.min(columns);
        for i in 0..short {
            for j in 0..short {
                let product: f64 = if rows <= columns {
                    (0..columns).map(|k| at(i, k) * at(j, k)).sum()
                } else {
                    (0..rows).map(|k| at(k, i) * at(k, j)).sum()
                };
                let expected = if i == j { 2.0 } else { 0.0 };
                assert!((product - expected).abs() < 1e-6, "{rows}x{columns} {i} {j}: {product}");
            }
        }
    }
    // An entry of a random unit vector of three numbers is uniform.
    let mut generator = generator(25);
    let mut entries = Vec::new();
    for _ in 0..10_000 {
        let mut matrix = [0.0; 9];
        init::orthogonal(&mut generator, &mut matrix, 3, 3, init::Gain::Linear).unwrap();
        entries.push(f64::from(matrix[5]));
    }
    assert!(kolmogorov_smirnov(entries, |x| (x + 1.0) / 2.0) < KS);
    assert!(init::orthogonal(&mut generator, &mut [0.0; 5], 2, 3, init::Gain::Relu).is_err());
}

#[test]
fn bad_parameters_are_refused_and_move_nothing() {
    let mut generator = Generator::new(1);
    let g = &mut generator;
    let (mut x, mut e, mut k) = ([0.0f32; 4], [false; 4], [0i64; 4]);
    let nan = f32::NAN;
    assert!(g.fill_uniform_f32(&mut x, 1.0, 0.0).is_err());
    assert!(g.fill_uniform_f32(&mut x, f32::MIN, f32::MAX).is_err());
    assert!(g.fill_uniform_f32(&mut x, nan, 1.0).is_err());
    assert!(g.fill_uniform_f64(&mut [0.0], 0.0, f64::INFINITY).is_err());
    assert!(g.fill_randint(&mut k, 3, 3).is_err());
    assert!(g.fill_bernoulli(&mut e, -0.1).is_err());
    assert!(g.fill_bernoulli(&mut e, f64::NAN).is_err());
    assert!(g.fill_bernoulli_each(&[0.5; 3], &mut e).is_err());
    assert!(g.fill_bernoulli_each(&[0.5, 0.5, nan, 0.5], &mut e).is_err());
    assert!(g.fill_normal_f32(&mut x, 0.0, -1.0).is_err());
    assert!(g.fill_normal_f64(&mut [0.0], f64::INFINITY, 1.0).is_err());
    assert!(g.fill_log_normal_f32(&mut x, 0.0, nan).is_err());
    assert!(g.fill_exponential_f32(&mut x, 0.0).is_err());
    assert!(g.fill_truncated_normal_f32(&mut x, 0.0, 1.0, 2.0, 2.0).is_err());
    assert!(g.fill_truncated_normal_f32(&mut x, 0.0, 0.0, 1.0, 2.0).is_err());
    assert!(g.fill_truncated_normal_f32(&mut x, 0.0, 1.0, 50.0, 51.0).is_err());
    assert!(g.fill_gamma_f32(&[1.0, 1.0, 0.0, 1.0], &mut x).is_err());
    assert!(g.fill_poisson(&[1.0, -1.0, 1.0, 1.0], &mut k).is_err());
    assert!(g.fill_binomial(&[1; 4], &[1.1; 4], &mut k).is_err());
    assert!(g.fill_binomial(&[u64::MAX; 4], &[0.5; 4], &mut k).is_err());
    assert!(g.fill_multinomial(&[0.0, 0.0], &mut k).is_err());
    assert!(g.fill_multinomial(&[1.0, -1.0], &mut k).is_err());
    assert!(g.fill_multinomial_without_replacement(&[1.0, 0.0, 2.0, 2.0], &mut k).is_err());
    assert!(g.dropout(&[1.0; 3], 0.5, &mut x, &mut [0; 4]).is_err());
    assert!(g.dropout(&[1.0; 4], 0.5, &mut x, &mut [0; 3]).is_err());
    assert!(g.dropout(&[1.0; 4], 1.5, &mut x, &mut [0; 4]).is_err());
    assert_eq!(generator.offset(), 0);
    let message = generator.fill_randint(&mut k, 3, 3).unwrap_err().to_string();
    assert_eq!(message, "randint: (low, high) is (3, 3), but must be increasing");
}

#[test]
fn samplers_with_rejection_share_nothing_between_streams_and_seeds() {
    let drawn = |seed, stream| {
        let mut values = [0.0; 16];
        let mut generator = Generator::new(seed).with_stream(stream);
        generator.fill_gamma_f32(&[2.5; 16], &mut values).unwrap();
        values.map(f32::to_bits)
    };
    let all: BTreeSet<[u32; 16]> = (0..256).map(|i| drawn(i / 16, i % 16)).collect();
    assert_eq!(all.len(), 256);
}

//! Integers of every width, scalars, choices and permutations by function: their distribution, and
//! the equality of scalars and elements.

// Tests may use the platform's functions: their rounding does not reach a result.
#![allow(clippy::disallowed_methods)]

#[allow(dead_code, reason = "shared with other tests")]
mod common;

use common::chi_square;
use samebits_rng::{Float, Generator, Integer};

/// A limit that a correct sampler exceeds once in about 20,000 seeds.
const DEVIATE: f64 = 3.9;

fn generator(test: u64) -> Generator {
    Generator::new(0xc401ce).fold_in(test)
}

#[test]
fn integers_of_every_width_are_uniform_and_elements_of_arrays() {
    fn check<T: Integer + TryInto<u64>>(test: u64, seven: T) {
        let mut sample = [T::default(); 20_000];
        let mut g = generator(test);
        g.fill_randint(&mut sample, T::default(), seven).unwrap();
        let mut found = [0; 7];
        for x in sample {
            found[x.try_into().ok().unwrap() as usize] += 1;
        }
        let deviate = chi_square(&found, &[1.0 / 7.0; 7]);
        assert!(deviate < DEVIATE, "{seven:?}: {deviate}");
        let mut g = generator(test);
        assert_eq!(g.below(seven).unwrap(), sample[0]);
        assert_eq!(g.offset(), 1);
        assert!(g.below(T::default()).unwrap_err().to_string().starts_with("below: n is "));
        assert!(g.randint(seven, seven).unwrap_err().to_string().starts_with("randint: "));
        assert_eq!(g.offset(), 1);
    }
    check(1, 7u8);
    check(2, 7u16);
    check(3, 7u32);
    check(4, 7u64);
    check(5, 7u128);
    check(6, 7usize);
    check(7, 7i8);
    check(8, 7i16);
    check(9, 7i32);
    check(10, 7i64);
    check(11, 7i128);
    check(12, 7isize);
}

#[test]
fn integers_reach_both_ends() {
    let mut bytes = [0i8; 4000];
    generator(20).fill_randint(&mut bytes, i8::MIN, i8::MAX).unwrap();
    assert_eq!((bytes.iter().min(), bytes.iter().max()), (Some(&i8::MIN), Some(&(i8::MAX - 1))));
    // Two thirds of the range of 2^128: a third of the blocks are redrawn.
    let mut wide = [0u128; 20_000];
    generator(21).fill_randint(&mut wide, 1 << 100, (1 << 100) + (3 << 126)).unwrap();
    let mut found = [0; 3];
    for x in wide {
        found[((x - (1 << 100)) >> 126) as usize] += 1;
    }
    assert!(chi_square(&found, &[1.0 / 3.0; 3]) < DEVIATE);
    let mut whole = [0i128; 100];
    generator(22).fill_randint(&mut whole, i128::MIN, i128::MAX).unwrap();
    assert!(whole.iter().any(|x| *x < 0) && whole.iter().any(|x| *x > 0));
}

/// Every scalar equals the only element of its array, advances by one block, and not at all on
/// error.
#[test]
fn scalars_are_elements() {
    fn same<T: PartialEq + std::fmt::Debug + Default + Copy>(
        name: &str,
        scalar: impl Fn(&mut Generator) -> Result<T, samebits_rng::Error>,
        array: impl Fn(&mut Generator, &mut [T]) -> Result<(), samebits_rng::Error>,
    ) {
        for seed in 0..300 {
            let (mut a, mut b) = (generator(30).fold_in(seed), generator(30).fold_in(seed));
            let mut out = [T::default()];
            array(&mut b, &mut out).unwrap();
            assert_eq!(scalar(&mut a).unwrap(), out[0], "{name}");
            assert_eq!((a.offset(), b.offset()), (1, 1), "{name}");
        }
    }
    fn floats<T: Float + PartialEq + From<f32>>(name: &str) {
        let [a, b] = [T::from(-1.25), T::from(2.5)];
        same(name, |g| g.laplace(a, b), |g, out| g.fill_laplace(out, a, b));
        same(name, |g| g.gumbel(a, b), |g, out| g.fill_gumbel(out, a, b));
        same(name, |g| g.cauchy(a, b), |g, out| g.fill_cauchy(out, a, b));
        let mut g = generator(31);
        let before = g.clone();
        assert!(g.normal(a, a).is_err() && g.exponential(a).is_err());
        assert!(g.laplace(a, a).is_err() && g.gumbel(a, a).is_err() && g.cauchy(a, a).is_err());
        assert_eq!(g, before);
    }
    floats::<f32>("f32");
    floats::<f64>("f64");
    same("uniform f32", |g| Ok(g.uniform()), |g, out| g.fill_uniform_f32(out, 0.0, 1.0));
    same("uniform f64", |g| Ok(g.uniform()), |g, out| g.fill_uniform_f64(out, 0.0, 1.0));
    same("normal f32", |g| g.normal(1.0, 2.0), |g, out| g.fill_normal_f32(out, 1.0, 2.0));
    same("normal f64", |g| g.normal(1.0, 2.0), |g, out| g.fill_normal_f64(out, 1.0, 2.0));
    same("exponential f32", |g| g.exponential(3.0), |g, out| g.fill_exponential_f32(out, 3.0));
    same("exponential f64", |g| g.exponential(3.0), |g, out| g.fill_exponential_f64(out, 3.0));
    same("gamma", |g| g.gamma(0.3), |g, out| g.fill_gamma_f32(&[0.3], out));
    same("beta", |g| g.beta(0.3, 2.0), |g, out| g.fill_beta_f32(&[0.3], &[2.0], out));
    same("bernoulli", |g| g.bernoulli(0.4), |g, out| g.fill_bernoulli(out, 0.4));
    same("geometric", |g| g.geometric::<u64>(0.1), |g, out| g.fill_geometric(out, 0.1));
    same("poisson", |g| g.poisson::<i64>(20.0), |g, out| g.fill_poisson(&[20.0], out));
    same("binomial", |g| g.binomial::<f32>(90, 0.4), |g, out| g.fill_binomial(&[90], &[0.4], out));

    let mut g = generator(32);
    let before = g.clone();
    assert!(g.gamma(0.0).is_err() && g.beta(1.0, f32::NAN).is_err() && g.bernoulli(1.5).is_err());
    assert!(g.geometric::<i64>(0.0).is_err() && g.poisson::<i64>(-1.0).is_err());
    assert!(g.binomial::<i64>(1, 2.0).is_err());
    assert_eq!(g, before);
}

#[test]
fn a_choice_is_uniform_among_all() {
    // The 60 ordered choices of three out of five.
    let mut found = vec![0; 125];
    let mut g = generator(40);
    for _ in 0..60_000 {
        let chosen = g.choice(5, 3).unwrap();
        found[(chosen[0] * 25 + chosen[1] * 5 + chosen[2]) as usize] += 1;
    }
    let found: Vec<u64> = found.into_iter().filter(|count| *count > 0).collect();
    assert_eq!(found.len(), 60);
    assert!(chi_square(&found, &[1.0 / 60.0; 60]) < DEVIATE);

    // A few out of very many: distinct, and evenly spread.
    let chosen = g.choice(u64::MAX, 50_000).unwrap();
    let mut cells = vec![0; 64];
    chosen.iter().for_each(|x| cells[(x >> 58) as usize] += 1);
    assert!(chi_square(&cells, &[1.0 / 64.0; 64]) < DEVIATE);
    // Numbers meet others at positions that were taken before.
    let mut all = g.choice(3000, 3000).unwrap();
    assert!(!all.is_sorted());
    all.sort();
    assert!(all.into_iter().eq(0..3000));
}

fn rank(order: &[u64]) -> usize {
    order.iter().enumerate().fold(0, |rank, (i, x)| {
        let smaller = order[i + 1..].iter().filter(|y| *y < x).count();
        rank * (order.len() - i) + smaller
    })
}

#[test]
fn permutations_by_function_are_uniform_for_few_numbers() {
    for (n, orders, draws) in [(2, 2, 10_000), (3, 6, 20_000), (4, 24, 30_000), (5, 120, 30_000)] {
        let mut found = vec![0; orders];
        let mut g = generator(50 + n);
        for _ in 0..draws {
            let order = g.bijection(n);
            let order: Vec<u64> = (0..n).map(|i| order.at(i).unwrap()).collect();
            found[rank(&order)] += 1;
        }
        let deviate = chi_square(&found, &vec![1.0 / orders as f64; orders]);
        assert!(deviate < DEVIATE, "{n}: {deviate}");
    }
}

/// The position of a number, the joint positions of two neighbours, and the parity of the
/// permutation.
#[test]
fn permutations_by_function_place_numbers_and_pairs_uniformly() {
    for (n, draws) in [(7, 20_000), (12, 15_000), (16, 10_000), (30, 20_000)] {
        let (n, side) = (n as u64, n as usize);
        let mut places = vec![0; side];
        let mut pairs = vec![0; side * side];
        let mut odd = [0, 0];
        let mut g = generator(60 + n);
        for _ in 0..draws {
            let order = g.bijection(n);
            let [a, b] = [0, 1].map(|i| order.at(i).unwrap());
            places[order.index_of(n - 1).unwrap() as usize] += 1;
            pairs[(a * n + b) as usize] += 1;
            if n <= 16 {
                let all: Vec<u64> = (0..n).map(|i| order.at(i).unwrap()).collect();
                let inversions = (0..side).flat_map(|i| (0..i).map(move |j| (j, i)));
                odd[inversions.filter(|&(j, i)| all[j] > all[i]).count() % 2] += 1;
            }
        }
        assert!(chi_square(&places, &vec![1.0 / n as f64; side]) < DEVIATE, "{n}");
        let pairs: Vec<u64> = pairs.into_iter().filter(|count| *count > 0).collect();
        let kinds = side * (side - 1);
        assert_eq!(pairs.len(), kinds, "{n}");
        let deviate = chi_square(&pairs, &vec![1.0 / kinds as f64; kinds]);
        assert!(deviate < DEVIATE, "{n}: {deviate}");
        assert!(n > 16 || chi_square(&odd, &[0.5, 0.5]) < DEVIATE, "{n}: {odd:?}");
    }
}

/// One long permutation: its elements, and the steps between neighbours, are evenly spread.
#[test]
fn a_long_permutation_by_function_is_spread_evenly() {
    let n = 1_000_000_007;
    let order = generator(70).bijection(n);
    let sample: Vec<u64> = (0..100_000).map(|i| order.at(i).unwrap()).collect();
    let mut cells = vec![0; 1000];
    let mut steps = vec![0; 1000];
    for pair in sample.windows(2) {
        cells[(pair[0] * 1000 / n) as usize] += 1;
        steps[((n + pair[1] - pair[0]) % n * 1000 / n) as usize] += 1;
    }
    assert!(chi_square(&cells, &[1e-3; 1000]).abs() < DEVIATE);
    assert!(chi_square(&steps, &[1e-3; 1000]).abs() < DEVIATE);
    let mut sorted = sample.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), sample.len());
}

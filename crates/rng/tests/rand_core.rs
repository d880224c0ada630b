//! `Generator` and `Words` as generators of `rand_core`, and the draws of `rand_distr` from them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::RngExt;
use rand::distr::StandardUniform;
use rand_core::{Rng, SeedableRng, TryRng};
use rand_distr::{
    Beta, Binomial, Distribution, Exp1, Gamma, Hypergeometric, Normal, Poisson, StandardNormal,
    UnitSphere, Zipf,
};
use samebits_rng::{Generator, Pcg64, Pcg64Dxsm, Philox4x64, Words};

/// Runs the tests that rand 0.10 has for the methods of its trait.
fn passes_the_tests_of_rand(mut r: impl Rng + Clone + 'static) {
    for n in (0..8).chain(80..88) {
        // A byte that stays 0 in eight draws was not written.
        let mut written = vec![0u8; n];
        for _ in 0..8 {
            let mut bytes = vec![0; n];
            r.fill_bytes(&mut bytes);
            written.iter_mut().zip(bytes).for_each(|(all, byte)| *all |= byte);
        }
        assert!(written.iter().all(|&byte| byte != 0), "{n} bytes: {written:?}");
    }
    let (mut numbers, mut wrapped) = ([0u32; 7], [std::num::Wrapping(0u32); 7]);
    let mut again = r.clone();
    r.fill(&mut numbers);
    again.fill(&mut wrapped);
    assert_eq!(numbers, wrapped.map(|number| number.0));
    r.fill(&mut [0u32; 0]);

    for _ in 0..1000 {
        assert!((-4711..17).contains(&r.random_range(-4711..17)));
        assert!((-3..42).contains(&r.random_range(-3i8..42)));
        assert!((10..99).contains(&r.random_range(10u16..99)));
        assert!((12..=24).contains(&r.random_range(12u32..=24)));
        assert_eq!(r.random_range(..1u32), 0);
        assert_eq!(r.random_range(-12i64..-11), -12);
        assert!((-4.5..1.7).contains(&r.random_range(-4.5..1.7)));
        assert!((-1.1..=-0.3).contains(&r.random_range(-1.1..=-0.3)));
        assert_eq!(r.random_range(-11.0..=-11.0), -11.0);
        assert!(!r.random_bool(0.0) && r.random_bool(1.0));
    }
    #[expect(clippy::reversed_empty_ranges, reason = "it is to be refused")]
    let refused = catch_unwind(AssertUnwindSafe(|| r.random_range(5..2usize)));
    assert!(refused.is_err());
    let ratio = (0..100_000).filter(|_| r.random_ratio(3, 10)).count();
    assert!(ratio.abs_diff(30_000) < 500, "{ratio}");

    fn use_rng(mut r: impl RngExt) -> u32 {
        r.next_u32()
    }
    assert_eq!(use_rng(&mut r.clone()), r.clone().next_u32());
    let mut boxed: Box<dyn Rng> = Box::new(r);
    boxed.next_u32();
    boxed.random::<i32>();
    assert_eq!(boxed.random_range(0..1), 0);
    let _: u8 = StandardUniform.sample(&mut boxed);
}

/// Runs rand_core's test of `seed_from_u64`: similar seeds give unrelated words.
fn seeds_differ(first: impl Fn(u64) -> u64) {
    let words = [0, 1, 2, 3, 4, 8, 16, u64::MAX].map(first);
    for (i, a) in words.iter().enumerate() {
        assert!((20..=44).contains(&a.count_ones()), "{words:x?}");
        assert!(words[..i].iter().all(|b| (a ^ b).count_ones() >= 20), "{words:x?}");
    }
}

#[test]
fn every_generator_passes_the_tests_of_rand() {
    passes_the_tests_of_rand(Generator::new(101));
    passes_the_tests_of_rand(Words::new(Generator::new(102)));
    passes_the_tests_of_rand(Pcg64::new(103));
    passes_the_tests_of_rand(Pcg64Dxsm::new(104));
    passes_the_tests_of_rand(Philox4x64::new(105));
    seeds_differ(|seed| Generator::seed_from_u64(seed).next_u64());
    seeds_differ(|seed| Words::seed_from_u64(seed).next_u64());
    seeds_differ(|seed| Pcg64::new(seed).next_u64());
    seeds_differ(|seed| Pcg64Dxsm::new(seed).next_u64());
    seeds_differ(|seed| Philox4x64::new(seed).next_u64());
}

#[test]
fn bytes_are_those_of_the_words() {
    let g = Generator::new(3).with_stream(4).with_offset(5);
    for n in 0..70 {
        let (mut generator, mut bytes) = (g.clone(), vec![0; n]);
        generator.fill_bytes(&mut bytes);
        let blocks = n.div_ceil(16) as u64;
        assert_eq!(generator.offset(), 5 + blocks, "{n} bytes");
        let all: Vec<u8> = (5..5 + blocks)
            .flat_map(|block| g.block_at(block))
            .flat_map(u32::to_le_bytes)
            .collect();
        assert_eq!(bytes, all[..n], "{n} bytes");
    }
    let (mut four, mut eight) = ([0; 4], [0; 8]);
    g.clone().fill_bytes(&mut four);
    g.clone().fill_bytes(&mut eight);
    assert_eq!(g.clone().next_u32().to_le_bytes(), four);
    assert_eq!(g.clone().next_u64().to_le_bytes(), eight);
}

#[test]
fn every_call_starts_at_a_block() {
    let mut generator = Generator::new(0);
    let again = generator.clone();
    assert_eq!(generator.next_u32(), again.block_at(0)[0]);
    assert_eq!(generator.next_u32(), again.block_at(1)[0]);
    let [low, high, ..] = again.block_at(2);
    assert_eq!(generator.next_u64(), u64::from(low) | u64::from(high) << 32);
    assert_eq!(generator.try_next_u32(), Ok(again.block_at(3)[0]));
    assert_eq!(generator, again.with_offset(4));
}

#[test]
fn a_generator_is_usable_by_reference_and_as_an_object() {
    fn take(rng: &mut dyn Rng) -> u64 {
        rng.next_u64()
    }
    fn draw<R: Rng + ?Sized>(rng: &mut R) -> u64 {
        rng.next_u64()
    }
    let g = Generator::new(1);
    assert_eq!(take(&mut g.clone()), g.clone().next_u64());
    assert_eq!(draw(&mut &mut g.clone()), g.clone().next_u64());
}

#[test]
fn seeds_are_positions() {
    let mut seed = [0; 16];
    seed[..8].copy_from_slice(&7u64.to_le_bytes());
    seed[8..].copy_from_slice(&9u64.to_le_bytes());
    assert_eq!(Generator::from_seed(seed), Generator::new(7).with_stream(9));
    assert_eq!(Generator::from_seed([0; 16]), Generator::new(0));
    for seed in [0, 1, 42, u64::MAX] {
        assert_eq!(Generator::seed_from_u64(seed), Generator::new(seed));
        assert_eq!(Words::seed_from_u64(seed), Words::new(Generator::new(seed)));
    }
    // Small seeds and seeds that differ in one bit give unrelated words.
    let mut words: Vec<u64> =
        (0..64).map(|bit| Generator::seed_from_u64(1 << bit).next_u64()).collect();
    words.sort();
    words.dedup();
    assert_eq!(words.len(), 64);
    let ones: u32 = words.iter().map(|word| word.count_ones()).sum();
    assert!((1800..2300).contains(&ones), "{ones}");

    // Seeded from another generator, and forked.
    let mut parent = Generator::new(3);
    let child = Generator::from_rng(&mut parent);
    let [a, b, c, d] = Generator::new(3).next_block().map(u64::from);
    assert_eq!(child, Generator::new(a | b << 32).with_stream(c | d << 32));
    assert_eq!(parent.offset(), 1);
    assert_ne!(parent.fork(), child);
    assert_eq!(Words::from_seed([1; 16]).into_generator(), Generator::from_seed([1; 16]));
}

/// The digits are the draws of rand_distr 0.6 from these words; another version may differ.
#[test]
fn rand_distr_draws_from_generators() {
    let mut g = Generator::new(11);
    let found: Vec<f64> = vec![
        StandardNormal.sample(&mut g),
        Exp1.sample(&mut g),
        Normal::new(3.0, 2.0).unwrap().sample(&mut g),
        Gamma::new(0.5, 2.0).unwrap().sample(&mut g),
        Beta::new(2.0, 3.0).unwrap().sample(&mut g),
        Poisson::new(100.0).unwrap().sample(&mut g),
        Zipf::new(1000.0, 1.5).unwrap().sample(&mut g),
        Binomial::new(1000, 0.3).unwrap().sample(&mut g) as f64,
        Hypergeometric::new(100, 30, 20).unwrap().sample(&mut g) as f64,
        {
            let point: [f64; 3] = UnitSphere.sample(&mut g);
            point[0]
        },
    ];
    let expected = [
        1.5756212147658102,
        1.7783777937851855,
        -2.144054119412658,
        0.4766935985831559,
        0.6973423437629477,
        93.0,
        22.0,
        314.0,
        9.0,
        0.03597141082414678,
    ];
    assert_eq!(found, expected);

    let mut mean = 0.0;
    for _ in 0..10_000 {
        let x: f64 = StandardNormal.sample(&mut g);
        mean += x / 10_000.0;
    }
    assert!(f64::abs(mean) < 0.04, "{mean}");
}

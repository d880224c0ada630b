//! Snapshots of seeded numbers: the first values of each generator and distribution, in decimal and
//! as bits, and the digest of a longer run.
//!
//! A changed line is a changed value, so a breaking change.

use rand_core::Rng;
use samebits_rng::init::{self, Gain};
use samebits_rng::torch::{CpuGenerator, CudaLaunch};
use samebits_rng::{
    Error, Float, Generator, Pcg64, Pcg64Dxsm, Philox4x32, Philox4x64, Words, numpy,
};
use test_support::listing::Listing;

const LENGTH: usize = 10_000;

fn filled<T: Copy + Default>(fill: impl FnOnce(&mut [T]) -> Result<(), Error>) -> Vec<T> {
    let mut out = vec![T::default(); LENGTH];
    fill(&mut out).unwrap();
    out
}

fn drawn<T>(mut draw: impl FnMut() -> T) -> Vec<T> {
    (0..LENGTH).map(|_| draw()).collect()
}

fn words(listing: &mut Listing, title: &str, mut rng: impl Rng) {
    listing.values(title, &drawn(|| rng.next_u64()));
}

#[test]
fn words_of_every_generator() {
    let mut listing = Listing::default();
    let philox = Philox4x32::from_seed(42);
    listing.values("philox4x32: block 0 of stream 0, seed 42", &philox.at(0, 0));
    listing.values("philox4x32: block 7 of stream 3, seed 42", &philox.at(7, 3));
    let mut seeded = Generator::new(42);
    listing.values(
        "Generator::fill_u32, seed 42",
        &filled(|out| {
            seeded.fill_u32(out);
            Ok(())
        }),
    );
    let mut seeded = Generator::new(42);
    listing.values(
        "Generator::fill_u64, seed 42",
        &filled(|out| {
            seeded.fill_u64(out);
            Ok(())
        }),
    );
    words(&mut listing, "Generator, one after another, seed 42", Generator::new(42));
    words(&mut listing, "Words, seed 42", Words::new(Generator::new(42)));
    words(&mut listing, "Generator::fold_in(3), seed 42", Generator::new(42).fold_in(3));
    words(&mut listing, "Generator::derive(\"data\"), seed 42", Generator::new(42).derive("data"));
    let children = Generator::new(42).split(2).unwrap();
    for (i, child) in children.into_iter().enumerate() {
        words(&mut listing, &format!("Generator::split(2)[{i}], seed 42"), child);
    }
    words(&mut listing, "Pcg64, seed 42", Pcg64::new(42));
    words(&mut listing, "Pcg64Dxsm, seed 42", Pcg64Dxsm::new(42));
    words(&mut listing, "Philox4x64, seed 42", Philox4x64::new(42));
    words(&mut listing, "Pcg64::fold_in(3), seed 42", Pcg64::new(42).fold_in(3));
    words(&mut listing, "Pcg64Dxsm::fold_in(3), seed 42", Pcg64Dxsm::new(42).fold_in(3));
    words(&mut listing, "Philox4x64::fold_in(3), seed 42", Philox4x64::new(42).fold_in(3));
    let sequence = numpy::SeedSequence::new(42);
    listing.values("SeedSequence, u32, seed 42", &sequence.generate_state_u32(8).unwrap());
    listing.values("SeedSequence, u64, seed 42", &sequence.generate_state_u64(8).unwrap());
    insta::assert_snapshot!("words", listing);
}

#[test]
fn distributions_of_arrays() {
    let mut listing = Listing::default();
    let seeded = || Generator::new(42);
    let ramp: Vec<f32> = (0..LENGTH).map(|i| 0.25 + (i % 64) as f32).collect();
    let wide: Vec<f64> = ramp.iter().map(|&x| f64::from(x)).collect();
    let p: Vec<f32> = (0..LENGTH).map(|i| (i % 33) as f32 / 32.0).collect();
    let trials: Vec<u64> = (0..LENGTH as u64).map(|i| i % 200).collect();
    macro_rules! f32s {
        ($($title:literal: $method:ident($($argument:expr),*);)+) => {$({
            let values = filled::<f32>(|out| seeded().$method(out $(, $argument)*));
            listing.values($title, &values);
        })+};
    }
    macro_rules! f64s {
        ($($title:literal: $method:ident($($argument:expr),*);)+) => {$({
            let values = filled::<f64>(|out| seeded().$method(out $(, $argument)*));
            listing.values($title, &values);
        })+};
    }
    f32s! {
        "uniform f32 in [-1, 3)": fill_uniform_f32(-1.0, 3.0);
        "normal f32 of mean 0.5, std 2": fill_normal_f32(0.5, 2.0);
        "log-normal f32 of 0, 1": fill_log_normal_f32(0.0, 1.0);
        "exponential f32 of rate 1.5": fill_exponential_f32(1.5);
        "truncated normal f32 in [-2, 1]": fill_truncated_normal_f32(0.0, 1.0, -2.0, 1.0);
        "laplace f32 of 0.5, 2": fill_laplace(0.5, 2.0);
        "gumbel f32 of 0.5, 2": fill_gumbel(0.5, 2.0);
        "cauchy f32 of 0.5, 2": fill_cauchy(0.5, 2.0);
    }
    f64s! {
        "uniform f64 in [-1, 3)": fill_uniform_f64(-1.0, 3.0);
        "normal f64 of mean 0.5, std 2": fill_normal_f64(0.5, 2.0);
        "exponential f64 of rate 1.5": fill_exponential_f64(1.5);
        "laplace f64 of 0.5, 2": fill_laplace(0.5, 2.0);
        "gumbel f64 of 0.5, 2": fill_gumbel(0.5, 2.0);
        "cauchy f64 of 0.5, 2": fill_cauchy(0.5, 2.0);
    }
    listing.values("gamma f32", &filled(|out| seeded().fill_gamma_f32(&ramp, out)));
    listing.values("gamma f64", &filled(|out| seeded().fill_gamma_f64(&wide, out)));
    listing.values("loggamma f32", &filled(|out| seeded().fill_loggamma_f32(&ramp, out)));
    listing.values("loggamma f64", &filled(|out| seeded().fill_loggamma_f64(&wide, out)));
    listing.values("beta f32", &filled(|out| seeded().fill_beta_f32(&ramp, &ramp, out)));
    listing.values("beta f64", &filled(|out| seeded().fill_beta_f64(&wide, &wide, out)));
    let alpha = &ramp[..100];
    listing.values("dirichlet f32", &filled(|out| seeded().fill_dirichlet_f32(alpha, out)));
    let alpha = &wide[..100];
    listing.values("dirichlet f64", &filled(|out| seeded().fill_dirichlet_f64(alpha, out)));
    insta::assert_snapshot!("distributions", listing);

    let mut listing = Listing::default();
    let integers = |out: &mut [i64]| seeded().fill_randint(out, -10, 1000);
    listing.values("randint i64 in [-10, 1000)", &filled(integers));
    listing.values("randint u8 in [3, 250)", &filled(|out| seeded().fill_randint(out, 3u8, 250)));
    let integers = |out: &mut [u128]| seeded().fill_randint(out, 3, 3 << 126);
    listing.values("randint u128 in [3, 3 * 2^126)", &filled(integers));
    listing.values("permutation", &seeded().permutation(LENGTH).unwrap());
    listing.values("choice of 2^40", &seeded().choice(1 << 40, LENGTH).unwrap());
    let bijection = seeded().bijection(1_000_000_007);
    let elements: Vec<u64> = (0..LENGTH as u64).map(|i| bijection.at(i).unwrap()).collect();
    listing.values("bijection of 1000000007", &elements);
    listing.values("bernoulli of 0.3", &filled(|out| seeded().fill_bernoulli(out, 0.3)));
    listing.values("bernoulli of each p", &filled(|out| seeded().fill_bernoulli_each(&p, out)));
    listing.values("geometric of 0.01", &filled::<i64>(|out| seeded().fill_geometric(out, 0.01)));
    listing.values("poisson", &filled::<i64>(|out| seeded().fill_poisson(&ramp, out)));
    listing.values("binomial", &filled::<i64>(|out| seeded().fill_binomial(&trials, &p, out)));
    let weights = &ramp[..64];
    listing.values("multinomial", &filled(|out| seeded().fill_multinomial(weights, out)));
    let rows = |out: &mut [i64]| seeded().fill_multinomial_rows(&ramp[..500], 100, out);
    listing.values("multinomial of 100 rows", &filled(rows));
    let logits = |out: &mut [i64]| seeded().fill_categorical(&p[..500], 100, out);
    listing.values("categorical of 100 rows", &filled(logits));
    let distinct = |out: &mut [i64]| seeded().fill_multinomial_without_replacement(&ramp, out);
    listing.values("multinomial without replacement", &filled(distinct));
    let mut mask = vec![0; LENGTH];
    let kept = filled(|out| seeded().dropout(&ramp, 0.3, out, &mut mask));
    listing.values("dropout of 0.3", &kept);
    listing.values("dropout of 0.3, mask", &mask);
    insta::assert_snapshot!("integers", listing);
}

fn scalars<T: Float + test_support::listing::Value>(listing: &mut Listing, one: T, two: T) {
    let name = std::any::type_name::<T>();
    macro_rules! section {
        ($($method:ident($($argument:expr),*)),+) => {$({
            let mut generator = Generator::new(42);
            let values: Vec<T> = drawn(|| generator.$method($($argument),*).unwrap());
            listing.values(&format!("{} {name}", stringify!($method)), &values);
        })+};
    }
    let mut generator = Generator::new(42);
    listing.values(&format!("uniform {name}"), &drawn(|| generator.uniform::<T>()));
    section!(normal(one, two), exponential(two), laplace(one, two), gumbel(one, two));
    section!(cauchy(one, two), gamma(two), beta(one, two));
}

#[test]
fn one_number_after_another() {
    let mut listing = Listing::default();
    scalars(&mut listing, 1.0f32, 2.0);
    scalars(&mut listing, 1.0f64, 2.0);
    macro_rules! section {
        ($($title:literal: $method:ident($($argument:expr),*);)+) => {$({
            let mut generator = Generator::new(42);
            listing.values($title, &drawn(|| generator.$method($($argument),*).unwrap()));
        })+};
    }
    section! {
        "randint in [-10, 1000)": randint(-10i64, 1000);
        "below 10": below(10u32);
        "bernoulli of 0.3": bernoulli(0.3);
    }
    let mut generator = Generator::new(42);
    listing.values("geometric of 0.01", &drawn(|| generator.geometric::<i64>(0.01).unwrap()));
    let mut generator = Generator::new(42);
    listing.values("poisson of 4.5", &drawn(|| generator.poisson::<i64>(4.5).unwrap()));
    let mut generator = Generator::new(42);
    listing.values("binomial of 20, 0.25", &drawn(|| generator.binomial::<i64>(20, 0.25).unwrap()));
    insta::assert_snapshot!("scalars", listing);
}

/// Adds the methods that `numpy::Generator` and `numpy::RandomState` have in common.
macro_rules! numpy_sections {
    ($listing:ident, $seeded:expr) => {{
        let mut seeded = $seeded;
        $listing.values("uniform in [-1, 3)", &drawn(|| seeded.uniform(-1.0, 3.0)));
        let mut seeded = $seeded;
        $listing.values("standard_normal", &drawn(|| seeded.standard_normal()));
        let mut seeded = $seeded;
        $listing.values("normal of 0.5, 2", &drawn(|| seeded.normal(0.5, 2.0).unwrap()));
        let mut seeded = $seeded;
        $listing.values("exponential of 1.5", &drawn(|| seeded.exponential(1.5).unwrap()));
        let mut seeded = $seeded;
        $listing.values("binomial of 20, 0.25", &drawn(|| seeded.binomial(20, 0.25).unwrap()));
        let mut seeded = $seeded;
        $listing.values("binomial of 200, 0.5", &drawn(|| seeded.binomial(200, 0.5).unwrap()));
        $listing.values("permutation", &$seeded.permutation(LENGTH).unwrap());
        let some = |replace, p| $seeded.choice(100, 50, replace, p).unwrap();
        $listing.values("choice of 100 with replacement", &some(true, None));
        $listing.values("choice of 100 without replacement", &some(false, None));
        let p: Vec<f64> = (0..100).map(|i| f64::from(i) / 4950.0).collect();
        $listing.values("choice of 100 by weight with replacement", &some(true, Some(&p)));
        $listing.values("choice of 100 by weight without replacement", &some(false, Some(&p)));
    }};
}

#[test]
fn numpy_streams() {
    let mut listing = Listing::default();
    let mut seeded = numpy::default_rng(42);
    listing.values("next_u64", &drawn(|| seeded.next_u64()));
    let mut seeded = numpy::default_rng(42);
    listing.values("random", &drawn(|| seeded.random()));
    let mut seeded = numpy::default_rng(42);
    listing.values("random of float32", &drawn(|| seeded.random_f32()));
    let mut seeded = numpy::default_rng(42);
    listing.values("integers in [-10, 1000)", &drawn(|| seeded.integers(-10, 1000).unwrap()));
    numpy_sections!(listing, numpy::default_rng(42));
    insta::assert_snapshot!("numpy_default_rng_42", listing);

    let mut listing = Listing::default();
    let mut seeded = numpy::RandomState::new(42);
    listing.values("random_sample", &drawn(|| seeded.random_sample()));
    let mut seeded = numpy::RandomState::new(42);
    listing.values("randint in [-10, 1000)", &drawn(|| seeded.randint(-10, 1000).unwrap()));
    numpy_sections!(listing, numpy::RandomState::new(42));
    insta::assert_snapshot!("numpy_random_state_42", listing);
}

#[test]
fn pytorch_streams() {
    let mut listing = Listing::default();
    let seeded = || CpuGenerator::manual_seed(42);
    macro_rules! section {
        ($($title:literal: |$generator:ident, $out:ident: $type:ty| $fill:expr;)+) => {$({
            let mut $generator = seeded();
            listing.values($title, &filled(|$out: &mut [$type]| {
                $fill;
                Ok(())
            }));
        })+};
    }
    let mut generator = seeded();
    listing.values("random, the words of MT19937", &drawn(|| generator.random()));
    section! {
        "rand f32": |generator, out: f32| generator.rand_f32(out);
        "rand f64": |generator, out: f64| generator.rand_f64(out);
        "uniform_ f32 in [-1, 3)": |generator, out: f32| generator.uniform_f32(out, -1.0, 3.0);
        "randn f32": |generator, out: f32| generator.randn_f32(out);
        "randn f64": |generator, out: f64| generator.randn_f64(out);
        "randn f32 of 8, which takes another path": |generator, out: f32|
            generator.randn_f32(&mut out[..8]);
        "randint in [-10, 1000)": |generator, out: i64| generator.randint(out, -10, 1000)?;
        "randint in [-2^40, 2^41)": |generator, out: i64|
            generator.randint(out, -(1 << 40), 1 << 41)?;
        "bernoulli_ of 0.3": |generator, out: bool| generator.bernoulli(out, 0.3);
    }
    listing.values("randperm", &seeded().randperm(LENGTH).unwrap());
    let p: Vec<f32> = (0..LENGTH).map(|i| (i % 33) as f32 / 32.0).collect();
    listing.values("bernoulli of each p", &filled(|out| seeded().bernoulli_each(&p, out)));
    let mut generator = seeded();
    listing.values("random_ i64", &drawn(|| generator.random_i64()));
    let mut generator = seeded();
    listing.values("random_ i32", &drawn(|| generator.random_i32()));
    let mut generator = seeded();
    listing.values("random_ f32", &drawn(|| generator.random_f32()));
    let mut generator = seeded();
    listing.values("random_ f64", &drawn(|| generator.random_f64()));
    insta::assert_snapshot!("pytorch_cpu_42", listing);

    let mut listing = Listing::default();
    let launch = CudaLaunch::new(108, 2048).unwrap();
    let numbers = |out: &mut [f32]| {
        launch.rand_f32(42, 0, out);
        Ok(())
    };
    listing.values("rand f32, 108 multiprocessors", &filled(numbers));
    let mask = |out: &mut [u8]| launch.dropout_mask(42, 0, 0.3, out).map(drop);
    listing.values("dropout of 0.3, mask, 108 multiprocessors", &filled(mask));
    insta::assert_snapshot!("pytorch_cuda_42", listing);
}

#[test]
fn messages_of_misuse() {
    let mut listing = Listing::default();
    let mut generator = Generator::new(42);
    let (mut floats, mut integers) = ([0.0f32; 3], [0i64; 3]);
    listing.error(
        "uniform between swapped bounds",
        generator.fill_uniform_f32(&mut floats, 1.0, -1.0),
    );
    listing.error(
        "normal with a negative deviation",
        generator.fill_normal_f32(&mut floats, 0.0, -1.0),
    );
    listing.error("integers in an empty range", generator.fill_randint(&mut integers, 5, 5));
    listing.error("a chance above 1", generator.fill_bernoulli(&mut [false; 3], 1.5));
    listing.error("chances of another number", generator.fill_poisson(&[1.0; 2], &mut integers));
    listing.error("weights all 0", generator.fill_multinomial(&[0.0; 2], &mut integers));
    listing.error("more choices than elements", generator.choice(2, 3));
    listing.error("dropout of everything and more", {
        generator.dropout(&[1.0; 3], 1.5, &mut floats, &mut [0; 3])
    });
    listing.error("fans of a vector", init::fans(&[3]));
    listing.error("a state that is too short", Generator::from_bytes(&generator.to_bytes()[..10]));
    listing.error("a state of another library", {
        Generator::from_bytes(&[0xff; Generator::STATE_BYTES])
    });
    listing.error(
        "a state of another generator",
        Generator::from_bytes(&{
            let mut bytes = Pcg64::new(42).to_bytes().to_vec();
            bytes.resize(Generator::STATE_BYTES, 0);
            bytes
        }),
    );
    listing.error(
        "a damaged state",
        Generator::from_bytes(&{
            let mut bytes = generator.to_bytes();
            bytes[20] ^= 1;
            bytes
        }),
    );
    listing.error("NumPy's integers in an empty range", numpy::default_rng(42).integers(5, 5));
    listing.error("NumPy's choice of too many", {
        numpy::RandomState::new(42).choice(2, 3, false, None)
    });
    listing.error("PyTorch's randint in an empty range", {
        CpuGenerator::manual_seed(42).randint(&mut integers, 5, 5)
    });
    listing.error("PyTorch's state that is too short", CpuGenerator::from_state(&[0; 3]));
    insta::assert_snapshot!("errors", listing);
}

type Fill<'a> = &'a dyn Fn(&mut Generator, &mut [f32]) -> Result<(), Error>;

#[test]
fn initial_weights() {
    let mut listing = Listing::default();
    let shape = [80, 5, 5, 5];
    let (fan_in, fan_out) = init::fans(&shape).unwrap();
    listing.values("fans of [80, 5, 5, 5]", &[fan_in as u64, fan_out as u64]);
    let mut section = |title: &str, fill: Fill<'_>| {
        let values = filled(|out| fill(&mut Generator::new(42), out));
        listing.values(title, &values);
    };
    section("kaiming_uniform, relu", &|g, out| init::kaiming_uniform(g, out, fan_in, Gain::Relu));
    section("kaiming_normal, leaky", &|g, out| {
        init::kaiming_normal(g, out, fan_in, Gain::LeakyRelu(0.01))
    });
    section("xavier_uniform, tanh", &|g, out| {
        init::xavier_uniform(g, out, fan_in, fan_out, Gain::Tanh)
    });
    section("xavier_normal, linear", &|g, out| {
        init::xavier_normal(g, out, fan_in, fan_out, Gain::Linear)
    });
    section("orthogonal, selu", &|g, out| init::orthogonal(g, out, 80, 125, Gain::Selu));
    insta::assert_snapshot!("initial_weights", listing);
}

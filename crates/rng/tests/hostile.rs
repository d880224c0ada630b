//! Sizes beyond any machine's memory, and parameters at the limits of their types: a value or an
//! error that names the operation, never a panic, and a generator that does not advance on error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use samebits_rng::init::{self, Gain};
use samebits_rng::numpy::{self, SeedSequence};
use samebits_rng::torch::{CpuGenerator, CudaLaunch};
use samebits_rng::{Draw, Error, Generator, Pcg64, Pcg64Dxsm, Philox4x64};

#[test]
fn sizes_beyond_the_memory_are_errors() {
    let sizes = [1 << 50, usize::MAX / 16, usize::MAX / 8, usize::MAX / 2, usize::MAX];
    let mut generator = Generator::new(3);
    let mut host = numpy::default_rng(3);
    let mut torch = CpuGenerator::manual_seed(3);
    let (mut pcg, mut dxsm) = (Pcg64::new(3), Pcg64Dxsm::new(3));
    let mut philox = Philox4x64::new(3);
    let sequence = SeedSequence::new(3);
    for n in sizes {
        let found = [
            ("permutation", generator.permutation(n).err()),
            ("choice", generator.choice(u64::MAX, n).err()),
            ("permutation", Draw::new(1, 2, 3).permutation(n).err()),
            ("Generator::split", generator.split(n).err()),
            ("Pcg64::split", pcg.split(n).err()),
            ("Pcg64Dxsm::split", dxsm.split(n).err()),
            ("Philox4x64::split", philox.split(n).err()),
            ("numpy::Generator::permutation", host.permutation(n).err()),
            ("torch::randperm", torch.randperm(n).err()),
            ("SeedSequence::generate_state_u32", sequence.generate_state_u32(n).err()),
            ("SeedSequence::generate_state_u64", sequence.generate_state_u64(n).err()),
        ];
        for (name, error) in found {
            match error {
                Some(Error::OutOfMemory { op, bytes }) => {
                    assert_eq!(op, name);
                    assert!(bytes >= n, "{op} of {n}: {bytes} bytes");
                }
                other => panic!("{name} of {n}: {other:?}"),
            }
        }
    }
    assert_eq!(generator, Generator::new(3));
    assert_eq!((pcg, dxsm, philox), (Pcg64::new(3), Pcg64Dxsm::new(3), Philox4x64::new(3)));
    assert_eq!(host, numpy::default_rng(3));
    assert_eq!(torch, CpuGenerator::manual_seed(3));
}

/// Returns the generator's state after `draw`, and the message if it is an error.
fn outcome(
    name: &str,
    draw: impl FnOnce(&mut Generator) -> Result<(), Error>,
) -> (Generator, Option<String>) {
    let mut generator = Generator::new(9).with_stream(u64::MAX).with_offset(u64::MAX);
    let before = generator.clone();
    let drawn = catch_unwind(AssertUnwindSafe(|| draw(&mut generator)));
    let Ok(drawn) = drawn else { panic!("{name} panicked") };
    if drawn.is_err() {
        assert_eq!(generator, before, "{name} moved the generator");
    }
    (generator, drawn.err().map(|error| error.to_string()))
}

/// Fills, and checks that the result has no NaN.
fn no_nan(
    out: &mut [f32],
    fill: impl FnOnce(&mut [f32]) -> Result<(), Error>,
) -> Result<(), Error> {
    fill(out)?;
    assert!(out.iter().all(|x| !x.is_nan()), "{out:?}");
    Ok(())
}

const F32: [f32; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-45,
    f32::MIN_POSITIVE,
    f32::MAX,
    f32::MIN,
    1e30,
    9.9e18,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

#[test]
fn every_parameter_gives_values_or_an_error_that_names_the_operation() {
    let check = |op: &str, name: &str, draw: &dyn Fn(&mut Generator) -> Result<(), Error>| {
        let (_, message) = outcome(name, draw);
        if let Some(message) = message {
            assert!(message.starts_with(&format!("{op}: ")), "{name}: {message}");
        }
        if let Ok(()) = draw(&mut Generator::new(0)) {
            // A second time from elsewhere: other words take other branches.
            draw(&mut Generator::new(u64::MAX)).unwrap();
        }
    };
    let mut x = [0f32; 40];
    let mut wide = [0f64; 40];
    let (mut counts, mut events) = ([0i64; 40], [false; 40]);
    for a in F32 {
        let (ones, all) = ([a; 40], f64::from(a));
        let case = |op: &str| format!("{op} of {a:e}");
        type Filler<'a> = &'a dyn Fn(&mut Generator) -> Result<(), Error>;
        let cell = std::cell::RefCell::new((x, wide, counts, events));
        let table: [(&str, Filler<'_>); 14] = [
            ("exponential_f32", &|g| g.fill_exponential_f32(&mut cell.borrow_mut().0, a)),
            ("exponential_f64", &|g| g.fill_exponential_f64(&mut cell.borrow_mut().1, all)),
            ("geometric", &|g| g.fill_geometric(&mut cell.borrow_mut().2, all)),
            ("dirichlet_f32", &|g| g.fill_dirichlet_f32(&ones[..8], &mut cell.borrow_mut().0)),
            ("categorical", &|g| g.fill_categorical(&ones, 4, &mut cell.borrow_mut().2)),
            ("gamma_f32", &|g| g.fill_gamma_f32(&ones, &mut cell.borrow_mut().0)),
            ("loggamma_f32", &|g| g.fill_loggamma_f32(&ones, &mut cell.borrow_mut().0)),
            ("poisson", &|g| g.fill_poisson(&ones, &mut cell.borrow_mut().2)),
            ("bernoulli", &|g| g.fill_bernoulli(&mut cell.borrow_mut().3, all)),
            ("bernoulli_each", &|g| g.fill_bernoulli_each(&ones, &mut cell.borrow_mut().3)),
            ("dropout_mask", &|g| g.fill_dropout_mask(all, &mut [0; 40])),
            ("multinomial", &|g| g.fill_multinomial(&ones, &mut cell.borrow_mut().2)),
            ("multinomial_without_replacement", &|g| {
                g.fill_multinomial_without_replacement(&ones, &mut cell.borrow_mut().2)
            }),
            ("kaiming_uniform", &|g| {
                let gain = Gain::LeakyRelu(all);
                init::kaiming_uniform(g, &mut cell.borrow_mut().0, usize::MAX, gain)
            }),
        ];
        for (op, draw) in table {
            check(op, &case(op), draw);
        }
        for trials in [0, 1, 9, 1 << 52, (1 << 52) + 1, u64::MAX] {
            check("binomial", &format!("binomial of {trials}, {a:e}"), &|g| {
                g.fill_binomial(&[trials; 40], &ones, &mut cell.borrow_mut().2)
            });
        }
        for b in F32 {
            let case = |op: &str| format!("{op} of {a:e} and {b:e}");
            let wide_b = f64::from(b);
            let table: [(&str, Filler<'_>); 12] = [
                ("uniform_f32", &|g| g.fill_uniform_f32(&mut cell.borrow_mut().0, a, b)),
                ("uniform_f64", &|g| g.fill_uniform_f64(&mut cell.borrow_mut().1, all, wide_b)),
                ("normal_f32", &|g| g.fill_normal_f32(&mut cell.borrow_mut().0, a, b)),
                ("normal_f64", &|g| g.fill_normal_f64(&mut cell.borrow_mut().1, all, wide_b)),
                ("beta_f32", &|g| {
                    let out = &mut cell.borrow_mut().0;
                    g.fill_beta_f32(&ones, &[b; 40], out)?;
                    assert!(out.iter().all(|x| (0.0..=1.0).contains(x)), "{a:e}, {b:e}: {out:?}");
                    Ok(())
                }),
                ("laplace", &|g| no_nan(&mut cell.borrow_mut().0, |out| g.fill_laplace(out, a, b))),
                ("gumbel", &|g| no_nan(&mut cell.borrow_mut().0, |out| g.fill_gumbel(out, a, b))),
                ("cauchy", &|g| no_nan(&mut cell.borrow_mut().0, |out| g.fill_cauchy(out, a, b))),
                ("laplace", &|g| g.fill_laplace(&mut cell.borrow_mut().1, all, wide_b)),
                ("gumbel", &|g| g.fill_gumbel(&mut cell.borrow_mut().1, all, wide_b)),
                ("cauchy", &|g| g.fill_cauchy(&mut cell.borrow_mut().1, all, wide_b)),
                ("log_normal_f32", &|g| g.fill_log_normal_f32(&mut cell.borrow_mut().0, a, b)),
            ];
            for (op, draw) in table {
                check(op, &case(op), draw);
            }
            for (low, high) in F32.into_iter().zip(F32.into_iter().rev()).chain([(-1.0, 2.0)]) {
                let name = format!("truncated_normal_f32 of {a:e}, {b:e}, {low:e}, {high:e}");
                check("truncated_normal_f32", &name, &|g| {
                    let out = &mut cell.borrow_mut().0;
                    g.fill_truncated_normal_f32(out, a, b, low, high)?;
                    assert!(out.iter().all(|x| (low..=high).contains(x)), "{name}: {out:?}");
                    Ok(())
                });
            }
        }
        (x, wide, counts, events) = cell.into_inner();
    }
    for low in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX] {
        for high in [i64::MIN, -1, 0, 1, i64::MAX] {
            let name = format!("randint of {low} and {high}");
            let mut out = [0; 40];
            let (_, refused) = outcome(&name, |g| g.fill_randint(&mut out, low, high));
            assert_eq!(refused.is_some(), low >= high, "{name}");
            let in_range = |out: &[i64]| out.iter().all(|x| (low..high).contains(x));
            assert!(refused.is_some() || in_range(&out), "{name}: {out:?}");
            let drawn = numpy::default_rng(1).integers(low, high);
            assert_eq!(drawn.is_err(), low >= high, "{name}");
            assert!(drawn.is_ok_and(|x| (low..high).contains(&x)) || low >= high, "{name}");
            let drawn = CpuGenerator::manual_seed(1).randint(&mut out, low, high);
            assert_eq!(drawn.is_err(), low >= high, "{name}");
            assert!(drawn.is_err() || in_range(&out), "{name}: {out:?}");
        }
    }
}

#[test]
fn slices_of_different_lengths_are_refused() {
    let mut g = Generator::new(0);
    let errors = [
        g.dropout(&[1.0; 3], 0.5, &mut [0.0; 2], &mut [0; 3]),
        g.dropout(&[1.0; 3], 0.5, &mut [0.0; 3], &mut [0; 4]),
        g.fill_bernoulli_each(&[0.5; 3], &mut [false; 2]),
        g.fill_gamma_f32(&[0.5; 3], &mut [0.0; 4]),
        g.fill_loggamma_f32(&[0.5; 3], &mut [0.0; 4]),
        g.fill_poisson(&[0.5; 3], &mut [0i64; 4]),
        g.fill_binomial(&[1; 3], &[0.5; 4], &mut [0i64; 4]),
        g.fill_binomial(&[1; 4], &[0.5; 3], &mut [0i64; 4]),
        g.fill_multinomial(&[], &mut [0; 4]),
        g.fill_beta_f32(&[0.5; 3], &[0.5; 4], &mut [0.0; 4]),
        g.fill_beta_f32(&[0.5; 4], &[0.5; 3], &mut [0.0; 4]),
        g.fill_dirichlet_f32(&[0.5; 3], &mut [0.0; 4]),
        g.fill_dirichlet_f32(&[], &mut [0.0; 4]),
        g.fill_dirichlet_f32(&[], &mut []),
        g.fill_multinomial_rows(&[1.0; 4], 3, &mut [0; 3]),
        g.fill_multinomial_rows(&[1.0; 6], 3, &mut [0; 4]),
        g.fill_multinomial_rows(&[1.0; 4], 0, &mut []),
        g.fill_multinomial_rows(&[], 2, &mut []),
        g.fill_multinomial_rows(&[1.0, 1.0, 0.0, 0.0], 2, &mut [0; 4]),
        g.fill_categorical(&[1.0; 4], 0, &mut [0; 4]),
        g.fill_categorical(&[1.0, f32::NAN], 1, &mut [0; 4]),
        g.fill_categorical(&[1.0, f32::INFINITY], 1, &mut [0; 4]),
        g.fill_categorical(&[1.0, 1.0, f32::NEG_INFINITY, f32::NEG_INFINITY], 2, &mut [0; 4]),
        g.choice(3, 4).map(drop),
        g.fill_multinomial_without_replacement(&[1.0; 3], &mut [0; 4]),
        init::orthogonal(&mut g, &mut [0.0; 5], 2, 3, Gain::Linear),
        init::orthogonal(&mut g, &mut [0.0; 5], usize::MAX, 3, Gain::Linear),
        CpuGenerator::manual_seed(0).bernoulli_each(&[0.5; 3], &mut [false; 2]),
        CudaLaunch::new(132, 2048).unwrap().dropout_mask(0, 0, 0.5, &mut [0; 5]).map(drop),
    ];
    for (i, error) in errors.into_iter().enumerate() {
        assert!(error.is_err(), "call {i}");
    }
    assert_eq!(g, Generator::new(0));
}

/// Element *i* is the same wherever its piece begins, also beyond the last index at which a piece
/// can begin.
#[test]
fn the_last_elements_of_a_draw_are_those_of_its_pieces() {
    let draw = Draw::new(1, 2, 3);
    let start = u64::MAX - 40_000;
    let (mut whole, mut tail) = (vec![0; 60_000], vec![0; 30_000]);
    draw.words(start, &mut whole);
    draw.words(start + 30_000, &mut tail);
    assert_eq!(whole[30_000..], tail);
    // Words 2^64 and following are those of block 2^62.
    let after = 40_001;
    assert_eq!(whole[after..][..4], Generator::new(1).with_stream(2).block_at((1 << 62) + 3));

    let (mut mask, mut alone) = (vec![0; 60_000], vec![0; 60_000]);
    draw.dropout(start, &vec![1.0; 60_000], 0.5, &mut vec![0.0; 60_000], &mut mask).unwrap();
    draw.dropout_mask(start, 0.5, &mut alone).unwrap();
    assert_eq!(mask, alone);
    let mut events = vec![false; 60_000];
    draw.bernoulli_each(start, &vec![0.5; 60_000], &mut events).unwrap();
    draw.poisson(u64::MAX, &[1.0; 9], &mut [0i64; 9]).unwrap();
    draw.multinomial(u64::MAX, &[1.0; 9], &mut [0; 9]).unwrap();
    draw.multinomial_rows(u64::MAX, &[1.0; 9], 3, &mut [0; 9]).unwrap();
    draw.multinomial_rows(u64::MAX, &[], 0, &mut []).unwrap();
    draw.dirichlet_f32(u64::MAX, &[1.0; 3], &mut [0.0; 9]).unwrap();
    draw.gumbel(u64::MAX, &mut [0.0f64; 9], 0.0, 1.0).unwrap();
    draw.randint(u64::MAX, &mut [0u128; 9], 0, 5).unwrap();
}

#[test]
fn fans_and_launches_of_any_size() {
    let max = usize::MAX;
    assert_eq!(
        init::fans(&[0, 3, max, max]).unwrap_err().to_string().split(':').next(),
        Some("fans")
    );
    assert_eq!(init::fans(&[max, max]).unwrap(), (max, max));
    assert_eq!(init::fans(&[3, 2, max, 0]).unwrap(), (0, 0));
    assert!(init::fans(&[max, max, 2]).is_err());
    assert!(init::fans(&[max]).is_err());
    let mut weights = [0.0; 9];
    let mut g = Generator::new(0);
    init::xavier_uniform(&mut g, &mut weights, max, max, Gain::Relu).unwrap();
    init::xavier_normal(&mut g, &mut weights, max, max, Gain::Relu).unwrap();
    assert!(init::xavier_normal(&mut g, &mut weights, 0, 0, Gain::Relu).is_err());
    for multiprocessors in [1, u32::MAX] {
        for threads in [256, u32::MAX] {
            let launch = CudaLaunch::new(multiprocessors, threads).unwrap();
            launch.rand_f32(u64::MAX, u64::MAX, &mut weights);
            launch.rand_f32(0, 0, &mut []);
        }
    }
}

#[test]
fn a_decimal_seed_of_any_length_is_read_or_refused_at_once() {
    let longest = "9".repeat(4300);
    assert_eq!(SeedSequence::from_decimal(&longest).unwrap().entropy().len(), 447);
    for text in
        ["9".repeat(4301), "1".repeat(100_000_000), String::new(), "-1".into(), "1e5".into()]
    {
        assert!(matches!(SeedSequence::from_decimal(&text), Err(Error::Parameter { .. })));
    }
}

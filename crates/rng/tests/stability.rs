//! Values that releases promise to keep. A digest that changes is a breaking change.

use samebits_rng::{Draw, Generator, Pcg64, Pcg64Dxsm, Philox4x64, Words};

/// Returns the FNV-1a hash of little-endian bytes.
fn digest<T: Copy, const B: usize>(values: &[T], bytes: impl Fn(T) -> [u8; B]) -> u64 {
    values
        .iter()
        .flat_map(|value| bytes(*value))
        .fold(0xcbf29ce484222325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3))
}

fn draw() -> Draw {
    Generator::new(0x5eed).with_stream(1).with_offset(1 << 33).draw(0)
}

fn f32s(fill: impl Fn(&mut [f32])) -> u64 {
    let mut out = vec![0.0; 10_001];
    fill(&mut out);
    digest(&out, f32::to_le_bytes)
}

fn f64s(fill: impl Fn(&mut [f64])) -> u64 {
    let mut out = vec![0.0; 10_001];
    fill(&mut out);
    digest(&out, f64::to_le_bytes)
}

fn i64s(fill: impl Fn(&mut [i64])) -> u64 {
    let mut out = vec![0; 10_001];
    fill(&mut out);
    digest(&out, i64::to_le_bytes)
}

/// Fixed forever.
#[test]
fn words() {
    let draw = draw();
    let stream = |mut rng: Box<dyn rand_core::Rng>| {
        let words: Vec<u64> = (0..1000).map(|_| rng.next_u64()).collect();
        digest(&words, u64::to_le_bytes)
    };
    let found = [
        ("words", {
            let mut out = vec![0; 10_001];
            draw.words(0, &mut out);
            digest(&out, u32::to_le_bytes)
        }),
        ("word pairs", {
            let mut out = vec![0; 10_001];
            draw.words64(0, &mut out);
            digest(&out, u64::to_le_bytes)
        }),
        ("one after another", stream(Box::new(Words::new(Generator::new(9))))),
        ("pcg64", stream(Box::new(Pcg64::new(9)))),
        ("pcg64dxsm", stream(Box::new(Pcg64Dxsm::new(9)))),
        ("philox4x64", stream(Box::new(Philox4x64::new(9)))),
        ("pcg64 folded", stream(Box::new(Pcg64::new(9).fold_in(1)))),
        ("pcg64dxsm split", stream(Box::new(Pcg64Dxsm::new(9).split(2).unwrap().remove(1)))),
        ("philox4x64 folded", stream(Box::new(Philox4x64::new(9).fold_in(1)))),
        ("philox4x64 split", stream(Box::new(Philox4x64::new(9).split(2).unwrap().remove(1)))),
    ];
    let expected = [
        ("words", 0x8493209e059e95c5),
        ("word pairs", 0xf246893415cf5a3d),
        ("one after another", 0x539038b3557dc72a),
        ("pcg64", 0x531e83c22c56e1f6),
        ("pcg64dxsm", 0xf7680b0f233a82a5),
        ("philox4x64", 0x06b6ba8ac9e18597),
        ("pcg64 folded", 0xc2c4f0ecbb57eb34),
        ("pcg64dxsm split", 0x9a043735d2cf91ab),
        ("philox4x64 folded", 0xc7f624de7f4ae098),
        ("philox4x64 split", 0xef5c2251e6384352),
    ];
    assert_eq!(found, expected);
}

/// Fixed within a numerics version; the same in 1 and 2.
#[test]
fn distributions() {
    let draw = draw();
    let ramp: Vec<f32> = (0..10_001).map(|i| 0.25 + (i % 64) as f32).collect();
    let ramp_f64: Vec<f64> = ramp.iter().map(|&shape| f64::from(shape)).collect();
    let p: Vec<f32> = (0..10_001).map(|i| (i % 33) as f32 / 32.0).collect();
    let p_above_0: Vec<f32> = p.iter().map(|p| p + 0.03125).collect();
    let trials: Vec<u64> = (0..10_001).map(|i| i % 200).collect();
    let found = [
        ("uniform f32", f32s(|out| draw.uniform_f32(0, out, -1.0, 3.0).unwrap())),
        ("uniform f64", f64s(|out| draw.uniform_f64(0, out, -1.0, 3.0).unwrap())),
        ("normal f32", f32s(|out| draw.normal_f32(0, out, 0.0, 1.0).unwrap())),
        ("normal f64", f64s(|out| draw.normal_f64(0, out, 0.0, 1.0).unwrap())),
        ("log-normal", f32s(|out| draw.log_normal_f32(0, out, 0.0, 1.0).unwrap())),
        ("exponential", f32s(|out| draw.exponential_f32(0, out, 1.5).unwrap())),
        (
            "truncated normal",
            f32s(|out| draw.truncated_normal_f32(0, out, 0.0, 1.0, -2.0, 1.0).unwrap()),
        ),
        ("randint", i64s(|out| draw.randint(0, out, -10, 1000).unwrap())),
        ("randint with redraws", i64s(|out| draw.randint(0, out, i64::MIN, 1 << 62).unwrap())),
        ("gamma", f32s(|out| draw.gamma_f32(0, &ramp, out).unwrap())),
        ("loggamma", f32s(|out| draw.loggamma_f32(0, &ramp, out).unwrap())),
        ("gamma f64", f64s(|out| draw.gamma_f64(0, &ramp_f64, out).unwrap())),
        ("loggamma f64", f64s(|out| draw.loggamma_f64(0, &ramp_f64, out).unwrap())),
        ("beta f64", f64s(|out| draw.beta_f64(0, &ramp_f64, &ramp_f64, out).unwrap())),
        (
            "dirichlet f64",
            f64s(|out| draw.dirichlet_f64(0, &ramp_f64[..137], &mut out[..9864]).unwrap()),
        ),
        ("poisson", i64s(|out| draw.poisson(0, &ramp, out).unwrap())),
        ("binomial", i64s(|out| draw.binomial(0, &trials, &p, out).unwrap())),
        ("multinomial", i64s(|out| draw.multinomial(0, &ramp[..64], out).unwrap())),
        (
            "multinomial without replacement",
            i64s(|out| draw.multinomial_without_replacement(&ramp, out).unwrap()),
        ),
        ("laplace f32", f32s(|out| draw.laplace(0, out, 0.5, 2.0).unwrap())),
        ("laplace f64", f64s(|out| draw.laplace(0, out, 0.5, 2.0).unwrap())),
        ("gumbel f32", f32s(|out| draw.gumbel(0, out, 0.5, 2.0).unwrap())),
        ("gumbel f64", f64s(|out| draw.gumbel(0, out, 0.5, 2.0).unwrap())),
        ("cauchy f32", f32s(|out| draw.cauchy(0, out, 0.5, 2.0).unwrap())),
        ("cauchy f64", f64s(|out| draw.cauchy(0, out, 0.5, 2.0).unwrap())),
        ("exponential f64", f64s(|out| draw.exponential_f64(0, out, 1.5).unwrap())),
        ("geometric", i64s(|out| draw.geometric(0, out, 0.01).unwrap())),
        ("beta", f32s(|out| draw.beta_f32(0, &ramp, &p_above_0, out).unwrap())),
        ("dirichlet", f32s(|out| draw.dirichlet_f32(0, &ramp[..137], &mut out[..9864]).unwrap())),
        (
            "multinomial by rows",
            i64s(|out| draw.multinomial_rows(0, &ramp[..365], 73, out).unwrap()),
        ),
        ("categorical", i64s(|out| draw.categorical(0, &p[..365], 73, out).unwrap())),
        ("choice", digest(&draw.choice(1 << 40, 10_001).unwrap(), u64::to_le_bytes)),
        ("choice of all", digest(&draw.choice(10_001, 10_001).unwrap(), u64::to_le_bytes)),
        ("bijection", {
            let (few, many) = (draw.bijection(10_001), draw.bijection(1_000_000_007));
            let elements = (0..10_001).map(|i| few.at(i).unwrap() ^ many.at(i).unwrap());
            digest(&elements.collect::<Vec<_>>(), u64::to_le_bytes)
        }),
        ("randint u8", {
            let mut out = vec![0u8; 10_001];
            draw.randint(0, &mut out, 3, 250).unwrap();
            digest(&out, u8::to_le_bytes)
        }),
        ("randint u128", {
            let mut out = vec![0u128; 10_001];
            draw.randint(0, &mut out, 3, 3 << 126).unwrap();
            digest(&out, u128::to_le_bytes)
        }),
        ("permutation", digest(&draw.permutation(10_001).unwrap(), i64::to_le_bytes)),
        ("dropout", f32s(|out| draw.dropout(0, &ramp, 0.3, out, &mut [0; 10_001]).unwrap())),
        ("bernoulli", {
            let mut out = vec![false; 10_001];
            draw.bernoulli(0, &mut out, 0.3).unwrap();
            digest(&out, |event| [u8::from(event)])
        }),
    ];
    let expected = [
        ("uniform f32", 0x1fabd6991cca6a03),
        ("uniform f64", 0x6c60c031abdbe827),
        ("normal f32", 0x09d72dfdb502a8b3),
        ("normal f64", 0x75db772a789eb6b8),
        ("log-normal", 0xe3b5f013584337df),
        ("exponential", 0x566d7e0a7a8b6bc7),
        ("truncated normal", 0x39973aad48261fe5),
        ("randint", 0x8087226d37a9c229),
        ("randint with redraws", 0xc0115087a9c57112),
        ("gamma", 0xacdb1aa81c2a9320),
        ("loggamma", 0x532c306ea66295c6),
        ("gamma f64", 0x456accfac5d23318),
        ("loggamma f64", 0x8e1d5afda411d7eb),
        ("beta f64", 0xaa32f4d221982898),
        ("dirichlet f64", 0x5b69d385f4b10fec),
        ("poisson", 0x63bf3ee975aa9638),
        ("binomial", 0xd5767f3407f692f2),
        ("multinomial", 0xd5930cf36d254f73),
        ("multinomial without replacement", 0x61e51575829dd42c),
        ("laplace f32", 0x9846ea982beee108),
        ("laplace f64", 0x865389abc242616c),
        ("gumbel f32", 0x95352eacb8172913),
        ("gumbel f64", 0xcc42b77c6b8293e5),
        ("cauchy f32", 0xda6a0e5ce69a17ee),
        ("cauchy f64", 0xae7958960c27c54f),
        ("exponential f64", 0x07ded0f3e3296430),
        ("geometric", 0x803350fc26249f11),
        ("beta", 0xb3720f5340bd7245),
        ("dirichlet", 0xafc54d3d09129f73),
        ("multinomial by rows", 0x43900a26d4050e82),
        ("categorical", 0x26b3fd7dfa6b8561),
        ("choice", 0x9451d18daa1b79c4),
        ("choice of all", 0x8c257c7eaf77c850),
        ("bijection", 0x0fa0d07f64b91bbe),
        ("randint u8", 0x20b4fb8ccd8ca25f),
        ("randint u128", 0x478c3ae8213d5b70),
        ("permutation", 0xc750055bcda4f5c0),
        ("dropout", 0xdc84b29b93042bfc),
        ("bernoulli", 0x458ca636a3bee25d),
    ];
    assert_eq!(found, expected);
}

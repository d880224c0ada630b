//! PyTorch's values: published ones, and digests of draws of PyTorch 2.11.

use samebits_rng::torch::{CpuGenerator, CudaLaunch};

/// Returns the FNV-1a hash of the bytes of a PyTorch tensor.
fn digest(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes
        .into_iter()
        .fold(0xcbf29ce484222325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3))
}

fn digest_i64(values: &[i64]) -> u64 {
    digest(values.iter().flat_map(|value| value.to_le_bytes()))
}

fn digest_f32(values: &[f32]) -> u64 {
    digest(values.iter().flat_map(|value| value.to_le_bytes()))
}

fn digest_bool(values: &[bool]) -> u64 {
    digest(values.iter().map(|value| u8::from(*value)))
}

#[test]
fn words_and_published_values_of_seed_0() {
    let seeded = CpuGenerator::manual_seed(0);
    let mut generator = seeded.clone();
    let words: Vec<u32> = (0..4).map(|_| generator.random()).collect();
    assert_eq!(words, [2357136044, 2546248239, 3071714933, 3626093760]);

    let mut x = [0.0; 4];
    seeded.clone().rand_f32(&mut x);
    assert_eq!(x.map(|x| (x * 1e4).round()), [4963.0, 7682.0, 885.0, 1320.0]);

    let mut x = [0.0; 2];
    seeded.clone().rand_f64(&mut x);
    assert_eq!(x, [0.9700530018065531, 0.707819864399788]);

    let mut integers = [0; 10];
    seeded.clone().randint(&mut integers, 0, 10).unwrap();
    assert_eq!(integers, [4, 9, 3, 0, 3, 9, 7, 3, 7, 3]);
    assert_eq!(seeded.clone().randperm(10).unwrap(), [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]);
    assert_eq!(seeded.clone().random_i64(), 900450186894289455);
    assert_eq!(seeded.clone().random_i32(), 209652396);
    assert_eq!(seeded.clone().random_f32(), 8325664.0);
    assert_eq!(seeded.clone().random_f64(), 8737460674930124.0);
}

#[test]
fn published_values_of_seed_42() {
    let seeded = CpuGenerator::manual_seed(42);
    let mut x = [0.0; 4];
    seeded.clone().rand_f32(&mut x);
    assert_eq!(x.map(|x| (x * 1e4).round()), [8823.0, 9150.0, 3829.0, 9593.0]);
    assert_eq!(seeded.clone().randperm(10).unwrap(), [2, 6, 1, 8, 4, 5, 0, 9, 3, 7]);
    assert_eq!(seeded.clone().random_i64(), 6909045637428952499);
}

#[test]
fn only_the_low_half_of_the_seed_counts() {
    let (mut a, mut b) = (CpuGenerator::manual_seed(7), CpuGenerator::manual_seed(7 | 1 << 32));
    assert_eq!(a.random64(), b.random64());
    assert_ne!(a.initial_seed(), b.initial_seed());
}

#[test]
fn digests_of_pytorch_tensors() {
    let mut x = vec![0.0; 1000];
    CpuGenerator::manual_seed(123456789012).rand_f32(&mut x);
    assert_eq!(digest_f32(&x), 0x4c2f61a2985251b3, "rand");

    let mut x = vec![0.0; 1000];
    CpuGenerator::manual_seed(6).rand_f64(&mut x);
    assert_eq!(digest(x.iter().flat_map(|x| x.to_le_bytes())), 0x235eb006db2a8dc1, "rand f64");

    let order = CpuGenerator::manual_seed(1).randperm(5000).unwrap();
    assert_eq!(digest_i64(&order), 0x1ffba5917a29dae1, "randperm");

    let mut generator = CpuGenerator::manual_seed(2);
    let mut integers = vec![0; 1000];
    generator.randint(&mut integers, -50, 1000).unwrap();
    assert_eq!(digest_i64(&integers), 0xd4f7c17cfc299e90, "randint of one word");
    generator.randint(&mut integers, -(1 << 40), 1 << 41).unwrap();
    assert_eq!(digest_i64(&integers), 0xf1172f2824ac1fde, "randint of two words");

    let mut generator = CpuGenerator::manual_seed(3);
    let mut events = vec![false; 1000];
    generator.bernoulli(&mut events, 0.3);
    assert_eq!(digest_bool(&events), 0x485a001b3dfd9f71, "bernoulli_");
    let p: Vec<f32> = (0..1000).map(|i| i as f32 / 1000.0).collect();
    generator.bernoulli_each(&p, &mut events).unwrap();
    assert_eq!(digest_bool(&events), 0x2c2851d6a7184d37, "bernoulli");

    let mut mask = vec![false; 1000];
    CpuGenerator::manual_seed(4).bernoulli(&mut mask, 0.75);
    assert_eq!(digest_bool(&mask), 0xad43bb38a22fc36f, "dropout");
}

#[test]
fn a_state_is_pytorchs_and_continues() {
    let mut generator = CpuGenerator::manual_seed(5);
    generator.randn_f32(&mut [0.0; 3]);
    generator.rand_f32(&mut [0.0; 7]);
    let state = generator.get_state();
    assert_eq!(state.len(), CpuGenerator::STATE_BYTES);

    // PyTorch's own bytes, except for the cached f64, whose last bit is the C library's.
    let cached = 24 + 8 * 624 + 8;
    let found = f64::from_le_bytes(state[cached..cached + 8].try_into().unwrap());
    let expected = f64::from_le_bytes([44, 7, 140, 236, 91, 92, 229, 63]);
    assert!((found - expected).abs() < 1e-15);
    let mut pytorch = state.clone();
    pytorch[cached..cached + 8].copy_from_slice(&expected.to_le_bytes());
    assert_eq!(digest(pytorch.iter().copied()), 0x42a6fa09a17cf77a);

    let mut restored = CpuGenerator::from_state(&pytorch).unwrap();
    let mut x = vec![0.0; 700];
    restored.rand_f32(&mut x);
    assert_eq!(digest_f32(&x), 0x475b42a5482a9e81);
    let mut y = [0.0; 1];
    restored.randn_f64(&mut y);
    assert_eq!(y, [expected]);

    // This state has no normal number left over.
    let mut again = CpuGenerator::from_state(&restored.get_state()).unwrap();
    let mut z = [0.0; 1];
    restored.randn_f64(&mut y);
    again.randn_f64(&mut z);
    assert_eq!(y, z);
}

#[test]
fn impossible_states_are_refused() {
    let state = CpuGenerator::manual_seed(5).get_state();
    let damaged = |at: usize, byte: u8| {
        let mut state = state.clone();
        state[at] = byte;
        CpuGenerator::from_state(&state)
    };
    assert!(damaged(0, 1).is_ok(), "any seed is possible");
    assert!(damaged(12, 0).is_err(), "never seeded");
    assert!(damaged(8, 0).is_err(), "nothing left and no twist");
    assert!(damaged(9, 9).is_err(), "more left than there are");
    assert!(damaged(23, 9).is_err(), "position beyond the words");
    assert!(damaged(24 + 4, 1).is_err(), "word of 33 bits");
    assert!(CpuGenerator::from_state(&state[1..]).is_err(), "a byte missing");
}

#[test]
fn normal_numbers_are_pytorchs_but_for_rounding() {
    let cases: [(usize, &[u32]); 2] = [
        (6, &[1069891420, 3197516880, 3221975369, 1058112694, 3213545889, 3216180525]),
        (
            20,
            &[
                3213892485, 3214114954, 3196079062, 3202229597, 1058622859, 3217493339, 3199125194,
                1072508750, 1055894101, 3189866335, 1069074907, 1049114529, 1068619456, 1070271744,
                1064452252, 3210214195, 1064209456, 1067525943, 1073762714, 1029446458,
            ],
        ),
    ];
    for (n, expected) in cases {
        let mut x = vec![0.0; n];
        CpuGenerator::manual_seed(0).randn_f32(&mut x);
        for (x, bits) in x.iter().zip(expected) {
            let expected = f32::from_bits(*bits);
            assert!((x - expected).abs() <= 2e-6 * expected.abs().max(1.0), "{x} {expected}");
        }
    }
    let mut x = [0.0; 3];
    CpuGenerator::manual_seed(0).randn_f64(&mut x);
    for (x, bits) in x.iter().zip([4609618848671514170, 13822329602015260650, 13835460653179408101])
    {
        assert!((x - f64::from_bits(bits)).abs() < 1e-14);
    }
    let mut x = [0.0; 18];
    CpuGenerator::manual_seed(0).randn_f64(&mut x);
    for (x, bits) in x.iter().zip([13835757040516096732u64, 13823767546531386464]) {
        assert!((x - f64::from_bits(bits)).abs() < 1e-14);
    }
    assert!((x[17] - f64::from_bits(4607393481694327714)).abs() < 1e-14);
}

#[test]
fn cuda_values_do_not_depend_on_the_gpu_until_its_threads_run_out() {
    let launch = |multiprocessors, threads| CudaLaunch::new(multiprocessors, threads).unwrap();
    let (t4, h200) = (launch(40, 1024), launch(132, 2048));
    for (seed, expected) in
        [(0, [3990.0, 5167.0, 249.0, 9401.0]), (42, [6130.0, 101.0, 3984.0, 403.0])]
    {
        for gpu in [t4, h200] {
            let mut x = [0.0; 4];
            assert_eq!(gpu.rand_f32(seed, 0, &mut x), 4);
            assert_eq!(x.map(|x| (x * 1e4).round()), expected);
        }
    }
    // The T4 holds 40,960 threads.
    let n = 40_960 + 1;
    let (mut a, mut b) = (vec![0.0; n], vec![0.0; n]);
    t4.rand_f32(0, 0, &mut a);
    h200.rand_f32(0, 0, &mut b);
    assert_eq!(a[..n - 1], b[..n - 1]);
    assert_ne!(a[n - 1], b[n - 1]);
    // Its thread 0 takes the second word of its block.
    let word = samebits_rng::Philox4x32::from_seed(0).at(0, 0)[1];
    assert_eq!(a[n - 1], word as f32 / 4294967296.0 + 1.0 / 8589934592.0);
    // Four words of every thread, then the next block.
    assert_eq!(t4.rand_f32(0, 8, &mut vec![0.0; 4 * 40_960]), 12);
    assert_eq!(t4.rand_f32(0, 8, &mut vec![0.0; 4 * 40_960 + 1]), 16);
    assert!(CudaLaunch::new(0, 2048).is_err());
}

#[test]
fn cuda_masks_take_whole_blocks() {
    let gpu = CudaLaunch::new(132, 2048).unwrap();
    let mut mask = vec![0; 4096];
    assert_eq!(gpu.dropout_mask(9, 4, 0.25, &mut mask).unwrap(), 8);
    let kept = mask.iter().filter(|keep| **keep == 1).count();
    // Computed by a Philox written from the paper in another language, which reproduces its known
    // answers: block (1, thread) of seed 9 for four neighbours, kept if (word + 1/2) / 2^32 < 0.75.
    let bits = |mask: &[u8]| mask.iter().fold(0u64, |bits, &keep| bits << 1 | u64::from(keep));
    assert_eq!(
        [0, 1, 2, 3].map(|i| bits(&mask[64 * i..][..64])),
        [0xddf8f3f7c777dffb, 0xb7edfed9fe7faed7, 0xbf36ff6bddadf6b3, 0x68fdee6fe5ff69fe]
    );
    assert_eq!(kept, 3062);
    let hash = |hash: u64, &keep: &u8| hash.wrapping_mul(31).wrapping_add(keep.into());
    assert_eq!(mask.iter().fold(0, hash), 0x8cced0703bdf2cd8);
    assert!(gpu.dropout_mask(9, 4, 0.25, &mut mask[1..]).is_err());
    assert!(gpu.dropout_mask(9, 4, 1.5, &mut mask).is_err());
}

//! Guarantees of every generator and every draw about positions, pieces and order.

use proptest::prelude::*;
use rand_core::Rng;
use samebits_rng::torch::CpuGenerator;
use samebits_rng::{Draw, Error, Generator, Pcg64, Pcg64Dxsm, Philox4x64, Words};

/// Returns the bits of everything a generator can fill, `n` elements of each, from element `start`
/// on.
fn everything(draw: &Draw, start: u64, n: usize) -> Vec<Vec<u64>> {
    let f32s = |fill: &dyn Fn(&mut [f32])| {
        let mut out = vec![f32::NAN; n];
        fill(&mut out);
        out.into_iter().map(|x| u64::from(x.to_bits())).collect()
    };
    let f64s = |fill: &dyn Fn(&mut [f64])| {
        let mut out = vec![f64::NAN; n];
        fill(&mut out);
        out.into_iter().map(f64::to_bits).collect()
    };
    let i64s = |fill: &dyn Fn(&mut [i64])| {
        let mut out = vec![-1; n];
        fill(&mut out);
        out.into_iter().map(|x| x as u64).collect()
    };
    let bools = |fill: &dyn Fn(&mut [bool])| {
        let mut out = vec![false; n];
        fill(&mut out);
        out.into_iter().map(u64::from).collect()
    };
    // The parameters of an element belong to its index.
    let parameter = |i: usize| (start as usize + i) as f32;
    let shapes: Vec<f32> = (0..n).map(|i| 0.1 + parameter(i) % 7.0).collect();
    let p: Vec<f32> = (0..n).map(|i| parameter(i) % 8.0 / 8.0).collect();
    let trials: Vec<u64> = (0..n).map(|i| (start + i as u64) % 90).collect();
    let input: Vec<f32> = (0..n).map(parameter).collect();
    vec![
        {
            let mut out = vec![0; n];
            draw.words(start, &mut out);
            out.into_iter().map(u64::from).collect()
        },
        {
            let mut out = vec![0; n];
            draw.words64(start, &mut out);
            out
        },
        f32s(&|out| draw.uniform_f32(start, out, -1.0, 2.0).unwrap()),
        f64s(&|out| draw.uniform_f64(start, out, -1.0, 2.0).unwrap()),
        f32s(&|out| draw.normal_f32(start, out, 0.5, 2.0).unwrap()),
        f64s(&|out| draw.normal_f64(start, out, 0.5, 2.0).unwrap()),
        f32s(&|out| draw.log_normal_f32(start, out, 0.0, 1.0).unwrap()),
        f32s(&|out| draw.exponential_f32(start, out, 3.0).unwrap()),
        f32s(&|out| draw.truncated_normal_f32(start, out, 0.0, 1.0, -1.0, 4.0).unwrap()),
        i64s(&|out| draw.randint(start, out, -5, 100).unwrap()),
        // So wide that a third of all words is rejected.
        i64s(&|out| draw.randint(start, out, i64::MIN, 1 << 62).unwrap()),
        bools(&|out| draw.bernoulli(start, out, 0.4).unwrap()),
        bools(&|out| draw.bernoulli_each(start, &p, out).unwrap()),
        f32s(&|out| {
            let mut mask = vec![0; n];
            draw.dropout(start, &input, 0.4, out, &mut mask).unwrap();
            let mut alone = vec![0; n];
            draw.dropout_mask(start, 0.4, &mut alone).unwrap();
            assert_eq!(mask, alone);
        }),
        f32s(&|out| draw.gamma_f32(start, &shapes, out).unwrap()),
        i64s(&|out| draw.poisson(start, &input, out).unwrap()),
        i64s(&|out| draw.binomial(start, &trials, &p, out).unwrap()),
        i64s(&|out| draw.multinomial(start, &[1.0, 2.0, 3.0], out).unwrap()),
        f32s(&|out| draw.laplace(start, out, 0.5, 2.0).unwrap()),
        f64s(&|out| draw.laplace(start, out, 0.5, 2.0).unwrap()),
        f32s(&|out| draw.gumbel(start, out, 0.5, 2.0).unwrap()),
        f64s(&|out| draw.gumbel(start, out, 0.5, 2.0).unwrap()),
        f32s(&|out| draw.cauchy(start, out, 0.5, 2.0).unwrap()),
        f64s(&|out| draw.cauchy(start, out, 0.5, 2.0).unwrap()),
        f64s(&|out| draw.exponential_f64(start, out, 3.0).unwrap()),
        f64s(&|out| draw.geometric(start, out, 0.01).unwrap()),
        f32s(&|out| draw.beta_f32(start, &shapes, &shapes, out).unwrap()),
        // One element per row.
        f32s(&|out| draw.dirichlet_f32(start, &[0.5], out).unwrap()),
        i64s(&|out| draw.multinomial_rows(start, &[1.0, 2.0, 3.0].repeat(n), n, out).unwrap()),
        i64s(&|out| draw.categorical(start, &[1.0, 2.0, 3.0].repeat(n), n, out).unwrap()),
        {
            let mut out = vec![0u8; n];
            draw.randint(start, &mut out, 3, 250).unwrap();
            out.into_iter().map(u64::from).collect()
        },
        {
            // So wide that a third of all blocks is rejected.
            let mut out = vec![0i128; n];
            draw.randint(start, &mut out, i128::MIN, 1 << 126).unwrap();
            out.into_iter().map(|x| x as u64 ^ (x >> 64) as u64).collect()
        },
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pieces_equal_the_whole(
        seed: u64,
        stream in 0u64..4,
        first in prop_oneof![0u64..100, Just(u64::MAX - 3)],
        start in 0u64..50,
        cut in 0usize..200,
        rest in 0usize..200,
    ) {
        let draw = Draw::new(seed, stream, first);
        let whole = everything(&draw, start, cut + rest);
        let head = everything(&draw, start, cut);
        let tail = everything(&draw, start + cut as u64, rest);
        for ((whole, head), tail) in whole.iter().zip(head).zip(tail) {
            prop_assert_eq!(&whole[..cut], &head[..]);
            prop_assert_eq!(&whole[cut..], &tail[..]);
        }
    }

    #[test]
    fn advancing_equals_drawing(seed: u64, stream: u64, n in 0usize..70, m in 0usize..70) {
        let mut drawn = Generator::new(seed).with_stream(stream);
        for _ in 0..n {
            drawn.next_block();
        }
        let mut advanced = Generator::new(seed).with_stream(stream);
        advanced.advance(n as u64);
        prop_assert_eq!(&drawn, &advanced);
        prop_assert_eq!(drawn.next_block(), advanced.next_block());

        let mut words = Words::new(Generator::new(seed));
        let mut skipped = words.clone();
        for _ in 0..n {
            words.next_u32();
        }
        skipped.advance(n as u64);
        prop_assert_eq!(&words, &skipped);
        skipped.advance(m as u64);
        for _ in 0..m {
            words.next_u32();
        }
        prop_assert_eq!(words.next_u64(), skipped.next_u64());
        prop_assert_eq!(words.into_generator(), skipped.into_generator());
    }

    #[test]
    fn a_restored_state_continues(seed: u64, stream: u64, offset: u64) {
        let mut generator = Generator::new(seed).with_stream(stream).with_offset(offset);
        let mut restored = Generator::from_bytes(&generator.to_bytes()).unwrap();
        prop_assert_eq!(generator.next_block(), restored.next_block());
        prop_assert_eq!(&generator, &restored);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..6000),
        numbers in prop::collection::vec(hostile_number(), CpuGenerator::STATE_BYTES / 8),
        patches in prop::collection::vec((0usize..CpuGenerator::STATE_BYTES, any::<u8>()), 0..9),
    ) {
        use_state(&bytes);
        let fields: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        for (kind, length) in STATES {
            use_state(&sealed(kind, &fields[..length - HEADER]));
        }
        use_state(&fields);
        // A state that PyTorch could have written, except for some bytes.
        let mut state = CpuGenerator::manual_seed(1).get_state();
        for (at, byte) in patches {
            state[at] = byte;
        }
        use_state(&state);
        // The same, except for the seed and the position.
        let mut state = CpuGenerator::manual_seed(1).get_state();
        state[..12].copy_from_slice(&fields[..12]);
        state[16..24].copy_from_slice(&fields[16..24]);
        use_state(&state);
    }

    #[test]
    fn children_do_not_depend_on_what_else_is_drawn(seed: u64, n in 1usize..20, pick in 0usize..20) {
        let pick = pick % n;
        let mut parent = Generator::new(seed);
        let children = parent.split(n).unwrap();
        // In any order, and after any draw from the others.
        let mut last_first = children.clone();
        let expected = children[pick].clone().next_block();
        for child in last_first.iter_mut().rev() {
            child.fill_u32(&mut [0; 33]);
        }
        prop_assert_eq!(Generator::new(seed).split(n).unwrap()[pick].next_block(), expected);
        // A longer split begins with the shorter one; the next split gives other children.
        prop_assert_eq!(&Generator::new(seed).split(n + 3).unwrap()[..n], &children[..]);
        prop_assert!(parent.split(n).unwrap().iter().all(|child| !children.contains(child)));
        let folded = Generator::new(seed).fold_in(pick as u64);
        prop_assert_eq!(&parent.fold_in(pick as u64), &folded);
        prop_assert!(!children.contains(&folded));
    }

    #[test]
    fn names_and_numbers_have_children_of_their_own(
        seed: u64,
        names in prop::collection::btree_set("[a-z\\PC\0]{0,20}", 2..12),
    ) {
        let parent = Generator::new(seed);
        let mut children: Vec<Generator> = names.iter().map(|name| parent.derive(name)).collect();
        children.extend((0..20).map(|i| parent.fold_in(i)));
        children.extend(parent.clone().split(20).unwrap());
        children.extend(names.iter().map(|name| parent.fold_in(0).derive(name)));
        children.extend(names.iter().map(|name| parent.derive(name).fold_in(0)));
        children.push(parent.derive("a").derive("b"));
        for (i, child) in children.iter().enumerate() {
            prop_assert!(!children[..i].contains(child), "child {i} of {names:?}");
        }
    }
}

/// Kind and length of every state with a header, as documented.
const STATES: [(u8, usize); 4] = [
    (1, Generator::STATE_BYTES),
    (2, Pcg64::STATE_BYTES),
    (3, Pcg64Dxsm::STATE_BYTES),
    (4, Philox4x64::STATE_BYTES),
];
const HEADER: usize = 8;

/// Returns small numbers, the limits of the integer types, and those of the Mersenne twister's
/// positions.
fn hostile_number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..6,
        620u64..630,
        Just(u64::from(u32::MAX)),
        Just(u64::from(u32::MAX) + 2),
        Just(u64::MAX >> 1),
        u64::MAX - 630..=u64::MAX,
        any::<u64>(),
    ]
}

/// Returns a state of this kind with these fields, a valid header and the right checksum.
fn sealed(kind: u8, fields: &[u8]) -> Vec<u8> {
    let head = [b's', b'b', kind, 1];
    let crc = head.iter().chain(fields).fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xedb88320 } else { crc >> 1 }
        })
    });
    [&head, &(!crc).to_le_bytes()[..], fields].concat()
}

/// Restores every generator that accepts `bytes`, and uses it.
fn use_state(bytes: &[u8]) {
    let host = |rng: &mut dyn Rng| {
        (0..2000).for_each(|_| {
            rng.next_u64();
        })
    };
    if let Ok(mut generator) = Generator::from_bytes(bytes) {
        generator.fill_u32(&mut [0; 100]);
        host(&mut Words::new(generator.fold_in(u64::MAX)));
        drop(generator.split(3).unwrap());
    }
    if let Ok(mut generator) = Pcg64::from_bytes(bytes) {
        host(&mut generator);
        generator.advance(u128::MAX);
        drop(generator.split(3).unwrap());
    }
    if let Ok(mut generator) = Pcg64Dxsm::from_bytes(bytes) {
        host(&mut generator);
        generator.advance(u128::MAX);
        drop(generator.split(3).unwrap());
    }
    if let Ok(mut generator) = Philox4x64::from_bytes(bytes) {
        host(&mut generator);
        generator.advance(u128::MAX);
        drop(generator.jumped(u128::MAX).split(3).unwrap());
    }
    if let Ok(mut generator) = CpuGenerator::from_state(bytes) {
        let state = generator.get_state();
        assert_eq!(CpuGenerator::from_state(&state).unwrap().get_state(), state);
        (0..2000).for_each(|_| {
            generator.random();
        });
        generator.randn_f32(&mut [0.0; 3]);
        generator.randn_f64(&mut [0.0; 40]);
    }
}

/// The states of `arbitrary_bytes_never_panic` pass the checks of the frame.
#[test]
fn sealed_states_are_accepted() {
    let [philox, pcg, dxsm, philox64] =
        STATES.map(|(kind, length)| sealed(kind, &vec![0; length - HEADER]));
    assert_eq!(Generator::from_bytes(&philox).unwrap(), Generator::new(0));
    assert_eq!(Pcg64::from_bytes(&pcg).unwrap().offset(), 0);
    assert_eq!(Pcg64Dxsm::from_bytes(&dxsm).unwrap().offset(), 0);
    assert_eq!(Philox4x64::from_bytes(&philox64).unwrap().offset(), 0);
}

fn skip(rng: &mut impl Rng, n: u32) {
    for _ in 0..n {
        rng.next_u64();
    }
}

/// Tests the guarantees of the host generators, which share no trait.
macro_rules! host_generator {
    ($name:ident, $type:ident) => {
        mod $name {
            use super::*;

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(64))]

                #[test]
                fn advancing_equals_drawing(seed: u64, n in 0u32..300, m in 0u32..5) {
                    let mut drawn = $type::new(seed);
                    let mut advanced = drawn.clone();
                    skip(&mut drawn, n);
                    advanced.advance(u128::from(n));
                    prop_assert_eq!(&drawn, &advanced);
                    skip(&mut drawn, m);
                    advanced.advance(u128::from(m));
                    prop_assert_eq!(drawn.next_u64(), advanced.next_u64());
                    // Around the whole period, and back to before its position.
                    let mut back = drawn.clone();
                    back.advance(u128::MAX);
                    if stringify!($type) != "Philox4x64" {
                        back.next_u64();
                        prop_assert_eq!(&back, &drawn);
                    }
                }

                #[test]
                fn a_restored_state_continues(seed: u64, n in 0u32..10) {
                    let mut generator = $type::new(seed).fold_in(3);
                    skip(&mut generator, n);
                    let mut from_bytes = $type::from_bytes(&generator.to_bytes()).unwrap();
                    let next: Vec<u64> = (0..9).map(|_| generator.next_u64()).collect();
                    let continued: Vec<u64> = (0..9).map(|_| from_bytes.next_u64()).collect();
                    prop_assert_eq!(&continued, &next);
                    prop_assert_eq!(generator, from_bytes);
                }

                #[test]
                fn children_are_their_own(seed: u64) {
                    let mut parent = $type::new(seed);
                    let children = parent.split(3).unwrap();
                    prop_assert_eq!(&$type::new(seed).split(4).unwrap()[..3], &children[..]);
                    prop_assert!(parent.split(3).unwrap().iter().all(|child| !children.contains(child)));
                    prop_assert_eq!(parent.fold_in(2), $type::new(seed).fold_in(2));
                    prop_assert!(!children.contains(&parent.fold_in(2)));
                }
            }

            #[test]
            fn foreign_and_damaged_states_are_refused() {
                let state = $type::new(1).to_bytes();
                for bit in 0..8 * state.len() {
                    let mut damaged = state;
                    damaged[bit / 8] ^= 1 << (bit % 8);
                    assert!($type::from_bytes(&damaged).is_err(), "bit {bit}");
                }
                let other = Generator::new(1).to_bytes();
                let refused = $type::from_bytes(&other);
                assert!(matches!(refused, Err(Error::StateKind { found: 1, .. })));
                let refused = $type::from_bytes(b"\x80\x04\x95pickle");
                assert!(matches!(refused, Err(Error::ForeignState { .. })));
            }
        }
    };
}

host_generator!(pcg64, Pcg64);
host_generator!(pcg64dxsm, Pcg64Dxsm);
host_generator!(philox4x64, Philox4x64);

#[test]
fn neither_threads_nor_instructions_change_a_bit() {
    // More than one task for every fill, and a start inside a block.
    let (n, start) = (40_000, 3);
    let draw = Draw::new(99, 2, 7);
    let expected = everything(&draw, start, n);
    let order = draw.permutation(300_000).unwrap();
    let mut chosen = vec![0; 1000];
    let weights: Vec<f32> = (0..5000).map(|i| 1.0 + (i % 10) as f32).collect();
    draw.multinomial_without_replacement(&weights, &mut chosen).unwrap();
    for threads in [1, 2, 3, 7, 16] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            assert_eq!(everything(&draw, start, n), expected, "{threads} threads");
            assert_eq!(draw.permutation(300_000).unwrap(), order, "{threads} threads");
            let mut again = vec![0; 1000];
            draw.multinomial_without_replacement(&weights, &mut again).unwrap();
            assert_eq!(again, chosen, "{threads} threads");
        });
    }
    test_support::at_every_level(|level| {
        assert_eq!(everything(&draw, start, n), expected, "{}", level.name());
    });
}

#[test]
fn a_fill_moves_on_by_what_it_documents() {
    let mut generator = Generator::new(0);
    let mut moved = |fill: &dyn Fn(&mut Generator)| {
        let before = generator.offset();
        fill(&mut generator);
        generator.offset() - before
    };
    assert_eq!(moved(&|g| g.fill_u32(&mut [0; 9])), 3);
    assert_eq!(moved(&|g| g.fill_u64(&mut [0; 9])), 5);
    assert_eq!(moved(&|g| g.fill_uniform_f32(&mut [0.0; 8], 0.0, 1.0).unwrap()), 2);
    assert_eq!(moved(&|g| g.fill_uniform_f64(&mut [0.0; 8], 0.0, 1.0).unwrap()), 4);
    assert_eq!(moved(&|g| g.fill_normal_f32(&mut [0.0; 1], 0.0, 1.0).unwrap()), 1);
    assert_eq!(moved(&|g| g.fill_normal_f32(&mut [], 0.0, 1.0).unwrap()), 0);
    assert_eq!(moved(&|g| g.fill_randint(&mut [0; 3], 0, 9).unwrap()), 2);
    assert_eq!(moved(&|g| g.fill_gamma_f32(&[1.0; 5], &mut [0.0; 5]).unwrap()), 5);
    assert_eq!(moved(&|g| drop(g.permutation(11).unwrap())), 6);
    assert_eq!(moved(&|g| g.fill_bernoulli(&mut [false; 11], 0.5).unwrap()), 3);
}

/// Every bit of the seed affects the key of a child.
#[test]
fn parents_whose_seeds_differ_in_one_bit_have_other_children() {
    let children = |of: fn(Generator) -> Generator| {
        let seeds = std::iter::once(0).chain((0..64).map(|bit| 1 << bit));
        seeds.map(|seed| of(Generator::new(seed))).collect::<Vec<Generator>>()
    };
    let ways: [fn(Generator) -> Generator; 3] = [
        |parent| parent.fold_in(7),
        |parent| parent.derive("weights"),
        |mut parent| parent.split(1).unwrap().remove(0),
    ];
    for children in ways.map(children) {
        for (i, child) in children.iter().enumerate() {
            assert!(!children[..i].contains(child), "child {i}");
        }
    }
}

#[test]
fn streams_of_devices_share_nothing() {
    let cpu = Generator::new(5);
    let first_gpu = Generator::new(5).with_stream(0);
    assert_eq!(cpu, first_gpu);
    let mut blocks: Vec<[u32; 4]> = Vec::new();
    for stream in 0..64 {
        let mut generator = Generator::new(5).with_stream(stream);
        blocks.extend((0..256).map(|_| generator.next_block()));
    }
    blocks.sort();
    // Distinct counters under one key give distinct blocks.
    assert!(blocks.is_sorted_by(|a, b| a < b));
}

#[test]
fn rand_distr_works_on_top() {
    use rand_distr::{Distribution, Normal};
    let normal = Normal::new(0.0, 1.0).unwrap();
    let mut words = Words::new(Generator::new(3));
    let mut again = Words::new(Generator::new(3));
    let x: Vec<f64> = normal.sample_iter(&mut words).take(1000).collect();
    let y: Vec<f64> = normal.sample_iter(&mut again).take(1000).collect();
    assert_eq!(x, y);
    assert!(x.iter().sum::<f64>().abs() < 120.0);
    let _: f64 = normal.sample(&mut Pcg64Dxsm::new(0));
    let _: f64 = normal.sample(&mut Philox4x64::new(0));
}

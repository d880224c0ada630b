//! Whole kernels, compiled by NVRTC from the sources beside their PTX.

use super::common::{Arg, Machine};
use samebits_ptx_emulator::{Launch, Schedule};

const BASIC: &str = include_str!("../ptx/basic.ptx");
const CALLS: &str = include_str!("../ptx/calls.ptx");

const SCHEDULES: [Schedule; 5] = [
    Schedule::InOrder,
    Schedule::Reversed,
    Schedule::Seeded(0),
    Schedule::Seeded(1),
    Schedule::Seeded(0xdead_beef),
];

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 % 1000) as f32 - 400.0) / 37.0).collect()
}

#[test]
fn a_vector_is_added() {
    let (a, b) = (values(1000), values(1001)[1..].to_vec());
    let mut machine = Machine::new(BASIC);
    let (x, y) = (machine.upload_f32(&a), machine.upload_f32(&b));
    let z = machine.device.alloc(4000).unwrap();
    let args = [Arg::Pointer(x), Arg::Pointer(y), Arg::Pointer(z), Arg::U32(1000)];
    let stats = machine.launch("vector_add", Launch::new(8, 128), &args).unwrap();
    assert!(stats.lane_instructions > 1000 * 10);
    for (i, sum) in machine.read_f32(z, 1000).into_iter().enumerate() {
        assert_eq!(sum.to_bits(), (a[i] + b[i]).to_bits());
    }
}

#[test]
fn a_block_sum_has_the_bits_of_its_tree_in_every_schedule() {
    let x = values(5000);
    // Thread t of block b adds elements b * 256 + t + k * 768; then the halves are combined.
    let wanted: Vec<f32> = (0..3)
        .map(|block| {
            let mut lane: Vec<f32> = (0..256)
                .map(|t| x.iter().skip(block * 256 + t).step_by(768).fold(0.0, |s, v| s + v))
                .collect();
            let mut half = 128;
            while half > 0 {
                for t in 0..half {
                    lane[t] += lane[t + half];
                }
                half /= 2;
            }
            lane[0]
        })
        .collect();
    for schedule in SCHEDULES {
        let mut machine = Machine::new(BASIC);
        machine.device.set_schedule(schedule);
        let a = machine.upload_f32(&x);
        let out = machine.device.alloc(12).unwrap();
        let args = [Arg::Pointer(a), Arg::Pointer(out), Arg::U32(5000)];
        machine.launch("block_sum", Launch::new(3, 256), &args).unwrap();
        let found = machine.read_f32(out, 3);
        assert!(found.iter().zip(&wanted).all(|(f, w)| f.to_bits() == w.to_bits()), "{schedule:?}");
    }
}

#[test]
fn dynamic_shared_memory_and_doubles() {
    let x: Vec<f64> = values(64).into_iter().map(f64::from).collect();
    let mut machine = Machine::new(BASIC);
    let a = machine.upload_u64(&x.iter().map(|v| v.to_bits()).collect::<Vec<_>>());
    let out = machine.device.alloc(8).unwrap();
    let args = || [Arg::Pointer(a), Arg::Pointer(out), Arg::U32(60)];
    let launch = Launch { dynamic_shared: 512, ..Launch::new(1, 64) };
    machine.launch("dyn_sum", launch, &args()).unwrap();
    let wanted = x[..60].iter().fold(0.0f64, |s, v| v.mul_add(1.0000001, s));
    let wanted = [0.0f64; 4].iter().fold(wanted, |s, v| v.mul_add(1.0000001, s));
    assert_eq!(machine.read_u64(out, 1)[0], wanted.to_bits());
    // One byte less is out of bounds.
    let short = Launch { dynamic_shared: 511, ..launch };
    assert!(machine.launch("dyn_sum", short, &args()).is_err());
}

/// The negative control: a sum by float atomics depends on the schedule, a sum by integers does
/// not.
#[test]
fn float_atomics_follow_the_schedule_and_integer_atomics_do_not() {
    let x: Vec<f32> = (0..1024).map(|i| if i % 2 == 0 { 1e8 } else { 0.3 + i as f32 }).collect();
    let words: Vec<u32> = (0..256u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let (mut sums, mut counts) = (Vec::new(), Vec::new());
    for schedule in SCHEDULES {
        let mut machine = Machine::new(BASIC);
        machine.device.set_schedule(schedule);
        let a = machine.upload_f32(&x);
        let sum = machine.upload_f32(&[0.0]);
        let args = [Arg::Pointer(a), Arg::Pointer(sum)];
        machine.launch("warp_sum", Launch::new(8, 128), &args).unwrap();
        sums.push(machine.read_f32(sum, 1)[0].to_bits());

        let u = machine.upload_u32(&[0, 0, !0, !0, 0, 0, 0, 0, 0, 0].repeat(40));
        let s = machine.upload_u32(&[0; 4]);
        let l = machine.upload_u64(&[0; 4]);
        let f = machine.upload_f32(&[0.0]);
        let d = machine.upload_u64(&[0]);
        let v = machine.upload_u32(&words);
        let args = [u, s, l, f, d, v].map(Arg::Pointer);
        machine.launch("atomics", Launch::new(1, 256), &args).unwrap();
        let mut found = machine.read_u32(u, 6);
        found.extend(machine.read_u32(s, 4));
        found.extend(machine.read_u64(l, 2).iter().flat_map(|&w| [w as u32, (w >> 32) as u32]));
        found.extend([machine.read_f32(f, 1)[0] as u32, machine.read_u32(u + 28, 1)[0]]);
        counts.push(found);
    }
    assert!(sums.iter().any(|&sum| sum != sums[0]), "{sums:x?}");
    assert!(counts.iter().all(|count| *count == counts[0]), "{counts:x?}");
    let fold = |f: fn(u32, u32) -> u32| words.iter().copied().reduce(f).unwrap();
    let signed = |f: fn(i32, i32) -> i32| words.iter().fold(0, |s, &w| f(s, w as i32)) as u32;
    assert_eq!(
        counts[0][..6],
        [
            fold(u32::wrapping_add),
            fold(u32::max),
            fold(u32::min),
            fold(|x, y| x & y),
            fold(|x, y| x | y),
            fold(|x, y| x ^ y),
        ]
    );
    assert_eq!(
        counts[0][6..10],
        [
            fold(u32::wrapping_add),
            signed(i32::max),
            signed(i32::min),
            fold(u32::wrapping_add).wrapping_neg(),
        ]
    );
    // 256 times 1.5, and 256 increments that wrap after 17.
    assert_eq!(counts[0][14..], [384, 256 % 18]);
}

#[test]
fn parameters_constants_and_module_variables() {
    let mut machine = Machine::new(BASIC);
    let out = machine.device.alloc(20).unwrap();
    let source = BASIC;
    let module = samebits_ptx_emulator::Module::parse(source).unwrap();
    let loaded = machine.device.load(module).unwrap();
    let mut params = Vec::new();
    params.extend(5u32.to_le_bytes());
    params.extend(1.5f32.to_le_bytes());
    params.extend((-(1i64 << 40)).to_le_bytes());
    params.extend([10, 11, 12, 13, 14, 15, 16, 17]);
    params.extend(out.to_le_bytes());
    params.extend(2u32.to_le_bytes());
    machine.device.launch(&loaded, "structs", Launch::new(1, 1), &params).unwrap();
    let wanted = [1.5 * 3.0, -((1u64 << 40) as f32), 12.0, 0.1f64 as f32, f32::from(b'l')];
    assert_eq!(machine.read_f32(out, 5), wanted);
    // The counter began at seven.
    let (counter, size) = loaded.variable("counter").unwrap();
    assert_eq!((machine.read_u32(counter, 1)[0], size), (12, 4));
    machine.device.unload(&loaded).unwrap();
    assert!(machine.device.read(counter, &mut [0; 4]).is_err());
}

#[test]
fn functions_are_called() {
    let x = [1.5f32, -2.0, 3.25, 0.0, 7.0];
    let mut machine = Machine::new(CALLS);
    let out = machine.upload_f32(&[&x[..], &[0.0; 3]].concat());
    machine.launch("calls", Launch::new(1, 1), &[Arg::Pointer(out), Arg::U32(5)]).unwrap();
    let sum = x.iter().fold(0.0, |s, v| s + v * 2.0);
    assert_eq!(machine.read_f32(out + 20, 3), [sum * 2.0, 6.0, 3.0]);

    let out = machine.device.alloc(4 * 64).unwrap();
    machine.launch("recursion", Launch::new(1, 64), &[Arg::Pointer(out)]).unwrap();
    let numbers = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89];
    let wanted: Vec<u32> = (0..64).map(|t| numbers[t % 12]).collect();
    assert_eq!(machine.read_u32(out, 64), wanted);

    let out = machine.upload_f32(&[5.0; 64]);
    machine.launch("indirect", Launch::new(1, 64), &[Arg::Pointer(out), Arg::U32(1)]).unwrap();
    let wanted: Vec<f32> = (0..64).map(|t| if t % 2 == 0 { 15.0 } else { 6.0 }).collect();
    assert_eq!(machine.read_f32(out, 64), wanted);
}

#[test]
fn branches_vectors_and_local_arrays() {
    let mut machine = Machine::new(CALLS);
    let kinds: Vec<u32> = (0..128).map(|t| t * 5 + t / 8).collect();
    let out = machine.upload_u32(&kinds);
    machine.launch("choose", Launch::new(1, 128), &[Arg::Pointer(out)]).unwrap();
    let wanted: Vec<u32> = (0..128u32)
        .map(|x| match kinds[x as usize] & 7 {
            0 => 3,
            1 => x * 7,
            2 => x / 3,
            3 => x ^ 4,
            4 => x.count_ones(),
            5 => x * x * 5,
            6 => x << 3,
            _ => !0,
        })
        .collect();
    assert_eq!(machine.read_u32(out, 128), wanted);

    let b = machine.upload_f32(&values(4 * 40));
    let a = machine.device.alloc(16 * 40).unwrap();
    let c = machine.upload(&(0..160).map(|i| (i * 3) as u8).collect::<Vec<_>>());
    let d = machine.upload_u32(&(0..40).map(|i| i * 0x0101_0101).collect::<Vec<_>>());
    machine.launch("vectors", Launch::new(1, 40), &[a, b, c, d].map(Arg::Pointer)).unwrap();
    let (x, y) = (values(4 * 40), machine.read_f32(a, 4 * 40));
    let bytes: Vec<u8> = machine.read_u32(c, 40).iter().flat_map(|w| w.to_le_bytes()).collect();
    let shorts = machine.read_u32(d, 40);
    for i in 0..40 {
        assert_eq!(y[4 * i..4 * i + 4], [x[4 * i] + 1.0, x[4 * i + 1], x[4 * i + 2], x[4 * i + 1]]);
        let [p, q, r, s] = [0, 1, 2, 3].map(|k| ((4 * i + k) * 3) as u8);
        assert_eq!(bytes[4 * i..4 * i + 4], [p.wrapping_add(250), q, r, s ^ q]);
        let (low, high) = ((i * 0x0101) as i16, (i * 0x0101) as i16 >> 1);
        let wanted = u32::from(low.wrapping_mul(-3) as u16) | u32::from(high as u16) << 16;
        assert_eq!(shorts[i], wanted);
    }

    let out = machine.device.alloc(4 * 50).unwrap();
    machine.launch("local_array", Launch::new(1, 50), &[Arg::Pointer(out), Arg::U32(23)]).unwrap();
    let wanted: Vec<u32> = (0..50)
        .map(|t| {
            let mut a = [0u32; 16];
            for i in 0..16 {
                a[(i * 23) & 15] = i as u32 + t;
            }
            (0..23).fold(0u32, |s, i| s.wrapping_mul(31).wrapping_add(a[(s ^ i) as usize & 15]))
        })
        .collect();
    assert_eq!(machine.read_u32(out, 50), wanted);
}

#[test]
fn wide_integers() {
    let mut words: Vec<u64> =
        (0..33u64).map(|i| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    words[5] = u64::MAX;
    words[6] = 3;
    let mut machine = Machine::new(CALLS);
    let a = machine.upload_u64(&words);
    let out = machine.device.alloc(8 * 6 * 32).unwrap();
    machine.launch("wide", Launch::new(1, 32), &[a, out].map(Arg::Pointer)).unwrap();
    let found = machine.read_u64(out, 6 * 32);
    for i in 0..32 {
        let (a, b) = (words[i], words[i + 1] | 1);
        let x =
            (u128::from(a) * u128::from(b)).wrapping_add(u128::from(a)).wrapping_sub(u128::from(b));
        let first = if a == 0 { 0 } else { a.trailing_zeros() + 1 };
        let wanted = [
            x as u64,
            (x >> 64) as u64,
            a / b,
            a % b,
            ((a as i64 >> (b & 63)) as u64) ^ (a << (b & 31)),
            a.reverse_bits()
                .wrapping_add(u64::from(b.leading_zeros()))
                .wrapping_add(u64::from(first))
                .wrapping_add(((u128::from(a) * u128::from(b)) >> 64) as u64),
        ];
        assert_eq!(found[6 * i..6 * i + 6], wanted);
    }
}

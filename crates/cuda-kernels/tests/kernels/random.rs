//! Random numbers: those of the CPU's generator, bit for bit.

use crate::data::{Source, bits, same, same64};
use crate::device::{on_device, under_schedules};
use samebits_cuda_kernels::random;
use samebits_rng::Draw;

const SIZES: [usize; 5] = [1, 3, 4, 1000, 1025];

fn draws() -> [Draw; 3] {
    [Draw::new(0, 0, 0), Draw::new(0x1234_5678_9abc_def0, 3, 17), Draw::new(!0, !0, u64::MAX - 5)]
}

#[test]
fn random123_known_answers() {
    on_device(|device| {
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let counters: Vec<u32> = [[0; 4], [!0; 4], pi].concat();
        let keys = device.upload(&[0, 0, !0u32, !0, 0xa409_3822, 0x299f_31d0]).unwrap();
        let counters = device.upload(&counters).unwrap();
        let got = random::philox(device, &counters, &keys, 10).unwrap();
        let expected = [
            [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8],
            [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fdu32],
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
        ];
        assert_eq!(device.download(&got).unwrap(), expected.concat());
        let got = random::philox(device, &counters, &keys, 7).unwrap();
        let expected = [
            [0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48],
            [0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662u32],
            [0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a],
        ];
        assert_eq!(device.download(&got).unwrap(), expected.concat());
    });
}

#[test]
fn draws_are_those_of_the_cpu() {
    under_schedules(|device| {
        for draw in draws() {
            for n in SIZES {
                let got = device.download(&random::words(device, &draw, n).unwrap()).unwrap();
                let mut expected = vec![0; n];
                draw.words(0, &mut expected);
                assert_eq!(got, expected, "words");

                for (low, high) in [(0.0f32, 1.0), (-3.0, 0.1), (2.0, 2.0), (1.0, 1.0000001)] {
                    let got = random::uniform(device, &draw, n, low, high).unwrap();
                    let mut expected = vec![0.0; n];
                    draw.uniform_f32(0, &mut expected, low, high).unwrap();
                    same("uniform", &device.download(&got).unwrap(), &expected);
                }
                let got = random::uniform(device, &draw, n, -1.0f64, 2.5).unwrap();
                let mut expected = vec![0.0; n];
                draw.uniform_f64(0, &mut expected, -1.0, 2.5).unwrap();
                same64("uniform f64", &device.download(&got).unwrap(), &expected);

                for p in [0.0, 0.3, 1.0] {
                    let got = random::bernoulli(device, &draw, n, p).unwrap();
                    let mut expected = vec![false; n];
                    draw.bernoulli(0, &mut expected, p).unwrap();
                    let expected: Vec<u8> = expected.into_iter().map(u8::from).collect();
                    assert_eq!(device.download(&got).unwrap(), expected, "bernoulli {p}");

                    let x = Source::new(n as u64).wild(n);
                    let input = device.upload(&x).unwrap();
                    let (out, mask) = random::dropout(device, &draw, &input, p).unwrap();
                    let (mut y, mut kept) = (vec![0.0; n], vec![0; n]);
                    draw.dropout(0, &x, p, &mut y, &mut kept).unwrap();
                    same("dropout", &device.download(&out).unwrap(), &y);
                    assert_eq!(device.download(&mask).unwrap(), kept, "mask {p}");
                }
                for (mean, std) in [(0.0f32, 1.0), (-2.5, 0.3), (1.0, 0.0)] {
                    let got = random::normal(device, &draw, n, mean, std).unwrap();
                    let mut expected = vec![0.0; n];
                    draw.normal_f32(0, &mut expected, mean, std).unwrap();
                    same("normal", &device.download(&got).unwrap(), &expected);
                    let got = random::log_normal(device, &draw, n, mean, std).unwrap();
                    draw.log_normal_f32(0, &mut expected, mean, std).unwrap();
                    same("log-normal", &device.download(&got).unwrap(), &expected);
                }
                let got = random::exponential(device, &draw, n, 0.7).unwrap();
                let mut expected = vec![0.0; n];
                draw.exponential_f32(0, &mut expected, 0.7).unwrap();
                same("exponential", &device.download(&got).unwrap(), &expected);
                // The last range rejects about half of the words.
                for (low, high) in [(0, 6), (-5, 5), (i64::MIN, 2), (-(1 << 62), (1 << 62) + 1)] {
                    let got = random::randint(device, &draw, n, low, high).unwrap();
                    let mut expected = vec![0; n];
                    draw.randint(0, &mut expected, low, high).unwrap();
                    assert_eq!(device.download(&got).unwrap(), expected, "randint {low} {high}");
                }
            }
        }
    });
}

#[test]
fn a_prefix_of_a_draw_is_the_same_draw() {
    on_device(|device| {
        let draw = Draw::new(7, 0, 0);
        let long = random::uniform(device, &draw, 777, 0.0f32, 1.0).unwrap();
        let short = random::uniform(device, &draw, 100, 0.0f32, 1.0).unwrap();
        let (long, short) = (device.download(&long).unwrap(), device.download(&short).unwrap());
        assert_eq!(bits(&long[..100]), bits(&short));
    });
}

#[test]
fn bad_parameters_are_refused() {
    on_device(|device| {
        let draw = Draw::new(7, 0, 0);
        assert!(random::uniform(device, &draw, 4, 1.0f32, 0.0).is_err());
        assert!(random::uniform(device, &draw, 4, f32::NAN, 0.0).is_err());
        assert!(random::bernoulli(device, &draw, 4, 1.5).is_err());
        assert!(random::normal(device, &draw, 4, 0.0, -1.0).is_err());
        assert!(random::exponential(device, &draw, 4, 0.0).is_err());
        assert!(random::randint(device, &draw, 4, 3, 3).is_err());
    });
}

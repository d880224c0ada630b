//! Numbers about all elements of several buffers.

use crate::data::{Real, Source};
use crate::device::under_schedules;
use samebits_cuda_kernels::totals::{Floats, first_not_finite, largest_magnitude, sum_of_powers};
use samebits_cuda_kernels::{Buffer, Device};
use samebits_numerics::exact::ExactSum64;
use samebits_numerics::math::f64::pow;

/// The lengths of the buffers: of a block of any size, less, and more than two.
const LENGTHS: [usize; 6] = [300, 1, 16 * 512, 7, 2 * 16 * 512 + 5, 4099];

/// Numbers of both types, and their buffers, of which the work of another stream makes some.
struct Numbers {
    narrow: Vec<Vec<f32>>,
    wide: Vec<Vec<f64>>,
    buffers: (Vec<Buffer<f32>>, Vec<Buffer<f64>>),
}

impl Numbers {
    fn new(device: &Device, seed: u64) -> Numbers {
        fn buffers<T: Real>(device: &Device, all: &[Vec<T>]) -> Vec<Buffer<T>> {
            let other = device.with_new_stream().unwrap();
            let devices = [device, &other].into_iter().cycle();
            let upload = |(x, device): (&Vec<T>, &Device)| {
                device.duplicate(&device.upload(x).unwrap()).unwrap()
            };
            all.iter().zip(devices).map(upload).collect()
        }
        let mut source = Source::new(seed);
        let narrow: Vec<_> = LENGTHS.iter().map(|&n| f32::wild(&mut source, n)).collect();
        let wide: Vec<_> = LENGTHS.iter().map(|&n| f64::wild(&mut source, n)).collect();
        let buffers = (buffers(device, &narrow), buffers(device, &wide));
        Numbers { narrow, wide, buffers }
    }

    /// Returns the buffers of both types in turn.
    fn floats(&self) -> Vec<Floats<'_>> {
        let (narrow, wide) = &self.buffers;
        narrow
            .iter()
            .zip(wide)
            .flat_map(|(f32, f64)| [Floats::F32(f32), Floats::F64(f64)])
            .collect()
    }

    fn all(&self) -> impl Iterator<Item = f64> {
        let narrow = self.narrow.iter().flatten().copied().map(f64::from);
        narrow.chain(self.wide.iter().flatten().copied())
    }
}

#[test]
fn the_sum_of_powers_is_exact() {
    under_schedules(|device| {
        let numbers = Numbers::new(device, 1);
        for (p, scale) in [(1.0, 1.0), (2.0, 1.0), (2.0, 1e200), (2.5, 3e280), (0.5, 1e-300)] {
            let power = |x: f64| match p {
                1.0 => x.abs() / scale,
                2.0 => (x.abs() / scale) * (x.abs() / scale),
                _ => pow(x.abs() / scale, p),
            };
            let expected: ExactSum64 = numbers.all().map(power).collect();
            let found = sum_of_powers(device, &numbers.floats(), scale, p).unwrap();
            let (found, expected) = (found.to_f64(), expected.to_f64());
            assert_eq!(found.to_bits(), expected.to_bits(), "p {p}: {found:e}, not {expected:e}");
        }
        assert_eq!(sum_of_powers(device, &[], 1.0, 2.0).unwrap().to_f64(), 0.0);
    });
}

#[test]
fn addends_that_are_not_finite_give_their_sum() {
    under_schedules(|device| {
        let sum = |x: &[f32], p| {
            let x = device.upload(x).unwrap();
            sum_of_powers(device, &[Floats::F32(&x)], 1.0, p).unwrap().to_f64()
        };
        assert_eq!(sum(&[1.0, f32::NEG_INFINITY, 3.0], 2.0), f64::INFINITY);
        assert!(sum(&[1.0, f32::NEG_INFINITY, f32::NAN], 1.0).is_nan());
        // The sum is in the range again, whatever it was on the way.
        let x = device.upload(&[f64::MAX; 300]).unwrap();
        let found = sum_of_powers(device, &[Floats::F64(&x)], 1e10, 1.0).unwrap().to_f64();
        let expected: ExactSum64 = (0..300).map(|_| f64::MAX / 1e10).collect();
        assert_eq!(found, expected.to_f64());
    });
}

#[test]
fn the_largest_magnitude_counts_nan_as_the_largest() {
    under_schedules(|device| {
        let numbers = Numbers::new(device, 2);
        let largest = |floats: &[Floats<'_>]| largest_magnitude(device, floats).unwrap();
        let expected = numbers.all().fold(0.0f64, |most, x| most.max(x.abs()));
        assert_eq!(largest(&numbers.floats()), expected);
        let infinite = device.upload(&[f64::NEG_INFINITY, 1.0]).unwrap();
        let nan = device.upload(&[-f32::NAN, 1.0]).unwrap();
        let mut floats = numbers.floats();
        floats.push(Floats::F64(&infinite));
        assert_eq!(largest(&floats), f64::INFINITY);
        floats.push(Floats::F32(&nan));
        assert_eq!(largest(&floats).to_bits(), f64::NAN.to_bits());
        assert_eq!(largest(&[]).to_bits(), 0);
    });
}

#[test]
fn the_first_buffer_that_is_not_finite_is_found() {
    under_schedules(|device| {
        let numbers = Numbers::new(device, 3);
        let (narrow, wide) = &numbers.buffers;
        assert_eq!(first_not_finite(device, &numbers.floats()).unwrap(), None);
        for (k, bad) in [(0, f64::NAN), (3, f64::INFINITY), (4, f64::NEG_INFINITY)] {
            let mut changed = numbers.narrow[k].clone();
            changed[LENGTHS[k] / 2] = bad as f32;
            let x = device.upload(&changed).unwrap();
            let mut floats = numbers.floats();
            floats[2 * k] = Floats::F32(&x);
            assert_eq!(first_not_finite(device, &floats).unwrap(), Some(2 * k));
            let mut changed = numbers.wide[k].clone();
            changed[LENGTHS[k] - 1] = bad;
            let y = device.upload(&changed).unwrap();
            floats[2 * k + 1] = Floats::F64(&y);
            assert_eq!(first_not_finite(device, &floats).unwrap(), Some(2 * k));
            floats[2 * k] = Floats::F32(&narrow[k]);
            assert_eq!(first_not_finite(device, &floats).unwrap(), Some(2 * k + 1));
        }
        assert_eq!(wide.len(), LENGTHS.len());
        assert_eq!(first_not_finite(device, &[]).unwrap(), None);
    });
}

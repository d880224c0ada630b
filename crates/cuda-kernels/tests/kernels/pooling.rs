//! Pooling, forward and backward.

use crate::data::{Real, Source, bits, clean, order_sensitive, same};
use crate::device::{on_device, under_schedules, varies};
use samebits_cuda_kernels::Variant::{self, Atomic, Deterministic};
use samebits_cuda_kernels::pooling::{
    self, AdaptivePool, Average, FractionalPool, Pool, PoolParams, adaptive_avg_pool,
    adaptive_avg_pool_grad, adaptive_max_pool, avg_pool, avg_pool_grad, fractional_max_pool,
    max_pool, max_pool_grad, pool_indices_grad,
};
use samebits_cuda_kernels::{Buffer, Device};
use samebits_numerics::extrema::replaces_max;

/// Input, kernel, stride, padding, dilation, ceil mode: in one dimension of a plane.
type Case = (&'static [usize], [usize; 4], bool);

const CASES: [Case; 6] = [
    (&[9], [3, 2, 1, 1], false),
    (&[7, 6], [2, 2, 0, 1], true),
    (&[6, 7], [3, 1, 1, 1], false),
    (&[8, 9], [3, 2, 1, 2], true),
    (&[4, 5, 3], [2, 1, 1, 1], false),
    (&[5, 5], [5, 5, 2, 1], true),
];

fn pool(
    planes: usize,
    (input, [kernel, stride, padding, dilation], ceil_mode): Case,
) -> samebits_tensor_core::Result<Pool> {
    let [kernel, stride, padding, dilation] =
        [kernel, stride, padding, dilation].map(|x| vec![x; input.len()]);
    let params = PoolParams { kernel, stride, padding, dilation, ceil_mode };
    Pool::new("pool", &[&[1, planes], input].concat(), &params)
}

/// Returns the coordinates of position `i`, padded in front to three dimensions.
fn at(mut i: usize, size: &[usize]) -> Vec<usize> {
    let mut found: Vec<usize> = size
        .iter()
        .rev()
        .map(|&s| {
            let c = i % s;
            i /= s;
            c
        })
        .collect();
    found.reverse();
    found
}

/// Returns the positions of the window of output `o`, in row-major order.
fn taps(case: Case, output: &[usize], o: usize) -> Vec<usize> {
    let (input, [k, s, p, l], _) = case;
    let o = at(o, output);
    let box_ = vec![k; input.len()];
    (0..box_.iter().product())
        .filter_map(|t| {
            at(t, &box_).iter().zip(&o).zip(input).try_fold(0, |place, ((tap, o), &size)| {
                let x = (o * s + tap * l).checked_sub(p).filter(|&x| x < size)?;
                Some(place * size + x)
            })
        })
        .collect()
}

fn first_largest(x: &[f32], places: &[usize]) -> i64 {
    places.iter().fold(-1, |best, &p| {
        if best < 0 || replaces_max(x[best as usize], x[p]) { p as i64 } else { best }
    })
}

#[test]
fn maxima_and_their_gradients() {
    under_schedules(|device| {
        let mut all = Vec::new();
        for case in CASES {
            let planes = 11;
            let w = pool(planes, case).unwrap();
            let n_in: usize = case.0.iter().product();
            let n = w.output_plane();
            let mut source = Source::new(n as u64);
            let x: Vec<f32> = source
                .broken(planes * n_in)
                .into_iter()
                .map(|x| if x > 0.0 && x < 1e-3 { 2.0 } else { x })
                .collect();
            let grad = source.wild(planes * n);
            let indices: Vec<i64> = (0..planes * n)
                .map(|o| {
                    first_largest(&x[o / n * n_in..], &taps(case, &w.output_shape()[2..], o % n))
                })
                .collect();
            let expected: Vec<f32> = (0..planes * n)
                .map(|o| match indices[o] {
                    -1 => f32::NEG_INFINITY,
                    i => clean(x[o / n * n_in + i as usize]),
                })
                .collect();
            let x_dev = device.upload(&x).unwrap();
            let (y, idx) = max_pool(device, &x_dev, &w).unwrap();
            same(&format!("{case:?}"), &device.download(&y).unwrap(), &expected);
            assert_eq!(device.download(&idx).unwrap(), indices, "{case:?}");

            let mut back = vec![0.0f32; planes * n_in];
            for (o, &i) in indices.iter().enumerate().filter(|&(_, &i)| i >= 0) {
                back[o / n * n_in + i as usize] += grad[o];
            }
            let g = device.upload(&grad).unwrap();
            let got = max_pool_grad(device, &g, &idx, &w, Deterministic).unwrap();
            same(&format!("{case:?} gradient"), &device.download(&got).unwrap(), &back);
            let got =
                pool_indices_grad(device, &g, &idx, planes, planes * n_in, Deterministic).unwrap();
            let got = device.download(&got).unwrap();
            same(&format!("{case:?} gradient by index"), &got, &back);
            all.extend(bits(&got));
        }
        all
    });
}

#[test]
fn averages_and_their_gradients() {
    under_schedules(|device| {
        for case in CASES.into_iter().filter(|c| c.1[3] == 1) {
            let (input, [k, s, p, _], _) = case;
            let planes = 9;
            let w = pool(planes, case).unwrap();
            let n_in: usize = input.iter().product();
            let n = w.output_plane();
            let mut source = Source::new(n as u64);
            let (x, grad) = (source.wild(planes * n_in), source.wild(planes * n));
            for (include, fixed) in [(true, None), (false, None), (true, Some(3))] {
                let average = Average::new(w.clone(), include, fixed).unwrap();
                let divisor = |o: usize| -> f64 {
                    if let Some(fixed) = fixed {
                        return fixed as f64;
                    }
                    at(o, &w.output_shape()[2..])
                        .iter()
                        .zip(input)
                        .map(|(o, size)| {
                            let (low, high) =
                                if include { (0, size + 2 * p) } else { (p, p + size) };
                            let (start, end) = ((o * s).max(low), (o * s + k).min(high));
                            end.saturating_sub(start).max(1) as f64
                        })
                        .product()
                };
                let expected: Vec<f32> = (0..planes * n)
                    .map(|o| {
                        let places = taps(case, &w.output_shape()[2..], o % n);
                        let sum =
                            places.iter().fold(0.0, |sum, &p| sum + f64::from(x[o / n * n_in + p]));
                        clean((sum / divisor(o % n)) as f32)
                    })
                    .collect();
                let x_dev = device.upload(&x).unwrap();
                let got = avg_pool(device, &x_dev, &average).unwrap();
                same(&format!("{case:?} {average:?}"), &device.download(&got).unwrap(), &expected);

                let mut back = vec![0.0f32; planes * n_in];
                for o in 0..planes * n {
                    let weight = 1.0 / divisor(o % n) as f32;
                    for p in taps(case, &w.output_shape()[2..], o % n) {
                        let sum = &mut back[o / n * n_in + p];
                        *sum = grad[o].mul_add(weight, *sum);
                    }
                }
                let back: Vec<f32> = back.into_iter().map(clean).collect();
                let g = device.upload(&grad).unwrap();
                let got = avg_pool_grad(device, &g, &average, Deterministic).unwrap();
                same(&format!("{case:?} gradient"), &device.download(&got).unwrap(), &back);
            }
        }
    });
}

#[test]
fn adaptive_pools() {
    under_schedules(|device| {
        let cases: [(&[usize], &[usize]); 4] =
            [(&[10], &[4]), (&[5, 7], &[3, 3]), (&[3, 4], &[5, 2]), (&[4, 5, 6], &[2, 3, 4])];
        for (input, output) in cases {
            let planes = 9;
            let sizes = AdaptivePool::new("pool", &[&[1, planes], input].concat(), output).unwrap();
            let (n_in, n): (usize, usize) = (input.iter().product(), output.iter().product());
            let places = |o: usize| -> Vec<usize> {
                let o = at(o, output);
                (0..n_in)
                    .filter(|&i| {
                        at(i, input).iter().zip(&o).zip(input.iter().zip(output)).all(
                            |((i, o), (size, out))| {
                                (o * size / out..((o + 1) * size).div_ceil(*out)).contains(i)
                            },
                        )
                    })
                    .collect()
            };
            let mut source = Source::new(n as u64);
            let (x, grad) = (source.broken(planes * n_in), source.wild(planes * n));
            let x_dev = device.upload(&x).unwrap();
            let g_dev = device.upload(&grad).unwrap();
            let expected: Vec<f32> = (0..planes * n)
                .map(|o| {
                    let places = places(o % n);
                    let sum =
                        places.iter().fold(0.0, |sum, &p| sum + f64::from(x[o / n * n_in + p]));
                    clean((sum / places.len() as f64) as f32)
                })
                .collect();
            let got = adaptive_avg_pool(device, &x_dev, &sizes).unwrap();
            same(&format!("{input:?} {output:?}"), &device.download(&got).unwrap(), &expected);
            let mut back = vec![0.0f32; planes * n_in];
            for o in 0..planes * n {
                let places = places(o % n);
                for &p in &places {
                    let sum = &mut back[o / n * n_in + p];
                    *sum = grad[o].mul_add(1.0 / places.len() as f32, *sum);
                }
            }
            let got = adaptive_avg_pool_grad(device, &g_dev, &sizes, Deterministic).unwrap();
            same(&format!("{input:?} gradient"), &device.download(&got).unwrap(), &back);
            let indices: Vec<i64> = (0..planes * n)
                .map(|o| first_largest(&x[o / n * n_in..], &places(o % n)))
                .collect();
            let (y, idx) = adaptive_max_pool(device, &x_dev, &sizes).unwrap();
            assert_eq!(device.download(&idx).unwrap(), indices);
            let expected: Vec<f32> =
                (0..planes * n).map(|o| clean(x[o / n * n_in + indices[o] as usize])).collect();
            same("adaptive maximum", &device.download(&y).unwrap(), &expected);
        }
    });
}

#[test]
fn fractional_windows_stay_inside() {
    under_schedules(|device| {
        let x = Source::new(8).wild(2 * 6 * 7);
        let samples = [0.1f32, 0.6, 0.99, 0.0];
        let pool = FractionalPool::new("pool", &[1, 2, 6, 7], &[3, 4], &[2, 2]).unwrap();
        let starts = |input: usize, out: usize, u: f32| -> Vec<usize> {
            let place = |at: f64| (at * (input - 2) as f64 / (out - 1) as f64) as usize;
            (0..out)
                .map(|o| {
                    let place = place(o as f64 + f64::from(u)) - place(u.into());
                    if o == out - 1 { input - 2 } else { place.min(input - 2) }
                })
                .collect()
        };
        let indices: Vec<i64> = (0..24)
            .map(|o| {
                let (plane, h, w) = (o / 12, o / 4 % 3, o % 4);
                let top = starts(6, 3, samples[2 * plane + 1])[h];
                let left = starts(7, 4, samples[2 * plane])[w];
                let places = [0, 1, 7, 8].map(|d| top * 7 + left + d);
                first_largest(&x[plane * 42..], &places)
            })
            .collect();
        let x = device.upload(&x).unwrap();
        let samples = device.upload(&samples).unwrap();
        let (_, got) = fractional_max_pool(device, &x, &samples, &pool).unwrap();
        assert_eq!(device.download(&got).unwrap(), indices);
    });
}

#[test]
fn fractional_windows_start_at_exact_places() {
    on_device(|device| {
        for (input, output) in [(27, 23), (40, 34), (53, 45), (31, 27), (46, 40), (7, 7)] {
            exact_starts::<f32>(device, input, output);
            exact_starts::<f64>(device, input, output);
        }
    });
}

fn exact_starts<T: Real>(device: &Device, input: usize, output: usize) {
    let pool = FractionalPool::new("pool", &[1, 1, 1, input], &[1, output], &[1, 1]).unwrap();
    let x = device.upload(&vec![T::default(); input]).unwrap();
    let samples = device.upload(&[T::default(); 2]).unwrap();
    let (_, starts) = fractional_max_pool(device, &x, &samples, &pool).unwrap();
    let place = |o| (o * (input - 1) / (output - 1)) as i64;
    let expected: Vec<i64> = (0..output).map(place).collect();
    assert_eq!(device.download(&starts).unwrap(), expected, "{input} to {output}");
}

#[test]
fn unpooled_gradients_are_copied() {
    under_schedules(|device| {
        let mut source = Source::new(12);
        let (grad, planes, in_plane) = (source.broken(6 * 70), 6, 37);
        let mut indices = source.indices(planes * in_plane, 70);
        indices[3] = -1;
        indices[planes * in_plane - 1] = -1;
        let expected: Vec<u32> = indices
            .iter()
            .enumerate()
            .map(|(i, &at)| {
                // A NaN keeps its bits.
                usize::try_from(at).map_or(0, |at| grad[i / in_plane * 70 + at].to_bits())
            })
            .collect();
        let wide: Vec<f64> = grad.iter().map(|&x| f64::from(x) * 1.1).collect();
        let (g, idx) = (device.upload(&grad).unwrap(), device.upload(&indices).unwrap());
        let got = pooling::max_unpool_grad(device, &g, &idx, planes).unwrap();
        assert_eq!(bits(&device.download(&got).unwrap()), expected);
        let g = device.upload(&wide).unwrap();
        let got = pooling::max_unpool_grad(device, &g, &idx, planes).unwrap();
        for (i, x) in device.download(&got).unwrap().into_iter().enumerate() {
            let expected =
                usize::try_from(indices[i]).map_or(0.0, |at| wide[i / in_plane * 70 + at]);
            assert_eq!(x.to_bits(), expected.to_bits(), "element {i}");
        }
        bits(&grad)
    });
}

#[test]
fn a_bad_index_of_an_unpooling_is_reported() {
    on_device(|device| {
        let g = device.upload(&[1.0f32; 10]).unwrap();
        let idx = device.upload(&[0i64, -1, 5, -2]).unwrap();
        pooling::max_unpool_grad(device, &g, &idx, 2).unwrap();
        let error = device.synchronize().unwrap_err().to_string();
        assert_eq!(error, "max_unpool: index 5 at position 2 is out of range for size 5");
    });
}

#[test]
fn windows_beyond_32_bits_are_refused() {
    on_device(|device| {
        let x = device.upload(&[1.0f32; 4]).unwrap();
        let wide = pool(1, (&[4], [2, 1 << 31, 0, 1], false)).unwrap();
        let error = max_pool(device, &x, &wide).unwrap_err().to_string();
        assert_eq!(error, "pool: stride [1, 1, 2147483648] must be below 2^31 on a CUDA device");
    });
}

#[test]
fn atomic_gradients_vary() {
    // Every window of a row of three contains its middle element.
    let grad = order_sensitive(300);
    let w = pool(1, (&[301], [300, 1, 149, 1], false)).unwrap();
    let n = w.output_plane();
    let grad = &grad[..n];
    varies(|device| {
        let g = device.upload(grad).unwrap();
        let idx = device.upload(&vec![150i64; n]).unwrap();
        bits(&device.download(&max_pool_grad(device, &g, &idx, &w, Atomic).unwrap()).unwrap())
    });
    varies(|device| {
        let g = device.upload(grad).unwrap();
        let average = Average::new(w.clone(), true, Some(1)).unwrap();
        bits(&device.download(&avg_pool_grad(device, &g, &average, Atomic).unwrap()).unwrap())
    });
    varies(|device| {
        // One input element for all outputs: each window has one element.
        let sizes = AdaptivePool::new("pool", &[1, 1, 1], &[299]).unwrap();
        let g = device.upload(&order_sensitive(299)).unwrap();
        let got = adaptive_avg_pool_grad(device, &g, &sizes, Atomic).unwrap();
        bits(&device.download(&got).unwrap())
    });
}

/// Every window contains the largest element, which receives all gradients.
#[test]
fn atomic_gradients_of_adaptive_and_fractional_maxima_vary() {
    let gradient = |device: &Device, indices: &Buffer<i64>, n_in: usize, variant: Variant| {
        let grad = order_sensitive(indices.len());
        let grad = device.upload(&grad).unwrap();
        let got = pool_indices_grad(device, &grad, indices, 1, n_in, variant).unwrap();
        bits(&device.download(&got).unwrap())
    };
    let adaptive = |device: &Device, variant: Variant| {
        let sizes = AdaptivePool::new("pool", &[1, 1, 1], &[299]).unwrap();
        let x = device.upload(&[1.0f32]).unwrap();
        let (_, indices) = adaptive_max_pool(device, &x, &sizes).unwrap();
        assert_eq!(device.download(&indices).unwrap(), [0; 299]);
        gradient(device, &indices, 1, variant)
    };
    let fractional = |device: &Device, variant: Variant| {
        // Windows of 30 that begin at 0 to 10 share positions 10 to 29.
        let mut x = vec![0.0f32; 40 * 40];
        x[20 * 40 + 20] = 1.0;
        let (x, samples) = (device.upload(&x).unwrap(), device.upload(&[0.5f32, 0.5]).unwrap());
        let pool = FractionalPool::new("pool", &[1, 1, 40, 40], &[11, 11], &[30, 30]).unwrap();
        let (_, indices) = fractional_max_pool(device, &x, &samples, &pool).unwrap();
        assert_eq!(device.download(&indices).unwrap(), [820; 121]);
        gradient(device, &indices, 40 * 40, variant)
    };
    varies(|device| adaptive(device, Atomic));
    varies(|device| fractional(device, Atomic));
    under_schedules(|device| (adaptive(device, Deterministic), fractional(device, Deterministic)));
}

#[test]
fn a_bad_index_of_a_maximum_is_reported() {
    on_device(|device| {
        let g = device.upload(&[1.0f32; 4]).unwrap();
        let idx = device.upload(&[0i64, -1, 5, 7]).unwrap();
        pooling::pool_indices_grad(device, &g, &idx, 2, 10, Deterministic).unwrap();
        let error = device.synchronize().unwrap_err().to_string();
        assert_eq!(error, "max_pool: index 5 at position 2 is out of range for size 5");
    });
}

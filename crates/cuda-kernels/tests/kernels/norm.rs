//! Batch, group, layer and root mean square normalisation.

use crate::data::{Source, bits, clean, same};
use crate::device::under_schedules;
use samebits_cuda_kernels::norm::{self, Batch, Groups};
use samebits_numerics::math;
use samebits_numerics::reduce::sum_by;

fn statistics(n: usize, x: impl Fn(usize) -> f32, eps: f64) -> [f32; 3] {
    let mean = sum_by(n, |i| f64::from(x(i))) / n as f64;
    let squares = sum_by(n, |i| {
        let deviation = f64::from(x(i)) - mean;
        deviation * deviation
    });
    let variance = squares / n as f64;
    [mean as f32, variance as f32, (1.0 / (variance + eps).sqrt()) as f32].map(clean)
}

fn input_grad(g: f32, h: f32, sum: f64, dot: f64, m: f64, scale: f32) -> f32 {
    let (mean_grad, mean_dot) = ((sum / m) as f32, (dot / m) as f32);
    clean((-h).mul_add(mean_dot, g - mean_grad) * scale)
}

#[test]
fn batch_norm() {
    under_schedules(|device| {
        let mut all = Vec::new();
        for [n, channels, spatial] in [[17, 3, 5], [2, 1, 3000], [33, 2, 1]] {
            let shape = Batch { n, channels, spatial };
            let mut source = Source::new(spatial as u64);
            let len = n * channels * spatial;
            let (x, grad) = (source.plain(len), source.wild(len));
            let (weight, bias) = (source.plain(channels), source.plain(channels));
            let place = |c: usize, t: usize| (t / spatial * channels + c) * spatial + t % spatial;
            let m = n * spatial;
            let stats: Vec<[f32; 3]> =
                (0..channels).map(|c| statistics(m, |t| x[place(c, t)], 1e-5)).collect();
            let dev = |x: &[f32]| device.upload(x).unwrap();
            let (x_dev, grad_dev) = (dev(&x), dev(&grad));
            let (w_dev, b_dev) = (dev(&weight), dev(&bias));
            let s = norm::batch_statistics(device, &x_dev, shape, 1e-5).unwrap();
            let column = |k: usize| -> Vec<f32> { stats.iter().map(|s| s[k]).collect() };
            same("mean", &device.download(&s.mean).unwrap(), &column(0));
            same("variance", &device.download(&s.variance).unwrap(), &column(1));
            same("rstd", &device.download(&s.rstd).unwrap(), &column(2));

            let y = norm::batch_normalize(device, &x_dev, shape, &s.scaled, &w_dev, &b_dev);
            let y = device.download(&y.unwrap()).unwrap();
            let expected: Vec<f32> = (0..len)
                .map(|i| {
                    let c = i / spatial % channels;
                    clean(((x[i] - stats[c][0]) * stats[c][2]).mul_add(weight[c], bias[c]))
                })
                .collect();
            same("normalised", &y, &expected);
            all.extend(bits(&y));

            let known = [&s.mean, &s.rstd];
            let g = norm::batch_norm_grad(device, &grad_dev, &x_dev, shape, known, &w_dev, 1e-5)
                .unwrap();
            let normal = |c: usize, i: usize| (x[i] - stats[c][0]) * stats[c][2];
            let sums: Vec<[f64; 2]> = (0..channels)
                .map(|c| {
                    let at = |t| place(c, t);
                    [
                        sum_by(m, |t| f64::from(grad[at(t)])),
                        sum_by(m, |t| f64::from(grad[at(t)]) * f64::from(normal(c, at(t)))),
                    ]
                })
                .collect();
            let expected: Vec<f32> = (0..len)
                .map(|i| {
                    let c = i / spatial % channels;
                    let scale = weight[c] * stats[c][2];
                    input_grad(grad[i], normal(c, i), sums[c][0], sums[c][1], m as f64, scale)
                })
                .collect();
            same("input gradient", &device.download(&g.input).unwrap(), &expected);
            let expected: Vec<f32> = sums.iter().map(|s| clean(s[1] as f32)).collect();
            same("weight gradient", &device.download(&g.weight).unwrap(), &expected);
            let expected: Vec<f32> = sums.iter().map(|s| clean(s[0] as f32)).collect();
            same("bias gradient", &device.download(&g.bias).unwrap(), &expected);

            let variances: Vec<f32> = weight.iter().map(|w| w.abs()).collect();
            let given = norm::given_statistics(device, &s.mean, &dev(&variances), 0.1).unwrap();
            let y = norm::batch_normalize(device, &x_dev, shape, &given, &w_dev, &b_dev).unwrap();
            let expected: Vec<f32> = (0..len)
                .map(|i| {
                    let c = i / spatial % channels;
                    let rstd = (1.0 / (f64::from(variances[c]) + 0.1).sqrt()) as f32;
                    clean(((x[i] - stats[c][0]) * rstd).mul_add(weight[c], bias[c]))
                })
                .collect();
            same("normalised by given statistics", &device.download(&y).unwrap(), &expected);
        }
        all
    });
}

#[test]
fn group_norm() {
    under_schedules(|device| {
        for [n, groups, channels, spatial] in
            [[9, 2, 3, 5], [1, 1, 2, 3000], [33, 3, 2, 1], [2, 2, 1, 1100], [8, 1, 1, 2]]
        {
            let shape = Groups { n, groups, channels, spatial };
            let (width, len) = (shape.width(), shape.rows() * shape.width());
            let mut source = Source::new(len as u64);
            let (x, grad) = (source.plain(len), source.wild(len));
            let (weight, bias) = (source.plain(groups * channels), source.plain(groups * channels));
            let dev = |x: &[f32]| device.upload(x).unwrap();
            let (x_dev, grad_dev, w_dev, b_dev) = (dev(&x), dev(&grad), dev(&weight), dev(&bias));
            let stats: Vec<[f32; 3]> =
                x.chunks(width).map(|x| statistics(width, |i| x[i], 1e-5)).collect();
            let column = |k: usize| -> Vec<f32> { stats.iter().map(|s| s[k]).collect() };
            let normal = |i: usize| (x[i] - stats[i / width][0]) * stats[i / width][2];
            let channel = |i: usize| i / spatial % (groups * channels);
            for (weighted, biased) in [(true, true), (true, false), (false, true), (false, false)] {
                let (w, b) = (weighted.then_some(&w_dev), biased.then_some(&b_dev));
                let (y, mean, rstd) = norm::group_norm(device, &x_dev, shape, w, b, 1e-5).unwrap();
                same("mean", &device.download(&mean).unwrap(), &column(0));
                same("rstd", &device.download(&rstd).unwrap(), &column(2));
                let times = |x: f32, i: usize| if weighted { x * weight[channel(i)] } else { x };
                let expected: Vec<f32> = (0..len)
                    .map(|i| {
                        let y = times(normal(i) + 0.0, i);
                        clean(if biased { y + bias[channel(i)] } else { y })
                    })
                    .collect();
                same("normalised", &device.download(&y).unwrap(), &expected);

                let known = [&mean, &rstd];
                let (grad_x, products) =
                    norm::group_norm_grad(device, &grad_dev, &x_dev, shape, w, known, 1e-5)
                        .unwrap();
                let of_row = |row: usize| {
                    let at = |t| row * width + t;
                    let g = |t| times(grad[at(t)], at(t));
                    let dot = |t| f64::from(g(t)) * f64::from(normal(at(t)));
                    (sum_by(width, |t| f64::from(g(t))), sum_by(width, dot))
                };
                let sums: Vec<(f64, f64)> = (0..shape.rows()).map(of_row).collect();
                let expected: Vec<f32> = (0..len)
                    .map(|i| {
                        let ((sum, dot), rstd) = (sums[i / width], stats[i / width][2]);
                        input_grad(times(grad[i], i), normal(i), sum, dot, width as f64, rstd)
                    })
                    .collect();
                same("input gradient", &device.download(&grad_x).unwrap(), &expected);
                assert_eq!(products.is_some(), weighted);
                let Some(products) = products else { continue };
                let expected: Vec<f32> =
                    (0..len).map(|i| clean(grad[i] * (normal(i) + 0.0))).collect();
                same("products", &device.download(&products).unwrap(), &expected);
            }
        }
    });
}

#[test]
fn group_norm_of_nothing() {
    under_schedules(|device| {
        for (n, spatial) in [(0, 5), (2, 0)] {
            let shape = Groups { n, groups: 2, channels: 3, spatial };
            let (none, weight) = (device.upload::<f32>(&[]).unwrap(), device.upload(&[1.0f32; 6]));
            let weight = Some(weight.unwrap());
            let weight = weight.as_ref();
            let (_, mean, rstd) =
                norm::group_norm(device, &none, shape, weight, weight, 1e-5).unwrap();
            for moments in [&mean, &rstd] {
                let moments = device.download(moments).unwrap();
                let nothing = vec![f32::from_bits(0x7fc0_0000); shape.rows()];
                same("moments", &moments[..nothing.len()], &nothing);
            }
            let known = [&mean, &rstd];
            let found = norm::group_norm_grad(device, &none, &none, shape, weight, known, 1e-5);
            assert!(found.unwrap().1.is_some());
        }
    });
}

#[test]
fn layer_norm() {
    under_schedules(|device| {
        for [rows, width] in [[3, 1], [5, 40], [2, 5000], [4100, 2]] {
            let mut source = Source::new(width as u64);
            let (x, grad) = (source.plain(rows * width), source.plain(rows * width));
            let (weight, bias) = (source.plain(width), source.plain(width));
            let dev = |x: &[f32]| device.upload(x).unwrap();
            let (x_dev, w_dev, b_dev) = (dev(&x), dev(&weight), dev(&bias));
            let (y, mean, rstd) =
                norm::layer_norm(device, &x_dev, [rows, width], &w_dev, &b_dev, 1e-6).unwrap();
            let stats: Vec<[f32; 3]> =
                (0..rows).map(|r| statistics(width, |i| x[r * width + i], 1e-6)).collect();
            let normal = |r: usize, i: usize| (x[r * width + i] - stats[r][0]) * stats[r][2];
            let expected: Vec<f32> = (0..rows * width)
                .map(|p| {
                    clean(normal(p / width, p % width).mul_add(weight[p % width], bias[p % width]))
                })
                .collect();
            same("normalised", &device.download(&y).unwrap(), &expected);
            let g = norm::layer_norm_grad(
                device,
                &dev(&grad),
                &x_dev,
                [rows, width],
                &w_dev,
                [&mean, &rstd],
                1e-6,
            )
            .unwrap();
            let expected: Vec<f32> = (0..rows * width)
                .map(|p| {
                    let r = p / width;
                    let scaled = |i: usize| grad[r * width + i] * weight[i];
                    let sum = sum_by(width, |i| f64::from(scaled(i)));
                    let dot = sum_by(width, |i| f64::from(scaled(i)) * f64::from(normal(r, i)));
                    let i = p % width;
                    input_grad(scaled(i), normal(r, i), sum, dot, width as f64, stats[r][2])
                })
                .take(if width > 1000 { 50 } else { usize::MAX })
                .collect();
            let got = device.download(&g.input).unwrap();
            same("input gradient", &got[..expected.len()], &expected);
            let weight_grad: Vec<f32> = (0..width)
                .map(|i| {
                    let term = |r: usize| f64::from(grad[r * width + i]) * f64::from(normal(r, i));
                    clean(sum_by(rows, term) as f32)
                })
                .collect();
            same("weight gradient", &device.download(&g.weight).unwrap(), &weight_grad);
            let bias_grad: Vec<f32> = (0..width)
                .map(|i| clean(sum_by(rows, |r| f64::from(grad[r * width + i])) as f32))
                .collect();
            same("bias gradient", &device.download(&g.bias).unwrap(), &bias_grad);
        }
    });
}

/// Returns the result, and the factor and rstd of a row.
fn written_rms(x: &[f32], weight: Option<&[f32]>, eps: f64) -> (Vec<f32>, f32, f32) {
    let size = x.iter().fold(eps.sqrt() as f32, |most, x| most.max(x.abs()));
    let factor = math::log2(size).floor().clamp(-100.0, 100.0);
    let factor = f32::from_bits(((127.0 - factor) as u32) << 23);
    let squares = sum_by(x.len(), |i| f64::from((x[i] * factor) * (x[i] * factor)));
    let mean = (squares / x.len() as f64) as f32;
    let rstd = math::rsqrt(mean + eps as f32 * factor * factor);
    let result = |(i, x): (usize, &f32)| {
        clean(weight.map_or(x * factor * rstd, |weight| x * factor * rstd * weight[i]))
    };
    (x.iter().enumerate().map(result).collect(), factor, rstd)
}

#[test]
fn rms_norm() {
    under_schedules(|device| {
        for [rows, width] in [[5, 1], [1, 7], [70, 33], [3, 1024], [2, 1025], [4100, 2], [3, 5000]]
        {
            let mut source = Source::new(width as u64);
            let mut x = source.plain(rows * width);
            let (mut grad, weight) = (source.plain(rows * width), source.plain(width));
            if rows > 1000 {
                // Sums down the rows in which large terms cancel show their order.
                x.fill(0.75);
                for (row, grad) in grad.chunks_mut(width).enumerate() {
                    match row % 7 {
                        1 => grad.fill(1e17),
                        4 => grad.fill(-1e17),
                        _ => {}
                    }
                }
            } else {
                // Rows of other magnitudes.
                x.iter_mut().take(width).for_each(|x| *x *= 1e30);
                x.iter_mut().skip((rows - 1) * width).for_each(|x| *x *= 1e-30);
            }
            if (5..100).contains(&rows) {
                x[3 * width] = f32::NAN;
                x[2 * width] = f32::INFINITY;
                // A power of two, and a number whose logarithm is rounded up to 70.
                x[width] = 4.0;
                x[4 * width - 1] = f32::from_bits((127 + 69) << 23 | 0x7f_ffff);
            }
            let dev = |x: &[f32]| device.upload(x).unwrap();
            let (x_dev, grad_dev, w_dev) = (dev(&x), dev(&grad), dev(&weight));
            for (weighted, alone, eps) in
                [(true, false, 1e-5), (false, false, 0.0), (true, rows == 1, 1e-5)]
            {
                let weight = weighted.then_some(&weight[..]);
                let found: Vec<_> = x.chunks(width).map(|x| written_rms(x, weight, eps)).collect();
                let shape = [rows, width];
                let w_dev = weighted.then_some(&w_dev);
                let (y, factor, rstd) = norm::rms_norm(device, &x_dev, shape, w_dev, eps).unwrap();
                let all: Vec<f32> = found.iter().flat_map(|(y, ..)| y.iter().copied()).collect();
                same("rms_norm", &device.download(&y).unwrap(), &all);
                let factors: Vec<f32> = found.iter().map(|(_, factor, _)| *factor).collect();
                same("factor", &device.download(&factor).unwrap(), &factors);
                let rstds: Vec<f32> = found.iter().map(|(.., rstd)| *rstd).collect();
                same("rstd", &device.download(&rstd).unwrap(), &rstds);
                let (grad_x, grad_weight) = norm::rms_norm_grad(
                    device,
                    &grad_dev,
                    &x_dev,
                    shape,
                    w_dev,
                    [&factor, &rstd],
                    alone,
                )
                .unwrap();
                let (mut of_x, mut products) = (Vec::new(), Vec::new());
                for (row, (x, grad)) in x.chunks(width).zip(grad.chunks(width)).enumerate() {
                    let (f, r) = (factors[row], rstds[row]);
                    let g = |i: usize| weight.map_or(grad[i], |weight| grad[i] * weight[i]);
                    let dot = match width {
                        1 => g(0) * (x[0] * f),
                        _ => sum_by(width, |i| f64::from(g(i) * (x[i] * f))) as f32,
                    };
                    let share = dot * (r * r * r * -0.5) * (1.0 / width as f64) as f32;
                    for i in 0..width {
                        of_x.push(clean((g(i) * r + share * (x[i] * f * 2.0)) * f));
                        products.push(clean(grad[i] * (x[i] * f * r)));
                    }
                }
                same("input gradient", &device.download(&grad_x).unwrap(), &of_x);
                assert_eq!(grad_weight.is_some(), weighted);
                let Some(grad_weight) = grad_weight else { continue };
                let sum = |i: usize| {
                    clean(sum_by(rows, |row| f64::from(products[row * width + i])) as f32)
                };
                let sums: Vec<f32> = (0..width).map(sum).collect();
                let wanted = if alone { &products } else { &sums };
                same("weight gradient", &device.download(&grad_weight).unwrap(), wanted);
            }
        }
    });
}

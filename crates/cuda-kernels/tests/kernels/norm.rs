//! Batch and layer normalisation.

use crate::data::{Source, bits, clean, same};
use crate::device::under_schedules;
use samebits_cuda_kernels::norm::{self, Batch};
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

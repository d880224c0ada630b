//! Softmax and the negative log-likelihood.

use crate::data::{Source, bits, clean, order_sensitive, same};
use crate::device::{under_schedules, varies};
use samebits_cuda_kernels::Buffer;
use samebits_cuda_kernels::Variant::{Atomic, Deterministic};
use samebits_cuda_kernels::loss::{self, Reduction, Targets};
use samebits_numerics::reduce::sum_by;
use samebits_numerics::{extrema, math};

#[test]
fn softmax_its_logarithm_and_their_gradients() {
    under_schedules(|device| {
        let mut all = Vec::new();
        let shapes = [[3, 1, 1], [4, 10, 1], [2, 33, 3], [1, 5000, 1]];
        // One thread per row, with fewer and more classes than a warp has lanes; then one warp per
        // row.
        let columns =
            [[2, 1, 40], [2, 21, 33], [1, 32, 70], [1, 100, 32], [1, 256, 32], [1, 257, 32]];
        for [outer, n, inner] in shapes.into_iter().chain(columns) {
            for kind in 0..2 {
                let mut source = Source::new(n as u64);
                let len = outer * n * inner;
                let mut x: Vec<f32> = source.plain(len).iter().map(|x| x * 20.0).collect();
                if kind == 1 {
                    x = source.broken(len);
                }
                let mut grad = source.plain(len);
                let place = |row: usize, i: usize| (row / inner * n + i) * inner + row % inner;
                if kind == 1 {
                    // Large numbers that cancel: another order loses other small ones.
                    for row in 0..outer * inner {
                        for i in (0..n / 3 * 3).filter(|i| i % 3 > 0) {
                            grad[place(row, i)] = [1e18, -1e18][i % 3 - 1];
                        }
                    }
                }
                let mut y = vec![0.0; len];
                let mut grad_x = vec![0.0; len];
                let mut exp = vec![0.0; len];
                let mut grad_of_softmax = vec![0.0; len];
                for row in 0..outer * inner {
                    let values: Vec<f32> = (0..n).map(|i| x[place(row, i)]).collect();
                    let max = extrema::max(&values).unwrap();
                    let sum = sum_by(n, |i| f64::from(math::exp(values[i] - max)));
                    let log_sum = math::log(sum as f32);
                    for i in 0..n {
                        y[place(row, i)] = clean((values[i] - max) - log_sum);
                        exp[place(row, i)] = clean(math::exp(values[i] - max) / sum as f32);
                    }
                    let sum = -(sum_by(n, |i| f64::from(grad[place(row, i)])) as f32);
                    for i in 0..n {
                        let at = place(row, i);
                        grad_x[at] = clean(math::exp(y[at]).mul_add(sum, grad[at]));
                    }
                    let product = |i: usize| {
                        let at = place(row, i);
                        clean(grad[at] * exp[at])
                    };
                    let sum = -(sum_by(n, |i| f64::from(product(i))) as f32);
                    for i in 0..n {
                        let at = place(row, i);
                        grad_of_softmax[at] = clean(exp[at].mul_add(sum, product(i)));
                    }
                }
                let shape = [outer, n, inner];
                let x = device.upload(&x).unwrap();
                let got = loss::log_softmax(device, &x, shape).unwrap();
                let softmax = loss::softmax(device, &x, shape).unwrap();
                let grad = device.upload(&grad).unwrap();
                let back = loss::log_softmax_grad(device, &grad, &got, shape).unwrap();
                let back_of_softmax = loss::softmax_grad(device, &grad, &softmax, shape).unwrap();
                same(&format!("{shape:?} softmax"), &device.download(&softmax).unwrap(), &exp);
                let back_of_softmax = device.download(&back_of_softmax).unwrap();
                same(&format!("{shape:?} gradient of softmax"), &back_of_softmax, &grad_of_softmax);
                let got = device.download(&got).unwrap();
                same(&format!("{shape:?} kind {kind}"), &got, &y);
                same(&format!("{shape:?} gradient"), &device.download(&back).unwrap(), &grad_x);
                all.extend(bits(&got));
            }
        }
        all
    });
}

#[test]
fn nll_loss_and_its_gradient() {
    under_schedules(|device| {
        for [n, classes] in [[1, 1], [10, 3], [5000, 4]] {
            let mut source = Source::new(n as u64);
            let x = source.wild(n * classes);
            let target = source.indices(n, classes);
            let sum = sum_by(n, |i| f64::from(x[i * classes + target[i] as usize]));
            let expected = (-sum / n as f64) as f32;
            let x_dev = device.upload(&x).unwrap();
            let t = device.upload(&target).unwrap();
            let targets = plain(&t, [n, classes]);
            let got = loss::nll_loss(device, &x_dev, targets, Reduction::Mean, Deterministic);
            let got = got.unwrap();
            same("loss", &device.download(&got).unwrap(), &[clean(expected)]);
            let grad = device.upload(&[0.7f32]).unwrap();
            let got = loss::nll_loss_grad(device, &grad, targets, Reduction::Mean).unwrap();
            let expected: Vec<f32> = (0..n * classes)
                .map(|i| {
                    let here = target[i / classes] == (i % classes) as i64;
                    if here { -0.7 / n as f32 } else { 0.0 }
                })
                .collect();
            same("gradient", &device.download(&got).unwrap(), &expected);
        }
        let x = device.upload(&[1.0f32; 6]).unwrap();
        let bad = device.upload(&[0i64, 2]).unwrap();
        let targets = plain(&bad, [2, 2]);
        loss::nll_loss(device, &x, targets, Reduction::Mean, Deterministic).unwrap_err();
        let x = device.upload(&[1.0f32; 4]).unwrap();
        loss::nll_loss(device, &x, targets, Reduction::Mean, Deterministic).unwrap();
        let error = device.synchronize().unwrap_err().to_string();
        assert_eq!(error, "nll_loss: index 2 at position 1 is out of range for size 2");
    });
}

#[test]
fn the_atomic_loss_varies() {
    let x: Vec<f32> = order_sensitive(300);
    varies(|device| {
        let x = device.upload(&x).unwrap();
        let target = device.upload(&vec![0i64; 300]).unwrap();
        let targets = plain(&target, [300, 1]);
        let got = loss::nll_loss(device, &x, targets, Reduction::Sum, Atomic).unwrap();
        bits(&device.download(&got).unwrap())
    });
}

fn plain(classes: &Buffer<i64>, [n, count]: [usize; 2]) -> Targets<'_, f32> {
    Targets { classes, shape: [n, count, 1], weight: None, ignore_index: -100 }
}

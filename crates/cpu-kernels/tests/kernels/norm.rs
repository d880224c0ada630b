//! Batch normalisation has the bits of its written order, at every SIMD level and with any number of
//! threads.

use crate::invariance::{bits, on_every_machine};
use samebits_cpu_kernels::Float;
use samebits_cpu_kernels::norm::{
    Batch, Groups, batch_norm, batch_norm_backward, batch_normalize, batch_statistics, group_norm,
    group_norm_backward, layer_norm, layer_norm_backward, scaled,
};
use samebits_numerics::reduce::{Normal, sum_by};

fn values<T: Float>(n: usize, mut state: u64) -> Vec<T> {
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let x = (state >> 40) as f64 / f64::from(1 << 23) - 1.0;
            T::from_f64(match state >> 20 & 511 {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => 1e30 * x,
                3..9 => -0.0,
                _ => x + 0.3,
            })
        })
        .collect()
}

/// Replaces all but finite numbers if means have many terms: otherwise nearly every mean would be NaN, and
/// no order would show.
fn finite_if_long<T: Float>(mut all: Vec<T>, terms: usize) -> Vec<T> {
    if terms > 100 {
        for x in &mut all {
            let wide: f64 = (*x).into();
            if wide.is_nan() || wide.abs() >= 1e20 {
                *x = T::from_f64(0.625);
            }
        }
    }
    all
}

/// Results, means, variances, gradients of the input, the weight and the bias.
type All<T> = [Vec<T>; 6];

/// Computes each channel by itself, element by element.
fn written<T: Float>(x: &[T], grad: &[T], shape: Batch, weight: &[T], bias: &[T]) -> All<T> {
    let Batch { n, channels, spatial } = shape;
    let m = n * spatial;
    let [mut out, mut grad_x] = [(); 2].map(|()| vec![T::ZERO; x.len()]);
    let [mut means, mut variances, mut grad_weight, mut grad_bias] = [(); 4].map(|()| Vec::new());
    for c in 0..channels {
        let at = |i: usize| (i / spatial * channels + c) * spatial + i % spatial;
        let wide = |i: usize| -> f64 { x[at(i)].into() };
        let mean = sum_by(m, wide) / m as f64;
        let squares = sum_by(m, |i| (wide(i) - mean) * (wide(i) - mean));
        let normal = Normal::new([mean, squares / m as f64], EPS, m, T::WIDE, &wide);
        let round = |x: f64| T::from_f64(x).canonical();
        means.push(round(normal.true_mean()));
        variances.push(round(normal.true_variance()));
        let h = |normal: &Normal, i: usize| {
            let [mean, rstd, scale] = [normal.mean, normal.rstd, normal.scale].map(round);
            x[at(i)].mul_add(scale, -mean) * rstd
        };
        for i in 0..m {
            out[at(i)] = h(&normal, i).mul_add(weight[c], bias[c]).canonical();
        }
        let known = [normal.true_mean(), normal.true_rstd()].map(|x| round(x).into());
        let known = Normal::known(known, EPS, m, T::WIDE, &wide);
        let g = |i: usize| -> f64 { grad[at(i)].into() };
        let sum = sum_by(m, g);
        let dot = sum_by(m, |i| g(i) * h(&known, i).into());
        grad_bias.push(round(sum));
        grad_weight.push(round(dot));
        let (mean_grad, mean_dot) = (T::from_f64(sum / m as f64), T::from_f64(dot / m as f64));
        let factor = weight[c] * round(known.rstd);
        for i in 0..m {
            let centred = (-h(&known, i)).mul_add(mean_dot, grad[at(i)] - mean_grad);
            grad_x[at(i)] = (centred * factor * round(known.scale)).canonical();
        }
    }
    [out, means, variances, grad_x, grad_weight, grad_bias]
}

const EPS: f64 = 1e-5;

fn computed<T: Float>(x: &[T], grad: &[T], shape: Batch, weight: &[T], bias: &[T]) -> All<T> {
    let statistics = batch_statistics(x, shape, EPS).unwrap();
    let [mut out, mut grad_x] = [(); 2].map(|()| vec![T::ONE; x.len()]);
    batch_normalize(x, shape, &scaled(&statistics).unwrap(), weight, bias, &mut out).unwrap();
    let field = |of: fn(&Normal) -> f64| -> Vec<T> {
        statistics.iter().map(|s| T::from_f64(of(s)).canonical()).collect()
    };
    let (means, rstd) = (field(Normal::true_mean), field(Normal::true_rstd));
    let known = [&means[..], &rstd];
    let [mut together, mut m, mut v, mut r] =
        [x.len(), shape.channels, shape.channels, shape.channels].map(|len| vec![T::ONE; len]);
    let moments = [&mut m[..], &mut v, &mut r];
    batch_norm(x, shape, weight, bias, EPS, &mut together, moments).unwrap();
    assert_eq!(bits(&together), bits(&out));
    assert_eq!(bits(&m), bits(&means));
    assert_eq!(bits(&r), bits(&rstd));
    assert_eq!(bits(&v), bits(&field(Normal::true_variance)));
    let (grad_weight, grad_bias) =
        batch_norm_backward(grad, x, shape, known, weight, EPS, &mut grad_x).unwrap();
    [out, means, field(Normal::true_variance), grad_x, grad_weight, grad_bias]
}

fn check<T: Float>() {
    for (n, channels, spatial) in [
        (1, 1, 1),
        (33, 300, 1),
        (2, 17, 1),
        (5000, 3, 1),
        (64, 65, 1),
        (4, 5, 7),
        (9, 70, 16),
        (300, 2, 64),
        (3, 2, 9000),
        (2, 3, 5000),
        (1, 1, 7),
        (1, 300, 4),
        (1, 130, 32),
        (1, 70, 33),
        (1, 5, 5000),
        (1, 3, 40_001),
    ] {
        let shape = Batch { n, channels, spatial };
        let count = n * channels * spatial;
        let [x, grad] = [1, 2].map(|seed| finite_if_long(values::<T>(count, seed), n * spatial));
        let (weight, bias) = (values::<T>(channels, 3), values::<T>(channels, 4));
        let wanted = written(&x, &grad, shape, &weight, &bias).map(|all| bits(&all));
        on_every_machine(|machine| {
            let found = computed(&x, &grad, shape, &weight, &bias).map(|all| bits(&all));
            for (i, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                assert!(found == wanted, "{n} {channels} {spatial}: result {i} at {machine}");
            }
        });
    }
}

#[test]
fn channels_have_the_written_order() {
    check::<f32>();
    check::<f64>();
}

/// Normalises each row by itself, element by element, and adds the gradients down the columns.
fn written_rows<T: Float>(x: &[T], grad: &[T], count: usize, weight: &[T], bias: &[T]) -> All<T> {
    let n = weight.len();
    let round = |x: f64| T::from_f64(x).canonical();
    let [mut out, mut grad_x] = [(); 2].map(|()| vec![T::ZERO; x.len()]);
    let [mut means, mut rstds] = [(); 2].map(|()| Vec::new());
    let mut products = vec![0.0; x.len()];
    for row in 0..count {
        let first = row * n;
        let wide = |i: usize| -> f64 { x[first + i].into() };
        let mean = sum_by(n, wide) / n as f64;
        let squares = sum_by(n, |i| (wide(i) - mean) * (wide(i) - mean));
        let normal = Normal::new([mean, squares / n as f64], EPS, n, T::WIDE, &wide);
        means.push(round(normal.true_mean()));
        rstds.push(round(normal.true_rstd()));
        let known = [means[row].into(), rstds[row].into()];
        let known = Normal::known(known, EPS, n, T::WIDE, &wide);
        let h = |normal: &Normal, i: usize| {
            let [mean, rstd, scale] = [normal.mean, normal.rstd, normal.scale].map(round);
            x[first + i].mul_add(scale, -mean) * rstd
        };
        let g = |i: usize| grad[first + i] * weight[i];
        let sum = sum_by(n, |i| g(i).into());
        let dot = sum_by(n, |i| Into::<f64>::into(g(i)) * h(&known, i).into());
        let (mean_grad, mean_dot) = (T::from_f64(sum / n as f64), T::from_f64(dot / n as f64));
        for i in 0..n {
            out[first + i] = h(&normal, i).mul_add(weight[i], bias[i]).canonical();
            let centred = (-h(&known, i)).mul_add(mean_dot, g(i) - mean_grad);
            grad_x[first + i] = (centred * round(known.rstd) * round(known.scale)).canonical();
            products[first + i] = grad[first + i].into() * h(&known, i).into();
        }
    }
    let down = |at: &dyn Fn(usize) -> f64| -> Vec<T> {
        (0..n).map(|c| round(sum_by(count, |row| at(row * n + c)))).collect()
    };
    let grad_weight = down(&|i| products[i]);
    [out, means, rstds, grad_x, grad_weight, down(&|i| grad[i].into())]
}

fn check_rows<T: Float>() {
    for (count, n) in [
        (1, 1),
        (70, 4),
        (131, 20),
        (65, 32),
        (3, 33),
        (1, 50_001),
        (3, 40_000),
        (31, 700),
        (32, 1001),
        (33, 1001),
        (5000, 3),
        (9001, 1),
        (4097, 31),
        (700, 64),
    ] {
        let [x, grad] =
            [1, 2].map(|seed| finite_if_long(values::<T>(count * n, seed), n.max(count)));
        let [weight, bias] = [3, 4].map(|seed| finite_if_long(values::<T>(n, seed), n));
        let wanted = written_rows(&x, &grad, count, &weight, &bias).map(|all| bits(&all));
        on_every_machine(|machine| {
            let [mut out, mut grad_x] = [(); 2].map(|()| vec![T::ONE; x.len()]);
            let [mut mean, mut rstd] = [(); 2].map(|()| vec![T::ONE; count]);
            layer_norm(&x, &weight, &bias, EPS, &mut out, &mut mean, &mut rstd).unwrap();
            let known = [&mean[..], &rstd];
            let (grad_weight, grad_bias) =
                layer_norm_backward(&grad, &x, &weight, known, EPS, &mut grad_x).unwrap();
            let found = [&out, &mean, &rstd, &grad_x, &grad_weight, &grad_bias];
            for (i, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                assert!(bits(found) == *wanted, "{count} x {n}: result {i} at {machine}");
            }
        });
    }
}

#[test]
fn rows_have_the_written_order() {
    check_rows::<f32>();
    check_rows::<f64>();
}

/// Results, means, rstds, gradients of the input, and products whose sums are those of the weight.
type Grouped<T> = [Vec<T>; 5];

/// Normalises each group of each sample by itself, element by element.
fn written_groups<T: Float>(
    [x, grad]: [&[T]; 2],
    shape: Groups,
    weight: Option<&[T]>,
    bias: Option<&[T]>,
) -> Grouped<T> {
    let channel = |i: usize| i / shape.spatial % (shape.groups * shape.channels);
    let weighted = |g: T, i: usize| weight.map_or(g, |weight| g * weight[channel(i)]);
    let scaled: Vec<T> = grad.iter().enumerate().map(|(i, &g)| weighted(g, i)).collect();
    // A row as a channel, with a weight of 1 and a bias of 0.
    let rows = Batch { n: 1, channels: shape.rows(), spatial: shape.width() };
    let [ones, zeros] = [T::ONE, T::ZERO].map(|value| vec![value; rows.channels]);
    let [plain, means, _, grad_x, ..] = written(x, &scaled, rows, &ones, &zeros);
    let y = |(i, &y): (usize, &T)| {
        let y = weighted(y, i);
        bias.map_or(y, |bias| y + bias[channel(i)]).canonical()
    };
    let out = plain.iter().enumerate().map(y).collect();
    let products = plain.iter().zip(grad).map(|(&y, &g)| (y * g).canonical()).collect();
    let rstds = (0..rows.channels).map(|row| {
        let wide = |i: usize| -> f64 { x[row * rows.spatial + i].into() };
        let mean = sum_by(rows.spatial, wide) / rows.spatial as f64;
        let squares = sum_by(rows.spatial, |i| (wide(i) - mean) * (wide(i) - mean));
        let moments = [mean, squares / rows.spatial as f64];
        let normal = Normal::new(moments, EPS, rows.spatial, T::WIDE, &wide);
        T::from_f64(normal.true_rstd()).canonical()
    });
    let rstds = rstds.collect();
    [out, means, rstds, grad_x, products]
}

fn check_groups<T: Float>() {
    for [n, groups, channels, spatial] in [
        [1, 1, 1, 2],
        [3, 2, 5, 1],
        [70, 3, 1, 1],
        [130, 4, 2, 3],
        [40, 2, 16, 2],
        [2, 2, 11, 9],
        [5, 3, 4, 31],
        [5, 3, 4, 33],
        [2, 1, 3, 5000],
        [3, 2, 5000, 1],
        [2, 2, 700, 7],
        [1, 2, 9, 4100],
        [2, 1, 40_001, 1],
    ] {
        let shape = Groups { n, groups, channels, spatial };
        let count = shape.rows() * shape.width();
        let [x, grad] = [1, 2].map(|seed| finite_if_long(values::<T>(count, seed), shape.width()));
        let parameter = |seed| finite_if_long(values::<T>(groups * channels, seed), shape.width());
        let [weight, bias] = [3, 4].map(parameter);
        for (weight, bias) in [
            (Some(&weight[..]), Some(&bias[..])),
            (Some(&weight[..]), None),
            (None, Some(&bias[..])),
            (None, None),
        ] {
            let wanted = written_groups([&x, &grad], shape, weight, bias).map(|all| bits(&all));
            on_every_machine(|machine| {
                let [mut out, mut grad_x, mut products] = [(); 3].map(|()| vec![T::ONE; count]);
                let [mut mean, mut rstd] = [(); 2].map(|()| vec![T::ONE; shape.rows()]);
                let moments = [&mut mean[..], &mut rstd];
                group_norm(&x, shape, weight, bias, EPS, &mut out, moments).unwrap();
                let (inputs, known) = ([&grad[..], &x], [&mean[..], &rstd]);
                let found_products = Some(&mut products[..]);
                group_norm_backward(inputs, shape, weight, known, EPS, &mut grad_x, found_products)
                    .unwrap();
                let mut alone = vec![T::ONE; count];
                group_norm_backward(inputs, shape, weight, known, EPS, &mut alone, None).unwrap();
                assert!(bits(&alone) == bits(&grad_x), "{shape:?}: alone at {machine}");
                let found = [&out, &mean, &rstd, &grad_x, &products];
                for (i, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                    assert!(bits(found) == *wanted, "{shape:?}: result {i} at {machine}");
                }
            });
        }
    }
}

#[test]
fn groups_have_the_written_order() {
    check_groups::<f32>();
    check_groups::<f64>();
}

#[test]
fn groups_of_nothing_have_no_statistics() {
    for (n, spatial) in [(0, 5), (2, 0)] {
        let shape = Groups { n, groups: 2, channels: 3, spatial };
        let [mut mean, mut rstd] = [(); 2].map(|()| vec![1.0f32; shape.rows()]);
        let weight = Some(&[1.0; 6][..]);
        group_norm(&[], shape, weight, weight, EPS, &mut [], [&mut mean, &mut rstd]).unwrap();
        assert!(bits(&mean).iter().chain(&bits(&rstd)).all(|&x| x == 0x7fc0_0000));
        let known = [&mean[..], &rstd];
        group_norm_backward([&[], &[]], shape, weight, known, EPS, &mut [], Some(&mut [])).unwrap();
    }
}

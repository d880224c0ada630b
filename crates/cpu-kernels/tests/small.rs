//! Kernels at sizes that slow tools can run: `cargo xtask sanitize` runs these tests under Miri and
//! AddressSanitizer. Values are small integers, so every order of operations gives the exact
//! result.
//!
//! Products and convolutions reach every unsafe module of `arch`; rows, sorts and scatters use
//! other memory.

mod invariance;

use invariance::{Random, everywhere, on_threads};
use samebits_cpu_kernels::conv::{self, ConvParams, Convolution};
use samebits_cpu_kernels::matmul::{Matrix, Real, matmul, matmul_batched};
use samebits_cpu_kernels::{reduce, scatter, sort};
use std::fmt::Debug;

/// Returns integers from -4 to 4.
fn integers(count: usize, seed: u64) -> Vec<i32> {
    let mut random = Random(seed);
    (0..count).map(|_| random.below(9) as i32 - 4).collect()
}

/// Returns the result of `f`, after asserting that it is the same everywhere; under Miri, which is
/// slow and has one SIMD level, only on two threads.
fn compared<R: PartialEq + Debug + Send>(f: impl Fn() -> R + Sync) -> R {
    if cfg!(miri) { on_threads(2, f) } else { everywhere(f) }
}

trait FromInteger: Real {
    fn of(values: &[i32]) -> Vec<Self>;
}

impl FromInteger for f32 {
    fn of(values: &[i32]) -> Vec<f32> {
        values.iter().map(|&x| x as f32).collect()
    }
}

impl FromInteger for f64 {
    fn of(values: &[i32]) -> Vec<f64> {
        values.iter().map(|&x| f64::from(x)).collect()
    }
}

fn integer_product(a: &[i32], b: &[i32], (m, n, k): (usize, usize, usize)) -> Vec<i32> {
    let element = |i: usize| (0..k).map(|s| a[i / n * k + s] * b[s * n + i % n]).sum();
    (0..m * n).map(element).collect()
}

/// Sizes on both sides of a register tile's edges and, unless that takes minutes, several tasks of
/// columns and rows.
const PRODUCTS: &[(usize, usize, usize)] = if cfg!(miri) {
    &[(1, 1, 1), (1, 19, 3), (9, 17, 2), (3, 9, 9)]
} else {
    &[
        (1, 1, 1),
        (1, 70, 3),
        (9, 1, 5),
        (17, 49, 8),
        (131, 5, 2),
        (2, 1030, 1),
        (2, 75, 23),
        (3, 41, 300),
        (90, 4, 37),
    ]
};

fn products<T: FromInteger>() {
    for &(m, n, k) in PRODUCTS {
        let (a, b) = (integers(m * k, 1), integers(k * n, 2));
        let want = T::of(&integer_product(&a, &b, (m, n, k)));
        let (a, b) = (T::of(&a), T::of(&b));
        let transposed: Vec<T> = (0..k * n).map(|i| b[i % k * n + i / k]).collect();
        let got = compared(|| {
            let a = Matrix::new(&a, m, k).unwrap();
            let rows = Matrix::new(&b, k, n).unwrap();
            let columns = Matrix::new(&transposed, n, k).unwrap().transposed();
            let mut out = vec![T::default(); m * n];
            matmul(a, columns, &mut out).unwrap();
            let mut again = vec![T::default(); 2 * m * n];
            matmul_batched(a, &[0, 0], rows, &[0, 0], &mut again).unwrap();
            assert!(again[..m * n] == out && again[m * n..] == out, "{m}x{k} by {k}x{n}");
            out
        });
        assert!(got == want, "{m}x{k} by {k}x{n}");
    }
}

#[test]
fn products_are_exact() {
    products::<f32>();
    products::<f64>();
}

fn convolutions<T: FromInteger>() {
    const SIZE: usize = if cfg!(miri) { 4 } else { 5 };
    // (channels, stride, padding, dilation) of a 3x3 kernel, 2 images.
    for (inputs, outputs, stride, padding, dilation) in
        [(1, 1, 1, 0, 1), (3, 4, 1, 1, 1), (2, 3, 2, 2, 2)]
    {
        let params = ConvParams {
            stride: vec![stride; 2],
            padding: vec![padding; 2],
            dilation: vec![dilation; 2],
            ..ConvParams::padded(2, 0)
        };
        let conv =
            Convolution::new("conv", &[2, inputs, SIZE, SIZE], &[outputs, inputs, 3, 3], &params)
                .unwrap();
        let out = conv.output_shape()[2];
        let input = integers(2 * inputs * SIZE * SIZE, 3);
        let weight = integers(outputs * inputs * 9, 4);
        let grad = integers(2 * outputs * out * out, 5);
        let mut forward = vec![0; grad.len()];
        let mut to_input = vec![0; input.len()];
        let mut to_weight = vec![0; weight.len()];
        // Every (output, weight, input) element whose product counts.
        for o in 0..grad.len() {
            let (x, y, channel) = (o % out, o / out % out, o / out / out % outputs);
            let image = o / out / out / outputs;
            for w in 0..inputs * 9 {
                let place = |at: usize, tap: usize| {
                    (at * stride + tap * dilation).checked_sub(padding).filter(|&at| at < SIZE)
                };
                let (Some(column), Some(row)) = (place(x, w % 3), place(y, w / 3 % 3)) else {
                    continue;
                };
                let i = ((image * inputs + w / 9) * SIZE + row) * SIZE + column;
                let w = channel * inputs * 9 + w;
                forward[o] += input[i] * weight[w];
                to_input[i] += grad[o] * weight[w];
                to_weight[w] += grad[o] * input[i];
            }
        }
        let (input, weight, grad) = (T::of(&input), T::of(&weight), T::of(&grad));
        let (a, b, c) = compared(|| {
            let mut a = vec![T::default(); grad.len()];
            let mut b = vec![T::default(); input.len()];
            let mut c = vec![T::default(); weight.len()];
            conv::forward(&conv, &input, &weight, None, &mut a).unwrap();
            conv::input_grad(&conv, &grad, &weight, &mut b).unwrap();
            conv::weight_grad(&conv, &input, &grad, &mut c).unwrap();
            (a, b, c)
        });
        assert!(a == T::of(&forward), "forward, {inputs} to {outputs} channels");
        assert!(b == T::of(&to_input), "input gradient, {inputs} to {outputs} channels");
        assert!(c == T::of(&to_weight), "weight gradient, {inputs} to {outputs} channels");
    }
}

#[test]
fn convolutions_and_their_gradients_are_exact() {
    convolutions::<f32>();
    // Under Miri it is the same code and takes another minute.
    if !cfg!(miri) {
        convolutions::<f64>();
    }
}

#[test]
fn rows_sorts_and_scatters_are_exact() {
    let values = integers(3 * 37, 6);
    let x = f32::of(&values);
    let sums: Vec<f32> = values.chunks(37).map(|row| row.iter().sum::<i32>() as f32).collect();
    let found = compared(|| {
        let mut out = vec![0.0; 3];
        reduce::sum_rows(&x, 37, &mut out).unwrap();
        out
    });
    assert_eq!(found, sums);

    let (mut sorted, mut indices) = (vec![0.0; x.len()], vec![0; x.len()]);
    sort::sort(&x, [3, 37, 1], false, &mut sorted, &mut indices).unwrap();
    for (line, row) in x.chunks(37).enumerate() {
        let mut want: Vec<(f32, i64)> = row.iter().copied().zip(0..).collect();
        want.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let got = sorted[line * 37..].iter().copied().zip(indices[line * 37..].iter().copied());
        assert!(got.take(37).eq(want), "line {line}");
    }

    let index: Vec<i64> = values.iter().map(|&x| i64::from(x + 4)).collect();
    let mut want = vec![0.0; 9];
    for (&value, &to) in x.iter().zip(&index) {
        want[to as usize] += value;
    }
    let found = compared(|| {
        let mut out = vec![0.0; 9];
        scatter::scatter_add(&mut out, [1, 9, 1], &index, &x).unwrap();
        out
    });
    assert_eq!(found, want);
}

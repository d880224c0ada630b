//! Softmax along any dimension of any layout has the bits of its written order, at every SIMD level
//! and with 1 to 7 threads.

use samebits_numerics::extrema::max;
use samebits_numerics::math;
use samebits_numerics::nan::Canonical;
use samebits_numerics::reduce::sum_by;
use samebits_tensor_core::ops::{LogSoftmax, LogSoftmaxGrad, Softmax, SoftmaxGrad};
use samebits_tensor_core::{Tensor, dispatch};

fn values(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            match state >> 20 {
                0 => f32::NAN,
                1 => f32::INFINITY,
                2..=9 => f32::NEG_INFINITY,
                10..=300 => -0.0,
                301..=600 => 0.0,
                // Its exponential is subnormal, or nearly.
                601..=700 => -80.0 - (state >> 8 & 15) as f32,
                _ => ((state >> 8) as f32 / 8388608.0 - 1.9) * 9.0,
            }
        })
        .collect()
}

/// A float with the functions of the written order.
trait Float: samebits_tensor_core::Element + Canonical + PartialEq {
    fn of(x: f64) -> Self;
    fn wide(self) -> f64;
    fn sub(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    fn fma(self, a: Self, b: Self) -> Self;
    fn exp(self) -> Self;
    fn log(self) -> Self;
    fn largest(row: &[Self]) -> Self;
    fn bits(self) -> u64;
}

macro_rules! float {
    ($($type:ident, $exp:path, $log:path;)*) => {
        $(impl Float for $type {
            fn of(x: f64) -> $type {
                x as $type
            }
            fn wide(self) -> f64 {
                self.into()
            }
            fn sub(self, other: $type) -> $type {
                self - other
            }
            fn over(self, other: $type) -> $type {
                self / other
            }
            fn fma(self, a: $type, b: $type) -> $type {
                self.mul_add(a, b)
            }
            fn exp(self) -> $type {
                $exp(self)
            }
            fn log(self) -> $type {
                $log(self)
            }
            fn largest(row: &[$type]) -> $type {
                max(row).unwrap()
            }
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
        })*
    };
}

float! {
    f32, math::exp, math::log;
    f64, math::f64::exp, math::f64::log;
}

/// Returns the bits of the logarithm of softmax and its gradient, and of softmax and its gradient,
/// along the middle of `[outer, size, inner]`, element by element.
fn written<T: Float>(x: &[T], grad: &[T], [outer, size, inner]: [usize; 3]) -> [Vec<u64>; 4] {
    let mut y = x.to_vec();
    let mut back = x.to_vec();
    let mut softmax = x.to_vec();
    let mut of_softmax = x.to_vec();
    for column in 0..outer * inner {
        let at = |k: usize| (column / inner * size + k) * inner + column % inner;
        let row: Vec<T> = (0..size).map(|k| x[at(k)]).collect();
        let most = T::largest(&row);
        let sum = sum_by(size, |k| row[k].sub(most).exp().wide());
        let log = T::of(sum).log();
        let total = T::of(sum_by(size, |k| grad[at(k)].wide()));
        let minus = T::of(-1.0).fma(total, T::of(-0.0));
        let product = |k: usize| {
            let y = row[k].sub(most).exp().over(T::of(sum)).canonical();
            (y, grad[at(k)].fma(y, T::of(-0.0)))
        };
        let total = T::of(sum_by(size, |k| product(k).1.wide()));
        let minus_products = T::of(-1.0).fma(total, T::of(-0.0));
        for (k, &x) in row.iter().enumerate() {
            y[at(k)] = x.sub(most).sub(log).canonical();
            let (exp, product) = product(k);
            softmax[at(k)] = exp;
            of_softmax[at(k)] = exp.fma(minus_products, product).canonical();
            back[at(k)] = y[at(k)].exp().fma(minus, grad[at(k)]).canonical();
        }
    }
    [y, back, softmax, of_softmax].map(|all| all.into_iter().map(T::bits).collect())
}

fn computed<T: Float>(x: &Tensor, grad: &Tensor, dim: usize) -> [Vec<u64>; 4] {
    let y = dispatch(&LogSoftmax { x: x.clone(), dim }).unwrap();
    let back = dispatch(&LogSoftmaxGrad { grad: grad.clone(), y: y.clone(), dim }).unwrap();
    let softmax = dispatch(&Softmax { x: x.clone(), dim }).unwrap();
    let of_softmax = SoftmaxGrad { grad: grad.clone(), y: softmax.clone(), dim };
    let of_softmax = dispatch(&of_softmax).unwrap();
    [y, back, softmax, of_softmax]
        .map(|all| all.to_vec::<T>().unwrap().into_iter().map(T::bits).collect())
}

fn tensor<T: Float>(shape: &[usize], seed: u32) -> Tensor {
    let all = values(shape.iter().product(), seed);
    let all: Vec<T> = all.into_iter().map(|x| T::of(x.into())).collect();
    Tensor::from_slice(&all, shape).unwrap()
}

/// Returns tensors of a shape: dense, with the dimensions reversed, a part, repeated.
fn layouts<T: Float>(shape: &[usize], seed: u32) -> Vec<Tensor> {
    let reversed: Vec<usize> = shape.iter().rev().copied().collect();
    let back: Vec<usize> = (0..shape.len()).rev().collect();
    let larger: Vec<usize> = shape.iter().map(|size| size + 2).collect();
    let mut part = tensor::<T>(&larger, seed);
    for (dim, &size) in shape.iter().enumerate() {
        part = part.narrow(dim, 1, size).unwrap();
    }
    let mut thin = shape.to_vec();
    thin[0] = 1;
    let repeated = tensor::<T>(&thin, seed).expand(shape).unwrap();
    let turned = tensor::<T>(&reversed, seed).permute(&back).unwrap();
    vec![tensor::<T>(shape, seed), turned, part, repeated]
}

fn check<T: Float>(shape: &[usize]) {
    let grads = layouts::<T>(shape, 2);
    for (layout, (x, grad)) in layouts::<T>(shape, 1).iter().zip(&grads).enumerate() {
        for dim in 0..shape.len() {
            let split =
                [shape[..dim].iter().product(), shape[dim], shape[dim + 1..].iter().product()];
            let wanted = written(&x.to_vec::<T>().unwrap(), &grad.to_vec::<T>().unwrap(), split);
            let found = computed::<T>(x, grad, dim);
            for (pass, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                let at = found.iter().zip(wanted).position(|(a, b)| a != b);
                assert!(
                    at.is_none(),
                    "{} {shape:?} layout {layout} dim {dim} pass {pass}: element {at:?}",
                    T::DTYPE
                );
            }
        }
    }
}

#[test]
fn any_dimension_of_any_layout_has_the_written_order() {
    samebits_cpu_kernels::install();
    let shapes: [&[usize]; 12] = [
        &[1, 1, 1],
        &[3, 5, 9],
        &[7, 31, 2],
        &[5, 33, 70],
        &[2, 70, 3],
        &[3, 4, 5, 17],
        &[300, 129],
        &[2, 4097, 10],
        &[9000, 2],
        &[3, 8200, 3],
        &[2, 3, 16_500],
        &[70, 2, 331],
    ];
    for shape in shapes {
        check::<f32>(shape);
        if shape.iter().product::<usize>() < 50_000 {
            check::<f64>(shape);
        }
    }
}

#[test]
fn neither_level_nor_threads_show() {
    samebits_cpu_kernels::install();
    let shapes: [&[usize]; 5] =
        [&[5, 130, 37], &[400, 150], &[9000, 5], &[3, 16_500], &[90, 10, 3]];
    let all = || -> Vec<_> {
        let each = shapes.iter().flat_map(|shape| {
            let (x, grad) = (tensor::<f32>(shape, 3), tensor::<f32>(shape, 4));
            (0..shape.len()).map(move |dim| computed::<f32>(&x, &grad, dim))
        });
        each.collect()
    };
    let wanted = all();
    test_support::at_every_level(|level| {
        for threads in 1..=7 {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!(pool.install(all) == wanted, "{level:?} with {threads} threads");
        }
    });
}

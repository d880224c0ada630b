//! The same bits on threads that flush subnormals to zero, both the caller's and the pool's.
#![cfg(target_arch = "x86_64")]

use crate::invariance::Random;
use samebits_cpu_kernels::Float;
use samebits_cpu_kernels::bincount::{bincount_weighted, bincount_weighted_fast, histc};
use samebits_cpu_kernels::ctc::{Batch as Sequences, ctc_loss, ctc_loss_backward};
use samebits_cpu_kernels::elementwise::{Operand, affine, binary, compare, unary};
use samebits_cpu_kernels::embedding::{
    BagBounds, BagMode, Bags, embedding_backward, embedding_bag, embedding_bag_backward,
    embedding_bag_weights_backward,
};
use samebits_cpu_kernels::grid_sample::{
    GridMode, GridPadding, GridParams, Sampling, grid_sample, grid_sample_grid_backward,
    grid_sample_input_backward,
};
use samebits_cpu_kernels::index::{gather_backward, index_select_backward, take_backward};
use samebits_cpu_kernels::interpolate::{
    InterpolateMode, Resize, interpolate, interpolate_backward,
};
use samebits_cpu_kernels::loss::{
    Targets, log_softmax, log_softmax_backward, nll_loss, nll_loss_backward, nll_loss_sums, softmax,
};
use samebits_cpu_kernels::norm::{
    Batch, Scaled, batch_norm_backward, batch_normalize, batch_statistics, layer_norm,
    layer_norm_backward, rms_norm, rms_norm_backward,
};
use samebits_cpu_kernels::optim::{adam_step, sgd_step};
use samebits_cpu_kernels::padding::{PadMode, Padding, pad_backward};
use samebits_cpu_kernels::pooling::{
    AdaptivePool, Average, FractionalPool, Pool, PoolParams, adaptive_avg_pool,
    adaptive_avg_pool_backward, adaptive_max_pool, avg_pool, avg_pool_backward,
    fractional_max_pool, max_pool, max_pool_backward,
};
use samebits_cpu_kernels::reduce::{
    Extreme, arg_extreme_rows, extreme_rows, logsumexp_rows, mean_rows, norm_rows, product_rows,
    sum_columns, sum_rows, variance_rows,
};
use samebits_cpu_kernels::scan::{
    cumextreme, cumprod, cumprod_backward, cumprod_backward_backward, cumsum, cumsum_backward,
    logcumsumexp, logcumsumexp_backward,
};
use samebits_cpu_kernels::scatter::{
    Reduce, Sums, index_add, index_add_fast, index_reduce, put_add, scatter_add, scatter_reduce,
};
use samebits_cpu_kernels::sort::{
    kthvalue, median, sort, topk, unique, unique_consecutive, unique_rows,
};
use samebits_cpu_kernels::sparse::{Elements, mm, mm_fast, sampled_product};
use samebits_numerics::fpenv;
use samebits_tensor_core::ops::{AdamParams, BinaryKind, CompareKind, SgdParams, UnaryKind};

/// Asserts that `f` returns the same on a one-thread pool that keeps subnormals and on threads that
/// flush them.
#[track_caller]
fn same<R: PartialEq + std::fmt::Debug + Send>(f: impl Fn() -> R + Sync) {
    let f = &f;
    let kept = crate::invariance::on_threads(1, f);
    let pool = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.start_handler(|_| test_support::flush_to_zero()).build().expect("threads")
    };
    for threads in [1, 3] {
        let flushed = pool(threads).install(|| {
            let smallest = std::hint::black_box(f32::from_bits(1));
            assert_eq!(smallest + smallest, 0.0, "the fault was not planted");
            f()
        });
        assert!(flushed == kept, "{threads} threads: {flushed:?} instead of {kept:?}");
    }
}

/// Returns numbers around the smallest normal one, some negative.
fn tiny<T: Float>(n: usize) -> Vec<T> {
    let mut random = Random(n as u64);
    let scale = if size_of::<T>() == 4 { 1e-38 } else { 1e-308 };
    (0..n).map(|_| T::from_f64(random.unit::<f64>() * scale)).collect()
}

fn bits<T: Float>(values: &[T]) -> Vec<u64> {
    fpenv::ieee(|| crate::invariance::bits(values))
}

/// Converts to f32, for functions that take no other type.
fn narrow<T: Float>(x: &[T]) -> Vec<f32> {
    fpenv::ieee(|| x.iter().map(|&x| x.into() as f32).collect())
}

fn run<T: Float>(n: usize, f: impl FnOnce(&mut [T])) -> Vec<u64> {
    let mut out = vec![T::ONE; n];
    f(&mut out);
    bits(&out)
}

/// Defines a test that calls a family's function on few elements, which stay on the calling thread,
/// and on many.
macro_rules! families {
    ($($name:ident: $many:literal;)*) => {$(
        #[test]
        fn $name() {
            for n in [64, $many] {
                let (narrow, wide) = (tiny::<f32>(n), tiny::<f64>(n));
                same(|| family::$name(&narrow));
                same(|| family::$name(&wide));
            }
        }
    )*};
}

families! {
    elementwise: 40_000;
    reductions: 80_000;
    scans: 80_000;
    sorts: 80_000;
    scatters: 80_000;
    histograms: 80_000;
    bags: 40_000;
    poolings: 40_000;
    resizings: 40_000;
    losses: 40_000;
    normalisations: 40_000;
    optimisers: 40_000;
    products: 4096;
}

mod family {
    use super::*;
    use samebits_cpu_kernels::elementwise::Elementary;
    use samebits_cpu_kernels::sort::Sortable;

    pub(super) fn elementwise<T: Elementary + Sortable>(x: &[T]) -> Vec<Vec<u64>> {
        let n = x.len();
        let zeros = vec![T::ZERO; n];
        let mut all = vec![run(n, |out: &mut [T]| affine(x, T::ONE, T::ZERO, out).unwrap())];
        for kind in [UnaryKind::Abs, UnaryKind::Relu, UnaryKind::Sqrt, UnaryKind::Expm1] {
            all.push(run(n, |out: &mut [T]| unary(kind, x, out).unwrap()));
        }
        let (a, b) = (Operand::Each(x), Operand::Each(&zeros[..]));
        for kind in [BinaryKind::Add, BinaryKind::Maximum, BinaryKind::ReluGrad] {
            all.push(run(n, |out: &mut [T]| binary(kind, a, b, out).unwrap()));
            let one = Operand::Splat(x[0]);
            all.push(run(n, |out: &mut [T]| binary(kind, one, one, out).unwrap()));
        }
        let mut bytes = vec![0; n];
        compare(CompareKind::Gt, a, b, &mut bytes).unwrap();
        all.push(bytes.into_iter().map(u64::from).collect());
        all
    }

    pub(super) fn reductions<T: Elementary + Sortable>(x: &[T]) -> Vec<Vec<u64>> {
        let (n, mut all) = (x.len(), Vec::new());
        for rows in [1, n / 8] {
            let width = n / rows;
            all.push(run(rows, |out: &mut [T]| sum_rows(x, width, out).unwrap()));
            all.push(run(rows, |out: &mut [T]| mean_rows(x, width, out).unwrap()));
            all.push(run(rows, |out: &mut [T]| logsumexp_rows(x, width, out).unwrap()));
            for p in [0.0, 1.0, 2.0, 3.0, f64::INFINITY] {
                all.push(run(rows, |out: &mut [T]| norm_rows(x, width, p, out).unwrap()));
            }
            for which in [Extreme::Max, Extreme::Min] {
                all.push(run(rows, |out: &mut [T]| extreme_rows(which, x, width, out).unwrap()));
                let mut places = vec![0; rows];
                arg_extreme_rows(which, x, width, &mut places).unwrap();
                all.push(places.into_iter().map(|place| place as u64).collect());
            }
            let mut moments = vec![[T::ZERO; 2]; rows];
            variance_rows(x, width, 1.0, &mut moments).unwrap();
            all.push(bits(moments.as_flattened()));
            all.push(run(width, |out: &mut [f64]| sum_columns(x, rows, width, out).unwrap()));
        }
        all.push(run(n, |out: &mut [T]| product_rows(x, 1, out).unwrap()));
        all
    }

    pub(super) fn scans<T: Elementary + Sortable>(x: &[T]) -> Vec<Vec<u64>> {
        let (n, mut all) = (x.len(), Vec::new());
        for shape in [[1, n, 1], [n / 8, 8, 1], [1, 8, n / 8]] {
            all.push(run(n, |out: &mut [T]| cumsum(x, shape, out).unwrap()));
            all.push(run(n, |out: &mut [T]| cumsum_backward(x, shape, out).unwrap()));
            all.push(run(n, |out: &mut [T]| cumprod(x, shape, out).unwrap()));
            all.push(run(n, |out: &mut [T]| logcumsumexp(x, shape, out).unwrap()));
            all.push(run(n, |out: &mut [T]| cumprod_backward(x, x, shape, out).unwrap()));
            all.push(run(n, |out: &mut [T]| {
                let mut other = vec![T::ZERO; n];
                cumprod_backward_backward(x, x, x, shape, out, &mut other).unwrap();
            }));
            all.push(run(n, |out: &mut [T]| {
                logcumsumexp_backward(x, x, x, shape, out).unwrap();
            }));
            all.push(run(n, |out: &mut [T]| {
                cumextreme(x, shape, true, out, &mut vec![0; n]).unwrap();
            }));
        }
        all
    }

    pub(super) fn sorts<T: Elementary + Sortable>(x: &[T]) -> Vec<Vec<u64>> {
        let (n, mut all) = (x.len(), Vec::new());
        let places = |places: Vec<i64>| places.into_iter().map(|place| place as u64).collect();
        let (mut values, mut indices) = (vec![T::ZERO; n], vec![0; n]);
        sort(x, [1, n, 1], true, &mut values, &mut indices).unwrap();
        all.extend([bits(&values), places(indices)]);
        for which in 0..3 {
            let (mut values, mut indices) = (vec![T::ZERO; 8], vec![0; 8]);
            let (shape, out) = ([8, n / 8, 1], (&mut values[..], &mut indices[..]));
            match which {
                0 => topk(x, shape, 1, true, out.0, out.1),
                1 => kthvalue(x, shape, 2, out.0, out.1),
                _ => median(x, shape, out.0, out.1),
            }
            .unwrap();
            all.extend([bits(&values), places(indices)]);
        }
        for unique in [unique(x).unwrap(), unique_consecutive(x).unwrap()] {
            all.extend([bits(&unique.values), places(unique.inverse), places(unique.counts)]);
        }
        for consecutive in [true, false] {
            let unique = unique_rows(x, [n / 2, 2], consecutive).unwrap();
            all.extend([places(unique.inverse), places(unique.counts)]);
        }
        all
    }

    pub(super) fn scatters<T: Elementary + Sortable + Sums>(x: &[T]) -> Vec<Vec<u64>> {
        let (n, mut all) = (x.len(), Vec::new());
        for rows in [4, n / 4] {
            let index = Random(1).indices(n, rows);
            let shape = [1, rows, 1];
            let sum = |f: &dyn Fn(&mut [T])| {
                run(rows, |out: &mut [T]| {
                    out.fill(T::ZERO);
                    f(out);
                })
            };
            all.push(sum(&|out| scatter_add(out, shape, &index, x).unwrap()));
            for alpha in [T::ONE, T::from_f64(0.75)] {
                all.push(sum(&|out| index_add(out, shape, &index, x, alpha).unwrap()));
            }
            all.push(sum(&|out| put_add(out, [rows, 1], &index, x).unwrap()));
            all.push(sum(&|out| gather_backward(out, shape, &index, x).unwrap()));
            all.push(sum(&|out| index_select_backward(out, shape, &index, x).unwrap()));
            all.push(sum(&|out| take_backward(out, [rows, 1], &index, x).unwrap()));
            for reduce in [Reduce::Sum, Reduce::Mean, Reduce::Prod, Reduce::Amax] {
                all.push(sum(&|out| {
                    scatter_reduce(out, shape, &index, x, reduce, false).unwrap();
                }));
                all.push(sum(&|out| index_reduce(out, shape, &index, x, reduce, true).unwrap()));
            }
        }
        // Wide rows; and each output separately, so that atomics have one order.
        let index = Random(2).indices(n / 16, 4);
        all.push(run(64, |out: &mut [T]| index_add(out, [1, 4, 16], &index, x, T::ONE).unwrap()));
        let single = narrow(x);
        let each: Vec<i64> = (0..n as i64).collect();
        all.push(run(n, |out: &mut [f32]| {
            out.fill(0.0);
            index_add_fast(out, [1, n, 1], &each, &single, 0.5).unwrap();
        }));
        all
    }

    pub(super) fn histograms<T: Elementary + Sortable + Sums>(x: &[T]) -> Vec<Vec<u64>> {
        let n = x.len();
        let (index, each) = (Random(3).indices(n, 5), Vec::from_iter(0..n as i64));
        let single = narrow(x);
        vec![
            run(5, |out: &mut [T]| bincount_weighted(out, &index, x).unwrap()),
            run(n, |out: &mut [f32]| bincount_weighted_fast(out, &each, &single).unwrap()),
            run(7, |out: &mut [T]| histc(out, x, T::ZERO, T::ZERO).unwrap()),
        ]
    }

    pub(super) fn bags<T: Elementary + Sortable + Sums>(x: &[T]) -> Vec<Vec<u64>> {
        let (n, rows) = (x.len(), x.len() / 4);
        let index = Random(4).indices(rows, rows);
        let offsets: Vec<i64> = (0..rows as i64 / 2).map(|bag| 2 * bag).collect();
        let bounds = BagBounds::new("embedding_bag", rows, &offsets, false).unwrap();
        let bags = Bags::new(rows, &index, &bounds, None).unwrap();
        let (mut all, half) = (Vec::new(), n / 2);
        all.push(run(n, |out: &mut [T]| {
            embedding_backward(out, [rows, 4], &index, x, None, true).unwrap();
        }));
        for mode in [BagMode::Sum, BagMode::Mean] {
            all.push(run(half, |out: &mut [T]| {
                embedding_bag(out, None, x, 4, &bags, mode, None).unwrap();
            }));
            all.push(run(n, |out: &mut [T]| {
                let grad = &x[..half];
                embedding_bag_backward(out, 4, grad, &bags, mode, None, None, true).unwrap();
            }));
        }
        let mut winners = vec![0; half];
        all.push(run(half, |out: &mut [T]| {
            embedding_bag(out, Some(&mut winners), x, 4, &bags, BagMode::Max, None).unwrap();
        }));
        let large: Vec<T> = vec![T::ONE; n];
        all.push(run(rows, |out: &mut [T]| {
            embedding_bag_weights_backward(out, 4, &x[..half], &large, &bags).unwrap();
        }));
        all
    }

    pub(super) fn poolings<T: Elementary + Sortable>(x: &[T]) -> Vec<Vec<u64>> {
        let (n, half, mut all) = (x.len(), x.len() / 2, Vec::new());
        let g = Pool::new("pool", &[1, 2, half], &PoolParams::square(1, 2)).unwrap();
        let average = Average::new(g.clone(), true, None).unwrap();
        let mut places = vec![0; half];
        all.push(run(half, |out: &mut [T]| max_pool(&g, x, out, &mut places).unwrap()));
        all.push(run(n, |out: &mut [T]| {
            max_pool_backward("pool", 2, &x[..half], &places, out).unwrap();
        }));
        all.push(run(half, |out: &mut [T]| avg_pool(&average, x, out).unwrap()));
        all.push(run(n, |out: &mut [T]| {
            avg_pool_backward(&average, &x[..half], out).unwrap();
        }));
        let a = AdaptivePool::new("pool", &[1, 2, half], &[half / 3]).unwrap();
        let m = a.output_len();
        all.push(run(m, |out: &mut [T]| adaptive_avg_pool(&a, x, out).unwrap()));
        all.push(run(m, |out: &mut [T]| adaptive_max_pool(&a, x, out, &mut vec![0; m]).unwrap()));
        all.push(run(n, |out: &mut [T]| adaptive_avg_pool_backward(&a, &x[..m], out).unwrap()));
        // Planes side by side.
        let g = Pool::new("pool", &[1, 8, n / 8], &PoolParams::square(1, 2)).unwrap();
        let (m, average) = (g.output_len(), Average::new(g, true, None).unwrap());
        all.push(run(m, |out: &mut [T]| avg_pool(&average, x, out).unwrap()));
        all.push(run(n, |out: &mut [T]| avg_pool_backward(&average, &x[..m], out).unwrap()));
        let f = FractionalPool::new("pool", &[1, 1, 8, n / 8], &[4, 4], &[2, 2]).unwrap();
        all.push(run(16, |out: &mut [T]| {
            let samples = [T::from_f64(0.5); 2];
            fractional_max_pool(&f, x, &samples, out, &mut [0; 16]).unwrap();
        }));
        all
    }

    pub(super) fn resizings<T: Elementary + Sortable + Sums>(x: &[T]) -> Vec<Vec<u64>> {
        let (n, mut all) = (x.len(), Vec::new());
        let align_corners = false;
        for mode in [
            InterpolateMode::Linear { align_corners },
            InterpolateMode::CubicAntialias { align_corners },
        ] {
            let resize = Resize::new("resize", &[1, 1, n], &[2 * n], &[None], mode).unwrap();
            // Planes side by side.
            let few = Resize::new("resize", &[1, 8, n / 8], &[n / 4], &[None], mode).unwrap();
            all.push(run(2 * n, |out: &mut [T]| interpolate(&few, x, out).unwrap()));
            all.push(run(2 * n, |out: &mut [T]| interpolate(&resize, x, out).unwrap()));
            let grad = [x, x].concat();
            all.push(run(n, |out: &mut [T]| interpolate_backward(&resize, &grad, out).unwrap()));
        }
        let padding = Padding::new("pad", &[n], &[[3, 3]], PadMode::Reflect).unwrap();
        let grad = [x, &x[..6]].concat();
        all.push(run(n, |out: &mut [T]| pad_backward(&padding, &grad, out).unwrap()));
        let (mode, padding) = (GridMode::Linear, GridPadding::Border);
        let params = GridParams { mode, padding, align_corners: true };
        let (width, points) = (n / 4, n / 2);
        let sample =
            Sampling::new("sample", &[1, 1, 4, width], &[1, 1, points, 2], params).unwrap();
        let grid: Vec<T> = Random(5).units(2 * points);
        all.push(run(points, |out: &mut [T]| grid_sample(&sample, x, &grid, out).unwrap()));
        let grad = &x[..points];
        all.push(run(n, |out: &mut [T]| {
            grid_sample_input_backward(&sample, grad, &grid, out).unwrap()
        }));
        let large: Vec<T> = Random(6).units(n);
        all.push(run(2 * points, |out: &mut [T]| {
            grid_sample_grid_backward(&sample, grad, &large, &grid, out).unwrap();
        }));
        all
    }

    pub(super) fn losses<T: Elementary + Sortable>(x: &[T]) -> Vec<Vec<u64>> {
        let (n, mut all) = (x.len(), Vec::new());
        for width in [4, n] {
            all.push(run(n, |out: &mut [T]| log_softmax(x, width, out).unwrap()));
            all.push(run(n, |out: &mut [T]| softmax(x, width, out).unwrap()));
            all.push(run(n, |out: &mut [T]| log_softmax_backward(x, x, width, out).unwrap()));
        }
        let classes = Random(7).indices(n / 4, 4);
        let targets = Targets {
            classes: &classes,
            count: 4,
            inner: 1,
            weight: Some(&[T::ONE; 4][..]),
            ignore_index: -1,
        };
        all.push(run(n / 4, |out: &mut [T]| nll_loss(x, targets, out).unwrap()));
        let (sum, weight) = nll_loss_sums(x, targets).unwrap();
        all.push(vec![sum.to_bits(), weight.to_bits()]);
        all.push(run(n, |out: &mut [T]| {
            nll_loss_backward(|i| x[i], 3.0, targets, out).unwrap();
        }));
        let lengths = [n / 4];
        let batch = Sequences {
            log_probs: x,
            n: 1,
            classes: 4,
            labels: &[1, 2, 2],
            starts: &[0],
            target_lengths: &[3],
            input_lengths: &lengths,
            blank: 0,
        };
        all.push(bits(&ctc_loss(batch).unwrap()));
        let scale = [1e-300];
        all.push(run(n, |out: &mut [T]| {
            ctc_loss_backward(batch, &scale, false, out).unwrap();
        }));
        all
    }

    pub(super) fn normalisations<T: Elementary + Sortable>(x: &[T]) -> Vec<Vec<u64>> {
        let (n, mut all) = (x.len(), Vec::new());
        let ones = vec![T::ONE; 4];
        let shape = Batch { n: 2, channels: 4, spatial: n / 8 };
        let statistics = batch_statistics(x, shape, 0.0).unwrap();
        let numbers = statistics.iter().map(|s| [s.mean, s.variance, s.rstd, s.scale]);
        all.push(bits(numbers.collect::<Vec<_>>().as_flattened()));
        let zeros = vec![T::ZERO; 4];
        let given = [Scaled { mean: T::ZERO, rstd: T::ONE, scale: T::ONE }; 4];
        all.push(run(n, |out: &mut [T]| {
            batch_normalize(x, shape, &given, &ones, &zeros, out).unwrap();
        }));
        let mut grad = vec![T::ZERO; n];
        let (a, b) =
            batch_norm_backward(x, &vec![T::ONE; n], shape, [&zeros, &ones], &ones, 0.0, &mut grad)
                .unwrap();
        all.extend([bits(&grad), bits(&a), bits(&b)]);
        for width in [4, n] {
            let rows = n / width;
            let (weight, bias) = (vec![T::ONE; width], vec![T::ZERO; width]);
            let (mut mean, mut rstd) = (vec![T::ZERO; rows], vec![T::ONE; rows]);
            all.push(run(n, |out: &mut [T]| {
                layer_norm(x, &weight, &bias, 1.0, out, &mut mean, &mut rstd).unwrap();
            }));
            all.push(bits(&mean));
            let statistics = [&mean[..], &rstd];
            let (a, b) =
                layer_norm_backward(x, &vec![T::ONE; n], &weight, statistics, 1.0, &mut grad)
                    .unwrap();
            all.extend([bits(&grad), bits(&a), bits(&b)]);
            all.push(run(n, |out: &mut [T]| {
                let statistics = [&mut mean[..], &mut rstd];
                rms_norm(x, width, Some(&weight), 1e-300, out, statistics).unwrap();
            }));
            all.extend([bits(&mean), bits(&rstd)]);
            let (ones, statistics) = (vec![T::ONE; n], [&mean[..], &rstd]);
            let a = rms_norm_backward(&ones, x, width, Some(&weight), statistics, false, &mut grad);
            all.extend([bits(&grad), bits(&a.unwrap().unwrap())]);
        }
        all
    }

    pub(super) fn optimisers<T: Elementary + Sortable>(x: &[T]) -> Vec<Vec<u64>> {
        let n = x.len();
        let sgd =
            SgdParams { lr: 0.5, momentum: 0.5, dampening: 0.0, weight_decay: 0.5, nesterov: true };
        let adam = AdamParams {
            lr: 1e-300,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-300,
            weight_decay: 0.1,
            decoupled: true,
        };
        let [mut a, mut b, mut c] = [(); 3].map(|()| vec![T::ZERO; n]);
        sgd_step(&sgd, x, x, Some(x), &mut a, &mut b).unwrap();
        let mut all = vec![bits(&a), bits(&b)];
        let squares: Vec<T> = x.iter().map(|x| x.abs()).collect();
        adam_step(&adam, 3, x, x, x, &squares, &mut a, &mut b, &mut c).unwrap();
        all.extend([bits(&a), bits(&b), bits(&c)]);
        all
    }

    pub(super) fn products<T: Elementary + Sortable>(x: &[T]) -> Vec<Vec<u64>> {
        let (n, width) = (x.len(), 8);
        let rows = n / width;
        let ones = vec![T::ONE; n];
        let (from, to) = (Random(8).indices(n, rows), Random(9).indices(n, rows));
        let size = [rows, rows];
        let elements = Elements { rows: &from, columns: &to, values: x, size, period: rows };
        let each: Vec<i64> = (0..rows as i64).collect();
        let single = narrow(&x[..rows]);
        let diagonal =
            Elements { rows: &each, columns: &each, values: &single, size, period: rows };
        vec![
            run(n, |out: &mut [T]| mm(elements, &ones, width, out).unwrap()),
            run(n, |out: &mut [f32]| mm_fast(diagonal, &vec![1.0; n], width, out).unwrap()),
            run(n, |out: &mut [T]| {
                sampled_product([&from, &to], [x, &ones], size, width, out).unwrap();
            }),
        ]
    }
}

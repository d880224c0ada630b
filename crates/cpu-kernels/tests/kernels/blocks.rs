//! Many planes together have the bits of each plane by itself.

use crate::invariance::{Random, bits, on_every_machine};
use crate::pool::pool;
use samebits_cpu_kernels::Float;
use samebits_cpu_kernels::interpolate::{
    InterpolateMode, Resize, interpolate, interpolate_backward,
};
use samebits_cpu_kernels::pooling::{
    AdaptivePool, Average, adaptive_avg_pool, adaptive_avg_pool_backward, adaptive_max_pool,
    avg_pool, avg_pool_backward, max_pool,
};

/// Asserts that `compute(planes, input)` is that of each plane by itself.
fn same<T: Float>(
    what: &str,
    planes: usize,
    input: &[T],
    compute: &(impl Fn(usize, &[T]) -> Vec<u64> + Sync),
) {
    let single = input.chunks(input.len() / planes).map(|plane| compute(1, plane));
    let single: Vec<Vec<u64>> = single.collect();
    on_every_machine(|machine| {
        let all = compute(planes, input);
        let all = all.chunks(all.len() / planes);
        for (plane, (one, all)) in single.iter().zip(all).enumerate() {
            assert!(one == all, "{what}: plane {plane} of {planes} at {machine}");
        }
    });
}

/// Joins values and indices plane by plane.
fn joined<T: Float>(planes: usize, values: &[T], indices: &[i64]) -> Vec<u64> {
    let each = values.len() / planes;
    let both = values.chunks(each).zip(indices.chunks(each));
    let both = both.flat_map(|(values, indices)| {
        bits(values).into_iter().chain(indices.iter().map(|&index| index as u64))
    });
    both.collect()
}

/// Returns values with ties and NaN.
fn values<T: Float>(random: &mut Random, n: usize) -> Vec<T> {
    let mut all: Vec<T> = random.wide(n);
    for x in all.iter_mut().step_by(7) {
        *x = T::from_f64(if random.below(20) == 0 { f64::NAN } else { 2.0 });
    }
    all
}

/// Planes, their size, the kernel, stride, padding and dilation, and the ceil mode.
type Windows<'a> = (usize, &'a [usize], [&'a [usize]; 4], bool);

fn pools<T: Float>() {
    let mut random = Random(1);
    // Planes of one element up to planes that are cut into strips.
    let shapes: [Windows<'_>; 9] = [
        (17, &[1], [&[1], &[1], &[0], &[1]], false),
        (40, &[2, 6], [&[2, 2], &[2, 2], &[1, 1], &[1, 1]], false),
        (33, &[7, 5], [&[5, 5], &[1, 1], &[2, 2], &[1, 1]], false),
        (6, &[9, 4, 3], [&[2, 2, 2], &[2, 1, 2], &[1, 1, 0], &[1, 1, 1]], true),
        (19, &[11, 7, 31], [&[3, 2, 3], &[3, 2, 2], &[0, 0, 1], &[1, 1, 1]], true),
        (18, &[130, 110], [&[3, 3], &[2, 2], &[1, 1], &[1, 1]], true),
        (18, &[9001], [&[5], &[3], &[2], &[1]], true),
        (16, &[40, 21, 25], [&[3, 3, 3], &[1, 2, 4], &[1, 1, 1], &[1, 1, 1]], false),
        (21, &[60, 90], [&[3, 2], &[2, 3], &[2, 1], &[3, 2]], true),
    ];
    for (planes, size, lists, ceil_mode) in shapes {
        let geometry = |planes| pool(planes, size, lists, ceil_mode).unwrap();
        let what = format!("{size:?} {lists:?}");
        let x: Vec<T> = values(&mut random, geometry(planes).input_len());
        same(&what, planes, &x, &|planes, x| {
            let pool = geometry(planes);
            let mut out = vec![T::ONE; pool.output_len()];
            let mut indices = vec![7; out.len()];
            max_pool(&pool, x, &mut out, &mut indices).unwrap();
            joined(planes, &out, &indices)
        });
        if lists[3].iter().any(|&dilation| dilation > 1) {
            continue;
        }
        let average = |planes| Average::new(geometry(planes), planes == 3, None).unwrap();
        same(&what, planes, &x, &|planes, x| {
            let mut out = vec![T::ONE; geometry(planes).output_len()];
            avg_pool(&average(planes), x, &mut out).unwrap();
            bits(&out)
        });
        let grad: Vec<T> = random.wide(geometry(planes).output_len());
        same(&what, planes, &grad, &|planes, grad| {
            let mut out = vec![T::ONE; geometry(planes).input_len()];
            avg_pool_backward(&average(planes), grad, &mut out).unwrap();
            bits(&out)
        });
    }
}

#[test]
fn pools_of_many_planes() {
    pools::<f32>();
    pools::<f64>();
}

fn adaptive_pools<T: Float>() {
    let mut random = Random(2);
    let shapes: [(usize, &[usize], &[usize]); 6] = [
        (40, &[1003], &[7]),
        (17, &[5, 23], &[2, 1]),
        (22, &[4, 4], &[9, 7]),
        (18, &[150, 130], &[6, 50]),
        (16, &[20, 25, 12], &[5, 1, 4]),
        (7, &[3, 2600], &[2, 90]),
    ];
    for (planes, size, output) in shapes {
        let what = format!("{size:?} to {output:?}");
        let new = |planes: usize| {
            AdaptivePool::new("adaptive", &[&[1, planes], size].concat(), output).unwrap()
        };
        let x: Vec<T> = values(&mut random, new(planes).input_len());
        same(&what, planes, &x, &|planes, x| {
            let pool = new(planes);
            let mut out = vec![T::ONE; pool.output_len()];
            let mut indices = vec![7; out.len()];
            adaptive_max_pool(&pool, x, &mut out, &mut indices).unwrap();
            joined(planes, &out, &indices)
        });
        same(&what, planes, &x, &|planes, x| {
            let mut out = vec![T::ONE; new(planes).output_len()];
            adaptive_avg_pool(&new(planes), x, &mut out).unwrap();
            bits(&out)
        });
        let grad: Vec<T> = random.wide(new(planes).output_len());
        same(&what, planes, &grad, &|planes, grad| {
            let mut out = vec![T::ONE; new(planes).input_len()];
            adaptive_avg_pool_backward(&new(planes), grad, &mut out).unwrap();
            bits(&out)
        });
    }
}

#[test]
fn adaptive_pools_of_many_planes() {
    adaptive_pools::<f32>();
    adaptive_pools::<f64>();
}

fn resized<T: Float>() {
    let mut random = Random(3);
    let align_corners = false;
    let shapes: [(usize, &[usize], &[usize], InterpolateMode); 7] = [
        (40, &[1, 2], &[1, 1], InterpolateMode::Linear { align_corners }),
        (17, &[131, 1], &[262, 2], InterpolateMode::Linear { align_corners: true }),
        (18, &[130, 131], &[95, 177], InterpolateMode::Cubic { align_corners }),
        (19, &[9000], &[4001], InterpolateMode::LinearAntialias { align_corners }),
        (20, &[9, 20, 31], &[11, 13, 30], InterpolateMode::Linear { align_corners }),
        (33, &[4, 82], &[12, 164], InterpolateMode::Nearest),
        (16, &[45, 70], &[31, 100], InterpolateMode::CubicAntialias { align_corners }),
    ];
    for (planes, size, output, mode) in shapes {
        let what = format!("{size:?} to {output:?}, {mode:?}");
        let new = |planes: usize| {
            let scales = vec![None; size.len()];
            Resize::new("i", &[&[1, planes], size].concat(), output, &scales, mode).unwrap()
        };
        let x: Vec<T> = values(&mut random, new(planes).input_len());
        same(&what, planes, &x, &|planes, x| {
            let mut out = vec![T::ONE; new(planes).output_len()];
            interpolate(&new(planes), x, &mut out).unwrap();
            bits(&out)
        });
        let grad: Vec<T> = random.wide(new(planes).output_len());
        same(&what, planes, &grad, &|planes, grad| {
            let mut out = vec![T::ONE; new(planes).input_len()];
            interpolate_backward(&new(planes), grad, &mut out).unwrap();
            bits(&out)
        });
    }
}

#[test]
fn resized_planes() {
    resized::<f32>();
    resized::<f64>();
}

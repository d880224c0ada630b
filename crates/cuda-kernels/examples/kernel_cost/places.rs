//! Cases that find their elements by index, and those that gather from windows.

use std::error::Error;

use samebits_cuda_kernels::bincount::{bincount, bincount_weighted, histc};
use samebits_cuda_kernels::embedding::embedding_grad;
use samebits_cuda_kernels::grid_sample::{
    GridMode, GridPadding, GridParams, Sampling, grid_sample, grid_sample_input_grad,
};
use samebits_cuda_kernels::interpolate::{InterpolateMode, Resize, interpolate, interpolate_grad};
use samebits_cuda_kernels::padding::{PadMode, Padding, pad, pad_grad};
use samebits_cuda_kernels::pooling::{
    Average, Pool, PoolParams, avg_pool_grad, max_pool, max_pool_grad,
};
use samebits_cuda_kernels::scatter::{Rows, index_add, index_select, scatter_add};
use samebits_cuda_kernels::sort::{kthvalue, sort, topk};
use samebits_cuda_kernels::sparse::{Elements, sparse_mm};
use samebits_cuda_kernels::{Buffer, Variant};

use crate::{BOTH, Case, IMAGES, M, ONE, Outcome, Run, case};

/// Adds `n` rows of 16 elements to a tenth as many.
fn add_rows(run: &Run, n: usize, index: &Buffer<i64>, variant: Variant) -> Outcome {
    let (source, mut out) = (run.floats(n * 16)?, run.floats(n / 10 * 16)?);
    run.begin()?;
    let shape = Rows { outer: 1, size: n / 10, n, inner: 16 };
    index_add(&run.device, &mut out, index, &source, shape, 1.0, variant)?;
    Ok(())
}

/// Adds `n` elements to `size` others.
fn add_elements(
    run: &Run,
    n: usize,
    size: usize,
    index: &Buffer<i64>,
    variant: Variant,
) -> Outcome {
    let (source, mut out) = (run.floats(n)?, run.floats(size)?);
    run.begin()?;
    let shape = Rows { outer: 1, size, n, inner: 1 };
    scatter_add(&run.device, &mut out, index, &source, shape, variant)?;
    Ok(())
}

pub(crate) fn irregular() -> Vec<Case> {
    let width = 16 * 4;
    vec![
        case(
            "index_add 1M x 16 into 100k",
            M,
            [2000, 4000],
            M * (8 + width) + 100_000 * 2 * width,
            BOTH,
            |run, n, variant| add_rows(run, n, &run.indices(n, n / 10)?, variant),
        ),
        case(
            "scatter_add 4M into 1M",
            4 * M,
            [16384, 32768],
            4 * M * 12 + M * 8,
            BOTH,
            |run, n, variant| add_elements(run, n, n / 4, &run.indices(n, n / 4)?, variant),
        ),
        case(
            "index_add 1M x 16 into 100k, skewed",
            M,
            [64_000, 128_000],
            M * (8 + width) + 100_000 * 2 * width,
            BOTH,
            |run, n, variant| add_rows(run, n, &run.skewed(n, n / 10)?, variant),
        ),
        case(
            "scatter_add 4M into 1M, skewed",
            4 * M,
            [262_144, 524_288],
            4 * M * 12 + M * 8,
            BOTH,
            |run, n, variant| add_elements(run, n, n / 4, &run.skewed(n, n / 4)?, variant),
        ),
        case(
            "scatter_add 4M into 10",
            4 * M,
            [16384, 32768],
            4 * M * 12,
            BOTH,
            |run, n, variant| add_elements(run, n, 10, &run.indices(n, 10)?, variant),
        ),
        case(
            "index_select 1M x 16 of 100k",
            M,
            [2000, 4000],
            M * (8 + 2 * width),
            ONE,
            |run, n, _| {
                let rows = n / 10;
                let (index, source) = (run.indices(n, rows)?, run.floats(rows * 16)?);
                run.begin()?;
                let shape = Rows { outer: 1, size: rows, n, inner: 16 };
                index_select(&run.device, &source, &index, shape)?;
                Ok(())
            },
        ),
        case("bincount 8M into 1000", 8 * M, [16384, 32768], 64 * M, ONE, |run, n, _| {
            let values = run.indices(n, 1000)?;
            run.begin()?;
            bincount(&run.device, &values, 1000)?;
            Ok(())
        }),
        case(
            "bincount weighted 8M into 1000",
            8 * M,
            [16384, 32768],
            96 * M,
            BOTH,
            |run, n, variant| {
                let (values, weights) = (run.indices(n, 1000)?, run.floats(n)?);
                run.begin()?;
                bincount_weighted(&run.device, &values, &weights, 1000, variant)?;
                Ok(())
            },
        ),
        case("histc 8M into 100", 8 * M, [16384, 32768], 32 * M, ONE, |run, n, _| {
            let values = run.floats(n)?;
            run.begin()?;
            histc(&run.device, &values, 100, -1.0, 1.0)?;
            Ok(())
        }),
        case(
            "embedding grad 32k x 64 of 100k",
            32768,
            [1024, 2048],
            32768 * (8 + 256) + 100_000 * 256,
            BOTH,
            |run, n, variant| {
                let (index, grad) = (run.indices(n, n * 3)?, run.floats(n * 64)?);
                run.begin()?;
                embedding_grad(&run.device, &grad, &index, [n * 3, 64], None, false, variant)?;
                Ok(())
            },
        ),
        case(
            "embedding grad 32k x 64 of 100k, skewed",
            32768,
            [8192, 16384],
            32768 * (8 + 256) + 100_000 * 256,
            BOTH,
            |run, n, variant| {
                let (index, grad) = (run.skewed(n, n * 3)?, run.floats(n * 64)?);
                run.begin()?;
                embedding_grad(&run.device, &grad, &index, [n * 3, 64], None, false, variant)?;
                Ok(())
            },
        ),
        case("sort 1M", 1 << 20, [8192, 16384], 16 << 20, ONE, |run, n, _| {
            let x = run.floats(n)?;
            run.begin()?;
            sort(&run.device, &x, [1, n, 1], false)?;
            Ok(())
        }),
        case("topk 10 of 4096 x 4096", 4096, [102, 204], 4 << 24, ONE, |run, rows, _| {
            let x = run.floats(rows * 4096)?;
            run.begin()?;
            topk(&run.device, &x, [rows, 4096, 1], 10, true)?;
            Ok(())
        }),
        case("kthvalue of 1M", 1 << 20, [65536, 131072], 4 << 20, ONE, |run, n, _| {
            let x = run.floats(n)?;
            run.begin()?;
            kthvalue(&run.device, &x, [1, n, 1], n / 2)?;
            Ok(())
        }),
        case(
            "sparse 1024, 100k elements, by 256",
            100_000,
            [8200, 16400],
            100_000 * 20 + 2 * 1024 * 1024,
            BOTH,
            |run, n, variant| {
                // A hundred elements in each row.
                let rows: Vec<i64> = (0..n).map(|i| (i % (n / 100)) as i64).collect();
                let (rows, columns) = (run.device.upload(&rows)?, run.indices(n, 1024)?);
                let (values, dense) = (run.floats(n)?, run.floats(1024 * 256)?);
                run.begin()?;
                let elements =
                    Elements { rows: &rows, columns: &columns, count: n, size: [n / 100, 1024] };
                sparse_mm(&run.device, elements, &values, &dense, 256, 1024, variant)?;
                Ok(())
            },
        ),
    ]
}

fn pooled(planes: usize) -> Result<Pool, Box<dyn Error>> {
    let params = PoolParams { stride: vec![2; 2], padding: vec![1; 2], ..PoolParams::square(2, 3) };
    Ok(Pool::new("pool", &[1, planes, 56, 56], &params)?)
}

pub(crate) fn windows() -> Vec<Case> {
    let planes = 16 * 64;
    vec![
        case(
            "max_pool2d 3s2 16x64x56x56",
            planes,
            [8, 16],
            IMAGES * 4 + IMAGES * 3,
            ONE,
            |run, n, _| {
                let x = run.floats(n * 56 * 56)?;
                run.begin()?;
                max_pool(&run.device, &x, &pooled(n)?)?;
                Ok(())
            },
        ),
        case(
            "max_pool2d 3s2 grad",
            planes,
            [8, 16],
            IMAGES * 4 + IMAGES * 3,
            BOTH,
            |run, n, variant| {
                let pool = pooled(n)?;
                let (y, places) = max_pool(&run.device, &run.floats(n * 56 * 56)?, &pool)?;
                run.begin()?;
                max_pool_grad(&run.device, &y, &places, &pool, variant)?;
                Ok(())
            },
        ),
        case("avg_pool2d 3s2 grad", planes, [8, 16], IMAGES * 5, BOTH, |run, n, variant| {
            let average = Average::new(pooled(n)?, true, None)?;
            let grad = run.floats(n * 28 * 28)?;
            run.begin()?;
            avg_pool_grad(&run.device, &grad, &average, variant)?;
            Ok(())
        }),
        case(
            "pad reflect 3",
            planes,
            [8, 16],
            IMAGES * 4 + planes * 62 * 62 * 4,
            ONE,
            |run, n, _| {
                let padding =
                    Padding::new("pad", &[n, 56, 56], &[[3, 3], [3, 3]], PadMode::Reflect)?;
                let x = run.floats(n * 56 * 56)?;
                run.begin()?;
                pad(&run.device, &x, &padding, 0.0)?;
                Ok(())
            },
        ),
        case(
            "pad reflect 3 grad",
            planes,
            [8, 16],
            IMAGES * 4 + planes * 62 * 62 * 4,
            BOTH,
            |run, n, variant| {
                let padding =
                    Padding::new("pad", &[n, 56, 56], &[[3, 3], [3, 3]], PadMode::Reflect)?;
                let grad = run.floats(n * 62 * 62)?;
                run.begin()?;
                pad_grad(&run.device, &grad, &padding, variant)?;
                Ok(())
            },
        ),
        case("bilinear x2", planes, [8, 16], IMAGES * 20, ONE, |run, n, _| {
            let x = run.floats(n * 56 * 56)?;
            run.begin()?;
            interpolate(&run.device, &x, &doubled(n)?)?;
            Ok(())
        }),
        case("bilinear x2 grad", planes, [8, 16], IMAGES * 20, BOTH, |run, n, variant| {
            let grad = run.floats(n * 112 * 112)?;
            run.begin()?;
            interpolate_grad(&run.device, &grad, &doubled(n)?, variant)?;
            Ok(())
        }),
        case(
            "grid_sample 16x64x56x56",
            64,
            [2, 4],
            IMAGES * 8 + 16 * 56 * 56 * 8,
            ONE,
            |run, channels, _| {
                let sampling = sampling(channels, 56)?;
                let (x, grid) = (run.floats(channels * 56 * 56)?, run.floats(2 * 56 * 56)?);
                run.begin()?;
                grid_sample(&run.device, &sampling, &x, &grid)?;
                Ok(())
            },
        )
        .times(16, 1),
        case(
            "grid_sample input grad",
            64,
            [2, 4],
            IMAGES * 8 + 16 * 56 * 56 * 8,
            BOTH,
            |run, channels, variant| {
                let sampling = sampling(channels, 56)?;
                let (grad, grid) = (run.floats(channels * 56 * 56)?, run.floats(2 * 56 * 56)?);
                run.begin()?;
                grid_sample_input_grad(&run.device, &sampling, &grad, &grid, variant)?;
                Ok(())
            },
        )
        .times(16, 1),
        case(
            "grid_sample input grad, 1M points, skewed",
            M / 56,
            [512, 1024],
            M * (8 + 4 * 4) + 4 * 56 * 56 * 4,
            BOTH,
            |run, rows, variant| {
                let points = rows * 56;
                let (grad, grid) = (run.floats(4 * points)?, run.crowded(2 * points)?);
                run.begin()?;
                let sampling = sampling(4, rows)?;
                grid_sample_input_grad(&run.device, &sampling, &grad, &grid, variant)?;
                Ok(())
            },
        ),
    ]
}

fn doubled(planes: usize) -> Result<Resize, Box<dyn Error>> {
    let mode = InterpolateMode::Linear { align_corners: false };
    Ok(Resize::new("interpolate", &[1, planes, 56, 56], &[112, 112], &[None, None], mode)?)
}

/// Samples an image of 56 x 56 at `rows` of 56 points.
fn sampling(channels: usize, rows: usize) -> Result<Sampling, Box<dyn Error>> {
    let params =
        GridParams { mode: GridMode::Linear, padding: GridPadding::Zeros, align_corners: false };
    Ok(Sampling::new("grid_sample", &[1, channels, 56, 56], &[1, rows, 56, 2], params)?)
}

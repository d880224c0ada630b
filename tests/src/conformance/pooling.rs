use samebits::Result;
use samebits::functional as f;
use samebits::ops::PoolParams;

use super::{Arguments, Handler, Outputs, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler { op: "adaptive_avg_pool1d", run: adaptive_avg_pool, tolerance: adaptive },
    Handler { op: "adaptive_avg_pool2d", run: adaptive_avg_pool, tolerance: adaptive },
    Handler { op: "adaptive_avg_pool3d", run: adaptive_avg_pool, tolerance: adaptive },
    Handler { op: "adaptive_max_pool1d", run: adaptive_max_pool, tolerance: picked },
    Handler { op: "adaptive_max_pool2d", run: adaptive_max_pool, tolerance: picked },
    Handler { op: "adaptive_max_pool3d", run: adaptive_max_pool, tolerance: picked },
    Handler { op: "fractional_max_pool2d", run: fractional_max_pool, tolerance: picked },
    Handler { op: "fractional_max_pool3d", run: fractional_max_pool, tolerance: picked },
    Handler { op: "max_unpool1d", run: max_unpool, tolerance: |_, _| Tolerance::Copied },
    Handler { op: "max_unpool2d", run: max_unpool, tolerance: |_, _| Tolerance::Copied },
    Handler { op: "max_unpool3d", run: max_unpool, tolerance: |_, _| Tolerance::Copied },
    Handler { op: "lp_pool1d", run: lp_pool, tolerance: rooted },
    Handler { op: "lp_pool2d", run: lp_pool, tolerance: rooted },
    Handler { op: "lp_pool3d", run: lp_pool, tolerance: rooted },
    Handler { op: "max_pool1d", run: max_pool, tolerance: picked },
    Handler { op: "max_pool2d", run: max_pool, tolerance: picked },
    Handler { op: "max_pool3d", run: max_pool, tolerance: picked },
    Handler { op: "avg_pool1d", run: avg_pool, tolerance: averaged },
    Handler { op: "avg_pool2d", run: avg_pool, tolerance: averaged },
    Handler { op: "avg_pool3d", run: avg_pool, tolerance: averaged },
];

fn max_pool(a: &Arguments<'_>) -> Result<Outputs> {
    let params = params(a)?;
    let (y, indices) = f::max_pool(a.tensor("input")?, &params)?;
    Ok(vec![("y", y), ("indices", indices)])
}

fn avg_pool(a: &Arguments<'_>) -> Result<Outputs> {
    let include = a.param::<Option<bool>>("count_include_pad")?.unwrap_or(true);
    let divisor = a.param("divisor_override")?;
    let y = f::avg_pool(a.tensor("input")?, &params(a)?, include, divisor)?;
    Ok(vec![("y", y)])
}

fn lp_pool(a: &Arguments<'_>) -> Result<Outputs> {
    let y = f::lp_pool(a.tensor("input")?, a.param("norm_type")?, &params(a)?)?;
    Ok(vec![("y", y)])
}

fn adaptive_avg_pool(a: &Arguments<'_>) -> Result<Outputs> {
    let size: Vec<usize> = a.param("output_size")?;
    Ok(vec![("y", f::adaptive_avg_pool(a.tensor("input")?, &size)?)])
}

fn adaptive_max_pool(a: &Arguments<'_>) -> Result<Outputs> {
    let size: Vec<usize> = a.param("output_size")?;
    let (y, indices) = f::adaptive_max_pool(a.tensor("input")?, &size)?;
    Ok(vec![("y", y), ("indices", indices)])
}

fn fractional_max_pool(a: &Arguments<'_>) -> Result<Outputs> {
    let (kernel, size): (Vec<usize>, Vec<usize>) =
        (a.param("kernel_size")?, a.param("output_size")?);
    let samples = a.tensor("random_samples")?;
    let (y, indices) = f::fractional_max_pool(a.tensor("input")?, &kernel, &size, Some(samples))?;
    Ok(vec![("y", y), ("indices", indices)])
}

fn max_unpool(a: &Arguments<'_>) -> Result<Outputs> {
    let size: Option<Vec<usize>> = a.param("output_size")?;
    let y = f::max_unpool(a.tensor("input")?, a.tensor("indices")?, &params(a)?, size.as_deref())?;
    Ok(vec![("y", y)])
}

/// Missing parameters have PyTorch's defaults.
fn params(a: &Arguments<'_>) -> Result<PoolParams> {
    let kernel: Vec<usize> = a.param("kernel_size")?;
    let list = |name, default: &[usize]| -> Result<Vec<usize>> {
        Ok(a.param::<Option<Vec<usize>>>(name)?.unwrap_or_else(|| default.to_vec()))
    };
    Ok(PoolParams {
        stride: list("stride", &kernel)?,
        padding: list("padding", &vec![0; kernel.len()])?,
        dilation: list("dilation", &vec![1; kernel.len()])?,
        ceil_mode: a.param::<Option<bool>>("ceil_mode")?.unwrap_or(false),
        kernel,
    })
}

/// An element is copied; a gradient is the sum over the windows that selected it.
fn picked(a: &Arguments<'_>, quantity: Quantity<'_>) -> Tolerance {
    match quantity {
        Quantity::Output(_) => Tolerance::Copied,
        // Without signs, other windows select an element.
        Quantity::Grad(_) => Tolerance::Largest(window(a)),
    }
}

fn averaged(a: &Arguments<'_>, _: Quantity<'_>) -> Tolerance {
    Tolerance::Contraction(window(a) + 1.0)
}

/// A window covers at most two elements more than the quotient of the sizes, and so do the windows
/// over one element.
fn adaptive(a: &Arguments<'_>, _: Quantity<'_>) -> Tolerance {
    let size: Vec<usize> = a.param("output_size").unwrap_or_default();
    let input = a.tensor("input").map(|x| x.shape().to_vec()).unwrap_or_default();
    let longest = |(&n, &m): (&usize, &usize)| (n.max(m) / n.min(m).max(1) + 2) as f64;
    let most: f64 = input.iter().rev().zip(size.iter().rev()).map(longest).product();
    Tolerance::Contraction(most + 1.0)
}

/// Powers and roots are rounded; a root's derivative is large if its sum is small.
fn rooted(a: &Arguments<'_>, _: Quantity<'_>) -> Tolerance {
    Tolerance::Largest(8.0 * (window(a) + 4.0))
}

/// Returns the number of elements of a window, which equals that of the windows over one element.
fn window(a: &Arguments<'_>) -> f64 {
    // Without a kernel, every window may cover an element.
    match (a.param::<Vec<f64>>("kernel_size"), a.param::<Vec<f64>>("output_size")) {
        (Ok(size), _) | (Err(_), Ok(size)) => size.iter().product::<f64>().max(1.0),
        _ => 1.0,
    }
}

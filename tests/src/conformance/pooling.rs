use samebits::functional as f;
use samebits::ops::PoolParams;
use samebits::{Result, Var};

use super::{Arguments, Handler, Outputs, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler { op: "max_pool1d", run: max_pool, tolerance: picked },
    Handler { op: "max_pool2d", run: max_pool, tolerance: picked },
    Handler { op: "max_pool3d", run: max_pool, tolerance: picked },
    Handler { op: "avg_pool1d", run: avg_pool, tolerance: averaged },
    Handler { op: "avg_pool2d", run: avg_pool, tolerance: averaged },
    Handler { op: "avg_pool3d", run: avg_pool, tolerance: averaged },
];

fn max_pool(a: &Arguments<'_>) -> Result<Outputs> {
    let params = PoolParams { dilation: a.param("dilation")?, ..params(a)? };
    let (y, indices) = f::max_pool(a.var("input")?, &params)?;
    Ok(vec![("y", y), ("indices", Var::constant(indices))])
}

fn avg_pool(a: &Arguments<'_>) -> Result<Outputs> {
    let y = f::avg_pool(a.var("input")?, &params(a)?, a.param("count_include_pad")?, None)?;
    Ok(vec![("y", y)])
}

fn params(a: &Arguments<'_>) -> Result<PoolParams> {
    let kernel: Vec<usize> = a.param("kernel_size")?;
    Ok(PoolParams {
        stride: a.param("stride")?,
        padding: a.param("padding")?,
        dilation: vec![1; kernel.len()],
        ceil_mode: a.param("ceil_mode")?,
        kernel,
    })
}

/// An element is copied; a gradient is the sum of those of the windows that picked it.
fn picked(a: &Arguments<'_>, quantity: Quantity<'_>) -> Tolerance {
    match quantity {
        Quantity::Output(_) => Tolerance::Copied,
        // Other windows pick an element when the signs are taken away.
        Quantity::Grad(_) => Tolerance::Largest(window(a)),
    }
}

fn averaged(a: &Arguments<'_>, _: Quantity<'_>) -> Tolerance {
    Tolerance::Contraction(window(a) + 1.0)
}

/// The number of elements of a window, which is also that of the windows over one element.
fn window(a: &Arguments<'_>) -> f64 {
    let kernel: Vec<f64> = a.param("kernel_size").unwrap_or_default();
    kernel.iter().product()
}

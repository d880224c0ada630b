use samebits::functional::{self as f, Resize};
use samebits::ops::{GridMode, GridPadding, GridParams, InterpolateMode, PadMode};
use samebits::{Error, Result, Tensor};

use super::{Arguments, Handler, Outputs, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler {
        op: "affine_grid",
        run: |a| {
            let size: Vec<usize> = a.param("size")?;
            let align = a.param::<Option<bool>>("align_corners")?.unwrap_or(false);
            Ok(vec![("y", f::affine_grid(a.tensor("theta")?, &size, align)?)])
        },
        tolerance: |_, _| Tolerance::Largest(16.0),
    },
    Handler { op: "grid_sample", run: grid_sample, tolerance: sampled },
    Handler { op: "interpolate", run: interpolate, tolerance: interpolated },
    Handler { op: "pad", run: pad, tolerance: padded },
    Handler {
        op: "pixel_shuffle",
        run: |a| {
            let factor = a.param("upscale_factor")?;
            Ok(vec![("y", f::pixel_shuffle(a.tensor("input")?, factor)?)])
        },
        tolerance: |_, _| Tolerance::Copied,
    },
    Handler {
        op: "pixel_unshuffle",
        run: |a| {
            let factor = a.param("downscale_factor")?;
            Ok(vec![("y", f::pixel_unshuffle(a.tensor("input")?, factor)?)])
        },
        tolerance: |_, _| Tolerance::Copied,
    },
];

fn pad(a: &Arguments<'_>) -> Result<Outputs> {
    let mode: Option<String> = a.param("mode")?;
    let mode = match mode.as_deref() {
        None | Some("constant") => PadMode::Constant,
        Some("reflect") => PadMode::Reflect,
        Some("replicate") => PadMode::Replicate,
        Some("circular") => PadMode::Circular,
        Some(other) => return unknown("mode", other),
    };
    let (pads, value): (Vec<i64>, Option<f64>) = (a.param("pad")?, a.param("value")?);
    Ok(vec![("y", f::pad(a.tensor("input")?, &pads, mode, value.unwrap_or(0.0))?)])
}

fn interpolate(a: &Arguments<'_>) -> Result<Outputs> {
    let input = a.tensor("input")?;
    let (size, scale): (Option<Vec<usize>>, Option<Vec<f64>>) =
        (a.param("size")?, a.param("scale_factor")?);
    let recompute = a.param::<Option<bool>>("recompute_scale_factor")?.unwrap_or(false);
    let resize = match (&size, &scale) {
        (Some(size), _) => Resize::Size(size),
        (None, Some(scale)) if recompute => Resize::RecomputedScale(scale),
        (None, Some(scale)) => Resize::Scale(scale),
        (None, None) => return unknown("size", "missing"),
    };
    Ok(vec![("y", resized(a, input, resize)?)])
}

fn resized(a: &Arguments<'_>, input: &Tensor, resize: Resize<'_>) -> Result<Tensor> {
    let align_corners = a.param::<Option<bool>>("align_corners")?.unwrap_or(false);
    let antialias = a.param::<Option<bool>>("antialias")?.unwrap_or(false);
    let mode: Option<String> = a.param("mode")?;
    let mode = match mode.as_deref() {
        None | Some("nearest") => InterpolateMode::Nearest,
        Some("nearest-exact") => InterpolateMode::NearestExact,
        Some("bilinear") if antialias => InterpolateMode::LinearAntialias { align_corners },
        Some("bicubic") if antialias => InterpolateMode::CubicAntialias { align_corners },
        Some("linear" | "bilinear" | "trilinear") => InterpolateMode::Linear { align_corners },
        Some("bicubic") => InterpolateMode::Cubic { align_corners },
        Some("area") => return f::interpolate_area(input, resize),
        Some(other) => return unknown("mode", other),
    };
    f::interpolate(input, resize, mode)
}

fn grid_sample(a: &Arguments<'_>) -> Result<Outputs> {
    let (mode, padding): (Option<String>, Option<String>) =
        (a.param("mode")?, a.param("padding_mode")?);
    let mode = match mode.as_deref() {
        None | Some("bilinear") => GridMode::Linear,
        Some("nearest") => GridMode::Nearest,
        Some("bicubic") => GridMode::Cubic,
        Some(other) => return unknown("mode", other),
    };
    let padding = match padding.as_deref() {
        None | Some("zeros") => GridPadding::Zeros,
        Some("border") => GridPadding::Border,
        Some("reflection") => GridPadding::Reflection,
        Some(other) => return unknown("padding_mode", other),
    };
    let align_corners = a.param::<Option<bool>>("align_corners")?.unwrap_or(false);
    let params = GridParams { mode, padding, align_corners };
    Ok(vec![("y", f::grid_sample(a.tensor("input")?, a.tensor("grid")?, params)?)])
}

/// Elements are copied; a gradient is the sum over its copies, at most three in each of three
/// dimensions.
fn padded(_: &Arguments<'_>, quantity: Quantity<'_>) -> Tolerance {
    match quantity {
        Quantity::Output(_) => Tolerance::Copied,
        Quantity::Grad(_) => Tolerance::Contraction(27.0),
    }
}

/// Each weight is rounded twice in three dimensions, and the taps are added one by one.
fn interpolated(a: &Arguments<'_>, quantity: Quantity<'_>) -> Tolerance {
    let mode: Option<String> = a.param("mode").unwrap_or_default();
    let nearest = mode.is_none_or(|mode| mode.starts_with("nearest"));
    match quantity {
        Quantity::Output(_) if nearest => Tolerance::Copied,
        // Weights of both signs: their magnitudes add up to less than 2.
        _ => Tolerance::Largest(64.0),
    }
}

/// Weights are rounded once. The gradient of the input is exact except for the rounding of addends;
/// that of the grid is rounded once.
fn sampled(_: &Arguments<'_>, quantity: Quantity<'_>) -> Tolerance {
    match quantity {
        Quantity::Output(_) => Tolerance::Largest(32.0),
        // In f64, in which contributions can cancel.
        Quantity::Grad("grid") => Tolerance::Largest(1.0),
        Quantity::Grad(_) => Tolerance::Largest(8.0),
    }
}

fn unknown<T>(what: &str, got: &str) -> Result<T> {
    Err(Error::invalid("conformance", format!("{what} {got} is not known")))
}

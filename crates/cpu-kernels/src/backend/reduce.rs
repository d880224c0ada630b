use samebits_numerics::extrema::{replaces_max, replaces_min};
use samebits_numerics::reduce::{BLOCK, norm_leaves_range};
use samebits_tensor_core::geometry::{Reduction, Split};
use samebits_tensor_core::layout::PerDim;
use samebits_tensor_core::ops::{
    ArgReduce, ArgReduceKind, Logsumexp, Norm, Reduce, ReduceKind, Variance,
};
use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{Layout, Op, Result, Tensor};

use super::reduced::{Reduced, Width};
use super::{Element, FLOATS, INTEGERS, WRAPS, filled, with_float};
use crate::float::Float;
use crate::memory;
use crate::reduce::{self, Extreme, Part, Rows, Slabs};

const TREE: &str = "sums run in f64 over a tree that depends on the length alone";

pub(super) fn register_all() {
    register(Kernel::portable(
        "tree",
        FLOATS,
        "sums run in f64 over a tree that depends on the length alone; \
         ties of extrema go to the lowest index",
        |op: &Reduce, over| with_float!(op.x.dtype(), T => reduce_dims::<T>(op, over)),
    ));
    register(Kernel::portable("integers", INTEGERS, WRAPS, reduce_integers));
    register(Kernel::portable(
        "tree",
        FLOATS,
        TREE,
        |op: &Variance, over| with_float!(op.x.dtype(), T => variance::<T>(op, over)),
    ));
    register(Kernel::portable("tree", FLOATS, TREE, |op: &Norm, over| {
        with_float!(op.x.dtype(), T => {
            // A norm that needs the magnitudes first is computed along rows.
            let is_scaled = op.p != 2.0 && norm_leaves_range(op.p, T::EXPONENT);
            let along = op.p.is_infinite() || is_scaled;
            let width = if along { Width::None } else { Width::Any };
            let map = op.p.is_infinite().then_some(magnitudes::<T> as fn(&mut [T]));
            rows(&op.x, &op.dims, over, width, map, |x, out: &mut [T]| {
                reduce::norm(Norm::NAME, x, op.p, out)
            })
        })
    }));
    register(Kernel::portable("tree", FLOATS, TREE, |op: &Logsumexp, over| {
        with_float!(op.x.dtype(), T => {
            rows(&op.x, &op.dims, over, Width::Wide, None, |x, out: &mut [T]| {
                reduce::logsumexp(Logsumexp::NAME, x, out)
            })
        })
    }));
    register(Kernel::portable(
        "first",
        FLOATS,
        "of equal elements the first is taken",
        |op: &ArgReduce, over| with_float!(op.x.dtype(), T => arg_reduce::<T>(op, over)),
    ));
}

/// Replaces elements by their magnitudes.
fn magnitudes<T: Float>(elements: &mut [T]) {
    elements.iter_mut().for_each(|x| *x = x.abs());
}

fn reduce_dims<T: Element>(op: &Reduce, over: &Reduction) -> Result<Tensor> {
    if matches!(op.kind, ReduceKind::Sum | ReduceKind::Mean)
        && let Some(Split { outer, size, inner }) = over.adjacent
        && inner >= 256
        && size >= 512
        && outer <= 64
        && op.x.is_contiguous()
        && let Some(found) = columns::<T>(op, over, inner)?
    {
        return Ok(found);
    }
    let width = match op.kind {
        ReduceKind::Sum | ReduceKind::Mean => Width::Any,
        ReduceKind::Prod if over.count > BLOCK => Width::None,
        _ => Width::Wide,
    };
    if matches!(op.kind, ReduceKind::Amax | ReduceKind::Amin) {
        let which = if op.kind == ReduceKind::Amax { Extreme::Max } else { Extreme::Min };
        if let Some(split) = over.adjacent.filter(|&split| has_few_columns(&op.x, split)) {
            let x = op.x.as_slice::<T>()?;
            let places = places_in_few_columns(x, split, which)?;
            return filled(&over.result, |out: &mut [T]| {
                for (i, (out, &place)) in out.iter_mut().zip(&places).enumerate() {
                    *out = x[place_in(split, i, place)].canonical();
                }
                Ok(())
            });
        }
        if let Some(found) = extremes_in_storage_order::<T>(op, over, which)? {
            return Ok(found);
        }
    }
    rows(&op.x, &op.dims, over, width, None, |x: Rows<'_, T>, out: &mut [T]| match op.kind {
        ReduceKind::Sum => reduce::sum(Reduce::NAME, x, out),
        ReduceKind::Mean => reduce::mean(Reduce::NAME, x, out),
        ReduceKind::Prod => reduce::product(Reduce::NAME, x, out),
        ReduceKind::Amax => reduce::extreme(Reduce::NAME, x, Extreme::Max, out),
        ReduceKind::Amin => reduce::extreme(Reduce::NAME, x, Extreme::Min, out),
        kind => unreachable!("every kind has its function: {kind:?}"),
    })
}

/// Returns the extrema of a strided tensor, found in the order of its storage; `None` if that is the order
/// of its elements, or if an extremum is a zero, whose sign is that of the first.
fn extremes_in_storage_order<T: Element>(
    op: &Reduce,
    over: &Reduction,
    which: Extreme,
) -> Result<Option<Tensor>> {
    if op.x.is_contiguous() || op.x.numel() == 0 {
        return Ok(None);
    }
    let (mut x, mut over) = (op.x.clone(), over.clone());
    for &dim in &op.dims {
        // Repeated elements change no extremum.
        if x.layout().strides()[dim] == 0 {
            over.count /= x.shape()[dim];
            x = x.narrow(dim, 0, 1)?;
        }
    }
    let mut sorted = op.dims.clone();
    sorted.sort_by_key(|&dim| std::cmp::Reverse(x.layout().strides()[dim]));
    if sorted == op.dims && x.numel() == op.x.numel() {
        return Ok(None);
    }
    let mut order: PerDim = (0..x.rank()).collect();
    for (&dim, &from) in op.dims.iter().zip(&sorted) {
        order[dim] = from;
    }
    let x = x.permute(&order)?;
    let found = rows(&x, &op.dims, &over, Width::Wide, None, |x, out: &mut [T]| {
        reduce::extreme(Reduce::NAME, x, which, out)
    })?;
    let has_zero = found.contiguous()?.as_slice::<T>()?.contains(&T::ZERO);
    Ok((!has_zero).then_some(found))
}

/// The number of elements that fill vectors, and of rows from which it pays to fill them with several.
const FILLED: usize = 16;
const MANY_ROWS: usize = 64;

/// Returns true for a dense tensor whose columns fill no vectors, but would fill them with those of a
/// few rows.
fn has_few_columns(x: &Tensor, Split { outer, size, inner }: Split) -> bool {
    x.is_contiguous() && outer > 0 && size >= MANY_ROWS && (2..=FILLED / 2).contains(&inner)
}

/// Returns the number of the element at `place` of column `i` of all.
fn place_in(Split { size, inner, .. }: Split, i: usize, place: i64) -> usize {
    (i / inner * size + place as usize) * inner + i % inner
}

/// Returns the place of the extremum of each column, of a tensor that
/// [has few columns](has_few_columns): those of several rows side by side, and then the best of them.
fn places_in_few_columns<T: Element>(x: &[T], split: Split, which: Extreme) -> Result<Vec<i64>> {
    let Split { outer, size, inner } = split;
    let together = FILLED / inner;
    let width = together * inner;
    let (starts, terms) = (
        Layout::strided(&[outer], &[size * inner], 0)?,
        Layout::strided(&[size / together], &[width], 0)?,
    );
    let slabs = Slabs { data: x, starts: &starts, terms: &terms, inner: width };
    let candidates = memory::volume(ArgReduce::NAME, &[outer, width])?;
    let mut candidates: Vec<i64> = memory::zeroed(ArgReduce::NAME, candidates)?;
    let rows = Rows::Slabs(Part { slabs: &slabs, first: 0 });
    reduce::arg_extreme(ArgReduce::NAME, rows, which, &mut candidates)?;
    let replaces = |old: T, new: T| match which {
        Extreme::Max => replaces_max(old, new),
        Extreme::Min => replaces_min(old, new),
    };
    let mut places = memory::zeroed(ArgReduce::NAME, outer * inner)?;
    for (i, best) in places.iter_mut().enumerate() {
        let value = |place: i64| x[place_in(split, i, place)];
        let found = &candidates[i / inner * width + i % inner..];
        let found = found.iter().step_by(inner).take(together).zip(0..);
        let rest = (size / together * together..size).map(|place| place as i64);
        let mut all = found.map(|(&round, row)| round * together as i64 + row).chain(rest);
        *best = all.next().unwrap_or(0);
        for place in all {
            let [old, new] = [*best, place].map(value);
            // Of equal elements the first.
            if replaces(old, new) || (!replaces(new, old) && place < *best) {
                *best = place;
            }
        }
    }
    Ok(places)
}

/// Returns the sum or the mean over adjacent dimensions that are followed by `inner` elements;
/// `None` for means of which a sum leaves the range of f64.
fn columns<T: Element>(op: &Reduce, over: &Reduction, inner: usize) -> Result<Option<Tensor>> {
    let mut totals = memory::zeroed(Reduce::NAME, over.result.iter().product())?;
    reduce::sum_columns(op.x.as_slice::<T>()?, over.count, inner, &mut totals)?;
    let means = op.kind == ReduceKind::Mean;
    if means && T::WIDE && totals.iter().any(|sum| !sum.is_finite()) {
        return Ok(None);
    }
    let divisor = if means { over.count as f64 } else { 1.0 };
    let found = filled(&over.result, |out: &mut [T]| {
        for (out, sum) in out.iter_mut().zip(totals) {
            *out = T::from_f64(sum / divisor).canonical();
        }
        Ok(())
    });
    found.map(Some)
}

fn reduce_integers(op: &Reduce, over: &Reduction) -> Result<Tensor> {
    rows(&op.x, &op.dims, over, Width::Wide, None, |x, out| {
        reduce::integer(Reduce::NAME, x, op.kind, out)
    })
}

fn variance<T: Element>(op: &Variance, over: &Reduction) -> Result<(Tensor, Tensor)> {
    let x = Reduced::new(&op.x, &op.dims, over, Width::Wide)?;
    let mut moments = memory::filled(Variance::NAME, x.made.iter().product(), [T::ZERO; 2])?;
    let out = &mut moments[..];
    x.rows(None, |x, out| reduce::variance(Variance::NAME, x, op.correction, out), out)?;
    let which = |which: usize| {
        x.finished(filled(&x.made, |out: &mut [T]| {
            for (out, moments) in out.iter_mut().zip(&moments) {
                *out = moments[which];
            }
            Ok(())
        })?)
    };
    Ok((which(0)?, which(1)?))
}

fn arg_reduce<T: Element>(op: &ArgReduce, over: &Reduction) -> Result<Tensor> {
    let which = match op.kind {
        ArgReduceKind::Argmax => Extreme::Max,
        ArgReduceKind::Argmin => Extreme::Min,
    };
    if let Some(split) = over.adjacent.filter(|&split| has_few_columns(&op.x, split)) {
        let places = places_in_few_columns(op.x.as_slice::<T>()?, split, which)?;
        return filled(&over.result, |out| {
            out.copy_from_slice(&places);
            Ok(())
        });
    }
    rows(&op.x, &[op.dim], over, Width::Wide, None, |x: Rows<'_, T>, out| {
        reduce::arg_extreme(ArgReduce::NAME, x, which, out)
    })
}

/// Runs `f(rows, out)` on the reduced dimensions as rows. If rows are walked in place, each element
/// passes through `map`, which `f` may apply again.
fn rows<T: samebits_tensor_core::Element, R: samebits_tensor_core::Element>(
    x: &Tensor,
    dims: &[usize],
    over: &Reduction,
    width: Width,
    map: Option<fn(&mut [T])>,
    f: impl FnOnce(Rows<'_, T>, &mut [R]) -> crate::Result<()>,
) -> Result<Tensor> {
    let x = Reduced::new(x, dims, over, width)?;
    x.finished(filled(&x.made, |out| x.rows(map, f, out))?)
}

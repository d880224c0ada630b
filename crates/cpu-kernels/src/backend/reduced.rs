//! The ways to read a tensor that is reduced: as dense rows, or in place.

use samebits_tensor_core::geometry::Reduction;
use samebits_tensor_core::{Element, Layout, Result, Tensor};

use crate::parallel::CHUNK;
use crate::reduce::{Part, Rows, SHORTEST_RUN, Slabs, Walk, tiles};

/// The columns that a reduction can take side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// None: it needs rows.
    None,
    /// As many as fill vectors.
    Wide,
    /// Any number, because all columns have the same terms.
    Any,
}

/// The number of columns from which their vectors pay.
const WIDE: usize = 8;

/// The length of rows from which they are read in place.
const LONG: usize = 256;

/// The same for reductions that read several rows at a time, which are those of [`Width::Any`].
const LONG_TOGETHER: usize = 64;

/// The number of elements from which a tensor with repeated elements is walked in place instead of
/// copied.
const WALKED: usize = 1 << 20;

/// Returns true for a tensor with many more logical elements than stored ones.
fn repeats(x: &Tensor) -> bool {
    x.numel() > WALKED && x.numel() > x.layout().extent()
}

/// A tensor that is reduced over some dimensions.
pub(super) struct Reduced {
    x: Tensor,
    way: Way,
    /// The shape of the result in the order in which it is computed.
    pub(super) made: Vec<usize>,
    /// The shape of the result, and the place of each kept dimension in `made`, if it is another.
    reordered: Option<(Vec<usize>, Vec<usize>)>,
}

enum Way {
    /// Rows of so many elements, one after the other.
    Dense(usize),
    Walked {
        starts: Layout,
        row: Layout,
    },
    Slabs {
        starts: Layout,
        terms: Layout,
        inner: usize,
    },
}

impl Reduced {
    /// Returns `x`, to be reduced over `dims`, of which `over` is the plan.
    pub(super) fn new(
        x: &Tensor,
        dims: &[usize],
        over: &Reduction,
        width: Width,
    ) -> Result<Reduced> {
        let shape = over.result.to_vec();
        if let Some(reduced) = Reduced::slabs(x, dims, width, &shape)? {
            return Ok(reduced);
        }
        let kept = (0..shape.len()).filter(|dim| !dims.contains(dim));
        let order: Vec<usize> = kept.chain(dims.iter().copied()).collect();
        let kept = order.len() - dims.len();
        let x = x.permute(&order)?;
        let row = merged(&x.shape()[kept..], &x.layout().strides()[kept..])?;
        let starts = merged(&x.shape()[..kept], &x.layout().strides()[..kept])?;
        let in_place = match (row.shape().last(), row.strides().last()) {
            (Some(&run), Some(1)) if run >= SHORTEST_RUN => {
                row.numel() >= if width == Width::Any { LONG_TOGETHER } else { LONG }
            }
            // Sums copy tiles of long rows; what reads a row more than once copies it once.
            _ if row.numel() > CHUNK => width == Width::Any && tiles::suit(&row, x.dtype().size()),
            _ => row.numel() >= if starts.rank() <= 1 { LONG_TOGETHER } else { LONG },
        };
        if repeats(&x) || (in_place && !x.is_contiguous()) {
            let starts = Layout::strided(starts.shape(), starts.strides(), x.layout().offset())?;
            return Ok(Reduced {
                x,
                way: Way::Walked { starts, row },
                made: shape,
                reordered: None,
            });
        }
        Ok(Reduced {
            x: x.contiguous()?,
            way: Way::Dense(over.count),
            made: shape,
            reordered: None,
        })
    }

    /// Returns the tensor as slabs, if neighbouring results have neighbouring terms.
    fn slabs(x: &Tensor, dims: &[usize], width: Width, shape: &[usize]) -> Result<Option<Reduced>> {
        if width == Width::None || x.numel() == 0 {
            return Ok(None);
        }
        let strides = x.layout().strides();
        let mut order: Vec<usize> = (0..shape.len()).filter(|dim| !dims.contains(dim)).collect();
        let in_order = order.clone();
        // Results may be computed in any order: last those with the nearest terms.
        order.sort_by_key(|&dim| {
            let repeated = strides[dim] == 0 || shape[dim] == 1;
            std::cmp::Reverse(if repeated { usize::MAX } else { strides[dim] })
        });
        let pick = |of: &[usize], dims: &[usize]| -> Vec<usize> {
            dims.iter().map(|&dim| of[dim]).collect()
        };
        let kept = merged(&pick(shape, &order), &pick(strides, &order))?;
        let (Some((&inner, outer)), Some(1)) =
            (kept.shape().split_last(), kept.strides().last().copied())
        else {
            return Ok(None);
        };
        let terms = merged(&pick(x.shape(), dims), &pick(strides, dims))?;
        let consecutive = match (terms.shape(), terms.strides()) {
            ([_], &[step]) => step == inner,
            (&[.., rows], &[.., step]) => step == inner && rows * inner >= LONG,
            _ => false,
        };
        if inner < WIDE && !(inner > 1 && width == Width::Any && consecutive) {
            return Ok(None);
        }
        let starts = Layout::strided(outer, &kept.strides()[..outer.len()], x.layout().offset())?;
        let way = Way::Slabs { starts, terms, inner };
        if order == in_order {
            return Ok(Some(Reduced { x: x.clone(), way, made: shape.to_vec(), reordered: None }));
        }
        let places = in_order.iter().map(|dim| order.iter().position(|at| at == dim).unwrap_or(0));
        let reordered = Some((shape.to_vec(), places.collect()));
        Ok(Some(Reduced { x: x.clone(), way, made: pick(shape, &order), reordered }))
    }

    /// Runs `f(rows, out)` on the reduced dimensions as rows. If rows are walked in place, each
    /// element passes through `map`, which `f` may apply again.
    pub(super) fn rows<T: Element, R>(
        &self,
        map: Option<fn(&mut [T])>,
        f: impl FnOnce(Rows<'_, T>, &mut [R]) -> crate::Result<()>,
        out: &mut [R],
    ) -> Result<()> {
        match &self.way {
            Way::Dense(n) => f(Rows::Dense { x: self.x.as_slice()?, n: *n }, out)?,
            Way::Walked { starts, row } => {
                let walk = Walk { data: self.x.storage_slice()?, starts, row, map };
                f(Rows::Walked { walk: &walk, first: 0 }, out)?;
            }
            Way::Slabs { starts, terms, inner } => {
                let slabs = Slabs { data: self.x.storage_slice()?, starts, terms, inner: *inner };
                f(Rows::Slabs(Part { slabs: &slabs, first: 0 }), out)?;
            }
        }
        Ok(())
    }

    /// Puts a result of shape `made` into the order of the tensor's dimensions.
    pub(super) fn finished(&self, made: Tensor) -> Result<Tensor> {
        match &self.reordered {
            None => Ok(made),
            Some((shape, places)) => made.permute(places)?.contiguous()?.reshape(shape),
        }
    }
}

/// Returns a layout of fewest dimensions with the same positions in the same order.
pub(super) fn merged(sizes: &[usize], strides: &[usize]) -> Result<Layout> {
    let (mut shape, mut steps): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for (&size, &stride) in sizes.iter().zip(strides).filter(|(size, _)| **size != 1) {
        match (shape.last_mut(), steps.last_mut()) {
            (Some(last), Some(step)) if stride.checked_mul(size) == Some(*step) => {
                (*last, *step) = (*last * size, stride);
            }
            _ => {
                shape.push(size);
                steps.push(stride);
            }
        }
    }
    Layout::strided(&shape, &steps, 0)
}

//! The layout: positions of a tensor's logical elements in its storage.

use smallvec::{SmallVec, smallvec};

use crate::{Error, Result};

/// One number per dimension; up to four are stored without an allocation.
pub type PerDim = SmallVec<[usize; 4]>;

/// Shape, strides and offset, all counted in elements.
///
/// The number of elements and the position of the last one always fit into a `usize`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    shape: PerDim,
    strides: PerDim,
    offset: usize,
}

impl Layout {
    /// Returns the row-major layout of `shape` at offset 0.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if no machine can address that many elements.
    pub fn contiguous(op: &'static str, shape: &[usize]) -> Result<Layout> {
        numel(op, shape)?;
        Ok(Layout { shape: shape.into(), strides: contiguous_strides(shape), offset: 0 })
    }

    /// Returns a layout with explicit strides, as `empty_strided` and `as_strided` take them.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the two lists differ in length, or the layout reaches further
    /// than a machine can address.
    pub fn strided(shape: &[usize], strides: &[usize], offset: usize) -> Result<Layout> {
        if shape.len() != strides.len() {
            return Err(Error::invalid(
                "as_strided",
                format!("{} sizes but {} strides", shape.len(), strides.len()),
            ));
        }
        numel("as_strided", shape)?;
        let reach = shape.iter().zip(strides).try_fold(offset, |reach, (&n, &stride)| {
            stride.checked_mul(n.saturating_sub(1)).and_then(|span| reach.checked_add(span))
        });
        if reach.is_none_or(|reach| reach >= MOST_ELEMENTS) {
            return Err(Error::invalid(
                "as_strided",
                format!(
                    "shape {shape:?} with strides {strides:?} reaches further than a machine can address"
                ),
            ));
        }
        Ok(Layout { shape: shape.into(), strides: strides.into(), offset }.rooted())
    }

    /// Returns the size of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the distance between neighbours along each dimension.
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// Returns the storage position of the first element.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of logical elements.
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns the number of storage elements that the layout reaches: one past the last element.
    pub fn extent(&self) -> usize {
        if self.numel() == 0 {
            return 0;
        }
        let reach: usize = self.shape.iter().zip(&self.strides).map(|(&n, &s)| (n - 1) * s).sum();
        self.offset + reach + 1
    }

    /// Returns true if the logical order is the storage order, without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&n, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if n != 1 && stride != expected {
                return self.numel() == 0;
            }
            expected *= n;
        }
        true
    }

    /// Reorders the dimensions: dimension `i` of the result is dimension `order[i]`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] unless `order` is a permutation of the dimensions.
    pub fn permute(&self, order: &[usize]) -> Result<Layout> {
        let mut seen = order.to_vec();
        seen.sort_unstable();
        if seen != (0..self.rank()).collect::<Vec<_>>() {
            return Err(Error::invalid(
                "permute",
                format!("{order:?} is not an order of {} dimensions", self.rank()),
            ));
        }
        Ok(Layout {
            shape: order.iter().map(|&d| self.shape[d]).collect(),
            strides: order.iter().map(|&d| self.strides[d]).collect(),
            offset: self.offset,
        })
    }

    /// Selects elements `start..start + length` of dimension `dim`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the range reaches past the dimension.
    pub fn narrow(&self, dim: usize, start: usize, length: usize) -> Result<Layout> {
        let size = self.size("narrow", dim)?;
        if start.checked_add(length).is_none_or(|end| end > size) {
            return Err(Error::invalid(
                "narrow",
                format!("{length} elements from {start} do not fit dimension {dim} of size {size}"),
            ));
        }
        let mut layout = self.clone();
        layout.shape[dim] = length;
        if length > 0 {
            // The element at `start` exists, so its position fits.
            layout.offset += start * self.strides[dim];
        }
        Ok(layout.rooted())
    }

    /// Selects every `step`-th element of dimension `dim`, from `start`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if `step` is 0 or `start` lies past the end.
    pub fn stepped(&self, dim: usize, start: usize, step: usize) -> Result<Layout> {
        let size = self.size("slice", dim)?;
        if step == 0 || start > size {
            return Err(Error::invalid(
                "slice",
                format!("start {start} and step {step} on dimension {dim} of size {size}"),
            ));
        }
        let mut layout = self.narrow(dim, start, size - start)?;
        layout.shape[dim] = (size - start).div_ceil(step);
        // With one element the stride is never used.
        layout.strides[dim] = layout.strides[dim].saturating_mul(step);
        Ok(layout)
    }

    /// Expands dimensions of size 1 to `shape`, without copying.
    ///
    /// # Errors
    ///
    /// [`Error::Broadcast`] if a dimension is neither 1 nor already of the wanted size.
    pub fn expand(&self, op: &'static str, shape: &[usize]) -> Result<Layout> {
        let mismatch = || Error::Broadcast { op, left: self.shape.to_vec(), right: shape.to_vec() };
        let new = shape.len().checked_sub(self.rank()).ok_or_else(mismatch)?;
        let mut strides: PerDim = smallvec![0; shape.len()];
        for (dim, (&n, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            if n == shape[new + dim] {
                strides[new + dim] = stride;
            } else if n != 1 {
                return Err(mismatch());
            }
        }
        numel(op, shape)?;
        Ok(Layout { shape: shape.into(), strides, offset: self.offset }.rooted())
    }

    /// Inserts a dimension of size 1 before `dim`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if `dim` is larger than the rank.
    pub fn unsqueeze(&self, dim: usize) -> Result<Layout> {
        if dim > self.rank() {
            return Err(Error::invalid(
                "unsqueeze",
                format!("dimension {dim} of a tensor with {} dimensions", self.rank()),
            ));
        }
        let mut layout = self.clone();
        let stride = self.shape.get(dim).map_or(1, |&n| n * self.strides[dim]);
        layout.shape.insert(dim, 1);
        layout.strides.insert(dim, stride);
        Ok(layout)
    }

    /// Removes dimension `dim`, which must have size 1.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if it has another size.
    pub fn squeeze(&self, dim: usize) -> Result<Layout> {
        let size = self.size("squeeze", dim)?;
        if size != 1 {
            return Err(Error::invalid(
                "squeeze",
                format!("dimension {dim} has size {size}, not 1"),
            ));
        }
        let mut layout = self.clone();
        layout.shape.remove(dim);
        layout.strides.remove(dim);
        Ok(layout)
    }

    /// Returns the same elements with another shape, or `None` if that needs a copy.
    pub fn reshape(&self, shape: &[usize]) -> Option<Layout> {
        if numel("reshape", shape) != Ok(self.numel()) {
            return None;
        }
        self.is_contiguous().then(|| Layout {
            shape: shape.into(),
            strides: contiguous_strides(shape),
            offset: self.offset,
        })
    }

    /// Returns the storage position of each element, in logical order.
    pub fn positions(&self) -> Positions<'_> {
        self.positions_from(0)
    }

    /// Returns the storage positions of the elements from index `first` on, in logical order.
    pub fn positions_from(&self, first: usize) -> Positions<'_> {
        let run = self.shape.last().map_or(0, |&size| size.saturating_sub(1));
        let mut positions = Positions {
            layout: self,
            index: smallvec![0; self.rank()],
            next: self.offset,
            left: self.numel(),
            run,
            step: self.strides.last().copied().unwrap_or(0),
        };
        positions.pass(first);
        positions
    }

    /// Sets the offset of a layout without elements to 0: the old offset may lie outside its
    /// storage.
    fn rooted(mut self) -> Layout {
        if self.numel() == 0 {
            self.offset = 0;
        }
        self
    }

    /// Returns the size of `dim`.
    pub(crate) fn size(&self, op: &'static str, dim: usize) -> Result<usize> {
        self.shape.get(dim).copied().ok_or_else(|| {
            Error::invalid(op, format!("dimension {dim} of a tensor of shape {:?}", self.shape))
        })
    }
}

/// Iterator over storage positions in logical order; see [`Layout::positions`].
#[derive(Debug)]
pub struct Positions<'a> {
    layout: &'a Layout,
    /// The index of the next position; that of the last dimension follows from `run`.
    index: PerDim,
    next: usize,
    left: usize,
    /// The number of positions after the next one that are `step` apart.
    run: usize,
    step: usize,
}

impl Positions<'_> {
    /// Passes over the next `n` positions.
    fn pass(&mut self, n: usize) {
        self.left = self.left.saturating_sub(n);
        if self.left == 0 {
            return;
        }
        let Some(last) = self.index.len().checked_sub(1) else { return };
        self.index[last] = self.layout.shape[last] - 1 - self.run;
        let mut steps = n;
        for dim in (0..=last).rev() {
            if steps == 0 {
                break;
            }
            // The stride of a dimension with one element may be any number, but its index is 0.
            let (size, stride) = (self.layout.shape[dim], self.layout.strides[dim]);
            let (old, all) = (self.index[dim], self.index[dim] + steps);
            self.index[dim] = all % size;
            self.next = self.next - old * stride + self.index[dim] * stride;
            steps = all / size;
        }
        self.run = self.layout.shape[last] - 1 - self.index[last];
    }

    /// Goes from the last position of a run to the first of the next one.
    #[inline(never)]
    fn jump(&mut self) {
        let Some(last) = self.index.len().checked_sub(1) else { return };
        self.run = self.layout.shape[last] - 1;
        self.next -= self.run * self.step;
        for dim in (0..last).rev() {
            let stride = self.layout.strides[dim];
            if self.index[dim] + 1 < self.layout.shape[dim] {
                self.index[dim] += 1;
                self.next += stride;
                break;
            }
            self.next -= self.index[dim] * stride;
            self.index[dim] = 0;
        }
    }
}

impl Iterator for Positions<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        // Computes positions of elements only: one beyond the last might not fit.
        self.left = self.left.checked_sub(1)?;
        let position = self.next;
        if self.run > 0 {
            self.run -= 1;
            self.next += self.step;
        } else if self.left > 0 {
            self.jump();
        }
        Some(position)
    }

    fn nth(&mut self, n: usize) -> Option<usize> {
        self.pass(n);
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// Returns the number of elements of a tensor of `shape`.
///
/// # Errors
///
/// [`Error::InvalidArgument`] if it is more than a machine can address. A size of 0 does not hide
/// other sizes that are too large.
pub fn numel(op: &'static str, shape: &[usize]) -> Result<usize> {
    let product = shape.iter().try_fold(1usize, |product, &n| product.checked_mul(n.max(1)));
    match product {
        Some(product) if product < MOST_ELEMENTS => {
            Ok(if shape.contains(&0) { 0 } else { product })
        }
        _ => Err(Error::invalid(op, format!("shape {shape:?} has too many elements"))),
    }
}

/// Elements are at most 8 bytes, and no object is larger than `isize::MAX` bytes.
const MOST_ELEMENTS: usize = isize::MAX as usize / 8;

/// Returns the shape that `left` and `right` broadcast to, by NumPy's rule.
///
/// # Errors
///
/// [`Error::Broadcast`] if a pair of dimensions differs and neither is 1;
/// [`Error::InvalidArgument`] if the result has more elements than a machine can address.
pub fn broadcast(op: &'static str, left: &[usize], right: &[usize]) -> Result<PerDim> {
    let rank = left.len().max(right.len());
    let size = |shape: &[usize], dim: usize| {
        (dim + shape.len()).checked_sub(rank).map_or(1, |dim| shape[dim])
    };
    let shape: PerDim = (0..rank)
        .map(|dim| match (size(left, dim), size(right, dim)) {
            (a, b) if a == b => Ok(a),
            (1, b) => Ok(b),
            (a, 1) => Ok(a),
            _ => Err(Error::Broadcast { op, left: left.to_vec(), right: right.to_vec() }),
        })
        .collect::<Result<_>>()?;
    numel(op, &shape)?;
    Ok(shape)
}

/// Splits a shape at `dim` into the product before it, its size, and the product after it.
///
/// # Errors
///
/// [`Error::InvalidArgument`] if there is no such dimension, or a machine cannot address that many
/// elements.
pub fn outer_dim_inner(
    op: &'static str,
    shape: &[usize],
    dim: usize,
) -> Result<(usize, usize, usize)> {
    let Some(&size) = shape.get(dim) else {
        return Err(Error::invalid(op, format!("dimension {dim} of a tensor of shape {shape:?}")));
    };
    numel(op, shape)?;
    Ok((shape[..dim].iter().product(), size, shape[dim + 1..].iter().product()))
}

/// Returns the row-major strides of a shape that [`numel`] accepts, so that no partial product
/// overflows.
fn contiguous_strides(shape: &[usize]) -> PerDim {
    let mut strides: PerDim = smallvec![1; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim] * shape[dim];
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dense(shape: &[usize]) -> Layout {
        Layout::contiguous("test", shape).unwrap()
    }

    #[test]
    fn too_many_elements_are_an_error() {
        let huge = [1 << 40, 1 << 40];
        assert!(numel("test", &huge).is_err());
        assert!(numel("test", &[0, usize::MAX, 2]).is_err());
        assert!(Layout::contiguous("test", &huge).is_err());
        assert!(outer_dim_inner("test", &[1 << 40, 0, 1 << 40], 1).is_err());
        assert!(dense(&[1]).expand("test", &huge).is_err());
        assert!(Layout::strided(&[2], &[usize::MAX], 1).is_err());
        assert!(broadcast("test", &[1 << 40, 1], &[1, 1 << 40]).is_err());
        assert_eq!(dense(&[2]).reshape(&[1 << 33, 1 << 32]), None);
    }

    #[test]
    fn an_empty_view_starts_inside_its_storage() {
        let empty = dense(&[0, 3]).narrow(1, 1, 2).unwrap();
        assert_eq!((empty.offset(), empty.extent()), (0, 0));
        assert_eq!(dense(&[5]).stepped(0, 5, 1).unwrap().offset(), 0);
        let one = dense(&[5]).narrow(0, 3, 1).unwrap();
        assert_eq!(one.expand("test", &[0]).unwrap().offset(), 0);
    }

    /// The stride of a dimension with one element may be any number: it is never used.
    #[test]
    fn strides_that_lead_nowhere_are_not_followed() {
        let last = dense(&[5, 2]).stepped(0, 3, usize::MAX).unwrap();
        assert_eq!(last.positions().collect::<Vec<_>>(), [6, 7]);
        let one = Layout::strided(&[1, 2], &[usize::MAX, 1], 3).unwrap();
        assert_eq!(one.positions().collect::<Vec<_>>(), [3, 4]);
        assert_eq!(one.narrow(0, 1, 0).unwrap().offset(), 0);
        assert_eq!(one.unsqueeze(0).unwrap().extent(), 5);
    }

    #[test]
    fn positions_follow_the_strides() {
        let layout = dense(&[2, 3]).permute(&[1, 0]).unwrap();
        assert_eq!(layout.positions().collect::<Vec<_>>(), [0, 3, 1, 4, 2, 5]);
        let expanded = dense(&[3, 1]).expand("test", &[2, 3, 2]).unwrap();
        assert_eq!(expanded.positions().collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
        for layout in [layout, expanded, dense(&[2, 0]), dense(&[])] {
            for first in 0..14 {
                let rest: Vec<_> = layout.positions().skip(first).collect();
                assert_eq!(layout.positions_from(first).collect::<Vec<_>>(), rest);
                for start in 0..3 {
                    let mut positions = layout.positions_from(start);
                    assert_eq!(positions.nth(first), layout.positions().nth(start + first));
                    let rest: Vec<_> = layout.positions().skip(start + first + 1).collect();
                    assert_eq!(positions.collect::<Vec<_>>(), rest);
                }
            }
        }
    }

    #[test]
    fn broadcasting_names_both_shapes() {
        assert_eq!(broadcast("add", &[3, 1], &[2, 1, 4]).unwrap()[..], [2, 3, 4]);
        let error = broadcast("add", &[3, 2], &[4]).unwrap_err();
        assert_eq!(error.to_string(), "add: shapes [3, 2] and [4] cannot be broadcast together");
    }

    proptest! {
        #[test]
        fn a_view_never_reaches_past_its_storage(
            shape in prop::collection::vec(0usize..5, 0..4),
            dim in 0usize..5,
            start in 0usize..6,
            length in 0usize..6,
            step in 0usize..4,
        ) {
            let whole = dense(&shape);
            for view in [whole.narrow(dim, start, length), whole.stepped(dim, start, step)]
                .into_iter()
                .flatten()
            {
                prop_assert!(view.extent() <= whole.numel());
                let positions = view.positions().collect::<Vec<_>>();
                prop_assert_eq!(positions.len(), view.numel());
                prop_assert!(positions.iter().all(|&p| p < whole.numel()));
            }
        }
    }
}

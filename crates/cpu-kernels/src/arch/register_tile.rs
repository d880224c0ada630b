//! The inner loop of every contraction: a tile of output in registers.
//!
//! A tile has up to `MAX_ROWS` rows and 1, 2, 4 or 8 vectors of columns. Vector lanes are output
//! columns, never `k`, so each output element is one sequential chain of fused multiply-adds,
//! whatever the instruction set. Small tables of offsets locate the broadcast operand (A, one value
//! per row) and the loaded operand (B, one vector per column group), so that matrix products and
//! convolutions share the loop.

use super::grid::TileMut;
use super::vector::Vector;
use samebits_numerics::memory::product;

/// The use of a finished chain of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finish {
    /// True to add the chain to the output, false to replace the output.
    pub(crate) add: bool,
    /// True to make NaN canonical, for the last block of `k`.
    pub(crate) last: bool,
}

/// Offsets into a slice, with an upper bound for the bounds check.
#[derive(Debug, Default, Clone)]
pub(crate) struct Offsets {
    list: Vec<usize>,
    max: usize,
    ascending: bool,
    /// The distance between consecutive offsets, if it is constant.
    step: Option<usize>,
}

impl Offsets {
    /// Makes a table from offsets in the order of `k`.
    pub(crate) fn new(list: Vec<usize>) -> Offsets {
        let mut offsets = Offsets { list, ..Offsets::default() };
        offsets.measure();
        offsets
    }

    /// Returns the offsets `0, step, 2 * step, ...`
    pub(crate) fn linear(count: usize, step: usize) -> Offsets {
        Offsets::new((0..count).map(|k| k * step).collect())
    }

    pub(crate) fn list(&self) -> &[usize] {
        &self.list
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Replaces the contents and keeps the allocation.
    pub(crate) fn refill(&mut self, offsets: impl Iterator<Item = usize>) {
        self.list.clear();
        self.list.extend(offsets);
        self.measure();
    }

    fn measure(&mut self) {
        let step = match self.list[..] {
            [first, second, ..] => second.checked_sub(first),
            _ => Some(0),
        };
        let even = |step: &usize| self.list.windows(2).all(|pair| pair[0] + step == pair[1]);
        self.step = step.filter(even);
        self.ascending = self.step.is_some() || self.list.is_sorted();
        let last = if self.ascending { self.list.last() } else { self.list.iter().max() };
        self.max = last.copied().unwrap_or(0);
    }

    /// Returns an upper bound of the `k` offsets from `first` on, which is exact if the offsets
    /// ascend.
    ///
    /// # Panics
    ///
    /// If the table has fewer offsets.
    fn bound(&self, first: usize, k: usize) -> usize {
        let steps = &self.list[first..][..k];
        if self.ascending { steps.last().copied().unwrap_or(0) } else { self.max }
    }
}

/// Raw arguments of one register tile.
#[derive(Clone, Copy)]
pub(super) struct RawTile<T> {
    /// The number of steps of the chain.
    pub(super) k: usize,
    pub(super) a: *const T,
    /// The offset of each row of A; unused if rows are packed side by side.
    pub(super) a_rows: *const usize,
    /// The offset of each step in A; unused if packed.
    pub(super) a_steps: *const usize,
    pub(super) b: *const T,
    /// The offset of each step in B; unused if the steps have equal distances.
    pub(super) b_steps: *const usize,
    /// The number of elements between equidistant steps of B.
    pub(super) b_step: usize,
    pub(super) out: *mut T,
    pub(super) out_stride: usize,
    pub(super) finish: Finish,
}

/// A compiled tile shape.
///
/// # Safety
///
/// The CPU must have the instructions of the level for which the shape was compiled; every pointer
/// of the argument must be valid for the accesses of the shape.
pub(super) type TileFn<T> = unsafe fn(RawTile<T>);

/// The tile shapes of one level that have the same number of column vectors.
#[derive(Debug)]
pub(crate) struct TileFns<T: 'static> {
    /// The number of column vectors.
    vectors: usize,
    lanes: usize,
    /// The tiles with A packed and B through a table, by `rows - 1`.
    packed: &'static [TileFn<T>],
    /// The tiles with A packed and B in equidistant steps, which need no table, by `rows - 1`.
    even: &'static [TileFn<T>],
    /// The tiles with A through tables and B packed, by `rows - 1`.
    strided: &'static [TileFn<T>],
}

/// The tiles of a product.
#[derive(Debug)]
pub(crate) struct Tiling<T: 'static> {
    tiles: &'static TileFns<T>,
    /// The tiles of the last columns, if they do not fill one of `tiles`.
    last: &'static TileFns<T>,
}

impl<T: Copy + 'static> Tiling<T> {
    /// Returns the tiles for a panel, of which `columns` columns are left to compute.
    pub(crate) fn of(&self, columns: usize) -> &'static TileFns<T> {
        if columns < self.columns() { self.last } else { self.tiles }
    }

    /// Returns the number of columns of a panel.
    pub(crate) fn columns(&self) -> usize {
        self.tiles.columns()
    }

    /// Returns the largest number of rows of a tile.
    pub(crate) fn max_rows(&self) -> usize {
        self.tiles.max_rows()
    }
}

/// All tile shapes of one level.
#[derive(Debug)]
pub(crate) struct Kernels<T: 'static> {
    pub(super) shapes: &'static [TileFns<T>],
}

impl<T: Copy + 'static> Kernels<T> {
    /// Returns the tiles with this number of column vectors, or the next smaller existing number.
    pub(crate) fn with_vectors(&self, vectors: usize) -> &'static TileFns<T> {
        let mut found = &self.shapes[0];
        for shape in self.shapes {
            if shape.vectors <= vectors {
                found = shape;
            }
        }
        found
    }

    /// Returns the tiles that suit a product with this number of rows and columns. With few rows, a
    /// tile needs more columns to keep enough chains in flight.
    pub(crate) fn fitting(&self, rows: usize, columns: usize) -> &'static TileFns<T> {
        let lanes = self.lanes();
        self.with_vectors(if columns <= lanes {
            1
        } else if rows <= 3 && columns >= 8 * lanes {
            8
        } else if rows <= 6 && columns >= 4 * lanes {
            4
        } else {
            2
        })
    }

    /// Returns `tiles` for a product of `columns` columns, of which the last, if they do not fill one of
    /// `tiles`, have the narrowest tiles with as many rows.
    pub(crate) fn tiling(&self, tiles: &'static TileFns<T>, columns: usize) -> Tiling<T> {
        let left = columns % tiles.columns();
        let fits = |shape: &&TileFns<T>| {
            (left..tiles.columns()).contains(&shape.columns())
                && shape.max_rows() >= tiles.max_rows()
        };
        let last = self.shapes.iter().filter(|_| left > 0).find(fits).unwrap_or(tiles);
        Tiling { tiles, last }
    }

    /// Returns the number of elements per vector register.
    pub(crate) fn lanes(&self) -> usize {
        self.shapes[0].lanes
    }
}

impl<T: Copy + 'static> TileFns<T> {
    pub(super) const fn new(
        vectors: usize,
        lanes: usize,
        packed: &'static [TileFn<T>],
        even: &'static [TileFn<T>],
        strided: &'static [TileFn<T>],
    ) -> Self {
        assert!(packed.len() == strided.len() && packed.len() == even.len());
        TileFns { vectors, lanes, packed, even, strided }
    }

    /// Returns the largest number of rows of a tile.
    pub(crate) fn max_rows(&self) -> usize {
        self.packed.len()
    }

    /// Returns the number of columns of a tile.
    pub(crate) fn columns(&self) -> usize {
        self.vectors * self.lanes
    }

    /// Computes `out[i][j] = chain over k of a[k * rows + i] * b[b_steps[k] + j]`, completed by
    /// `finish`.
    ///
    /// `a` holds `rows` values for each step; steps `first..first + k` of `b_steps` are used. The
    /// block of `out` that starts at `(row, column)` is `rows` by [`columns`](Self::columns).
    ///
    /// # Panics
    ///
    /// If a slice is too short for the accesses of the tile.
    #[inline]
    pub(crate) fn run_packed(
        &self,
        rows: usize,
        a: &[T],
        b: &[T],
        (b_steps, first, k): (&Offsets, usize, usize),
        out: &mut TileMut<'_, T>,
        (row, column): (usize, usize),
        finish: Finish,
    ) {
        let columns = self.columns();
        // `bound` panics unless the table has `first + k` steps.
        let last = b_steps.bound(first, k);
        assert!(product(&[k, rows]).is_some_and(|len| len <= a.len()), "packed rows too short");
        let end = last.checked_add(columns);
        assert!(k == 0 || end.is_some_and(|end| end <= b.len()), "columns too short");
        let (target, out_stride) = out.block((row, column), (rows, columns));
        let (tiles, b, b_step) = match b_steps.step {
            Some(step) if k > 0 => (self.even, b.as_ptr().wrapping_add(b_steps.list[first]), step),
            _ => (self.packed, b.as_ptr(), 0),
        };
        let raw = RawTile {
            k,
            a: a.as_ptr(),
            a_rows: std::ptr::null(),
            a_steps: std::ptr::null(),
            b,
            b_steps: b_steps.list[first..][..k].as_ptr(),
            b_step,
            out: target,
            out_stride,
            finish,
        };
        // SAFETY: `Kernels` of a level are only returned if the CPU has it. Reads of A end at `k *
        // rows`, reads of B at `last + columns`; both are computed without wrapping and checked
        // above. `block` has checked the writes, and slicing the table has checked its `k` steps.
        unsafe { tiles[rows - 1](raw) }
    }

    /// Computes `out[i][j] = chain over k of a[a_rows[i] + a_steps[k]] * b[k * columns + j]`.
    ///
    /// # Panics
    ///
    /// If a slice is too short for the accesses of the tile.
    #[inline]
    pub(crate) fn run_strided(
        &self,
        a: &[T],
        a_rows: &Offsets,
        (a_steps, first, k): (&Offsets, usize, usize),
        b: &[T],
        b_step: usize,
        out: &mut TileMut<'_, T>,
        (row, column): (usize, usize),
        finish: Finish,
    ) {
        let (rows, columns) = (a_rows.len(), self.columns());
        // `bound` panics unless the table has `first + k` steps.
        let last = a_rows.max.checked_add(a_steps.bound(first, k));
        assert!(k == 0 || last.is_some_and(|last| last < a.len()), "rows too short");
        let end = product(&[k.saturating_sub(1), b_step]).and_then(|at| at.checked_add(columns));
        assert!(k == 0 || end.is_some_and(|end| end <= b.len()), "packed columns too short");
        let (target, out_stride) = out.block((row, column), (rows, columns));
        let raw = RawTile {
            k,
            a: a.as_ptr(),
            a_rows: a_rows.list[..rows].as_ptr(),
            a_steps: a_steps.list[first..][..k].as_ptr(),
            b: b.as_ptr(),
            b_steps: std::ptr::null(),
            b_step,
            out: target,
            out_stride,
            finish,
        };
        // SAFETY: `Kernels` of a level are only returned if the CPU has it. Reads of A are at most
        // at `last`, reads of B end at `end`; both are computed without wrapping and checked above.
        // `block` has checked the writes, and slicing the tables has checked their rows and steps.
        unsafe { self.strided[rows - 1](raw) }
    }
}

/// The prefetch distance, in steps, for steps of B that are wider than a cache line: such a panel
/// comes from the second-level cache, because the first level is too small for it if another thread
/// shares the core. Narrower panels stay in the first level and are not prefetched.
const PREFETCH: usize = 16;

/// The size of a cache line in bytes.
const LINE: usize = 64;

/// The number of steps per loop test. Testing after each step costs up to a fifth of the time if
/// another thread shares the core.
const UNROLLED: usize = 4;

/// Computes a tile with A packed, and B in equidistant steps or through a table of offsets.
///
/// # Safety
///
/// As for [`TileFn`].
#[inline(always)]
pub(super) unsafe fn packed_tile<V: Vector, const R: usize, const C: usize, const EVEN: bool>(
    raw: RawTile<V::Elem>,
) {
    // SAFETY: the caller guarantees the CPU features and every pointer.
    unsafe {
        let mut acc = [[V::zero(); C]; R];
        prefetch_tile::<V, R, C>(&raw);
        let (mut a, mut even, mut k) = (raw.a, raw.b, 0);
        while raw.k - k >= UNROLLED {
            for u in 0..UNROLLED {
                let b = if EVEN {
                    even.wrapping_add(u * raw.b_step)
                } else {
                    raw.b.add(*raw.b_steps.add(k + u))
                };
                if EVEN && C * size_of::<V>() > LINE {
                    for v in 0..(C * size_of::<V>()).div_ceil(LINE) {
                        let line = v * LINE / size_of::<V::Elem>();
                        V::prefetch(b.wrapping_add(PREFETCH * raw.b_step + line));
                    }
                }
                add_step(&mut acc, a.add(u * R), b);
            }
            a = a.add(UNROLLED * R);
            even = even.wrapping_add(UNROLLED * raw.b_step);
            k += UNROLLED;
        }
        while k < raw.k {
            add_step(&mut acc, a, if EVEN { even } else { raw.b.add(*raw.b_steps.add(k)) });
            a = a.add(R);
            even = even.wrapping_add(raw.b_step);
            k += 1;
        }
        finish_tile::<V, R, C>(acc, raw.out, raw.out_stride, raw.finish);
    }
}

/// Adds the products of one step: the values of A times the vectors of B.
///
/// # Safety
///
/// The CPU must have the instructions of `V`; `a` and `b` must be valid for the reads of a step.
#[inline(always)]
unsafe fn add_step<V: Vector, const R: usize, const C: usize>(
    acc: &mut [[V; C]; R],
    a: *const V::Elem,
    b: *const V::Elem,
) {
    // SAFETY: the caller guarantees the CPU features and both pointers.
    unsafe {
        let mut loaded = [V::zero(); C];
        for v in 0..C {
            loaded[v] = V::load(b.add(v * V::LANES));
        }
        for i in 0..R {
            add_row(&mut acc[i], &loaded, a.add(i));
        }
    }
}

/// Computes a tile with A through tables of offsets and B packed.
///
/// `row` adds the product of one element of A and the vectors of B to a row of sums.
///
/// # Safety
///
/// As for [`TileFn`].
#[inline(always)]
pub(super) unsafe fn strided_tile<V: Vector, const R: usize, const C: usize>(
    raw: RawTile<V::Elem>,
    row: impl Fn(&mut [V; C], &[V; C], *const V::Elem),
) {
    // SAFETY: the caller guarantees the CPU features and every pointer.
    unsafe {
        let mut acc = [[V::zero(); C]; R];
        prefetch_tile::<V, R, C>(&raw);
        let mut rows = [raw.a; R];
        for i in 0..R {
            rows[i] = raw.a.add(*raw.a_rows.add(i));
        }
        let mut from = raw.b;
        for k in 0..raw.k {
            let step = *raw.a_steps.add(k);
            let mut b = [V::zero(); C];
            for v in 0..C {
                b[v] = V::load(from.add(v * V::LANES));
            }
            for i in 0..R {
                row(&mut acc[i], &b, rows[i].add(step));
            }
            from = from.wrapping_add(raw.b_step);
        }
        finish_tile::<V, R, C>(acc, raw.out, raw.out_stride, raw.finish);
    }
}

/// Prefetches the output while the products are computed, if it will be read.
///
/// # Safety
///
/// As for [`TileFn`].
#[inline(always)]
unsafe fn prefetch_tile<V: Vector, const R: usize, const C: usize>(raw: &RawTile<V::Elem>) {
    if raw.finish.add {
        for i in 0..R {
            for v in 0..C {
                // SAFETY: inside the output of the tile.
                unsafe { V::prefetch(raw.out.add(i * raw.out_stride + v * V::LANES)) };
            }
        }
    }
}

/// Adds one row of a step: one element of A times the vectors of B.
///
/// # Safety
///
/// The CPU must have the instructions of `V`, and `from` must be valid for a read.
#[inline(always)]
pub(super) unsafe fn add_row<V: Vector, const C: usize>(
    sums: &mut [V; C],
    b: &[V; C],
    from: *const V::Elem,
) {
    // SAFETY: the caller guarantees the CPU features and `from`.
    unsafe {
        let x = V::splat(*from);
        for v in 0..C {
            sums[v] = sums[v].add_product(x, b[v]);
        }
    }
}

/// # Safety
///
/// `out` must be valid for the rows and columns of the tile.
#[inline(always)]
unsafe fn finish_tile<V: Vector, const R: usize, const C: usize>(
    acc: [[V; C]; R],
    out: *mut V::Elem,
    out_stride: usize,
    finish: Finish,
) {
    // SAFETY: the caller guarantees the CPU features and `out`.
    unsafe {
        for i in 0..R {
            for v in 0..C {
                let at = out.add(i * out_stride + v * V::LANES);
                let mut value = acc[i][v];
                if finish.add {
                    value = V::load(at).add(value);
                }
                if finish.last {
                    value = value.canonical();
                }
                value.store(at);
            }
        }
    }
}

/// Compiles [`packed_tile`] and [`strided_tile`] for a vector type and lists of row counts.
macro_rules! register_tiles {
    ($name:ident, $vector:ty, $add_row:path, $($features:literal)?;
     $($columns:literal: [$($rows:literal),*]);*) => {
        pub(super) mod $name {
            use super::*;
            use crate::arch::register_tile::{RawTile, TileFn, TileFns, packed_tile, strided_tile};

            type Elem = <$vector as Vector>::Elem;

            $(#[target_feature(enable = $features)])?
            unsafe fn packed<const R: usize, const C: usize>(raw: RawTile<Elem>) {
                // SAFETY: the caller fulfils the contract of `TileFn`.
                unsafe { packed_tile::<$vector, R, C, false>(raw) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn even<const R: usize, const C: usize>(raw: RawTile<Elem>) {
                // SAFETY: the caller fulfils the contract of `TileFn`.
                unsafe { packed_tile::<$vector, R, C, true>(raw) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn strided<const R: usize, const C: usize>(raw: RawTile<Elem>) {
                // SAFETY: the caller fulfils the contract of `TileFn`, and the tile calls the
                // closure with pointers that the contract covers.
                unsafe {
                    strided_tile::<$vector, R, C>(raw, |sums, b, from| $add_row(sums, b, from));
                }
            }

            pub(in crate::arch) static SHAPES: &[TileFns<Elem>] = &[$(TileFns::new(
                $columns,
                <$vector as Vector>::LANES,
                &[$(packed::<$rows, $columns> as TileFn<Elem>),*],
                &[$(even::<$rows, $columns> as TileFn<Elem>),*],
                &[$(strided::<$rows, $columns> as TileFn<Elem>),*],
            )),*];
        }
    };
}
pub(super) use register_tiles;

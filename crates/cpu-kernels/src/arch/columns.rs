//! Passes over columns: two updates of several columns together with the next dot products, sums of
//! multiples of columns, and rotations of neighbouring columns.

use samebits_numerics::reduce::{BLOCK, LANES, dot_of};
use samebits_numerics::simd;

use super::vector::Vector;

/// The rows that [`ColumnPasses::rotate`] takes at a time.
pub(crate) const TURNED: usize = 32;

/// Columns have a multiple of this number of elements.
pub(crate) const MULTIPLE: usize = 8;

/// The most columns of a pass.
pub(crate) const TOGETHER: usize = 4;

/// The passes of one level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnPasses {
    update: [unsafe fn(Update, &mut [f64]); 2],
    combine: [unsafe fn(Combine); 2],
    rotate: unsafe fn(*mut f64, &[[f64; 2]]),
}

/// Neighbouring columns `step` elements apart, of which the rows from `first` up to `last` are
/// changed: every row by a multiple of `x` and then of `y`. The vector `z` is for the dot products.
/// All pointers are valid for `last` elements of each column.
#[derive(Clone, Copy)]
struct Update {
    columns: *mut f64,
    step: usize,
    first: usize,
    last: usize,
    /// The vectors `x`, `y` and `z`.
    vectors: [*const f64; 3],
    /// For each column the multiples of `x` and of `y`.
    factors: [[f64; 2]; TOGETHER],
}

/// Neighbouring columns of which multiples are added to the rows of `sums`.
#[derive(Clone, Copy)]
struct Combine {
    columns: *const f64,
    step: usize,
    first: usize,
    last: usize,
    sums: *mut f64,
    factors: [f64; TOGETHER],
}

impl ColumnPasses {
    /// Returns the passes of the level in force.
    pub(crate) fn new() -> ColumnPasses {
        match simd::level().min(simd::supported()) {
            #[cfg(target_arch = "x86_64")]
            simd::Level::Avx512 => avx512::PASSES,
            #[cfg(target_arch = "x86_64")]
            simd::Level::Avx2 => avx2::PASSES,
            _ => portable::PASSES,
        }
    }

    /// Computes `c = fma(f[1], y, fma(f[0], x, c))` for each column `c` and its factors, and writes the
    /// dot products of `z` and each column over the tree. Starts with row `first`, before which `z`
    /// must be zero.
    ///
    /// # Panics
    ///
    /// If the vectors differ in length, `columns` does not hold a column of that length for each of
    /// up to [`TOGETHER`] factors and dot products, the length is no multiple of [`MULTIPLE`], or
    /// `first` is above it or no multiple of the number of lanes of the tree.
    #[inline]
    pub(crate) fn update(
        self,
        columns: &mut [f64],
        first: usize,
        [x, y, z]: [&[f64]; 3],
        factors: &[[f64; 2]],
        dots: &mut [f64],
    ) {
        let (step, count) = (z.len(), factors.len());
        assert!(
            x.len() == step && y.len() == step && columns.len() == step * count,
            "vectors of different lengths"
        );
        assert!(
            step.is_multiple_of(MULTIPLE) && first <= step && first.is_multiple_of(LANES),
            "columns of {step} elements from {first}"
        );
        assert!(dots.len() == count, "{} products for {count} columns", dots.len());
        let mut all = [[0.0; 2]; TOGETHER];
        all[..count].copy_from_slice(factors);
        let mut update = Update {
            columns: columns.as_mut_ptr(),
            step,
            first,
            last: step,
            vectors: [x.as_ptr(), y.as_ptr(), z.as_ptr()],
            factors: all,
        };
        // SAFETY: `new` took functions that the CPU can run. There is a column for each factor and
        // product, and all have `step` elements.
        unsafe {
            if count == TOGETHER {
                (self.update[1])(update, dots);
            } else {
                for (i, dot) in dots.iter_mut().enumerate() {
                    update.factors[0] = all[i];
                    (self.update[0])(update, std::slice::from_mut(dot));
                    update.columns = update.columns.wrapping_add(step);
                }
            }
        }
        if step > BLOCK {
            for (dot, column) in dots.iter_mut().zip(columns.chunks_exact(step)) {
                *dot = dot_of(z, column, |z, x| z * x);
            }
        }
    }

    /// Adds to the rows of `sums` from `first` on the elements of each column times its factor, in
    /// ascending order.
    ///
    /// # Panics
    ///
    /// If `columns` does not hold a column of the length of `sums` for each of up to [`TOGETHER`]
    /// factors, or the length or `first` is no multiple of [`MULTIPLE`].
    #[inline]
    pub(crate) fn combine(self, columns: &[f64], first: usize, factors: &[f64], sums: &mut [f64]) {
        let (step, count) = (sums.len(), factors.len());
        assert!(
            columns.len() == step * count
                && step.is_multiple_of(MULTIPLE)
                && first.is_multiple_of(MULTIPLE),
            "{count} columns of {step} elements from {first}"
        );
        let mut all = [0.0; TOGETHER];
        all[..count].copy_from_slice(factors);
        let mut combine = Combine {
            columns: columns.as_ptr(),
            step,
            first,
            last: step,
            sums: sums.as_mut_ptr(),
            factors: all,
        };
        // SAFETY: `new` took functions that the CPU can run. There is a column for each factor, and
        // all have `step` elements.
        unsafe {
            if count == TOGETHER {
                (self.combine[1])(combine);
            } else {
                for factor in &all[..count] {
                    combine.factors[0] = *factor;
                    (self.combine[0])(combine);
                    combine.columns = combine.columns.wrapping_add(step);
                }
            }
        }
    }

    /// Rotates each column with the next one by a cosine `c` and a sine `s`, in ascending order: `x`
    /// and `y` become `fma(c, x, s·y)` and `fma(c, y, −(s·x))`.
    ///
    /// # Panics
    ///
    /// If there are not more columns than angles.
    #[inline]
    pub(crate) fn rotate(self, columns: &mut [[f64; TURNED]], angles: &[[f64; 2]]) {
        let columns = &mut columns[..angles.len() + 1];
        // SAFETY: `new` took functions that the CPU can run. There is a next column for each angle.
        unsafe { (self.rotate)(columns.as_mut_ptr().cast(), angles) }
    }
}

/// Returns the sum of the lanes of the tree.
///
/// # Safety
///
/// The CPU must have the instructions of the vector.
#[inline(always)]
unsafe fn total<V: Vector<Elem = f64>, const G: usize>(mut sums: [V; G]) -> f64 {
    let mut half = G;
    while half > 1 {
        half /= 2;
        for g in 0..half {
            // SAFETY: the caller guarantees the instructions.
            sums[g] = unsafe { sums[g].add(sums[g + half]) };
        }
    }
    let mut lanes = [0.0; MULTIPLE];
    // SAFETY: a vector has at most `MULTIPLE` lanes, and the caller guarantees the instructions.
    unsafe { sums[0].store(lanes.as_mut_ptr()) };
    for half in [4, 2, 1] {
        if half < V::LANES {
            for l in 0..half {
                lanes[l] += lanes[l + half];
            }
        }
    }
    lanes[0]
}

/// Updates vector `at` of `C` columns, and adds its products to number `l` of the sums.
///
/// # Safety
///
/// The CPU must have the instructions of the vector, and the pointers must be valid for it.
#[inline(always)]
unsafe fn update_row<V: Vector<Elem = f64>, const C: usize, const L: usize>(
    [x, y, z]: [*const f64; 3],
    columns: *mut f64,
    step: usize,
    at: usize,
    l: usize,
    factors: &[[V; 2]; C],
    sums: &mut [[V; L]; C],
) {
    // SAFETY: the caller guarantees the instructions and the pointers.
    unsafe {
        let (x, y, z) = (V::load(x.add(at)), V::load(y.add(at)), V::load(z.add(at)));
        for c in 0..C {
            let to = columns.add(c * step + at);
            let value = V::load(to).add_product(factors[c][0], x).add_product(factors[c][1], y);
            value.store(to);
            sums[c][l] = sums[c][l].add(z.mul(value));
        }
    }
}

/// Updates `ALL` columns, `C` at a time, with the sums of `L` of the `G` vectors of lanes of the tree
/// in registers.
///
/// # Safety
///
/// The CPU must have the instructions of the vector, the pointers must be valid for `ALL` columns,
/// and there must be as many products.
#[inline(always)]
unsafe fn update<
    V: Vector<Elem = f64>,
    const ALL: usize,
    const C: usize,
    const G: usize,
    const L: usize,
>(
    update: Update,
    dots: &mut [f64],
) {
    let Update { first, last, vectors, step, .. } = update;
    for column in (0..ALL).step_by(C) {
        // SAFETY: the caller guarantees the instructions, and columns and vectors of `last` elements,
        // below which every row `at` is.
        unsafe {
            let columns = update.columns.add(column * step);
            let mut factors = [[V::zero(); 2]; C];
            for (c, factors) in factors.iter_mut().enumerate() {
                let [x, y] = update.factors[column + c];
                *factors = [V::splat(x), V::splat(y)];
            }
            let mut sums = [[V::zero(); G]; C];
            for group in (0..G).step_by(L) {
                let mut some = [[V::zero(); L]; C];
                let mut row = first + group * V::LANES;
                while row + L * V::LANES <= last {
                    for l in 0..L {
                        update_row(
                            vectors,
                            columns,
                            step,
                            row + l * V::LANES,
                            l,
                            &factors,
                            &mut some,
                        );
                    }
                    row += LANES;
                }
                if row < last {
                    for l in 0..L {
                        let at = row + l * V::LANES;
                        if at < last {
                            update_row(vectors, columns, step, at, l, &factors, &mut some);
                        }
                    }
                }
                for c in 0..C {
                    for l in 0..L {
                        sums[c][group + l] = some[c][l];
                    }
                }
            }
            for (c, sums) in sums.into_iter().enumerate() {
                dots[column + c] = total(sums);
            }
        }
    }
}

/// # Safety
///
/// The CPU must have the instructions of the vector, and the pointers must be valid for `C` columns.
#[inline(always)]
unsafe fn combine<V: Vector<Elem = f64>, const C: usize>(combine: Combine) {
    let Combine { columns, step, first, last, sums, factors } = combine;
    // SAFETY: the caller guarantees the instructions, and columns of `last` elements, below which
    // every row is.
    unsafe {
        let mut splat = [V::zero(); C];
        for (splat, factor) in splat.iter_mut().zip(factors) {
            *splat = V::splat(factor);
        }
        for row in (first..last).step_by(V::LANES) {
            let mut sum = V::load(sums.add(row));
            for (c, factor) in splat.into_iter().enumerate() {
                sum = sum.add_product(factor, V::load(columns.add(c * step + row)));
            }
            sum.store(sums.add(row));
        }
    }
}

/// Rotates [`TURNED`] rows of neighbouring columns.
///
/// # Safety
///
/// The CPU must have the instructions of the vector; there must be one more column than angles.
#[inline(always)]
unsafe fn rotate<V: Vector<Elem = f64>, const R: usize>(columns: *mut f64, angles: &[[f64; 2]]) {
    // SAFETY: the caller guarantees the instructions, and columns of `TURNED` elements, which are
    // `R` vectors.
    unsafe {
        let mut x = [V::zero(); R];
        for (r, x) in x.iter_mut().enumerate() {
            *x = V::load(columns.add(r * V::LANES));
        }
        let mut at = columns;
        for &[cosine, sine] in angles {
            let (c, s, minus) = (V::splat(cosine), V::splat(sine), V::splat(-sine));
            let next = at.add(TURNED);
            for (r, x) in x.iter_mut().enumerate() {
                let y = V::load(next.add(r * V::LANES));
                s.mul(y).add_product(c, *x).store(at.add(r * V::LANES));
                *x = minus.mul(*x).add_product(c, y);
            }
            at = next;
        }
        for (r, x) in x.into_iter().enumerate() {
            x.store(at.add(r * V::LANES));
        }
    }
}

/// Defines the passes of a level: the columns and the vectors of lanes whose sums are in registers,
/// the vectors of the lanes of the tree, and those of [`TURNED`] rows.
macro_rules! columns {
    (
        $name:ident, $vector:ty, $columns:literal, $some:literal, $groups:literal,
        $turned:literal $(, $features:literal)?
    ) => {
        mod $name {
            use super::{ColumnPasses, Combine, TOGETHER, Update};

            $(#[target_feature(enable = $features)])?
            unsafe fn update(columns: Update, dots: &mut [f64]) {
                // SAFETY: the caller fulfils the contract.
                unsafe {
                    super::update::<$vector, TOGETHER, $columns, $groups, $some>(columns, dots);
                }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn update_one(column: Update, dot: &mut [f64]) {
                // SAFETY: the caller fulfils the contract.
                unsafe { super::update::<$vector, 1, 1, $groups, $some>(column, dot) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn combine(columns: Combine) {
                // SAFETY: the caller fulfils the contract.
                unsafe { super::combine::<$vector, TOGETHER>(columns) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn combine_one(column: Combine) {
                // SAFETY: the caller fulfils the contract.
                unsafe { super::combine::<$vector, 1>(column) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn rotate(columns: *mut f64, angles: &[[f64; 2]]) {
                // SAFETY: the caller fulfils the contract.
                unsafe { super::rotate::<$vector, $turned>(columns, angles) }
            }

            pub(super) const PASSES: ColumnPasses = ColumnPasses {
                update: [update_one, update],
                combine: [combine_one, combine],
                rotate,
            };
        }
    };
}
#[cfg(target_arch = "x86_64")]
columns!(
    avx512,
    crate::arch::avx512::F64x8,
    4,
    4,
    4,
    4,
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"
);
#[cfg(target_arch = "x86_64")]
columns!(avx2, crate::arch::avx2::F64x4, 2, 4, 8, 8, "avx2,fma");
columns!(portable, crate::arch::portable::F64x2, 1, 8, 16, 16);

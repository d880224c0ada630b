//! The passes of reflections along columns: a vector holds neighbouring elements of one column.

use samebits_numerics::reduce::{Accumulator, BLOCK, LANES};
use samebits_numerics::simd::{self, Aligned};

pub(crate) use super::passes::TOGETHER;
use super::passes::{self, ADD, ADD_AND_SUM, SUM, check};
use super::vector::Partial;

/// The passes of one level, for one column and for [`TOGETHER`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct AlongPasses {
    add: [Pass; 2],
    sum: [Pass; 2],
    add_and_sum: [Pass; 2],
}

type Pass = passes::Pass<f64>;
type Raw = passes::Raw<f64>;

impl AlongPasses {
    /// Returns the passes of the level in force.
    pub(crate) fn new() -> AlongPasses {
        match simd::level().min(simd::supported()) {
            #[cfg(target_arch = "x86_64")]
            simd::Level::Avx512 => avx512::PASSES,
            #[cfg(target_arch = "x86_64")]
            simd::Level::Avx2 => avx2::PASSES,
            _ => portable::PASSES,
        }
    }

    /// Computes `c = fma(factor, x, c)` for each column `c`, as long as `x`, and its factor.
    ///
    /// # Panics
    ///
    /// If `columns`, which begins with the first column, is too short for columns `step` rows apart.
    #[inline]
    pub(crate) fn add_scaled(self, columns: &mut [f64], step: usize, factors: &[f64], x: &[f64]) {
        check(columns, step, factors.len(), x.len());
        let raw = Raw {
            columns: columns.as_mut_ptr(),
            step,
            count: x.len(),
            factors: factors.as_ptr(),
            x: x.as_ptr(),
            z: x.as_ptr(),
            sums: [].as_mut_ptr(),
        };
        // SAFETY: `new` took passes that the CPU has. `check` found all rows of the columns, `x` has
        // as many, there is a factor for each column, and this pass has no sums.
        unsafe { raw.run(self.add, factors.len()) }
    }

    /// Writes for each column, as long as `z`, the sum of its products with `z` over the tree.
    ///
    /// # Panics
    ///
    /// As [`add_scaled`](Self::add_scaled).
    #[inline]
    pub(crate) fn dots(self, columns: &[f64], step: usize, z: &[f64], sums: &mut [f64]) {
        check(columns, step, sums.len(), z.len());
        if z.len() > BLOCK {
            return self.long_dots(columns, step, z, sums);
        }
        let raw = Raw {
            columns: columns.as_ptr().cast_mut(),
            step,
            count: z.len(),
            factors: [].as_ptr(),
            x: z.as_ptr(),
            z: z.as_ptr(),
            sums: sums.as_mut_ptr(),
        };
        // SAFETY: `new` took passes that the CPU has. `check` found all rows of the columns, which
        // this pass only reads, `z` has as many, and there is a sum for each column.
        unsafe { raw.run(self.sum, sums.len()) }
    }

    /// Does what [`dots`](Self::dots) does for more rows than a block of the tree has.
    fn long_dots(self, columns: &[f64], step: usize, z: &[f64], sums: &mut [f64]) {
        for (c, sum) in sums.iter_mut().enumerate() {
            let column = &columns[c * step..][..z.len()];
            let mut all = Accumulator::new();
            for (column, z) in column.chunks(BLOCK).zip(z.chunks(BLOCK)) {
                let mut partial = [0.0];
                self.dots(column, column.len(), z, &mut partial);
                all.push(partial[0]);
            }
            *sum = all.finish();
        }
    }

    /// Does what [`add_scaled`](Self::add_scaled) does and then [`dots`](Self::dots), in one pass.
    ///
    /// # Panics
    ///
    /// As these, or if the numbers of factors and sums or the lengths of `x` and `z` differ.
    #[inline]
    pub(crate) fn add_scaled_dots(
        self,
        columns: &mut [f64],
        step: usize,
        factors: &[f64],
        [x, z]: [&[f64]; 2],
        sums: &mut [f64],
    ) {
        check(columns, step, factors.len(), x.len());
        assert!(x.len() == z.len() && factors.len() == sums.len(), "vectors of different lengths");
        if z.len() > BLOCK {
            self.add_scaled(columns, step, factors, x);
            return self.long_dots(columns, step, z, sums);
        }
        let raw = Raw {
            columns: columns.as_mut_ptr(),
            step,
            count: x.len(),
            factors: factors.as_ptr(),
            x: x.as_ptr(),
            z: z.as_ptr(),
            sums: sums.as_mut_ptr(),
        };
        // SAFETY: `new` took passes that the CPU has. `check` found all rows of the columns, `x` and
        // `z` have as many, and there are a factor and a sum for each column.
        unsafe { raw.run(self.add_and_sum, factors.len()) }
    }
}

/// Reads a vector, or if `PART` only the lanes from `first` up to `end`.
///
/// # Safety
///
/// As for [`Partial`].
#[inline(always)]
unsafe fn load<V: Partial<Elem = f64>, const PART: bool>(
    at: *const f64,
    first: usize,
    end: usize,
) -> V {
    // SAFETY: the caller guarantees the instructions and the lanes.
    unsafe { if PART { V::load_some(at, first, end) } else { V::load(at) } }
}

/// Takes a vector of rows of `C` columns; if `PART`, only the rows of lanes from `from` up to `end`,
/// the first of which is lane 0's row plus `from`.
///
/// # Safety
///
/// The contract of [`Pass`]; there must be these rows.
#[inline(always)]
unsafe fn visit<V: Partial<Elem = f64>, const C: usize, const KIND: usize, const PART: bool>(
    raw: Raw,
    row: isize,
    [from, end]: [usize; 2],
    factors: &[V; C],
    sums: &mut [V; C],
) {
    // SAFETY: the caller guarantees the instructions and the rows of each column, of `x` and of `z`.
    unsafe {
        let x = if KIND == SUM {
            V::zero()
        } else {
            load::<V, PART>(raw.x.wrapping_offset(row), from, end)
        };
        let z = if KIND == ADD {
            V::zero()
        } else {
            load::<V, PART>(raw.z.wrapping_offset(row), from, end)
        };
        for c in 0..C {
            let at = raw.columns.wrapping_add(c * raw.step).wrapping_offset(row);
            let mut value = load::<V, PART>(at, from, end);
            if KIND != SUM {
                value = value.add_product(factors[c], x);
                if PART {
                    value.store_some(at, from, end);
                } else {
                    value.store(at);
                }
            }
            if KIND != ADD {
                sums[c] = sums[c].add(z.mul(value));
            }
        }
    }
}

/// Runs a pass over `ALL` columns, `C` at a time, with the sums of the lanes of the tree in `G`
/// vectors.
///
/// # Safety
///
/// The contract of [`Pass`].
#[inline(always)]
unsafe fn pass<
    V: Partial<Elem = f64>,
    const ALL: usize,
    const C: usize,
    const G: usize,
    const KIND: usize,
>(
    raw: Raw,
) {
    let count = raw.count;
    for first in (0..ALL).step_by(C) {
        // SAFETY: the caller guarantees the instructions, `ALL` columns of `count` rows, which
        // `first + c` and the rows do not leave, as many elements of `x` and `z`, and as many factors
        // and sums as columns; a pass without sums or factors does not use these.
        unsafe {
            let raw = Raw {
                columns: raw.columns.add(first * raw.step),
                factors: raw.factors.wrapping_add(first),
                sums: raw.sums.wrapping_add(first),
                ..raw
            };
            let mut factors = [V::zero(); C];
            if KIND != SUM {
                for (c, factor) in factors.iter_mut().enumerate() {
                    *factor = V::splat(*raw.factors.add(c));
                }
            }
            let mut sums = [[V::zero(); C]; G];
            // Rows before the first vector that lies in one cache line. They are the last lanes of the
            // vectors of sums.
            let aligned = raw.columns.align_offset(V::LANES * size_of::<f64>()) % V::LANES;
            let before = aligned.min(count);
            if before > 0 {
                let lanes = [V::LANES - aligned, V::LANES - aligned + before];
                let row = aligned as isize - V::LANES as isize;
                visit::<V, C, KIND, true>(raw, row, lanes, &factors, &mut sums[G - 1]);
            }
            let mut row = before;
            // A copy that the compiler keeps in registers.
            let mut kept = sums;
            while row + LANES <= count {
                for (g, sums) in kept.iter_mut().enumerate() {
                    let row = (row + g * V::LANES) as isize;
                    visit::<V, C, KIND, false>(raw, row, [0, 0], &factors, sums);
                }
                row += LANES;
            }
            sums = kept;
            for sums in &mut sums {
                if row + V::LANES <= count {
                    visit::<V, C, KIND, false>(raw, row as isize, [0, 0], &factors, sums);
                } else if row < count {
                    let lanes = [0, count - row];
                    visit::<V, C, KIND, true>(raw, row as isize, lanes, &factors, sums);
                }
                row += V::LANES;
            }
            if KIND == ADD {
                continue;
            }
            for c in 0..C {
                // The vectors begin with other lanes than the tree, which changes no sum: each halving
                // adds the same pairs of lanes.
                let mut lanes = [V::zero(); G];
                for (lane, sums) in lanes.iter_mut().zip(&sums) {
                    *lane = sums[c];
                }
                let mut half = G / 2;
                while half > 0 {
                    for g in 0..half {
                        lanes[g] = lanes[g].add(lanes[g + half]);
                    }
                    half /= 2;
                }
                let mut last = Aligned([0.0; 8]);
                lanes[0].store(last.as_mut_ptr());
                let mut half = V::LANES / 2;
                while half > 0 {
                    for l in 0..half {
                        last[l] += last[l + half];
                    }
                    half /= 2;
                }
                *raw.sums.add(c) = last[0];
            }
        }
    }
}

/// Defines the passes of a level: the columns taken at a time, and the vectors of the lanes of the
/// tree.
macro_rules! along {
    ($name:ident, $vector:ty, $columns:literal, $groups:literal $(, $features:literal)?) => {
        mod $name {
            use super::{ADD, ADD_AND_SUM, AlongPasses, Raw, SUM, TOGETHER, pass};

            $(#[target_feature(enable = $features)])?
            unsafe fn one<const KIND: usize>(raw: Raw) {
                // SAFETY: the caller fulfils the contract of `Pass`.
                unsafe { pass::<$vector, 1, 1, $groups, KIND>(raw) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn several<const KIND: usize>(raw: Raw) {
                // SAFETY: the caller fulfils the contract of `Pass`.
                unsafe { pass::<$vector, TOGETHER, $columns, $groups, KIND>(raw) }
            }

            pub(super) const PASSES: AlongPasses = AlongPasses {
                add: [one::<ADD>, several::<ADD>],
                sum: [one::<SUM>, several::<SUM>],
                add_and_sum: [one::<ADD_AND_SUM>, several::<ADD_AND_SUM>],
            };
        }
    };
}
#[cfg(target_arch = "x86_64")]
along!(avx512, crate::arch::avx512::F64x8, 4, 4, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");
#[cfg(target_arch = "x86_64")]
along!(avx2, crate::arch::avx2::F64x4, 1, 8, "avx2,fma");
along!(portable, crate::arch::portable::F64x2, 1, 16);

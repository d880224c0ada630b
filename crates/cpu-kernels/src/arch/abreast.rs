//! The passes of reflections over columns of several matrices: a vector holds the same element of
//! each matrix.

use std::mem::MaybeUninit;

use samebits_numerics::reduce::{BLOCK, LANES};
use samebits_numerics::simd;

pub(crate) use super::passes::TOGETHER;
use super::passes::{self, ADD, ADD_AND_SUM, SUM, check};
use super::vector::Vector;

/// The number of matrices.
pub(crate) const MATRICES: usize = 8;

/// The same element of each matrix.
pub(crate) type Elements = [f64; MATRICES];

/// The lanes of the tree whose sums lie in memory: after the first two halvings.
const SOME: usize = LANES / 4;

/// The passes of one level, for one column and for [`TOGETHER`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct AbreastPasses {
    add: [Pass; 2],
    sum: [Pass; 2],
    add_and_sum: [Pass; 2],
    scaled_squares: Pass,
    scale_and_divide: Pass,
}

/// One more kind of pass: multiples of a column are squared and summed.
const SQUARES: usize = 3;

type Pass = passes::Pass<Elements>;
type Raw = passes::Raw<Elements>;

impl AbreastPasses {
    /// Returns the passes of the level in force.
    pub(crate) fn new() -> AbreastPasses {
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
    pub(crate) fn add_scaled(
        self,
        columns: &mut [Elements],
        step: usize,
        factors: &[Elements],
        x: &[Elements],
    ) {
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
    /// As [`add_scaled`](Self::add_scaled), or if `z` is longer than a block of the tree.
    #[inline]
    pub(crate) fn dots(
        self,
        columns: &[Elements],
        step: usize,
        z: &[Elements],
        sums: &mut [Elements],
    ) {
        check(columns, step, sums.len(), z.len());
        assert!(z.len() <= BLOCK, "{} products", z.len());
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

    /// Does what [`add_scaled`](Self::add_scaled) does and then [`dots`](Self::dots), in one pass.
    ///
    /// # Panics
    ///
    /// As these, or if the numbers of factors and sums or the lengths of `x` and `z` differ.
    #[inline]
    pub(crate) fn add_scaled_dots(
        self,
        columns: &mut [Elements],
        step: usize,
        factors: &[Elements],
        [x, z]: [&[Elements]; 2],
        sums: &mut [Elements],
    ) {
        check(columns, step, factors.len(), x.len());
        assert!(x.len() == z.len() && factors.len() == sums.len(), "vectors of different lengths");
        assert!(z.len() <= BLOCK, "{} products", z.len());
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

    /// Returns the sum of the squares of a column's elements, multiplied by factors, over the tree.
    ///
    /// # Panics
    ///
    /// If the column is longer than a block of the tree.
    #[inline]
    pub(crate) fn scaled_squares(self, column: &[Elements], factors: &Elements) -> Elements {
        assert!(column.len() <= BLOCK, "{} products", column.len());
        let mut sums = [0.0; MATRICES];
        let raw = Raw {
            columns: column.as_ptr().cast_mut(),
            step: 0,
            count: column.len(),
            factors,
            x: [].as_ptr(),
            z: [].as_ptr(),
            sums: &mut sums,
        };
        // SAFETY: `new` took passes that the CPU has, and the arguments are those of one column,
        // which this pass only reads.
        unsafe { (self.scaled_squares)(raw) }
        sums
    }

    /// Multiplies the elements of a column by the first factors and divides them by the second.
    #[inline]
    pub(crate) fn scale_and_divide(self, column: &mut [Elements], factors: &[Elements; 2]) {
        let raw = Raw {
            columns: column.as_mut_ptr(),
            step: 0,
            count: column.len(),
            factors: factors.as_ptr(),
            x: [].as_ptr(),
            z: [].as_ptr(),
            sums: [].as_mut_ptr(),
        };
        // SAFETY: `new` took passes that the CPU has, and the arguments are those of one column.
        unsafe { (self.scale_and_divide)(raw) }
    }
}

/// Takes one row of `C` columns.
///
/// # Safety
///
/// The contract of [`Pass`]; the row must be one of those of the pass.
#[inline(always)]
unsafe fn visit<V: Vector<Elem = f64>, const C: usize, const KIND: usize>(
    raw: Raw,
    row: usize,
    factors: &[V; C],
    sums: &mut [V; C],
) {
    // SAFETY: the caller guarantees the instructions, and the row of each column, of `x` and of `z`.
    unsafe {
        let adds = KIND == ADD || KIND == ADD_AND_SUM;
        let x = if adds { V::load(raw.x.add(row).cast()) } else { V::zero() };
        let sum = KIND == SUM || KIND == ADD_AND_SUM;
        let z = if sum { V::load(raw.z.add(row).cast()) } else { V::zero() };
        for c in 0..C {
            let at = raw.columns.add(c * raw.step + row).cast();
            let mut value = V::load(at);
            if KIND == SQUARES {
                value = value.mul(factors[c]);
                sums[c] = sums[c].add(value.mul(value));
            }
            if adds {
                value = value.add_product(factors[c], x);
                value.store(at);
            }
            if sum {
                sums[c] = sums[c].add(z.mul(value));
            }
        }
    }
}

/// Takes all rows, of which the tree fills at most `L` times [`SOME`] lanes. Returns the sums.
///
/// # Safety
///
/// The contract of [`Pass`].
#[inline(always)]
unsafe fn sums<V: Vector<Elem = f64>, const C: usize, const L: usize, const KIND: usize>(
    raw: Raw,
    factors: &[V; C],
) -> [V; C] {
    let count = raw.count;
    // SAFETY: the caller guarantees the instructions and `count` rows, which `row` does not leave.
    // Lanes are read after they are written: those below `filled`.
    unsafe {
        let mut lanes = [MaybeUninit::<[V; C]>::uninit(); SOME];
        let mut filled = count.min(SOME);
        for (l, lane) in lanes.iter_mut().enumerate().take(filled) {
            // Those of lane `l`, and of each lane `SOME` further on.
            let mut sums = [[V::zero(); C]; L];
            let mut row = l;
            while row + (L - 1) * SOME < count {
                for (i, sums) in sums.iter_mut().enumerate() {
                    visit::<V, C, KIND>(raw, row + i * SOME, factors, sums);
                }
                row += LANES;
            }
            for (i, sums) in sums.iter_mut().enumerate().take(L - 1) {
                if row + i * SOME < count {
                    visit::<V, C, KIND>(raw, row + i * SOME, factors, sums);
                }
            }
            // The first halvings. Lanes without terms would add nothing.
            let mut half = L / 2;
            while half > 0 {
                for i in 0..half {
                    for c in 0..C {
                        sums[i][c] = sums[i][c].add(sums[i + half][c]);
                    }
                }
                half /= 2;
            }
            lane.write(sums[0]);
        }
        for half in [4, 2, 1] {
            for l in half..filled {
                let high = lanes[l].assume_init();
                for (low, high) in lanes[l - half].assume_init_mut().iter_mut().zip(high) {
                    *low = low.add(high);
                }
            }
            filled = filled.min(half);
        }
        if count == 0 { [V::zero(); C] } else { lanes[0].assume_init() }
    }
}

/// Runs a pass over `ALL` columns, `C` at a time.
///
/// # Safety
///
/// The contract of [`Pass`].
#[inline(always)]
unsafe fn pass<V: Vector<Elem = f64>, const ALL: usize, const C: usize, const KIND: usize>(
    raw: Raw,
) {
    let Raw { step, count, .. } = raw;
    for first in (0..ALL).step_by(C) {
        for part in (0..MATRICES).step_by(V::LANES) {
            // SAFETY: the caller guarantees the instructions, `ALL` columns of `count` rows, which
            // `first + c` and `row` do not leave, as many elements of `x` and `z`, and as many
            // factors and sums as columns; a pass without sums or factors does not use these.
            unsafe {
                let at = Raw {
                    columns: raw.columns.add(first * step).cast::<f64>().add(part).cast(),
                    x: raw.x.cast::<f64>().add(part).cast(),
                    z: raw.z.cast::<f64>().add(part).cast(),
                    ..raw
                };
                let mut factors = [V::zero(); C];
                if KIND != SUM {
                    for (c, factor) in factors.iter_mut().enumerate() {
                        *factor = V::load(raw.factors.add(first + c).cast::<f64>().add(part));
                    }
                }
                if KIND == ADD {
                    for row in 0..count {
                        visit::<V, C, KIND>(at, row, &factors, &mut [V::zero(); C]);
                    }
                    continue;
                }
                let sums = match count {
                    0..=8 => sums::<V, C, 1, KIND>(at, &factors),
                    9..=16 => sums::<V, C, 2, KIND>(at, &factors),
                    _ => sums::<V, C, 4, KIND>(at, &factors),
                };
                for (c, sum) in sums.into_iter().enumerate() {
                    sum.store(raw.sums.add(first + c).cast::<f64>().add(part));
                }
            }
        }
    }
}

/// Multiplies the elements of a column by factors and divides them.
///
/// # Safety
///
/// The contract of [`Pass`]. There are two factors.
#[inline(always)]
unsafe fn scale_and_divide<V: Vector<Elem = f64>>(raw: Raw) {
    for part in (0..MATRICES).step_by(V::LANES) {
        // SAFETY: the caller guarantees the instructions, a column of `count` rows, and two factors.
        unsafe {
            let factor = V::load(raw.factors.cast::<f64>().add(part));
            let divisor = V::load(raw.factors.add(1).cast::<f64>().add(part));
            for row in 0..raw.count {
                let at = raw.columns.add(row).cast::<f64>().add(part);
                V::load(at).mul(factor).div(divisor).store(at);
            }
        }
    }
}

/// Defines the passes of a level, which take this number of columns at a time.
macro_rules! abreast {
    ($name:ident, $vector:ty, $columns:literal $(, $features:literal)?) => {
        mod $name {
            use super::{ADD, ADD_AND_SUM, AbreastPasses, Raw, SQUARES, SUM, TOGETHER, pass, scale_and_divide};

            $(#[target_feature(enable = $features)])?
            unsafe fn one<const KIND: usize>(raw: Raw) {
                // SAFETY: the caller fulfils the contract of `Pass`.
                unsafe { pass::<$vector, 1, 1, KIND>(raw) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn several<const KIND: usize>(raw: Raw) {
                // SAFETY: the caller fulfils the contract of `Pass`.
                unsafe { pass::<$vector, TOGETHER, $columns, KIND>(raw) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn divide(raw: Raw) {
                // SAFETY: the caller fulfils the contract.
                unsafe { scale_and_divide::<$vector>(raw) }
            }

            pub(super) const PASSES: AbreastPasses = AbreastPasses {
                add: [one::<ADD>, several::<ADD>],
                sum: [one::<SUM>, several::<SUM>],
                add_and_sum: [one::<ADD_AND_SUM>, several::<ADD_AND_SUM>],
                scaled_squares: one::<SQUARES>,
                scale_and_divide: divide,
            };
        }
    };
}
#[cfg(target_arch = "x86_64")]
abreast!(avx512, crate::arch::avx512::F64x8, 4, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");
#[cfg(target_arch = "x86_64")]
abreast!(avx2, crate::arch::avx2::F64x4, 2, "avx2,fma");
abreast!(portable, crate::arch::portable::F64x2, 2);

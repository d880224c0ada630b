//! The passes of reflections over rows of `W` columns: a vector holds one row of several columns.

use std::mem::MaybeUninit;

use samebits_numerics::reduce::{Accumulator, BLOCK, LANES};
use samebits_numerics::simd;

use super::vector::Vector;

/// The passes of one level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passes<const W: usize> {
    add: Pass,
    sum: Pass,
    add_and_sum: Pass,
}

/// A compiled pass.
///
/// # Safety
///
/// The CPU must have the instructions of the level for which the pass was compiled; every pointer
/// of the argument must be valid for the accesses of the pass.
type Pass = unsafe fn(Raw);

/// Raw arguments of a pass. The pointers to factors, rows and sums are valid for `W` elements each,
/// those to `x` and `z` for one element per row.
#[derive(Clone, Copy)]
struct Raw {
    factors: *const f64,
    x: *const f64,
    rows: *mut f64,
    z: *const f64,
    count: usize,
    sums: *mut f64,
}

impl<const W: usize> Passes<W> {
    /// Returns the passes of the level in force.
    pub(crate) fn new() -> Passes<W> {
        match simd::level().min(simd::supported()) {
            #[cfg(target_arch = "x86_64")]
            simd::Level::Avx512 => avx512::passes(),
            #[cfg(target_arch = "x86_64")]
            simd::Level::Avx2 => avx2::passes(),
            _ => portable::passes(),
        }
    }

    /// Computes `row[c] = fma(factors[c], x[i], row[c])` for each row `i`.
    ///
    /// # Panics
    ///
    /// If `x` is shorter than the rows.
    #[inline]
    pub(crate) fn add_scaled(self, factors: [f64; W], x: &[f64], rows: &mut [[f64; W]]) {
        let x = &x[..rows.len()];
        let mut sums = [0.0; W];
        // SAFETY: `new` took passes that the CPU has, and `x` has an element for each row.
        unsafe { (self.add)(Raw::new(&factors, x, rows, x, &mut sums)) }
    }

    /// Returns for each column the sum of `z[i] * row[c]` over the tree.
    ///
    /// # Panics
    ///
    /// If `z` is shorter than the rows.
    #[inline]
    pub(crate) fn dots(self, rows: &mut [[f64; W]], z: &[f64]) -> [f64; W] {
        let z = &z[..rows.len()];
        if rows.len() > BLOCK {
            return self.long_dots(rows, z);
        }
        let mut sums = [0.0; W];
        // SAFETY: `new` took passes that the CPU has, and `z` has an element for each row.
        unsafe { (self.sum)(Raw::new(&[0.0; W], z, rows, z, &mut sums)) }
        sums
    }

    /// Does what [`Passes::dots`] does for more rows than a block of the tree has.
    fn long_dots(self, rows: &mut [[f64; W]], z: &[f64]) -> [f64; W] {
        let mut sums = [(); W].map(|()| Accumulator::new());
        for (rows, z) in rows.chunks_mut(BLOCK).zip(z.chunks(BLOCK)) {
            let partials = self.dots(rows, z);
            sums.iter_mut().zip(partials).for_each(|(sum, partial)| sum.push(partial));
        }
        sums.map(Accumulator::finish)
    }

    /// Does what [`Passes::add_scaled`] does and then [`Passes::dots`], in one pass.
    ///
    /// # Panics
    ///
    /// As these.
    #[inline]
    pub(crate) fn add_scaled_dots(
        self,
        factors: [f64; W],
        x: &[f64],
        rows: &mut [[f64; W]],
        z: &[f64],
    ) -> [f64; W] {
        let (x, z) = (&x[..rows.len()], &z[..rows.len()]);
        if rows.len() > BLOCK {
            self.add_scaled(factors, x, rows);
            return self.long_dots(rows, z);
        }
        let mut sums = [0.0; W];
        // SAFETY: `new` took passes that the CPU has, and `x` and `z` have an element for each row.
        unsafe { (self.add_and_sum)(Raw::new(&factors, x, rows, z, &mut sums)) }
        sums
    }
}

impl Raw {
    #[inline]
    fn new<const W: usize>(
        factors: &[f64; W],
        x: &[f64],
        rows: &mut [[f64; W]],
        z: &[f64],
        sums: &mut [f64; W],
    ) -> Raw {
        Raw {
            factors: factors.as_ptr(),
            x: x.as_ptr(),
            count: rows.len(),
            rows: rows.as_mut_ptr().cast(),
            z: z.as_ptr(),
            sums: sums.as_mut_ptr(),
        }
    }
}

/// Runs a pass over `C` vectors of columns at a time, with the sums of `L` lanes of the tree in
/// registers.
///
/// # Safety
///
/// The contract of [`Pass`].
#[inline(always)]
unsafe fn pass<
    V: Vector<Elem = f64>,
    const W: usize,
    const C: usize,
    const L: usize,
    const ADD: bool,
    const SUM: bool,
>(
    raw: Raw,
) {
    let Raw { x, rows, z, count, .. } = raw;
    for column in (0..W).step_by(C * V::LANES) {
        // SAFETY: the caller guarantees the instructions, `W` factors and sums, which the columns do
        // not leave, and `count` rows of `W` elements and as many of `x` and `z`, which `row` and
        // `l` do not leave. Lanes are read after they are written: those below `count` that are
        // not above `LANES`.
        unsafe {
            let mut factors = [V::zero(); C];
            for (c, factor) in factors.iter_mut().enumerate() {
                *factor = V::load(raw.factors.add(column + c * V::LANES));
            }
            let step = |row: usize, sums: &mut [V; C]| {
                let at = rows.add(row * W + column);
                // All loads before the stores, which might change what is loaded.
                let (x, z) = (V::splat(*x.add(row)), V::splat(*z.add(row)));
                let mut values = [V::zero(); C];
                for (c, value) in values.iter_mut().enumerate() {
                    *value = V::load(at.add(c * V::LANES));
                }
                for (c, (sum, mut value)) in sums.iter_mut().zip(values).enumerate() {
                    if ADD {
                        value = value.add_product(factors[c], x);
                        value.store(at.add(c * V::LANES));
                    }
                    if SUM {
                        *sum = sum.add(z.mul(value));
                    }
                }
            };
            if !SUM {
                for row in 0..count {
                    step(row, &mut [V::zero(); C]);
                }
                continue;
            }
            let mut lanes = [MaybeUninit::<[V; C]>::uninit(); LANES];
            for first in (0..count.min(LANES)).step_by(L) {
                let mut sums = [[V::zero(); C]; L];
                let mut row = first;
                while row + L <= count {
                    for (l, sums) in sums.iter_mut().enumerate() {
                        step(row + l, sums);
                    }
                    row += LANES;
                }
                for (l, sums) in sums.into_iter().enumerate() {
                    lanes[first + l].write(sums);
                }
                for l in 0..count.saturating_sub(row) {
                    step(row + l, lanes[first + l].assume_init_mut());
                }
            }
            let mut filled = count.min(LANES);
            for half in [16, 8, 4, 2, 1] {
                for l in half..filled {
                    let high = lanes[l].assume_init();
                    for (low, high) in lanes[l - half].assume_init_mut().iter_mut().zip(high) {
                        *low = low.add(high);
                    }
                }
                filled = filled.min(half);
            }
            if count > 0 {
                for (c, sum) in lanes[0].assume_init().into_iter().enumerate() {
                    sum.store(raw.sums.add(column + c * V::LANES));
                }
            }
        }
    }
}

/// Defines the passes of a level: the number of vectors of columns, and of lanes in registers.
macro_rules! passes {
    ($name:ident, $vector:ty, $vectors:literal, $lanes:literal $(, $features:literal)?) => {
        mod $name {
            use super::{Pass, Passes, Raw, pass};

            $(#[target_feature(enable = $features)])?
            unsafe fn run<const W: usize, const ADD: bool, const SUM: bool>(raw: Raw) {
                // SAFETY: the caller fulfils the contract of `Pass`.
                unsafe {
                    if W == 16 {
                        pass::<$vector, W, $vectors, $lanes, ADD, SUM>(raw)
                    } else {
                        pass::<$vector, W, 1, 8, ADD, SUM>(raw)
                    }
                }
            }

            pub(super) fn passes<const W: usize>() -> Passes<W> {
                const { assert!(W == 8 || W == 16) }
                Passes {
                    add: run::<W, true, false> as Pass,
                    sum: run::<W, false, true> as Pass,
                    add_and_sum: run::<W, true, true> as Pass,
                }
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
passes!(avx512, crate::arch::avx512::F64x8, 2, 8, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");
#[cfg(target_arch = "x86_64")]
passes!(avx2, crate::arch::avx2::F64x4, 2, 4, "avx2,fma");
passes!(portable, crate::arch::portable::F64x2, 1, 8);

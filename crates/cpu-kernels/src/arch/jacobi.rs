//! Rotations of pairs of columns, several independent pairs at a time.

use samebits_numerics::reduce::{BLOCK, LANES};
use samebits_numerics::simd::{self, Level};

use super::vector::Vector;

/// The rows that [`Rotations::turn`] takes at a time.
pub(crate) const TURNED: usize = 16;

/// Columns have a multiple of this number of elements.
pub(crate) const MULTIPLE: usize = 8;

/// Rotates pairs of columns by angles, and writes the squares of both sides.
type Rotate = unsafe fn(Pairs, &[[f64; 2]], [&mut [f64]; 2]);

/// The rotations of one level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotations {
    dots: unsafe fn(Pairs, &mut [f64]),
    rotate: Rotate,
    turn: unsafe fn(*mut f64, *mut f64, &[[f64; 2]]),
}

/// Pairs of columns, of which `rows` elements are used: the column at `front` and that at `back`, the
/// next one and the one before, and so on. All are different, and valid for reads and writes.
#[derive(Clone, Copy)]
struct Pairs {
    front: *mut f64,
    back: *mut f64,
    /// The distance between columns.
    step: usize,
    rows: usize,
}

impl Pairs {
    /// Pairs the columns of `front` with those of `back` in descending order; uses block number
    /// `block` of each.
    ///
    /// # Panics
    ///
    /// If the two differ in length, or are not `count` columns of a multiple of [`MULTIPLE`]
    /// elements that have the block.
    fn new(front: &mut [f64], back: &mut [f64], count: usize, block: usize) -> Pairs {
        let (step, first) = (front.len() / count, block * BLOCK);
        assert!(
            front.len() == back.len()
                && front.len() == step * count
                && step.is_multiple_of(MULTIPLE)
                && first < step,
            "block {block} of columns of {step} elements"
        );
        let last = &mut back[(count - 1) * step + first..];
        let rows = BLOCK.min(step - first);
        Pairs { back: last.as_mut_ptr(), front: front[first..].as_mut_ptr(), step, rows }
    }
}

impl Rotations {
    /// Returns the rotations of the level in force.
    pub(crate) fn new() -> Rotations {
        match simd::level().min(simd::supported()) {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512::ROTATIONS,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2::ROTATIONS,
            _ => portable::ROTATIONS,
        }
    }

    /// Computes the dot product of each column of `front` with one of `back`: of the first one with
    /// the last one, and so on. Of longer columns this is the partial of the given block of the tree.
    ///
    /// # Panics
    ///
    /// If the slices do not hold a column for each product, or columns of different lengths; see
    /// [`MULTIPLE`].
    pub(crate) fn dots(
        self,
        front: &mut [f64],
        back: &mut [f64],
        block: usize,
        products: &mut [f64],
    ) {
        if !products.is_empty() {
            let pairs = Pairs::new(front, back, products.len(), block);
            // SAFETY: `new` took functions that the CPU can run, and there is a pair per product.
            unsafe { (self.dots)(pairs, products) }
        }
    }

    /// Rotates the pairs of [`Rotations::dots`] by the cosine and sine of each, unless the cosine is
    /// 0, and writes the squares of rotated columns: those of `front`, and those of `back`.
    ///
    /// # Panics
    ///
    /// As [`Rotations::dots`], and if there are fewer squares than angles.
    pub(crate) fn rotate(
        self,
        front: &mut [f64],
        back: &mut [f64],
        block: usize,
        angles: &[[f64; 2]],
        [p, q]: [&mut [f64]; 2],
    ) {
        let squares = [&mut p[..angles.len()], &mut q[..angles.len()]];
        if !angles.is_empty() {
            let pairs = Pairs::new(front, back, angles.len(), block);
            // SAFETY: `new` took functions that the CPU can run, and there is a pair per angle.
            unsafe { (self.rotate)(pairs, angles, squares) }
        }
    }

    /// Rotates a column with each of `others`, unless the cosine is 0.
    ///
    /// # Panics
    ///
    /// If there are fewer angles than other columns.
    pub(crate) fn turn(
        self,
        column: &mut [f64; TURNED],
        others: &mut [[f64; TURNED]],
        angles: &[[f64; 2]],
    ) {
        let angles = &angles[..others.len()];
        // SAFETY: `new` took functions that the CPU can run. There is another column per angle.
        unsafe { (self.turn)(column.as_mut_ptr(), others.as_mut_ptr().cast(), angles) }
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

/// # Safety
///
/// The CPU must have the instructions of the vector; there must be a pair for each product.
#[inline(always)]
unsafe fn dots<V: Vector<Elem = f64>, const G: usize>(pairs: Pairs, products: &mut [f64]) {
    for (i, product) in products.iter_mut().enumerate() {
        // SAFETY: the caller guarantees the instructions and pair `i`, of whose columns only the
        // elements before `rows` are read.
        unsafe {
            let (x, y) = (pairs.front.add(i * pairs.step), pairs.back.sub(i * pairs.step));
            let mut sums = [V::zero(); G];
            let mut row = 0;
            while row < pairs.rows {
                let left = (pairs.rows - row) / V::LANES;
                for (g, sum) in sums.iter_mut().enumerate() {
                    if g < left {
                        let at = row + g * V::LANES;
                        *sum = sum.add(V::load(x.add(at)).mul(V::load(y.add(at))));
                    }
                }
                row += LANES;
            }
            *product = total(sums);
        }
    }
}

/// # Safety
///
/// The CPU must have the instructions of the vector; there must be a pair for each angle and pair
/// of squares.
#[inline(always)]
unsafe fn rotate<V: Vector<Elem = f64>, const G: usize>(
    pairs: Pairs,
    angles: &[[f64; 2]],
    [squares_p, squares_q]: [&mut [f64]; 2],
) {
    let squares = squares_p.iter_mut().zip(squares_q);
    for (i, (&[c, s], (square_p, square_q))) in angles.iter().zip(squares).enumerate() {
        if c == 0.0 {
            continue;
        }
        // SAFETY: the caller guarantees the instructions and pair `i`, of whose columns only the
        // elements before `rows` are used.
        unsafe {
            let (x, y) = (pairs.front.add(i * pairs.step), pairs.back.sub(i * pairs.step));
            let (c, s, minus) = (V::splat(c), V::splat(s), V::splat(-s));
            let (mut sums_x, mut sums_y) = ([V::zero(); G], [V::zero(); G]);
            let mut row = 0;
            while row < pairs.rows {
                let left = (pairs.rows - row) / V::LANES;
                for g in 0..G {
                    if g < left {
                        let (x, y) = (x.add(row + g * V::LANES), y.add(row + g * V::LANES));
                        let (p, q) = (V::load(x), V::load(y));
                        let (new_p, new_q) =
                            (minus.mul(q).add_product(c, p), c.mul(q).add_product(s, p));
                        new_p.store(x);
                        new_q.store(y);
                        sums_x[g] = sums_x[g].add(new_p.mul(new_p));
                        sums_y[g] = sums_y[g].add(new_q.mul(new_q));
                    }
                }
                row += LANES;
            }
            *square_p = total(sums_x);
            *square_q = total(sums_y);
        }
    }
}

/// Rotates [`TURNED`] elements of a column with those of others.
///
/// # Safety
///
/// The CPU must have the instructions of the vector; there must be another column for each angle.
#[inline(always)]
unsafe fn turn<V: Vector<Elem = f64>, const C: usize>(
    front: *mut f64,
    back: *mut f64,
    angles: &[[f64; 2]],
) {
    // SAFETY: the caller guarantees the instructions, and columns of `TURNED` elements, which is
    // `C` vectors.
    unsafe {
        let mut p = [V::zero(); C];
        for (c, p) in p.iter_mut().enumerate() {
            *p = V::load(front.add(c * V::LANES));
        }
        for (i, &[cosine, sine]) in angles.iter().enumerate() {
            if cosine == 0.0 {
                continue;
            }
            let (cos, sin, minus) = (V::splat(cosine), V::splat(sine), V::splat(-sine));
            for (c, p) in p.iter_mut().enumerate() {
                let back = back.add(i * TURNED + c * V::LANES);
                let q = V::load(back);
                cos.mul(q).add_product(sin, *p).store(back);
                *p = minus.mul(q).add_product(cos, *p);
            }
        }
        for (c, p) in p.into_iter().enumerate() {
            p.store(front.add(c * V::LANES));
        }
    }
}

/// Defines the rotations of a level: the number of vectors of the lanes of the tree, and of
/// [`TURNED`] rows.
macro_rules! rotations {
    ($name:ident, $vector:ty, $groups:literal, $turned:literal $(, $features:literal)?) => {
        mod $name {
            use super::{Pairs, Rotations};

            $(#[target_feature(enable = $features)])?
            unsafe fn dots(pairs: Pairs, products: &mut [f64]) {
                // SAFETY: the caller fulfils the contract.
                unsafe { super::dots::<$vector, $groups>(pairs, products) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn rotate(pairs: Pairs, angles: &[[f64; 2]], squares: [&mut [f64]; 2]) {
                // SAFETY: the caller fulfils the contract.
                unsafe { super::rotate::<$vector, $groups>(pairs, angles, squares) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe fn turn(p: *mut f64, back: *mut f64, angles: &[[f64; 2]]) {
                // SAFETY: the caller fulfils the contract.
                unsafe { super::turn::<$vector, $turned>(p, back, angles) }
            }

            pub(super) const ROTATIONS: Rotations = Rotations { dots, rotate, turn };
        }
    };
}
#[cfg(target_arch = "x86_64")]
rotations!(avx512, crate::arch::avx512::F64x8, 4, 2, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");
#[cfg(target_arch = "x86_64")]
rotations!(avx2, crate::arch::avx2::F64x4, 8, 4, "avx2,fma");
rotations!(portable, crate::arch::portable::F64x2, 16, 8);

//! What a register tile needs from an instruction set.

/// One vector register of `LANES` elements.
///
/// # Safety
///
/// Every method requires that the CPU has the instructions of the implementing type. The
/// implementations are `#[inline(always)]`, so that they compile to single instructions inside
/// a function with the matching `#[target_feature]`.
pub(super) unsafe trait Vector: Copy {
    /// The element type.
    type Elem: Copy;
    /// Elements in a register.
    const LANES: usize;

    /// All lanes +0.
    unsafe fn zero() -> Self;
    /// All lanes `x`.
    unsafe fn splat(x: Self::Elem) -> Self;
    /// Reads `LANES` elements; `from` may be unaligned and must be valid for that many reads.
    unsafe fn load(from: *const Self::Elem) -> Self;
    /// Writes `LANES` elements; `to` may be unaligned and must be valid for that many writes.
    unsafe fn store(self, to: *mut Self::Elem);
    /// `a * b + self` with one rounding per lane.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// Lane-wise sum, one rounding.
    unsafe fn add(self, other: Self) -> Self;
    /// Asks for the line of `at` ahead of its use; any address will do.
    #[inline(always)]
    unsafe fn prefetch(_at: *const Self::Elem) {}
    /// NaN lanes become the canonical quiet NaN, other lanes stay as they are.
    unsafe fn canonical(self) -> Self;
}

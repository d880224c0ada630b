//! The vector operations that a register tile needs.

/// One vector register of `LANES` elements.
///
/// # Safety
///
/// Every method requires a CPU with the instructions of the implementing type. The implementations
/// are `#[inline(always)]`, so that they compile to single instructions inside a function with the
/// matching `#[target_feature]`.
pub(super) unsafe trait Vector: Copy {
    /// The element type.
    type Elem: Copy;
    /// The number of elements in a register.
    const LANES: usize;

    /// Returns a register of +0.
    unsafe fn zero() -> Self;
    /// Returns a register with `x` in every lane.
    unsafe fn splat(x: Self::Elem) -> Self;
    /// Reads `LANES` elements; `from` may be unaligned and must be valid for that many reads.
    unsafe fn load(from: *const Self::Elem) -> Self;
    /// Writes `LANES` elements; `to` may be unaligned and must be valid for that many writes.
    unsafe fn store(self, to: *mut Self::Elem);
    /// Returns `a * b + self`, rounded once per lane.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// Returns the lane-wise product, rounded once.
    unsafe fn mul(self, other: Self) -> Self;
    /// Returns the lane-wise quotient, rounded once.
    unsafe fn div(self, other: Self) -> Self;
    /// Returns the lane-wise sum, rounded once.
    unsafe fn add(self, other: Self) -> Self;
    /// Prefetches the cache line of `at`; any address is allowed.
    #[inline(always)]
    unsafe fn prefetch(_at: *const Self::Elem) {}
    /// Replaces NaN lanes with the canonical quiet NaN; other lanes are unchanged.
    unsafe fn canonical(self) -> Self;
}

/// A vector register of which some lanes may be read or written.
///
/// # Safety
///
/// As for [`Vector`].
pub(super) unsafe trait Partial: Vector {
    /// Reads the lanes from `first` up to `end`; the others are +0. `from` must be valid for reads of
    /// these lanes.
    unsafe fn load_some(from: *const Self::Elem, first: usize, end: usize) -> Self;
    /// Writes the lanes from `first` up to `end`; `to` must be valid for writes of these.
    unsafe fn store_some(self, to: *mut Self::Elem, first: usize, end: usize);
}

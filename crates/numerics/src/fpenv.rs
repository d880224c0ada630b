//! The floating-point environment of the calling thread.
//!
//! All arithmetic here relies on IEEE rules: round to nearest, with subnormals kept. A library
//! built with `-ffast-math`, or the caller, may have switched a thread to flush-to-zero or to
//! another rounding mode. [`ieee`] sets the IEEE mode for the duration of a computation and
//! restores the previous one.

use core::hint::black_box;
use core::sync::atomic::{AtomicBool, Ordering};

/// Runs `f` with round-to-nearest and subnormals kept, then restores the caller's mode.
///
/// # Determinism
///
/// The result of `f` does not depend on the control word that the caller left in the CPU.
///
/// # Examples
///
/// ```
/// let tiny = f32::from_bits(1);
/// assert_eq!(samebits_numerics::fpenv::ieee(|| tiny + 0.0), tiny);
/// ```
#[inline(always)]
pub fn ieee<R>(f: impl FnOnce() -> R) -> R {
    let _guard = Guard::enter();
    // The compiler does not know that arithmetic depends on the control word. So the captures of
    // `f` and its result pass through memory that, for all the compiler knows, anyone may change:
    // no operation can then move to code that runs in the caller's mode.
    let mut f = f;
    black_box(&mut f);
    black_box(f())
}

/// Runs `f`, then sets the caller's mode again if `f` left another one. It is for calls in which a
/// thread waits and may run the work of other libraries meanwhile.
#[inline(always)]
pub fn keep<R>(f: impl FnOnce() -> R) -> R {
    let _kept = Kept { found: control::read() };
    f()
}

/// Returns true if the calling thread rounds to nearest and keeps subnormals.
pub fn is_ieee() -> bool {
    control::read() & control::MASK == control::IEEE
}

/// Returns true once [`ieee`] has found a thread of this process in another mode.
pub fn was_repaired() -> bool {
    REPAIRED.load(Ordering::Relaxed)
}

static REPAIRED: AtomicBool = AtomicBool::new(false);

/// A guard that restores the control word it replaced, even if the computation panics.
struct Guard {
    replaced: Option<control::Word>,
}

impl Guard {
    #[inline(always)]
    fn enter() -> Guard {
        let found = control::read();
        let is_ieee = found & control::MASK == control::IEEE;
        Guard { replaced: if is_ieee { None } else { Some(repaired(found)) } }
    }
}

/// Sets the IEEE mode in place of `found`, which it returns.
#[cold]
#[inline(never)]
fn repaired(found: control::Word) -> control::Word {
    control::write((found & !control::MASK) | control::IEEE);
    REPAIRED.store(true, Ordering::Relaxed);
    found
}

/// Restores the control word of the caller.
#[cold]
#[inline(never)]
fn restore(found: control::Word) {
    control::write(found);
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(found) = self.replaced {
            restore(found);
        }
    }
}

/// A guard that restores the control word it found, if it was changed meanwhile.
struct Kept {
    found: control::Word,
}

impl Drop for Kept {
    #[inline(always)]
    fn drop(&mut self) {
        if (control::read() ^ self.found) & control::MASK != 0 {
            restore(self.found);
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod control {
    use core::arch::asm;

    pub(super) type Word = u32;
    /// The bits flush-to-zero (15), rounding control (14, 13) and denormals-are-zero (6) of MXCSR.
    pub(super) const MASK: Word = 0xe040;
    pub(super) const IEEE: Word = 0;

    #[inline(always)]
    pub(super) fn read() -> Word {
        let mut word: Word = 0;
        // SAFETY: stores the 32-bit MXCSR to a live, aligned u32 and touches nothing else;
        // SSE is part of x86-64.
        unsafe {
            asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags));
        }
        word
    }

    #[inline(always)]
    pub(super) fn write(word: Word) {
        // SAFETY: `word` is a value that `read` returned, with only FTZ, RC and DAZ bits changed,
        // so no reserved bit is set. The asm block is a barrier for memory, and `ieee` passes all
        // operands and results of arithmetic through memory. The block changes the exception flags
        // of MXCSR, so it must not claim `preserves_flags`.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack));
        }
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod control {
    use core::arch::asm;

    pub(super) type Word = u64;
    /// The bits FZ16 (19), rounding mode (23, 22), FZ (24), default NaN (25), AH (1) and FIZ (0).
    pub(super) const MASK: Word = 0x03c8_0003;
    pub(super) const IEEE: Word = 0;

    #[inline(always)]
    pub(super) fn read() -> Word {
        let word: Word;
        // SAFETY: reads a user-accessible control register and has no other effect.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags)) };
        word
    }

    #[inline(always)]
    pub(super) fn write(word: Word) {
        // SAFETY: `word` is a value that `read` returned with only the bits of MASK changed.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags)) };
    }
}

// Miri does not run inline assembly, and always rounds to nearest.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod control {
    pub(super) type Word = u32;
    pub(super) const MASK: Word = 0;
    pub(super) const IEEE: Word = 0;

    #[inline(always)]
    pub(super) fn read() -> Word {
        0
    }

    #[inline(always)]
    pub(super) fn write(_: Word) {}
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;

    /// The bits of flush-to-zero and denormals-are-zero.
    const FLUSH: control::Word = 0x8040;

    #[test]
    fn flush_to_zero_set_by_the_caller_is_undone_and_restored() {
        let before = control::read();
        control::write(control::read() | FLUSH);
        let smallest = f32::from_bits(1);
        let flushed = black_box(smallest) + black_box(smallest);
        let kept = ieee(|| black_box(smallest) + black_box(smallest));
        let after = control::read();
        control::write(before);
        assert_eq!(flushed.to_bits(), 0, "the fault was not planted");
        assert_eq!(kept.to_bits(), 2);
        assert_eq!(after & control::MASK, 0x8040, "the caller's setting was not restored");
        assert!(was_repaired());
    }

    #[test]
    fn a_mode_that_foreign_work_leaves_is_undone() {
        let before = control::read();
        let flush = || control::write(control::read() | FLUSH);
        let inside = ieee(|| {
            keep(flush);
            is_ieee()
        });
        let caught = std::panic::catch_unwind(|| {
            keep(|| {
                flush();
                panic!("planted");
            })
        });
        let after = control::read();
        control::write(before);
        assert!(inside);
        assert!(caught.is_err());
        assert_eq!((before ^ after) & control::MASK, 0);
    }

    #[test]
    fn the_setting_is_restored_after_a_panic() {
        let before = control::read();
        control::write(control::read() | FLUSH);
        let caught = std::panic::catch_unwind(|| ieee(|| panic!("planted")));
        let after = control::read();
        control::write(before);
        assert!(caught.is_err());
        assert_eq!(after & control::MASK, 0x8040);
    }
}

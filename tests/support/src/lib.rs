//! Faults that the tests of several crates plant.

/// Leaves the calling thread with subnormals flushed to zero, as a library built with `-ffast-math`
/// does. Has no effect on architectures without such a mode.
pub fn flush_to_zero() {
    #[cfg(target_arch = "x86_64")]
    {
        let mut word: u32 = 0;
        // SAFETY: stores MXCSR to a live, aligned u32 and loads it again with flush-to-zero
        // (bit 15) and denormals-are-zero (bit 6) set, which every x86-64 CPU has. That subnormals
        // then vanish is what the caller asks for.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack));
            word |= 0x8040;
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack));
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let mut word: u64;
        // SAFETY: reads FPCR and writes it back with FZ (bit 24) set, which user code may do.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack));
            word |= 1 << 24;
            std::arch::asm!("msr fpcr, {}", in(reg) word, options(nostack));
        }
    }
}

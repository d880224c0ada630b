//! Code shared by the tests of several crates: all SIMD levels in turn, a fault to plant, a count of
//! allocations, the text of snapshots, and a decomposition in its written order.

pub mod allocations;
pub mod listing;
pub mod svd;

use std::sync::{Mutex, PoisonError};

use samebits_numerics::simd::{self, Level};

/// Calls `f` with every SIMD level of this machine in force, from the lowest up, then restores the
/// previous level.
///
/// The level applies to the process, so callers take turns. `cargo xtask tidy` keeps tests from
/// setting it in another way.
///
/// # Panics
///
/// If the level has changed after `f`, which may then have compared a level with itself.
pub fn at_every_level(mut f: impl FnMut(Level)) {
    static TURN: Mutex<()> = Mutex::new(());
    struct Restored(Level);
    impl Drop for Restored {
        fn drop(&mut self) {
            simd::limit(self.0);
        }
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let _restored = Restored(simd::level());
    for level in Level::ALL.into_iter().filter(|&level| level <= simd::supported()) {
        simd::limit(level);
        f(level);
        assert_eq!(simd::level(), level, "the level has changed under the test");
    }
}

/// Leaves the calling thread with subnormals flushed to zero, as a library built with `-ffast-math`
/// does. It has no effect on architectures without such a mode.
pub fn flush_to_zero() {
    #[cfg(target_arch = "x86_64")]
    {
        let mut word: u32 = 0;
        // SAFETY: stores MXCSR to a live, aligned u32 and loads it again with flush-to-zero (bit
        // 15) and denormals-are-zero (bit 6) set, which every x86-64 CPU has. The caller asks for
        // subnormals to vanish.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{self, RecvTimeoutError};
    use std::time::Duration;

    #[test]
    fn callers_take_turns_and_leave_the_level_as_it_was() {
        let before = simd::level();
        let (sender, entered) = mpsc::channel();
        let mut sender = Some(sender);
        std::thread::scope(|scope| {
            at_every_level(|level| {
                if let Some(sender) = sender.take() {
                    scope.spawn(move || at_every_level(|_| sender.send(()).expect("a receiver")));
                }
                // Long enough for a thread that nothing keeps out.
                let early = entered.recv_timeout(Duration::from_millis(100));
                assert_eq!(early, Err(RecvTimeoutError::Timeout), "another caller at {level:?}");
                assert_eq!(simd::level(), level);
            });
            entered.recv().expect("its turn");
        });
        assert_eq!(simd::level(), before);
        let caught = std::panic::catch_unwind(|| at_every_level(|_| panic!("planted")));
        assert!(caught.is_err());
        assert_eq!(simd::level(), before);
    }
}

//! One algorithm, several instruction sets, the same bits.
//!
//! A kernel is written once, in plain Rust, as the `#[inline(always)]` body of [`Kernel::run`].
//! [`dispatch`] compiles the body once per [`Level`] and runs the best version for the machine.
//! Rust neither contracts nor reorders floating-point operations, and `mul_add` rounds once whether
//! it is an instruction or a function call. So the level changes only the speed.
//!
//! The environment variable `SAMEBITS_SIMD` (`portable`, `avx2`, `avx512`) forces the level *down*;
//! [`limit`] does the same from code. If the variable holds anything else ([`unknown_request`]),
//! operations on tensors return an error, and kernels called without tensors take the portable
//! level.
//!
//! Without the feature `std` there is no environment, and the best level is the one for which the
//! program was compiled.

use core::sync::atomic::{AtomicU8, Ordering};

/// Detects a CPU feature. `core` cannot query the CPU, so without `std` this tells if the feature
/// was enabled at compile time.
#[cfg(all(target_arch = "x86_64", feature = "std"))]
use std::is_x86_feature_detected as has;

#[cfg(all(target_arch = "x86_64", not(feature = "std")))]
macro_rules! has {
    ($feature:tt) => {
        cfg!(target_feature = $feature)
    };
}

/// An instruction-set level. Higher levels contain the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// The instructions that every CPU of the target architecture has. On x86, fused multiply-add
    /// is a function call.
    Portable = 1,
    /// AVX2 with FMA.
    Avx2 = 2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512 = 3,
}

impl Level {
    /// All levels, lowest first.
    pub const ALL: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

    /// Returns the name for `SAMEBITS_SIMD`.
    pub fn name(self) -> &'static str {
        match self {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    /// Returns the level with this [`name`](Level::name), if there is one.
    pub fn from_name(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// A value that starts at a multiple of 64 bytes, as long as a cache line.
///
/// Arrays that a [`Kernel`] keeps on the stack belong in one. Otherwise their vectors may lie in two cache
/// lines each, which takes up to twice as long, depending on the caller's stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub struct Aligned<T>(pub T);

impl<T> core::ops::Deref for Aligned<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> core::ops::DerefMut for Aligned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A computation that [`dispatch`] compiles for each level.
///
/// `run`, and every helper it wants vectorised, must be `#[inline(always)]`: only inlined code
/// is compiled with the level's instructions.
pub trait Kernel {
    /// The type of the result.
    type Output;
    /// Runs the computation.
    fn run(self) -> Self::Output;
}

/// Runs `kernel` with the instructions of [`level`] and in an IEEE environment
/// (see [`fpenv`](crate::fpenv)).
///
/// # Determinism
///
/// The level cannot change a bit of the result.
///
/// # Examples
///
/// ```
/// use samebits_numerics::simd;
///
/// struct Axpy<'a>(f32, &'a [f32], &'a mut [f32]);
///
/// impl simd::Kernel for Axpy<'_> {
///     type Output = ();
///     #[inline(always)]
///     fn run(self) {
///         for (y, &x) in self.2.iter_mut().zip(self.1) {
///             *y = self.0.mul_add(x, *y);
///         }
///     }
/// }
///
/// let mut y = [1.0; 3];
/// simd::dispatch(Axpy(2.0, &[1.0, 2.0, 3.0], &mut y));
/// assert_eq!(y, [3.0, 5.0, 7.0]);
/// ```
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: `level` returns none that this CPU lacks.
    crate::fpenv::ieee(|| unsafe { run_at(level(), kernel) })
}

/// Runs `kernel` at `level`, or at the best level of this machine if that is lower.
#[inline]
pub fn dispatch_at<K: Kernel>(level: Level, kernel: K) -> K::Output {
    // SAFETY: no level above what this CPU has.
    crate::fpenv::ieee(|| unsafe { run_at(level.min(supported()), kernel) })
}

/// Runs `kernel` as [`dispatch`] does, in the environment of the caller: inside
/// [`fpenv::ieee`](crate::fpenv::ieee), where a kernel of a few thousand elements need not look
/// again.
#[inline]
pub fn dispatch_inside<K: Kernel>(kernel: K) -> K::Output {
    debug_assert!(crate::fpenv::is_ieee(), "not inside `fpenv::ieee`");
    // SAFETY: `level` returns none that this CPU lacks.
    unsafe { run_at(level(), kernel) }
}

/// # Safety
///
/// The CPU must have the level: one that is at most [`supported`].
#[inline(always)]
unsafe fn run_at<K: Kernel>(level: Level, kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        match level {
            // SAFETY: the caller promises AVX-512 F, BW, DQ, VL, AVX2 and FMA.
            Level::Avx512 => unsafe { kernel.run_avx512() },
            // SAFETY: the caller promises AVX2 and FMA.
            Level::Avx2 => unsafe { kernel.run_avx2() },
            Level::Portable => kernel.run_portable(),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = level;
        kernel.run()
    }
}

/// Returns the level in force: the best of this CPU, or a lower one set by `SAMEBITS_SIMD` or
/// [`limit`].
#[inline]
pub fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        1 => Level::Portable,
        2 => Level::Avx2,
        3 => Level::Avx512,
        _ => initial_level(),
    }
}

/// Limits the level to at most `level` for the whole process, and returns the level now in force.
/// Tests use it to show that the level changes no bit.
pub fn limit(level: Level) -> Level {
    let now = level.min(supported());
    LEVEL.store(now as u8, Ordering::Relaxed);
    now
}

/// Returns the best level that this CPU has.
pub fn supported() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        if !(has!("avx2") && has!("fma")) {
            Level::Portable
        } else if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
            Level::Avx512
        } else {
            Level::Avx2
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        Level::Portable
    }
}

/// The level in force, which this CPU has; 0 until first use.
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// Returns the value of `SAMEBITS_SIMD` if it is no level's [`name`](Level::name). Read once.
pub fn unknown_request() -> Option<&'static str> {
    request().err()
}

/// Returns the level that `SAMEBITS_SIMD` requests, if any, or its invalid value.
#[cfg(feature = "std")]
fn request() -> Result<Option<Level>, &'static str> {
    static REQUEST: std::sync::OnceLock<Result<Option<Level>, String>> = std::sync::OnceLock::new();
    let request = REQUEST.get_or_init(|| match std::env::var_os("SAMEBITS_SIMD") {
        None => Ok(None),
        Some(value) => match value.to_str().and_then(Level::from_name) {
            Some(level) => Ok(Some(level)),
            None => Err(value.to_string_lossy().into_owned()),
        },
    });
    request.as_ref().copied().map_err(String::as_str)
}

#[cfg(not(feature = "std"))]
fn request() -> Result<Option<Level>, &'static str> {
    Ok(None)
}

#[cold]
fn initial_level() -> Level {
    let first = match request() {
        Ok(level) => level.unwrap_or(Level::Avx512),
        Err(_) => Level::Portable,
    };
    let first = first.min(supported());
    // If another thread has set a limit meanwhile, that limit stays.
    match LEVEL.compare_exchange(0, first as u8, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => first,
        Err(_) => level(),
    }
}

/// The body of a kernel, once for each level. These are methods, not functions with a type parameter, because
/// rustc compiles a method in the unit of its type: functions of this module would all be in one unit.
#[cfg(target_arch = "x86_64")]
trait Levels: Kernel + Sized {
    /// A separate function, as for the other levels: if inlined, it would be compiled again at every
    /// caller of [`dispatch`].
    #[inline(never)]
    fn run_portable(self) -> Self::Output {
        self.run()
    }

    /// # Safety
    ///
    /// The CPU must have AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn run_avx2(self) -> Self::Output {
        self.run()
    }

    /// # Safety
    ///
    /// The CPU must have every feature named here.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn run_avx512(self) -> Self::Output {
        self.run()
    }
}

#[cfg(target_arch = "x86_64")]
impl<K: Kernel> Levels for K {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for level in Level::ALL {
            assert_eq!(Level::from_name(level.name()), Some(level));
        }
        assert_eq!(Level::from_name("sse9"), None);
    }

    #[test]
    fn dispatch_never_exceeds_what_the_cpu_has() {
        assert!(level() <= supported());
        assert_eq!(limit(Level::Portable), Level::Portable);
        assert_eq!(level(), Level::Portable);
        limit(supported());
    }
}

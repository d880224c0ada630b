use std::fmt;
use std::sync::OnceLock;

use parking_lot::Mutex;
use samebits::numerics::simd::{self, Level};
use samebits::{Device, DeviceKind, ThreadsMissing, on_threads};
use serde::Serialize;

/// Conditions that must not change any bit: the device of a computation, and its execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The device of the inputs.
    pub device: Device,
    /// The number of threads that the operations share; `None` for the process's.
    pub threads: Option<usize>,
    /// The highest instruction set that may be used.
    pub simd: Level,
    /// True if other threads keep the processor busy meanwhile.
    pub contention: bool,
}

impl Setting {
    /// Creates the setting of a device with all threads and the best instruction set in force.
    pub fn of(device: Device) -> Setting {
        Setting { device, threads: None, simd: in_force(), contention: false }
    }

    /// Returns the settings worth comparing on this machine: [`host`](Self::host), and every other
    /// device without and with contention.
    pub fn all() -> Vec<Setting> {
        let plain = samebits::devices().into_iter().skip(1).map(Setting::of);
        let others = plain.flat_map(|plain| [plain, Setting { contention: true, ..plain }]);
        Setting::host().into_iter().chain(others).collect()
    }

    /// Returns the settings worth comparing on the CPU: all threads; 1, 3 and 16 threads; every
    /// lower instruction set; contention.
    pub fn host() -> Vec<Setting> {
        let plain = Setting::of(Device::Cpu);
        let threads = [1, 3, 16].map(|n| Setting { threads: Some(n), ..plain });
        let lower = Level::ALL.into_iter().filter(|&level| level < plain.simd);
        let mut host = vec![plain];
        host.extend(threads);
        host.extend(lower.map(|simd| Setting { simd, ..plain }));
        host.push(Setting { contention: true, ..plain });
        host
    }

    /// Returns a short list of settings: each device with all threads, and the CPU with one thread
    /// at the lowest instruction set.
    pub fn few() -> Vec<Setting> {
        let mut few: Vec<_> = samebits::devices().into_iter().map(Setting::of).collect();
        let lowest = Setting { threads: Some(1), simd: Level::Portable, ..few[0] };
        few.push(lowest);
        few
    }

    /// Runs `f` in this setting. The instruction set belongs to the process, so only one setting is
    /// entered at a time; entering a second from within deadlocks.
    ///
    /// # Errors
    ///
    /// [`ThreadsMissing`] if the threads cannot be started.
    pub fn enter<R: Send>(self, f: impl FnOnce() -> R + Send) -> Result<R, ThreadsMissing> {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock();
        let _level = Limited::to(self.simd);
        let run = || on_threads(self.threads, f);
        if self.contention { under_contention(run) } else { run() }
    }
}

/// Formats the setting as in `cpu, 3 threads, portable, contention`.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.device)?;
        match self.threads {
            None => write!(f, ", all threads")?,
            Some(1) => write!(f, ", 1 thread")?,
            Some(threads) => write!(f, ", {threads} threads")?,
        }
        if self.device.kind() == DeviceKind::Cpu {
            write!(f, ", {}", self.simd.name())?;
        }
        if self.contention { write!(f, ", contention") } else { Ok(()) }
    }
}

impl Serialize for Setting {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut fields = serializer.serialize_struct("Setting", 4)?;
        fields.serialize_field("device", &self.device.to_string())?;
        fields.serialize_field("threads", &self.threads)?;
        fields.serialize_field("simd", self.simd.name())?;
        fields.serialize_field("contention", &self.contention)?;
        fields.end()
    }
}

/// Returns the instruction set that the process was started with, whatever the current setting.
fn in_force() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(simd::level)
}

/// Guard that restores the instruction set, even after a panic.
struct Limited;

impl Limited {
    fn to(level: Level) -> Limited {
        in_force();
        simd::limit(level);
        Limited
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        simd::limit(in_force());
    }
}

/// The number of threads that keep the processor busy: more cores than most machines can spare.
const BUSY: usize = 8;

/// Runs `f` while other threads compute and move memory. This interrupts and delays the threads of
/// operations and changes the order of their work.
fn under_contention<R>(f: impl FnOnce() -> R) -> R {
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        // Stop even if `f` panics: the scope waits for its threads.
        let _stop = Stop(stop);
        for seed in 0..BUSY as u64 {
            scope.spawn(move || {
                let mut words: Vec<u64> = (seed..seed + 4096).collect();
                while !stop.load(Ordering::Relaxed) {
                    words.rotate_left(7);
                    for word in &mut words {
                        *word = std::hint::black_box(word.wrapping_mul(0x9e3779b97f4a7c15));
                    }
                    std::thread::yield_now();
                }
            });
        }
        f()
    })
}

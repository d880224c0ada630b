//! Time estimates of launches on a GPU, from their counts.
//!
//! A launch takes as long as the busiest part of the GPU. The figures come from the makers'
//! documents and published measurements, rounded: they rank kernels, and no more.

use super::counts::{Launches, Measured};

/// The capabilities of a GPU model.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) name: &'static str,
    multiprocessors: f64,
    /// Cycles per second.
    clock: f64,
    /// Bytes per second, of memory and of the second-level cache.
    memory: f64,
    cache: f64,
    /// f64 operations of a multiprocessor per cycle.
    doubles: f64,
    /// Bytes of shared memory of a multiprocessor, and the blocks and threads that it holds.
    shared: f64,
    blocks: f64,
    threads: f64,
}

/// 4.8 TB/s, 67 TFLOP/s of f32, 34 of f64.
pub(crate) const H200: Gpu = Gpu {
    name: "H200",
    multiprocessors: 132.0,
    clock: 1.98e9,
    memory: 4.8e12,
    cache: 6.0e12,
    doubles: 64.0,
    shared: 228.0 * 1024.0,
    blocks: 32.0,
    threads: 2048.0,
};

/// 1 TB/s, 83 TFLOP/s of f32, 1.3 of f64.
pub(crate) const RTX: Gpu = Gpu {
    name: "RTX 4090",
    multiprocessors: 128.0,
    clock: 2.52e9,
    memory: 1.0e12,
    cache: 5.0e12,
    doubles: 2.0,
    shared: 100.0 * 1024.0,
    blocks: 24.0,
    threads: 1536.0,
};

/// Bytes of a sector.
const SECTOR: f64 = 32.0;
/// Registers of a multiprocessor.
const REGISTERS: f64 = 65536.0;
/// Cycles of a load from memory.
const LATENCY: f64 = 600.0;
/// Cycles between two instructions of a warp that runs alone.
const ALONE: f64 = 4.0;
/// Cycles between two atomics on one address.
const SAME_ADDRESS: f64 = 2.0;
/// Atomics on different addresses per cycle, by the whole GPU.
const ATOMICS: f64 = 64.0;
/// Seconds from the end of a launch to the start of the next.
const LAUNCH: f64 = 2e-6;

/// The multiprocessor resources of a kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Resources {
    pub(crate) registers: f64,
    pub(crate) shared: f64,
}

/// A time and its bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Time {
    pub(crate) seconds: f64,
    pub(crate) bound: &'static str,
}

impl Gpu {
    /// Returns the minimum time of an operation: its bytes from memory, its operations at full
    /// speed.
    pub(crate) fn roofline(&self, case: &Measured) -> f64 {
        let peak = 256.0 * self.multiprocessors * self.clock;
        (case.bytes / self.memory).max(case.flops / peak)
    }

    /// Returns the number of blocks of a kernel that a multiprocessor holds at once.
    pub(crate) fn resident(&self, kernel: &Launches, resources: Resources) -> f64 {
        let threads = kernel.get("threads").max(32.0);
        // A warp's registers are allocated in units of 256.
        let registers = (resources.registers.max(16.0) * 32.0 / 256.0).ceil() * 256.0;
        let shared = resources.shared + kernel.get("dynamic_shared") + 1024.0;
        let by_registers = (REGISTERS / registers / (threads / 32.0).ceil()).floor();
        let by_threads = (self.threads / threads).floor();
        let by_shared = (self.shared / shared).floor();
        by_registers.min(by_threads).min(by_shared).clamp(1.0, self.blocks)
    }

    /// Returns the time of all launches of a kernel.
    pub(crate) fn time(&self, kernel: &Launches, resources: Resources) -> Time {
        let each = |name: &str| kernel.get(name) / kernel.count;
        let blocks = each("blocks").max(1.0);
        let busy = blocks.min(self.multiprocessors);
        // Cycles of a multiprocessor, which issues four instructions in each: 128 operations of
        // f32, 64 of integers, 16 conversions or approximate functions, 32 lanes of loads. A
        // division is a sequence of other operations.
        let float = each("float") + 8.0 * each("divide_float");
        let double = each("double") + 10.0 * each("divide_double");
        let word = each("word")
            + 2.0 * each("wide")
            + 14.0 * each("divide_word")
            + 70.0 * each("divide_wide");
        let special = each("approximate")
            + each("convert")
            + each("divide_float")
            + each("divide_double")
            + each("divide_word");
        let memory = ["global", "local", "constant", "atomic"].map(each).into_iter().sum::<f64>();
        let access = memory + each("exchange") + each("shared_waves") + each("constant_replays");
        let asked = each("loads_asked") + each("stores_asked");
        let others = each("move") + each("control") + each("barrier") + each("shared");
        let issue = float + double + word + special + memory + each("exchange") + others;
        let part = |cycles: f64| cycles / busy / self.clock;
        let sectors = |names: [&str; 2]| SECTOR * names.map(each).into_iter().sum::<f64>();
        // An atomic reads and writes.
        let moved =
            sectors(["loads_touched", "stores_touched"]) + 2.0 * SECTOR * each("atomics_touched");
        let cached = sectors(["loads_fetched", "stores_asked"]) + SECTOR * each("atomics_asked");
        let waves = (blocks / self.multiprocessors / self.resident(kernel, resources)).ceil();
        let wait = LATENCY / self.clock;
        let alone = kernel.get("waits") * wait + kernel.get("longest") * ALONE / self.clock;
        let parts = [
            ("memory", moved / self.memory),
            ("cache", cached / self.cache),
            ("issue", part(issue / 4.0)),
            ("f32", part(float / 4.0)),
            ("f64", part(double * 32.0 / self.doubles)),
            ("integers", part(word / 2.0)),
            ("conversions", part(special * 2.0)),
            ("accesses", part(access.max(asked / 4.0))),
            ("longest warp", alone),
            ("waits", waves * each("block_waits") / blocks * wait),
            ("one address", kernel.get("atomic_hottest") * SAME_ADDRESS / self.clock),
            ("atomics", each("atomic_lanes") / ATOMICS / self.clock),
        ];
        let most = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let (bound, seconds) = most.unwrap_or(("nothing", 0.0));
        Time { seconds: kernel.count * (seconds + LAUNCH), bound }
    }

    /// Returns the time of a case, and the bound of its longest kernel.
    pub(crate) fn total(&self, case: &Measured, of: impl Fn(&str) -> Resources) -> Time {
        let mut sum = Time { seconds: 0.0, bound: "nothing" };
        let mut longest = 0.0;
        for (name, kernel) in &case.kernels {
            let Time { seconds, bound } = self.time(kernel, of(name));
            sum.seconds += seconds;
            if seconds > longest {
                (longest, sum.bound) = (seconds, bound);
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(figures: &[(&str, f64)]) -> Launches {
        let figures = figures.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        Launches { count: 1.0, figures }
    }

    #[test]
    fn a_copy_is_bound_by_memory() {
        let sectors = 16e6 * 4.0 / 32.0;
        let copy = kernel(&[
            ("blocks", 62500.0),
            ("threads", 256.0),
            ("global", 1e6),
            ("loads_touched", sectors),
            ("stores_touched", sectors),
            ("waits", 1.0),
            ("block_waits", 62500.0),
        ]);
        let time = H200.time(&copy, Resources { registers: 16.0, shared: 0.0 });
        assert_eq!(time.bound, "memory");
        // 128 MB at 4.8 TB/s are 26.7 us, and 2 us for the launch.
        assert!((time.seconds - 28.7e-6).abs() < 1e-7, "{time:?}");
        assert_eq!(H200.resident(&copy, Resources { registers: 64.0, shared: 0.0 }), 4.0);
    }

    #[test]
    fn a_serial_loop_is_bound_by_its_warp() {
        let walk = kernel(&[("blocks", 1.0), ("threads", 32.0), ("waits", 10_000.0)]);
        let time = H200.time(&walk, Resources::default());
        assert_eq!(time.bound, "longest warp");
        assert!(time.seconds > 3e-3, "{time:?}");
    }

    #[test]
    fn f64_is_slow_on_an_rtx() {
        let sums = kernel(&[("blocks", 4096.0), ("threads", 256.0), ("double", 1e6)]);
        let [fast, slow] = [H200, RTX].map(|gpu| gpu.time(&sums, Resources::default()));
        assert_eq!(slow.bound, "f64");
        assert!(slow.seconds > 10.0 * fast.seconds, "{fast:?} {slow:?}");
    }
}

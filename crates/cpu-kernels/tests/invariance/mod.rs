//! Runs a computation with several numbers of threads and at every SIMD level.

#![allow(dead_code, reason = "each test program uses a part of it")]

use samebits_cpu_kernels::Float;
use std::fmt::Debug;
use test_support::at_every_level;

/// Calls `f` at every level, with several numbers of threads.
pub(crate) fn on_every_machine(f: impl Fn(&str) + Sync) {
    at_every_level(|level| {
        for threads in THREADS {
            on_threads(threads, || f(&format!("{} with {threads} threads", level.name())));
        }
    });
}

const THREADS: [usize; 4] = [1, 2, 3, 7];

/// Returns the result of `f`, after asserting that it is the same everywhere.
pub(crate) fn everywhere<R: PartialEq + Debug + Send>(f: impl Fn() -> R + Sync) -> R {
    let mut all: Option<R> = None;
    at_every_level(|level| {
        for threads in THREADS {
            let here = on_threads(threads, &f);
            match &all {
                Some(first) => assert_eq!(&here, first, "{threads} threads at {level:?}"),
                None => all = Some(here),
            }
        }
    });
    all.expect("there is a level")
}

pub(crate) fn on_threads<R: Send>(threads: usize, f: impl Fn() -> R + Sync) -> R {
    let f = &f;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    pool.install(f)
}

/// Returns the bits of every element, so that a comparison sees NaN and the sign of zero.
pub(crate) fn bits<T: Float>(values: &[T]) -> Vec<u64> {
    values
        .iter()
        .map(|&x| {
            if size_of::<T>() == 4 {
                (x.into() as f32).to_bits().into()
            } else {
                x.into().to_bits()
            }
        })
        .collect()
}

/// The generator SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Draws from -1 to 1, in steps that f32 represents.
    pub(crate) fn unit<T: Float>(&mut self) -> T {
        T::from_f64((self.next() >> 40) as f64 / 8388608.0 - 1.0)
    }

    pub(crate) fn units<T: Float>(&mut self, n: usize) -> Vec<T> {
        (0..n).map(|_| self.unit()).collect()
    }

    /// Draws numbers of very different magnitude, so that a rounded sum shows its order.
    pub(crate) fn wide<T: Float>(&mut self, n: usize) -> Vec<T> {
        (0..n)
            .map(|_| {
                let scale = f64::from_bits((1023 - 30 + self.next() % 60) << 52);
                T::from_f64(self.unit::<f64>() * scale)
            })
            .collect()
    }

    pub(crate) fn indices(&mut self, n: usize, size: usize) -> Vec<i64> {
        (0..n).map(|_| self.below(size) as i64).collect()
    }

    pub(crate) fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

//! The samebits side of `cargo xtask bench --random` and of `cargo xtask gpu-bundle`.
//!
//! Reads a line of JSON, does what it says, and prints one: `"limits"` measures the machine,
//! `{"prepare": case}` makes a case's inputs and warms it up, `{"run": n}` calls it `n` times, and
//! `{"time": case, "name": .., "level": ..}` does all of this on a device, at a level, and says when
//! the device is done; `"calls"` limits the calls of a batch. `python/benchmarks/random_cases.py` is
//! the same in PyTorch. The environment sets `THREADS` (2), `DEVICE` (cpu) and `LEVEL` (portable).

#![allow(clippy::mod_module_files, reason = "Cargo takes a file beside this one for a bench")]
#![allow(clippy::print_stdout, reason = "the replies are what this program is for")]

mod cases;
mod clock;

use std::env;
use std::hint::black_box;
use std::io::{self, BufRead, Write};
use std::time::Instant;

use samebits::{Determinism, Device, backend, determinism, manual_seed};
use samebits_numerics::simd;
use serde_json::{Value, json};

use cases::{Call, Case};

/// Milliseconds and processor milliseconds of one call, by the median and the mean of `calls`.
fn timed(
    calls: usize,
    mut call: impl FnMut() -> samebits::Result<usize>,
) -> samebits::Result<Value> {
    let mut times = Vec::with_capacity(calls);
    let before = clock::processor_seconds();
    for _ in 0..calls {
        let start = Instant::now();
        call()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let busy = (clock::processor_seconds() - before) * 1e3 / calls as f64;
    times.sort_by(f64::total_cmp);
    Ok(json!({ "ms": times[calls / 2], "busy": busy }))
}

/// Makes a case and calls it two times, the second one timed.
fn prepare(case: &Value) -> Result<(Call, Value), Box<dyn std::error::Error>> {
    manual_seed(1);
    let case: Case = serde_json::from_value(case.clone())?;
    let mut call = case.call()?;
    call()?;
    let start = Instant::now();
    let results = call()?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    let passes = if case.both { 2 } else { 1 };
    let bytes = passes * (results + case.bytes());
    Ok((call, json!({ "ms": ms, "bytes": bytes })))
}

/// Milliseconds of the calls of a case that a `time` question makes at most, and of a batch.
const TIME_MS: f64 = 200.0;
const BATCH_MS: f64 = 20.0;

fn level(name: &str) -> Determinism {
    match name {
        "not_guaranteed" => Determinism::NotGuaranteed,
        "run_to_run" => Determinism::RunToRun,
        _ => Determinism::Portable,
    }
}

/// Times batches of calls at a level, each until the device is done: the median of the batches, per
/// call.
fn on_device(question: &Value) -> Result<Value, Box<dyn std::error::Error>> {
    let level = level(question["level"].as_str().unwrap_or_default());
    let device = backend(cases::device())?;
    determinism::scope(level, || {
        let (mut call, ready) = prepare(&question["time"])?;
        device.synchronize()?;
        let mut batch = |calls: usize| -> samebits::Result<f64> {
            let start = Instant::now();
            for _ in 0..calls {
                call()?;
            }
            device.synchronize()?;
            Ok(start.elapsed().as_secs_f64() * 1e3 / calls as f64)
        };
        let ms = batch(1)?;
        let most = question["calls"].as_f64().unwrap_or(2000.0);
        let calls = (BATCH_MS / ms).clamp(1.0, most) as usize;
        let batches = (TIME_MS / (ms * calls as f64)).clamp(1.0, most.min(9.0)) as usize;
        let mut times = (0..batches).map(|_| batch(calls)).collect::<samebits::Result<Vec<_>>>()?;
        times.sort_by(f64::total_cmp);
        Ok(json!({ "ms": times[batches / 2], "bytes": ready["bytes"] }))
    })
}

/// What the machine does at most on this pool's threads.
fn limits() -> Value {
    let copies: Vec<Value> = (13..=27).step_by(2).map(|bits| json!(copy(1 << bits))).collect();
    json!({ "copy": copies, "f32": fma_rate(1f32), "f64": fma_rate(1f64) })
}

/// Returns a number of bytes that are read and written together, and how many of them are copied
/// per second.
#[expect(clippy::disallowed_methods, reason = "measures the machine, and decides no bit")]
fn copy(bytes: usize) -> (usize, f64) {
    let n = bytes / 16;
    let (from, mut to) = (vec![1u64; n], vec![0u64; n]);
    let piece = n.div_ceil(rayon::current_num_threads()).max(1024);
    let repeats = ((1usize << 27) / bytes).clamp(3, 4096);
    let best = (0..5).map(|_| {
        let start = Instant::now();
        rayon::scope(|scope| {
            for (to, from) in to.chunks_mut(piece).zip(from.chunks(piece)) {
                scope.spawn(move |_| {
                    for _ in 0..repeats {
                        black_box(&mut *to).copy_from_slice(black_box(from));
                    }
                });
            }
        });
        start.elapsed().as_secs_f64() / repeats as f64
    });
    (bytes, bytes as f64 / best.fold(f64::INFINITY, f64::min))
}

/// Fused multiplications and additions of independent numbers.
struct Fmas<T>(T, usize);

macro_rules! fmas {
    ($($float:ty),*) => {
        $(
            impl simd::Kernel for Fmas<$float> {
                type Output = $float;

                #[inline(always)]
                fn run(self) -> $float {
                    // Twelve registers of the widest kind hide the latency of the instruction.
                    const N: usize = 12 * 64 / size_of::<$float>();
                    let mut sums = [self.0; N];
                    let factor = black_box(self.0);
                    for _ in 0..self.1 {
                        for sum in &mut sums {
                            *sum = sum.mul_add(factor, factor);
                        }
                    }
                    sums.iter().sum()
                }
            }
        )*
    };
}

fmas!(f32, f64);

/// Measures fused multiplications and additions per second of all threads.
#[expect(clippy::disallowed_methods, reason = "measures the machine, and decides no bit")]
fn fma_rate<T: Copy + Send + Sync>(one: T) -> f64
where
    Fmas<T>: simd::Kernel,
    <Fmas<T> as simd::Kernel>::Output: Send,
{
    const ROUNDS: usize = 1_000_000;
    let lanes = 12 * 64 / size_of::<T>();
    let best = (0..5).map(|_| {
        let start = Instant::now();
        rayon::broadcast(|_| black_box(simd::dispatch(Fmas(one, ROUNDS))));
        start.elapsed().as_secs_f64()
    });
    let done = (ROUNDS * lanes * rayon::current_num_threads()) as f64;
    done / best.fold(f64::INFINITY, f64::min)
}

/// The reply to a question.
fn reply(question: &Value, prepared: &mut Option<Call>) -> Value {
    if question == "limits" {
        return limits();
    }
    if question.get("time").is_some() {
        let mut reply =
            on_device(question).unwrap_or_else(|error| json!({ "error": error.to_string() }));
        for name in ["name", "level"] {
            reply[name] = question[name].clone();
        }
        return reply;
    }
    let answer = if let Some(case) = question.get("prepare") {
        *prepared = None;
        prepare(case).map(|(call, ready)| {
            *prepared = Some(call);
            ready
        })
    } else {
        match (question["run"].as_u64(), prepared) {
            (Some(calls), Some(call)) => timed(calls as usize, call).map_err(Into::into),
            _ => Err(format!("expected a question, got {question}").into()),
        }
    };
    answer.unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

fn main() -> io::Result<()> {
    let threads = env::var("THREADS").ok().and_then(|value| value.parse().ok()).unwrap_or(2);
    if let Ok(name) = env::var("DEVICE") {
        cases::set_device(name.parse::<Device>().expect("DEVICE is the name of a device"));
    }
    if let Ok(name) = env::var("LEVEL") {
        determinism::set_default(level(&name));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.expect("threads can be started").install(|| {
        let mut prepared = None;
        for line in io::stdin().lock().lines() {
            let question: Value = serde_json::from_str(&line?)?;
            println!("{}", reply(&question, &mut prepared));
            io::stdout().flush()?;
        }
        Ok(())
    })
}

//! The same bits on a CUDA device as on the CPU: every shared case and every case of the reference
//! figures, with two block sizes, under four schedules of the emulated device, or on the GPU that
//! the driver offers. Under the first schedule, inputs are also strided; under the others, they
//! begin one, two and three elements into their storage. Every launched kernel has at least the
//! level that the registry promises for its operation.
//!
//! Without a driver, the test prints the reason and returns early.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests talk to their reader")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::{Arc, Mutex, Once};

use samebits::autotune::{self, Config};
use samebits::functional as f;
use samebits::ops::{Cast, ScatterReduceKind, Unary, UnaryKind};
use samebits::tensor_core::Tensor as Value;
use samebits::tensor_core::backend::DigestSum;
use samebits::tensor_core::dispatch;
use samebits::{
    DType, Determinism, Device, DeviceKind, Error, Result, Tensor, cuda, determinism, dispatch_at,
    ledger,
};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use workspace_tests::{
    Case, Family, conformance, drawn_cases, families, offset_families, short_digest,
    strided_families, unreached,
};

#[path = "devices/steps.rs"]
mod steps;

const CUDA: Device = Device::Cuda(0);
/// The schedules of the emulated device, and the threads of a block under each. A GPU has its own
/// schedule.
const SCHEDULES: [(&str, u32); 4] =
    [("in-order", 256), ("reversed", 96), ("seed:1", 256), ("seed:2", 96)];
const SCHEDULE: &str = "SAMEBITS_EMULATOR_SCHEDULE";
/// The block size, set in children, which the emulated device runs under one schedule each.
const CHILD: &str = "SAMEBITS_TEST_CHILD";
/// The file in which children find the digests of the CPU.
const GOLDEN: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/devices-golden.txt");

/// The number of draws of operations with random shapes.
const DRAWS: u64 = 100;
/// Parts of the names of cases that take the emulated device long. It runs them under the first
/// schedule only, and smaller cases of the same operations under all.
const LONG: [&str; 11] = [
    "bincount 700001",
    " f64 [17] 0 [300000]",
    "embedding grad f64 1 1 300000",
    "norm f32 [300007]",
    "norm f64 [300007]",
    "norm f64 [33, 5000]",
    " grad f32 [300007]",
    " grad f64 [300007]",
    "[1, 3000]",
    "40, 40]",
    " wide ",
];

/// Parts of the names of cases that take a second or more there, and f64, whose kernels are those of
/// f32 in another type. The schedules after the first share them, so that each runs under two.
const SHARED: [&str; 12] = [
    " f64",
    "[40000] 0 [150000]",
    "[3, 5000, 7]",
    "300000",
    "700001",
    "100003",
    "[33, 5000]",
    "[6, 50, 7, 20]",
    " i64",
    "Cubic",
    "logcumsumexp",
    "halves ",
];

/// As [`LONG`], and also left out for strided inputs: a layout affects them as it affects smaller
/// cases, and f64 as it affects f32.
const LONG_IF_STRIDED: [&str; 8] =
    [" f64", "300007", "300000", "100003", "700001", "40000", "33, 5000", "Cubic"];

/// Digests by the names of cases.
type Digests = BTreeMap<String, String>;

#[test]
fn a_gpu_has_the_bits_of_the_cpu() {
    if !is_available() {
        return;
    }
    let emulated = samebits::backend(CUDA).unwrap().name().contains("emulated device");
    if let Ok(block) = std::env::var(CHILD) {
        let text = std::fs::read_to_string(GOLDEN).unwrap();
        let entry = |line: &str| line.split_once(' ').map(|(d, name)| (name.into(), d.into()));
        let golden = text.lines().filter_map(entry).collect();
        return compare(block.parse().unwrap(), schedule().unwrap(), &golden);
    }
    let golden = golden();
    if !emulated {
        return [(256, 0), (96, 1)]
            .into_iter()
            .for_each(|(block, offset)| compare(block, offset, &golden));
    }
    let lines = golden.iter().map(|(name, digest)| format!("{digest} {name}\n"));
    std::fs::write(GOLDEN, lines.collect::<String>()).unwrap();
    std::thread::scope(|scope| {
        for (name, block) in SCHEDULES {
            scope.spawn(move || run_under(name, block));
        }
    });
}

/// Returns the digests of the CPU.
fn golden() -> Digests {
    let golden = |case: &Case| short_digest(&run(case).unwrap()).unwrap();
    let all = cases(Device::Cpu, families(Device::Cpu));
    all.iter().map(|case| (case.name.clone(), golden(case))).collect()
}

/// Returns the cases of some families and those of the reference figures.
fn cases(device: Device, families: Vec<Family>) -> Vec<Case> {
    let mut cases: Vec<_> = families.into_iter().flat_map(|family| family.cases).collect();
    let reference = conformance::Reference::read(&conformance::own_reference()).unwrap();
    cases.extend(conformance::cases(&Arc::new(reference), device));
    cases
}

/// Compares every case with the CPU, with `block` threads in a block and inputs that begin `offset`
/// elements into their storage.
fn compare(block: u32, offset: usize, golden: &Digests) {
    let (launches, audited) = (Launches::of(|| compare_all(block, offset, golden)), audited());
    let count = launches.0.lock().unwrap().kernels.len();
    assert!(count > audited.len() / 2, "only {count} kernels");
    let broken = launches.broken(&audited);
    assert!(broken.is_empty(), "kernels below the level promised for them: {broken:?}");
}

fn compare_all(block: u32, offset: usize, golden: &Digests) {
    cuda::install_with_block_size(0, block).unwrap();
    // Convolutions as the heuristic chooses them: `autotune.rs` has the races.
    let config = autotune::default_config(CUDA).unwrap();
    autotune::configure(CUDA, Config { benchmark: false, ..config }).unwrap();
    let hurries = schedule().is_some_and(|schedule| schedule > 0);
    let is_among = |case: &Case, names: &[&str]| names.iter().any(|name| case.name.contains(name));
    let families = if offset == 0 { families(CUDA) } else { offset_families(CUDA, offset) };
    let cases = cases(CUDA, families);
    assert_eq!(cases.len(), golden.len(), "as many cases as on the CPU");
    let mut different = Vec::new();
    let mut check = |case: &Case, how: &str, found: Result<Vec<Value>>| {
        let found = found.and_then(|tensors| short_digest(&tensors));
        if found.as_ref() != Ok(&golden[&case.name]) {
            different.push(format!("{}{how}: {found:?}", case.name));
        }
    };
    let mut turns = 0;
    let mut is_due = |case: &Case| {
        if !hurries || !is_among(case, &SHARED) {
            return true;
        }
        turns += 1;
        schedule() == Some(1 + turns % (SCHEDULES.len() - 1))
    };
    for case in cases.iter().filter(|case| !(hurries && is_among(case, &LONG)) && is_due(case)) {
        check(case, "", run(case));
        // Without a file, the heuristic chooses an algorithm with the same bits.
        if case.name.starts_with("conv") && case.name.contains("f32 [2, 16, 40") {
            check(case, " at RunToRun", determinism::scope(Determinism::RunToRun, || run(case)));
        }
    }
    // The second schedule has them, so that all take about as long.
    if schedule().is_none_or(|schedule| schedule == 1) {
        let strided = strided_families(CUDA).into_iter().flat_map(|family| family.cases);
        let is_long = |case: &Case| is_among(case, &LONG) || is_among(case, &LONG_IF_STRIDED);
        for case in strided.filter(|case| !is_long(case)) {
            check(&case, ", strided", run(&case));
        }
    }
    different.extend(differing_drawn_cases());
    assert!(different.is_empty(), "other bits with blocks of {block}: {different:#?}");
    if !hurries {
        let missing = unreached(DeviceKind::Cuda, Determinism::RunToRun);
        assert!(missing.is_empty(), "kernels that no case reaches: {missing:#?}");
    }
}

/// Kernels by the level of the operation that launched them, from the traces of both.
#[derive(Clone, Default)]
struct Launches(Arc<Mutex<Launched>>);

#[derive(Default)]
struct Launched {
    /// The level of the operation dispatched last.
    promised: Option<String>,
    /// Kernels and the levels promised for them.
    kernels: BTreeSet<(String, String)>,
    /// Kernels in the order of their launches.
    names: Vec<String>,
}

impl<S: tracing::Subscriber> Layer<S> for Launches {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut launched = self.0.lock().unwrap();
        if let Some(level) = fields.0.remove("level") {
            launched.promised = Some(level);
        }
        if let Some(kernel) = fields.0.remove("kernel") {
            launched.names.push(kernel.clone());
            if let Some(level) = launched.promised.clone() {
                launched.kernels.insert((kernel, level));
            }
        }
    }
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl tracing::field::Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

/// Levels of kernels, by name.
type Levels = BTreeMap<String, Determinism>;

/// Returns the levels for which `cargo xtask audit-kernels` has read the kernels' code.
fn audited() -> Levels {
    let manifest: toml::Table =
        include_str!("../crates/cuda-kernels/ptx/manifest.toml").parse().unwrap();
    let families = manifest["family"].as_array().unwrap();
    let entries = families.iter().flat_map(|family| family["entry"].as_array().unwrap());
    let text = |entry: &toml::Value, key| entry[key].as_str().unwrap().to_owned();
    entries.map(|entry| (text(entry, "name"), level(&text(entry, "level")))).collect()
}

fn level(name: &str) -> Determinism {
    Determinism::ALL.into_iter().find(|level| level.to_string() == name).expect("a level")
}

impl Launches {
    /// Returns the launches of `f`.
    fn of(f: impl FnOnce()) -> Launches {
        let launches = Launches::default();
        let subscriber = tracing_subscriber::registry().with(launches.clone());
        tracing::subscriber::with_default(subscriber, f);
        launches
    }

    /// Returns kernels with a level below that of the operation that launched them.
    fn broken(&self, audited: &Levels) -> Vec<(String, String)> {
        let launched = self.0.lock().unwrap();
        let is_broken = |(kernel, promised): &&(_, String)| audited[kernel] < level(promised);
        launched.kernels.iter().filter(is_broken).cloned().collect()
    }
}

#[test]
fn a_kernel_below_the_level_promised_for_it_is_found() {
    if !is_available() {
        return;
    }
    let x = Value::from_slice(&[1.0f32, 2.0], &[2]).unwrap().to(CUDA).unwrap();
    let launches = Launches::of(|| {
        let square = Unary { kind: UnaryKind::Square, x };
        dispatch_at(&square, Determinism::Portable).unwrap();
    });
    let launched = launches.0.lock().unwrap().kernels.clone();
    assert!(!launched.is_empty(), "a launch that left no trace");
    assert_eq!(launches.broken(&audited()), []);
    let lowest = audited().into_keys().map(|kernel| (kernel, Determinism::NotGuaranteed));
    assert_eq!(launches.broken(&lowest.collect()), Vec::from_iter(launched));
}

/// A function of integers, and of indices into them.
type OfIntegers = fn(&Tensor, &Tensor) -> Result<Tensor>;
const OF_INTEGERS: [(&str, OfIntegers); 25] = [
    ("eq", |x, i| f::eq(x, i)),
    ("where_", |x, i| f::where_(&f::lt(x, 0)?, x, i)),
    ("sum", |x, _| f::sum(x, (), false)),
    ("sort", |x, _| Ok(f::sort(x, 0, false)?.0)),
    ("gather", |x, i| f::gather(x, 0, i)),
    ("index_copy", |x, i| f::index_copy(x, 0, i, x)),
    ("neg", |x, _| f::neg(x)),
    ("abs", |x, _| f::abs(x)),
    ("relu", |x, _| f::relu(x)),
    ("square", |x, _| f::square(x)),
    ("add", |x, i| f::add(x, i)),
    ("sub", |x, i| f::sub(x, i)),
    ("mul", |x, i| f::mul(x, i)),
    ("maximum", |x, i| f::maximum(x, i)),
    ("minimum", |x, i| f::minimum(x, i)),
    ("pow", |x, i| f::pow(x, i)),
    ("floor_divide", |x, _| f::floor_divide(x, 7)),
    ("remainder", |x, _| f::remainder(x, 7)),
    ("cumsum", |x, _| f::cumsum(x, 0)),
    ("cumprod", |x, _| f::cumprod(x, 0)),
    ("index_add", |x, i| f::index_add(x, 0, i, x, 1.0)),
    ("index_put", |x, i| f::index_put(x, std::slice::from_ref(i), x, true)),
    ("index_reduce", |x, i| f::index_reduce(x, 0, i, x, ScatterReduceKind::Prod, true)),
    ("scatter_add", |x, i| f::scatter_add(x, 0, i, x)),
    ("scatter_reduce", |x, i| f::scatter_reduce(x, 0, i, x, ScatterReduceKind::Amax, true)),
];

#[test]
fn functions_of_integers_are_those_of_the_cpu() {
    if !is_available() {
        return;
    }
    let on = |device| {
        let x = Tensor::new([3, -5, 7, i64::MAX, 0, i64::MIN])?.to(device)?;
        Ok::<_, Error>((x, Tensor::new([0, 1, 0, 2, 5, 5])?.to(device)?))
    };
    let (host, device) = (on(Device::Cpu).unwrap(), on(CUDA).unwrap());
    for (name, function) in OF_INTEGERS {
        let found = function(&device.0, &device.1).unwrap();
        let expected = function(&host.0, &host.1).unwrap();
        assert_eq!(found.to_bytes().unwrap(), expected.to_bytes().unwrap(), "{name}");
    }
}

/// A mistake of an earlier operation, which the next wait for the device reports, is still unknown
/// after these calls. `bincount` waits.
#[test]
fn calls_of_given_length_do_not_wait() {
    if !is_available() {
        return;
    }
    let on = |x: Tensor| x.to(CUDA).unwrap();
    let calls = |x: &Tensor, table: &Tensor, repeats: &Tensor| {
        let weights = f::affine(&x.to_dtype(DType::F64)?, 0.5, 0.25)?;
        let bags = x.reshape([2, 3])?;
        let sums = f::embedding_bag(table, &bags, None, None, f::BagOptions::default())?;
        let starts = Tensor::new([0i64, 4])?;
        Ok::<_, Error>([
            f::bincount_n(x, None, 5)?,
            f::bincount_n(x, Some(&weights), 5)?,
            f::bincount_n(x, Some(&weights.to_dtype(DType::F32)?), 300)?,
            f::repeat_interleave_to(table, repeats, 0, 6)?,
            f::repeat_interleave_to(table, &repeats.narrow(0, 0, 1)?, 0, 8)?,
            f::embedding_bag(table, x, Some(&starts), None, f::BagOptions::default())?,
            sums.sum(())?.backward().map(|gradients| gradients.of(table).unwrap().clone())?,
            sums,
        ])
    };
    let table = || Tensor::new([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]).unwrap();
    let grown = |table: Tensor| table.set_requires_grad(true).unwrap();
    let (x, repeats) = (Tensor::new([3i64, 0, 1, 1, 2, 3]).unwrap(), Tensor::new([2i64, 0, 3, 1]));
    let repeats = repeats.unwrap();
    let expected = calls(&x, &grown(table()), &repeats).unwrap();
    let (x, table, repeats) = (on(x), grown(on(table())), on(repeats));
    let beyond = on(Tensor::new([9i64]).unwrap());
    let pending = f::index_select(&table.detach(), 0, &beyond).unwrap();
    let found = calls(&x, &table, &repeats).expect("no wait for the device");
    assert!(f::bincount(&x, None, 5).is_err(), "a wait without the pending error");
    assert!(pending.shape() == [1, 2]);
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found.shape(), expected.shape(), "call {i}");
        assert_eq!(found.to_bytes().unwrap(), expected.to_bytes().unwrap(), "call {i}");
    }
    for wrong in [[2, 0, 3, 2], [2, 0, 3, 0], [3, -1, 3, 1]] {
        let repeats = on(Tensor::new(wrong).unwrap());
        let late = f::repeat_interleave_to(&table, &repeats, 0, 6).unwrap();
        assert!(late.to_bytes().is_err(), "{wrong:?}");
    }
    let late = f::bincount_n(&x, None, 3).unwrap();
    assert!(late.to_bytes().is_err());
}

/// The error comes at once on the CPU; on a device, when its result is read.
#[test]
fn integers_without_a_result_are_the_errors_of_the_cpu() {
    if !is_available() {
        return;
    }
    let functions: [(&str, OfIntegers); 3] = [
        ("floor_divide: divisor 0 of integers", |x, y| f::floor_divide(x, y)),
        ("remainder: divisor 0 of integers", |x, y| f::remainder(x, y)),
        ("pow: exponent -3 of integers", |x, y| f::pow(x, y)),
    ];
    let on = |device, function: OfIntegers| {
        let x = Tensor::new([[3, -5, 7], [i64::MAX, 0, i64::MIN]])?.to(device)?;
        // Strided: the error names the first such operand of the result, not of the memory.
        let y = Tensor::new([[4, 1], [0, -2], [-3, 0]])?.to(device)?.transpose(0, 1)?;
        function(&x, &y)?.to_vec::<i64>()
    };
    for (expected, function) in functions {
        for device in [Device::Cpu, CUDA] {
            assert_eq!(on(device, function).unwrap_err().to_string(), expected, "{device}");
        }
        // No element, no error.
        let nothing = |device| {
            let x = Tensor::new([[0i64; 0], [0; 0]])?.to(device)?;
            function(&x, &Tensor::new([[0], [-2]])?.to(device)?)?.to_vec::<i64>()
        };
        assert_eq!(nothing(Device::Cpu).unwrap(), nothing(CUDA).unwrap());
    }
}

fn is_available() -> bool {
    // A subscriber of the whole process, because a thread without one may otherwise register an event, as
    // wanted by nobody, while another thread begins to listen.
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let all = tracing_subscriber::registry();
        tracing::subscriber::set_global_default(all).expect("there is no other");
    });
    match cuda::install() {
        Ok(0) => println!("returning early: the driver sees no device"),
        Err(error) => println!("returning early: {error}"),
        Ok(_) => return true,
    }
    false
}

/// Returns the index of the schedule under which the emulated device runs this process.
fn schedule() -> Option<usize> {
    let schedule = std::env::var(SCHEDULE).ok()?;
    SCHEDULES.iter().position(|(name, _)| *name == schedule)
}

/// Returns the seeds to draw from: a GPU takes all, and the schedules of the emulated device share
/// them.
fn seeds() -> impl Iterator<Item = u64> {
    let (first, step) = schedule().map_or((0, 1), |share| (share as u64, SCHEDULES.len()));
    (first..DRAWS).step_by(step)
}

/// Returns drawn cases whose bits or error differ from the CPU's.
fn differing_drawn_cases() -> Vec<String> {
    let outcome = |case: &Case| run(case).and_then(|tensors| short_digest(&tensors));
    let mut different = Vec::new();
    for seed in seeds() {
        for (cpu, cuda) in drawn_cases(Device::Cpu, seed).iter().zip(drawn_cases(CUDA, seed)) {
            let (expected, found) = (outcome(cpu), outcome(&cuda));
            // A device finds an index out of range only after the user's function has returned: the
            // error names the operation, and on the CPU the function.
            let text = |outcome: &Result<String>| match outcome {
                Ok(digest) => digest.clone(),
                Err(error) => {
                    let message = error.to_string();
                    message.split_once(": ").map_or(message.clone(), |(_, rest)| rest.to_owned())
                }
            };
            if text(&expected) != text(&found) {
                let name = &cuda.name;
                different.push(format!("{seed} {name}: {} {}", text(&found), text(&expected)));
            }
        }
    }
    different
}

/// Runs this test again in a child process, because the emulated device takes its schedule once per
/// process.
fn run_under(schedule: &str, block: u32) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_gpu_has_the_bits_of_the_cpu", "--nocapture"])
        .env(CHILD, block.to_string())
        .env(SCHEDULE, schedule)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "under {schedule}:\n{text}\n{problem}");
}

fn run(case: &Case) -> Result<Vec<Value>> {
    (case.run)()
}

/// An operation's kernel notes a bad index itself; the host looks it up when it reads a result.
#[test]
fn indices_are_checked_without_a_launch_of_their_own() {
    if !is_available() {
        return;
    }
    let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]]).unwrap().to(CUDA).unwrap();
    let n = Tensor::new([[1i64, 2], [3, 4]]).unwrap().to(CUDA).unwrap();
    let (i, bad) = (Tensor::new([1i64, 0]).unwrap(), Tensor::new([1i64, 2]).unwrap());
    let functions: [(&str, &Tensor, OfIntegers); 4] = [
        ("index_select_b32", &x, |x, i| f::index_select(x, 0, i)),
        ("gather_b32", &x, |x, i| f::gather(x, 0, &f::reshape(i, [1, 2])?)),
        ("index_add_i64", &n, |x, i| f::index_add(x, 0, i, x, 1.0)),
        ("bincount_shared", &n, |_, i| f::bincount(i, None, 3)),
    ];
    for (kernel, x, function) in functions {
        let call = |i: &Tensor| {
            let (i, mut found) = (i.to(CUDA).unwrap(), None);
            let launches = Launches::of(|| found = Some(function(x, &i)));
            (found.unwrap().unwrap(), std::mem::take(&mut launches.0.lock().unwrap().names))
        };
        let (found, launched) = call(&i);
        let expected = function(&x.to(Device::Cpu).unwrap(), &i).unwrap();
        assert_eq!(found.to_bytes().unwrap(), expected.to_bytes().unwrap(), "{kernel}");
        // The length of a histogram depends on its values.
        let launched: Vec<_> = launched.into_iter().filter(|name| name != "range_i64").collect();
        assert_eq!(launched, [kernel]);
        if kernel != "bincount_shared" {
            let error = call(&bad).0.to_bytes().unwrap_err();
            assert!(matches!(error, Error::IndexOutOfRange { index: 2, .. }), "{error}");
        }
    }
}

/// A kernel of the device computes them; nothing is downloaded.
#[test]
fn digests_of_ledgers_are_those_of_the_cpu() {
    if !is_available() {
        return;
    }
    let device = samebits::backend(CUDA).unwrap();
    for dtype in DType::ALL {
        for n in [0, 1, 7, 1000, 8195, 70_003] {
            let numbers: Vec<f64> =
                (0..n + 1).map(|i| [f64::NAN, 0.5, -3.0][i % 3] * i as f64).collect();
            let all = Value::from_slice(&numbers, &[n + 1]).unwrap();
            let all = dispatch(&Cast { x: all, to: dtype }).unwrap();
            let row = all.narrow(0, 1, n).unwrap();
            let apart = row.narrow(0, 0, n / 5 * 5).unwrap().reshape(&[n / 5, 5]).unwrap();
            for x in [row, apart.transpose(0, 1).unwrap()] {
                let there = x.to(CUDA).unwrap();
                let inside = all.to(CUDA).unwrap().narrow(0, 1, n).unwrap();
                for digests in [ledger::Digests::Full, ledger::Digests::Sampled] {
                    let expected = ledger::digest(&x, digests).unwrap();
                    assert_eq!(
                        ledger::digest(&there, digests).unwrap(),
                        expected,
                        "{x:?} {digests:?}"
                    );
                    if x.rank() == 1 {
                        let part = ledger::digest(&inside, digests).unwrap();
                        assert_eq!(part, expected, "{x:?} {digests:?} in a larger buffer");
                    }
                }
            }
        }
    }
    let what = DigestSum { blocks: 1, block: 1, infinity: u64::MAX, quiet: 0 };
    let buffer = device.upload(&[0; 8]).unwrap();
    let sum = device.digest(&*buffer, 0..8, 1, what).unwrap().expect("a kernel")().unwrap();
    // The term of a zero word at index 0.
    let key = 0x9e37_79b9_7f4a_7c15_u64;
    let product = (key & 0xffff_ffff).wrapping_mul(key >> 32);
    assert_eq!(sum, product.wrapping_add(key.rotate_left(32)));
}

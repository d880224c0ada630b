//! The parting of two runs: real trainings with ledgers, a difference planted in one of them, and
//! the report of `samebits diff`. Also the settings that must not matter: threads, and the CPU or a
//! CUDA device.

#![allow(clippy::print_stderr, reason = "tests talk to their reader")]

use std::cell::Cell;
use std::path::Path;
use std::sync::{Barrier, Mutex, Once};

use samebits::data::{DataLoader, Keep, Memory, Shard, Tail};
use samebits::functional::cross_entropy;
use samebits::ledger::{Digests, Ledger};
use samebits::nn::{self, Embedding, Layer, Linear, Module};
use samebits::numerics::exact::ExactSum;
use samebits::ops::{IndexAdd, Matmul};
use samebits::optim::{Adam, Optimizer};
use samebits::registry::{Kernel, dispatch_variant, register};
use samebits::tensor_core::{Op, Tensor as Value};
use samebits::{DType, Determinism, Device, DeviceKind, Generator, Result, Tensor, determinism};
use samebits_ledger::diff::{Cause, Options, Report, diff};
use workspace_tests::{indices, normal_of};

const STEPS: u64 = 6;
/// The step in which a difference is planted.
const PLANTED: u64 = 3;

thread_local! {
    /// True if this thread's products are perturbed where the level allows it (`SLOPPY`), or
    /// everywhere (`BROKEN`).
    static SLOPPY: Cell<bool> = const { Cell::new(false) };
    static BROKEN: Cell<bool> = const { Cell::new(false) };
    /// True if products use the planted kernel, so that both runs name the same one.
    static WRAPPED: Cell<bool> = const { Cell::new(false) };
}

#[derive(Module)]
struct Model {
    table: Embedding,
    head: Linear,
}

/// A training and its differences from the plain one.
#[derive(Clone, Copy)]
struct Plan {
    seed: u64,
    /// The seed of the batches' order.
    order: u64,
    other_weight: bool,
    lowered: bool,
    broken: bool,
    /// True if the planted kernels are in place.
    wrapped: bool,
    device: Device,
    threads: usize,
    /// The first recorded step, which is later in a continued run, and the last.
    first: u64,
    last: u64,
    /// True if the continued run has lost the state of its optimiser.
    forgets: bool,
    finishes: bool,
}

const PLAN: Plan = Plan {
    seed: 7,
    order: 1,
    other_weight: false,
    lowered: false,
    broken: false,
    wrapped: true,
    device: Device::Cpu,
    threads: 2,
    first: 0,
    last: STEPS,
    forgets: false,
    finishes: true,
};

/// Registers kernels that only plans with a plant use, before those of the library, so that they
/// are chosen. Every test of this file calls it before its first operation.
fn plant() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let kernel = |variant, level, applies: fn(&Matmul, &<Matmul as Op>::Plan) -> bool| Kernel {
            variant,
            device: DeviceKind::Cpu,
            dtypes: &[DType::F32],
            level,
            why: "it is planted",
            applies,
            run: product,
        };
        register(kernel("sloppy", Determinism::NotGuaranteed, |_, _| SLOPPY.get()));
        register(kernel("wrapped", Determinism::Portable, |_, _| WRAPPED.get()));
    });
}

/// Computes the product, with one bit flipped if a plant asks for it.
fn product(op: &Matmul, _: &<Matmul as Op>::Plan) -> Result<Value> {
    let right = dispatch_variant(op, "blocked")?;
    let lowered = SLOPPY.get() && determinism::required() == Determinism::NotGuaranteed;
    if !BROKEN.get() && !lowered {
        return Ok(right);
    }
    let mut values: Vec<f32> = right.to_vec()?;
    values[0] = f32::from_bits(values[0].to_bits() ^ 1);
    Value::from_slice(&values, right.shape())
}

fn train(plan: Plan, path: &Path) {
    plant();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(plan.threads).build().unwrap();
    pool.install(|| steps(plan, path)).unwrap();
}

fn steps(plan: Plan, path: &Path) -> samebits::ledger::Result<()> {
    WRAPPED.set(plan.wrapped);
    let root = Generator::new(plan.seed);
    let mut model = nn::draw_from(&mut root.derive("weights"), || {
        Ok::<_, samebits::Error>(Model { table: Embedding::new(40, 8)?, head: Linear::new(8, 5)? })
    })?;
    if plan.other_weight {
        let mut state = model.state_dict();
        let (_, weight) = state.iter_mut().find(|(name, _)| name == "head.weight").unwrap();
        let mut values: Vec<f32> = weight.to_vec()?;
        values[3] += 0.25;
        *weight = Tensor::from_slice(&values, weight.shape())?;
        model.load_state_dict(&state, true)?;
    }
    model.to(plan.device)?;
    let mut order: Vec<i64> = (0..STEPS as i64).collect();
    Generator::new(plan.order).shuffle(&mut order).expect("room for six numbers");
    let mut optimizer = Adam::new(0.01)?;
    let ledger = Ledger::options(path).seed("run", plan.seed).data("one").create()?;
    for step in 0..plan.last {
        let batch = order[step as usize] as u64;
        let ids =
            Tensor::from(indices(64 * 3, 40, 100 + batch)).reshape([64, 3])?.to(plan.device)?;
        let classes = Tensor::from(indices(64, 5, 200 + batch)).to(plan.device)?;
        if plan.forgets && step == plan.first {
            optimizer = Adam::new(0.01)?;
        }
        let here = step == PLANTED;
        BROKEN.set(plan.broken && here);
        SLOPPY.set(plan.lowered && here);
        let level = if SLOPPY.get() { Determinism::NotGuaranteed } else { Determinism::Portable };
        let mut take = |model: &mut Model| -> Result<_> {
            let loss = nn::train(|| {
                let x = model.table.forward(&ids)?.mean(1)?;
                cross_entropy(&model.head.forward(&x)?, &classes)
            })?;
            let gradients = loss.backward()?;
            optimizer.step(model, &gradients)?;
            Ok((loss, gradients))
        };
        if step < plan.first {
            take(&mut model)?;
            continue;
        }
        if step == plan.first {
            ledger.at(step, 0)?;
            ledger.watch(&model);
        }
        let place = Tensor::from_slice(&[order[step as usize]], &[1])?;
        ledger.batch(&[&ids, &classes], Some(&place))?;
        let (loss, gradients) = determinism::scope(level, || ledger.record(|| take(&mut model)))?;
        ledger.step(Some(&loss), &model, &gradients, None)?;
    }
    for plant in [&BROKEN, &SLOPPY, &WRAPPED] {
        plant.set(false);
    }
    if plan.finishes { ledger.finish() } else { Ok(()) }
}

/// Returns the report of a run against the plain one.
fn compared(other: Plan) -> Report {
    compared_with(PLAN, other)
}

fn compared_with(one: Plan, other: Plan) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a.jsonl", "b.jsonl"].map(|name| folder.path().join(name));
    train(one, &a);
    train(other, &b);
    let mut options = Options::default();
    options.from_step = (other.first > 0).then_some(other.first);
    diff(&a, &b, &options).unwrap()
}

#[track_caller]
fn parts(other: Plan, cause: Cause, words: &[&str]) {
    let report = compared(other);
    assert_eq!(report.cause, Some(cause), "{report}");
    for word in words {
        assert!(report.sentence.contains(word), "{word}: {report}");
    }
}

#[test]
fn what_may_not_show_does_not() {
    let report = compared(Plan { threads: 5, ..PLAN });
    assert!(report.equal, "{report}");
    assert!(report.environment.iter().any(|change| change.name == "threads"), "{report}");
    let report = compared(Plan { first: PLANTED, ..PLAN });
    assert!(report.equal, "a run that is continued: {report}");
}

#[test]
fn a_cuda_device_has_the_ledger_of_the_cpu() {
    plant();
    samebits::install();
    let device = Device::Cuda(0);
    if let Err(error) = samebits::backend(device) {
        eprintln!("not compared with a CUDA device: {error}");
        return;
    }
    let plain = Plan { wrapped: false, ..PLAN };
    let report = compared_with(plain, Plan { device, ..plain });
    assert!(report.equal, "{report}");
}

#[test]
fn another_seed_is_named() {
    parts(Plan { seed: 8, ..PLAN }, Cause::Seed, &["seed"]);
}

#[test]
fn another_weight_is_named() {
    parts(Plan { other_weight: true, ..PLAN }, Cause::Parameters, &["head"]);
}

#[test]
fn another_order_of_batches_is_named() {
    parts(Plan { order: 2, ..PLAN }, Cause::DataOrder, &["order"]);
}

#[test]
fn a_lower_level_inside_a_run_is_named() {
    parts(Plan { lowered: true, ..PLAN }, Cause::Kernel, &["matmul", "step 3"]);
}

#[test]
fn a_perturbed_kernel_is_named() {
    parts(Plan { broken: true, ..PLAN }, Cause::Operation, &["matmul", "head", "step 3, forward"]);
}

#[test]
fn a_resume_without_the_state_of_the_optimiser_differs() {
    let report = compared(Plan { first: PLANTED, forgets: true, ..PLAN });
    assert!(!report.equal);
    assert!(report.sentence.contains("adam_step"), "{report}");
    assert!(report.sentence.contains("step 3"), "{report}");
}

#[test]
fn a_run_that_ends_early_is_named() {
    parts(Plan { last: PLANTED, finishes: false, ..PLAN }, Cause::Extent, &[]);
}

/// One element outside the sample: the named operation is marked, and full digests name the tensor.
#[test]
fn a_difference_outside_of_a_sample_is_not_blamed_without_a_word() {
    plant();
    let folder = tempfile::tempdir().unwrap();
    let n = 100_000;
    let covered: Vec<_> = samebits_ledger::digest::sample(4 * n as u64).collect();
    let hidden = (0..n).find(|i| covered.iter().all(|words| !words.contains(&(*i as u64 / 2))));
    let compared = |digests| {
        let [a, b] = [0.0, 1.0].map(|extra: f32| {
            let path = folder.path().join(format!("{digests:?} {extra}.jsonl"));
            let mut values: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
            values[hidden.unwrap()] += extra;
            let x = Tensor::from_slice(&values, &[n]).unwrap();
            let ledger = Ledger::options(&path).digests(digests).create().unwrap();
            ledger.record(|| x.square()?.sum_all()).unwrap();
            ledger.finish().unwrap();
            path
        });
        diff(&a, &b, &Options::default()).unwrap()
    };
    let report = compared(Digests::Sampled);
    assert_eq!(report.cause, Some(Cause::Operation), "{report}");
    assert!(report.sentence.contains("The digest of input 0 covers a sample"), "{report}");
    assert!(report.notes.iter().any(|note| note.contains("sampled")), "{report}");
    let report = compared(Digests::Full);
    assert_eq!(report.cause, Some(Cause::Input), "{report}");
    assert!(report.sentence.contains("Input 0 of operation `unary`"), "{report}");
}

/// Atomic sums, on one thread and on several; on a machine that never interleaves them, nothing
/// shows.
#[test]
fn threads_that_show_are_named() {
    plant();
    let folder = tempfile::tempdir().unwrap();
    let sums = |threads: usize, name: String| {
        let path = folder.path().join(name);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            samebits::install();
            let op = IndexAdd {
                input: normal_of(&[3, 2], DType::F32, 1),
                dim: 0,
                index: indices(300_000, 3, 2),
                source: normal_of(&[300_000, 2], DType::F32, 3),
                alpha: 1.0,
            };
            samebits::ledger::scope(&path, || dispatch_variant(&op, "atomic")).unwrap().unwrap();
        });
        path
    };
    let one = sums(1, "one.jsonl".to_owned());
    for attempt in 0..20 {
        let report = diff(&one, &sums(4, format!("{attempt}.jsonl")), &Options::default()).unwrap();
        if !report.equal {
            assert_eq!(report.cause, Some(Cause::Operation), "{report}");
            assert!(report.sentence.contains("index_add"), "{report}");
            assert!(report.environment.iter().any(|change| change.name == "threads"), "{report}");
            return;
        }
    }
    eprintln!("atomic sums of one and of four threads were equal 20 times: nothing was compared");
}

/// The ranks of a training, each on its own thread, and the data that they exchange.
struct Group {
    /// The results of each rank for each of its samples: the loss, then the gradients.
    given: Vec<Mutex<Vec<Vec<f32>>>>,
    barrier: Barrier,
    /// True if sums over samples are exact, so that they do not depend on the distribution.
    exact: bool,
}

impl Group {
    /// Returns the sum over the samples of all ranks.
    fn reduced(&self, rank: usize, mine: Vec<Vec<f32>>) -> Vec<f32> {
        *self.given[rank].lock().unwrap() = mine;
        self.barrier.wait();
        let all: Vec<Vec<Vec<f32>>> =
            self.given.iter().map(|given| given.lock().unwrap().clone()).collect();
        self.barrier.wait();
        let places = 0..all[0][0].len();
        places.map(|place| self.sum(all.iter().map(|rank| column(rank, place)))).collect()
    }

    fn sum(&self, ranks: impl Iterator<Item = Vec<f32>>) -> f32 {
        if !self.exact {
            return ranks.map(|samples| samples.iter().sum::<f32>()).sum();
        }
        let mut sum = ExactSum::new();
        ranks.for_each(|samples| sum.add_slice(&samples));
        sum.to_f32()
    }
}

fn column(samples: &[Vec<f32>], place: usize) -> Vec<f32> {
    samples.iter().map(|sample| sample[place]).collect()
}

/// Trains as one of the ranks, which share each batch of 8 samples and the model.
fn train_rank(group: &Group, rank: usize, folder: &Path) -> samebits::ledger::Result<()> {
    let world = group.given.len();
    let samples =
        (0..32i64).map(|i| ((0..6).map(move |j| ((i * 7 + j * 5) % 11) as f32 / 7.0), i % 3));
    let data = Memory::new(samples.map(|(x, class)| (x.collect::<Vec<f32>>(), class)).collect());
    let loader = DataLoader::builder(data)
        .batch_size(8 / world)
        .shuffle(true)
        .seed(3)
        .shard(Shard::new(rank, world, Tail::Drop).unwrap())
        .collate(Keep)
        .build()
        .unwrap();
    let mut model = nn::draw_from(&mut Generator::new(7), || Linear::new(6, 3))?;
    let mut optimizer = Adam::new(0.01)?;
    let ledger = Ledger::options(folder).rank(rank as u32, world as u32).create()?;
    ledger.watch(&model);
    for batch in loader.epoch(0) {
        let mut mine = Vec::new();
        for (x, class) in batch.unwrap().data {
            let loss = ledger.record(|| {
                let x = Tensor::from_slice(&x, &[1, 6])?;
                cross_entropy(&model.forward(&x)?, &Tensor::from_slice(&[class], &[1])?)
            })?;
            let gradients = ledger.record(|| loss.backward())?;
            let mut flat = loss.to_vec::<f32>()?;
            for parameter in model.parameters() {
                flat.extend(gradients.of(&parameter).unwrap().to_vec::<f32>()?);
            }
            mine.push(flat);
        }
        let reduced = group.reduced(rank, mine);
        // A function whose gradients are the reduced ones.
        let mut rest = &reduced[1..];
        let mut linear = Tensor::scalar(0.0f32);
        for parameter in model.parameters() {
            let (gradient, others) = rest.split_at(parameter.numel());
            let gradient = Tensor::from_slice(gradient, parameter.shape())?;
            linear = (&linear + (&parameter * &gradient)?.sum(..)?)?;
            rest = others;
        }
        let gradients = linear.backward()?;
        optimizer.step(&mut model, &gradients)?;
        ledger.step(Some(&Tensor::scalar(reduced[0])), &model, &gradients, None)?;
    }
    ledger.finish()
}

#[test]
fn ranks_do_not_show_where_sums_are_exact() {
    plant();
    let folder = tempfile::tempdir().unwrap();
    let trained = |world: usize, exact: bool| {
        let path = folder.path().join(format!("{world}-{exact}"));
        let given = (0..world).map(|_| Mutex::default()).collect();
        let group = Group { given, barrier: Barrier::new(world), exact };
        std::thread::scope(|scope| {
            for rank in 0..world {
                let (group, path) = (&group, &path);
                scope.spawn(move || train_rank(group, rank, path).unwrap());
            }
        });
        path
    };
    let report = diff(&trained(1, true), &trained(4, true), &Options::default()).unwrap();
    assert!(report.equal, "{report}");
    // For each of 4 steps the loss, and a weight and a bias with their gradients.
    assert_eq!(report.ranks[0].counts.compared, 4 * 5, "{report}");
    let report = diff(&trained(1, false), &trained(4, false), &Options::default()).unwrap();
    assert!(!report.equal, "sums that are rounded for each rank: {report}");
}

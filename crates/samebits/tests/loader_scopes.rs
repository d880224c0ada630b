//! The scopes in force where an epoch begins apply to its samples, whoever loads them.

use samebits::data::{Collate, DataLoader, Dataset, SampleContext, Stack};
use samebits::determinism::{self, DebugMode};
use samebits::registry::{Kernel, register};
use samebits::tensor_core::Tensor as Value;
use samebits::{DType, Determinism, Generator, Op, Result, dispatch, functional, nn, rerun};

/// An operation that adds in the order in which threads arrive.
struct Racy(Value);

impl Op for Racy {
    const NAME: &'static str = "racy";
    type Output = Value;
    type Plan = ();

    samebits::tensor_core::inputs![0];

    fn plan(&self) -> Result<()> {
        Ok(())
    }
}

fn racy() -> Result<Value> {
    dispatch(&Racy(Value::scalar(1.0f32)))
}

/// A dataset whose samples are results of a function.
struct Calls(fn() -> Result<i64>);

impl Dataset for Calls {
    type Item = i64;

    fn len(&self) -> usize {
        4
    }

    fn get(&self, _: usize, _: &mut SampleContext<'_>) -> samebits::data::Result<i64> {
        (self.0)().map_err(samebits::data::Error::other)
    }
}

/// A collate function that calls a function for each batch.
struct Collates(fn() -> Result<i64>);

impl Collate<i64> for Collates {
    type Batch = i64;

    fn collate(&self, _: Vec<i64>, _: &mut Generator) -> samebits::data::Result<i64> {
        (self.0)().map_err(samebits::data::Error::other)
    }
}

const WORKERS: [usize; 2] = [0, 2];

/// Returns the content of two batches of an epoch begun here, or the text of the error.
fn batches(workers: usize, get: fn() -> Result<i64>) -> Vec<Result<Vec<i64>, String>> {
    let loader = DataLoader::builder_with(Calls(get), Stack).batch_size(2).workers(workers);
    let loader = loader.build().unwrap();
    loader.epoch(0).map(|batch| Ok(batch.map_err(|error| error.to_string())?.data)).collect()
}

fn called() -> Result<i64> {
    racy().map(|_| 1)
}

// A single test: it changes the default of the process.
#[test]
fn scopes_reach_samples_and_collate_functions() {
    register(Kernel::fast("unordered", &[DType::F32], "adds as threads come", |op: &Racy, ()| {
        Ok(op.0.clone())
    }));
    let works = vec![Ok(vec![1, 1]); 2];
    for workers in WORKERS {
        // The default rejects it, the caller's scope permits it.
        for batch in batches(workers, called) {
            assert!(batch.unwrap_err().contains("racy (forward): requires Portable"));
        }
        let permitted = determinism::scope(Determinism::NotGuaranteed, || batches(workers, called));
        assert_eq!(permitted, works, "{workers} workers");
        let warned =
            determinism::scope_warn_only(Determinism::Portable, || batches(workers, called));
        assert_eq!(warned, works, "{workers} workers");
        // Collate functions behave alike.
        let loader = DataLoader::builder_with(Calls(|| Ok(0)), Collates(called)).workers(workers);
        let loader = loader.batch_size(4).build().unwrap();
        assert!(loader.epoch(0).next().unwrap().is_err());
        let guard = determinism::enter(Determinism::NotGuaranteed);
        let mut epoch = loader.epoch(0);
        drop(guard);
        // The scope of the place where the epoch began counts, not that of the place where a batch
        // is taken.
        assert_eq!(epoch.next().unwrap().unwrap().data, 1, "{workers} workers");
        let mut epoch = loader.epoch(0);
        determinism::scope(Determinism::NotGuaranteed, || {
            assert!(epoch.next().unwrap().is_err(), "{workers} workers");
        });
    }

    // Vice versa: the caller's scope rejects what the process permits.
    determinism::set_debug_mode(DebugMode::Default);
    for workers in WORKERS {
        assert_eq!(batches(workers, called), works);
        for level in [Determinism::RunToRun, Determinism::Portable] {
            for batch in determinism::scope(level, || batches(workers, called)) {
                let error = batch.unwrap_err();
                assert!(error.contains(&format!("racy (forward): requires {level}")), "{error}");
            }
        }
        // Unwritten memory is filled at those levels.
        let filled = || {
            let x = Value::empty(&[1], DType::F32)?;
            Ok(i64::from(x.item::<f32>()?.is_nan()))
        };
        let portable = determinism::scope(Determinism::Portable, || batches(workers, filled));
        assert_eq!(portable, works, "{workers} workers");
    }
    determinism::set_debug_mode(DebugMode::Error);
}

#[test]
fn re_run_mode_reaches_samples() {
    for workers in WORKERS {
        let times = || Ok(rerun::times() as i64);
        let found = rerun::scope(3, || batches(workers, times));
        assert_eq!(found, vec![Ok(vec![3, 3]); 2], "{workers} workers");
    }
}

/// With the generator of a scope, samples would depend on the number of workers.
#[test]
fn generators_of_the_caller_do_not_reach_samples() {
    let draw = || {
        functional::rand(&[1])?;
        Ok(1)
    };
    let own = || nn::draw_from(&mut Generator::new(1), || functional::rand(&[1]).map(|_| 1));
    for workers in WORKERS {
        let mut generator = Generator::new(5);
        nn::draw_from(&mut generator, || {
            for batch in batches(workers, draw) {
                assert!(batch.unwrap_err().contains("rand"), "{workers} workers");
            }
            assert_eq!(batches(workers, own), vec![Ok(vec![1, 1]); 2]);
        });
        assert_eq!(generator, Generator::new(5));
    }
}

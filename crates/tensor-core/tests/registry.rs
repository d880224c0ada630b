//! An operation defined outside the library, registered and rejected like any other.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once};

use samebits_tensor_core::device::DeviceKind;
use samebits_tensor_core::observe::{self, Call, Observer};
use samebits_tensor_core::registry::{
    self, Kernel, dispatch_all, dispatch_variant, register, register_for_several,
};
use samebits_tensor_core::{
    DType, Determinism, Device, Error, Op, Result, Tensor, determinism, dispatch, dispatch_at,
    rerun,
};

const F32: &[DType] = &[DType::F32];

/// An operation that doubles each element. The variants return different numbers so that a test
/// sees which ran.
struct Double {
    x: Tensor,
}

impl Op for Double {
    const NAME: &'static str = "double";
    type Plan = ();
    type Output = Tensor;

    samebits_tensor_core::inputs![x];

    fn plan(&self) -> Result<()> {
        if self.x.rank() == 1 {
            return Ok(());
        }
        Err(Error::invalid("double", format!("expected 1 dimension, got {:?}", self.x.shape())))
    }
}

/// An operation without a deterministic variant, except for a single element.
struct Race {
    x: Tensor,
}

impl Op for Race {
    const NAME: &'static str = "race";
    type Plan = ();
    type Output = Tensor;

    samebits_tensor_core::inputs![x];

    fn plan(&self) -> Result<()> {
        Ok(())
    }
}

/// An operation that claims more than it keeps: its result changes from run to run.
struct Liar {
    x: Tensor,
}

impl Op for Liar {
    const NAME: &'static str = "liar";
    type Plan = ();
    type Output = Tensor;

    samebits_tensor_core::inputs![x];

    fn plan(&self) -> Result<()> {
        Ok(())
    }
}

/// An operation whose kernel for f32 computes several calls at once, and does not repeat itself in that
/// form if an element is negative.
struct Count {
    x: Tensor,
}

impl Op for Count {
    const NAME: &'static str = "count";
    type Plan = f64;
    type Output = Tensor;

    samebits_tensor_core::inputs![x];

    fn plan(&self) -> Result<f64> {
        if self.x.rank() == 1 {
            return Ok(self.x.numel() as f64);
        }
        Err(Error::invalid("count", format!("expected 1 dimension, got {:?}", self.x.shape())))
    }
}

/// The numbers of calls that ran together.
static TOGETHER: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn count(op: &Count, plan: f64) -> Result<Tensor> {
    Tensor::full(&[], plan, op.x.dtype())
}

fn setup() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        register(Kernel::fast("atomic", F32, "adds as threads arrive", |_: &Double, ()| {
            Ok(Tensor::scalar(1.0f32))
        }));
        register(Kernel {
            variant: "vendor",
            device: DeviceKind::Cpu,
            dtypes: F32,
            level: Determinism::RunToRun,
            why: "a fixed library",
            applies: |_, _| true,
            run: |_: &Double, ()| Ok(Tensor::scalar(2.0f32)),
        });
        register(Kernel::portable("exact", F32, "each on its own", |_: &Double, ()| {
            Ok(Tensor::scalar(3.0f32))
        }));
        register(Kernel::fast("atomic", F32, "adds as threads arrive", |op: &Race, ()| {
            Ok(op.x.clone())
        }));
        let mut single =
            Kernel::portable("single", F32, "nothing to race with", |op: &Race, ()| {
                Ok(op.x.clone())
            });
        single.applies = |op, _| op.x.numel() == 1;
        register(single);
        register_for_several(
            Kernel::portable("alone", F32, "each on its own", |op: &Count, &plan| {
                TOGETHER.lock().unwrap().push(1);
                count(op, plan)
            }),
            |calls| {
                let runs = {
                    let mut together = TOGETHER.lock().unwrap();
                    together.push(calls.len());
                    together.len() as f64
                };
                let is_negative = |op: &Count| op.x.to_vec::<f32>().unwrap().contains(&-1.0);
                calls
                    .iter()
                    .map(|&(op, &plan)| count(op, if is_negative(op) { runs } else { plan }))
                    .collect()
            },
        );
        register(Kernel::portable(
            "wide",
            &[DType::F64],
            "each on its own",
            |op: &Count, &plan| {
                TOGETHER.lock().unwrap().push(1);
                count(op, plan)
            },
        ));
        static CALLS: AtomicU32 = AtomicU32::new(0);
        register(Kernel::portable("counter", F32, "it does not", |_: &Liar, ()| {
            Tensor::from_slice(&[0.0, 0.0, CALLS.fetch_add(1, Ordering::Relaxed) as f32], &[3])
        }));
    });
}

fn vector(n: usize) -> Tensor {
    Tensor::zeros(&[n], DType::F32).unwrap()
}

#[test]
fn the_fastest_variant_that_meets_the_level_runs() {
    setup();
    let op = Double { x: vector(2) };
    for (level, expected) in [
        (Determinism::NotGuaranteed, 1.0),
        (Determinism::RunToRun, 2.0),
        (Determinism::Portable, 3.0),
    ] {
        let scoped = determinism::scope(level, || dispatch(&op)).unwrap();
        assert_eq!(scoped.item::<f32>().unwrap(), expected);
        assert_eq!(dispatch_at(&op, level).unwrap().item::<f32>().unwrap(), expected);
    }
    let named = dispatch_variant(&op, "vendor").unwrap();
    assert_eq!(named.item::<f32>().unwrap(), 2.0);
}

#[test]
fn a_missing_level_is_an_error_that_says_what_to_do() {
    setup();
    let error = dispatch(&Race { x: vector(2) }).unwrap_err();
    assert!(matches!(
        error,
        Error::LevelUnavailable {
            op: "race",
            required: Determinism::Portable,
            best: Determinism::NotGuaranteed,
            device: Device::Cpu,
            ..
        }
    ));
    let text = error.to_string();
    assert!(text.starts_with("race (forward): requires Portable"), "{text}");
    assert!(text.contains("determinism::scope"), "{text}");
}

#[test]
fn a_call_that_is_race_free_is_not_refused() {
    setup();
    assert!(dispatch(&Race { x: vector(1) }).is_ok());
}

#[test]
fn warn_only_runs_the_best_there_is() {
    setup();
    let op = Race { x: vector(2) };
    determinism::scope_warn_only(Determinism::Portable, || assert!(dispatch(&op).is_ok()));
    assert!(dispatch(&op).is_err());
}

#[test]
fn checks_come_before_kernels_and_missing_kernels_are_named() {
    setup();
    let error = dispatch(&Double { x: Tensor::zeros(&[1, 1], DType::F32).unwrap() }).unwrap_err();
    assert_eq!(error.to_string(), "double: expected 1 dimension, got [1, 1]");
    let error = dispatch(&Double { x: Tensor::zeros(&[1], DType::F64).unwrap() }).unwrap_err();
    assert_eq!(error.to_string(), "double (forward): no kernel on cpu for f64");
}

#[test]
fn rerun_mode_names_the_operation_that_differs() {
    setup();
    let op = Liar { x: vector(3) };
    assert!(rerun::scope(1, || dispatch(&op)).is_ok());
    let error = rerun::scope(3, || dispatch(&op)).unwrap_err();
    assert!(matches!(error, Error::RerunDiffers { op: "liar", variant: "counter", run: 2, .. }));
    assert!(error.to_string().contains("f32[3]"), "{error}");
    assert!(error.to_string().contains("element 2: 3f800000 and 40000000"), "{error}");
    assert!(rerun::scope(3, || dispatch(&Double { x: vector(1) })).is_ok());
}

#[test]
fn the_registry_lists_what_was_registered_and_how_often_it_ran() {
    setup();
    dispatch_variant(&Double { x: vector(1) }, "atomic").unwrap();
    let kernels = registry::kernels();
    let variants: Vec<_> = kernels
        .iter()
        .filter(|(info, _)| info.op == "double")
        .map(|(info, _)| (info.variant, info.level))
        .collect();
    assert_eq!(
        variants,
        [
            ("atomic", Determinism::NotGuaranteed),
            ("vendor", Determinism::RunToRun),
            ("exact", Determinism::Portable)
        ]
    );
    let (_, runs) =
        kernels.iter().find(|(info, _)| info.op == "double" && info.variant == "atomic").unwrap();
    assert!(*runs > 0);
}

#[test]
#[should_panic(expected = "registered twice")]
fn two_kernels_under_one_name_are_refused() {
    setup();
    register(Kernel::portable("exact", F32, "again", |_: &Double, ()| Ok(Tensor::scalar(3.0f32))));
}

/// Remembers the sizes of observed results.
#[derive(Default)]
struct Sizes(Mutex<Vec<usize>>);

impl Observer for Sizes {
    fn observe(&self, call: &Call<'_>) -> Result<()> {
        self.0.lock().unwrap().push(call.inputs[0].numel());
        Ok(())
    }
}

#[test]
fn calls_of_one_kernel_run_together_in_their_order() {
    setup();
    let calls =
        [(3, DType::F32), (1, DType::F64), (2, DType::F32), (4, DType::F64), (5, DType::F32)];
    let ops = calls.map(|(n, dtype)| Count { x: Tensor::zeros(&[n], dtype).unwrap() });
    let sizes = Arc::new(Sizes::default());
    let found = observe::scope(sizes.clone(), || dispatch_all(&ops)).unwrap();
    let numbers = |tensor: &Tensor| (tensor.item::<f32>().ok(), tensor.item::<f64>().ok());
    for ((n, dtype), found) in calls.iter().zip(&found) {
        let expected = Tensor::full(&[], *n as f64, *dtype).unwrap();
        assert_eq!(numbers(found), numbers(&expected));
    }
    assert_eq!(*sizes.0.lock().unwrap(), [3, 1, 2, 4, 5]);
    assert_eq!(std::mem::take(&mut *TOGETHER.lock().unwrap()), [3, 1, 1]);

    // A single call has no company; none is nothing; a bad one stops all before they run.
    dispatch_all(&ops[..1]).unwrap();
    assert_eq!(std::mem::take(&mut *TOGETHER.lock().unwrap()), [1]);
    assert!(dispatch_all::<Count>(&[]).unwrap().is_empty());
    let bad = Count { x: Tensor::zeros(&[2, 2], DType::F32).unwrap() };
    let error = dispatch_all(&[Count { x: vector(2) }, bad]).unwrap_err();
    assert_eq!(error.to_string(), "count: expected 1 dimension, got [2, 2]");
    assert!(TOGETHER.lock().unwrap().is_empty());

    // Re-run mode repeats them together and compares.
    rerun::scope(2, || dispatch_all(&ops)).unwrap();
    assert_eq!(std::mem::take(&mut *TOGETHER.lock().unwrap()), [3, 3, 1, 1, 1, 1]);
    let liar = || Count { x: Tensor::from_slice(&[-1.0f32], &[1]).unwrap() };
    let error = rerun::scope(2, || dispatch_all(&[Count { x: vector(2) }, liar()])).unwrap_err();
    assert!(matches!(error, Error::RerunDiffers { op: "count", .. }), "{error}");
    assert!(error.to_string().contains("output 1"), "{error}");
}

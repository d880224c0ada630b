//! Observers of operations: who is called, with what, and how often.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Once};

use parking_lot::Mutex;
use samebits_rng::Generator;
use samebits_tensor_core::observe::{self, Call, Observer, Phase};
use samebits_tensor_core::{
    DType, Determinism, Error, Kernel, Op, Result, Tensor, determinism, dispatch, registry, rerun,
};

/// The sum and the difference of two scalars.
struct SumAndDifference {
    a: Tensor,
    b: Tensor,
    scale: f64,
    generator: Generator,
}

impl Op for SumAndDifference {
    const NAME: &'static str = "sum_and_difference";
    type Plan = ();
    type Output = (Tensor, Option<Tensor>);

    samebits_tensor_core::inputs![a, b];
    samebits_tensor_core::parameters![scale];

    fn generator(&self) -> Option<&Generator> {
        Some(&self.generator)
    }

    fn plan(&self) -> Result<()> {
        Ok(())
    }
}

static RUNS: AtomicU32 = AtomicU32::new(0);

fn compute() -> Result<(Tensor, Option<Tensor>)> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        registry::register(Kernel::portable("plain", &[DType::F32], "one order", |op, _| {
            RUNS.fetch_add(1, Ordering::Relaxed);
            let SumAndDifference { a, b, .. } = op;
            let (a, b) = (a.item::<f32>()?, b.item::<f32>()?);
            Ok((Tensor::scalar(a + b), Some(Tensor::scalar(a - b))))
        }));
    });
    dispatch(&SumAndDifference {
        a: Tensor::scalar(3.0f32),
        b: Tensor::scalar(2.0f32),
        scale: 0.5,
        generator: Generator::new(7),
    })
}

/// An observer that records its calls, computes in between, and fails if `refuse` is set.
#[derive(Default)]
struct Notes {
    lines: Mutex<Vec<String>>,
    refuse: bool,
}

impl Observer for Notes {
    fn observe(&self, call: &Call<'_>) -> Result<()> {
        compute()?;
        let items = |tensors: &[&Tensor]| -> Result<Vec<f32>> {
            tensors.iter().map(|tensor| tensor.item()).collect()
        };
        self.lines.lock().push(format!(
            "{} {} {:?} {:?} {:?} {:?} {:?} {} {} {}",
            call.op,
            call.pass,
            call.phase,
            items(call.inputs)?,
            items(call.outputs)?,
            call.parameters,
            call.generator == Some(&Generator::new(7)),
            call.required,
            call.level,
            call.variant,
        ));
        assert!(call.caller.file().ends_with("observe.rs"), "{}", call.caller);
        if self.refuse {
            return Err(Error::Observer { op: call.op, message: "planted".to_owned() });
        }
        Ok(())
    }
}

const LINE: &str = "sum_and_difference forward Forward [3.0, 2.0] [5.0, 1.0] [(\"scale\", 0.5)] \
                    true Portable Portable plain";

#[test]
fn an_observer_sees_the_calls_of_its_thread_once() {
    let notes = Arc::new(Notes::default());
    compute().expect("nobody listens");
    observe::scope(notes.clone(), || {
        compute().expect("a result");
        std::thread::spawn(|| compute().expect("nobody listens there")).join().expect("no panic");
        let before = RUNS.load(Ordering::Relaxed);
        rerun::scope(3, || compute().expect("a result"));
        // Three runs, and those of other tests and of the observer's own call.
        assert!(RUNS.load(Ordering::Relaxed) >= before + 4);
    });
    compute().expect("nobody listens");
    assert_eq!(*notes.lines.lock(), [LINE, LINE]);
}

#[test]
fn what_an_observer_refuses_is_an_error_of_the_call() {
    let notes = Arc::new(Notes { refuse: true, ..Notes::default() });
    let refused = observe::scope(notes, || compute().expect_err("it is refused"));
    assert_eq!(refused.to_string(), "sum_and_difference: planted");
    assert!(compute().is_ok());
}

#[test]
fn phases_and_levels_are_those_of_the_call() {
    let notes = Arc::new(Notes::default());
    observe::scope(notes.clone(), || {
        observe::in_phase(Phase::Backward, || {
            determinism::scope(Determinism::RunToRun, compute).expect("a result");
            observe::in_phase(Phase::Optimizer, compute).expect("a result");
        });
    });
    let expected =
        |phase: &str, level: &str| LINE.replace("Forward", phase).replacen("Portable", level, 1);
    let lines = notes.lines.lock();
    assert_eq!(*lines, [expected("Backward", "RunToRun"), expected("Optimizer", "Portable")]);
}

#[test]
fn the_inner_scope_listens_also_after_a_panic() {
    let outer = Arc::new(Notes::default());
    let inner = Arc::new(Notes::default());
    observe::scope(outer.clone(), || {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            observe::scope(inner.clone(), || {
                compute().expect("a result");
                panic!("planted")
            })
        }));
        assert!(caught.is_err());
        compute().expect("a result");
    });
    assert_eq!(inner.lines.lock().len(), 1);
    assert_eq!(outer.lines.lock().len(), 1);
}

/// An observer of the process also sees other tests, so this one checks its thread.
#[test]
fn the_process_has_an_observer_of_its_own() {
    thread_local! {
        static HEARD: RefCell<u32> = const { RefCell::new(0) };
    }
    struct Count;
    impl Observer for Count {
        fn observe(&self, _: &Call<'_>) -> Result<()> {
            HEARD.with_borrow_mut(|heard| *heard += 1);
            Ok(())
        }
    }
    let heard = || {
        compute().expect("a result");
        HEARD.with_borrow(|&heard| heard)
    };
    observe::set_global(Some(Arc::new(Count)));
    assert_eq!(heard(), 1);
    assert_eq!(std::thread::spawn(heard).join().expect("no panic"), 1);
    let scoped = observe::scope(Arc::new(Notes::default()), heard);
    assert_eq!(scoped, 1, "the scope's observer was told alone");
    observe::set_global(None);
    assert_eq!(heard(), 1);
}

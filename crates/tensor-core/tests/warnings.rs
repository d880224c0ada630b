//! The recipients of warnings in warn-only mode, each case in its own process.

use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use samebits_tensor_core::registry::{Kernel, register};
use samebits_tensor_core::{DType, Determinism, Op, Result, Tensor, determinism, dispatch};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Two operations without a deterministic variant.
struct Race<const N: usize>(Tensor);

impl<const N: usize> Op for Race<N> {
    const NAME: &'static str = ["race", "contest"][N];
    type Plan = ();
    type Output = Tensor;

    samebits_tensor_core::inputs![0];

    fn plan(&self) -> Result<()> {
        Ok(())
    }
}

/// Calls two operations three times each from one place, then one of them from another.
fn call() {
    fn run<const N: usize>(op: &Race<N>) {
        dispatch(op).unwrap();
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        register(Kernel::fast(
            "fast",
            &[DType::F32],
            "adds as threads come",
            |op: &Race<0>, ()| Ok(op.0.clone()),
        ));
        register(Kernel::fast(
            "fast",
            &[DType::F32],
            "adds as threads come",
            |op: &Race<1>, ()| Ok(op.0.clone()),
        ));
    });
    let x = Tensor::scalar(1.0f32);
    determinism::scope_warn_only(Determinism::Portable, || {
        for _ in 0..3 {
            run(&Race::<0>(x.clone()));
            run(&Race::<1>(x.clone()));
        }
        dispatch(&Race::<0>(x.clone())).unwrap();
    });
}

/// A subscriber that counts warnings.
struct Counter;

static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Subscriber for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, _: &Event<'_>) {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The variable set in the process that runs a case.
const CHILD: &str = "SAMEBITS_TEST_WARNINGS";

/// Runs `case` in a child process, in which the calling test reaches this function again. Returns
/// the warnings on its standard error, or `None` in the child.
fn warnings_of(test: &str, case: fn()) -> Option<Vec<String>> {
    if std::env::var_os(CHILD).is_some() {
        case();
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{test}: {errors}");
    let lines = |start| errors.lines().filter(move |line: &&str| line.starts_with(start));
    let warnings: Vec<_> = lines("warning: ").map(str::to_owned).collect();
    assert_eq!(lines("  --> ").count(), warnings.len(), "{errors}");
    Some(warnings)
}

fn expect_three(warnings: &[String]) {
    let ops: Vec<_> = warnings.iter().map(|line| &line[9..line.find(" (").unwrap()]).collect();
    assert_eq!(ops, ["race", "contest", "race"]);
    assert!(warnings[0].contains("(forward): requires Portable, but the best variant"));
}

#[test]
fn each_operation_and_call_site_is_warned_about_once() {
    let found = warnings_of("each_operation_and_call_site_is_warned_about_once", call);
    found.iter().for_each(|warnings| expect_three(warnings));
}

#[test]
fn a_subscriber_of_another_thread_does_not_count() {
    let found = warnings_of("a_subscriber_of_another_thread_does_not_count", || {
        let listener = std::thread::spawn(|| tracing::subscriber::set_default(Counter));
        listener.join().unwrap();
        call();
        assert_eq!(COUNT.load(Ordering::Relaxed), 0);
    });
    found.iter().for_each(|warnings| expect_three(warnings));
}

#[test]
fn a_subscriber_alone_is_told() {
    let found = warnings_of("a_subscriber_alone_is_told", || {
        tracing::subscriber::with_default(Counter, call);
        assert_eq!(COUNT.load(Ordering::Relaxed), 3);
    });
    assert!(found.is_none_or(|warnings| warnings.is_empty()));
}

//! What is in a file, and when.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Once};

use samebits_ledger::digest::{Element, sum64};
use samebits_ledger::record::{Event, Operation};
use samebits_ledger::{Digest, Record};
use samebits_recorder::{Recorder, Settings};
use samebits_tensor_core::observe;
use samebits_tensor_core::{DType, Kernel, Op, Result, Tensor, dispatch, registry};

/// Set in a process that a test starts: how it ends.
const END: &str = "SAMEBITS_TEST_RECORDER_END";
/// More than the queue holds.
const MANY: usize = 10_000;

struct Twice(Tensor);

impl Op for Twice {
    const NAME: &'static str = "twice";
    type Plan = ();
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.0]
    }

    fn plan(&self) -> Result<()> {
        Ok(())
    }
}

fn twice(x: &Tensor) -> Tensor {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        registry::register(Kernel::portable("plain", &[DType::F32], "exact", |op: &Twice, ()| {
            let twice: Vec<f32> = op.0.to_vec::<f32>()?.iter().map(|x| x + x).collect();
            Tensor::from_slice(&twice, op.0.shape())
        }));
    });
    dispatch(&Twice(x.clone())).expect("a result")
}

fn operations(path: &Path) -> Vec<Operation> {
    let text = std::fs::read_to_string(path).expect("a file");
    assert!(text.ends_with('\n'));
    let records = text.lines().map(|line| serde_json::from_str::<Record>(line).expect(line));
    let operation = |record: Record| match record.event {
        Event::Op(operation) => Some(operation),
        _ => None,
    };
    records.filter_map(operation).collect()
}

fn filled(value: f32, numel: usize) -> Digest {
    let bytes: Vec<u8> = std::iter::repeat_n(value.to_le_bytes(), numel).flatten().collect();
    sum64(Element::F32, &bytes)
}

/// Tensors that are digested at once and later, before and after they are written in place, and at
/// addresses that are given out again.
#[test]
fn a_digest_is_of_the_contents_at_the_call() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, numel) in [("small.jsonl", 100), ("large.jsonl", 50_000)] {
        let path = folder.path().join(name);
        let recorder = Arc::new(Recorder::create(Settings::new(path.clone())).expect("a file"));
        let mut x = Tensor::full(&[numel], 0.0, DType::F32).expect("memory");
        for i in 0..100 {
            observe::scope(recorder.clone(), || twice(&x));
            if i % 3 == 0 {
                recorder.flush().expect("it can be written");
            }
            // Nobody else has it, but perhaps the recorder.
            x.as_mut_slice::<f32>().expect("floats").fill(i as f32 + 1.0);
        }
        recorder.finish().expect("it can be written");
        let operations = operations(&path);
        assert_eq!(operations.len(), 100);
        for (i, operation) in operations.iter().enumerate() {
            let i = i as f32;
            assert_eq!(operation.inputs[0].digest, filled(i, numel), "input {i} of {name}");
            assert_eq!(operation.outputs[0].digest, filled(2.0 * i, numel), "output {i} of {name}");
        }
    }
}

#[test]
fn views_have_digests_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.jsonl");
    let recorder = Arc::new(Recorder::create(Settings::new(path.clone())).expect("a file"));
    let numbers: Vec<f32> = (0..20_000).map(|i| i as f32).collect();
    let x = Tensor::from_slice(&numbers, &[100, 200]).expect("memory");
    let views = [
        x.clone(),
        x.transpose(0, 1).expect("a matrix"),
        x.reshape(&[200, 100]).expect("as many"),
        x.clone(),
    ];
    observe::scope(recorder.clone(), || views.iter().for_each(|view| drop(twice(view))));
    recorder.finish().expect("it can be written");
    for (view, operation) in views.iter().zip(operations(&path)) {
        let bytes = view.to_bytes().expect("memory");
        assert_eq!(operation.inputs[0].digest, sum64(Element::F32, &bytes), "{view:?}");
    }
}

/// The other test starts it in a process of its own.
#[test]
fn child() {
    let Ok(end) = std::env::var(END) else { return };
    samebits_recorder::begin();
    let x = Tensor::scalar(1.0f32);
    let many = move || (0..MANY).for_each(|_| drop(twice(&x)));
    match end.as_str() {
        // On a thread that is alive when the process ends.
        "exit" => {
            let (done, told) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                many();
                done.send(()).expect("somebody waits");
                std::thread::park();
            });
            told.recv().expect("it is done");
            std::process::exit(7);
        }
        _ => {
            many();
            panic!("planted");
        }
    }
}

#[test]
fn an_end_in_order_leaves_every_record() {
    let folder = tempfile::tempdir().expect("a folder");
    for (end, code) in [("exit", 7), ("panic", 101)] {
        let path = folder.path().join(format!("{end}.jsonl"));
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "child"])
            .env(END, end)
            .env("SAMEBITS_LEDGER", &path)
            .output()
            .expect("a process");
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert_eq!(operations(&path).len(), MANY, "{end}");
    }
}

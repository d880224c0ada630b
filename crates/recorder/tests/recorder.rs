//! The content of a ledger file, and the time at which it is written.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Once};

use samebits_ledger::digest::{Element, sampled64, sum64};
use samebits_ledger::record::{Digests, Event, Operation};
use samebits_ledger::{Digest, Record};
use samebits_recorder::{Recorder, Settings};
use samebits_tensor_core::observe;
use samebits_tensor_core::{DType, Kernel, Op, Result, Tensor, dispatch, registry};

/// The variable that tells a child process how to end.
const END: &str = "SAMEBITS_TEST_RECORDER_END";
/// More than the queue holds.
const MANY: usize = 10_000;

struct Twice(Tensor);

impl Op for Twice {
    const NAME: &'static str = "twice";
    type Plan = ();
    type Output = Tensor;

    samebits_tensor_core::inputs![0];

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

fn filled(value: f32, numel: usize, digests: Digests) -> Digest {
    let bytes: Vec<u8> = std::iter::repeat_n(value.to_le_bytes(), numel).flatten().collect();
    defined(&bytes, digests)
}

fn defined(bytes: &[u8], digests: Digests) -> Digest {
    match digests {
        Digests::Full => sum64(Element::F32, bytes),
        Digests::Sampled => sampled64(Element::F32, bytes),
    }
}

/// Tensors before and after in-place writes, and at reused addresses.
#[test]
fn a_digest_is_of_the_contents_at_the_call() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, numel, digests) in [
        ("small.jsonl", 100, Digests::Full),
        ("large.jsonl", 50_000, Digests::Sampled),
        ("pool.jsonl", 150_000, Digests::Full),
    ] {
        let path = folder.path().join(name);
        let settings = Settings { digests, ..Settings::new(path.clone()) };
        let recorder = Arc::new(Recorder::create(settings).expect("a file"));
        let mut x = Tensor::full(&[numel], 0.0, DType::F32).expect("memory");
        for i in 0..100 {
            observe::scope(recorder.clone(), || twice(&x));
            if i % 3 == 0 {
                recorder.flush().expect("it can be written");
            }
            // Nobody else holds it, except perhaps the recorder.
            x.as_mut_slice::<f32>().expect("floats").fill(i as f32 + 1.0);
        }
        recorder.finish().expect("it can be written");
        let operations = operations(&path);
        assert_eq!(operations.len(), 100);
        for (i, operation) in operations.iter().enumerate() {
            let i = i as f32;
            let [input, output] = [i, 2.0 * i].map(|value| filled(value, numel, digests));
            assert_eq!(operation.inputs[0].digest, Some(input), "input {i} of {name}");
            assert_eq!(operation.outputs[0].digest, Some(output), "output {i} of {name}");
        }
    }
}

#[test]
fn views_have_digests_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let numbers: Vec<f32> = (0..20_007).map(|i| i as f32).collect();
    let all = Tensor::from_slice(&numbers, &[20_007]).expect("memory");
    let x = all.narrow(0, 1, 20_001).and_then(|x| x.reshape(&[113, 177])).expect("as many");
    let cube = x.reshape(&[113, 59, 3]).expect("as many");
    let views = [
        x.clone(),
        x.transpose(0, 1).expect("a matrix"),
        x.reshape(&[177, 113]).expect("as many"),
        cube.permute(&[1, 0, 2]).expect("three dimensions"),
        cube.permute(&[2, 1, 0]).and_then(|x| x.unsqueeze(3)).expect("three dimensions"),
        x.narrow(1, 2, 150).expect("columns"),
        x.clone(),
    ];
    for digests in [Digests::Full, Digests::Sampled] {
        let path = folder.path().join(format!("{digests:?}.jsonl"));
        let settings = Settings { digests, ..Settings::new(path.clone()) };
        let recorder = Arc::new(Recorder::create(settings).expect("a file"));
        observe::scope(recorder.clone(), || views.iter().for_each(|view| drop(twice(view))));
        recorder.finish().expect("it can be written");
        for (view, operation) in views.iter().zip(operations(&path)) {
            let bytes = view.to_bytes().expect("memory");
            assert!(bytes.len() > 1 << 16);
            assert_eq!(operation.inputs[0].digest, Some(defined(&bytes, digests)), "{view:?}");
        }
    }
}

/// A line is the record in the schema's form.
#[test]
fn lines_have_the_form_of_the_schema() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.jsonl");
    let recorder = Arc::new(Recorder::create(Settings::new(path.clone())).expect("a file"));
    let x = Tensor::from_slice(&[1.0f32, f32::NAN], &[2]).expect("memory");
    recorder.watch(vec![("a.\"b".to_owned(), x.clone())]);
    recorder.batch(&[&x], Some(&x)).expect("it can be written");
    observe::scope(recorder.clone(), || twice(&x));
    recorder.layer("Layer", "a".into(), &[&x], &[&x]).expect("it can be written");
    let named = [("a.\"b".to_owned(), x.clone())];
    recorder.step(Some(&x), &named, &named, None).expect("it can be written");
    recorder.finish().expect("it can be written");
    let text = std::fs::read_to_string(&path).expect("a file");
    assert_eq!(text.lines().count(), 6);
    for line in text.lines() {
        let record: Record = serde_json::from_str(line).expect(line);
        assert_eq!(serde_json::to_string(&record).expect("JSON"), line);
    }
}

/// Runs in a child process that the other test starts.
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

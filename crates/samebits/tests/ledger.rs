//! The content of a ledger, and the absence of side effects of keeping one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use samebits::data::{DataLoader, Memory, Stacked};
use samebits::functional::{cross_entropy, tanh};
use samebits::ledger::{self, Detail, Digests, Error, Keep, Ledger};
use samebits::nn::{Dropout, Layer, Module, ReLU, layer};
use samebits::optim::Adam;
use samebits::trainer::Trainer;
use samebits::{DType, Generator, Tensor, nn, rerun, sequential};
use samebits_ledger::diff::diff;
use samebits_ledger::record::{Event, Operation, Phase};
use samebits_ledger::{Record, digest};

type Run<'a> = Trainer<'a, nn::Sequential, Adam, DataLoader<Memory<(Vec<f32>, i64)>>>;

/// Two epochs of two steps of two batches.
fn run<'a>(seed: u64) -> Run<'a> {
    let root = Generator::new(seed);
    let mut draws = root.fold_in(0);
    let samples = (0..16).map(|i| ((0..4).map(|j| ((i * 7 + j * 3) % 5) as f32).collect(), i % 3));
    let data = Memory::new(samples.collect());
    let model = nn::draw_from(&mut draws, || {
        Ok::<_, samebits::Error>(sequential![
            nn::Linear::new(4, 8)?,
            ReLU,
            Dropout::new(0.5),
            nn::Linear::new(8, 3)?
        ])
    });
    let loader = DataLoader::builder(data).batch_size(4).shuffle(true).seed(seed).build().unwrap();
    Trainer::new(model.unwrap(), Adam::new(0.01).unwrap(), loader, root.fold_in(1))
        .epochs(2)
        .accumulate(2)
        .clip_grad_norm(1.0, 2.0)
}

fn loss(
    model: &nn::Sequential,
    (x, classes): (Stacked<f32>, Vec<i64>),
) -> samebits::trainer::Result<Tensor> {
    let x = Tensor::from_slice(&x.values, &[x.rows, x.columns])?;
    let classes = Tensor::from_slice(&classes, &[classes.len()])?;
    Ok(cross_entropy(&model.forward(&x)?, &classes)?)
}

/// Trains with a ledger at `path` and returns the final state of the run.
fn trained(path: &Path, seed: u64, detail: Detail) -> Vec<u8> {
    let ledger = Ledger::options(path).detail(detail).seed("run", seed).create().unwrap();
    let mut run = run(seed).ledger(ledger.clone());
    run.fit(loss).unwrap();
    ledger.finish().unwrap();
    run.state().unwrap().to_bytes().unwrap()
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(str::to_owned).collect()
}

fn records(path: &Path) -> Vec<Record> {
    let records: Vec<Record> =
        lines(path).iter().map(|line| serde_json::from_str(line).expect(line)).collect();
    for (i, record) in records.iter().enumerate() {
        assert_eq!(record.sequence, i as u64);
    }
    records
}

fn operations(records: &[Record]) -> Vec<&Operation> {
    records
        .iter()
        .filter_map(|record| match &record.event {
            Event::Op(operation) => Some(operation),
            _ => None,
        })
        .collect()
}

fn folder() -> (tempfile::TempDir, impl Fn(&str) -> PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    (folder, move |name| path.join(name))
}

fn on_threads<R: Send>(threads: usize, f: impl FnOnce() -> R + Send) -> R {
    samebits::on_threads(Some(threads), f).unwrap()
}

#[test]
fn a_training_leaves_the_same_ledger_every_time() {
    let (_folder, path) = folder();
    let mut plain = run(5);
    plain.fit(loss).unwrap();
    let plain = plain.state().unwrap().to_bytes().unwrap();
    for (name, threads, repeats) in [("a.jsonl", 1, 1), ("b.jsonl", 2, 1), ("c.jsonl", 2, 3)] {
        let left =
            on_threads(threads, || rerun::scope(repeats, || trained(&path(name), 5, Detail::Op)));
        assert!(left == plain, "recording has changed the run");
    }
    let [a, b, c] = ["a.jsonl", "b.jsonl", "c.jsonl"].map(|name| lines(&path(name)));
    assert!(a.len() > 100, "{}", a.len());
    // Threads and repeats are only in the header.
    assert_eq!(a[1..], b[1..]);
    assert_eq!(a[1..], c[1..]);
    assert_ne!(a[0], b[0]);
    trained(&path("d.jsonl"), 6, Detail::Op);
    assert_ne!(a[1..], lines(&path("d.jsonl"))[1..]);
}

#[test]
fn records_say_where_they_belong() {
    let (_folder, path) = folder();
    trained(&path("run.jsonl"), 5, Detail::Op);
    let records = records(&path("run.jsonl"));
    let Event::Header(header) = &records[0].event else { panic!("{:?}", records[0]) };
    assert_eq!(header.seeds["run"], 5);
    assert!(header.environment.contains_key("threads"));
    let Event::End(end) = records.last().unwrap().event else { panic!("no end") };
    assert_eq!(end.records, records.len() as u64 - 1);

    let operations = operations(&records);
    let keys: BTreeSet<_> = operations
        .iter()
        .map(|o| (o.step, o.microbatch, o.phase, &o.module, &o.name, o.occurrence))
        .collect();
    assert_eq!(keys.len(), operations.len(), "a key comes twice");
    for phase in [Phase::Forward, Phase::Backward, Phase::Optimizer] {
        for (step, microbatch) in [(0, 1), (3, 1)] {
            let here =
                |o: &&&Operation| (o.phase, o.step, o.microbatch) == (phase, step, microbatch);
            assert!(operations.iter().any(|o| here(&o)), "{phase:?} {step} {microbatch}");
        }
    }
    let named = |name: &str, phase: Phase| -> Vec<&&Operation> {
        operations.iter().filter(|o| o.name == name && o.phase == phase).collect()
    };
    let steps = named("adam_step", Phase::Optimizer);
    let modules: Vec<&str> = steps.iter().map(|o| o.module.as_str()).collect();
    assert_eq!(modules, ["0", "0", "3", "3"].repeat(4));
    assert_eq!(steps[1].inputs[0].name.as_deref(), Some("0.bias"));
    assert_eq!(steps[1].occurrence, 1);
    assert_eq!(steps[1].level, "Portable");
    assert!(!steps[1].variant.is_empty());
    assert!(steps[1].site.contains(".rs:"), "{}", steps[1].site);
    assert_eq!(steps[1].parameters["step"], 1);
    let products = named("matmul", Phase::Forward);
    let modules: Vec<&str> = products.iter().map(|o| o.module.as_str()).collect();
    assert_eq!(modules, ["0", "3"].repeat(8));
    let dropouts = named("dropout", Phase::Forward);
    assert_eq!(dropouts[0].parameters["p"], 0.5);
    let positions: BTreeSet<String> =
        dropouts.iter().map(|o| o.generator.as_ref().unwrap().before.to_string()).collect();
    assert_eq!(positions.len(), 8, "every draw has a place of its own");

    let steps: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::Step(step) => Some(step),
            _ => None,
        })
        .collect();
    assert_eq!(steps.len(), 4);
    assert_eq!(steps[3].step, 3);
    assert_eq!(steps[0].parameters.len(), 4);
    assert!(steps[0].gradients.contains_key("3.weight"));
    assert_ne!(steps[0].parameters["0.weight"], steps[1].parameters["0.weight"]);
    let batches = records.iter().filter(|record| matches!(record.event, Event::Data(_)));
    assert_eq!(batches.count(), 8);
}

#[test]
fn steps_alone_are_recorded_if_that_is_asked_for() {
    let (_folder, path) = folder();
    trained(&path("run"), 5, Detail::Step);
    let records = records(&path("run").join("rank_000000.jsonl"));
    assert!(operations(&records).is_empty());
    assert_eq!(records.len(), 1 + 8 + 4 + 1);
}

#[test]
fn digests_do_not_depend_on_layout_pieces_or_payloads_of_nan() {
    let (_folder, path) = folder();
    let large: Vec<f32> = (0..300 * 500).map(|i| i as f32 * 0.7).collect();
    let large = Tensor::from_slice(&large, &[300, 500]).unwrap();
    let columns = large.transpose(0, 1).unwrap();
    let nans = |bits: u32| Tensor::from_slice(&[f32::from_bits(bits), 1.0], &[2]).unwrap();
    let (quiet, loud) = (nans(0x7fc0_0000), nans(0xffa1_2345));
    let wide = Tensor::from_slice(&[f64::NAN, -f64::NAN], &[2]).unwrap();
    let truth = large.gt(3.0).unwrap();
    let tensors = [&large, &columns, &quiet, &loud, &wide, &truth];
    for digests in [Digests::Full, Digests::Sampled] {
        let path = path(&format!("{digests:?}.jsonl"));
        let ledger = Ledger::options(&path).digests(digests).create().unwrap();
        ledger.batch(&tensors, None).unwrap();
        ledger.finish().unwrap();
        let records = records(&path);
        let Event::Header(header) = &records[0].event else { panic!("{:?}", records[0]) };
        assert_eq!(header.digests, digests);
        let Event::Data(batch) = &records[1].event else { panic!("{:?}", records[1]) };
        for (tensor, recorded) in tensors.iter().zip(&batch.tensors) {
            let (element, bytes) =
                (digest::Element::of(&recorded.dtype), tensor.to_bytes().unwrap());
            let expected = match digests {
                Digests::Full => digest::sum64(element, &bytes),
                Digests::Sampled => digest::sampled64(element, &bytes),
            };
            assert_eq!(recorded.digest, Some(expected));
            assert_eq!(recorded.dtype, tensor.dtype().name());
        }
        assert_eq!(batch.tensors[2], batch.tensors[3]);
        assert_ne!(batch.tensors[0].digest, batch.tensors[1].digest);
    }
    let unsaid = Ledger::create(path("unsaid.jsonl")).unwrap();
    drop(unsaid);
    let Event::Header(header) = &self::records(&path("unsaid.jsonl"))[0].event else { panic!() };
    assert_eq!(header.digests, Digests::Sampled);
}

#[test]
fn threads_record_to_ledgers_of_their_own_or_to_one() {
    let (_folder, path) = folder();
    trained(&path("alone.jsonl"), 5, Detail::Op);
    std::thread::scope(|scope| {
        for name in ["one.jsonl", "other.jsonl"] {
            let path = &path;
            scope.spawn(move || trained(&path(name), 5, Detail::Op));
        }
    });
    let alone = lines(&path("alone.jsonl"));
    assert_eq!(lines(&path("one.jsonl"))[1..], alone[1..]);
    assert_eq!(lines(&path("other.jsonl"))[1..], alone[1..]);

    let shared = Ledger::create(path("shared.jsonl")).unwrap();
    let squares = || {
        for i in 0..50 {
            Tensor::scalar(i as f32).square().unwrap();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| shared.record(squares));
        }
        // Nobody records this.
        scope.spawn(squares);
    });
    shared.finish().unwrap();
    let records = records(&path("shared.jsonl"));
    let occurrences: Vec<u64> = operations(&records).iter().map(|o| o.occurrence).collect();
    assert_eq!(occurrences, (0..100).collect::<Vec<u64>>());
}

#[test]
fn an_error_leaves_what_came_before_it_in_the_file() {
    let (_folder, path) = folder();
    let ledger = Ledger::create(path("run.jsonl")).unwrap();
    let mut steps = 0;
    let mut run = run(5).ledger(ledger.clone());
    let failed = run.fit(|model, batch| {
        steps += 1;
        if steps == 6 {
            return Err(samebits::trainer::Error::Invalid("planted".to_owned()));
        }
        loss(model, batch)
    });
    assert!(failed.is_err());
    // Not finished.
    drop((ledger, run));
    let records = records(&path("run.jsonl"));
    // The batch that failed.
    assert!(matches!(records.last().unwrap().event, Event::Data(_)));
    let steps = records.iter().filter(|record| matches!(record.event, Event::Step(_)));
    assert_eq!(steps.count(), 2);
}

#[test]
fn a_step_that_failed_comes_again_in_the_same_ledger() {
    let (_folder, path) = folder();
    let state = trained(&path("whole.jsonl"), 5, Detail::Op);
    // The first batch of a step, the second one, and the same step twice.
    for (name, faults) in [("first", vec![5]), ("second", vec![6]), ("twice", vec![6, 7])] {
        let file = path(&format!("{name}.jsonl"));
        let ledger = Ledger::options(&file).seed("run", 5).create().unwrap();
        let mut run = run(5).ledger(ledger.clone());
        let mut calls = 0;
        let mut failing = |model: &nn::Sequential, batch| {
            calls += 1;
            let loss = loss(model, batch)?;
            match faults.contains(&calls) {
                true => Err(samebits::trainer::Error::Invalid("planted".to_owned())),
                false => Ok(loss),
            }
        };
        for _ in &faults {
            assert!(run.fit(&mut failing).unwrap_err().to_string().contains("planted"));
        }
        run.fit(&mut failing).unwrap();
        ledger.finish().unwrap();
        assert!(run.state().unwrap().to_bytes().unwrap() == state);
        let marks = records(&file);
        let marks = marks.iter().filter(|record| matches!(record.event, Event::Abandoned(_)));
        assert_eq!(marks.count(), faults.len(), "{name}");
        let report = diff(&path("whole.jsonl"), &file, &Default::default()).unwrap();
        assert!(report.equal, "{name}: {report}");
    }
    // A run that goes another way after its retry is not equal.
    let file = path("other.jsonl");
    let ledger = Ledger::options(&file).seed("run", 5).create().unwrap();
    let mut run = run(5).ledger(ledger.clone());
    let mut calls = 0;
    let mut scaled = |model: &nn::Sequential, batch| {
        calls += 1;
        let loss = loss(model, batch)?;
        match calls {
            5 => Err(samebits::trainer::Error::Invalid("planted".to_owned())),
            6 => Ok(loss.affine(0.5, 0.0)?),
            _ => Ok(loss),
        }
    };
    run.fit(&mut scaled).unwrap_err();
    run.fit(&mut scaled).unwrap();
    ledger.finish().unwrap();
    assert!(!diff(&path("whole.jsonl"), &file, &Default::default()).unwrap().equal);
}

#[test]
fn what_cannot_be_recorded_is_an_error() {
    let (_folder, path) = folder();
    let square = || Tensor::scalar(2.0f32).square();
    let ledger = Ledger::create(path("run.jsonl")).unwrap();
    let again = Ledger::create(path("run.jsonl")).unwrap_err().to_string();
    assert!(again.starts_with("ledger: ") && again.contains("exists already"), "{again}");
    ledger.record(square).unwrap();
    ledger.finish().unwrap();
    assert!(matches!(ledger.finish(), Err(Error::Finished { .. })));
    let late = ledger.record(square).unwrap_err().to_string();
    assert!(late.starts_with("square: ledger: ") && late.contains("is finished"), "{late}");
    assert_eq!(square().unwrap().item::<f32>().unwrap(), 4.0);

    // A second run in the ledger of a first one.
    let ledger = Ledger::create(path("two.jsonl")).unwrap();
    run(5).ledger(ledger.clone()).fit(loss).unwrap();
    let second = run(5).ledger(ledger.clone()).fit(loss).unwrap_err().to_string();
    assert!(second.starts_with("ledger: batch 0 of step 0 comes again in "), "{second}");
    ledger.at(4, 1).unwrap();
    assert!(ledger.at(4, 1).is_err() && ledger.at(3, 7).is_err() && ledger.at(4, 2).is_ok());

    let under = path("run.jsonl").join("below.jsonl");
    let error = ledger::scope(&under, || ()).unwrap_err().to_string();
    assert!(error.starts_with("ledger: cannot write "), "{error}");
    for options in [
        Ledger::options(path("x")).rank(2, 2),
        Ledger::options(path("x.jsonl")).rank(0, 2),
        Ledger::options(path("x.jsonl.zst")).rank(0, 2),
    ] {
        assert!(matches!(options.create(), Err(Error::Invalid(_))));
    }
}

/// A model that calls its layers in every way: by a `Sequential`, by a field with tensors, by one
/// without, and by functions.
#[derive(Module)]
struct Net {
    features: nn::Sequential,
    shortcut: nn::Linear,
    relu: ReLU,
}

impl Net {
    #[layer]
    fn forward(&self, x: &Tensor) -> samebits::Result<Tensor> {
        let y = self.relu.forward(&self.features.forward(x)?)?;
        tanh(&(y + self.shortcut.forward(x)?)?)
    }
}

fn net() -> (Net, Tensor) {
    samebits::manual_seed(3);
    let linear = |from, to| nn::Linear::new(from, to).unwrap();
    let features = sequential![linear(4, 8), ReLU, sequential![linear(8, 4), nn::Tanh]];
    let net = Net { features, shortcut: linear(4, 4), relu: ReLU };
    (net, samebits::randn(&[3, 4]).unwrap())
}

/// Records a forward and a backward pass of [`net`]. Returns the kind, the phase, the module and
/// the name of each record.
fn passes(path: &Path, detail: Detail) -> Vec<String> {
    let (net, x) = net();
    let ledger = Ledger::options(path).detail(detail).create().unwrap();
    ledger.watch(&net);
    ledger.record(|| net.forward(&x)?.sum_all()?.backward()).unwrap();
    ledger.finish().unwrap();
    let shown = |record: Record| {
        let (kind, o) = match record.event {
            Event::Op(operation) => ("op", operation),
            Event::Layer(layer) => ("layer", layer),
            _ => return None,
        };
        let phase = if o.phase == Phase::Forward { "" } else { "backward " };
        let name = o.parameters.get("kind").and_then(|kind| kind.as_str()).unwrap_or(&o.name);
        Some(format!("{phase}{kind} {name} @{}", o.module))
    };
    records(path).into_iter().filter_map(shown).collect()
}

#[test]
fn layers_and_what_they_compute_have_the_paths_of_the_model() {
    let (_folder, path) = folder();
    let layers = [
        "layer Linear @features.0",
        "layer ReLU @features.1",
        "layer Linear @features.2.0",
        "layer Tanh @features.2.1",
        "layer Sequential @features.2",
        "layer Sequential @features",
        "layer ReLU @",
        "layer Linear @shortcut",
        "layer Net @",
    ];
    assert_eq!(passes(&path("layers.jsonl"), Detail::Layer), layers);

    let all = passes(&path("all.jsonl"), Detail::Op);
    let (recorded, operations): (Vec<&str>, Vec<&str>) =
        all.iter().map(String::as_str).partition(|shown| shown.starts_with("layer"));
    assert_eq!(recorded, layers);
    let forward: Vec<&str> =
        operations.iter().copied().filter(|shown| shown.starts_with("op")).collect();
    let of = |name: &str| -> Vec<&str> {
        let paths = forward.iter().filter_map(|shown| shown.strip_prefix(name));
        paths.filter_map(|rest| rest.strip_prefix(" @")).collect()
    };
    assert_eq!(of("op Relu"), ["features.1", ""]);
    assert_eq!(of("op Tanh"), ["features.2.1", ""]);
    assert_eq!(of("op matmul"), ["features.0", "features.2.0", "shortcut"]);
    // An operation comes before the layer that it is part of.
    let place = |shown: &str| all.iter().position(|other| other == shown).unwrap();
    assert!(place("op Relu @features.1") < place("layer ReLU @features.1"));

    // Gradients belong to the layers of the results, including activations.
    let modules: BTreeSet<&str> = operations
        .iter()
        .filter(|shown| shown.starts_with("backward "))
        .filter_map(|shown| shown.split_once('@'))
        .map(|(_, module)| module)
        .collect();
    let expected = ["", "features.0", "features.1", "features.2.0", "features.2.1", "shortcut"];
    assert_eq!(modules, expected.into());

    // Without a recorder, no path is left behind.
    let (net, x) = net();
    let ledger = Ledger::create(path("later.jsonl")).unwrap();
    let loss = net.forward(&x).unwrap().sum_all().unwrap();
    ledger.record(|| loss.backward()).unwrap();
    ledger.finish().unwrap();
    let later = records(&path("later.jsonl"));
    let modules: BTreeSet<&str> =
        self::operations(&later).iter().map(|o| o.module.as_str()).collect();
    assert_eq!(modules, [""].into());
}

#[test]
fn a_layer_record_holds_what_went_in_and_came_out() {
    let (_folder, path) = folder();
    samebits::manual_seed(3);
    let lstm = nn::LSTM::new(4, 5).unwrap();
    let x = samebits::randn(&[2, 3, 4]).unwrap();
    let ledger = Ledger::options(path("run.jsonl")).detail(Detail::Layer).create().unwrap();
    ledger.watch(&lstm);
    let (output, (h, c)) = ledger.record(|| lstm.forward(&x, None)).unwrap();
    ledger.finish().unwrap();
    let records = records(&path("run.jsonl"));
    let Event::Layer(layer) = &records[1].event else { panic!("{:?}", records[1]) };
    assert_eq!((layer.name.as_str(), layer.module.as_str()), ("LSTM", ""));
    let digest = |x: &Tensor| ledger::digest(x.value(), Digests::Full).unwrap();
    let digests = |all: &[samebits_ledger::record::Tensor]| -> Vec<_> {
        all.iter().map(|tensor| tensor.digest.expect("a digest")).collect()
    };
    assert_eq!(digests(&layer.inputs), [digest(&x)]);
    assert_eq!(digests(&layer.outputs), [digest(&output), digest(&h), digest(&c)]);
    assert_eq!(records.len(), 3);
}

#[test]
fn kept_tensors_show_which_elements_differ() {
    let (_folder, path) = folder();
    let leave = |name: &str, planted: bool| {
        let ledger = Ledger::options(path(name)).keep(Keep::around(3)).create().unwrap();
        for step in 0..6 {
            ledger.at(step, 0).unwrap();
            let mut values: Vec<f32> = (0..1000).map(|i| i as f32 + step as f32).collect();
            if planted && step == 3 {
                values[7] = values[7].next_up();
                values[9] = -values[9];
            }
            let x = Tensor::from_slice(&values, &[10, 100]).unwrap();
            ledger.record(|| x.square()).unwrap();
        }
        ledger.finish().unwrap();
    };
    leave("a.jsonl", false);
    leave("b.jsonl", true);
    let found = records(&path("a.jsonl"));
    let kept: Vec<u64> = operations(&found)
        .into_iter()
        .filter(|o| o.inputs.iter().chain(&o.outputs).all(|tensor| tensor.file.is_some()))
        .map(|o| o.step)
        .collect();
    assert_eq!(kept, [2, 3, 4]);
    let none = |o: &&Operation| o.inputs.iter().chain(&o.outputs).all(|it| it.file.is_none());
    assert_eq!(operations(&found).iter().copied().filter(none).count(), 3);
    let file = operations(&found)[3].inputs[0].file.clone().unwrap();
    let bytes = fs::read(path(&file)).unwrap();
    let expected: Vec<u8> = (0..1000).flat_map(|i| (i as f32 + 3.0).to_le_bytes()).collect();
    assert!(bytes == expected);

    let report = diff(&path("a.jsonl"), &path("b.jsonl"), &Default::default()).unwrap();
    let tensor = &report.ranks[0].tensors[0];
    assert_eq!((tensor.elements, tensor.unequal), (1000, 2));
    assert_eq!(tensor.first[0].index, [0, 7]);
    assert_eq!(tensor.first[0].ulps, Some(1));
    assert_eq!(tensor.histogram[0].ulps, "1");
    let text = report.to_string();
    assert!(text.contains("2 of 1000 elements of f32 differ"), "{text}");

    for wrong in ["around", "around:", "around:-1", "3", "around:3:4"] {
        let error = wrong.parse::<Keep>().unwrap_err().to_string();
        assert!(error.starts_with("ledger: keep: expected `around:STEP`"), "{error}");
    }
    // A run needs a folder of its own.
    fs::remove_file(path("a.jsonl")).unwrap();
    let again = Ledger::options(path("a.jsonl")).keep(Keep::around(3)).create().unwrap_err();
    assert!(again.to_string().contains("a.tensors"), "{again}");
}

/// The variable that selects the action, in a child process.
const ROLE: &str = "SAMEBITS_TEST_LEDGER_ROLE";
/// More than the recorder's queue holds.
const MANY: usize = 10_000;
const TASKS: usize = 200;

fn child_of(ledger: &Path) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--nocapture"]).env("SAMEBITS_LEDGER", ledger);
    child
}

fn play(role: &str, ledger: &Path) -> Output {
    child_of(ledger).env(ROLE, role).output().unwrap()
}

fn squares(n: usize) {
    let x = Tensor::scalar(2.0f32);
    for _ in 0..n {
        x.square().unwrap();
    }
}

/// Runs in a child process that the other tests start.
#[test]
#[allow(clippy::print_stdout, reason = "it tells its parent")]
fn child() {
    match std::env::var(ROLE).as_deref() {
        // A program that never calls the facade.
        Ok("plain") => match Tensor::scalar(2.0f32).square().and_then(|x| x.item::<f32>()) {
            Ok(x) => println!("{x:?}"),
            Err(error) => println!("{error}"),
        },
        Ok("abort") => {
            squares(MANY);
            std::thread::sleep(Duration::from_secs(1));
            squares(10);
            std::process::abort();
        }
        // Each digest is worth sharing, and there is always another operation to continue with.
        Ok("tasks") => rayon::scope(|scope| {
            for i in 0..TASKS {
                scope.spawn(move |_| {
                    Tensor::full(&[1 << 20], i as f64, DType::F32).unwrap().square().unwrap();
                });
            }
        }),
        _ => {}
    }
}

#[test]
fn the_environment_asks_for_a_ledger_of_the_process() {
    let (_folder, path) = folder();
    let said = |role: &str, ledger: &Path| {
        let output = play(role, ledger);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}");
        said
    };
    let first = said("plain", &path("run.jsonl"));
    assert!(first.contains("4.0"), "{first}");
    let found = records(&path("run.jsonl"));
    assert_eq!(operations(&found).len(), 1);
    let Event::Header(header) = &found[0].event else { panic!("{:?}", found[0]) };
    assert!(header.environment.contains_key("threads"));

    let again = said("plain", &path("run.jsonl"));
    assert!(again.contains("square: ledger: ") && again.contains("exists already"), "{again}");

    let with_digests = |digests: &str, name: &str| {
        let mut child = child_of(&path(name));
        let output = child.env(ROLE, "plain").env("SAMEBITS_LEDGER_DIGESTS", digests).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert!(with_digests("full", "full.jsonl").contains("4.0"));
    let Event::Header(header) = &records(&path("full.jsonl"))[0].event else { panic!() };
    assert_eq!(header.digests, Digests::Full);
    let wrong = with_digests("all", "wrong.jsonl");
    assert!(wrong.contains("SAMEBITS_LEDGER_DIGESTS: expected `full` or `sampled`"), "{wrong}");
}

#[test]
fn a_digest_leaves_out_no_operation_of_other_tasks() {
    let (_folder, path) = folder();
    let mut child = child_of(&path("run.jsonl"));
    child.env(ROLE, "tasks").env("SAMEBITS_LEDGER_DIGESTS", "full").env("RAYON_NUM_THREADS", "4");
    assert!(child.output().unwrap().status.success());
    let found = records(&path("run.jsonl"));
    assert_eq!(operations(&found).len(), TASKS);
}

#[test]
fn a_killed_process_leaves_all_but_its_last_moment() {
    let (_folder, path) = folder();
    assert!(!play("abort", &path("run.jsonl")).status.success());
    let found = records(&path("run.jsonl"));
    let found = operations(&found).len();
    assert!((MANY..=MANY + 10).contains(&found), "{found}");
}

//! Ledgers and the records of other tools, compared in pairs.

use std::path::Path;

use samebits_ledger::diff::{Options, diff};
use samebits_ledger::record::{
    Data, Detail, Digests, Event, Generator, Header, Operation, Phase, Program, Step, Tensor,
};
use samebits_ledger::{Digest, Writer, html, writer::file_of_rank};

use super::Draw;
use super::bytes::{damaged, damaged_text};
use super::parsers::{Parsed, Samples, file, said};

/// A dump of PyTorch's `DebugMode`.
const DUMP: &str = "\
    [nn.Mod] Linear
      aten::addmm(t: f32[2], t: f32[4, 3])  ->  t: f32[4, 2]  # {'input_hash': ((0.46, 12.0), {}), 'hash': 0.86}
    aten::bernoulli_.float(t: f32[4, 2])  ->  t: f32[4, 2]  # {'input_hash': ((67.0,), {}), 'hash': 5.0}
    aten::topk(t$5: f32[4, 2], 1)  ->  ('t$6: f32[4, 1]', 't$7: i64[4, 1]')  # {'input_hash': ((0.5, None), {}), 'hash': (0.25, 3.0)}
";

/// A line of a trace of Megatron-LM.
const TRACE: &str = r#"{"event":"tensor","iteration":1,"metadata":{},"microbatch":0,"name":"layers.0","occurrence":0,"phase":"forward","rank":0,"schema_version":1,"sequence":7,"tensor":{"all_finite":true,"captured_numel":8,"device_type":"cuda","dtype":"bfloat16","exact_value_certificate":true,"layout":"strided","mode":"full","numel":8,"requires_grad":true,"sha256":"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff","shape":[2,4],"stride":[4,1],"value_observed":true}}"#;

/// The file beside a ledger that its records name.
const KEPT: &str = "kept.bin";

pub(super) fn samples() -> Samples {
    let trace = [TRACE, &TRACE.replace(":7,", ":8,").replace("layers.0", "layers.1")].join("\n");
    let mut samples = vec![DUMP.into(), (trace + "\n").into_bytes()];
    samples.extend([ledger(0, 1), ledger(1, 1), ledger(0, 2)]);
    samples
}

/// Returns the ledger of two steps of a run whose numbers depend on `seed`.
fn ledger(seed: u64, world_size: u32) -> Vec<u8> {
    let header = Header {
        world_size,
        writer: Program { name: "fuzz".to_owned(), version: "1".to_owned() },
        detail: Detail::Op,
        digests: Digests::Full,
        environment: [("threads".to_owned(), "4".to_owned())].into(),
        seeds: [("default".to_owned(), seed)].into(),
        data: None,
    };
    let tensor = |number: u64, file: Option<&str>| Tensor {
        shape: vec![2, 3],
        dtype: "f32".to_owned(),
        device: "cpu".to_owned(),
        digest: Some(Digest(number ^ seed)),
        reason: None,
        name: Some("x".to_owned()),
        file: file.map(str::to_owned),
    };
    let call = |step: u64, name: &str| Operation {
        step,
        microbatch: 0,
        phase: Phase::Forward,
        name: name.to_owned(),
        module: "layers.0".to_owned(),
        site: "a.rs:1".to_owned(),
        occurrence: 0,
        level: "Portable".to_owned(),
        variant: "blocked".to_owned(),
        inputs: vec![tensor(step, None)],
        outputs: vec![tensor(step + 1, Some(KEPT))],
        parameters: [("p".to_owned(), 0.5.into())].into(),
        generator: Some(Generator { before: step.into(), after: (step + 6).into() }),
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = file_of_rank(folder.path(), 0);
    let mut writer = Writer::create(&path, 0, header).expect("a new file");
    for step in 0..2 {
        let batch = Data { step, microbatch: 0, tensors: vec![tensor(step, None)], indices: None };
        let end = Step {
            step,
            loss: Some(tensor(step, None)),
            parameters: [("w".to_owned(), tensor(step + 2, None))].into(),
            gradients: [("w".to_owned(), tensor(step + 3, None))].into(),
            generator: None,
        };
        let op = Event::Op(call(step, "dropout"));
        let layer = Event::Layer(call(step, "Linear"));
        for event in [Event::Data(batch), op, layer, Event::Step(end)] {
            writer.append(event).expect("it can be written");
        }
    }
    writer.finish().expect("it can be written");
    std::fs::read(path).expect("the file just written")
}

pub(super) fn ledgers(draw: &mut Draw, samples: &[Vec<u8>]) -> Parsed {
    let runs = [(); 2].map(|()| run(draw, samples));
    // A file, or a folder of one file for each rank.
    let [a, b] = runs.each_ref().map(
        |(folder, path)| {
            if draw.chance(3) { folder.path() } else { Path::new(path) }
        },
    );
    let mut options = Options::default();
    options.from_step = draw.chance(5).then(|| draw.count(1) as u64);
    let report = said(diff(a, b, &options))?;
    said(html::write(&report, &mut std::io::sink()))?;
    said(serde_json::to_vec(&report))?;
    drop(report.to_string());
    Ok(())
}

/// Writes a run of one or two ranks, with the elements of a tensor.
fn run(draw: &mut Draw, samples: &[Vec<u8>]) -> (tempfile::TempDir, std::path::PathBuf) {
    let text = if draw.flag() { draw.pick(samples) } else { damaged_text(draw, samples).into() };
    let (folder, path) = file("rank_000000.jsonl", &text);
    if draw.chance(4) {
        let other = String::from_utf8_lossy(&text).replace("\"rank\":0", "\"rank\":1");
        std::fs::write(file_of_rank(folder.path(), 1), other).expect("a temporary file");
    }
    let elements = damaged(draw, &[(0..24).collect()]);
    std::fs::write(folder.path().join(KEPT), elements).expect("a temporary file");
    (folder, path)
}

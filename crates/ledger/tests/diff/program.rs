//! A made-up training run. Values are hashes of their inputs, so a difference spreads as in a real
//! run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use samebits_ledger::diff::{Options, ReadError, Report, diff};
use samebits_ledger::record::{
    Data, Detail, Digests, Event, Generator, Header, Operation, Phase, Program, Step, Tensor,
};
use samebits_ledger::writer::file_of_rank;
use samebits_ledger::{Digest, Writer};
use serde_json::{Value, json};

/// A run, and the faults that can be planted in it.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) detail: Detail,
    pub(crate) steps: u64,
    /// The first recorded step.
    pub(crate) from: u64,
    pub(crate) threads: u64,
    pub(crate) device: &'static str,
    /// The samples of each step.
    pub(crate) batches: Vec<u64>,
    pub(crate) record_data: bool,
    /// Added to the first weight before the first step.
    pub(crate) weight: u64,
    /// Added to the weights where records begin.
    pub(crate) resumed_weight: u64,
    /// Unrecorded draws, by step.
    pub(crate) drawn: BTreeMap<u64, u64>,
    pub(crate) lr: f64,
    /// Level and kernel, by the step at which they begin.
    pub(crate) kernels: BTreeMap<u64, (&'static str, &'static str)>,
    /// Operations whose output is perturbed: step, phase, module and name.
    pub(crate) perturbed: Vec<(u64, Phase, &'static str, &'static str)>,
    /// Added to the environment.
    pub(crate) environment: Vec<(&'static str, &'static str)>,
    /// Rank and number of ranks: each rank has its part of the batch.
    pub(crate) rank: (u32, u32),
}

impl Default for Run {
    fn default() -> Run {
        Run {
            seed: 1,
            detail: Detail::Op,
            steps: 6,
            from: 0,
            threads: 1,
            device: "cpu",
            batches: (0..64).collect(),
            record_data: true,
            weight: 0,
            resumed_weight: 0,
            drawn: BTreeMap::new(),
            lr: 0.1,
            kernels: BTreeMap::from([(0, ("Portable", "blocked"))]),
            perturbed: Vec::new(),
            environment: Vec::new(),
            rank: (0, 1),
        }
    }
}

/// Mixes numbers into one.
pub(crate) fn mix(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0x9e37_79b9_7f4a_7c15, |state, &number| {
        let x = (state ^ number).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x ^ (x >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ (x >> 31)
    })
}

pub(crate) fn tensor(digest: u64, device: &str) -> Tensor {
    Tensor {
        shape: vec![2, 3],
        dtype: "f32".to_owned(),
        device: device.to_owned(),
        digest: Some(Digest(digest)),
        reason: None,
        name: None,
        file: None,
    }
}

const LAYERS: [&str; 3] = ["layers.0", "layers.1", "layers.2"];

struct Running<'a> {
    run: &'a Run,
    events: Vec<Event>,
    step: u64,
    offset: u64,
    occurrences: BTreeMap<(u64, Phase, String, String), u64>,
}

impl Running<'_> {
    fn op(
        &mut self,
        phase: Phase,
        module: &'static str,
        name: &'static str,
        inputs: &[u64],
        parameters: BTreeMap<String, Value>,
        draws: u64,
    ) -> u64 {
        let run = self.run;
        let mut hashed = inputs.to_vec();
        hashed.extend(name.bytes().map(u64::from));
        hashed
            .extend(parameters.values().flat_map(|it| it.to_string().into_bytes()).map(u64::from));
        let position = |offset: u64| json!({"seed": run.seed, "stream": 0, "offset": offset});
        let generator = (draws > 0).then(|| {
            hashed.extend([run.seed, self.offset]);
            let before = position(self.offset);
            self.offset += draws;
            Generator { before, after: position(self.offset) }
        });
        let (level, variant) = *run.kernels.range(..=self.step).next_back().expect("a kernel").1;
        let mut output = mix(&hashed);
        if run.perturbed.contains(&(self.step, phase, module, name)) {
            output ^= 1;
        }
        // A kernel that depends on the number of threads.
        if level == "NotGuaranteed" && name == "linear" {
            output = mix(&[output, run.threads, variant.len() as u64]);
        }
        let key = (self.step, phase, module.to_owned(), name.to_owned());
        let occurrence = self.occurrences.entry(key).or_default();
        let operation = Operation {
            step: self.step,
            microbatch: 0,
            phase,
            name: name.to_owned(),
            module: module.to_owned(),
            site: String::new(),
            occurrence: *occurrence,
            level: level.to_owned(),
            variant: variant.to_owned(),
            inputs: inputs.iter().map(|&it| tensor(it, run.device)).collect(),
            outputs: vec![tensor(output, run.device)],
            parameters,
            generator,
        };
        *occurrence += 1;
        if run.detail >= Detail::Op {
            self.events.push(Event::Op(operation));
        }
        output
    }

    fn layer(&mut self, module: &str, input: u64, output: u64) {
        if self.run.detail < Detail::Layer {
            return;
        }
        self.events.push(Event::Layer(Operation {
            step: self.step,
            microbatch: 0,
            phase: Phase::Forward,
            name: "Linear".to_owned(),
            module: module.to_owned(),
            site: String::new(),
            occurrence: 0,
            level: String::new(),
            variant: String::new(),
            inputs: vec![tensor(input, self.run.device)],
            outputs: vec![tensor(output, self.run.device)],
            parameters: BTreeMap::new(),
            generator: None,
        }));
    }
}

impl Run {
    /// Returns everything between header and end.
    pub(crate) fn events(&self) -> Vec<Event> {
        let mut it = Running {
            run: self,
            events: Vec::new(),
            step: 0,
            offset: 0,
            occurrences: BTreeMap::new(),
        };
        let none = BTreeMap::new;
        let mut weights = [0, 1, 2].map(|layer| mix(&[7, layer, self.seed]));
        weights[0] = weights[0].wrapping_add(self.weight);
        for step in 0..self.steps {
            if step == self.from {
                it.events.clear();
                if self.from > 0 {
                    weights[0] = weights[0].wrapping_add(self.resumed_weight);
                }
            }
            it.step = step;
            it.offset += self.drawn.get(&step).copied().unwrap_or(0);
            let sample = self.batches[step as usize];
            let batch = mix(&[sample, 11]);
            let (rank, ranks) = self.rank;
            // A rank's part of the batch, unless there is one rank.
            let part = if ranks == 1 { batch } else { mix(&[batch, rank.into(), ranks.into()]) };
            if self.record_data {
                let tensors = vec![tensor(part, self.device)];
                it.events.push(Event::Data(Data { step, microbatch: 0, tensors, indices: None }));
            }
            let mut x = part;
            let mut saved = Vec::new();
            for (layer, module) in LAYERS.into_iter().enumerate() {
                let input = x;
                x = it.op(Phase::Forward, module, "linear", &[x, weights[layer]], none(), 0);
                x = it.op(Phase::Forward, module, "relu", &[x], none(), 0);
                it.layer(module, input, x);
                saved.push(input);
            }
            x = it.op(
                Phase::Forward,
                "",
                "dropout",
                &[x],
                [("p".to_owned(), json!(0.5))].into(),
                6,
            );
            // The loss and the gradients are those of the whole batch: ranks exchange them.
            let loss = if ranks == 1 { x } else { mix(&[batch, 13]) };
            let mut gradient = it.op(Phase::Backward, "", "dropout_backward", &[x], none(), 0);
            let mut gradients = BTreeMap::new();
            let mut parameters = BTreeMap::new();
            for (layer, module) in LAYERS.into_iter().enumerate().rev() {
                gradient = it.op(Phase::Backward, module, "relu_backward", &[gradient], none(), 0);
                let inputs = [gradient, saved[layer]];
                let local = it.op(Phase::Backward, module, "linear_weight", &inputs, none(), 0);
                gradient = it.op(
                    Phase::Backward,
                    module,
                    "linear_input",
                    &[gradient, weights[layer]],
                    none(),
                    0,
                );
                let shared = if self.rank.1 == 1 { local } else { mix(&[loss, layer as u64]) };
                gradients.insert(format!("{module}.weight"), tensor(shared, self.device));
            }
            for (layer, module) in LAYERS.into_iter().enumerate() {
                let of = gradients[&format!("{module}.weight")].digest.expect("a digest").0;
                let lr = [("lr".to_owned(), json!(self.lr))].into();
                weights[layer] =
                    it.op(Phase::Optimizer, module, "sgd", &[weights[layer], of], lr, 0);
                parameters.insert(format!("{module}.weight"), tensor(weights[layer], self.device));
            }
            it.events.push(Event::Step(Step {
                step,
                loss: Some(tensor(loss, self.device)),
                parameters,
                gradients,
                generator: Some(json!({"seed": self.seed, "offset": it.offset})),
            }));
        }
        it.events
    }

    pub(crate) fn header(&self) -> Header {
        let mut environment = BTreeMap::from([("threads".to_owned(), self.threads.to_string())]);
        environment.extend(self.environment.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())));
        Header {
            world_size: self.rank.1,
            writer: Program { name: "test".to_owned(), version: "1".to_owned() },
            detail: self.detail,
            digests: Digests::Full,
            environment,
            seeds: BTreeMap::from([("default".to_owned(), self.seed)]),
            data: None,
        }
    }
}

/// Writes a ledger, without an end if it is `killed`.
pub(crate) fn write(path: &Path, rank: u32, header: Header, events: Vec<Event>, killed: bool) {
    let mut writer = Writer::create(path, rank, header).expect("a new file");
    for event in events {
        writer.append(event).expect("it can be written");
    }
    if killed {
        writer.flush().expect("it can be written");
    } else {
        writer.finish().expect("it can be written");
    }
}

/// Replaces a ledger.
pub(crate) fn rewrite(path: &Path, rank: u32, header: Header, events: Vec<Event>) {
    std::fs::remove_file(path).expect("it is there");
    write(path, rank, header, events, false);
}

/// Two ledgers in a folder of their own.
pub(crate) struct Pair {
    _folder: tempfile::TempDir,
    pub(crate) a: PathBuf,
    pub(crate) b: PathBuf,
}

impl Pair {
    pub(crate) fn empty() -> Pair {
        let folder = tempfile::tempdir().expect("a folder");
        let [a, b] = ["a.jsonl", "b.jsonl"].map(|name| folder.path().join(name));
        Pair { _folder: folder, a, b }
    }

    pub(crate) fn of(a: &Run, b: &Run) -> Pair {
        Pair::of_events((a, a.events()), (b, b.events()))
    }

    pub(crate) fn of_events(a: (&Run, Vec<Event>), b: (&Run, Vec<Event>)) -> Pair {
        let pair = Pair::empty();
        write(&pair.a, 0, a.0.header(), a.1, false);
        write(&pair.b, 0, b.0.header(), b.1, false);
        pair
    }

    /// Creates two folders with one file per rank.
    pub(crate) fn of_ranks(a: &[Run], b: &[Run]) -> Pair {
        let mut pair = Pair::empty();
        for (path, runs) in [(&mut pair.a, a), (&mut pair.b, b)] {
            *path = path.with_extension("");
            for (rank, run) in (0..).zip(runs) {
                write(&file_of_rank(path, rank), rank, run.header(), run.events(), false);
            }
        }
        pair
    }

    pub(crate) fn try_diff(&self) -> Result<Report, ReadError> {
        diff(&self.a, &self.b, &Options::default())
    }

    pub(crate) fn diff(&self) -> Report {
        self.try_diff().expect("both are sound")
    }
}

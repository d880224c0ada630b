//! Comparison of two records.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::report::{Change, Difference, Part};
use crate::record::{Data, Event, Operation, Record, Step, Tensor};

/// Lists the differences that a comparison reports, causes before effects.
pub(super) fn differences(a: &Record, b: &Record) -> Vec<Difference> {
    let mut found = Found::default();
    match (&a.event, &b.event) {
        (Event::Op(a), Event::Op(b)) | (Event::Layer(a), Event::Layer(b)) => found.operation(a, b),
        (Event::Step(a), Event::Step(b)) => found.step(a, b),
        (Event::Data(a), Event::Data(b)) => found.data(a, b),
        _ => {}
    }
    found.0.sort_by_key(|difference| (difference.part, difference.index));
    found.0
}

/// Pairs the tensors of two records by name.
pub(super) fn tensors<'a>(a: &'a Record, b: &'a Record) -> Vec<(String, &'a Tensor, &'a Tensor)> {
    fn listed(record: &Record) -> Vec<(String, &Tensor)> {
        let numbered = |what: &'static str, tensors| {
            let tensors: &[Tensor] = tensors;
            tensors.iter().enumerate().map(move |(i, tensor)| (format!("{what} {i}"), tensor))
        };
        match &record.event {
            Event::Op(it) | Event::Layer(it) => {
                numbered("input", &it.inputs).chain(numbered("output", &it.outputs)).collect()
            }
            Event::Step(step) => {
                let loss = step.loss.iter().map(|loss| ("loss".to_owned(), loss));
                let gradients = step.gradients.iter();
                let parameters = step.parameters.iter();
                loss.chain(gradients.map(|(name, it)| (format!("gradient `{name}`"), it)))
                    .chain(parameters.map(|(name, it)| (format!("parameter `{name}`"), it)))
                    .collect()
            }
            Event::Data(data) => {
                let indices = data.indices.iter().map(|indices| ("indices".to_owned(), indices));
                numbered("tensor", &data.tensors).chain(indices).collect()
            }
            Event::Header(_) | Event::Abandoned(_) | Event::End(_) => Vec::new(),
        }
    }
    let mut of_b: BTreeMap<String, &Tensor> = listed(b).into_iter().collect();
    let both = |(what, a)| of_b.remove(&what).map(|b| (what, a, b));
    listed(a).into_iter().filter_map(both).collect()
}

/// Lists the differences in level, kernel and devices of two operations.
pub(super) fn circumstances(a: &Operation, b: &Operation) -> Vec<Change> {
    let devices = |operation: &Operation| {
        let tensors = operation.inputs.iter().chain(&operation.outputs);
        let all: BTreeSet<&str> = tensors.map(|tensor| tensor.device.as_str()).collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    };
    let sides = [
        ("level", a.level.clone(), b.level.clone()),
        ("kernel", a.variant.clone(), b.variant.clone()),
        ("device", devices(a), devices(b)),
    ];
    let some = |text: String| (!text.is_empty()).then_some(text);
    sides
        .into_iter()
        .filter(|(_, a, b)| a != b)
        .map(|(name, a, b)| Change { name: name.to_owned(), a: some(a), b: some(b) })
        .collect()
}

/// Lists the entries that differ between two maps.
pub(super) fn changes<V: PartialEq + ToString>(
    a: &BTreeMap<String, V>,
    b: &BTreeMap<String, V>,
) -> Vec<Change> {
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let shown = |map: &BTreeMap<String, V>, name| map.get(name).map(ToString::to_string);
    names
        .into_iter()
        .filter(|&name| a.get(name) != b.get(name))
        .map(|name| Change { name: name.clone(), a: shown(a, name), b: shown(b, name) })
        .collect()
}

#[derive(Default)]
struct Found(Vec<Difference>);

impl Found {
    fn push(&mut self, part: Part, index: usize, what: String, a: String, b: String) {
        self.0.push(Difference { part, index, what, a, b });
    }

    fn operation(&mut self, a: &Operation, b: &Operation) {
        for Change { name, a, b } in changes(&a.parameters, &b.parameters) {
            let [a, b] = [a, b].map(Option::unwrap_or_default);
            self.push(Part::Call, 0, format!("argument `{name}`"), a, b);
        }
        self.tensors(Part::Input, "input", &a.inputs, &b.inputs);
        self.tensors(Part::Output, "output", &a.outputs, &b.outputs);
        let generators = [&a.generator, &b.generator];
        let [before_a, before_b] = generators.map(|it| it.as_ref().map(|it| &it.before));
        self.values(Part::GeneratorBefore, "generator before", before_a, before_b);
        let [after_a, after_b] = generators.map(|it| it.as_ref().map(|it| &it.after));
        self.values(Part::GeneratorAfter, "generator after", after_a, after_b);
    }

    fn step(&mut self, a: &Step, b: &Step) {
        self.option(Part::Loss, "loss", a.loss.as_ref(), b.loss.as_ref());
        for (part, what, a, b) in [
            (Part::Parameter, "parameter", &a.parameters, &b.parameters),
            (Part::Gradient, "gradient", &a.gradients, &b.gradients),
        ] {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                self.option(part, &format!("{what} `{name}`"), a.get(name), b.get(name));
            }
        }
        let generators = (a.generator.as_ref(), b.generator.as_ref());
        self.values(Part::GeneratorAfter, "generator", generators.0, generators.1);
    }

    fn data(&mut self, a: &Data, b: &Data) {
        self.tensors(Part::Batch, "tensor", &a.tensors, &b.tensors);
        self.option(Part::Indices, "indices", a.indices.as_ref(), b.indices.as_ref());
    }

    fn values(&mut self, part: Part, what: &str, a: Option<&Value>, b: Option<&Value>) {
        if a != b {
            let [a, b] = [a, b].map(|value| value.map_or("nothing".to_owned(), Value::to_string));
            self.push(part, 0, what.to_owned(), a, b);
        }
    }

    fn tensors(&mut self, part: Part, what: &str, a: &[Tensor], b: &[Tensor]) {
        if a.len() != b.len() {
            let [a, b] = [a, b].map(|tensors| tensors.len().to_string());
            return self.push(Part::Call, 0, format!("number of {what}s"), a, b);
        }
        for (index, (a, b)) in a.iter().zip(b).enumerate() {
            let what = match &a.name {
                Some(name) => format!("{what} {index} (`{name}`)"),
                None => format!("{what} {index}"),
            };
            self.tensor(part, index, what, a, b);
        }
    }

    fn tensor(&mut self, part: Part, index: usize, what: String, a: &Tensor, b: &Tensor) {
        if (&a.shape, &a.dtype) != (&b.shape, &b.dtype) {
            let [a, b] = [a, b].map(|tensor| format!("{}{:?}", tensor.dtype, tensor.shape));
            self.push(Part::Call, index, format!("type of {what}"), a, b);
        } else if let (Some(x), Some(y)) = (a.digest, b.digest)
            && x != y
        {
            let [a, b] = [x, y].map(|digest| format!("{}{:?} {digest}", a.dtype, a.shape));
            self.push(part, index, what, a, b);
        }
    }

    fn option(&mut self, part: Part, what: &str, a: Option<&Tensor>, b: Option<&Tensor>) {
        match (a, b) {
            (Some(a), Some(b)) => self.tensor(part, 0, what.to_owned(), a, b),
            (None, None) => {}
            _ => {
                let [a, b] = [a, b].map(|side| if side.is_some() { "a tensor" } else { "nothing" });
                self.push(Part::Call, 0, what.to_owned(), a.to_owned(), b.to_owned());
            }
        }
    }
}

//! Records that are not compared are counted and reported, never called equal.

use samebits_ledger::diff::{Cause, Options, Report, diff};
use samebits_ledger::record::{Detail, Event, Tensor};

use crate::program::{Pair, Run, rewrite, write};

/// Compares two runs, with the tensors of one edited.
fn edited(edit: impl Fn(usize, &mut Event), of_both: bool) -> Report {
    let run = Run::default();
    let mut events = run.events();
    (0..).zip(&mut events).for_each(|(at, event)| edit(at, event));
    let other = if of_both { events.clone() } else { run.events() };
    Pair::of_events((&run, other), (&run, events)).diff()
}

fn unread(tensor: &mut Tensor) {
    tensor.digest = None;
    tensor.reason = Some("it has no memory".to_owned());
}

#[test]
fn tensors_without_digests() {
    let first_output = |at, event: &mut Event| {
        if let (1, Event::Op(it)) = (at, event) {
            unread(&mut it.outputs[0]);
        }
    };
    for of_both in [false, true] {
        let report = edited(first_output, of_both);
        assert!(report.equal, "{report}");
        assert_eq!(report.ranks[0].counts.without_digest, 1);
        let said = "Not compared: 1 tensor of 1 record without a digest in A or B, first output 0 of \
                    operation `linear` of `layers.0` (step 0, forward): it has no memory.";
        assert!(report.sentence.starts_with("Equal in what was compared: all "), "{report}");
        assert!(report.sentence.ends_with(said), "{report}");
    }
    let everything = |_, event: &mut Event| match event {
        Event::Op(it) | Event::Layer(it) => {
            it.inputs.iter_mut().chain(&mut it.outputs).for_each(unread);
        }
        Event::Step(it) => {
            let named = it.parameters.values_mut().chain(it.gradients.values_mut());
            named.chain(&mut it.loss).for_each(unread);
        }
        Event::Data(it) => it.tensors.iter_mut().for_each(unread),
        _ => {}
    };
    let tensors: usize = Run::default()
        .events()
        .iter()
        .map(|event| match event {
            Event::Op(it) | Event::Layer(it) => it.inputs.len() + it.outputs.len(),
            Event::Step(it) => 1 + it.parameters.len() + it.gradients.len(),
            Event::Data(it) => it.tensors.len(),
            _ => 0,
        })
        .sum();
    for of_both in [false, true] {
        let report = edited(everything, of_both);
        assert!(report.equal, "{report}");
        assert_eq!(report.ranks[0].counts.without_digest, tensors as u64);
    }
}

#[test]
fn what_has_a_digest_is_compared_beside_what_has_none() {
    // Operation `linear` lacks a weight in one run; its output differs.
    let plant = |at, event: &mut Event| {
        if let (1, Event::Op(it)) = (at, event) {
            unread(&mut it.inputs[1]);
            it.outputs[0].digest.as_mut().expect("a digest").0 ^= 1;
        }
    };
    let report = edited(plant, false);
    assert_eq!(report.cause, Some(Cause::Layer), "{report}");
    assert!(
        report.sentence.contains("unequal outputs; some of its inputs have no digest"),
        "{report}"
    );
    let spread = report.ranks[0].spread.as_ref().expect("records after it");
    assert_eq!(spread.unequal, 0, "{report}");
    // Another type is a difference even without elements.
    let plant = |at, event: &mut Event| {
        if let (1, Event::Op(it)) = (at, event) {
            unread(&mut it.outputs[0]);
            it.outputs[0].shape.push(1);
        }
    };
    assert_eq!(edited(plant, false).cause, Some(Cause::Call));
}

#[test]
fn interrupted_shortened_and_coarser_runs() {
    let run = Run::default();
    let pair = Pair::of(&run, &run);
    let text = std::fs::read_to_string(&pair.a).expect("a ledger");
    let cut = &text[..text.len() - 3];
    for path in [&pair.a, &pair.b] {
        std::fs::write(path, cut).expect("it can be written");
    }
    let report = pair.diff();
    let line = text.lines().count();
    let said = format!("of A, which was interrupted, line {line} and what would follow");
    assert!(report.sentence.starts_with("Equal in what was compared: "), "{report}");
    assert!(report.sentence.contains(&said), "{report}");

    let pair = Pair::of(&run, &Run { detail: Detail::Step, ..run.clone() });
    let report = pair.diff();
    assert!(report.sentence.contains("records finer than detail Step"), "{report}");
    let pair = Pair::of(&run, &run);
    let mut options = Options::default();
    options.from_step = Some(2);
    let report = diff(&pair.a, &pair.b, &options).expect("both are sound");
    assert!(report.sentence.contains("records before step 2"), "{report}");
    let later = Run { from: 2, ..run.clone() };
    rewrite(&pair.b, 0, later.header(), later.events());
    let report = pair.diff();
    assert!(report.equal && report.sentence.contains("records of steps before 2"), "{report}");

    // Two ranks, one of them interrupted.
    let ranks: Vec<Run> = (0..2).map(|rank| Run { rank: (rank, 2), ..run.clone() }).collect();
    let pair = Pair::of_ranks(&ranks, &ranks);
    for folder in [&pair.a, &pair.b] {
        let path = samebits_ledger::writer::file_of_rank(folder, 1);
        std::fs::remove_file(&path).expect("it is there");
        write(&path, 1, ranks[1].header(), ranks[1].events(), true);
    }
    let report = pair.diff();
    let said = "of 2 ranks agree. Not compared: on rank 1, of A, which was interrupted";
    assert!(report.equal && report.sentence.contains(said), "{report}");
}

//! Planted differences are attributed to their cause.

use std::collections::BTreeMap;

use samebits_ledger::diff::{Cause, Mismatch, Options, Report, diff};
use samebits_ledger::record::{Detail, Event, Phase};
use samebits_ledger::writer::file_of_rank;
use serde_json::json;

use crate::program::{Pair, Run, rewrite, write};

/// Compares in both directions; returns the first report.
#[track_caller]
fn expect(a: &Run, b: &Run, cause: Cause, words: &str) -> Report {
    let back = Pair::of(b, a).diff();
    assert_eq!(back.cause, Some(cause), "{back}");
    let report = Pair::of(a, b).diff();
    assert_eq!(report.cause, Some(cause), "{report}");
    assert!(!report.equal);
    assert!(report.sentence.contains(words), "{report}");
    report
}

fn first_a(report: &Report) -> u64 {
    let first = report.ranks[0].first.as_ref().expect("they part");
    first.a.as_ref().expect("a record of A").sequence
}

#[test]
fn equal_runs_are_equal() {
    let run = Run::default();
    for detail in [Detail::Step, Detail::Layer, Detail::Op] {
        let run = Run { detail, ..run.clone() };
        let report = Pair::of(&run, &run).diff();
        assert!(report.equal && report.cause.is_none(), "{report}");
        assert!(report.sentence.starts_with("Equal: all"), "{report}");
    }
}

#[test]
fn another_device_thread_count_or_environment_is_no_difference() {
    let run = Run::default();
    let other = Run {
        device: "cuda:0",
        threads: 8,
        kernels: BTreeMap::from([(0, ("Portable", "warps"))]),
        environment: vec![("host", "elsewhere")],
        ..run.clone()
    };
    let report = Pair::of(&run, &other).diff();
    assert!(report.equal, "{report}");
    assert_eq!(report.environment.len(), 2);
    assert!(
        report.ranks[0]
            .notes
            .iter()
            .any(|note| note.contains("device is cpu in A and cuda:0 in B"))
    );
}

#[test]
fn seed() {
    let run = Run::default();
    let report =
        expect(&run, &Run { seed: 2, ..run.clone() }, Cause::Seed, "default is 1 in A and 2 in B");
    assert!(report.sentence.contains("`linear` of `layers.0` (step 0, forward)"), "{report}");
    for detail in [Detail::Layer, Detail::Step] {
        let run = Run { detail, ..run.clone() };
        expect(&run, &Run { seed: 2, ..run.clone() }, Cause::Seed, "The seeds differ");
    }
}

#[test]
fn generator_position() {
    let run = Run::default();
    let other = Run { drawn: BTreeMap::from([(3, 1)]), ..run.clone() };
    let report =
        expect(&run, &other, Cause::Generator, "another position before operation `dropout`");
    assert!(report.sentence.contains("It last stood equally after record"), "{report}");
    assert!(report.sentence.contains("(step 2, forward)"), "{report}");
}

#[test]
fn weight() {
    let run = Run::default();
    let other = Run { weight: 1, ..run.clone() };
    let report = expect(
        &run,
        &other,
        Cause::Parameters,
        "input 1 of operation `linear` of `layers.0` (step 0",
    );
    assert_eq!(first_a(&report), 2);
    // Without records of the data, the data could be the cause.
    let run = Run { record_data: false, ..run };
    let other = Run { record_data: false, ..other };
    expect(&run, &other, Cause::Parameters, "input 1");
    // A layer does not identify its weights.
    let [run, other] = [run, other].map(|run| Run { detail: Detail::Layer, ..run });
    expect(&run, &other, Cause::Layer, "`Linear` of `layers.0`");
}

#[test]
fn order_of_batches() {
    let run = Run::default();
    let mut other = run.clone();
    other.batches.swap(2, 4);
    let report = expect(&run, &other, Cause::DataOrder, "the batch of step 2");
    assert!(report.sentence.contains("another order"), "{report}");
    // A batch that never occurs in the other run is other data.
    other.batches[2] = 99;
    expect(&run, &other, Cause::DataOrder, "the batch of step 2");
    other = run.clone();
    other.batches[2] = 99;
    other.batches.truncate(6);
    let run = Run { batches: vec![0, 1, 98, 3, 4, 5], ..run };
    expect(&run, &other, Cause::Data, "The data differ: the batch of step 2");
}

#[test]
fn lowered_level_inside_a_long_run() {
    let run = Run { steps: 40, ..Run::default() };
    let kernels = BTreeMap::from([(0, ("Portable", "blocked")), (27, ("NotGuaranteed", "fast"))]);
    let other = Run { kernels, ..run.clone() };
    let report = expect(
        &run,
        &other,
        Cause::Kernel,
        "`linear` of `layers.0` (step 27, forward) had equal inputs and unequal outputs",
    );
    assert!(report.sentence.contains("level is Portable in A and NotGuaranteed in B"), "{report}");
    let spread = report.ranks[0].spread.as_ref().expect("it spreads");
    assert_eq!(spread.last_step, 39);
    assert!(spread.unequal > spread.after / 2, "{report}");
}

#[test]
fn one_perturbed_kernel() {
    let run = Run::default();
    for (phase, module, name) in [
        (Phase::Forward, "layers.1", "relu"),
        (Phase::Backward, "layers.2", "linear_weight"),
        (Phase::Optimizer, "layers.0", "sgd"),
    ] {
        let other = Run {
            perturbed: vec![(3, phase, module, name)],
            environment: vec![("host", "elsewhere")],
            ..run.clone()
        };
        let words = format!("Operation `{name}` of `{module}` (step 3, ");
        let report = expect(&run, &other, Cause::Operation, &words);
        assert!(report.sentence.contains("had equal inputs and unequal outputs."), "{report}");
        // The difference is stated, but not blamed.
        assert!(report.sentence.contains("The environments differ too (host"), "{report}");
        let first = report.ranks[0].first.as_ref().expect("they part");
        let before = first.before.as_ref().expect("records before");
        assert_eq!(before[0].sequence + 1, first_a(&report));
        assert_eq!(first.differences.len(), 1);
        assert_eq!(first.differences[0].what, "output 0");
    }
}

#[test]
fn only_the_first_of_two_perturbed_kernels_is_the_cause() {
    let run = Run::default();
    let perturbed = vec![
        (2, Phase::Forward, "layers.1", "linear"),
        (4, Phase::Backward, "layers.1", "relu_backward"),
    ];
    expect(
        &run,
        &Run { perturbed, ..run.clone() },
        Cause::Operation,
        "`linear` of `layers.1` (step 2",
    );
}

#[test]
fn thread_count_at_not_guaranteed() {
    let kernels = BTreeMap::from([(0, ("NotGuaranteed", "fast"))]);
    let run = Run { kernels, ..Run::default() };
    let other = Run { threads: 2, ..run.clone() };
    let report = expect(&run, &other, Cause::Operation, "`linear` of `layers.0` (step 0, forward)");
    assert!(report.sentence.contains("threads is 1 in A and 2 in B"), "{report}");
    assert!(report.sentence.contains("NotGuaranteed does not promise"), "{report}");
    // With less detail, nothing better can be blamed.
    let [run, other] = [run, other].map(|run| Run { detail: Detail::Step, ..run });
    expect(&run, &other, Cause::Environment, "threads is 1 in A and 2 in B");
}

#[test]
fn arguments() {
    let run = Run::default();
    let report = expect(
        &run,
        &Run { lr: 0.2, ..run.clone() },
        Cause::Call,
        "argument `lr` is 0.1 in A and 0.2 in B",
    );
    assert_eq!(report.ranks[0].first.as_ref().map(|first| first.mismatch), Some(Mismatch::Event));
}

#[test]
fn resume() {
    let run = Run::default();
    let resumed = Run { from: 3, ..run.clone() };
    let report = Pair::of(&run, &resumed).diff();
    assert!(report.equal, "{report}");
    assert!(report.ranks[0].counts.skipped > 0);
    assert!(report.ranks[0].notes.iter().any(|note| note.contains("B at step 3")), "{report}");

    let broken = Run { resumed_weight: 1, ..resumed.clone() };
    expect(&run, &broken, Cause::Parameters, "continues from step 3");
    let broken = Run { drawn: BTreeMap::from([(3, 1)]), ..resumed.clone() };
    expect(&run, &broken, Cause::Generator, "continues from step 3");
    let mut broken = resumed;
    broken.batches.rotate_left(1);
    expect(&run, &broken, Cause::DataOrder, "continues from step 3");
}

#[test]
fn steps_can_be_left_out() {
    let run = Run::default();
    let mut other = run.clone();
    other.perturbed = vec![(1, Phase::Forward, "layers.1", "relu")];
    let pair = Pair::of(&run, &other);
    let mut options = Options::default();
    options.from_step = Some(3);
    let report = diff(&pair.a, &pair.b, &options).expect("both are sound");
    let first = report.ranks[0].first.as_ref().expect("they part");
    assert_eq!(first.a.as_ref().map(|place| place.step), Some(3), "{report}");
    options.from_step = Some(30);
    let error = diff(&pair.a, &pair.b, &options).expect_err("no such step").to_string();
    assert!(error.contains("holds no records that are to be compared"), "{error}");
}

#[test]
fn crash_in_the_middle() {
    let run = Run::default();
    let events = run.events();
    let pair = Pair::empty();
    write(&pair.a, 0, run.header(), events.clone(), false);
    write(&pair.b, 0, run.header(), events[..40].to_vec(), true);
    let report = pair.diff();
    assert_eq!(report.cause, Some(Cause::Extent), "{report}");
    assert!(report.sentence.contains("B was interrupted after record 40"), "{report}");

    // Cut in the middle of a line.
    let text = std::fs::read_to_string(&pair.b).expect("a ledger");
    std::fs::write(&pair.b, &text[..text.len() - 20]).expect("it can be written");
    let report = pair.diff();
    assert_eq!(report.cause, Some(Cause::Extent), "{report}");
    assert!(report.sentence.contains("B was interrupted after record 39"), "{report}");
    assert!(
        report.ranks[0].notes.iter().any(|note| note.contains("line 41 is incomplete")),
        "{report}"
    );

    // A run that ended properly is just shorter.
    let shorter = Run { steps: 4, ..run.clone() };
    let report = expect(&run, &shorter, Cause::Extent, "B ends after record");
    assert!(!report.sentence.contains("interrupted"), "{report}");
}

/// Counts the occurrences of records again.
fn recounted(mut events: Vec<Event>) -> Vec<Event> {
    let mut seen: BTreeMap<_, u64> = BTreeMap::new();
    for event in &mut events {
        if let Event::Op(it) = event {
            let count =
                seen.entry((it.step, it.phase, it.module.clone(), it.name.clone())).or_default();
            it.occurrence = *count;
            *count += 1;
        }
    }
    events
}

/// Returns a run in which several records have the same name.
fn repetitive() -> (Run, Vec<Event>) {
    let run = Run::default();
    let mut events = run.events();
    for event in &mut events {
        if let Event::Op(it) = event {
            it.module = String::new();
        }
    }
    (run, recounted(events))
}

#[test]
fn missing_and_extra_records() {
    let (run, events) = repetitive();
    for at in [0, 3, 17, 18, 40, 77] {
        let mut fewer = events.clone();
        fewer.remove(at);
        let fewer = recounted(fewer);
        let report = Pair::of_events((&run, events.clone()), (&run, fewer.clone())).diff();
        assert_eq!(report.cause, Some(Cause::Missing), "{report}");
        assert_eq!(first_a(&report), at as u64 + 1, "{report}");
        let counts = report.ranks[0].counts;
        assert_eq!((counts.only_a, counts.only_b, counts.content, counts.order), (1, 0, 0, 0));
        let report = Pair::of_events((&run, fewer), (&run, events.clone())).diff();
        assert_eq!(report.cause, Some(Cause::Missing), "{report}");
        assert!(report.sentence.starts_with("A has no record"), "{report}");
        assert_eq!(report.ranks[0].counts.only_b, 1);
    }
}

#[test]
fn a_missing_record_does_not_hide_what_differs_later() {
    let (run, mut events) = repetitive();
    let other = Run { perturbed: vec![(4, Phase::Forward, "layers.1", "relu")], ..run.clone() };
    let whole = events.clone();
    events = other.events();
    for event in &mut events {
        if let Event::Op(it) = event {
            it.module = String::new();
        }
    }
    events.remove(5);
    let report = Pair::of_events((&run, whole), (&run, recounted(events))).diff();
    assert_eq!(report.cause, Some(Cause::Missing), "{report}");
    let later = &report.ranks[0].others;
    let content = later.iter().find(|it| it.mismatch == Mismatch::Content).expect("it is told");
    let place = content.a.as_ref().expect("a record of A");
    assert_eq!(place.what, "operation `relu` (step 4, forward, occurrence 1)", "{report}");
}

#[test]
fn reordered_records() {
    let run = Run::default();
    let (_, repetitive) = repetitive();
    for events in [run.events(), repetitive] {
        let mut moved = events.clone();
        // Two operations of the backward pass of step 1.
        let at = moved.iter().position(
            |it| matches!(it, Event::Op(it) if it.step == 1 && it.name == "linear_weight"),
        );
        let at = at.expect("a record");
        moved.swap(at, at + 1);
        let report = Pair::of_events((&run, events.clone()), (&run, recounted(moved))).diff();
        assert_eq!(report.cause, Some(Cause::Order), "{report}");
        assert_eq!(report.ranks[0].counts.order, 1, "{report}");
        assert_eq!(report.ranks[0].counts.content, 0, "{report}");
        // Far away, and with the same name as records in between.
        let mut moved = events.clone();
        let record = moved.remove(at);
        moved.insert(at + 4, record);
        let report = Pair::of_events((&run, events), (&run, recounted(moved))).diff();
        assert_eq!(report.cause, Some(Cause::Order), "{report}");
        assert_eq!(report.ranks[0].counts.order, 1, "{report}");
        assert_eq!(first_a(&report), at as u64 + 1, "{report}");
    }
}

#[test]
fn another_operand() {
    let run = Run::default();
    let events = run.events();
    let mut other = events.clone();
    let outputs: Vec<_> = events
        .iter()
        .filter_map(|it| if let Event::Op(it) = it { it.outputs.first().cloned() } else { None })
        .collect();
    let at = 30;
    let Event::Op(it) = &mut other[at] else { panic!("an operation") };
    it.inputs[0] = outputs[2].clone();
    let report = Pair::of_events((&run, events), (&run, other)).diff();
    assert_eq!(report.cause, Some(Cause::Order), "{report}");
    assert!(report.sentence.contains("from other records"), "{report}");
}

fn ranks(count: u32, run: &Run) -> Vec<Run> {
    (0..count).map(|rank| Run { rank: (rank, count), ..run.clone() }).collect()
}

#[test]
fn ranks_are_compared_each_for_itself() {
    let run = Run::default();
    let a = ranks(3, &run);
    assert!(Pair::of_ranks(&a, &a).diff().equal);
    let mut b = a.clone();
    b[0].perturbed = vec![(3, Phase::Forward, "layers.0", "relu")];
    b[2].perturbed = vec![(2, Phase::Forward, "layers.1", "relu")];
    let report = Pair::of_ranks(&a, &b).diff();
    assert_eq!(report.cause, Some(Cause::Operation));
    assert!(
        report.sentence.starts_with("On rank 2: Operation `relu` of `layers.1` (step 2"),
        "{report}"
    );
    assert!(report.sentence.contains("no common order"), "{report}");
    assert_eq!(
        report.ranks.iter().map(|rank| rank.equal).collect::<Vec<_>>(),
        [false, true, false]
    );
}

#[test]
fn what_other_ranks_sent_is_their_doing() {
    let run = Run::default();
    let a = ranks(2, &run);
    let pair = Pair::of_ranks(&a, &a);
    // Renames an operation, and changes its output in B.
    let edit = |rank: u32, name: &str, at: usize| {
        for (folder, flipped) in [(&pair.a, 0), (&pair.b, 1)] {
            let run = &a[rank as usize];
            let mut events = run.events();
            let Event::Op(it) = &mut events[at] else { panic!("an operation") };
            it.name = name.to_owned();
            it.outputs[0].digest.as_mut().expect("a digest").0 ^= flipped;
            rewrite(&file_of_rank(folder, rank), rank, run.header(), events);
        }
    };
    edit(0, "all_reduce", 4);
    let report = pair.diff();
    assert_eq!(report.cause, Some(Cause::Communication), "{report}");
    edit(1, "matmul", 7);
    let report = pair.diff();
    assert_eq!(report.cause, Some(Cause::Operation), "{report}");
    assert!(report.sentence.starts_with("On rank 1"), "{report}");
}

#[test]
fn one_rank_against_four() {
    let run = Run::default();
    // One rank that computes what four exchange.
    let one = vec![Run { rank: (0, 1), ..run.clone() }];
    let four = ranks(4, &run);
    let mut alone = one[0].events();
    for (event, other) in alone
        .iter_mut()
        .filter(|it| matches!(it, Event::Step(_)))
        .zip(four[0].events().into_iter().filter(|it| matches!(it, Event::Step(_))))
    {
        *event = other;
    }
    let pair = Pair::of_ranks(&one, &four);
    let path = file_of_rank(&pair.a, 0);
    rewrite(&path, 0, one[0].header(), alone.clone());
    let report = pair.diff();
    assert!(report.equal, "{report}");
    assert!(report.notes.iter().any(|note| note.contains("A has 1 ranks and B 4")), "{report}");
    assert!(report.ranks[0].counts.compared > 20, "{report}");

    let step = alone
        .iter_mut()
        .filter_map(|it| if let Event::Step(it) = it { Some(it) } else { None })
        .nth(3);
    let step = step.expect("a step");
    step.parameters
        .get_mut("layers.1.weight")
        .expect("a weight")
        .digest
        .as_mut()
        .expect("a digest")
        .0 ^= 1;
    rewrite(&path, 0, one[0].header(), alone);
    let report = pair.diff();
    assert_eq!(report.cause, Some(Cause::Step), "{report}");
    assert!(
        report.sentence.contains("step 3") && report.sentence.contains("`layers.1.weight`"),
        "{report}"
    );
}

#[test]
fn replicas_that_part_are_a_difference() {
    let run = Run::default();
    let four = ranks(4, &run);
    let two = ranks(2, &run);
    assert!(Pair::of_ranks(&two, &four).diff().equal);
    let mut parted = four;
    parted[2].perturbed = vec![(4, Phase::Optimizer, "layers.2", "sgd")];
    let report = Pair::of_ranks(&two, &parted).diff();
    assert_eq!(report.cause, Some(Cause::Step), "{report}");
    let first = report.ranks[0].first.as_ref().expect("they part");
    assert_eq!(first.differences[0].b, "unequal on its ranks", "{report}");
    assert!(report.sentence.contains("step 4"), "{report}");
}

#[test]
fn less_detail_in_one_run() {
    let run = Run::default();
    let coarse = Run { detail: Detail::Step, ..run.clone() };
    let report = Pair::of(&run, &coarse).diff();
    assert!(report.equal, "{report}");
    assert!(report.notes.iter().any(|note| note.contains("A has detail Op, B Step")), "{report}");
}

#[test]
fn a_report_is_data_too() {
    let run = Run::default();
    let report = Pair::of(&run, &Run { seed: 2, ..run.clone() }).diff();
    let value = serde_json::to_value(&report).expect("it is data");
    assert_eq!(value["schema"], 1);
    assert_eq!(value["equal"], false);
    assert_eq!(value["cause"], "seed");
    assert_eq!(value["seeds"], json!([{"name": "default", "a": "1", "b": "2"}]));
    assert_eq!(value["ranks"][0]["first"]["mismatch"], "content");
    assert_eq!(value["ranks"][0]["first"]["differences"][0]["part"], "input");
}

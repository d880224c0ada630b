//! A random edit of a random ledger is found at its record.

use proptest::prelude::*;
use samebits_ledger::diff::{Cause, Report};
use samebits_ledger::record::Event;

use crate::program::{Pair, Run, mix};

/// An edit of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Edit {
    Output,
    Input,
    Argument,
    Shape,
    Generator,
    Remove,
    Insert,
    Swap,
}

const EDITS: [Edit; 8] = [
    Edit::Output,
    Edit::Input,
    Edit::Argument,
    Edit::Shape,
    Edit::Generator,
    Edit::Remove,
    Edit::Insert,
    Edit::Swap,
];

/// Returns the sequence of the first differing record, in A or else in B.
fn found(report: &Report) -> Option<u64> {
    let first = report.ranks[0].first.as_ref()?;
    first.a.as_ref().or(first.b.as_ref()).map(|place| place.sequence)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_is_found(seed in 0u64..1000, steps in 1u64..6, at in 0usize..10_000, edit in 0usize..8) {
        let run = Run { seed, steps, ..Run::default() };
        let events = run.events();
        let mut other = events.clone();
        let operations: Vec<usize> =
            (0..events.len() - 1).filter(|&i| matches!(events[i], Event::Op(_))).collect();
        let at = operations[at % operations.len()];
        let edit = EDITS[edit];
        let Event::Op(it) = &mut other[at] else { unreachable!("an operation") };
        let cause = match edit {
            Edit::Output => {
                it.outputs[0].digest.as_mut().expect("a digest").0 ^= mix(&[seed, at as u64]) | 1;
                Some(Cause::Operation)
            }
            Edit::Input => {
                it.inputs[0].digest.as_mut().expect("a digest").0 ^= 1;
                None
            }
            Edit::Argument => {
                it.parameters.insert("eps".to_owned(), 1.into());
                Some(Cause::Call)
            }
            Edit::Shape => {
                it.outputs[0].shape.push(1);
                Some(Cause::Call)
            }
            Edit::Generator => {
                let at = serde_json::json!({"digest": "0123456789abcdef"});
                it.generator = Some(samebits_ledger::record::Generator { before: at.clone(), after: at });
                Some(Cause::Generator)
            }
            Edit::Remove => {
                other.remove(at);
                Some(Cause::Missing)
            }
            Edit::Insert => {
                let mut extra = it.clone();
                extra.name = "extra".to_owned();
                other.insert(at, Event::Op(extra));
                Some(Cause::Missing)
            }
            Edit::Swap => {
                other.swap(at, at + 1);
                Some(Cause::Order)
            }
        };
        let report = Pair::of_events((&run, events), (&run, other)).diff();
        prop_assert!(!report.equal);
        prop_assert_eq!(found(&report), Some(at as u64 + 1), "{:?}\n{}", edit, report);
        if cause.is_some() {
            prop_assert_eq!(report.cause, cause, "{:?}\n{}", edit, report);
        }
        let Some(first) = &report.ranks[0].first else { unreachable!("they part") };
        let before = first.before.as_ref().map(|[a, _]| a.sequence);
        prop_assert_eq!(before, (at > 0).then_some(at as u64));
    }
}

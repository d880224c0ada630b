//! Compressed ledgers give the reports of plain ones, and damaged ones are rejected.

use std::fs;

use samebits_ledger::Writer;
use samebits_ledger::record::Phase;

use crate::program::{Pair, Run, write};

/// Returns a pair whose B is compressed.
fn compressed(a: &Run, b: &Run) -> Pair {
    let mut pair = Pair::of(a, b);
    pair.b.set_extension("jsonl.zst");
    write(&pair.b, 0, b.header(), b.events(), false);
    pair
}

#[test]
fn a_compressed_ledger_is_the_plain_one() {
    let run = Run { steps: 60, batches: (0..64).collect(), ..Run::default() };
    let pair = compressed(&run, &run);
    assert!(pair.diff().equal);
    let sizes = [&pair.a, &pair.b].map(|path| fs::metadata(path).expect("a file").len());
    assert!(sizes[1] * 3 < sizes[0], "{sizes:?}");

    let perturbed = Run { perturbed: vec![(9, Phase::Forward, "layers.1", "relu")], ..run.clone() };
    let [plain, other] = [Pair::of(&run, &perturbed), compressed(&run, &perturbed)];
    let [plain, other] = [plain.diff(), other.diff()];
    assert_eq!(plain.sentence, other.sentence);
    assert_eq!(format!("{:?}", plain.ranks), format!("{:?}", other.ranks));
}

#[test]
fn ranks_may_be_compressed() {
    let ranks = || [0, 1].map(|rank| Run { rank: (rank, 2), ..Run::default() });
    let mut pair = Pair::of_ranks(&ranks(), &[]);
    pair.b.set_extension("zst");
    for run in ranks() {
        let path = samebits_ledger::writer::file_of_rank(&pair.b, run.rank.0);
        assert!(path.ends_with(format!("rank_{:06}.jsonl.zst", run.rank.0)));
        write(&path, run.rank.0, run.header(), run.events(), false);
    }
    assert!(pair.diff().equal);
}

/// A killed run leaves frames, and sometimes a piece of one.
#[test]
fn an_interrupted_ledger_is_read_as_far_as_it_goes() {
    let run = Run::default();
    let pair = compressed(&run, &run);
    let path = pair.b.with_file_name("c.jsonl.zst");
    let mut writer = Writer::create(&path, 0, run.header()).expect("a new file");
    let mut ends = Vec::new();
    for event in run.events() {
        writer.append(event).expect("it can be written");
        writer.flush().expect("it can be written");
        ends.push(fs::metadata(&path).expect("a file").len() as usize);
    }
    drop(writer);
    let whole = fs::read(&path).expect("a file");
    assert_eq!(whole.len(), *ends.last().expect("records"));
    for (at, cut) in [(20, 0), (20, 1), (20, 9), (20, 40), (1, 3)] {
        fs::write(&pair.b, &whole[..ends[at] + cut]).expect("it can be written");
        let report = pair.diff();
        assert_eq!(report.ranks[0].counts.compared, at as u64 + 1, "{cut} bytes");
        assert!(report.to_string().contains("B was interrupted"), "{report}");
    }
}

#[test]
fn damaged_ledgers_are_refused() {
    let run = Run { steps: 3, ..Run::default() };
    let pair = compressed(&run, &run);
    let whole = fs::read(&pair.b).expect("a file");
    let (mut refused, mut equal) = (0, 0);
    for at in (4..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&pair.b, &bytes).expect("it can be written");
        match pair.try_diff() {
            // An interrupted run would end differently.
            Ok(report) => {
                assert!(report.equal, "byte {at}: {report}");
                equal += 1;
            }
            Err(error) => {
                let error = error.to_string();
                assert!(error.starts_with("diff: ") && error.contains("b.jsonl.zst"), "{error}");
                refused += 1;
            }
        }
    }
    // Some bits of a frame have no meaning: those of its window, and the padding of its last byte.
    assert!(refused > 100 && equal < refused / 20, "{refused} are refused, {equal} mean nothing");
    let mut bytes = whole.clone();
    *bytes.last_mut().expect("a checksum") ^= 1;
    fs::write(&pair.b, &bytes).expect("it can be written");
    let error = pair.try_diff().expect_err("another checksum").to_string();
    assert!(error.ends_with("is damaged in frame 3 of zstd: the checksum differs"), "{error}");
    // The length of the first block extends past the end of the file; the rest of the ledger is not
    // a header.
    fs::write(&pair.b, &whole[..12]).expect("it can be written");
    let error = pair.try_diff().expect_err("nothing is left").to_string();
    assert!(error.contains("expected the header"), "{error}");
    let behind = [&whole[..], b"no frame of zstd\n"].concat();
    fs::write(&pair.b, behind).expect("it can be written");
    let error = pair.try_diff().expect_err("no frame").to_string();
    assert!(error.contains("is damaged in frame"), "{error}");
}

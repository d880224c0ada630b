//! Invalid ledgers are rejected, naming the file and the line.

use samebits_ledger::diff::ReadError;
use samebits_ledger::record::{Digests, Event};
use samebits_ledger::writer::file_of_rank;

use crate::program::{Pair, Run, rewrite};

/// Returns the error for B after an edit of its lines.
fn refused(edit: impl FnOnce(&mut Vec<String>)) -> String {
    let run = Run::default();
    let pair = Pair::of(&run, &run);
    let text = std::fs::read_to_string(&pair.b).expect("a ledger");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    edit(&mut lines);
    std::fs::write(&pair.b, lines.into_iter().map(|line| line + "\n").collect::<String>())
        .expect("it can be written");
    let error = pair.try_diff().expect_err("B is broken").to_string();
    assert!(error.starts_with("diff: ") && error.contains("b.jsonl"), "{error}");
    error
}

#[test]
fn broken_lines() {
    let replaced = |at: usize, from: &'static str, to: &'static str| {
        refused(move |lines| {
            assert!(lines[at].contains(from), "{}", lines[at]);
            lines[at] = lines[at].replacen(from, to, 1);
        })
    };
    for (at, from, to, problem) in [
        (2, "\"step\":0", "\"step\":0,\"step\":0", "duplicate field `step`"),
        (2, "\"step\":0", "\"step\":0,\"stop\":0", "unknown field `stop`"),
        (2, "\"step\":0", "\"step\":\"0\"", "invalid type"),
        (2, "\"step\":0", "\"step\":-1", "invalid value"),
        (2, "\"step\":0,", "", "missing field `step`"),
        (2, "\"event\":\"op\"", "\"event\":\"opera\"", "unknown variant"),
        (2, "\"schema\":1", "\"schema\":7", "found 7"),
        (2, "\"rank\":0", "\"rank\":3", "rank 3 in the file of rank 0"),
        (2, "\"sequence\":2", "\"sequence\":1", "sequence 1 after 1"),
        (2, "\"sequence\":2", "\"sequence\":0", "sequence 0 after 1"),
        (9, "\"p\":0.5", "\"p\":0.5,\"p\":0.5", "duplicate key `p`"),
        (9, "\"offset\":0", "\"offset\":0,\"offset\":0", "duplicate key `offset`"),
        (2, "{", "[", ""),
        (2, "{", "\u{0}{", ""),
    ] {
        let at = if at == 9 { 11 } else { at };
        let error = replaced(at, from, to);
        assert!(error.contains(problem), "{error}");
        assert!(error.contains(&format!("line {}: ", at + 1)), "{error}");
    }
    let error = refused(|lines| lines.insert(5, String::new()));
    assert!(error.contains("line 6: "), "{error}");
}

#[test]
fn broken_files() {
    let error = refused(|lines| drop(lines.remove(0)));
    assert!(error.contains("line 1: expected the header"), "{error}");
    let error =
        refused(|lines| lines.insert(4, lines[0].replace("\"sequence\":0", "\"sequence\":9")));
    assert!(error.contains("line 5: "), "{error}");
    let error =
        refused(|lines| lines.insert(1, lines[0].replacen("\"sequence\":0", "\"sequence\":1", 1)));
    assert!(error.contains("line 2: a second header"), "{error}");
    let error = refused(|lines| drop(lines.remove(9)));
    assert!(error.contains("counts"), "{error}");
    let error = refused(|lines| lines.push(lines[3].clone()));
    assert!(error.contains("after the end"), "{error}");
    let error = refused(|lines| lines.truncate(1));
    assert!(error.contains("holds no records"), "{error}");
    let error = refused(Vec::clear);
    assert!(error.contains("is empty"), "{error}");
    let error = refused(|lines| {
        let twice = lines[3].replace("\"sequence\":3", "\"sequence\":4");
        lines.splice(4.., [twice]);
    });
    assert!(error.contains("records 3 and 4 have one key: operation"), "{error}");
    // A truncated header is not a header.
    let run = Run::default();
    let pair = Pair::of(&run, &run);
    let text = std::fs::read_to_string(&pair.b).expect("a ledger");
    let header = text.lines().next().expect("a header");
    std::fs::write(&pair.b, header).expect("it can be written");
    let error = pair.try_diff().expect_err("B is broken").to_string();
    assert!(error.contains("line 1: expected the header"), "{error}");
}

#[test]
fn files_that_cannot_be_read() {
    let run = Run::default();
    let pair = Pair::of(&run, &run);
    std::fs::remove_file(&pair.b).expect("it is there");
    assert!(matches!(pair.try_diff(), Err(ReadError::Io { .. })));
    std::fs::write(&pair.b, [0xff, 0xfe, b'\n', 0, 1]).expect("it can be written");
    let error = pair.try_diff().expect_err("B is broken").to_string();
    assert!(error.contains("line 1: invalid utf-8"), "{error}");
}

#[test]
fn folders() {
    let run = Run::default();
    let ranks = |count| -> Vec<Run> {
        (0..count).map(|rank| Run { rank: (rank, count), ..run.clone() }).collect()
    };
    let error = |edit: &dyn Fn(&Pair)| {
        let pair = Pair::of_ranks(&ranks(3), &ranks(3));
        edit(&pair);
        pair.try_diff().expect_err("B is broken").to_string()
    };
    let rank = |pair: &Pair, rank| file_of_rank(&pair.b, rank);
    let missing = error(&|pair| std::fs::remove_file(rank(pair, 2)).expect("it is there"));
    assert!(missing.contains("2 files of 3 ranks"), "{missing}");
    let missing = error(&|pair| std::fs::remove_file(rank(pair, 1)).expect("it is there"));
    assert!(missing.contains("expected rank 1, found 2"), "{missing}");
    let twice = error(&|pair| {
        std::fs::copy(rank(pair, 1), rank(pair, 2)).expect("it is there");
    });
    assert!(twice.contains("expected rank 2, found 1"), "{twice}");
    let disagreed = error(&|pair| {
        let header = Run { rank: (1, 4), ..run.clone() }.header();
        rewrite(&rank(pair, 1), 1, header, run.events());
    });
    assert!(disagreed.contains("ranks"), "{disagreed}");
    let empty = error(&|pair| {
        (0..3).for_each(|it| std::fs::remove_file(rank(pair, it)).expect("it is there"));
    });
    assert!(empty.contains("holds no file named rank_*.jsonl"), "{empty}");
    let beyond = error(&|pair| {
        let header = Run { rank: (1, 1), ..run.clone() }.header();
        rewrite(&rank(pair, 1), 1, header, run.events());
    });
    assert!(beyond.contains("rank 1 of 1 ranks"), "{beyond}");
}

#[test]
fn digests_of_another_kind_are_not_compared() {
    let run = Run::default();
    let pair = Pair::of(&run, &run);
    let mut header = run.header();
    header.digests = Digests::Sampled;
    rewrite(&pair.b, 0, header, run.events());
    let error = pair.try_diff().expect_err("they cannot be compared").to_string();
    assert!(error.contains("full digests"), "{error}");
}

#[test]
fn kept_tensors_lie_beside_the_ledger() {
    let run = Run::default();
    let pair = Pair::of(&run, &run);
    let kept = |digest: u64, name: &str| {
        let mut events = run.events();
        let Event::Op(it) = &mut events[1] else { panic!("an operation") };
        it.outputs[0].digest.as_mut().expect("a digest").0 ^= digest;
        it.outputs[0].file = Some(name.to_owned());
        events
    };
    for name in ["../secret", "/etc/passwd", "kept/../../x"] {
        rewrite(&pair.a, 0, run.header(), kept(0, name));
        rewrite(&pair.b, 0, run.header(), kept(1, name));
        let error = pair.try_diff().expect_err("no such files").to_string();
        assert!(error.contains("not a path below the ledger's folder"), "{error}");
    }
    rewrite(&pair.a, 0, run.header(), kept(0, "x.bin"));
    rewrite(&pair.b, 0, run.header(), kept(1, "x.bin"));
    assert!(matches!(pair.try_diff(), Err(ReadError::Io { .. })));
    std::fs::write(pair.a.with_file_name("x.bin"), [0; 5]).expect("it can be written");
    let error = pair.try_diff().expect_err("5 bytes").to_string();
    assert!(error.contains("5 bytes of a tensor f32[2, 3]"), "{error}");
}

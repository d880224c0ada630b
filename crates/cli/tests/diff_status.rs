//! `samebits diff` for scripts: its exit status is that of `diff` and `cmp`.

use std::path::Path;
use std::process::{Command, Output};

use samebits_ledger::record::{Detail, Digests, Event, Header, Program, Step, Tensor};
use samebits_ledger::{Digest, Writer};

fn ledger(path: &Path, loss: u64) {
    let header = Header {
        world_size: 1,
        writer: Program { name: "test".to_owned(), version: String::new() },
        detail: Detail::Step,
        digests: Digests::Full,
        environment: Default::default(),
        seeds: Default::default(),
        data: None,
    };
    let loss = Tensor {
        shape: Vec::new(),
        dtype: "f32".to_owned(),
        device: "cpu".to_owned(),
        digest: Some(Digest(loss)),
        reason: None,
        name: None,
        file: None,
    };
    let mut writer = Writer::create(path, 0, header).expect("a new file");
    let step = Step {
        step: 0,
        loss: Some(loss),
        parameters: Default::default(),
        gradients: Default::default(),
        generator: None,
    };
    writer.append(Event::Step(step)).expect("it can be written");
    writer.finish().expect("it can be written");
}

fn diff(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_samebits"))
        .arg("diff")
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn status_and_forms() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, loss) in [("a.jsonl", 1), ("b.jsonl", 2)] {
        ledger(&folder.path().join(name), loss);
    }
    std::fs::write(folder.path().join("broken.jsonl"), "{}\n").expect("it can be written");
    // The second frame holds the records; the size of its first block is in the byte after its
    // header.
    let packed = folder.path().join("packed.jsonl.zst");
    ledger(&packed, 1);
    let mut bytes = std::fs::read(&packed).expect("a file");
    let magic = [0x28, 0xb5, 0x2f, 0xfd];
    let frames = || bytes.windows(4).enumerate().filter(|(_, four)| *four == magic);
    let [_, second, _] = frames().map(|(at, _)| at).collect::<Vec<_>>()[..] else {
        panic!("three frames")
    };
    let (status, ..) = diff(folder.path(), &["a.jsonl", "packed.jsonl.zst"]);
    assert_eq!(status, Some(0));
    for at in second + 4..second + 16 {
        bytes[at] ^= 0x40;
        std::fs::write(folder.path().join("damaged.jsonl.zst"), &bytes).expect("a file");
        bytes[at] ^= 0x40;
        let (status, out, error) = diff(folder.path(), &["a.jsonl", "damaged.jsonl.zst"]);
        // Some bits of a header have no meaning.
        assert!(matches!(status, Some(0 | 2)), "byte {at}: {status:?} {out}{error}");
    }

    let (status, out, _) = diff(folder.path(), &["a.jsonl", "a.jsonl"]);
    assert_eq!(status, Some(0));
    assert!(out.starts_with("Equal: all 1 records agree.\n"), "{out}");

    let (status, out, _) = diff(folder.path(), &["a.jsonl", "b.jsonl", "--html", "page.html"]);
    assert_eq!(status, Some(1));
    let sentence = "Unequal at the end of step 0: the loss. Nothing recorded before differs.";
    assert!(out.starts_with(sentence), "{out}");
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert!(page.contains(sentence), "{page}");

    let (status, out, _) = diff(folder.path(), &["a.jsonl", "b.jsonl", "--json"]);
    assert_eq!(status, Some(1));
    let value: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(value["cause"], "step");

    for arguments in [
        &["a.jsonl", "broken.jsonl"][..],
        &["a.jsonl", "absent.jsonl"],
        &["a.jsonl"],
        &["a.jsonl", "a.jsonl", "--html", "no/such/folder.html"],
    ] {
        let (status, out, error) = diff(folder.path(), arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {out}{error}");
        assert!(error.contains("error: "), "{error}");
    }
}

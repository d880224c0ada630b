//! Snapshots of what the program prints: `--help` of every subcommand, messages of misuse, and
//! reports.

use std::path::Path;
use std::process::{Command, Output};

use samebits::Device;
use samebits::numerics::simd::Level;
use samebits_ledger::record::{
    Detail, Digests, Event, Header, Operation, Phase, Program, Step, Tensor,
};
use samebits_ledger::{Digest, Writer};
use samebits_verify::{Finding, Outcome, Report, Setting};
use test_support::listing::Listing;

/// Adds the exit status and the output of `samebits` with these arguments, in `folder`. Returns the
/// output.
fn add(listing: &mut Listing, folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_samebits"));
    for variable in ["COLUMNS", "RUST_LOG", "RUST_BACKTRACE", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    let Output { status, stdout, stderr } =
        command.args(arguments).current_dir(folder).output().expect("it runs");
    let text = [stdout, stderr].map(|bytes| String::from_utf8(bytes).expect("it is text")).concat();
    let status = status.code().expect("it ended by itself");
    listing.text(&format!("$ samebits {} # exit status {status}", arguments.join(" ")), &text);
    text
}

/// Adds the help of a command and of all its subcommands.
fn help(listing: &mut Listing, command: &[&str]) {
    let text = add(listing, Path::new("."), &[command, &["--help"]].concat());
    let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    // Longer descriptions continue on lines that are indented further.
    let names = listed.take_while(|line| !line.is_empty()).filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty()).then_some(name)
    });
    for name in names {
        help(listing, &[command, &[name]].concat());
    }
}

#[test]
fn help_of_every_subcommand() {
    let mut listing = Listing::default();
    help(&mut listing, &[]);
    let text = listing.to_string();
    assert!(text.contains("$ samebits autotune prune --help"), "the subcommands are not found");
    insta::assert_snapshot!("help", text);
}

#[test]
fn messages_of_misuse() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("broken.jsonl"), "{}\n").expect("it can be written");
    std::fs::write(folder.path().join("digits.csv"), "1,2,3\n").expect("it can be written");
    let mut listing = Listing::default();
    for arguments in [
        &["trian"][..],
        &["train", "--epochs", "0"],
        &["train", "--batch-size", "1"],
        &["train", "--lr=-1"],
        &["train", "--device", "tpu"],
        &["train", "--determinism", "always"],
        &["train", "--detail", "op"],
        &["train", "--resume", "a", "--seed", "1"],
        &["train", "--quiet", "--epochs", "1", "--data", "digits.csv"],
        &["gpt", "--context", "0"],
        &["gpt", "--heads", "3"],
        &["gpt", "--text", "digits.csv"],
        &["generate"],
        &["generate", "digits.csv"],
        &["diff", "a.jsonl"],
        &["diff", "broken.jsonl", "broken.jsonl"],
        &["verify", "--device", "gpu"],
    ] {
        add(&mut listing, folder.path(), arguments);
    }
    insta::assert_snapshot!("errors", listing);
}

fn tensor(digest: u64) -> Tensor {
    Tensor {
        shape: vec![2, 3],
        dtype: "f32".to_owned(),
        device: "cpu".to_owned(),
        digest: Some(Digest(digest)),
        reason: None,
        name: None,
        file: None,
    }
}

/// Writes a ledger of two steps with a product each, the second with the output `product`.
fn ledger(path: &Path, threads: &str, product: u64) {
    let header = Header {
        world_size: 1,
        writer: Program { name: "test".to_owned(), version: String::new() },
        detail: Detail::Op,
        digests: Digests::Full,
        environment: [("threads".to_owned(), threads.to_owned())].into(),
        seeds: [("default".to_owned(), 42)].into(),
        data: None,
    };
    let mut writer = Writer::create(path, 0, header).expect("a new file");
    for step in 0..2 {
        let output = if step == 1 { product } else { 30 };
        let operation = Operation {
            step,
            microbatch: 0,
            phase: Phase::Forward,
            name: "matmul".to_owned(),
            module: "layers.0".to_owned(),
            site: "model.rs:12".to_owned(),
            occurrence: 0,
            level: "portable".to_owned(),
            variant: "blocked".to_owned(),
            parameters: Default::default(),
            inputs: vec![tensor(10), tensor(20)],
            outputs: vec![tensor(output)],
            generator: None,
        };
        writer.append(Event::Op(operation)).expect("it can be written");
        let end = Step {
            step,
            loss: Some(tensor(output + 1)),
            parameters: [("weight".to_owned(), tensor(output + 2))].into(),
            gradients: Default::default(),
            generator: None,
        };
        writer.append(Event::Step(end)).expect("it can be written");
    }
    writer.finish().expect("it can be written");
}

#[test]
fn reports_of_diff() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, threads, product) in [("a.jsonl", "1", 30), ("b.jsonl", "8", 31)] {
        ledger(&folder.path().join(name), threads, product);
    }
    let mut listing = Listing::default();
    add(&mut listing, folder.path(), &["diff", "a.jsonl", "a.jsonl"]);
    add(&mut listing, folder.path(), &["diff", "a.jsonl", "b.jsonl"]);
    add(&mut listing, folder.path(), &["diff", "a.jsonl", "b.jsonl", "--from-step", "1"]);
    add(&mut listing, folder.path(), &["diff", "a.jsonl", "b.jsonl", "--json"]);
    insta::assert_snapshot!("diff", listing);
}

#[test]
fn reports_of_verify() {
    let setting = |threads, simd| Setting { device: Device::Cpu, threads, simd, contention: false };
    let mut report = Report {
        numerics_version: 1,
        not_compared: Vec::new(),
        outcomes: vec![
            Outcome {
                setting: setting(Some(1), Level::Portable),
                cases: 120,
                findings: Vec::new(),
            },
            Outcome { setting: setting(Some(3), Level::Avx2), cases: 120, findings: Vec::new() },
        ],
    };
    let mut listing = Listing::default();
    listing.text("same bits", &report);
    report.not_compared.push("avx512");
    report.outcomes[1].setting.contention = true;
    let finding = |case: &str, expected: Option<&str>, found: Option<&str>| Finding {
        family: "reduce",
        case: case.to_owned(),
        expected: expected.map(str::to_owned),
        found: found.map(str::to_owned),
    };
    report.outcomes[1].findings = vec![
        finding("sum f32 0", Some("0123456789abcdef"), Some("fedcba9876543210")),
        finding("a case without a digest", None, Some("fedcba9876543210")),
        finding("a digest without a case", Some("0123456789abcdef"), None),
    ];
    listing.text("other bits", &report);
    insta::assert_snapshot!("verify", listing);
}

/// Keeps the names of the facts: their values are those of this machine.
#[test]
fn facts_of_env() {
    let output = Command::new(env!("CARGO_BIN_EXE_samebits")).arg("env").output().expect("it runs");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("it is text");
    let mut names: Vec<&str> =
        text.lines().map(|line| line.get(..24).unwrap_or(line).trim_end()).collect();
    // One line for each device, and one for each library that the build uses.
    names.dedup();
    names.retain(|name| !name.starts_with("cu") && !name.starts_with("SAMEBITS_"));
    let mut listing = Listing::default();
    listing.text("$ samebits env", names.join("\n"));
    insta::assert_snapshot!("env", listing);
}

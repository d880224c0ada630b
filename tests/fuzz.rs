//! The fuzzer covers every operation, and its past findings stay fixed.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use workspace_tests::fuzz::{self, Plan, TIME_LIMIT};

fn child(target: &str, seed: u64, cases: &Range<u64>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuzz"));
    command.args(["--child", "--seed", &seed.to_string(), target]);
    command.args(["--cases", &format!("{}..{}", cases.start, cases.end)]);
    command
}

fn plan(target: &str, seed: u64, cases: Range<u64>) -> Plan {
    Plan {
        child,
        targets: vec![target.to_owned()],
        seed,
        cases,
        deadline: None,
        jobs: 1,
        patience: TIME_LIMIT,
    }
}

#[test]
fn every_registered_operation_has_a_target() {
    samebits::install();
    let targets = fuzz::targets();
    let reached: BTreeSet<_> = targets.iter().filter_map(|target| target.kernel).collect();
    let registered = samebits::registry::kernels();
    let missing: BTreeSet<_> = registered
        .into_iter()
        .map(|(kernel, _)| (kernel.op, kernel.pass))
        .filter(|kernel| !reached.contains(kernel))
        .collect();
    assert!(missing.is_empty(), "add them to tests/src/fuzz/calls: {missing:?}");
}

/// Returns whether another function's call covers this one: `conv2d` is `conv` of two dimensions,
/// and `rand` draws for `rand_with` from the default generator.
fn is_another_form(name: &str, called: &BTreeSet<String>) -> bool {
    let of_any_rank = ["1d", "2d", "3d"].iter().find_map(|rank| name.strip_suffix(rank));
    of_any_rank.is_some_and(|name| called.contains(name))
        || called.contains(&format!("{name}_with"))
}

/// Compares by text, because no table lists the functions of `functional`.
#[test]
fn every_function_is_called() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let exports = std::fs::read_to_string(root.join("../crates/autograd/src/functional.rs"));
    let words = |text: &str| -> Vec<String> {
        let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.split(|c| !in_name(c)).map(str::to_owned).collect()
    };
    let functions: BTreeSet<String> = exports
        .unwrap()
        .split("\npub use ")
        .skip(1)
        .flat_map(|rest| words(rest.split(';').next().unwrap().split_once("::").unwrap().1))
        .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect();
    assert!(functions.contains("matmul") && functions.len() > 200, "{functions:?}");
    // Many are an operation and nothing else.
    let names = fuzz::targets().into_iter().map(|target| target.name);
    let mut called: BTreeSet<String> =
        names.filter_map(|name| name.strip_prefix("calls/").map(str::to_owned)).collect();
    for file in std::fs::read_dir(root.join("src/fuzz/calls")).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        called.extend(text.split("f::").skip(1).map(|rest| words(rest)[0].clone()));
    }
    let missing: Vec<_> = functions
        .iter()
        .filter(|name| !called.contains(*name) && !is_another_form(name, &called))
        .collect();
    assert!(missing.is_empty(), "call them in tests/src/fuzz/calls: {missing:?}");
}

/// Compares by text again: a layer with options has an options type.
#[test]
fn every_layer_with_options_is_made() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let layers = std::fs::read_to_string(root.join("src/fuzz/calls/layers.rs")).unwrap();
    let made: BTreeSet<&str> = layers
        .split("::options(")
        .map(|before| before.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap())
        .collect();
    let mut missing = Vec::new();
    for file in ["nn/layers.rs", "nn.rs"] {
        let exports = root.join("../crates/autograd/src").join(file);
        let exports = std::fs::read_to_string(exports).unwrap();
        let words = exports.split(|c: char| !c.is_ascii_alphanumeric());
        for layer in words.filter_map(|word| word.strip_suffix("Options")) {
            // Some serve several layers: `Conv1d` to `Conv3d`, `RNNCell` to `LSTMCell`.
            let is_made = match layer {
                "Cell" => ["RNNCell", "GRUCell", "LSTMCell"].iter().all(|name| made.contains(name)),
                "Recurrent" => ["RNN", "GRU", "LSTM"].iter().all(|name| made.contains(name)),
                // Options of a method of `Gpt`, not of a layer.
                "Generate" => made.contains("Gpt"),
                "TransformerLayer" => made.contains("TransformerDecoderLayer"),
                _ => made.contains(layer) || made.contains(format!("{layer}2d").as_str()),
            };
            if !is_made {
                missing.push(format!("{layer}Options"));
            }
        }
    }
    assert!(missing.is_empty(), "make their layers in tests/src/fuzz/calls/layers.rs: {missing:?}");
}

/// Public functions that read data of other programs, by file and name, and the targets that call
/// them.
const READERS: &[(&str, &str, &str)] = &[
    ("autograd/src/optim/plateau.rs", "load_state", "runs"),
    ("autotune/src/file.rs", "read", "choices"),
    ("data/src/csv.rs", "parse", "csv"),
    ("data/src/csv.rs", "read", "csv"),
    ("data/src/image_folder.rs", "open", "images"),
    ("data/src/image_folder/decode.rs", "decode", "images"),
    ("data/src/json_lines.rs", "open", "json_lines"),
    ("data/src/json_lines.rs", "parse", "json_lines"),
    ("data/src/loader.rs", "resume", "loader_state"),
    ("data/src/loader.rs", "resume_dealt", "loader_state"),
    ("data/src/rows.rs", "open_idx", "idx"),
    ("data/src/rows.rs", "open_raw", "tokens"),
    ("data/src/rows.rs", "open_safetensors", "safetensors"),
    ("data/src/rows.rs", "parse_idx", "idx"),
    ("data/src/rows.rs", "parse_safetensors", "safetensors"),
    ("data/src/stream.rs", "resume", "stream_state"),
    ("data/src/stream.rs", "resume_lanes", "stream_state"),
    ("data/src/tar.rs", "open", "tar"),
    ("data/src/tar.rs", "parse", "tar"),
    ("ledger/src/diff.rs", "diff", "ledgers"),
    ("ptx-emulator/src/device.rs", "load", "ptx"),
    ("ptx-emulator/src/load.rs", "parse", "ptx"),
    ("ptx-emulator/src/load.rs", "parse_with", "ptx"),
    ("ptx-emulator/src/schedule.rs", "parse", "schedules"),
    ("rng/src/generator.rs", "from_bytes", "generators"),
    ("rng/src/numpy/random_state.rs", "from_state", "random_states"),
    ("rng/src/numpy/seed_sequence.rs", "from_decimal", "seed_sequence"),
    ("rng/src/pcg.rs", "from_bytes", "generators"),
    ("rng/src/philox64.rs", "from_bytes", "generators"),
    ("rng/src/torch.rs", "from_state", "generators"),
    ("samebits/src/io/checkpoint.rs", "from_bytes", "checkpoints"),
    ("samebits/src/io/checkpoint.rs", "load", "checkpoints"),
    ("samebits/src/io/gpt.rs", "load_gpt", "gpts"),
    ("samebits/src/io/gpt/config.rs", "parse_gpt_config", "gpts"),
    ("samebits/src/io/npy.rs", "load_npy", "npy"),
    ("samebits/src/io/npz.rs", "load_npz", "npz"),
    ("samebits/src/io/npz.rs", "open", "npz"),
    ("samebits/src/io/safetensors.rs", "load_safetensors", "weights"),
    ("samebits/src/io/safetensors.rs", "open", "weights"),
    ("samebits/src/trainer/state.rs", "load_state", "runs"),
    ("samebits/src/trainer/state.rs", "resume", "checkpoints"),
];

/// Functions with a reader's name but without a target. Differences of tensors and the emulated
/// device's memory are not files. Parquet and tokenizers are behind features that only the crates' own
/// tests enable; they test damaged files.
const NO_TARGETS: [(&str, &str); 6] = [
    ("autograd/src/functional/statistics.rs", "diff"),
    ("data/src/parquet.rs", "open"),
    ("data/src/parquet.rs", "parse"),
    ("ptx-emulator/src/device.rs", "read"),
    ("samebits/src/io/tokenizer.rs", "decode"),
    ("samebits/src/io/tokenizer.rs", "load"),
];

/// Recognises readers by their names.
#[test]
fn every_public_reader_has_a_target() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found = BTreeSet::new();
    for krate in std::fs::read_dir(&crates).unwrap() {
        readers(&krate.unwrap().path().join("src"), &crates, &mut found);
    }
    let own = |(file, name): (&str, &str)| (file.to_owned(), name.to_owned());
    for reader in NO_TARGETS {
        assert!(found.remove(&own(reader)), "{reader:?} is no reader any more");
    }
    let listed: BTreeSet<_> = READERS.iter().map(|&(file, name, _)| own((file, name))).collect();
    let missing: Vec<_> = found.symmetric_difference(&listed).collect();
    assert!(missing.is_empty(), "in the crates or in READERS, but not in both: {missing:?}");
    let targets: BTreeSet<_> = fuzz::targets().into_iter().map(|target| target.name).collect();
    for (_, _, target) in READERS {
        assert!(targets.contains(&format!("bytes/{target}")), "no target bytes/{target}");
    }
}

/// Adds the public functions of a folder's files whose names are those of readers.
fn readers(folder: &Path, crates: &Path, found: &mut BTreeSet<(String, String)>) {
    let verbs = ["decode", "diff", "from", "load", "open", "parse", "read", "resume"];
    let after_from = ["bytes", "decimal", "json", "reader", "state", "text"];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            readers(&path, crates, found);
            continue;
        }
        let file = path.strip_prefix(crates).unwrap().to_str().unwrap().replace('\\', "/");
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let Some(rest) = line.trim_start().strip_prefix("pub fn ") else { continue };
            let name = rest.split(['(', '<']).next().unwrap();
            let (verb, what) = name.split_once('_').unwrap_or((name, ""));
            if verbs.contains(&verb) && (verb != "from" || after_from.contains(&what)) {
                found.insert((file.clone(), name.to_owned()));
            }
        }
    }
}

/// Runs cases that once ended wrong: `TARGET SEED CASE` in each line.
#[test]
fn what_was_found_stays_mended() {
    let lines = include_str!("fuzz_regressions.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let [target, seed, case] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("expected TARGET SEED CASE, found {line:?}");
        };
        let (seed, case): (u64, u64) = (seed.parse().unwrap(), case.parse().unwrap());
        assert!(fuzz::targets().iter().any(|known| known.name == target), "no target {target}");
        let report = fuzz::hunt(&plan(target, seed, case..case + 1), |_| {});
        assert!(report.findings.is_empty(), "{line}: {:?}", report.findings);
        let ended: u64 = report.counts.values().flatten().sum();
        assert_eq!(ended, 1, "{line}: the case did not run");
    }
}

//! The calls of the program in its README and in the book run.

use std::path::Path;
use std::process::Command;

/// Returns the calls of the program in the blocks of `sh` of a document, without those under
/// `mpirun` or `srun`, which need an installation, and without the programs that they are piped to.
fn calls(path: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let text = std::fs::read_to_string(path).expect("a document");
    let blocks = text.split("```").skip(1).step_by(2).filter(|block| block.starts_with("sh\n"));
    let lines = blocks.flat_map(str::lines);
    let lines = lines.map(|line| line.split(['#', '|']).next().unwrap_or("").trim());
    lines.filter(|line| line.starts_with("samebits ")).map(str::to_owned).collect()
}

#[test]
fn calls_in_the_documents_run() {
    let folder = tempfile::tempdir().expect("a folder");
    // The README's runs leave the ledgers that the book's page compares.
    for run in ["a", "b"] {
        std::fs::create_dir_all(folder.path().join("runs").join(run)).expect("a folder");
    }
    let mut count = 0;
    for document in ["crates/cli/README.md", "docs/book/diff.md", "docs/book/distributed.md"] {
        for call in calls(document) {
            let arguments: Vec<_> = call.split_whitespace().skip(1).collect();
            let mut command = Command::new(env!("CARGO_BIN_EXE_samebits"));
            let output = command.args(&arguments).current_dir(&folder).output().expect("it runs");
            let problem = String::from_utf8_lossy(&output.stderr);
            // `samebits diff` ends with 1 if the runs differ.
            let expected = i32::from(arguments[0] == "diff");
            assert_eq!(output.status.code(), Some(expected), "{document}: `{call}`: {problem}");
            for run in ["a", "b"] {
                let ledger = format!("{run}.jsonl");
                if arguments.ends_with(&[ledger.as_str()]) && arguments[0] == "train" {
                    let to = folder.path().join("runs").join(run).join("rank_0.jsonl");
                    std::fs::copy(folder.path().join(&ledger), to).expect("a ledger");
                }
            }
            count += 1;
        }
    }
    assert_eq!(count, 9);
}

//! `cargo xtask new-op NAME`: writes the skeleton of an operator, its gradient, their kernels on
//! both devices, and its sample.
//!
//! The skeleton is complete except for decisions. Each is a `compile_error!` (in CUDA C++ `#error`)
//! that names the decision.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Flags of `cargo xtask new-op`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The operation's name in `snake_case`: PyTorch's, if it has one.
    name: String,
}

/// The files to write: the path, with `op_name` for the name, and the text.
const FILES: [(&str, &str); 8] = [
    ("crates/tensor-core/src/ops/op_name.rs", include_str!("../templates/op.rs.txt")),
    ("crates/cpu-kernels/src/op_name.rs", include_str!("../templates/cpu.rs.txt")),
    ("crates/cpu-kernels/src/backend/op_name.rs", include_str!("../templates/cpu_backend.rs.txt")),
    ("kernels/op_name.cu", include_str!("../templates/kernel.cu.txt")),
    ("crates/cuda-kernels/src/op_name.rs", include_str!("../templates/cuda.rs.txt")),
    (
        "crates/cuda-kernels/src/backend/op_name.rs",
        include_str!("../templates/cuda_backend.rs.txt"),
    ),
    ("crates/autograd/src/functional/op_name.rs", include_str!("../templates/functional.rs.txt")),
    ("crates/verify/src/samples/op_name.rs", include_str!("../templates/samples.rs.txt")),
];

/// The sorted lists that name every family: the file, the text of a line before and after the name,
/// and the line to add.
const LISTS: [(&str, &str, &str, &str); 12] = [
    ("crates/tensor-core/src/ops.rs", "mod ", ";", "mod op_name;"),
    ("crates/tensor-core/src/ops.rs", "pub use ", "::", "pub use op_name::{OpName, OpNameGrad};"),
    ("crates/cpu-kernels/src/lib.rs", "mod ", ";", "pub mod op_name;"),
    ("crates/cpu-kernels/src/backend.rs", "mod ", ";", "mod op_name;"),
    (
        "crates/cpu-kernels/src/backend.rs",
        "        ",
        "::register_all();",
        "        op_name::register_all();",
    ),
    ("crates/cuda-kernels/src/lib.rs", "mod ", ";", "pub mod op_name;"),
    ("crates/cuda-kernels/src/backend.rs", "mod ", ";", "mod op_name;"),
    (
        "crates/cuda-kernels/src/backend.rs",
        "        ",
        "::register_all();",
        "        op_name::register_all();",
    ),
    ("crates/autograd/src/functional.rs", "mod ", ";", "mod op_name;"),
    ("crates/autograd/src/functional.rs", "pub use ", "::", "pub use op_name::op_name;"),
    ("crates/verify/src/samples.rs", "mod ", ";", "mod op_name;"),
    (
        "crates/verify/src/samples.rs",
        "    (\"",
        "\", ",
        "    (\"op_name\", op_name::add, op_name::samples),",
    ),
];

const NEXT: &str = "Next:
  - `cargo xtask build-kernels` compiles the CUDA kernels, once their decision is made;
    `samebits-cuda-kernels` includes the result, so it comes first;
  - `cargo check --workspace --all-targets` names every other decision, crate by crate;
  - `cargo test --workspace --test fuzz` asks for a target in tests/src/fuzz/calls;
  - `cargo test --workspace --test invariance --test batches --test gradients` runs the proofs;
  - `cargo xtask support-matrix` renews the table of kernels.
docs/book/adding-an-operator.md has the whole way.";

pub(crate) fn run(args: &Args) -> Result<()> {
    for path in write(crate::root(), &args.name)? {
        println!("{}", path.display());
    }
    println!("{NEXT}");
    Ok(())
}

/// Writes the skeleton below `root` and returns the files that are new or changed. If a file is in
/// the way, nothing is written.
fn write(root: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    ensure!(
        name.chars().all(is_word) && name.starts_with(|c: char| c.is_ascii_lowercase()),
        "new-op: expected a name in snake_case, got `{name}`"
    );
    let mut texts: Vec<(PathBuf, String)> = Vec::new();
    for (path, text) in FILES {
        let path = root.join(path.replace("op_name", name));
        ensure!(!path.exists(), "new-op: {} is there already", path.display());
        let text = filled(text, name);
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        texts.push((path, if is_rust { formatted(&text)? } else { text }));
    }
    for (path, before, after, line) in LISTS {
        let path = root.join(path);
        let known = texts.iter().position(|(known, _)| *known == path);
        let text = match known {
            Some(at) => texts.remove(at).1,
            None => std::fs::read_to_string(&path)
                .with_context(|| format!("new-op: cannot read {}", path.display()))?,
        };
        let text = inserted(&text, before, after, name, &filled(line, name))
            .with_context(|| format!("new-op: no list of `{before}NAME{after}` in {path:?}"))?;
        texts.push((path, text));
    }
    for (path, text) in &texts {
        std::fs::write(path, text)
            .with_context(|| format!("new-op: cannot write {}", path.display()))?;
    }
    Ok(texts.into_iter().map(|(path, _)| path).collect())
}

/// Formats Rust code with rustfmt; the layout depends on the length of the name.
fn formatted(code: &str) -> Result<String> {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(crate::root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("new-op: cannot start rustfmt")?;
    rustfmt.stdin.take().context("new-op: rustfmt reads nothing")?.write_all(code.as_bytes())?;
    let output = rustfmt.wait_with_output()?;
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "new-op: rustfmt: {problem}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns a template with the name filled in.
fn filled(template: &str, name: &str) -> String {
    template.replace("op_name", name).replace("OpName", &camel(name))
}

/// Converts `batch_norm` to `BatchNorm`.
fn camel(name: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    };
    name.split('_').map(capital).collect()
}

/// Returns `text` with `line` inserted at the place of `name` in the list of lines
/// `before NAME after ..`.
fn inserted(text: &str, before: &str, after: &str, name: &str, line: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let listed = |line: &str| -> Option<String> {
        // Public and private modules share one order.
        let line = if before == "mod " { line.trim_start_matches("pub ") } else { line };
        let (listed, _) = line.strip_prefix(before)?.split_once(after)?;
        let is_name = listed.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (is_name && listed != "crate").then(|| listed.to_owned())
    };
    let last = lines.iter().rposition(|line| listed(line).is_some())?;
    let end = line.chars().next_back()?;
    let later = lines.iter().position(|line| listed(line).is_some_and(|other| *other > *name));
    let at = match later {
        // Insert above the attributes of the next line.
        Some(at) => at - lines[..at].iter().rev().take_while(|l| l.starts_with("#[")).count(),
        // Insert below the last entry, which may have several lines.
        None => last + 1 + lines[last..].iter().position(|l| l.ends_with(end))?,
    };
    let lines = [&lines[..at], &[line], &lines[at..]].concat();
    Some(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Creates a folder with the lists of the workspace and nothing else.
    fn copy(name: &str) -> PathBuf {
        let folder = crate::target().join("tmp").join(name);
        drop(std::fs::remove_dir_all(&folder));
        for (path, _) in FILES {
            std::fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
        }
        for (path, ..) in LISTS {
            std::fs::copy(crate::root().join(path), folder.join(path)).unwrap();
        }
        folder
    }

    /// Returns whether rustfmt leaves the text unchanged.
    fn is_formatted(text: &str) -> bool {
        formatted(text).is_ok_and(|found| found == text)
    }

    #[test]
    fn a_skeleton_is_placed_and_asks_what_is_to_decide() {
        let root = copy("new-op");
        let files = write(&root, "soft_sign").unwrap();
        let mut asked = 0;
        for path in &files {
            let text = std::fs::read_to_string(path).unwrap();
            assert!(!text.contains("op_name") && !text.contains("OpName"), "{path:?}");
            let is_new = path.file_stem().unwrap() == "soft_sign";
            if path.extension().unwrap() == "rs" {
                assert!(is_formatted(&text), "{path:?} is not as rustfmt writes it:\n{text}");
            }
            if is_new {
                let questions = text.matches("compile_error!(").count();
                let questions = questions + text.matches("#error \"soft_sign: ").count();
                assert!(questions > 0, "{path:?} asks nothing");
                asked += questions;
            }
        }
        assert_eq!(asked, 10);
        let new: BTreeSet<_> =
            FILES.iter().map(|(path, _)| root.join(path.replace("op_name", "soft_sign"))).collect();
        let changed: BTreeSet<_> = LISTS.iter().map(|(path, ..)| root.join(path)).collect();
        assert_eq!(files.into_iter().collect::<BTreeSet<_>>(), &new | &changed);
        let again = write(&root, "soft_sign").unwrap_err().to_string();
        assert!(again.ends_with("is there already"), "{again}");
    }

    /// Covers the first place, the last, and places beside modules that are not public.
    #[test]
    fn every_name_has_its_place() {
        for name in ["aa", "eq", "maximum", "zeta"] {
            let files = write(&copy(name), name).unwrap();
            for path in files.iter().filter(|path| path.extension().unwrap() == "rs") {
                let text = std::fs::read_to_string(path).unwrap();
                assert!(is_formatted(&text), "{path:?} is not as rustfmt writes it:\n{text}");
            }
        }
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        for name in ["", "Roll", "2d", "a-b", "_x"] {
            let error = write(Path::new("nowhere"), name).unwrap_err().to_string();
            assert_eq!(error, format!("new-op: expected a name in snake_case, got `{name}`"));
        }
    }

    #[test]
    fn a_line_goes_where_its_name_belongs() {
        let text =
            "use x;\nmod a;\n#[cfg(unix)]\nmod c;\n\npub use a::{\n    A,\n};\n\nfn f() {}\n";
        let add = |name: &str, before, after, line| inserted(text, before, after, name, line);
        let found = add("b", "mod ", ";", "mod b;").unwrap();
        assert!(found.contains("mod a;\nmod b;\n#[cfg(unix)]\nmod c;\n"), "{found}");
        let found = add("d", "mod ", ";", "mod d;").unwrap();
        assert!(found.contains("mod c;\nmod d;\n\n"), "{found}");
        let found = add("b", "pub use ", "::", "pub use b::B;").unwrap();
        assert!(found.contains("    A,\n};\npub use b::B;\n"), "{found}");
        assert_eq!(add("b", "type ", ";", "type b;"), None);
    }

    #[test]
    fn unformatted_and_broken_text_is_told() {
        assert!(is_formatted("fn f() {}\n"));
        assert!(!is_formatted("fn f( ) {}\n"));
        assert!(!is_formatted("fn f( {}\n"));
    }
}

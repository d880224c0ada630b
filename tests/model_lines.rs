//! The table of lines in `docs/book/from-pytorch.md` matches the models: those of PyTorch and samebits
//! in that file, those of burn and candle in `tests/peers`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Title in the document, file name, and true if candle has all that the model needs.
const MODELS: [(&str, &str, bool); 6] = [
    ("Multilayer perceptron", "mlp", true),
    ("Convolutional network", "cnn", true),
    ("LSTM", "lstm", true),
    ("Transformer", "transformer", true),
    ("Recommender", "recommender", true),
    ("CTC", "ctc", false),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Counts the lines that are neither empty, nor comments, nor imports.
fn lines(text: &str) -> usize {
    let mut importing = false;
    let counted = |line: &&str| {
        importing |= line.starts_with("use ");
        let import = importing;
        importing &= !line.ends_with(';');
        !import && !line.is_empty() && !line.starts_with("//")
    };
    text.lines().map(str::trim).filter(counted).count()
}

/// Returns the block of `language` below the title of a model, without hidden lines.
fn block(document: &str, title: &str, language: &str) -> String {
    let (_, section) = document.split_once(&format!("\n### {title}\n")).unwrap();
    let (_, block) = section.split_once(&format!("\n```{language}\n")).unwrap();
    let shown = block.split_once("\n```").unwrap().0.lines().filter(|line| !line.starts_with("# "));
    shown.map(|line| format!("{line}\n")).collect()
}

/// Returns the model and its step: the text before `main`.
fn peer(library: &str, stem: &str) -> String {
    let text = read(&format!("tests/peers/src/bin/{library}_{stem}.rs"));
    text.split_once("\nfn main(").unwrap().0.to_owned()
}

#[test]
fn the_table_is_what_is_counted() {
    let document = read("docs/book/from-pytorch.md");
    let manifest = read("tests/peers/Cargo.toml").parse::<toml::Table>().unwrap();
    let dependency = |name: &str| &manifest["dependencies"][name];
    let version = |value: &toml::Value| value.as_str().unwrap().trim_start_matches('=').to_owned();
    let (burn, candle) =
        (version(&dependency("burn")["version"]), version(dependency("candle-core")));
    let mut table = format!(
        "| model | PyTorch | samebits | burn {burn} | candle {candle} |\n|---|---|---|---|---|\n"
    );
    for (title, stem, in_candle) in MODELS {
        let [torch, ours] =
            ["python", "rust"].map(|language| lines(&block(&document, title, language)));
        let burn = lines(&peer("burn", stem));
        assert!(ours <= burn, "{title}: {ours} lines, burn needs {burn}");
        let candle = match in_candle {
            true => lines(&peer("candle", stem)).to_string(),
            false => "no CTC loss".to_owned(),
        };
        table += &format!("| {title} | {torch} | {ours} | {burn} | {candle} |\n");
    }
    assert!(document.contains(&table), "docs/book/from-pytorch.md should hold\n{table}");
}

/// Otherwise longer lines could reduce the count.
#[test]
fn all_are_formatted_alike() {
    let folder = tempfile::tempdir().unwrap();
    let document = read("docs/book/from-pytorch.md");
    for (title, stem, _) in MODELS {
        fs::write(folder.path().join(format!("{stem}.rs")), block(&document, title, "rust"))
            .unwrap();
    }
    for files in [folder.path(), &root().join("tests/peers/src/bin")] {
        let files = fs::read_dir(files).unwrap().map(|file| file.unwrap().path());
        let mut rustfmt = Command::new("rustfmt");
        rustfmt.args(["--check", "--edition", "2024", "--config-path"]).arg(root());
        let output = rustfmt.args(files).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn imports_comments_and_empty_lines_do_not_count() {
    let text =
        "use a::b;\nuse c::{\n    d, e,\n};\n\n/// What.\nfn f() {\n    // Why.\n    g();\n}\n";
    assert_eq!(lines(text), 3);
}

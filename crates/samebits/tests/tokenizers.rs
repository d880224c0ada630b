//! Tokenizers that the Python library `tokenizers` wrote; `tokenizer/generate.py` wrote these.

use std::path::{Path, PathBuf};

use samebits::io::Tokenizer;
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    text: String,
    tokens: Vec<i64>,
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tokenizer").join(name)
}

#[test]
fn tokens_are_those_of_the_python_library() {
    let tokenizer = Tokenizer::load(file("tokenizer.json")).unwrap();
    assert_eq!(tokenizer.vocabulary(), 320);
    let expected = std::fs::read_to_string(file("expected.json")).unwrap();
    let expected: Vec<Expected> = serde_json::from_str(&expected).unwrap();
    assert!(expected.len() > 3);
    for Expected { text, tokens } in expected {
        assert_eq!(tokenizer.encode(&text).unwrap(), tokens, "{text}");
        assert_eq!(tokenizer.decode(&tokens).unwrap(), text.as_bytes());
    }
    for token in [-1, 320] {
        let error = tokenizer.decode(&[token]).unwrap_err().to_string();
        assert_eq!(error, format!("Tokenizer::decode: expected tokens below 320, got {token}"));
    }
}

#[test]
fn files_of_another_kind_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let error = || Tokenizer::load(&path).unwrap_err().to_string();
    assert!(error().starts_with("Tokenizer::load: cannot read "), "{}", error());
    for text in ["", "{}", "[]", "\0"] {
        std::fs::write(&path, text).unwrap();
        assert!(error().contains("the tokenizer: "), "{}", error());
    }
}

//! `samebits verify`, tested from outside.

use std::process::{Command, Output};

fn verify(arguments: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_samebits"))
        .env_remove("SAMEBITS_SIMD")
        .arg("verify")
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap();
    (output, text)
}

#[test]
fn this_build_has_the_promised_bits() {
    let (output, text) = verify(&["--quick", "--device", "cpu", "norm", "random"]);
    assert!(output.status.success(), "{text}");
    let rows: Vec<_> = text.lines().collect();
    assert!(rows[0].starts_with("cpu, all threads") && rows[0].ends_with("same bits"), "{text}");
    assert!(rows[1].starts_with("cpu, 1 thread, portable"), "{text}");
    assert!(text.contains("results have the bits of numerics version"), "{text}");

    let (output, text) = verify(&["--quick", "--json", "norm"]);
    assert!(output.status.success(), "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).expect(&text);
    let outcome = &report["outcomes"][0];
    assert_eq!(outcome["setting"]["device"], "cpu");
    assert!(outcome["cases"].as_u64().unwrap() > 10, "{text}");
    assert_eq!(outcome["findings"].as_array().unwrap().len(), 0);
}

#[test]
fn what_is_not_there_is_said() {
    let (output, text) = verify(&["nrom"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("no family is called \"nrom\"; there are bincount, "), "{text}");
    let (output, text) = verify(&["--device", "cuda:97"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("cuda:97"), "{text}");
}

//! `samebits gpt` and `samebits generate`, tested from outside.

#[path = "common/program.rs"]
mod program;

use program::{Run, SCHEDULE, has_no_gpu};

/// The digest of the weights after 6 steps of `SMALL`. It is part of the numerics contract, as that
/// of `samebits train`; `cargo xtask cross` compares with it, too.
const GOLDEN: &str = include_str!("gpt.digest").trim_ascii();
/// The same with `--precision bf16`.
const GOLDEN_BF16: &str = include_str!("gpt-bf16.digest").trim_ascii();
const SMALL: [&str; 13] = include!("gpt.arguments");

/// Writes a text of 730 bytes, with which `TINY` takes 10 steps in 2 epochs.
fn tiny_text(run: &Run) {
    let text: String = (0..73).map(|i| format!("{:9}\n", i * i * i)).collect();
    std::fs::write(run.path("text"), text).unwrap();
}

const TINY: [&str; 15] = [
    "--quiet",
    "--text",
    "text",
    "--context",
    "16",
    "--width",
    "8",
    "--heads",
    "2",
    "--layers",
    "1",
    "--epochs",
    "2",
    "--dropout",
    "0.3",
];

#[test]
fn the_digest_is_golden_on_any_threads_and_at_every_simd_level() {
    let run = Run::new("gpt");
    for threads in ["1", "2", "5"] {
        let more = ["--threads", threads, "--workers", threads];
        let digest = run.digest(&[], &[&SMALL[..], &more].concat());
        assert_eq!(digest[..16], *GOLDEN, "{threads} threads");
    }
    for level in ["portable", "avx2", "avx512"] {
        let digest = run.digest(&[("SAMEBITS_SIMD", level)], &SMALL);
        assert_eq!(digest[..16], *GOLDEN, "{level}");
    }
    let digest = run.digest(&[("SAMEBITS_RERUN", "2")], &SMALL);
    assert_eq!(digest[..16], *GOLDEN, "computed twice");
    let digest = run.digest(&[], &[&SMALL[..], &["--gradient-checkpointing"]].concat());
    assert_eq!(digest[..16], *GOLDEN, "with blocks computed again");
    for change in [["--seed", "1"], ["--lr", "0.0030001"], ["--dropout", "0.11"]] {
        let digest = run.digest(&[], &[&SMALL[..], &change].concat());
        assert_ne!(digest[..16], *GOLDEN, "{change:?}");
    }
}

#[test]
fn mixed_precision_has_the_same_bits_on_any_threads_and_at_every_simd_level() {
    let run = Run::new("gpt");
    let small = [&SMALL[..], &["--precision", "bf16"]].concat();
    for threads in ["1", "2", "5"] {
        let digest = run.digest(&[], &[&small[..], &["--threads", threads]].concat());
        assert_eq!(digest[..16], *GOLDEN_BF16, "{threads} threads");
    }
    for level in ["portable", "avx2", "avx512"] {
        let digest = run.digest(&[("SAMEBITS_SIMD", level)], &small);
        assert_eq!(digest[..16], *GOLDEN_BF16, "{level}");
    }
    let digest = run.digest(&[], &[&small[..], &["--gradient-checkpointing"]].concat());
    assert_eq!(digest[..16], *GOLDEN_BF16, "with blocks computed again");
}

#[test]
fn a_run_that_is_resumed_at_any_step_leaves_the_same_file() {
    let run = Run::new("gpt");
    tiny_text(&run);
    for precision in ["f32", "bf16", "f16"] {
        let tiny = [&TINY[..], &["--precision", precision]].concat();
        let whole = run.digest(&[], &[&tiny[..], &["--save", "whole"]].concat());
        let expected = std::fs::read(run.path("whole")).unwrap();
        for cut in 0..=10 {
            let cut = cut.to_string();
            run.digest(&[], &[&tiny[..], &["--max-steps", &cut, "--save", "cut"]].concat());
            let rest = ["--quiet", "--text", "text", "--resume", "cut", "--save", "cut"];
            let resumed = run.digest(&[("RAYON_NUM_THREADS", "3")], &rest);
            assert_eq!(resumed, whole, "{precision} cut after {cut} steps");
            let file = std::fs::read(run.path("cut")).unwrap();
            assert!(file == expected, "{precision} cut after {cut} steps");
        }
    }
    // Another text of the same length than that of the first steps.
    run.digest(&[], &[&TINY[..], &["--max-steps", "4", "--save", "begun"]].concat());
    let text = std::fs::read_to_string(run.path("text")).unwrap();
    std::fs::write(run.path("other"), text.replace('7', "8")).unwrap();
    let (_, problem) = run.refusal(&["--text", "other", "--resume", "begun"]);
    assert!(problem.contains("windows of 16 bytes of the text "), "{problem}");
}

#[test]
fn ranks_share_a_step_and_change_no_bit() {
    let run = Run::new("gpt");
    tiny_text(&run);
    let common = [&TINY[..], &["--micro-batches", "4", "--save"]].concat();
    let expected = run.digest(&[], &[&common[..], &["alone"]].concat());
    let alone = std::fs::read(run.path("alone")).unwrap();
    for ranks in ["2", "3"] {
        let digest = run.digest(&[], &[&common[..], &["shared", "--ranks", ranks]].concat());
        assert_eq!(digest, expected, "{ranks} ranks");
        assert!(std::fs::read(run.path("shared")).unwrap() == alone, "the file of {ranks} ranks");
    }
}

#[test]
fn a_gpu_trains_and_generates_with_the_bits_of_the_cpu() {
    let run = Run::new("gpt");
    tiny_text(&run);
    let steps = [&TINY[..], &["--batch-size", "2", "--max-steps", "3", "--prompt", "1"]].concat();
    let cuda = ["--device", "cuda", "--save", "cuda"];
    let output = run.output(&[(SCHEDULE, "seed:1")], &[&steps[..], &cuda].concat());
    if has_no_gpu(&output) {
        return;
    }
    let lines = |output: &std::process::Output| -> Vec<String> {
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let moving = ["device: ", "3 steps in ", "checkpoint after "];
        let stays = |line: &&str| !moving.iter().any(|start| line.starts_with(start));
        text.lines().filter(stays).map(str::to_owned).collect()
    };
    let cpu = run.output(&[], &[&steps[..], &["--save", "cpu"]].concat());
    assert_eq!(lines(&output), lines(&cpu));
    let [a, b] = ["cpu", "cuda"].map(|name| std::fs::read(run.path(name)).unwrap());
    assert!(a == b, "the checkpoints");
    let mixed = [&steps[..], &["--precision", "bf16"]].concat();
    let [a, b] = ["cpu", "cuda"].map(|device| {
        run.digest(&[(SCHEDULE, "seed:1")], &[&mixed[..], &["--device", device]].concat())
    });
    assert_eq!(a, b, "in mixed precision");
    let text = |rest: &[&str]| {
        let arguments = [&["cpu", "--tokens", "4"], rest].concat();
        let output = run.output_of("generate", &[], &arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    assert_eq!(text(&["--device", "cuda"]), text(&[]));
}

#[test]
fn a_checkpoint_goes_on_writing_for_the_same_seed_the_same() {
    let run = Run::new("gpt");
    run.digest(&[], &[&SMALL[..], &["--save", "model"]].concat());
    let text = |environment: &[(&str, &str)], rest: &[&str]| {
        let output =
            run.output_of("generate", environment, &[&["model", "--prompt", "We"], rest].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let found = text(&[], &["--seed", "3"]);
    // The context has 16 bytes; then comes a newline.
    assert!(found.starts_with(b"We") && found.len() == 17, "{found:?}");
    assert_eq!(text(&[("RAYON_NUM_THREADS", "3")], &["--seed", "3"]), found);
    assert_eq!(text(&[("SAMEBITS_SIMD", "portable")], &["--seed", "3"]), found);
    assert_eq!(text(&[], &["--seed", "3", "--tokens", "5"]), [&found[..7], b"\n"].concat());
    assert_ne!(text(&[], &["--seed", "4"]), found);
    let greedy = text(&[], &["--temperature", "0"]);
    assert_eq!(text(&[], &["--temperature", "0", "--seed", "4"]), greedy);
    assert_eq!(text(&[], &["--top-k", "1"]), greedy);
    assert_eq!(text(&[], &["--top-p", "1e-9"]), greedy);
}

#[test]
fn bad_arguments_are_refused_and_nothing_is_written() {
    let run = Run::new("gpt");
    std::fs::write(run.path("few"), "too short").unwrap();
    std::fs::write(run.path("empty"), "").unwrap();
    let before = run.files();
    for (arguments, status, text) in [
        (&["--text", "missing"][..], 1, "cannot read missing"),
        (&["--text", "empty"], 1, "the text has no byte"),
        (&["--text", "few"], 1, "the text to train on: 9 bytes are too few for a context of 256"),
        (&["--context", "0"], 2, "0 is not in 1.."),
        (&["--heads", "3"], 1, "Gpt: expected heads that divide the width 128, got 3"),
        (&["--dropout", "2"], 1, "Gpt: expected a dropout in [0, 1], got 2"),
        (&["--micro-batches", "3"], 1, "a batch of 8 sequences has no 3 equal parts"),
        (&["--batch-size", "1000"], 1, "is the batch size larger than the dataset?"),
        (&["--prompt", ""], 1, "expected a prompt of 1 to 256 bytes, got 0"),
        (&["--resume", "x", "--width", "8"], 2, "cannot be used with"),
        (&["--quiet", "--max-steps", "0", "--save", "no/x"], 1, "cannot write no/x"),
    ] {
        let (found, message) = run.refusal(arguments);
        assert!(found == status && message.contains(text), "{arguments:?}: {message}");
    }
    assert_eq!(run.files(), before);
    run.digest(&[], &[&SMALL[..], &["--save", "gpt"]].concat());
    let images = run.output_of("train", &[], &["--max-steps", "0", "--save", "digits"]);
    assert!(images.status.success());
    for (arguments, text) in [
        (&["missing"][..], "cannot read missing"),
        (&["few"], "not a whole safetensors file"),
        (&["digits"], "not a checkpoint of `samebits gpt`"),
        (&["gpt", "--prompt", ""], "expected a prompt of 1 to 16 bytes, got 0"),
        (&["gpt", "--temperature", "-1"], "Sampling: expected a positive finite temperature"),
        (&["gpt", "--top-k", "0"], "Sampling: expected a top_k of at least 1, got 0"),
        (&["gpt", "--top-p", "1.5"], "Sampling: expected 0 < top_p <= 1, got 1.5"),
    ] {
        let output = run.output_of("generate", &[], arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(message.starts_with("error: ") && message.contains(text), "{message}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    // A text that ends with the context is no error, but said.
    for (tokens, ends_early) in [("14", false), ("15", true)] {
        let arguments = ["gpt", "--prompt", "We", "--tokens", tokens];
        let output = run.output_of("generate", &[], &arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{message}");
        let full = "the context of 16 bytes is full: 14 of 15 bytes were added";
        assert_eq!(message.contains(full), ends_early, "{message}");
    }
}

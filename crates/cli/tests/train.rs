//! The program, tested from outside: bits, interruptions, mistakes.

#[path = "common/program.rs"]
mod program;

use std::path::Path;

use program::{Run, SCHEDULE, has_no_gpu};

/// The digest of the weights after `STEPS`. It is part of the numerics contract: if it changes,
/// values have changed, which needs a new `NUMERICS_VERSION` and an entry in the changelog. It is
/// in a file because `cargo xtask cross` compares with it, too.
const GOLDEN: &str = include_str!("train.digest").trim_ascii();
const STEPS: &str = "8";
/// Images for devices that are slow because they are emulated.
const FEW: &str = include_str!("few.csv");

#[test]
fn the_digest_is_golden_for_any_number_of_threads_and_loader_workers() {
    let run = Run::new("train");
    for threads in ["1", "2", "3", "5"] {
        let environment = [("RAYON_NUM_THREADS", threads)];
        let digest = run.digest(&environment, &["--max-steps", STEPS, "--workers", threads]);
        assert_eq!(digest[..16], *GOLDEN, "{threads} threads");
    }
    let digest = run.digest(&[], &["--max-steps", STEPS, "--workers", "0", "--threads", "7"]);
    assert_eq!(digest[..16], *GOLDEN, "no workers");
}

/// Runs on an emulated processor with unoptimised kernels, by `cargo xtask cross --quick`.
#[test]
fn the_digest_of_few_images_is_golden() {
    let run = Run::new("train");
    std::fs::write(run.path("few.csv"), FEW).unwrap();
    let digest = run.digest(&[], &["--data", "few.csv", "--batch-size", "4", "--max-steps", "4"]);
    assert_eq!(digest[..16], *include_str!("few.digest").trim_ascii());
}

#[test]
fn the_digest_is_golden_at_every_simd_level() {
    let run = Run::new("train");
    for level in ["portable", "avx2", "avx512"] {
        let digest = run.digest(&[("SAMEBITS_SIMD", level)], &["--max-steps", STEPS]);
        assert_eq!(digest[..16], *GOLDEN, "{level}");
    }
}

#[test]
fn mixed_precision_has_the_same_bits_and_resumes() {
    let golden = include_str!("train-bf16.digest").trim_ascii();
    let run = Run::new("train");
    let mixed = ["--precision", "bf16", "--max-steps", STEPS];
    for threads in ["1", "3"] {
        let digest = run.digest(&[], &[&mixed[..], &["--threads", threads]].concat());
        assert_eq!(digest[..16], *golden, "{threads} threads");
    }
    for level in ["portable", "avx2", "avx512"] {
        let digest = run.digest(&[("SAMEBITS_SIMD", level)], &mixed);
        assert_eq!(digest[..16], *golden, "{level}");
    }
    run.digest(&[], &["--precision", "bf16", "--max-steps", "3", "--save", "cut"]);
    let rest = ["--resume", "cut", "--max-steps", STEPS];
    assert_eq!(run.digest(&[("RAYON_NUM_THREADS", "2")], &rest)[..16], *golden, "resumed");
}

#[test]
fn ranks_share_a_step_and_change_no_bit() {
    let run = Run::new("train");
    let common = ["--max-steps", STEPS, "--micro-batches", "8", "--save"];
    let expected = run.digest(&[], &[&common[..], &["alone"]].concat());
    let alone = std::fs::read(run.path("alone")).unwrap();
    for ranks in ["1", "3", "8"] {
        let digest = run.digest(&[], &[&common[..], &["shared", "--ranks", ranks]].concat());
        assert_eq!(digest, expected, "{ranks} ranks");
        assert!(std::fs::read(run.path("shared")).unwrap() == alone, "the file of {ranks} ranks");
    }
    // Stopped on three ranks, resumed on two.
    run.digest(
        &[],
        &["--max-steps", "5", "--micro-batches", "8", "--save", "part", "--ranks", "3"],
    );
    let rest = ["--resume", "part", "--max-steps", STEPS, "--ranks", "2", "--save", "rest"];
    assert_eq!(run.digest(&[], &rest), expected);
    // Micro-batches give other bits than the whole batch.
    assert_ne!(expected[..16], *GOLDEN);
    let (_, problem) = run.refusal(&["--max-steps", "1", "--ranks", "3"]);
    assert!(problem.contains("error: rank "), "{problem}");
    assert!(problem.contains("a step of 1 batches can have as many ranks, got 3"), "{problem}");
    let (_, problem) = run.refusal(&["--max-steps", "1", "--micro-batches", "7"]);
    assert!(problem.contains("a batch of 64 images has no 7 equal parts"), "{problem}");
}

/// The last step of an epoch has fewer micro-batches, except with 12.
#[test]
fn a_run_leaves_one_file_for_every_number_of_ranks() {
    let run = Run::new("train");
    std::fs::write(run.path("few.csv"), FEW).unwrap();
    for (micro_batches, batch_size, worlds) in
        [("4", "16", 1..=4), ("8", "16", 1..=8), ("12", "24", 5..=5)]
    {
        let common = ["--data", "few.csv", "--epochs", "2", "--micro-batches", micro_batches];
        let common = [&common[..], &["--batch-size", batch_size, "--save"]].concat();
        let expected = run.digest(&[], &[&common[..], &["alone"]].concat());
        let alone = std::fs::read(run.path("alone")).unwrap();
        for world in worlds {
            let world = world.to_string();
            let rest = ["shared", "--ranks", &world];
            assert_eq!(run.digest(&[], &[&common[..], &rest].concat()), expected, "{world}");
            let shared = std::fs::read(run.path("shared")).unwrap();
            assert!(shared == alone, "the file of {world} ranks, {micro_batches} micro-batches");
        }
    }
}

#[test]
fn ledgers_of_ranks_are_compared_with_that_of_one_process() {
    let run = Run::new("train");
    let record = |ledger, rest: &[&str]| {
        let common = ["--max-steps", "3", "--micro-batches", "4", "--ledger", ledger];
        run.digest(&[], &[&common[..], rest].concat());
    };
    record("alone", &[]);
    record("four", &["--ranks", "4"]);
    record("faster", &["--ranks", "3", "--lr", "0.0500001"]);
    let diff = |a, b| {
        let output = run.output_of("diff", &[], &[a, b]);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (status, report) = diff("alone", "four");
    assert_eq!(status, Some(0), "{report}");
    assert!(report.contains("A has 1 ranks and B 4"), "{report}");
    let (status, report) = diff("four", "faster");
    assert_eq!(status, Some(1), "{report}");
    let named = "At the end of step 0, ";
    assert!(report.contains(named) && report.contains("parameter `conv1.weight`"), "{report}");
    let files = ["--ledger", "run.jsonl", "--ranks", "2", "--micro-batches", "2"];
    let (_, problem) = run.refusal(&files);
    assert!(problem.contains("each of 2 ranks needs one of its own: name a folder"), "{problem}");
}

#[test]
fn the_environment_names_what_connects_ranks() {
    let run = Run::new("train");
    let report = String::from_utf8(run.output_of("env", &[], &[]).stdout).unwrap();
    let line = report.lines().find(|line| line.starts_with("ranks ")).expect(&report);
    assert!(line.contains("threads, "), "{line}");
    // Every process would train the whole run.
    #[cfg(not(feature = "mpi"))]
    {
        assert!(line.ends_with("no processes: built without the feature `mpi`"), "{line}");
        for variable in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"] {
            let output = run.output(&[(variable, "2")], &["--max-steps", "1"]);
            let problem = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{problem}");
            assert!(problem.contains("2 processes would train alone"), "{problem}");
            run.digest(&[(variable, "1")], &["--max-steps", "1"]);
        }
    }
}

/// cuBLAS repeats its bits only with one of two values of this variable, and PyTorch rejects
/// others. The program reports the value, and no bit depends on it.
#[test]
fn the_cublas_workspace_does_not_show() {
    let run = Run::new("train");
    for (value, said) in [
        ("garbage", "garbage: expected :SIZE:COUNT"),
        (":32:8", ":32:8: not one of :4096:8 and :16:8"),
        (":4096:8", ":4096:8, with which cuBLAS repeats its bits"),
        (":16:8", ":16:8, with which cuBLAS repeats its bits"),
    ] {
        let environment = [("CUBLAS_WORKSPACE_CONFIG", value)];
        let report = run.output_of("env", &environment, &[]).stdout;
        let report = String::from_utf8(report).unwrap();
        let line = report.lines().find(|line| line.contains("CUBLAS_WORKSPACE_CONFIG"));
        assert!(line.expect(&report).contains(said), "{value}: {report}");
        let digest = run.digest(&environment, &["--max-steps", STEPS]);
        assert_eq!(digest[..16], *GOLDEN, "{value}");
    }
}

#[test]
fn a_misspelt_instruction_set_is_refused() {
    let run = Run::new("train");
    let environment = [("SAMEBITS_SIMD", "avx-2")];
    let output = run.output(&environment, &["--max-steps", STEPS]);
    let problem = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(problem.contains("SAMEBITS_SIMD is \"avx-2\""), "{problem}");
    let report = String::from_utf8(run.output_of("env", &environment, &[]).stdout).unwrap();
    assert!(report.contains("\"avx-2\"; operations on tensors are refused"), "{report}");
}

/// A misspelt check must not count as passed.
#[test]
fn a_number_of_runs_that_is_none_is_refused() {
    let run = Run::new("train");
    for value in ["yes", "0", "-1", "2.0", "", "99999999999999999999"] {
        let environment = [("SAMEBITS_RERUN", value)];
        let output = run.output(&environment, &["--max-steps", "1"]);
        let problem = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        let said = format!("SAMEBITS_RERUN is {value:?}, but must be a number of runs from 1");
        assert!(problem.contains(&said), "{problem}");
        let report = String::from_utf8(run.output_of("env", &environment, &[]).stdout).unwrap();
        assert!(
            report.contains(&format!("{value:?}; operations on tensors are refused")),
            "{report}"
        );
    }
}

#[test]
fn another_seed_or_rate_gives_another_digest() {
    let run = Run::new("train");
    for change in [["--seed", "1"], ["--lr", "0.0500001"], ["--batch-size", "63"]] {
        let digest = run.digest(&[], &[&["--max-steps", STEPS][..], &change].concat());
        assert_ne!(digest[..16], *GOLDEN, "{change:?}");
    }
}

#[test]
fn every_operation_gives_the_same_bits_when_it_runs_twice() {
    let run = Run::new("train");
    let digest = run.digest(&[("SAMEBITS_RERUN", "2")], &["--max-steps", STEPS]);
    assert_eq!(digest[..16], *GOLDEN);
}

#[test]
fn an_interrupted_run_that_is_resumed_ends_in_the_same_bits() {
    let run = Run::new("train");
    // An epoch has 22 steps: the cuts lie inside an epoch, at its end, and in the next one.
    let whole = run.digest(&[], &["--epochs", "2", "--save", "whole.safetensors"]);
    run.digest(&[], &["--epochs", "2", "--max-steps", "9", "--save", "cut.safetensors"]);
    let resumed = run.digest(&[], &["--resume", "cut.safetensors", "--workers", "1"]);
    assert_eq!(resumed, whole, "with another number of workers");
    for cut in ["1", "13", "22", "30"] {
        run.digest(&[], &["--epochs", "2", "--max-steps", cut, "--save", "cut.safetensors"]);
        let resumed = run.digest(
            &[("RAYON_NUM_THREADS", "3")],
            &["--resume", "cut.safetensors", "--save", "cut.safetensors"],
        );
        assert_eq!(resumed, whole, "cut after {cut} steps");
        let files = ["whole.safetensors", "cut.safetensors"].map(|name| run.path(name));
        let [a, b] = files.map(|file| std::fs::read(file).unwrap());
        assert!(a == b, "the checkpoints differ after {cut} steps");
    }
    assert_eq!(run.files(), ["cut.safetensors", "samebits-loss.svg", "whole.safetensors"]);
}

#[test]
fn a_gpu_gives_the_digest_of_the_cpu() {
    let run = Run::new("train");
    let Some(few) = few_images_on_a_gpu(&run, "2") else { return };
    let steps = [&few[..], &["--max-steps", "20"]].concat();
    let cpu = run.digest(&[], &steps);
    assert_eq!(run.digest(&[], &[&steps[..], &["--device", "cuda"]].concat()), cpu);
    // The rest under other schedules of the emulated device, from a checkpoint of the other device.
    let save = ["--save", "cut.safetensors"];
    for (first, cut, second) in [("cpu", "17", "cuda:0"), ("cuda:0", "3", "cpu")] {
        let half = [&few[..], &["--max-steps", cut, "--device", first], &save].concat();
        run.digest(&[(SCHEDULE, "reversed")], &half);
        let rest = ["--resume", "cut.safetensors", "--data", "few.csv", "--max-steps", "20"];
        let rest = [&rest[..], &["--device", second]].concat();
        assert_eq!(run.digest(&[(SCHEDULE, "seed:1")], &rest), cpu, "{first}, then {second}");
    }
}

#[test]
fn ranks_share_a_gpu_and_end_in_the_file_of_one_process_on_the_cpu() {
    let run = Run::new("train");
    let Some(few) = few_images_on_a_gpu(&run, "8") else { return };
    let steps = [&few[..], &["--max-steps", "4", "--micro-batches", "4", "--save"]].concat();
    let cpu = run.digest(&[], &[&steps[..], &["cpu"]].concat());
    for ranks in ["1", "3"] {
        let rest = ["cuda", "--device", "cuda", "--ranks", ranks];
        assert_eq!(run.digest(&[], &[&steps[..], &rest].concat()), cpu, "{ranks} ranks");
        let [a, b] = ["cpu", "cuda"].map(|name| std::fs::read(run.path(name)).unwrap());
        assert!(a == b, "the checkpoint of {ranks} ranks");
    }
}

/// Returns arguments for few images in small batches, because an emulated device is slow; `None` if
/// there is no device.
fn few_images_on_a_gpu(run: &Run, batch_size: &'static str) -> Option<[&'static str; 4]> {
    std::fs::write(run.path("few.csv"), FEW).unwrap();
    let few = ["--data", "few.csv", "--batch-size", batch_size];
    let output = run.output(&[], &[&few[..], &["--device", "cuda", "--max-steps", "0"]].concat());
    (!has_no_gpu(&output)).then_some(few)
}

#[test]
fn a_wrong_command_line_ends_with_status_2() {
    let run = Run::new("train");
    for (arguments, text) in [
        (&["--no-such-flag"][..], "unexpected argument '--no-such-flag'"),
        (&["--epochs", "0"], "0 is not in 1.."),
        (&["--lr", "-1"], "expected a positive number"),
        (&["--device", "gpu"], "expected cpu, cuda or cuda:N"),
        (&["--determinism", "always"], "invalid value 'always'"),
        (&["--resume", "x", "--seed", "1"], "cannot be used with"),
    ] {
        let (status, message) = run.refusal(arguments);
        assert_eq!(status, 2, "{arguments:?}: {message}");
        assert!(message.contains(text), "{arguments:?}: {message}");
    }
}

#[test]
fn bad_data_is_refused_with_its_place_and_nothing_is_written() {
    let run = Run::new("train");
    let write = |name: &str, text: &[u8]| std::fs::write(run.path(name), text).unwrap();
    let row = |class: &str| format!("{}{class}\n", "1,".repeat(64));
    write("short.csv", b"1,2,3\n");
    write("word.csv", row("x").as_bytes());
    write("class.csv", row("10").as_bytes());
    write("few.csv", row("1").as_bytes());
    let shipped = include_bytes!("../data/digits.csv.gz");
    write("cut.csv.gz", &shipped[..shipped.len() / 2]);
    let before = run.files();
    for (file, text) in [
        ("missing.csv", "missing.csv"),
        ("short.csv", "short.csv, line 1"),
        ("word.csv", "word.csv, line 1, column 65"),
        ("class.csv", "class.csv, line 1, column 65"),
        ("few.csv", "too few images: 1"),
        ("cut.csv.gz", "cut.csv.gz"),
    ] {
        let (status, message) = run.refusal(&["--data", file]);
        assert_eq!(status, 1, "{file}: {message}");
        assert!(message.starts_with("error: ") && message.contains(text), "{file}: {message}");
        assert!(!message.contains("panicked"), "{message}");
    }
    assert_eq!(run.files(), before);
}

#[test]
fn a_bad_checkpoint_is_refused_and_left_alone() {
    let run = Run::new("train");
    run.digest(&[], &["--max-steps", "1", "--save", "good.safetensors"]);
    std::fs::remove_file(run.path("samebits-loss.svg")).unwrap();
    let good = std::fs::read(run.path("good.safetensors")).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(run.path(name), bytes).unwrap();
    write("cut.safetensors", &good[..good.len() - 7]);
    write("empty.safetensors", b"");
    write("foreign.safetensors", b"\x02\0\0\0\0\0\0\0{}");
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    write("flipped.safetensors", &flipped);
    // The metadata is text; an edit of equal length keeps the header's length right.
    let edit = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let at = good.windows(from.len()).position(|bytes| bytes == from.as_bytes()).expect(from);
        [&good[..at], to.as_bytes(), &good[at + from.len()..]].concat()
    };
    write("version.safetensors", &edit(r#"\"version\":1"#, r#"\"version\":9"#));
    write("numerics.safetensors", &edit(r#"numerics_version\":2"#, r#"numerics_version\":7"#));
    write("name.safetensors", &edit("model.conv1.bias", "model.conv1.bixs"));
    let before = run.files();
    for (file, text) in [
        ("missing.safetensors", "cannot read missing.safetensors"),
        ("cut.safetensors", "not a whole safetensors file"),
        ("empty.safetensors", "not a whole safetensors file"),
        ("foreign.safetensors", "not a checkpoint of samebits"),
        ("flipped.safetensors", "damaged: the digest is"),
        ("version.safetensors", "version 9, but this program has 1"),
        ("numerics.safetensors", "numerics version 7, but this program has 2"),
        ("name.safetensors", "damaged: the digest is"),
    ] {
        let (status, message) = run.refusal(&["--resume", file]);
        assert_eq!(status, 1, "{file}: {message}");
        assert!(message.starts_with("error: ") && message.contains(text), "{file}: {message}");
    }
    assert_eq!(run.files(), before);
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_an_error() {
    let run = Run::new("train");
    let (status, message) = run.refusal(&["--max-steps", "1", "--save", "no/such/folder/x"]);
    assert_eq!(status, 1);
    assert!(message.contains("cannot write no/such/folder/x"), "{message}");
    assert_eq!(run.files(), Vec::<String>::new());
    assert!(!Path::new("no").exists());
}

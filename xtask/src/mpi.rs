//! `cargo xtask mpi`: ranks that are processes, under `mpirun`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::tools;

/// Flags of `cargo xtask mpi`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Time the exchange beside `MPI_Allreduce`, by turns, instead.
    #[arg(long)]
    bench: bool,
}

/// What building and running with MPI needs on Debian.
const PACKAGES: &[&str] = &["openmpi-bin", "libopenmpi-dev", "libclang-dev"];

/// Faults of rank 1 in an exchange, and what the job must say.
const FAULTS: &[(&str, &str)] = &[
    ("unlike", "one seed, but rank 1 differs"),
    ("panic", "rank 1 ends the job: it panicked"),
    ("abort", "rank 1 ends the job: batch 7: no such file"),
    ("hang", "rank 1 has not answered rank"),
    ("exit", "exit code"),
];

/// Faults of rank 1 in a training, and what the job must say. The first three end it before the first
/// step.
const TRAINING_FAULTS: &[(&str, &str)] = &[
    (
        "unlike",
        "rank 1 ends the job: trainer: ranks: the ranks should have one state to start from",
    ),
    ("places", "rank 1 ends the job: trainer: ranks: the ranks should have one number of batches"),
    ("error", "rank 1 ends the job: trainer: planted"),
    ("memory", "rank 1 ends the job: zeros: cpu has no memory left for"),
    ("file", "rank 1 ends the job: No such file"),
    ("panic", "rank 1 ends the job: it panicked"),
    ("exit", "exit code"),
    ("kill", "rank 1 "),
    ("hang", "rank 1 has not answered rank"),
];

/// How long a job with a fault may take; a rank is given up after 3 s.
const FAULT_ENDS: Duration = Duration::from_secs(10);

/// The begin of the message of a rank that ends a job.
const ENDS: &str = "ends the job: ";

pub(crate) fn run(args: &Args) -> Result<()> {
    install()?;
    if args.bench {
        let bench = built(&["bench", "--no-run"], &["--bench", "exchange"])?;
        let output = job(&[(2, &bench["exchange"], &[])]).output()?;
        print!("{}", text(&output));
        ensure!(output.status.success(), "mpirun: {}", output.status);
        return Ok(());
    }
    let mut targets = vec!["--test", "mpi", "--test", "mpi_training"];
    targets.extend(["--bin", "samebits", "--example", "ranks"]);
    let built = built(&["build"], &targets)?;
    let began = Instant::now();
    exchanges(&built["mpi"])?;
    trainings(&built["mpi_training"])?;
    program(&built["samebits"])?;
    example(&built["ranks"])?;
    println!("mpi: no findings after {:.0?}", began.elapsed());
    Ok(())
}

/// Sums over ranks, and faults in them.
fn exchanges(test: &Path) -> Result<()> {
    for world in [1, 2, 4] {
        let said = expect(&[(world, test, &["sum"])])?;
        let expected = format!("same bits on {world} ranks");
        ensure!(said.contains(&expected), "{world} ranks do not say {expected:?}: {said}");
    }
    // On 2 or 4 ranks the library may happen to add in the order of the tree.
    expect(&[(3, test, &["all-reduce"])])?;
    FAULTS.iter().try_for_each(|(case, named)| expect_fault(&[(3, test, &[case])], named))
}

/// Trainings with a transformer, dropout, batch norm and augmentation: any number of ranks leaves one
/// file, and so does a run that a fault interrupts.
fn trainings(test: &Path) -> Result<()> {
    let folder = Folder::new()?;
    let (path, read) = (|name: &str| folder.path(name), |name: &str| folder.read(name));
    let mut whole = BTreeMap::new();
    for case in ["encoder", "net"] {
        for world in [1, 2, 3, 4] {
            let name = format!("{case}-{world}");
            expect(&[(world, test, &[case, &path(&name)])])?;
            let file = read(&name)?;
            let alone = whole.entry(case).or_insert_with(|| file.clone());
            ensure!(file == *alone, "{case}: {world} ranks leave another file");
        }
    }
    for (case, named) in TRAINING_FAULTS {
        expect_fault(&[(3, test, &[case, &path(case)])], named)?;
        if ["unlike", "places"].contains(case) {
            ensure!(read(case).is_err(), "{case}: a step was taken");
            continue;
        }
        ensure!(read(case)? != whole["net"], "{case}: the run was not interrupted");
        // On another number of ranks.
        expect(&[(2, test, &["net", &path(case)])])?;
        ensure!(read(case)? == whole["net"], "{case}: the resumed run leaves another file");
    }
    // Killed again and again, each time on another number of ranks.
    for (world, at) in [(3, "3"), (4, "2"), (2, "4"), (3, "1")] {
        expect_fault(&[(world, test, &["kill", &path("killed"), at])], "rank 1 ")?;
        ensure!(read("killed")? != whole["net"], "the run was not interrupted");
    }
    expect(&[(1, test, &["net", &path("killed")])])?;
    ensure!(read("killed")? == whole["net"], "a run killed four times leaves another file");
    // A signal to one process stops all after the same step.
    let said = expect(&[(3, test, &["interrupt", &path("interrupt")])])?;
    for rank in 0..3 {
        let stopped = format!("rank {rank}: Interrupted after 5 steps");
        ensure!(said.contains(&stopped), "the job does not say {stopped:?}: {said}");
    }
    expect(&[(2, test, &["net", &path("interrupt")])])?;
    ensure!(read("interrupt")? == whole["net"], "the stopped run leaves another file");
    Ok(())
}

/// The example prints one digest in one process, on threads and under MPI.
fn example(program: &Path) -> Result<()> {
    let last = |said: String| said.lines().last().unwrap_or_default().to_owned();
    let threads = |arguments: &[&str]| -> Result<String> {
        let output = Command::new(program).args(arguments).output().context("cannot start it")?;
        ensure!(output.status.success(), "the example: {}", text(&output));
        Ok(last(text(&output)))
    };
    let alone = threads(&[])?;
    ensure!(alone.len() == 64, "the example prints no digest: {alone}");
    let others = [threads(&["3"])?, last(expect(&[(4, program, &[])])?)];
    ensure!(others.iter().all(|other| *other == alone), "{alone} alone, {others:?} on ranks");
    Ok(())
}

/// The program `samebits`, whose ranks need no flags.
fn program(program: &Path) -> Result<()> {
    let folder = Folder::new()?;
    let (path, read) = (|name: &str| folder.path(name), |name: &str| folder.read(name));
    let curve = path("curve.svg");
    let common = ["train", "--curve", &curve, "--micro-batches", "4"];
    let arguments = |rest: &[&str]| -> Vec<String> {
        common.iter().chain(rest).map(|&argument| argument.to_owned()).collect()
    };
    let steps = ["--max-steps", "8", "--save"];
    let alone = Command::new(program)
        .args(arguments(&[&steps[..], &[&path("alone")]].concat()))
        .output()
        .context("cannot start samebits")?;
    ensure!(alone.status.success(), "samebits: {}", text(&alone));
    let expected = digest(&text(&alone))?;
    for world in [1, 2, 4] {
        let name = format!("of-{world}");
        let own = arguments(&[&steps[..], &[&path(&name)]].concat());
        let said = expect(&[(world, program, &borrowed(&own))])?;
        ensure!(said.matches("digest of the weights").count() == 1, "more than one tells: {said}");
        ensure!(digest(&said)? == expected, "another digest on {world} ranks: {said}");
        ensure!(read(&name)? == read("alone")?, "{world} ranks leave another checkpoint");
    }
    // Stopped on 3 ranks, resumed on 2.
    let part = arguments(&["--max-steps", "3", "--save", &path("part")]);
    expect(&[(3, program, &borrowed(&part))])?;
    let (from, to) = (path("part"), path("rest"));
    let rest = ["train", "--curve", &curve, "--resume", &from, "--max-steps", "8", "--save", &to];
    let said = expect(&[(2, program, &rest)])?;
    ensure!(digest(&said)? == expected, "another digest of the resumed run: {said}");
    ensure!(read("rest")? == read("alone")?, "the resumed run leaves another checkpoint");

    let mut digits = "0,".repeat(64);
    digits.push_str("1\n");
    std::fs::write(path("other.csv"), digits.repeat(1797))?;
    std::fs::write(path("broken.csv"), "1,2,3\n")?;
    let (other, broken) = (path("other.csv"), path("broken.csv"));
    let missing = path("missing");
    let right = arguments(&["--max-steps", "8"]);
    for (odd, named) in [
        (
            &["--max-steps", "8", "--seed", "1"][..],
            "one description of the run, but rank 2 differs",
        ),
        (&["--max-steps", "7"], "one set of settings, but rank 2 differs"),
        (&["--max-steps", "8", "--data", &other], "one source of data, but rank 2 differs"),
        (&["--max-steps", "8", "--data", &broken], "rank 2 ends the job: "),
        (&["--max-steps", "8", "--resume", &missing], "rank 2 ends the job: "),
    ] {
        let odd = match odd.contains(&"--resume") {
            true => ["train"].iter().chain(odd).map(|&argument| argument.to_owned()).collect(),
            false => arguments(odd),
        };
        let parts = [(2, program, &borrowed(&right)[..]), (1, program, &borrowed(&odd)[..])];
        expect_fault(&parts, named)?;
    }
    Ok(())
}

/// An empty folder among what Cargo builds.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let folder = crate::target().join("mpi");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        Ok(Folder(folder))
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        std::fs::read(self.0.join(name)).with_context(|| name.to_owned())
    }
}

fn borrowed(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// The digest in the row of a run.
fn digest(said: &str) -> Result<String> {
    let row = said.lines().find(|line| line.starts_with("1 ")).context("no row of a run")?;
    Ok(row.split_whitespace().last().unwrap_or_default().to_owned())
}

/// Installs what building and running with MPI needs.
pub(crate) fn install() -> Result<()> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let holds_libclang = |folder: PathBuf| {
        let files = std::fs::read_dir(folder.join("lib")).into_iter().flatten().flatten();
        files
            .map(|file| file.file_name())
            .any(|name| name.as_encoded_bytes().starts_with(b"libclang"))
    };
    let found = std::env::var_os("LIBCLANG_PATH").is_some()
        || folders.map(|folder| folder.path()).any(holds_libclang);
    // A library is no program on the path.
    let programs: &[&str] = if found { &["mpirun", "mpicc"] } else { &["libclang.so"] };
    tools::debian(programs, PACKAGES)
}

/// Builds programs with MPI and returns their paths. Of the whole workspace, because then the crates
/// below have the features that they have for all the tests.
fn built(verb: &[&str], targets: &[&str]) -> Result<BTreeMap<String, PathBuf>> {
    let mut cargo = tools::cargo();
    cargo.args(verb).args(["--workspace", "--features"]);
    cargo.arg("samebits-distributed/mpi,samebits/mpi,samebits-cli/mpi");
    cargo.args(targets).arg("--message-format=json");
    let output = cargo.output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cannot build: {}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8_lossy(&output.stdout);
    let programs = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let name = message["target"]["name"].as_str()?.to_owned();
        message["executable"].as_str().map(|path| (name, PathBuf::from(path)))
    });
    let programs: BTreeMap<_, _> = programs.collect();
    for name in targets.iter().filter(|target| !target.starts_with('-')) {
        ensure!(programs.contains_key(*name), "cargo names no program {name}");
    }
    Ok(programs)
}

/// A part of a job: how many processes run which program with which arguments.
type Part<'a> = (usize, &'a Path, &'a [&'a str]);

fn job(parts: &[Part<'_>]) -> Command {
    let mut mpirun = Command::new("mpirun");
    mpirun.args(["--oversubscribe", "--allow-run-as-root"]);
    for (number, (world, program, arguments)) in parts.iter().enumerate() {
        if number > 0 {
            mpirun.arg(":");
        }
        mpirun.args(["-n", &world.to_string()]).arg(program).args(*arguments);
    }
    // Ranks are more than cores.
    mpirun.env("RAYON_NUM_THREADS", "1");
    // A panic of a rank is part of a case.
    mpirun.env_remove("RUST_BACKTRACE");
    mpirun
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// Says which job runs.
fn say(parts: &[Part<'_>]) {
    let file = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let one = |(world, program, arguments): &Part<'_>| {
        format!("-n {world} {} {}", file(program), arguments.join(" "))
    };
    println!("-- mpirun {}", parts.iter().map(one).collect::<Vec<_>>().join(" : "));
}

/// Runs a job that must end well, and returns what it said.
fn expect(parts: &[Part<'_>]) -> Result<String> {
    say(parts);
    let output = job(parts).output().context("cannot start mpirun")?;
    if !output.status.success() {
        bail!("{}: {}", output.status, text(&output));
    }
    Ok(text(&output))
}

/// Runs a job with a fault: it must end soon, and say `named` in the only message of a rank.
fn expect_fault(parts: &[Part<'_>], named: &str) -> Result<()> {
    say(parts);
    let began = Instant::now();
    let output = job(parts).output().context("cannot start mpirun")?;
    let (said, took) = (text(&output), began.elapsed());
    ensure!(!output.status.success(), "the job ends well: {said}");
    ensure!(said.contains(named), "the job does not say {named:?}: {said}");
    let messages = said.matches(ENDS).count();
    ensure!(messages <= 1, "{messages} ranks tell: {said}");
    ensure!(took < FAULT_ENDS, "the job took {took:?}");
    println!("   ended after {took:.1?}");
    Ok(())
}

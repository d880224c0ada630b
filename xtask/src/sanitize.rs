//! `cargo xtask sanitize`: runs tests under tools that detect undefined behaviour, out-of-bounds
//! accesses and mistakes that the release profile leaves unchecked.

use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;

use crate::tools;

/// Flags of `cargo xtask sanitize`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run only what takes less than five minutes on two cores: Miri on the examples of numerics
    /// and on small kernels. AddressSanitizer takes longer than that to compile the kernels.
    #[arg(long, conflicts_with = "parts")]
    quick: bool,
    /// The tools to use; all by default.
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Part {
    /// Miri: every kind of undefined behaviour, in code that uses no instruction sets.
    Miri,
    /// AddressSanitizer: accesses out of bounds and after free, at every SIMD level of this
    /// machine.
    Address,
    /// The release profile, as users have it: the tests whose results could depend on it.
    Release,
}

/// Tests that Miri runs, about a thousand times slower than native code.
struct Suite {
    package: &'static str,
    /// The tests of the package; the examples of documentation (`--doc`) are all small.
    target: &'static [&'static str],
    /// Parts of the names of tests that Miri cannot run, or not within minutes.
    skip: &'static [&'static str],
    quick: bool,
}

const MIRI: &[Suite] = &[
    Suite { package: "samebits-cpu-kernels", target: &["--test", "small"], skip: &[], quick: true },
    // Miri ends the process if memory runs out.
    Suite {
        package: "samebits-numerics",
        target: &["--doc"],
        skip: &["memory::zeroed"],
        quick: true,
    },
    Suite { package: "samebits-rng", target: &["--doc"], skip: &[], quick: false },
    Suite { package: "samebits-data", target: &["--doc"], skip: &[], quick: false },
    Suite { package: "samebits-cpu-kernels", target: &["--doc"], skip: &[], quick: false },
];

/// The tests of `cpu-kernels` that AddressSanitizer runs, and the faults that it could find. They
/// reach `arch`, the crate's only folder of unsafe code, and the FFT dependency; the compiler
/// checks every access of the other kernels.
const ADDRESS: &[(&str, &str)] = &[
    ("small", "every unsafe module at the edges of its tiles"),
    ("matmul", "several tasks of rows and columns, any strides"),
    ("conv", "sources that skip padding; groups, strides and dilations"),
    ("conv_algorithms", "the buffers of each algorithm, and the transforms of `rustfft`"),
    ("hostile", "sizes and strides whose products wrap around"),
    ("shortage", "buffers that could not be had, and the call after that"),
];

/// The tests that run in the release profile, in every crate that has one of this name, and the
/// profile's possible effect. The golden digests cover the results of all other tests.
const RELEASE: &[(&str, &str)] = &[
    ("invariance", "golden digests: other optimisations could contract or reorder operations"),
    ("train", "the golden digest of a training"),
    ("hostile", "products of sizes: where the dev profile panics, they wrap"),
    ("arguments", "likewise, at every parameter of a kernel"),
    ("shortage", "new buffers are not filled, so that a shortage shows later"),
    ("memory", "likewise, for tensors"),
    ("small", "unsafe modules at every SIMD level, without debug assertions"),
];

/// AddressSanitizer links with the standard library of this target; naming the target keeps build
/// scripts free of the sanitizer.
const HOST: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn run(args: &Args) -> Result<()> {
    let wanted = |part| args.parts.is_empty() || args.parts.contains(&part);
    if wanted(Part::Miri) {
        tools::nightly(&["miri", "rust-src"])?;
        for suite in MIRI.iter().filter(|suite| suite.quick || !args.quick) {
            miri(suite)?;
        }
    }
    if wanted(Part::Address) && !args.quick {
        tools::nightly(&[])?;
        address()?;
    }
    if wanted(Part::Release) && !args.quick {
        release()?;
    }
    println!("sanitize: no findings");
    Ok(())
}

fn miri(suite: &Suite) -> Result<()> {
    let mut tests = tools::nightly_cargo();
    tests.args(["miri", "test", "--quiet", "--package", suite.package]).args(suite.target);
    tests.args(["--target-dir".as_ref(), crate::target().join("miri").as_os_str(), "--".as_ref()]);
    tests.args(suite.skip.iter().flat_map(|name| ["--skip", name]));
    // Rayon's threads outlive `main`. Crossbeam's lists turn integers into pointers and need the
    // newer of the two borrow models.
    let flags = "-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-permissive-provenance \
                 -Zmiri-tree-borrows";
    tests.env("MIRIFLAGS", flags).env("PROPTEST_CASES", "2").env("RAYON_NUM_THREADS", "2");
    tools::succeed(&format!("Miri: {} {}", suite.package, suite.target.join(" ")), &mut tests)
}

fn address() -> Result<()> {
    let mut tests = tools::nightly_cargo();
    tests.args(["test", "--quiet", "--target", HOST, "--package", "samebits-cpu-kernels"]);
    tests.arg("--target-dir").arg(crate::target().join("address"));
    only(ADDRESS, "address", &mut tests);
    tests.env("RUSTFLAGS", "-Zsanitizer=address").env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    // The kernel, not the sanitizer's own allocator, must report hostile sizes.
    tests.env("ASAN_OPTIONS", "allocator_may_return_null=1:detect_leaks=0");
    tools::succeed("AddressSanitizer: samebits-cpu-kernels", &mut tests)
}

fn release() -> Result<()> {
    let mut tests = tools::cargo();
    tests.args(["test", "--quiet", "--workspace", "--release"]);
    only(RELEASE, "release", &mut tests);
    tools::succeed("release profile", &mut tests)
}

/// Restricts `cargo test` to the tests of a list.
fn only(list: &[(&str, &str)], part: &str, tests: &mut Command) {
    for (name, reason) in list {
        println!("-- {part}: {name}: {reason}");
        tests.args(["--test", name]);
    }
}

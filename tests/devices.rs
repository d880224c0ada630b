//! The same bits on a CUDA device as on the CPU: every shared case, with two block sizes, under
//! four schedules of the emulated device; or on whatever GPU the driver offers.
//!
//! Without a driver the test says why it returns early.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests talk to their reader")]

use std::collections::BTreeMap;
use std::process::Command;

use samebits::{Device, DeviceKind, Error, Result, Tensor, cuda, digest};
use workspace_tests::{Case, families, unreached};

const CUDA: Device = Device::Cuda(0);
/// Schedules of the emulated device. A GPU has its own.
const SCHEDULES: [&str; 4] = ["in-order", "reversed", "seed:1", "seed:2"];
const SCHEDULE: &str = "SAMEBITS_EMULATOR_SCHEDULE";
/// Set in children, which the emulated device runs under one schedule each.
const CHILD: &str = "SAMEBITS_TEST_CHILD";

#[test]
fn a_gpu_has_the_bits_of_the_cpu() {
    if !is_available() {
        return;
    }
    let emulated = samebits::backend(CUDA).unwrap().name().contains("emulated device");
    if emulated && std::env::var_os(CHILD).is_none() {
        SCHEDULES.iter().for_each(|schedule| run_under(schedule));
        return;
    }
    let golden: BTreeMap<String, String> = families(Device::Cpu)
        .iter()
        .flat_map(|family| &family.cases)
        .map(|case| (case.name.clone(), short(&run(case).unwrap()).unwrap()))
        .collect();
    let mut without_kernel = Vec::new();
    for block in [256, 96] {
        cuda::install_with_block_size(0, block).unwrap();
        let mut different = Vec::new();
        without_kernel.clear();
        for case in families(CUDA).iter().flat_map(|family| &family.cases) {
            match run(case).and_then(|tensors| short(&tensors)) {
                Ok(found) if found == golden[&case.name] => {}
                Ok(_) => different.push(case.name.clone()),
                Err(Error::NoKernel { .. }) => without_kernel.push(case.name.clone()),
                Err(error) => panic!("{}: {error}", case.name),
            }
        }
        assert!(different.is_empty(), "other bits with blocks of {block}: {different:#?}");
    }
    println!("cases without a kernel: {without_kernel:#?}");
    assert_eq!(unreached(DeviceKind::Cuda), Vec::<String>::new(), "kernels that no case reaches");
}

fn is_available() -> bool {
    match cuda::install() {
        Ok(0) => println!("returning early: the driver sees no device"),
        Err(error) => println!("returning early: {error}"),
        Ok(_) => return true,
    }
    false
}

/// Runs this test again in a process of its own, because the emulated device takes its schedule
/// once per process.
fn run_under(schedule: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_gpu_has_the_bits_of_the_cpu", "--nocapture"])
        .env(CHILD, "1")
        .env(SCHEDULE, schedule)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let problem = String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    assert!(output.status.success(), "under {schedule}:\n{text}\n{problem}");
}

fn run(case: &Case) -> Result<Vec<Tensor>> {
    (case.run)()
}

fn short(tensors: &[Tensor]) -> Result<String> {
    Ok(digest(tensors.iter().map(|tensor| ("", tensor)))?[..16].to_owned())
}

//! The device under test, and the schedules that it runs under.
//!
//! The emulated driver takes its schedule from the environment, once per process. A test that needs
//! several schedules, or several devices, starts its own binary again for each. The child runs only
//! that test, and the parent compares the digests that the children print.

use samebits_cuda_kernels::{Device, device_count};
use std::fmt::Debug;
use std::panic::Location;
use std::process::Command;

/// The schedules of the emulated driver. A GPU has its own.
const SCHEDULES: [&str; 4] = ["in-order", "reversed", "seed:1", "seed:2"];
const SCHEDULE: &str = "SAMEBITS_EMULATOR_SCHEDULE";
/// The variable that decides if the emulated driver reuses freed addresses.
const ADDRESSES: &str = "SAMEBITS_EMULATOR_ADDRESSES";
/// The variable set in children: they run their test once and print its result.
const CHILD: &str = "SAMEBITS_TEST_CHILD";

/// Runs a test on the device with two block sizes and under every schedule. The result of the body
/// must not vary.
#[track_caller]
pub(crate) fn under_schedules<R: PartialEq + Debug, F: Fn(&Device) -> R>(test: F) {
    let line = Location::caller().line();
    let Some(first) = device(256) else { return };
    let result = test(&first);
    // The largest in the parent; in the children a number that is not a power of two.
    let other = if is_child() { 96 } else { 512 };
    let other = test(&device(other).expect("there was a device"));
    assert!(result == other, "the result depends on the block size");
    let own = digest(&result);
    if is_child() {
        print_digest(line, &own);
    } else if is_emulated(&first) {
        for schedule in SCHEDULES {
            assert_eq!(own, child::<F>(schedule, line), "the result varies under {schedule}");
        }
    }
}

/// Runs a test once.
pub(crate) fn on_device(test: impl FnOnce(&Device)) {
    if let Some(device) = device(256) {
        test(&device);
    }
}

/// Asserts that the bits of an atomic variant depend on the schedule: the negative control. A GPU
/// has its own schedule, so the test repeats until the bits differ. If they never do, it prints
/// that: nothing guarantees a difference.
#[track_caller]
pub(crate) fn varies<R: PartialEq + Debug, F: Fn(&Device) -> R>(test: F) {
    /// The number of attempts on a GPU.
    const TIMES: usize = 1000;
    let line = Location::caller().line();
    let Some(device) = device(32) else { return };
    let first = test(&device);
    if is_child() {
        print_digest(line, &digest(&first));
    } else if is_emulated(&device) {
        let digests = SCHEDULES.map(|schedule| child::<F>(schedule, line));
        assert!(
            digests.iter().any(|d| *d != digests[0]),
            "the atomic variant gives the same bits under every schedule"
        );
    } else if !(1..TIMES).any(|_| test(&device) != first) {
        eprintln!("{} never varied in {TIMES} runs", std::any::type_name::<F>());
    }
}

/// Runs a test with `count` devices, in a child process. On GPUs it needs as many.
pub(crate) fn on_devices<F: Fn(&[Device])>(count: usize, test: F) {
    let Some(first) = device(256) else { return };
    if is_emulated(&first) && !is_child() {
        again::<F>(&[("SAMEBITS_EMULATOR_DEVICES", &count.to_string())]);
        return;
    }
    if device_count().expect("there is a device") < count {
        return eprintln!("skipped: fewer than {count} devices");
    }
    let devices: Vec<Device> =
        (0..count).map(|ordinal| Device::new(ordinal).expect("the driver sees it")).collect();
    test(&devices);
}

fn device(block: u32) -> Option<Device> {
    match device_count() {
        Ok(0) => eprintln!("returning early: the driver sees no device"),
        Err(error) => eprintln!("returning early: {error}"),
        Ok(_) => {
            let device = Device::new(0).expect("the driver sees a device");
            return Some(device.with_block_size(block).expect("a multiple of 32"));
        }
    }
    None
}

fn is_emulated(device: &Device) -> bool {
    device.name().expect("a device has a name").to_lowercase().contains("emulat")
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

fn print_digest(line: u32, digest: &str) {
    println!("digest of line {line}: {digest}");
}

/// Runs the test that contains the closure `F` under a schedule and returns the digest that it
/// prints for this line.
#[track_caller]
fn child<F>(schedule: &str, line: u32) -> String {
    // Without reuse, every use of freed memory is a fault; with it, an address does not identify a
    // buffer.
    let addresses = if schedule == "reversed" { "fresh" } else { "reused" };
    let text = again::<F>(&[(SCHEDULE, schedule), (ADDRESSES, addresses)]);
    let prefix = format!("digest of line {line}: ");
    // The test harness may have printed its own text before the line.
    text.lines()
        .find_map(|text| text.split_once(&prefix))
        .map(|(_, digest)| digest.to_owned())
        .unwrap_or_else(|| panic!("no digest of line {line}:\n{text}"))
}

/// Runs the test that contains the closure `F` in a child process with these variables, and returns
/// its output.
#[track_caller]
fn again<F>(variables: &[(&str, &str)]) -> String {
    // The closure's type is named after the test: kernels::scatter::some_test::{{closure}}.
    let path = std::any::type_name::<F>();
    let name = path.split("::").skip(1).take(2).collect::<Vec<_>>().join("::");
    let output = Command::new(std::env::current_exe().expect("the binary has a path"))
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .output()
        .expect("the binary starts again");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} fails with {variables:?}:\n{text}\n{errors}");
    assert!(text.contains("1 passed"), "{name} did not run:\n{text}");
    text.into_owned()
}

/// Returns the FNV-1a hash of the debug form, which shows every bit that the tests return.
fn digest(result: &impl Debug) -> String {
    let hash = format!("{result:?}").bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

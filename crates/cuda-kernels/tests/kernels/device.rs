//! The device under test, and the schedules it is run under.

use samebits_cuda_kernels::{Device, device_count};

/// Schedules of the emulated driver. A GPU has its own.
const SCHEDULES: [&str; 4] = ["in-order", "reversed", "seed:1", "seed:2"];

/// Runs a test on the device, under every schedule and two block sizes.
///
/// The body returns the bits that must not vary; they are compared between runs.
pub(crate) fn under_schedules<R: PartialEq + std::fmt::Debug>(test: impl Fn(&Device) -> R) {
    let _guard = emulator::lock();
    let mut first: Option<R> = None;
    for block in [256, 96] {
        for schedule in schedules() {
            let Some(device) = device(block) else { return };
            emulator::set_schedule(schedule);
            let result = test(&device);
            match &first {
                None => first = Some(result),
                Some(first) => assert!(*first == result, "the result varies under {schedule}"),
            }
        }
    }
}

/// Runs a test once.
pub(crate) fn on_device(test: impl FnOnce(&Device)) {
    let _guard = emulator::lock();
    if let Some(device) = device(256) {
        emulator::set_schedule("in-order");
        test(&device);
    }
}

/// Asserts that the bits of an atomic variant depend on the schedule: the negative control. On a
/// GPU the schedule cannot be chosen, so there nothing is asserted.
pub(crate) fn varies<R: PartialEq>(test: impl Fn(&Device) -> R) {
    let _guard = emulator::lock();
    let Some(device) = device(32) else { return };
    let results: Vec<R> = ["in-order", "reversed", "seed:1", "seed:2", "seed:3"]
        .into_iter()
        .map(|schedule| {
            emulator::set_schedule(schedule);
            test(&device)
        })
        .collect();
    let varied = results.iter().any(|r| *r != results[0]);
    assert!(varied || !emulator::present(), "the atomic variant gives the same bits every time");
}

fn schedules() -> &'static [&'static str] {
    if emulator::present() { &SCHEDULES } else { &SCHEDULES[..1] }
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

mod emulator {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    static ONE_TEST: Mutex<()> = Mutex::new(());

    /// The schedule belongs to the process, so tests take turns.
    pub(super) fn lock() -> MutexGuard<'static, ()> {
        ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn present() -> bool {
        false
    }

    pub(super) fn set_schedule(_: &str) {}
}

//! The first call of a program may be the one that names a CUDA device.

use std::process::Command;

use samebits::nn::{Layer, Linear, Module};
use samebits::prelude::*;
use samebits::{Error, Result, cuda, devices, functional::RandomOptions};

const CUDA: Device = Device::Cuda(0);

/// A possible first call of a program; it returns the device of its result.
type First = fn() -> Result<Device>;

/// The first calls, each run in a child process.
const FIRST: [(&str, First); 5] = [
    ("to", || Ok(Tensor::new([1.0f32, -2.0])?.to(CUDA)?.relu()?.device())),
    ("randn", || {
        manual_seed(0);
        Ok(RandomOptions::new().device(CUDA).randn(&[3])?.device())
    }),
    ("layer", || {
        manual_seed(0);
        Ok(Linear::options(2, 3).device(CUDA).init()?.weight.device())
    }),
    ("module", || {
        manual_seed(0);
        let mut model = Linear::new(2, 3)?;
        Module::to(&mut model, CUDA)?;
        Ok(model.forward(&Tensor::ones(&[1, 2], DType::F32)?.to(CUDA)?)?.device())
    }),
    ("devices", || devices().get(1).copied().ok_or(Error::NoBackend { device: CUDA })),
];

/// The variable that selects the case, in the child process.
const CASE: &str = "SAMEBITS_TEST_FIRST_DEVICE";

/// Runs in a child process that the test below starts.
#[test]
fn child() {
    let Ok(name) = std::env::var(CASE) else { return };
    let (_, first) = FIRST.into_iter().find(|(case, _)| *case == name).unwrap();
    let found = first();
    match cuda::install() {
        Ok(1..) => assert_eq!(found.unwrap(), CUDA),
        _ => assert!(matches!(found.unwrap_err(), Error::NoBackend { device: CUDA })),
    }
}

#[test]
fn a_device_can_be_used_by_naming_it() {
    for (name, _) in FIRST {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", "child", "--nocapture"]).env(CASE, name).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

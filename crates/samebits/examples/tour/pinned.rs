//! Races convolution algorithms once, records the choice, and pins it: later runs take no clock
//! into account.

use samebits::autotune::{self, Config, Mode};
use samebits::determinism::scope;
use samebits::functional::conv2d;
use samebits::ops::ConvParams;
use samebits::prelude::*;

pub(super) fn run() -> super::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("choices.toml");
    manual_seed(0);
    let (images, weights) = (samebits::randn(&[2, 16, 32, 32])?, samebits::randn(&[16, 16, 3, 3])?);
    let params = ConvParams::padded(2, 1);
    // At `RunToRun` any algorithm that repeats its bits may win, such as Winograd's.
    let convolve = || scope(Determinism::RunToRun, || conv2d(&images, &weights, None, &params));

    let before = autotune::default_config(Device::Cpu)?;
    autotune::configure(
        Device::Cpu,
        Config { mode: Mode::Record(file.clone()), ..before.clone() },
    )?;
    let recorded = convolve()?;
    autotune::configure(Device::Cpu, Config { mode: Mode::pinned(&file), ..before.clone() })?;
    let pinned = convolve()?;
    autotune::configure(Device::Cpu, before)?;
    println!("{}", std::fs::read_to_string(&file)?);
    assert_eq!(recorded.to_bytes()?, pinned.to_bytes()?);
    Ok(())
}

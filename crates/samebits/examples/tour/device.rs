//! One training on the CPU and on the first CUDA device: the same bits. Without such a device it
//! says so; docs/book/emulator.md tells how to use the emulated one.

use samebits::functional::{Reduction, mse_loss};
use samebits::nn::{Linear, Tanh};
use samebits::prelude::*;
use samebits::{cuda_if_available, digest, optim::Adam, sequential};

const DIGEST: &str = "61d1ba162af63b3c065235b437b00b5bbd685f63c7cab89049a18651657e2acc";

fn train(device: Device) -> super::Result<String> {
    manual_seed(0);
    let mut model = sequential![Linear::new(3, 16)?, Tanh, Linear::new(16, 1)?];
    model.to(device)?;
    let x = samebits::randn(&[64, 3])?.to(device)?;
    let y = x.square()?.sum_keepdim(1)?;
    let mut optimizer = Adam::new(1e-2)?;
    for _ in 0..20 {
        let gradients = mse_loss(&model.forward(&x)?, &y, Reduction::Mean)?.backward()?;
        optimizer.step(&mut model, &gradients)?;
    }
    Ok(digest(model.state_dict())?)
}

pub(super) fn run() -> super::Result<()> {
    assert_eq!(train(Device::Cpu)?, DIGEST);
    match cuda_if_available(0) {
        Device::Cpu => println!("no CUDA device on this machine"),
        device => {
            assert_eq!(train(device)?, DIGEST);
            println!("{device} has the bits of the CPU");
        }
    }
    Ok(())
}

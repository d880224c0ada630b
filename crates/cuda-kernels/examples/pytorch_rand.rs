//! The numbers of `torch.rand(n, device="cuda")`, computed on whatever device is there.
//!
//! Both libraries draw from Philox4x32-10 with the seed as its key. PyTorch gives each GPU thread a
//! stream of its own and walks through the words of its blocks, one element per word, while here
//! all elements of a draw are neighbours in one stream. So element e of PyTorch's tensor, computed
//! by thread e mod T in its turn e / T, is word (turn mod 4) of block (offset / 4 + turn / 4) of
//! stream (e mod T) in this library's terms. T depends on the GPU that PyTorch ran on.

#![allow(clippy::print_stdout, reason = "a program talks to its user")]

use samebits_cuda_kernels::{CudaError, Device, Result, is_available, random};

/// `torch.rand(4, device="cuda")` after `torch.manual_seed(seed)`, to the digits it prints.
const PUBLISHED: [(u64, [&str; 4]); 2] =
    [(0, ["0.3990", "0.5167", "0.0249", "0.9401"]), (42, ["0.6130", "0.0101", "0.3984", "0.0403"])];

fn main() -> Result<()> {
    if !is_available() {
        println!("there is no CUDA device");
        return Ok(());
    }
    let device = Device::new(0)?;
    println!("on {}", device.name()?);
    for (seed, published) in PUBLISHED {
        // An H200 holds 132 * 8 blocks of 256 threads.
        let numbers = torch_rand(&device, seed, 0, 4, 132 * 8)?;
        let shown: Vec<String> = numbers.iter().map(|x| format!("{x:.4}")).collect();
        println!("seed {seed}: {}", shown.join(" "));
        if shown != published {
            let message = format!("seed {seed}: PyTorch gives {}", published.join(" "));
            return Err(CudaError::InvalidArgument { op: "pytorch_rand", message });
        }
    }
    Ok(())
}

/// `torch.rand(n, device="cuda")` for a generator with this seed and offset, on a GPU that holds
/// this number of blocks of 256 threads.
fn torch_rand(
    device: &Device,
    seed: u64,
    offset: u64,
    n: usize,
    blocks: usize,
) -> Result<Vec<f32>> {
    let threads = n.div_ceil(256).clamp(1, blocks) * 256;
    let place = |e: usize| ((e % threads) as u64, (e / threads) as u64);
    let halves = |x: u64| [x as u32, (x >> 32) as u32];
    let counters: Vec<u32> = (0..n)
        .flat_map(|e| {
            let (stream, turn) = place(e);
            let [block, stream] = [offset / 4 + turn / 4, stream].map(halves);
            [block, stream].concat()
        })
        .collect();
    let keys: Vec<u32> = (0..n).flat_map(|_| halves(seed)).collect();
    let blocks = random::philox(device, &device.upload(&counters)?, &device.upload(&keys)?, 10)?;
    let words = device.download(&blocks)?;
    let unit = |e: usize| {
        let word = words[4 * e + (place(e).1 % 4) as usize];
        // cuRAND's number in (0, 1], which PyTorch turns into [0, 1).
        let unit = word as f32 * (1.0 / 4294967296.0) + 1.0 / 8589934592.0;
        if unit == 1.0 { 0.0 } else { unit }
    };
    Ok((0..n).map(unit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use samebits_rng::torch::CudaLaunch;

    #[test]
    fn the_published_numbers_and_those_of_the_host_are_reproduced() -> Result<()> {
        main()?;
        if !is_available() {
            return Ok(());
        }
        // Few blocks, so that threads take several turns.
        let (device, launch) = (Device::new(0)?, CudaLaunch::new(2, 512).expect("enough threads"));
        let mut expected = vec![0.0; 5003];
        launch.rand_f32(42, 12, &mut expected);
        assert_eq!(torch_rand(&device, 42, 12, 5003, 4)?, expected);
        Ok(())
    }
}

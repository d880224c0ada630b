//! PyTorch's switches for reproducibility, and their counterparts.

use samebits::determinism::{self, DebugMode};
use samebits::prelude::*;
use samebits::{digest, fork_rng, initial_seed, random, rerun};

const DIGEST: &str = "21ebaf63b439e14ace8c93d70dbd2121542bea443ff399385a04d671ebad63fc";

pub(super) fn run() -> super::Result<()> {
    // torch.manual_seed(7): the generators of this thread, for every device.
    manual_seed(7);
    assert_eq!(initial_seed(), Some(7));
    // torch.get_rng_state, torch.set_rng_state
    let state = random::get_rng_state()?;
    let first = samebits::randn(&[3])?;
    random::set_rng_state(&state);
    assert_eq!(samebits::randn(&[3])?.to_bytes()?, first.to_bytes()?);
    // with torch.random.fork_rng(): draws inside leave the generators outside where they are.
    let second = fork_rng(|| samebits::randn(&[3]))?;
    assert_eq!(samebits::randn(&[3])?.to_bytes()?, second.to_bytes()?);

    // torch.use_deterministic_algorithms(False), for the calls in the closure.
    determinism::scope(Determinism::NotGuaranteed, || first.softmax(0))?;
    // torch.set_deterministic_debug_mode("error"), which is where samebits starts.
    assert_eq!(determinism::debug_mode(), DebugMode::Error);
    // No counterpart: runs every kernel twice, and compares the bits.
    let y = rerun::scope(2, || first.softmax(0))?;
    assert_eq!(digest([("y", &y)])?, DIGEST);
    Ok(())
}

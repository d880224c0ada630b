//! Counter-based and PCG random number generators with the same bits on every device.

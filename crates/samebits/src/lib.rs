//! Same seed, same bits: reproducible tensor computation.

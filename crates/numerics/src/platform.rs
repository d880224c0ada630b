//! The fused multiply-add on platforms whose C library is not trusted with it.
//!
//! Without an instruction, the compiler turns `mul_add` into a call of the C library's `fma` or
//! `fmaf`. The one of mingw-w64 rounds twice; others have not been checked. The program takes the
//! definitions here instead, since a linker looks into libraries only for symbols that are still
//! undefined. They also serve C code that is linked to the same program.

/// Returns `x * y + z`, rounded once, with the instruction where the processor has it.
#[unsafe(no_mangle)]
extern "C" fn fma(x: f64, y: f64, z: f64) -> f64 {
    libm::fma(x, y, z)
}

/// Returns `x * y + z`, rounded once, with the instruction where the processor has it.
#[unsafe(no_mangle)]
extern "C" fn fmaf(x: f32, y: f32, z: f32) -> f32 {
    libm::fmaf(x, y, z)
}

//! Slices in blocks of a constant length.

/// `in_blocks!(block, SIZE, input, output)` calls `block(x, y)` for each `SIZE` elements, filling up
/// the last ones. Loops of a constant length over arrays that are known to be apart keep their
/// values in registers.
///
/// This is no function that takes another, since only inlined code is compiled with the instructions
/// of a [`Kernel`](crate::simd::Kernel).
macro_rules! in_blocks {
    ($block:path, $size:ident, $input:ident, $output:ident) => {{
        let (blocks, rest) = $input.as_chunks::<$size>();
        let (outs, rest_out) = $output.as_chunks_mut::<$size>();
        for (x, y) in blocks.iter().zip(outs) {
            $block(x, y);
        }
        if !rest.is_empty() {
            let (mut x, mut y) = ([1.0; $size], [0.0; $size]);
            x[..rest.len()].copy_from_slice(rest);
            $block(&x, &mut y);
            rest_out.copy_from_slice(&y[..rest.len()]);
        }
    }};
}
pub(super) use in_blocks;

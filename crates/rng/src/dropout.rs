//! Dropout: the mask alone, and fused with the multiplication.

use crate::draw::{CHUNK, Sampler, Span, Visitor, Words};
use crate::parallel::*;
use crate::philox::LANES;
use crate::uniform::Below;
use crate::{Draw, Error, Generator};
use samebits_numerics::{nan::canonical, simd};

impl Draw {
    /// Drops each element of `input` with probability `p` and scales the others by 1 / (1 − `p`);
    /// writes 1 to `mask` for kept elements and 0 for dropped ones; takes [`Draw::blocks_u32`]
    /// blocks.
    ///
    /// Element *i* is dropped if word *i* < `p` · 2^32, as in [`Draw::bernoulli`]. A kept element
    /// is multiplied by [`dropout_scale`], rounded once; a kept NaN becomes the canonical NaN. A
    /// dropped element is +0, whatever the input.
    ///
    /// # Errors
    ///
    /// If `p` is not in `[0, 1]`, or the slices differ in length.
    pub fn dropout(
        &self,
        start: u64,
        input: &[f32],
        p: f64,
        out: &mut [f32],
        mask: &mut [u8],
    ) -> Result<(), Error> {
        let op = "dropout";
        let drop = Below::new(op, p)?;
        if out.len() != input.len() {
            return Err(Error::length(op, "out", out.len(), "input", input.len()));
        }
        if mask.len() != input.len() {
            return Err(Error::length(op, "mask", mask.len(), "input", input.len()));
        }
        let scale = dropout_scale(p);
        let run = |at: usize, input: &[f32], out: &mut [f32], mask: &mut [u8]| {
            let start = u128::from(start) + at as u128;
            simd::dispatch(Dropout { draw: self, start, drop, scale, input, out, mask });
        };
        if input.len() <= CHUNK {
            run(0, input, out, mask);
        } else {
            let slices = input.par_chunks(CHUNK).zip(out.par_chunks_mut(CHUNK));
            let pieces = slices.zip(mask.par_chunks_mut(CHUNK)).enumerate();
            pieces.for_each(|(i, ((input, out), mask))| run(i * CHUNK, input, out, mask));
        }
        Ok(())
    }

    /// Fills `mask` with 1 where [`Draw::dropout`] keeps an element and 0 where it drops one.
    ///
    /// # Errors
    ///
    /// If `p` is not in `[0, 1]`.
    pub fn dropout_mask(&self, start: u64, p: f64, mask: &mut [u8]) -> Result<(), Error> {
        self.fill(Mask { drop: Below::new("dropout_mask", p)? }, start, mask);
        Ok(())
    }
}

impl Generator {
    /// Drops each element of `input` with probability `p` and scales the others; advances by ⌈n/4⌉
    /// blocks. See [`Draw::dropout`].
    ///
    /// # Errors
    ///
    /// If `p` is not in `[0, 1]`, or the slices differ in length. The generator is then unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use samebits_rng::Generator;
    ///
    /// let input = [1.0, 2.0, 3.0, 4.0];
    /// let (mut out, mut mask) = ([0.0; 4], [0; 4]);
    /// Generator::new(0).dropout(&input, 0.5, &mut out, &mut mask)?;
    /// assert_eq!(mask, [0, 1, 1, 1]);
    /// assert_eq!(out, [0.0, 4.0, 6.0, 8.0]);
    /// # Ok::<(), samebits_rng::Error>(())
    /// ```
    pub fn dropout(
        &mut self,
        input: &[f32],
        p: f64,
        out: &mut [f32],
        mask: &mut [u8],
    ) -> Result<(), Error> {
        self.draw_if(Draw::blocks_u32(out.len()), |draw| draw.dropout(0, input, p, out, mask))
    }

    /// Fills `mask` with the mask of [`Generator::dropout`]; advances by ⌈n/4⌉ blocks.
    ///
    /// # Errors
    ///
    /// If `p` is not in `[0, 1]`. The generator is then unchanged.
    pub fn fill_dropout_mask(&mut self, p: f64, mask: &mut [u8]) -> Result<(), Error> {
        self.draw_if(Draw::blocks_u32(mask.len()), |draw| draw.dropout_mask(0, p, mask))
    }
}

/// Returns the factor for kept elements: 1 / (1 − `p`), computed in f64 and rounded to f32; 0 if
/// `p` is 1.
pub fn dropout_scale(p: f64) -> f32 {
    if p == 1.0 { 0.0 } else { (1.0 / (1.0 - p)) as f32 }
}

struct Dropout<'a> {
    draw: &'a Draw,
    start: u128,
    drop: Below,
    scale: f32,
    input: &'a [f32],
    out: &'a mut [f32],
    mask: &'a mut [u8],
}

impl simd::Kernel for Dropout<'_> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let (draw, start, len) = (self.draw, self.start, self.out.len());
        draw.walk(4, start, len, &mut self);
    }
}

impl Visitor for Dropout<'_> {
    #[inline(always)]
    fn visit(&mut self, words: &Words, span: Span) {
        let words = &words[span.skip..][..span.count];
        let input = &self.input[span.at..][..span.count];
        let out = &mut self.out[span.at..][..span.count];
        let mask = &mut self.mask[span.at..][..span.count];
        for i in 0..span.count {
            let keep = !self.drop.holds(words[i]);
            out[i] = if keep { canonical(input[i] * self.scale) } else { 0.0 };
            mask[i] = u8::from(keep);
        }
    }
}

#[derive(Clone, Copy)]
struct Mask {
    drop: Below,
}

impl Sampler for Mask {
    type Out = u8;
    const PER_BLOCK: usize = 4;

    #[inline(always)]
    fn group(self, _: &Draw, _: u64, words: &Words, out: &mut [u8]) {
        for i in 0..4 * LANES {
            out[i] = u8::from(!self.drop.holds(words[i]));
        }
    }
}

//! Padding.

use samebits_numerics::memory::OutOfMemory;

use super::{Axis, Planes, Taps};
use crate::{Error, Result};

/// The values of the padding. The discriminants are those of the CUDA kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum PadMode {
    /// A given value.
    Constant = 0,
    /// The input, mirrored at its first and last element, which are not repeated.
    Reflect = 1,
    /// The first or last element, repeated.
    Replicate = 2,
    /// The other end of the input, after negative pads have cut it.
    Circular = 3,
}

/// The checked geometry of padding planes, and the source of each output.
///
/// # Examples
///
/// ```
/// use samebits_tensor_core::geometry::{PadMode, Padding};
///
/// let padding = Padding::new("pad", &[8, 3], &[[2, 1]], PadMode::Reflect)?;
/// assert_eq!(padding.output_shape(), [8, 6]);
/// let [.., width] = padding.axes();
/// let sources: Vec<_> = (0..6).map(|output| width.source(output)).collect();
/// assert_eq!(sources, [2, 1, 0, 1, 2, 1].map(Some));
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.functional.pad`; its list of pads starts with the last dimension.
pub type Padding = Planes<PaddedAxis>;

/// One dimension of a [`Padding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaddedAxis {
    /// The size of the input.
    pub input: usize,
    /// The size of the output.
    pub output: usize,
    /// The number of outputs in front of the input; negative if the front is cut off.
    pub before: i64,
    /// The values of the padding.
    pub mode: PadMode,
}

impl Axis for PaddedAxis {
    const UNIT: PaddedAxis = PaddedAxis { input: 1, output: 1, before: 0, mode: PadMode::Constant };

    fn input(&self) -> usize {
        self.input
    }

    fn output(&self) -> usize {
        self.output
    }
}

impl Padding {
    /// Checks and returns the padding of the last dimensions of a tensor of shape `input` by
    /// `pads`: `[before, after]` for each of these dimensions, in their order. Negative pads cut
    /// elements off: circular padding cuts the input before it pads, the other modes cut the padded
    /// input, so that reflection still reads elements that are cut off.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if there are not one to three pairs of pads, or more pairs than
    /// dimensions; if a pad is too large for the mode (reflection: at least the size; circular:
    /// more than the size left after cutting; replication: no element to repeat) or cuts off more
    /// than there is; or if a shape has too many elements.
    pub fn new(
        op: &'static str,
        input: &[usize],
        pads: &[[i64; 2]],
        mode: PadMode,
    ) -> Result<Padding> {
        Planes::build(op, input, pads.len(), |dim, input| {
            let output = padded(op, input, pads[dim], mode)?;
            Ok(PaddedAxis { input, output, before: pads[dim][0], mode })
        })
    }

    /// Returns the values of the padding.
    pub fn mode(&self) -> PadMode {
        let [.., width] = self.axes();
        width.mode
    }
}

impl PaddedAxis {
    /// Returns the input position that position `output` copies, or `None` if the fill value goes
    /// there.
    pub fn source(&self, output: usize) -> Option<usize> {
        let (size, at) = (self.input as i64, output as i64 - self.before);
        let source = match self.mode {
            PadMode::Circular => {
                let after = self.output as i64 - size - self.before;
                let first = -self.before.min(0);
                first + (at - first).rem_euclid(size + self.before.min(0) + after.min(0))
            }
            _ if (0..size).contains(&at) => at,
            PadMode::Constant => return None,
            PadMode::Reflect if at < 0 => -at,
            PadMode::Reflect => 2 * (size - 1) - at,
            PadMode::Replicate => at.clamp(0, size - 1),
        };
        Some(source as usize)
    }

    /// Returns, for each input position, the outputs that copy it, ascending.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    pub fn copies(&self) -> Result<Taps<()>, OutOfMemory> {
        let mut sources = Taps::with_capacity(self.output, self.output)?;
        (0..self.output).for_each(|output| sources.push(self.source(output).map(|at| (at, ()))));
        sources.reversed(self.input)
    }
}

/// Returns the padded size of a dimension of `size` elements.
fn padded(
    op: &'static str,
    size: usize,
    [before, after]: [i64; 2],
    mode: PadMode,
) -> Result<usize> {
    // A limit beyond any memory, but small enough that sums of a few such numbers fit.
    const LARGEST: i64 = 1 << 48;
    let signed = i64::try_from(size).unwrap_or(LARGEST);
    let most = match mode {
        PadMode::Constant => LARGEST,
        PadMode::Reflect => (signed - 1).max(0),
        PadMode::Circular => signed.saturating_add(before.min(0)).saturating_add(after.min(0)),
        PadMode::Replicate if size == 0 => 0,
        PadMode::Replicate => LARGEST,
    };
    let range = -LARGEST..=most;
    let padded = (range.contains(&before) && range.contains(&after))
        .then(|| signed.saturating_add(before).saturating_add(after))
        .filter(|padded| (0..=LARGEST).contains(padded));
    padded.map(|padded| padded as usize).ok_or_else(|| {
        Error::invalid(
            op,
            format!("{mode:?} padding by {before} and {after} does not fit a size of {size}"),
        )
    })
}

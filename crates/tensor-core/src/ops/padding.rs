//! Padding.

use super::{checked_shape, expect_float, expect_shape};
use crate::{Error, Op, Pass, Result, Tensor};

/// What padding is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PadMode {
    /// A given value.
    Constant,
    /// The input mirrored at its first and last element, which are not repeated.
    Reflect,
    /// The first or last element.
    Replicate,
    /// The other end of the input.
    Circular,
}

/// The size of a dimension of `size` elements with `before` and `after` more; negative numbers
/// cut elements off.
///
/// # Errors
///
/// [`Error::InvalidArgument`] if the padding is too large for the mode (reflection needs it below
/// the size, circular padding at most the size, replication an element to repeat) or cuts off
/// what is not there.
pub fn padded_size(
    op: &'static str,
    size: usize,
    [before, after]: [i64; 2],
    mode: PadMode,
) -> Result<usize> {
    // Far beyond any memory, and small enough for sums of a few such numbers.
    const LARGEST: i64 = 1 << 48;
    let signed = i64::try_from(size).unwrap_or(LARGEST);
    let most = match mode {
        PadMode::Constant => LARGEST,
        PadMode::Reflect => (signed - 1).max(0),
        PadMode::Circular => signed,
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

/// The input with its last dimensions padded.
#[derive(Clone, Debug)]
pub struct Pad {
    /// The tensor to pad.
    pub input: Tensor,
    /// Elements `[before, after]` to add to each of the last dimensions, one to three, in the
    /// order of the dimensions; a negative number cuts off.
    pub pads: Vec<[i64; 2]>,
    /// What the padding is filled with.
    pub mode: PadMode,
    /// The value of [`PadMode::Constant`], converted to the element type.
    pub value: f64,
}

impl Pad {
    /// The shape of the result.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the padding does not fit the input.
    pub fn output_shape(&self) -> Result<Vec<usize>> {
        padded_shape(Self::NAME, self.input.shape(), &self.pads, self.mode)
    }
}

impl Op for Pad {
    const NAME: &'static str = "pad";
    type Plan = ();
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.input]
    }

    fn plan(&self) -> Result<()> {
        self.output_shape().map(|_| ())
    }
}

/// The gradient of [`Pad`]: contributions in ascending output index, added to +0.
#[derive(Clone, Debug)]
pub struct PadGrad {
    /// The gradient of the result.
    pub grad: Tensor,
    /// The shape of the forward pass's input.
    pub input_shape: Vec<usize>,
    /// As in the forward pass.
    pub pads: Vec<[i64; 2]>,
    /// As in the forward pass.
    pub mode: PadMode,
}

impl Op for PadGrad {
    const NAME: &'static str = "pad";
    const PASS: Pass = Pass::Backward;
    type Plan = ();
    type Output = Tensor;

    fn inputs(&self) -> Vec<&Tensor> {
        vec![&self.grad]
    }

    fn plan(&self) -> Result<()> {
        expect_float(Self::NAME, "the gradient", &self.grad)?;
        checked_shape(Self::NAME, &self.input_shape)?;
        let shape = padded_shape(Self::NAME, &self.input_shape, &self.pads, self.mode)?;
        expect_shape(Self::NAME, "the gradient", &self.grad, &shape)
    }
}

fn padded_shape(
    op: &'static str,
    input: &[usize],
    pads: &[[i64; 2]],
    mode: PadMode,
) -> Result<Vec<usize>> {
    if !(1..=3).contains(&pads.len()) || pads.len() > input.len() {
        return Err(Error::invalid(
            op,
            format!("pads {pads:?} for 1 to 3 of the dimensions of shape {input:?}"),
        ));
    }
    let mut shape = input.to_vec();
    let first = input.len() - pads.len();
    for (size, &pads) in shape[first..].iter_mut().zip(pads) {
        *size = padded_size(op, *size, pads, mode)?;
    }
    checked_shape(op, &shape)
}

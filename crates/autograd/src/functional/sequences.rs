//! Sequences of different lengths as one padded tensor.

use std::borrow::Borrow;

use samebits_macros::named;
use samebits_tensor_core::ops::PadMode;
use samebits_tensor_core::{Error, Result};

use super::recurrent::{PackedSequence, pack_padded_sequence, pad_packed_sequence};
use super::{Lengths, each, narrow, pad, select, stack};
use crate::Tensor;
use crate::memory::room;

/// The end of a sequence at which [`pad_sequence`] adds padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PaddingSide {
    /// After the last step.
    #[default]
    Right,
    /// Before the first step.
    Left,
}

/// Pads sequences to the length of the longest one and stacks them.
///
/// PyTorch's defaults are `batch_first` false, a value of 0, and padding on the right.
///
/// # Shapes
///
/// Each sequence is `[steps, ..]`; all dimensions but the first are equal. The result is `[longest,
/// n, ..]`, or `[n, longest, ..]` with `batch_first`.
///
/// # Determinism
///
/// Portable: elements are copied.
///
/// # Errors
///
/// The list is empty, a sequence has no dimension, or the shapes or types differ.
///
/// # Examples
///
/// ```
/// use samebits_autograd::Tensor;
/// use samebits_autograd::functional::{PaddingSide, pad_sequence, unpad_sequence};
///
/// let tokens = [Tensor::new([5i64, 6, 7])?, Tensor::new([8i64])?];
/// let padded = pad_sequence(&tokens, true, 0.0, PaddingSide::Right)?;
/// assert_eq!(padded.to_vec::<i64>()?, [5, 6, 7, 8, 0, 0]);
/// let back = unpad_sequence(&padded, &[3, 1], true)?;
/// assert_eq!(back[1].to_vec::<i64>()?, [8]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.utils.rnn.pad_sequence`.
#[named]
#[track_caller]
pub fn pad_sequence(
    sequences: &[impl Borrow<Tensor>],
    batch_first: bool,
    padding_value: f64,
    padding_side: PaddingSide,
) -> Result<Tensor> {
    let sequences = each(sequences);
    let Some((first, rest)) = sequences.split_first() else {
        return Err(Error::invalid("pad_sequence", "expected at least one sequence, got none"));
    };
    let [_, features @ ..] = first.shape() else {
        return Err(Error::invalid("pad_sequence", "expected sequences [steps, ..], got shape []"));
    };
    for x in rest {
        if x.shape().get(1..) != Some(features) {
            let (a, b) = (first.shape(), x.shape());
            let message = format!("expected shapes that differ in steps only, got {a:?} and {b:?}");
            return Err(Error::invalid("pad_sequence", message));
        }
        if x.dtype() != first.dtype() {
            let (a, b) = (first.dtype(), x.dtype());
            let message = format!("expected sequences of one type, got {a} and {b}");
            return Err(Error::invalid("pad_sequence", message));
        }
    }
    let longest = sequences.iter().map(|x| x.shape()[0]).max().unwrap_or(0);
    let mut padded = room("pad_sequence", sequences.len())?;
    for x in sequences {
        let missing = longest - x.shape()[0];
        if missing == 0 {
            padded.push(x.clone());
            continue;
        }
        // The last pair is that of the steps.
        let mut pads = vec![0; 2 * (x.rank() - 1)];
        pads.extend(match padding_side {
            PaddingSide::Right => [0, missing as i64],
            PaddingSide::Left => [missing as i64, 0],
        });
        padded.push(pad(x, &pads, PadMode::Constant, padding_value)?);
    }
    stack(&padded, usize::from(!batch_first))
}

/// Returns the sequences of a tensor that [`pad_sequence`] padded on the right.
///
/// # Shapes
///
/// `padded` is `[steps, n, ..]`, or `[n, steps, ..]` with `batch_first`. There are `n` lengths, as
/// numbers or a tensor; each sequence is `[length, ..]`.
///
/// # Errors
///
/// The tensor has fewer than two dimensions, a length exceeds the steps, or the number of lengths is
/// not `n`.
///
/// # References
///
/// `torch.nn.utils.rnn.unpad_sequence`.
#[named]
#[track_caller]
pub fn unpad_sequence(
    padded: &Tensor,
    lengths: impl Lengths,
    batch_first: bool,
) -> Result<Vec<Tensor>> {
    let lengths = lengths.lengths("unpad_sequence")?;
    let (batch, time) = if batch_first { (0, 1) } else { (1, 0) };
    let shape = padded.shape();
    if shape.len() < 2 {
        let message = format!("expected a tensor [steps, n, ..], got shape {shape:?}");
        return Err(Error::invalid("unpad_sequence", message));
    }
    let (n, steps) = (shape[batch], shape[time]);
    if lengths.len() != n || lengths.iter().any(|&length| length > steps) {
        let message = format!("expected {n} lengths from 0 to {steps}, got {lengths:?}");
        return Err(Error::invalid("unpad_sequence", message));
    }
    let mut sequences = room("unpad_sequence", n)?;
    for (sequence, &length) in lengths.iter().enumerate() {
        sequences.push(narrow(&select(padded, batch, sequence as i64)?, 0, 0, length)?);
    }
    Ok(sequences)
}

/// Packs sequences, as [`pack_padded_sequence`] packs padded ones.
///
/// # Shapes
///
/// Each sequence is `[steps, width]` with at least one step.
///
/// # Errors
///
/// The list is empty, a sequence is, the shapes or types differ, or the lengths ascend although
/// `enforce_sorted` is true.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// let sequences = [Tensor::new([[1.0f32], [2.0]])?, Tensor::new([[3.0f32]])?];
/// let packed = functional::pack_sequence(&sequences, true)?;
/// assert_eq!(packed.data().to_vec::<f32>()?, [1.0, 3.0, 2.0]);
/// let back = functional::unpack_sequence(&packed)?;
/// assert_eq!(back[0].to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.utils.rnn.pack_sequence`.
#[named]
#[track_caller]
pub fn pack_sequence(
    sequences: &[impl Borrow<Tensor>],
    enforce_sorted: bool,
) -> Result<PackedSequence> {
    let padded = pad_sequence(sequences, false, 0.0, PaddingSide::Right)?;
    let lengths: Vec<usize> = each(sequences).iter().map(|x| x.shape()[0]).collect();
    pack_padded_sequence(&padded, &lengths, false, enforce_sorted)
}

/// Returns the sequences of a packed batch, in the order before packing.
///
/// # Errors
///
/// The data is not `[elements, width]`.
///
/// # References
///
/// `torch.nn.utils.rnn.unpack_sequence`.
#[named]
#[track_caller]
pub fn unpack_sequence(packed: &PackedSequence) -> Result<Vec<Tensor>> {
    let (padded, lengths) = pad_packed_sequence(packed, true, 0.0, None)?;
    unpad_sequence(&padded, &lengths, true)
}

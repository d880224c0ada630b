//! Sequences of different lengths, packed step by step.

use samebits_macros::named;
use samebits_tensor_core::{DType, Error, Result};

use crate::Tensor;
use crate::functional::broadcast::expand;
use crate::functional::elementwise::scalar_like;
use crate::functional::shape::{cat, reshape, transpose};
use crate::functional::{Lengths, index_select};
use crate::half::{Holder, Narrow};

/// Sequences of different lengths without padding: the first elements of all sequences, longest
/// sequence first, then the second elements, and so on.
#[derive(Clone, Debug)]
pub struct PackedSequence {
    data: Tensor,
    batch_sizes: Vec<usize>,
    /// The index of the sequence at each position of a step.
    sorted: Vec<usize>,
    lengths: Vec<usize>,
}

impl Holder for PackedSequence {
    fn each(&self, visit: &mut dyn FnMut(&Tensor)) {
        visit(self.data());
    }

    fn with_each(&self, change: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Self> {
        Ok(self.with_data(change(self.data())?))
    }
}

impl Narrow for PackedSequence {
    fn narrow(self, half: DType) -> Result<PackedSequence> {
        self.with_each(&mut |x| x.clone().narrow(half))
    }
}

impl PackedSequence {
    /// Returns the elements, `[elements, width]`.
    pub fn data(&self) -> &Tensor {
        &self.data
    }

    /// Returns the number of sequences that have an element at each step.
    pub fn batch_sizes(&self) -> &[usize] {
        &self.batch_sizes
    }

    /// Returns the length of each sequence, in the order before packing.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Returns, for each position of a step, the index of its sequence in the batch.
    pub fn sorted_indices(&self) -> &[usize] {
        &self.sorted
    }

    /// Returns the number of sequences.
    pub(super) fn sequences(&self) -> usize {
        self.sorted.len()
    }

    /// Returns the same sequences with other elements.
    pub(super) fn with_data(&self, data: Tensor) -> PackedSequence {
        PackedSequence { data, ..self.clone() }
    }

    /// Reorders a state `[layers, n, width]` to the order of the packed sequences.
    pub(super) fn sort(&self, state: &Tensor) -> Result<Tensor> {
        if self.is_sorted() {
            return Ok(state.clone());
        }
        select(state, 1, &self.sorted)
    }

    /// Reorders a state `[layers, n, width]` to the order before packing.
    pub(super) fn unsort(&self, state: &Tensor) -> Result<Tensor> {
        if self.is_sorted() {
            return Ok(state.clone());
        }
        select(state, 1, &self.places())
    }

    fn is_sorted(&self) -> bool {
        self.sorted.iter().enumerate().all(|(place, &sequence)| place == sequence)
    }

    /// Returns the position of each sequence.
    fn places(&self) -> Vec<usize> {
        let mut places = vec![0; self.sorted.len()];
        for (place, &sequence) in self.sorted.iter().enumerate() {
            places[sequence] = place;
        }
        places
    }
}

/// Packs padded sequences, as PyTorch's `pack_padded_sequence` does. Sequences of equal length keep
/// their order.
///
/// # Shapes
///
/// `input` is `[steps, n, width]`, or `[n, steps, width]` with `batch_first`. There are `n`
/// lengths, as numbers or a tensor.
///
/// # Errors
///
/// A length is 0 or exceeds the steps, the number of lengths is not `n`, or the lengths ascend
/// although `enforce_sorted` is true.
///
/// # Examples
///
/// ```
/// use samebits_autograd::{Tensor, functional};
///
/// // Two sequences, 1 2 and 3; 0 is padding.
/// let input = Tensor::from_slice(&[1.0f32, 3.0, 2.0, 0.0], &[2, 2, 1])?;
/// let packed = functional::pack_padded_sequence(&input, &[2, 1], false, true)?;
/// assert_eq!(packed.data().to_vec::<f32>()?, [1.0, 3.0, 2.0]);
/// assert_eq!(packed.batch_sizes(), [2, 1]);
/// let (padded, lengths) = functional::pad_packed_sequence(&packed, false, -1.0, None)?;
/// assert_eq!(padded.to_vec::<f32>()?, [1.0, 3.0, 2.0, -1.0]);
/// assert_eq!(lengths, [2, 1]);
/// # Ok::<(), samebits_tensor_core::Error>(())
/// ```
#[named]
#[track_caller]
pub fn pack_padded_sequence(
    input: &Tensor,
    lengths: impl Lengths,
    batch_first: bool,
    enforce_sorted: bool,
) -> Result<PackedSequence> {
    const OP: &str = "pack_padded_sequence";
    if input.shape().len() != 3 {
        return Err(Error::invalid(
            OP,
            format!("expected an input of shape [steps, n, width], got {:?}", input.shape()),
        ));
    }
    let lengths = lengths.lengths(OP)?;
    let input = if batch_first { transpose(input, 0, 1)? } else { input.clone() };
    let &[steps, n, width] = input.shape() else { unreachable!("its rank was checked") };
    if lengths.len() != n || lengths.iter().any(|length| !(1..=steps).contains(length)) {
        return Err(Error::invalid(
            OP,
            format!("expected {n} lengths from 1 to {steps}, got {lengths:?}"),
        ));
    }
    if enforce_sorted && lengths.windows(2).any(|pair| pair[0] < pair[1]) {
        return Err(Error::invalid(
            OP,
            format!("lengths {lengths:?} ascend; pass `enforce_sorted` as false"),
        ));
    }
    let mut sorted: Vec<usize> = (0..n).collect();
    sorted.sort_by_key(|&sequence| std::cmp::Reverse(lengths[sequence]));
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let batch_sizes: Vec<usize> =
        (0..longest).map(|t| lengths.iter().filter(|&&length| length > t).count()).collect();
    let rows: Vec<usize> = batch_sizes
        .iter()
        .enumerate()
        .flat_map(|(t, &count)| sorted[..count].iter().map(move |sequence| t * n + sequence))
        .collect();
    let data = select(&reshape(&input, [steps * n, width])?, 0, &rows)?;
    Ok(PackedSequence { data, batch_sizes, sorted, lengths })
}

/// Unpacks sequences, as PyTorch's `pad_packed_sequence` does: returns them padded with a value,
/// and their lengths.
///
/// # Errors
///
/// `total_length` is less than the longest sequence.
#[named]
#[track_caller]
pub fn pad_packed_sequence(
    packed: &PackedSequence,
    batch_first: bool,
    padding_value: f64,
    total_length: Option<usize>,
) -> Result<(Tensor, Vec<usize>)> {
    const OP: &str = "pad_packed_sequence";
    let longest = packed.batch_sizes.len();
    let steps = total_length.unwrap_or(longest);
    if steps < longest {
        return Err(Error::invalid(
            OP,
            format!("total_length is {steps}, but the longest sequence has {longest} steps"),
        ));
    }
    let n = packed.sequences();
    let &[elements, width] = packed.data.shape() else {
        return Err(Error::invalid(
            OP,
            format!("expected data of shape [elements, width], got {:?}", packed.data.shape()),
        ));
    };
    let padding = expand(&scalar_like(&packed.data, padding_value)?, &[1, width])?;
    let places = packed.places();
    let mut first = 0;
    let mut rows = Vec::new();
    for t in 0..steps {
        let count = packed.batch_sizes.get(t).copied().unwrap_or(0);
        // The row after the last holds the padding.
        rows.extend(places.iter().map(|&p| if p < count { first + p } else { elements }));
        first += count;
    }
    let padded = select(&cat(&[packed.data.clone(), padding], 0)?, 0, &rows)?;
    let padded = reshape(&padded, [steps, n, width])?;
    let padded = if batch_first { transpose(&padded, 0, 1)? } else { padded };
    Ok((padded, packed.lengths.clone()))
}

#[track_caller]
fn select(x: &Tensor, dim: usize, rows: &[usize]) -> Result<Tensor> {
    let index: Vec<i64> = rows.iter().map(|&row| row as i64).collect();
    let index = Tensor::from_slice(&index, &[index.len()])?.to(x.device())?;
    index_select(x, dim, &index)
}

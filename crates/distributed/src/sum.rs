//! The exchange of tree nodes.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::Range;

use bytemuck::Zeroable;
use samebits_autograd::Error as Failed;
use samebits_autograd::optim::{TreeNode, TreeSum};
use samebits_cpu_kernels::elementwise::{Operand, binary};
use samebits_numerics::{fpenv, memory};
use samebits_tensor_core::ops::BinaryKind;
use samebits_tensor_core::scalar::cast;
use samebits_tensor_core::{Element, bf16, f16};
use serde::{Deserialize, Serialize};

use crate::{Error, Result, Transport};

/// A tree node that a rank holds: the sum of `2^level` micro-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The index of the first micro-batch, a multiple of `2^level`.
    pub first: u64,
    /// The binary logarithm of the number of micro-batches.
    pub level: u32,
}

impl Held {
    /// Returns the position of `node` in the tree.
    pub fn of<T>(node: &TreeNode<T>) -> Held {
        Held { first: node.first, level: node.level }
    }
}

/// An element type that ranks can sum.
pub trait Scalar: Element {
    /// A placeholder for an element that a node lacks: adding it to any number leaves that number,
    /// including zeros of both signs.
    const ABSENT: Self;

    /// Adds elementwise, each sum rounded once, as tensors are added.
    ///
    /// # Errors
    ///
    /// The slices differ in length.
    fn add(a: &[Self], b: &[Self], out: &mut [Self]) -> samebits_autograd::Result<()>;
}

macro_rules! wide {
    ($($float:ty),*) => {$(
        impl Scalar for $float {
            const ABSENT: $float = -0.0;

            fn add(a: &[$float], b: &[$float], out: &mut [$float]) -> samebits_autograd::Result<()> {
                binary(BinaryKind::Add, Operand::Each(a), Operand::Each(b), out).map_err(failed)
            }
        }
    )*};
}
wide!(f32, f64);

macro_rules! halves {
    ($($half:ty),*) => {$(
        impl Scalar for $half {
            const ABSENT: $half = <$half>::NEG_ZERO;

            fn add(a: &[$half], b: &[$half], out: &mut [$half]) -> samebits_autograd::Result<()> {
                const PIECE: usize = 256;
                let [mut wide, mut sums] = [[0f32; PIECE]; 2];
                let parts = a.chunks(PIECE).zip(b.chunks(PIECE)).zip(out.chunks_mut(PIECE));
                for ((a, b), out) in parts {
                    let (wide, sums) = (&mut wide[..b.len()], &mut sums[..a.len()]);
                    cast(b, wide);
                    cast(a, sums);
                    sums.iter_mut().zip(wide).for_each(|(sum, b)| *sum += *b);
                    cast(sums, out);
                }
                Ok(())
            }
        }
    )*};
}
halves!(bf16, f16);

fn failed(error: impl Display) -> Failed {
    Failed::invalid("ranks", error.to_string())
}

/// The elements of one slice of a node.
enum Part<'a, T> {
    /// Borrowed from this rank.
    Own(&'a [T]),
    /// Memory of [`Spare`].
    Received(Vec<T>),
    /// Written to the result by the last addition.
    Placed,
}

/// Memory for slices, reused for every piece.
struct Spare<T> {
    free: Vec<Vec<T>>,
    /// The number of elements of a piece.
    most: usize,
}

impl<T: Scalar> Spare<T> {
    fn take(&mut self, len: usize) -> Result<Vec<T>> {
        let mut values = match self.free.pop() {
            Some(values) => values,
            None => zeroed(self.most)?,
        };
        values.resize(len, T::zeroed());
        Ok(values)
    }

    fn put(&mut self, part: Part<'_, T>) {
        if let Part::Received(values) = part {
            self.free.push(values);
        }
    }
}

/// Returns the range of elements that rank `rank` sums.
fn slice(len: usize, rank: usize, world: usize) -> Range<usize> {
    // Quotient and remainder of len / world separately, to avoid overflow.
    let cut = |at: usize| len / world * at + len % world * at / world;
    cut(rank)..cut(rank + 1)
}

/// Returns the length of the nodes, which a rank without a node does not know.
pub(crate) fn length<T>(
    transport: &dyn Transport,
    held: &[Vec<Held>],
    own: &[&[T]],
) -> Result<usize> {
    let (rank, world) = (transport.rank(), transport.world());
    let len = own.first().map_or(0, |node| node.len());
    let fits = held.len() == world
        && held[rank].len() == own.len()
        && own.iter().all(|node| node.len() == len);
    if !fits {
        let lens: Vec<usize> = own.iter().map(|node| node.len()).collect();
        let message =
            format!("{world} ranks, this one with {held:?}, has nodes of {lens:?} elements");
        return Err(Error::Invalid(message));
    }
    let mut lens = vec![(len as u64).to_le_bytes(); world];
    let send = lens.clone();
    let send: Vec<&[u8]> = send.iter().map(|len| &len[..]).collect();
    let mut receive: Vec<&mut [u8]> = lens.iter_mut().map(|len| &mut len[..]).collect();
    transport.exchange(&send, &mut receive)?;
    let mut longest = (rank, len as u64);
    for (from, bytes) in lens.into_iter().enumerate().filter(|&(from, _)| !held[from].is_empty()) {
        let other = u64::from_le_bytes(bytes);
        let (first, most) = longest;
        if most != other && !held[first].is_empty() {
            return Err(Error::Message {
                rank: from,
                waiting: rank,
                expected: format!("nodes of {most} elements"),
                found: format!("nodes of {other} elements"),
            });
        }
        longest = (from, other);
    }
    Ok(longest.1 as usize)
}

/// Computes [`Ranks::sum_into`](crate::Ranks::sum_into), in pieces of `piece` elements of each slice.
pub(crate) fn sum_into<T: Scalar>(
    transport: &dyn Transport,
    held: &[Vec<Held>],
    own: &[&[T]],
    piece: usize,
    result: &mut [T],
) -> Result<()> {
    let (rank, world, len) = (transport.rank(), transport.world(), result.len());
    let most = (0..world).map(|rank| slice(len, rank, world).len()).max().unwrap_or(0);
    let piece = piece.clamp(1, most.max(1));
    let spare = RefCell::new(Spare { free: Vec::new(), most: piece });
    for at in (0..most).step_by(piece) {
        let of = |rank: usize| {
            let Range { start, end } = slice(len, rank, world);
            let first = end.min(start.saturating_add(at));
            first..end.min(first.saturating_add(piece))
        };
        added(transport, held, own, &of, &spare, &mut result[of(rank)])?;
        // Every rank sends its part of the piece to all others.
        let (mut receive, mut mine) = (Vec::with_capacity(world), &[][..]);
        let (mut rest, mut done) = (&mut *result, 0);
        for from in 0..world {
            let Range { start, end } = of(from);
            let (place, after) =
                std::mem::take(&mut rest)[start - done..].split_at_mut(end - start);
            if from == rank {
                mine = bytemuck::cast_slice(place);
                receive.push(&mut [][..]);
            } else {
                receive.push(bytemuck::cast_slice_mut(place));
            }
            (rest, done) = (after, end);
        }
        transport.exchange(&vec![mine; world], &mut receive)?;
    }
    Ok(())
}

/// Writes the sum of all nodes over this rank's elements, `of(rank)`, to `place`; sends the other
/// ranks their elements.
fn added<T: Scalar>(
    transport: &dyn Transport,
    held: &[Vec<Held>],
    own: &[&[T]],
    of: &dyn Fn(usize) -> Range<usize>,
    spare: &RefCell<Spare<T>>,
    place: &mut [T],
) -> Result<()> {
    let (rank, world) = (transport.rank(), transport.world());
    let mine = of(rank);
    // One message, without a copy, for each pair of ranks and each node of the sender.
    let mut received: Vec<Vec<Vec<T>>> = (0..world).map(|_| Vec::new()).collect();
    let rounds = held.iter().map(Vec::len).max().unwrap_or(0);
    for round in 0..rounds {
        let send: Vec<&[u8]> = (0..world)
            .map(|to| match own.get(round) {
                Some(node) if to != rank => bytemuck::cast_slice(&node[of(to)]),
                _ => &[],
            })
            .collect();
        let mut places: Vec<&mut [u8]> = Vec::with_capacity(world);
        for (from, parts) in received.iter_mut().enumerate() {
            let expected = from != rank && round < held[from].len();
            places.push(if expected {
                parts.push(spare.borrow_mut().take(mine.len())?);
                parts.last_mut().map_or(&mut [][..], |part| bytemuck::cast_slice_mut(part))
            } else {
                &mut [][..]
            });
        }
        transport.exchange(&send, &mut places)?;
    }
    let mut left = held.iter().map(Vec::len).sum::<usize>().saturating_sub(1);
    let mut add = |a: Part<'_, T>, b: Part<'_, T>| {
        left = left.saturating_sub(1);
        let sum = match left {
            0 => {
                add_into(&a, &b, place)?;
                Part::Placed
            }
            _ => {
                let memory = spare.borrow_mut().take(mine.len());
                let mut out =
                    memory.map_err(|error| Failed::invalid("ranks", error.to_string()))?;
                add_into(&a, &b, &mut out)?;
                Part::Received(out)
            }
        };
        spare.borrow_mut().put(a);
        spare.borrow_mut().put(b);
        Ok(sum)
    };
    let mut sum = TreeSum::default();
    for (from, (nodes, parts)) in held.iter().zip(received).enumerate() {
        let mut parts = parts.into_iter();
        for (at, node) in nodes.iter().enumerate() {
            let part = match from == rank {
                true => Part::Own(&own[at][mine.clone()]),
                false => Part::Received(parts.next().unwrap_or_default()),
            };
            let node = TreeNode { first: node.first, level: node.level, sum: part };
            sum.push_node(node, &mut add)?;
        }
    }
    match sum.finish(&mut add)? {
        Some(Part::Own(values)) => place.copy_from_slice(values),
        Some(Part::Received(values)) => {
            place.copy_from_slice(&values);
            spare.borrow_mut().put(Part::Received(values));
        }
        Some(Part::Placed) | None => {}
    }
    Ok(())
}

/// Adds elementwise, with the kernel that adds tensors.
fn add_into<T: Scalar>(
    a: &Part<'_, T>,
    b: &Part<'_, T>,
    out: &mut [T],
) -> samebits_autograd::Result<()> {
    fn values<'a, T>(part: &'a Part<'_, T>) -> &'a [T] {
        match part {
            Part::Own(values) => values,
            Part::Received(values) => values,
            Part::Placed => &[],
        }
    }
    fpenv::ieee(|| T::add(values(a), values(b), out))
}

pub(crate) fn zeroed<T: Zeroable>(len: usize) -> Result<Vec<T>> {
    let bytes = len.saturating_mul(size_of::<T>());
    memory::zeroed(len).map_err(|_| Error::OutOfMemory { bytes })
}

//! The exchange of tree nodes.

use std::ops::Range;

use bytemuck::Zeroable;
use samebits_autograd::optim::{TreeNode, TreeSum};
use samebits_cpu_kernels::elementwise::{Elementary, Operand, binary};
use samebits_numerics::{fpenv, memory};
use samebits_tensor_core::Element;
use samebits_tensor_core::ops::BinaryKind;
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
pub trait Scalar: Elementary + Element {
    /// A placeholder for an element that a node lacks: adding it to any number leaves that number,
    /// including zeros of both signs.
    const ABSENT: Self;
}

impl Scalar for f32 {
    const ABSENT: f32 = -0.0;
}

impl Scalar for f64 {
    const ABSENT: f64 = -0.0;
}

/// The elements of one slice of a node: borrowed from this rank, or in memory that an addition may
/// reuse.
enum Part<'a, T> {
    Own(&'a [T]),
    Received(Vec<T>),
}

impl<T> Part<'_, T> {
    fn values(&self) -> &[T] {
        match self {
            Part::Own(values) => values,
            Part::Received(values) => values,
        }
    }
}

/// Returns the range of elements that rank `rank` sums.
fn slice(len: usize, rank: usize, world: usize) -> Range<usize> {
    // Quotient and remainder of len / world separately, to avoid overflow.
    let cut = |at: usize| len / world * at + len % world * at / world;
    cut(rank)..cut(rank + 1)
}

/// Computes [`Ranks::sum`](crate::Ranks::sum), in pieces of `piece` elements of each slice.
pub(crate) fn sum<T: Scalar>(
    transport: &dyn Transport,
    held: &[Vec<Held>],
    own: &[&[T]],
    piece: usize,
) -> Result<Vec<T>> {
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
    // A rank without a node does not know the length of nodes.
    let lens = transport.all_gather(&(len as u64).to_le_bytes())?;
    let mut longest = (rank, len as u64);
    for (from, bytes) in lens.iter().enumerate().filter(|&(from, _)| !held[from].is_empty()) {
        let other = bytes.as_slice().try_into().map(u64::from_le_bytes).unwrap_or(u64::MAX);
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
    let len = longest.1 as usize;
    let mut result: Vec<T> = zeroed(len)?;
    let most = (0..world).map(|rank| slice(len, rank, world).len()).max().unwrap_or(0);
    for at in (0..most).step_by(piece.max(1)) {
        let of = |rank: usize| {
            let Range { start, end } = slice(len, rank, world);
            let first = end.min(start.saturating_add(at));
            first..end.min(first.saturating_add(piece.max(1)))
        };
        let sum = added(transport, held, own, &of)?;
        let send = vec![bytemuck::cast_slice(&sum); world];
        let mut receive = Vec::with_capacity(world);
        let mut rest = &mut result[..];
        let mut done = 0;
        for from in 0..world {
            let Range { start, end } = of(from);
            let (place, after) =
                std::mem::take(&mut rest)[start - done..].split_at_mut(end - start);
            if from == rank {
                place.copy_from_slice(&sum);
                receive.push(&mut [][..]);
            } else {
                receive.push(bytemuck::cast_slice_mut(place));
            }
            (rest, done) = (after, end);
        }
        transport.exchange(&send, &mut receive)?;
    }
    Ok(result)
}

/// Returns the sum of all nodes over this rank's elements, `of(rank)`; sends the other ranks their
/// elements.
fn added<T: Scalar>(
    transport: &dyn Transport,
    held: &[Vec<Held>],
    own: &[&[T]],
    of: &impl Fn(usize) -> Range<usize>,
) -> Result<Vec<T>> {
    let (rank, world) = (transport.rank(), transport.world());
    let mine = of(rank);
    // One message, without a copy, for each pair of ranks and each node of the sender.
    let rounds = held.iter().map(Vec::len).max().unwrap_or(0);
    let mut received: Vec<Vec<Vec<T>>> = (0..world).map(|_| Vec::new()).collect();
    for round in 0..rounds {
        let send = (0..world).map(|to| own.get(round).map_or(&[][..], |node| &node[of(to)]));
        let send: Vec<&[u8]> = send.map(bytemuck::cast_slice).collect();
        let mut places = Vec::with_capacity(world);
        for (from, parts) in received.iter_mut().enumerate() {
            let expected = from != rank && round < held[from].len();
            places.push(if expected {
                parts.push(zeroed(mine.len())?);
                parts.last_mut().map_or(&mut [][..], |part| bytemuck::cast_slice_mut(part))
            } else {
                &mut [][..]
            });
        }
        transport.exchange(&send, &mut places)?;
    }
    let mut sum = TreeSum::default();
    for (from, (nodes, parts)) in held.iter().zip(received).enumerate() {
        let mut parts = parts.into_iter();
        for (at, node) in nodes.iter().enumerate() {
            let part = match from == rank {
                true => Part::Own(&own[at][mine.clone()]),
                false => Part::Received(parts.next().unwrap_or_default()),
            };
            let node = TreeNode { first: node.first, level: node.level, sum: part };
            sum.push_node(node, add)?;
        }
    }
    match sum.finish(add)? {
        Some(Part::Received(values)) => Ok(values),
        Some(Part::Own(values)) => Ok(values.to_vec()),
        None => Ok(Vec::new()),
    }
}

/// Adds elementwise, with the kernel that adds tensors.
fn add<'a, T: Scalar>(a: Part<'a, T>, b: Part<'a, T>) -> samebits_autograd::Result<Part<'a, T>> {
    use samebits_autograd::Error;

    let len = a.values().len();
    let mut out = memory::zeroed(len).map_err(Error::out_of_host_memory("ranks"))?;
    let (x, y) = (Operand::Each(a.values()), Operand::Each(b.values()));
    fpenv::ieee(|| binary(BinaryKind::Add, x, y, &mut out))
        .map_err(|error| Error::invalid("ranks", error.to_string()))?;
    Ok(Part::Received(out))
}

fn zeroed<T: Zeroable>(len: usize) -> Result<Vec<T>> {
    let bytes = len.saturating_mul(size_of::<T>());
    memory::zeroed(len).map_err(|_| Error::OutOfMemory { bytes })
}

//! Sums over the micro-batches of a step, in an order that does not depend on who computes which
//! part.

use crate::{Error, Result};

/// A sum in the order of a fixed binary tree over the indices of its values.
///
/// Each holder of a contiguous range of indices can sum its range alone; joining the partial sums
/// gives the same bits as one sum over all values. A left fold cannot do that: in
/// `((g0 + g1) + g2) + g3`, nobody can add `g2 + g3` first.
///
/// ```text
/// numbers      0   1   2   3   4   5
///               \ /     \ /     \ /
/// nodes         0..2    2..4    4..6
///                  \    /        |
///                   0..4         |
///                       \        |
/// finish                 0 ..... 6
/// ```
///
/// # Determinism
///
/// `sum(a..b)` is value `a` if the range holds one value, else `sum(a..a + h) + sum(a + h..b)` with
/// the largest power of two `h` below `b - a`. [`finish`](TreeSum::finish) returns `sum(0..n)` for
/// every division of the indices below `n` into ranges. The tree of a shorter sum is part of the
/// longer one's, so the number of values need not be known in advance.
///
/// # Examples
///
/// ```
/// use samebits_autograd::optim::TreeSum;
///
/// let add = |a: f32, b: f32| Ok(a + b);
/// let values = [1e8f32, 1.0, -1e8, 1.0, 0.5, 0.25];
/// let mut alone = TreeSum::default();
/// for value in values {
///     alone.push(value, add)?;
/// }
/// // Three hold two values each; another joins what they have added up.
/// let mut joined = TreeSum::default();
/// for first in [0, 2, 4] {
///     let mut part = TreeSum::starting_at(first as u64);
///     part.push(values[first], add)?;
///     part.push(values[first + 1], add)?;
///     for node in part.into_nodes() {
///         joined.push_node(node, add)?;
///     }
/// }
/// assert_eq!(joined.finish(add)?, alone.finish(add)?);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TreeSum<T> {
    /// The largest tree nodes that lie in the range, by index.
    nodes: Vec<TreeNode<T>>,
    /// The index of the next value.
    next: u64,
}

/// The sum of `2^level` values whose first index is a multiple of `2^level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeNode<T> {
    /// The index of the first value.
    pub first: u64,
    /// The binary logarithm of the number of values.
    pub level: u32,
    /// The sum.
    pub sum: T,
}

impl<T> TreeNode<T> {
    /// Returns whether this node and `right`, which follows it, are the halves of one node.
    fn is_sibling_of(&self, right: &TreeNode<T>) -> bool {
        self.level == right.level && (self.first >> self.level).is_multiple_of(2)
    }
}

impl<T> Default for TreeSum<T> {
    fn default() -> Self {
        TreeSum::starting_at(0)
    }
}

impl<T> TreeSum<T> {
    /// Creates an empty sum; the first value pushed has the index `first`.
    pub fn starting_at(first: u64) -> TreeSum<T> {
        TreeSum { nodes: Vec::new(), next: first }
    }

    /// Adds the next value. `add` adds two neighbours, the one with lower indices first.
    ///
    /// # Errors
    ///
    /// Errors of `add`. The sum has lost the parts that `add` consumed: drop it.
    pub fn push(&mut self, value: T, add: impl FnMut(T, T) -> Result<T>) -> Result<()> {
        self.push_node(TreeNode { first: self.next, level: 0, sum: value }, add)
    }

    /// Adds a node from [`into_nodes`](TreeSum::into_nodes) of another sum.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the node does not start at the next index, or is not a node of
    /// the tree. Errors of `add`: the sum has lost the parts that `add` consumed, so drop it.
    pub fn push_node(
        &mut self,
        mut node: TreeNode<T>,
        mut add: impl FnMut(T, T) -> Result<T>,
    ) -> Result<()> {
        let (first, level, next) = (node.first, node.level, self.next);
        let size = 1u64.checked_shl(level).filter(|size| first.is_multiple_of(*size));
        let end = size.and_then(|size| first.checked_add(size)).filter(|_| first == next);
        let Some(end) = end else {
            let message = format!(
                "the next node should be one of the tree that starts at {next}, got 2^{level} \
                 values from {first} on"
            );
            return Err(Error::invalid("tree sum", message));
        };
        self.next = end;
        while let Some(left) = self.nodes.pop_if(|left| left.is_sibling_of(&node)) {
            let sum = add(left.sum, node.sum)?;
            node = TreeNode { first: left.first, level: left.level + 1, sum };
        }
        self.nodes.push(node);
        Ok(())
    }

    /// Returns the index of the next value.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns the sum as the largest nodes of the tree, by index: at most `2 * log2(n)` for `n`
    /// values.
    pub fn into_nodes(self) -> Vec<TreeNode<T>> {
        self.nodes
    }

    /// Returns the sum of all values, or `None` if there are none.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the first value does not have index 0; errors of `add`.
    pub fn finish(self, mut add: impl FnMut(T, T) -> Result<T>) -> Result<Option<T>> {
        if let Some(TreeNode { first: first @ 1.., .. }) = self.nodes.first() {
            let message = format!("the first value should have the number 0, got {first}");
            return Err(Error::invalid("tree sum", message));
        }
        // Read from index 0, each node is larger than all later ones together.
        let mut nodes = self.nodes.into_iter().rev().map(|node| node.sum);
        let Some(last) = nodes.next() else { return Ok(None) };
        nodes.try_fold(last, |after, before| add(before, after)).map(Some)
    }
}

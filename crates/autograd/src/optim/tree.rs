//! Sums over the micro-batches of a step, by a tree that does not know who computes which part.

use crate::{Error, Result};

/// Adds values in the order of a fixed binary tree over their numbers.
///
/// Anybody who holds a contiguous range of the numbers can add up the range alone, and the parts
/// join to the bits of one sum over all numbers. A left fold cannot do that: in
/// `((g0 + g1) + g2) + g3` nobody can add `g2 + g3` first.
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
/// `sum(a..b)` is value `a` if it is the only one, and otherwise `sum(a..a + h) + sum(a + h..b)`
/// with the largest power of two `h` below `b - a`. [`finish`](TreeSum::finish) returns `sum(0..n)`
/// for every way in which the numbers below `n` were dealt out. A shorter sum is a part of the
/// longer one: no number has to be known to be the last.
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
    /// The largest nodes of the tree that lie in the range, by their numbers.
    nodes: Vec<TreeNode<T>>,
    /// The number of the next value.
    next: u64,
}

/// The sum of `2^level` values whose first number is a multiple of `2^level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeNode<T> {
    /// The number of the first value.
    pub first: u64,
    /// The binary logarithm of the number of values.
    pub level: u32,
    /// The sum.
    pub sum: T,
}

impl<T> TreeNode<T> {
    /// Whether this node and `right`, which follows it, are the halves of a node.
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
    /// A sum of no value yet. The first value pushed has the number `first`.
    pub fn starting_at(first: u64) -> TreeSum<T> {
        TreeSum { nodes: Vec::new(), next: first }
    }

    /// Takes the next value. `add` adds two neighbours, the one of lower numbers first.
    ///
    /// # Errors
    ///
    /// Those of `add`, which has consumed the parts then: drop the sum.
    pub fn push(&mut self, value: T, add: impl FnMut(T, T) -> Result<T>) -> Result<()> {
        self.push_node(TreeNode { first: self.next, level: 0, sum: value }, add)
    }

    /// Takes a node of [`into_nodes`](TreeSum::into_nodes) of another sum.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the node does not start at the next number, or is none of the
    /// tree. Those of `add`, which has consumed the parts then: drop the sum.
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

    /// The number of the next value.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// What was added up, as the largest nodes of the tree, by their numbers: at most twice the
    /// binary logarithm of how many values there are.
    pub fn into_nodes(self) -> Vec<TreeNode<T>> {
        self.nodes
    }

    /// The sum of all values, or `None` if there are none.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the first value has another number than 0, and those of `add`.
    pub fn finish(self, mut add: impl FnMut(T, T) -> Result<T>) -> Result<Option<T>> {
        if let Some(TreeNode { first: first @ 1.., .. }) = self.nodes.first() {
            let message = format!("the first value should have the number 0, got {first}");
            return Err(Error::invalid("tree sum", message));
        }
        // From 0 on each node is larger than all that follow it together.
        let mut nodes = self.nodes.into_iter().rev().map(|node| node.sum);
        let Some(last) = nodes.next() else { return Ok(None) };
        nodes.try_fold(last, |after, before| add(before, after)).map(Some)
    }
}

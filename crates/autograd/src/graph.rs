//! The computation graph, and the backward walk from results to their inputs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use samebits_recorder::enter_module;
use samebits_tensor_core::Result;
use samebits_tensor_core::layout::PerDim;
use samebits_tensor_core::ops::{Binary, BinaryKind};

use crate::functional::{cat, expand};
use crate::run;
use crate::tensor::{Gradients, Tensor};

/// The node of a variable that requires a gradient.
pub(crate) struct Source {
    /// The node's id, larger than the ids of all nodes it was computed from.
    pub(crate) id: u64,
    /// The id of the first in the line of parameters that this one succeeds.
    pub(crate) line: u64,
    /// A number that differs for each value the parameter has had.
    pub(crate) version: u64,
    /// The operation that computed it; `None` for a parameter.
    pub(crate) step: Option<Step>,
    /// True if its gradient is wanted; false for a frozen parameter.
    pub(crate) wanted: bool,
}

impl Source {
    /// Returns the node of a result.
    pub(crate) fn computed(id: u64, step: Step) -> Source {
        Source { id, line: id, version: id, step: Some(step), wanted: true }
    }
}

pub(crate) struct Step {
    pub(crate) inputs: Vec<Option<Arc<Source>>>,
    /// The layer that the operation is part of, if it is recorded.
    pub(crate) module: Option<Arc<str>>,
    pub(crate) backward: Backward,
}

/// A function from the gradient of a result to the gradients of its inputs.
pub(crate) enum Backward {
    /// Returns each input's gradient, which is added to the gradient found so far.
    Each(Box<Each>),
    /// Returns the gradient of the only input, including the gradient found so far.
    Onto(Box<Onto>),
    /// Marks the result as a part of the only input, which has `shape`: from `start` on along
    /// `dim`.
    Part { dim: usize, start: usize, shape: PerDim },
    /// Computes the gradients of all inputs from those of several results, whose nodes have these
    /// ids; `None` for a result without a node.
    Joint { ids: Vec<Option<u64>>, backward: Box<Joint> },
    /// Computes several results again, with the graph recorded, and hands their gradients to the
    /// new nodes. `ids` as for `Joint`.
    Again { ids: Vec<Option<u64>>, compute: Box<Again> },
    /// Marks a result of the only input, which is a [`Backward::Joint`] or [`Backward::Again`].
    ResultOf { number: usize, results: usize },
}

/// A function from its own node and the gradients of the results that were reached to the
/// gradients of the inputs.
pub(crate) type Joint =
    dyn Fn(&Arc<Source>, Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>> + Send + Sync;
/// A function that computes results once more.
pub(crate) type Again = dyn Fn() -> Result<Vec<Tensor>> + Send + Sync;
type Each = dyn Fn(&Tensor) -> Result<Vec<Option<Tensor>>> + Send + Sync;
type Onto = dyn Fn(&Tensor, Option<Tensor>) -> Result<Tensor> + Send + Sync;

pub(crate) fn next_id() -> u64 {
    // Relaxed is enough: the ids of one thread ascend, and a variable made by another thread
    // reached this one through a synchronisation that orders the two.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Gradients found so far of variables not yet visited, by the variable's id.
pub(crate) type Pending = BTreeMap<u64, (Arc<Source>, Found)>;

/// The part of a gradient found so far.
pub(crate) enum Found {
    Whole(Tensor),
    /// Gradients of disjoint parts of a variable of this shape, keyed by their start along `dim`.
    Parts {
        dim: usize,
        shape: PerDim,
        parts: BTreeMap<usize, Tensor>,
    },
    /// Gradients of the results of a node with several, of those that were reached.
    Results(Vec<Option<Tensor>>),
}

impl Found {
    /// Returns the sum of the parts found, with zeros around each.
    fn whole(self) -> Result<Tensor> {
        match self {
            Found::Whole(grad) => Ok(grad),
            Found::Parts { dim, shape, parts } => joined(&parts, dim, &shape),
            Found::Results(_) => unreachable!("no tensor has a joint node as its own"),
        }
    }

    /// Adds the gradient of one more part.
    fn and_part(self, grad: Tensor, at: (usize, usize), shape: &PerDim) -> Result<Found> {
        let (along, start) = at;
        match self {
            Found::Parts { dim, shape, mut parts }
                if dim == along && fits(&parts, dim, start, &grad) =>
            {
                parts.insert(start, grad);
                Ok(Found::Parts { dim, shape, parts })
            }
            found => {
                let part = joined(&BTreeMap::from([(start, grad)]), along, shape)?;
                Ok(Found::Whole(add(&found.whole()?, &part)?))
            }
        }
    }
}

/// Returns whether a part from `start` on is not empty and overlaps none of `parts`.
fn fits(parts: &BTreeMap<usize, Tensor>, dim: usize, start: usize, part: &Tensor) -> bool {
    let end = start + part.shape()[dim];
    let before = parts.range(..end).next_back();
    end > start && before.is_none_or(|(&first, part)| first + part.shape()[dim] <= start)
}

/// Returns the sum of tensors of `shape` that are 0 except for one part each, keyed by its start
/// along `dim`. The parts do not overlap.
fn joined(parts: &BTreeMap<usize, Tensor>, dim: usize, shape: &[usize]) -> Result<Tensor> {
    let first = parts.values().next().expect("there is a part");
    let zero = Tensor::zeros(&[], first.dtype())?.to(first.device())?;
    let (mut pieces, mut end) = (Vec::new(), 0);
    let gap = |pieces: &mut Vec<Tensor>, size: usize| -> Result<()> {
        if size > 0 {
            let mut shape = shape.to_vec();
            shape[dim] = size;
            pieces.push(expand(&zero, &shape)?);
        }
        Ok(())
    };
    for (&start, part) in parts {
        gap(&mut pieces, start - end)?;
        pieces.push(part.clone());
        end = start + part.shape()[dim];
    }
    gap(&mut pieces, shape[dim] - end)?;
    let whole = cat(&pieces, dim)?;
    // The zeros that another part has in the place of a -0 make it +0.
    if parts.len() > 1 { add(&whole, &zero) } else { Ok(whole) }
}

/// Walks the graph in reverse order of creation and returns the gradients.
pub(crate) fn accumulate(mut pending: Pending) -> Result<Gradients> {
    let (mut found, mut leaves) = (BTreeMap::new(), BTreeMap::new());
    while let Some((id, (source, grad))) = pending.pop_last() {
        if source.step.is_none() {
            leaves.insert(id, source.line);
        }
        let layer = source.step.as_ref().and_then(|step| step.module.clone()).map(enter_module);
        if let Found::Results(grads) = grad {
            match &source.step {
                Some(Step { inputs, backward: Backward::Joint { backward, .. }, .. }) => {
                    let grads = backward(&source, grads)?;
                    drop(layer);
                    for (input, grad) in inputs.iter().zip(grads) {
                        let (Some(input), Some(grad)) = (input, grad) else { continue };
                        collect(&mut pending, input, grad)?;
                    }
                }
                // The new nodes have the largest ids: the walk visits them next, as it would have
                // visited the first ones.
                Some(Step { backward: Backward::Again { compute, .. }, .. }) => {
                    for (result, grad) in compute()?.iter().zip(grads) {
                        let (Some(source), Some(grad)) = (result.wanted(), grad) else { continue };
                        collect(&mut pending, source, grad)?;
                    }
                }
                _ => {}
            }
            continue;
        }
        let grad = grad.whole()?;
        if let Some(step) = &source.step {
            match &step.backward {
                Backward::Each(backward) => {
                    let grads = backward(&grad)?;
                    drop(layer);
                    for (input, grad) in step.inputs.iter().zip(grads) {
                        let (Some(input), Some(grad)) = (input, grad) else { continue };
                        collect(&mut pending, input, grad)?;
                    }
                }
                Backward::Onto(backward) => {
                    for input in step.inputs.iter().flatten() {
                        let found = pending.remove(&input.id).map(|(_, found)| found.whole());
                        let total = backward(&grad, found.transpose()?)?;
                        pending.insert(input.id, (input.clone(), Found::Whole(total)));
                    }
                }
                Backward::Part { dim, start, shape } => {
                    for input in step.inputs.iter().flatten() {
                        let total = match pending.remove(&input.id) {
                            Some((_, found)) => {
                                found.and_part(grad.clone(), (*dim, *start), shape)?
                            }
                            None => Found::Parts {
                                dim: *dim,
                                shape: shape.clone(),
                                parts: BTreeMap::from([(*start, grad.clone())]),
                            },
                        };
                        pending.insert(input.id, (input.clone(), total));
                    }
                }
                Backward::ResultOf { number, results } => {
                    for joint in step.inputs.iter().flatten() {
                        let none = || (joint.clone(), Found::Results(vec![None; *results]));
                        let (_, found) = pending.entry(joint.id).or_insert_with(none);
                        if let Found::Results(grads) = found {
                            grads[*number] = Some(grad.clone());
                        }
                    }
                }
                // Nodes with several results have `Found::Results`, which are handled above.
                Backward::Joint { .. } | Backward::Again { .. } => {}
            }
        }
        // Nobody can ask for the gradient of a variable that exists here only.
        if Arc::strong_count(&source) > 1 {
            found.insert(id, grad);
        }
    }
    Ok(Gradients { by_id: found, leaves })
}

/// Adds `grad` to the gradient found of `source` so far.
pub(crate) fn collect(pending: &mut Pending, source: &Arc<Source>, grad: Tensor) -> Result<()> {
    let total = match pending.remove(&source.id) {
        Some((_, sum)) => add(&sum.whole()?, &grad)?,
        None => grad,
    };
    pending.insert(source.id, (source.clone(), Found::Whole(total)));
    Ok(())
}

fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.requires_grad() || b.requires_grad() || a.dtype().is_half() {
        return crate::functional::add(a, b);
    }
    let sum = run(&Binary { kind: BinaryKind::Add, a: a.value().clone(), b: b.value().clone() })?;
    Ok(Tensor::from(sum))
}

impl Drop for Source {
    /// Dismantles long chains in a loop: one call per link would overflow the stack.
    fn drop(&mut self) {
        let mut chain: Vec<Arc<Source>> = Vec::new();
        let take = |source: &mut Source, chain: &mut Vec<Arc<Source>>| {
            if let Some(step) = source.step.take() {
                // The closure holds inputs, too, through the variables that it saved.
                let Step { inputs, backward, .. } = step;
                chain.extend(inputs.into_iter().flatten());
                drop(backward);
            }
        };
        take(self, &mut chain);
        while let Some(mut source) = chain.pop() {
            if let Some(source) = Arc::get_mut(&mut source) {
                take(source, &mut chain);
            }
        }
    }
}

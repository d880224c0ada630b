//! How variables were computed, and the walk back from results to what they depend on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use samebits_recorder::enter_module;
use samebits_tensor_core::Result;
use samebits_tensor_core::layout::PerDim;
use samebits_tensor_core::ops::{Binary, BinaryKind};

use crate::functional::joined;
use crate::run;
use crate::tensor::{Gradients, Tensor};

/// Where a variable that requires a gradient comes from.
pub(crate) struct Source {
    /// Larger than that of everything it was computed from.
    pub(crate) id: u64,
    /// The id of the first of the parameters that have succeeded one another up to this one.
    pub(crate) line: u64,
    /// Another number for each value that the parameter has had.
    pub(crate) version: u64,
    /// How it was computed; none for a parameter.
    pub(crate) step: Option<Step>,
    /// Whether its gradient is wanted: that of a frozen parameter is not.
    pub(crate) wanted: bool,
}

pub(crate) struct Step {
    pub(crate) inputs: Vec<Option<Arc<Source>>>,
    /// The layer that it is a part of, if that is recorded.
    pub(crate) module: Option<Arc<str>>,
    pub(crate) backward: Backward,
}

/// From the gradient of a result to those of its inputs.
pub(crate) enum Backward {
    /// Each is added to what was found of it before.
    Each(Box<Each>),
    /// That of the only input, with what was found of it before.
    Onto(Box<Onto>),
    /// That of a part of the only input, which has this shape, from `start` on along `dim`.
    Part { dim: usize, start: usize, shape: PerDim },
}

type Each = dyn Fn(&Tensor) -> Result<Vec<Option<Tensor>>> + Send + Sync;
type Onto = dyn Fn(&Tensor, Option<Tensor>) -> Result<Tensor> + Send + Sync;

pub(crate) fn next_id() -> u64 {
    // Relaxed is enough: one thread's ids ascend, and a variable made elsewhere reached this
    // thread by something that orders the two.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Gradients found so far of variables that are still to be visited, by the variable's id.
pub(crate) type Pending = BTreeMap<u64, (Arc<Source>, Found)>;

/// What was found of a gradient.
pub(crate) enum Found {
    Whole(Tensor),
    /// Gradients of parts that do not overlap, of a variable of this shape, by where they start along
    /// `dim`.
    Parts {
        dim: usize,
        shape: PerDim,
        parts: BTreeMap<usize, Tensor>,
    },
}

impl Found {
    /// The sum of what was found, zeros around each part.
    fn whole(self) -> Result<Tensor> {
        match self {
            Found::Whole(grad) => Ok(grad),
            Found::Parts { dim, shape, parts } => joined(&parts, dim, &shape),
        }
    }

    /// With the gradient of one more part.
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

/// Whether a part from `start` on overlaps none of `parts`, and is not empty.
fn fits(parts: &BTreeMap<usize, Tensor>, dim: usize, start: usize, part: &Tensor) -> bool {
    let end = start + part.shape()[dim];
    let before = parts.range(..end).next_back();
    end > start && before.is_none_or(|(&first, part)| first + part.shape()[dim] <= start)
}

/// Walks the graph in reverse order of creation.
pub(crate) fn accumulate(mut pending: Pending) -> Result<Gradients> {
    let (mut found, mut leaves) = (BTreeMap::new(), BTreeMap::new());
    while let Some((id, (source, grad))) = pending.pop_last() {
        if source.step.is_none() {
            leaves.insert(id, source.line);
        }
        let layer = source.step.as_ref().and_then(|step| step.module.clone()).map(enter_module);
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
            }
        }
        found.insert(id, grad);
    }
    Ok(Gradients { by_id: found, leaves })
}

/// Adds `grad` to what has been found of `source`.
pub(crate) fn collect(pending: &mut Pending, source: &Arc<Source>, grad: Tensor) -> Result<()> {
    let total = match pending.remove(&source.id) {
        Some((_, sum)) => add(&sum.whole()?, &grad)?,
        None => grad,
    };
    pending.insert(source.id, (source.clone(), Found::Whole(total)));
    Ok(())
}

fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.requires_grad() || b.requires_grad() {
        return crate::functional::add(a, b);
    }
    let sum = run(&Binary { kind: BinaryKind::Add, a: a.value().clone(), b: b.value().clone() })?;
    Ok(Tensor::from(sum))
}

impl Drop for Source {
    /// Takes long chains apart in a loop: one call per link would overflow the stack.
    fn drop(&mut self) {
        let mut chain: Vec<Arc<Source>> = Vec::new();
        let take = |source: &mut Source, chain: &mut Vec<Arc<Source>>| {
            if let Some(step) = source.step.take() {
                // The closure holds inputs too, by way of the variables that it saved.
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

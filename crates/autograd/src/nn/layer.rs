//! What ledgers learn of layers: their paths, and what goes in and comes out.

use std::any::type_name;
use std::sync::Arc;

use samebits_recorder::{Recorder, in_module, module, of_layers};
use samebits_tensor_core::{Error, Tensor as Value};

use super::{Module, join};
use crate::Tensor;
use crate::functional::PackedSequence;

/// What a layer takes and returns: tensors, alone or together.
pub trait Tensors {
    /// Adds every tensor to `found`, in order.
    fn collect<'a>(&'a self, found: &mut Vec<&'a Value>);
}

impl Tensors for Tensor {
    fn collect<'a>(&'a self, found: &mut Vec<&'a Value>) {
        found.push(self.value());
    }
}

impl Tensors for PackedSequence {
    fn collect<'a>(&'a self, found: &mut Vec<&'a Value>) {
        self.data().collect(found);
    }
}

impl<T: Tensors + ?Sized> Tensors for &T {
    fn collect<'a>(&'a self, found: &mut Vec<&'a Value>) {
        (**self).collect(found);
    }
}

impl<T: Tensors> Tensors for [T] {
    fn collect<'a>(&'a self, found: &mut Vec<&'a Value>) {
        self.iter().for_each(|part| part.collect(found));
    }
}

impl<T: Tensors> Tensors for Vec<T> {
    fn collect<'a>(&'a self, found: &mut Vec<&'a Value>) {
        self.as_slice().collect(found);
    }
}

impl<T: Tensors> Tensors for Option<T> {
    fn collect<'a>(&'a self, found: &mut Vec<&'a Value>) {
        self.iter().for_each(|part| part.collect(found));
    }
}

impl<A: Tensors, B: Tensors> Tensors for (A, B) {
    fn collect<'a>(&'a self, found: &mut Vec<&'a Value>) {
        self.0.collect(found);
        self.1.collect(found);
    }
}

impl<A: Tensors, B: Tensors, C: Tensors> Tensors for (A, B, C) {
    fn collect<'a>(&'a self, found: &mut Vec<&'a Value>) {
        self.0.collect(found);
        self.1.collect(found);
        self.2.collect(found);
    }
}

/// Runs `compute` as the forward pass of `layer`, and records it if somebody listens. This is what
/// `#[layer]` puts around a method.
///
/// # Errors
///
/// What `compute` returns; that the record cannot be written.
pub fn computed_layer<'a, M, T, E>(
    layer: &M,
    inputs: impl FnOnce(&mut Vec<&'a Value>),
    compute: impl FnOnce() -> Result<T, E>,
) -> Result<T, E>
where
    M: Module + ?Sized,
    T: Tensors,
    E: From<Error>,
{
    let Some(recorder) = of_layers() else { return compute() };
    let path = path_of(layer, &recorder).or_else(module).unwrap_or_default();
    let output = in_module(Some(path.clone()), compute)?;
    let (mut taken, mut returned) = (Vec::new(), Vec::new());
    inputs(&mut taken);
    output.collect(&mut returned);
    let op = short_name::<M>();
    recorder
        .layer(op, path, &taken, &returned)
        .map_err(|error| Error::Observer { op, message: error.to_string() })?;
    Ok(output)
}

/// Runs `f` as a part of the layer `name` of the module that this thread computes, if somebody
/// listens.
pub(crate) fn in_child<R>(name: &str, f: impl FnOnce() -> R) -> R {
    if of_layers().is_none() {
        return f();
    }
    let path = join(module().as_deref().unwrap_or_default(), name);
    in_module(Some(path.into()), f)
}

/// Where the watched model holds the layer: the name of its first tensor there, without the name
/// that the tensor has in the layer itself.
fn path_of(layer: &(impl Module + ?Sized), recorder: &Recorder) -> Option<Arc<str>> {
    let mut found = None;
    layer.visit("", &mut |name, _, tensor| {
        if found.is_none() {
            let whole = recorder.name_of(tensor.value());
            let path = whole.as_deref().and_then(|whole| whole.strip_suffix(name));
            found = path.map(|path| path.strip_suffix('.').unwrap_or(path).into());
        }
    });
    found
}

/// The name of a type without its path and parameters.
fn short_name<T: ?Sized>() -> &'static str {
    let name = type_name::<T>();
    let name = name.split_once('<').map_or(name, |(name, _)| name);
    name.rsplit_once("::").map_or(name, |(_, name)| name)
}

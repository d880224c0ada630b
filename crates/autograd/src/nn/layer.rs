//! Layers as ledgers record them: paths, inputs and outputs.

use std::any::type_name;
use std::sync::Arc;

use samebits_recorder::{Entered, Recorder, enter_module, module, of_layers};
use samebits_tensor_core::{Error, Tensor as Value};

use super::{Kind, Module, join};
use crate::Tensor;
use crate::functional::PackedSequence;

/// The inputs or outputs of a layer: one or several tensors.
pub trait Tensors {
    /// Appends every tensor to `found`, in order.
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

/// Runs `compute` as the forward pass of `layer` and records it if a recorder is active. `#[layer]`
/// wraps a method in this call.
///
/// # Errors
///
/// Errors of `compute`, or of writing the record.
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
    let recording =
        of_layers().map(|recorder| Recording::begin(recorder, &|visit| layer.visit("", visit)));
    let output = compute()?;
    if let Some(recording) = recording {
        let (mut taken, mut returned) = (Vec::new(), Vec::new());
        inputs(&mut taken);
        output.collect(&mut returned);
        recording.end(type_name::<M>(), &taken, &returned)?;
    }
    Ok(output)
}

/// A layer whose forward pass is running and will be recorded.
struct Recording {
    recorder: Arc<Recorder>,
    path: Arc<str>,
    inside: Entered,
}

impl Recording {
    fn begin(recorder: Arc<Recorder>, layer: Visit<'_>) -> Recording {
        let path = path_of(layer, &recorder).or_else(module).unwrap_or_default();
        Recording { recorder, inside: enter_module(path.clone()), path }
    }

    fn end(self, layer: &'static str, taken: &[&Value], returned: &[&Value]) -> Result<(), Error> {
        let Recording { recorder, path, inside } = self;
        drop(inside);
        let op = short_name(layer);
        recorder
            .layer(op, path, taken, returned)
            .map_err(|error| Error::Observer { op, message: error.to_string() })
    }
}

/// A layer's [`Module::visit`], without its path.
type Visit<'a> = &'a dyn Fn(&mut dyn FnMut(&str, Kind, &Tensor));

/// Enters child `name` of the module that this thread computes, until the returned guard is
/// dropped. Returns `None` if no recorder is active.
pub(crate) fn enter_child(name: &str) -> Option<Entered> {
    of_layers().map(|_| {
        let path = join(module().as_deref().unwrap_or_default(), name);
        enter_module(path.into())
    })
}

/// Returns the path of the layer in the watched model: the name of the layer's first known tensor
/// there, less the tensor's name in the layer itself.
fn path_of(layer: Visit<'_>, recorder: &Recorder) -> Option<Arc<str>> {
    let mut found = None;
    layer(&mut |name, _, tensor| {
        if found.is_none() {
            let whole = recorder.name_of(tensor.value());
            let path = whole.as_deref().and_then(|whole| whole.strip_suffix(name));
            found = path.map(|path| path.strip_suffix('.').unwrap_or(path).into());
        }
    });
    found
}

/// Returns the name of a type without its path and generic parameters.
fn short_name(name: &'static str) -> &'static str {
    let name = name.split_once('<').map_or(name, |(name, _)| name);
    name.rsplit_once("::").map_or(name, |(_, name)| name)
}

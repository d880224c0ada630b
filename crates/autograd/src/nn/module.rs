//! Modules: named collections of tensors.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

use indexmap::IndexMap;
use samebits_rng::Generator;
use samebits_tensor_core::ops::{BagMode, ConvParams, InterpolateMode, PadMode, PoolParams};
use samebits_tensor_core::rerun::same_bits;
use samebits_tensor_core::{DType, Device, Error, Result};

use super::{Kind, Summary};
use crate::{Tensor, functional};

/// A part of a model: tensors with names.
///
/// `#[derive(Module)]` visits every field of a struct, so no parameter is forgotten. A [`Tensor`]
/// field is a parameter, or a buffer if marked `#[module(buffer)]`. A field that is itself a module
/// prefixes its name to those of its tensors. `Option`, `Box`, `Vec`, arrays and tuples of modules
/// are modules; numbers, `bool` and `String` are modules without tensors. Mark a field of any other
/// type `#[module(skip)]`.
///
/// A module computes in an inherent method, usually `forward(&self, ..)`, with any inputs and
/// results. Implement [`Layer`](super::Layer) for a module that maps one tensor to one tensor, so
/// that it can be part of a [`Sequential`](super::Sequential).
///
/// # Examples
///
/// ```standalone_crate
/// # extern crate samebits_autograd as samebits;
/// use samebits::nn::{Embedding, Layer, Linear, Module};
/// use samebits::{Result, Tensor};
///
/// #[derive(Module)]
/// struct Tagger {
///     embedding: Embedding,
///     heads: Vec<Linear>,
/// }
///
/// impl Tagger {
///     fn forward(&self, ids: &Tensor) -> Result<Vec<Tensor>> {
///         let x = self.embedding.forward(ids)?;
///         self.heads.iter().map(|head| head.forward(&x)).collect()
///     }
/// }
///
/// samebits_tensor_core::random::manual_seed(0);
/// let heads = vec![Linear::new(8, 2)?, Linear::new(8, 5)?];
/// let model = Tagger { embedding: Embedding::new(100, 8)?, heads };
/// let names: Vec<String> = model.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names[..3], ["embedding.weight", "heads.0.weight", "heads.0.bias"]);
/// let ids = Tensor::from_slice(&[3i64, 1, 4], &[3])?;
/// assert_eq!(model.forward(&ids)?[1].shape(), [3, 5]);
/// # Ok::<(), samebits::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a `Module`",
    label = "holds no tensors that are known",
    note = "derive `Module` for the type, or mark the field `#[module(skip)]` if it holds no tensors"
)]
pub trait Module {
    /// Calls `visit` for every tensor in a fixed order, with `path` prefixed to its name.
    fn visit(&self, path: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor));

    /// Calls `visit` as [`visit`](Module::visit) does, with tensors that can be replaced.
    fn visit_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor));

    /// Returns the parameters and their names in visiting order, including those that do not
    /// require a gradient. A parameter shared by several layers appears once, under the name
    /// visited first.
    fn named_parameters(&self) -> Vec<(String, Tensor)> {
        let mut shared = BTreeSet::new();
        let mut found = Vec::new();
        self.visit("", &mut |name, kind, tensor| {
            let first = tensor.identity().is_none_or(|identity| shared.insert(identity));
            if kind == Kind::Parameter && first {
                found.push((name.to_owned(), tensor.clone()));
            }
        });
        found
    }

    /// Returns the parameters in visiting order, each once.
    fn parameters(&self) -> Vec<Tensor> {
        self.named_parameters().into_iter().map(|(_, tensor)| tensor).collect()
    }

    /// Returns the number of elements of all [`parameters`](Module::parameters).
    fn num_parameters(&self) -> usize {
        self.parameters().iter().map(Tensor::numel).sum()
    }

    /// Returns every parameter and buffer with its name, in visiting order, detached from the
    /// graph. A shared parameter appears under each of its names.
    fn state_dict(&self) -> Vec<(String, Tensor)> {
        let mut found = Vec::new();
        self.visit("", &mut |name, _, tensor| found.push((name.to_owned(), tensor.detach())));
        found
    }

    /// Loads the tensors of `state`, as returned by [`state_dict`], by name. Each is moved to the
    /// device of the tensor that it replaces, and one in half precision is widened exactly if it
    /// replaces one of f32 or f64. Shared parameters stay shared and need only one of their names in
    /// `state`. On error, nothing is replaced.
    ///
    /// Returns the names that do not match; there are none after a `strict` call.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidState`] if a tensor has another shape or type, unless it is widened, or the
    /// tensors of a shared parameter differ; if `strict`, also if a name is missing or unexpected.
    ///
    /// [`state_dict`]: Module::state_dict
    fn load_state_dict(
        &mut self,
        state: &[(String, Tensor)],
        strict: bool,
    ) -> Result<IncompatibleKeys> {
        let op = "load_state_dict";
        let state: IndexMap<&str, &Tensor> =
            state.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let keys = incompatible(self, &state);
        if strict && keys != IncompatibleKeys::default() {
            let message = format!(
                "missing {:?}, unexpected {:?}: load without `strict` to skip them",
                keys.missing, keys.unexpected
            );
            return Err(Error::InvalidState { op, message });
        }
        replace(op, self, &|name, old| {
            let Some(&new) = state.get(name) else { return Ok(None) };
            let widens = new.dtype().is_half() && old.dtype().is_full_float();
            let new = if widens { &functional::to_dtype(new, old.dtype())? } else { new };
            if new.shape() != old.shape() || new.dtype() != old.dtype() {
                let message = format!(
                    "{name} should be {} of shape {:?}, but is {} of shape {:?}",
                    old.dtype(),
                    old.shape(),
                    new.dtype(),
                    new.shape()
                );
                return Err(Error::InvalidState { op, message });
            }
            Ok(Some(old.succeeded_by(new.value().to(old.device())?)))
        })?;
        Ok(keys)
    }

    /// Moves every parameter and buffer to `device`. Shared parameters stay shared.
    ///
    /// # Errors
    ///
    /// [`Error::NoBackend`] if the device cannot be used, [`Error::Backend`] if it fails; the
    /// module is unchanged then.
    #[doc(alias = "cuda")]
    #[doc(alias = "cpu")]
    fn to(&mut self, device: Device) -> Result<()> {
        replace("to", self, &|_, old| Ok(Some(old.succeeded_by(old.detach().to(device)?.into()))))
    }

    /// Converts every parameter and buffer of a float type to `dtype`, as
    /// [`functional::to_dtype`](crate::functional::to_dtype) does. Integers, such as batch counts,
    /// keep their type. Shared parameters stay shared.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] if `dtype` is not a float, [`Error::OutOfMemory`] if memory runs
    /// out; the module is unchanged then.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate samebits_autograd as samebits;
    /// # samebits_tensor_core::random::manual_seed(0);
    /// use samebits::DType;
    /// use samebits::nn::{Linear, Module};
    ///
    /// let mut linear = Linear::new(4, 2)?;
    /// linear.to_dtype(DType::F64)?;
    /// assert_eq!(linear.weight.dtype(), DType::F64);
    /// # Ok::<(), samebits::Error>(())
    /// ```
    ///
    /// # References
    ///
    /// `torch.nn.Module.to` with a `dtype`.
    #[doc(alias = "float")]
    #[doc(alias = "double")]
    #[doc(alias = "half")]
    fn to_dtype(&mut self, dtype: DType) -> Result<()> {
        let op = "to_dtype";
        if !dtype.is_float() {
            let (what, expected, got) = ("the new type", DType::F32, dtype);
            return Err(Error::DTypeMismatch { op, what, expected, got });
        }
        replace(op, self, &|_, old| {
            if !old.dtype().is_float() {
                return Ok(None);
            }
            Ok(Some(old.succeeded_by(functional::to_dtype(&old.detach(), dtype)?.into())))
        })
    }

    /// Freezes (`false`) or unfreezes (`true`) every parameter. Optimisers skip parameters that
    /// require no gradient but keep their names in the state. Shared parameters stay shared. If you
    /// freeze only one of several layers that share a parameter, the optimiser's next step returns
    /// an error.
    ///
    /// # Errors
    ///
    /// [`Error::DTypeMismatch`] if `requires_grad` is true and a parameter is not a float; the
    /// module is unchanged then.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate samebits_autograd as samebits;
    /// # samebits_tensor_core::random::manual_seed(0);
    /// use samebits::nn::{Linear, Module};
    ///
    /// let mut head = Linear::new(4, 2)?;
    /// head.requires_grad_(false)?;
    /// assert!(head.parameters().iter().all(|parameter| !parameter.requires_grad()));
    /// assert_eq!(head.named_parameters()[1].0, "bias");
    /// # Ok::<(), samebits::Error>(())
    /// ```
    fn requires_grad_(&mut self, requires_grad: bool) -> Result<()> {
        for parameter in self.parameters() {
            parameter.set_requires_grad(requires_grad)?;
        }
        self.visit_mut("", &mut |_, kind, tensor| {
            if kind == Kind::Parameter && tensor.requires_grad() != requires_grad {
                *tensor = tensor.clone().leaf(requires_grad);
            }
        });
        Ok(())
    }

    /// Returns a printable table of all tensors.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate samebits_autograd as samebits;
    /// # samebits_tensor_core::random::manual_seed(0);
    /// use samebits::nn::{Linear, Module};
    ///
    /// let expected = "\
    /// name    shape   type  elements
    /// weight  [2, 4]  f32          8
    /// bias    [2]     f32          2
    /// 10 parameters, 10 of them trained; 0 elements of buffers
    /// ";
    /// assert_eq!(Linear::new(4, 2)?.summary().to_string(), expected);
    /// # Ok::<(), samebits::Error>(())
    /// ```
    fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        self.visit("", &mut |name, kind, tensor| summary.push(name, kind, tensor));
        summary
    }
}

/// Creates a parameter with the value of `x`, for a layer of your own: a new leaf that requires a
/// gradient.
///
/// # Errors
///
/// The type is not a float.
///
/// # Examples
///
/// ```standalone_crate
/// # extern crate samebits_autograd as samebits;
/// use samebits::nn::{self, Module};
/// use samebits::{DType, Tensor};
///
/// #[derive(Module)]
/// struct Scale {
///     factor: Tensor,
/// }
///
/// let layer = Scale { factor: nn::parameter(&Tensor::ones(&[4], DType::F32)?)? };
/// assert!(layer.parameters()[0].requires_grad());
/// # Ok::<(), samebits::Error>(())
/// ```
///
/// # References
///
/// `torch.nn.Parameter`.
#[doc(alias = "Parameter")]
pub fn parameter(x: &Tensor) -> Result<Tensor> {
    x.detach().set_requires_grad(true).map_err(|error| error.called("parameter"))
}

/// A list of layers named by their indices, as in `torch.nn.ModuleList`.
#[doc(alias = "ParameterList")]
pub type ModuleList<M> = Vec<M>;

/// A map of layers by name, in insertion order, as in `torch.nn.ModuleDict`. A map of tensors is a
/// `torch.nn.ParameterDict`. A model that iterates over it computes in that order.
///
/// # Examples
///
/// ```
/// # extern crate samebits_autograd as samebits;
/// # samebits_tensor_core::random::manual_seed(0);
/// use samebits::nn::{Linear, Module, ModuleDict};
///
/// let mut layers = ModuleDict::new();
/// for i in [2, 10] {
///     layers.insert(format!("layer_{i}"), Linear::new(4, 4)?);
/// }
/// assert_eq!(layers.named_parameters()[0].0, "layer_2.weight");
/// # Ok::<(), samebits::Error>(())
/// ```
#[doc(alias = "ParameterDict")]
pub type ModuleDict<M> = IndexMap<String, M>;

/// Names that [`Module::load_state_dict`] could not match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncompatibleKeys {
    /// Names in the module that `state` lacks, in visiting order. PyTorch's `missing_keys`.
    pub missing: Vec<String>,
    /// Names in `state` that the module lacks, in the order of `state`. PyTorch's
    /// `unexpected_keys`.
    pub unexpected: Vec<String>,
}

/// Joins `path` and `name` with a dot; an empty part adds none.
pub fn join(path: &str, name: &str) -> String {
    match (path, name) {
        ("", _) => name.to_owned(),
        (_, "") => path.to_owned(),
        _ => format!("{path}.{name}"),
    }
}

fn incompatible<M: Module + ?Sized>(
    module: &M,
    state: &IndexMap<&str, &Tensor>,
) -> IncompatibleKeys {
    let mut expected = BTreeSet::new();
    let mut given = BTreeSet::new();
    let mut missing = Vec::new();
    module.visit("", &mut |name, _, tensor| {
        expected.insert(name.to_owned());
        if state.contains_key(name) {
            given.extend(tensor.identity());
        } else {
            missing.push((name.to_owned(), tensor.identity()));
        }
    });
    // One name of a shared parameter is enough.
    missing.retain(|(_, identity)| identity.is_none_or(|identity| !given.contains(&identity)));
    IncompatibleKeys {
        missing: missing.into_iter().map(|(name, _)| name).collect(),
        unexpected: state
            .keys()
            .filter(|&&name| !expected.contains(name))
            .map(|&name| name.to_owned())
            .collect(),
    }
}

/// Rejects a shared parameter whose holders disagree. A layer that was frozen alone, or whose value
/// was replaced, cannot update the other holders.
pub(crate) fn expect_alike(op: &'static str, module: &dyn Module) -> Result<()> {
    let mut shared: BTreeMap<u64, (String, Tensor)> = BTreeMap::new();
    let mut result = Ok(());
    module.visit("", &mut |name, kind, tensor| {
        let (Some(identity), Kind::Parameter) = (tensor.identity(), kind) else { return };
        let (first, kept) =
            shared.entry(identity).or_insert_with(|| (name.to_owned(), tensor.clone()));
        let difference = if kept.requires_grad() != tensor.requires_grad() {
            "only one of them is frozen: freeze or thaw both"
        } else if !kept.has_value_of(tensor) {
            "one of them was replaced, by an initialiser or a `max_norm` for example: give the other \
             a clone"
        } else {
            return;
        };
        if result.is_ok() {
            let message = format!("{first} and {name} are one parameter, but {difference}");
            result = Err(Error::invalid(op, message));
        }
    });
    result
}

/// Replaces each tensor with the result of `find`, and a shared tensor under all its names. On
/// error, nothing is replaced.
fn replace<M: Module + ?Sized>(
    op: &'static str,
    module: &mut M,
    find: &dyn Fn(&str, &Tensor) -> Result<Option<Tensor>>,
) -> Result<()> {
    let mut shared: BTreeMap<u64, (String, Tensor)> = BTreeMap::new();
    let mut single = BTreeMap::new();
    let mut take = |name: &str, old: &Tensor| -> Result<()> {
        let Some(new) = find(name, old)? else { return Ok(()) };
        let Some(identity) = old.identity() else {
            single.insert(name.to_owned(), new);
            return Ok(());
        };
        let (first, kept) =
            shared.entry(identity).or_insert_with(|| (name.to_owned(), new.clone()));
        if first != name && !same_bits(kept.value(), new.value())? {
            let message = format!("{first} and {name} are one parameter, but their tensors differ");
            return Err(Error::InvalidState { op, message });
        }
        Ok(())
    };
    let mut result = Ok(());
    module.visit("", &mut |name, _, old| {
        if result.is_ok() {
            result = take(name, old);
        }
    });
    result?;
    module.visit_mut("", &mut |name, _, tensor| {
        let new = match tensor.identity() {
            Some(identity) => shared.get(&identity).map(|(_, new)| new),
            None => single.get(name),
        };
        if let Some(new) = new {
            *tensor = new.clone();
        }
    });
    Ok(())
}

impl Module for Tensor {
    fn visit(&self, path: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor)) {
        visit(path, Kind::Parameter, self);
    }

    fn visit_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor)) {
        visit(path, Kind::Parameter, self);
    }
}

impl<M: Module + ?Sized> Module for Box<M> {
    fn visit(&self, path: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor)) {
        (**self).visit(path, visit);
    }

    fn visit_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor)) {
        (**self).visit_mut(path, visit);
    }
}

impl<M: Module> Module for Option<M> {
    fn visit(&self, path: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor)) {
        if let Some(module) = self {
            module.visit(path, visit);
        }
    }

    fn visit_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor)) {
        if let Some(module) = self {
            module.visit_mut(path, visit);
        }
    }
}

/// Names elements by index.
impl<M: Module> Module for [M] {
    fn visit(&self, path: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor)) {
        for (i, module) in self.iter().enumerate() {
            module.visit(&join(path, &i.to_string()), visit);
        }
    }

    fn visit_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor)) {
        for (i, module) in self.iter_mut().enumerate() {
            module.visit_mut(&join(path, &i.to_string()), visit);
        }
    }
}

/// Names elements by index.
impl<M: Module, const N: usize> Module for [M; N] {
    fn visit(&self, path: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor)) {
        self.as_slice().visit(path, visit);
    }

    fn visit_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor)) {
        self.as_mut_slice().visit_mut(path, visit);
    }
}

/// Names elements by index, as in `torch.nn.ModuleList`.
impl<M: Module> Module for Vec<M> {
    fn visit(&self, path: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor)) {
        self.as_slice().visit(path, visit);
    }

    fn visit_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor)) {
        self.as_mut_slice().visit_mut(path, visit);
    }
}

macro_rules! maps {
    ($($(#[$doc:meta])* $map:ident)*) => { $(
        $(#[$doc])*
        impl<M: Module> Module for $map<String, M> {
            fn visit(&self, path: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor)) {
                for (name, module) in self {
                    module.visit(&join(path, name), visit);
                }
            }

            fn visit_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor)) {
                for (name, module) in self {
                    module.visit_mut(&join(path, name), visit);
                }
            }
        }
    )* };
}

maps! {
    /// Names elements by key, in insertion order, as in `torch.nn.ModuleDict`.
    IndexMap
    /// Names elements by key, in key order: `layer_10` comes before `layer_2`.
    BTreeMap
}

macro_rules! tuples {
    ($(($($module:ident $number:tt),+))*) => { $(
        /// Names elements by index.
        impl<$($module: Module),+> Module for ($($module,)+) {
            fn visit(&self, path: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor)) {
                $(self.$number.visit(&join(path, stringify!($number)), visit);)+
            }

            fn visit_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor)) {
                $(self.$number.visit_mut(&join(path, stringify!($number)), visit);)+
            }
        }
    )* };
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

/// Holds no tensors.
impl<T: ?Sized> Module for PhantomData<T> {
    fn visit(&self, _: &str, _: &mut dyn FnMut(&str, Kind, &Tensor)) {}

    fn visit_mut(&mut self, _: &str, _: &mut dyn FnMut(&str, Kind, &mut Tensor)) {}
}

macro_rules! plain_values {
    ($($ty:ty)*) => { $(
        /// Holds no tensors.
        impl Module for $ty {
            fn visit(&self, _: &str, _: &mut dyn FnMut(&str, Kind, &Tensor)) {}

            fn visit_mut(&mut self, _: &str, _: &mut dyn FnMut(&str, Kind, &mut Tensor)) {}
        }
    )* };
}

plain_values! {
    () bool char String &'static str
    i8 i16 i32 i64 i128 isize
    u8 u16 u32 u64 u128 usize
    f32 f64
    BagMode ConvParams DType Device Generator InterpolateMode PadMode PoolParams
}

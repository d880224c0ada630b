//! Several optimisers in one run.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;

use indexmap::IndexMap;

use super::{Optimizer, Rate};
use crate::nn::{Module, join};
use crate::{Error, Gradients, Result, Tensor};

/// The optimisers of a run: one, or several in a tuple, an array, a `Vec` or a map. Their indices
/// or keys are their paths, as for modules; a single optimiser has an empty path.
///
/// # Examples
///
/// ```
/// use samebits_autograd::optim::{Adam, Optimizers, Sgd};
///
/// let optimizers = (Adam::new(1e-3)?, [Sgd::new(0.1)?, Sgd::new(0.2)?]);
/// let mut rates = Vec::new();
/// optimizers.each("", &mut |path, optimizer| rates.push((path.to_owned(), optimizer.lr())));
/// assert_eq!(rates, [("0".to_owned(), 1e-3), ("1.0".to_owned(), 0.1), ("1.1".to_owned(), 0.2)]);
/// # Ok::<(), samebits_autograd::Error>(())
/// ```
pub trait Optimizers {
    /// Calls `visit` for each optimiser in a fixed order, with its path prefixed by `path`.
    fn each(&self, path: &str, visit: &mut dyn FnMut(&str, &dyn Optimizer));

    /// Calls `visit` as [`each`](Optimizers::each) does, with optimisers that can be modified.
    fn each_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, &mut dyn Optimizer));
}

impl<O: Optimizer> Optimizers for O {
    fn each(&self, path: &str, visit: &mut dyn FnMut(&str, &dyn Optimizer)) {
        visit(path, self);
    }

    fn each_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, &mut dyn Optimizer)) {
        visit(path, self);
    }
}

macro_rules! lists {
    ($($list:ty where $($length:ident)?;)*) => { $(
        impl<O: Optimizers, $(const $length: usize)?> Optimizers for $list {
            fn each(&self, path: &str, visit: &mut dyn FnMut(&str, &dyn Optimizer)) {
                for (number, optimizers) in self.iter().enumerate() {
                    optimizers.each(&join(path, &number.to_string()), visit);
                }
            }

            fn each_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, &mut dyn Optimizer)) {
                for (number, optimizers) in self.iter_mut().enumerate() {
                    optimizers.each_mut(&join(path, &number.to_string()), visit);
                }
            }
        }
    )* };
}

lists! { Vec<O> where; [O; N] where N; }

macro_rules! maps {
    ($($map:ty)*) => { $(
        impl<O: Optimizers> Optimizers for $map {
            fn each(&self, path: &str, visit: &mut dyn FnMut(&str, &dyn Optimizer)) {
                for (name, optimizers) in self {
                    optimizers.each(&join(path, name), visit);
                }
            }

            fn each_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, &mut dyn Optimizer)) {
                for (name, optimizers) in self {
                    optimizers.each_mut(&join(path, name), visit);
                }
            }
        }
    )* };
}

maps! { BTreeMap<String, O> IndexMap<String, O> }

macro_rules! tuples {
    ($(($($optimizers:ident $number:tt),+))*) => { $(
        impl<$($optimizers: Optimizers),+> Optimizers for ($($optimizers,)+) {
            fn each(&self, path: &str, visit: &mut dyn FnMut(&str, &dyn Optimizer)) {
                $(self.$number.each(&join(path, stringify!($number)), visit);)+
            }

            fn each_mut(&mut self, path: &str, visit: &mut dyn FnMut(&str, &mut dyn Optimizer)) {
                $(self.$number.each_mut(&join(path, stringify!($number)), visit);)+
            }
        }
    )* };
}

tuples! {
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
}

/// The saved state of an optimiser, for [`Optimizer::restore`].
pub struct Snapshot(Box<dyn Any + Send>);

impl Snapshot {
    /// Creates a snapshot of `content`.
    pub fn new(content: impl Any + Send) -> Snapshot {
        Snapshot(Box::new(content))
    }

    /// Returns the content if it has type `T`.
    pub fn content<T: Any>(self) -> Option<T> {
        self.0.downcast().ok().map(|content| *content)
    }

    /// Returns the error for a snapshot of another kind of optimiser.
    pub(super) fn foreign(op: &'static str) -> Error {
        let message = "the snapshot is of another kind of optimiser".to_owned();
        Error::InvalidState { op, message }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshot")
    }
}

macro_rules! forwarded {
    ($($pointer:ty)*) => { $(
        impl<O: Optimizer + ?Sized> Optimizer for $pointer {
            fn step(&mut self, model: &mut dyn Module, gradients: &Gradients) -> Result<()> {
                (**self).step(model, gradients)
            }

            fn steps(&self) -> u64 {
                (**self).steps()
            }

            fn rates(&self) -> &[Rate] {
                (**self).rates()
            }

            fn rates_mut(&mut self) -> &mut [Rate] {
                (**self).rates_mut()
            }

            fn state(&self) -> Result<Vec<(String, Tensor)>> {
                (**self).state()
            }

            fn load_state(&mut self, state: Vec<(String, Tensor)>) -> Result<()> {
                (**self).load_state(state)
            }

            fn snapshot(&self) -> Result<Snapshot> {
                (**self).snapshot()
            }

            fn restore(&mut self, snapshot: Snapshot) -> Result<()> {
                (**self).restore(snapshot)
            }
        }
    )* };
}

forwarded! { Box<O> &mut O }

//! `#[derive(Module)]` and `#[layer]`; see the trait `Module` in `samebits::nn`, which re-exports
//! them. Also `#[named]`, for functions of the library itself.
//!
//! Unsafe code: none.

#![forbid(unsafe_code)]

mod layer;
mod module;
mod named;

use proc_macro::TokenStream;
use syn::{DeriveInput, Error, ImplItemFn, ItemFn, Path, parse_macro_input, parse_quote};

/// Implements `samebits::nn::Module` by visiting every field in the order of declaration.
///
/// A field's name in the state is the path of its owner, a dot, and its own name; fields of tuples
/// are numbered. A single unnamed field, as in `struct Block(Linear)` or a variant
/// `Norm::Batch(BatchNorm2d)`, uses its owner's path alone. An `enum` visits the fields of its
/// current variant.
///
/// | attribute | on | meaning |
/// |---|---|---|
/// | `#[module(buffer)]` | a field | its tensors are kept in the state, but not trained |
/// | `#[module(flatten)]` | a field | its tensors have names as if they were fields of this type |
/// | `#[module(skip)]` | a field | it holds no tensors; its type need not be a `Module` |
/// | `#[module(crate = path)]` | the type | the path of `nn::Module`, if not in a dependency named `samebits` |
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    module::expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Marks the method that computes a module. Ledgers record the method as a layer, and its
/// operations as parts of the module.
///
/// The method takes `&self` and returns a `Result` of tensors with an error type that converts from
/// `samebits::Error`. The layer's inputs are the arguments whose type names `Tensor`, alone or in
/// references, options, slices, vectors and tuples. `#[layer(path)]` gives the path of `nn`, if not
/// in a dependency named `samebits`.
///
/// # Examples
///
/// ```ignore
/// #[derive(Module)]
/// struct Block {
///     inner: Linear,
/// }
///
/// impl Block {
///     #[layer]
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         x + &relu(&self.inner.forward(x)?)?
///     }
/// }
/// ```
#[proc_macro_attribute]
pub fn layer(krate: TokenStream, function: TokenStream) -> TokenStream {
    let krate: Path =
        if krate.is_empty() { parse_quote!(::samebits) } else { parse_macro_input!(krate as Path) };
    let function = parse_macro_input!(function as ImplItemFn);
    layer::expand(&krate, function).unwrap_or_else(Error::into_compile_error).into()
}

/// Renames the errors of a function after it, whichever inner operation found the fault: a caller
/// of `one_hot` reads `one_hot: ..`, not the name of the scatter inside.
///
/// It also converts tensors of half precision around the function, by the rules of the crate's
/// module `half`.
///
/// The function must return a `Result` whose error has a method `called`, as the error of
/// `samebits_tensor_core` does.
#[proc_macro_attribute]
pub fn named(_: TokenStream, function: TokenStream) -> TokenStream {
    let function = parse_macro_input!(function as ItemFn);
    named::expand(function).unwrap_or_else(Error::into_compile_error).into()
}

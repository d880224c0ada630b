//! `#[derive(Module)]` and `#[layer]`; see the trait `Module` in `samebits::nn`, which re-exports
//! them. And `#[named]`, for functions of the library itself.
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
/// A field's name in the state is its own name behind the path of its owner, joined by a dot; the
/// fields of tuples have their numbers. A single unnamed field, as of `struct Block(Linear)` or of
/// a variant `Norm::Batch(BatchNorm2d)`, has its owner's path alone. An `enum` visits the fields
/// of the variant that it is.
///
/// | attribute | on | meaning |
/// |---|---|---|
/// | `#[module(buffer)]` | a field | its tensors are kept in the state, but not trained |
/// | `#[module(flatten)]` | a field | its tensors have names as if they were fields of this type |
/// | `#[module(skip)]` | a field | it holds no tensors; its type need not be a `Module` |
/// | `#[module(crate = path)]` | the type | where `nn::Module` is, if not in a dependency named `samebits` |
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    module::expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Marks the method that computes a module: ledgers record it as a layer, and what it computes as
/// a part of the module.
///
/// The method takes `&self` and returns a `Result` of tensors whose error can be made of
/// `samebits::Error`. Arguments whose type names `Tensor`, alone or in references, options, slices,
/// vectors and tuples, are the layer's inputs. `#[layer(path)]` says where `nn` is, if not in a
/// dependency named `samebits`.
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

/// Renames the errors of a function after it, whatever inner operation found the fault: who calls
/// `one_hot` reads `one_hot: ..`, and not the name of the scatter that it is made of.
///
/// The function returns a `Result` whose error has a method `called`, as that of
/// `samebits_tensor_core` has.
#[proc_macro_attribute]
pub fn named(_: TokenStream, function: TokenStream) -> TokenStream {
    let function = parse_macro_input!(function as ItemFn);
    named::expand(function).unwrap_or_else(Error::into_compile_error).into()
}

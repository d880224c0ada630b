//! `#[derive(Module)]`; see the trait of that name in `samebits::nn`, which re-exports it. And
//! `#[named]`, for functions of the library itself.
//!
//! Unsafe code: none.

#![forbid(unsafe_code)]

mod module;
mod named;

use proc_macro::TokenStream;
use syn::{DeriveInput, Error, ItemFn, parse_macro_input};

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

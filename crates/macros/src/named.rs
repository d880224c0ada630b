//! Implementation of `#[named]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Error, FnArg, ItemFn, Pat, Result};

/// Builds an outer function that renames the errors of the original, inner one.
pub(crate) fn expand(function: ItemFn) -> Result<TokenStream> {
    let ItemFn { attrs, vis, mut sig, block } = function;
    let name = sig.ident.to_string();
    let mut inner = sig.clone();
    inner.ident = format_ident!("computed");
    let mut arguments = Vec::new();
    for argument in &mut sig.inputs {
        let FnArg::Typed(argument) = argument else {
            return Err(Error::new_spanned(argument, "`named` is for functions without `self`"));
        };
        let Pat::Ident(pattern) = &mut *argument.pat else {
            return Err(Error::new_spanned(&argument.pat, "`named` needs a name for it"));
        };
        // Mutability belongs to the inner function's arguments.
        pattern.mutability = None;
        arguments.push(pattern.ident.clone());
    }
    Ok(quote! {
        #(#attrs)*
        #vis #sig {
            #[track_caller]
            #inner #block
            computed(#(#arguments),*).map_err(|error| error.called(#name))
        }
    })
}

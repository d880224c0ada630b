//! Implementation of `#[layer]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, FnArg, ImplItemFn, Pat, Path, Result, parse_quote};

use crate::module::names;

/// Wraps the method's body in `nn::computed_layer`.
pub(crate) fn expand(krate: &Path, mut function: ImplItemFn) -> Result<TokenStream> {
    let signature = &function.sig;
    let of_reference = |it: &syn::Receiver| it.reference.is_some() && it.mutability.is_none();
    if !signature.receiver().is_some_and(of_reference) {
        let message = "`layer` is for methods that take `&self`";
        return Err(Error::new_spanned(signature, message));
    }
    let tensor = parse_quote!(Tensor);
    let mut inputs = Vec::new();
    for argument in &signature.inputs {
        let FnArg::Typed(argument) = argument else { continue };
        let ty = &argument.ty;
        if !names(quote!(#ty), &tensor) {
            continue;
        }
        let Pat::Ident(pattern) = &*argument.pat else {
            return Err(Error::new_spanned(&argument.pat, "`layer` needs a name for it"));
        };
        inputs.push(pattern.ident.clone());
    }
    let (output, block) = (&signature.output, &function.block);
    function.block = parse_quote!({
        #krate::nn::computed_layer(
            self,
            |tensors| {
                #(#krate::nn::Tensors::collect(&#inputs, tensors);)*
            },
            || #output #block,
        )
    });
    Ok(quote!(#function))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(function: ImplItemFn) -> Result<String> {
        expand(&parse_quote!(::samebits), function).map(|tokens| tokens.to_string())
    }

    #[test]
    fn inputs_are_what_names_tensors() {
        let text = expanded(parse_quote! {
            fn forward(&self, x: &Tensor, state: Option<(&Tensor, &Tensor)>, n: usize) -> Result<Tensor> {
                Ok(x.clone())
            }
        });
        let text = text.expect("a method");
        assert!(text.contains("collect (& x , tensors)"), "{text}");
        assert!(text.contains("collect (& state , tensors)"), "{text}");
        assert!(!text.contains("& n"), "{text}");
    }

    #[test]
    fn what_is_no_layer_says_why() {
        let error = |function| expanded(function).expect_err("no layer").to_string();
        let without_self = error(parse_quote!(
            fn f(x: &Tensor) -> Result<Tensor> {
                g(x)
            }
        ));
        assert_eq!(without_self, "`layer` is for methods that take `&self`");
        let unnamed = error(parse_quote!(
            fn f(&self, (x, y): (Tensor, i64)) -> Result<Tensor> {
                g(x)
            }
        ));
        assert_eq!(unnamed, "`layer` needs a name for it");
    }
}

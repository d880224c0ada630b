//! Implementation of `#[named]`.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, format_ident, quote};
use syn::{Error, FnArg, Ident, ItemFn, Pat, Result, Type};

/// The forms in which a function takes tensors.
#[derive(Clone, Copy)]
enum Form {
    One,
    Optional,
    List,
    /// A struct of tensors that implements `half::Holder`.
    Holder,
    Holders,
    /// Options of this type, with a tensor in this optional field.
    Field(&'static str, &'static str),
}

impl Form {
    fn of(argument: &Type) -> Option<Form> {
        let text: String =
            argument.to_token_stream().to_string().chars().filter(|c| *c != ' ').collect();
        Some(match text.as_str() {
            "&Tensor" => Form::One,
            "Option<&Tensor>" => Form::Optional,
            "&[Tensor]" | "&[implBorrow<Tensor>]" => Form::List,
            "&PackedSequence" => Form::Holder,
            "&[Weights]" => Form::Holders,
            "&ClassLoss<'_>" => Form::Field("ClassLoss", "weight"),
            "&AttentionOptions<'_>" => Form::Field("AttentionOptions", "attn_mask"),
            _ => return None,
        })
    }

    /// Calls `visit` with each tensor of `name`.
    fn visit(self, name: &Ident, visit: &TokenStream) -> TokenStream {
        match self {
            Form::One => quote!(#visit(#name);),
            Form::Optional => quote!(#name.into_iter().for_each(|x| #visit(x));),
            Form::Field(_, field) => {
                let field = format_ident!("{field}");
                quote!(#name.#field.into_iter().for_each(|x| #visit(x));)
            }
            Form::List => {
                quote!(#name.iter().for_each(|x| #visit(::std::borrow::Borrow::borrow(x)));)
            }
            Form::Holder => quote!(crate::half::Holder::each(#name, &mut |x| #visit(x));),
            Form::Holders => {
                quote!(#name.iter().for_each(|x| crate::half::Holder::each(x, &mut |x| #visit(x)));)
            }
        }
    }

    /// Replaces `name` by the same tensors in f32.
    fn widen(self, name: &Ident, function: &str) -> TokenStream {
        let held = format_ident!("held_{name}");
        let or_fail = |value: TokenStream| {
            quote!(match #value {
                Ok(value) => value,
                Err(error) => return Err(error.called(#function)),
            })
        };
        let value = match self {
            Form::One => quote!(rule.widen(#name)),
            Form::Optional => quote!(#name.map(|x| rule.widen(x)).transpose()),
            Form::Field(_, field) => {
                let field = format_ident!("{field}");
                quote!(#name.#field.map(|x| rule.widen(x)).transpose())
            }
            Form::List => quote!(rule.widen_all(#name)),
            Form::Holder => quote!(crate::half::Holder::with_each(#name, &mut |x| rule.widen(x))),
            Form::Holders => quote! {
                #name
                    .iter()
                    .map(|x| crate::half::Holder::with_each(x, &mut |x| rule.widen(x)))
                    .collect::<::std::result::Result<Vec<_>, _>>()
            },
        };
        let value = or_fail(value);
        let lent = match self {
            Form::One | Form::Holder => quote!(&#held),
            Form::Optional => quote!(#held.as_ref()),
            Form::Field(options, field) => {
                let (options, field) = (format_ident!("{options}"), format_ident!("{field}"));
                quote!(&#options { #field: #held.as_ref(), ..*#name })
            }
            Form::List | Form::Holders => quote!(&#held[..]),
        };
        quote!(let #held = #value; let #name = #lent;)
    }
}

/// Builds an outer function that renames the errors of the original, inner one, and converts
/// arguments and results of half precision for it.
pub(crate) fn expand(function: ItemFn) -> Result<TokenStream> {
    let ItemFn { attrs, vis, mut sig, block } = function;
    let name = sig.ident.to_string();
    let mut inner = sig.clone();
    inner.ident = format_ident!("computed");
    let (mut arguments, mut tensors) = (Vec::new(), Vec::new());
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
        if let Some(form) = Form::of(&argument.ty) {
            tensors.push((form, pattern.ident.clone()));
        }
    }
    let plain = quote!(computed(#(#arguments),*).map_err(|error| error.called(#name)));
    let body = if tensors.is_empty() {
        plain
    } else {
        let note = quote!(types.note);
        let visits = tensors.iter().map(|(form, argument)| form.visit(argument, &note));
        let widened = tensors.iter().map(|(form, argument)| form.widen(argument, &name));
        quote! {
            let mut types = crate::half::Types::default();
            #(#visits)*
            match types.rule(#name) {
                Ok(None) => #plain,
                Ok(Some(rule)) => {
                    #(#widened)*
                    let result = rule.run(|| computed(#(#arguments),*));
                    result
                        .and_then(|result| rule.narrow(result))
                        .map_err(|error| error.called(#name))
                }
                Err(error) => Err(error),
            }
        }
    };
    Ok(quote! {
        #(#attrs)*
        #vis #sig {
            #[track_caller]
            #inner #block
            #body
        }
    })
}

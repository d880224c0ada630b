//! Implementation of `#[derive(Module)]`.

use proc_macro2::{TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::ext::IdentExt as _;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, Generics, Ident, Path, Result, Token,
    Variant, parse_quote,
};

/// Builds the `impl` for one type.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let krate = crate_path(&input.attrs)?;
    let (fields, arms) = match &input.data {
        Data::Struct(data) => {
            let fields = parse(&data.fields)?;
            let arm = Arm::new(&quote!(Self), &data.fields, &fields, &krate);
            (fields, vec![arm])
        }
        Data::Enum(data) => {
            let mut all = Vec::new();
            let mut arms = Vec::new();
            for Variant { attrs, ident, fields, .. } in &data.variants {
                refuse(attrs, "a variant")?;
                let parsed = parse(fields)?;
                arms.push(Arm::new(&quote!(Self::#ident), fields, &parsed, &krate));
                all.extend(parsed);
            }
            (all, arms)
        }
        Data::Union(data) => {
            return Err(Error::new(
                data.union_token.span,
                "Module cannot be derived for a union: which field holds tensors is not known",
            ));
        }
    };
    // A reference to an enum without variants is not known to be uninhabited.
    let value = if arms.is_empty() { quote!(*self) } else { quote!(self) };
    let (shared, unique): (Vec<_>, Vec<_>) = arms
        .iter()
        .map(|Arm { pattern, shared, unique }| {
            (quote!(#pattern => { #shared }), quote!(#pattern => { #unique }))
        })
        .unzip();
    let generics = bounded(&input.generics, &fields, &krate);
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let name = &input.ident;
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables)]
        impl #impl_generics #krate::nn::Module for #name #type_generics #where_clause {
            fn visit(
                &self,
                path: &str,
                visit: &mut dyn ::core::ops::FnMut(&str, #krate::nn::Kind, &#krate::Tensor),
            ) {
                match #value { #(#shared)* }
            }

            fn visit_mut(
                &mut self,
                path: &str,
                visit: &mut dyn ::core::ops::FnMut(&str, #krate::nn::Kind, &mut #krate::Tensor),
            ) {
                match #value { #(#unique)* }
            }
        }
    })
}

/// Code for a struct or a variant.
struct Arm {
    pattern: TokenStream,
    shared: TokenStream,
    unique: TokenStream,
}

impl Arm {
    fn new(constructor: &TokenStream, fields: &Fields, parsed: &[Parsed<'_>], krate: &Path) -> Arm {
        let names: Vec<Ident> = (0..parsed.len()).map(|i| format_ident!("field_{i}")).collect();
        let pattern = match fields {
            Fields::Named(_) => {
                let idents = parsed.iter().map(|field| &field.field.ident);
                quote!(#constructor { #(#idents: #names),* })
            }
            Fields::Unnamed(_) => quote!(#constructor(#(#names),*)),
            Fields::Unit => constructor.clone(),
        };
        let transparent = matches!(fields, Fields::Unnamed(_)) && parsed.len() == 1;
        let visits = |method: &Ident| -> TokenStream {
            let visits = names.iter().zip(parsed).enumerate().map(|(i, (name, field))| {
                let path = match &field.field.ident {
                    _ if transparent || field.role == Role::Flatten => quote!(path),
                    Some(ident) => {
                        let text = ident.unraw().to_string();
                        quote!(&#krate::nn::join(path, #text))
                    }
                    None => {
                        let text = i.to_string();
                        quote!(&#krate::nn::join(path, #text))
                    }
                };
                match field.role {
                    Role::Module | Role::Flatten => {
                        quote!(#krate::nn::Module::#method(#name, #path, visit);)
                    }
                    Role::Buffer => quote! {
                        #krate::nn::Module::#method(#name, #path, &mut |name, _, tensor| {
                            visit(name, #krate::nn::Kind::Buffer, tensor)
                        });
                    },
                    Role::Skip => TokenStream::new(),
                }
            });
            quote!(#(#visits)*)
        };
        Arm {
            pattern,
            shared: visits(&format_ident!("visit")),
            unique: visits(&format_ident!("visit_mut")),
        }
    }
}

/// A field, and the role given by its attributes.
struct Parsed<'a> {
    field: &'a Field,
    role: Role,
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Module,
    Flatten,
    Buffer,
    Skip,
}

fn parse(fields: &Fields) -> Result<Vec<Parsed<'_>>> {
    fields.iter().map(|field| Ok(Parsed { field, role: role(&field.attrs)? })).collect()
}

fn role(attrs: &[Attribute]) -> Result<Role> {
    let mut found = Role::Module;
    for attr in ours(attrs) {
        attr.parse_nested_meta(|meta| {
            let role = if meta.path.is_ident("buffer") {
                Role::Buffer
            } else if meta.path.is_ident("flatten") {
                Role::Flatten
            } else if meta.path.is_ident("skip") {
                Role::Skip
            } else {
                return Err(meta.error("expected `buffer`, `flatten` or `skip`"));
            };
            if found != Role::Module {
                return Err(meta.error("a field has one of `buffer`, `flatten` and `skip`"));
            }
            found = role;
            Ok(())
        })?;
    }
    Ok(found)
}

fn crate_path(attrs: &[Attribute]) -> Result<Path> {
    let mut found = None;
    for attr in ours(attrs) {
        attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("expected `crate = path`; the rest is for fields"));
            }
            meta.input.parse::<Token![=]>()?;
            found = Some(meta.input.call(Path::parse_mod_style)?);
            Ok(())
        })?;
    }
    Ok(found.unwrap_or_else(|| parse_quote!(::samebits)))
}

fn refuse(attrs: &[Attribute], place: &str) -> Result<()> {
    match ours(attrs).next() {
        Some(attr) => Err(Error::new_spanned(attr, format!("{place} takes no `module` attribute"))),
        None => Ok(()),
    }
}

fn ours(attrs: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attrs.iter().filter(|attr| attr.path().is_ident("module"))
}

/// Adds `T: Module` to the generics for every type parameter that a visited field names.
fn bounded(generics: &Generics, fields: &[Parsed<'_>], krate: &Path) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        let visited = fields.iter().filter(|field| field.role != Role::Skip);
        if visited.map(|field| &field.field.ty).any(|ty| names(quote!(#ty), &parameter.ident)) {
            parameter.bounds.push(parse_quote!(#krate::nn::Module));
        }
    }
    generics
}

/// Returns true if `ident` is among `tokens`.
pub(crate) fn names(tokens: TokenStream, ident: &Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(found) => found == *ident,
        TokenTree::Group(group) => names(group.stream(), ident),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(input: DeriveInput) -> String {
        expand(&input).expect_err("it cannot be derived").to_string()
    }

    #[test]
    fn what_cannot_be_derived_says_why() {
        assert_eq!(
            error(parse_quote!(union Either { a: u32, b: f32 })),
            "Module cannot be derived for a union: which field holds tensors is not known"
        );
        assert_eq!(
            error(parse_quote!(
                struct Net {
                    #[module(bufer)]
                    mean: Tensor,
                }
            )),
            "expected `buffer`, `flatten` or `skip`"
        );
        assert_eq!(
            error(parse_quote!(
                struct Net {
                    #[module(buffer, skip)]
                    mean: Tensor,
                }
            )),
            "a field has one of `buffer`, `flatten` and `skip`"
        );
        assert_eq!(
            error(parse_quote!(
                #[module(buffer)]
                struct Net {
                    mean: Tensor,
                }
            )),
            "expected `crate = path`; the rest is for fields"
        );
        assert_eq!(
            error(parse_quote!(
                enum Net {
                    #[module(skip)]
                    None,
                }
            )),
            "a variant takes no `module` attribute"
        );
    }

    #[test]
    fn only_parameters_that_a_visited_field_names_are_bounded() {
        let input: DeriveInput = parse_quote! {
            struct Net<'a, A, B: Clone, const N: usize> {
                blocks: Vec<(A, usize)>,
                #[module(skip)]
                log: &'a B,
            }
        };
        let text = expand(&input).expect("a struct").to_string();
        assert!(text.contains("A : :: samebits :: nn :: Module"), "{text}");
        assert!(!text.contains("B : Clone + :: samebits"), "{text}");
    }
}

//! Code shared by the workspace tests: the corpus of `samebits-verify`, the comparison with
//! reference figures, and the fuzzer.

/// Makes documentation tests of the programs in files of the workspace.
#[cfg(doctest)]
macro_rules! documents {
    ($($name:ident $file:literal;)*) => {$(
        #[doc = include_str!(concat!("../../", $file))]
        pub struct $name;
    )*};
}

#[cfg(doctest)]
mod book;
pub mod conformance;
pub mod fuzz;
#[cfg(doctest)]
mod readmes;

pub use samebits_verify::*;

//! The samebits program.
fn main() {}

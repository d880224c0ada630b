//! The examples run to their end; each is an error if what it shows does not hold.

#[path = "../examples/sources.rs"]
mod sources;

#[test]
fn sources_train_and_resume() {
    sources::main().unwrap();
}

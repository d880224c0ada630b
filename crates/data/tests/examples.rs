//! The examples run to completion; each returns an error if its claim does not hold.

#[path = "../examples/sources.rs"]
mod sources;

#[test]
fn sources_train_and_resume() {
    sources::main().unwrap();
}

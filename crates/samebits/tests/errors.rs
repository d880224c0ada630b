//! The output of a `main` that returns an error: the message, not the fields.

use std::fmt::{Debug, Display};

use samebits::io::{Checkpoint, load_npy};
use samebits::{Error, Tensor};

#[track_caller]
fn expect_message(error: impl Debug + Display) {
    let message = error.to_string();
    assert_eq!(format!("{error:?}"), message);
    assert_eq!(format!("{error:#?}"), message);
    assert!(message.contains(' '), "{message}");
}

#[test]
fn the_debug_form_of_an_error_is_its_message() {
    let tensor = Tensor::from_slice(&[1.0f32], &[2]).unwrap_err();
    expect_message(tensor.clone());
    expect_message(samebits::trainer::Error::Tensor(tensor.clone()));
    expect_message(samebits::trainer::Error::NoBatch { epoch: 0 });
    expect_message(samebits::data::Error::other(tensor));
    expect_message(load_npy("no such file").unwrap_err());
    expect_message(Checkpoint::<u32>::from_bytes(b"").unwrap_err());
    expect_message(
        samebits::ledger::Ledger::create(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/Cargo.toml/x.jsonl"
        ))
        .unwrap_err(),
    );
    expect_message(samebits::rng::Generator::from_bytes(b"").unwrap_err());
    expect_message(samebits::numerics::memory::zeroed::<u8>(1 << 60).unwrap_err());
    expect_message(samebits::autotune::NoLibrary);
    let told = format!("Error: {:?}", Error::Unseeded { op: "rand" });
    assert!(told.starts_with("Error: rand: the default generator of this thread"), "{told}");
}

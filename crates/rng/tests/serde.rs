//! States of generators saved by the feature `serde`.

use proptest::prelude::*;
use rand_core::Rng;
use samebits_rng::{Generator, Pcg64, Pcg64Dxsm, Philox4x64, Words};
use serde::{Serialize, de::DeserializeOwned};

fn restored<G: Serialize + DeserializeOwned>(generator: &G) -> G {
    serde_json::from_str(&serde_json::to_string(generator).unwrap()).unwrap()
}

fn continues<G: Rng + Serialize + DeserializeOwned>(mut generator: G, skipped: usize) {
    for _ in 0..skipped {
        generator.next_u32();
    }
    let mut restored = restored(&generator);
    for _ in 0..9 {
        assert_eq!(restored.next_u64(), generator.next_u64());
    }
}

proptest! {
    #[test]
    fn a_restored_generator_continues(seed: u64, stream: u64, offset: u64, skipped in 0usize..10) {
        let generator = Generator::new(seed).with_stream(stream).with_offset(offset);
        continues(Words::new(generator.clone()), skipped);
        continues(generator, skipped);
        continues(Pcg64::new(seed).fold_in(3), skipped);
        continues(Pcg64Dxsm::new(seed).fold_in(3), skipped);
        continues(Philox4x64::new(seed).fold_in(3), skipped);
    }
}

#[test]
fn the_position_is_kept_and_other_fields_are_refused() {
    let generator = Generator::new(u64::MAX).with_stream(2).with_offset(3);
    let text = serde_json::to_string(&generator).unwrap();
    assert_eq!(text, r#"{"seed":18446744073709551615,"stream":2,"offset":3}"#);
    assert_eq!(restored(&generator), generator);
    let foreign = r#"{"seed":1,"stream":2,"offset":3,"mt":[]}"#;
    assert!(serde_json::from_str::<Generator>(foreign).is_err());
}

#[test]
fn impossible_positions_are_refused() {
    let words = r#"{"generator":{"seed":1,"stream":0,"offset":0},"taken":4}"#;
    assert!(serde_json::from_str::<Words>(words).is_err());
    let philox = r#"{"seed":1,"stream":0,"offset":0,"taken":9}"#;
    assert!(serde_json::from_str::<Philox4x64>(philox).is_err());
    let stream = u128::MAX;
    let pcg = format!(r#"{{"seed":1,"stream":{stream},"offset":0}}"#);
    assert!(serde_json::from_str::<Pcg64>(&pcg).is_err());
}

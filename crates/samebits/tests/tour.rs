//! The examples run to completion; each asserts its digest.

#[path = "../examples/tour/main.rs"]
#[allow(dead_code, reason = "the example's own `main`")]
mod tour;

macro_rules! examples {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            tour::run(stringify!($name)).unwrap();
        }
    )*

        #[test]
        fn every_example_has_a_test() {
            let names = [$(stringify!($name)),*];
            assert!(tour::EXAMPLES.iter().map(|(name, ..)| *name).eq(names));
        }
    };
}

examples! {
    device digits flags generators kernels loader own_operation pinned pytorch_model recommender recorded refused resumed shards speech table tagger
}

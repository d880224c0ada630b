//! Short programs, one in each file beside this one.
//!
//! `cargo run --package samebits --example tour` lists them, `.. --example tour -- table` runs one.
//! Each is seeded and asserts its result, to the bit if the level is `Portable`.

// Programs that report to their user.
#![allow(clippy::print_stdout)]

mod device;
mod digits;
mod flags;
mod generators;
mod kernels;
mod loader;
mod own_operation;
mod pinned;
mod pytorch_model;
mod recommender;
mod recorded;
mod refused;
mod resumed;
mod shards;
mod speech;
mod table;
mod tagger;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
type Example = (&'static str, &'static str, fn() -> Result<()>);

/// The examples: name, contents, program.
const EXAMPLES: &[Example] = &[
    ("device", "one training on the CPU and on a CUDA device", device::run),
    ("digits", "a convolutional network on handwritten digits", digits::run),
    ("flags", "switches of PyTorch, and the levels behind them", flags::run),
    ("generators", "random numbers without tensors, also NumPy's and PyTorch's", generators::run),
    ("kernels", "sums and products on plain slices, without tensors", kernels::run),
    ("loader", "a data loader without tensors", loader::run),
    ("own_operation", "an operation with a gradient and a level of its own", own_operation::run),
    ("pinned", "convolution algorithms: race once, record, pin", pinned::run),
    ("pytorch_model", "load the state dict of a PyTorch model", pytorch_model::run),
    ("recommender", "embeddings whose rows are hit many times in a batch", recommender::run),
    ("recorded", "record two runs, and find where they differ", recorded::run),
    ("refused", "what happens to an operation below the required level", refused::run),
    ("resumed", "augmentation, an interruption, and a resume with the same bits", resumed::run),
    ("shards", "a stream of shards that several workers read", shards::run),
    ("speech", "a recurrent network with the CTC loss", speech::run),
    ("table", "train on a CSV file", table::run),
    ("tagger", "an embedding, an LSTM and a linear layer", tagger::run),
];

fn main() -> Result<()> {
    if let Some(name) = std::env::args().nth(1) {
        return run(&name);
    }
    for (name, contents, _) in EXAMPLES {
        println!("{name:14} {contents}");
    }
    Ok(())
}

fn run(wanted: &str) -> Result<()> {
    let found = EXAMPLES.iter().find(|(name, ..)| *name == wanted);
    let (.., run) = found.ok_or_else(|| format!("no example is called {wanted:?}"))?;
    run()
}

#[cfg(test)]
mod tests {
    macro_rules! examples {
        ($($name:ident)*) => {$(
            #[test]
            fn $name() {
                super::run(stringify!($name)).unwrap();
            }
        )*

            #[test]
            fn every_example_has_a_test() {
                let names = [$(stringify!($name)),*];
                assert!(super::EXAMPLES.iter().map(|(name, ..)| *name).eq(names));
            }
        };
    }

    examples! {
        device digits flags generators kernels loader own_operation pinned pytorch_model recommender recorded refused resumed shards speech table tagger
    }
}

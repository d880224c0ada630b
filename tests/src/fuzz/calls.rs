//! The operations: one entry for each registered operation, and one for each function built from
//! several.

mod composed;
mod contractions;
mod indexing;
mod layers;
mod networks;
mod rows;
mod tensors;
mod windows;

use std::sync::LazyLock;

use rayon::{ThreadPool, ThreadPoolBuilder};
use samebits::tensor_core::Tensor as Value;
use samebits::{Determinism, Error, Op, Result, Tensor, determinism, dispatch};

use super::{Draw, Outcome, Target};
use crate::Tensors;

pub(super) fn targets() -> Vec<Target> {
    let mut calls = Calls(Vec::new());
    composed::add(&mut calls);
    contractions::add(&mut calls);
    indexing::add(&mut calls);
    layers::add(&mut calls);
    networks::add(&mut calls);
    rows::add(&mut calls);
    tensors::add(&mut calls);
    windows::add(&mut calls);
    calls.0
}

/// Functions with every kind of ending, most of them wrong.
#[cfg(test)]
pub(super) fn planted() -> Vec<Target> {
    #[expect(clippy::disallowed_methods, reason = "what it plants depends on the thread count")]
    fn threads() -> usize {
        rayon::current_num_threads()
    }
    fn numbers(x: f32) -> Result<Vec<Value>> {
        Ok(vec![Value::from_slice(&[x], &[1])?])
    }
    let mut calls = Calls(Vec::new());
    calls.function("result", |_| numbers(1.0));
    calls.function("refusal", |_| Err(Error::invalid("refusal", "always")));
    calls.function("threads", |_| numbers(threads() as f32));
    calls.function("threads_refused", |_| match threads() {
        1 => numbers(1.0),
        _ => Err(Error::invalid("threads_refused", "one thread only")),
    });
    calls.function("nameless", |_| Err(Error::invalid("", "who says so?")));
    calls.function("panic", |_| panic!("planted"));
    calls.function("caught", |_| {
        drop(std::panic::catch_unwind(|| panic!("planted")));
        numbers(1.0)
    });
    calls.function("abort", |_| std::process::abort());
    calls.function("hang", |_| {
        loop {
            std::thread::park();
        }
    });
    calls.0
}

struct Calls(Vec<Target>);

impl Calls {
    /// Adds an operation of the registry.
    fn op<O: Op>(&mut self, name: &str, make: fn(&mut Draw) -> Result<O>)
    where
        O::Output: Tensors,
    {
        self.0.push(Target {
            name: format!("calls/{name}"),
            kernel: Some((O::NAME, O::PASS)),
            run: Box::new(move |draw| {
                let run = |draw: &mut Draw| Ok(dispatch(&make(draw)?)?.tensors());
                // A gradient may have the name of its operation.
                judged(draw, run, |op| !op.is_empty() && O::NAME.starts_with(op))
            }),
        });
    }

    /// Adds a function.
    fn function(&mut self, name: &str, run: fn(&mut Draw) -> Result<Vec<Value>>) {
        self.0.push(Target {
            name: format!("calls/{name}"),
            kernel: None,
            run: Box::new(move |draw| {
                let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                judged(draw, run, |op| !op.is_empty() && op.chars().all(in_name))
            }),
        });
    }
}

/// Pools of 1 and 4 threads.
static POOLS: LazyLock<[ThreadPool; 2]> = LazyLock::new(|| {
    [1, 4].map(|threads| {
        ThreadPoolBuilder::new().num_threads(threads).build().expect("threads to start")
    })
});

/// Runs a call in both pools and compares.
fn judged(
    draw: &mut Draw,
    run: impl Fn(&mut Draw) -> Result<Vec<Value>> + Sync,
    is_its_name: impl Fn(&str) -> bool,
) -> Outcome {
    let level = draw.pick(&[
        Determinism::Portable,
        Determinism::Portable,
        Determinism::Portable,
        Determinism::NotGuaranteed,
    ]);
    let once = |pool: &ThreadPool| {
        let mut draw = draw.clone();
        pool.install(|| determinism::scope(level, || run(&mut draw)))
    };
    let [one, four] = POOLS.each_ref().map(once);
    match (one, four) {
        (Ok(one), Ok(four)) => {
            if level == Determinism::Portable && bits(&one) != bits(&four) {
                return Outcome::Wrong("1 and 4 threads give different bits".to_owned());
            }
            Outcome::Result
        }
        // The memory of other processes is not a property of a call.
        (Err(Error::OutOfMemory { .. }), _) | (_, Err(Error::OutOfMemory { .. })) => {
            Outcome::Refused
        }
        // As texts, because errors may hold numbers that do not equal themselves.
        (Err(one), Err(four)) if one.to_string() == four.to_string() => {
            let message = one.to_string();
            let name = message.split([':', ' ']).next().unwrap_or("");
            if is_its_name(name) {
                return Outcome::Refused;
            }
            Outcome::Wrong(format!("an error that names no operation: {message}"))
        }
        (one, four) => {
            let ended = [one, four].map(|ended| match ended {
                Ok(_) => "a result".to_owned(),
                Err(error) => error.to_string(),
            });
            Outcome::Wrong(format!("1 thread ends in {}, 4 threads in {}", ended[0], ended[1]))
        }
    }
}

/// Returns types, shapes and bits. A view of more elements than memory holds has none worth
/// comparing.
fn bits(tensors: &[Value]) -> Vec<(String, Vec<u8>)> {
    let bytes = |x: &Value| if x.numel() > 1 << 20 { Ok(Vec::new()) } else { x.to_bytes() };
    tensors
        .iter()
        .map(|x| (format!("{} {:?}", x.dtype(), x.shape()), bytes(x).expect("a small tensor")))
        .collect()
}

/// Returns the value of a function and its gradients, sometimes their gradients, too.
fn graded(
    draw: &mut Draw,
    arguments: Vec<Value>,
    function: impl FnOnce(&[Tensor]) -> Result<Tensor>,
) -> Result<Vec<Value>> {
    let variables: Vec<Tensor> = arguments.into_iter().map(variable).collect::<Result<_>>()?;
    let value = function(&variables)?;
    let twice = draw.chance(4);
    let seed = like(draw, value.value())?;
    let gradients = value.backward_from(Tensor::from(seed), twice)?;
    let mut results = vec![value.value().clone()];
    results.extend(variables.iter().filter_map(|x| gradients.of(x)).map(Value::from));
    if twice {
        let first = variables.iter().find_map(|variable| gradients.of(variable));
        if let Some(first) = first.filter(|first| first.requires_grad()) {
            let seed = like(draw, first.value())?;
            // Not every gradient can be differentiated again; the others return an error.
            let second = first.backward_from(Tensor::from(seed), false)?;
            results.extend(variables.iter().filter_map(|x| second.of(x)).map(Value::from));
        }
    }
    Ok(results)
}

/// Draws an argument that requires a gradient if it can.
fn variable(x: Value) -> Result<Tensor> {
    let is_float = x.dtype().is_float();
    Tensor::from(x).set_requires_grad(is_float)
}

/// Draws a gradient for a result.
fn like(draw: &mut Draw, x: &Value) -> Result<Value> {
    if x.numel() > 1 << 20 {
        return x.narrow(0, 0, 0);
    }
    Ok(draw.tensor(x.shape(), x.dtype()))
}

/// Returns whether a tensor of this shape is small enough to compute with.
fn small(shape: &[usize]) -> bool {
    let numel = shape.iter().try_fold(1usize, |numel, &size| numel.checked_mul(size.max(1)));
    numel.is_some_and(|numel| numel < 100_000)
}

use samebits::functional::{self as f, Stack, Weights};
use samebits::{Result, Tensor};

use super::{Arguments, Handler, Outputs, Quantity, Tolerance};

pub(super) const HANDLERS: &[Handler] = &[
    Handler { op: "gru", run: |a| simple(a, f::gru), tolerance: steps },
    Handler {
        op: "lstm",
        run: |a| {
            let (input, weights) = (a.tensor("input")?, weights(a)?);
            let (h0, c0) = (a.tensor("h0")?, a.tensor("c0")?);
            let (y, h, c) = f::lstm(input, h0, c0, &weights, stack(a)?)?;
            Ok(vec![("output", y), ("h_n", h), ("c_n", c)])
        },
        tolerance: steps,
    },
    Handler { op: "rnn_relu", run: |a| simple(a, f::rnn_relu), tolerance: steps },
    Handler { op: "rnn_tanh", run: |a| simple(a, f::rnn_tanh), tolerance: steps },
];

type Network = fn(&Tensor, &Tensor, &[Weights], Stack<'_>) -> Result<(Tensor, Tensor)>;

fn simple(a: &Arguments<'_>, network: Network) -> Result<Outputs> {
    let (y, h) = network(a.tensor("input")?, a.tensor("h0")?, &weights(a)?, stack(a)?)?;
    Ok(vec![("output", y), ("h_n", h)])
}

fn stack(a: &Arguments<'_>) -> Result<Stack<'static>> {
    let batch_first: Option<bool> = a.param("batch_first")?;
    Ok(Stack {
        bidirectional: a.param("bidirectional")?,
        batch_first: batch_first.unwrap_or(false),
        dropout: None,
    })
}

fn weights(a: &Arguments<'_>) -> Result<Vec<Weights>> {
    let layers: usize = a.param("num_layers")?;
    let bidirectional: bool = a.param("bidirectional")?;
    let mut all = Vec::new();
    for layer in 0..layers {
        for suffix in &["", "_reverse"][..if bidirectional { 2 } else { 1 }] {
            let name = |what: &str| format!("{what}_l{layer}{suffix}");
            all.push(Weights {
                weight_ih: a.tensor(&name("weight_ih"))?.clone(),
                weight_hh: a.tensor(&name("weight_hh"))?.clone(),
                bias_ih: a.optional(&name("bias_ih")).cloned(),
                bias_hh: a.optional(&name("bias_hh")).cloned(),
                weight_hr: a.optional(&name("weight_hr")).cloned(),
            });
        }
    }
    Ok(all)
}

/// Bounds a network: each step has a sum over the input and one over the hidden state, and passes
/// its error on.
fn steps(a: &Arguments<'_>, _: Quantity<'_>) -> Tolerance {
    let size = |name: &str| a.param::<usize>(name).unwrap_or(1) as f64;
    let rows: usize = a.tensor("input").map_or(1, |x| x.shape()[..2].iter().product());
    let terms = size("input_size") + size("hidden_size");
    Tolerance::Largest(2.0 * size("num_layers") * terms * rows as f64)
}

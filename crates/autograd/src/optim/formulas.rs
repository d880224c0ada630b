//! The steps of rules as formulas, in which each operation rounds once.

use samebits_tensor_core::{Result, Tensor as Value};

use super::Turn;
use crate::functional::{Steps, Symbol, formula_of_values};
use crate::run_all;

/// Computes a formula for each turn, from its gradient and parameter and from its state tensors `names`,
/// which are 0 until they are kept. A device computes equal formulas in one launch.
pub(super) fn for_each<const N: usize>(
    turns: &[Turn],
    names: [&'static str; N],
    write: impl Fn(&mut Steps, &Turn, [Symbol; 2], [Symbol; N]) -> Symbol,
) -> Result<Vec<Value>> {
    let formula = |turn: &Turn| {
        let kept = names.map(|name| turn.kept.get(name));
        let own = [&turn.gradient, &turn.parameter].into_iter();
        let inputs: Vec<&Value> = own.chain(kept.into_iter().flatten()).collect();
        formula_of_values(&inputs, |f, symbols| {
            let mut rest = symbols[2..].iter();
            let kept = kept.map(|kept| kept.and_then(|_| rest.next().copied()));
            let kept = kept.map(|kept| kept.unwrap_or_else(|| f.number(0.0)));
            write(f, turn, [symbols[0], symbols[1]], kept)
        })
    };
    run_all(&turns.iter().map(formula).collect::<Vec<_>>())
}

/// Keeps a state tensor of each turn.
pub(super) fn keep(turns: &mut [Turn], name: &'static str, tensors: Vec<Value>) {
    for (turn, tensor) in turns.iter_mut().zip(tensors) {
        turn.kept.insert(name, tensor);
    }
}

/// Writes `decay * parameter + gradient` with two roundings, or the gradient itself if the decay is 0.
pub(super) fn write_decayed(f: &mut Steps, g: Symbol, decay: f64, parameter: Symbol) -> Symbol {
    if decay == 0.0 { g } else { write_scale_add(f, parameter, decay, g) }
}

/// Writes `share * old + (1 - share) * new` with three roundings.
pub(super) fn write_averaged(f: &mut Steps, old: Symbol, share: f64, new: Symbol) -> Symbol {
    let (old, new) = (f.times(old, share), f.times(new, 1.0 - share));
    f.add(old, new)
}

/// Writes `x * factor + y` with two roundings.
pub(super) fn write_scale_add(f: &mut Steps, x: Symbol, factor: f64, y: Symbol) -> Symbol {
    let x = f.times(x, factor);
    f.add(x, y)
}

/// Writes `√x · scale + eps` with three roundings, or `√x + eps` with two if the scale is 1.
pub(super) fn write_root(f: &mut Steps, x: Symbol, scale: f64, eps: f64) -> Symbol {
    let mut root = f.sqrt(x);
    if scale != 1.0 {
        root = f.times(root, scale);
    }
    f.affine(root, 1.0, eps)
}

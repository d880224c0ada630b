//! Groups of parameters, and states that leave out a parameter.

use samebits_autograd::nn::{Module, ModuleDict};
use samebits_autograd::optim::{Adam, Optimizer, Sgd};
use samebits_autograd::{Error, Gradients, Tensor, backward};

const START: [f32; 3] = [0.3, -1.7, 2.5];

/// Returns parameters with these names and shapes.
fn bag(parameters: &[(&str, &[usize])]) -> ModuleDict<Tensor> {
    let leaf = |shape: &[usize]| {
        let values = &START[..shape.iter().product()];
        Tensor::from_slice(values, shape).unwrap().set_requires_grad(true).unwrap()
    };
    parameters.iter().map(|&(name, shape)| (name.to_owned(), leaf(shape))).collect()
}

/// Returns a gradient of ones for each of these parameters.
fn gradients(bag: &ModuleDict<Tensor>, of: &[&str]) -> Gradients {
    let ones = |name: &&str| (&bag[*name], bag[*name].detach().ones_like().unwrap());
    backward(&of.iter().map(ones).collect::<Vec<_>>(), false).unwrap()
}

fn values(bag: &ModuleDict<Tensor>) -> Vec<Vec<f32>> {
    bag.parameters().iter().map(|parameter| parameter.to_vec().unwrap()).collect()
}

/// Users of PyTorch exclude one-dimensional tensors (biases and norms) from the decay.
#[test]
fn groups_are_told_by_name_and_shape() {
    let mut bag = bag(&[("matrix", &[1, 2]), ("vector", &[2]), ("head.vector", &[2])]);
    let mut optimizer = Sgd::options(0.5)
        .weight_decay(0.5)
        .group(|name, _| name.starts_with("head"), |options| options.lr(0.0))
        .group(|_, parameter| parameter.rank() == 1, |options| options.weight_decay(0.0))
        .init()
        .unwrap();
    let ones = gradients(&bag, &["matrix", "vector", "head.vector"]);
    optimizer.step(&mut bag, &ones).unwrap();
    let decayed = START.map(|p| -0.5f32 * (0.5 * p + 1.0) + p);
    let plain = START.map(|p| p - 0.5);
    assert_eq!(values(&bag), [&decayed[..2], &plain[..2], &START[..2]]);
}

#[test]
fn a_state_without_a_parameter_is_refused_by_the_next_step() {
    let make = || {
        let amsgrad = |name: &str, _: &Tensor| name == "b";
        Adam::options(0.1).group(amsgrad, |options| options.amsgrad(true)).init().unwrap()
    };
    let parameters: [(&str, &[usize]); 3] = [("a", &[3]), ("b", &[3]), ("late", &[3])];
    let mut saved = bag(&parameters);
    let mut optimizer = make();
    let some = gradients(&saved, &["a", "b"]);
    optimizer.step(&mut saved, &some).unwrap();
    let state = optimizer.state().unwrap();
    // A parameter that has had no gradient is in the state, so it is not missing later.
    assert!(state.iter().any(|(name, _)| name == "late.step"));
    let step = |without: &[&str]| {
        let kept = state.iter().filter(|(name, _)| !without.contains(&name.as_str()));
        let mut loaded = make();
        loaded.load_state(kept.cloned().collect())?;
        let mut bag = bag(&parameters);
        let all = gradients(&bag, &["a", "b", "late"]);
        let result = loaded.step(&mut bag, &all);
        assert_eq!(values(&bag) == [START; 3], result.is_err(), "{without:?}");
        result
    };
    step(&[]).unwrap();
    for (without, message) in [
        (
            &["a.step", "a.mean", "a.square"][..],
            "of a model without the parameter a: there is no tensor a.step",
        ),
        (&["late.step"], "of a model without the parameter late: there is no tensor late.step"),
        (&["b.max_square"], "b needs the tensors {\"max_square\", \"mean\", \"square\"}, but"),
        (&["b.mean"], "there is no tensor b.mean"),
        (&["a.square"], "there is no tensor a.square"),
    ] {
        let error = step(without).unwrap_err();
        assert!(matches!(error, Error::InvalidState { op: "adam", .. }), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    // A parameter that begins anew is listed with 0 steps.
    let mut begun: Vec<_> =
        state.iter().filter(|(name, _)| !name.starts_with("a.")).cloned().collect();
    begun.push(("a.step".to_owned(), Tensor::scalar(0i64)));
    let mut loaded = make();
    loaded.load_state(begun).unwrap();
    let mut bag = bag(&parameters);
    let all = gradients(&bag, &["a", "b", "late"]);
    loaded.step(&mut bag, &all).unwrap();
}

/// A rule whose momentum a schedule set to 0 keeps its velocity, as in PyTorch, and can be saved.
#[test]
fn a_momentum_of_zero_can_be_saved() {
    let run = |save: bool| {
        let mut bag = bag(&[("w", &[3])]);
        let mut optimizer = Sgd::options(0.1).momentum(0.9).init().unwrap();
        for momentum in [0.9, 0.0, 0.5] {
            optimizer.rates_mut()[0].momentum = Some(momentum);
            let ones = gradients(&bag, &["w"]);
            optimizer.step(&mut bag, &ones).unwrap();
            if save {
                let state = optimizer.state().unwrap();
                optimizer = Sgd::options(0.1).momentum(0.9).init().unwrap();
                optimizer.load_state(state).unwrap();
            }
        }
        values(&bag)
    };
    assert_eq!(run(true), run(false));
}

/// A snapshot restores everything that later steps depend on.
#[test]
fn a_snapshot_undoes_a_step() {
    let mut bag = bag(&[("w", &[3])]);
    let mut optimizer: Box<dyn Optimizer> = Box::new(Adam::new(0.1).unwrap());
    let ones = gradients(&bag, &["w"]);
    optimizer.step(&mut bag, &ones).unwrap();
    let state = |optimizer: &dyn Optimizer| {
        let bytes = |(name, tensor): (String, Tensor)| (name, tensor.to_bytes().unwrap());
        optimizer.state().unwrap().into_iter().map(bytes).collect::<Vec<_>>()
    };
    let before = state(&*optimizer);
    let snapshot = optimizer.snapshot().unwrap();
    optimizer.set_lr(0.5);
    let ones = gradients(&bag, &["w"]);
    optimizer.step(&mut bag, &ones).unwrap();
    assert_ne!(state(&*optimizer), before);
    optimizer.restore(snapshot).unwrap();
    assert_eq!(state(&*optimizer), before);
    let foreign = Sgd::new(0.1).unwrap().snapshot().unwrap();
    let error = optimizer.restore(foreign).unwrap_err().to_string();
    assert_eq!(error, "adam: the snapshot is of another kind of optimiser");
}

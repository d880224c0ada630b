//! Optimisers, clipping and schedules against their written formulas.

use samebits_autograd::nn::{Kind, Module};
use samebits_autograd::optim::{
    Adagrad, Adam, AdamW, Anneal, CosineAnnealingLr, ExponentialLr, LambdaLr, LinearLr, Mode,
    MultiStepLr, OneCycleLr, Optimizer, ReduceLrOnPlateau, RmsProp, Schedule, Sgd, StepLr,
    Threshold, clip_grad_norm, clip_grad_value,
};
use samebits_autograd::{Error, Gradients, Tensor, backward};
use samebits_tensor_core::DType;

#[path = "training/rules.rs"]
mod rules;

/// A module that is only a list of named parameters.
struct Bag(Vec<(&'static str, Tensor)>);

impl Bag {
    fn new(parameters: &[(&'static str, &[f32])]) -> Bag {
        let leaf = |values: &[f32]| floats(values).set_requires_grad(true).unwrap();
        Bag(parameters.iter().map(|&(name, values)| (name, leaf(values))).collect())
    }

    fn values(&self, at: usize) -> Vec<f32> {
        self.0[at].1.to_vec().unwrap()
    }

    /// Returns gradients of the parameters in order; `None` for a parameter without one.
    fn gradients(&self, given: &[Option<&[f32]>]) -> Gradients {
        let results: Vec<(&Tensor, Tensor)> = self
            .0
            .iter()
            .zip(given)
            .filter_map(|((_, var), given)| Some((var, floats((*given)?))))
            .collect();
        backward(&results, false).unwrap()
    }
}

impl Module for Bag {
    fn visit(&self, _: &str, visit: &mut dyn FnMut(&str, Kind, &Tensor)) {
        for (name, tensor) in &self.0 {
            visit(name, Kind::Parameter, tensor);
        }
    }

    fn visit_mut(&mut self, _: &str, visit: &mut dyn FnMut(&str, Kind, &mut Tensor)) {
        for (name, tensor) in &mut self.0 {
            visit(name, Kind::Parameter, tensor);
        }
    }
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, &[values.len()]).unwrap()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

const START: [f32; 4] = [0.3, -1.7, 2.5e-3, 0.0];
const GRADIENTS: [[f32; 4]; 4] = [
    [0.1, -0.2, 3.0, 0.0],
    [-0.4, 0.25, 1e-4, 1e-9],
    [0.7, 0.1, -2.0, 5.0],
    [0.3, 0.3, -0.1, -0.2],
];

#[test]
fn defaults_are_those_of_pytorch() {
    for (options, defaults) in [
        (
            format!("{:?}", Sgd::options(0.1)),
            "momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false",
        ),
        (
            format!("{:?}", Adam::options(0.1)),
            "beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0, amsgrad: false",
        ),
        (
            format!("{:?}", AdamW::options(0.1)),
            "beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01, amsgrad: false",
        ),
        (
            format!("{:?}", RmsProp::options(0.1)),
            "alpha: 0.99, eps: 1e-8, weight_decay: 0.0, momentum: 0.0, centered: false",
        ),
        (
            format!("{:?}", Adagrad::options(0.1)),
            "lr_decay: 0.0, weight_decay: 0.0, initial_accumulator_value: 0.0, eps: 1e-10",
        ),
    ] {
        assert!(options.contains(defaults), "{options}");
    }
    let rates = [
        Sgd::default().lr(),
        Adam::default().lr(),
        AdamW::default().lr(),
        RmsProp::default().lr(),
        Adagrad::default().lr(),
    ];
    assert_eq!(rates, [1e-3, 1e-3, 1e-3, 1e-2, 1e-2]);
    let plateau = format!("{:?}", ReduceLrOnPlateau::default());
    let defaults = "mode: Min, factor: 0.1, patience: 10, threshold: Rel(0.0001), cooldown: 0, \
                    min_lr: 0.0, eps: 1e-8";
    assert!(plateau.contains(defaults), "{plateau}");
}

#[test]
fn groups_have_their_own_settings_and_rates() {
    let mut optimizer = Sgd::options(0.5)
        .weight_decay(0.5)
        .group(|name, _| name.ends_with("bias"), |options| options.weight_decay(0.0))
        .group(|name, _| name.starts_with("head"), |options| options.lr(0.25))
        .init()
        .unwrap();
    let one: &[f32] = &[1.0];
    let mut bag = Bag::new(&[("body.weight", one), ("head.weight", one), ("head.bias", one)]);
    let step = |optimizer: &mut dyn Optimizer, bag: &mut Bag| {
        let gradients = bag.gradients(&[Some(one); 3]);
        optimizer.step(bag, &gradients).unwrap();
    };
    step(&mut optimizer, &mut bag);
    // The first matching group decides: head.bias is a bias.
    assert_eq!([0, 1, 2].map(|at| bag.values(at)[0]), [0.25, 0.625, 0.5]);
    // Schedules scale each group's own rate.
    ExponentialLr::new(0.5).apply(1, &mut optimizer).unwrap();
    let rates: Vec<f64> = optimizer.rates().iter().map(|rate| rate.current).collect();
    assert_eq!(rates, [0.25, 0.25, 0.125]);
    optimizer.set_lr(0.0);
    step(&mut optimizer, &mut bag);
    assert_eq!([0, 1, 2].map(|at| bag.values(at)[0]), [0.25, 0.625, 0.5]);
}

#[test]
fn each_parameter_counts_its_own_steps() {
    let gradient: &[f32] = &[2.0];
    let mut bag = Bag::new(&[("early", &[1.0]), ("late", &[1.0])]);
    let mut optimizer = Adam::new(0.1).unwrap();
    let gradients = bag.gradients(&[Some(gradient), None]);
    optimizer.step(&mut bag, &gradients).unwrap();
    let first = bag.values(0);
    let gradients = bag.gradients(&[None, Some(gradient)]);
    optimizer.step(&mut bag, &gradients).unwrap();
    assert_eq!((bits(&bag.values(0)), bits(&bag.values(1))), (bits(&first), bits(&first)));
    assert_eq!(optimizer.steps(), 2);
}

#[test]
fn a_state_that_does_not_fit_is_refused_and_nothing_changes() {
    let mut bag = Bag::new(&[("w", &START)]);
    let mut optimizer = Adam::options(0.1).group(|_, _| false, |options| options).init().unwrap();
    let gradients = bag.gradients(&[Some(&GRADIENTS[0])]);
    optimizer.step(&mut bag, &gradients).unwrap();
    let state = optimizer.state().unwrap();
    let names: Vec<&str> = state.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["steps", "lr", "initial_lr", "w.step", "w.mean", "w.square"]);
    let with = |name: &str, tensor: Tensor| {
        let mut state: Vec<_> = state.iter().filter(|(n, _)| n != name).cloned().collect();
        state.push((name.to_owned(), tensor));
        state
    };
    let without = |name: &str| state.iter().filter(|(n, _)| n != name).cloned().collect();
    for (state, message) in [
        (without("steps"), "there is no tensor steps"),
        (without("w.step"), "unexpected tensor w.mean"),
        (without("w.square"), "there is no tensor w.square"),
        (with("w.velocity", floats(&[0.0])), "unexpected tensor w.velocity"),
        (with("extra", floats(&[0.0])), "unexpected tensor extra"),
        (with("steps", Tensor::scalar(-1i64)), "steps is not a single step count"),
        (with("w.step", floats(&[1.0])), "w.step is not a single step count"),
        (
            with("lr", Tensor::from_slice(&[0.1f64], &[1]).unwrap()),
            "lr should be f64 of shape [2], but is f64 of shape [1]",
        ),
    ] {
        let error = optimizer.load_state(state).unwrap_err();
        let expected = Error::InvalidState { op: "adam", message: message.to_owned() };
        assert_eq!(error, expected);
    }
    let after = optimizer.state().unwrap();
    assert_eq!(format!("{after:?}"), format!("{state:?}"));
    // A tensor of another shape is detected when its parameter is visited.
    optimizer.load_state(with("w.mean", floats(&[0.0]))).unwrap();
    let before = bag.values(0);
    let gradients = bag.gradients(&[Some(&GRADIENTS[1])]);
    let error = optimizer.step(&mut bag, &gradients).unwrap_err();
    assert!(error.to_string().contains("expected the gradient or state of shape [4], got [1]"));
    assert_eq!((bag.values(0), optimizer.steps()), (before, 1));
}

#[test]
fn the_largest_count_stays_and_can_be_saved() {
    let mut bag = Bag::new(&[("w", &START)]);
    let optimizers: [Box<dyn Optimizer>; 5] = [
        Box::new(Sgd::options(0.1).momentum(0.9).init().unwrap()),
        Box::new(Adam::new(0.1).unwrap()),
        Box::new(AdamW::options(0.1).amsgrad(true).init().unwrap()),
        Box::new(RmsProp::new(0.1).unwrap()),
        Box::new(Adagrad::options(0.1).lr_decay(0.1).init().unwrap()),
    ];
    for mut optimizer in optimizers {
        let mut counts = Vec::new();
        for _ in 0..3 {
            let gradients = bag.gradients(&[Some(&GRADIENTS[0])]);
            optimizer.step(&mut bag, &gradients).unwrap();
            let mut state = optimizer.state().unwrap();
            for (name, tensor) in &mut state {
                if ["steps", "w.step"].contains(&name.as_str()) {
                    counts.push(tensor.item::<i64>().unwrap());
                    *tensor = Tensor::scalar(i64::MAX);
                }
            }
            optimizer.load_state(state).unwrap();
        }
        assert_eq!(counts, [1, 1, i64::MAX, i64::MAX, i64::MAX, i64::MAX]);
        assert!(bag.values(0).iter().all(|x| x.is_finite()));
    }
    let mut optimizer = Sgd::new(0.1).unwrap();
    let mut plateau = ReduceLrOnPlateau::new().patience(u64::MAX).cooldown(u64::MAX);
    for largest in ["num_bad_epochs", "cooldown_counter"] {
        plateau.step(1.0, &mut optimizer).unwrap();
        let mut state = plateau.state().unwrap();
        let (_, count) = state.iter_mut().find(|(name, _)| name == largest).unwrap();
        *count = Tensor::scalar(i64::MAX);
        plateau.load_state(state).unwrap();
    }
    // No metric beats the first; the second step begins a cooldown.
    let mut plateau = ReduceLrOnPlateau::new().patience(0).cooldown(u64::MAX);
    for _ in 0..2 {
        plateau.step(1.0, &mut optimizer).unwrap();
        plateau.load_state(plateau.state().unwrap()).unwrap();
    }
}

#[test]
fn a_metric_at_the_threshold_is_no_improvement() {
    let mut optimizer = Sgd::new(0.1).unwrap();
    // The first metric, the last that does not improve on it, and one that does.
    for (mode, threshold, [first, limit, better]) in [
        (Mode::Min, Threshold::Rel(0.5), [8.0, 4.0, 3.9]),
        (Mode::Min, Threshold::Abs(0.5), [8.0, 7.5, 7.4]),
        (Mode::Max, Threshold::Rel(0.5), [8.0, 12.0, 12.1]),
        (Mode::Max, Threshold::Abs(0.5), [8.0, 8.5, 8.6]),
    ] {
        let mut plateau = ReduceLrOnPlateau::new().mode(mode).threshold(threshold).patience(0);
        let reduced = [first, better, first].map(|x| plateau.step(x, &mut optimizer).unwrap());
        assert_eq!(reduced, [false, false, true], "{mode:?} {threshold:?}");
        let mut plateau = ReduceLrOnPlateau::new().mode(mode).threshold(threshold).patience(0);
        let reduced = [first, limit].map(|x| plateau.step(x, &mut optimizer).unwrap());
        assert_eq!(reduced, [false, true], "{mode:?} {threshold:?}");
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    for (error, message) in [
        (Sgd::new(-0.1).unwrap_err(), "sgd: the learning rate should be"),
        (Sgd::new(f64::NAN).unwrap_err(), "sgd: the learning rate should be"),
        (Sgd::options(0.1).momentum(-1.0).init().unwrap_err(), "sgd: the momentum"),
        (Sgd::options(0.1).nesterov(true).init().unwrap_err(), "sgd: nesterov needs a momentum"),
        (Adam::options(0.1).betas(1.0, 0.9).init().unwrap_err(), "adam: beta 1 should be"),
        (AdamW::options(0.1).betas(0.9, -0.1).init().unwrap_err(), "adamw: beta 2 should be"),
        (RmsProp::options(0.1).eps(-1.0).init().unwrap_err(), "rmsprop: eps should be"),
        (Adagrad::options(0.1).lr_decay(-1.0).init().unwrap_err(), "adagrad: the decay of the"),
        (
            Sgd::options(0.1).group(|_, _| true, |options| options.lr(-1.0)).init().unwrap_err(),
            "sgd: the learning rate should be",
        ),
        (
            Sgd::options(0.1)
                .group(|_, _| true, |options| options.group(|_, _| true, |options| options))
                .init()
                .unwrap_err(),
            "sgd: a group cannot have groups",
        ),
    ] {
        assert!(error.to_string().starts_with(message), "{error}");
    }
    let mut bag = Bag::new(&[("w", &START)]);
    let mut optimizer = Sgd::new(0.1).unwrap();
    optimizer.set_lr(f64::INFINITY);
    let gradients = bag.gradients(&[Some(&GRADIENTS[0])]);
    let error = optimizer.step(&mut bag, &gradients).unwrap_err();
    assert!(error.to_string().ends_with("at least 0, got inf"), "{error}");
    assert_eq!(bag.values(0), START);
}

#[test]
fn the_norm_does_not_depend_on_any_order() {
    // Squares of very different magnitudes: a rounded sum would depend on the order.
    let power = |times| (0..times).fold(1.0f32, |product, _| product * 1.5);
    let values: Vec<f32> = (0..999).map(|i| power(i % 67) * (i as f32 - 500.0)).collect();
    let norm = |parts: &[&[f32]]| {
        let bag = Bag(parts
            .iter()
            .map(|part| ("w", floats(part).set_requires_grad(true).unwrap()))
            .collect());
        let given: Vec<Option<&[f32]>> = parts.iter().map(|&part| Some(part)).collect();
        let mut gradients = bag.gradients(&given);
        clip_grad_norm(&bag.parameters(), &mut gradients, f64::INFINITY, 2.0).unwrap()
    };
    let reversed: Vec<f32> = values.iter().rev().copied().collect();
    let whole = norm(&[&values]);
    assert_eq!(whole.to_bits(), norm(&[&reversed]).to_bits());
    assert_eq!(whole.to_bits(), norm(&[&values[..10], &values[10..]]).to_bits());
    assert_eq!(whole.to_bits(), norm(&[&values[300..], &values[..300]]).to_bits());
    let plain: f64 = values.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    assert!((whole / plain.sqrt() - 1.0).abs() < 1e-12);
}

#[test]
fn norms_whose_powers_leave_the_range_clip_too() {
    samebits_cpu_kernels::install();
    for (scale, p) in [(1e200, 2.0), (1e-200, 2.0), (1e150, 3.0), (1.0, 2000.0), (1e-320, 2.0)] {
        let x = Tensor::new([0.0f64, 0.0]).unwrap().set_requires_grad(true).unwrap();
        let y =
            (&x * &Tensor::new([3.0 * scale, 3.0 * scale]).unwrap()).unwrap().sum_all().unwrap();
        let mut gradients = y.backward().unwrap();
        let found = clip_grad_norm(std::slice::from_ref(&x), &mut gradients, scale, p).unwrap();
        let size = samebits_numerics::math::f64::pow(2.0, 1.0 / p);
        assert!((found / (3.0 * scale) / size - 1.0).abs() < 1e-3, "{scale} {p}: {found}");
        if scale >= 1.0 {
            let clipped = gradients.of(&x).unwrap().to_vec::<f64>().unwrap();
            assert!((clipped[0] / scale * size - 1.0).abs() < 1e-5, "{clipped:?}");
        }
    }
}

#[test]
fn clipping_by_norm_scales_all_gradients_by_one_number() {
    let (a, b): (&[f32], &[f32]) = (&[3.0, 0.0], &[-4.0]);
    for (p, norm) in [(2.0, 5.0), (1.0, 7.0), (f64::INFINITY, 4.0), (3.0, 4.497941445275415)] {
        let bag = Bag::new(&[("a", &[0.0, 0.0]), ("b", &[0.0])]);
        let mut gradients = bag.gradients(&[Some(a), Some(b)]);
        let mut parameters = bag.parameters();
        // A shared parameter counts once.
        parameters.push(parameters[0].clone());
        let found = clip_grad_norm(&parameters, &mut gradients, 10.0, p).unwrap();
        assert!((found - norm).abs() < 1e-14, "{p}: {found}");
        let of = |gradients: &Gradients, at: usize| gradients.of(&bag.0[at].1).unwrap().to_vec();
        // The norm is small enough already.
        assert_eq!(
            (of(&gradients, 0).unwrap(), of(&gradients, 1).unwrap()),
            (a.to_vec(), b.to_vec())
        );
        clip_grad_norm(&parameters, &mut gradients, 1.0, p).unwrap();
        let factor = (1.0 / (found + 1e-6)) as f32;
        let scaled = |x: &[f32]| x.iter().map(|x| x * factor).collect::<Vec<f32>>();
        assert_eq!(
            (of(&gradients, 0).unwrap(), of(&gradients, 1).unwrap()),
            (scaled(a), scaled(b))
        );
    }
}

#[test]
fn what_is_not_finite_shows_in_the_norm() {
    for (bad, p) in [(f32::NAN, 2.0), (f32::NAN, f64::INFINITY), (f32::INFINITY, 2.0)] {
        let bag = Bag::new(&[("w", &[0.0, 0.0, 0.0])]);
        let mut gradients = bag.gradients(&[Some(&[1.0, bad, 2.0])]);
        let norm = clip_grad_norm(&bag.parameters(), &mut gradients, 1.0, p).unwrap();
        assert_eq!((norm.is_nan(), norm.is_infinite()), (bad.is_nan(), bad.is_infinite()));
        let after: Vec<f32> = gradients.of(&bag.0[0].1).unwrap().to_vec().unwrap();
        assert!(after[1].is_nan());
        assert_eq!(after[0].is_nan(), bad.is_nan());
    }
}

#[test]
fn clipping_by_value_clamps_and_keeps_nan() {
    let bag = Bag::new(&[("w", &[0.0; 5]), ("frozen", &[0.0])]);
    let mut gradients = bag.gradients(&[Some(&[-3.0, -0.5, f32::NAN, 0.0, f32::INFINITY]), None]);
    clip_grad_value(&bag.parameters(), &mut gradients, 1.5).unwrap();
    let after: Vec<f32> = gradients.of(&bag.0[0].1).unwrap().to_vec().unwrap();
    assert_eq!((after[0], after[1], after[3], after[4]), (-1.5, -0.5, 0.0, 1.5));
    assert!(after[2].is_nan());
    assert!(gradients.of(&bag.0[1].1).is_none());
    for (error, message) in [
        (
            clip_grad_value(&bag.parameters(), &mut gradients, -1.0).unwrap_err(),
            "clip_grad_value: the limit should be at least 0, got -1",
        ),
        (
            clip_grad_norm(&bag.parameters(), &mut gradients, f64::NAN, 2.0).unwrap_err(),
            "clip_grad_norm: the largest norm should be at least 0, got NaN",
        ),
        (
            clip_grad_norm(&bag.parameters(), &mut gradients, 1.0, 0.0).unwrap_err(),
            "clip_grad_norm: p should be above 0, got 0",
        ),
    ] {
        assert_eq!(error.to_string(), message);
    }
}

#[track_caller]
fn close(schedule: &dyn Schedule, initial: f64, figures: &[(u64, f64)]) {
    for &(step, expected) in figures {
        let lr = schedule.lr(initial, step).unwrap();
        assert!((lr - expected).abs() <= 1e-15 + 1e-12 * expected, "{step}: {lr}, {expected}");
    }
}

/// PyTorch's documented formulas, computed by hand.
#[test]
fn schedules_have_the_figures_of_pytorch() {
    close(&StepLr::new(30), 0.05, &[(0, 0.05), (29, 0.05), (30, 0.005), (59, 0.005), (60, 0.0005)]);
    close(&StepLr::new(2).gamma(0.5), 1.0, &[(5, 0.25)]);
    close(&MultiStepLr::new([30, 80]), 0.05, &[(29, 0.05), (30, 0.005), (79, 0.005), (80, 0.0005)]);
    close(&ExponentialLr::new(0.9), 0.1, &[(0, 0.1), (1, 0.09), (2, 0.081), (3, 0.0729)]);
    // 1/3 of 0.05, then a tenth of 2/3 more in each of 5 steps, as in PyTorch's own example.
    let warm_up = LinearLr::new();
    close(&warm_up, 0.05, &[(0, 0.05 / 3.0), (1, 0.05 * 7.0 / 15.0), (4, 0.05 * 13.0 / 15.0)]);
    close(&warm_up, 0.05, &[(5, 0.05), (100, 0.05)]);
    let half = LinearLr::new().start_factor(0.5).end_factor(0.25).total_iters(4);
    close(&half, 0.05, &[(0, 0.025), (1, 0.021875), (2, 0.01875), (3, 0.015625), (4, 0.0125)]);
    // cos(π/3) = 1/2 and cos(2π/3) = -1/2.
    let cosine = CosineAnnealingLr::new(6).eta_min(0.2);
    close(&cosine, 1.0, &[(0, 1.0), (2, 0.8), (3, 0.6), (4, 0.4), (6, 0.2), (9, 0.6), (12, 1.0)]);
    close(&LambdaLr(|epoch| if epoch < 3 { 1.0 } else { 0.5 }), 0.1, &[(2, 0.1), (3, 0.05)]);
    let both = LinearLr::new().start_factor(0.5).total_iters(2).then(2, ExponentialLr::new(0.5));
    close(&both, 1.0, &[(0, 0.5), (1, 0.75), (2, 1.0), (3, 0.5), (4, 0.25)]);
    let boxed: Box<dyn Schedule> = Box::new(both);
    close(&boxed, 1.0, &[(3, 0.5)]);
    // 20 steps, of which 6 rise: from 1/25 at step 0 to 1 at step 5, then to 1/250,000 at step 19.
    let cycle = OneCycleLr::new(1.0, 20);
    close(&cycle, 9.0, &[(0, 0.04), (5, 1.0), (19, 4e-6), (12, 0.500002), (1000, 4e-6)]);
    let line = OneCycleLr::new(2.0, 11)
        .pct_start(4.0 / 11.0)
        .anneal_strategy(Anneal::Linear)
        .div_factor(10.0)
        .final_div_factor(2.0)
        .three_phase(true);
    close(&line, 9.0, &[(0, 0.2), (1, 0.8), (3, 2.0), (4, 1.4), (6, 0.2), (8, 0.15), (10, 0.1)]);
}

#[test]
fn a_schedule_without_meaning_is_an_error_and_no_rate_changes() {
    let mut optimizer = Sgd::new(0.1).unwrap();
    let without_meaning: [(Box<dyn Schedule>, &str); 4] = [
        (Box::new(StepLr::new(0)), "step_lr: the step size should be at least 1, got 0"),
        (Box::new(CosineAnnealingLr::new(0)), "cosine_annealing_lr: t_max should be at least 1"),
        (Box::new(OneCycleLr::new(1.0, 0)), "one_cycle_lr: expected at least 1 step"),
        (Box::new(OneCycleLr::new(1.0, 5).pct_start(2.0)), "one_cycle_lr: expected"),
    ];
    for (schedule, message) in without_meaning {
        let error = schedule.apply(3, &mut optimizer).unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
    }
    assert_eq!(optimizer.lr(), 0.1);
    // The extremes of steps and totals.
    for step in [0, 1, u64::MAX] {
        for total in [1, 2, 3, u64::MAX] {
            assert!(OneCycleLr::new(1.0, total).lr(0.1, step).unwrap().is_finite());
            assert!(CosineAnnealingLr::new(total).lr(0.1, step).unwrap().is_finite());
        }
    }
}

#[test]
fn a_plateau_lowers_the_rates_and_its_state_goes_on() {
    let metrics = [1.0, 0.5, 0.5, 0.49999, 0.6, f64::NAN, 0.6, 0.6, 0.6, 0.6, 0.1, 0.2, 0.3, 0.4];
    let make = || ReduceLrOnPlateau::new().patience(1).factor(0.5).cooldown(1).min_lr(0.03);
    // 0.49999 does not improve by a 10,000th. After a reduction, one metric falls in the cooldown.
    let expected =
        [0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03];
    let mut optimizer = Sgd::new(0.1).unwrap();
    let mut plateau = make();
    for (i, (metric, expected)) in metrics.into_iter().zip(expected).enumerate() {
        plateau.step(metric, &mut optimizer).unwrap();
        assert_eq!(optimizer.lr(), expected, "{i}");
        // Saved and loaded after every metric.
        let state = plateau.state().unwrap();
        plateau = make();
        plateau.load_state(state).unwrap();
    }
    let mut optimizer = Sgd::new(0.1).unwrap();
    let mut plateau = ReduceLrOnPlateau::new().mode(Mode::Max).patience(0).eps(0.0);
    plateau = plateau.threshold(Threshold::Abs(0.5));
    for (metric, lowered) in [(1.0, false), (1.5, true), (1.6, false), (1.0, true)] {
        assert_eq!(plateau.step(metric, &mut optimizer).unwrap(), lowered, "{metric}");
    }
    let error = make().factor(1.0).step(0.0, &mut optimizer).unwrap_err();
    assert!(error.to_string().starts_with("reduce_lr_on_plateau: the factor"), "{error}");
    let error = plateau.load_state(Vec::new()).unwrap_err();
    assert!(error.to_string().contains("there is no tensor best"), "{error}");
}

#[test]
fn a_state_has_the_type_of_its_parameter() {
    let x = Tensor::full(&[3], 0.7, DType::F64).unwrap().set_requires_grad(true).unwrap();
    let gradients = x.square().unwrap().sum_all().unwrap().backward().unwrap();
    let mut bag = Bag(vec![("x", x)]);
    let mut optimizer = RmsProp::options(0.1).centered(true).momentum(0.5).init().unwrap();
    optimizer.step(&mut bag, &gradients).unwrap();
    let types = optimizer.state().unwrap().into_iter().skip(4).map(|(_, tensor)| tensor.dtype());
    assert_eq!(types.collect::<Vec<_>>(), [DType::F64; 3]);
}

#[test]
fn gradients_of_several_batches_add_up_in_order_and_only_those_of_leaves_stay() {
    let x = floats(&[3.0, -1.0]).set_requires_grad(true).unwrap();
    let y = floats(&[0.5]).set_requires_grad(true).unwrap();
    let batch = |scale: f32| {
        let product = x.mul(&floats(&[scale, scale])).unwrap();
        (product.clone(), product.square().unwrap().sum_all().unwrap().backward().unwrap())
    };
    let of = |gradients: &Gradients, x: &Tensor| gradients.of(x).unwrap().to_vec::<f32>().unwrap();
    let ((product, mut sum), (_, second)) = (batch(0.1), batch(0.7));
    let expected: Vec<f32> = of(&sum, &x).iter().zip(of(&second, &x)).map(|(a, b)| a + b).collect();
    sum.accumulate(&second).unwrap();
    assert_eq!(bits(&of(&sum, &x)), bits(&expected));
    assert!(sum.of(&product).is_none());
    // A parameter that only some batches depend on.
    sum.accumulate(&y.square().unwrap().sum_all().unwrap().backward().unwrap()).unwrap();
    sum.scale(1.0 / 3.0).unwrap();
    let third = (1.0 / 3.0) as f32;
    assert_eq!(of(&sum, &y), [third]);
    let expected: Vec<f32> = expected.iter().map(|x| x * third).collect();
    assert_eq!(bits(&of(&sum, &x)), bits(&expected));
}

#[test]
fn gradients_from_before_a_step_or_a_load_are_refused() {
    let mut bag = Bag::new(&[("x", &[1.0, 2.0]), ("y", &[3.0])]);
    let mut sgd = Sgd::new(0.5).unwrap();
    let loss = |bag: &Bag| bag.0[0].1.square().unwrap().sum_all().unwrap().backward().unwrap();
    let gradients = loss(&bag);
    sgd.step(&mut bag, &gradients).unwrap();
    assert_eq!(bag.values(0), [0.0, 0.0]);
    let state = bag.state_dict();
    let error = sgd.step(&mut bag, &gradients).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    assert!(error.to_string().contains("the gradient of x was taken before"), "{error}");
    assert_eq!((sgd.steps(), bag.values(0)), (1, vec![0.0, 0.0]));
    // Loading, moving and converting replace parameters, too.
    let gradients = loss(&bag);
    bag.load_state_dict(&state, true).unwrap();
    assert!(sgd.step(&mut bag, &gradients).is_err());
    let gradients = loss(&bag);
    bag.to_dtype(DType::F64).unwrap();
    assert!(sgd.step(&mut bag, &gradients).is_err());
    // A parameter without a gradient is no error, nor is a gradient of something else.
    let gradients = loss(&bag);
    sgd.step(&mut bag, &gradients).unwrap();
    let other = Bag::new(&[("x", &[1.0, 2.0])]);
    sgd.step(&mut bag, &loss(&other)).unwrap();
    assert_eq!(sgd.steps(), 3);
}

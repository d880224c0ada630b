//! Activations, losses, schedules and optimisers against figures computed by PyTorch, with its
//! defaults unless a case names an option. `torch/generate.py` writes `torch/figures.json`.

extern crate samebits_autograd as samebits;

#[path = "torch/functions.rs"]
mod functions;

use std::sync::LazyLock;

use samebits_autograd::functional::{self as f, BatchReduction, Reduction};
use samebits_autograd::nn::{self, Layer, Module};
use samebits_autograd::optim::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, Anneal, ConstantLr, CosineAnnealingLr,
    CosineAnnealingWarmRestarts, CyclicLr, CyclicMode, ExponentialLr, LinearLr, MultiStepLr,
    OneCycleLr, Optimizer, PolynomialLr, RAdam, RmsProp, Schedule, Sgd, StepLr,
};
use samebits_autograd::{DType, Result, Tensor};
use serde_json::Value;

static FIGURES: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("torch/figures.json")).unwrap());

/// Returns the cases of one kind.
fn cases(kind: &str) -> &'static [Value] {
    FIGURES[kind].as_array().unwrap()
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap()
}

/// Reads a number. JSON has no NaN and no infinities, so they are strings.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

/// Returns an option of a case.
fn option(case: &Value, key: &str) -> Option<f64> {
    case["options"].get(key).map(number)
}

fn flag(case: &Value, key: &str) -> Option<bool> {
    case["options"].get(key).map(|value| value.as_bool().unwrap())
}

fn count(case: &Value, key: &str) -> Option<u64> {
    case["options"].get(key).map(|value| value.as_u64().unwrap())
}

#[track_caller]
fn close(found: &[f64], expected: &Value, tolerance: f64, what: &str) {
    let expected = numbers(expected);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
        let near = (a - b).abs() <= tolerance * b.abs().max(1e-3);
        assert!(a == b || near || (a.is_nan() && b.is_nan()), "{what}, element {i}: {a} and {b}");
    }
}

fn leaf(values: &[f64], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape).unwrap().set_requires_grad(true).unwrap()
}

/// The results of function, method and layer.
type Forms = [Result<Tensor>; 3];

fn activation(name: &str, parameters: &[f64], x: &Tensor) -> Forms {
    let a = parameters.first().copied();
    // The layer's defaults, if the case uses them.
    match name {
        "celu" => {
            [f::celu(x, a.unwrap()), x.celu(a.unwrap()), nn::CELU::new(a.unwrap()).forward(x)]
        }
        "hardshrink" => {
            [f::hardshrink(x, 0.5), x.hardshrink(0.5), nn::Hardshrink::default().forward(x)]
        }
        "hardsigmoid" => [f::hardsigmoid(x), x.hardsigmoid(), nn::Hardsigmoid.forward(x)],
        "hardswish" => [f::hardswish(x), x.hardswish(), nn::Hardswish.forward(x)],
        "mish" => [f::mish(x), x.mish(), nn::Mish.forward(x)],
        "selu" => [f::selu(x), x.selu(), nn::SELU.forward(x)],
        "softshrink" => {
            [f::softshrink(x, 0.5), x.softshrink(0.5), nn::Softshrink::default().forward(x)]
        }
        "softsign" => [f::softsign(x), x.softsign(), nn::Softsign.forward(x)],
        "tanhshrink" => [f::tanhshrink(x), x.tanhshrink(), nn::Tanhshrink.forward(x)],
        "threshold" => {
            let (at, value) = (parameters[0], parameters[1]);
            [
                f::threshold(x, at, value),
                x.threshold(at, value),
                nn::Threshold::new(at, value).forward(x),
            ]
        }
        _ => panic!("{name}"),
    }
}

#[test]
fn activations() {
    let special = numbers(&FIGURES["special"]);
    assert_eq!(nn::CELU::default().alpha, 1.0);
    for case in cases("activations") {
        let (name, parameters) = (text(case, "name"), numbers(&case["parameters"]));
        let expected = numbers(&case["y"]);
        // PyTorch's formulas treat NaN as some number, and some give NaN at an infinity; ours keep
        // NaN and give the limit.
        let figures = |found: &[f64], key: &str| {
            let mut figures = case[key].as_array().unwrap().clone();
            for ((figure, &x), &found) in figures.iter_mut().zip(&special).zip(found) {
                let instead = if x.is_nan() { "nan".into() } else { found.to_string().into() };
                if x.is_nan() || (number(figure).is_nan() && !found.is_nan()) {
                    *figure = instead;
                }
            }
            Value::Array(figures)
        };
        for form in activation(name, &parameters, &leaf(&special, &[special.len()])) {
            let found = form.unwrap().to_vec::<f64>().unwrap();
            close(&found, &figures(&found, "y"), 1e-12, name);
            let at_infinity = special.iter().zip(&found).filter(|(x, _)| x.is_infinite());
            assert!(at_infinity.into_iter().all(|(_, y)| !y.is_nan()), "{name}: {found:?}");
        }
        let x = leaf(&special, &[special.len()]);
        let [y, ..] = activation(name, &parameters, &x);
        let y = y.unwrap();
        for (i, (a, b)) in y.to_vec::<f64>().unwrap().iter().zip(expected).enumerate() {
            let signs = (a.is_sign_negative(), b.is_sign_negative());
            assert!(b.is_nan() || signs.0 == signs.1, "{name}({}): {a} and {b}", special[i]);
        }
        // Some of PyTorch's constants are f32.
        let gradients = y.backward_from(y.ones_like().unwrap(), false).unwrap();
        let found = gradients.of(&x).unwrap().to_vec::<f64>().unwrap();
        close(&found, &figures(&found, "grad"), 1e-6, &format!("gradient of {name}"));
    }
    for (case, forms) in cases("along").iter().zip([
        |x: &Tensor| [f::glu(x, 1), x.glu(1), nn::GLU::new(1).forward(x)],
        |x: &Tensor| [f::softmin(x, 1), x.softmin(1), nn::Softmin::new(1).forward(x)],
    ]) {
        let line = |n: usize, from: f64, to: f64| -> Vec<f64> {
            (0..n).map(|i| from + (to - from) * i as f64 / (n - 1) as f64).collect()
        };
        let x = leaf(&line(24, -2.0, 3.0), &[2, 4, 3]);
        let name = text(case, "name");
        for form in forms(&x) {
            let y = form.unwrap();
            close(&y.to_vec::<f64>().unwrap(), &case["y"], 1e-9, name);
            let grad = Tensor::from_slice(&line(y.numel(), -1.0, 1.0), y.shape()).unwrap();
            let gradients = y.backward_from(grad, false).unwrap();
            close(&gradients.of(&x).unwrap().to_vec::<f64>().unwrap(), &case["grad"], 1e-9, name);
        }
    }
}

#[test]
fn activations_refuse_what_they_cannot_compute() {
    let x = leaf(&[1.0, 2.0, 3.0], &[3]);
    for (result, message) in [
        (x.celu(0.0), "celu: alpha must be finite and not 0, got 0"),
        (x.softshrink(-1.0), "softshrink: lambda must be at least 0, got -1"),
        (x.glu(0), "glu: dimension 0 of shape [3] has an odd size"),
        (x.glu(1), "glu: "),
        (nn::Softmax2d.forward(&x), "Softmax2d: expected 3 or 4 dimensions, got shape [3]"),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    let image = leaf(&[0.0, 0.0, 0.0, 0.0], &[1, 2, 1, 2]);
    assert_eq!(nn::Softmax2d.forward(&image).unwrap().to_vec::<f64>().unwrap(), [0.5; 4]);
}

fn loss(case: &Value, x: &[Tensor]) -> Result<Tensor> {
    let reduction = match case["reduction"].as_str() {
        Some("none") => Reduction::None,
        Some("sum") => Reduction::Sum,
        _ => Reduction::Mean,
    };
    let weight = || {
        let weight = numbers(case["options"].get("weight")?);
        Some(Tensor::from_slice(&weight, &[weight.len()]).unwrap())
    };
    // A default for each option that the case lacks.
    macro_rules! built {
        ($name:ident { $($field:ident: $value:expr),* }) => {{
            let mut loss = nn::$name::default();
            loss.reduction = reduction;
            $(if let Some(value) = $value {
                loss.$field = value;
            })*
            loss
        }};
    }
    match text(case, "name") {
        "MSELoss" => built!(MSELoss {}).forward(&x[0], &x[1]),
        "L1Loss" => built!(L1Loss {}).forward(&x[0], &x[1]),
        "SmoothL1Loss" => built!(SmoothL1Loss {}).forward(&x[0], &x[1]),
        "HuberLoss" => built!(HuberLoss {}).forward(&x[0], &x[1]),
        "CrossEntropyLoss" => built!(CrossEntropyLoss {}).forward(&x[0], &x[1]),
        "NLLLoss" => built!(NLLLoss {}).forward(&x[0], &x[1]),
        "BCELoss" => built!(BCELoss {}).forward(&x[0], &x[1]),
        "BCEWithLogitsLoss" => built!(BCEWithLogitsLoss {}).forward(&x[0], &x[1]),
        "KLDivLoss" => {
            let mut loss = nn::KLDivLoss::default();
            if reduction != Reduction::Mean {
                loss.reduction = BatchReduction::Of(reduction);
            }
            loss.forward(&x[0], &x[1])
        }
        "PoissonNLLLoss" => {
            let (full, log_input) = (flag(case, "full"), flag(case, "log_input"));
            built!(PoissonNLLLoss { full: full, log_input: log_input }).forward(&x[0], &x[1])
        }
        "GaussianNLLLoss" => {
            let (full, eps) = (flag(case, "full"), option(case, "eps"));
            built!(GaussianNLLLoss { full: full, eps: eps }).forward(&x[0], &x[1], &x[2])
        }
        "HingeEmbeddingLoss" => {
            built!(HingeEmbeddingLoss { margin: option(case, "margin") }).forward(&x[0], &x[1])
        }
        "MarginRankingLoss" => {
            let loss = built!(MarginRankingLoss { margin: option(case, "margin") });
            loss.forward(&x[0], &x[1], &x[2])
        }
        "CosineEmbeddingLoss" => {
            let loss = built!(CosineEmbeddingLoss { margin: option(case, "margin") });
            loss.forward(&x[0], &x[1], &x[2])
        }
        "TripletMarginLoss" => {
            let (margin, p, swap) = (option(case, "margin"), option(case, "p"), flag(case, "swap"));
            let loss = built!(TripletMarginLoss { margin: margin, p: p, swap: swap });
            loss.forward(&x[0], &x[1], &x[2])
        }
        "SoftMarginLoss" => built!(SoftMarginLoss {}).forward(&x[0], &x[1]),
        "MultiMarginLoss" => {
            let (p, margin) = (count(case, "p").map(|p| p as u32), option(case, "margin"));
            let weight = weight().map(Some);
            let loss = built!(MultiMarginLoss { p: p, margin: margin, weight: weight });
            loss.forward(&x[0], &x[1])
        }
        "MultiLabelMarginLoss" => built!(MultiLabelMarginLoss {}).forward(&x[0], &x[1]),
        "MultiLabelSoftMarginLoss" => {
            let loss = built!(MultiLabelSoftMarginLoss { weight: weight().map(Some) });
            loss.forward(&x[0], &x[1])
        }
        "CosineSimilarity" => nn::CosineSimilarity::default().forward(&x[0], &x[1]),
        "PairwiseDistance" => nn::PairwiseDistance::default().forward(&x[0], &x[1]),
        name => panic!("{name}"),
    }
}

#[test]
fn losses() {
    for case in cases("losses") {
        let what = format!("{} {} {}", case["name"], case["options"], case["reduction"]);
        let parts = |key: &str| case[key].as_array().unwrap();
        let inputs: Vec<Tensor> = (0..parts("inputs").len())
            .map(|i| {
                let shape: Vec<usize> =
                    numbers(&parts("shapes")[i]).iter().map(|&size| size as usize).collect();
                let values = numbers(&parts("inputs")[i]);
                if parts("integers")[i].as_bool().unwrap() {
                    let values: Vec<i64> = values.iter().map(|&value| value as i64).collect();
                    return Tensor::from_slice(&values, &shape).unwrap();
                }
                let input = Tensor::from_slice(&values, &shape).unwrap();
                if i == 0 { input.set_requires_grad(true).unwrap() } else { input }
            })
            .collect();
        let y = loss(case, &inputs).unwrap_or_else(|error| panic!("{what}: {error}"));
        close(&y.to_vec::<f64>().unwrap(), &case["y"], 1e-10, &what);
        let gradients = y.backward_from(y.ones_like().unwrap(), false).unwrap();
        let found = gradients.of(&inputs[0]).unwrap().to_vec::<f64>().unwrap();
        close(&found, &case["grad"], 1e-10, &format!("gradient of {what}"));
    }
}

#[test]
fn losses_refuse_what_they_cannot_compute() {
    let x = leaf(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let y = leaf(&[1.0, 2.0], &[2]);
    let classes = Tensor::new([0i64, 2]).unwrap();
    let r = Reduction::Mean;
    for (result, op) in [
        (f::poisson_nll_loss(&x, &y, true, false, 1e-8, r), "poisson_nll_loss"),
        (f::gaussian_nll_loss(&x, &x, &y.neg().unwrap(), false, 1e-6, r), "gaussian_nll_loss"),
        (f::gaussian_nll_loss(&x, &x, &x, false, 0.0, r), "gaussian_nll_loss"),
        (f::gaussian_nll_loss(&x, &x, &x.sum(()).unwrap(), false, 1e-6, r), "gaussian_nll_loss"),
        (f::hinge_embedding_loss(&x, &y, 1.0, r), "hinge_embedding_loss"),
        (f::margin_ranking_loss(&x, &x, &y, 0.0, r), "margin_ranking_loss"),
        (f::cosine_embedding_loss(&x, &x, &x, 0.0, r), "cosine_embedding_loss"),
        (f::soft_margin_loss(&x, &y, r), "soft_margin_loss"),
        (f::multi_margin_loss(&x, &classes, 1, 1.0, None, r), "multi_margin_loss"),
        (f::multi_margin_loss(&x, &classes, 3, 1.0, None, r), "multi_margin_loss"),
        (f::multilabel_margin_loss(&y, &classes, r), "multilabel_margin_loss"),
        (f::multilabel_soft_margin_loss(&x, &y, None, r), "multilabel_soft_margin_loss"),
        (f::triplet_margin_loss(&x, &x, &y, 1.0, 2.0, 1e-6, false, r), "triplet_margin_loss"),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with(&format!("{op}: ")), "{op}: {error}");
    }
    // As the function with the distance of the other.
    let distance = |a: &Tensor, b: &Tensor| f::pairwise_distance(a, b, 2.0, 1e-6, false);
    let (a, b, c) = (&x, &x.flip(0).unwrap(), &x.square().unwrap());
    let own = f::triplet_margin_with_distance_loss(a, b, c, distance, 1.0, true, r).unwrap();
    let same = f::triplet_margin_loss(a, b, c, 1.0, 2.0, 1e-6, true, r).unwrap();
    assert_eq!(own.to_bytes().unwrap(), same.to_bytes().unwrap());
}

fn schedule(case: &Value) -> Box<dyn Schedule> {
    let whole = |key: &str| count(case, key).unwrap();
    macro_rules! with {
        ($schedule:expr, $($name:ident: $value:expr),*) => {{
            let mut schedule = $schedule;
            $(if let Some(value) = $value {
                schedule = schedule.$name(value);
            })*
            Box::new(schedule)
        }};
    }
    match text(case, "name") {
        "StepLR" => Box::new(StepLr::new(whole("step_size"))),
        "MultiStepLR" => with!(MultiStepLr::new([3, 7, 8]), gamma: option(case, "gamma")),
        "ExponentialLR" => Box::new(ExponentialLr::new(option(case, "gamma").unwrap())),
        "LinearLR" => with!(
            LinearLr::new(),
            start_factor: option(case, "start_factor"),
            end_factor: option(case, "end_factor"),
            total_iters: count(case, "total_iters")
        ),
        "ConstantLR" => Box::new(ConstantLr::new()),
        "PolynomialLR" => with!(
            PolynomialLr::new(),
            total_iters: count(case, "total_iters"),
            power: option(case, "power")
        ),
        "CosineAnnealingLR" => {
            with!(CosineAnnealingLr::new(whole("T_max")), eta_min: option(case, "eta_min"))
        }
        "CosineAnnealingWarmRestarts" => with!(
            CosineAnnealingWarmRestarts::new(whole("T_0")),
            t_mult: count(case, "T_mult"),
            eta_min: option(case, "eta_min")
        ),
        "CyclicLR" => {
            let mode = case["options"].get("mode").map(|mode| match mode.as_str().unwrap() {
                "triangular2" => CyclicMode::Triangular2,
                _ => CyclicMode::ExpRange { gamma: option(case, "gamma").unwrap() },
            });
            with!(
                CyclicLr::new(option(case, "base_lr").unwrap(), option(case, "max_lr").unwrap()),
                step_size_up: count(case, "step_size_up"),
                step_size_down: count(case, "step_size_down"),
                mode: mode
            )
        }
        "OneCycleLR" => {
            let anneal = case["options"].get("anneal_strategy").map(|_| Anneal::Linear);
            with!(
                OneCycleLr::new(option(case, "max_lr").unwrap(), whole("total_steps")),
                pct_start: option(case, "pct_start"),
                anneal_strategy: anneal,
                three_phase: flag(case, "three_phase"),
                cycle_momentum: flag(case, "cycle_momentum"),
                base_momentum: option(case, "base_momentum"),
                max_momentum: option(case, "max_momentum"),
                div_factor: option(case, "div_factor"),
                final_div_factor: option(case, "final_div_factor")
            )
        }
        name => panic!("{name}"),
    }
}

#[test]
fn schedules() {
    for case in cases("schedules") {
        let what = format!("{} {} {}", case["name"], case["options"], case["optimizer"]);
        let schedule = schedule(case);
        let (mut optimizer, own): (Box<dyn Optimizer>, f64) = match text(case, "optimizer") {
            "SGD" => (Box::new(Sgd::options(0.1).momentum(0.5).init().unwrap()), 0.5),
            _ => (Box::new(Adam::new(0.1).unwrap()), 0.9),
        };
        let steps = (0..20).map(|step| {
            schedule.apply(step, &mut *optimizer).unwrap();
            (optimizer.lr(), optimizer.rates()[0].momentum.unwrap_or(own))
        });
        let (rates, momenta): (Vec<f64>, Vec<f64>) = steps.unzip();
        close(&rates, &case["rates"], 1e-9, &what);
        close(&momenta, &case["momenta"], 1e-9, &format!("momentum of {what}"));
    }
}

#[derive(Module)]
struct One {
    weight: Tensor,
}

const START: [f64; 4] = [0.5, -1.25, 2.0, 0.0];
const GRADIENTS: [[f64; 4]; 5] = [
    [0.3, -2.0, 0.0, 1e-3],
    [-0.7, 0.5, 1.5, -2.0],
    [0.0, 0.25, -1.0, 3.0],
    [4.0, -0.1, 0.2, 0.5],
    [0.9, 0.9, -0.9, 0.01],
];

fn one() -> One {
    One { weight: leaf(&START, &[4]) }
}

/// Takes a step along a gradient.
fn step(model: &mut One, optimizer: &mut dyn Optimizer, gradient: [f64; 4]) -> Result<()> {
    let gradient = Tensor::from_slice(&gradient, &[4])?;
    let gradients = model.weight.mul(&gradient)?.sum(())?.backward()?;
    optimizer.step(model, &gradients)
}

fn optimizer(case: &Value) -> Box<dyn Optimizer> {
    macro_rules! with {
        ($optimizer:ident, $($name:ident: $value:expr),*) => {{
            let mut options = match option(case, "lr") {
                Some(lr) => $optimizer::options(lr),
                None => Default::default(),
            };
            if let Some(maximize) = flag(case, "maximize") {
                options = options.maximize(maximize);
            }
            if let Some(decay) = option(case, "weight_decay") {
                options = options.weight_decay(decay);
            }
            $(if let Some(value) = $value {
                options = options.$name(value);
            })*
            let optimizer: $optimizer = options.init().unwrap();
            Box::new(optimizer)
        }};
    }
    let number = |key| option(case, key);
    macro_rules! adam {
        ($optimizer:ident $(, $name:ident)*) => {{
            let betas = case["options"].get("betas").map(numbers);
            let mut options = match number("lr") {
                Some(lr) => $optimizer::options(lr),
                None => Default::default(),
            };
            if let Some(betas) = betas {
                options = options.betas(betas[0], betas[1]);
            }
            $(options = options.$name(flag(case, stringify!($name)).unwrap_or(false));)*
            options = options.maximize(flag(case, "maximize").unwrap_or(false));
            if let Some(eps) = number("eps") {
                options = options.eps(eps);
            }
            if let Some(decay) = number("weight_decay") {
                options = options.weight_decay(decay);
            }
            let optimizer: $optimizer = options.init().unwrap();
            Box::new(optimizer)
        }};
    }
    match text(case, "name") {
        "SGD" => with!(
            Sgd,
            momentum: number("momentum"),
            dampening: number("dampening"),
            nesterov: flag(case, "nesterov")
        ),
        "Adam" => adam!(Adam, amsgrad),
        "AdamW" => adam!(AdamW, amsgrad),
        "Adamax" => adam!(Adamax),
        "RAdam" => adam!(RAdam, decoupled_weight_decay),
        "Adadelta" => with!(Adadelta, rho: number("rho"), eps: number("eps")),
        "RMSprop" => with!(
            RmsProp,
            alpha: number("alpha"),
            eps: number("eps"),
            momentum: number("momentum"),
            centered: flag(case, "centered")
        ),
        "Adagrad" => with!(
            Adagrad,
            lr_decay: number("lr_decay"),
            initial_accumulator_value: number("initial_accumulator_value"),
            eps: number("eps")
        ),
        name => panic!("{name}"),
    }
}

#[test]
fn optimizers() {
    for case in cases("optimizers") {
        let what = format!("{} {}", case["name"], case["options"]);
        let (mut model, mut optimizer) = (one(), optimizer(case));
        for (t, expected) in case["values"].as_array().unwrap().iter().enumerate() {
            step(&mut model, &mut *optimizer, GRADIENTS[t % GRADIENTS.len()]).unwrap();
            let found = model.weight.to_vec::<f64>().unwrap();
            close(&found, expected, 1e-7, &format!("{what}, step {t}"));
        }
    }
    assert_eq!(Sgd::default().lr(), 1e-3);
    assert_eq!(Adam::default().lr(), 1e-3);
    assert_eq!(AdamW::default().lr(), 1e-3);
    assert_eq!(RmsProp::default().lr(), 1e-2);
    assert_eq!(Adagrad::default().lr(), 1e-2);
    assert_eq!(Adadelta::default().lr(), 1.0);
    assert_eq!(Adamax::default().lr(), 2e-3);
    assert_eq!(RAdam::default().lr(), 1e-3);
}

/// The momentum of a schedule is used by the steps, and saved in the state.
#[test]
fn a_cycled_momentum_is_used_and_saved() {
    let run = |momentum: Option<f64>, cut: bool| {
        let (mut model, mut optimizer) = (one(), Sgd::new(0.1).unwrap());
        optimizer.rates_mut()[0].momentum = momentum;
        for (t, gradient) in GRADIENTS.into_iter().enumerate() {
            if cut && t == 2 {
                let state = optimizer.state().unwrap();
                optimizer = Sgd::new(0.1).unwrap();
                optimizer.load_state(state).unwrap();
            }
            step(&mut model, &mut optimizer, gradient).unwrap();
        }
        model.weight.to_bytes().unwrap()
    };
    let whole = run(Some(0.9), false);
    assert_eq!(run(Some(0.9), true), whole);
    assert_ne!(run(None, false), whole);
    let (mut model, mut fixed) = (one(), Sgd::options(0.1).momentum(0.9).init().unwrap());
    GRADIENTS.into_iter().for_each(|gradient| step(&mut model, &mut fixed, gradient).unwrap());
    assert_eq!(model.weight.to_bytes().unwrap(), whole);

    let mut adagrad = Adagrad::default();
    OneCycleLr::new(0.1, 20).apply(3, &mut adagrad).unwrap();
    let error = step(&mut one(), &mut adagrad, GRADIENTS[0]).unwrap_err().to_string();
    assert_eq!(error, "adagrad: the schedule sets a momentum, but the optimiser has none");
    OneCycleLr::new(0.1, 20).cycle_momentum(false).apply(3, &mut Adagrad::default()).unwrap();
    let mut wrong = Adam::default();
    OneCycleLr::new(0.1, 20).max_momentum(1.5).apply(0, &mut wrong).unwrap();
    let error = step(&mut one(), &mut wrong, GRADIENTS[0]).unwrap_err().to_string();
    assert!(error.starts_with("adam: beta 1 should be"), "{error}");
}

#[test]
fn a_state_of_another_model_is_refused() {
    let (mut model, mut first) = (one(), Adam::default());
    step(&mut model, &mut first, GRADIENTS[0]).unwrap();
    let other = |weight: Tensor| {
        let mut model = One { weight: weight.set_requires_grad(true).unwrap() };
        let mut optimizer = Adam::default();
        optimizer.load_state(first.state().unwrap()).unwrap();
        let gradients = model.weight.sum(()).unwrap().backward().unwrap();
        let before = model.weight.to_bytes().unwrap();
        let error = optimizer.step(&mut model, &gradients).unwrap_err().to_string();
        assert_eq!(model.weight.to_bytes().unwrap(), before);
        error
    };
    let error = other(Tensor::ones(&[2], DType::F64).unwrap());
    assert_eq!(error, "adam: expected the gradient or state of shape [2], got [4]");
    let error = other(Tensor::ones(&[4], DType::F32).unwrap());
    assert_eq!(error, "adam: expected the gradient or state of type f32, got f64");
}

//! A parameter shared by two layers is one parameter, through every step and every move.

extern crate samebits_autograd as samebits;

use samebits_autograd::Tensor;
use samebits_autograd::functional::linear;
use samebits_autograd::nn::{self, Embedding, IncompatibleKeys, Layer, Linear, Module};
use samebits_autograd::optim::{
    Adadelta, Adagrad, Adam, AdamW, Adamax, Optimizer, RAdam, RmsProp, Sgd, clip_grad_norm,
    clip_grad_value,
};
use samebits_rng::Generator;
use samebits_tensor_core::Tensor as Value;
use samebits_tensor_core::{DType, Device, Error, Result};

/// Two layers with a common weight, and a bias of the second.
#[derive(Module)]
struct Tied {
    first: Linear,
    second: Linear,
}

impl Tied {
    fn new() -> Tied {
        let linear = || Linear::new(3, 3).unwrap();
        let (first, second) = nn::draw_from(&mut Generator::new(7), || (linear(), linear()));
        let first = Linear { bias: None, ..first };
        Tied { second: Linear { weight: first.weight.clone(), ..second }, first }
    }

    fn are_tied(&self) -> bool {
        let gradients = self.first.weight.sum_all().unwrap().backward().unwrap();
        gradients.of(&self.second.weight).is_some()
    }
}

impl Layer for Tied {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.second.forward(&self.first.forward(x)?)
    }
}

/// The same model with one field for the weight.
#[derive(Module)]
struct Single(Linear);

impl Layer for Single {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        linear(&linear(x, &self.0.weight, None)?, &self.0.weight, self.0.bias.as_ref())
    }
}

fn train(model: &mut dyn Layer, optimizer: &mut dyn Optimizer, steps: u64) {
    let x = Value::from_slice(&[0.3f32, -1.7, 2.1, 0.9, 0.1, -0.4], &[2, 3]).unwrap();
    for _ in 0..steps {
        let y = nn::train(|| model.forward(&Tensor::from(x.clone()))).unwrap();
        let loss = y.square().unwrap().sum_all().unwrap();
        optimizer.step(model, &loss.backward().unwrap()).unwrap();
    }
}

fn bits(x: &Tensor) -> Vec<u8> {
    x.to_bytes().unwrap()
}

/// A constructor of an optimiser that has not taken a step.
type Make = fn() -> Box<dyn Optimizer>;

fn optimizers() -> [(&'static str, Make); 12] {
    [
        ("sgd", || Box::new(Sgd::options(0.01).weight_decay(0.1).init().unwrap())),
        ("momentum", || Box::new(Sgd::options(0.01).momentum(0.9).init().unwrap())),
        ("nesterov", || Box::new(Sgd::options(0.01).momentum(0.9).nesterov(true).init().unwrap())),
        ("adam", || Box::new(Adam::options(0.01).weight_decay(0.1).init().unwrap())),
        ("amsgrad", || Box::new(Adam::options(0.01).amsgrad(true).init().unwrap())),
        ("adamw", || Box::new(AdamW::options(0.01).weight_decay(0.1).init().unwrap())),
        ("rmsprop", || Box::new(RmsProp::new(0.01).unwrap())),
        ("centered", || {
            Box::new(RmsProp::options(0.01).centered(true).momentum(0.9).init().unwrap())
        }),
        ("adagrad", || Box::new(Adagrad::options(0.01).lr_decay(0.1).init().unwrap())),
        ("adadelta", || Box::new(Adadelta::options(0.1).weight_decay(0.1).init().unwrap())),
        ("adamax", || Box::new(Adamax::options(0.01).weight_decay(0.1).init().unwrap())),
        ("radam", || Box::new(RAdam::options(0.01).betas(0.8, 0.9).init().unwrap())),
    ]
}

#[test]
fn every_optimiser_steps_a_shared_weight_once() {
    for (name, make) in optimizers() {
        let (mut tied, mut optimizer) = (Tied::new(), make());
        let (mut single, mut reference) = (Single(tied.second.clone()), make());
        train(&mut tied, &mut *optimizer, 4);
        train(&mut single, &mut *reference, 4);
        assert!(tied.are_tied(), "{name}");
        assert_eq!(bits(&tied.first.weight), bits(&tied.second.weight), "{name}");
        // Each use has contributed once: a model that has the weight once agrees.
        assert_eq!(bits(&tied.second.weight), bits(&single.0.weight), "{name}");
        assert_ne!(bits(&tied.second.weight), bits(&Tied::new().second.weight), "{name}");
        let names: Vec<String> =
            optimizer.state().unwrap().into_iter().map(|(name, _)| name).collect();
        assert!(names.iter().all(|name| !name.starts_with("second.weight")), "{names:?}");
    }
}

#[test]
fn loading_and_moving_keep_a_weight_shared() {
    for (name, make) in optimizers() {
        let (mut whole, mut optimizer) = (Tied::new(), make());
        train(&mut whole, &mut *optimizer, 5);

        let (mut model, mut optimizer) = (Tied::new(), make());
        train(&mut model, &mut *optimizer, 2);
        let (saved, state) = (model.state_dict(), optimizer.state().unwrap());
        let (mut resumed, mut optimizer) = (Tied::new(), make());
        resumed.load_state_dict(&saved, true).unwrap();
        optimizer.load_state(state).unwrap();
        resumed.to(Device::Cpu).unwrap();
        assert!(resumed.are_tied(), "{name}");
        train(&mut resumed, &mut *optimizer, 3);
        assert_eq!(bits(&resumed.first.weight), bits(&whole.first.weight), "{name}");
        assert_eq!(bits(&resumed.second.weight), bits(&whole.second.weight), "{name}");
    }
}

#[test]
fn freezing_keeps_a_weight_shared() {
    let mut model = Tied::new();
    model.requires_grad_(false).unwrap();
    assert_eq!(model.num_parameters(), 9 + 3);
    let state = model.state_dict();
    model.load_state_dict(&state, true).unwrap();
    model.to(Device::Cpu).unwrap();
    assert!(model.parameters().iter().all(|parameter| !parameter.requires_grad()));
    assert!(!model.first.weight.sum_all().unwrap().requires_grad());
    model.requires_grad_(true).unwrap();
    assert!(model.are_tied());
    let independent = model.first.weight.detach().set_requires_grad(true).unwrap();
    let gradients = independent.sum_all().unwrap().backward().unwrap();
    assert!(gradients.of(&model.first.weight).is_none());
}

#[test]
fn two_tensors_for_one_weight_are_refused() {
    let mut model = Tied::new();
    let before = bits(&model.first.weight);
    let zeros = Value::zeros(&[3, 3], model.first.weight.dtype()).unwrap();
    let mut state = model.state_dict();
    assert_eq!(state[1].0, "second.weight");
    state[1].1 = Tensor::from(zeros);
    let error = model.load_state_dict(&state, true).unwrap_err();
    let message = "first.weight and second.weight are one parameter, but their tensors differ";
    assert_eq!(error, Error::InvalidState { op: "load_state_dict", message: message.to_owned() });
    assert_eq!(bits(&model.first.weight), before);
    assert!(model.are_tied());
    // One of its names is enough.
    state.remove(1);
    state[0].1 = Tensor::ones(&[3, 3], model.first.weight.dtype()).unwrap();
    model.load_state_dict(&state, true).unwrap();
    assert!(model.are_tied());
    assert_eq!(model.second.weight.to_vec::<f32>().unwrap(), [1.0; 9]);
}

#[test]
fn a_shared_weight_is_in_the_group_of_its_first_name() {
    let names = |name: &'static str| move |given: &str, _: &Tensor| given == name;
    for (frozen, other) in [("first.weight", "second.weight"), ("second.weight", "first.weight")] {
        let mut model = Tied::new();
        let before = bits(&model.first.weight);
        let mut optimizer = Sgd::options(0.01)
            .momentum(0.9)
            .group(names(frozen), |options| options.lr(0.0))
            .group(names(other), |options| options.lr(0.1))
            .init()
            .unwrap();
        train(&mut model, &mut optimizer, 2);
        assert!(model.are_tied());
        assert_eq!(bits(&model.second.weight) == before, frozen == "first.weight", "{frozen}");
    }
}

#[test]
fn partial_states_keep_a_weight_shared() {
    let saved = Tied::new().state_dict();
    let named = |wanted: &str| -> Vec<(String, Tensor)> {
        saved.iter().filter(|(name, _)| name == wanted).cloned().collect()
    };
    let keys = |missing: &[&str], unexpected: &[&str]| IncompatibleKeys {
        missing: missing.iter().map(|&name| name.to_owned()).collect(),
        unexpected: unexpected.iter().map(|&name| name.to_owned()).collect(),
    };
    for name in ["first.weight", "second.weight"] {
        let mut model = Tied::new();
        train(&mut model, &mut Sgd::new(0.1).unwrap(), 1);
        let mut state = named(name);
        assert!(model.load_state_dict(&state, true).is_err(), "the bias is missing");
        state.push(("third.weight".to_owned(), state[0].1.clone()));
        let found = model.load_state_dict(&state, false).unwrap();
        assert_eq!(found, keys(&["second.bias"], &["third.weight"]), "{name}");
        assert!(model.are_tied());
        assert_eq!(bits(&model.second.weight), bits(&saved[0].1), "{name}");
    }
    // With none of its names, it is reported missing under each and stays unchanged.
    let mut model = Tied::new();
    let found = model.load_state_dict(&named("second.bias"), false).unwrap();
    assert_eq!(found, keys(&["first.weight", "second.weight"], &[]));
    assert!(model.are_tied());
    let mut state = saved.clone();
    state[1].1 = Tensor::ones(&[3, 3], DType::F32).unwrap();
    let error = model.load_state_dict(&state, false).unwrap_err();
    assert!(error.to_string().contains("are one parameter, but their tensors differ"), "{error}");
}

#[test]
fn a_shared_weight_is_converted_counted_and_clipped_once() {
    let mut model = Tied::new();
    let summary = model.summary().to_string();
    assert!(summary.ends_with("12 parameters, 12 of them trained; 0 elements of buffers\n"));
    assert_eq!(summary.matches(".weight ").count(), 2, "{summary}");
    assert_eq!((model.num_parameters(), model.parameters().len()), (12, 2));

    let single = Single(model.second.clone());
    let loss = |model: &dyn Layer| {
        let x = Tensor::new([[0.3f32, -1.7, 2.1]]).unwrap();
        model.forward(&x).unwrap().square().unwrap().sum(()).unwrap()
    };
    let clipped = |model: &dyn Layer| {
        let mut gradients = loss(model).backward().unwrap();
        gradients.accumulate(&loss(model).backward().unwrap()).unwrap();
        gradients.scale(0.5).unwrap();
        let norm = clip_grad_norm(&model.parameters(), &mut gradients, 0.5, 2.0).unwrap();
        clip_grad_value(&model.parameters(), &mut gradients, 0.25).unwrap();
        let found = model.parameters();
        let gradients: Vec<_> = found.iter().map(|x| bits(gradients.of(x).unwrap())).collect();
        (norm.to_bits(), gradients)
    };
    assert_eq!(clipped(&model), clipped(&single));

    model.to_dtype(DType::F64).unwrap();
    assert!(model.are_tied());
    assert_eq!(model.second.weight.dtype(), DType::F64);
}

#[test]
fn a_weight_that_is_frozen_in_one_place_is_refused() {
    let mut model = Tied::new();
    let before = bits(&model.first.weight);
    let mut optimizer = AdamW::new(0.1).unwrap();
    let step = |model: &mut Tied, optimizer: &mut AdamW| {
        let x = Tensor::new([[0.3f32, -1.7, 2.1]]).unwrap();
        let loss = model.forward(&x).unwrap().square().unwrap().sum(()).unwrap();
        optimizer.step(model, &loss.backward().unwrap())
    };
    model.first.requires_grad_(false).unwrap();
    let error = step(&mut model, &mut optimizer).unwrap_err().to_string();
    let expected = "adamw: first.weight and second.weight are one parameter, but only one of them \
                    is frozen: freeze or thaw both";
    assert_eq!(error, expected);
    // If both places are frozen, the weight is skipped and the bias is not.
    model.second.weight = model.second.weight.set_requires_grad(false).unwrap();
    let bias = bits(model.second.bias.as_ref().unwrap());
    step(&mut model, &mut optimizer).unwrap();
    assert_eq!(bits(&model.second.weight), before);
    assert_ne!(bits(model.second.bias.as_ref().unwrap()), bias);
    assert!(model.summary().to_string().contains("12 parameters, 3 of them trained"));
    // If both places are unfrozen, it is one parameter again.
    model.first.requires_grad_(true).unwrap();
    model.second.requires_grad_(true).unwrap();
    step(&mut model, &mut optimizer).unwrap();
    assert!(model.are_tied());
    assert_eq!(bits(&model.first.weight), bits(&model.second.weight));
    assert_ne!(bits(&model.first.weight), before);
}

#[test]
fn a_weight_that_is_initialised_in_one_place_is_refused_until_it_is_shared_again() {
    let mut model = Tied::new();
    let mut optimizer = Sgd::new(0.1).unwrap();
    let step = |model: &mut Tied, optimizer: &mut Sgd| {
        let x = Tensor::new([[0.3f32, -1.7, 2.1]]).unwrap();
        let loss = model.forward(&x).unwrap().square().unwrap().sum(()).unwrap();
        optimizer.step(model, &loss.backward().unwrap())
    };
    nn::init::eye(&mut model.second.weight).unwrap();
    let error = step(&mut model, &mut optimizer).unwrap_err().to_string();
    assert!(error.starts_with("sgd: first.weight and second.weight are one parameter"), "{error}");
    model.first.weight = model.second.weight.clone();
    step(&mut model, &mut optimizer).unwrap();
    assert!(model.are_tied());
}

/// A word table that is also the weight of the last layer.
#[derive(Module)]
struct Words {
    table: Embedding,
    head: Linear,
}

#[test]
fn a_table_and_a_head_share_a_weight_unless_rows_are_shortened() {
    for max_norm in [None, Some(0.5)] {
        let mut model = nn::draw_from(&mut Generator::new(3), || -> Result<Words> {
            let table = Embedding { max_norm, ..Embedding::new(5, 3)? };
            let head = Linear { weight: table.weight.get(), bias: None };
            Ok(Words { table, head })
        })
        .unwrap();
        let ids = Tensor::new([1i64, 4, 1]).unwrap();
        let mut optimizer = Sgd::options(0.1).momentum(0.9).init().unwrap();
        for _ in 0..3 {
            let y = model.head.forward(&model.table.forward(&ids).unwrap()).unwrap();
            let gradients = y.square().unwrap().sum(()).unwrap().backward().unwrap();
            let step = optimizer.step(&mut model, &gradients);
            if max_norm.is_none() {
                step.unwrap();
                assert_eq!(bits(&model.table.weight.get()), bits(&model.head.weight));
                continue;
            }
            let error = step.unwrap_err().to_string();
            assert!(error.starts_with("sgd: table.weight and head.weight are one"), "{error}");
            assert!(error.contains("`max_norm`"), "{error}");
        }
        assert_eq!(model.num_parameters(), 15);
    }
}

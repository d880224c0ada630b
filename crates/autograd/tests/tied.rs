//! A parameter that two layers share is one parameter, through every step and every move.

use samebits_autograd::Tensor;
use samebits_autograd::functional::linear;
use samebits_autograd::nn::{Context, Linear, Module, Slot, join};
use samebits_autograd::optim::{Adam, AdamParams, Optimizer, Sgd, SgdParams};
use samebits_rng::Generator;
use samebits_tensor_core::Tensor as Value;
use samebits_tensor_core::{Device, Error, Result};

/// Two layers with one weight, and a bias of the second.
struct Tied(Linear, Linear);

impl Tied {
    fn new() -> Tied {
        let mut generator = Generator::new(7);
        let first = Linear { bias: None, ..Linear::new(3, 3, &mut generator).unwrap() };
        let second = Linear::new(3, 3, &mut generator).unwrap();
        Tied(first.clone(), Linear { weight: first.weight, ..second })
    }

    fn are_tied(&self) -> bool {
        let gradients = self.0.weight.sum_all().unwrap().backward().unwrap();
        gradients.of(&self.1.weight).is_some()
    }
}

impl Module for Tied {
    fn forward(&mut self, x: &Tensor, context: &mut Context<'_>) -> Result<Tensor> {
        let x = self.0.forward(x, context)?;
        self.1.forward(&x, context)
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        self.0.visit(&join(path, "first"), visit);
        self.1.visit(&join(path, "second"), visit);
    }
}

/// The same with one slot for the weight.
struct Single(Linear);

impl Module for Single {
    fn forward(&mut self, x: &Tensor, _: &mut Context<'_>) -> Result<Tensor> {
        linear(&linear(x, &self.0.weight, None)?, &self.0.weight, self.0.bias.as_ref())
    }

    fn visit(&mut self, path: &str, visit: &mut dyn FnMut(&str, Slot<'_>)) {
        self.0.visit(path, visit);
    }
}

fn train(model: &mut dyn Module, optimizer: &mut dyn Optimizer, steps: u64) {
    let x = Value::from_slice(&[0.3f32, -1.7, 2.1, 0.9, 0.1, -0.4], &[2, 3]).unwrap();
    let mut generator = Generator::new(0);
    for _ in 0..steps {
        let mut context = Context { training: true, generator: &mut generator };
        let y = model.forward(&Tensor::from(x.clone()), &mut context).unwrap();
        let loss = y.square().unwrap().sum_all().unwrap();
        optimizer.step(model, &loss.backward().unwrap()).unwrap();
    }
}

fn bits(x: &Tensor) -> Vec<u8> {
    x.to_bytes().unwrap()
}

/// Makes an optimiser that has not taken a step.
type Make = fn() -> Box<dyn Optimizer>;

fn optimizers() -> [(&'static str, Make); 5] {
    const SGD: SgdParams =
        SgdParams { lr: 0.01, momentum: 0.0, dampening: 0.0, weight_decay: 0.1, nesterov: false };
    const ADAM: AdamParams = AdamParams {
        lr: 0.01,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.1,
        decoupled: false,
    };
    [
        ("sgd", || Box::new(Sgd::new(SGD))),
        ("momentum", || Box::new(Sgd::new(SgdParams { momentum: 0.9, ..SGD }))),
        ("nesterov", || Box::new(Sgd::new(SgdParams { momentum: 0.9, nesterov: true, ..SGD }))),
        ("adam", || Box::new(Adam::new(ADAM))),
        ("adamw", || Box::new(Adam::new(AdamParams { decoupled: true, ..ADAM }))),
    ]
}

#[test]
fn every_optimiser_steps_a_shared_weight_once() {
    for (name, make) in optimizers() {
        let (mut tied, mut optimizer) = (Tied::new(), make());
        let (mut single, mut reference) = (Single(tied.1.clone()), make());
        train(&mut tied, &mut *optimizer, 4);
        train(&mut single, &mut *reference, 4);
        assert!(tied.are_tied(), "{name}");
        assert_eq!(bits(&tied.0.weight), bits(&tied.1.weight), "{name}");
        // Both uses have contributed once: a model that has the weight once agrees.
        assert_eq!(bits(&tied.1.weight), bits(&single.0.weight), "{name}");
        assert_ne!(bits(&tied.1.weight), bits(&Tied::new().1.weight), "{name}");
        let names: Vec<String> = optimizer.state().into_iter().map(|(name, _)| name).collect();
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
        let (saved, state) = (model.state(), optimizer.state());
        let (mut resumed, mut optimizer) = (Tied::new(), make());
        let find = |name: &str| saved.iter().find(|(n, _)| n == name).map(|(_, x)| x.clone());
        resumed.load_state(&find).unwrap();
        optimizer.load_state(2, state).unwrap();
        resumed.to(Device::Cpu).unwrap();
        assert!(resumed.are_tied(), "{name}");
        train(&mut resumed, &mut *optimizer, 3);
        assert_eq!(bits(&resumed.0.weight), bits(&whole.0.weight), "{name}");
        assert_eq!(bits(&resumed.1.weight), bits(&whole.1.weight), "{name}");
    }
}

#[test]
fn two_tensors_for_one_weight_are_refused() {
    let mut model = Tied::new();
    let before = bits(&model.0.weight);
    let zeros = Value::zeros(&[3, 3], model.0.weight.dtype()).unwrap();
    let state = model.state();
    let error = model
        .load_state(&|name| match name {
            "second.weight" => Some(Tensor::from(zeros.clone())),
            _ => state.iter().find(|(n, _)| n == name).map(|(_, x)| x.clone()),
        })
        .unwrap_err();
    let message = "first.weight and second.weight are one parameter, but their tensors differ";
    assert_eq!(error, Error::InvalidState { op: "load_state", message: message.to_owned() });
    assert_eq!(bits(&model.0.weight), before);
    assert!(model.are_tied());
}

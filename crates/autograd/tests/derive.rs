//! The fields that `#[derive(Module)]` visits, and their names.

#![allow(dead_code, reason = "the derive reads fields that no test does")]

extern crate samebits_autograd as samebits;

use std::collections::BTreeMap;
use std::marker::PhantomData;

use samebits::nn::{Kind, Layer, Linear, Module, ModuleDict, ReLU, TensorCell};
use samebits::{Result, Tensor, sequential};

fn scalar(x: f32) -> Tensor {
    Tensor::scalar(x).set_requires_grad(true).unwrap()
}

fn names(module: &dyn Module) -> Vec<String> {
    let mut names = Vec::new();
    module.visit("", &mut |name, kind, _| {
        let mark = if kind == Kind::Buffer { "!" } else { "" };
        names.push(format!("{name}{mark}"));
    });
    names
}

/// Returns the names of the tensors that `visit_mut` visits.
fn names_mut(module: &mut dyn Module) -> Vec<String> {
    let mut names = Vec::new();
    module.visit_mut("", &mut |name, kind, _| {
        let mark = if kind == Kind::Buffer { "!" } else { "" };
        names.push(format!("{name}{mark}"));
    });
    names
}

#[track_caller]
fn expect(mut module: impl Module, expected: &[&str]) {
    assert_eq!(names(&module), expected);
    assert_eq!(names_mut(&mut module), expected);
}

/// A type that is not a `Module`.
struct Log;

#[derive(Module)]
struct Everything {
    weight: Tensor,
    cell: TensorCell,
    none: Option<Tensor>,
    some: Option<Pair>,
    boxed: Box<Pair>,
    list: Vec<Pair>,
    array: [Tensor; 2],
    tuple: (Tensor, Pair, usize),
    table: BTreeMap<String, Tensor>,
    #[module(buffer)]
    mean: Tensor,
    #[module(buffer)]
    means: Vec<TensorCell>,
    #[module(flatten)]
    inner: Pair,
    #[module(skip)]
    log: Log,
    width: usize,
    rate: f64,
    name: String,
    causal: bool,
    r#type: Tensor,
}

#[derive(Module)]
struct Pair {
    a: Tensor,
    b: Tensor,
}

fn pair() -> Pair {
    Pair { a: scalar(1.0), b: scalar(2.0) }
}

#[test]
fn every_field_is_visited_under_its_name() {
    let module = Everything {
        weight: scalar(0.0),
        cell: scalar(0.0).into(),
        none: None,
        some: Some(pair()),
        boxed: Box::new(pair()),
        list: vec![pair(), pair()],
        array: [scalar(0.0), scalar(0.0)],
        tuple: (scalar(0.0), pair(), 3),
        table: [("x".to_owned(), scalar(0.0)), ("y".to_owned(), scalar(0.0))].into(),
        mean: scalar(0.0),
        means: vec![scalar(0.0).into()],
        inner: pair(),
        log: Log,
        width: 1,
        rate: 0.5,
        name: String::new(),
        causal: true,
        r#type: scalar(0.0),
    };
    let expected = [
        "weight",
        "cell",
        "some.a",
        "some.b",
        "boxed.a",
        "boxed.b",
        "list.0.a",
        "list.0.b",
        "list.1.a",
        "list.1.b",
        "array.0",
        "array.1",
        "tuple.0",
        "tuple.1.a",
        "tuple.1.b",
        "table.x",
        "table.y",
        "mean!",
        "means.0!",
        "a",
        "b",
        "type",
    ];
    expect(module, &expected);
}

#[derive(Module)]
struct Unit;

#[derive(Module)]
struct Newtype(Pair);

#[derive(Module)]
struct Two(Tensor, #[module(buffer)] Tensor);

#[derive(Module)]
enum Norm {
    None,
    Wrapped(Pair),
    Listed(Tensor, Tensor),
    Named { scale: Tensor, eps: f64 },
}

#[derive(Module)]
enum Never {}

#[derive(Module)]
struct Generic<'a, A, B: Clone, const N: usize>
where
    A: Send,
{
    blocks: [A; N],
    marker: PhantomData<fn() -> Log>,
    #[module(skip)]
    log: &'a B,
}

#[test]
fn structs_and_enums_of_every_form() {
    expect(Unit, &[]);
    expect(Newtype(pair()), &["a", "b"]);
    expect(Two(scalar(0.0), scalar(0.0)), &["0", "1!"]);
    expect(Norm::None, &[]);
    expect(Norm::Wrapped(pair()), &["a", "b"]);
    expect(Norm::Listed(scalar(0.0), scalar(0.0)), &["0", "1"]);
    expect(Norm::Named { scale: scalar(0.0), eps: 0.1 }, &["scale"]);
    expect(None::<Never>, &[]);
    // `B` need not be a module, because its field is skipped.
    let log = "text".to_owned();
    let generic = Generic { blocks: [pair(), pair()], marker: PhantomData, log: &log };
    expect(generic, &["blocks.0.a", "blocks.0.b", "blocks.1.a", "blocks.1.b"]);
}

#[derive(Clone, Debug, Module)]
struct Residual<L> {
    inner: L,
}

impl<L: Layer> Layer for Residual<L> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        samebits::functional::add(x, &self.inner.forward(x)?)
    }
}

#[test]
fn a_derived_layer_goes_into_a_sequence() {
    let mut generator = samebits_rng::Generator::new(3);
    let linear = Linear::options(2, 2).init_with(&mut generator).unwrap();
    let zero = Linear { weight: linear.weight.clone(), bias: None };
    let model =
        sequential![Residual { inner: sequential![zero, ReLU] }, Residual { inner: linear }];
    expect(model.clone(), &["0.inner.0.weight", "1.inner.weight", "1.inner.bias"]);
    let boxed: Box<dyn Layer> = Box::new(model);
    let x = Tensor::from_slice(&[1.0f32, -2.0], &[1, 2]).unwrap();
    assert_eq!(boxed.forward(&x).unwrap().shape(), [1, 2]);
}

#[test]
fn what_visit_mut_replaces_stays() {
    let mut module = Newtype(pair());
    module.visit_mut("", &mut |name, _, tensor| {
        if name == "b" {
            *tensor = scalar(7.0);
        }
    });
    assert_eq!(module.0.b.item::<f32>().unwrap(), 7.0);
}

/// As in `torch.nn.ModuleDict`: replacing a key keeps its position; a removed key is added at the
/// end.
#[test]
fn layers_by_name_keep_the_order_of_insertion() {
    let scale = |factor: f32| Tensor::from_slice(&[factor], &[1]).unwrap();
    let mut layers: ModuleDict<Tensor> = ModuleDict::new();
    for i in (1..=12).rev() {
        layers.insert(format!("encoder_layer_{i}"), scale(i as f32));
    }
    layers.insert("encoder_layer_7".to_owned(), scale(-7.0));
    layers.shift_remove("encoder_layer_11");
    layers.insert("encoder_layer_11".to_owned(), scale(11.0));
    let numbers = [12, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 11];
    let expected = numbers.map(|i| format!("encoder_layer_{i}"));
    assert_eq!(names(&layers), expected);
    let named: Vec<String> = layers.named_parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(named, expected);
    assert_eq!(layers.keys().cloned().collect::<Vec<_>>(), expected);
    assert_eq!(layers["encoder_layer_7"].item::<f32>().unwrap(), -7.0);
    // A state in another order, such as that of a file, is loaded by name and changes no order.
    let mut state: Vec<(String, Tensor)> =
        numbers.iter().map(|i| (format!("encoder_layer_{i}"), scale(*i as f32 * 10.0))).collect();
    state.sort_by(|a, b| a.0.cmp(&b.0));
    layers.load_state_dict(&state, true).unwrap();
    let values: Vec<f32> =
        layers.parameters().iter().map(|scale| scale.item::<f32>().unwrap()).collect();
    assert_eq!(values, numbers.map(|i| i as f32 * 10.0));
    // Unexpected names are reported in the order of the state.
    state.insert(0, ("z".to_owned(), scale(0.0)));
    state.push(("a".to_owned(), scale(0.0)));
    let keys = layers.load_state_dict(&state, false).unwrap();
    assert_eq!(keys.unexpected, ["z", "a"]);
}

//! Snapshots of `manual_seed`: random tensors, dropout, initial weights, and the messages of
//! misuse.

use samebits_autograd::functional::{self as f, RandomOptions};
use samebits_autograd::nn::{
    Bilinear, Conv2d, ConvTranspose2d, Embedding, GRU, LSTM, Layer, LayerNorm, Linear, Module,
    MultiheadAttention, RNN, TransformerEncoderLayer, init,
};
use samebits_autograd::{DType, Result, Tensor};
use samebits_tensor_core::random::manual_seed;
use test_support::listing::Listing;

/// Adds the elements of a tensor.
fn add(listing: &mut Listing, title: &str, x: &Tensor) {
    let title = format!("{title}, {} {:?}", x.dtype(), x.shape());
    match x.dtype() {
        DType::F64 => listing.values(&title, &x.to_vec::<f64>().unwrap()),
        DType::I64 => listing.values(&title, &x.to_vec::<i64>().unwrap()),
        DType::Bool => listing.values(&title, &x.to_bools().unwrap()),
        _ => listing.values(&title, &x.to_vec::<f32>().unwrap()),
    }
}

/// Adds what `draw` draws with seed 42.
fn seeded(listing: &mut Listing, title: &str, draw: impl FnOnce() -> Result<Tensor>) {
    manual_seed(42);
    add(listing, title, &draw().unwrap());
}

#[test]
fn random_tensors() {
    let mut listing = Listing::default();
    let l = &mut listing;
    let shape = [100, 100];
    seeded(l, "rand", || f::rand(&shape));
    seeded(l, "randn", || f::randn(&shape));
    let wide = || RandomOptions::new().dtype(DType::F64);
    seeded(l, "rand", || wide().rand(&shape));
    seeded(l, "randn", || wide().randn(&shape));
    seeded(l, "randint of -10, 1000", || f::randint(-10, 1000, &shape));
    seeded(l, "randperm of 10000", || f::randperm(10_000));
    seeded(l, "normal_scalar of 0.5, 2", || f::normal_scalar(0.5, 2.0, &shape));
    let ramp = Tensor::from_vec((0..10_000).map(|i| i as f32 / 10_000.0).collect(), &shape);
    let ramp = ramp.unwrap();
    seeded(l, "normal of a ramp and itself", || f::normal(&ramp, &ramp));
    seeded(l, "bernoulli of a ramp", || f::bernoulli(&ramp));
    seeded(l, "multinomial of the rows of a ramp", || f::multinomial(&ramp, 50, true));
    seeded(l, "multinomial without replacement", || f::multinomial(&ramp, 50, false));
    seeded(l, "dropout of 0.3", || f::dropout(&ramp, 0.3));
    seeded(l, "dropout1d of 0.3", || f::dropout1d(&ramp, 0.3));
    seeded(l, "alpha_dropout of 0.3", || f::alpha_dropout(&ramp, 0.3));
    let maps = ramp.reshape([10, 10, 10, 10]).unwrap();
    seeded(l, "dropout2d of 0.3", || f::dropout2d(&maps, 0.3));
    seeded(l, "feature_alpha_dropout of 0.3", || f::feature_alpha_dropout(&maps, 0.3));
    manual_seed(42);
    for draw in ["first", "second", "third"] {
        add(l, &format!("{draw} rand after one manual_seed"), &f::rand(&[8]).unwrap());
    }
    insta::assert_snapshot!("random_tensors", listing);
}

/// Adds the state of a module made with seed 42.
fn layer<M: Module>(listing: &mut Listing, title: &str, new: impl FnOnce() -> Result<M>) {
    manual_seed(42);
    for (name, x) in new().unwrap().state_dict() {
        add(listing, &format!("{title}: {name}"), &x);
    }
}

#[test]
fn initial_weights() {
    let mut listing = Listing::default();
    let l = &mut listing;
    layer(l, "Linear(64, 32)", || Linear::new(64, 32));
    layer(l, "Bilinear(6, 5, 4)", || Bilinear::new(6, 5, 4));
    layer(l, "Conv2d(3, 16, 5)", || Conv2d::new(3, 16, 5));
    layer(l, "ConvTranspose2d(3, 16, 5)", || ConvTranspose2d::new(3, 16, 5));
    layer(l, "Embedding(100, 16)", || Embedding::new(100, 16));
    layer(l, "LayerNorm(4)", || LayerNorm::new(4));
    layer(l, "RNN(8, 16)", || RNN::new(8, 16));
    layer(l, "GRU(8, 16)", || GRU::new(8, 16));
    layer(l, "LSTM(8, 16)", || LSTM::new(8, 16));
    layer(l, "MultiheadAttention(16, 4)", || MultiheadAttention::new(16, 4));
    layer(l, "TransformerEncoderLayer(16, 4)", || TransformerEncoderLayer::new(16, 4));
    insta::assert_snapshot!("layers", listing);

    let mut listing = Listing::default();
    let mut section = |title: &str, fill: &dyn Fn(&mut Tensor) -> Result<()>| {
        seeded(&mut listing, title, || {
            let mut weight = Tensor::zeros(&[20, 10, 5, 5], DType::F32)?;
            fill(&mut weight)?;
            Ok(weight)
        });
    };
    section("uniform of -1, 3", &|w| init::uniform(w, -1.0, 3.0));
    section("normal of 0.5, 2", &|w| init::normal(w, 0.5, 2.0));
    section("trunc_normal", &|w| init::trunc_normal(w, 0.0, 1.0, -2.0, 2.0));
    section("xavier_uniform", &|w| init::xavier_uniform(w, init::Gain::Tanh));
    section("xavier_normal", &|w| init::xavier_normal(w, init::Gain::Linear));
    section("kaiming_uniform", &|w| init::kaiming_uniform(w, init::Fan::In, init::Gain::Relu));
    section("kaiming_normal", &|w| init::kaiming_normal(w, init::Fan::Out, init::Gain::Relu));
    section("orthogonal", &|w| init::orthogonal(w, init::Gain::Linear));
    seeded(&mut listing, "sparse of 0.25", || {
        let mut weight = Tensor::zeros(&[50, 40], DType::F32)?;
        init::sparse(&mut weight, 0.25, 0.01)?;
        Ok(weight)
    });
    insta::assert_snapshot!("init", listing);
}

#[test]
fn messages_of_misuse() {
    let mut listing = Listing::default();
    let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32).unwrap();
    let matrix = zeros(&[2, 3]);
    // The message depends on whether a thread has seeded.
    std::thread::spawn(|| manual_seed(42)).join().unwrap();
    listing.error("rand without a seed of this thread", f::rand(&[2]));
    listing.error("a layer without a seed", Linear::new(2, 3));
    manual_seed(42);
    listing.error("integers in an empty range", f::randint(5, 5, &[2]));
    listing.error("a type without rand", RandomOptions::new().dtype(DType::F16).rand(&[2]));
    listing.error("a chance above 1", f::bernoulli(&Tensor::scalar(1.5f32)));
    listing.error("dropout of everything and more", f::dropout(&matrix, 1.5));
    listing.error(
        "more draws than weights",
        f::multinomial(&matrix.add(&Tensor::scalar(1.0f32)).unwrap(), 4, false),
    );
    listing.error("too few elements", Tensor::from_slice(&[1.0f32], &[2]));
    listing.error("shapes that do not broadcast", matrix.add(&zeros(&[2])));
    listing.error(
        "types that do not agree",
        matrix.matmul(&Tensor::zeros(&[3, 2], DType::F64).unwrap()),
    );
    listing.error("a product of unequal sizes", matrix.matmul(&matrix));
    listing.error("a reshape to another number", matrix.reshape([4, 2]));
    listing.error("a dimension that is not there", matrix.sum(2));
    listing.error("item of many elements", matrix.item::<f32>());
    listing.error("elements of another type", matrix.to_vec::<i64>());
    listing.error(
        "a layer of another width",
        Linear::new(4, 2).and_then(|layer| layer.forward(&matrix)),
    );
    listing.error("a convolution without its dimensions", {
        Conv2d::new(3, 4, 3).and_then(|layer| layer.forward(&matrix))
    });
    listing.error("an index outside a table", {
        let index = Tensor::from_slice(&[7i64], &[1]).unwrap();
        Embedding::new(5, 2).and_then(|table| table.forward(&index))
    });
    listing.error("a class that is not there", {
        f::cross_entropy(&matrix, &Tensor::from_slice(&[0i64, 3], &[2]).unwrap())
    });
    listing.error("backward from many elements", {
        let x = zeros(&[2]).set_requires_grad(true).unwrap();
        x.add(&Tensor::scalar(1.0f32)).unwrap().backward()
    });
    insta::assert_snapshot!("errors", listing);
}

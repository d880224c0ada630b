//! Random tensors: snapshots of `manual_seed` (tensors, dropout, initial weights), draws from a
//! generator, and the messages of misuse.

use samebits_autograd::functional::{self as f, RandomOptions};
use samebits_autograd::nn::{
    Bilinear, Conv2d, ConvTranspose2d, Embedding, GRU, LSTM, Layer, LayerNorm, Linear, Module,
    MultiheadAttention, RNN, TransformerEncoderLayer, draw_from, init,
};
use samebits_autograd::{DType, Error, Result, Tensor};
use samebits_rng::Generator;
use samebits_tensor_core::random::manual_seed;
use test_support::listing::Listing;

#[track_caller]
fn message(x: Result<Tensor>) -> String {
    let error = x.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    error.to_string()
}

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

#[test]
fn random_tensors_draw_from_the_generator_that_is_given() {
    let generator = || Generator::new(5);
    let like = Tensor::zeros(&[4, 3], DType::F64).unwrap();
    let weights = Tensor::new([[1.0f32, 2.0, 0.0, 4.0], [0.0, 0.0, 1.0, 0.0]]).unwrap();
    let (mean, std) =
        (Tensor::new([[0.0f32], [9.0]]).unwrap(), Tensor::new([1.0f32, 2.0]).unwrap());
    let p = Tensor::full(&[40], 0.5, DType::F32).unwrap();
    type Form<'a> = Box<dyn Fn(&mut Generator) -> Result<Tensor> + 'a>;
    let forms: Vec<(Form<'_>, Form<'_>)> = vec![
        (Box::new(|_| f::rand(&[7])), Box::new(|g| f::rand_with(&[7], g))),
        (Box::new(|_| f::randn(&[7])), Box::new(|g| f::randn_with(&[7], g))),
        (Box::new(|_| f::randperm(7)), Box::new(|g| f::randperm_with(7, g))),
        (Box::new(|_| f::randint(-3, 3, &[7])), Box::new(|g| f::randint_with(-3, 3, &[7], g))),
        (Box::new(|_| f::rand_like(&like)), Box::new(|g| f::rand_like_with(&like, g))),
        (Box::new(|_| f::randn_like(&like)), Box::new(|g| f::randn_like_with(&like, g))),
        (
            Box::new(|_| f::randint_like(&like, 0, 9)),
            Box::new(|g| f::randint_like_with(&like, 0, 9, g)),
        ),
        (Box::new(|_| f::bernoulli(&p)), Box::new(|g| f::bernoulli_with(&p, g))),
        (
            Box::new(|_| f::multinomial(&weights, 9, true)),
            Box::new(|g| f::multinomial_with(&weights, 9, true, g)),
        ),
        (Box::new(|_| f::normal(&mean, &std)), Box::new(|g| f::normal_with(&mean, &std, g))),
        (
            Box::new(|_| f::normal_scalar(3.0, 0.5, &[7])),
            Box::new(|g| f::normal_scalar_with(3.0, 0.5, &[7], g)),
        ),
    ];
    for (at, (default, with)) in forms.iter().enumerate() {
        let (mut own, mut scope) = (generator(), generator());
        let drawn = with(&mut own).unwrap();
        let scoped = draw_from(&mut scope, || default(&mut generator())).unwrap();
        assert_eq!(drawn.to_bytes().unwrap(), scoped.to_bytes().unwrap(), "form {at}");
        assert_eq!(own, scope, "form {at}");
        assert_ne!(own, generator(), "form {at} has moved the generator");
        let next = with(&mut own).unwrap();
        assert_ne!(drawn.to_bytes().unwrap(), next.to_bytes().unwrap(), "form {at}");
    }
    let m = f::normal_with(&mean, &std, &mut generator()).unwrap();
    assert_eq!(m.shape(), [2, 2]);
    let z = f::randn_with(&[2, 2], &mut generator()).unwrap();
    let expected = z.mul(&std).unwrap().add(&mean).unwrap();
    assert_eq!(m.to_bytes().unwrap(), expected.to_bytes().unwrap());
    let rows = f::multinomial_with(&weights, 3, false, &mut generator()).unwrap_err();
    assert!(rows.to_string().starts_with("multinomial_with: "), "{rows}");
    let drawn = f::multinomial_with(&weights, 1, false, &mut generator()).unwrap();
    assert_eq!(drawn.to_vec::<i64>().unwrap()[1], 2);
    let tosses = f::bernoulli_with(&p, &mut generator()).unwrap().to_vec::<f32>().unwrap();
    assert!(tosses.contains(&0.0) && tosses.contains(&1.0));
    let none = Tensor::zeros(&[0], DType::F32).unwrap();
    assert_eq!(f::bernoulli_with(&none, &mut generator()).unwrap().numel(), 0);
    assert_eq!(f::randint_with(0, 1, &[0, 3], &mut generator()).unwrap().shape(), [0, 3]);
    let alone = f::bernoulli_with(&Tensor::scalar(1.0f32), &mut generator()).unwrap();
    assert_eq!((alone.rank(), alone.item::<f32>().unwrap()), (0, 1.0));
}

#[test]
fn a_refused_draw_leaves_the_generator_and_a_gradient_of_a_draw_is_refused() {
    let mut generator = Generator::new(5);
    let bad = Tensor::new([0.5f32, 1.5]).unwrap();
    assert_eq!(
        message(f::bernoulli_with(&bad, &mut generator)),
        "bernoulli_with: a probability is 1.5, but must be in [0, 1]"
    );
    let weights = Tensor::new([[1.0f32, 1.0], [0.0, -1.0]]).unwrap();
    assert!(message(f::multinomial_with(&weights, 1, true, &mut generator)).contains("-1"));
    assert_eq!(
        message(f::randint_with(5, 5, &[2], &mut generator)),
        "randint_with: expected low < high, got 5 and 5"
    );
    let one = Tensor::scalar(1.0f32);
    assert_eq!(
        message(f::normal_with(&one, &one.neg().unwrap(), &mut generator)),
        "normal_with: a standard deviation is below 0"
    );
    assert_eq!(generator, Generator::new(5));
    let p = Tensor::new([0.5f32]).unwrap().set_requires_grad(true).unwrap();
    for drawn in [
        f::bernoulli_with(&p, &mut generator),
        f::normal_with(&p, &one, &mut generator),
        f::normal_with(&one, &p, &mut generator),
    ] {
        let sum = drawn.unwrap().sum(()).unwrap();
        let error = sum.backward().unwrap_err().to_string();
        assert!(error.ends_with("this result has no gradient"), "{error}");
    }
}
